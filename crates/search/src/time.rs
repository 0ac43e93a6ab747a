//! The time that a search or an aggregation may take.

use std::cell::Cell;
use std::fmt;

use crate::SearchError;

/// Says when the time is over, and what happens then.
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
    /// The steps behind the end of the time go on until `is_late` says that they took too long.
    pub fn until(is_late: &'p dyn Fn() -> bool) -> Parts<'p> {
        Parts {
            is_late,
            was_over: Cell::new(false),
        }
    }

    /// Returns true if the time was over before everything was done.
    pub fn was_over(&self) -> bool {
        self.was_over.get()
    }
}

impl<'t> Time<'t> {
    /// Answers an error when the time is over. `is_over` is asked from time to time.
    pub fn until(is_over: &'t dyn Fn() -> bool) -> Time<'t> {
        Time { is_over, parts: None }
    }

    /// The answer is what was found until then, and what can be done with that until it is late.
    pub fn for_parts(is_over: &'t dyn Fn() -> bool, parts: &'t Parts<'t>) -> Time<'t> {
        let parts = Some(parts);
        Time { is_over, parts }
    }

    /// Returns true if the caller has to go on with what it has.
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

    /// The question whether the time is over, for what has no parts.
    pub fn question(&self) -> &'t dyn Fn() -> bool {
        self.is_over
    }

    /// Returns `found`, or nothing of it if it was not found in time and parts are an answer.
    pub fn found<T: Default>(&self, found: Result<T, SearchError>) -> Result<T, SearchError> {
        match (found, self.parts) {
            (Err(SearchError::Timeout), Some(parts)) => {
                parts.was_over.set(true);
                Ok(T::default())
            }
            (found, _) => found,
        }
    }
}

impl fmt::Debug for Time<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Time {{ gives_parts: {} }}", self.parts.is_some())
    }
}
