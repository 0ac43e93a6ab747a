//! The one table of functions: their keys, what their arguments may be, what they may do, and who does it.
//!
//! Parsing, checking of types and effects, and the page of compatibility derive from it. A function is recognised by its set
//! of keys; the first key is its name.

pub mod authentication;
mod basic;
pub use basic::rights_of;
mod casts;
mod collections;
pub mod format;
mod java_pattern;
mod numbers;
mod numerals;
mod reads;
pub mod refs;
mod regex;
pub mod select;
pub mod strings;
mod times;
pub mod writes;

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use crate::api_version::ApiVersion;
use crate::error::{Errors, Result};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::expression::Effect;
use crate::json::Json;
use crate::time::Unit;
use crate::value::{Native, Target, Value};

#[derive(Debug)]
pub struct Function {
    pub parameters: &'static [Parameter],
    pub effect: Effect,
    /// It may come to a write by what it calls.
    pub may_write: bool,
    pub body: Body,
}

impl Function {
    /// The most that it may come to.
    pub fn maximal_effect(&self) -> Effect {
        match self.may_write {
            true => Effect::Write,
            false => self.effect,
        }
    }

    fn since(&self) -> ApiVersion {
        match self.parameters[0].key {
            "contains_path" | "contains_field" | "contains_value" => ApiVersion::V3,
            "first" | "last" | "access_provider" | "access_providers" | "create_access_provider" => ApiVersion::V4,
            "current_identity" | "has_current_identity" | "current_token" | "has_current_token" => ApiVersion::V4,
            _ => ApiVersion::V2_0,
        }
    }
}

