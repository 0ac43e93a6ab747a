//! The one table of functions: their keys, what their arguments may be, and what they may do.
//!
//! Parsing, checking of types and effects, and the page of compatibility derive from it. A function
//! is recognised by its set of keys; the first key is its name. Its body is in `functions`, by the
//! place in this table.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use crate::language::api_version::ApiVersion;
use crate::language::error::{Errors, wrong_type};
use crate::language::expression::Effect;
use crate::language::json::Json;
use crate::language::time::Unit;
use crate::language::value::{Native, Target, Value};

#[derive(Debug)]
pub struct Signature {
    pub parameters: &'static [Parameter],
    pub effect: Effect,
    /// It may write through the functions that it calls.
    pub may_write: bool,
    /// It evaluates its arguments itself, or not at all.
    pub form: Option<Form>,
}

impl Signature {
    /// The maximal effect of a call.
    pub fn maximal_effect(&self) -> Effect {
        match self.may_write {
            true => Effect::Write,
            false => self.effect,
        }
    }

    /// Returns true if a version of the API has it.
    fn is_in(&self, version: ApiVersion) -> bool {
        let (since, until) = match self.parameters[0].key {
            "contains_path" | "contains_field" | "contains_value" => (ApiVersion::V3, None),
            "first" | "last" | "access_provider" | "access_providers" | "create_access_provider" => {
                (ApiVersion::V4, None)
            }
            "current_identity" | "has_current_identity" | "current_token" | "has_current_token" => {
                (ApiVersion::V4, None)
            }
            "and" | "or" if self.form.is_some() => (ApiVersion::V3, None),
            "and" | "or" => (ApiVersion::V2_0, Some(ApiVersion::V3)),
            _ => (ApiVersion::V2_0, None),
        };
        version >= since && until.is_none_or(|until| version < until)
    }
}

#[derive(Debug)]
pub struct Parameter {
    pub key: &'static str,
    pub required: bool,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Let,
    Variable,
    If,
    Do,
    At,
    Query,
    Quote,
    Object,
    Select,
    And,
    Or,
}

/// The kinds of an argument. Kinds with an s take one or an array of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Any,
    /// At least one of anything.
    Anys,
    Scalars,
    Null,
    NullOrDatabase,
    Database,
    Boolean,
    /// At least one.
    Booleans,
    Integer,
    Number,
    /// At least one.
    Numbers,
    Text,
    Texts,
    Array,
    Object,
    /// Written out in place: the parser requires it.
    Lambda,
    /// Written out in place, or any expression: the function says what that may be.
    LambdaOrAny,
    Ref,
    CollectionRef,
    /// A ref or the name of a collection.
    RefOrName,
    IndexRefOrName,
    FunctionRefOrName,
    RefOrSet,
    /// A set, or a ref that may lead nowhere.
    AnyRefOrSet,
    Set,
    SetOrArray,
    /// At least one.
    SetsOrArrays,
    Iterable,
    /// A time, or microseconds.
    Time,
    /// A time that may be that of this transaction.
    Moment,
    Temporal,
    Unit,
    Action,
    Normalizer,
}

