//! Whether what a transaction wants to commit is sure to fit on the disk.
//!
//! A transaction executes in memory before its effects are in the log. So it is admitted only if
//! the log has room reserved for its effects and for all others in flight (`quartet_log::LogRoom`):
//! the epoch in flight always fits, and a disk that fills up refuses new writes instead of stopping
//! the server. A refused transaction is rolled back under the lock; no reader has seen it.
//!
//! Transactions that make the database smaller may use the last of the room, `kept_bytes`, which
//! others may not: without room to delete in, a full disk would stay full. A large database needs
//! more to delete in than is worth reserving in files. There others are refused, `leaves_free`,
//! while the disk has less free space than deleting everything may write.
//!
//! Invariant: `taken_bytes`, and what is gathering, never exceed the room that the reserve has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use quartet_log::{LogRoom, record_bytes};

pub(crate) struct Room {
    reserve: Arc<dyn LogRoom>,
    /// Bytes of records that are closed and not yet appended.
    taken_bytes: AtomicU64,
    /// Held while a record goes from `taken_bytes` into the log, so that it is counted once.
    appending: Mutex<()>,
    /// Only for transactions that make the database smaller.
    kept_bytes: u64,
    /// Bytes of the last upkeep that did not fit; zero after one that did.
    postponed_bytes: AtomicU64,
    /// The disk's free space is for transactions that make the database smaller.
    leaves_free: AtomicBool,
    /// Something was refused that would have fitted with the next segment in place.
    has_refused: AtomicBool,
    /// Commits are refused, for another reason than the disk.
    is_refused: AtomicBool,
    /// The disk was full although the room was reserved: no more room is promised until an append
    /// to the log succeeds.
    is_stuck: AtomicBool,
}

impl Room {
    pub fn new(reserve: Arc<dyn LogRoom>, kept_bytes: u64) -> Room {
        Room {
            reserve,
            taken_bytes: AtomicU64::new(0),
            appending: Mutex::new(()),
            kept_bytes,
            postponed_bytes: AtomicU64::new(0),
            leaves_free: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Returns true if an epoch that has grown to `payload_bytes` is sure to fit. Called with the
    /// partition's lock held.
    #[inline]
    pub fn admits(&self, payload_bytes: usize, makes_smaller: bool) -> bool {
        if !makes_smaller && self.leaves_free() {
            return false;
        }
        let bytes = self.wanted(payload_bytes, makes_smaller);
        bytes <= self.reserve.room() && !self.is_stuck.load(Ordering::Relaxed)
            || self.make(payload_bytes, makes_smaller)
    }

    fn wanted(&self, payload_bytes: usize, makes_smaller: bool) -> u64 {
        let reserve = if makes_smaller { 0 } else { self.kept_bytes };
        self.taken_bytes.load(Ordering::Acquire) + record_bytes(payload_bytes) + reserve
    }

    #[cold]
    fn make(&self, payload_bytes: usize, makes_smaller: bool) -> bool {
        let appending = self.appending.lock();
        let bytes = self.wanted(payload_bytes, makes_smaller);
        if self.is_stuck.load(Ordering::Relaxed) {
            return false;
        }
        let has_room = bytes <= self.reserve.room();
        drop(appending);
        let has_room = has_room || self.reserve.extend(bytes).is_ok();
        if !has_room && !self.reserve.is_prepared() {
            self.has_refused.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// An epoch was closed; it takes its room until it has been appended. Called with the
    /// partition's lock held.
    pub fn take(&self, payload_bytes: usize) {
        if payload_bytes > 0 {
            self.taken_bytes
                .fetch_add(record_bytes(payload_bytes), Ordering::Relaxed);
        }
    }

    /// Returns the bytes of records that are closed and not yet appended.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// To be held while an epoch is appended, and dropped after `appended`.
    pub fn appending(&self) -> MutexGuard<'_, ()> {
        self.appending.lock()
    }

    pub fn appended(&self, payload_bytes: usize) {
        // A thread that no longer sees the record counted sees the log's room without it.
        self.taken_bytes
            .fetch_sub(record_bytes(payload_bytes), Ordering::Release);
        self.is_stuck.store(false, Ordering::Relaxed);
    }

    /// Releases the room of closed epochs, which are not appended.
    pub fn forget_taken(&self) {
        self.taken_bytes.store(0, Ordering::Release);
    }

    /// Refuses every commit, or only those without room on the disk. Returns true if that is a
    /// change.
    pub fn refuse(&self, refuses: bool) -> bool {
        self.is_stuck.store(refuses, Ordering::Relaxed);
        self.is_refused.swap(refuses, Ordering::Relaxed) != refuses
    }

    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    pub fn set_stuck(&self) {
        self.is_stuck.store(true, Ordering::Relaxed);
    }

    /// Returns the bytes that the log may still take: the reserved room, and the disk's
    /// `available_bytes`.
    pub fn left_bytes(&self, available_bytes: u64) -> u64 {
        available_bytes.saturating_add(self.reserve.room())
    }

    /// Leaves the disk's free space to deletions if less is left than they may write.
    pub fn leave_free_for_deletions(&self, left_bytes: u64, needed_bytes: u64) {
        let leaves_free = needed_bytes > self.kept_bytes && left_bytes < needed_bytes;
        self.leaves_free.store(leaves_free, Ordering::Relaxed);
    }

    pub fn leaves_free(&self) -> bool {
        self.leaves_free.load(Ordering::Relaxed)
    }

    /// Returns true if writes that make the database larger are refused.
    pub fn is_short(&self) -> bool {
        self.leaves_free() || self.has_failed() || self.wanted(0, false) > self.reserve.room()
    }

    /// Returns true if upkeep of the size that did not fit last would fit now. Computing its writes
    /// may take a hundred times as long as the transaction that it belongs to.
    pub fn admits_upkeep(&self, payload_bytes: usize) -> bool {
        let postponed = self.postponed_bytes.load(Ordering::Relaxed) as usize;
        !self.is_short() && (postponed == 0 || self.admits(payload_bytes + postponed, false))
    }

    /// Records whether upkeep of this size did fit.
    pub fn note_upkeep(&self, bytes: usize, has_fitted: bool) {
        let postponed = if has_fitted { 0 } else { bytes as u64 };
        self.postponed_bytes.store(postponed, Ordering::Relaxed);
    }

    /// Returns true if the disk had no room for something. A next segment that is only not ready
    /// yet is no such failure.
    pub fn has_failed(&self) -> bool {
        if self.reserve.is_prepared() {
            self.has_refused.store(false, Ordering::Relaxed);
        }
        self.is_stuck() && !self.is_refused() || self.has_refused.load(Ordering::Relaxed)
    }

    pub fn is_prepared(&self) -> bool {
        self.reserve.is_prepared()
    }

    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    pub fn reserve(&self) -> Arc<dyn LogRoom> {
        self.reserve.clone()
    }
}
