//! Walks the matches of a condition in the order of their ids.
//!
//! A matcher stands at one document; [`Matcher::seek`] moves it on to the first match at or after
//! an id, and never back. Children of a matcher that stand where it stands take part in the match,
//! for its score and the positions of its words.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hits::Place;
use crate::index::doc_sets::{DocSet, IdRows, Ids, TermWalk, agreed, first_from, first_match};
use crate::index::schema::FieldMask;
use crate::redis::execute::proximity;
use crate::redis::execute::watch::Watched;
use crate::rows::{DocumentId, Rows};

pub(super) enum Matcher {
    Empty,
    /// Every document.
    All(IdRows, f64),
    Words(Box<Words>),
    /// Documents that rows name: as those of a term if they count as such.
    Rows {
        rows: IdRows,
        term: Option<Term>,
        weight: f64,
    },
    Ids(Ids),
    /// Documents with near vectors, with the distances, and the name of the distance.
    Near {
        near: Vec<(DocumentId, f64)>,
        next: usize,
        name: Option<String>,
    },
    Every(Box<Every>),
    Any {
        children: Vec<Matcher>,
        /// The current document of each child; the highest id after its end.
        stands: Vec<DocumentId>,
        at: Option<DocumentId>,
        weight: f64,
        /// Alternatives that the query writes, not the terms of a pattern.
        is_written: bool,
    },
    Not {
        all: IdRows,
        child: Box<Matcher>,
    },
    Optional {
        all: IdRows,
        child: Box<Matcher>,
    },
    /// Another matcher, whose steps are counted and timed.
    Watched(Box<Watched>),
}

/// A term and how many documents have it.
#[derive(Clone)]
pub(super) struct Term {
    pub text: Vec<u8>,
    pub documents: u64,
}

pub(super) struct Every {
    pub children: Vec<Matcher>,
    pub weight: f64,
    slop: Option<u32>,
    in_order: bool,
    at: Option<DocumentId>,
    /// The children by their numbers, that with the fewest documents first.
    rarest_first: Vec<usize>,
    /// For each child the first that is the same word: their positions are kept once, as a phrase
    /// may repeat one word hundreds of times.
    same_as: Vec<usize>,
    /// Where the words of each child stand, of the last document that was looked at. Empty for one
    /// that is the same as another.
    positions: Vec<Vec<u32>>,
    /// The positions of a document were too many to be looked at.
    is_too_large: bool,
}

/// Most positions of one document that a phrase, or words that stand near each other, look at.
const POSITIONS_MAX: usize = 4 << 20;

impl Matcher {
    pub fn all(weight: f64) -> Matcher {
        Matcher::All(IdRows::of_documents(), weight)
    }

    pub fn of_rows(rows: IdRows, term: Option<Term>, weight: f64) -> Matcher {
        Matcher::Rows { rows, term, weight }
    }

    /// Nothing matches.
    pub fn is_empty(&self) -> bool {
        match self {
            Matcher::Empty => true,
            Matcher::Watched(watched) => watched.matcher.is_empty(),
            _ => false,
        }
    }

    /// The matcher that is watched.
    pub fn seen_through(&self) -> &Matcher {
        match self {
            Matcher::Watched(watched) => watched.matcher.seen_through(),
            other => other,
        }
    }

    /// Ids in any order.
    pub fn of_ids(ids: Vec<DocumentId>) -> Matcher {
        Matcher::Ids(Ids::new(ids))
    }

    /// Ids that ascend, each with a distance.
    pub fn near(near: Vec<(DocumentId, f64)>, name: Option<String>) -> Matcher {
        Matcher::Near { near, next: 0, name }
    }

    pub fn any(mut children: Vec<Matcher>, is_written: bool, weight: f64) -> Matcher {
        children.retain(|child| !child.is_empty());
        match children.is_empty() {
            true => Matcher::Empty,
            false => Matcher::Any {
                stands: vec![0; children.len()],
                children,
                at: None,
                weight,
                is_written,
            },
        }
    }

    pub fn every(mut children: Vec<Matcher>, slop: Option<u32>, in_order: bool, weight: f64) -> Matcher {
        match children.len() {
            _ if children.iter().any(Matcher::is_empty) => Matcher::Empty,
            0 => Matcher::Empty,
            1 => children.remove(0),
            _ => Matcher::Every(Box::new(Every {
                rarest_first: rarest_first(&children),
                same_as: same_words(&children),
                positions: vec![Vec::new(); children.len()],
                is_too_large: false,
                children,
                weight,
                slop,
                in_order,
                at: None,
            })),
        }
    }

