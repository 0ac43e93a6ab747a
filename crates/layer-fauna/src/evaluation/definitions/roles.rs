//! Roles: what a definition must have, and which roles may be named.

use std::sync::Arc;

use super::fields::{Definition, invalid_type, is_text};
use crate::evaluation::Evaluation;
use crate::language::error::{Errors, Failure, Result};
use crate::language::expression::Parameters;
use crate::language::value::{Fields, Native, Target, Value};
use crate::storage::documents::Place;
use crate::storage::rows::{self, Key};

pub(super) fn role(definition: &mut Definition<'_>) {
    definition.name();
    for (key, kind) in [("membership", "Membership"), ("privileges", "Privilege")] {
        let Some(list) = definition.given(key).cloned() else {
            continue;
        };
        let mut parts = Vec::new();
        // The first fault is reported.
        let before = definition.failures.len();
        for item in list.one_or_many() {
            match item.as_object() {
                Some(fields) => parts.push(part_of_role(definition, key, fields)),
                None => definition.failures.push(invalid_type(&[key], item, kind)),
            }
            if definition.failures.len() > before {
                break;
            }
        }
        // A single empty one is left out, one of several is not (as in the original).
        match (&list, parts.pop()) {
            (Value::Array(_), last) => {
                parts.extend(last);
                definition.put(key, Value::array(parts));
            }
            (_, Some(single)) if single.as_object().is_some_and(|fields| !fields.entries.is_empty()) => {
                definition.put(key, single);
            }
            _ => {}
        }
    }
    definition.data();
}

/// A privilege or a membership, with only its known fields. A text, which the later language would
/// accept, is refused under the name of the whole list.
fn part_of_role(definition: &mut Definition<'_>, list: &'static str, fields: &Fields) -> Value {
    let mut members = Vec::new();
    match fields.get("resource") {
        None | Some(Value::Null) => {}
        Some(resource @ Value::Ref(reference)) => {
            let is_collection = reference.names(Native::Collections) || matches!(reference.target, Target::Native(_));
            if list == "membership" && !is_collection {
                let failure = invalid_type(&["resource"], resource, "Class Ref");
                definition.failures.push(failure);
            }
            members.push(("resource".into(), resource.clone()));
        }
        Some(text @ Value::String(_)) => definition.failures.push(invalid_type(&[list, "resource"], text, "Ref")),
        Some(other) => definition.failures.push(invalid_type(&["resource"], other, "Ref")),
    }
    match fields.get("actions") {
        None | Some(Value::Null) => {}
        Some(Value::Object(actions)) => {
            let actions = actions_of_role(definition, list, actions);
            if !actions.is_empty() {
                members.push(("actions".into(), Value::object(actions)));
            }
        }
        Some(other) => definition
            .failures
            .push(invalid_type(&["actions"], other, "RoleAction Map")),
    }
    match fields.get("predicate") {
        None | Some(Value::Null) => {}
        Some(predicate @ Value::Query(_)) => members.push(("predicate".into(), predicate.clone())),
        Some(text @ Value::String(_)) => {
            let failure = invalid_type(&[list, "predicate"], text, "Query");
            definition.failures.push(failure);
        }
        Some(other) => definition.failures.push(invalid_type(&["predicate"], other, "Query")),
    }
    Value::object(members)
}

/// The actions that there are, in the order given.
fn actions_of_role(definition: &mut Definition<'_>, list: &'static str, actions: &Fields) -> Vec<(Arc<str>, Value)> {
    let mut granted = Vec::new();
    for (action, grant) in &actions.entries {
        let Some((action_name, _)) = ARITIES.iter().find(|(name, _)| *name == &**action) else {
            continue;
        };
        match grant {
            Value::Null => {}
            Value::Bool(_) | Value::Query(_) => granted.push((action.clone(), grant.clone())),
            text @ Value::String(_) => {
                let failure = invalid_type(&[list, "actions", action_name], text, "Query");
                definition.failures.push(failure);
            }
            other => definition
                .failures
                .push(invalid_type(&["actions", action_name], other, "RoleAction")),
        }
    }
    granted
}

/// The number of arguments of each action's predicate.
const ARITIES: [(&str, usize); 9] = [
    ("read", 1),
    ("write", 2),
    ("create", 1),
    ("create_with_id", 2),
    ("delete", 1),
    ("history_write", 4),
    ("history_read", 1),
    ("unrestricted_read", 1),
    ("call", 1),
];

