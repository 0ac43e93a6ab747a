//! How long a sequencer takes to answer, and how long to wait for it. Pure.
//!
//! A sequencer that takes two seconds for a write is slow for every node: a limit that it cannot
//! keep would give up each answer just before it arrives, and depose homes for what the next one
//! meets too. So the limits follow the answers: at once when they take longer, and by a quarter of
//! the way with each that is quicker.
//!
//! | limit           | of one answer's usual time | at least | at most |
//! |-----------------|----------------------------|----------|---------|
//! | an answer       | 4                          | 0.5 s    | 10 s    |
//! | a home's doubt  | 3                          | 1 s      | 10 s    |
//! | its suspension  | 6                          | 2 s      | 20 s    |

use std::time::Duration;

const ANSWER_MIN: Duration = Duration::from_millis(500);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The time that answers have taken lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    usual: Duration,
}

impl Pace {
    /// Notes an answer that took this long from its request.
    pub fn answered(&mut self, took: Duration) {
        self.usual = took.max((3 * self.usual + took) / 4);
    }

    /// The time that an answer takes.
    pub fn usual(self) -> Duration {
        self.usual
    }

    /// A request without an answer is given up after this.
    pub fn answer_within(self) -> Duration {
        (4 * self.usual).clamp(ANSWER_MIN, ANSWER_MAX)
    }

    /// A home whose request has been outstanding for this long is uncertain.
    pub fn uncertain_after(self) -> Duration {
        (3 * self.usual).clamp(2 * ANSWER_MIN, ANSWER_MAX)
    }

    /// A home whose request has been outstanding for this long answers nothing until it is
    /// answered.
    pub fn suspended_after(self) -> Duration {
        2 * self.uncertain_after()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of etcd that took 700 ms were given up after 500, indefinitely.
    #[test]
    fn limits_follow_what_answers_take() {
        let millis = Duration::from_millis;
        let mut pace = Pace::default();
        let limits = |pace: Pace| [pace.answer_within(), pace.uncertain_after(), pace.suspended_after()];
        assert_eq!(limits(pace), [millis(500), millis(1_000), millis(2_000)]);
        pace.answered(millis(3));
        assert_eq!(limits(pace), [millis(500), millis(1_000), millis(2_000)]);
        pace.answered(millis(700));
        assert_eq!(limits(pace), [millis(2_800), millis(2_100), millis(4_200)]);
        pace.answered(millis(9_000));
        assert_eq!(limits(pace), [millis(10_000), millis(10_000), millis(20_000)]);
        for _ in 0..20 {
            pace.answered(millis(3));
        }
        assert_eq!(limits(pace), [millis(500), millis(1_000), millis(2_000)]);
    }
}
