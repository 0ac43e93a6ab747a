//! Writing documents, and rewriting their past. Schema objects are documents too: what is special
//! about them is in `definitions`.

use std::sync::Arc;

use super::refs::named_or_ref;
use crate::evaluation::definitions;
use crate::evaluation::operations::DOCUMENT_BYTES_MORE;
use crate::evaluation::pages;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::codec;
use crate::language::codec::storable;
use crate::language::error::{Code, Errors, Failure, Result, Step, Within, check, wrong_type};
use crate::language::time::Time;
use crate::language::value::{Contents, Fields, Native, Ref, Target, Timestamp, Value};
use crate::storage::documents::{Place, Version, merge, shown, shown_new};
use crate::storage::rows::{self, Rewritten};

/// The parameters of a write.
fn parameters(arguments: &Arguments, index: usize) -> Arc<Fields> {
    match arguments.optional(index) {
        Some(Value::Object(fields)) => fields.clone(),
        Some(Value::Document(document)) => document.as_object().as_object().cloned().unwrap_or_default(),
        _ => Arc::default(),
    }
}

fn reference(arguments: &Arguments) -> Ref {
    match arguments.value(0) {
        Value::Ref(reference) => reference.clone(),
        _ => unreachable!("the declaration asks for a ref"),
    }
}

/// Stored values may name only things that exist, and nothing of another database.
fn check_references(evaluation: &mut Evaluation<'_>, params: &Fields) -> Result<()> {
    let mut failures = Vec::new();
    find_bad_references(evaluation, params, &mut Vec::new(), &mut failures);
    check(failures)
}

fn find_bad_references(
    evaluation: &mut Evaluation<'_>,
    fields: &Fields,
    path: &mut Vec<Step>,
    failures: &mut Vec<Failure>,
) {
    for (key, value) in &fields.entries {
        path.push(Step::Name(key.clone()));
        find_bad_reference(evaluation, value, path, failures);
        path.pop();
    }
}

fn find_bad_reference(
    evaluation: &mut Evaluation<'_>,
    value: &Value,
    path: &mut Vec<Step>,
    failures: &mut Vec<Failure>,
) {
    match value {
        Value::Object(fields) => find_bad_references(evaluation, fields, path, failures),
        Value::Array(items) => {
            for (index, item) in items.values.iter().enumerate() {
                path.push(Step::Index(index));
                find_bad_reference(evaluation, item, path, failures);
                path.pop();
            }
        }
        Value::Ref(reference) => {
            let description = match evaluation.check_defined(reference) {
                Err(_) => "Cannot read reference.",
                Ok(()) if !reference.scope.is_empty() => "Reference cannot be scoped.",
                Ok(()) => return,
            };
            failures.push(Failure {
                field: path.clone(),
                code: "invalid reference",
                description: description.to_owned(),
                from_root: true,
            });
        }
        _ => {}
    }
}

pub fn create(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let operand = match arguments.value(0) {
        Value::Ref(reference) => reference.clone(),
        name => named_or_ref(evaluation, name, Native::Collections, "Identifier").within("create")?,
    };
    let params = parameters(arguments, 1);
    evaluation.check_defined(&operand).within("create")?;
    check_references(evaluation, &params)?;
    evaluation.check_own_scope(&operand).within("create")?;
    match &operand.target {
        Target::Native(native) => definitions::create(evaluation, *native, None, &params).within("create"),
        Target::Numbered(native, id) if carries_hash(*native, &params) => {
            definitions::create(evaluation, *native, Some(*id as u64), &params).within("create")
        }
        Target::Document(..) | Target::Named(Native::Collections, _) if !is_schema_document(&operand) => {
            create_document(evaluation, operand, &params).within("create")
        }
        _ => Err(Errors::already_exists(&operand)).within("create"),
    }
}

/// Returns true if a key, a token or credentials have a hash, so that they are only usable under
/// their original number.
fn carries_hash(native: Native, params: &Fields) -> bool {
    let hash = match native {
        Native::Keys | Native::Tokens => "hashed_secret",
        Native::Credentials => "hashed_password",
        _ => return false,
    };
    params.string(hash).is_some()
}