    pub fn not(child: Matcher) -> Matcher {
        Matcher::Not {
            all: IdRows::of_documents(),
            child: Box::new(child),
        }
    }

    pub fn optional(child: Matcher) -> Matcher {
        Matcher::Optional {
            all: IdRows::of_documents(),
            child: Box::new(child),
        }
    }

    /// It lists documents without more about each, so [`Matcher::restrict`] may shorten the list.
    pub fn lists_ids(&self) -> bool {
        matches!(self, Matcher::Rows { .. } | Matcher::Ids(_))
    }

    /// Takes the ids of a matcher that lists ids, ascending, before any of them is visited: the
    /// caller must call [`Matcher::restrict`] next. None if it lists no ids.
    pub fn take_ids(&mut self, rows: &mut dyn Rows) -> Vec<DocumentId> {
        match self {
            Matcher::Rows { rows: id_rows, .. } => id_rows.take_all(rows),
            Matcher::Ids(ids) => ids.take_all(),
            _ => Vec::new(),
        }
    }

    /// Limits a matcher that lists ids to these ids, which ascend and all match. Must be called
    /// before the first seek.
    pub fn restrict(&mut self, ids: &[DocumentId]) {
        match self {
            Matcher::Rows { rows, .. } => *rows = IdRows::of_ids(ids.to_vec()),
            Matcher::Ids(list) => *list = Ids::new(ids.to_vec()),
            _ => {}
        }
    }

    /// Adds the distances that have a name and take part in the match at `id`.
    pub fn add_distances(&self, id: DocumentId, distances: &mut Vec<(String, f64)>) {
        if self.doc() != Some(id) {
            return;
        }
        match self {
            Matcher::Near {
                near,
                next,
                name: Some(name),
            } => distances.push((name.clone(), near[*next].1)),
            Matcher::Every(every) => every
                .children
                .iter()
                .for_each(|child| child.add_distances(id, distances)),
            Matcher::Any { children, .. } => children.iter().for_each(|child| child.add_distances(id, distances)),
            Matcher::Optional { child, .. } => child.add_distances(id, distances),
            Matcher::Watched(watched) => watched.matcher.add_distances(id, distances),
            _ => {}
        }
    }

    /// A document was passed over because looking at it would have taken too much memory.
    pub fn is_too_large(&self) -> bool {
        match self {
            Matcher::Every(every) => every.is_too_large || every.children.iter().any(Matcher::is_too_large),
            Matcher::Any { children, .. } => children.iter().any(Matcher::is_too_large),
            Matcher::Not { child, .. } | Matcher::Optional { child, .. } => child.is_too_large(),
            Matcher::Watched(watched) => watched.matcher.is_too_large(),
            _ => false,
        }
    }

    /// Adds where the words stand that take part in the match at `id`.
    pub fn add_places(&self, id: DocumentId, places: &mut Vec<Place>) {
        if self.doc() != Some(id) {
            return;
        }
        match self {
            Matcher::Words(words) => {
                let (mut positions, term) = (Vec::new(), Arc::<[u8]>::from(&*words.term));
                words.walk.add_positions(&mut positions);
                places.extend(positions.into_iter().map(|position| Place {
                    position,
                    term: term.clone(),
                    documents: words.documents,
                }));
            }
            Matcher::Every(every) => every.children.iter().for_each(|child| child.add_places(id, places)),
            Matcher::Any { children, .. } => children.iter().for_each(|child| child.add_places(id, places)),
            Matcher::Optional { child, .. } => child.add_places(id, places),
            Matcher::Watched(watched) => watched.matcher.add_places(id, places),
            _ => {}
        }
    }

    /// Adds the positions of the words that take part in the match at `id`, ascending. Returns
    /// false if it has no words.
    pub fn add_positions(&self, id: DocumentId, positions: &mut Vec<u32>) -> bool {
        if self.doc() != Some(id) {
            return false;
        }
        match self {
            Matcher::Words(words) => {
                words.walk.add_positions(positions);
                true
            }
            Matcher::Every(every) => add_merged(&every.children, id, positions),
            Matcher::Any { children, .. } => add_merged(children, id, positions),
            Matcher::Optional { child, .. } => child.add_positions(id, positions),
            Matcher::Watched(watched) => watched.matcher.add_positions(id, positions),
            _ => false,
        }
    }
}

