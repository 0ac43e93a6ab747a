//! The watcher of a copy: shows how far it is, keeps refused records, and may end it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Something that the target does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub db: u64,
    /// The key, or the command with its first words.
    pub what: String,
    pub reason: String,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "database {}, {}: {}", self.db, self.what, self.reason)
    }
}

/// The state of the copy of a live server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is no connection.
    Apart,
    FirstCopy,
    /// The stream of commands arrives, as far as this position.
    Following(u64),
}

pub trait Watcher {
    /// Receives each stage of a live server's copy, and the arrivals.
    fn stage(&mut self, _: Stage) {}

    /// Set to end the copy; waits for the source poll it.
    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Starts a stage; `bytes_max` is the number of bytes to read, if it is known.
    fn phase(&mut self, text: &str, bytes_max: Option<u64>);

    /// Reports the keys or commands at the target, and the bytes of the source read.
    fn progress(&mut self, done: u64, bytes: u64);

    fn rejected(&mut self, rejected: Rejected);

    /// Something worth a line.
    fn note(&mut self, text: &str);

    /// Returns true if the copy shall end as soon as the transactions in flight are complete.
    fn is_stopped(&self) -> bool;

    /// Returns true if the source shall be cut over now. Called while a copy follows.
    fn wants_cut_over(&mut self) -> bool;
}

/// A name or a value as a line shows it.
pub fn shown(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 100;
    let shortened = &bytes[..bytes.len().min(BYTES_MAX)];
    let dots = if bytes.len() > BYTES_MAX { "..." } else { "" };
    format!("\"{}\"{dots}", shortened.escape_ascii())
}
