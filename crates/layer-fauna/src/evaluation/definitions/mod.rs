//! Schema objects: how each is made, changed, deleted and moved.
//!
//! Each kind is checked into the fields of a document; names have rows of their own; databases,
//! keys, tokens and access providers have entries in the installation's registry as well, by which
//! a secret finds its database.
//!
//! | file               | what it is                                                              |
//! |--------------------|-------------------------------------------------------------------------|
//! | `fields`           | gathers the fields of a definition and its failures                     |
//! | `indexes`          | required fields of an index, filling a new one, permitted changes       |
//! | `roles`            | required fields of a role, and the roles that may be named              |
//! | `keys`             | keys and tokens: their secrets, and the rows of their look-up           |
//! | `credentials`      | passwords of documents                                                  |
//! | `access_providers` | required fields of an access provider; its issuer is unique             |
//! | `containers`       | databases that hold only databases and keys                             |
//! | `names`            | names, the registry of databases, and that the schema has changed       |
//! | `removal`          | everything removed with a schema object or a document                   |

mod access_providers;
mod containers;
mod credentials;
mod fields;
mod indexes;
mod keys;
mod names;
mod removal;
mod roles;

pub use self::credentials::write_credentials;
pub use self::fields::invalid_type;
pub use self::keys::settle_key;
pub use self::removal::{delete_credentials, end_document};

use std::sync::Arc;

use self::access_providers::take_issuer;
use self::containers::{check_allowed_here, check_can_be_container};
use self::credentials::{link_credentials, new_hash, relink_credentials, with_new_password};
use self::fields::{Definition, is_bool, is_integer, is_priority, is_query, rank, storable_definition};
use self::indexes::{build_index, check_index_change, check_partitions, check_still_unique};
use self::keys::{check_secret, register_key, with_key_secret, with_token_secret};
use self::names::{register_database, renamed, schema_changed, take_name};
use self::removal::forget;
use self::roles::{check_roles_of_members, is_role, unknown_roles, wrong_arities};
use crate::credentials::secrets;
use crate::evaluation::Evaluation;
use crate::evaluation::authorization::CHANGE_PASSWORD;
use crate::language::error::{Code, Errors, Failure, Result, Within, check};
use crate::language::value::{Fields, Native, Ref, Target, Timestamp, Value};
use crate::storage::documents::{Place, Version, merge, shown, shown_new};
use crate::storage::rows::{self, DatabaseNumber, Key};

const COLLECTIONS_MAX: usize = 1024;

/// The occasion of a definition's check: some fields have defaults only when it is new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DefinitionChange {
    Create,
    Update,
    Replace,
}

/// Returns the checked fields of a schema object. Faults in the roles it names are reported with
/// the rest.
fn checked(native: Native, params: &Fields, occasion: DefinitionChange, unknown_roles: Vec<Failure>) -> Result<Fields> {
    let mut definition = Definition {
        params,
        entries: Vec::new(),
        failures: Vec::new(),
    };
    let is_new = occasion == DefinitionChange::Create;
    match native {
        Native::Databases => database(&mut definition),
        Native::Collections => collection(&mut definition, is_new),
        Native::Indexes => indexes::index(&mut definition, occasion),
        Native::Functions => function(&mut definition),
        Native::Roles => roles::role(&mut definition),
        Native::Keys => keys::key(&mut definition),
        Native::Tokens => keys::token(&mut definition),
        Native::Credentials => credentials::credentials(&mut definition),
        Native::AccessProviders => access_providers::access_provider(&mut definition),
    }
    if native == Native::Functions && definition.failures.len() == 1 && definition.params.string("body").is_some() {
        // The later language writes bodies as text.
        let message = "Invalid type provided for field `body`.";
        return Err(Errors::new(Code::SchemaValidationFailed, message));
    }
    let mut failures = definition.failures;
    failures.sort_by_key(|failure| rank(native, failure));
    failures.extend(unknown_roles);
    if native == Native::Roles {
        failures.extend(wrong_arities(params));
    }
    check(failures)?;
    let fields = storable_definition(definition.entries);
    Ok(fields)
}

