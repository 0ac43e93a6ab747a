//! The log's next segment, created ahead of need.

use std::time::Duration;

use quartet_log::LogError;

use crate::durability::job::Job;

/// Interval at which room for the segment is sought while there is none.
const RETRY: Duration = Duration::from_secs(1);

/// The preparation of the log's next segment, on a thread that may wait for the disk.
#[derive(Default)]
pub(super) struct NextSegment {
    pub job: Option<Job<Result<(), LogError>>>,
    /// The time at which there was no room for it.
    failed_at: Option<Duration>,
}

impl NextSegment {
    pub fn has_failed(&self) -> bool {
        self.failed_at.is_some()
    }

    /// Returns true while no preparation runs and the last failure is older than the interval.
    pub fn may_start(&self, now: Duration) -> bool {
        self.job.is_none() && self.failed_at.is_none_or(|failed_at| now - failed_at >= RETRY)
    }

    /// Returns true if a preparation is done.
    pub fn is_finished(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_finished)
    }

    /// Records the start of a preparation, or that no thread could be had for it.
    pub fn started(&mut self, job: Option<Job<Result<(), LogError>>>, now: Duration) {
        if job.is_none() {
            self.failed_at = Some(now);
        }
        self.job = job;
    }

    /// Takes the outcome of a preparation that is done.
    pub fn finish(&mut self, now: Duration) -> Result<(), LogError> {
        let Some(job) = self.job.take_if(|job| job.is_finished()) else {
            return Ok(());
        };
        match job.join().unwrap_or(Err(LogError::Failed)) {
            Ok(()) => self.failed_at = None,
            Err(error @ LogError::NoRoom { .. }) => {
                if self.failed_at.is_none() {
                    tracing::warn!(%error, "there is no room for the log's next segment");
                }
                self.failed_at = Some(now);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
