//! The disk's free space as the flusher sees it.

use std::time::Duration;

use quartet_env::Disk;

/// Interval of checks of the disk's free space.
const INTERVAL: Duration = Duration::from_millis(100);
/// Below this free space the log takes only as much per second as makes the space last for some
/// time, but never less than this many bytes a second, and it never stops for longer than this.
const NEARLY_FULL_BYTES: u64 = 512 << 20;
const LASTS_SECONDS: u64 = 10;
const NEARLY_FULL_RATE_MIN: u64 = 1 << 20;
const NEARLY_FULL_PAUSE_MAX: Duration = Duration::from_millis(400);

/// The disk's free space, and the pace of writes when it is nearly used up.
pub(super) struct DiskRoom {
    /// The state that was last reported to the operator.
    pub is_full: bool,
    /// The disk has been full since the last checkpoint: the next one is due as soon as it fits.
    pub was_full: bool,
    /// The free bytes when they were last measured.
    available_bytes: u64,
    /// `None` if this process has taken or freed space since.
    measured_at: Option<Duration>,
    /// The bytes of rows for which deletions were last estimated, and the estimate.
    deletions: (u64, u64),
    /// Time before which the next epoch is not taken, because the disk is nearly full.
    not_before: Duration,
}

impl DiskRoom {
    pub fn new(now: Duration) -> DiskRoom {
        DiskRoom {
            is_full: false,
            was_full: false,
            available_bytes: u64::MAX,
            measured_at: None,
            deletions: (0, 0),
            not_before: now,
        }
    }

    pub fn holds_writes(&self, now: Duration) -> bool {
        now < self.not_before
    }

    /// Returns the free bytes, measured at most an interval ago.
    pub fn measure(&mut self, disk: &dyn Disk, now: Duration) -> u64 {
        if self.measured_at.is_none_or(|measured_at| now - measured_at >= INTERVAL) {
            self.measured_at = Some(now);
            self.available_bytes = disk.available_bytes().unwrap_or(u64::MAX);
        }
        self.available_bytes
    }

    /// Marks the free bytes as outdated: a file was created, extended or removed.
    pub fn changed(&mut self) {
        self.measured_at = None;
    }

    /// Returns the estimated bytes of all deletions. `None`: a sixteenth of the rows has changed
    /// since.
    pub fn deletions_of(&self, stored_bytes: u64) -> Option<u64> {
        let (estimated_for, estimate) = self.deletions;
        (stored_bytes.abs_diff(estimated_for) <= stored_bytes / 16).then_some(estimate)
    }

    /// Records that deleting rows of `stored_bytes` may write `estimate` bytes.
    pub fn estimated(&mut self, stored_bytes: u64, estimate: u64) {
        self.deletions = (stored_bytes, estimate);
    }

    /// Delays the next epoch after `bytes` were appended, if the disk is nearly full and space
    /// `comes_back`.
    pub fn appended(&mut self, bytes: u64, comes_back: bool, now: Duration) {
        if self.available_bytes < NEARLY_FULL_BYTES && comes_back {
            let per_second = (self.available_bytes / LASTS_SECONDS).max(NEARLY_FULL_RATE_MIN);
            let pause = Duration::from_secs_f64(bytes as f64 / per_second as f64);
            self.not_before = now + pause.min(NEARLY_FULL_PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_available(available_bytes: u64) -> DiskRoom {
        DiskRoom {
            available_bytes,
            ..DiskRoom::new(Duration::ZERO)
        }
    }

    #[test]
    fn a_nearly_full_disk_delays_writes_in_proportion_to_their_bytes_up_to_a_bound() {
        let pause = |available_bytes, bytes| {
            let mut room = with_available(available_bytes);
            room.appended(bytes, true, Duration::ZERO);
            room.not_before
        };
        assert_eq!(pause(NEARLY_FULL_BYTES, 1 << 30), Duration::ZERO);
        assert_eq!(pause(100 << 20, 1 << 20), Duration::from_millis(100));
        assert_eq!(pause(0, 1 << 18), Duration::from_millis(250));
        assert_eq!(pause(0, 1 << 30), NEARLY_FULL_PAUSE_MAX);
    }

    #[test]
    fn a_disk_that_gets_no_space_back_delays_nothing() {
        let mut room = with_available(0);
        room.appended(1 << 30, false, Duration::ZERO);
        assert!(!room.holds_writes(Duration::ZERO));
    }
}
