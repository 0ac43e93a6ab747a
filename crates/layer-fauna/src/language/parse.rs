//! JSON to expressions, once for each query, with errors at their places.
//!
//! A JSON object is always a call, recognised by its set of keys; the table of functions lists the
//! sets. Among parts beside each other the first fault is reported; among the bindings
//! of a `let` and its body, and a lambda's parameters and its body, all are; unbound variables are
//! reported together, if nothing else is wrong.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;

use crate::language::api_version::ApiVersion;
use crate::language::error::{Code, ERRORS_MAX, Error, Errors, Result, Step};
use crate::language::expression::{Binding, Effect, Expression, Lambda, Parameters, Query, Select};
use crate::language::json::Json;
use crate::language::references::{self, Written};
use crate::language::signature::{self, Form, Kind, SIGNATURES, Signature};
use crate::language::time::{Date, Time};
use crate::language::value::Value;

/// Parses a query. Its effects are checked when it is evaluated.
pub fn query(json: &Json, version: ApiVersion) -> Result<Query> {
    let mut parser = Parser::new(version);
    let root = parser.expression(json);
    let may_write = parser.effect == Effect::Write;
    parser.finish(Query { root, may_write })
}

/// Parses a stored lambda: `{"lambda": …, "expr": …}`.
pub fn lambda(json: &Json, version: ApiVersion) -> Result<Arc<Lambda>> {
    let mut parser = Parser::new(version);
    let lambda = parser.lambda(json);
    parser.finish(lambda)
}

struct Parser {
    scope: Scope,
    path: Vec<Step>,
    errors: Vec<Error>,
    /// Errors of unbound variables.
    unbound: Vec<Error>,
    /// The most that the expression so far, or since the start of the innermost lambda, may do.
    effect: Effect,
    version: ApiVersion,
    /// Variables used since the start of the innermost lambda.
    used: Used,
}

/// The variables in scope, outermost first; discarded ones have no name.
#[derive(Default)]
struct Scope {
    names: Vec<Option<Arc<str>>>,
    /// By name, the slots of the variables that have it.
    slots: HashMap<Arc<str>, Vec<usize>>,
}

impl Scope {
    fn push(&mut self, name: Option<Arc<str>>) {
        if let Some(name) = &name {
            self.slots.entry(name.clone()).or_default().push(self.names.len());
        }
        self.names.push(name);
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn truncate(&mut self, length: usize) {
        for name in self.names.drain(length..).flatten() {
            let slots = self.slots.get_mut(&name).expect("a variable in scope");
            slots.pop();
            if slots.is_empty() {
                self.slots.remove(&name);
            }
        }
    }

    /// The innermost variable of this name.
    fn find(&self, name: &str) -> Option<usize> {
        self.slots.get(name)?.last().copied()
    }
}

/// Variables in the order of their first use, each once with its slot.
#[derive(Default)]
struct Used {
    variables: Vec<(Arc<str>, usize)>,
    slots: HashSet<usize>,
}

impl Used {
    fn add(&mut self, name: &Arc<str>, slot: usize) {
        if self.slots.insert(slot) {
            self.variables.push((name.clone(), slot));
        }
    }
}

const NOTHING: Expression = Expression::Literal(Value::Null);

impl Parser {
    fn new(version: ApiVersion) -> Parser {
        Parser {
            scope: Scope::default(),
            path: Vec::new(),
            errors: Vec::new(),
            unbound: Vec::new(),
            effect: Effect::Pure,
            version,
            used: Used::default(),
        }
    }

    fn finish<T>(self, parsed: T) -> Result<T> {
        Errors::unless_empty(self.errors)?;
        Errors::unless_empty(self.unbound)?;
        Ok(parsed)
    }

    /// The errors with their way from here, turned to the way from the root.
    fn placed(&self, errors: Errors) -> Vec<Error> {
        let mut errors = errors.0;
        for error in &mut errors {
            let inner = error.position.get_or_insert_default();
            inner.extend(self.path.iter().rev().cloned());
        }
        errors
    }

    fn refuse_with(&mut self, errors: Errors) -> Expression {
        let mut errors = self.placed(errors);
        self.errors.append(&mut errors);
        // A body of megabytes may be wrong at each of its values.
        self.errors.truncate(ERRORS_MAX);
        NOTHING
    }

    fn refuse(&mut self, description: impl Into<String>) -> Expression {
        self.refuse_with(Errors::new(Code::InvalidExpression, description))
    }

