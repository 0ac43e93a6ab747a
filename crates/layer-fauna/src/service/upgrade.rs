//! Indexes as earlier versions wrote them are written anew before the first request.
//!
//! Those had their entries in rows of the kinds `I` and `J`: documents by collection and then id,
//! refs in that order too, and 1 and 1.0 as one term; and none at all of tokens, credentials and
//! other built-in collections. Read as they are they would give other pages and miss other terms,
//! without a word. A row says how entries are written; it comes with the first index. Where there
//! are indexes and it is missing, all of them are computed from the documents and their history,
//! and only then the old rows go and the row is written: a crash in between begins it again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quartet_engine::{Busy, OptimisticTransaction, Reader, Transaction};

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{Authorization, Rights};
use crate::language::error::{Errors, Result};
use crate::language::value::Native;
use crate::service::Fauna;
use crate::storage::documents::Place;
use crate::storage::documents::reference;
use crate::storage::indexes::FORM;
use crate::storage::rows::{DatabaseNumber, Key, ROOT, View, number_at};

/// The kinds of rows that earlier versions kept entries in.
const FORMER_KINDS: [u8; 2] = [b'I', b'J'];
/// Documents whose entries are written in one transaction.
const DOCUMENTS_AT_ONCE: usize = 64;
const ATTEMPTS: u32 = 20;

impl Fauna {
    /// Brings the indexes of all databases into the form that this version reads. Nobody may be
    /// using them yet.
    pub(crate) fn upgrade_indexes(&self) -> std::result::Result<(), Busy> {
        let moment = self.moment()?;
        let reader = &moment.reader;
        if reader.get(&Key::global(b'F').0).as_deref() == Some(FORM) {
            return Ok(());
        }
        let mut outdated = databases(reader);
        outdated.retain(|database| has_indexes(reader, *database));
        if reader.is_unreadable() {
            return Err(Busy);
        }
        drop(moment);
        for database in &outdated {
            self.rewrite_indexes(*database)?;
        }
        if !outdated.is_empty() {
            self.finish(&outdated)?;
        }
        Ok(())
    }

    fn rewrite_indexes(&self, database: DatabaseNumber) -> std::result::Result<(), Busy> {
        let moment = self.moment()?;
        let schema = self.schema(&mut View::Reader(&moment), database);
        let mut documents = Vec::new();
        for collection in schema.indexed_collections() {
            let ids = ids_ever(&moment.reader, database, collection);
            documents.extend(ids.into_iter().map(|id| (collection, id)));
        }
        drop(moment);
        for some in documents.chunks(DOCUMENTS_AT_ONCE) {
            let written = self.engine.run(self.space, ATTEMPTS, |transaction| {
                self.index_anew(transaction, database, some)
            });
            if let Err(reason) = written {
                return Err(put_off(&reason));
            }
        }
        Ok(())
    }

    fn index_anew(
        &self,
        transaction: &mut OptimisticTransaction,
        database: DatabaseNumber,
        documents: &[(u64, u64)],
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
        for &(collection, id) in documents {
            // An object that has lost its name is no longer shown.
            let Some(reference) = reference(&schema, collection, id) else {
                continue;
            };
            let place = Place {
                schema: schema.clone(),
                collection,
                id,
                reference,
            };
            let versions = evaluation.versions(&place);
            evaluation.rewrite_entries(&place, &[], &versions)?;
        }
        Ok::<(), Errors>(())
    }

    /// Clears what the old form has left.
    fn finish(&self, databases: &[DatabaseNumber]) -> std::result::Result<(), Busy> {
        type Nothing = std::result::Result<(), std::convert::Infallible>;
        let clear = |transaction: &mut Transaction<'_>| -> Nothing {
            for database in databases {
                for kind in FORMER_KINDS {
                    let prefix = Key::of(*database, kind);
                    transaction.clear_range(&prefix.0, &prefix.end());
                }
            }
            transaction.set(&Key::global(b'F').0, FORM);
            Ok(())
        };
        let cleared = self.engine.partition_in_time()?.execute(self.space, clear);
        cleared.map(drop).map_err(|reason| put_off(&reason))
    }
}

/// The disk may be full or unreadable: whoever comes next tries again.
fn put_off(reason: &dyn std::fmt::Debug) -> Busy {
    tracing::warn!(?reason, "the indexes could not be brought into their new form");
    Busy
}

/// The root database and all that are registered.
pub fn databases(reader: &Reader) -> Vec<DatabaseNumber> {
    let registry = Key::global(b'R');
    let mut found = vec![ROOT];
    reader.scan(&registry.0, &registry.end(), false, &mut |key, _| {
        found.push(DatabaseNumber(number_at(key, registry.0.len())));
        ControlFlow::Continue(())
    });
    found
}

/// Whether there is an index, or an entry that one has left.
fn has_indexes(reader: &Reader, database: DatabaseNumber) -> bool {
    let entries = FORMER_KINDS.map(|kind| Key::of(database, kind));
    let indexes = Key::of(database, b'D').number(Native::Indexes as u64);
    entries.into_iter().chain([indexes]).any(|prefix| {
        let mut is_there = false;
        reader.scan(&prefix.0, &prefix.end(), false, &mut |_, _| {
            is_there = true;
            ControlFlow::Break(())
        });
        is_there
    })
}

/// The ids of the documents that a collection has, or had as far as its history goes.
fn ids_ever(reader: &Reader, database: DatabaseNumber, collection: u64) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    for kind in [b'D', b'H'] {
        let prefix = Key::of(database, kind).number(collection);
        reader.scan(&prefix.0, &prefix.end(), false, &mut |key, _| {
            ids.insert(number_at(key, prefix.0.len()));
            ControlFlow::Continue(())
        });
    }
    ids
}
