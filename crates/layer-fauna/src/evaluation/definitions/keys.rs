//! Keys and tokens: what they must have, their secrets, and the rows by which a secret is found.

use std::sync::Arc;

use super::fields::{Definition, invalid_type, is_priority};
use super::roles::is_role;
use crate::credentials::secrets::{self, Claim, Secret};
use crate::evaluation::Evaluation;
use crate::language::codec;
use crate::language::error::{Errors, Failure, Result, check};
use crate::language::value::{Fields, Native, NoNames, Value};
use crate::storage::documents::Place;
use crate::storage::rows::{self, Key};

pub(super) fn key(definition: &mut Definition<'_>) {
    definition.take(
        "database",
        "Database Ref",
        |value| matches!(value, Value::Ref(reference) if reference.names(Native::Databases)),
    );
    definition.need("role", "Role", is_role);
    definition.take("priority", "Priority", is_priority);
    definition.data_and_ttl();
}

pub(super) fn token(definition: &mut Definition<'_>) {
    definition.need("instance", "Ref", |value| matches!(value, Value::Ref(_)));
    definition.data_and_ttl();
}

/// Fields as stored, and as the reply shows them if it shows more.
type StoredAndShown = (Fields, Option<Fields>);

/// A given hash replaces a new secret.
fn told_hash(params: &Fields) -> Result<Option<Arc<str>>> {
    match params.get("hashed_secret") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(hash)) => Ok(Some(hash.clone())),
        Some(other) => Err(Errors::validation(vec![invalid_type(
            &["hashed_secret"],
            other,
            "String",
        )])),
    }
}

pub(super) fn with_key_secret(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    fields: Fields,
    params: &Fields,
) -> Result<StoredAndShown> {
    if let Some(hash_text) = told_hash(params)? {
        if let Some(hash) = secrets::hash_shown_as(&hash_text) {
            register_key(evaluation, place, &fields, &hash)?;
        }
        return Ok((fields.with("hashed_secret", Value::String(hash_text)), None));
    }
    let secret = Secret::key(evaluation.host.elsewhere(), place.id, &evaluation.host.random());
    register_key(evaluation, place, &fields, &secret.hash())?;
    let stored = fields.with("hashed_secret", Value::string(secret.shown_hash()));
    let shown_fields = fields.with("secret", Value::string(secret.text.as_str()));
    let shown_fields = shown_fields.with("hashed_secret", Value::string(secret.shown_hash()));
    Ok((stored, Some(shown_fields)))
}

/// Returns whether a key's row in the registry belongs to the key of this database; the history of
/// a key of any number can be written.
pub(super) fn registers_key(evaluation: &mut Evaluation<'_>, place: &Place) -> bool {
    let row = evaluation.view.get(&Key::global(b'K').number(place.id).0);
    row.is_some_and(|row| rows::number_at(&row, 0) == place.database().0)
}

/// A given secret must be one of the key itself.
pub(super) fn check_secret(place: &Place, params: &Fields) -> Result<()> {
    let failure = match params.get("secret") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(secret)) if secrets::claim(secret) == Some(Claim::Key(place.id)) => return Ok(()),
        Some(Value::String(_)) => Failure::new(&["secret"], "invalid secret", "Invalid secret at `List(secret)`"),
        Some(other) => invalid_type(&["secret"], other, "String"),
    };
    check(vec![failure])
}

/// A key opens the database that its newest version names; without a secret it opens nothing.
pub fn settle_key(evaluation: &mut Evaluation<'_>, place: &Place) -> Result<()> {
    if !registers_key(evaluation, place) {
        return Ok(());
    }
    let newest = evaluation.current(place).and_then(|newest| newest.fields().cloned());
    let hash = newest
        .as_ref()
        .and_then(|key| secrets::hash_shown_as(key.string("hashed_secret")?));
    match newest.zip(hash) {
        Some((key, hash)) => register_key(evaluation, place, &key, &hash),
        None => {
            evaluation.view.writing().clear(&Key::global(b'K').number(place.id).0);
            Ok(())
        }
    }
}

pub(super) fn register_key(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields, hash: &[u8]) -> Result<()> {
    let target = match fields.get("database") {
        Some(Value::Ref(database)) => {
            let resolved = evaluation.resolve(database).map_err(|_| {
                Errors::validation(vec![Failure::new(
                    &["database"],
                    "invalid reference",
                    "Cannot read reference.",
                )])
            })?;
            resolved.id
        }
        _ => place.database().0,
    };
    let mut role = codec::Encoder::default();
    role.value(fields.get("role").unwrap_or(&Value::Null), &NoNames);
    let own = place.database().0.to_be_bytes();
    let row = [&own[..], &target.to_be_bytes(), hash, &role.bytes].concat();
    evaluation
        .view
        .writing()
        .set(&Key::global(b'K').number(place.id).0, &row);
    Ok(())
}

/// The document of a token must exist.
fn check_instance(evaluation: &mut Evaluation<'_>, fields: &Fields) -> Result<()> {
    let Some(Value::Ref(instance)) = fields.get("instance") else {
        return Ok(());
    };
    let place = evaluation.resolve(instance).ok();
    match place.and_then(|place| evaluation.live(&place)) {
        Some(_) => Ok(()),
        None => {
            let failure = Failure::new(&["instance"], "invalid reference", "Cannot read reference.");
            Err(Errors::validation(vec![failure]))
        }
    }
}

pub(super) fn with_token_secret(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    fields: Fields,
    params: &Fields,
) -> Result<StoredAndShown> {
    check_instance(evaluation, &fields)?;
    if let Some(hash_text) = told_hash(params)? {
        let key = Key::global(b'T').number(place.id);
        match secrets::hash_shown_as(&hash_text) {
            Some(hash) => {
                let row = [&place.database().0.to_be_bytes()[..], &hash].concat();
                evaluation.view.writing().set(&key.0, &row);
            }
            None => evaluation.view.writing().clear(&key.0),
        }
        let stored = fields.with("hashed_secret", Value::String(hash_text));
        return Ok((stored, Some(fields)));
    }
    let secret = Secret::token(
        evaluation.host.elsewhere(),
        place.id,
        place.database().0,
        &evaluation.host.random(),
    );
    let row = [&place.database().0.to_be_bytes()[..], &secret.hash()].concat();
    evaluation
        .view
        .writing()
        .set(&Key::global(b'T').number(place.id).0, &row);
    let stored = fields.with("hashed_secret", Value::string(secret.shown_hash()));
    let shown_fields = fields.with("secret", Value::string(secret.text.as_str()));
    Ok((stored, Some(shown_fields)))
}
