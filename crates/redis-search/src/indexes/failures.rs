//! Documents that could not be indexed, counted by field.
//!
//! ```text
//! packed: position of the field, or 65535 for the whole index (2), count (8), reason, key; and again
//! ```

use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::packed;

use crate::indexes::marks::numbered;

/// Represents all fields together.
const WHOLE: u16 = u16::MAX;

/// The number of a field's failures, and the reason of the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub count: u64,
    pub reason: Vec<u8>,
    pub key: Vec<u8>,
}

/// The failures of an index, those of the whole first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failures(Vec<(u16, Failure)>);

impl Failures {
    pub fn read(tx: &mut Transaction<'_>, number: &UniqueId) -> Failures {
        let mut failures = Failures::default();
        if let Some(row) = tx.get(&numbered(b'f', number)) {
            let mut parts = packed::iter(row.value());
            while let (Some(head), Some(reason), Some(key)) = (parts.next(), parts.next(), parts.next()) {
                let (field, count) = head.split_at(2);
                let failure = Failure {
                    count: u64::from_be_bytes(count.try_into().expect("eight bytes of count")),
                    reason: reason.to_vec(),
                    key: key.to_vec(),
                };
                let field = u16::from_be_bytes(field.try_into().expect("two bytes of field"));
                failures.0.push((field, failure));
            }
        }
        failures
    }

    pub fn clear(tx: &mut Transaction<'_>, number: &UniqueId) {
        tx.clear(&numbered(b'f', number));
    }

    pub fn of_all(&self) -> Failure {
        self.of(WHOLE)
    }

    /// The failures of the field at a position.
    pub fn of(&self, field: u16) -> Failure {
        let entry = self.0.iter().find(|(number, _)| *number == field);
        entry.map(|(_, failure)| failure.clone()).unwrap_or_default()
    }

    /// The failed fields by their positions, each with its count; failures without a field have a
    /// position that does not exist.
    pub fn by_field(&self) -> impl Iterator<Item = (u16, u64)> {
        let fields = self.0.iter().filter(|(field, _)| *field != WHOLE);
        let counted: u64 = fields.clone().map(|(_, failure)| failure.count).sum();
        let uncounted = self.of_all().count - counted;
        let uncounted = (uncounted > 0).then_some((WHOLE, uncounted));
        fields.map(|(field, failure)| (*field, failure.count)).chain(uncounted)
    }

    /// Counts a document that could not be indexed because of a field; `None`: because of all.
    pub fn note(tx: &mut Transaction<'_>, number: &UniqueId, field: Option<u16>, reason: &str, key: &[u8]) {
        let mut failures = Failures::read(tx, number);
        for of in [Some(WHOLE), field].into_iter().flatten() {
            let at = failures.0.iter().position(|(field_number, _)| *field_number == of);
            let at = at.unwrap_or_else(|| {
                failures.0.push((of, Failure::default()));
                failures.0.len() - 1
            });
            let failure = &mut failures.0[at].1;
            failure.count += 1;
            failure.reason = reason.as_bytes().to_vec();
            failure.key = key.to_vec();
        }
        let mut row = Vec::new();
        for (field, failure) in &failures.0 {
            packed::push(
                &mut row,
                &[&field.to_be_bytes()[..], &failure.count.to_be_bytes()].concat(),
            );
            packed::push(&mut row, &failure.reason);
            packed::push(&mut row, &failure.key);
        }
        tx.set(&numbered(b'f', number), &row);
    }
}
