//! Recent changes that left no row: cleared keys, cleared ranges, and write conflicts declared
//! without a write.
//!
//! A present row carries the version that wrote it; an absent one carries nothing. This module
//! keeps the missing evidence, only as long as it can still be needed: until the change is durable
//! (a reader of the gap must wait for it), and until no optimistic transaction can have read before
//! it (certification).
//!
//! Evidence is kept by space, so a look-up never passes through other spaces' clears, and costs
//! O(log n) of its own space's. It is bounded: a space that clears more than [`Limits`] allow while
//! a transaction reads loses its evidence, and transactions with an earlier read version can no
//! longer be certified there; other spaces keep theirs.
//!
//! There are two generations. Changes are added to the young one; once no part of the old one is
//! needed, it is dropped as a whole and the young one replaces it. So forgetting searches nothing,
//! and evidence kept longer than needed is harmless: versions that all readers have passed, or that
//! are durable, decide nothing.

use std::collections::BTreeMap;

use quartet_model::{KeyRange, Version};

use crate::conflicts::newest::{NewestOfKeys, NewestOfRanges};
use crate::space::SPACE_BYTES;

/// The amount of evidence that is kept, in each generation.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Keys and bounds of ranges, of one space.
    pub space_count: usize,
    pub space_bytes: usize,
    /// Limit for all spaces together. Beyond it the space with the most history loses its own.
    pub total_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            space_count: 1 << 17,
            space_bytes: 16 << 20,
            total_bytes: 64 << 20,
        }
    }
}

type SpacePrefix = [u8; SPACE_BYTES];

#[derive(Default)]
pub(crate) struct RecentChanges {
    limits: Limits,
    young: Generation,
    old: Generation,
    /// By space, the newest change without evidence of its own: until it is durable, any gap of the
    /// space may result from it, and transactions that read before it cannot be certified there.
    unrecorded: BTreeMap<SpacePrefix, Version>,
    /// Evidence about changes at or below this version may have been dropped.
    forgotten: Version,
}

/// The evidence of one stretch of time.
#[derive(Default)]
pub(crate) struct Generation {
    spaces: BTreeMap<SpacePrefix, ConflictHistory>,
    bytes: usize,
    newest: Version,
}

/// The evidence about one space.
#[derive(Default)]
struct ConflictHistory {
    points: NewestOfKeys,
    ranges: NewestOfRanges,
    /// Write conflicts declared without a write: they matter to certification, and no reader waits
    /// for them.
    declared: NewestOfRanges,
}

impl RecentChanges {
    /// Starts without evidence about anything up to `version`.
    pub fn after(version: Version) -> RecentChanges {
        RecentChanges {
            forgotten: version,
            ..RecentChanges::default()
        }
    }

    pub fn add_point(&mut self, key: &[u8], version: Version) {
        self.add(space_of(key), version, |conflict_history| {
            conflict_history.points.insert(key, version)
        });
    }

    pub fn add_range(&mut self, range: &KeyRange, version: Version) {
        self.add(space_of(&range.start), version, |conflict_history| {
            conflict_history.ranges.cover(range, version);
        });
    }

    /// A write conflict without a write.
    pub fn declare(&mut self, range: &KeyRange, version: Version) {
        self.add(space_of(&range.start), version, |conflict_history| {
            conflict_history.declared.cover(range, version);
        });
    }

    /// Records that a key or range in the space of `key` was cleared, keeping only the version.
    /// Transactions that read there at an earlier version can no longer be certified.
    pub fn add_unrecorded(&mut self, key: &[u8], version: Version) {
        self.unrecorded.insert(space_of(key), version);
    }

    fn add(&mut self, space: SpacePrefix, version: Version, record: impl FnOnce(&mut ConflictHistory)) {
        let limits = self.limits;
        self.young.newest = version;
        let conflict_history = self.young.spaces.entry(space).or_default();
        let before = conflict_history.bytes();
        record(conflict_history);
        let bytes = conflict_history.bytes();
        let is_full = conflict_history.count() > limits.space_count || bytes > limits.space_bytes;
        self.young.bytes = self.young.bytes - before + bytes;
        if is_full {
            self.give_up(space);
        }
        if self.young.bytes > limits.total_bytes
            && let Some(largest) = self.young.largest_space()
        {
            self.give_up(largest);
        }
    }

    /// Keeps nothing about a space but that everything in it may have changed by now.
    fn give_up(&mut self, space: SpacePrefix) {
        let newest = self.young.newest;
        self.young.remove(space);
        self.old.remove(space);
        self.unrecorded.insert(space, newest);
    }

