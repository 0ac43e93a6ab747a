//! One finding in a file.

use std::path::{Path, PathBuf};

/// A line of a file, and the finding there.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    pub finding: String,
}

impl Place {
    /// `FILE:LINE: FINDING`, with the file's path below `root`.
    pub fn describe(&self, root: &Path) -> String {
        let file = self.file.strip_prefix(root).unwrap_or(&self.file);
        format!("{}:{}: {}", file.display(), self.line, self.finding)
    }
}
