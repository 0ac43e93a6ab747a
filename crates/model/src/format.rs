//! The format of everything that this program keeps or sends to other nodes of a cluster: rows of
//! the layers, records, segments of the log, checkpoints, trees, copies, backups, and the requests
//! between nodes. One number covers them all, because a change of the rows changes the meaning of
//! the others.
//!
//! A program reads its newest format and the one before it. It writes the newest, unless it is a
//! node of a cluster that has agreed on the one before: then a node with the previous program can
//! still read everything (`docs/cluster-operations.md`, rolling upgrade). A process is one node, so
//! the written format belongs to the process.

use std::sync::atomic::{AtomicU32, Ordering};

/// The newest format of a released program.
const NEWEST: u32 = 1;

static NEWEST_READ: AtomicU32 = AtomicU32::new(NEWEST);
/// Zero: the newest.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Returns the newest format that this program reads and is able to write.
pub fn newest() -> u32 {
    NEWEST_READ.load(Ordering::Relaxed)
}

/// Returns the oldest format that a node of a cluster may still write: the one before the newest.
pub fn oldest() -> u32 {
    newest().saturating_sub(1).max(1)
}

/// Returns true if this program reads the format. Files of all earlier formats are read.
pub fn is_read(format: u32) -> bool {
    (1..=newest()).contains(&format)
}

/// Returns the format that this process writes.
pub fn written() -> u32 {
    match WRITTEN.load(Ordering::Relaxed) {
        0 => newest(),
        format => format,
    }
}

/// Sets the format that this process writes, as its cluster has agreed on it, from
/// [`oldest`] to [`newest`].
pub fn write(format: u32) {
    assert!((oldest()..=newest()).contains(&format), "format {format} is written");
    WRITTEN.store(format, Ordering::Relaxed);
}

/// Makes this process one of a program with formats that are one higher. Only the program of the
/// test of rolling upgrades calls it, before anything else.
pub fn be_the_next_program() {
    NEWEST_READ.store(NEWEST + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_program_reads_its_formats_and_writes_the_newest() {
        assert_eq!((oldest(), newest(), written()), (1, NEWEST, NEWEST));
        assert!(is_read(1) && is_read(NEWEST) && !is_read(0) && !is_read(NEWEST + 1));
        write(NEWEST);
        assert_eq!(written(), NEWEST);
    }
}
