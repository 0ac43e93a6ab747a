//! Recent changes that left no row behind: cleared keys, cleared ranges, and write conflicts declared without a write.
//!
//! A present row carries the version that wrote it; an absent one carries nothing. This is the missing evidence, kept only
//! as long as somebody can still need it: until the change is durable (a reader of the gap must wait for it), and until no
//! optimistic transaction can have read before it (certification).

use std::collections::{BTreeMap, HashMap, VecDeque};

use quartet_model::{KeyRange, Version};

use crate::transaction::SPACE_BYTES;

#[derive(Default)]
pub(crate) struct RecentChanges {
    points: BTreeMap<Box<[u8]>, Version>,
    /// The points in the order of their versions, for forgetting.
    order: VecDeque<(Version, Box<[u8]>)>,
    ranges: VecDeque<(Version, KeyRange)>,
    /// Write conflicts declared without a write: they matter to certification, and no reader waits for them.
    declared: VecDeque<(Version, KeyRange)>,
    /// By space, the newest clear that was not worth its own evidence: until it is durable, every gap of the space may be
    /// its doing.
    unrecorded: HashMap<[u8; SPACE_BYTES], Version>,
    /// Evidence about changes at or below this version may be gone.
    forgotten: Version,
}

impl RecentChanges {
    pub fn add_point(&mut self, key: &[u8], version: Version) {
        self.points.insert(key.into(), version);
        self.order.push_back((version, key.into()));
    }

    pub fn add_range(&mut self, range: KeyRange, version: Version) {
        self.ranges.push_back((version, range));
    }

    /// A write conflict without a write.
    pub fn declare(&mut self, range: KeyRange, version: Version) {
        self.declared.push_back((version, range));
    }

    /// Something in the space of `key` was cleared, and only the version of that is kept. Nobody who read before can be
    /// judged any more.
    pub fn add_unrecorded(&mut self, key: &[u8], version: Version) {
        self.unrecorded.insert(space_of(key), version);
        self.forgotten = self.forgotten.max(version);
    }

    /// Starts without evidence about anything up to `version`.
    pub fn after(version: Version) -> RecentChanges {
        RecentChanges {
            forgotten: version,
            ..RecentChanges::default()
        }
    }

    /// The newest write conflict declared in `start..end`; zero if none.
    pub fn newest_declared(&self, start: &[u8], end: &[u8]) -> Version {
        newest_overlapping(&self.declared, start, end)
    }

    /// The newest write conflict declared of a key; zero if none.
    pub fn newest_declared_at(&self, key: &[u8]) -> Version {
        newest_containing(&self.declared, key).unwrap_or_default()
    }

    /// The newest change known of an absent key; zero if none.
    pub fn newest_at(&self, key: &[u8]) -> Version {
        let point = if self.points.is_empty() {
            None
        } else {
            self.points.get(key).copied()
        };
        let range = newest_containing(&self.ranges, key);
        point.max(range).unwrap_or_default().max(self.newest_unrecorded(key))
    }

    /// The newest change known anywhere in `start..end`; zero if none.
    pub fn newest_in(&self, start: &[u8], end: &[u8]) -> Version {
        let range = newest_overlapping(&self.ranges, start, end);
        let point = if self.points.is_empty() || start >= end {
            None
        } else {
            self.points
                .range::<[u8], _>((std::ops::Bound::Included(start), std::ops::Bound::Excluded(end)))
                .map(|(_, version)| *version)
                .max()
        };
        point.unwrap_or_default().max(range).max(self.newest_unrecorded(start))
    }

    fn newest_unrecorded(&self, key: &[u8]) -> Version {
        if self.unrecorded.is_empty() {
            return Version::ZERO;
        }
        self.unrecorded.get(&space_of(key)).copied().unwrap_or_default()
    }

    /// A reader at `version` or later can be judged.
    pub fn can_judge(&self, version: Version) -> bool {
        version >= self.forgotten
    }

    /// Drops evidence about changes at or below `version`.
    pub fn forget_through(&mut self, version: Version) {
        self.forgotten = self.forgotten.max(version);
        while let Some((_, key)) = self.order.pop_front_if(|(changed, _)| *changed <= version) {
            if self.points.get(&key).is_some_and(|newest| *newest <= version) {
                self.points.remove(&key);
            }
        }
        while self.ranges.pop_front_if(|(changed, _)| *changed <= version).is_some() {}
        while self.declared.pop_front_if(|(changed, _)| *changed <= version).is_some() {}
        self.unrecorded.retain(|_, newest| *newest > version);
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.ranges.is_empty() && self.declared.is_empty() && self.unrecorded.is_empty()
    }
}

fn space_of(key: &[u8]) -> [u8; SPACE_BYTES] {
    key.first_chunk().copied().unwrap_or_default()
}

fn newest_containing(ranges: &VecDeque<(Version, KeyRange)>, key: &[u8]) -> Option<Version> {
    let newest = ranges.iter().rev().find(|(_, range)| range.contains(key));
    newest.map(|(version, _)| *version)
}

fn newest_overlapping(ranges: &VecDeque<(Version, KeyRange)>, start: &[u8], end: &[u8]) -> Version {
    let overlapping = |range: &KeyRange| range.start.as_slice() < end && start < range.end.as_slice();
    let newest = ranges.iter().rev().find(|(_, range)| overlapping(range));
    newest.map(|(version, _)| *version).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_lasts_until_forgotten() {
        let mut changes = RecentChanges::default();
        changes.add_point(b"a", Version(1));
        changes.add_point(b"a", Version(3));
        changes.add_range(KeyRange::new("m", "p"), Version(2));
        assert_eq!(changes.newest_at(b"a"), Version(3));
        assert_eq!(changes.newest_at(b"n"), Version(2));
        assert_eq!(changes.newest_at(b"p"), Version::ZERO);
        assert_eq!(changes.newest_in(b"", b"b"), Version(3));
        assert_eq!(changes.newest_in(b"b", b"n"), Version(2));
        changes.forget_through(Version(2));
        assert_eq!(
            (changes.newest_at(b"a"), changes.newest_at(b"n")),
            (Version(3), Version::ZERO)
        );
        assert!(changes.can_judge(Version(2)) && !changes.can_judge(Version(1)));
        changes.forget_through(Version(3));
        assert!(changes.is_empty());
    }
}
