//! Databases that are containers: they hold databases, keys, roles and access providers, but no
//! collections, indexes or functions.

use crate::evaluation::Evaluation;
use crate::language::error::{Code, Errors, Failure, Result};
use crate::language::value::{Fields, Native, Ref, Value};
use crate::storage::documents::Place;
use crate::storage::rows::{self, DatabaseNumber, Key};

fn is_barred(native: Native) -> bool {
    matches!(native, Native::Collections | Native::Indexes | Native::Functions)
}

fn is_container(fields: &Fields) -> bool {
    matches!(fields.get("container"), Some(Value::Bool(true)))
}

/// Refuses to make what a container may not hold, before anything else is looked at.
pub(super) fn check_allowed_here(evaluation: &mut Evaluation<'_>, native: Native) -> Result<()> {
    if !is_barred(native) {
        return Ok(());
    }
    let own = evaluation.schema.database().0;
    let Some(row) = evaluation.view.get(&Key::global(b'R').number(own).0) else {
        return Ok(());
    };
    let parent = DatabaseNumber(rows::number_at(&row, 0));
    let schema = evaluation.host.schema(&mut evaluation.view, parent);
    let place = Place {
        schema,
        collection: Native::Databases as u64,
        id: own,
        reference: Ref::native(Native::Databases),
    };
    match evaluation.live_fields(&place) {
        Some((_, database)) if is_container(&database) => Err(Errors::new(
            Code::InvalidObjectInContainer,
            "Object is not allowed in a container",
        )),
        _ => Ok(()),
    }
}

/// A database that holds something else becomes no container.
pub(super) fn check_can_be_container(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    old: &Fields,
    new: &Fields,
) -> Result<()> {
    if !is_container(new) || is_container(old) {
        return Ok(());
    }
    for native in [Native::Collections, Native::Indexes, Native::Functions] {
        let prefix = Key::of(DatabaseNumber(place.id), b'D').number(native as u64);
        if !evaluation.view.rows(&prefix.0, &prefix.end(), false, 1).is_empty() {
            let description =
                "cannot make database a container while it contains collections, indexes, or user functions";
            let failure = Failure::new(&[], "container candidate contains data", description);
            return Err(Errors::validation(vec![failure]));
        }
    }
    Ok(())
}
