//! Identities: logging in and out, and querying the caller's identity.

use std::sync::Arc;

use super::reads::first_element;
use crate::credentials::jwt;
use crate::credentials::secrets::{self, Claim};
use crate::evaluation::definitions;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::codec::storable;
use crate::language::error::{Code, Errors, Result, Step};
use crate::language::value::{Native, Ref, Target, Value};
use crate::storage::documents::Place;
use crate::storage::rows::{self, DatabaseNumber, Key};

fn failed() -> Errors {
    Errors::new(
        Code::AuthenticationFailed,
        "The document was not found or provided password was incorrect.",
    )
}

/// The document whose credentials are meant: a ref, or the first of a set now, if the set may be
/// read.
fn identity_of(evaluation: &mut Evaluation<'_>, operand: &Value, key: &'static str) -> Result<Option<Ref>> {
    match operand {
        Value::Ref(reference) if !matches!(reference.target, Target::Native(_)) => Ok(Some(reference.clone())),
        set => {
            let at = std::mem::replace(&mut evaluation.at, evaluation.present);
            let element = first_element(evaluation, set);
            evaluation.at = at;
            element.map_err(|errors| match errors.is_only(&[Code::PermissionDenied]) {
                true => errors.within(Step::Key(key)),
                false => errors,
            })
        }
    }
}

/// The document, if this is its password.
fn password_fits(
    evaluation: &mut Evaluation<'_>,
    operand: &Value,
    password: &Value,
    key: &'static str,
) -> Result<Option<Ref>> {
    let identity = identity_of(evaluation, operand, key)?;
    let Some((identity, hash)) = identity.and_then(|identity| password_of(evaluation, identity)) else {
        return Ok(None);
    };
    let password = match password {
        Value::String(password) => password,
        Value::Null => return Ok(None),
        other => {
            let wrong = definitions::invalid_type(&["password"], other, "String");
            return Err(Errors::validation(vec![wrong]));
        }
    };
    evaluation.take_long()?;
    Ok(secrets::password_matches(password, &hash).then_some(identity))
}

fn password_of(evaluation: &mut Evaluation<'_>, identity: Ref) -> Option<(Ref, Arc<str>)> {
    let place = evaluation.resolve(&identity).ok()?;
    evaluation.live(&place)?;
    let credentials = evaluation.credentials_of(&identity)?;
    let credentials = evaluation.resolve(&credentials).ok()?;
    let (_, fields) = evaluation.counted_document(&credentials, |evaluation| evaluation.live_fields(&credentials))?;
    Some((identity, fields.string("hashed_password")?.clone()))
}

pub fn login(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let params = arguments.value(1).as_object().cloned().unwrap_or_default();
    let password = params.get("password").cloned().unwrap_or(Value::Null);
    let identity = password_fits(evaluation, arguments.value(0), &password, "login")?.ok_or_else(failed)?;
    evaluation.check_present()?;
    let retained = params
        .entries
        .iter()
        .filter(|(key, _)| matches!(&**key, "ttl" | "data"))
        .cloned();
    let entries = [("instance".into(), Value::Ref(identity))]
        .into_iter()
        .chain(retained)
        .collect();
    let fields = storable(&Value::object(entries));
    let fields = fields.as_object().cloned().unwrap_or_default();
    // A caller that knows the password may have the token, regardless of the key's other rights.
    let rights = std::mem::replace(
        &mut evaluation.authorization.rights,
        crate::evaluation::authorization::Rights::Admin,
    );
    let token = definitions::create(evaluation, Native::Tokens, None, &fields);
    evaluation.authorization.rights = rights;
    token
}

pub fn logout(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let all = matches!(arguments.value(0), Value::Bool(true));
    let authorization = &evaluation.authorization;
    let tokens = match (all, authorization.identity.clone(), authorization.token.clone()) {
        (true, Some(identity), _) => tokens_of(evaluation, &identity),
        (false, Some(_), Some(Value::Ref(token))) => vec![token],
        _ => return Ok(Value::Bool(false)),
    };
    let rights = std::mem::replace(
        &mut evaluation.authorization.rights,
        crate::evaluation::authorization::Rights::Admin,
    );
    let mut deleted = Ok(());
    for token in &tokens {
        deleted = deleted.and_then(|()| definitions::delete(evaluation, token).map(drop));
    }
    evaluation.authorization.rights = rights;
    deleted.map(|()| Value::Bool(true))
}

