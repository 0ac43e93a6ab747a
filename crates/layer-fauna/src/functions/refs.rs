//! Naming things: refs to documents and schema objects, built-in collections, new ids.

use std::sync::Arc;

use crate::error::{Code, Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::parse::{member, reference_of_path, scope_of_database};
use crate::value::{Native, Ref, Target, Value};

/// A ref to something of this kind, or its name.
pub fn named_or_ref(value: &Value, native: Native, expected: &str) -> Result<Ref> {
    match value {
        Value::String(name) => Ok(Ref::named(native, name.clone())),
        Value::Ref(reference) if reference.names(native) => Ok(reference.clone()),
        other => Err(wrong_type(expected, other)),
    }
}

fn scoped(reference: Ref, scope: Option<&Value>) -> Value {
    let scope = match scope {
        Some(Value::Ref(database)) => scope_of_database(database),
        _ => None,
    };
    Value::Ref(match scope {
        Some(scope) => reference.with_scope(scope),
        None => reference,
    })
}

pub fn reference(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let collection = match arguments.value(0) {
        Value::Ref(collection) => collection,
        other => return Err(wrong_type("Ref", other)).within("ref"),
    };
    let id: Arc<str> = match arguments.value(1) {
        Value::String(id) => id.clone(),
        Value::Int(id) => id.to_string().into(),
        other => return Err(wrong_type("String", other)).within("id"),
    };
    if &*id == "self" {
        return own(evaluation, collection);
    }
    let is_collection = matches!(collection.target, Target::Native(_)) || collection.names(Native::Collections);
    if !is_collection {
        return Err(wrong_type("Collection Ref", arguments.value(0))).within("ref");
    }
    let target = member(collection, &id).ok_or_else(|| {
        Errors::argument(format!(
            "Number or numeric String expected, non-numeric '{id}' provided."
        ))
    });
    let reference = Ref::new(target.within("id")?).with_scope(collection.scope.clone());
    Ok(scoped(reference, arguments.optional(2)))
}

/// The id `self`: the caller's own document, token or credentials.
fn own(evaluation: &mut Evaluation<'_>, collection: &Ref) -> Result<Value> {
    let missing = || Errors::new(Code::MissingIdentity, "Authentication does not contain an identity");
    let authorization = &evaluation.authorization;
    match &collection.target {
        Target::Native(Native::Tokens) => authorization.token.clone().ok_or_else(missing),
        Target::Native(Native::Credentials) => {
            let identity = authorization.identity.clone().ok_or_else(missing)?;
            let credentials = super::authentication::credentials_of(evaluation, &identity).ok_or_else(missing)?;
            Ok(Value::Ref(credentials))
        }
        _ => {
            let identity = authorization.identity.clone().ok_or_else(missing)?;
            match identity.collection().as_ref() == Some(collection) {
                true => Ok(Value::Ref(identity)),
                false => Err(missing()),
            }
        }
    }
}

pub fn path(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    if let Some(collection) = arguments.text(0).strip_suffix("/self").and_then(reference_of_path) {
        return own(evaluation, &collection);
    }
    match reference_of_path(arguments.text(0)) {
        Some(reference) => Ok(Value::Ref(reference)),
        None => Err(Errors::new(Code::InvalidExpression, "Invalid ref.")).within("ref"),
    }
}

fn named(native: Native, arguments: &Arguments) -> Result<Value> {
    let name = arguments.text(0);
    // A built-in collection is known by its own name too.
    let reference = match (native, Native::parse(name)) {
        (Native::Collections, Some(built_in)) => Ref::native(built_in),
        _ => Ref::named(native, name),
    };
    Ok(scoped(reference, arguments.optional(1)))
}

pub fn database(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::Databases, arguments)
}

pub fn index(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::Indexes, arguments)
}

pub fn collection(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::Collections, arguments)
}

pub fn function(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::Functions, arguments)
}

pub fn role(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::Roles, arguments)
}

pub fn access_provider(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(Native::AccessProviders, arguments)
}

fn built_in(native: Native, arguments: &Arguments) -> Result<Value> {
    Ok(scoped(Ref::native(native), arguments.optional(0)))
}

pub fn databases(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Databases, arguments)
}

pub fn indexes(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Indexes, arguments)
}

pub fn collections(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Collections, arguments)
}

pub fn functions(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Functions, arguments)
}

pub fn roles(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Roles, arguments)
}

pub fn keys(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Keys, arguments)
}

pub fn tokens(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Tokens, arguments)
}

pub fn credentials(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::Credentials, arguments)
}

pub fn access_providers(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    built_in(Native::AccessProviders, arguments)
}

pub fn new_id(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    Ok(Value::string(evaluation.new_id().to_string()))
}
