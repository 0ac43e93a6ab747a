//! Clears outdated rows: expired documents, versions and index entries older than their
//! collection's retention.
//!
//! A write drops outdated rows of its own document; the sweep handles documents without further
//! writes. All rows are walked, a few at a time, and again after a pause. A piece reads a snapshot
//! without the lock; its findings are checked again in the transaction that clears them, so that
//! concurrent writes win.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::OptimisticTransaction;

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{Authorization, Rights};
use crate::evaluation::definitions::end_document;
use crate::language::error::{Errors, Result};
use crate::language::value::{Native, native_of};
use crate::service::Fauna;
use crate::storage::documents::reference;
use crate::storage::documents::{HISTORY_MICROS_MIN, Place};
use crate::storage::indexes::is_expired;
use crate::storage::rows::{self, DatabaseNumber, Key, View};
use crate::storage::schema::Schema;

/// Rows that one piece looks at.
const ROWS_AT_ONCE: usize = 512;
/// Pause between two walks.
const REST_MICROS: u64 = 60_000_000;
/// The kinds of rows that are looked at, in this order.
const KINDS: [u8; 4] = [b'D', b'H', b'L', b'W'];

/// The progress of the walk.
#[derive(Default)]
pub struct Walk {
    database: u64,
    kind: usize,
    /// The last row that was looked at.
    after: Vec<u8>,
    rest_until: u64,
}

/// The outdated rows found by one piece.
#[derive(Default)]
struct Found {
    /// Collections and ids of documents that have ended.
    expired: Vec<(u64, u64)>,
    /// Those of documents with outdated versions, perhaps.
    aged: BTreeSet<(u64, u64)>,
    /// Rows of entries that left long ago, and of rewritings.
    entries: Vec<Vec<u8>>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.expired.is_empty() && self.aged.is_empty() && self.entries.is_empty()
    }
}

impl Fauna {
    /// Does a piece of the walk, unless it rests.
    pub fn sweep(&self) {
        let mut walk = self.walk.lock();
        let Ok(moment) = self.moment() else {
            return;
        };
        if moment.reader.present_micros < walk.rest_until {
            return;
        }
        let mut view = View::Reader(&moment);
        let database = DatabaseNumber(walk.database);
        let schema = self.schema(&mut view, database);
        let mut evaluation = Evaluation::new(
            crate::evaluation::functions::BODIES,
            self,
            view,
            schema.clone(),
            Authorization::of(Rights::Admin),
        );
        let outdated = look(&mut evaluation, &mut walk);
        drop(evaluation);
        if outdated.is_empty() || moment.reader.is_unreadable() {
            return;
        }
        // The sweep ignores concurrent writes; the next walk handles them.
        let cleared = self.engine.run(self.space, 1, |transaction| {
            self.clear_found(transaction, database, &outdated)
        });
        drop(cleared);
    }

    fn clear_found(
        &self,
        transaction: &mut OptimisticTransaction,
        database: DatabaseNumber,
        outdated: &Found,
    ) -> Result<()> {
        let mut view = View::Transaction(transaction);
        let schema = self.schema(&mut view, database);
        let mut evaluation = Evaluation::new(
            crate::evaluation::functions::BODIES,
            self,
            view,
            schema.clone(),
            Authorization::of(Rights::Admin),
        );
        for &(collection, id) in &outdated.expired {
            if let Some(place) = place(&schema, collection, id) {
                evaluation.end_if_expired(&place)?;
            }
        }
        for &(collection, id) in &outdated.aged {
            if let Some(place) = place(&schema, collection, id) {
                evaluation.drop_all_outdated(&place);
            }
        }
        for entry in &outdated.entries {
            evaluation.view.writing().clear(entry);
        }
        Ok::<(), Errors>(())
    }
}

fn place(schema: &Arc<Schema>, collection: u64, id: u64) -> Option<Place> {
    Some(Place {
        schema: schema.clone(),
        collection,
        id,
        reference: reference(schema, collection, id)?,
    })
}

