//! Schema objects: what each kind must have, how names are taken, and what goes with them.
//!
//! Each kind is checked into the fields of a document; names have rows of their own; databases, keys, tokens and access
//! providers have entries in the installation's registry as well, by which a secret finds its database.

use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{CHANGE_PASSWORD, Rights};
use crate::language::error::{Code, Errors, Failure, Result, Step, Within, check};
use crate::language::expression::{Effect, Parameters};
use crate::language::value::{Fields, Names, Native, Ref, Target, Timestamp, Value};
use crate::service::secrets::{self, Claim, Secret};
use crate::storage::codec::{self, storable};
use crate::storage::credentials::credentials_key;
use crate::storage::documents::{Place, Version, merge, shown, shown_new};
use crate::storage::indexes::{covered_documents, note_form};
use crate::storage::rows::{self, DatabaseNumber, Key};

/// Indexes over at most so many documents are built in the transaction that makes them.
const BUILD_AT_ONCE_MAX: usize = 128;
const COLLECTIONS_MAX: usize = 1024;

pub fn invalid_type(field: &[&'static str], value: &Value, expected: &str) -> Failure {
    let description = format!("Invalid type {}, expected type {expected}.", stored_type(value));
    Failure::new(field, "invalid type", description)
}

/// What failures call the type of a value.
fn stored_type(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "Long",
        Value::Object(_) | Value::Document(_) => "Map",
        Value::Ref(_) => "Ref",
        Value::Query(_) => "Query",
        other => other.type_name(),
    }
}

/// Gathers the fields of a definition and what is wrong with them.
struct Definition<'p> {
    params: &'p Fields,
    entries: Vec<(Arc<str>, Value)>,
    failures: Vec<Failure>,
}

impl Definition<'_> {
    fn given(&self, key: &str) -> Option<&Value> {
        self.params.get(key).filter(|value| !value.is_null())
    }

    fn put(&mut self, key: &str, value: Value) {
        self.entries.push((key.into(), value));
    }

    fn refuse(&mut self, field: &'static str, code: &'static str, description: &str) {
        self.failures.push(Failure::new(&[field], code, description));
    }

    fn take(&mut self, key: &'static str, expected: &str, fits: impl FnOnce(&Value) -> bool) -> bool {
        match self.given(key).cloned() {
            None => false,
            Some(value) if fits(&value) => {
                self.put(key, value);
                true
            }
            Some(value) => {
                self.failures.push(invalid_type(&[key], &value, expected));
                true
            }
        }
    }

    fn need(&mut self, key: &'static str, expected: &str, fits: impl FnOnce(&Value) -> bool) {
        if !self.take(key, expected, fits) {
            self.refuse(key, "value required", "Required value not found.");
        }
    }

    fn name(&mut self) {
        self.need("name", "Name", |value| matches!(value, Value::String(_)));
        let Some(name) = self.params.string("name").cloned() else {
            return;
        };
        let legal = |c: char| c.is_alphanumeric() || ";@+$-_.!~%".contains(c);
        if name.is_empty() || !name.chars().all(legal) {
            let description =
                format!("The name {name} uses invalid characters. Valid characters must match: [;@+$\\-_.!~%\\w]+");
            self.refuse("name", "invalid characters", &description);
        } else if &*name == "_" {
            self.refuse("name", "reserved name", "Invalid name _. Reserved names: _.");
        }
    }

    fn data(&mut self) {
        self.take("data", "Map", |value| matches!(value, Value::Object(_)));
    }

    /// Schema objects with names do not end: a `ttl` is passed over.
    fn data_and_ttl(&mut self) {
        self.data();
        self.take("ttl", "Timestamp", |value| matches!(value, Value::Time(_)));
    }
}

/// The order in which the tasks of databases and keys are done.
fn is_priority(value: &Value) -> bool {
    matches!(value, Value::Int(1..=500))
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_))
}

fn is_bool(value: &Value) -> bool {
    matches!(value, Value::Bool(_))
}

fn is_integer(value: &Value) -> bool {
    matches!(value, Value::Int(_))
}

fn is_query(value: &Value) -> bool {
    matches!(value, Value::Query(_))
}