#[derive(Debug)]
pub struct Parameter {
    pub key: &'static str,
    pub required: bool,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Evaluates its arguments itself, or not at all: see `parse` and `evaluation`.
    Form(Form),
    /// Is given its arguments evaluated and checked.
    Strict(fn(&mut Evaluation<'_>, &Arguments) -> Result<Value>),
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

/// What an argument may be. Kinds with an s take one or an array of many.
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
    /// Written out in place: the parser asks for it.
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
    /// What messages call it.
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

    /// What to say of a value that does not fit.
    pub fn wrong(self, value: &Value) -> Errors {
        let is_identifier = matches!(value, Value::Ref(_) | Value::Set(_));
        match (self, value) {
            (Kind::Set, _) if !is_identifier => wrong_type("Ref or Set", value),
            (Kind::SetOrArray | Kind::SetsOrArrays, Value::Page(_)) => wrong_type("Set or Array", value),
            _ => wrong_type(self.expected(), value),
        }
    }

    /// A ref is only taken if what it names is there.
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

type Strict = fn(&mut Evaluation<'_>, &Arguments) -> Result<Value>;

const fn pure(parameters: &'static [Parameter], body: Strict) -> Function {
    strict(Effect::Pure, parameters, body)
}

const fn read(parameters: &'static [Parameter], body: Strict) -> Function {
    strict(Effect::Read, parameters, body)
}

const fn write(parameters: &'static [Parameter], body: Strict) -> Function {
    strict(Effect::Write, parameters, body)
}

const fn strict(effect: Effect, parameters: &'static [Parameter], body: Strict) -> Function {
    Function {
        parameters,
        effect,
        may_write: false,
        body: Body::Strict(body),
    }
}

const fn form(form: Form, parameters: &'static [Parameter]) -> Function {
    Function {
        parameters,
        effect: Effect::Pure,
        may_write: false,
        body: Body::Form(form),
    }
}

use Kind::*;

/// `and` and `or` before version 3: all operands are evaluated.
pub static STRICT_AND: Function = pure(&[need("and", Booleans)], basic::all_true);
pub static STRICT_OR: Function = pure(&[need("or", Booleans)], basic::any_true);

/// Every function. Keys after the first are in the order in which their arguments are evaluated.
pub static FUNCTIONS: &[Function] = &[
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
    pure(&[need("abort", Text)], basic::abort),
    Function {
        parameters: &[need("call", FunctionRefOrName), may("arguments", Any)],
        effect: Effect::Read,
        may_write: true,
        body: Body::Strict(basic::call),
    },
    pure(&[need("not", Boolean)], basic::not),
    pure(&[need("equals", Anys)], basic::equals),
    pure(&[need("lt", Anys)], basic::lt),
    pure(&[need("lte", Anys)], basic::lte),
    pure(&[need("gt", Anys)], basic::gt),
    pure(&[need("gte", Anys)], basic::gte),
    pure(&[need("contains_path", Any), need("in", Any)], select::contains_path),
    pure(&[need("contains", Any), need("in", Any)], select::contains),
    pure(&[need("contains_field", Text), need("in", Any)], select::contains_field),
    read(
        &[need("contains_value", Any), need("in", Any)],
        collections::contains_value,
    ),
    // Collections and objects.
    pure(&[need("map", Lambda), need("collection", Iterable)], collections::map),
    pure(
        &[need("foreach", Lambda), need("collection", Iterable)],
        collections::foreach,
    ),
    pure(
        &[need("filter", Lambda), need("collection", Iterable)],
        collections::filter,
    ),
    read(
        &[
            need("reduce", Lambda),
            need("initial", Any),
            need("collection", Iterable),
        ],
        collections::reduce,
    ),
    pure(&[need("take", Integer), need("collection", Any)], collections::take),
    pure(
        &[need("drop", Integer), need("collection", Any)],
        collections::drop_first,
    ),
    pure(&[need("append", Any), need("collection", Array)], collections::append),
    pure(&[need("prepend", Any), need("collection", Array)], collections::prepend),
    pure(&[need("is_empty", Iterable)], collections::is_empty),
    pure(&[need("is_nonempty", Iterable)], collections::is_nonempty),
    read(&[need("count", Iterable)], collections::count),
    read(&[need("sum", Iterable)], collections::sum),
    read(&[need("mean", Iterable)], collections::mean),
    read(&[need("any", Iterable)], collections::any),
    read(&[need("all", Iterable)], collections::all),
    pure(&[need("reverse", Iterable)], collections::reverse),
    pure(&[need("distinct", Iterable)], collections::distinct),
    pure(&[need("union", SetsOrArrays)], collections::union),
    pure(&[need("intersection", SetsOrArrays)], collections::intersection),
    pure(&[need("difference", SetsOrArrays)], collections::difference),
    pure(
        &[need("merge", Any), need("with", Any), may("lambda", Lambda)],
        collections::merge,
    ),
    pure(&[need("to_object", Any)], casts::to_object),
    pure(&[need("to_array", Any)], casts::to_array),
    // Reads and sets.
    read(&[need("get", RefOrSet), may("ts", Moment)], reads::get),
    read(&[need("exists", AnyRefOrSet), may("ts", Moment)], reads::exists),
    read(&[need("first", SetOrArray)], reads::first),
    read(&[need("last", SetOrArray)], reads::last),
    read(
        &[
            need("paginate", RefOrSet),
            may("after", Any),
            may("ts", Moment),
            may("size", Integer),
            may("events", Boolean),
            may("sources", Boolean),
        ],
        reads::paginate_after,
    ),
    read(
        &[
            need("paginate", RefOrSet),
            need("before", Any),
            may("ts", Moment),
            may("size", Integer),
            may("events", Boolean),
            may("sources", Boolean),
        ],
        reads::paginate_before,
    ),
    read(
        &[
            need("paginate", RefOrSet),
            need("cursor", Any),
            may("ts", Moment),
            may("size", Integer),
            may("events", Boolean),
            may("sources", Boolean),
        ],
        reads::paginate_cursor,
    ),
    pure(&[need("match", IndexRefOrName), may("terms", Any)], reads::matching),
    pure(
        &[need("match", Any), need("index", IndexRefOrName)],
        reads::matching_legacy,
    ),
    pure(&[need("documents", CollectionRef)], reads::documents),
    pure(&[need("singleton", Ref)], reads::singleton),
    pure(&[need("events", RefOrSet)], reads::events),
    pure(&[need("join", Set), need("with", LambdaOrAny)], reads::join),
    pure(&[need("range", Set), need("from", Any), need("to", Any)], reads::range),
    read(&[need("key_from_secret", Text)], authentication::key_from_secret),
    // Writes.
    write(&[need("create", RefOrName), may("params", Object)], writes::create),
    write(&[need("update", Ref), may("params", Object)], writes::update),
    write(&[need("replace", Ref), may("params", Object)], writes::replace),
    write(&[need("delete", Ref)], writes::delete),
    write(
        &[
            need("insert", Ref),
            need("ts", Time),
            need("action", Action),
            may("params", Object),
        ],
        writes::insert,
    ),
    write(
        &[need("remove", Ref), need("ts", Time), need("action", Action)],
        writes::remove,
    ),
    write(&[need("create_database", Object)], writes::create_database),
    write(&[need("create_collection", Object)], writes::create_collection),
    write(&[need("create_class", Object)], writes::create_class),
    write(&[need("create_index", Object)], writes::create_index),
    write(&[need("create_function", Object)], writes::create_function),
    write(&[need("create_role", Object)], writes::create_role),
    write(&[need("create_key", Object)], writes::create_key),
    write(
        &[need("create_access_provider", Object)],
        writes::create_access_provider,
    ),
    write(
        &[need("move_database", Database), need("to", Database)],
        writes::move_database,
    ),
    // Authentication.
    write(
        &[need("login", RefOrSet), need("params", Object)],
        authentication::login,
    ),
    write(&[need("logout", Boolean)], authentication::logout),
    read(
        &[need("identify", RefOrSet), need("password", Text)],
        authentication::identify,
    ),
    read(&[need("identity", Null)], authentication::identity),
    read(&[need("current_identity", Null)], authentication::identity),
    read(&[need("has_identity", Null)], authentication::has_identity),
    read(&[need("has_current_identity", Null)], authentication::has_identity),
    read(&[need("current_token", Null)], authentication::current_token),
    pure(&[need("has_current_token", Null)], authentication::has_current_token),
    // Refs and ids.
    pure(
        &[need("ref", Any), need("id", Any), may("scope", Database)],
        refs::reference,
    ),
    pure(&[need("database", Text), may("scope", Database)], refs::database),
    pure(&[need("index", Text), may("scope", Database)], refs::index),
    pure(&[need("collection", Text), may("scope", Database)], refs::collection),
    pure(&[need("class", Text), may("scope", Database)], refs::collection),
    pure(&[need("function", Text), may("scope", Database)], refs::function),
    pure(&[need("role", Text), may("scope", Database)], refs::role),
    pure(
        &[need("access_provider", Text), may("scope", Database)],
        refs::access_provider,
    ),
    pure(&[need("databases", NullOrDatabase)], refs::databases),
    pure(&[need("indexes", NullOrDatabase)], refs::indexes),
    pure(&[need("collections", NullOrDatabase)], refs::collections),
    pure(&[need("classes", NullOrDatabase)], refs::collections),
    pure(&[need("functions", NullOrDatabase)], refs::functions),
    pure(&[need("roles", NullOrDatabase)], refs::roles),
    pure(&[need("keys", NullOrDatabase)], refs::keys),
    pure(&[need("tokens", NullOrDatabase)], refs::tokens),
    pure(&[need("credentials", NullOrDatabase)], refs::credentials),
    pure(&[need("access_providers", NullOrDatabase)], refs::access_providers),
    write(&[need("new_id", Null)], refs::new_id),
    write(&[need("next_id", Null)], refs::new_id),
    // Strings.
    pure(&[need("concat", Texts), may("separator", Text)], strings::concat),
    pure(
        &[need("casefold", Scalars), may("normalizer", Normalizer)],
        strings::casefold_function,
    ),
    pure(&[need("containsstr", Text), need("search", Text)], strings::contains),
    pure(&[need("startswith", Text), need("search", Text)], strings::starts_with),
    pure(&[need("endswith", Text), need("search", Text)], strings::ends_with),
    pure(
        &[need("containsstrregex", Text), need("pattern", Text)],
        regex::contains,
    ),
    pure(
        &[need("findstr", Text), need("find", Text), may("start", Integer)],
        strings::find,
    ),
    pure(
        &[
            need("findstrregex", Text),
            need("pattern", Text),
            may("start", Integer),
            may("num_results", Integer),
        ],
        regex::find,
    ),
    pure(
        &[need("replacestr", Text), need("find", Text), need("replace", Text)],
        strings::replace,
    ),
    pure(
        &[
            need("replacestrregex", Text),
            need("pattern", Text),
            need("replace", Text),
            may("first", Boolean),
        ],
        regex::replace,
    ),
    pure(&[need("regexescape", Text)], regex::escape),
    pure(&[need("length", Text)], strings::length),
    pure(&[need("lowercase", Text)], strings::lowercase),
    pure(&[need("uppercase", Text)], strings::uppercase),
    pure(&[need("titlecase", Text)], strings::titlecase),
    pure(&[need("ltrim", Text)], strings::trim_start),
    pure(&[need("rtrim", Text)], strings::trim_end),
    pure(&[need("trim", Text)], strings::trim),
    pure(
        &[need("ngram", Scalars), may("min", Integer), may("max", Integer)],
        strings::ngram,
    ),
    pure(&[need("repeat", Text), may("number", Integer)], strings::repeat),
    pure(&[need("space", Integer)], strings::space),
    pure(
        &[need("substring", Text), may("start", Integer), may("length", Integer)],
        strings::substring,
    ),
    pure(&[need("format", Text), need("values", Any)], format::format),
    // Numbers.
    pure(&[need("add", Numbers)], numbers::add),
    pure(&[need("subtract", Numbers)], numbers::subtract),
    pure(&[need("multiply", Numbers)], numbers::multiply),
    pure(&[need("divide", Numbers)], numbers::divide),
    pure(&[need("modulo", Numbers)], numbers::modulo),
    pure(&[need("bitand", Numbers)], numbers::bit_and),
    pure(&[need("bitor", Numbers)], numbers::bit_or),
    pure(&[need("bitxor", Numbers)], numbers::bit_xor),
    pure(&[need("bitnot", Number)], numbers::bit_not),
    read(&[need("max", Iterable)], numbers::max),
    read(&[need("min", Iterable)], numbers::min),
    pure(&[need("abs", Number)], numbers::abs),
    pure(&[need("sign", Number)], numbers::sign),
    pure(&[need("sqrt", Number)], numbers::sqrt),
    pure(&[need("ceil", Number)], numbers::ceil),
    pure(&[need("floor", Number)], numbers::floor),
    pure(&[need("round", Number), may("precision", Integer)], numbers::round),
    pure(&[need("trunc", Number), may("precision", Integer)], numbers::trunc),
    pure(&[need("acos", Number)], numbers::acos),
    pure(&[need("asin", Number)], numbers::asin),
    pure(&[need("atan", Number)], numbers::atan),
    pure(&[need("cos", Number)], numbers::cos),
    pure(&[need("cosh", Number)], numbers::cosh),
    pure(&[need("degrees", Number)], numbers::degrees),
    pure(&[need("exp", Number)], numbers::exp),
    pure(&[need("hypot", Number), may("b", Number)], numbers::hypot),
    pure(&[need("ln", Number)], numbers::ln),
    pure(&[need("log", Number)], numbers::log),
    pure(&[need("pow", Number), may("exp", Number)], numbers::pow),
    pure(&[need("radians", Number)], numbers::radians),
    pure(&[need("sin", Number)], numbers::sin),
    pure(&[need("sinh", Number)], numbers::sinh),
    pure(&[need("tan", Number)], numbers::tan),
    pure(&[need("tanh", Number)], numbers::tanh),
    // Time.
    pure(&[need("time", Text)], times::time),
    pure(&[need("now", Null)], times::now),
    pure(&[need("epoch", Integer), need("unit", Unit)], times::epoch),
    pure(&[need("date", Text)], times::date),
    pure(&[need("to_micros", Time)], times::to_micros),
    pure(&[need("to_millis", Time)], times::to_millis),
    pure(&[need("to_seconds", Time)], times::to_seconds),
    pure(&[need("second", Time)], times::second),
    pure(&[need("minute", Time)], times::minute),
    pure(&[need("hour", Time)], times::hour),
    pure(&[need("day_of_month", Time)], times::day_of_month),
    pure(&[need("day_of_week", Time)], times::day_of_week),
    pure(&[need("day_of_year", Time)], times::day_of_year),
    pure(&[need("month", Time)], times::month),
    pure(&[need("year", Time)], times::year),
    pure(
        &[need("time_add", Temporal), need("offset", Integer), need("unit", Unit)],
        times::add,
    ),
    pure(
        &[
            need("time_subtract", Temporal),
            need("offset", Integer),
            need("unit", Unit),
        ],
        times::subtract,
    ),
    pure(
        &[need("time_diff", Temporal), need("other", Temporal), need("unit", Unit)],
        times::difference,
    ),
    // Casts and tests of types.
    pure(&[need("to_string", Any)], casts::to_string),
    pure(&[need("to_number", Any)], casts::to_number),
    pure(&[need("to_integer", Any)], casts::to_integer),
    pure(&[need("to_double", Any)], casts::to_double),
    pure(&[need("to_time", Any)], casts::to_time),
    pure(&[need("to_date", Any)], casts::to_date),
    pure(&[need("is_number", Any)], casts::is_number),
    pure(&[need("is_double", Any)], casts::is_double),
    pure(&[need("is_integer", Any)], casts::is_integer),
    pure(&[need("is_boolean", Any)], casts::is_boolean),
    pure(&[need("is_null", Any)], casts::is_null),
    pure(&[need("is_bytes", Any)], casts::is_bytes),
    pure(&[need("is_timestamp", Any)], casts::is_timestamp),
    pure(&[need("is_date", Any)], casts::is_date),
    pure(&[need("is_uuid", Any)], casts::is_uuid),
    pure(&[need("is_string", Any)], casts::is_string),
    pure(&[need("is_array", Any)], casts::is_array),
    pure(&[need("is_object", Any)], casts::is_object),
    pure(&[need("is_ref", Any)], casts::is_ref),
    pure(&[need("is_set", Any)], casts::is_set),
    pure(&[need("is_doc", Any)], casts::is_doc),
    pure(&[need("is_lambda", Any)], casts::is_lambda),
    pure(&[need("is_collection", Any)], casts::is_collection),
    pure(&[need("is_database", Any)], casts::is_database),
    pure(&[need("is_index", Any)], casts::is_index),
    pure(&[need("is_function", Any)], casts::is_function),
    pure(&[need("is_key", Any)], casts::is_key),
    pure(&[need("is_token", Any)], casts::is_token),
    pure(&[need("is_credentials", Any)], casts::is_credentials),
    pure(&[need("is_role", Any)], casts::is_role),
];

/// The function that takes exactly these keys in a version of the API.
pub fn find(fields: &[(Arc<str>, Json)], version: ApiVersion) -> Option<&'static Function> {
    static BY_NAME: LazyLock<FxHashMap<&'static str, Vec<&'static Function>>> = LazyLock::new(|| {
        let mut by_name: FxHashMap<&'static str, Vec<&'static Function>> = FxHashMap::default();
        for function in FUNCTIONS {
            by_name.entry(function.parameters[0].key).or_default().push(function);
        }
        by_name
    });
    let named = fields.iter().filter_map(|(key, _)| BY_NAME.get(&**key)).flatten();
    named
        .into_iter()
        .copied()
        .find(|function| takes_exactly(function, fields))
        .filter(|function| version >= function.since())
}

fn takes_exactly(function: &Function, fields: &[(Arc<str>, Json)]) -> bool {
    let given = |key: &str| fields.iter().any(|(name, _)| &**name == key);
    let known = |key: &str| function.parameters.iter().any(|parameter| parameter.key == key);
    function
        .parameters
        .iter()
        .all(|parameter| !parameter.required || given(parameter.key))
        && fields.iter().all(|(key, _)| known(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line of the page of compatibility: the keys, optional ones with a question mark, and the effect.
    fn line(function: &Function) -> String {
        let keys = function.parameters.iter().map(|parameter| match parameter.required {
            true => format!("`{}`", parameter.key),
            false => format!("`{}`?", parameter.key),
        });
        let keys: Vec<String> = keys.collect();
        let effect = match (function.may_write, function.effect) {
            (true, _) => "as what it calls",
            (_, Effect::Pure) => "none",
            (_, Effect::Read) => "reads",
            (_, Effect::Write) => "writes",
        };
        format!("| {} | {effect} | yes |", keys.join(", "))
    }

    /// The table in `docs/compat/fauna.md` is this table. `REWRITE=1` writes it anew.
    #[test]
    fn the_page_of_compatibility_lists_every_function() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compat/fauna.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- functions -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
        let lines: Vec<String> = FUNCTIONS.iter().map(line).collect();
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
        let keys = |function: &Function| {
            let mut keys: Vec<&str> = function
                .parameters
                .iter()
                .filter(|parameter| parameter.required)
                .map(|parameter| parameter.key)
                .collect();
            keys.sort_unstable();
            keys
        };
        for (index, one) in FUNCTIONS.iter().enumerate() {
            for other in &FUNCTIONS[index + 1..] {
                // Of `ref` alone and `ref` with `id` the keys differ by what is required.
                assert_ne!(keys(one), keys(other), "{:?}", keys(one));
            }
        }
    }
}