/// Predicates that could not be given what they declare to take. Like the original this looks at a
/// single privilege or membership, not into arrays of them, and lets `_` take anything.
pub(super) fn wrong_arities(fields: &Fields) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut judge = |path: &[&'static str], predicate: Option<&Value>, expected: usize| {
        let Some(Value::Query(closure)) = predicate else { return };
        let actual = match closure.lambda.parameters {
            Parameters::One if closure.lambda.takes_anything() => return,
            Parameters::One => 1,
            Parameters::Many(count) => count,
        };
        if actual != expected {
            let description = format!("Found lambda with arity {actual} expected {expected}");
            failures.push(Failure::new(path, "invalid arity", description));
        }
    };
    let object = |key| fields.get(key).and_then(Value::as_object);
    if let Some(actions) = object("privileges").and_then(|privilege| privilege.get("actions")?.as_object()) {
        for (action, expected) in ARITIES {
            judge(&["privileges", "actions", action], actions.get(action), expected);
        }
    }
    if let Some(membership) = object("membership") {
        judge(&["membership", "predicate"], membership.get("predicate"), 1);
    }
    failures
}

/// Upper bound on the roles that a collection's documents are members of.
const ROLES_OF_MEMBERS_MAX: usize = 64;

/// The failure's field is the position of the form (as in the original's code).
pub(super) fn check_roles_of_members(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    fields: &Fields,
    form: &[&'static str],
) -> Result<()> {
    let resources = |fields: &Fields| -> Vec<Value> {
        let memberships = fields.get("membership").map_or(&[][..], Value::one_or_many).iter();
        let objects = memberships.filter_map(Value::as_object);
        objects
            .filter_map(|membership| membership.get("resource").cloned())
            .collect()
    };
    let own = resources(fields);
    if own.is_empty() {
        return Ok(());
    }
    let prefix = Key::of(place.database(), b'D').number(Native::Roles as u64);
    let role_lists: Vec<Vec<Value>> = evaluation
        .view
        .rows(&prefix.0, &prefix.end(), false, usize::MAX)
        .iter()
        .filter(|(key, _)| rows::number_at(key, prefix.0.len()) != place.id)
        .map(|(_, row)| resources(&rows::decode_version(row, place.schema.as_ref()).1))
        .collect();
    let is_exceeded = own.iter().any(|resource| {
        let has_it = |other: &&Vec<Value>| other.iter().any(|of| crate::storage::order::equal(of, resource));
        role_lists.iter().filter(has_it).count() >= ROLES_OF_MEMBERS_MAX
    });
    match is_exceeded {
        false => Ok(()),
        true => {
            let description = format!(
                "Maximum number of roles per membership class exceeded. Maximum allowed: {ROLES_OF_MEMBERS_MAX}."
            );
            let failure = Failure::new(form, "resources exceeded", description);
            Err(Errors::validation(vec![failure]))
        }
    }
}

const BUILT_IN_ROLES: [&str; 4] = ["admin", "server", "server-readonly", "client"];

/// Returns the faults in the names of roles: named roles must exist, and some may not be named.
pub(super) fn unknown_roles(evaluation: &Evaluation<'_>, native: Native, fields: &Fields) -> Vec<Failure> {
    match native {
        Native::Keys | Native::Functions => unknown_role_names(evaluation, fields),
        Native::AccessProviders => unknown_provided_roles(evaluation, fields),
        _ => Vec::new(),
    }
}

fn unknown_role_names(evaluation: &Evaluation<'_>, fields: &Fields) -> Vec<Failure> {
    let Some(roles) = fields.get("role") else {
        return Vec::new();
    };
    // A built-in role must be the only one.
    let is_alone = roles.as_items().is_none();
    let names = roles.one_or_many().iter().filter_map(Value::as_str);
    let unknown = names.filter(|name| !(is_alone && is_built_in(name)) && evaluation.schema.role(name).is_none());
    let failure = |name| {
        let description = format!("Role name `{name}` does not exist.");
        Failure::new(&["role"], "validation failure", description)
    };
    unknown.map(failure).collect()
}

/// An access provider may grant only users' own roles.
fn unknown_provided_roles(evaluation: &Evaluation<'_>, fields: &Fields) -> Vec<Failure> {
    let roles = fields.get("roles").map_or(&[][..], Value::one_or_many).iter();
    let names = roles.filter_map(|role| match role {
        Value::Object(fields) => fields.string("role"),
        other => other.as_str(),
    });
    let (built_in, user_defined): (Vec<&Arc<str>>, Vec<&Arc<str>>) = names.partition(|name| is_built_in(name));
    let unknown = user_defined
        .iter()
        .filter(|name| evaluation.schema.role(name).is_none());
    let descriptions = unknown.map(|name| format!("Role `{name}` does not exist.")).chain(
        built_in
            .iter()
            .map(|name| format!("Builtin role `{name}` not allowed.")),
    );
    descriptions
        .map(|description| Failure::new(&["roles"], "validation failure", description))
        .collect()
}

fn is_built_in(name: &str) -> bool {
    BUILT_IN_ROLES.contains(&name)
}

/// A role, or several; among several there is no built-in one.
pub(super) fn is_role(value: &Value) -> bool {
    let is_ref = |value: &Value| matches!(value, Value::Ref(reference) if reference.names(Native::Roles));
    match value.as_items() {
        None => is_text(value) || is_ref(value),
        Some(several) => several
            .iter()
            .all(|value| is_ref(value) || value.as_str().is_some_and(|name| !is_built_in(name))),
    }
}
