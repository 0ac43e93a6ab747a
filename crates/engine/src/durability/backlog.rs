//! How fast epochs go to the log while the store is being flushed.
//!
//! Writes that arrive during a flush gather in memory, up to a limit; this module gets their size
//! as a share of it. Writers that reached it at full speed would be blocked until the flush ends:
//! seconds without a commit. So above half of the limit they are slowed down: each epoch is delayed
//! enough that the remaining room lasts for the expected duration of the flush, which is estimated
//! from the previous one. An eighth of the limit is reserved for a flush that takes much longer:
//! then a few epochs per second are admitted until that is used up too. The limit itself still
//! holds.

use std::time::Duration;

#[derive(Default)]
pub(crate) struct Backlog {
    began: Duration,
    /// The duration of the flush before.
    took: Duration,
    /// Time before which the next epoch is not taken.
    not_before: Duration,
    /// The gathered amount at the log's last epoch.
    gathered: f64,
}

/// A flush is never expected to end sooner.
const LEFT_MIN: Duration = Duration::from_millis(200);
/// The share of the limit up to which writers are not slowed down.
const FREE_SHARE: f64 = 0.5;
/// The target share at the end of the flush.
const AIM_SHARE: f64 = 0.875;
/// Several epochs a second go to the log as long as there is room.
const PAUSE_MAX: Duration = Duration::from_millis(400);

impl Backlog {
    pub fn flush_began(&mut self, now: Duration) {
        self.began = now;
        self.not_before = now;
        self.gathered = 0.0;
    }

    /// Returns how long it took.
    pub fn flush_ended(&mut self, now: Duration) -> Duration {
        self.took = now.saturating_sub(self.began);
        self.took
    }

    /// Returns true if the next epoch is not due; `gathered` is the share of the limit that has
    /// gathered since the start of the flush.
    pub fn holds(&self, now: Duration, gathered: f64) -> bool {
        gathered > 1.0 || now < self.not_before
    }

    /// Records that the log has taken an epoch; `gathered` is the share of the limit with it.
    pub fn appended(&mut self, now: Duration, gathered: f64) {
        let more = (gathered - std::mem::replace(&mut self.gathered, gathered)).max(0.0);
        if gathered <= FREE_SHARE {
            return;
        }
        let room = (AIM_SHARE - gathered).max(f64::EPSILON);
        let pause = (self.left(now).as_secs_f64() * more / room).min(PAUSE_MAX.as_secs_f64());
        self.not_before = now + Duration::from_secs_f64(pause);
    }

    /// The remaining time of the flush. It is never assumed to be further than four fifths through.
    fn left(&self, now: Duration) -> Duration {
        let elapsed = now.saturating_sub(self.began);
        let expected = self.took.saturating_sub(elapsed);
        expected.max(elapsed / 4).max(LEFT_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 20;

    fn share(gathered: u64) -> f64 {
        gathered as f64 / LIMIT as f64
    }

    /// Returns the bytes per second that the log accepts during a flush from writers that wait for
    /// their epoch before they write the next: `epoch` bytes each time, and at most `offered` a
    /// second.
    fn taken_each_second(backlog: &mut Backlog, flush_seconds: u64, epoch: u64, offered: u64) -> Vec<u64> {
        let (mut seconds, mut gathered) = (vec![0; flush_seconds as usize], 0);
        let step = Duration::from_secs_f64(epoch as f64 / offered as f64);
        let (began, mut now) = (Duration::from_secs(1000), Duration::from_secs(1000));
        backlog.flush_began(began);
        while now < began + Duration::from_secs(flush_seconds) {
            if !backlog.holds(now, share(gathered)) {
                gathered += epoch;
                seconds[(now - began).as_secs() as usize] += epoch;
                backlog.appended(now, share(gathered));
            }
            now += step;
        }
        backlog.flush_ended(now);
        assert!(gathered <= LIMIT + epoch);
        seconds
    }

    #[test]
    fn a_quick_flush_slows_no_writer() {
        let mut backlog = Backlog::default();
        for _ in 0..3 {
            let rates = taken_each_second(&mut backlog, 10, 150_000, 10_000_000);
            assert!(rates.iter().all(|&bytes| bytes >= 9_900_000), "{rates:?}");
        }
    }

    /// Writers used up the room in eight seconds and were blocked for the other fifty-two.
    #[test]
    fn a_long_flush_slows_writers_down_and_never_stops_them() {
        for (flush_seconds, offered) in [(60, 30_000_000), (20, 40_000_000), (120, 5_000_000), (300, 80_000_000)] {
            let mut backlog = Backlog::default();
            // The first flush gives no estimate for the next.
            taken_each_second(&mut backlog, flush_seconds, 150_000, offered);
            let rates = taken_each_second(&mut backlog, flush_seconds, 150_000, offered);
            let even = LIMIT / 8 * 3 / flush_seconds;
            assert!(
                rates.iter().all(|&bytes| bytes >= even / 4),
                "{flush_seconds}: {rates:?}"
            );
        }
    }

    #[test]
    fn a_flush_slower_than_the_last_still_accepts_epochs() {
        let mut backlog = Backlog::default();
        taken_each_second(&mut backlog, 5, 150_000, 10_000_000);
        let rates = taken_each_second(&mut backlog, 60, 150_000, 10_000_000);
        assert!(rates.iter().all(|&bytes| bytes > 0), "{rates:?}");
    }

    #[test]
    fn the_limit_holds() {
        let mut backlog = Backlog::default();
        backlog.flush_began(Duration::ZERO);
        assert!(!backlog.holds(Duration::ZERO, share(LIMIT)));
        assert!(backlog.holds(Duration::ZERO, share(LIMIT + 1)));
        backlog.appended(Duration::ZERO, share(LIMIT));
        assert!(backlog.holds(PAUSE_MAX - Duration::from_millis(1), 0.0));
        assert!(!backlog.holds(PAUSE_MAX, 0.0));
    }
}
