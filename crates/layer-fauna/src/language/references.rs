//! Refs out of JSON: the operand of `@ref`, as an object or as the path of old.

use std::sync::Arc;

use crate::language::error::{Code, Errors, Result, Within};
use crate::language::json::Json;
use crate::language::value::{Native, Ref, Target, no_scope};

/// A ref as it was written.
#[derive(Debug)]
pub enum Written {
    Plain(Ref),
    /// The caller's own member of a collection: the id `self`.
    Own(Ref),
}

fn refused(description: impl Into<String>) -> Errors {
    Errors::new(Code::InvalidExpression, description)
}

fn invalid() -> Errors {
    refused("Invalid ref.")
}

fn wrong_type(expected: &str, provided: &str) -> Errors {
    refused(format!("{expected} expected, {provided} provided."))
}

/// The operand of `@ref`.
pub fn written(operand: &Json) -> Result<Written> {
    match operand {
        Json::String(path) => of_path(path).ok_or_else(invalid),
        Json::Object(_) => of_object(operand),
        _ => Err(invalid()),
    }
}

/// The ref that JSON taken as data names, if it does.
pub fn plain(operand: &Json) -> Option<Ref> {
    match written(operand).ok()? {
        Written::Plain(reference) => Some(reference),
        Written::Own(_) => None,
    }
}

fn of_object(operand: &Json) -> Result<Written> {
    let Json::Object(fields) = operand else {
        return Err(wrong_type("Ref", operand.type_name()));
    };
    if let [(key, inner)] = fields.as_slice()
        && &**key == "@ref"
    {
        return of_object(inner);
    }
    let is_part = |key: &str| matches!(key, "id" | "class" | "collection" | "database");
    let collections = ["class", "collection"].map(|key| operand.field(key));
    let (Some(id), [class, collection]) = (operand.field("id"), collections) else {
        return Err(wrong_type("Ref", "Object"));
    };
    if !fields.iter().all(|(key, _)| is_part(key)) || (class.is_some() && collection.is_some()) {
        return Err(wrong_type("Ref", "Object"));
    }
    let collection = part(class.or(collection), Ref::is_collection, "Collection Ref").within("class");
    let database = part(
        operand.field("database"),
        |reference| reference.names(Native::Databases),
        "Database Ref",
    );
    combined(id, collection?, database.within("database")?)
}

/// A collection or a database of a ref: absent, null, or a ref of that kind.
fn part(json: Option<&Json>, fits: fn(&Ref) -> bool, expected: &str) -> Result<Option<Ref>> {
    match json {
        None | Some(Json::Null) => Ok(None),
        Some(json) => match of_object(json)? {
            Written::Plain(reference) if fits(&reference) => Ok(Some(reference)),
            Written::Plain(reference) => Err(wrong_type(expected, reference.type_name())),
            Written::Own(_) => Err(wrong_type(expected, "Ref")),
        },
    }
}

fn combined(id: &Json, collection: Option<Ref>, database: Option<Ref>) -> Result<Written> {
    let scope = database.as_ref().and_then(scope_of_database);
    let Some(collection) = collection else {
        let native = match id {
            Json::String(name) => Native::parse(name)
                .ok_or_else(|| refused(format!("Valid native collection name expected, '{name}' provided."))),
            Json::Int(_) => Err(wrong_type("String", "Number")),
            other => Err(wrong_type("String or Integer", other.type_name())),
        };
        let reference = Ref::native(native.within("id")?);
        return Ok(Written::Plain(reference.with_scope(scope.unwrap_or_else(no_scope))));
    };
    let name = match id {
        Json::String(name) => name.clone(),
        Json::Int(number) => number.to_string().into(),
        other => return Err(wrong_type("String or Integer", other.type_name())).within("id"),
    };
    let takes_name = matches!(collection.target, Target::Native(native) if native.has_names());
    let takes_scope = takes_name || collection.target == Target::Native(Native::Keys);
    if scope.is_some() && !takes_scope {
        return Err(wrong_type("Null", "Database Ref")).within("database");
    }
    if &*name == "self" && !takes_name {
        return match collection.target {
            Target::Native(Native::Keys) => Err(invalid()),
            _ => Ok(Written::Own(collection)),
        };
    }
    let scope = scope.unwrap_or_else(|| collection.scope.clone());
    let target = member(&collection, &name).map_err(refused).within("id")?;
    Ok(Written::Plain(Ref::new(target).with_scope(scope)))
}

/// The path of the database that a ref names.
pub fn scope_of_database(database: &Ref) -> Option<Arc<[Arc<str>]>> {
    let Target::Named(Native::Databases, name) = &database.target else {
        return None;
    };
    Some(database.scope.iter().cloned().chain([name.clone()]).collect())
}

/// The member of a collection that has this id, or what is wrong with the id.
pub fn member(collection: &Ref, id: &Arc<str>) -> std::result::Result<Target, String> {
    Ok(match &collection.target {
        Target::Native(native) if native.has_names() => Target::Named(*native, id.clone()),
        Target::Native(native) => Target::Numbered(*native, number(id)?),
        _ => Target::Document(collection.id(), number(id)?),
    })
}

/// A document's id: 64 bits, in digits.
fn number(id: &str) -> std::result::Result<i64, String> {
    parse_id(id).ok_or_else(|| match id.chars().all(char::is_numeric) {
        true => format!("The id provided is too large: '{id}'"),
        false => format!("Number or numeric String expected, non-numeric '{id}' provided."),
    })
}

pub fn parse_id(id: &str) -> Option<i64> {
    id.parse().ok()
}

/// `collections/spells/42`, `indexes/by_name`, `keys/self`: documents, schema objects and built-in
/// collections.
fn of_path(path: &str) -> Option<Written> {
    let parts: Vec<&str> = path.split('/').collect();
    let (first, following) = parts.split_first()?;
    let native = Native::parse(first)?;
    let name = |name: &str| is_name(name).then(|| Ref::named(native, name));
    match (native, following) {
        (_, []) => Some(Written::Plain(Ref::native(native))),
        (Native::Keys | Native::Tokens | Native::Credentials, [id]) => own_or_numbered(Ref::native(native), id),
        (Native::Collections, [collection, id]) => own_or_numbered(name(collection)?, id),
        (_, [member]) => Some(Written::Plain(name(member)?)),
        _ => None,
    }
}

fn own_or_numbered(collection: Ref, id: &str) -> Option<Written> {
    if id == "self" {
        return (collection.target != Target::Native(Native::Keys)).then_some(Written::Own(collection));
    }
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    let target = digits.then(|| member(&collection, &id.into()).ok()).flatten()?;
    Some(Written::Plain(Ref::new(target)))
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_alphanumeric() || ";@+$-_.!~%".contains(c);
    !name.is_empty() && name.chars().all(legal) && !matches!(name, "_" | "self" | "events")
}
