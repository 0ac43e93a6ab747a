//! Versions of documents, as a query reads and writes them: the version as of a time, the next, and
//! outdated ones.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::operations::{Counted, DOCUMENT_BYTES_MORE, ENTRY_BYTES_MORE};
use crate::language::codec;
use crate::language::error::{Code, Errors, Result};
use crate::language::time::Time;
use crate::language::value::{Contents, Document, Fields, Names, Native, Ref, Target, Timestamp, Value};
use crate::storage::contents;
use crate::storage::documents::{
    DAY_MICROS, HISTORY_MICROS_MIN, ID_COUNT_BITS, Place, Version, expiry_micros, former_version,
};
use crate::storage::rows::{self, DatabaseNumber, Key};
use crate::storage::schema::{self, Schema};

/// Most outdated versions that one write drops.
const DROPPED_MAX: usize = 8;

impl Evaluation<'_> {
    /// The schema of the database that a scope leads to.
    pub fn schema_in(&mut self, scope: &[Arc<str>]) -> Result<Arc<Schema>> {
        let mut schema = self.schema.clone();
        for name in scope {
            let number = self.number_of(&schema, Native::Databases, name);
            let number = number.ok_or_else(|| Errors::invalid_ref("database", name))?;
            schema = self.host.schema(&mut self.view, DatabaseNumber(number));
        }
        Ok(schema)
    }

    /// Path from the queried database to `database`; `None` if it is not a descendant.
    pub fn scope_of(&mut self, mut database: DatabaseNumber) -> Option<Arc<[Arc<str>]>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        while database != self.schema.database() {
            let row = self.view.get_latest(&Key::global(b'R').number(database.0).0)?;
            let parent = DatabaseNumber(rows::number_at(&row, 0));
            let schema = self.host.schema(&mut self.view, parent);
            names.push(schema.name(Native::Databases, database.0)?);
            database = parent;
        }
        names.reverse();
        Some(names.into())
    }

    /// The number of a named thing, one made in this very transaction too.
    pub fn number_of(&mut self, schema: &Schema, kind: Native, name: &str) -> Option<u64> {
        let row = self.view.get(&rows::name(schema.database(), kind as u8, name).0)?;
        Some(rows::number_at(&row, 0))
    }

    /// The place of a ref's document, existing or not. Fails if its collection, or the named thing
    /// itself, does not exist.
    pub fn resolve(&mut self, reference: &Ref) -> Result<Place> {
        let schema = self.schema_in(&reference.scope)?;
        let place = match &reference.target {
            Target::Document(name, id) => schema
                .collection(name)
                .map(|collection| (collection.number, *id as u64)),
            Target::Numbered(native, id) => Some((*native as u64, *id as u64)),
            Target::Named(native, name) => self.number_of(&schema, *native, name).map(|id| (*native as u64, id)),
            Target::Native(_) => None,
        };
        let Some((collection, id)) = place.filter(|_| !reference.is_unknown) else {
            let (kind, name) = schema::describe(reference);
            return Err(Errors::invalid_ref(kind, &name));
        };
        Ok(Place {
            schema,
            collection,
            id,
            reference: reference.clone(),
        })
    }

    /// Fails if what the ref needs is not there: its database, its collection, the named thing
    /// itself.
    pub fn check_defined(&mut self, reference: &Ref) -> Result<()> {
        match reference.target {
            Target::Native(_) => self.schema_in(&reference.scope).map(drop),
            _ => self.resolve(reference).map(drop),
        }
    }

    /// The same of all refs among the values.
    pub fn check_all_defined(&mut self, values: &[Value]) -> Result<()> {
        let mut errors = Vec::new();
        for value in values {
            if let Value::Ref(reference) = value
                && let Err(undefined) = self.check_defined(reference)
            {
                errors.extend(undefined.0);
            }
        }
        Errors::unless_empty(errors)
    }

    /// The live version that reads see at this moment.
    pub fn live(&mut self, place: &Place) -> Option<(Timestamp, Contents)> {
        let version = match self.at {
            None => self.current(place),
            Some(at) => self.version_at(place, at),
        }?;
        let contents = version.contents?;
        (!self.is_expired(place, version.ts, &contents)).then_some((version.ts, contents))
    }

    /// Its fields.
    pub fn live_fields(&mut self, place: &Place) -> Option<(Timestamp, Arc<Fields>)> {
        let (ts, contents) = self.live(place)?;
        Some((ts, contents.fields().clone()))
    }

    pub fn current(&mut self, place: &Place) -> Option<Version> {
        let row = self
            .view
            .get(&rows::document(place.database(), place.collection, place.id).0)?;
        self.cost.bytes_read += row.len() as u64;
        self.work_on_row(row.len());
        Some(Version {
            ts: Timestamp(rows::number_at(&row, 0)),
            contents: Some(contents::of_row(row, 16, &place.schema)),
        })
    }

    /// The newest version up to `at`.
    pub fn version_at(&mut self, place: &Place, at: Timestamp) -> Option<Version> {
        if let Some(current) = self.current(place)
            && current.ts <= at
        {
            return Some(current);
        }
        let prefix = rows::history(place.database(), place.collection, place.id);
        let end = prefix.clone().number(at.0.saturating_add(1)).0;
        let (key, row) = self.view.rows(&prefix.0, &end, true, 1).pop()?;
        self.cost.bytes_read += row.len() as u64;
        Some(former_version(&prefix, &key, &row, &place.schema))
    }

    /// All versions there are, oldest first.
    pub fn versions(&mut self, place: &Place) -> Vec<Version> {
        let prefix = rows::history(place.database(), place.collection, place.id);
        let rows = self.view.rows(&prefix.0, &prefix.end(), false, usize::MAX);
        for (_, row) in &rows {
            self.cost.bytes_read += row.len() as u64;
            self.work_on_row(row.len());
        }
        let former = rows
            .iter()
            .map(|(key, row)| former_version(&prefix, key, row, &place.schema));
        let mut versions: Vec<Version> = former.collect();
        versions.extend(self.current(place));
        if let Some(at) = self.at {
            versions.retain(|version| version.ts <= at);
        }
        versions
    }

    /// The versions that may still be read, oldest first: among versions older than the
    /// collection's retention only the version current at its start.
    pub fn history(&mut self, place: &Place) -> Vec<Version> {
        let minimum = self.minimum(&place.schema, place.collection);
        let mut versions = self.versions(place);
        let older = versions.iter().take_while(|version| version.ts.0 <= minimum).count();
        versions.drain(..older.saturating_sub(1));
        if older > 0 && versions[0].contents.is_none() {
            versions.remove(0);
        }
        versions
    }

    /// The earliest time of which a collection may be read.
    pub fn minimum(&self, schema: &Schema, collection: u64) -> u64 {
        self.now_micros.saturating_sub(self.history_micros(schema, collection))
    }

    /// Returns the version current at `since`, then all later ones, oldest first.
    pub fn versions_since(&mut self, place: &Place, since: Timestamp) -> Vec<Version> {
        let current = self.current(place);
        if let Some(current) = current.clone().filter(|current| current.ts <= since) {
            return vec![current];
        }
        let prefix = rows::history(place.database(), place.collection, place.id);
        let later = prefix.clone().number(since.0.saturating_add(1)).0;
        let mut former = self.view.rows(&prefix.0, &later, true, 1);
        former.extend(self.view.rows(&later, &prefix.end(), false, usize::MAX));
        former.iter().for_each(|(_, row)| self.work_on_row(row.len()));
        let former = former
            .iter()
            .map(|(key, row)| former_version(&prefix, key, row, &place.schema));
        former.chain(current).collect()
    }

    fn is_expired(&mut self, place: &Place, ts: Timestamp, contents: &Contents) -> bool {
        let expiry = expiry_micros(place, ts, contents.ttl(), self.now_micros);
        let is_expired = expiry != 0 && expiry <= self.now_micros;
        if is_expired {
            self.show(expiry);
        }
        is_expired
    }

    /// Reads a document, and counts it.
    pub fn counted_document<T>(&mut self, place: &Place, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.cost.bytes_read;
        let answer = read(self);
        self.count_read(Counted::document(place), 1, self.cost.bytes_read - before);
        answer
    }

    /// Counts `bytes` that were read of a document, or of a set with `parts` parts.
    pub fn count_read(&mut self, of: Counted, parts: u64, bytes: u64) {
        self.cost.read_operations += self.operations.read(of, parts, bytes);
    }

    /// Counts `bytes` that were written of a document and its entries.
    pub fn count_written(&mut self, place: &Place, bytes: u64) {
        self.cost.write_operations += self.operations.written(Counted::document(place), bytes);
    }

    /// The document that reads see.
    pub fn document(&mut self, place: &Place) -> Option<Value> {
        let (ts, contents) = self.counted_document(place, |evaluation| evaluation.live(place))?;
        Some(Value::Document(Arc::new(Document {
            reference: place.reference.clone(),
            ts,
            contents,
            is_new: false,
        })))
    }

    /// The length of a collection's readable history.
    pub fn history_micros(&self, place_schema: &Schema, collection: u64) -> u64 {
        let collection = place_schema.collection_of(collection);
        match collection.map(|collection| collection.history_days) {
            None => HISTORY_MICROS_MIN,
            Some(None) => u64::MAX,
            Some(Some(days)) => (days.max(0) as u64)
                .saturating_mul(DAY_MICROS)
                .saturating_add(HISTORY_MICROS_MIN),
        }
    }

    /// Refuses a read older than the retained history.
    pub fn check_retained(&self, place_schema: &Schema, collection: u64) -> Result<()> {
        let (Some(at), true) = (self.at, self.in_the_past) else {
            return Ok(());
        };
        let minimum = self.minimum(place_schema, collection);
        if at.0 >= minimum {
            return Ok(());
        }
        let (requested, minimum) = (Time::from_micros(at.0 as i64), Time::from_micros(minimum as i64));
        Err(Errors::protocol(
            Code::BadRequest,
            format!("Requested timestamp {requested} less than minimum allowed timestamp {minimum}."),
        ))
    }

    /// Writes the next version; `None` deletes. `old` is the current one.
    pub fn write_version(&mut self, place: &Place, old: Option<&Version>, new: Option<Arc<Fields>>) -> Result<()> {
        let before = self.cost.bytes_written;
        let changed_entries = self.write_index_changes(place, old, new.as_ref())?;
        let key = rows::document(place.database(), place.collection, place.id);
        let mark = rows::history(place.database(), place.collection, place.id).number(Timestamp::PENDING.0);
        if let Some(old) = old.filter(|old| old.ts != Timestamp::PENDING) {
            self.put_former(place, old)?;
        }
        let now = self.now_micros;
        match &new {
            Some(fields) => {
                let expiry = expiry_micros(place, Timestamp::PENDING, fields.get("ttl"), now);
                let row = rows::encode_version(Timestamp::PENDING, expiry, fields, place.schema.as_ref());
                self.cost.bytes_written += row.bytes.len() as u64;
                self.work_on_row(row.bytes.len());
                self.check_written()?;
                let transaction = self.view.writing();
                transaction.forget_write(&mark.0);
                transaction.set_stamped(&key.0, &[], row.bytes, row.stamps);
            }
            None => {
                let stamp = codec::stamp(mark.0.len() - 8);
                let transaction = self.view.writing();
                transaction.clear(&key.0);
                transaction.set_stamped(&mark.0, &[stamp], vec![0], Vec::new());
            }
        }
        let more = DOCUMENT_BYTES_MORE + changed_entries as u64 * ENTRY_BYTES_MORE;
        self.count_written(place, self.cost.bytes_written - before + more);
        // A document's first version outdates nothing.
        if old.is_some() {
            self.drop_outdated(place);
        }
        Ok(())
    }

    /// Puts a version with a known time into the history.
    pub fn put_former(&mut self, place: &Place, version: &Version) -> Result<()> {
        let key = rows::history(place.database(), place.collection, place.id).number(version.ts.0);
        let row = match &version.contents {
            None => vec![0],
            Some(Contents::Stored(stored)) => [&[1], stored.bytes()].concat(),
            Some(Contents::Known(fields)) => {
                let mut encoded = codec::Encoder::default();
                encoded.bytes.push(1);
                encoded.fields(fields, place.schema.as_ref());
                encoded.bytes
            }
        };
        self.cost.bytes_written += row.len() as u64;
        self.work_on_row(row.len());
        self.check_written()?;
        self.view.writing().set(&key.0, &row);
        Ok(())
    }

    /// Drops versions that are followed by one which is itself too old to be missed.
    fn drop_outdated(&mut self, place: &Place) {
        let retained = self.history_micros(&place.schema, place.collection);
        let cutoff = self.now_micros.saturating_sub(retained);
        let prefix = rows::history(place.database(), place.collection, place.id);
        let end = prefix.clone().number(cutoff).0;
        let mut old: Vec<Vec<u8>> = Vec::new();
        self.view.snapshot_scan(&prefix.0, &end, false, &mut |key, _| {
            old.push(key.to_vec());
            match old.len() > DROPPED_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        old.pop();
        for key in old {
            self.view.writing().clear(&key);
        }
    }

    /// An id that has never been given out, rising with time. A document may have it all the same:
    /// its writer may have chosen it.
    pub fn new_id(&mut self) -> u64 {
        let id = self.host.new_id(self.now_micros);
        self.show(id >> ID_COUNT_BITS);
        id
    }

    /// An id for a new document of a built-in collection that is unused there or, for documents
    /// looked up only by id, anywhere.
    pub fn free_id(&mut self, native: Native) -> Result<u64> {
        loop {
            self.step(1)?;
            let id = self.new_id();
            if self.is_free(native, id) {
                return Ok(id);
            }
        }
    }

    /// Returns true if no schema object of the kind has the number, in this database or, where a
    /// registry spans all databases, in any.
    pub fn is_free(&mut self, native: Native, id: u64) -> bool {
        let document = rows::document(self.schema.database(), native as u64, id);
        let registered = match native {
            Native::Databases => Some(b'R'),
            Native::Keys => Some(b'K'),
            Native::Tokens => Some(b'T'),
            _ => None,
        };
        let registered = registered.map(|kind| Key::global(kind).number(id));
        let is_taken = |key: Key| self.view.get(&key.0).is_some();
        ![Some(document), registered].into_iter().flatten().any(is_taken)
    }

    /// The live version that writes see, at any read time.
    pub fn live_now(&mut self, place: &Place) -> Option<(Timestamp, Contents)> {
        let at = std::mem::replace(&mut self.at, self.present);
        let live = self.live(place);
        self.at = at;
        live
    }

    /// Writes are refused inside `at`.
    pub fn check_present(&self) -> Result<()> {
        match self.in_the_past {
            true => Err(Errors::new(
                Code::InvalidWriteTime,
                "Cannot write outside of snapshot time.",
            )),
            false => Ok(()),
        }
    }

    /// Writes to other databases are refused.
    pub fn check_own_scope(&self, reference: &Ref) -> Result<()> {
        match reference.scope.is_empty() {
            true => Ok(()),
            false => Err(Errors::argument("Cannot write a scoped ref.")),
        }
    }
}
