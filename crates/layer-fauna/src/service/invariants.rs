//! The invariants between the rows of the Fauna layer, for `quartet check`: documents and entries
//! of indexes, histories, names, registered databases, credentials.
//!
//! Each document's entries are computed as its next write would and looked up; an index with
//! exactly the number of required entries has no others. Only if it has more are its entries
//! walked, each computed from its document.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Invariants, Reader, Repair, Verification};
use quartet_model::LayerId;

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{Authorization, Rights};
use crate::evaluation::host::Host;
use crate::language::codec::{DELETED, Decoder, Encoder};
use crate::language::value::{Native, Target, Timestamp, Value};
use crate::storage::documents::{Place, Version, expiry_micros, reference};
use crate::storage::indexes::{self, Entry};
use crate::storage::rows::{self, DatabaseNumber, Key, Moment, ROOT, View, number_at};
use crate::storage::schema::{Index, Schema};

/// FaunaDB's promises.
pub struct FaunaInvariants;

impl Invariants for FaunaInvariants {
    fn layer(&self) -> LayerId {
        LayerId::Fauna
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        let cleared = cleared_later(verification.rows);
        for database in databases(verification.rows) {
            let moment = Moment::of(verification.reader());
            let schema = load(&mut View::Reader(&moment), database);
            verify_names(verification, database);
            verify_histories(verification, &schema);
            verify_credentials(verification, database);
            verify_indexes(verification, &moment, &schema, &cleared);
            if moment.reader.is_unreadable() {
                // Reported by the caller, which has the reason as well.
                let everything = Key::database(database);
                verification
                    .rows
                    .scan(&everything.0, &everything.end(), false, &mut |_, _| {
                        ControlFlow::Continue(())
                    });
            }
        }
        verify_registry(verification);
    }
}

/// The root database and all that are registered.
fn databases(reader: &Reader) -> Vec<DatabaseNumber> {
    let registry = Key::global(b'R');
    let mut numbers = vec![ROOT];
    reader.scan(&registry.0, &registry.end(), false, &mut |key, _| {
        numbers.push(DatabaseNumber(number_at(key, registry.0.len())));
        ControlFlow::Continue(())
    });
    numbers
}