fn database(definition: &mut Definition<'_>) {
    definition.name();
    definition.data();
    definition.take("priority", "Priority", is_priority);
    definition.take("container", "Boolean", is_bool);
}

fn collection(definition: &mut Definition<'_>, is_new: bool) {
    match definition.params.get("history_days") {
        None if is_new => definition.put("history_days", Value::Int(0)),
        _ => drop(definition.take("history_days", "Long", is_integer)),
    }
    if matches!(definition.given("history_days"), Some(Value::Int(..0))) {
        let description = "Value must be non-negative.";
        definition.refuse("history_days", "non-negative value required", description);
    }
    definition.name();
    definition.data();
    definition.take("ttl_days", "Long", is_integer);
}

fn function(definition: &mut Definition<'_>) {
    definition.name();
    definition.need("body", "Query", is_query);
    definition.take("role", "Role", is_role);
    definition.data();
}

/// Creates a schema object. `chosen` is the number of an imported key, token or credentials with
/// the hash of their secret or password; other numbers are new.
pub fn create(
    evaluation: &mut Evaluation<'_>,
    native: Native,
    chosen: Option<u64>,
    params: &Arc<Fields>,
) -> Result<Value> {
    let reference = Ref::native(native);
    evaluation.check_present()?;
    evaluation.permit_on("create", &reference, &[Value::Object(params.clone())])?;
    check_allowed_here(evaluation, native)?;
    let unknown_roles = unknown_roles(evaluation, native, params);
    let fields = checked(native, params, DefinitionChange::Create, unknown_roles)?;
    let id = match chosen {
        Some(id) if evaluation.is_free(native, id) => id,
        Some(id) => return Err(Errors::already_exists(&Ref::new(Target::Numbered(native, id as i64)))),
        None => evaluation.free_id(native)?,
    };
    let reference = match native.has_names() {
        true => Ref::named(native, fields.string("name").cloned().unwrap_or_else(|| "".into())),
        false => Ref::new(Target::Numbered(native, id as i64)),
    };
    let place = Place {
        schema: evaluation.schema.clone(),
        collection: native as u64,
        id,
        reference,
    };
    if native.has_names() {
        take_name(evaluation, &place)?;
    }
    create_at(evaluation, native, &place, fields, params)
}

fn create_at(
    evaluation: &mut Evaluation<'_>,
    native: Native,
    place: &Place,
    fields: Fields,
    params: &Fields,
) -> Result<Value> {
    let (stored, reply) = match native {
        Native::Databases => {
            let fields = fields.with("global_id", Value::string(secrets::global_id(place.id)));
            register_database(evaluation, place.id, place.database());
            (fields, None)
        }
        Native::Collections => {
            if evaluation.schema.collections().count() >= COLLECTIONS_MAX {
                return Err(Errors::validation(vec![Failure::new(
                    &["name"],
                    "resources exceeded",
                    "Too many collections.",
                )]));
            }
            (fields, None)
        }
        Native::Indexes => (build_index(evaluation, place, fields)?, None),
        Native::Functions => (fields, None),
        Native::Roles => {
            check_roles_of_members(evaluation, place, &fields, &["create_role"])?;
            (fields, None)
        }
        Native::Keys => {
            check_secret(place, params)?;
            with_key_secret(evaluation, place, fields, params)?
        }
        Native::Tokens => with_token_secret(evaluation, place, fields, params)?,
        Native::Credentials => {
            let hash = new_hash(evaluation, params, &["hashed_password"])?;
            let hash = hash.ok_or_else(|| {
                Errors::validation(vec![Failure::new(
                    &["password"],
                    "value required",
                    "Required value not found.",
                )])
            })?;
            link_credentials(evaluation, place, &fields)?;
            (fields.with("hashed_password", hash), None)
        }
        Native::AccessProviders => {
            take_issuer(evaluation, place, &fields)?;
            let audience = secrets::audience(evaluation.host.elsewhere(), place.database().0);
            (fields.with("audience", Value::string(audience)), None)
        }
    };
    let stored = Arc::new(stored);
    evaluation.write_version(place, None, Some(stored.clone()))?;
    schema_changed(evaluation, native, place.database());
    Ok(shown_new(&place.reference, reply.map_or(stored, Arc::new)))
}

