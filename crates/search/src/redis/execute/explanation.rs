//! The explanation of a score, in the original's words.

use crate::hits::Explanation;
use crate::index::doc_sets::DocSet;
use crate::index::document::DocumentRow;
use crate::redis::execute::matcher::{Every, Matcher};
use crate::redis::execute::scorer::Scorer;
use crate::redis::execute::scoring::{Scoring, of_distance};

/// A term of the query, in the current document.
struct ExplainedTerm<'t> {
    text: &'t [u8],
    /// The number of documents that have it.
    documents: u64,
    frequency: u32,
    weight: f64,
}

impl Explanation {
    fn of(text: String) -> Explanation {
        Explanation {
            text,
            parts: Vec::new(),
        }
    }
}

impl Scoring {
    /// Explains the score of the matcher's current document.
    pub fn explain(&self, matcher: &Matcher, document: &DocumentRow<'_>) -> Explanation {
        let length = f64::from(document.length);
        let words = self.parts(matcher, length);
        let document_score = document.score;
        let text = match self.scorer {
            Scorer::Bm25Std(_) | Scorer::Bm25StdNorm => {
                format!("Final BM25 : words BM25 {words:.2} * document score {document_score:.2}")
            }
            Scorer::Bm25StdTanh(factor) => {
                let inner = Explanation {
                    text: format!("Final BM25 : words BM25 {words:.2} * document score {document_score:.2}"),
                    parts: vec![self.part(matcher, length)],
                };
                let score = words * document_score;
                return Explanation {
                    text: format!("Final Normalized BM25 : tanh(stretch factor 1/{factor} * Final BM25 {score:.2})"),
                    parts: vec![inner],
                };
            }
            Scorer::Bm25 => {
                let slop = of_distance(matcher);
                format!("Final BM25 : words BM25 {words:.2} * document score {document_score:.2} / slop {slop}")
            }
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                let norm = match self.scorer {
                    Scorer::TfIdf => document.frequency_max,
                    _ => document.length,
                };
                let slop = of_distance(matcher);
                format!(
                    "Final TFIDF : words TFIDF {words:.2} * document score {document_score:.2} / norm {norm} / slop {slop}"
                )
            }
            Scorer::DisMax => return self.part(matcher, length),
            Scorer::DocScore => return Explanation::of(format!("Document's score is {document_score:.2}")),
            // The caller knows the payload.
            Scorer::Hamming => return Explanation::default(),
        };
        Explanation {
            text,
            parts: vec![self.part(matcher, length)],
        }
    }

    fn part(&self, matcher: &Matcher, length: f64) -> Explanation {
        let worth = self.parts(matcher, length);
        match matcher.seen_through() {
            Matcher::Words(words) => {
                let explained = ExplainedTerm {
                    text: &words.term,
                    documents: words.documents,
                    frequency: words.walk.frequency(),
                    weight: words.weight,
                };
                self.of_term(&explained, worth, length)
            }
            Matcher::Rows {
                term: Some(term),
                weight,
                ..
            } => {
                let explained = ExplainedTerm {
                    text: &term.text,
                    documents: term.documents,
                    frequency: 1,
                    weight: *weight,
                };
                self.of_term(&explained, worth, length)
            }
            Matcher::All(_, weight) => match self.okapi_text(length, 1, 1.0, 1.0) {
                Some(text) => Explanation::of(format!("*: ({worth:.2} = {text})")),
                None => self.without_term(worth, *weight, 1),
            },
            Matcher::Every(every) => {
                let mut children = every.children.iter().collect::<Vec<_>>();
                if every.is_sorted() {
                    let is_range = |child: &Matcher| matches!(child.seen_through(), Matcher::Ids { .. });
                    children.sort_by_key(|child| (child.documents(), is_range(child)));
                }
                self.of_children(&children, matcher, every.weight, worth, length)
            }
            Matcher::Any {
                children,
                weight,
                is_written,
                ..
            } => match &children[..] {
                [only] if *is_written => self.part(only, length),
                children => {
                    let children: Vec<_> = children.iter().collect();
                    self.of_children(&children, matcher, *weight, worth, length)
                }
            },
            Matcher::Optional { child, .. } if child.doc() == matcher.doc() => self.part(child, length),
            Matcher::Optional { .. } => self.without_term(worth, 0.0, 1),
            Matcher::Not { .. } => self.without_term(worth, 1.0, 0),
            _ => self.without_term(worth, 1.0, 1),
        }
    }

    fn of_children(
        &self,
        children: &[&Matcher],
        parent: &Matcher,
        weight: f64,
        worth: f64,
        length: f64,
    ) -> Explanation {
        let inner = if weight == 0.0 { 0.0 } else { worth / weight };
        let text = match self.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                format!("(Weight {weight:.2} * total children TFIDF {inner:.2})")
            }
            Scorer::DisMax => format!("{worth:.2} = Weight {weight:.2} * children DISMAX {inner:.2}"),
            _ => format!("(Weight {weight:.2} * children BM25 {inner:.2})"),
        };
        let present = children.iter().filter(|child| child.doc() == parent.doc());
        let parts = present.map(|child| self.part(child, length)).collect();
        Explanation { text, parts }
    }

    fn of_term(&self, term: &ExplainedTerm<'_>, worth: f64, length: f64) -> Explanation {
        let ExplainedTerm {
            text: term,
            documents,
            frequency,
            weight,
        } = *term;
        let rarity = self.old_rarity(documents);
        Explanation::of(match self.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                format!("(TFIDF {worth:.2} = Weight {weight:.2} * TF {frequency} * IDF {rarity:.2})")
            }
            Scorer::Bm25 => {
                let saturated = self.saturated_text(frequency);
                format!("({worth:.2} = IDF {rarity:.2} * {saturated})")
            }
            Scorer::DisMax => format!("DISMAX {worth:.2} = Weight {weight:.2} * Frequency {frequency}"),
            _ => {
                let term = String::from_utf8_lossy(term);
                let rarity = self.rarity(documents);
                let text = self.okapi_text(length, frequency, rarity, weight).unwrap_or_default();
                format!("{term}: ({worth:.2} = {text})")
            }
        })
    }

    fn without_term(&self, worth: f64, weight: f64, frequency: u32) -> Explanation {
        Explanation::of(match self.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                format!("(TFIDF {worth:.2} = Weight {weight:.2} * Frequency {frequency})")
            }
            Scorer::Bm25 => {
                let saturated = self.saturated_text(frequency);
                format!("({worth:.2} = Weight {weight:.2} * {saturated})")
            }
            Scorer::DisMax => format!("DISMAX {worth:.2} = Weight {weight:.2} * Frequency {frequency}"),
            _ => "Irrelevant token -> score is 0".into(),
        })
    }

    fn saturated_text(&self, frequency: u32) -> String {
        let average = self.average_length;
        format!("F {frequency} / (F {frequency} + k1 1.2 * (1 - b 0.5 + b 0.5 * Average Len {average:.2}))")
    }

    /// None if the scorer is none of BM25STD.
    fn okapi_text(&self, length: f64, frequency: u32, rarity: f64, weight: f64) -> Option<String> {
        let revision = self.revision()?;
        let (b, frequency, average) = (revision.b(), f64::from(frequency), self.average_length);
        let weight = match revision.weighs_words() {
            true => format!("Weight {weight:.2} * "),
            false => String::new(),
        };
        Some(format!(
            "{weight}IDF {rarity:.2} * (F {frequency:.2} * (k1 1.2 + 1)) / (F {frequency:.2} + k1 1.2 * (1 - b {b} + b \
             {b} * Doc Len {length} / Average Doc Len {average:.2}))"
        ))
    }
}

impl Every {
    /// The rarest condition is first, unless the order counts.
    fn is_sorted(&self) -> bool {
        !self.has_order()
    }
}

impl Matcher {
    /// The greatest possible number of documents.
    pub(super) fn documents(&self) -> u64 {
        match self.seen_through() {
            Matcher::Empty => 0,
            Matcher::Words(words) => words.documents,
            Matcher::Rows { term: Some(term), .. } => term.documents,
            Matcher::Ids(ids) => ids.count() as u64,
            Matcher::Near { near, .. } => near.len() as u64,
            Matcher::Every(every) => every.children.iter().map(Matcher::documents).min().unwrap_or(0),
            Matcher::Any { children, .. } => {
                let counts = children.iter().map(Matcher::documents);
                counts.fold(0, u64::saturating_add)
            }
            _ => u64::MAX,
        }
    }
}