impl DocSet for Matcher {
    fn doc(&self) -> Option<DocumentId> {
        match self {
            Matcher::Empty => None,
            Matcher::All(rows, _) | Matcher::Rows { rows, .. } => rows.doc(),
            Matcher::Words(words) => words.walk.doc(),
            Matcher::Ids(ids) => ids.doc(),
            Matcher::Near { near, next, .. } => near.get(*next).map(|(id, _)| *id),
            Matcher::Every(every) => every.at,
            Matcher::Any { at, .. } => *at,
            Matcher::Not { all, .. } | Matcher::Optional { all, .. } => all.doc(),
            Matcher::Watched(watched) => watched.matcher.doc(),
        }
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        match self {
            Matcher::Empty => None,
            Matcher::All(all, _) => all.seek(rows, id),
            Matcher::Rows { rows: id_rows, .. } => id_rows.seek(rows, id),
            Matcher::Words(words) => words.seek(rows, id),
            Matcher::Near { near, next, .. } => {
                *next = first_from(near, *next, |(other, _)| *other < id);
                near.get(*next).map(|(id, _)| *id)
            }
            Matcher::Ids(ids) => ids.seek(rows, id),
            Matcher::Every(every) => every.seek(rows, id),
            Matcher::Any {
                children, stands, at, ..
            } => {
                let mut least = DocumentId::MAX;
                for (child, stands) in children.iter_mut().zip(stands) {
                    if *stands < id {
                        *stands = child.seek(rows, id).unwrap_or(DocumentId::MAX);
                    }
                    least = least.min(*stands);
                }
                *at = (least < DocumentId::MAX).then_some(least);
                *at
            }
            Matcher::Not { all, child } => loop {
                let candidate = all.seek(rows, id.max(all.doc().unwrap_or(0)))?;
                if child.seek(rows, candidate) != Some(candidate) {
                    return Some(candidate);
                }
                all.pass();
            },
            Matcher::Optional { all, child } => {
                let candidate = all.seek(rows, id)?;
                child.seek(rows, candidate);
                Some(candidate)
            }
            Matcher::Watched(watched) => watched.seek(rows, id),
        }
    }
}

fn add_merged(children: &[Matcher], id: DocumentId, positions: &mut Vec<u32>) -> bool {
    let before = positions.len();
    let with_words = children.iter().filter(|child| child.add_positions(id, positions));
    let has_words = with_words.count() > 0;
    positions[before..].sort_unstable();
    has_words
}

/// For each child the first that is the same word of the same fields.
fn same_words(children: &[Matcher]) -> Vec<usize> {
    let mut firsts: HashMap<(&[u8], FieldMask), usize> = HashMap::new();
    let first_of = |(number, child): (usize, _)| match Matcher::seen_through(child) {
        Matcher::Words(words) => *firsts.entry((&words.term, words.fields)).or_insert(number),
        _ => number,
    };
    children.iter().enumerate().map(first_of).collect()
}

fn rarest_first(children: &[Matcher]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..children.len()).collect();
    order.sort_by_key(|child| children[*child].documents());
    order
}

impl DocSet for Every {
    fn doc(&self) -> Option<DocumentId> {
        self.at
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        self.at = first_match(self.at, id, |from| {
            let (order, children) = (&self.rarest_first, &mut self.children);
            let document = agreed(order.len(), from, |number, id| children[order[number]].seek(rows, id))?;
            Some((document, self.is_in_range(document)))
        });
        self.at
    }
}

impl Every {
    /// Returns true if words must be close to each other, or in order.
    pub fn has_order(&self) -> bool {
        self.slop.is_some() || self.in_order
    }

    fn is_in_range(&mut self, id: DocumentId) -> bool {
        if !self.has_order() {
            return true;
        }
        let (mut with_words, mut count) = (Vec::with_capacity(self.children.len()), 0);
        for (number, child) in self.children.iter().enumerate() {
            let first = self.same_as[number];
            if first < number {
                with_words.push(first);
                continue;
            }
            let list = &mut self.positions[number];
            list.clear();
            if child.add_positions(id, list) {
                with_words.push(number);
            }
            count += list.len();
            if count > POSITIONS_MAX {
                self.is_too_large = true;
                self.positions.iter_mut().for_each(|list| *list = Vec::new());
                return false;
            }
        }
        let lists: Vec<&[u32]> = with_words.iter().map(|number| &*self.positions[*number]).collect();
        proximity::are_within(&lists, self.slop, self.in_order)
    }
}

/// The documents that have a term, in some fields.
pub(super) struct Words {
    pub term: Vec<u8>,
    /// How many have it in any field.
    pub documents: u64,
    pub weight: f64,
    pub fields: FieldMask,
    pub walk: TermWalk,
}

impl DocSet for Words {
    fn doc(&self) -> Option<DocumentId> {
        self.walk.doc()
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        first_match(None, id, |from| {
            let document = self.walk.seek(rows, from)?;
            Some((document, self.walk.fields() & self.fields != 0))
        })
    }
}
