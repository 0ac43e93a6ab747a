//! JSON to expressions, once for each query, with all errors collected and each at its place.
//!
//! A JSON object is always a call, recognised by its set of keys; the table of functions says which sets there are.

use std::sync::Arc;

use base64::Engine as _;

use crate::error::{Code, Error, Errors, Result, Step};
use crate::expression::{Binding, Effect, Expression, Lambda, Parameters, Query, Select};
use crate::functions::{self, Body, Form, Function, Kind};
use crate::json::Json;
use crate::time::{Date, Time};
use crate::value::{Native, Ref, Target, Value};

/// The version of `query` under the drivers' API, and of a `@query` that names none.
const API_VERSION: &str = "4";
const API_VERSION_DEFAULT: &str = "2.12";

/// Parses a query that may do no more than `allowed`.
pub fn query(json: &Json, allowed: Effect) -> Result<Query> {
    let mut parser = Parser::new(allowed);
    let root = parser.expression(json);
    let may_write = parser.may_write;
    parser.finish(Query { root, may_write })
}

/// Parses a stored lambda: `{"lambda": …, "expr": …}`.
pub fn lambda(json: &Json, allowed: Effect) -> Result<Arc<Lambda>> {
    let mut parser = Parser::new(allowed);
    let lambda = parser.lambda(json);
    parser.finish(lambda)
}

struct Parser {
    /// The variables in scope, outermost first.
    scope: Vec<Arc<str>>,
    path: Vec<Step>,
    errors: Vec<Error>,
    allowed: Effect,
    may_write: bool,
    /// Variables used since the innermost lambda began, with their slots.
    used: Vec<(Arc<str>, usize)>,
}

/// A name and what is bound to it.
type Named = (Arc<str>, Json);

const NOTHING: Expression = Expression::Literal(Value::Null);

impl Parser {
    fn new(allowed: Effect) -> Parser {
        Parser {
            scope: Vec::new(),
            path: Vec::new(),
            errors: Vec::new(),
            allowed,
            may_write: false,
            used: Vec::new(),
        }
    }

    fn finish<T>(self, parsed: T) -> Result<T> {
        if self.errors.is_empty() {
            Ok(parsed)
        } else {
            Err(Errors(self.errors))
        }
    }

    fn refuse(&mut self, description: impl Into<String>) -> Expression {
        let mut errors = Errors::new(Code::InvalidExpression, description).0;
        for error in &mut errors {
            error.position = Some(self.path.iter().rev().cloned().collect());
        }
        self.errors.append(&mut errors);
        NOTHING
    }

    fn at<T>(&mut self, step: Step, parse: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let parsed = parse(self);
        self.path.pop();
        parsed
    }

    fn key<T>(&mut self, key: &'static str, parse: impl FnOnce(&mut Self) -> T) -> T {
        self.at(Step::Key(key), parse)
    }

    fn expression(&mut self, json: &Json) -> Expression {
        match json {
            Json::Null => NOTHING,
            Json::Bool(value) => Expression::Literal(Value::Bool(*value)),
            Json::Int(value) => Expression::Literal(Value::Int(*value)),
            Json::Double(value) => Expression::Literal(Value::Double(*value)),
            Json::String(text) => Expression::Literal(Value::String(text.clone())),
            Json::Array(items) => self.array(items),
            Json::Object(fields) => match fields.as_slice() {
                [(key, operand)] if key.starts_with('@') && is_escape(key) => self.escape(key, operand),
                fields => self.call(json, fields),
            },
        }
    }

