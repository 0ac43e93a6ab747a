//! Work that is left when the lock has been released, for the connection's owner.

use crate::execution::long_run::LongRun;
use crate::handler::outcome::Deferred;

/// Work after a request.
pub enum After {
    /// The command's own remaining work.
    Deferred(Deferred),
    /// Sleep for this many microseconds before the reply is sent.
    Sleep { micros: u64 },
    /// Run what takes long, on a thread where it may, and hand it to
    /// [`Session::take_back`](crate::Session::take_back).
    LongRun(Box<LongRun>),
}

impl std::fmt::Debug for After {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            After::Deferred(deferred) => write!(formatter, "Deferred({deferred:?})"),
            After::Sleep { micros } => write!(formatter, "Sleep({micros})"),
            After::LongRun(_) => formatter.write_str("LongRun"),
        }
    }
}
