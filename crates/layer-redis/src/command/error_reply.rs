//! The refusal of a command: the text of its error reply, and what becomes of its effects.

use std::borrow::Cow;

/// An error reply. Unless it keeps them, nothing of the command's effects stays.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// The code first: `ERR syntax error`.
    pub text: Cow<'static, str>,
    /// Effects from before the error stay, as after an error of a script.
    pub keeps_effects: bool,
    /// INFO's error counters include it already.
    pub is_counted: bool,
    /// A command that waits for a key gets it, even if it says that a key is of the wrong kind.
    pub ends_wait: bool,
}

impl ErrorReply {
    pub const fn new(text: &'static str) -> ErrorReply {
        ErrorReply {
            text: Cow::Borrowed(text),
            keeps_effects: false,
            is_counted: false,
            ends_wait: false,
        }
    }

    /// The same error, which a command that waits does not wait out.
    pub fn ending_wait(self) -> ErrorReply {
        ErrorReply {
            ends_wait: true,
            ..self
        }
    }

    /// The same error, after which the command's effects stay.
    pub fn keeping_effects(self) -> ErrorReply {
        ErrorReply {
            keeps_effects: true,
            ..self
        }
    }
}

impl From<&'static str> for ErrorReply {
    fn from(text: &'static str) -> ErrorReply {
        ErrorReply::new(text)
    }
}

impl From<String> for ErrorReply {
    fn from(text: String) -> ErrorReply {
        ErrorReply {
            text: Cow::Owned(text),
            ..ErrorReply::new("")
        }
    }
}