/// Returns a version inserted into the history of a key: it has no secret but a given one of its
/// own.
pub fn inserted_key(place: &Place, params: &Fields) -> Result<Arc<Fields>> {
    let fields = checked(Native::Keys, params, DefinitionChange::Create, Vec::new())?;
    check_secret(place, params)?;
    Ok(Arc::new(match params.string("secret") {
        Some(secret) => fields.with("hashed_secret", Value::string(secrets::shown_hash(secret))),
        None => fields,
    }))
}

/// `update` and `replace` of schema objects.
pub fn change(
    evaluation: &mut Evaluation<'_>,
    reference: &Ref,
    params: &Arc<Fields>,
    replace: bool,
    key: &'static str,
) -> Result<Value> {
    let place = evaluation.resolve(reference).within(key)?;
    let native = place.native().ok_or_else(|| Errors::not_found(reference)).within(key)?;
    let (ts, old) = evaluation
        .live_fields(&place)
        .ok_or_else(|| Errors::not_found(reference))
        .within(key)?;
    let new = match replace {
        true => params.clone(),
        false => Arc::new(merge(&old, params)),
    };
    let arguments = [
        Value::Object(old.clone()),
        Value::Object(new),
        Value::Ref(reference.clone()),
    ];
    let is_own_password = native == Native::Credentials
        && changes_password_alone(params, replace)
        && evaluation.permit(CHANGE_PASSWORD, reference, &arguments).is_ok();
    if !is_own_password {
        // A denial has the position of the form itself.
        evaluation.permit("write", reference, &arguments)?;
    }
    evaluation.check_present()?;
    changed(
        evaluation,
        &place,
        native,
        Version {
            ts,
            contents: Some(old.clone().into()),
        },
        &old,
        params,
        replace,
    )
}

/// Returns true if only the password is changed; the owner of the credentials stays.
fn changes_password_alone(params: &Fields, replace: bool) -> bool {
    let is_of_password = |key: &str| matches!(key, "password" | "current_password");
    !replace && params.entries.iter().all(|(key, _)| is_of_password(key))
}

/// Fields that the server made, which no change takes away.
const KEPT: [&str; 5] = ["global_id", "hashed_secret", "hashed_password", "audience", "active"];

fn changed(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    native: Native,
    version: Version,
    old: &Arc<Fields>,
    params: &Arc<Fields>,
    replace: bool,
) -> Result<Value> {
    let combined = match replace {
        false if native == Native::Indexes => indexes::merged(old, params),
        false => merge(old, params),
        true => {
            let mut entries = params.entries.clone();
            let missing = old
                .entries
                .iter()
                .filter(|(key, _)| params.get(key).is_none() && is_kept(native, key));
            entries.extend(missing.cloned());
            Fields::new(entries)
        }
    };
    let occasion = if replace {
        DefinitionChange::Replace
    } else {
        DefinitionChange::Update
    };
    let unknown_roles = unknown_roles(evaluation, native, &combined);
    let mut fields = checked(native, &combined, occasion, unknown_roles)?;
    match native {
        Native::Indexes => {
            check_partitions(old, &fields)?;
            check_index_change(old, &fields)?;
            check_still_unique(evaluation, place, old, &fields)?;
        }
        Native::Databases => check_can_be_container(evaluation, place, old, &fields)?,
        _ => {}
    }
    for key in KEPT {
        if let Some(value) = old.get(key) {
            fields = fields.with(key, value.clone());
        }
    }
    if native == Native::Credentials {
        fields = with_new_password(evaluation, fields, old, params)?;
    }
    let mut place = place.clone();
    let mut shown_fields = None;
    if native.has_names() {
        place.reference = renamed(evaluation, &place, native, &fields)?;
    }
    match native {
        Native::Keys => {
            check_secret(&place, params)?;
            let row = evaluation.view.get(&Key::global(b'K').number(place.id).0);
            let hash = row.filter(|row| rows::number_at(row, 0) == place.database().0);
            if let Some(hash) = hash.and_then(|row| Some(row.get(16..48)?.to_vec())) {
                register_key(evaluation, &place, &fields, &hash)?;
            }
        }
        Native::AccessProviders => take_issuer(evaluation, &place, &fields)?,
        Native::Roles => check_roles_of_members(evaluation, &place, &fields, &[])?,
        Native::Tokens => {
            // A replacement without a hash gets another secret (as in the original's code).
            let merged = match replace {
                true => params.clone(),
                false => Arc::new(merge(old, params)),
            };
            let stored;
            let fields_beside = fields.without(&["hashed_secret"]);
            (stored, shown_fields) = with_token_secret(evaluation, &place, fields_beside, &merged)?;
            fields = stored;
        }
        Native::Credentials => relink_credentials(evaluation, &place, old, &fields)?,
        _ => {}
    }
    let fields = Arc::new(fields);
    evaluation.write_version(&place, Some(&version), Some(fields.clone()))?;
    schema_changed(evaluation, native, place.database());
    let shown_fields = shown_fields.map_or(fields, Arc::new);
    Ok(shown(&place.reference, Timestamp::PENDING, shown_fields))
}

