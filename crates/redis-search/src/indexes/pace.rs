//! How fast indexes are filled, and when they will be.
//!
//! Kept in memory for the process: after a start it is unknown until some keys were processed. The
//! pace is that of the last half minute to minute, since it changes: graphs grow more slowly the
//! larger they are.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use quartet_engine::UniqueId;

use crate::indexes::marks::Progress;

/// Indexes whose pace is kept. Those of all are forgotten when there are more.
const KEPT_MAX: usize = 4096;

/// Time for which a pace is measured before an older part of it is left out.
const MEASURED_MS: u64 = 30_000;

/// The filled share of an index at a time: 0 <= share <= 1.
#[derive(Clone, Copy)]
struct Point {
    at_ms: u64,
    share: f64,
}

struct Pace {
    from: Point,
    /// Becomes `from` once it is [`MEASURED_MS`] old.
    next: Point,
    last: Point,
}

/// The paces of all indexes that are being filled, by their numbers.
#[derive(Default)]
pub struct Paces(Mutex<BTreeMap<UniqueId, Pace>>);

impl Paces {
    /// Notes how far an index is filled; `None` if it is full. Call it before each step.
    pub fn note(&self, index: &UniqueId, progress: Option<Progress>, now_ms: u64) {
        let mut paces = self.0.lock();
        let Some(progress) = progress else {
            paces.remove(index);
            return;
        };
        let now = Point {
            at_ms: now_ms,
            share: progress.share(),
        };
        match paces.get_mut(index).filter(|pace| pace.last.share <= now.share) {
            Some(pace) => {
                if now_ms.saturating_sub(pace.next.at_ms) >= MEASURED_MS {
                    (pace.from, pace.next) = (pace.next, now);
                }
                pace.last = now;
            }
            // The first point, or a new filling.
            None => {
                if paces.len() >= KEPT_MAX {
                    paces.clear();
                }
                let pace = Pace {
                    from: now,
                    next: now,
                    last: now,
                };
                paces.insert(*index, pace);
            }
        }
    }

    /// Returns about how many seconds it takes until an index is full; `None` if that is not known.
    pub fn seconds_left(&self, index: &UniqueId) -> Option<u64> {
        let paces = self.0.lock();
        let Pace { from, last, .. } = paces.get(index)?;
        let looked_at = last.share - from.share;
        let took_ms = last.at_ms.saturating_sub(from.at_ms);
        (looked_at > 0.0).then(|| ((1.0 - last.share) / looked_at * took_ms as f64 / 1000.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: UniqueId = [7; 10];

    /// Notes a share at each second, and returns what is left then.
    fn left_after(points: &[(u64, f64)]) -> Option<u64> {
        let paces = Paces::default();
        for (second, share) in points {
            paces.note(&INDEX, Some(Progress::of_share(*share)), second * 1000);
        }
        paces.seconds_left(&INDEX)
    }

    #[test]
    fn what_is_left_takes_as_long_as_it_did_lately() {
        assert_eq!(left_after(&[]), None);
        assert_eq!(left_after(&[(0, 0.0)]), None);
        assert_eq!(left_after(&[(0, 0.0), (10, 0.25)]), Some(30));
        assert_eq!(
            left_after(&[(0, 0.5), (10, 0.75)]),
            Some(10),
            "it went on after a start"
        );
        assert_eq!(left_after(&[(0, 0.0), (5, 0.0)]), None);
        assert_eq!(left_after(&[(0, 0.0), (10, 0.25), (20, 0.25)]), Some(60), "it rests");
        let slower = [(0, 0.0), (30, 0.5), (60, 0.6), (100, 0.7)];
        assert_eq!(left_after(&slower), Some(120), "the quick half minute is forgotten");
        assert_eq!(
            left_after(&[(0, 0.0), (10, 0.5), (20, 0.0), (30, 0.1)]),
            Some(90),
            "anew"
        );
        assert_eq!(left_after(&[(10, 0.0), (0, 0.5)]), Some(0), "the clock was set back");
    }

    #[test]
    fn a_full_index_has_no_pace() {
        let paces = Paces::default();
        paces.note(&INDEX, Some(Progress::of_share(0.0)), 0);
        paces.note(&INDEX, Some(Progress::of_share(0.5)), 1000);
        paces.note(&INDEX, None, 2000);
        assert_eq!(paces.seconds_left(&INDEX), None);
    }
}
