//! Evaluates expressions: one evaluation is one attempt at one transaction.
//!
//! Evaluation recurses with the query, so its depth is limited, and the stack grows on the heap
//! rather than overflow. Work is counted: a query of any form that needs too much of it is refused.

pub mod authorization;
pub mod combinations;
pub mod deadline;
pub mod definitions;
pub mod entries;
pub mod functions;
pub mod histories;
pub mod host;
pub mod operations;
pub mod pages;
pub mod permitted;
pub mod sets;
pub mod versions;

use std::sync::Arc;

use crate::evaluation::authorization::Authorization;
use crate::evaluation::deadline::Deadline;
use crate::evaluation::host::Host;
use crate::evaluation::operations::Operations;
use crate::language::api_version::ApiVersion;
use crate::language::error::{Code, ERRORS_MAX, Error, Errors, Result, Within, wrong_type};
use crate::language::expression::{Binding, Effect, Expression, Lambda, Parameters};
use crate::language::signature::{Kind, SIGNATURES};
use crate::language::value::{Closure, Native, Set, Timestamp, Value};
use crate::storage::rows::View;
use crate::storage::schema::Schema;

/// Expressions within each other while they are evaluated, through calls of functions too.
const DEPTH_MAX: usize = 8_000;
/// Calls of user functions and lambdas within each other.
const CALLS_MAX: usize = 200;
/// How large and how deep a value may be when written out.
const VALUE_BYTES_MAX: u64 = 64 << 20;
const VALUE_DEPTH_MAX: u32 = 1_000;
/// Upper bound on the size of all values of a query.
const WORK_BYTES_MAX: u64 = 1 << 30;
/// Upper bound on the bytes of texts, arrays and entries that a query may copy and create, even if
/// little of it is kept.
const MADE_BYTES_MAX: u64 = 256 << 20;
/// Upper bound on the bytes that a transaction writes.
const WRITTEN_BYTES_MAX: u64 = 64 << 20;

/// The memory that a query may take for each byte of room that the process has for one: for all
/// values however small, of which most are gone soon, and for what is copied and made anew.
const WORK_PER_ROOM: u64 = 16;
const MADE_PER_ROOM: u64 = 2;
/// A text or a container of at least this size counts as made, even if it is dropped soon. Smaller
/// values count if another container keeps them.
const LARGE_BYTES_MIN: usize = 4096;
/// The bytes of an empty container.
pub const CONTAINER_BYTES: usize = 64;

/// The cost of a query so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub steps: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_operations: u64,
    pub write_operations: u64,
    work_bytes: u64,
    made_bytes: u64,
}

/// `Evaluation::allowed_in` of a stream: what is refused there has the words that the drivers' own
/// suites expect.
pub const STREAMS: &str = "stream requests";

pub struct Evaluation<'a> {
    /// The body of each function, by its place in the table of signatures.
    bodies: &'static [(&'static str, Body)],
    pub host: &'a dyn Host,
    pub view: View<'a>,
    pub schema: Arc<Schema>,
    pub authorization: Authorization,
    /// The effects that the context allows: read-only in predicates, pure in bindings.
    pub allowed: Effect,
    /// The context that allows no more, in the plural.
    pub allowed_in: &'static str,
    /// Reads see the versions up to this time; `None`: all.
    pub at: Option<Timestamp>,
    /// The value of `at` outside of the form `at`.
    pub present: Option<Timestamp>,
    /// Inside `at`, where nothing may be written.
    pub in_the_past: bool,
    /// The names that this query has given.
    pub names_given: Vec<(Native, Arc<str>)>,
    /// The time of the query, in microseconds since the Unix epoch: see [`View::now_micros`].
    pub now_micros: u64,
    /// The latest time in a reply, among times that need not be in the log; 0: none.
    pub shown_micros: u64,
    pub cost: Cost,
    operations: Operations,
    pub deadline: Deadline,
    /// The version of the API that the query speaks.
    pub version: ApiVersion,
    /// The error that ended the query before its time.
    pub interrupted: Option<Errors>,
    /// The number of steps at which to look at the time.
    pub next_look: u64,
    /// Work since the last look at the time, see [`Evaluation::work`].
    unlooked_work: u64,
    /// See [`Host::room_bytes`].
    room_bytes: u64,
    variables: Vec<Value>,
    depth: usize,
    calls: usize,
}

