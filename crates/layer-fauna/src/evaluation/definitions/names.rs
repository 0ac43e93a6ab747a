//! Names of schema objects, the registry of databases, and the stamp that says that a schema has
//! changed.

use crate::evaluation::Evaluation;
use crate::language::codec;
use crate::language::error::{Errors, Result};
use crate::language::value::{Fields, Native, Ref, Target};
use crate::storage::documents::Place;
use crate::storage::rows::{self, DatabaseNumber, Key};

/// Notes a change of a compiled schema's parts. The rest of the query sees the schema as it is now.
pub(super) fn schema_changed(evaluation: &mut Evaluation<'_>, native: Native, database: DatabaseNumber) {
    if !native.has_names() {
        return;
    }
    let key = rows::schema_stamp(database);
    let transaction = evaluation.view.writing();
    transaction.set_stamped(&key.0, &[], vec![0xff; 8], vec![codec::stamp(0)]);
    if database == evaluation.schema.database() {
        evaluation.schema = evaluation.host.schema(&mut evaluation.view, database);
    }
}

pub(super) fn take_name(evaluation: &mut Evaluation<'_>, place: &Place) -> Result<()> {
    let Target::Named(native, name) = &place.reference.target else {
        return Ok(());
    };
    let key = rows::name(place.database(), *native as u8, name);
    if evaluation.view.get(&key.0).is_some() {
        return Err(Errors::already_exists(&place.reference));
    }
    evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
    // For an index and a database the original reads the present state.
    if !matches!(native, Native::Indexes | Native::Databases) {
        evaluation.names_given.push((*native, name.clone()));
    }
    Ok(())
}

pub(super) fn register_database(evaluation: &mut Evaluation<'_>, number: u64, parent: DatabaseNumber) {
    let key = Key::global(b'R').number(number);
    evaluation.view.writing().set(&key.0, &parent.0.to_be_bytes());
}

pub(super) fn renamed(evaluation: &mut Evaluation<'_>, place: &Place, native: Native, fields: &Fields) -> Result<Ref> {
    let name = fields.string("name").cloned().unwrap_or_else(|| "".into());
    let old = place.reference.id();
    if name == old {
        return Ok(place.reference.clone());
    }
    let moved = Place {
        reference: Ref::named(native, name),
        ..place.clone()
    };
    take_name(evaluation, &moved)?;
    evaluation
        .view
        .writing()
        .clear(&rows::name(place.database(), native as u8, &old).0);
    Ok(moved.reference)
}
