//! The readable states, by version.
//!
//! A state is kept as long as a client reads at it, within the window. A few unused states stay
//! until the window has passed, so that another transaction can be set to read at the same version.
//! A client that names a version without a kept state gets the first state after it: its reads are
//! still of one moment, and a commit is certified by the version that the client named, which is
//! stricter.
//!
//! States are owned only by this module, so dropping one ends it for all clients. A kept state
//! makes each write copy the nodes it changes, so unused states are few.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use quartet_engine::Reader;
use quartet_model::Version;

/// Time within which a client that has named a version may name another.
const NAMED_MICROS: u64 = 60_000_000;
/// Most unused states that are kept.
const UNUSED_MAX: usize = 64;
/// Most states that remain. Each keeps the rows that later writes have replaced.
const STATES_MAX: usize = 20_000;
/// Minimum age at which a state may be dropped even if memory is short: transactions of the
/// original live no longer.
const SHORT_WINDOW_MICROS: u64 = 5_000_000;

pub(crate) struct Versions {
    window_micros: u64,
    /// The time at which a client last named a version to read at.
    named_micros: AtomicU64,
    states: Mutex<States>,
}

#[derive(Default)]
struct States {
    by_version: BTreeMap<Version, Kept>,
    /// Versions that became unused, oldest first; some may be in use again, or dropped.
    unused: VecDeque<Version>,
}

struct Kept {
    reader: Arc<Reader>,
    users: usize,
    /// The time at which it was last returned.
    given_micros: u64,
}

impl Versions {
    pub fn new(window_micros: u64) -> Versions {
        Versions {
            window_micros,
            named_micros: AtomicU64::new(0),
            states: Mutex::default(),
        }
    }

    /// A client named a version.
    pub fn named(&self, now_micros: u64) {
        self.named_micros.store(now_micros, Ordering::Relaxed);
    }

    /// Returns true if clients have lately named versions themselves.
    pub fn are_named(&self, now_micros: u64) -> bool {
        let named_micros = self.named_micros.load(Ordering::Relaxed);
        named_micros > 0 && now_micros.saturating_sub(named_micros) <= NAMED_MICROS
    }

    /// Keeps a state for one more user. If the same state is kept already, that one is returned.
    pub fn keep(&self, reader: Reader) -> Weak<Reader> {
        let given_micros = reader.now_micros;
        let mut states = self.states.lock();
        if states.by_version.len() >= STATES_MAX {
            states.by_version.pop_first();
        }
        let state = states.by_version.entry(reader.version).or_insert_with(|| Kept {
            reader: Arc::new(reader),
            users: 0,
            given_micros,
        });
        state.give(given_micros)
    }

    /// The first state at or after `version`, and its version, for one more user.
    pub fn first_at_or_after(&self, version: Version, now_micros: u64) -> Option<(Version, Weak<Reader>)> {
        let mut states = self.states.lock();
        let (version, state) = states.by_version.range_mut(version..).next()?;
        Some((*version, state.give(now_micros)))
    }

    /// One user less.
    pub fn release(&self, version: Version) {
        let mut states = self.states.lock();
        let Some(state) = states.by_version.get_mut(&version) else {
            return;
        };
        state.users = state.users.saturating_sub(1);
        if state.users == 0 {
            states.unused.push_back(version);
        }
        if states.unused.len() > UNUSED_MAX {
            states.drop_oldest_unused();
        }
    }

    /// Drops expired states. If memory is short, a window longer than usual is shortened.
    pub fn tidy(&self, now_micros: u64, is_short: bool) {
        let window_micros = match is_short {
            true => self.window_micros.min(SHORT_WINDOW_MICROS),
            false => self.window_micros,
        };
        let mut states = self.states.lock();
        states
            .by_version
            .retain(|_, state| now_micros.saturating_sub(state.given_micros) <= window_micros);
    }

    /// Drops all unused states.
    pub fn forget_unused(&self) {
        let mut states = self.states.lock();
        let unused = std::mem::take(&mut states.unused);
        let forgotten: Vec<_> = unused
            .iter()
            .filter_map(|version| states.take_unused(*version))
            .collect();
        // Rows that only they held are freed without the lock.
        drop(states);
        drop(forgotten);
    }

    pub fn count(&self) -> usize {
        self.states.lock().by_version.len()
    }
}

impl Kept {
    fn give(&mut self, now_micros: u64) -> Weak<Reader> {
        self.users += 1;
        self.given_micros = self.given_micros.max(now_micros);
        Arc::downgrade(&self.reader)
    }
}

impl States {
    fn drop_oldest_unused(&mut self) {
        let oldest = self.unused.pop_front();
        oldest.and_then(|version| self.take_unused(version));
    }

    /// Removes the state of a version that became unused, unless it is in use again.
    fn take_unused(&mut self, version: Version) -> Option<Kept> {
        let is_unused = self.by_version.get(&version).is_some_and(|state| state.users == 0);
        is_unused.then(|| self.by_version.remove(&version)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use quartet_engine::{Engine, Space};

    use super::*;

    fn keep(versions: &Versions, engine: &Engine, space: Space) -> (Version, Weak<Reader>) {
        let set = quartet_engine::Mutation::Set {
            key: b"k".to_vec(),
            value: b"v".to_vec(),
        };
        let request = quartet_engine::CommitRequest {
            mutations: vec![set],
            ..Default::default()
        };
        engine.commit(space, &request).unwrap();
        let reader = engine.read_version(space);
        (reader.version, versions.keep(reader))
    }

    /// A client that opened a version after each write, and released none, was bounded only by the
    /// window.
    #[test]
    fn the_oldest_states_go_when_there_are_too_many() {
        let (engine, space) = crate::test_engine();
        let versions = Versions::new(u64::MAX);
        let states: Vec<_> = (0..STATES_MAX + 10).map(|_| keep(&versions, &engine, space)).collect();
        assert_eq!(versions.count(), STATES_MAX);
        let is_there: Vec<bool> = states.iter().map(|(_, reader)| reader.strong_count() > 0).collect();
        assert!(is_there[..10].iter().all(|is_there| !is_there));
        assert!(is_there[10..].iter().all(|is_there| *is_there));
        // The count continues after a dropped state.
        versions.release(states[0].0);
        assert_eq!(versions.count(), STATES_MAX);
    }

    #[test]
    fn only_versions_without_a_reader_are_forgotten() {
        let (engine, space) = crate::test_engine();
        let versions = Versions::new(u64::MAX);
        let [unused, used, again] = [(); 3].map(|()| keep(&versions, &engine, space));
        versions.release(unused.0);
        versions.release(again.0);
        let shared = versions.first_at_or_after(again.0, 0).unwrap();
        versions.forget_unused();
        let counts = [unused.1, used.1, shared.1].map(|reader| reader.strong_count());
        assert_eq!(counts, [0, 1, 1]);
        versions.release(again.0);
        versions.forget_unused();
        assert_eq!(versions.count(), 1);
    }

    #[test]
    fn a_long_window_is_cut_when_memory_is_short() {
        let (engine, space) = crate::test_engine();
        let versions = Versions::new(60_000_000);
        let (_, reader) = keep(&versions, &engine, space);
        let given_micros = reader.upgrade().unwrap().now_micros;
        let check = |after_micros, is_short, expected| {
            versions.tidy(given_micros + after_micros, is_short);
            assert_eq!(reader.strong_count() > 0, expected, "{after_micros} {is_short}");
        };
        check(5_000_000, true, true);
        check(60_000_000, false, true);
        check(5_000_001, true, false);
    }
}
