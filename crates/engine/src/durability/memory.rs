//! How much memory the process may take, what takes it, and whether there is room for more.
//!
//! ```text
//!   counted   rows       the store counts them: the tree's, those that only a snapshot holds, those about to be freed
//!           + reserved   whoever keeps bytes of peers says so ([`Reserved`]): buffers of requests, mailboxes, queues
//!   resident             what the system says the process has: measured now and then, by the server
//!   retained             what was counted and is no more, and the allocator keeps for what comes next: resident memory has not
//!                        become less by it
//!   uncounted            resident - counted - retained at that moment: the program, its stacks, epochs on their way to the log,
//!                        interpreters, what else the allocator keeps
//!   epochs               what is on its way to the log. It is uncounted, and what it leaves behind is retained like freed rows:
//!                        while the log lags it makes the process larger, which shows nothing about what is retained
//!   budget               what all of it may take
//! ```
//!
//! Counting costs nothing and is exact immediately; measuring is true and late. So requests are
//! admitted while counted memory is below both the budget and the limit that the newest measurement
//! leaves of the budget plus an eighth. The kernel acts on resident memory, and the eighth is the
//! tolerated difference between it and the figures.
//!
//! Every layer checks before it executes a request that may make its data larger. Reads and
//! deletions skip the check. Layers that may choose keys to lose evict instead of refusing
//! ([`Memory::evicts_above`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The memory of one process. All its engines share the count of rows.
#[derive(Debug)]
pub struct Memory {
    /// The process' limit in bytes; `u64::MAX` without a limit.
    budget: AtomicU64,
    /// Limit of counted bytes, from the newest measurement.
    ceiling: AtomicU64,
    /// The same without the budget itself: the limit that the kernel's own leaves. `ceiling <=
    /// last_resort`.
    last_resort: AtomicU64,
    reserved: AtomicU64,
    /// Bytes of epochs on their way to the log, and the most of them since the last measurement.
    epoch_bytes: AtomicU64,
    epoch_bytes_peak: AtomicU64,
    retained: Mutex<Retained>,
    /// Up to here reserving never fails.
    granted: AtomicU64,
    /// A checkpoint was abandoned because of the memory that it held: evictions leave room for the
    /// next one.
    leaves_room_for_checkpoint: AtomicBool,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            budget: AtomicU64::new(u64::MAX),
            ceiling: AtomicU64::new(u64::MAX),
            last_resort: AtomicU64::new(u64::MAX),
            reserved: AtomicU64::new(0),
            epoch_bytes: AtomicU64::new(0),
            epoch_bytes_peak: AtomicU64::new(0),
            retained: Mutex::default(),
            granted: AtomicU64::new(0),
            leaves_room_for_checkpoint: AtomicBool::new(false),
        }
    }
}

impl Memory {
    /// Sets the process' limit; `None` means the machine's memory. Measure next.
    pub fn set_budget(&self, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or(u64::MAX);
        self.budget.store(bytes, Ordering::Relaxed);
        self.ceiling.store(bytes, Ordering::Relaxed);
        self.last_resort.store(with_an_eighth(bytes), Ordering::Relaxed);
    }

    /// Returns the process' limit in bytes, or `None` without a limit.
    pub fn budget(&self) -> Option<u64> {
        Some(self.budget.load(Ordering::Relaxed)).filter(|&bytes| bytes != u64::MAX)
    }

    /// Grants peers' bytes this amount in any case, even if the rows use up the budget: where rows
    /// are flushed, the two would otherwise wait for each other.
    pub fn grant_reserved(&self, bytes: u64) {
        self.granted.store(bytes, Ordering::Relaxed);
    }

