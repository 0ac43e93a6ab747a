//! Deletion of everything that belongs to a schema object, or to a document.

use super::credentials::unlink_credentials;
use super::keys::registers_key;
use super::names::schema_changed;
use crate::evaluation::Evaluation;
use crate::language::error::Result;
use crate::language::value::{Fields, Native, Ref, Target};
use crate::storage::documents::{Place, Version};
use crate::storage::rows::{self, DatabaseNumber, Key};

/// With a document go its credentials.
pub fn delete_credentials(evaluation: &mut Evaluation<'_>, place: &Place) -> Result<()> {
    let key = place.credentials_key();
    let Some(row) = evaluation.view.get(&key.0) else {
        return Ok(());
    };
    let id = rows::number_at(&row, 0);
    evaluation.view.writing().clear(&key.0);
    end_by_ref(evaluation, Ref::new(Target::Numbered(Native::Credentials, id as i64)))
}

/// Ends what has expired, with what went with it.
pub fn end_document(evaluation: &mut Evaluation<'_>, place: &Place, version: &Version) -> Result<()> {
    evaluation.write_version(place, Some(version), None)?;
    match (place.native(), version.fields()) {
        (Some(native), Some(fields)) => forget(evaluation, place, native, fields),
        _ => Ok(()),
    }
}

/// Deletes a document for the sake of another.
fn end_by_ref(evaluation: &mut Evaluation<'_>, reference: Ref) -> Result<()> {
    let place = evaluation.resolve(&reference)?;
    match evaluation.current(&place) {
        Some(version) => evaluation.write_version(&place, Some(&version), None),
        None => Ok(()),
    }
}

/// Takes away what went with a schema object.
pub(super) fn forget(evaluation: &mut Evaluation<'_>, place: &Place, native: Native, fields: &Fields) -> Result<()> {
    let database = place.database();
    if native.has_names() {
        let key = rows::name(database, native as u8, &place.reference.id());
        evaluation.view.writing().clear(&key.0);
    }
    match native {
        Native::Databases => forget_database(evaluation, DatabaseNumber(place.id)),
        Native::Collections => {
            for kind in [b'D', b'H', b'W', b'C'] {
                clear_later(evaluation, &Key::of(database, kind).number(place.id));
            }
            forget_indexes_of(evaluation, place.id)?;
        }
        Native::Indexes => {
            for kind in [b'E', b'L'] {
                clear_later(evaluation, &Key::of(database, kind).number(place.id));
            }
            evaluation
                .view
                .writing()
                .clear(&Key::global(b'B').number(database.0).number(place.id).0);
        }
        Native::Keys => {
            if registers_key(evaluation, place) {
                evaluation.view.writing().clear(&Key::global(b'K').number(place.id).0);
            }
        }
        Native::Tokens => evaluation.view.writing().clear(&Key::global(b'T').number(place.id).0),
        Native::Credentials => unlink_credentials(evaluation, fields),
        Native::AccessProviders => {
            let issuer = fields.string("issuer").cloned().unwrap_or_else(|| "".into());
            evaluation
                .view
                .writing()
                .clear(&Key::of(database, b'P').bytes(issuer.as_bytes()).0);
        }
        Native::Functions | Native::Roles => {}
    }
    Ok(())
}

/// Removes the indexes over only this collection.
fn forget_indexes_of(evaluation: &mut Evaluation<'_>, collection: u64) -> Result<()> {
    let schema = evaluation.schema.clone();
    for index in schema.indexes_over(collection) {
        let alone = index.sources.iter().all(|source| source.collection == Some(collection));
        let reference = Ref::named(Native::Indexes, index.name.clone());
        if alone && let Ok(place) = evaluation.resolve(&reference) {
            end_by_ref(evaluation, reference)?;
            forget(evaluation, &place, Native::Indexes, &Fields::default())?;
        }
    }
    Ok(())
}

/// Unregisters a database and all below it; their keys lead nowhere from now on.
fn forget_database(evaluation: &mut Evaluation<'_>, database: DatabaseNumber) {
    let children = Key::of(database, b'D').number(Native::Databases as u64);
    for (key, _) in evaluation.view.rows(&children.0, &children.end(), false, usize::MAX) {
        forget_database(evaluation, DatabaseNumber(rows::number_at(&key, children.0.len())));
    }
    // Concurrent users of it must notice.
    schema_changed(evaluation, Native::Collections, database);
    evaluation.view.writing().clear(&Key::global(b'R').number(database.0).0);
    clear_later(evaluation, &Key::database(database));
}

/// Leaves the rows below a prefix to be cleared in the background.
fn clear_later(evaluation: &mut Evaluation<'_>, prefix: &Key) {
    let key = Key::global(b'X').bytes(&prefix.0);
    evaluation.view.writing().set(&key.0, &[]);
    evaluation.host.work_is_left();
}