/// A schema object other than a collection cannot be created by its ref: it exists already.
fn is_schema_document(reference: &Ref) -> bool {
    matches!(reference.kind(), Some(native) if native != Native::Collections)
}

fn create_document(evaluation: &mut Evaluation<'_>, operand: Ref, params: &Arc<Fields>) -> Result<Value> {
    let named = match operand.target {
        Target::Document(..) => Some(operand.clone()),
        _ => None,
    };
    let collection = match &named {
        Some(reference) => reference.collection().unwrap_or_else(|| operand.clone()),
        None => operand,
    };
    let name = collection.id();
    let collection_number = evaluation.schema.collection(&name).map(|collection| collection.number);
    let number = collection_number.ok_or_else(|| Errors::invalid_ref("collection", &name))?;
    permit_create(evaluation, &collection, named.as_ref(), &Value::Object(params.clone()))?;
    let place_of = |evaluation: &Evaluation<'_>, id: u64| Place {
        schema: evaluation.schema.clone(),
        collection: number,
        id,
        reference: Ref::new(Target::Document(name.clone(), id as i64)),
    };
    let chosen = match named.map(|named| named.target) {
        Some(Target::Document(_, id)) => Some(place_of(evaluation, id as u64)),
        _ => None,
    };
    if let Some(place) = &chosen
        && evaluation.live_now(place).is_some()
    {
        return Err(Errors::already_exists(&place.reference));
    }
    evaluation.check_present()?;
    let fields = document_fields(params)?;
    let (place, old) = match chosen {
        Some(place) => {
            let old = evaluation.current(&place);
            (place, old)
        }
        // A generated id may equal an earlier chosen one.
        None => loop {
            evaluation.step(1)?;
            let id = evaluation.new_id();
            let place = place_of(evaluation, id);
            if evaluation.current(&place).is_none() {
                break (place, None);
            }
        },
    };
    evaluation.write_version(&place, old.as_ref(), Some(fields.clone()))?;
    definitions::write_credentials(evaluation, &place, params)?;
    Ok(shown_new(&place.reference, fields))
}

/// A document that is being written, as predicates are given it: with what its parameters say of
/// its credentials.
fn as_predicates_see(fields: &Arc<Fields>, params: &Fields) -> Value {
    match params.get("credentials") {
        Some(credentials) => Value::Object(Arc::new(fields.with("credentials", credentials.clone()))),
        None => Value::Object(fields.clone()),
    }
}

fn permit_create(
    evaluation: &mut Evaluation<'_>,
    collection: &Ref,
    named: Option<&Ref>,
    document: &Value,
) -> Result<()> {
    let Some(reference) = named else {
        return evaluation.permit_on("create", collection, std::slice::from_ref(document));
    };
    let arguments = [document.clone(), Value::Ref(reference.clone())];
    if evaluation.permit_on("create_with_id", collection, &arguments).is_ok() {
        return Ok(());
    }
    evaluation.permit_on("create", collection, std::slice::from_ref(document))?;
    let now = Timestamp(evaluation.now_micros);
    let arguments = history_arguments(reference, now, "create", document.clone());
    evaluation.permit_on("history_write", collection, &arguments)
}

/// Returns the arguments of predicates over writing history.
fn history_arguments(reference: &Ref, ts: Timestamp, action: &str, document: Value) -> [Value; 4] {
    [
        Value::Ref(reference.clone()),
        Value::Time(Time::from_micros(ts.0 as i64)),
        Value::string(action),
        document,
    ]
}

/// A set as the data of a document is kept as what it is made of.
fn definition_of(set: &Value) -> Value {
    match set {
        Value::Set(set) => Value::object(crate::language::codec::set_parts(set)),
        other => other.clone(),
    }
}

