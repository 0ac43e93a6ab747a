//! The invariants of a vector set, and of a vector index: every element has its name, its vector
//! and its node or waits for one, links lead both ways, and the counts are right.

use std::ops::ControlFlow;

use quartet_engine::{Reader, Repair, Verification, decoded};
use quartet_layer_redis::module_api::{ELEMENTS_PREFIX_BYTES, StoredKey};
use quartet_search::rows::Rows;
use quartet_search::rows::Visit;
use quartet_search::vectors::set::linking;

use crate::commands::vector_sets;

/// A set's rows in an immutable state.
struct ElementRows<'r> {
    rows: &'r Reader,
    prefix: Vec<u8>,
}

impl ElementRows<'_> {
    fn row(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }
}

impl Rows for ElementRows<'_> {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.rows.get_row(&self.row(key)).map(|row| row.to_vec())
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        self.rows.get_row(&self.row(key)).map(|row| visit(&row)).is_some()
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        let (start, end) = (self.row(start), self.row(end));
        self.rows.scan(
            &start,
            &end,
            false,
            &mut |key, value| match visit(&key[ELEMENTS_PREFIX_BYTES..], value) {
                ControlFlow::Break(()) => ControlFlow::Break(()),
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
            },
        );
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        self.rows.count(&self.row(start), &self.row(end))
    }
}

/// A graph cannot be mended from rows that contradict each other: a person has to decide.
pub fn verify(verification: &mut Verification<'_>, stored: &StoredKey<'_>) {
    let head = vector_sets::head(stored.entry).expect("the row of a vector set");
    let (prefix, _) = stored.elements();
    let mut rows = ElementRows {
        rows: verification.rows,
        prefix,
    };
    let wrong = decoded(|| vector_sets::judge(&mut rows, &head));
    if let Some(breach) = wrong.unwrap_or_else(|| Some("has rows that no version has written".into())) {
        return verification.found(format!("{} {breach}", stored.name()), Vec::new());
    }
    let key = vector_sets::waiting_row(stored.entry.elements().id());
    if linking::has_waiting(&mut rows) && verification.rows.get_row(&key).is_none() {
        let breach = format!("elements of {} wait, and nothing says so", stored.name());
        let value = Vec::new();
        verification.found(breach, vec![Repair::Set { key, value }]);
    }
}