impl Kind {
    /// Returns its name in messages.
    pub fn expected(self) -> &'static str {
        match self {
            Kind::Any | Kind::Anys => "Any",
            Kind::Scalars => "Scalar",
            Kind::Null => "Null",
            Kind::NullOrDatabase => "Database Ref or Null",
            Kind::Database => "Database Ref",
            Kind::Boolean | Kind::Booleans => "Boolean",
            Kind::Integer => "Integer",
            Kind::Number | Kind::Numbers => "Number",
            Kind::Text | Kind::Texts => "String",
            Kind::Array => "Array",
            Kind::Object => "Object",
            Kind::Lambda | Kind::LambdaOrAny => "Lambda",
            Kind::Ref => "Ref",
            Kind::CollectionRef => "Collection Ref",
            Kind::RefOrName | Kind::IndexRefOrName | Kind::FunctionRefOrName => "Identifier",
            Kind::RefOrSet | Kind::AnyRefOrSet => "Ref or Set",
            Kind::Set => "Set",
            Kind::SetOrArray | Kind::SetsOrArrays | Kind::Iterable => "Array, Set, or Page",
            Kind::Time | Kind::Moment => "Time",
            Kind::Temporal => "Temporal",
            Kind::Unit => "Time Unit",
            Kind::Action => "String 'create', 'update', or 'delete'",
            Kind::Normalizer => "String 'NFKCCaseFold', 'NFC', 'NFD', 'NFKC', or 'NFKD'",
        }
    }

    /// Returns the error for a value that does not fit.
    pub fn wrong(self, value: &Value) -> Errors {
        let is_identifier = matches!(value, Value::Ref(_) | Value::Set(_));
        match (self, value) {
            (Kind::Set, _) if !is_identifier => wrong_type("Ref or Set", value),
            (Kind::SetOrArray | Kind::SetsOrArrays, Value::Page(_)) => wrong_type("Set or Array", value),
            _ => wrong_type(self.expected(), value),
        }
    }

    /// Returns true if a ref is accepted only if its target exists.
    pub fn needs_defined(self) -> bool {
        matches!(
            self,
            Kind::NullOrDatabase
                | Kind::Database
                | Kind::Ref
                | Kind::CollectionRef
                | Kind::RefOrName
                | Kind::IndexRefOrName
                | Kind::FunctionRefOrName
                | Kind::RefOrSet
                | Kind::Set
                | Kind::SetOrArray
                | Kind::SetsOrArrays
                | Kind::Iterable
        )
    }

    pub fn takes_many(self) -> bool {
        matches!(self, Kind::Texts | Kind::Scalars) || self.takes_one_or_more()
    }

    pub fn takes_one_or_more(self) -> bool {
        matches!(self, Kind::Anys | Kind::Booleans | Kind::Numbers | Kind::SetsOrArrays)
    }

    pub fn takes(self, value: &Value) -> bool {
        match self {
            Kind::Any | Kind::Anys | Kind::LambdaOrAny => true,
            Kind::Scalars => is_scalar(value),
            Kind::Null => value.is_null(),
            Kind::NullOrDatabase => value.is_null() || Kind::Database.takes(value),
            Kind::Database => names(value, Native::Databases),
            Kind::Boolean | Kind::Booleans => matches!(value, Value::Bool(_)),
            Kind::Integer => matches!(value, Value::Int(_)),
            Kind::Number | Kind::Numbers => matches!(value, Value::Int(_) | Value::Double(_)),
            Kind::Text | Kind::Texts => matches!(value, Value::String(_)),
            Kind::Array => matches!(value, Value::Array(_)),
            Kind::Object => matches!(value, Value::Object(_)),
            Kind::Lambda => matches!(value, Value::Query(_)),
            Kind::Ref => matches!(value, Value::Ref(_)),
            Kind::CollectionRef => match value {
                Value::Ref(reference) => reference.is_collection(),
                _ => false,
            },
            Kind::RefOrName => matches!(value, Value::Ref(_) | Value::String(_)),
            Kind::IndexRefOrName => matches!(value, Value::String(_)) || names(value, Native::Indexes),
            Kind::FunctionRefOrName => matches!(value, Value::String(_)) || names(value, Native::Functions),
            Kind::RefOrSet | Kind::AnyRefOrSet => matches!(value, Value::Ref(_) | Value::Set(_)),
            Kind::Set => is_set(value),
            Kind::SetOrArray | Kind::SetsOrArrays => is_set(value) || matches!(value, Value::Array(_)),
            Kind::Iterable => is_set(value) || matches!(value, Value::Array(_) | Value::Page(_)),
            Kind::Time => matches!(value, Value::Time(_) | Value::Int(_)),
            Kind::Moment => matches!(value, Value::Time(_) | Value::Int(_) | Value::TransactionTime),
            Kind::Temporal => matches!(value, Value::Time(_) | Value::Date(_)),
            Kind::Unit => value.as_str().is_some_and(|name| Unit::parse(name).is_some()),
            Kind::Action => is_one_of(value, &["create", "update", "delete"]),
            Kind::Normalizer => is_one_of(value, &["NFKCCaseFold", "NFC", "NFD", "NFKC", "NFKD"]),
        }
    }
}

/// Neither a container nor a lambda.
fn is_scalar(value: &Value) -> bool {
    !matches!(
        value,
        Value::Array(_) | Value::Object(_) | Value::Page(_) | Value::Document(_) | Value::Set(_) | Value::Query(_)
    )
}

fn names(value: &Value, native: Native) -> bool {
    matches!(value, Value::Ref(reference) if reference.names(native))
}

fn is_one_of(value: &Value, texts: &[&str]) -> bool {
    value.as_str().is_some_and(|text| texts.contains(&&**text))
}

