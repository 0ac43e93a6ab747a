//! Why a copy ends before its end.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the source: {0}")]
    Source(String),
    #[error("the target: {0}")]
    Target(String),
    /// No server accepts connections at the address: nothing was requested.
    #[error("{url} cannot be reached: {what}")]
    Unreachable { url: String, what: String },
    #[error("certificates to trust: {0}")]
    Roots(String),
    /// The target holds what the copy would mix with.
    #[error("{0}")]
    NotEmpty(String),
    /// The place where it is written down how far the copy is.
    #[error("the journal {path}: {what}")]
    Journal { path: String, what: String },
    #[error(
        "more than {0} records were rejected: mend them, or raise --rejected-max; the same command goes on from here"
    )]
    TooManyRejected(u64),
    #[error("stopped; the same command goes on from here")]
    Stopped,
    #[error("stopped: what was written is no export; the same command begins anew")]
    ExportStopped,
}

pub type Result<T> = std::result::Result<T, Error>;

pub fn source(error: impl std::fmt::Display) -> Error {
    Error::Source(error.to_string())
}

pub fn target(error: impl std::fmt::Display) -> Error {
    Error::Target(error.to_string())
}