/// Looks at the next rows of the walk and moves it on.
fn look(evaluation: &mut Evaluation<'_>, walk: &mut Walk) -> Found {
    let kind = KINDS[walk.kind];
    let prefix = Key::of(DatabaseNumber(walk.database), kind);
    let start = match walk.after.is_empty() {
        true => prefix.0.clone(),
        false => [&walk.after[..], &[0]].concat(),
    };
    let rows = {
        let mut rows = Vec::new();
        evaluation
            .view
            .snapshot_scan(&start, &prefix.end(), false, &mut |key, row| {
                // Only the document's end matters here.
                rows.push((key.to_vec(), row[..row.len().min(16)].to_vec()));
                match rows.len() < ROWS_AT_ONCE {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
        rows
    };
    let mut outdated = Found::default();
    for (key, row) in &rows {
        note(evaluation, kind, &key[prefix.0.len()..], key, row, &mut outdated);
    }
    match rows.last() {
        Some((last, _)) if rows.len() == ROWS_AT_ONCE => walk.after = last.clone(),
        _ => move_on(evaluation, walk),
    }
    outdated
}

fn note(evaluation: &Evaluation<'_>, kind: u8, place: &[u8], key: &[u8], row: &[u8], outdated: &mut Found) {
    let cutoff = |collection| {
        let retained = evaluation.history_micros(&evaluation.schema, collection);
        evaluation.now_micros.saturating_sub(retained)
    };
    let document = (rows::number_at(place, 0), rows::number_at(place, 8));
    match kind {
        // Schema objects with names do not end.
        b'D' if is_expired(row, evaluation.now_micros) && native_of(document.0).is_none_or(ends_by_itself) => {
            outdated.expired.push(document);
        }
        b'H' if rows::number_at(place, 16) < cutoff(document.0) => drop(outdated.aged.insert(document)),
        b'W' if rows::number_at(place, 16) < evaluation.now_micros.saturating_sub(HISTORY_MICROS_MIN) => {
            outdated.entries.push(key.to_vec());
        }
        b'L' => {
            // The index is followed by its terms, which start with their length: 0xff marks a hash.
            let terms = match place.get(8) {
                Some(0xff) => 32,
                Some(length) => usize::from(*length),
                None => return,
            };
            let (collection, _) = rows::document_of_entry(place);
            if rows::number_at(place, 9 + terms) < cutoff(collection) {
                outdated.entries.push(key.to_vec());
            }
        }
        _ => {}
    }
}

fn ends_by_itself(native: Native) -> bool {
    matches!(native, Native::Tokens | Native::Keys)
}

/// To the next kind of rows, the next database, or to rest.
fn move_on(evaluation: &mut Evaluation<'_>, walk: &mut Walk) {
    walk.after.clear();
    walk.kind = (walk.kind + 1) % KINDS.len();
    if walk.kind != 0 {
        return;
    }
    let registry = Key::global(b'R');
    let next = registry.clone().number(walk.database).byte(0);
    let next = evaluation.view.rows(&next.0, &registry.end(), false, 1).pop();
    walk.database = next
        .as_ref()
        .map_or(0, |(key, _)| rows::number_at(key, registry.0.len()));
    if next.is_none() {
        walk.rest_until = evaluation.now_micros + REST_MICROS;
    }
}

impl Evaluation<'_> {
    fn end_if_expired(&mut self, place: &Place) -> Result<()> {
        let key = rows::document(place.database(), place.collection, place.id);
        let row = self.view.get(&key.0);
        let row = row.as_deref().unwrap_or_default();
        let is_over = is_expired(row, self.now_micros);
        match self.current(place) {
            Some(version) if is_over => end_document(self, place, &version),
            _ => Ok(()),
        }
    }

    /// Drops every version that is followed by one too old to be missed, and a deletion that is
    /// itself so old.
    fn drop_all_outdated(&mut self, place: &Place) {
        let retained = self.history_micros(&place.schema, place.collection);
        let cutoff = self.now_micros.saturating_sub(retained);
        let prefix = rows::history(place.database(), place.collection, place.id);
        let former = self.view.rows(&prefix.0, &prefix.end(), false, usize::MAX);
        let ts_of = |key: &[u8]| rows::number_at(key, prefix.0.len());
        let current = self.current(place).map(|version| version.ts.0);
        for (index, (key, row)) in former.iter().enumerate() {
            let next = former.get(index + 1).map(|(key, _)| ts_of(key)).or(current);
            let is_deletion = row.first() == Some(&0);
            let replaced = next.or_else(|| is_deletion.then(|| ts_of(key)));
            if replaced.is_some_and(|replaced| replaced < cutoff) {
                self.view.writing().clear(key);
            }
        }
    }
}