    fn refuse_type(&mut self, expected: &str, provided: &Json) -> Expression {
        self.refuse(format!("{expected} expected, {} provided.", provided.type_name()))
    }

    /// Parses in order, until one is refused.
    fn each<T>(
        &mut self,
        parts: impl IntoIterator<Item = T>,
        mut parse: impl FnMut(&mut Self, T) -> Expression,
    ) -> Vec<Expression> {
        let before = self.errors.len();
        let mut parsed = Vec::new();
        for part in parts {
            parsed.push(parse(self, part));
            if self.errors.len() > before {
                break;
            }
        }
        parsed
    }

    /// Parses some of the parts of a form, until one is refused.
    fn parts<const N: usize>(&mut self, json: &Json, keys: [&'static str; N]) -> [Expression; N] {
        let before = self.errors.len();
        keys.map(|key| match self.errors.len() > before {
            true => NOTHING,
            false => self.part(json, key),
        })
    }

    fn part(&mut self, json: &Json, key: &'static str) -> Expression {
        self.key(key, |parser| parser.expression(json.field(key).unwrap_or(&Json::Null)))
    }

    fn list(&mut self, items: &[Json]) -> Vec<Expression> {
        self.each(items.iter().enumerate(), |parser, (index, item)| {
            parser.at(Step::Index(index), |parser| parser.expression(item))
        })
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
            Json::Array(items) => array_of(self.list(items)),
            Json::Object(fields) => match fields.as_slice() {
                [(key, operand)] if key.starts_with('@') && is_escape(key) => self.escape(key, operand),
                fields => self.call(json, fields),
            },
        }
    }

    fn call(&mut self, json: &Json, fields: &[(Arc<str>, Json)]) -> Expression {
        let Some(function) = signature::find(fields, self.version) else {
            return self.refuse_form(fields);
        };
        let signature = &SIGNATURES[function];
        self.effect = self.effect.max(signature.maximal_effect());
        match signature.form {
            Some(form) => self.form(form, signature, json),
            None => Expression::Call(function, self.arguments(signature, json)),
        }
    }

    fn refuse_form(&mut self, fields: &[(Arc<str>, Json)]) -> Expression {
        let keys: Vec<&str> = fields.iter().map(|(key, _)| &**key).collect();
        let keys = keys.join(", ");
        self.refuse(format!(
            "No form/function found, or invalid argument keys: {{ {keys} }}."
        ))
    }

    /// Parsed until one is refused.
    fn arguments(&mut self, signature: &'static Signature, json: &Json) -> Vec<Option<Expression>> {
        let before = self.errors.len();
        let mut arguments = Vec::with_capacity(signature.parameters.len());
        for parameter in signature.parameters {
            arguments.push(
                json.field(parameter.key)
                    .map(|argument| self.key(parameter.key, |parser| parser.argument(argument, parameter.kind))),
            );
            if self.errors.len() > before {
                break;
            }
        }
        arguments
    }

    fn argument(&mut self, json: &Json, kind: Kind) -> Expression {
        match kind {
            Kind::Lambda => self.lambda_expression(json),
            Kind::LambdaOrAny if is_lambda(json) => {
                let before = self.errors.len();
                let lambda = self.lambda_expression(json);
                // Its faults are reported as if it were no lambda.
                match self.errors.len() > before {
                    true => {
                        self.errors.truncate(before);
                        self.expression(json)
                    }
                    false => lambda,
                }
            }
            _ => self.expression(json),
        }
    }

    /// Parses a lambda where no other expression is allowed.
    fn lambda_expression(&mut self, json: &Json) -> Expression {
        match json {
            _ if is_lambda(json) => Expression::Lambda(self.lambda(json), self.version.max(ApiVersion::LAMBDA_DEFAULT)),
            Json::Object(fields) => self.refuse_form(fields),
            other => self.refuse_type("Lambda", other),
        }
    }

    fn form(&mut self, form: Form, signature: &'static Signature, json: &Json) -> Expression {
        let key = signature.parameters[0].key;
        let operand = json.field(key).unwrap_or(&Json::Null);
        match form {
            Form::Let => self.let_form(operand, json.field("in").unwrap_or(&Json::Null)),
            Form::Variable => self.variable(operand),
            Form::If => Expression::If(Box::new(self.parts(json, ["if", "then", "else"]))),
            Form::Do => self.key(key, |parser| parser.do_form(operand)),
            Form::At => Expression::At(Box::new(self.parts(json, ["at", "expr"]))),
            Form::Query => self.key(key, |parser| parser.lambda_expression(operand)),
            Form::Quote => self.key(key, |parser| parser.data(operand)),
            Form::Object => self.object(operand),
            Form::Select => self.select(json, key),
            Form::And | Form::Or => self.key(key, |parser| parser.junction(form == Form::And, operand)),
        }
    }

