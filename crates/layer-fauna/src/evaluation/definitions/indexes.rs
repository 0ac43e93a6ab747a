//! Indexes: required fields of a definition, filling a new index, and permitted changes.

use std::sync::Arc;

use super::DefinitionChange;
use super::fields::{Definition, invalid_type, is_bool, is_integer, is_text};
use crate::evaluation::Evaluation;
use crate::language::error::{Code, Errors, Failure, Result, Step};
use crate::language::expression::Effect;
use crate::language::value::{Fields, Native, Target, Value};
use crate::storage::documents::{Place, difference, merge};
use crate::storage::indexes::is_expired;
use crate::storage::rows::{DOCUMENT_BYTES, Key};

/// Largest number of documents whose index is built in the transaction that creates it.
const BUILD_AT_ONCE_MAX: usize = 128;
/// Entries that are looked at together.
const ENTRIES_AT_ONCE: usize = 1024;

pub(super) fn index(definition: &mut Definition<'_>, occasion: DefinitionChange) {
    let defaults = [("active", Value::Bool(false)), ("serialized", Value::Bool(true))];
    for (key, default) in defaults {
        let is_told = definition.take(key, "Boolean", is_bool);
        if !is_told && definition.params.get(key).is_none() && occasion == DefinitionChange::Create {
            definition.put(key, default);
        }
    }
    definition.name();
    source(definition);
    // A replacement does not see the flag of the replaced definition, and is refused (as in the
    // original).
    let is_active_null = matches!(definition.params.get("active"), Some(Value::Null));
    if occasion == DefinitionChange::Replace || is_active_null {
        definition.refuse("active", "value required", "Required value not found.");
    }
    components(definition, "terms");
    components(definition, "values");
    definition.take("unique", "Boolean", is_bool);
    partitions(definition, occasion);
    let has_sources = !definition
        .failures
        .iter()
        .any(|failure| failure.field.starts_with(&[Step::Key("source")]));
    if has_sources {
        bindings(definition);
    }
    definition.data();
}

/// Checks the number of its partitions; a value that is no number counts as absent.
fn partitions(definition: &mut Definition<'_>, occasion: DefinitionChange) {
    let terms = definition.given("terms").map_or(&[][..], Value::one_or_many);
    let default = Value::Int(if terms.is_empty() { 8 } else { 1 });
    let value = definition.given("partitions").cloned();
    match value.as_ref() {
        Some(Value::Int(1..=8)) | None => {}
        Some(Value::Int(count)) => {
            let description = format!("Value {count} is not in expected range 1 to 8.");
            definition.refuse("partitions", "bounds error", &description);
        }
        Some(other) if occasion == DefinitionChange::Replace => {
            definition.failures.push(invalid_type(&["partitions"], other, "Long"));
        }
        Some(_) => {}
    }
    definition.put("partitions", value.filter(is_integer).unwrap_or(default));
}

/// Returns an index as it will be after an update: an active one stays active, regardless of the
/// parameters.
pub(super) fn merged(old: &Fields, params: &Fields) -> Fields {
    let merged = merge(old, params);
    let is_null = |key| params.get(key).is_some_and(Value::is_null);
    match old.get("active") {
        Some(active @ Value::Bool(true)) => merged.with("active", active.clone()),
        _ if is_null("active") => merged.with("active", Value::Null),
        _ => merged,
    }
}

pub(super) fn source(definition: &mut Definition<'_>) {
    let Some(source) = definition.given("source").cloned() else {
        return definition.refuse("source", "value required", "Required value not found.");
    };
    let fits = |value: &Value| match value {
        Value::Ref(reference) => reference.names(Native::Collections) || matches!(reference.target, Target::Native(_)),
        Value::String(name) => &**name == "_",
        Value::Object(_) => true,
        _ => false,
    };
    let names_none = |value: &Value| {
        let fields = value.as_object();
        fields.is_some_and(|fields| fields.get("collection").or(fields.get("class")).is_none())
    };
    if source.one_or_many().iter().any(names_none) {
        return definition.refuse("class", "value required", "Required value not found.");
    }
    if let Some(wrong) = source.one_or_many().iter().find(|value| !fits(value)) {
        return definition
            .failures
            .insert(0, invalid_type(&["source"], wrong, "SourceClass"));
    }
    let is_databases =
        |value: &Value| matches!(value, Value::Ref(of) if of.target == Target::Native(Native::Databases));
    let collections: Vec<&Value> = source.one_or_many().iter().flat_map(collections_of).collect();
    if collections.iter().any(|of| is_databases(of)) {
        return definition.refuse("source", "invalid reference", "Cannot read reference.");
    }
    let is_twice = |(at, of): (usize, &&Value)| {
        collections[..at]
            .iter()
            .any(|other| crate::storage::order::same(other, of))
    };
    let wildcards = collections.iter().filter(|of| is_text(of)).count();
    let has_bindings = |source: &Value| source.as_object().is_some_and(|fields| fields.get("fields").is_some());
    if wildcards > 0 && collections.len() > 1 && !source.one_or_many().iter().any(has_bindings) {
        let description = "Cannot mix collection refs and wildcards without providing bindings.";
        return definition.refuse("source", "mixed wildcards", description);
    }
    if wildcards > 1 {
        return definition.refuse("source", "multiple wildcards", "Too many wildcards.");
    }
    if collections.iter().enumerate().any(is_twice) {
        let description = "A collection ref may only match one binding.";
        return definition.refuse("source", "multiple bindings", description);
    }
    definition.put("source", source);
}

