//! How well a document matches: the original's scorers.
//!
//! Each scorer sums the scores of the matching words, down the tree; conditions without words
//! (numbers, negations) score zero or one. All words of a pattern count; in the original only the
//! first match counts.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::hits::Hit;
use crate::index::State;
use crate::index::doc_sets::DocSet;
use crate::index::document::DocumentRow;
use crate::redis::execute::matcher::Matcher;
use crate::redis::execute::proximity::spread;
use crate::redis::execute::scorer::{Revision, Scorer};

impl Revision {
    pub(super) fn weighs_words(self) -> bool {
        self == Revision::Redis8
    }

    pub(super) fn b(self) -> f64 {
        match self {
            Revision::Redis8 => 0.75,
            Revision::Search2_10 => 0.5,
        }
    }
}

/// The original computes with a constant of single precision.
const K1: f64 = 1.2f32 as f64;

impl Scorer {
    /// The scorer of this name, in any case.
    pub fn of_name(name: &str) -> Option<Scorer> {
        Some(match name.to_ascii_uppercase().as_str() {
            "BM25STD" => Scorer::default(),
            "BM25STD.TANH" => Scorer::Bm25StdTanh(4.0),
            "BM25STD.NORM" => Scorer::Bm25StdNorm,
            "BM25" => Scorer::Bm25,
            "TFIDF" => Scorer::TfIdf,
            "TFIDF.DOCNORM" => Scorer::TfIdfDocNorm,
            "DISMAX" => Scorer::DisMax,
            "DOCSCORE" => Scorer::DocScore,
            "HAMMING" => Scorer::Hamming,
            _ => return None,
        })
    }
}

/// The measures of a document that scores depend on.
#[derive(Clone, Copy)]
pub(super) struct Measures {
    pub length: u32,
    pub frequency_max: u32,
    pub score: f64,
}

impl Measures {
    /// Those of a document of weight one, as far as scores depend on lengths only.
    pub fn of_length(length: u32) -> Measures {
        Measures {
            length,
            frequency_max: 0,
            score: 1.0,
        }
    }
}

impl From<&DocumentRow<'_>> for Measures {
    fn from(document: &DocumentRow<'_>) -> Measures {
        Measures {
            length: document.length,
            frequency_max: document.frequency_max,
            score: document.score,
        }
    }
}

/// A scorer with what it has to know of the index.
pub(super) struct Scoring {
    pub(super) scorer: Scorer,
    documents: f64,
    pub(super) average_length: f64,
    /// How rare terms are by how many documents have them: the same for each document.
    rarities: RefCell<FxHashMap<u64, f64>>,
}

impl Scoring {
    pub fn new(scorer: Scorer, state: &State) -> Scoring {
        Scoring {
            scorer,
            documents: state.documents as f64,
            average_length: state.average_length(),
            rarities: RefCell::default(),
        }
    }

    /// Returns true if scores depend, apart from the words, only on a document's length and weight.
    pub fn needs_lengths_only(&self) -> bool {
        !matches!(self.scorer, Scorer::TfIdf)
    }

    /// Returns true if every match has the same score.
    pub fn is_constant(&self, matcher: &Matcher) -> bool {
        self.revision().is_some() && is_without_words(matcher)
    }

    /// The score of the matcher's current document.
    pub fn score(&self, matcher: &Matcher, document: Measures) -> f64 {
        let length = f64::from(document.length);
        let parts = || self.parts(matcher, length);
        match self.scorer {
            Scorer::Bm25Std(_) | Scorer::Bm25StdNorm => document.score * parts(),
            Scorer::Bm25StdTanh(factor) => (document.score * parts() / factor).tanh(),
            Scorer::Bm25 => document.score * parts() / of_distance(matcher),
            Scorer::TfIdf => self.normed(matcher, document, f64::from(document.frequency_max)),
            Scorer::TfIdfDocNorm => self.normed(matcher, document, length),
            Scorer::DisMax => parts(),
            Scorer::DocScore => document.score,
            Scorer::Hamming => 0.0,
        }
    }

    /// The form of BM25STD, if the scorer is one of it.
    pub fn revision(&self) -> Option<Revision> {
        match self.scorer {
            Scorer::Bm25Std(revision) => Some(revision),
            Scorer::Bm25StdTanh(_) | Scorer::Bm25StdNorm => Some(Revision::Redis8),
            _ => None,
        }
    }

    fn normed(&self, matcher: &Matcher, document: Measures, norm: f64) -> f64 {
        match norm {
            0.0 => 0.0,
            norm => document.score * self.parts(matcher, f64::from(document.length)) / norm / of_distance(matcher),
        }
    }

    /// Scores that depend on the best one.
    pub fn finish(&self, hits: &mut [Hit], best: f64) {
        if self.scorer == Scorer::Bm25StdNorm && best > 0.0 {
            hits.iter_mut().for_each(|hit| hit.score /= best);
        }
    }

