//! The clocks of the nodes: each node reads those of the others, over its own connections, and
//! follows the majority if its own clock is far off.
//!
//! ```text
//!   the request `clock`: repeated: any byte     the caller's request
//!                               clock u64       microseconds since 1970
//! ```
//!
//! The time of an answer is half-way between its request and its arrival, so half of the shortest
//! delay bounds the error. No promise of the log depends on a clock. But deadlines of keys are
//! times of the home: a home with a clock an hour fast added an hour to them, and the next home
//! kept it. So a node corrects its own times if its clock differs from the median by more than
//! [`BOUND_MICROS`] and the majority agrees with the median.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::link::{self, Link};
use super::members::now_us;
use super::protocol::NodeRequest;
use crate::connections::stream::Stream;

/// A clock that differs from most by more is off.
pub const BOUND_MICROS: i64 = 1_000_000;
/// Intervals of the requests, and of checks for jumps of the own clock.
pub const ASK_EVERY: Duration = Duration::from_secs(2);
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A node without an answer within this time has no known clock.
const LASTS: Duration = Duration::from_secs(15);
/// Requests over one connection: the quickest answer counts.
const QUESTIONS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(2);
/// Fewer clocks have no majority against one.
const CLOCKS_MIN: usize = 3;

/// Answers another node's requests for the clock.
pub async fn tell(mut stream: Box<dyn Stream>) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    link::accept(stream.as_mut()).await?;
    while stream.read_u8().await.is_ok() {
        stream.write_u64_le(now_us()).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// How far the clock of the node at `address` is ahead of this node's, in microseconds.
pub async fn ask(link: &Link, address: &str) -> io::Result<i64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let reading = async {
        let mut stream = link.call(address, &NodeRequest::Clock).await?;
        let mut best: Option<(Duration, i64)> = None;
        for _ in 0..QUESTIONS {
            let (began, began_us) = (Instant::now(), now_us());
            stream.write_u8(b'?').await?;
            stream.flush().await?;
            let theirs = stream.read_u64_le().await?;
            let took = began.elapsed();
            let middle_us = began_us.saturating_add(took.as_micros() as u64 / 2);
            let ahead = theirs.min(i64::MAX as u64) as i64 - middle_us.min(i64::MAX as u64) as i64;
            best = match best {
                Some(best) if best.0 <= took => Some(best),
                _ => Some((took, ahead)),
            };
        }
        Ok(best.map_or(0, |(_, ahead)| ahead))
    };
    tokio::time::timeout(TIMEOUT, reading).await?
}

/// The known clocks.
#[derive(Default)]
pub struct Clocks {
    /// The offset of each other node's clock from this node's, and the time of the answer.
    others: BTreeMap<u64, (i64, Instant)>,
    /// The own clock and the elapsed time, at the last check.
    seen: Option<(u64, Instant)>,
    ahead: Option<i64>,
}

impl Clocks {
    /// Notes an answer.
    pub fn note(&mut self, node: u64, ahead: i64, now: Instant) {
        self.others.insert(node, (ahead, now));
    }

    /// The known clocks of nodes, by how far they are ahead of this node's.
    pub fn known(&self, now: Instant) -> BTreeMap<u64, i64> {
        let recent = self.others.iter().filter(|(_, (_, at))| now - *at < LASTS);
        recent.map(|(node, (ahead, _))| (*node, *ahead)).collect()
    }

    /// Checks the own clock for a jump. Returns true if it was set: the caller reads the other
    /// clocks at once. The known offsets move with it.
    pub fn look(&mut self, clock_us: u64, now: Instant) -> bool {
        let jump = self.seen.map_or(0, |(before_us, before)| {
            let passed = (now - before).as_micros() as i64;
            clock_us as i64 - before_us as i64 - passed
        });
        self.seen = Some((clock_us, now));
        if jump.abs() <= BOUND_MICROS / 2 {
            return false;
        }
        self.ahead = self.ahead.map(|ahead| ahead + jump);
        self.others.values_mut().for_each(|(ahead, _)| *ahead -= jump);
        true
    }

    /// Compares the own clock with all known clocks. Returns by how much it is ahead of most;
    /// `None` until there was a majority.
    pub fn compare(&mut self, now: Instant) -> Option<i64> {
        let offsets: Vec<i64> = self.known(now).into_values().collect();
        if let Some(ahead) = ahead_of_most(&offsets) {
            self.ahead = Some(ahead);
        }
        self.ahead
    }
}

/// Returns by how much this node's clock is ahead of the median of all, if the majority agrees
/// with the median. `offsets`: by how much each other clock is ahead of this node's.
fn ahead_of_most(offsets: &[i64]) -> Option<i64> {
    let mut all: Vec<i64> = offsets.iter().copied().chain([0]).collect();
    let middle = median(&mut all)?;
    let near = all.iter().filter(|clock| (**clock - middle).abs() <= BOUND_MICROS);
    (all.len() >= CLOCKS_MIN && 2 * near.count() > all.len()).then_some(-middle)
}

/// The middle of the values; between two, half-way.
pub fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    let (half, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    match is_odd {
        true => Some(values[half]),
        false => Some(i64::midpoint(*values.get(half.checked_sub(1)?)?, values[half])),
    }
}

/// The part of a difference that is corrected.
pub fn correction(ahead: i64) -> i64 {
    if ahead.abs() > BOUND_MICROS { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn most_clocks_decide() {
        for (offsets, expected) in [
            (vec![], None),
            (vec![HOUR], None),
            (vec![-HOUR, -HOUR + 5], Some(HOUR - 5)),
            (vec![10, -HOUR], Some(0)),
            (vec![HOUR, 3], Some(-3)),
            (vec![HOUR, -HOUR], None),
            (vec![HOUR, HOUR, 0], None),
            (vec![HOUR, HOUR, HOUR, 0], Some(-HOUR)),
        ] {
            assert_eq!(ahead_of_most(&offsets), expected, "{offsets:?}");
        }
    }

    /// A home with a clock that was set ahead by an hour gave `EX 600` a deadline in an hour and
    /// ten minutes.
    #[test]
    fn a_clock_that_is_set_is_corrected_before_the_next_reading() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut clocks = Clocks::default();
        assert!(!clocks.look(1_000_000_000, at(0)));
        for node in [2, 3] {
            clocks.note(node, 1000, at(0));
        }
        assert_eq!(clocks.compare(at(0)), Some(-1000));
        assert!(!clocks.look(1_000_051_000, at(50)));
        assert!(clocks.look(1_000_101_000 + HOUR as u64, at(100)));
        let ahead = clocks.compare(at(100)).unwrap();
        assert!((ahead - HOUR).abs() < 10_000, "{ahead}");
        assert_eq!(correction(ahead), ahead);
        assert_eq!(correction(900_000), 0);
        // The other nodes are away: the known clocks are retained.
        let ahead = clocks.compare(at(60_000)).unwrap();
        assert!((ahead - HOUR).abs() < 10_000, "{ahead}");
        assert!(clocks.known(at(60_000)).is_empty());
    }
}
