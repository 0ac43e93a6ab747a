//! The terms of an index at one snapshot: their document counts and occurrences.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::error::SearchError;
use crate::index::doc_sets::TermWalk;
use crate::index::document::DocumentRow;
use crate::index::layout::{after, term_row};
use crate::index::postings::{Posting, Walk, documents_of};
use crate::index::{State, gone_with_terms, unsettled_documents};
use crate::rows::{DocumentId, Rows};
use crate::upstash::automata::{Automaton, Compared};
use crate::upstash::request::Clause;

/// The terms of a search in documents that are unsettled or removed.
#[derive(Default)]
pub struct Terms {
    gone_ids: Rc<BTreeSet<DocumentId>>,
    /// Terms of removed but unsettled documents, with their document counts.
    gone: BTreeMap<Vec<u8>, u64>,
    /// Terms of documents that are not settled.
    fresh: BTreeMap<Vec<u8>, Vec<Posting>>,
}

/// The terms and patterns that a clause looks for.
#[derive(Default)]
struct Asked {
    terms: BTreeSet<Vec<u8>>,
    patterns: Vec<(u16, Automaton)>,
}

impl Asked {
    fn add(&mut self, clause: &Clause) {
        match clause {
            Clause::All | Clause::Nothing | Clause::Equal { .. } | Clause::Range { .. } => {}
            Clause::Term { field, word } => _ = self.terms.insert(Clause::term(*field, word)),
            Clause::Phrase {
                field, words, prefix, ..
            } => {
                self.terms
                    .extend(words.iter().map(|(_, word)| Clause::term(*field, word)));
                let prefix = prefix
                    .iter()
                    .map(|(_, prefix)| (*field, Automaton::Prefix(prefix.clone())));
                self.patterns.extend(prefix);
            }
            Clause::Pattern { field, automaton } => self.patterns.push((*field, automaton.clone())),
            Clause::Boolean { must, should, must_not } => {
                [must, should, must_not]
                    .into_iter()
                    .flatten()
                    .for_each(|clause| self.add(clause));
            }
            Clause::Boost(_, clause) => self.add(clause),
        }
    }

    fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.patterns.is_empty()
    }

    fn takes(&self, term: &[u8]) -> bool {
        let automaton_of_field = |(field, _): &&(u16, Automaton)| term.starts_with(&field.to_be_bytes());
        let mut patterns = self.patterns.iter().filter(automaton_of_field);
        self.terms.contains(term) || patterns.any(|(_, automaton)| automaton.matches(&term[2..]))
    }
}

impl Terms {
    /// The terms that a clause looks for. Reads no document if it looks for none.
    pub fn read(rows: &mut dyn Rows, state: &State, clause: &Clause) -> Terms {
        let mut needs = Asked::default();
        needs.add(clause);
        if needs.is_empty() {
            return Terms::default();
        }
        let mut gone_ids = BTreeSet::new();
        let (mut removed, mut fresh) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for (id, row) in gone_with_terms(rows, usize::MAX) {
            gone_ids.insert(id);
            DocumentRow::read(&row).terms(|term, _| {
                if needs.takes(term) {
                    *removed.entry(term.to_vec()).or_default() += 1;
                }
            });
        }
        for (id, row) in unsettled_documents(rows, state, usize::MAX) {
            DocumentRow::read(&row).terms(|term, at| {
                if needs.takes(term) {
                    let occurrences = at.to_owned();
                    fresh
                        .entry(term.to_vec())
                        .or_default()
                        .push(Posting { id, occurrences });
                }
            });
        }
        Terms {
            gone_ids: Rc::new(gone_ids),
            gone: removed,
            fresh,
        }
    }

    /// The number of documents with the term.
    pub fn documents(&self, rows: &mut dyn Rows, term: &[u8]) -> u64 {
        let row = rows.get(&term_row(term));
        let settled = row.map_or(0, |row| u64::from(documents_of(&row)));
        let removed = self.gone.get(term).copied().unwrap_or(0);
        let fresh = self.fresh.get(term).map_or(0, Vec::len) as u64;
        settled - removed + fresh
    }

    /// Walks the documents that have the term.
    pub fn walk(&self, rows: &mut dyn Rows, term: &[u8]) -> TermWalk {
        let settled = Walk::new(term, rows.get(&term_row(term)).unwrap_or_default());
        let fresh = self.fresh.get(term).cloned().unwrap_or_default();
        TermWalk::new(settled, self.gone_ids.clone(), Rc::new(fresh))
    }

    /// The terms of a field that a pattern matches, in byte order.
    pub fn matching(
        &self,
        rows: &mut dyn Rows,
        field: u16,
        automaton: &Automaton,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u8>>, SearchError> {
        let from = Clause::term(field, automaton.literal());
        let mut terms: Vec<Vec<u8>> = Vec::new();
        let fresh = self.fresh.range(from.clone()..).map(|(term, _)| term);
        let fresh = fresh.take_while(|term| term.starts_with(&from));
        terms.extend(fresh.filter(|term| automaton.matches(&term[2..])).cloned());
        let (mut start, end) = (term_row(&from), after(&term_row(&from)));
        loop {
            let mut skip = None;
            rows.scan(&start, &end, &mut |key, _| {
                let term = &key[1..];
                match automaton.compare(&term[2..]) {
                    Compared::Matches => terms.push(term.to_vec()),
                    Compared::Differs => {}
                    Compared::Dead(bytes) => skip = Some(after(&key[..3 + bytes])),
                }
                match skip.is_none() && !is_over() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            if is_over() {
                return Err(SearchError::Timeout);
            }
            match skip {
                Some(next) => start = next,
                None => break,
            }
        }
        terms.sort();
        terms.dedup();
        Ok(terms)
    }
}