/// The body of a function.
pub type Body = fn(&mut Evaluation<'_>, &Arguments) -> Result<Value>;

/// The arguments of a function, checked against its declaration. Absent optional arguments are
/// `None`.
pub struct Arguments(pub Vec<Option<Value>>);

impl Arguments {
    /// A required argument.
    pub fn value(&self, index: usize) -> &Value {
        self.0[index].as_ref().expect("the parser has seen required arguments")
    }

    pub fn optional(&self, index: usize) -> Option<&Value> {
        self.0.get(index).and_then(Option::as_ref)
    }

    /// A required string; its declaration has checked the type.
    pub fn text(&self, index: usize) -> &str {
        self.value(index).as_str().map_or("", |text| text)
    }

    pub fn integer(&self, index: usize) -> Option<i64> {
        match self.optional(index) {
            Some(Value::Int(integer)) => Some(*integer),
            Some(Value::Double(double)) => Some(*double as i64),
            _ => None,
        }
    }

    pub fn many(&self, index: usize) -> &[Value] {
        self.value(index).one_or_many()
    }

    /// The first of many and the rest; the declaration has checked that there is a first.
    pub fn one_or_more(&self, index: usize) -> (&Value, &[Value]) {
        self.many(index)
            .split_first()
            .expect("the declaration asks for one or more")
    }

    pub fn closure(&self, index: usize) -> &Arc<Closure> {
        match self.value(index) {
            Value::Query(closure) => closure,
            _ => unreachable!("the declaration asks for a lambda"),
        }
    }
}

impl<'a> Evaluation<'a> {
    pub fn new(
        bodies: &'static [(&'static str, Body)],
        host: &'a dyn Host,
        view: View<'a>,
        schema: Arc<Schema>,
        authorization: Authorization,
    ) -> Evaluation<'a> {
        let now_micros = view.now_micros();
        Evaluation {
            bodies,
            host,
            view,
            schema,
            authorization,
            allowed: Effect::Write,
            allowed_in: "",
            at: None,
            present: None,
            in_the_past: false,
            names_given: Vec::new(),
            now_micros,
            shown_micros: 0,
            cost: Cost::default(),
            operations: Operations::default(),
            deadline: Deadline::unlimited(),
            version: ApiVersion::V4,
            interrupted: None,
            next_look: 0,
            unlooked_work: 0,
            room_bytes: host.room_bytes(),
            variables: Vec::new(),
            depth: 0,
            calls: 0,
        }
    }

    pub fn evaluate(&mut self, expression: &Expression) -> Result<Value> {
        match expression {
            Expression::Literal(value) => return Ok(value.clone()),
            Expression::Variable(slot) => return Ok(self.variables.get(*slot).cloned().unwrap_or(Value::Null)),
            _ => {}
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.depth -= 1;
            return Err(stack_overflow());
        }
        let value = stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.compound(expression));
        self.depth -= 1;
        let value = value?;
        self.charge(&value)?;
        Ok(value)
    }

    fn compound(&mut self, expression: &Expression) -> Result<Value> {
        match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Variable(slot) => Ok(self.variables.get(*slot).cloned().unwrap_or(Value::Null)),
            Expression::Array(items) => self.array(items),
            Expression::Object(entries) => self.object(entries),
            Expression::Let(bindings, body) => self.let_in(bindings, body),
            Expression::If(parts) => self.if_then_else(parts),
            Expression::Do(parts) => self.do_all(parts),
            Expression::At(parts) => self.at_time(parts),
            Expression::Lambda(lambda, version) => Ok(self.close(lambda, *version)),
            Expression::OwnRef(collection) => self.own_member(collection),
            Expression::Select(parts) => self.selected(parts),
            Expression::Junction(and, parts) => self.junction(*and, parts),
            Expression::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// Refuses what has become too large, before anything walks it.
    fn charge(&mut self, value: &Value) -> Result<()> {
        let size = value.size();
        self.cost.work_bytes = self.cost.work_bytes.saturating_add(size.bytes.min(4096));
        if size.depth > VALUE_DEPTH_MAX {
            return Err(stack_overflow());
        }
        if size.bytes > VALUE_BYTES_MAX || self.cost.work_bytes > WORK_BYTES_MAX {
            return Err(too_large());
        }
        if size.bytes > self.room_bytes || self.cost.work_bytes / WORK_PER_ROOM > self.room_bytes {
            return Err(self.interrupt(out_of_memory()));
        }
        Ok(())
    }

    /// Accounts for `bytes` that are about to be created, or copied.
    pub fn make(&mut self, bytes: usize) -> Result<()> {
        self.cost.made_bytes = self.cost.made_bytes.saturating_add(bytes as u64);
        if self.cost.made_bytes > MADE_BYTES_MAX {
            return Err(self.interrupt(too_large()));
        }
        match self.cost.made_bytes / MADE_PER_ROOM > self.room_bytes {
            true => Err(self.interrupt(out_of_memory())),
            false => Ok(()),
        }
    }

    /// Must be called after a write.
    pub fn check_written(&mut self) -> Result<()> {
        match self.cost.bytes_written > WRITTEN_BYTES_MAX {
            true => {
                let message = "Transaction size exceeds the limit.";
                Err(self.interrupt(Errors::protocol(Code::BadRequest, message)))
            }
            false => Ok(()),
        }
    }

    /// Elements do not depend on each other: the errors of all are reported.
    fn array(&mut self, items: &[Expression]) -> Result<Value> {
        let mut values = Vec::with_capacity(items.len());
        let mut errors = Vec::new();
        for (index, item) in items.iter().enumerate() {
            collect(self.evaluate(item).within_index(index), &mut values, &mut errors)?;
        }
        Errors::unless_empty(errors)?;
        Ok(Value::array(values))
    }

    fn object(&mut self, entries: &[(Arc<str>, Expression)]) -> Result<Value> {
        let mut values = Vec::with_capacity(entries.len());
        let mut errors = Vec::new();
        for (name, entry) in entries {
            let value = self.evaluate(entry).within_name(name).within("object");
            collect(value.map(|value| (name.clone(), value)), &mut values, &mut errors)?;
        }
        Errors::unless_empty(errors)?;
        Ok(Value::object(values))
    }

    fn let_in(&mut self, bindings: &[Binding], body: &Expression) -> Result<Value> {
        let depth = self.variables.len();
        let answer = self.bind_and_evaluate(bindings, body);
        self.variables.truncate(depth);
        answer
    }

    fn bind_and_evaluate(&mut self, bindings: &[Binding], body: &Expression) -> Result<Value> {
        for binding in bindings {
            let mut value = self.evaluate(&binding.value).within_name(&binding.name);
            if let Some(index) = binding.index {
                value = value.within_index(index);
            }
            let value = value.within("let")?;
            self.variables.push(value);
        }
        self.evaluate(body).within("in")
    }

    fn if_then_else(&mut self, [condition, then, otherwise]: &[Expression; 3]) -> Result<Value> {
        let condition = self.evaluate(condition).within("if")?;
        match condition {
            Value::Bool(true) => self.evaluate(then).within("then"),
            Value::Bool(false) => self.evaluate(otherwise).within("else"),
            other => Err(wrong_type("Boolean", &other)).within("if"),
        }
    }

    fn do_all(&mut self, parts: &[Expression]) -> Result<Value> {
        let mut last = Value::Null;
        for (index, part) in parts.iter().enumerate() {
            last = self.evaluate(part).within_index(index).within("do")?;
        }
        Ok(last)
    }

    fn at_time(&mut self, [time, body]: &[Expression; 2]) -> Result<Value> {
        let time = self.evaluate(time).within("at")?;
        if !Kind::Moment.takes(&time) {
            return Err(Kind::Moment.wrong(&time)).within("at");
        }
        let at = self.moment(&time).within("at")?;
        match at.0 > self.now_micros {
            true => self.evaluate(body),
            false => self.in_past(at, |evaluation| evaluation.evaluate(body)),
        }
        .within("expr")
    }

    /// Evaluates as of a time. The query's own time is the present, which permits writes.
    pub fn in_past<T>(&mut self, at: Timestamp, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = (self.at, self.in_the_past);
        self.show(at.0.min(self.now_micros));
        self.in_the_past = at.0 != self.now_micros;
        self.at = match self.in_the_past {
            false => self.present,
            true => Some(self.present.map_or(at, |present| present.min(at))),
        };
        let answer = body(self);
        (self.at, self.in_the_past) = outer;
        answer
    }

    /// Must be called when an answer may depend on a time: no later commit will be at or below it.
    pub fn show(&mut self, micros: u64) {
        self.shown_micros = self.shown_micros.max(micros);
    }

    /// A time given as microseconds or as a time.
    pub fn moment(&self, value: &Value) -> Result<Timestamp> {
        match value {
            Value::Int(micros) => Ok(Timestamp((*micros).max(0) as u64)),
            Value::Time(time) => Ok(Timestamp(time.micros().max(0) as u64)),
            Value::Date(date) => Ok(Timestamp(date.midnight().micros().max(0) as u64)),
            Value::TransactionTime => Ok(Timestamp(self.now_micros)),
            other => Err(wrong_type("Time", other)),
        }
    }

    fn close(&mut self, lambda: &Arc<Lambda>, version: ApiVersion) -> Value {
        let variables = match lambda.free.is_empty() {
            true => vec![Value::Null; self.variables.len()],
            false => self.variables.clone(),
        };
        Value::Query(Arc::new(Closure {
            lambda: lambda.clone(),
            variables: variables.into(),
            api_version: version,
        }))
    }

    /// Calls a lambda. Errors are reported at the place where its form is being evaluated.
    pub fn apply(&mut self, closure: &Closure, argument: Value) -> Result<Value> {
        self.apply_telling(closure, argument, |errors| errors)
    }

    /// Calls a stored lambda: errors in its body have their positions in it, for any caller.
    pub fn apply_stored(&mut self, closure: &Closure, argument: Value) -> Result<Value> {
        self.apply_telling(closure, argument, Errors::placed)
    }

    fn apply_telling(&mut self, closure: &Closure, argument: Value, tell: fn(Errors) -> Errors) -> Result<Value> {
        self.step(1)?;
        self.calls += 1;
        if self.calls > CALLS_MAX {
            self.calls -= 1;
            return Err(stack_overflow());
        }
        let outer = std::mem::replace(&mut self.variables, closure.variables.to_vec());
        let bound = self.bind(&closure.lambda.parameters, argument).within("lambda");
        let answer = bound.and_then(|()| self.evaluate(&closure.lambda.body).within("expr").map_err(tell));
        self.variables = outer;
        self.calls -= 1;
        answer
    }

    fn bind(&mut self, parameters: &Parameters, argument: Value) -> Result<()> {
        let count = match parameters {
            Parameters::One => {
                self.variables.push(argument);
                return Ok(());
            }
            Parameters::Many(count) => *count,
        };
        let values = argument.one_or_many();
        if values.len() != count {
            return Err(Errors::argument(format!(
                "Lambda expects an array with {count} elements. Array contains {}.",
                values.len()
            )));
        }
        self.variables.extend_from_slice(values);
        Ok(())
    }

    fn junction(&mut self, and: bool, parts: &[Expression]) -> Result<Value> {
        let key = if and { "and" } else { "or" };
        for (index, part) in parts.iter().enumerate() {
            let place = |errors: Errors| match parts.len() {
                1 => errors,
                _ => errors.at_index(index),
            };
            match self.evaluate(part).map_err(place).within(key)? {
                Value::Bool(value) if value != and => return Ok(Value::Bool(!and)),
                Value::Bool(_) => {}
                other => return Err(wrong_type("Boolean", &other)).within_index(index).within(key),
            }
        }
        Ok(Value::Bool(and))
    }

    fn call(&mut self, function: usize, arguments: &[Option<Expression>]) -> Result<Value> {
        self.step(1)?;
        let (function, body) = (&SIGNATURES[function], self.bodies[function].1);
        if function.effect > self.allowed {
            let effect = if function.effect == Effect::Write {
                "write"
            } else {
                "read"
            };
            let message = match self.allowed_in {
                STREAMS => "Write effect in read-only query expression.".to_owned(),
                place => format!("Call performs a {effect}, which is not allowed in {place}."),
            };
            return Err(Errors::new(Code::InvalidExpression, message));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            let value = match argument {
                None => Ok(None),
                Some(argument) => self
                    .evaluate(argument)
                    .and_then(|value| self.checked(parameter.kind, value))
                    .map(Some),
            };
            values.push(value.within(parameter.key)?);
        }
        let (arguments, made_before) = (Arguments(values), self.cost.made_bytes);
        let value = body(self, &arguments)?;
        let counted = (self.cost.made_bytes - made_before) as usize;
        match new_bytes(&value) {
            bytes @ LARGE_BYTES_MIN.. if bytes > counted => self.make(bytes - counted).map(|()| value),
            _ => Ok(value),
        }
    }

    /// Accounts for a small value that a container being made keeps. A large one was counted where
    /// it was made.
    pub fn keep(&mut self, value: &Value) -> Result<()> {
        match new_bytes(value) {
            0 | LARGE_BYTES_MIN.. => Ok(()),
            bytes => self.make(bytes),
        }
    }
}