/// The checked fields of a schema object.
fn checked(native: Native, params: &Fields, is_new: bool) -> Result<Fields> {
    let mut definition = Definition {
        params,
        entries: Vec::new(),
        failures: Vec::new(),
    };
    match native {
        Native::Databases => database(&mut definition),
        Native::Collections => collection(&mut definition, is_new),
        Native::Indexes => index(&mut definition),
        Native::Functions => function(&mut definition),
        Native::Roles => role(&mut definition),
        Native::Keys => key(&mut definition),
        Native::Tokens => token(&mut definition),
        Native::Credentials => credentials(&mut definition),
        Native::AccessProviders => access_provider(&mut definition),
    }
    if native == Native::Functions && definition.failures.len() == 1 && definition.params.string("body").is_some() {
        // The later language writes bodies as text.
        let message = "Invalid type provided for field `body`.";
        return Err(Errors::new(Code::SchemaValidationFailed, message));
    }
    check(definition.failures)?;
    let fields = storable_definition(definition.entries);
    Ok(fields)
}

/// Like documents, without nulls.
fn storable_definition(entries: Vec<(Arc<str>, Value)>) -> Fields {
    let stored = storable(&Value::object(entries));
    stored
        .as_object()
        .map_or_else(Fields::default, |fields| Fields::new(fields.entries.clone()))
}

fn database(definition: &mut Definition<'_>) {
    definition.name();
    definition.data();
    definition.take("priority", "Priority", is_priority);
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

fn index(definition: &mut Definition<'_>) {
    let flag = |definition: &Definition<'_>, key| definition.given(key).cloned();
    for (key, default) in [("active", false), ("serialized", true)] {
        if !definition.take(key, "Boolean", is_bool) {
            definition.put(key, Value::Bool(default));
        }
    }
    definition.name();
    source(definition);
    components(definition, "terms");
    components(definition, "values");
    if matches!(flag(definition, "unique"), Some(Value::Bool(true))) {
        definition.put("unique", Value::Bool(true));
    }
    let has_terms = definition
        .given("terms")
        .is_some_and(|terms| !terms.one_or_many().is_empty());
    let is_unique = matches!(flag(definition, "unique"), Some(Value::Bool(true)));
    let partitions = if has_terms || is_unique { 1 } else { 8 };
    let partitions = flag(definition, "partitions")
        .filter(is_integer)
        .unwrap_or(Value::Int(partitions));
    if let Value::Int(count) = partitions
        && !(1..=8).contains(&count)
    {
        let description = format!("Value {count} is not in expected range 1 to 8.");
        definition.refuse("partitions", "bounds error", &description);
    }
    definition.put("partitions", partitions);
    if definition.failures.is_empty() {
        bindings(definition);
    }
    definition.data();
    // What is wrong with the source is told first.
    definition
        .failures
        .sort_by_key(|failure| !failure.field.starts_with(&[Step::Name("source".into())]));
}

fn source(definition: &mut Definition<'_>) {
    let Some(source) = definition.given("source").cloned() else {
        return definition.refuse("source", "value required", "Required value not found.");
    };
    let fits = |value: &Value| match value {
        Value::Ref(reference) => reference.names(Native::Collections) || matches!(reference.target, Target::Native(_)),
        Value::String(name) => &**name == "_",
        Value::Object(fields) => fields.get("collection").or(fields.get("class")).is_some(),
        _ => false,
    };
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
    if wildcards > 1 {
        return definition.refuse("source", "multiple wildcards", "Too many wildcards.");
    }
    if collections.iter().enumerate().any(is_twice) {
        let description = "A collection ref may only match one binding.";
        return definition.refuse("source", "multiple bindings", description);
    }
    let has_bindings = |source: &Value| source.as_object().is_some_and(|fields| fields.get("fields").is_some());
    if wildcards == 1 && collections.len() > 1 && !source.one_or_many().iter().any(has_bindings) {
        let description = "Cannot mix collection refs and wildcards without providing bindings.";
        return definition.refuse("source", "mixed wildcards", description);
    }
    // One source stands by itself.
    definition.put(
        "source",
        match source.as_items() {
            Some([single]) => single.clone(),
            _ => source,
        },
    );
}

/// What is computed of a source must be pure, and used.
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
    let mut shown = Vec::new();
    for component in components.one_or_many() {
        let fields = component.as_object();
        if fields.is_none() {
            return definition.failures.push(invalid_type(&[key], component, "Term"));
        }
        let has_extract =
            fields.is_some_and(|fields| fields.get("field").is_some() || fields.string("binding").is_some());
        if let Some(transform) = fields.and_then(|fields| fields.string("transform"))
            && &**transform != "casefold"
        {
            let description = format!("Invalid value `{transform}` at `transform`");
            return definition.refuse("transform", "invalid value", &description);
        }
        if !has_extract {
            let description = "Must provide one of the following: field, binding";
            return definition.refuse("field", "value required", description);
        }
        let known = ["field", "binding", "transform", "reverse"];
        let kept = fields
            .iter()
            .flat_map(|fields| fields.entries.iter())
            .filter(|(key, _)| known.contains(&&**key));
        shown.push(Value::object(
            kept.map(|(key, value)| (key.clone(), path_of(key, value))).collect(),
        ));
    }
    if !shown.is_empty() {
        definition.put(key, Value::array(shown));
    }
}

