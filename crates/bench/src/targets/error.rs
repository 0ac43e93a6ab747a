//! The errors of an operation that a server did not do.

/// The reason why an operation failed. Deterministic only as far as the server is.
#[derive(Debug)]
pub enum OperationError {
    /// The server answered, but with an error or something unexpected. The connection remains
    /// usable.
    Refused(String),
    /// The connection is unusable; the operation may have happened.
    Lost(String),
}

impl std::fmt::Display for OperationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OperationError::Refused(reason) => write!(f, "the server refused: {reason}"),
            OperationError::Lost(reason) => write!(f, "the connection was lost: {reason}"),
        }
    }
}

impl std::error::Error for OperationError {}