/// Returns true for fields that a replacement need not repeat.
fn is_kept(native: Native, key: &str) -> bool {
    match native {
        Native::Indexes => matches!(key, "name" | "unique"),
        Native::Collections => matches!(key, "name" | "history_days"),
        Native::AccessProviders => matches!(key, "name" | "issuer" | "jwks_uri" | "roles"),
        Native::Databases | Native::Functions | Native::Roles => key == "name",
        Native::Tokens | Native::Credentials => key == "instance",
        _ => false,
    }
}

pub fn delete(evaluation: &mut Evaluation<'_>, reference: &Ref) -> Result<Value> {
    let place = evaluation.resolve(reference).within("delete")?;
    let existing = place.native().zip(evaluation.live_fields(&place));
    let (native, (ts, fields)) = existing.ok_or_else(|| Errors::not_found(reference))?;
    evaluation.permit("delete", reference, &[Value::Ref(reference.clone())])?;
    let version = Version {
        ts,
        contents: Some(fields.clone().into()),
    };
    evaluation.write_version(&place, Some(&version), None)?;
    forget(evaluation, &place, native, &fields)?;
    schema_changed(evaluation, native, place.database());
    Ok(shown(reference, ts, fields))
}

pub fn move_database(evaluation: &mut Evaluation<'_>, from: &Ref, to: &Ref) -> Result<Value> {
    let place = evaluation.resolve(from)?;
    let target = evaluation.resolve(to)?;
    let (ts, fields) = evaluation.live_fields(&place).ok_or_else(Errors::document_not_found)?;
    let mut above = Some(target.id);
    while let Some(number) = above {
        if number == place.id {
            let message = format!(
                "Cannot move database '{}' into parent '{}': Cannot move database from ancestor to descendant.",
                from.id(),
                to.id()
            );
            return Err(Errors::new(Code::MoveDatabaseError, message));
        }
        let parent = evaluation.view.get(&Key::global(b'R').number(number).0);
        above = parent.map(|row| rows::number_at(&row, 0)).filter(|number| *number != 0);
    }
    evaluation.permit("delete", &Ref::named(Native::Databases, from.id()), &[])?;
    let schema = evaluation.host.schema(&mut evaluation.view, DatabaseNumber(target.id));
    let moved = Place {
        schema,
        collection: Native::Databases as u64,
        id: place.id,
        reference: Ref::named(Native::Databases, from.id()),
    };
    take_name(evaluation, &moved)?;
    let version = Version {
        ts,
        contents: Some(fields.clone().into()),
    };
    evaluation.write_version(&place, Some(&version), None)?;
    evaluation
        .view
        .writing()
        .clear(&rows::name(place.database(), Native::Databases as u8, &from.id()).0);
    evaluation.write_version(&moved, None, Some(fields.clone()))?;
    register_database(evaluation, place.id, DatabaseNumber(target.id));
    schema_changed(evaluation, Native::Databases, place.database());
    schema_changed(evaluation, Native::Databases, moved.database());
    schema_changed(evaluation, Native::Databases, DatabaseNumber(place.id));
    Ok(shown(from, Timestamp::PENDING, fields))
}