    /// The newest write conflict declared in `start..end`; zero if none.
    pub fn newest_declared(&self, start: &[u8], end: &[u8]) -> Version {
        self.newest_of(start, |conflict_history| {
            conflict_history.declared.newest_in(start, end)
        })
    }

    /// The newest write conflict declared of a key; zero if none.
    pub fn newest_declared_at(&self, key: &[u8]) -> Version {
        self.newest_of(key, |conflict_history| conflict_history.declared.newest_at(key))
    }

    /// The newest change known of an absent key; zero if none.
    pub fn newest_at(&self, key: &[u8]) -> Version {
        let recorded = self.newest_of(key, |conflict_history| {
            let point = conflict_history.points.get(key).unwrap_or_default();
            point.max(conflict_history.ranges.newest_at(key))
        });
        recorded.max(self.newest_unrecorded(key))
    }

    /// The newest change recorded in `start..end`, which must be within one space; zero if none.
    pub fn newest_in(&self, start: &[u8], end: &[u8]) -> Version {
        if start >= end {
            return Version::ZERO;
        }
        let recorded = self.newest_of(start, |conflict_history| {
            let point = conflict_history.points.newest_in(start, end);
            point.max(conflict_history.ranges.newest_in(start, end))
        });
        recorded.max(self.newest_unrecorded(start))
    }

    /// The newer answer of both generations about the space of `key`.
    fn newest_of(&self, key: &[u8], ask: impl Fn(&ConflictHistory) -> Version) -> Version {
        let generations = [&self.young, &self.old].into_iter();
        let histories = generations.filter_map(|generation| generation.about(key));
        histories.map(ask).max().unwrap_or_default()
    }

    fn newest_unrecorded(&self, key: &[u8]) -> Version {
        if self.unrecorded.is_empty() {
            return Version::ZERO;
        }
        self.unrecorded.get(&space_of(key)).copied().unwrap_or_default()
    }

    /// Returns whether reads of the space with this prefix, at `version`, can be certified.
    pub fn can_certify(&self, prefix: &[u8], version: Version) -> bool {
        version >= self.forgotten.max(self.newest_unrecorded(prefix))
    }

    /// Drops evidence about changes at or below `version`. The caller frees the returned
    /// generations without holding up other threads.
    #[must_use]
    pub fn forget_through(&mut self, version: Version) -> Vec<Generation> {
        self.forgotten = self.forgotten.max(version);
        self.unrecorded.retain(|_, newest| *newest > version);
        let mut dropped = Vec::new();
        while self.has_conflict_history() && self.old.newest <= version {
            let young = std::mem::take(&mut self.young);
            dropped.push(std::mem::replace(&mut self.old, young));
        }
        dropped
    }

    pub fn is_empty(&self) -> bool {
        !self.has_conflict_history() && self.unrecorded.is_empty()
    }

    fn has_conflict_history(&self) -> bool {
        !(self.young.spaces.is_empty() && self.old.spaces.is_empty())
    }
}

impl Generation {
    fn about(&self, key: &[u8]) -> Option<&ConflictHistory> {
        if self.spaces.is_empty() {
            return None;
        }
        self.spaces.get(&space_of(key))
    }

    fn remove(&mut self, space: SpacePrefix) {
        if let Some(conflict_history) = self.spaces.remove(&space) {
            self.bytes -= conflict_history.bytes();
        }
    }

    fn largest_space(&self) -> Option<SpacePrefix> {
        let largest = self
            .spaces
            .iter()
            .max_by_key(|(_, conflict_history)| conflict_history.bytes());
        largest.map(|(space, _)| *space)
    }
}

impl ConflictHistory {
    fn count(&self) -> usize {
        self.points.count() + self.ranges.count() + self.declared.count()
    }

    fn bytes(&self) -> usize {
        self.points.bytes() + self.ranges.bytes() + self.declared.bytes()
    }
}