/// Returns the bytes of a text or a container with one owner, without those of its elements.
fn new_bytes(value: &Value) -> usize {
    const VALUE_BYTES: usize = std::mem::size_of::<Value>();
    let elements = |count: usize, bytes: usize| CONTAINER_BYTES + count * bytes;
    match value {
        Value::String(text) if Arc::strong_count(text) == 1 => text.len(),
        Value::Array(items) if Arc::strong_count(items) == 1 => elements(items.values.len(), VALUE_BYTES),
        Value::Object(fields) if Arc::strong_count(fields) == 1 => {
            elements(fields.entries.len(), std::mem::size_of::<(Arc<str>, Value)>())
        }
        // Elements, documents and cursors.
        Value::Page(page) if Arc::strong_count(page) == 1 => elements(page.data.values.len(), 4 * VALUE_BYTES),
        Value::Query(closure) if Arc::strong_count(closure) == 1 => elements(closure.variables.len(), VALUE_BYTES),
        Value::Set(set) if Arc::strong_count(set) == 1 => match &**set {
            Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => elements(parts.len(), VALUE_BYTES),
            _ => CONTAINER_BYTES,
        },
        _ => 0,
    }
}

impl Evaluation<'_> {
    /// A ref must lead to an existing entity where its parameter requires it.
    fn checked(&mut self, kind: Kind, value: Value) -> Result<Value> {
        if kind.needs_defined() {
            match &value {
                Value::Ref(reference) => self.check_defined(reference)?,
                Value::Array(items) if kind.takes_many() => {
                    for (index, item) in items.values.iter().enumerate() {
                        if let Value::Ref(reference) = item {
                            self.check_defined(reference).within_index(index)?;
                        }
                    }
                }
                _ => {}
            }
        }
        check(kind, value)
    }
}