    fn array(&mut self, items: &[Json]) -> Expression {
        let items: Vec<Expression> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.at(Step::Index(index), |parser| parser.expression(item)))
            .collect();
        if items.iter().all(|item| matches!(item, Expression::Literal(_))) {
            let values = items.into_iter().map(|item| match item {
                Expression::Literal(value) => value,
                _ => Value::Null,
            });
            return Expression::Literal(Value::array(values.collect()));
        }
        Expression::Array(items)
    }

    fn call(&mut self, json: &Json, fields: &[(Arc<str>, Json)]) -> Expression {
        let Some(function) = functions::find(fields) else {
            let keys: Vec<&str> = fields.iter().map(|(key, _)| &**key).collect();
            let keys = keys.join(", ");
            return self.refuse(format!(
                "No form/function found, or invalid argument keys: {{ {keys} }}."
            ));
        };
        if function.effect > self.allowed {
            return self.refuse(match function.effect {
                Effect::Write => "Write effect in read-only query expression.",
                _ => "Read effect in pure query expression.",
            });
        }
        self.may_write |= function.effect == Effect::Write || function.may_write;
        match function.body {
            Body::Form(form) => self.form(form, function, json),
            Body::Strict(_) => {
                let arguments = function.parameters.iter();
                let arguments = arguments.map(|parameter| {
                    let argument = json.field(parameter.key)?;
                    Some(self.key(parameter.key, |parser| parser.argument(argument, parameter.kind)))
                });
                Expression::Call(function, arguments.collect())
            }
        }
    }

    fn argument(&mut self, json: &Json, kind: Kind) -> Expression {
        let takes_lambda = matches!(kind, Kind::Lambda | Kind::LambdaOrIndex);
        if takes_lambda && json.field("lambda").is_some() && json.field("expr").is_some() {
            return Expression::Lambda(self.lambda(json), API_VERSION.into());
        }
        self.expression(json)
    }

    fn form(&mut self, form: Form, function: &'static Function, json: &Json) -> Expression {
        let null = Json::Null;
        let key = function.parameters[0].key;
        let operand = json.field(key).unwrap_or(&null);
        match form {
            Form::Let => self.let_form(operand, json.field("in").unwrap_or(&null)),
            Form::Variable => self.variable(operand),
            Form::If => {
                let mut part = |key| self.key(key, |parser| parser.expression(json.field(key).unwrap_or(&null)));
                Expression::If(Box::new([part("if"), part("then"), part("else")]))
            }
            Form::Do => self.key(key, |parser| parser.do_form(operand)),
            Form::At => {
                let mut part = |key| self.key(key, |parser| parser.expression(json.field(key).unwrap_or(&null)));
                Expression::At(Box::new([part("at"), part("expr")]))
            }
            Form::Query => self.key(key, |parser| {
                Expression::Lambda(parser.lambda(operand), API_VERSION.into())
            }),
            Form::Quote => Expression::Literal(quoted(operand)),
            Form::Object => self.key(key, |parser| parser.object(operand)),
            Form::Select => {
                let mut part = |key| Some(self.key(key, |parser| parser.expression(json.field(key).unwrap_or(&null))));
                Expression::Select(Box::new(Select {
                    path: part(key).unwrap_or(NOTHING),
                    from: part("from").unwrap_or(NOTHING),
                    default: json.field("default").and_then(|_| part("default")),
                    all: json.field("all").and_then(|_| part("all")),
                    key,
                }))
            }
            Form::And | Form::Or => self.key(key, |parser| parser.junction(form == Form::And, operand)),
        }
    }

    fn let_form(&mut self, bindings: &Json, body: &Json) -> Expression {
        let depth = self.scope.len();
        let bindings = self.key("let", |parser| parser.bindings(bindings));
        let body = self.key("in", |parser| parser.expression(body));
        self.scope.truncate(depth);
        Expression::Let(bindings, Box::new(body))
    }

    fn bindings(&mut self, json: &Json) -> Vec<Binding> {
        let single = |item: &Json| match item {
            Json::Object(fields) if fields.len() == 1 => Some(fields[0].clone()),
            _ => None,
        };
        let listed: Vec<(Option<usize>, Option<Named>)> = match json {
            // An empty object binds nothing: a driver leaves it of a binding without a value.
            Json::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.filter(|(_, item)| !matches!(item, Json::Object(fields) if fields.is_empty()));
                items.map(|(index, item)| (Some(index), single(item))).collect()
            }
            Json::Object(fields) => fields.iter().map(|field| (None, Some(field.clone()))).collect(),
            _ => vec![(None, None)],
        };
        let mut bindings = Vec::new();
        for (index, binding) in listed {
            let Some((name, json)) = binding else {
                self.refuse("Let bindings must be an array of single-field objects.");
                continue;
            };
            let value = match index {
                Some(index) => self.at(Step::Index(index), |parser| parser.named(&name, &json)),
                None => self.named(&name, &json),
            };
            self.scope.push(name.clone());
            bindings.push(Binding { name, value, index });
        }
        bindings
    }

    fn named(&mut self, name: &Arc<str>, json: &Json) -> Expression {
        self.at(Step::Name(name.clone()), |parser| parser.expression(json))
    }

    fn variable(&mut self, name: &Json) -> Expression {
        let Json::String(name) = name else {
            return self.key("var", |parser| parser.refuse("Invalid variable name."));
        };
        match self.scope.iter().rposition(|known| known == name) {
            Some(slot) => {
                if !self.used.iter().any(|(_, used)| *used == slot) {
                    self.used.push((name.clone(), slot));
                }
                Expression::Variable(slot)
            }
            None => self.refuse(format!("Variable '{name}' is not defined.")),
        }
    }

    fn do_form(&mut self, operand: &Json) -> Expression {
        let items = match operand {
            Json::Array(items) => items.as_slice(),
            single => return Expression::Do(vec![self.expression(single)]),
        };
        if items.is_empty() {
            return self.refuse("Expression list cannot be empty.");
        }
        let parts = items.iter().enumerate();
        Expression::Do(
            parts
                .map(|(index, item)| self.at(Step::Index(index), |parser| parser.expression(item)))
                .collect(),
        )
    }

    fn junction(&mut self, and: bool, operand: &Json) -> Expression {
        let items = match operand {
            Json::Array(items) => items.as_slice(),
            single => return Expression::Junction(and, vec![self.expression(single)]),
        };
        if items.is_empty() {
            return self.refuse("Expression list cannot be empty.");
        }
        let parts = items.iter().enumerate();
        let parts = parts.map(|(index, item)| self.at(Step::Index(index), |parser| parser.expression(item)));
        Expression::Junction(and, parts.collect())
    }

    fn object(&mut self, operand: &Json) -> Expression {
        let Json::Object(fields) = operand else {
            return self.refuse("Object expected.");
        };
        if let [(key, inner)] = fields.as_slice()
            && is_escape(key)
        {
            return self.escape(key, inner);
        }
        let fields = fields.iter().map(|(key, value)| (key.clone(), self.named(key, value)));
        let fields: Vec<(Arc<str>, Expression)> = fields.collect();
        if fields.iter().all(|(_, field)| matches!(field, Expression::Literal(_))) {
            let fields = fields.into_iter().map(|(key, field)| match field {
                Expression::Literal(value) => (key, value),
                _ => (key, Value::Null),
            });
            return Expression::Literal(Value::object(fields.collect()));
        }
        Expression::Object(fields)
    }

    fn lambda(&mut self, json: &Json) -> Arc<Lambda> {
        let null = Json::Null;
        let depth = self.scope.len();
        let outer_used = std::mem::take(&mut self.used);
        let outer_writes = std::mem::take(&mut self.may_write);
        let parameters = self.key("lambda", |parser| {
            parser.parameters(json.field("lambda").unwrap_or(&null))
        });
        let body = self.key("expr", |parser| parser.expression(json.field("expr").unwrap_or(&null)));
        self.scope.truncate(depth);
        let free: Vec<(Arc<str>, usize)> = self.used.drain(..).filter(|(_, slot)| *slot < depth).collect();
        self.used = outer_used;
        for variable in &free {
            if !self.used.contains(variable) {
                self.used.push(variable.clone());
            }
        }
        let may_write = self.may_write;
        self.may_write |= outer_writes;
        Arc::new(Lambda {
            parameters,
            body,
            source: json.clone(),
            free,
            may_write,
        })
    }

    fn parameters(&mut self, json: &Json) -> Parameters {
        let names = match json {
            Json::String(name) => {
                self.scope.push(name.clone());
                return Parameters::One;
            }
            Json::Array(names) => names.as_slice(),
            _ => &[],
        };
        let is_pattern = matches!(json, Json::Array(_)) && names.iter().all(|name| matches!(name, Json::String(_)));
        if !is_pattern {
            self.refuse("Lambda parameters must be a string or an array of strings.");
        }
        for name in names {
            if let Json::String(name) = name {
                self.scope.push(name.clone());
            }
        }
        Parameters::Many(names.len())
    }

    /// A value written out, `{"@…": …}`.
    fn escape(&mut self, key: &str, operand: &Json) -> Expression {
        let literal = |value: Option<Value>| value.map(Expression::Literal);
        let (parsed, what) = match key {
            "@ref" => (
                own_reference(operand).or_else(|| literal(reference(operand).map(Value::Ref))),
                "ref",
            ),
            "@ts" => (literal(text(operand).and_then(Time::parse).map(Value::Time)), "time"),
            "@date" => (literal(text(operand).and_then(Date::parse).map(Value::Date)), "date"),
            "@bytes" => (literal(text(operand).and_then(bytes).map(Value::Bytes)), "bytes"),
            "@uuid" => (literal(text(operand).and_then(uuid).map(Value::Uuid)), "uuid"),
            "@query" => return self.key("@query", |parser| parser.stored_query(operand)),
            "@set" => return self.key("@set", |parser| parser.expression(operand)),
            _ => return self.key("@obj", |parser| parser.expression(operand)),
        };
        match parsed {
            Some(parsed) => parsed,
            None => self.refuse(format!("Invalid {what}.")),
        }
    }

    fn stored_query(&mut self, operand: &Json) -> Expression {
        let version = operand
            .field("api_version")
            .and_then(text)
            .unwrap_or(API_VERSION_DEFAULT);
        let (Some(parameters), Some(body)) = (operand.field("lambda"), operand.field("expr")) else {
            return self.refuse("Invalid query.");
        };
        let source = Json::object([("lambda", parameters.clone()), ("expr", body.clone())]);
        Expression::Lambda(self.lambda(&source), version.into())
    }
}