    fn select(&mut self, json: &Json, key: &'static str) -> Expression {
        let before = self.errors.len();
        let [path, from] = self.parts(json, [key, "from"]);
        let mut optional = |key| {
            let is_given = self.errors.len() == before && json.field(key).is_some();
            is_given.then(|| self.part(json, key))
        };
        let (all, default) = (optional("all"), optional("default"));
        Expression::Select(Box::new(Select {
            path,
            from,
            default,
            all,
            is_eager: self.version < ApiVersion::V3,
            key,
        }))
    }

    fn let_form(&mut self, bindings: &Json, body: &Json) -> Expression {
        let depth = self.scope.len();
        let bindings = self.key("let", |parser| parser.bindings(bindings));
        let body = self.key("in", |parser| parser.expression(body));
        self.scope.truncate(depth);
        Expression::Let(bindings, Box::new(body))
    }

    /// Parses every binding, and reports the errors of all.
    fn bindings(&mut self, json: &Json) -> Vec<Binding> {
        let mut bindings = Vec::new();
        match json {
            // An empty object binds nothing: a driver leaves it of a binding without a value.
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Json::Object(fields) if fields.is_empty() => {}
                        Json::Object(fields) if fields.len() == 1 => {
                            let (name, json) = &fields[0];
                            let value = self.at(Step::Index(index), |parser| parser.named(name, json));
                            bindings.push(self.bound(name, value, Some(index)));
                        }
                        other => {
                            self.at(Step::Index(index), |parser| parser.refuse_type("Object", other));
                        }
                    }
                }
            }
            Json::Object(fields) => {
                for (name, json) in fields.iter() {
                    let value = self.named(name, json);
                    bindings.push(self.bound(name, value, None));
                }
            }
            other => {
                self.refuse_type("Array", other);
            }
        }
        bindings
    }

    /// From here on the name is bound to the value.
    fn bound(&mut self, name: &Arc<str>, value: Expression, index: Option<usize>) -> Binding {
        self.scope.push(Some(name.clone()));
        Binding {
            name: name.clone(),
            value,
            index,
        }
    }

    fn named(&mut self, name: &Arc<str>, json: &Json) -> Expression {
        self.at(Step::Name(name.clone()), |parser| parser.expression(json))
    }

    fn variable(&mut self, name: &Json) -> Expression {
        let Json::String(name) = name else {
            return self.key("var", |parser| parser.refuse_type("String", name));
        };
        match self.scope.find(name) {
            Some(slot) => {
                self.used.add(name, slot);
                Expression::Variable(slot)
            }
            None => {
                let message = format!("Variable '{name}' is not defined.");
                let mut errors = self.placed(Errors::new(Code::InvalidExpression, message));
                self.unbound.append(&mut errors);
                self.unbound.truncate(ERRORS_MAX);
                NOTHING
            }
        }
    }

    fn do_form(&mut self, operand: &Json) -> Expression {
        match operand {
            Json::Array(items) if items.is_empty() => self.refuse(EMPTY_LIST),
            Json::Array(items) => Expression::Do(self.list(items)),
            other => self.refuse_type("Array", other),
        }
    }

    fn junction(&mut self, and: bool, operand: &Json) -> Expression {
        match operand {
            Json::Array(items) if items.is_empty() => self.refuse(EMPTY_LIST),
            Json::Array(items) => Expression::Junction(and, self.list(items)),
            single => Expression::Junction(and, vec![self.expression(single)]),
        }
    }

    /// A literal object. One that looks like an escape is read as that, and must be an object then.
    fn object(&mut self, operand: &Json) -> Expression {
        let Json::Object(fields) = operand else {
            return self.key("object", |parser| parser.refuse_type("Object", operand));
        };
        let fields = match fields.as_slice() {
            [(key, Json::Object(inner))] if &**key == "@obj" => inner,
            [(key, inner)] if is_escape(key) => return self.escape_for_object(key, inner),
            _ => fields,
        };
        self.key("object", |parser| parser.fields(fields, Parser::named))
    }

    fn escape_for_object(&mut self, key: &str, operand: &Json) -> Expression {
        let before = self.errors.len();
        let escape = self.key("object", |parser| parser.escape(key, operand));
        if self.errors.len() > before {
            return NOTHING;
        }
        let provided = match &escape {
            Expression::Literal(value) => value.type_name(),
            Expression::Lambda(..) => "Lambda",
            Expression::OwnRef(_) => "Ref",
            _ => "Set",
        };
        self.refuse(format!("Object expected, {provided} provided."))
    }

    fn fields(
        &mut self,
        fields: &[(Arc<str>, Json)],
        mut parse: impl FnMut(&mut Self, &Arc<str>, &Json) -> Expression,
    ) -> Expression {
        let values = self.each(fields, |parser, (key, json)| parse(parser, key, json));
        let entries = fields.iter().map(|(key, _)| key.clone()).zip(values);
        let entries: Vec<(Arc<str>, Expression)> = entries.collect();
        if entries.iter().all(|(_, value)| matches!(value, Expression::Literal(_))) {
            let entries = entries.into_iter().map(|(key, value)| match value {
                Expression::Literal(value) => (key, value),
                _ => (key, Value::Null),
            });
            return Expression::Literal(Value::object(entries.collect()));
        }
        Expression::Object(entries)
    }

    fn lambda(&mut self, json: &Json) -> Arc<Lambda> {
        let depth = self.scope.len();
        let outer_used = std::mem::take(&mut self.used);
        let outer_effect = std::mem::replace(&mut self.effect, Effect::Pure);
        let parameters = self.key("lambda", |parser| {
            parser.parameters(json.field("lambda").unwrap_or(&Json::Null))
        });
        let body = self.part(json, "expr");
        self.scope.truncate(depth);
        let inner_used = std::mem::replace(&mut self.used, outer_used).variables;
        let free: Vec<(Arc<str>, usize)> = inner_used.into_iter().filter(|(_, slot)| *slot < depth).collect();
        free.iter().for_each(|(name, slot)| self.used.add(name, *slot));
        let effect = self.effect;
        self.effect = effect.max(outer_effect);
        Arc::new(Lambda {
            parameters,
            body,
            source: json.clone(),
            free,
            effect,
            place: self.path.iter().rev().cloned().collect(),
        })
    }

    fn parameters(&mut self, json: &Json) -> Parameters {
        match json {
            Json::String(name) => {
                self.parameter(name);
                Parameters::One
            }
            Json::Array(names) => {
                self.each(names.iter().enumerate(), |parser, (index, name)| match name {
                    Json::String(name) => {
                        parser.parameter(name);
                        NOTHING
                    }
                    other => parser.at(Step::Index(index), |parser| parser.refuse_type("String", other)),
                });
                Parameters::Many(names.len())
            }
            other => {
                self.refuse_type("String or Array", other);
                Parameters::One
            }
        }
    }

    /// A discarded one has no name.
    fn parameter(&mut self, name: &Arc<str>) {
        self.scope.push((&**name != "_").then(|| name.clone()));
    }

    /// A value written out, `{"@…": …}`.
    fn escape(&mut self, key: &str, operand: &Json) -> Expression {
        let literal = |value: Option<Value>| value.map(Expression::Literal);
        let (parsed, form) = match key {
            "@ref" => return self.reference(operand),
            "@ts" => (literal(text(operand).and_then(Time::parse).map(Value::Time)), "time"),
            "@date" => (literal(text(operand).and_then(Date::parse).map(Value::Date)), "date"),
            "@bytes" => (literal(text(operand).and_then(bytes).map(Value::Bytes)), "bytes"),
            "@uuid" => (literal(text(operand).and_then(uuid).map(Value::Uuid)), "UUID"),
            "@query" => return self.stored_lambda(operand),
            "@set" => return self.stored_set(operand),
            _ => match operand {
                Json::Object(_) => return self.key("@obj", |parser| parser.expression(operand)),
                _ => (None, "object"),
            },
        };
        match parsed {
            Some(parsed) => parsed,
            None => self.refuse(format!("Invalid {form}.")),
        }
    }

    fn reference(&mut self, operand: &Json) -> Expression {
        match references::written(operand) {
            Ok(Written::Plain(reference)) => Expression::Literal(Value::Ref(reference)),
            Ok(Written::Own(collection)) => Expression::OwnRef(collection),
            Err(errors) => self.refuse_with(errors),
        }
    }

    /// A lambda that was shown or stored: it knows no variable but its own.
    fn stored_lambda(&mut self, operand: &Json) -> Expression {
        let version = match operand.field("api_version") {
            None => Some(ApiVersion::LAMBDA_DEFAULT),
            Some(version) => text(version).and_then(ApiVersion::parse),
        };
        let count = match operand {
            Json::Object(fields) => fields.len() - usize::from(operand.field("api_version").is_some()),
            _ => 0,
        };
        let (Some(version), Some(parameters), Some(body), 2) =
            (version, operand.field("lambda"), operand.field("expr"), count)
        else {
            return self.refuse("Invalid lambda.");
        };
        let source = Json::object([("lambda", parameters.clone()), ("expr", body.clone())]);
        let scope = std::mem::take(&mut self.scope);
        let (outer, unbound) = (std::mem::replace(&mut self.version, version), self.unbound.len());
        let lambda = self.lambda(&source);
        (self.scope, self.version) = (scope, outer);
        if self.unbound.len() > unbound {
            self.unbound.truncate(unbound);
            return self.refuse("Invalid lambda.");
        }
        Expression::Lambda(lambda, version.max(ApiVersion::LAMBDA_DEFAULT))
    }

    /// A set that was shown or stored: its parts are data, its lambdas bare.
    fn stored_set(&mut self, operand: &Json) -> Expression {
        let function = match operand {
            Json::Object(fields) => signature::find(fields, self.version),
            _ => None,
        };
        let Some(function) = function.filter(|&function| is_set_form(&SIGNATURES[function])) else {
            return self.refuse("Invalid set.");
        };
        let before = self.errors.len();
        let mut arguments = Vec::new();
        for parameter in SIGNATURES[function].parameters {
            let argument = operand.field(parameter.key).map(|argument| {
                self.key(parameter.key, |parser| match parameter.kind {
                    Kind::Lambda | Kind::LambdaOrAny if !is_ref_escape(argument) => parser.stored_lambda(argument),
                    _ => parser.data(argument),
                })
            });
            arguments.push(argument);
            if self.errors.len() > before {
                break;
            }
        }
        Expression::Call(function, arguments)
    }

    /// JSON taken as data, with its escapes.
    fn data(&mut self, json: &Json) -> Expression {
        match json {
            Json::Array(items) => {
                let items = self.each(items.iter().enumerate(), |parser, (index, item)| {
                    parser.at(Step::Index(index), |parser| parser.data(item))
                });
                array_of(items)
            }
            Json::Object(fields) => match fields.as_slice() {
                [(key, Json::Object(inner))] if &**key == "@obj" => self.data_fields(inner),
                [(key, inner)] if is_escape(key) => self.escape(key, inner),
                fields => self.data_fields(fields),
            },
            scalar => self.expression(scalar),
        }
    }

    fn data_fields(&mut self, fields: &[(Arc<str>, Json)]) -> Expression {
        self.fields(fields, |parser, key, json| {
            parser.at(Step::Name(key.clone()), |parser| parser.data(json))
        })
    }
}

