//! Decides whether a request that makes the data larger may start now.
//!
//! With the memory engine the only limit is memory: rows stay in memory, so a request without room
//! is refused. The ssd engine writes unflushed changes to its files, which frees their memory. So
//! no request is refused because of unflushed changes: it waits.
//!
//! ```text
//!   unflushed   what is not in the store's files, in memory      <= limit, and one request more
//!   waiting     epochs that the log has not taken                <= two epochs, or half of one while the flusher takes none
//! ```
//!
//! Over a log that nodes share, requests wait with either engine while the log has not taken what
//! was written before.
//!
//! A waiting request holds no resources, neither a thread nor a lock: it returns
//! [`Admission::Later`], and is retried once the listeners of
//! [`Engine::on_free`](crate::Engine::on_free) are called, or a little later. The wait ends through
//! the flusher only, which takes the log's epochs and finishes flushes without the waiting writers.
//! If it admits no request for a minute, because the disk does not answer, writers are refused
//! until it does. [`crate::durability::backlog`] slows writers down long before they are stopped
//! here.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::durability::pressure::{is_over, lasted};
use crate::engine::Engine;
use crate::partition::shared::Shared;

/// The decision about a request that makes the data larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Now,
    /// Retry soon: earlier writes are on their way to the disk. No part of the request may be
    /// executed.
    Later,
    /// There is no room, and waiting would give none.
    Refused,
}

/// Largest age of a measurement of memory, the allocator's giving back included. A shortage that no
/// flush would cure is waited for as long.
const SHORT_MICROS_MAX: u64 = 2_000_000;

/// The longest wait of writers while admission is closed.
const BEHIND_MICROS_MAX: u64 = 60_000_000;
/// The longest wait of a thread, and the interval of its checks.
const WAIT_MAX: Duration = Duration::from_micros(BEHIND_MICROS_MAX);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Shared {
    /// Requests wait while the log has not taken what was written before, unless the home cannot
    /// show that it is one: then they are refused.
    fn admission_to_shared_log(&self) -> Admission {
        if self.room.is_refused() || !self.gathers_too_much() {
            return Admission::Now;
        }
        self.pressure.is_waited_for.store(true, Ordering::Relaxed);
        Admission::Later
    }

    fn admission_on_disk(&self) -> Admission {
        let (pressure, statistics) = (&self.pressure, &self.statistics);
        let now = || self.clock.now_micros();
        let waits = |waits: bool| if waits { Admission::Later } else { Admission::Refused };
        if self.gathers_too_much() {
            let has_failed = statistics.checkpoint_failed.load(Ordering::Relaxed);
            return waits(!has_failed && lasted(&pressure.behind_since_micros, now()) < BEHIND_MICROS_MAX);
        }
        is_over(&pressure.behind_since_micros);
        if !self.memory.is_short() {
            is_over(&pressure.short_since_micros);
            return Admission::Now;
        }
        if pressure.wants_flush(pressure.unflushed_bytes()) || statistics.checkpoint_running.load(Ordering::Relaxed) {
            return Admission::Later;
        }
        waits(lasted(&pressure.short_since_micros, now()) < SHORT_MICROS_MAX)
    }
}

impl Engine {
    /// Returns whether a request that makes the data larger may start. Costs a few loads; takes no
    /// lock.
    #[inline]
    pub fn admission(&self) -> Admission {
        let shared = self.shared();
        if shared.is_all_in_memory {
            return match (shared.memory.is_short(), &shared.standing) {
                (true, _) => Admission::Refused,
                (false, None) => Admission::Now,
                (false, Some(_)) => shared.admission_to_shared_log(),
            };
        }
        let admission = shared.admission_on_disk();
        if admission == Admission::Later {
            shared.pressure.is_waited_for.store(true, Ordering::Relaxed);
        }
        admission
    }

    /// Blocks the calling thread until a request that makes the data larger may start, for at most
    /// a minute, or until the server stops: then it returns [`Admission::Later`]. For threads that
    /// may block; others poll [`Engine::admission`].
    pub fn wait_for_room(&self) -> Admission {
        let runtime = &self.shared().runtime;
        let until = runtime.now() + WAIT_MAX;
        loop {
            let admission = self.admission();
            if admission != Admission::Later || runtime.now() >= until || self.shared().pressure.is_ending() {
                return admission;
            }
            runtime.pause(LOOK_AGAIN);
        }
    }

    /// Writers wait until what has gathered is on its way to the disk.
    pub fn is_behind(&self) -> bool {
        self.admission() == Admission::Later
    }

    /// Prepares for [`Engine::close`]: writes the pending epochs to the log however large the
    /// store's backlog is, so that no commit waits for a flush to become durable, and ends
    /// [`Engine::wait_for_room`]. Other waiters are woken, and check whether the server stops.
    pub fn end_waiting(&self) {
        let shared = self.shared();
        shared.pressure.is_ending.store(true, Ordering::Relaxed);
        shared.partition.announcement.call_listeners();
        shared.flusher.wake();
    }

    /// A flush is due or runs, because much has gathered: what is held of states beside the newest
    /// should be little. Never with the memory engine.
    pub fn gathers_much(&self) -> bool {
        let shared = self.shared();
        !shared.is_all_in_memory && shared.pressure.wants_flush(shared.pressure.unflushed_bytes())
    }

    /// Memory that what is not in the ssd engine's files takes, in bytes.
    pub fn unflushed_bytes(&self) -> u64 {
        self.shared().pressure.unflushed_bytes()
    }

    /// The most such bytes that may gather.
    pub fn unflushed_bytes_max(&self) -> u64 {
        self.shared().pressure.limit_bytes()
    }
}