/// A set, or the ref of a built-in collection, which can be used as one.
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Set(_) => true,
        Value::Ref(reference) => matches!(reference.target, Target::Native(_)),
        _ => false,
    }
}

const fn need(key: &'static str, kind: Kind) -> Parameter {
    Parameter {
        key,
        required: true,
        kind,
    }
}

const fn may(key: &'static str, kind: Kind) -> Parameter {
    Parameter {
        key,
        required: false,
        kind,
    }
}

const fn pure(parameters: &'static [Parameter]) -> Signature {
    signature(Effect::Pure, parameters)
}

const fn read(parameters: &'static [Parameter]) -> Signature {
    signature(Effect::Read, parameters)
}

const fn write(parameters: &'static [Parameter]) -> Signature {
    signature(Effect::Write, parameters)
}

const fn signature(effect: Effect, parameters: &'static [Parameter]) -> Signature {
    Signature {
        parameters,
        effect,
        may_write: false,
        form: None,
    }
}

const fn form(form: Form, parameters: &'static [Parameter]) -> Signature {
    Signature {
        form: Some(form),
        ..pure(parameters)
    }
}

use Kind::*;

/// Every function. Keys after the first are in the order in which their arguments are evaluated.
pub static SIGNATURES: &[Signature] = &[
    // Basic forms.
    form(Form::Let, &[need("let", Any), need("in", Any)]),
    form(Form::Variable, &[need("var", Any)]),
    form(Form::If, &[need("if", Any), need("then", Any), need("else", Any)]),
    form(Form::Do, &[need("do", Any)]),
    form(Form::At, &[need("at", Any), need("expr", Any)]),
    form(Form::Query, &[need("query", Any)]),
    form(Form::Quote, &[need("quote", Any)]),
    form(Form::Object, &[need("object", Any)]),
    form(
        Form::Select,
        &[
            need("select", Any),
            need("from", Any),
            may("default", Any),
            may("all", Any),
        ],
    ),
    form(
        Form::Select,
        &[need("select_all", Any), need("from", Any), may("default", Any)],
    ),
    form(
        Form::Select,
        &[need("select_as_index", Any), need("from", Any), may("default", Any)],
    ),
    form(Form::And, &[need("and", Any)]),
    form(Form::Or, &[need("or", Any)]),
    pure(&[need("abort", Text)]),
    Signature {
        parameters: &[need("call", FunctionRefOrName), may("arguments", Any)],
        effect: Effect::Read,
        may_write: true,
        form: None,
    },
    pure(&[need("not", Boolean)]),
    pure(&[need("equals", Anys)]),
    pure(&[need("lt", Anys)]),
    pure(&[need("lte", Anys)]),
    pure(&[need("gt", Anys)]),
    pure(&[need("gte", Anys)]),
    pure(&[need("contains_path", Any), need("in", Any)]),
    pure(&[need("contains", Any), need("in", Any)]),
    pure(&[need("contains_field", Text), need("in", Any)]),
    read(&[need("contains_value", Any), need("in", Any)]),
    // Collections and objects.
    pure(&[need("map", Lambda), need("collection", Iterable)]),
    pure(&[need("foreach", Lambda), need("collection", Iterable)]),
    pure(&[need("filter", Lambda), need("collection", Iterable)]),
    read(&[
        need("reduce", Lambda),
        need("initial", Any),
        need("collection", Iterable),
    ]),
    pure(&[need("take", Integer), need("collection", Any)]),
    pure(&[need("drop", Integer), need("collection", Any)]),
    pure(&[need("append", Any), need("collection", Array)]),
    pure(&[need("prepend", Any), need("collection", Array)]),
    pure(&[need("is_empty", Iterable)]),
    pure(&[need("is_nonempty", Iterable)]),
    read(&[need("count", Iterable)]),
    read(&[need("sum", Iterable)]),
    read(&[need("mean", Iterable)]),
    read(&[need("any", Iterable)]),
    read(&[need("all", Iterable)]),
    pure(&[need("reverse", Iterable)]),
    pure(&[need("distinct", Iterable)]),
    pure(&[need("union", SetsOrArrays)]),
    pure(&[need("intersection", SetsOrArrays)]),
    pure(&[need("difference", SetsOrArrays)]),
    pure(&[need("merge", Any), need("with", Any), may("lambda", Lambda)]),
    pure(&[need("to_object", Any)]),
    pure(&[need("to_array", Any)]),
    // Reads and sets.
    read(&[need("get", RefOrSet), may("ts", Moment)]),
    read(&[need("exists", AnyRefOrSet), may("ts", Moment)]),
    read(&[need("first", SetOrArray)]),
    read(&[need("last", SetOrArray)]),
    read(&[
        need("paginate", RefOrSet),
        may("after", Any),
        may("ts", Moment),
        may("size", Integer),
        may("events", Boolean),
        may("sources", Boolean),
    ]),
    read(&[
        need("paginate", RefOrSet),
        need("before", Any),
        may("ts", Moment),
        may("size", Integer),
        may("events", Boolean),
        may("sources", Boolean),
    ]),
    read(&[
        need("paginate", RefOrSet),
        need("cursor", Any),
        may("ts", Moment),
        may("size", Integer),
        may("events", Boolean),
        may("sources", Boolean),
    ]),
    pure(&[need("match", IndexRefOrName), may("terms", Any)]),
    pure(&[need("match", Any), need("index", IndexRefOrName)]),
    pure(&[need("documents", CollectionRef)]),
    pure(&[need("singleton", Ref)]),
    pure(&[need("events", RefOrSet)]),
    pure(&[need("join", Set), need("with", LambdaOrAny)]),
    pure(&[need("range", Set), need("from", Any), need("to", Any)]),
    read(&[need("key_from_secret", Text)]),
    // Writes.
    write(&[need("create", RefOrName), may("params", Object)]),
    write(&[need("update", Ref), may("params", Object)]),
    write(&[need("replace", Ref), may("params", Object)]),
    write(&[need("delete", Ref)]),
    write(&[
        need("insert", Ref),
        need("ts", Time),
        need("action", Action),
        may("params", Object),
    ]),
    write(&[need("remove", Ref), need("ts", Time), need("action", Action)]),
    write(&[need("create_database", Object)]),
    write(&[need("create_collection", Object)]),
    write(&[need("create_class", Object)]),
    write(&[need("create_index", Object)]),
    write(&[need("create_function", Object)]),
    write(&[need("create_role", Object)]),
    write(&[need("create_key", Object)]),
    write(&[need("create_access_provider", Object)]),
    write(&[need("move_database", Database), need("to", Database)]),
    // Authentication.
    write(&[need("login", RefOrSet), need("params", Object)]),
    write(&[need("logout", Boolean)]),
    read(&[need("identify", RefOrSet), need("password", Text)]),
    read(&[need("identity", Null)]),
    read(&[need("current_identity", Null)]),
    read(&[need("has_identity", Null)]),
    read(&[need("has_current_identity", Null)]),
    read(&[need("current_token", Null)]),
    pure(&[need("has_current_token", Null)]),
    // Refs and ids.
    pure(&[need("ref", Any), need("id", Any), may("scope", Database)]),
    pure(&[need("database", Text), may("scope", Database)]),
    pure(&[need("index", Text), may("scope", Database)]),
    pure(&[need("collection", Text), may("scope", Database)]),
    pure(&[need("class", Text), may("scope", Database)]),
    pure(&[need("function", Text), may("scope", Database)]),
    pure(&[need("role", Text), may("scope", Database)]),
    pure(&[need("access_provider", Text), may("scope", Database)]),
    pure(&[need("databases", NullOrDatabase)]),
    pure(&[need("indexes", NullOrDatabase)]),
    pure(&[need("collections", NullOrDatabase)]),
    pure(&[need("classes", NullOrDatabase)]),
    pure(&[need("functions", NullOrDatabase)]),
    pure(&[need("roles", NullOrDatabase)]),
    pure(&[need("keys", NullOrDatabase)]),
    pure(&[need("tokens", NullOrDatabase)]),
    pure(&[need("credentials", NullOrDatabase)]),
    pure(&[need("access_providers", NullOrDatabase)]),
    write(&[need("new_id", Null)]),
    write(&[need("next_id", Null)]),
    // Strings.
    pure(&[need("concat", Texts), may("separator", Text)]),
    pure(&[need("casefold", Scalars), may("normalizer", Normalizer)]),
    pure(&[need("containsstr", Text), need("search", Text)]),
    pure(&[need("startswith", Text), need("search", Text)]),
    pure(&[need("endswith", Text), need("search", Text)]),
    pure(&[need("containsstrregex", Text), need("pattern", Text)]),
    pure(&[need("findstr", Text), need("find", Text), may("start", Integer)]),
    pure(&[
        need("findstrregex", Text),
        need("pattern", Text),
        may("start", Integer),
        may("num_results", Integer),
    ]),
    pure(&[need("replacestr", Text), need("find", Text), need("replace", Text)]),
    pure(&[
        need("replacestrregex", Text),
        need("pattern", Text),
        need("replace", Text),
        may("first", Boolean),
    ]),
    pure(&[need("regexescape", Text)]),
    pure(&[need("length", Text)]),
    pure(&[need("lowercase", Text)]),
    pure(&[need("uppercase", Text)]),
    pure(&[need("titlecase", Text)]),
    pure(&[need("ltrim", Text)]),
    pure(&[need("rtrim", Text)]),
    pure(&[need("trim", Text)]),
    pure(&[need("ngram", Scalars), may("min", Integer), may("max", Integer)]),
    pure(&[need("repeat", Text), may("number", Integer)]),
    pure(&[need("space", Integer)]),
    pure(&[need("substring", Text), may("start", Integer), may("length", Integer)]),
    pure(&[need("format", Text), need("values", Any)]),
    // Numbers.
    pure(&[need("add", Numbers)]),
    pure(&[need("subtract", Numbers)]),
    pure(&[need("multiply", Numbers)]),
    pure(&[need("divide", Numbers)]),
    pure(&[need("modulo", Numbers)]),
    pure(&[need("bitand", Numbers)]),
    pure(&[need("bitor", Numbers)]),
    pure(&[need("bitxor", Numbers)]),
    pure(&[need("bitnot", Number)]),
    read(&[need("max", Iterable)]),
    read(&[need("min", Iterable)]),
    pure(&[need("abs", Number)]),
    pure(&[need("sign", Number)]),
    pure(&[need("sqrt", Number)]),
    pure(&[need("ceil", Number)]),
    pure(&[need("floor", Number)]),
    pure(&[need("round", Number), may("precision", Integer)]),
    pure(&[need("trunc", Number), may("precision", Integer)]),
    pure(&[need("acos", Number)]),
    pure(&[need("asin", Number)]),
    pure(&[need("atan", Number)]),
    pure(&[need("cos", Number)]),
    pure(&[need("cosh", Number)]),
    pure(&[need("degrees", Number)]),
    pure(&[need("exp", Number)]),
    pure(&[need("hypot", Number), may("b", Number)]),
    pure(&[need("ln", Number)]),
    pure(&[need("log", Number)]),
    pure(&[need("pow", Number), may("exp", Number)]),
    pure(&[need("radians", Number)]),
    pure(&[need("sin", Number)]),
    pure(&[need("sinh", Number)]),
    pure(&[need("tan", Number)]),
    pure(&[need("tanh", Number)]),
    // Time.
    pure(&[need("time", Text)]),
    pure(&[need("now", Null)]),
    pure(&[need("epoch", Integer), need("unit", Unit)]),
    pure(&[need("date", Text)]),
    pure(&[need("to_micros", Time)]),
    pure(&[need("to_millis", Time)]),
    pure(&[need("to_seconds", Time)]),
    pure(&[need("second", Time)]),
    pure(&[need("minute", Time)]),
    pure(&[need("hour", Time)]),
    pure(&[need("day_of_month", Time)]),
    pure(&[need("day_of_week", Time)]),
    pure(&[need("day_of_year", Time)]),
    pure(&[need("month", Time)]),
    pure(&[need("year", Time)]),
    pure(&[need("time_add", Temporal), need("offset", Integer), need("unit", Unit)]),
    pure(&[
        need("time_subtract", Temporal),
        need("offset", Integer),
        need("unit", Unit),
    ]),
    pure(&[need("time_diff", Temporal), need("other", Temporal), need("unit", Unit)]),
    // Casts and tests of types.
    pure(&[need("to_string", Any)]),
    pure(&[need("to_number", Any)]),
    pure(&[need("to_integer", Any)]),
    pure(&[need("to_double", Any)]),
    pure(&[need("to_time", Any)]),
    pure(&[need("to_date", Any)]),
    pure(&[need("is_number", Any)]),
    pure(&[need("is_double", Any)]),
    pure(&[need("is_integer", Any)]),
    pure(&[need("is_boolean", Any)]),
    pure(&[need("is_null", Any)]),
    pure(&[need("is_bytes", Any)]),
    pure(&[need("is_timestamp", Any)]),
    pure(&[need("is_date", Any)]),
    pure(&[need("is_uuid", Any)]),
    pure(&[need("is_string", Any)]),
    pure(&[need("is_array", Any)]),
    pure(&[need("is_object", Any)]),
    pure(&[need("is_ref", Any)]),
    pure(&[need("is_set", Any)]),
    pure(&[need("is_doc", Any)]),
    pure(&[need("is_lambda", Any)]),
    pure(&[need("is_collection", Any)]),
    pure(&[need("is_database", Any)]),
    pure(&[need("is_index", Any)]),
    pure(&[need("is_function", Any)]),
    pure(&[need("is_key", Any)]),
    pure(&[need("is_token", Any)]),
    pure(&[need("is_credentials", Any)]),
    pure(&[need("is_role", Any)]),
    // For old versions: all operands are evaluated.
    pure(&[need("and", Booleans)]),
    pure(&[need("or", Booleans)]),
];