fn is_escape(key: &str) -> bool {
    matches!(
        key,
        "@ref" | "@ts" | "@date" | "@bytes" | "@uuid" | "@query" | "@set" | "@obj"
    )
}

fn text(json: &Json) -> Option<&str> {
    match json {
        Json::String(text) => Some(text),
        _ => None,
    }
}

/// Base64 in the standard or the URL alphabet, padded or not.
pub fn bytes(text: &str) -> Option<Arc<[u8]>> {
    let standard: String = text
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            c => c,
        })
        .collect();
    let decoded = base64::engine::general_purpose::STANDARD_NO_PAD.decode(standard.trim_end_matches('='));
    decoded.ok().map(Arc::from)
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut uuid = [0; 16];
    for (index, byte) in uuid.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(uuid)
}

/// A ref with the id `self`, which only the evaluation can resolve.
pub fn own_reference(operand: &Json) -> Option<Expression> {
    let collection = match operand {
        Json::String(path) => reference_of_path(path.strip_suffix("/self")?)?,
        _ => match operand.field("id")? {
            Json::String(id) if &**id == "self" => reference(operand.field("collection")?.field("@ref")?)?,
            _ => return None,
        },
    };
    let own = [Json::Null, Json::Null]
        .into_iter()
        .zip(["ref", "id"])
        .map(|(value, key)| (Arc::from(key), value));
    let function = functions::find(&own.collect::<Vec<_>>())?;
    let arguments = [Value::Ref(collection), Value::string("self")].map(|value| Some(Expression::Literal(value)));
    Some(Expression::Call(
        function,
        arguments.into_iter().chain([None]).collect(),
    ))
}

