//! The watcher of a copy: shows how far it is, keeps refused records, and may end it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Something that the target does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub db: u64,
    /// The key, or the command and what it begins with.
    pub what: String,
    pub reason: String,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "database {}, {}: {}", self.db, self.what, self.reason)
    }
}

/// How a copy of a live server stands with it.
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

    /// Set when the copy is to end; whoever waits for the source looks at it meanwhile.
    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Begins a stage; `bytes_max` is how much there is to read, if that is known.
    fn phase(&mut self, text: &str, bytes_max: Option<u64>);

    /// Reports the keys or commands at the target, and the bytes of the source read.
    fn progress(&mut self, done: u64, bytes: u64);

    fn rejected(&mut self, rejected: Rejected);

    /// Something worth a line.
    fn note(&mut self, text: &str);

    /// The copy is to end as soon as what is under way is whole.
    fn is_stopped(&self) -> bool;

    /// The source is to be cut over now. Asked while a copy follows.
    fn wants_cut_over(&mut self) -> bool;
}

/// A name or a value as a line shows it.
pub fn shown(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 100;
    let shortened = &bytes[..bytes.len().min(BYTES_MAX)];
    let dots = if bytes.len() > BYTES_MAX { "..." } else { "" };
    format!("\"{}\"{dots}", shortened.escape_ascii())
}
