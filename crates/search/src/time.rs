//! The time that a search or an aggregation may take.

use std::cell::Cell;
use std::fmt;

use crate::error::SearchError;

/// The deadline of a search, and the action at the deadline.
#[derive(Clone, Copy)]
pub struct Time<'t> {
    is_over: &'t dyn Fn() -> bool,
    parts: Option<&'t Parts<'t>>,
}

/// A request whose answer may be a part.
pub struct Parts<'p> {
    is_late: &'p dyn Fn() -> bool,
    was_over: Cell<bool>,
}

impl<'p> Parts<'p> {
    /// Steps after the deadline continue until `is_late` returns true.
    pub fn until(is_late: &'p dyn Fn() -> bool) -> Parts<'p> {
        Parts {
            is_late,
            was_over: Cell::new(false),
        }
    }

    /// Returns true if the deadline passed before the search was complete.
    pub fn was_over(&self) -> bool {
        self.was_over.get()
    }
}

impl<'t> Time<'t> {
    /// The search returns an error at the deadline. It polls `is_over`.
    pub fn until(is_over: &'t dyn Fn() -> bool) -> Time<'t> {
        Time { is_over, parts: None }
    }

    /// The answer is the partial result at the deadline, processed further until `is_late`.
    pub fn for_parts(is_over: &'t dyn Fn() -> bool, parts: &'t Parts<'t>) -> Time<'t> {
        let parts = Some(parts);
        Time { is_over, parts }
    }

    /// Returns true if the caller must continue with its partial result.
    pub fn is_over(&self) -> Result<bool, SearchError> {
        match self.parts {
            Some(parts) if parts.was_over() => Ok((parts.is_late)()),
            Some(parts) => {
                parts.was_over.set((self.is_over)());
                Ok(parts.was_over())
            }
            None if (self.is_over)() => Err(SearchError::Timeout),
            None => Ok(false),
        }
    }

    /// The check of the deadline, for steps without partial results.
    pub fn question(&self) -> &'t dyn Fn() -> bool {
        self.is_over
    }

    /// Returns `found`, or nothing of it if it was not found in time and parts are an answer.
    pub fn found<T: Default>(&self, outcome: Result<T, SearchError>) -> Result<T, SearchError> {
        match (outcome, self.parts) {
            (Err(SearchError::Timeout), Some(parts)) => {
                parts.was_over.set(true);
                Ok(T::default())
            }
            (outcome, _) => outcome,
        }
    }
}

impl fmt::Debug for Time<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Time {{ gives_parts: {} }}", self.parts.is_some())
    }
}
