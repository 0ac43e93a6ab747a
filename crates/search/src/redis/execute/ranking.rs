//! The best scores of many.

use crate::rows::DocumentId;

/// Scores that are kept before low scores are dropped.
const SCORES_KEPT: usize = 256;

/// The ids of the best scores, and of all scores equal to the last of them: their keys, which are
/// not read yet, decide.
pub(super) struct BestScores {
    count: usize,
    kept: Vec<(f64, DocumentId)>,
    /// Nothing lower is among the best.
    least: f64,
    cut_at: usize,
}

/// The outcome of [`BestScores`].
pub(super) struct BestIds {
    /// The candidates that are better than the last.
    pub better: Vec<(f64, DocumentId)>,
    /// The score of the last, and all that have it, in the order of their ids.
    pub last: (f64, Vec<DocumentId>),
    /// The number of wanted candidates of the last score.
    pub wanted: usize,
}

impl BestScores {
    /// The best `count`, which is not zero.
    pub fn new(count: usize) -> BestScores {
        BestScores {
            count,
            kept: Vec::new(),
            least: f64::NEG_INFINITY,
            cut_at: SCORES_KEPT.max(count.saturating_mul(2)),
        }
    }

    pub fn add(&mut self, score: f64, id: DocumentId) {
        if score.total_cmp(&self.least).is_lt() {
            return;
        }
        self.kept.push((score, id));
        if self.kept.len() >= self.cut_at {
            self.cut();
            self.cut_at = SCORES_KEPT.max(self.kept.len() * 2);
        }
    }

    fn cut(&mut self) {
        if self.kept.len() <= self.count {
            return;
        }
        let (_, last, _) = self
            .kept
            .select_nth_unstable_by(self.count - 1, |a, b| b.0.total_cmp(&a.0));
        let least = last.0;
        self.least = least;
        self.kept.retain(|(score, _)| score.total_cmp(&least).is_ge());
    }

    pub fn finish(mut self) -> BestIds {
        self.cut();
        let least = self.kept.iter().map(|(score, _)| *score).min_by(f64::total_cmp);
        let least = least.unwrap_or_default();
        let is_better = |score: f64| score.total_cmp(&least).is_gt();
        let (better, last): (Vec<_>, Vec<_>) = self.kept.into_iter().partition(|(score, _)| is_better(*score));
        let mut last: Vec<_> = last.into_iter().map(|(_, id)| id).collect();
        last.sort_unstable();
        BestIds {
            wanted: (self.count - better.len()).min(last.len()),
            better,
            last: (least, last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_scores_are_those_of_a_sorted_list() {
        for (scores, count) in [(1000u64, 10), (7, 3), (3, 10), (1, 1), (5000, 600)] {
            let all: Vec<(f64, DocumentId)> = (0..2000).map(|id| ((id * 7919 % scores) as f64, id)).collect();
            let mut best = BestScores::new(count);
            all.iter().for_each(|(score, id)| best.add(*score, *id));
            let mut sorted = all.clone();
            sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
            let last = sorted[count - 1].0;
            let best_ids = best.finish();
            let last_ids: Vec<_> = all
                .iter()
                .filter(|(score, _)| *score == last)
                .map(|(_, id)| *id)
                .collect();
            assert_eq!(best_ids.last, (last, last_ids));
            assert_eq!(best_ids.better.len() + best_ids.wanted, count);
            assert!(best_ids.better.iter().all(|(score, _)| *score > last));
        }
        assert_eq!(BestScores::new(5).finish().wanted, 0);
    }
}
