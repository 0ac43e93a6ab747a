//! Walks the documents that a clause matches, in the order of their ids, and scores them.
//!
//! A walker moves on to the first match at or after an id, and never back. Scores are computed in
//! single precision, as Tantivy does.

use std::ops::{Bound, ControlFlow};

use crate::error::SearchError;
use crate::index::doc_sets::{DocSet, IdRows, Ids, TermWalk, agreed, first_match};
use crate::index::layout::{after, field_prefix, tag_prefix};
use crate::index::{State, tokens_of_field};
use crate::rows::{DocumentId, Rows, id_of};
use crate::upstash::automata::Automaton;
use crate::upstash::bm25::Bm25;
use crate::upstash::phrases;
use crate::upstash::request::Clause;
use crate::upstash::terms::Terms;

/// Rows that are read between two looks at the time.
const ROWS_BETWEEN_CHECKS: u32 = 1024;

/// The length of a value for its score.
const VALUE_LENGTH: u32 = 1;

/// The lengths of a document's fields, by their numbers.
pub type Lengths = [(u16, u32)];

pub enum Walker {
    Nothing,
    All(IdRows),
    Term {
        field: u16,
        walk: Box<TermWalk>,
        worth: Bm25,
    },
    Phrase(Box<Phrase>),
    Ids(Ids),
    Equal {
        rows: IdRows,
        score: f32,
    },
    Boolean(Box<Boolean>),
    Boost(f32, Box<Walker>),
}

pub struct Phrase {
    field: u16,
    words: Vec<(u32, TermWalk)>,
    /// The place of the last word: positions are relative to it.
    last: u32,
    slop: u32,
    /// The place after the words, and the terms allowed there.
    suffixes: Option<(u32, Vec<TermWalk>)>,
    worth: Bm25,
    at: Option<DocumentId>,
    frequency: u32,
}

pub struct Boolean {
    must: Vec<Walker>,
    should: Vec<Walker>,
    must_not: Vec<Walker>,
    at: Option<DocumentId>,
}

/// Makes walkers at one snapshot.
pub struct Maker<'m> {
    pub rows: &'m mut dyn Rows,
    pub terms: Terms,
    pub state: State,
    pub is_over: &'m dyn Fn() -> bool,
}

