//! Why a copy ends before its end.

use std::io;

use quartet_wire_rdb::file::Unreadable;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the source broke: the copy may continue over a new one.
    #[error("the source: {0}")]
    Link(String),
    /// The source does not give what is needed. Trying again does not help.
    #[error("the source: {0}")]
    Source(String),
    /// The source's bytes, or the file's, are not understood.
    #[error("{name}: {unreadable}")]
    Unreadable { name: String, unreadable: Unreadable },
    #[error("{name}: {error}")]
    File { name: String, error: io::Error },
    /// The target is unreachable, or accepts no requests.
    #[error("the target: {0}")]
    Target(String),
    /// The target holds what the copy would mix with.
    #[error("{0}")]
    NotEmpty(String),
    /// The watcher has requested it.
    #[error("stopped; the same command continues from here")]
    Stopped,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn file(name: &std::path::Path, error: io::Error) -> Error {
        Error::File {
            name: name.display().to_string(),
            error,
        }
    }
}