/// The value if its type is what the parameter takes; each element of an array for parameters that
/// take many.
fn check(kind: Kind, value: Value) -> Result<Value> {
    match &value {
        Value::Array(items) if kind.takes_many() => {
            if kind.takes_one_or_more() && items.values.is_empty() {
                return Err(Errors::argument("Non-empty array expected."));
            }
            let wrong = items.values.iter().enumerate().filter(|(_, item)| !kind.takes(item));
            let errors = wrong.map(|(index, item)| kind.wrong(item).at_index(index));
            Errors::unless_empty(errors.flat_map(|errors| errors.0).collect())?;
            Ok(value)
        }
        single if kind.takes(single) => Ok(value),
        single => Err(kind.wrong(single)),
    }
}

fn too_large() -> Errors {
    Errors::new(Code::BadRequest, "Query result exceeds the size limit.")
}

/// The query would take more memory than there is room for: a retry may succeed.
pub fn out_of_memory() -> Errors {
    let message = "The query takes more memory than there is left for one: ask for less, or try again later.";
    Errors::protocol(Code::Unavailable, message)
}

fn stack_overflow() -> Errors {
    Errors::new(Code::StackOverflow, "Call stack reached the maximum limit of 200.")
}

/// Gathers values and errors. An error that ends the whole query ends the gathering too: its
/// siblings would only get it again.
pub fn collect<T>(result: Result<T>, values: &mut Vec<T>, errors: &mut Vec<Error>) -> Result<()> {
    match result {
        Ok(value) => values.push(value),
        Err(more) if more.is_final() || errors.len() + more.0.len() > ERRORS_MAX => return Err(more),
        Err(mut more) => errors.append(&mut more.0),
    }
    Ok(())
}