/// A field is shown as a path, also when it was given as one string.
fn path_of(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("field", Value::String(_)) => Value::array(vec![value.clone()]),
        _ => value.clone(),
    }
}

fn function(definition: &mut Definition<'_>) {
    definition.name();
    definition.need("body", "Query", is_query);
    definition.take("role", "Role", is_role);
    definition.data();
}

fn role(definition: &mut Definition<'_>) {
    definition.name();
    for (key, kind) in [("membership", "Membership"), ("privileges", "Privilege")] {
        let Some(given) = definition.given(key).cloned() else {
            continue;
        };
        let mut kept = Vec::new();
        for item in given.one_or_many() {
            match item.as_object() {
                Some(fields) => kept.push(part_of_role(definition, fields)),
                None => definition.failures.push(invalid_type(&[key], item, kind)),
            }
        }
        // A single one that says nothing is left out, one of several is not (as in the original).
        match (&given, kept.pop()) {
            (Value::Array(_), last) => {
                kept.extend(last);
                definition.put(key, Value::array(kept));
            }
            (_, Some(single)) if single.as_object().is_some_and(|fields| !fields.entries.is_empty()) => {
                definition.put(key, single);
            }
            _ => {}
        }
    }
    definition.data();
}

/// A privilege or a membership, with what is known of it alone.
fn part_of_role(definition: &mut Definition<'_>, fields: &Fields) -> Value {
    let mut kept = Vec::new();
    match fields.get("resource") {
        None | Some(Value::Null) => {}
        Some(resource @ Value::Ref(_)) => kept.push(("resource".into(), resource.clone())),
        Some(other) => definition.failures.push(invalid_type(&["resource"], other, "Ref")),
    }
    match fields.get("actions") {
        None | Some(Value::Null) => {}
        Some(Value::Object(actions)) => {
            let actions = actions_of_role(definition, actions);
            if !actions.is_empty() {
                kept.push(("actions".into(), Value::object(actions)));
            }
        }
        Some(other) => definition
            .failures
            .push(invalid_type(&["actions"], other, "RoleAction Map")),
    }
    match fields.get("predicate") {
        None | Some(Value::Null) => {}
        Some(predicate @ Value::Query(_)) => kept.push(("predicate".into(), predicate.clone())),
        Some(other) => definition.failures.push(invalid_type(&["predicate"], other, "Query")),
    }
    Value::object(kept)
}

/// The actions that there are, in the order given.
fn actions_of_role(definition: &mut Definition<'_>, actions: &Fields) -> Vec<(Arc<str>, Value)> {
    let mut kept = Vec::new();
    for (action, grant) in &actions.entries {
        let Some((known, _)) = ARITIES.iter().find(|(known, _)| *known == &**action) else {
            continue;
        };
        match grant {
            Value::Null => {}
            Value::Bool(_) | Value::Query(_) => kept.push((action.clone(), grant.clone())),
            other => definition
                .failures
                .push(invalid_type(&["actions", known], other, "RoleAction")),
        }
    }
    kept
}

/// How many arguments the predicate of each action is given.
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