/// The computed values of a source must be pure, and used.
fn bindings(definition: &mut Definition<'_>) {
    let components = ["terms", "values"].iter().filter_map(|key| definition.given(key));
    let components = components.flat_map(Value::one_or_many).filter_map(Value::as_object);
    let used: Vec<Arc<str>> = components
        .filter_map(|fields| fields.string("binding").cloned())
        .collect();
    let mut failures = Vec::new();
    let sources = definition.given("source").map_or(&[][..], Value::one_or_many);
    for (source, fields) in sources.iter().enumerate() {
        let bound = fields.as_object().and_then(|fields| fields.get("fields")?.as_object());
        for (index, (name, value)) in bound.iter().flat_map(|bound| bound.entries.iter()).enumerate() {
            let mut refuse = |code, description: &str| {
                let path = ["source".into(), source.to_string(), "fields".into(), index.to_string()];
                let path = path.iter().map(|step| Step::Name(step.as_str().into()));
                failures.push(Failure {
                    field: path.chain([Step::Name(name.clone())]).collect(),
                    ..Failure::new(&[], code, description)
                });
            };
            if matches!(value, Value::Query(closure) if closure.lambda.effect > Effect::Pure) {
                refuse("invalid binding", "Field binding must be a pure unary function.");
            }
            if !used.contains(name) {
                refuse("unused binding", "Source binding is not used as a term or value.");
            }
        }
    }
    definition.failures.extend(failures);
}

fn components(definition: &mut Definition<'_>, key: &'static str) {
    let Some(components) = definition.given(key).cloned() else {
        return;
    };
    let mut parts = Vec::new();
    for component in components.one_or_many() {
        let Some(fields) = component.as_object() else {
            return definition.failures.push(invalid_type(&[key], component, "Term"));
        };
        if let Some(failure) = wrong_component(fields) {
            return definition.failures.push(failure);
        }
        parts.push(Value::object(known_parts(fields)));
    }
    // A single one is stored whole, in the given form.
    definition.put(
        key,
        match components.as_items() {
            Some(_) => Value::array(parts),
            None => components,
        },
    );
}

/// Returns the first fault of a term or a value.
fn wrong_component(fields: &Fields) -> Option<Failure> {
    let value_of = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let path_fault = |path: &Value| {
        let mut parts = path.one_or_many().iter();
        parts.find(|part| !is_text(part) && !is_integer(part)).cloned()
    };
    match (value_of("binding"), value_of("field")) {
        (Some(Value::String(_)), _) => {}
        (binding, Some(path)) => match (path_fault(path), binding) {
            (None, _) => {}
            (Some(_), Some(binding)) => return Some(invalid_type(&["binding"], binding, "String")),
            (Some(wrong), None) => return Some(invalid_type(&["field"], &wrong, "Long or String")),
        },
        (Some(binding), None) => return Some(invalid_type(&["binding"], binding, "String")),
        (None, None) => {
            let description = "Must provide one of the following: field, binding";
            return Some(Failure::new(&["field"], "value required", description));
        }
    }
    if let Some(wrong) = value_of("reverse").filter(|reverse| !is_bool(reverse)) {
        return Some(invalid_type(&["reverse"], wrong, "Boolean"));
    }
    match value_of("transform")? {
        Value::String(transform) if &**transform == "casefold" => None,
        Value::String(transform) => {
            let description = format!("Invalid value `{transform}` at `transform`");
            Some(Failure::new(&["transform"], "invalid value", description))
        }
        other => Some(invalid_type(&["transform"], other, "String")),
    }
}

