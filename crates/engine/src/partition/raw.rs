//! The lock as `lock_api`'s raw lock, which hands out guards of the protected value.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use parking_lot::lock_api::{self, GuardNoSend, RawRwLock, RawRwLockTimed};

use crate::partition::fair_lock::{FairLock, Mode};

pub(crate) type Lock<T> = lock_api::RwLock<FairLock, T>;
pub(crate) type SharedGuard<'l, T> = lock_api::RwLockReadGuard<'l, FairLock, T>;
pub(crate) type Guard<'l, T> = lock_api::RwLockWriteGuard<'l, FairLock, T>;

/// There are threads that wait for the lock.
pub(crate) fn is_wanted<T>(lock: &Lock<T>) -> bool {
    // SAFETY: the raw lock is looked at, and nothing of it is changed.
    unsafe { lock.raw() }.is_wanted()
}

// SAFETY: a writer enters while its bit is clear and no reader is counted, a reader while the
// writer's bit is clear, each by one exchange of the word that holds both; and each release undoes
// exactly one acquisition.
unsafe impl RawRwLock for FairLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: FairLock = FairLock::new();

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.take_until(Mode::Shared, None);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_take(Mode::Shared)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.release(Mode::Shared);
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.take_until(Mode::Alone, None);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_take(Mode::Alone)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.release(Mode::Alone);
    }

    fn is_locked(&self) -> bool {
        self.is_taken()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.is_taken_alone()
    }
}

// SAFETY: as above.
unsafe impl RawRwLockTimed for FairLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.take_until(Mode::Shared, Some(Instant::now() + timeout))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.take_until(Mode::Shared, Some(deadline))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.take_until(Mode::Alone, Some(Instant::now() + timeout))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.take_until(Mode::Alone, Some(deadline))
    }
}