fn tokens_of(evaluation: &mut Evaluation<'_>, identity: &Ref) -> Vec<Ref> {
    let prefix = Key::of(evaluation.schema.database(), b'D').number(Native::Tokens as u64);
    let rows = evaluation.view.rows(&prefix.0, &prefix.end(), false, usize::MAX);
    let schema = evaluation.schema.clone();
    let own = rows.iter().filter_map(|(key, row)| {
        let (_, fields) = crate::storage::rows::decode_version(row, schema.as_ref());
        let is_own = matches!(fields.get("instance"), Some(Value::Ref(instance)) if instance == identity);
        let id = rows::number_at(key, prefix.0.len());
        is_own.then(|| Ref::new(Target::Numbered(Native::Tokens, id as i64)))
    });
    own.collect()
}

pub fn identify(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let fits = password_fits(evaluation, arguments.value(0), arguments.value(1), "identify")?;
    Ok(Value::Bool(fits.is_some()))
}

/// The document that logged in, or the subject of a JWT.
fn current(evaluation: &Evaluation<'_>) -> Option<Value> {
    let document = evaluation.authorization.identity.clone().map(Value::Ref);
    let claims = evaluation.authorization.token.as_ref().and_then(Value::as_object);
    document.or_else(|| claims?.get("sub").cloned())
}

pub fn identity(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    current(evaluation).ok_or_else(|| Errors::new(Code::MissingIdentity, "Authentication does not contain an identity"))
}

pub fn has_identity(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    Ok(Value::Bool(current(evaluation).is_some()))
}

pub fn current_token(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    let token = evaluation.authorization.token.clone();
    token.ok_or_else(|| Errors::new(Code::InvalidToken, "Token metadata is not accessible."))
}

pub fn has_current_token(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    Ok(Value::Bool(evaluation.authorization.token.is_some()))
}

/// The document of the key or the token with this secret, in this database or any below it.
pub fn key_from_secret(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let secret = arguments.text(0);
    if jwt::is_token(secret) {
        return database_of(evaluation, secret);
    }
    key_of(evaluation, secret).ok_or_else(|| no_key(secret))
}

fn no_key(secret: &str) -> Errors {
    let message = format!("No key found for secret {secret}.");
    Errors::new(Code::InstanceNotFoundHere, message)
}

/// A JWT is not a key; the result is its database, if that is below this database.
fn database_of(evaluation: &mut Evaluation<'_>, secret: &str) -> Result<Value> {
    use crate::language::value::Names;
    let not_found = || no_key(secret);
    let host = evaluation.host;
    if !host.keys_are_ready(&mut evaluation.view, secret) {
        evaluation.take_long()?;
        host.make_keys_ready(&mut evaluation.view, secret);
    }
    let database = host.database_of(&mut evaluation.view, secret).ok_or_else(not_found)?;
    let name = evaluation.schema.name(Native::Databases, database.0);
    let database = Ref::named(Native::Databases, name.ok_or_else(Errors::denied)?);
    evaluation.permit("read", &database, &[])?;
    Ok(Value::object(vec![("database".into(), Value::Ref(database))]))
}

fn key_of(evaluation: &mut Evaluation<'_>, secret: &str) -> Option<Value> {
    let (registry, native, id, hash_at) = match secrets::claim(secret)? {
        Claim::Key(id) => (b'K', Native::Keys, id, 16),
        Claim::Token(id) => (b'T', Native::Tokens, id, 8),
    };
    let row = evaluation.view.get_latest(&Key::global(registry).number(id).0)?;
    if row.get(hash_at..hash_at + 32)? != secrets::hash(secret) {
        return None;
    }
    let scope = evaluation.scope_of(DatabaseNumber(rows::number_at(&row, 0)))?;
    let reference = Ref::new(Target::Numbered(native, id as i64)).with_scope(scope);
    evaluation.permit("read", &reference, &[]).ok()?;
    let place: Place = evaluation.resolve(&reference).ok()?;
    evaluation.document(&place)
}