/// The place of the function that takes exactly these keys in a version of the API.
pub fn find(fields: &[(Arc<str>, Json)], version: ApiVersion) -> Option<usize> {
    static BY_NAME: LazyLock<FxHashMap<&'static str, Vec<usize>>> = LazyLock::new(|| {
        let mut signatures: FxHashMap<&'static str, Vec<usize>> = FxHashMap::default();
        for (number, signature) in SIGNATURES.iter().enumerate() {
            signatures.entry(signature.parameters[0].key).or_default().push(number);
        }
        signatures
    });
    let named = fields.iter().filter_map(|(key, _)| BY_NAME.get(&**key)).flatten();
    named.copied().find(|&number| {
        let signature = &SIGNATURES[number];
        signature.is_in(version) && takes_exactly(signature, fields)
    })
}

/// The keys of `fields` differ from each other.
fn takes_exactly(signature: &Signature, fields: &[(Arc<str>, Json)]) -> bool {
    let mut count = 0;
    for parameter in signature.parameters {
        let is_given = fields.iter().any(|(name, _)| &**name == parameter.key);
        if parameter.required && !is_given {
            return false;
        }
        count += usize::from(is_given);
    }
    count == fields.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the functions that only old versions have.
    const DOCUMENTED: &[Signature] = SIGNATURES.split_at(SIGNATURES.len() - 2).0;

    /// One line of the compatibility page: the keys, optional ones with a question mark, and the
    /// effect.
    fn line(signature: &Signature) -> String {
        let keys = signature.parameters.iter().map(|parameter| match parameter.required {
            true => format!("`{}`", parameter.key),
            false => format!("`{}`?", parameter.key),
        });
        let keys: Vec<String> = keys.collect();
        let effect = match (signature.may_write, signature.effect) {
            (true, _) => "as what it calls",
            (_, Effect::Pure) => "none",
            (_, Effect::Read) => "reads",
            (_, Effect::Write) => "writes",
        };
        format!("| {} | {effect} | yes |", keys.join(", "))
    }

    /// The table in `docs/compat/fauna.md` is this table. `REWRITE=1` rewrites it.
    #[test]
    fn the_page_of_compatibility_lists_every_function() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compat/fauna.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, tail) = page.split_once("<!-- functions -->\n").unwrap();
        let (_, after) = tail.split_once("<!-- end -->\n").unwrap();
        let lines: Vec<String> = DOCUMENTED.iter().map(line).collect();
        let table = format!("| keys | effect | works |\n| --- | --- | --- |\n{}\n", lines.join("\n"));
        let expected = format!("{before}<!-- functions -->\n{table}<!-- end -->\n{after}");
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(path, expected).unwrap();
        } else {
            assert_eq!(page, expected, "run this test with REWRITE=1");
        }
    }

    #[test]
    fn no_two_functions_take_the_same_keys() {
        let keys = |signature: &Signature| {
            let mut keys: Vec<&str> = signature
                .parameters
                .iter()
                .filter(|parameter| parameter.required)
                .map(|parameter| parameter.key)
                .collect();
            keys.sort_unstable();
            keys
        };
        for (index, signature) in DOCUMENTED.iter().enumerate() {
            for other in &DOCUMENTED[index + 1..] {
                // The keys of only `ref` and of `ref` with `id` differ by the required ones.
                assert_ne!(keys(signature), keys(other), "{:?}", keys(signature));
            }
        }
    }
}