/// The operand of `@ref`: `{"id", "collection", "database"}`, or the old path.
pub fn reference(operand: &Json) -> Option<Ref> {
    if let Json::String(path) = operand {
        return reference_of_path(path);
    }
    let id = match operand.field("id")? {
        Json::String(id) => id.clone(),
        Json::Int(id) => id.to_string().into(),
        _ => return None,
    };
    let inner = |key: &str| operand.field(key).map(|value| reference(value.field("@ref")?));
    let collection = match operand.field("collection").or(operand.field("class")) {
        Some(collection) => Some(reference(collection.field("@ref")?)?),
        None => None,
    };
    let database = match inner("database") {
        Some(database) => Some(database?),
        None => None,
    };
    let scope: Arc<[Arc<str>]> = match (&collection, database) {
        (_, Some(database)) => scope_of_database(&database)?,
        (Some(collection), None) => collection.scope.clone(),
        (None, None) => crate::value::no_scope(),
    };
    let target = match collection {
        None => Target::Native(Native::parse(&id)?),
        Some(collection) => member(&collection, &id)?,
    };
    Some(Ref::new(target).with_scope(scope))
}

/// The path of the database that a ref names.
pub fn scope_of_database(database: &Ref) -> Option<Arc<[Arc<str>]>> {
    let Target::Named(Native::Databases, name) = &database.target else {
        return None;
    };
    Some(database.scope.iter().cloned().chain([name.clone()]).collect())
}

/// The member of a collection that has this id.
pub fn member(collection: &Ref, id: &Arc<str>) -> Option<Target> {
    match &collection.target {
        Target::Native(native) if native.has_names() => Some(Target::Named(*native, id.clone())),
        Target::Native(native) => Some(Target::Numbered(*native, parse_id(id)?)),
        Target::Named(Native::Collections, name) => Some(Target::Document(name.clone(), parse_id(id)?)),
        _ => None,
    }
}

/// A document's id: digits, up to 64 bits.
pub fn parse_id(id: &str) -> Option<i64> {
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| id.parse().ok()).flatten()
}

/// `collections/spells/42`, `indexes/by_name`, `keys`.
pub fn reference_of_path(path: &str) -> Option<Ref> {
    let mut parts = path.split('/');
    let native = Native::parse(parts.next()?)?;
    let mut reference = Ref::native(native);
    for part in parts {
        reference = Ref::new(member(&reference, &part.into())?);
    }
    Some(reference)
}

/// JSON taken as data: the operand of `quote`.
pub fn quoted(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Int(value) => Value::Int(*value),
        Json::Double(value) => Value::Double(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::array(items.iter().map(quoted).collect()),
        Json::Object(fields) => match fields.as_slice() {
            [(key, operand)] if &**key == "@ref" => reference(operand).map_or(Value::Null, Value::Ref),
            [(key, operand)] if &**key == "@ts" => text(operand).and_then(Time::parse).map_or(Value::Null, Value::Time),
            [(key, operand)] if &**key == "@date" => {
                text(operand).and_then(Date::parse).map_or(Value::Null, Value::Date)
            }
            fields => Value::object(fields.iter().map(|(key, value)| (key.clone(), quoted(value))).collect()),
        },
    }
}
