//! One connection at a time for each session of a client.
//!
//! A client that has lost its connection does not know the outcome of its pending commits. It names
//! its session when it reconnects, and is admitted after the end of the previous connection: by
//! then all received requests are decided, and all unread ones are void.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// A client's name for its session; zero if it has none. Names are unguessable.
pub type SessionName = [u8; 16];

/// The open connections, by session.
#[derive(Default)]
pub struct Takeovers {
    seats: Mutex<HashMap<SessionName, Vec<Arc<Slot>>>>,
}

struct Slot {
    asked_to_leave: Notify,
    left: watch::Sender<bool>,
}

/// A connection's place in its session, until it is dropped.
pub struct SlotGuard {
    takeovers: Arc<Takeovers>,
    name: SessionName,
    seat: Arc<Slot>,
}

impl Takeovers {
    /// Takes the place of the session's other connections, once all of them have left.
    pub async fn sit(self: &Arc<Takeovers>, name: SessionName) -> SlotGuard {
        let seated = SlotGuard {
            takeovers: self.clone(),
            name,
            seat: Arc::new(Slot {
                asked_to_leave: Notify::new(),
                left: watch::Sender::new(false),
            }),
        };
        if name == SessionName::default() {
            return seated;
        }
        let occupants = {
            let mut seats = self.seats.lock();
            let seats = seats.entry(name).or_default();
            let occupants = seats.clone();
            seats.push(seated.seat.clone());
            occupants
        };
        for other in occupants {
            other.asked_to_leave.notify_one();
            // The sender is there as long as `other` is.
            let _ = other.left.subscribe().wait_for(|has_left| *has_left).await;
        }
        seated
    }
}

impl SlotGuard {
    /// Completes when another connection wants the place.
    pub async fn asked_to_leave(&self) {
        self.seat.asked_to_leave.notified().await;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut seats = self.takeovers.seats.lock();
        if let Some(occupants) = seats.get_mut(&self.name) {
            occupants.retain(|other| !Arc::ptr_eq(other, &self.seat));
            if occupants.is_empty() {
                seats.remove(&self.name);
            }
        }
        drop(seats);
        self.seat.left.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        tokio::select! {
            biased;
            _ = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_session_waits_until_its_other_connections_have_left() {
        let takeovers = Arc::new(Takeovers::default());
        let name = [1; 16];
        let first = takeovers.sit(name).await;
        let mut second = Box::pin(takeovers.sit(name));
        assert!(!is_ready(&mut second).await);
        first.asked_to_leave().await;
        let mut third = Box::pin(takeovers.sit(name));
        assert!(!is_ready(&mut third).await);
        // A waiter that gives up does not admit the next in the queue.
        drop(second);
        assert!(!is_ready(&mut third).await);
        drop(first);
        drop(third.await);
        assert!(takeovers.seats.lock().is_empty());
    }

    #[tokio::test]
    async fn other_sessions_and_none_at_all_are_not_concerned() {
        let takeovers = Arc::new(Takeovers::default());
        let _kept = [
            takeovers.sit([1; 16]).await,
            takeovers.sit([2; 16]).await,
            takeovers.sit([0; 16]).await,
            takeovers.sit([0; 16]).await,
        ];
    }
}