/// Predicates that could not be given what they declare to take. Like the original this looks at a single privilege or
/// membership, not into arrays of them, and lets `_` take anything.
fn wrong_arities(fields: &Fields) -> Vec<Failure> {
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

/// A collection's documents are members of so many roles at most.
const ROLES_OF_MEMBERS_MAX: usize = 64;

/// The failure's field is the position of the form (as in the original's code).
fn check_roles_of_members(
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
    let others: Vec<Vec<Value>> = evaluation
        .view
        .rows(&prefix.0, &prefix.end(), false, usize::MAX)
        .iter()
        .filter(|(key, _)| rows::number_at(key, prefix.0.len()) != place.id)
        .map(|(_, row)| resources(&codec::decode_version(row, place.schema.as_ref()).1))
        .collect();
    let is_exceeded = own.iter().any(|resource| {
        let has_it = |other: &&Vec<Value>| other.iter().any(|of| crate::storage::order::equal(of, resource));
        others.iter().filter(has_it).count() >= ROLES_OF_MEMBERS_MAX
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

/// Roles that are named must be there.
fn check_role_names(evaluation: &Evaluation<'_>, native: Native, fields: &Fields) -> Result<()> {
    if !matches!(native, Native::Keys | Native::Functions) {
        return Ok(());
    }
    let names = fields.get("role").map_or(&[][..], Value::one_or_many).iter();
    let unknown = names
        .filter_map(Value::as_str)
        .filter(|name| !BUILT_IN_ROLES.contains(&&***name) && evaluation.schema.role(name).is_none());
    let failures = unknown.map(|name| {
        let description = format!("Role name `{name}` does not exist.");
        Failure::new(&["role"], "validation failure", description)
    });
    check(failures.collect())
}

fn is_role(value: &Value) -> bool {
    let one =
        |value: &Value| is_text(value) || matches!(value, Value::Ref(reference) if reference.names(Native::Roles));
    value.one_or_many().iter().all(one)
}

fn key(definition: &mut Definition<'_>) {
    definition.take(
        "database",
        "Database Ref",
        |value| matches!(value, Value::Ref(reference) if reference.names(Native::Databases)),
    );
    definition.need("role", "Role", is_role);
    definition.take("priority", "Priority", is_priority);
    definition.data_and_ttl();
}

fn token(definition: &mut Definition<'_>) {
    definition.need("instance", "Ref", |value| matches!(value, Value::Ref(_)));
    definition.data_and_ttl();
}

fn credentials(definition: &mut Definition<'_>) {
    definition.need("instance", "Ref", |value| matches!(value, Value::Ref(_)));
    definition.data_and_ttl();
}

/// A role, or a role with the predicate under which it is given.
fn is_provided_role(value: &Value) -> bool {
    let is_one = |value: &Value| is_text(value) || matches!(value, Value::Ref(role) if role.names(Native::Roles));
    match value {
        Value::Object(fields) => fields.get("role").is_some_and(is_one) && fields.get("predicate").is_none_or(is_query),
        role => is_one(role),
    }
}

fn access_provider(definition: &mut Definition<'_>) {
    definition.name();
    definition.need("issuer", "String", is_text);
    definition.need("jwks_uri", "String", is_text);
    if let Some(uri) = definition.params.string("jwks_uri")
        && !uri.to_ascii_lowercase().starts_with("https:")
    {
        let description = format!("`{uri}` is a not valid URI");
        definition.refuse("jwks_uri", "invalid uri", &description);
    }
    if let Some(roles) = definition.given("roles").cloned() {
        let wrong = roles.one_or_many().iter().find(|role| !is_provided_role(role));
        if let Some(wrong) = wrong {
            definition.failures.push(invalid_type(&["roles"], wrong, "Role"));
        }
        definition.put("roles", roles);
    }
    definition.data();
}

/// The collections that a source is over.
fn collections_of(source: &Value) -> &[Value] {
    let collections = match source {
        Value::Object(fields) => fields.get("collection").or_else(|| fields.get("class")),
        other => Some(other),
    };
    collections.map_or(&[][..], Value::one_or_many)
}

pub fn create(evaluation: &mut Evaluation<'_>, native: Native, params: &Arc<Fields>) -> Result<Value> {
    let here = Ref::native(native);
    evaluation.check_present()?;
    evaluation.permit_on("create", &here, &[Value::Object(params.clone())])?;
    let fields = checked(native, params, true)?;
    check_role_names(evaluation, native, &fields)?;
    if native == Native::Roles {
        check(wrong_arities(&fields))?;
    }
    let id = evaluation.new_id();
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
            let password = params.string("password").cloned();
            let password = password.ok_or_else(|| {
                Errors::validation(vec![Failure::new(
                    &["password"],
                    "value required",
                    "Required value not found.",
                )])
            })?;
            link_credentials(evaluation, place, &fields)?;
            (
                fields.with("hashed_password", hash_password(evaluation, &password)?),
                None,
            )
        }
        Native::AccessProviders => {
            take_issuer(evaluation, place, &fields)?;
            let audience = secrets::audience(evaluation.surroundings.elsewhere(), place.database().0);
            (fields.with("audience", Value::string(audience)), None)
        }
    };
    let stored = Arc::new(stored);
    evaluation.write_version(place, None, Some(stored.clone()))?;
    schema_changed(evaluation, native, place.database());
    Ok(shown_new(&place.reference, reply.map_or(stored, Arc::new)))
}

/// What compiled schemas are made of has changed.
/// What follows in the query sees the schema as it is now.
fn schema_changed(evaluation: &mut Evaluation<'_>, native: Native, database: DatabaseNumber) {
    if !native.has_names() {
        return;
    }
    let key = rows::schema_stamp(database);
    let transaction = evaluation.view.writing();
    transaction.set_stamped(&key.0, &[], vec![0xff; 8], vec![rows::stamp(0)]);
    if database == evaluation.schema.database() {
        evaluation.schema = evaluation.surroundings.schema(&mut evaluation.view, database);
    }
}

fn take_name(evaluation: &mut Evaluation<'_>, place: &Place) -> Result<()> {
    let Target::Named(native, name) = &place.reference.target else {
        return Ok(());
    };
    let key = rows::name(place.database(), *native as u8, name);
    if evaluation.view.get(&key.0).is_some() {
        return Err(Errors::already_exists(&place.reference));
    }
    evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
    // Of an index and a database the original asks what there is by now.
    if !matches!(native, Native::Indexes | Native::Databases) {
        evaluation.names_given.push((*native, name.clone()));
    }
    Ok(())
}

fn register_database(evaluation: &mut Evaluation<'_>, number: u64, parent: DatabaseNumber) {
    let key = Key::global(b'R').number(number);
    evaluation.view.writing().set(&key.0, &parent.0.to_be_bytes());
}

fn take_issuer(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields) -> Result<()> {
    let issuer = fields.string("issuer").cloned().unwrap_or_else(|| "".into());
    let key = Key::of(place.database(), b'P').bytes(issuer.as_bytes());
    match evaluation.view.get(&key.0) {
        Some(owner) if rows::number_at(&owner, 0) != place.id => {
            let failure = Failure::new(&["issuer"], "duplicate value", "Issuer already exists.");
            Err(Errors::validation(vec![failure]))
        }
        _ => {
            evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
            Ok(())
        }
    }
}

/// Fields as stored, and as the reply shows them if it shows more.
type StoredAndShown = (Fields, Option<Fields>);

/// A hash that is told stands in the place of a new secret.
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

fn with_key_secret(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    fields: Fields,
    params: &Fields,
) -> Result<StoredAndShown> {
    if let Some(shown) = told_hash(params)? {
        if let Some(hash) = secrets::hash_shown_as(&shown) {
            register_key(evaluation, place, &fields, &hash)?;
        }
        return Ok((fields.with("hashed_secret", Value::String(shown)), None));
    }
    let secret = Secret::key(
        evaluation.surroundings.elsewhere(),
        place.id,
        &evaluation.surroundings.random(),
    );
    register_key(evaluation, place, &fields, &secret.hash())?;
    let stored = fields.with("hashed_secret", Value::string(secret.shown_hash()));
    let shown = fields.with("secret", Value::string(secret.text.as_str()));
    let shown = shown.with("hashed_secret", Value::string(secret.shown_hash()));
    Ok((stored, Some(shown)))
}

/// Whether a key's row in the registry is that of the key of this database; the past of a key of any number can be written.
fn registers_key(evaluation: &mut Evaluation<'_>, place: &Place) -> bool {
    let row = evaluation.view.get(&Key::global(b'K').number(place.id).0);
    row.is_some_and(|row| rows::number_at(&row, 0) == place.database().0)
}

/// What is put into the past of a key: it has no secret but one that is told and is its own.
pub fn inserted_key(place: &Place, params: &Fields) -> Result<Arc<Fields>> {
    let fields = checked(Native::Keys, params, true)?;
    check_secret(place, params)?;
    Ok(Arc::new(match params.string("secret") {
        Some(secret) => fields.with("hashed_secret", Value::string(secrets::shown_hash(secret))),
        None => fields,
    }))
}

/// A secret that is told must be one of the key itself.
fn check_secret(place: &Place, params: &Fields) -> Result<()> {
    let failure = match params.get("secret") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(secret)) if secrets::claim(secret) == Some(Claim::Key(place.id)) => return Ok(()),
        Some(Value::String(_)) => Failure::new(&["secret"], "invalid secret", "Invalid secret at `List(secret)`"),
        Some(other) => invalid_type(&["secret"], other, "String"),
    };
    check(vec![failure])
}