/// The parts of a term or a value that mean something, as they were given.
fn known_parts(fields: &Fields) -> Vec<(Arc<str>, Value)> {
    let is_known = |key: &str| matches!(key, "field" | "binding" | "transform" | "reverse");
    let parts = fields.entries.iter().filter(|(key, _)| is_known(key));
    parts.cloned().collect()
}

/// The collections of a source.
fn collections_of(source: &Value) -> &[Value] {
    let collections = match source {
        Value::Object(fields) => fields.get("class").or_else(|| fields.get("collection")),
        other => Some(other),
    };
    collections.map_or(&[][..], Value::one_or_many)
}

/// Fills a new index if its sources are small; otherwise leaves it to the builder.
pub(super) fn build_index(evaluation: &mut Evaluation<'_>, place: &Place, fields: Fields) -> Result<Fields> {
    let index = evaluation.schema.compile_index(place.id, place.reference.id(), &fields);
    let several = fields
        .get("source")
        .is_some_and(|source| source.one_or_many().len() > 1);
    let documents = evaluation.covered_documents(&index, &[], BUILD_AT_ONCE_MAX + 1);
    let at_once = !several && documents.len() <= BUILD_AT_ONCE_MAX;
    // A caller that requests it may read the index while it is being filled.
    let active = at_once || matches!(fields.get("active"), Some(Value::Bool(true)));
    let fields = fields.with("active", Value::Bool(active));
    if at_once {
        for document in documents {
            evaluation.index_document(&index, &document)?;
        }
    } else {
        let key = Key::global(b'B').number(place.database().0).number(place.id);
        evaluation.view.writing().set(&key.0, &[]);
        evaluation.host.work_is_left();
    }
    Ok(fields)
}

/// The distribution of its entries cannot be changed.
pub(super) fn check_partitions(old: &Fields, new: &Fields) -> Result<()> {
    let count = |fields: &Fields| match (fields.get("unique"), fields.get("partitions")) {
        (Some(Value::Bool(true)), _) => 1,
        (_, Some(Value::Int(count))) => *count,
        _ => 1,
    };
    let (old, new) = (count(old), count(new));
    if old == new {
        return Ok(());
    }
    let description = format!("Index partition count may not be updated ({old} -> {new}).");
    let failure = Failure::new(&[], "invalid index", description);
    Err(Errors::validation(vec![failure]))
}

/// An index that becomes unique must have no two entries of living documents that are alike.
pub(super) fn check_still_unique(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    old: &Fields,
    new: &Fields,
) -> Result<()> {
    let is_unique = |fields: &Fields| matches!(fields.get("unique"), Some(Value::Bool(true)));
    if is_unique(old) || !is_unique(new) {
        return Ok(());
    }
    let entries = Key::of(place.database(), b'E').number(place.id);
    let (mut start, mut last) = (entries.0.clone(), Vec::new());
    loop {
        let rows = evaluation.view.rows(&start, &entries.end(), false, ENTRIES_AT_ONCE);
        evaluation.step(rows.len())?;
        let now = evaluation.now_micros;
        for (key, row) in rows.iter().filter(|(_, row)| !is_expired(row, now)) {
            let same = &key[..key.len().saturating_sub(DOCUMENT_BYTES)];
            if last == same {
                return Err(Errors::new(Code::InstanceNotUnique, "document is not unique."));
            }
            last = same.to_vec();
            evaluation.cost.bytes_read += (key.len() + row.len()) as u64;
        }
        match rows.last() {
            Some((key, _)) if rows.len() == ENTRIES_AT_ONCE => start = [&key[..], &[0]].concat(),
            _ => return Ok(()),
        }
    }
}

/// Sources, terms and values stay, in their given form.
pub(super) fn check_index_change(old: &Fields, new: &Fields) -> Result<()> {
    let is_fixed = |key: &str| matches!(key, "source" | "terms" | "values");
    let fixed = |fields: &Fields| {
        let fixed = fields.entries.iter().filter(|(key, _)| is_fixed(key));
        Fields::new(fixed.cloned().collect())
    };
    let changed = difference(&fixed(old), &fixed(new));
    if changed.entries.is_empty() {
        return Ok(());
    }
    let description = format!(
        "Index sources, terms, and values may not be updated (Diff({}))",
        spaced(&Value::Object(Arc::new(changed)))
    );
    Err(Errors::validation(vec![Failure::new(
        &[],
        "invalid index",
        description,
    )]))
}

/// As the original prints values into messages.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let entries: Vec<String> = fields
                .entries
                .iter()
                .map(|(key, value)| format!("\"{key}\" : {}", spaced(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.values.iter().map(spaced).collect();
            format!("[ {} ]", items.join(", "))
        }
        other => crate::language::render::compact(other),
    }
}
