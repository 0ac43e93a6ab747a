//! Errors of the protocol: code, HTTP status, description, and position in the query.
//!
//! A position is gathered on the way out: each evaluator of a part adds the key of that part, so a
//! correct query pays nothing for positions. Codes and statuses are one table.

use std::sync::Arc;

use crate::language::value::{Native, Ref, Value};

/// One step of the path from the root of a query to a part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Key(&'static str),
    Name(Arc<str>),
    Index(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidExpression,
    InvalidArgument,
    InvalidUrlParameter,
    InvalidRef,
    InvalidScope,
    InvalidWriteTime,
    InvalidToken,
    MissingIdentity,
    AuthenticationFailed,
    TransactionAborted,
    CallError,
    StackOverflow,
    InstanceAlreadyExists,
    InstanceNotUnique,
    ValidationFailed,
    SchemaValidationFailed,
    MoveDatabaseError,
    InvalidObjectInContainer,
    BadRequest,
    Unauthorized,
    PermissionDenied,
    ValueNotFound,
    InstanceNotFound,
    /// The same code with status 400: an inactive index, an unknown secret.
    InstanceNotFoundHere,
    NotFound,
    MethodNotAllowed,
    ContendedTransaction,
    RequestTooLarge,
    TimeOut,
    TooManyRequests,
    Unavailable,
    /// Something keeps the partition.
    Busy,
    /// Never shown: the query is restarted where it may take long.
    TakesLong,
}

impl Code {
    /// Its name on the wire and its HTTP status.
    pub fn wire(self) -> (&'static str, u16) {
        match self {
            Code::InvalidExpression => ("invalid expression", 400),
            Code::InvalidArgument => ("invalid argument", 400),
            Code::InvalidUrlParameter => ("invalid url parameter", 400),
            Code::InvalidRef => ("invalid ref", 400),
            Code::InvalidScope => ("invalid scope", 400),
            Code::InvalidWriteTime => ("invalid write time", 400),
            Code::InvalidToken => ("invalid token", 400),
            Code::MissingIdentity => ("missing identity", 400),
            Code::AuthenticationFailed => ("authentication failed", 400),
            Code::TransactionAborted => ("transaction aborted", 400),
            Code::CallError => ("call error", 400),
            Code::StackOverflow => ("stack overflow", 400),
            Code::InstanceAlreadyExists => ("instance already exists", 400),
            Code::InstanceNotUnique => ("instance not unique", 400),
            Code::ValidationFailed => ("validation failed", 400),
            Code::SchemaValidationFailed => ("schema validation failed", 400),
            Code::MoveDatabaseError => ("move database error", 400),
            Code::InvalidObjectInContainer => ("invalid object in container", 400),
            Code::BadRequest => ("bad request", 400),
            Code::Unauthorized => ("unauthorized", 401),
            Code::PermissionDenied => ("permission denied", 403),
            Code::ValueNotFound => ("value not found", 404),
            Code::InstanceNotFound => ("instance not found", 404),
            Code::InstanceNotFoundHere => ("instance not found", 400),
            Code::NotFound => ("not found", 404),
            Code::MethodNotAllowed => ("method not allowed", 405),
            Code::ContendedTransaction => ("contended transaction", 409),
            Code::RequestTooLarge => ("request too large", 413),
            Code::TimeOut | Code::TakesLong => ("time out", 503),
            Code::Busy => ("unavailable", 503),
            Code::TooManyRequests => ("too many requests", 429),
            Code::Unavailable => ("unavailable", 503),
        }
    }