/// What a key opens is what its newest version says; without a secret it opens nothing.
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

fn register_key(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields, hash: &[u8]) -> Result<()> {
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

/// Names stay names.
pub struct NoNames;

impl Names for NoNames {
    fn number(&self, _: Native, _: &str) -> Option<u64> {
        None
    }

    fn name(&self, _: Native, _: u64) -> Option<Arc<str>> {
        None
    }
}

/// Whose a token is must be there.
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

fn with_token_secret(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    fields: Fields,
    params: &Fields,
) -> Result<StoredAndShown> {
    check_instance(evaluation, &fields)?;
    if let Some(shown) = told_hash(params)? {
        let key = Key::global(b'T').number(place.id);
        match secrets::hash_shown_as(&shown) {
            Some(hash) => {
                let row = [&place.database().0.to_be_bytes()[..], &hash].concat();
                evaluation.view.writing().set(&key.0, &row);
            }
            None => evaluation.view.writing().clear(&key.0),
        }
        let stored = fields.with("hashed_secret", Value::String(shown));
        return Ok((stored, Some(fields)));
    }
    let secret = Secret::token(
        evaluation.surroundings.elsewhere(),
        place.id,
        place.database().0,
        &evaluation.surroundings.random(),
    );
    let row = [&place.database().0.to_be_bytes()[..], &secret.hash()].concat();
    evaluation
        .view
        .writing()
        .set(&Key::global(b'T').number(place.id).0, &row);
    let stored = fields.with("hashed_secret", Value::string(secret.shown_hash()));
    let shown = fields.with("secret", Value::string(secret.text.as_str()));
    Ok((stored, Some(shown)))
}

/// A document has one password.
fn link_credentials(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields) -> Result<()> {
    let Some(Value::Ref(instance)) = fields.get("instance") else {
        return Ok(());
    };
    let key = credentials_key(&evaluation.resolve(instance)?);
    let known = evaluation.view.get(&key.0).map(|row| rows::number_at(&row, 0));
    if known.is_some_and(|known| known != place.id) {
        return Err(Errors::new(Code::InstanceNotUnique, "document is not unique."));
    }
    evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
    Ok(())
}

/// Credentials that are given to another document are that one's from now on, and no longer the first one's.
fn relink_credentials(evaluation: &mut Evaluation<'_>, place: &Place, old: &Fields, new: &Fields) -> Result<()> {
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

fn unlink_credentials(evaluation: &mut Evaluation<'_>, fields: &Fields) {
    if let Some(Value::Ref(instance)) = fields.get("instance")
        && let Ok(instance) = evaluation.resolve(instance)
    {
        evaluation.view.writing().clear(&credentials_key(&instance).0);
    }
}

fn check_credentials(params: &Fields) -> Result<()> {
    let mut failures = Vec::new();
    for key in ["password", "current_password"] {
        let path = ["credentials", key];
        match params.get("credentials") {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => match given.get(key) {
                None | Some(Value::Null | Value::String(_)) => {}
                Some(other) => failures.push(invalid_type(&path, other, "String")),
            },
            Some(other) => failures.push(invalid_type(&path, other, "Map")),
        }
    }
    check(failures)
}

/// Writes the credentials that come with the parameters of a document.
pub fn write_credentials(evaluation: &mut Evaluation<'_>, place: &Place, params: &Fields) -> Result<()> {
    check_credentials(params)?;
    let Some(Value::Object(given)) = params.get("credentials") else {
        return Ok(());
    };
    let Some(password) = given.string("password").cloned() else {
        return Ok(());
    };
    let known = evaluation.view.get(&credentials_key(place).0);
    let id = known
        .as_ref()
        .map_or_else(|| evaluation.new_id(), |row| rows::number_at(row, 0));
    let credentials = Place {
        schema: place.schema.clone(),
        collection: Native::Credentials as u64,
        id,
        reference: Ref::new(Target::Numbered(Native::Credentials, id as i64)),
    };
    let old = evaluation.current(&credentials);
    let former = old.as_ref().and_then(Version::fields).cloned();
    let hash = former.as_ref().and_then(|former| former.string("hashed_password"));
    let is_trusted = evaluation.authorization.reads_everything();
    prove_password(
        evaluation,
        hash,
        given,
        is_trusted,
        &["credentials", "current_password"],
    )?;
    let fields = Fields::new(vec![
        ("instance".into(), Value::Ref(place.reference.clone())),
        ("hashed_password".into(), hash_password(evaluation, &password)?),
    ]);
    evaluation
        .view
        .writing()
        .set(&credentials_key(place).0, &id.to_be_bytes());
    evaluation.write_version(&credentials, old.as_ref(), Some(Arc::new(fields)))
}

/// With a document go its credentials.
pub fn delete_credentials(evaluation: &mut Evaluation<'_>, place: &Place) -> Result<()> {
    let key = credentials_key(place);
    let Some(row) = evaluation.view.get(&key.0) else {
        return Ok(());
    };
    let id = rows::number_at(&row, 0);
    evaluation.view.writing().clear(&key.0);
    end_document(evaluation, Ref::new(Target::Numbered(Native::Credentials, id as i64)))
}

/// Deletes a document for the sake of another.
fn end_document(evaluation: &mut Evaluation<'_>, reference: Ref) -> Result<()> {
    let place = evaluation.resolve(&reference)?;
    match evaluation.current(&place) {
        Some(version) => evaluation.write_version(&place, Some(&version), None),
        None => Ok(()),
    }
}

/// Fills a new index if its sources are small; otherwise leaves it to the builder.
fn build_index(evaluation: &mut Evaluation<'_>, place: &Place, fields: Fields) -> Result<Fields> {
    let index = evaluation.schema.compile_index(place.id, place.reference.id(), &fields);
    let several = fields.get("source").and_then(Value::as_items).is_some();
    let documents = covered_documents(evaluation, &index, &[], BUILD_AT_ONCE_MAX + 1);
    let at_once = !several && documents.len() <= BUILD_AT_ONCE_MAX;
    // Whoever asks for that may read the index while it is being filled.
    let active = at_once || matches!(fields.get("active"), Some(Value::Bool(true)));
    let fields = fields.with("active", Value::Bool(active));
    note_form(evaluation.view.writing());
    if at_once {
        for document in documents {
            evaluation.index_document(&index, &document)?;
        }
    } else {
        let key = Key::global(b'B').number(place.database().0).number(place.id);
        evaluation.view.writing().set(&key.0, &[]);
        evaluation.surroundings.work_is_left();
    }
    Ok(fields)
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
    if native == Native::Indexes {
        check_index_change(&old, params, replace)?;
    }
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

/// Whether all that is asked for is another password; whose the credentials are stays.
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
    let mut fields = checked(native, &combined, false)?;
    check_role_names(evaluation, native, &fields)?;
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
            // A replacement that tells no hash gets another secret (as in the original's code).
            let told = match replace {
                true => params.clone(),
                false => Arc::new(merge(old, params)),
            };
            let stored;
            let fields_beside = fields.without(&["hashed_secret"]);
            (stored, shown_fields) = with_token_secret(evaluation, &place, fields_beside, &told)?;
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

/// What a replacement need not repeat.
fn is_kept(native: Native, key: &str) -> bool {
    match native {
        Native::Indexes => matches!(key, "source" | "terms" | "values" | "unique" | "partitions" | "name"),
        Native::Collections => matches!(key, "name" | "history_days"),
        Native::AccessProviders => matches!(key, "name" | "issuer" | "jwks_uri" | "roles"),
        Native::Databases | Native::Functions | Native::Roles => key == "name",
        Native::Tokens | Native::Credentials => key == "instance",
        _ => false,
    }
}

/// Hashing takes milliseconds, which not every thread has.
fn hash_password(evaluation: &mut Evaluation<'_>, password: &str) -> Result<Value> {
    evaluation.take_long()?;
    Ok(Value::string(secrets::hash_password(password)))
}

fn with_new_password(evaluation: &mut Evaluation<'_>, fields: Fields, old: &Fields, params: &Fields) -> Result<Fields> {
    let Some(password) = params.string("password") else {
        return Ok(fields);
    };
    let is_server = matches!(evaluation.authorization.rights, Rights::Server | Rights::ServerReadonly);
    let hash = old.string("hashed_password");
    prove_password(evaluation, hash, params, is_server, &["current_password"])?;
    Ok(fields.with("hashed_password", hash_password(evaluation, password)?))
}

/// Whoever is not trusted replaces a password only by telling the one before. Of credentials themselves a server is (as in the
/// original's code), through a document whoever may read everything.
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

fn renamed(evaluation: &mut Evaluation<'_>, place: &Place, native: Native, fields: &Fields) -> Result<Ref> {
    let name = fields.string("name").cloned().unwrap_or_else(|| "".into());
    let old = place.reference.id();
    if name == old {
        return Ok(place.reference.clone());
    }
    let moved = Place {
        reference: Ref::named(native, name),
        ..place.clone()
    };
    take_name(evaluation, &moved)?;
    evaluation
        .view
        .writing()
        .clear(&rows::name(place.database(), native as u8, &old).0);
    Ok(moved.reference)
}

/// Sources, terms and values are for ever.
fn check_index_change(old: &Fields, params: &Fields, replace: bool) -> Result<()> {
    let fixed = params.entries.iter().filter(|(key, value)| {
        let is_fixed = matches!(&**key, "source" | "terms" | "values");
        let same = old.get(key).is_some_and(|old| crate::storage::order::equal(old, value));
        is_fixed && !same
    });
    let changed: Vec<(Arc<str>, Value)> = fixed.cloned().collect();
    if changed.is_empty() || replace {
        return Ok(());
    }
    let description = format!(
        "Index sources, terms, and values may not be updated (Diff({}))",
        spaced(&Value::object(changed))
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

pub fn delete(evaluation: &mut Evaluation<'_>, reference: &Ref) -> Result<Value> {
    let place = evaluation.resolve(reference).within("delete")?;
    let found = place.native().zip(evaluation.live_fields(&place));
    let (native, (ts, fields)) = found.ok_or_else(|| Errors::not_found(reference))?;
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

/// Takes away what went with a schema object.
fn forget(evaluation: &mut Evaluation<'_>, place: &Place, native: Native, fields: &Fields) -> Result<()> {
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

/// Indexes over this collection alone go with it.
fn forget_indexes_of(evaluation: &mut Evaluation<'_>, collection: u64) -> Result<()> {
    let schema = evaluation.schema.clone();
    for index in schema.indexes_over(collection) {
        let alone = index.sources.iter().all(|source| source.collection == Some(collection));
        let reference = Ref::named(Native::Indexes, index.name.clone());
        if alone && let Ok(place) = evaluation.resolve(&reference) {
            end_document(evaluation, reference)?;
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
    // Whoever works in it now must notice.
    schema_changed(evaluation, Native::Collections, database);
    evaluation.view.writing().clear(&Key::global(b'R').number(database.0).0);
    clear_later(evaluation, &Key::database(database));
}

/// Leaves the rows below a prefix to be cleared when nobody waits.
fn clear_later(evaluation: &mut Evaluation<'_>, prefix: &Key) {
    let key = Key::global(b'X').bytes(&prefix.0);
    evaluation.view.writing().set(&key.0, &[]);
    evaluation.surroundings.work_is_left();
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
    let schema = evaluation
        .surroundings
        .schema(&mut evaluation.view, DatabaseNumber(target.id));
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