/// Returns the parameters of a write that a document keeps: `data` and `ttl`; others are ignored
/// (observed).
fn document_fields(params: &Fields) -> Result<Arc<Fields>> {
    let mut entries = Vec::new();
    let mut failures = Vec::new();
    match params.get("data") {
        None | Some(Value::Null) => {}
        Some(data @ Value::Object(_)) => entries.push(("data".into(), data.clone())),
        Some(Value::Document(document)) => entries.push(("data".into(), document.as_object())),
        Some(set @ Value::Set(_)) => entries.push(("data".into(), Value::record([("@set", definition_of(set))]))),
        Some(other) => failures.push(definitions::invalid_type(&["data"], other, "Map")),
    }
    match params.get("ttl") {
        None | Some(Value::Null) => {}
        Some(ttl @ Value::Time(_)) => entries.push(("ttl".into(), ttl.clone())),
        Some(other) => failures.push(definitions::invalid_type(&["ttl"], other, "Timestamp")),
    }
    check(failures)?;
    let stored = storable(&Value::object(entries));
    let mut fields = stored.as_object().cloned().unwrap_or_default();
    // Data without a field is shown as no data (observed).
    if fields
        .get("data")
        .and_then(Value::as_object)
        .is_some_and(|data| data.entries.is_empty())
    {
        fields = Arc::new(fields.without(&["data"]));
    }
    Ok(fields)
}

/// The place of an existing document, and its current version.
fn existing(evaluation: &mut Evaluation<'_>, reference: &Ref) -> Result<(Place, Version)> {
    let place = evaluation.resolve(reference)?;
    let (ts, contents) = evaluation
        .live_now(&place)
        .ok_or_else(|| Errors::not_found(reference))?;
    let version = Version {
        ts,
        contents: Some(contents),
    };
    Ok((place, version))
}

pub fn update(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    change(evaluation, arguments, "update", |old, params| {
        let changes = params
            .entries
            .iter()
            .filter(|(key, _)| matches!(&**key, "data" | "ttl"));
        merge(old.fields(), &Fields::new(changes.cloned().collect()))
    })
}

pub fn replace(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    change(evaluation, arguments, "replace", |_, params| {
        Fields::new(params.entries.clone())
    })
}

fn change(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    combine: fn(&Contents, &Fields) -> Fields,
) -> Result<Value> {
    let (reference, params) = (reference(arguments), parameters(arguments, 1));
    evaluation.check_defined(&reference).within(key)?;
    evaluation.check_own_scope(&reference).within(key)?;
    check_references(evaluation, &params)?;
    match reference.target {
        Target::Document(..) => change_document(evaluation, &reference, &params, combine, key),
        Target::Native(_) => Err(Errors::argument("Cannot update a schema meta collection.")).within(key),
        _ => definitions::change(evaluation, &reference, &params, key == "replace", key),
    }
}

fn change_document(
    evaluation: &mut Evaluation<'_>,
    reference: &Ref,
    params: &Arc<Fields>,
    combine: fn(&Contents, &Fields) -> Fields,
    key: &'static str,
) -> Result<Value> {
    let (place, old) = existing(evaluation, reference).within(key)?;
    let contents = old.contents.clone().ok_or_else(Errors::document_not_found)?;
    let combined = combine(&contents, params);
    let arguments = [
        Value::Object(contents.fields().clone()),
        as_predicates_see(&Arc::new(Fields::new(combined.entries.clone())), params),
        Value::Ref(reference.clone()),
    ];
    evaluation.permit("write", reference, &arguments)?;
    evaluation.check_present()?;
    let new = document_fields(&combined)?;
    evaluation.write_version(&place, Some(&old), Some(new.clone()))?;
    definitions::write_credentials(evaluation, &place, params)?;
    Ok(shown(reference, Timestamp::PENDING, new))
}

pub fn delete(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let reference = reference(arguments);
    evaluation.check_defined(&reference).within("delete")?;
    evaluation.check_own_scope(&reference).within("delete")?;
    match reference.target {
        Target::Document(..) => {}
        Target::Native(_) => return Err(Errors::argument("Cannot delete a schema meta collection.")).within("delete"),
        _ => return definitions::delete(evaluation, &reference),
    }
    let (place, old) = existing(evaluation, &reference)?;
    evaluation.permit("delete", &reference, &[Value::Ref(reference.clone())])?;
    evaluation.write_version(&place, Some(&old), None)?;
    definitions::delete_credentials(evaluation, &place)?;
    let fields = old
        .contents
        .map(|contents| contents.fields().clone())
        .unwrap_or_default();
    Ok(shown(&reference, old.ts, fields))
}