impl Maker<'_> {
    pub fn walker(&mut self, clause: &Clause) -> Result<Walker, SearchError> {
        if (self.is_over)() {
            return Err(SearchError::Timeout);
        }
        Ok(match clause {
            Clause::Nothing => Walker::Nothing,
            Clause::All => Walker::All(IdRows::of_documents()),
            Clause::Term { field, word } => {
                let term = Clause::term(*field, word);
                let documents = self.terms.documents(self.rows, &term);
                if documents == 0 {
                    return Ok(Walker::Nothing);
                }
                Walker::Term {
                    field: *field,
                    worth: self.worth(*field, &[documents]),
                    walk: Box::new(self.terms.walk(self.rows, &term)),
                }
            }
            Clause::Phrase {
                field,
                words,
                slop,
                prefix,
            } => self.phrase(*field, words, *slop, prefix.as_ref())?,
            Clause::Pattern { field, automaton } => self.pattern(*field, automaton)?,
            Clause::Equal { field, value } => self.equal(*field, value),
            Clause::Range { field, from, to } => self.range(*field, from, to)?,
            Clause::Boolean { must, should, must_not } => Walker::Boolean(Box::new(Boolean {
                must: self.walkers(must)?,
                should: self.walkers(should)?,
                must_not: self.walkers(must_not)?,
                at: None,
            })),
            Clause::Boost(boost, clause) => Walker::Boost(*boost, Box::new(self.walker(clause)?)),
        })
    }

    fn walkers(&mut self, clauses: &[Clause]) -> Result<Vec<Walker>, SearchError> {
        clauses.iter().map(|clause| self.walker(clause)).collect()
    }

    fn worth(&mut self, field: u16, documents: &[u64]) -> Bm25 {
        let tokens = tokens_of_field(self.rows, field);
        Bm25::new(documents, self.state.documents, tokens)
    }

    fn phrase(
        &mut self,
        field: u16,
        words: &[(u32, String)],
        slop: u32,
        prefix: Option<&(u32, String)>,
    ) -> Result<Walker, SearchError> {
        let (mut walks, mut documents) = (Vec::new(), Vec::new());
        for (place, word) in words {
            let term = Clause::term(field, word);
            documents.push(self.terms.documents(self.rows, &term));
            walks.push((*place, self.terms.walk(self.rows, &term)));
        }
        if documents.contains(&0) {
            return Ok(Walker::Nothing);
        }
        let suffixes = match prefix {
            None => None,
            Some((place, prefix)) => {
                let automaton = Automaton::Prefix(prefix.clone());
                let terms = self.terms.matching(self.rows, field, &automaton, self.is_over)?;
                let walks = terms.iter().map(|term| self.terms.walk(self.rows, term));
                Some((*place, walks.collect()))
            }
        };
        let worth = self.worth(field, &documents);
        let places = words.iter().chain(prefix).map(|(place, _)| *place);
        let last = places.max().unwrap_or(0);
        Ok(Walker::Phrase(Box::new(Phrase {
            field,
            words: walks,
            last,
            slop,
            suffixes,
            worth,
            at: None,
            frequency: 0,
        })))
    }

    fn pattern(&mut self, field: u16, automaton: &Automaton) -> Result<Walker, SearchError> {
        let terms = self.terms.matching(self.rows, field, automaton, self.is_over)?;
        let (mut ids, mut read) = (Vec::new(), 0_u32);
        for term in terms {
            let (mut walk, mut from) = (self.terms.walk(self.rows, &term), 1);
            while let Some(id) = walk.seek(self.rows, from) {
                ids.push(id);
                from = id + 1;
                read = read.wrapping_add(1);
                if read.is_multiple_of(ROWS_BETWEEN_CHECKS) && (self.is_over)() {
                    return Err(SearchError::Timeout);
                }
            }
            // Bounds what is kept by the number of documents.
            if ids.len() as u64 > 2 * self.state.documents {
                ids.sort_unstable();
                ids.dedup();
            }
        }
        Ok(Walker::Ids(Ids::new(ids)))
    }

    fn equal(&mut self, field: u16, value: &[u8]) -> Walker {
        let prefix = tag_prefix(field, value);
        let documents = self.rows.count(&prefix, &after(&prefix));
        if documents == 0 {
            return Walker::Nothing;
        }
        let score = self.worth(field, &[documents]).score(1, VALUE_LENGTH);
        Walker::Equal {
            rows: IdRows::new(prefix),
            score,
        }
    }

    fn range(&mut self, field: u16, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Result<Walker, SearchError> {
        let whole = field_prefix(b'g', field);
        let start = match from {
            Bound::Unbounded => whole.clone(),
            Bound::Included(value) => tag_prefix(field, value),
            Bound::Excluded(value) => after(&tag_prefix(field, value)),
        };
        let end = match to {
            Bound::Unbounded => after(&whole),
            Bound::Included(value) => after(&tag_prefix(field, value)),
            Bound::Excluded(value) => tag_prefix(field, value),
        };
        let (mut ids, mut read, mut was_over) = (Vec::new(), 0_u32, false);
        if start < end {
            self.rows.scan(&start, &end, &mut |key, _| {
                ids.push(id_of(key));
                read = read.wrapping_add(1);
                was_over = read.is_multiple_of(ROWS_BETWEEN_CHECKS) && (self.is_over)();
                match was_over {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        }
        match was_over {
            true => Err(SearchError::Timeout),
            false => Ok(Walker::Ids(Ids::new(ids))),
        }
    }
}

impl DocSet for Walker {
    fn doc(&self) -> Option<DocumentId> {
        match self {
            Walker::Nothing => None,
            Walker::All(rows) | Walker::Equal { rows, .. } => rows.doc(),
            Walker::Term { walk, .. } => walk.doc(),
            Walker::Phrase(phrase) => phrase.doc(),
            Walker::Ids(ids) => ids.doc(),
            Walker::Boolean(boolean) => boolean.doc(),
            Walker::Boost(_, walker) => walker.doc(),
        }
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        match self {
            Walker::Nothing => None,
            Walker::All(all) => all.seek(rows, id),
            Walker::Equal { rows: id_rows, .. } => id_rows.seek(rows, id),
            Walker::Term { walk, .. } => walk.seek(rows, id),
            Walker::Phrase(phrase) => phrase.seek(rows, id),
            Walker::Ids(ids) => ids.seek(rows, id),
            Walker::Boolean(boolean) => boolean.seek(rows, id),
            Walker::Boost(_, walker) => walker.seek(rows, id),
        }
    }
}

impl Walker {
    /// The score of the current document.
    pub fn score(&self, lengths: &Lengths) -> f32 {
        match self {
            Walker::Nothing => 0.0,
            Walker::All(_) | Walker::Ids(_) => 1.0,
            Walker::Equal { score, .. } => *score,
            Walker::Term { field, walk, worth } => worth.score(walk.frequency(), length_of(lengths, *field)),
            Walker::Phrase(phrase) => phrase.score(lengths),
            Walker::Boolean(boolean) => boolean.score(lengths),
            Walker::Boost(boost, walker) => boost * walker.score(lengths),
        }
    }
}

fn length_of(lengths: &Lengths, field: u16) -> u32 {
    let entry = lengths.iter().find(|(number, _)| *number == field);
    entry.map_or(0, |(_, length)| *length)
}

impl DocSet for Phrase {
    fn doc(&self) -> Option<DocumentId> {
        self.at
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        self.at = first_match(self.at, id, |from| {
            let words = &mut self.words;
            let document = agreed(words.len(), from, |number, id| words[number].1.seek(rows, id))?;
            Some((document, self.is_at(rows, document)))
        });
        self.at
    }
}

impl Phrase {
    /// Returns true if the words of a document are in the places of the phrase.
    fn is_at(&mut self, rows: &mut dyn Rows, id: DocumentId) -> bool {
        let last = self.last;
        let starts = |(place, walk): &(u32, TermWalk)| ends_of(last - place, walk);
        let words: Vec<Vec<u32>> = self.words.iter().map(starts).collect();
        self.frequency = phrases::count(&words, self.slop);
        if self.frequency == 0 {
            return false;
        }
        let Some((place, suffixes)) = &mut self.suffixes else {
            return true;
        };
        let starts = phrases::starts(&words);
        suffixes.iter_mut().any(|walk| {
            walk.seek(rows, id) == Some(id) && {
                let behind = ends_of(last - *place, walk);
                starts.iter().any(|start| behind.binary_search(start).is_ok())
            }
        })
    }

    /// One word followed by the prefix of another scores like a pattern.
    fn score(&self, lengths: &Lengths) -> f32 {
        match self.suffixes.is_some() && self.words.len() == 1 {
            true => 1.0,
            false => self.worth.score(self.frequency, length_of(lengths, self.field)),
        }
    }
}

/// The end positions of a phrase, from the positions of one of its words and the number of places
/// after it.
fn ends_of(following: u32, walk: &TermWalk) -> Vec<u32> {
    let mut positions = Vec::new();
    walk.add_positions(&mut positions);
    positions
        .iter_mut()
        .for_each(|position| *position = position.saturating_add(following));
    positions
}

impl DocSet for Boolean {
    fn doc(&self) -> Option<DocumentId> {
        self.at
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        if self.at.is_some_and(|at| at >= id) {
            return self.at;
        }
        self.at = first_match(None, id, |from| {
            let document = self.candidate(rows, from)?;
            let mut excluded = self.must_not.iter_mut();
            let is_excluded = excluded.any(|walker| walker.seek(rows, document) == Some(document));
            Some((document, !is_excluded))
        });
        if let (Some(at), false) = (self.at, self.must.is_empty()) {
            self.should.iter_mut().for_each(|walker| _ = walker.seek(rows, at));
        }
        self.at
    }
}

impl Boolean {
    /// The first document at or after `id` that all of `must` match, or one of `should`.
    fn candidate(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        if self.must.is_empty() {
            let documents = self.should.iter_mut().filter_map(|walker| walker.seek(rows, id));
            return documents.min();
        }
        agreed(self.must.len(), id, |number, id| self.must[number].seek(rows, id))
    }

    fn score(&self, lengths: &Lengths) -> f32 {
        let of = |walkers: &[Walker]| {
            let present = walkers.iter().filter(|walker| walker.doc() == self.at);
            present.map(|walker| walker.score(lengths)).sum::<f32>()
        };
        of(&self.must) + of(&self.should)
    }
}
