//! Naming things: refs to documents and schema objects, built-in collections, new ids.

use std::sync::Arc;

use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result, Within};
use crate::language::references::{member, scope_of_database};
use crate::language::value::{Native, Ref, Target, Value};

/// A ref to something of this kind, or its name.
pub fn named_or_ref(evaluation: &Evaluation<'_>, value: &Value, native: Native, expected: &str) -> Result<Ref> {
    match value {
        Value::String(name) => Ok(looked_up(evaluation, native, name)),
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

pub fn reference(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let collection = collection_of_documents(arguments.value(0)).within("ref");
    let id: Result<Arc<str>> = match arguments.value(1) {
        Value::String(id) => Ok(id.clone()),
        Value::Int(id) => Ok(id.to_string().into()),
        other => Err(wrong_type("String or Number", other)),
    };
    match (collection, id.within("id")) {
        (Ok(collection), Ok(id)) => {
            let target = member(collection, &id).map_err(Errors::argument).within("id")?;
            let reference = Ref::new(target).with_scope(collection.scope.clone());
            Ok(scoped(reference, arguments.optional(2)))
        }
        (Err(mut errors), Err(more)) => {
            errors.0.extend(more.0);
            Err(errors)
        }
        (Err(errors), _) | (_, Err(errors)) => Err(errors),
    }
}

/// A collection whose members have numbers.
fn collection_of_documents(value: &Value) -> Result<&Ref> {
    match value {
        Value::Ref(collection) if collection.is_collection() => match collection.target {
            Target::Native(native) if native.has_names() => Err(Errors::argument(
                "Regular Class Ref expected, Schema Class Ref provided.",
            )),
            _ => Ok(collection),
        },
        other => Err(wrong_type("Collection Ref", other)),
    }
}

impl Evaluation<'_> {
    /// The id `self`: the caller's own document, token or credentials.
    pub fn own_member(&mut self, collection: &Ref) -> Result<Value> {
        let authorization = &self.authorization;
        let identity = authorization.identity.clone();
        let own = match &collection.target {
            Target::Native(Native::Tokens) if identity.is_some() => authorization.token.clone(),
            Target::Native(Native::Credentials) => identity
                .and_then(|identity| self.credentials_of(&identity))
                .map(Value::Ref),
            _ => identity
                .filter(|identity| identity.collection().as_ref() == Some(collection))
                .map(Value::Ref),
        };
        own.ok_or_else(|| Errors::new(Code::InvalidExpression, "Invalid ref."))
    }
}

/// The ref of a name.
fn looked_up(evaluation: &Evaluation<'_>, native: Native, name: &Arc<str>) -> Ref {
    let names = &evaluation.names_given;
    Ref {
        is_unknown: names.iter().any(|(kind, listed)| *kind == native && listed == name),
        ..Ref::named(native, name.clone())
    }
}

fn named(evaluation: &Evaluation<'_>, native: Native, arguments: &Arguments) -> Result<Value> {
    let name = arguments.value(0).as_str().cloned().unwrap_or_else(|| "".into());
    Ok(scoped(looked_up(evaluation, native, &name), arguments.optional(1)))
}

pub fn database(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::Databases, arguments)
}

pub fn index(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::Indexes, arguments)
}

pub fn collection(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::Collections, arguments)
}

pub fn function(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::Functions, arguments)
}

pub fn role(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::Roles, arguments)
}

pub fn access_provider(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    named(evaluation, Native::AccessProviders, arguments)
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