fn space_of(key: &[u8]) -> SpacePrefix {
    key.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conflicts::newest::tests::COMPARISONS;

    #[test]
    fn evidence_lasts_until_forgotten() {
        let mut changes = RecentChanges::default();
        changes.add_point(b"s--a", Version(1));
        changes.add_range(&KeyRange::new("s--m", "s--p"), Version(2));
        changes.add_point(b"s--a", Version(3));
        assert_eq!(changes.newest_at(b"s--a"), Version(3));
        assert_eq!(changes.newest_at(b"s--n"), Version(2));
        assert_eq!(changes.newest_at(b"s--p"), Version::ZERO);
        assert_eq!(changes.newest_in(b"s--", b"s--b"), Version(3));
        assert_eq!(changes.newest_in(b"s--b", b"s--n"), Version(2));
        assert_eq!(changes.newest_at(b"t--a"), Version::ZERO);
        drop(changes.forget_through(Version(2)));
        assert_eq!(changes.newest_at(b"s--a"), Version(3));
        assert!(changes.can_certify(b"s--", Version(2)) && !changes.can_certify(b"s--", Version(1)));
        drop(changes.forget_through(Version(3)));
        assert!(changes.is_empty());
    }

    /// Cleared ranges of all databases used to be in one list, which each read of an absent key
    /// walked under the lock while any long transaction ran.
    #[test]
    fn a_miss_costs_nothing_for_what_others_cleared() {
        let work = |cleared: u32| {
            let mut changes = RecentChanges::default();
            for number in 0..cleared {
                let start = [b"o--", number.to_be_bytes().as_slice()].concat();
                changes.add_range(&KeyRange::point(&start), Version(u64::from(number)));
                changes.add_point(&start, Version(u64::from(number)));
            }
            changes.add_point(b"s--c", Version(1 << 20));
            let before = COMPARISONS.get();
            changes.newest_at(b"s--k");
            changes.newest_in(b"s--k", b"s--l");
            COMPARISONS.get() - before
        };
        assert!(work(0) > 0);
        assert_eq!(work(10_000), work(0));
    }

    #[test]
    fn a_miss_among_many_clears_of_its_own_space_looks_at_few() {
        let mut changes = RecentChanges::default();
        for number in 0..50_000u32 {
            let start = [b"s--", number.to_be_bytes().as_slice()].concat();
            let end = [start.as_slice(), b"x"].concat();
            changes.add_range(&KeyRange::new(start, end), Version(u64::from(number) + 1));
        }
        let before = COMPARISONS.get();
        for number in (0..50_000u32).step_by(50) {
            let key = [b"s--", number.to_be_bytes().as_slice(), b"w"].concat();
            assert_eq!(changes.newest_at(&key), Version(u64::from(number) + 1));
            assert_eq!(changes.newest_in(&key, b"s--\xff"), Version(50_000));
        }
        let each = (COMPARISONS.get() - before) / 1000;
        assert!(each < 300, "{each} comparisons in a tree of 100,000 bounds");
    }

    #[test]
    fn endless_clears_lose_only_the_records_of_their_space() {
        let limits = Limits {
            space_count: 100,
            space_bytes: 1 << 20,
            total_bytes: 1 << 20,
        };
        let mut changes = RecentChanges {
            limits,
            ..RecentChanges::default()
        };
        changes.add_point(b"s--a", Version(1));
        for version in 2..102 {
            changes.add_point(format!("t--{version}").as_bytes(), Version(version));
        }
        assert!(changes.can_certify(b"t--", Version(1)));
        changes.add_point(b"t--too many", Version(102));
        assert!(!changes.can_certify(b"t--", Version(101)) && changes.can_certify(b"t--", Version(102)));
        assert_eq!(changes.newest_at(b"t--never cleared"), Version(102));
        assert!(changes.can_certify(b"s--", Version(1)));
        assert_eq!(
            (changes.newest_at(b"s--a"), changes.newest_at(b"s--b")),
            (Version(1), Version::ZERO)
        );
    }

    #[test]
    fn all_evidence_together_is_bounded_and_the_largest_goes_first() {
        let limits = Limits {
            space_count: usize::MAX,
            space_bytes: usize::MAX,
            total_bytes: 100_000,
        };
        let mut changes = RecentChanges {
            limits,
            ..RecentChanges::default()
        };
        changes.add_point(b"s--a", Version(1));
        let long = [b't'; 1000];
        for version in 2..1000u64 {
            changes.add_point(&[&long[..], &version.to_be_bytes()].concat(), Version(version));
            assert!(changes.young.bytes <= limits.total_bytes);
        }
        assert!(changes.can_certify(b"s--", Version(1)) && !changes.can_certify(&long, Version(1)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Point(Vec<u8>),
        Range(KeyRange),
        Declare(KeyRange),
        Unrecorded(Vec<u8>),
        /// Forgets up to this number of versions before the latest.
        Forget(u64),
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let space = prop::sample::select(vec!["s--", "t--"]);
        let suffix = prop::collection::vec(prop::sample::select(vec![0, b'a', 0xff]), 0..3);
        (space, suffix).prop_map(|(space, suffix)| [space.as_bytes(), &suffix].concat())
    }

    /// Within one space; sometimes empty, sometimes the whole space.
    fn range() -> impl Strategy<Value = KeyRange> {
        (key(), key(), prop::bool::weighted(0.1)).prop_map(|(start, end, whole)| match whole {
            true => KeyRange::prefix(&start[..SPACE_BYTES]),
            false => KeyRange::new(&start[..], [&start[..SPACE_BYTES], &end[SPACE_BYTES..]].concat()),
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => key().prop_map(Step::Point),
            6 => range().prop_map(Step::Range),
            3 => range().prop_map(Step::Declare),
            1 => key().prop_map(Step::Unrecorded),
            2 => (0..40u64).prop_map(Step::Forget),
        ]
    }

    /// Everything that ever happened, in a list.
    #[derive(Default)]
    struct Naive {
        cleared: Vec<(Version, KeyRange)>,
        declared: Vec<(Version, KeyRange)>,
        forgotten: Version,
    }

    fn newest_overlapping(list: &[(Version, KeyRange)], range: &KeyRange) -> Version {
        let overlapping = list.iter().filter(|(_, other)| other.overlaps(range));
        overlapping.map(|(version, _)| *version).max().unwrap_or_default()
    }

    /// A change that decides nothing counts as nothing. A change that decides something must be
    /// known exactly, unless evidence was given up: then it may only be newer than the truth.
    fn compare(changes: &RecentChanges, naive: &Naive, probe: &KeyRange) -> Result<(), TestCaseError> {
        let unrecorded = changes.newest_unrecorded(&probe.start);
        let matters = |version: Version| {
            if version > naive.forgotten {
                version
            } else {
                Version::ZERO
            }
        };
        let cleared = newest_overlapping(&naive.cleared, probe);
        let point = KeyRange::point(&probe.start);
        let cleared_at = newest_overlapping(&naive.cleared, &point);
        let newest = changes.newest_in(&probe.start, &probe.end);
        let expected = if probe.is_empty() {
            Version::ZERO
        } else {
            cleared.max(unrecorded)
        };
        prop_assert_eq!(matters(newest), matters(expected));
        prop_assert_eq!(
            matters(changes.newest_at(&probe.start)),
            matters(cleared_at.max(unrecorded))
        );
        let declared = changes.newest_declared(&probe.start, &probe.end).max(unrecorded);
        prop_assert_eq!(
            matters(declared),
            matters(newest_overlapping(&naive.declared, probe).max(unrecorded))
        );
        let declared_at = changes.newest_declared_at(&probe.start).max(unrecorded);
        prop_assert_eq!(
            matters(declared_at),
            matters(newest_overlapping(&naive.declared, &point).max(unrecorded))
        );
        prop_assert_eq!(
            changes.can_certify(&probe.start, naive.forgotten),
            unrecorded <= naive.forgotten
        );
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_a_list_of_everything(
            steps in prop::collection::vec(step(), 0..200),
            probes in prop::collection::vec(range(), 8),
            space_count in prop::sample::select(vec![5, 20, usize::MAX]),
            total_bytes in prop::sample::select(vec![2_000, usize::MAX]),
        ) {
            let limits = Limits { space_count, space_bytes: usize::MAX, total_bytes };
            let mut changes = RecentChanges { limits, ..RecentChanges::default() };
            let mut naive = Naive::default();
            for (step, version) in steps.into_iter().zip(1..) {
                let version = Version(version);
                match step {
                    Step::Point(key) => {
                        changes.add_point(&key, version);
                        naive.cleared.push((version, KeyRange::point(&key)));
                    }
                    Step::Range(range) => {
                        changes.add_range(&range, version);
                        naive.cleared.push((version, range));
                    }
                    Step::Declare(range) => {
                        changes.declare(&range, version);
                        naive.declared.push((version, range));
                    }
                    Step::Unrecorded(key) => {
                        changes.add_unrecorded(&key, version);
                        naive.cleared.push((version, KeyRange::point(&key)));
                    }
                    Step::Forget(before) => {
                        naive.forgotten = naive.forgotten.max(Version(version.0.saturating_sub(before)));
                        drop(changes.forget_through(naive.forgotten));
                    }
                }
                prop_assert!(changes.young.bytes <= total_bytes);
            }
            for probe in &probes {
                compare(&changes, &naive, probe)?;
            }
        }
    }
}
