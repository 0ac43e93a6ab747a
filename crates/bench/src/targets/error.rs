//! The errors of an operation that a server did not do.

/// Why an operation did not do what was asked. Deterministic only as far as the server is.
#[derive(Debug)]
pub enum OperationError {
    /// The server answered, but with an error or something unexpected. The connection can go on.
    Refused(String),
    /// The connection cannot be used any more; the operation may have happened.
    Lost(String),
}

impl std::fmt::Display for OperationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OperationError::Refused(what) => write!(f, "the server refused: {what}"),
            OperationError::Lost(what) => write!(f, "the connection was lost: {what}"),
        }
    }
}

impl std::error::Error for OperationError {}
