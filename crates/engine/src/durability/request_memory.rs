//! The memory that one request takes for what it makes: its reply, and what the reply is made of.
//!
//! A short request can read one long value a thousand times. So the bytes of a reply are taken
//! from the process' budget before they are made, by every door: a request that is refused them
//! ends with its protocol's own error, and no part of the reply exists. The taken bytes are given
//! back when the request ends, or passed on to a [`Reserved`] that keeps it until the peer has
//! read the reply.

use std::cell::Cell;

use super::memory::{Memory, Reserved};

/// The part of the budget that one request may take, and bytes where there is no budget. Two
/// requests at once stay within what all Redis connections may keep, a quarter.
const SHARE: u64 = 8;
const BYTES_MAX: u64 = 1 << 30;
/// However small the budget is.
const BYTES_MIN: u64 = 4 << 20;

impl Memory {
    /// Returns the most bytes that one request may take for what it makes.
    pub fn request_bytes_max(&self) -> u64 {
        self.budget()
            .map_or(BYTES_MAX, |budget| (budget / SHARE).clamp(BYTES_MIN, BYTES_MAX))
    }

    /// The same for what is measured instead of counted, as an interpreter's values are: no more
    /// than half of the present room either.
    pub fn room_for_a_request(&self) -> u64 {
        (self.room() / 2).clamp(BYTES_MIN, self.request_bytes_max())
    }
}

/// Bytes that one request has taken. Dropping it gives them back.
pub struct RequestMemory<'m> {
    memory: &'m Memory,
    bytes: Cell<u64>,
    is_refused: Cell<bool>,
}

impl<'m> RequestMemory<'m> {
    /// Takes nothing yet.
    #[inline]
    pub fn new(memory: &'m Memory) -> RequestMemory<'m> {
        RequestMemory {
            memory,
            bytes: Cell::new(0),
            is_refused: Cell::new(false),
        }
    }

    /// Takes `bytes` more. False: there is no room for them, nothing was taken, and the request
    /// must end.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        self.take_instead(bytes, 0)
    }

    /// The same for a buffer that grows: until its bytes are copied there are two, and `old_bytes`
    /// of the smaller are given back then.
    #[must_use]
    pub fn take_instead(&self, bytes: u64, old_bytes: u64) -> bool {
        let all = self.bytes.get().saturating_add(bytes);
        let lasting = all.saturating_sub(old_bytes);
        let is_taken = lasting <= self.memory.request_bytes_max() && self.memory.try_reserve(bytes);
        match is_taken {
            true => self.bytes.set(all),
            false => self.refuse(),
        }
        is_taken
    }

    /// The request's layer has a smaller limit, and has refused bytes because of it.
    pub fn refuse(&self) {
        self.is_refused.set(true);
    }

    /// Gives `bytes` back; they were taken here, or another owner has ceased to count them.
    pub fn give_back(&self, bytes: u64) {
        let bytes = bytes.min(self.bytes.get());
        self.bytes.set(self.bytes.get() - bytes);
        self.memory.release(bytes);
    }

    /// Returns the bytes taken and not given back.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Bytes were refused for lack of room: what the request has made is incomplete.
    pub fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Passes everything on to `reserved`, which counts it from now on.
    #[inline]
    pub fn keep_in(self, reserved: &mut Reserved) {
        if self.bytes.get() > 0 {
            reserved.take_over(self.bytes.take());
        }
    }
}

impl Drop for RequestMemory<'_> {
    fn drop(&mut self) {
        if self.bytes.get() > 0 {
            self.memory.release(self.bytes.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Other tests of this process count rows at the same time; this is far more than they do.
    const MUCH: u64 = 1 << 40;

    #[test]
    fn a_request_takes_what_there_is_room_for_and_gives_it_back() {
        let memory = Arc::new(Memory::default());
        let request = RequestMemory::new(&memory);
        assert!(request.take(BYTES_MAX) && !request.take(1) && request.is_refused());
        request.give_back(BYTES_MAX / 2);
        assert!(request.take(1));
        assert_eq!(
            (request.bytes(), memory.reserved_bytes()),
            (BYTES_MAX / 2 + 1, BYTES_MAX / 2 + 1)
        );
        let mut reserved = Reserved::new(memory.clone());
        request.keep_in(&mut reserved);
        assert_eq!(
            (reserved.bytes(), memory.reserved_bytes()),
            (BYTES_MAX / 2 + 1, BYTES_MAX / 2 + 1)
        );
        drop(reserved);
        assert_eq!(memory.reserved_bytes(), 0);
    }

    #[test]
    fn no_request_takes_what_others_need() {
        let memory = Arc::new(Memory::default());
        memory.set_budget(Some(MUCH));
        let mut concurrent = Reserved::new(memory.clone());
        concurrent.set(MUCH - BYTES_MAX / 2);
        let request = RequestMemory::new(&memory);
        assert!(!request.take(BYTES_MAX) && request.take(BYTES_MAX / 8));
        drop(request);
        concurrent.set(0);
        memory.set_budget(Some(SHARE * BYTES_MIN * 2));
        assert_eq!(memory.request_bytes_max(), 2 * BYTES_MIN);
        memory.set_budget(Some(1));
        assert_eq!(memory.request_bytes_max(), BYTES_MIN);
    }
}
