//! Whether a connection has its I/O thread to itself.
//!
//! A connection that has the thread to itself may block it, and gains nothing from waiting for
//! others. Idle connections do not count: only recent turns do.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Consecutive turns after which a connection counts as the only one. A few requests' worth: a
/// returning peer is noticed at once.
const TURNS_ALONE: u32 = 64;

/// The turns of one I/O thread. Only that thread writes; the atomics are for the compiler.
#[derive(Clone, Default)]
pub struct ThreadTurns(Arc<Turns>);

#[derive(Default)]
struct Turns {
    joined: AtomicU64,
    latest: AtomicU64,
    in_a_row: AtomicU32,
}

impl ThreadTurns {
    /// Wraps `serving` as another connection: each poll is a turn.
    pub fn with<F: Future>(&self, serving: F) -> impl Future<Output = F::Output> + use<F> {
        let turns = self.0.clone();
        let connection = turns.joined.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            let mut serving = pin!(serving);
            poll_fn(|context| {
                turns.note(connection);
                serving.as_mut().poll(context)
            })
            .await
        }
    }

    /// Returns true if only the current connection had recent turns.
    pub fn is_alone(&self) -> bool {
        self.0.in_a_row.load(Ordering::Relaxed) >= TURNS_ALONE
    }
}

impl Turns {
    fn note(&self, connection: u64) {
        let is_same = self.latest.load(Ordering::Relaxed) == connection;
        self.latest.store(connection, Ordering::Relaxed);
        let before = self.in_a_row.load(Ordering::Relaxed);
        let in_a_row = if is_same { before.saturating_add(1) } else { 0 };
        self.in_a_row.store(in_a_row, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[test]
    fn a_connection_with_all_recent_turns_is_the_only_active_one() {
        let thread_turns = ThreadTurns::default();
        let mut single = pin!(thread_turns.with(std::future::pending::<()>()));
        let mut other = pin!(thread_turns.with(std::future::pending::<()>()));
        let context = &mut Context::from_waker(Waker::noop());
        for _ in 0..TURNS_ALONE {
            assert!(!thread_turns.is_alone());
            let _ = single.as_mut().poll(context);
        }
        let _ = single.as_mut().poll(context);
        assert!(thread_turns.is_alone());
        let _ = other.as_mut().poll(context);
        assert!(!thread_turns.is_alone());
    }
}