fn load(view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema> {
    Arc::new(Schema::load(view, database, Vec::new()))
}

/// The prefixes of keys that are queued for clearing.
fn cleared_later(reader: &Reader) -> Vec<Vec<u8>> {
    let queue = Key::global(b'X');
    let mut prefixes = Vec::new();
    reader.scan(&queue.0, &queue.end(), false, &mut |key, _| {
        prefixes.push(key[queue.0.len()..].to_vec());
        ControlFlow::Continue(())
    });
    prefixes
}

/// A name leads to an object of its kind.
fn verify_names(verification: &mut Verification<'_>, database: DatabaseNumber) {
    let all = Key::of(database, b'N');
    let rows = verification.rows;
    rows.scan(&all.0, &all.end(), false, &mut |key, value| {
        let (kind, name) = key[all.0.len()..].split_first().unwrap_or((&0, &[]));
        let object = rows::document(database, u64::from(*kind), number_at(value, 0));
        if rows.get_row(&object.0).is_none() {
            let message = format!(
                "the name \"{}\" in database {} leads nowhere",
                name.escape_ascii(),
                database.0
            );
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// Former versions can be read, and are older than the current one.
fn verify_histories(verification: &mut Verification<'_>, schema: &Arc<Schema>) {
    let all = Key::of(schema.database(), b'H');
    let rows = verification.rows;
    rows.scan(&all.0, &all.end(), false, &mut |key, value| {
        let (collection, id, ts) = (
            number_at(key, all.0.len()),
            number_at(key, all.0.len() + 8),
            number_at(key, all.0.len() + 16),
        );
        let is_readable = match value.split_first() {
            Some((0, [])) => true,
            Some((1, fields)) => Decoder::new(fields, schema.as_ref()).fields().is_some(),
            _ => false,
        };
        let fault = match rows.get(&rows::document(schema.database(), collection, id).0) {
            _ if !is_readable => "cannot be read",
            Some(current) if number_at(&current, 0) <= ts => "is not older than the current one",
            _ => return ControlFlow::Continue(()),
        };
        let message = format!("the version of {ts} of document {id} in collection {collection} {fault}");
        verification.found(message, Vec::new());
        ControlFlow::Continue(())
    });
}

/// Checks that the document of each credential exists.
fn verify_credentials(verification: &mut Verification<'_>, database: DatabaseNumber) {
    let all = Key::of(database, b'C');
    let rows = verification.rows;
    rows.scan(&all.0, &all.end(), false, &mut |key, value| {
        let credentials = rows::document(database, Native::Credentials as u64, number_at(value, 0));
        if rows.get_row(&credentials.0).is_none() {
            let id = number_at(key, all.0.len() + 8);
            let message = format!(
                "document {id} in database {} has credentials that are not there",
                database.0
            );
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// Databases are registered below their parent, keys and tokens in their own database.
fn verify_registry(verification: &mut Verification<'_>) {
    let kinds = [(b'R', Native::Databases), (b'K', Native::Keys), (b'T', Native::Tokens)];
    let rows = verification.rows;
    for (kind, native) in kinds {
        let all = Key::global(kind);
        rows.scan(&all.0, &all.end(), false, &mut |key, value| {
            let (id, database) = (number_at(key, all.0.len()), DatabaseNumber(number_at(value, 0)));
            if rows.get_row(&rows::document(database, native as u64, id).0).is_none() {
                let message = format!("{} {id} is registered and not there", native.singular());
                let repairs = match native {
                    // Its rows would become inaccessible: an operator has to decide that.
                    Native::Databases => Vec::new(),
                    _ => vec![Repair::Clear { key: key.to_vec() }],
                };
                verification.found(message, repairs);
            }
            ControlFlow::Continue(())
        });
    }
}

/// Looks at indexes of one database.
struct Indexes<'a> {
    evaluation: Evaluation<'a>,
    schema: Arc<Schema>,
    /// Entries that documents have or should have, by index.
    expected: BTreeMap<u64, u64>,
}

fn verify_indexes(verification: &mut Verification<'_>, moment: &Moment, schema: &Arc<Schema>, cleared: &[Vec<u8>]) {
    let alone = Alone;
    let evaluation = Evaluation::new(
        crate::evaluation::functions::BODIES,
        &alone,
        View::Reader(moment),
        schema.clone(),
        Authorization::of(Rights::Admin),
    );
    let mut indexes = Indexes {
        evaluation,
        schema: schema.clone(),
        expected: BTreeMap::new(),
    };
    for collection in schema.indexed_collections() {
        indexes.verify_documents(verification, collection);
    }
    let entries = Key::of(schema.database(), b'E');
    for number in numbers_below(verification.rows, &entries) {
        let prefix = entries.clone().number(number);
        let count = verification.rows.count(&prefix.0, &prefix.end());
        match schema.index_of(number) {
            Some(index) if !index.active => {}
            Some(index) => {
                if indexes.expected.get(&number).copied().unwrap_or_default() != count {
                    indexes.verify_entries(verification, index, &prefix);
                }
                if index.unique {
                    verify_unique(verification, index, &prefix);
                }
            }
            None if cleared.iter().any(|key| prefix.0.starts_with(key)) => {}
            None => {
                let message = format!("{count} entries in database {} belong to no index", schema.database);
                let (start, end) = (prefix.0.clone(), prefix.end());
                verification.found(message, vec![Repair::ClearRange { start, end }]);
            }
        }
    }
}

/// The numbers that follow a prefix in keys. Reads one row of each.
fn numbers_below(reader: &Reader, prefix: &Key) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut start = prefix.0.clone();
    while let Some(row) = reader.nth(&start, &prefix.end(), 0) {
        let number = number_at(quartet_engine::Transaction::layer_key(&row), prefix.0.len());
        numbers.insert(number);
        start = prefix.clone().number(number).end();
    }
    numbers
}

impl Indexes<'_> {
    fn place(&self, collection: u64, id: u64) -> Option<Place> {
        Some(Place {
            schema: self.schema.clone(),
            collection,
            id,
            reference: reference(&self.schema, collection, id)?,
        })
    }

    /// Returns keys and rows of the entries that a document should have in an index; `None` if they
    /// cannot be computed, because they refer to something deleted since: a ref to a document is
    /// part of keys by the number of its collection while that exists.
    fn entries_of(&mut self, index: &Index, place: &Place) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let Some(Version {
            ts,
            contents: Some(contents),
        }) = self.evaluation.current(place)
        else {
            return Some(Vec::new());
        };
        // The bound on a query's cost does not apply here.
        self.evaluation.cost = Default::default();
        let entries = self.evaluation.entries(index, place, ts, &contents).ok()?;
        let values = entries.iter().flat_map(|entry| entry.terms.iter().chain(&entry.values));
        if values.into_iter().any(leads_to_what_is_gone) {
            return None;
        }
        let expiry = expiry_micros(place, ts, contents.ttl(), 0);
        Some(
            entries
                .iter()
                .map(|entry| self.row_of(index, place, entry, ts, expiry))
                .collect(),
        )
    }

    fn row_of(&self, index: &Index, place: &Place, entry: &Entry, ts: Timestamp, expiry: u64) -> (Vec<u8>, Vec<u8>) {
        let mut row = Encoder {
            bytes: [ts.0.to_be_bytes(), expiry.to_be_bytes()].concat(),
            ..Encoder::default()
        };
        row.array(&entry.values, self.schema.as_ref());
        (entry.key(index, place), row.bytes)
    }

    /// Every document of a collection has its entries.
    fn verify_documents(&mut self, verification: &mut Verification<'_>, collection: u64) {
        let all = Key::of(self.schema.database(), b'D').number(collection);
        let schema = self.schema.clone();
        let rows = verification.rows;
        rows.scan(&all.0, &all.end(), false, &mut |key, _| {
            let id = number_at(key, all.0.len());
            if let Some(place) = self.place(collection, id) {
                let active = schema.indexes_over(collection).iter().filter(|index| index.active);
                active.for_each(|index| self.verify_document(verification, index, &place));
            }
            ControlFlow::Continue(())
        });
    }

    fn verify_document(&mut self, verification: &mut Verification<'_>, index: &Index, place: &Place) {
        let Some(entries) = self.entries_of(index, place) else {
            return;
        };
        let mut count = 0;
        for (key, value) in entries {
            if verification.rows.get_row(&key).is_some() {
                count += 1;
                continue;
            }
            let message = format!(
                "index \"{}\" in database {} lacks document {} of collection {}",
                index.name, self.schema.database, place.id, place.collection
            );
            verification.found(message, vec![Repair::Set { key, value }]);
        }
        *self.expected.entry(index.number).or_default() += count;
    }

    /// Each entry of an index is one that its document has.
    fn verify_entries(&mut self, verification: &mut Verification<'_>, index: &Index, prefix: &Key) {
        let schema = self.schema.clone();
        let rows = verification.rows;
        rows.scan(&prefix.0, &prefix.end(), false, &mut |key, _| {
            let (collection, id) = rows::document_of_entry(key);
            let entries = match self.place(collection, id) {
                Some(place) => self.entries_of(index, &place),
                // The documents of a deleted collection are removed in the background.
                None if is_collection_gone(&schema, collection) => return ControlFlow::Continue(()),
                None => Some(Vec::new()),
            };
            if entries.is_some_and(|entries| !entries.iter().any(|(own, _)| own == key)) {
                let message = format!(
                    "index \"{}\" in database {} has what document {id} of collection {collection} does not support",
                    index.name, schema.database
                );
                verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
            }
            ControlFlow::Continue(())
        });
    }
}

fn is_collection_gone(schema: &Schema, collection: u64) -> bool {
    crate::language::value::native_of(collection).is_none() && schema.collection_of(collection).is_none()
}

fn leads_to_what_is_gone(value: &Value) -> bool {
    match value {
        Value::Ref(reference) => match &reference.target {
            Target::Document(name, _) | Target::Named(_, name) => name.starts_with(DELETED),
            _ => false,
        },
        _ => false,
    }
}

/// A unique index has one living document for each combination of terms and values.
fn verify_unique(verification: &mut Verification<'_>, index: &Index, prefix: &Key) {
    let rows = verification.rows;
    let mut last: Vec<u8> = Vec::new();
    rows.scan(&prefix.0, &prefix.end(), false, &mut |key, row| {
        if indexes::is_expired(row, rows.present_micros) {
            return ControlFlow::Continue(());
        }
        let same = &key[..key.len().saturating_sub(rows::DOCUMENT_BYTES)];
        if last == same {
            let (collection, id) = rows::document_of_entry(key);
            let message = format!(
                "index \"{}\" is unique, and document {id} of collection {collection} is not",
                index.name
            );
            verification.found(message, Vec::new());
        }
        last = same.to_vec();
        ControlFlow::Continue(())
    });
}

/// Nothing around: no server, no other databases.
struct Alone;

impl Host for Alone {
    fn schema(&self, view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema> {
        load(view, database)
    }

    fn elsewhere(&self) -> Option<u16> {
        None
    }

    fn random(&self) -> [u8; 20] {
        [0; 20]
    }

    fn new_id(&self, now_micros: u64) -> u64 {
        now_micros
    }

    fn now_micros(&self) -> u64 {
        0
    }

    fn room_bytes(&self) -> u64 {
        u64::MAX
    }

    fn work_is_left(&self) {}

    fn keys_are_ready(&self, _: &mut View<'_>, _: &str) -> bool {
        true
    }

    fn make_keys_ready(&self, _: &mut View<'_>, _: &str) {}

    fn database_of(&self, _: &mut View<'_>, _: &str) -> Option<DatabaseNumber> {
        None
    }
}