const EMPTY_LIST: &str = "Expression list cannot be empty.";

fn array_of(items: Vec<Expression>) -> Expression {
    if items.iter().all(|item| matches!(item, Expression::Literal(_))) {
        let values = items.into_iter().map(|item| match item {
            Expression::Literal(value) => value,
            _ => Value::Null,
        });
        return Expression::Literal(Value::array(values.collect()));
    }
    Expression::Array(items)
}

/// An object with the two fields of a lambda.
fn is_lambda(json: &Json) -> bool {
    let is_pair = matches!(json, Json::Object(fields) if fields.len() == 2);
    is_pair && json.field("lambda").is_some() && json.field("expr").is_some()
}

fn is_ref_escape(json: &Json) -> bool {
    json.field("@ref").is_some()
}

/// The functions that a `@set` is written with.
fn is_set_form(signature: &Signature) -> bool {
    let names = [
        "match",
        "singleton",
        "events",
        "documents",
        "union",
        "intersection",
        "difference",
        "distinct",
        "reverse",
        "range",
        "join",
        "filter",
    ];
    names.contains(&signature.parameters[0].key)
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
            [(key, operand)] if &**key == "@ref" => references::plain(operand).map_or(Value::Null, Value::Ref),
            [(key, operand)] if &**key == "@ts" => text(operand).and_then(Time::parse).map_or(Value::Null, Value::Time),
            [(key, operand)] if &**key == "@date" => {
                text(operand).and_then(Date::parse).map_or(Value::Null, Value::Date)
            }
            fields => Value::object(fields.iter().map(|(key, value)| (key.clone(), quoted(value))).collect()),
        },
    }
}