fn action(arguments: &Arguments, key: &'static str) -> Result<&'static str> {
    match arguments.text(2) {
        "create" | "add" => Ok("create"),
        "update" => Ok("update"),
        "delete" | "remove" => Ok("delete"),
        _ => Err(wrong_type("Action", arguments.value(2))).within(key),
    }
}

pub fn insert(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let reference = reference(arguments);
    let ts = evaluation.moment(arguments.value(1)).within("ts")?;
    let action = action(arguments, "action")?;
    let params = parameters(arguments, 3);
    evaluation.check_defined(&reference).within("insert")?;
    if ts.0 > evaluation.now_micros {
        let message = "Cannot write outside of snapshot time.";
        return Err(Errors::new(Code::InvalidWriteTime, message));
    }
    let place = rewritable(evaluation, &reference, "insert")?;
    check_references(evaluation, &params)?;
    let is_key = place.native() == Some(Native::Keys);
    let fields = match action {
        "delete" => None,
        _ if is_key => Some(definitions::inserted_key(&place, &params)?),
        _ => Some(document_fields(&params)?),
    };
    let data = fields
        .as_ref()
        .map_or(Value::Null, |fields| Value::Object(fields.clone()));
    let arguments = history_arguments(&reference, ts, action, data.clone());
    evaluation.permit("history_write", &reference, &arguments)?;
    let inserted = Version {
        ts,
        contents: fields.clone().map(Contents::from),
    };
    let before = evaluation.versions(&place);
    let mut after: Vec<Version> = before.iter().filter(|version| version.ts != ts).cloned().collect();
    after.push(inserted);
    after.sort_by_key(|version| version.ts);
    rewrite(evaluation, &place, &before, &after, ts)?;
    if is_key {
        definitions::settle_key(evaluation, &place)?;
    }
    // The inserted version is shown in isolation: an update is shown like a creation, regardless of
    // previous versions (as in the original).
    let (action, data) = match &fields {
        None => ("delete", None),
        Some(fields) => ("create", fields.get("data").cloned()),
    };
    let data = data.unwrap_or(Value::Null);
    Ok(pages::inserted(evaluation.version, ts, action, reference, data))
}

pub fn remove(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let reference = reference(arguments);
    let ts = evaluation.moment(arguments.value(1)).within("ts")?;
    let action = action(arguments, "action")?;
    evaluation.check_defined(&reference).within("remove")?;
    let place = rewritable(evaluation, &reference, "remove")?;
    let before = evaluation.versions(&place);
    let removed = before.iter().find(|version| version.ts == ts);
    let removed = removed
        .and_then(|version| version.fields().cloned())
        .unwrap_or_default();
    let arguments = history_arguments(&reference, ts, action, Value::Object(removed));
    evaluation.permit("history_write", &reference, &arguments)?;
    let is_deletion = action == "delete";
    let stays = |version: &&Version| version.ts != ts || version.contents.is_none() != is_deletion;
    let after: Vec<Version> = before.iter().filter(stays).cloned().collect();
    if after.len() < before.len() {
        rewrite(evaluation, &place, &before, &after, ts)?;
    }
    Ok(Value::Null)
}

/// History may be rewritten for documents; for keys it can only be inserted; for schema objects it
/// is fixed.
fn rewritable(evaluation: &mut Evaluation<'_>, reference: &Ref, key: &'static str) -> Result<Place> {
    evaluation.check_own_scope(reference).within(key)?;
    match reference.target {
        Target::Document(..) => evaluation.resolve(reference),
        Target::Numbered(Native::Keys, _) if key == "insert" => evaluation.resolve(reference),
        _ => Err(Errors::argument(format!("Cannot {key} event for specified ref."))),
    }
}

/// Replaces the versions of a document, of which that at `ts` is the only one that differs.
fn rewrite(
    evaluation: &mut Evaluation<'_>,
    place: &Place,
    before: &[Version],
    after: &[Version],
    ts: Timestamp,
) -> Result<()> {
    evaluation.rewrite_entries(place, before, after)?;
    let inserted = after.iter().find(|version| version.ts == ts).and_then(Version::fields);
    let bytes = inserted.map_or(0, |fields| Value::Object(fields.clone()).size().bytes);
    evaluation.count_written(place, DOCUMENT_BYTES_MORE + bytes);
    let prefix = rows::history(place.database(), place.collection, place.id);
    let current = rows::document(place.database(), place.collection, place.id);
    let key = rows::rewritten(place.database(), place.collection, place.id).number(Timestamp::PENDING.0);
    let stamp = codec::stamp(key.0.len() - 8);
    let transaction = evaluation.view.writing();
    transaction.set_stamped(&key.0, &[stamp], rewriting(before, after, ts), Vec::new());
    for version in before {
        transaction.clear(&prefix.clone().number(version.ts.0).0);
    }
    transaction.clear(&current.0);
    let (last, former) = match after.split_last() {
        Some((last, former)) if last.contents.is_some() => (Some(last), former),
        _ => (None, after),
    };
    for version in former {
        evaluation.put_former(place, version)?;
    }
    if let Some(Version {
        ts,
        contents: Some(contents),
    }) = last
    {
        let fields = contents.fields();
        let expiry = crate::storage::documents::expiry_micros(place, *ts, contents.ttl(), evaluation.now_micros);
        let row = crate::storage::rows::encode_version(*ts, expiry, fields, place.schema.as_ref());
        evaluation
            .view
            .writing()
            .set_stamped(&current.0, &[], row.bytes, row.stamps);
    }
    Ok(())
}

/// Returns the events of a rewriting for streams: the time and the action of the inserted or
/// removed version, and of the version after it, which has another predecessor now. Removals are
/// first, insertions last.
fn rewriting(before: &[Version], after: &[Version], ts: Timestamp) -> Vec<u8> {
    let is_removal = !after.iter().any(|version| version.ts == ts);
    let encode = |versions: &[Version], index: usize| {
        let former = index.checked_sub(1).and_then(|former| versions.get(former));
        let is_there = |version: Option<&Version>| version.is_some_and(|version| version.contents.is_some());
        let action = match (is_there(former), is_there(versions.get(index))) {
            (_, false) => Rewritten::Delete,
            (true, true) => Rewritten::Update,
            (false, true) => Rewritten::Create,
        };
        [&[action as u8][..], &versions[index].ts.0.to_be_bytes()].concat()
    };
    let next = after.iter().position(|version| version.ts > ts);
    let next = next.map(|index| [&[0][..], &encode(after, index)].concat());
    let among = if is_removal { before } else { after };
    let own = among.iter().position(|version| version.ts == ts);
    let own = own.map(|index| [&[u8::from(is_removal)][..], &encode(among, index)].concat());
    match is_removal {
        true => own.into_iter().chain(next).flatten().collect(),
        false => next.into_iter().chain(own).flatten().collect(),
    }
}

fn define(evaluation: &mut Evaluation<'_>, arguments: &Arguments, native: Native, key: &'static str) -> Result<Value> {
    let params = parameters(arguments, 0);
    check_references(evaluation, &params)?;
    definitions::create(evaluation, native, None, &params).within(key)
}

pub fn create_database(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Databases, "create_database")
}

pub fn create_collection(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Collections, "create_collection")
}

pub fn create_class(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Collections, "create_class")
}

pub fn create_index(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Indexes, "create_index")
}

pub fn create_function(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Functions, "create_function")
}

pub fn create_role(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Roles, "create_role")
}

pub fn create_key(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::Keys, "create_key")
}

pub fn create_access_provider(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    define(evaluation, arguments, Native::AccessProviders, "create_access_provider")
}

pub fn move_database(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let to = match arguments.value(1) {
        Value::Ref(to) => to.clone(),
        other => return Err(wrong_type("Database Ref", other)).within("to"),
    };
    definitions::move_database(evaluation, &reference(arguments), &to)
}
