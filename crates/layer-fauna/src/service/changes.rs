//! The meaning of effects to users of FaunaDB: documents put and deleted, those of schema objects
//! too.
//!
//! Histories, entries of indexes and registries follow from documents and are left out. Names of
//! collections are those of the latest schema: one that was renamed or deleted since is shown by
//! its present name.

use std::collections::HashMap;
use std::sync::Arc;

use quartet_engine::{Change, ChangeDecoder, Reader, Shown};
use quartet_model::{Effect, LayerId};

use crate::language::codec;
use crate::language::render;
use crate::language::value::{Native, Value, native_of};
use crate::storage::rows::{self, DatabaseNumber, Moment, View, number_at};
use crate::storage::schema::Schema;

/// Databases whose schemas are kept.
const SCHEMAS_MAX: usize = 100;

/// Tells documents.
#[derive(Default)]
pub struct FaunaChanges {
    schemas: HashMap<u64, Arc<Schema>>,
}

impl ChangeDecoder for FaunaChanges {
    fn layer(&self) -> LayerId {
        LayerId::Fauna
    }

    fn decode(&mut self, effect: Effect<'_>, reader: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>) {
        let Some((1, body)) = effect.start().split_first() else {
            return;
        };
        let database = number_at(body, 0);
        let Some((kind, place)) = body.get(8..).and_then(<[u8]>::split_first) else {
            return;
        };
        if *kind == b'V' {
            self.schemas.remove(&database);
        }
        if *kind == b'D' {
            let schema = self.schema(database, reader);
            changes.extend(told(effect, &schema, place));
        }
    }
}

impl FaunaChanges {
    fn schema(&mut self, database: u64, reader: &mut dyn FnMut() -> Option<Reader>) -> Arc<Schema> {
        if let Some(schema) = self.schemas.get(&database) {
            return schema.clone();
        }
        let Some(reader) = reader() else {
            return Arc::default();
        };
        let moment = Moment::of(reader);
        let schema = Schema::load(&mut View::Reader(&moment), DatabaseNumber(database), Vec::new());
        let schema = Arc::new(schema);
        if self.schemas.len() >= SCHEMAS_MAX {
            self.schemas.clear();
        }
        self.schemas.insert(database, schema.clone());
        schema
    }
}

fn told(effect: Effect<'_>, schema: &Arc<Schema>, place: &[u8]) -> Option<Change> {
    let (collection, id) = (number_at(place, 0), number_at(place, 8));
    let name = name_of(schema, collection);
    let about = |operation| {
        let change = Change::new(operation, name.as_bytes());
        change
            .with("database_number", Shown::Number(schema.database))
            .with_bytes("collection", name.as_bytes())
    };
    let with_id = |operation| about(operation).with_bytes("id", id.to_string().as_bytes());
    Some(match effect {
        Effect::Set { value, .. } => {
            let (ts, fields) = rows::decode_version(value, schema.as_ref());
            let document = render::compact(&Value::Object(fields));
            with_id("put")
                .with("ts", Shown::Number(ts.0))
                .with("document", Shown::Json(document))
        }
        Effect::Clear { .. } => with_id("delete"),
        Effect::ClearRange { .. } if place.len() == 8 => about("clear"),
        // Documents are written whole, and a row of another partition is no change.
        Effect::ClearRange { .. } | Effect::Patch { .. } | Effect::Row { .. } => return None,
    })
}

fn name_of(schema: &Schema, collection: u64) -> String {
    if let Some(native) = native_of(collection) {
        return Native::name(native).to_owned();
    }
    match schema.collection_of(collection) {
        Some(definition) => definition.name.to_string(),
        None => format!("{}{collection}", codec::DELETED),
    }
}
