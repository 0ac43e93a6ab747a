//! Background work: filling large new indexes, clearing deleted data.
//!
//! Done a bounded piece at a time, each piece one transaction, so that requests run in between and
//! a crash loses nothing: the rows that request the work are cleared by the transaction that
//! finishes it.

use std::sync::Arc;

use quartet_engine::{Busy, OptimisticTransaction, RunError, Transaction};

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{Authorization, Rights};
use crate::language::codec;
use crate::language::error::{Errors, Result};
use crate::language::value::{Native, Ref, Value};
use crate::service::Fauna;
use crate::storage::documents::{Place, Version};
use crate::storage::rows::{self, DatabaseNumber, Key, View};
use crate::storage::schema::{Index, Schema};

/// Documents that one piece of building an index covers.
const DOCUMENTS_AT_ONCE: usize = 256;
const ATTEMPTS: u32 = 20;

/// The rest of an index to build.
struct Build {
    key: Vec<u8>,
    database: DatabaseNumber,
    index: u64,
    /// The last collection and document that are done.
    done: Vec<u8>,
}

impl Fauna {
    /// Does one piece of work. True if there may be more.
    pub fn maintain(&self) -> bool {
        let cleared = self.clear_one();
        let built = self.build_piece();
        cleared || built
    }

    /// Nothing while something keeps the partition: what is left to do waits.
    fn first(&self, prefix: &Key) -> Option<(Vec<u8>, Vec<u8>)> {
        let Ok(moment) = self.moment() else {
            self.work_is_left();
            return None;
        };
        View::Reader(&moment).rows(&prefix.0, &prefix.end(), false, 1).pop()
    }

    /// Clears the rows below one prefix that was left for later.
    fn clear_one(&self) -> bool {
        let queue = Key::global(b'X');
        let Some((key, _)) = self.first(&queue) else {
            return false;
        };
        let prefix = key[queue.0.len()..].to_vec();
        let end = quartet_model::next_prefix(&prefix);
        let clear = |transaction: &mut Transaction<'_>| -> std::result::Result<(), std::convert::Infallible> {
            transaction.clear_range(&prefix, &end);
            transaction.clear(&key);
            Ok(())
        };
        // The effects of a range clear are small for any range.
        match self.engine.partition_in_time() {
            Ok(mut partition) => partition.execute(self.space, clear).is_ok(),
            Err(Busy) => {
                self.work_is_left();
                false
            }
        }
    }

    fn build_piece(&self) -> bool {
        let queue = Key::global(b'B');
        let Some((key, done)) = self.first(&queue) else {
            return false;
        };
        let build = Build {
            database: DatabaseNumber(rows::number_at(&key, queue.0.len())),
            index: rows::number_at(&key, queue.0.len() + 8),
            key,
            done,
        };
        let ran = self
            .engine
            .run(self.space, ATTEMPTS, |transaction| self.build(transaction, &build));
        match ran {
            Ok(_) | Err(RunError::Conflict) => true,
            // The disk is full or unreadable, or the log has failed: it continues afterwards.
            Err(RunError::DiskFull(_) | RunError::Unreadable(_) | RunError::NotHome) => false,
            Err(RunError::Busy) => {
                self.work_is_left();
                false
            }
            // An index that cannot be built stays inactive, because of its documents.
            Err(RunError::Layer(..) | RunError::TooLarge(_)) => self.give_up(&build),
        }
    }

    fn give_up(&self, build: &Build) -> bool {
        let clear = |transaction: &mut OptimisticTransaction| -> std::result::Result<(), std::convert::Infallible> {
            transaction.clear(&build.key);
            Ok(())
        };
        self.engine.run(self.space, ATTEMPTS, clear).is_ok()
    }

    fn build(&self, transaction: &mut OptimisticTransaction, build: &Build) -> Result<()> {
        let mut view = View::Transaction(transaction);
        let schema = self.schema(&mut view, build.database);
        let Some(index) = schema.index_of(build.index).cloned() else {
            view.writing().clear(&build.key);
            return Ok(());
        };
        let mut evaluation = Evaluation::new(
            crate::evaluation::functions::BODIES,
            self,
            view,
            schema.clone(),
            Authorization::of(Rights::Admin),
        );
        let places = evaluation.covered_documents(&index, &build.done, DOCUMENTS_AT_ONCE);
        for place in &places {
            evaluation.index_document(&index, place)?;
        }
        match places.last() {
            Some(last) if places.len() == DOCUMENTS_AT_ONCE => {
                let done = [last.collection.to_be_bytes(), last.id.to_be_bytes()].concat();
                evaluation.view.writing().set(&build.key, &done);
                Ok(())
            }
            _ => activate(&mut evaluation, &schema, &index, &build.key),
        }
    }
}

fn activate(evaluation: &mut Evaluation<'_>, schema: &Arc<Schema>, index: &Index, build_key: &[u8]) -> Result<()> {
    let place = Place {
        schema: schema.clone(),
        collection: Native::Indexes as u64,
        id: index.number,
        reference: Ref::named(Native::Indexes, index.name.clone()),
    };
    let (ts, fields) = evaluation.live_fields(&place).ok_or_else(Errors::document_not_found)?;
    let active = Arc::new(fields.with("active", Value::Bool(true)));
    let old = Version {
        ts,
        contents: Some(fields.into()),
    };
    evaluation.write_version(&place, Some(&old), Some(active))?;
    let stamp = rows::schema_stamp(schema.database());
    let transaction = evaluation.view.writing();
    transaction.set_stamped(&stamp.0, &[], vec![0xff; 8], vec![codec::stamp(0)]);
    transaction.clear(build_key);
    Ok(())
}
