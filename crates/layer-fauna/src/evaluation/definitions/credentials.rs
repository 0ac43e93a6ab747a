//! Passwords of documents: one document has one, and who is not trusted proves the old one to set
//! another.

use std::sync::Arc;

use super::fields::{Definition, invalid_type};
use crate::credentials::secrets;
use crate::evaluation::Evaluation;
use crate::evaluation::authorization::Rights;
use crate::language::error::{Code, Errors, Failure, Result, check};
use crate::language::value::{Fields, Native, Ref, Target, Value};
use crate::storage::documents::{Place, Version};
use crate::storage::rows;

pub(super) fn credentials(definition: &mut Definition<'_>) {
    definition.need("instance", "Ref", |value| matches!(value, Value::Ref(_)));
    definition.data_and_ttl();
}

/// A document has one password.
pub(super) fn link_credentials(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields) -> Result<()> {
    let Some(Value::Ref(instance)) = fields.get("instance") else {
        return Ok(());
    };
    let key = evaluation.resolve(instance)?.credentials_key();
    let number = evaluation.view.get(&key.0).map(|row| rows::number_at(&row, 0));
    if number.is_some_and(|number| number != place.id) {
        return Err(Errors::new(Code::InstanceNotUnique, "document is not unique."));
    }
    evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
    Ok(())
}

/// Credentials that are given to another document are that one's from now on, and no longer the
/// first one's.
pub(super) fn relink_credentials(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    old: &Fields,
    new: &Fields,
) -> Result<()> {
    if old
        .get("instance")
        .zip(new.get("instance"))
        .is_some_and(|(old, new)| crate::storage::order::equal(old, new))
    {
        return Ok(());
    }
    unlink_credentials(evaluation, old);
    link_credentials(evaluation, place, new)
}

pub(super) fn unlink_credentials(evaluation: &mut Evaluation<'_>, fields: &Fields) {
    if let Some(Value::Ref(instance)) = fields.get("instance")
        && let Ok(instance) = evaluation.resolve(instance)
    {
        evaluation.view.writing().clear(&instance.credentials_key().0);
    }
}

fn check_credentials(params: &Fields) -> Result<()> {
    let mut failures = Vec::new();
    for key in ["password", "current_password", "hashed_password"] {
        let path = ["credentials", key];
        match params.get("credentials") {
            None | Some(Value::Null) => {}
            Some(Value::Object(entered)) => match entered.get(key) {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => failures.push(invalid_type(&path, other, "String")),
            },
            // The failure is reported for the two that a client gives.
            Some(_) if key == "hashed_password" => {}
            Some(other) => failures.push(invalid_type(&path, other, "Map")),
        }
    }
    check(failures)
}

/// Writes the credentials in the parameters of a document.
pub fn write_credentials(evaluation: &mut Evaluation<'_>, place: &Place, params: &Fields) -> Result<()> {
    check_credentials(params)?;
    let Some(Value::Object(entered)) = params.get("credentials") else {
        return Ok(());
    };
    let Some(hash) = new_hash(evaluation, entered, &["credentials", "hashed_password"])? else {
        return Ok(());
    };
    let stored = evaluation.view.get(&place.credentials_key().0);
    let id = match &stored {
        Some(row) => rows::number_at(row, 0),
        None => evaluation.free_id(Native::Credentials)?,
    };
    let credentials = Place {
        schema: place.schema.clone(),
        collection: Native::Credentials as u64,
        id,
        reference: Ref::new(Target::Numbered(Native::Credentials, id as i64)),
    };
    let old = evaluation.current(&credentials);
    let former = old.as_ref().and_then(Version::fields).cloned();
    let former_hash = former.as_ref().and_then(|former| former.string("hashed_password"));
    let is_trusted = evaluation.authorization.reads_everything();
    prove_password(
        evaluation,
        former_hash,
        entered,
        is_trusted,
        &["credentials", "current_password"],
    )?;
    let fields = Fields::new(vec![
        ("instance".into(), Value::Ref(place.reference.clone())),
        ("hashed_password".into(), hash),
    ]);
    evaluation
        .view
        .writing()
        .set(&place.credentials_key().0, &id.to_be_bytes());
    evaluation.write_version(&credentials, old.as_ref(), Some(Arc::new(fields)))
}

/// Returns the hash that a write gives a document: of its password, or as given by a caller
/// that is trusted with all documents; others' is passed over (as in the original).
pub(super) fn new_hash(
    evaluation: &mut Evaluation<'_>,
    params: &Fields,
    path: &[&'static str],
) -> Result<Option<Value>> {
    if let Some(password) = params.string("password") {
        return hash_password(evaluation, password).map(Some);
    }
    let hash = params.string("hashed_password");
    let Some(hash) = hash.filter(|_| evaluation.authorization.reads_everything()) else {
        return Ok(None);
    };
    match secrets::is_password_hash(hash) {
        true => Ok(Some(Value::String(hash.clone()))),
        false => {
            let description = "Value is no bcrypt hash that this server would compute.";
            check(vec![Failure::new(path, "invalid value", description)])?;
            Ok(None)
        }
    }
}

/// Hashing takes milliseconds, which not every thread has.
fn hash_password(evaluation: &mut Evaluation<'_>, password: &str) -> Result<Value> {
    evaluation.take_long()?;
    Ok(Value::string(secrets::hash_password(password)))
}

pub(super) fn with_new_password(
    evaluation: &mut Evaluation<'_>,
    fields: Fields,
    old: &Fields,
    params: &Fields,
) -> Result<Fields> {
    let Some(new) = new_hash(evaluation, params, &["hashed_password"])? else {
        return Ok(fields);
    };
    let is_server = matches!(evaluation.authorization.rights, Rights::Server | Rights::ServerReadonly);
    let hash = old.string("hashed_password");
    prove_password(evaluation, hash, params, is_server, &["current_password"])?;
    Ok(fields.with("hashed_password", new))
}

/// A caller that is not trusted must prove the old password to replace it. For credentials
/// themselves a server is trusted (as in the original's code), through a document any caller that
/// may read everything.
fn prove_password(
    evaluation: &mut Evaluation<'_>,
    hash: Option<&Arc<str>>,
    params: &Fields,
    is_trusted: bool,
    path: &[&'static str],
) -> Result<()> {
    let current = params.string("current_password");
    let Some(hash) = hash.filter(|_| !is_trusted) else {
        return Ok(());
    };
    evaluation.take_long()?;
    match current.is_some_and(|current| secrets::password_matches(current, hash)) {
        true => Ok(()),
        false => {
            let description = format!("Invalid password at `{}`.", path.join("."));
            check(vec![Failure::new(path, "invalid password", description)])
        }
    }
}