    /// The error with the lowest rank gives the status.
    fn rank(self) -> u8 {
        match self {
            Code::InvalidExpression => 0,
            Code::InvalidArgument => 1,
            Code::PermissionDenied => 2,
            _ => 3,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub field: Vec<Step>,
    pub code: &'static str,
    pub description: String,
    /// The field is given from the root of the query: the path of the place of evaluation is
    /// prepended.
    pub from_root: bool,
}

impl Failure {
    pub fn new(field: &[&'static str], code: &'static str, description: impl Into<String>) -> Failure {
        Failure {
            field: field.iter().map(|key| Step::Key(key)).collect(),
            code,
            description: description.into(),
            from_root: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub code: Code,
    pub description: String,
    /// From the inside out; `None` on errors of the protocol, which have no position.
    pub position: Option<Vec<Step>>,
    pub failures: Vec<Failure>,
    pub cause: Vec<Error>,
    /// The position is whole: what is around the place of evaluation adds nothing.
    pub is_placed: bool,
}

/// At least one error.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors(pub Vec<Error>);

pub type Result<T> = std::result::Result<T, Errors>;

impl Error {
    /// Adds a step to incomplete positions, including those of the causes.
    fn push(&mut self, step: &Step) {
        if self.is_placed {
            return;
        }
        if let Some(position) = &mut self.position {
            position.push(step.clone());
        }
        for failure in self.failures.iter_mut().filter(|failure| failure.from_root) {
            failure.field.insert(0, step.clone());
        }
        self.cause.iter_mut().for_each(|cause| cause.push(step));
    }

    fn place(&mut self) {
        self.is_placed = true;
        self.cause.iter_mut().for_each(Error::place);
    }
}

/// Most errors in one reply.
pub const ERRORS_MAX: usize = 100;

impl Errors {
    pub fn new(code: Code, description: impl Into<String>) -> Errors {
        Errors(vec![Error {
            code,
            description: description.into(),
            position: Some(Vec::new()),
            failures: Vec::new(),
            cause: Vec::new(),
            is_placed: false,
        }])
    }

    /// An error of the protocol, not of a place in the query.
    pub fn protocol(code: Code, description: impl Into<String>) -> Errors {
        let mut errors = Errors::new(code, description);
        errors.0[0].position = None;
        errors
    }

    pub fn argument(description: impl Into<String>) -> Errors {
        Errors::new(Code::InvalidArgument, description)
    }

    pub fn validation(failures: Vec<Failure>) -> Errors {
        let mut errors = Errors::new(Code::ValidationFailed, "document data is not valid.");
        errors.0[0].failures = failures;
        errors
    }

    pub fn invalid_ref(kind: &str, name: &str) -> Errors {
        Errors::new(Code::InvalidRef, format!("Ref refers to undefined {kind} '{name}'"))
    }

    pub fn denied() -> Errors {
        Errors::new(Code::PermissionDenied, "Insufficient privileges to perform the action.")
    }

    pub fn document_not_found() -> Errors {
        Errors::new(Code::InstanceNotFound, "Document not found.")
    }

    /// The ref's target does not exist.
    pub fn not_found(reference: &Ref) -> Errors {
        let kind = reference.kind().map_or("Document", Native::title);
        Errors::new(Code::InstanceNotFound, format!("{kind} not found."))
    }

    pub fn already_exists(reference: &Ref) -> Errors {
        let kind = reference.kind().map_or("Document", Native::title);
        Errors::new(Code::InstanceAlreadyExists, format!("{kind} already exists."))
    }

    /// Adds the part that had these errors.
    pub fn within(mut self, step: Step) -> Errors {
        self.0.iter_mut().for_each(|error| error.push(&step));
        self
    }

    /// Adds the element that had these errors.
    pub fn at_index(self, index: usize) -> Errors {
        self.within(Step::Index(index))
    }

    /// Returns the gathered errors, if there are any: as many as a reply may have.
    pub fn unless_empty(mut errors: Vec<Error>) -> Result<()> {
        errors.truncate(ERRORS_MAX);
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Errors(errors)),
        }
    }

    /// Says that the positions are whole.
    pub fn placed(mut self) -> Errors {
        self.0.iter_mut().for_each(Error::place);
        self
    }

    /// Sets their position to this place, given from the inside out, independent of the place of
    /// evaluation.
    pub fn placed_at(self, place: &[Step]) -> Errors {
        place
            .iter()
            .fold(self, |errors, step| errors.within(step.clone()))
            .placed()
    }

    pub fn status(&self) -> u16 {
        let ranked = self.0.iter().min_by_key(|error| error.code.rank());
        ranked.map_or(500, |error| error.code.wire().1)
    }

    /// The query has run into a limit: nothing more is evaluated.
    pub fn is_final(&self) -> bool {
        let is_limit = |error: &Error| {
            matches!(
                error.code,
                Code::StackOverflow | Code::BadRequest | Code::TimeOut | Code::TakesLong
            )
        };
        self.0.iter().any(is_limit)
    }

    pub fn is_only(&self, codes: &[Code]) -> bool {
        self.0.iter().all(|error| codes.contains(&error.code))
    }
}

/// Returns an error if there are failures in the data to be written.
pub fn check(failures: Vec<Failure>) -> Result<()> {
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Errors::validation(failures)),
    }
}

/// Some sets have no history.
pub fn no_history() -> Errors {
    Errors::argument("Set does not support events history.")
}

/// A value of another type than was expected.
pub fn wrong_type(expected: &str, value: &Value) -> Errors {
    Errors::argument(format!("{expected} expected, {} provided.", value.type_name()))
}

/// Adds to the errors of a result the part that had them.
pub trait Within<T> {
    fn within(self, key: &'static str) -> Result<T>;
    fn within_index(self, index: usize) -> Result<T>;
    fn within_name(self, name: &Arc<str>) -> Result<T>;
}

impl<T> Within<T> for Result<T> {
    fn within(self, key: &'static str) -> Result<T> {
        self.map_err(|errors| errors.within(Step::Key(key)))
    }

    fn within_index(self, index: usize) -> Result<T> {
        self.map_err(|errors| errors.within(Step::Index(index)))
    }

    fn within_name(self, name: &Arc<str>) -> Result<T> {
        self.map_err(|errors| errors.within(Step::Name(name.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query of 100 KB with 20,000 numbers where truths are expected had 20,000 errors, in a
    /// reply of 2 MB.
    #[test]
    fn a_reply_has_a_bounded_number_of_errors() {
        let wrong = |_| Errors::new(Code::InvalidExpression, "wrong").0;
        let gathered: Vec<Error> = (0..1000).flat_map(wrong).collect();
        let errors = Errors::unless_empty(gathered).unwrap_err();
        assert_eq!(errors.0.len(), ERRORS_MAX);
        assert!(Errors::unless_empty(Vec::new()).is_ok());
    }
}