    /// Records the resident memory that the system reports. Called many times a second.
    pub fn measured(&self, resident_bytes: u64) {
        let budget = self.budget.load(Ordering::Relaxed);
        if budget == u64::MAX {
            return;
        }
        let counted = self.counted_bytes();
        let epoch_bytes = self.epoch_bytes.load(Ordering::Relaxed);
        let epoch_bytes = epoch_bytes.max(self.epoch_bytes_peak.swap(epoch_bytes, Ordering::Relaxed));
        let for_epochs = epoch_bytes.saturating_mul(EPOCH_FACTOR);
        let retained = self.retained.lock().measured(counted, for_epochs, resident_bytes);
        let uncounted = resident_bytes.saturating_sub(counted.saturating_add(retained));
        let last_resort = with_an_eighth(budget).saturating_sub(uncounted);
        self.last_resort.store(last_resort, Ordering::Relaxed);
        self.ceiling.store(last_resort.min(budget), Ordering::Relaxed);
    }

    /// Records that the epochs of one engine have grown or shrunk from `before` to `now` bytes.
    pub(crate) fn epochs_changed(&self, before: u64, now: u64) {
        let other_bytes = self
            .epoch_bytes
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed)
            .wrapping_sub(before);
        self.epoch_bytes_peak
            .fetch_max(other_bytes.wrapping_add(now), Ordering::Relaxed);
    }

    /// Rows and what is reserved.
    pub fn counted_bytes(&self) -> u64 {
        quartet_store::all_rows_bytes() + self.reserved.load(Ordering::Relaxed)
    }

    /// Counts `bytes` more, until they are released. [`Reserved`] does the accounting for one
    /// owner; this method is for callers that do it for many.
    pub fn reserve(&self, bytes: u64) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` more if there is room for them. Two callers at once never get the same room.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let rows = quartet_store::all_rows_bytes();
        let granted = self.granted.load(Ordering::Relaxed);
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        let fits = |reserved: u64| {
            let reserved = reserved.saturating_add(bytes);
            let has_room = bytes == 0 || reserved <= granted || rows.saturating_add(reserved) <= ceiling;
            has_room.then_some(reserved)
        };
        let reserved = &self.reserved;
        reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    /// Counts `bytes` less, which [`Memory::reserve`] had counted.
    pub fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes reserved at present.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may still be counted.
    pub fn room(&self) -> u64 {
        self.ceiling
            .load(Ordering::Relaxed)
            .saturating_sub(self.counted_bytes())
    }

    /// Returns true if requests that make the data larger are refused.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.counted_bytes() > self.ceiling.load(Ordering::Relaxed)
    }

    /// The same for evictions, which continue until usage approaches the kernel's limit, since a
    /// checkpoint may hold the evicted rows for a while.
    #[inline]
    pub fn is_nearly_gone(&self) -> bool {
        self.counted_bytes() > self.last_resort.load(Ordering::Relaxed)
    }

    /// Returns the bytes above which a layer that evicts should do so, so that it need not refuse:
    /// the sum of live rows and reserved bytes. Never less than half of the budget, because
    /// evicting does not cure an allocator that keeps freed memory.
    pub fn evicts_above(&self) -> u64 {
        let budget = self.budget.load(Ordering::Relaxed);
        if self.leaves_room_for_checkpoint.load(Ordering::Relaxed) {
            return budget / 2;
        }
        let last_resort = self.last_resort.load(Ordering::Relaxed);
        last_resort.saturating_sub(budget / 16).clamp(budget / 2, budget)
    }

    /// Sets whether layers that evict leave enough room for a checkpoint to hold every row.
    pub(crate) fn leave_room_for_checkpoint(&self, leaves: bool) {
        self.leaves_room_for_checkpoint.store(leaves, Ordering::Relaxed);
    }
}

/// Memory that was in use and that the allocator keeps for later.
#[derive(Debug, Default)]
struct Retained {
    bytes: u64,
    /// Resident bytes to which `bytes` refers. A process above it has grown although some was
    /// retained.
    reference: u64,
    /// Counted bytes and epochs at the last measurement.
    counted: u64,
    epochs: u64,
}

impl Retained {
    /// Returns the bytes that can be used again. They shrink by bytes given back to the system and
    /// by bytes used again. A process that grows for anything but its epochs shows that not all of
    /// them can be used, for as long as it remains larger: checkpoints and requests need memory for
    /// a moment.
    fn measured(&mut self, counted: u64, epochs: u64, resident: u64) -> u64 {
        let before = self.counted.saturating_add(self.epochs);
        let now = counted.saturating_add(epochs);
        let given_back = self.reference.saturating_sub(resident);
        let grown = resident.saturating_sub(self.reference);
        let for_epochs = grown.min(epochs.saturating_sub(self.epochs));
        self.reference = self.reference.min(resident) + for_epochs;
        let bytes = self.bytes.saturating_add(before).saturating_add(for_epochs);
        self.bytes = bytes.saturating_sub(now.saturating_add(given_back));
        (self.counted, self.epochs) = (counted, epochs);
        let unusable = (grown - for_epochs).saturating_mul(UNUSABLE_FACTOR);
        let usable = self.bytes.saturating_sub(unusable);
        if usable == 0 {
            (self.bytes, self.reference) = (0, resident);
        }
        usable
    }
}

/// Resident bytes of each byte of an epoch: smaller buffers remain while it grows.
const EPOCH_FACTOR: u64 = 2;

/// Bytes that the allocator cannot use per byte of growth in spite of them. So the process exceeds
/// the budget and its eighth by at most a ninth of the retained bytes, and by its epochs.
const UNUSABLE_FACTOR: u64 = 8;

fn with_an_eighth(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

/// Bytes that count until this is dropped: a buffer, a mailbox, a queue. There is one for each
/// owner, not for each piece; the owner sets the new size when it has changed much.
#[derive(Debug)]
pub struct Reserved {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reserved {
    /// Reserves nothing yet.
    pub fn new(memory: Arc<Memory>) -> Reserved {
        Reserved { memory, bytes: 0 }
    }

    /// Returns the bytes it has reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` more that another owner has counted until now.
    pub(super) fn take_over(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Sets the counted bytes, whether there is room for them or not: they are already allocated.
    pub fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match bytes >= before {
            true => self.memory.reserve(bytes - before),
            false => self.memory.release(before - bytes),
        }
    }

    /// Sets the counted bytes if there is room for the increase. If not, nothing changes, and the
    /// owner ends its operation with its protocol's error.
    pub fn try_set(&mut self, bytes: u64) -> bool {
        let has_room = self.memory.try_reserve(bytes.saturating_sub(self.bytes));
        if has_room {
            self.memory.release(self.bytes.saturating_sub(bytes));
            self.bytes = bytes;
        }
        has_room
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process count rows at the same time; this is far more than they do.
    const MUCH: u64 = 1 << 40;

    fn memory(budget: u64) -> Arc<Memory> {
        let memory = Memory::default();
        memory.set_budget(Some(budget));
        Arc::new(memory)
    }

    #[test]
    fn without_a_budget_there_is_always_room() {
        let memory = Arc::new(Memory::default());
        let mut reserved = Reserved::new(memory.clone());
        memory.measured(u64::MAX / 2);
        assert!(reserved.try_set(MUCH) && !memory.is_short() && !memory.is_nearly_gone());
        assert_eq!(memory.budget(), None);
        assert!(memory.evicts_above() > MUCH);
    }

    #[test]
    fn a_reservation_counts_until_it_is_dropped() {
        let memory = memory(8 * MUCH);
        let (mut first, mut two) = (Reserved::new(memory.clone()), Reserved::new(memory.clone()));
        first.set(5 * MUCH);
        assert!(two.try_set(2 * MUCH) && !memory.is_short());
        assert!(!two.try_set(4 * MUCH));
        assert_eq!((two.bytes(), memory.reserved_bytes()), (2 * MUCH, 7 * MUCH));
        two.set(7 * MUCH / 2);
        assert!(memory.is_short() && !memory.is_nearly_gone());
        two.set(5 * MUCH);
        assert!(memory.is_nearly_gone());
        assert!(two.try_set(4 * MUCH), "less is always possible");
        drop(first);
        assert!(!memory.is_short());
        drop(two);
        assert_eq!(memory.reserved_bytes(), 0);
    }

    /// Half of the rows were deleted, scattered over all pages, and writes were still refused: the
    /// allocator could return nothing to the system, though all of it was available to the next
    /// rows.
    #[test]
    fn freed_bytes_are_room_though_the_allocator_keeps_them() {
        let memory = memory(8 * MUCH);
        let mut reserved = Reserved::new(memory.clone());
        reserved.set(8 * MUCH);
        memory.measured(8 * MUCH);
        memory.measured(9 * MUCH);
        assert!(!reserved.try_set(8 * MUCH + MUCH / 8));
        reserved.set(4 * MUCH);
        memory.measured(9 * MUCH);
        assert!(reserved.try_set(7 * MUCH) && !memory.is_short());
        memory.measured(9 * MUCH);
        assert!(!memory.is_short());
        reserved.set(4 * MUCH);
        memory.measured(9 * MUCH);
        memory.measured(9 * MUCH + MUCH / 2);
        assert!(memory.is_short(), "what is kept is of no use");
    }

    /// Half of the rows were deleted, and while the log lagged, what waited for it made the process
    /// larger by a tenth. That was held against the freed rows eightfold and for good, so writes
    /// were refused for half a minute, with half of the budget free.
    #[test]
    fn what_waits_for_the_log_is_not_held_against_freed_bytes() {
        let memory = memory(8 * MUCH);
        let mut reserved = Reserved::new(memory.clone());
        reserved.set(8 * MUCH);
        memory.measured(9 * MUCH);
        reserved.set(4 * MUCH);
        memory.measured(9 * MUCH);
        memory.epochs_changed(0, MUCH / 2);
        memory.measured(9 * MUCH + MUCH / 2);
        assert!(!memory.is_short() && memory.room() > 2 * MUCH);
        memory.epochs_changed(MUCH / 2, 0);
        memory.measured(9 * MUCH + MUCH / 2);
        memory.measured(9 * MUCH + MUCH / 2);
        assert!(
            memory.room() > 3 * MUCH,
            "the allocator keeps what the epochs have left"
        );
        memory.measured(9 * MUCH);
        assert!(memory.room() > 3 * MUCH);
        // Epochs grew and shrank between two measurements.
        memory.epochs_changed(0, MUCH / 2);
        memory.epochs_changed(MUCH / 2, 0);
        memory.measured(9 * MUCH + MUCH / 2);
        assert!(!memory.is_short() && memory.room() > 2 * MUCH);
    }

    #[test]
    fn a_process_that_grows_for_a_moment_refuses_writes_only_for_that() {
        let memory = memory(8 * MUCH);
        let mut reserved = Reserved::new(memory.clone());
        reserved.set(8 * MUCH);
        memory.measured(9 * MUCH);
        reserved.set(4 * MUCH);
        memory.measured(9 * MUCH);
        memory.measured(9 * MUCH + MUCH / 2 - MUCH / 32);
        assert!(memory.is_short());
        memory.measured(9 * MUCH);
        assert!(!memory.is_short() && memory.room() > 3 * MUCH);
    }

    #[test]
    fn granted_bytes_are_reserved_however_short_memory_is() {
        let memory = memory(8 * MUCH);
        memory.grant_reserved(2 * MUCH);
        memory.measured(20 * MUCH);
        let mut reserved = Reserved::new(memory.clone());
        assert!(reserved.try_set(2 * MUCH) && memory.is_short());
        assert!(!reserved.try_set(2 * MUCH + 1));
    }

    #[test]
    fn resident_bytes_that_nothing_counts_leave_less_room() {
        let memory = memory(8 * MUCH);
        let mut reserved = Reserved::new(memory.clone());
        reserved.set(6 * MUCH);
        memory.measured(6 * MUCH);
        assert!(!memory.is_short());
        memory.measured(10 * MUCH);
        assert!(memory.is_short() && memory.is_nearly_gone());
        let beside = memory.evicts_above().abs_diff(MUCH * 9 / 2);
        assert!(
            beside < MUCH / 1000,
            "more is not evicted for what eviction does not give back"
        );
        reserved.set(4 * MUCH);
        assert!(!memory.is_short());
        memory.measured(4 * MUCH);
        assert!(memory.evicts_above() == 8 * MUCH);
    }
}