    pub fn parts(&self, matcher: &Matcher, length: f64) -> f64 {
        match matcher.seen_through() {
            Matcher::Empty | Matcher::Not { .. } | Matcher::Near { .. } => 0.0,
            Matcher::All(_, weight) => self.everything(*weight, length),
            Matcher::Words(words) => {
                let frequency = f64::from(words.walk.frequency());
                self.word(words.documents, frequency, words.weight, length)
            }
            Matcher::Rows {
                term: Some(term),
                weight,
                ..
            } => self.word(term.documents, 1.0, *weight, length),
            Matcher::Rows { weight, .. } => self.without_words(*weight),
            // As at the original, which does not look at the weight.
            Matcher::Ids { .. } => self.without_words(1.0),
            Matcher::Every(every) => {
                let present = every.children.iter().filter(|child| child.doc() == matcher.doc());
                every.weight * self.summed(present, length, false)
            }
            Matcher::Any {
                children,
                stands,
                at,
                weight,
                ..
            } => {
                let stands = stands.iter().map(|stands| Some(*stands));
                let present = children.iter().zip(stands).filter(|(_, stands)| stands == at);
                weight * self.summed(present.map(|(child, _)| child), length, true)
            }
            Matcher::Optional { child, .. } => match child.doc() == matcher.doc() {
                true => self.parts(child, length),
                false => 0.0,
            },
            Matcher::Watched(_) => unreachable!("seen through"),
        }
    }

    fn summed<'m>(&self, present: impl Iterator<Item = &'m Matcher>, length: f64, are_alternatives: bool) -> f64 {
        let scores = present.map(|child| self.parts(child, length));
        match self.scorer == Scorer::DisMax && are_alternatives {
            true => scores.fold(0.0, f64::max),
            false => scores.sum(),
        }
    }

    fn word(&self, documents: u64, frequency: f64, weight: f64, length: f64) -> f64 {
        match self.scorer {
            Scorer::Bm25Std(revision) => {
                let weight = if revision.weighs_words() { weight } else { 1.0 };
                weight * self.okapi(self.rarity(documents), frequency, length, revision)
            }
            Scorer::Bm25StdTanh(_) | Scorer::Bm25StdNorm => {
                weight * self.okapi(self.rarity(documents), frequency, length, Revision::Redis8)
            }
            Scorer::Bm25 => weight * self.old_rarity(documents) * self.saturated(frequency),
            Scorer::TfIdf | Scorer::TfIdfDocNorm => weight * self.old_rarity(documents) * frequency,
            Scorer::DisMax => weight * frequency,
            Scorer::DocScore | Scorer::Hamming => 0.0,
        }
    }

    fn everything(&self, weight: f64, length: f64) -> f64 {
        match self.scorer {
            Scorer::Bm25Std(revision) => weight * self.okapi(1.0, 1.0, length, revision),
            Scorer::Bm25StdTanh(_) | Scorer::Bm25StdNorm => weight * self.okapi(1.0, 1.0, length, Revision::Redis8),
            _ => self.without_words(weight),
        }
    }

    fn without_words(&self, weight: f64) -> f64 {
        match self.scorer {
            Scorer::Bm25 => weight * self.saturated(1.0),
            Scorer::TfIdf | Scorer::TfIdfDocNorm | Scorer::DisMax => weight,
            _ => 0.0,
        }
    }

    fn okapi(&self, rarity: f64, frequency: f64, length: f64, revision: Revision) -> f64 {
        let b = revision.b();
        let relative = if self.average_length > 0.0 {
            length / self.average_length
        } else {
            0.0
        };
        rarity * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - b + b * relative))
    }

    fn saturated(&self, frequency: f64) -> f64 {
        frequency / (frequency + K1 * (0.5 + 0.5 * self.average_length))
    }

    pub fn rarity(&self, documents: u64) -> f64 {
        let known_rarity = self.rarities.borrow().get(&documents).copied();
        known_rarity.unwrap_or_else(|| {
            let with = documents as f64;
            let rarity = (1.0 + (self.documents.max(with) - with + 0.5) / (with + 0.5)).ln();
            self.rarities.borrow_mut().insert(documents, rarity);
            rarity
        })
    }

    /// The whole part of a binary logarithm.
    pub fn old_rarity(&self, documents: u64) -> f64 {
        (1.0 + (self.documents + 1.0) / documents.max(1) as f64).log2().floor()
    }
}

/// Returns true if no part of it is worth anything to BM25STD.
fn is_without_words(matcher: &Matcher) -> bool {
    match matcher.seen_through() {
        Matcher::Empty | Matcher::Not { .. } | Matcher::Near { .. } | Matcher::Ids { .. } => true,
        Matcher::Rows { term, .. } => term.is_none(),
        Matcher::Every(every) => every.children.iter().all(is_without_words),
        Matcher::Any { children, .. } => children.iter().all(is_without_words),
        Matcher::Optional { child, .. } => is_without_words(child),
        Matcher::All(..) | Matcher::Words(_) | Matcher::Watched(_) => false,
    }
}

/// Returns the divisor of the score for words that are far from each other.
pub(super) fn of_distance(matcher: &Matcher) -> f64 {
    let children = match matcher.seen_through() {
        Matcher::Every(every) => &every.children,
        Matcher::Any { children, .. } => children,
        _ => return 1.0,
    };
    let Some(at) = matcher.doc() else {
        return 1.0;
    };
    let present: Vec<_> = children.iter().filter(|child| child.doc() == Some(at)).collect();
    let list = |child: &&Matcher| {
        let mut positions = Vec::new();
        child.add_positions(at, &mut positions).then_some(positions)
    };
    spread(present.iter().filter_map(list), present.len())
}
