//! Why a store cannot be read or written.

use std::io;
use std::sync::Arc;

/// The disk did not return what was read, or did not take what was written. Nothing was changed.
/// Cheap to clone: one failure may be reported to many.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(Arc<Failure>);

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        file: String,
        offset: u64,
        what: &'static str,
    },
}

impl StoreError {
    pub(crate) fn io(file: impl Into<String>, source: io::Error) -> StoreError {
        StoreError(Arc::new(Failure::Io {
            file: file.into(),
            source,
        }))
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, what: &'static str) -> StoreError {
        StoreError(Arc::new(Failure::Damaged {
            file: file.into(),
            offset,
            what,
        }))
    }

    /// Returns true if the bytes on disk differ from the written ones. Otherwise the disk failed,
    /// and a retry may help.
    pub fn is_damage(&self) -> bool {
        matches!(*self.0, Failure::Damaged { .. })
    }
}
