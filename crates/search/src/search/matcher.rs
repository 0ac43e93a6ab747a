//! Walks the matches of a condition in the order of their ids.
//!
//! A matcher stands at one document; [`Matcher::seek`] moves it on to the first match at or after
//! an id, and never back. Children of a matcher that stand where it stands take part in the match,
//! for its score and the positions of its words.

use crate::layout::DocumentId;
use crate::rows::Rows;
use crate::schema::FieldMask;
use crate::search::proximity;
use crate::search::watch::Watched;
use crate::walking::{IdRows, Ids, TermWalk, agreed, first_from};

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

/// The place of a query's word in a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The position among the document's words.
    pub position: u32,
    /// The term.
    pub term: Vec<u8>,
    /// How many documents have it.
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
    /// Where the words of each child stand; of the last document that was looked at.
    positions: Vec<Vec<u32>>,
}

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

    pub fn every(mut children: Vec<Matcher>, (slop, in_order): (Option<u32>, bool), weight: f64) -> Matcher {
        match children.len() {
            _ if children.iter().any(Matcher::is_empty) => Matcher::Empty,
            0 => Matcher::Empty,
            1 => children.remove(0),
            _ => Matcher::Every(Box::new(Every {
                rarest_first: rarest_first(&children),
                positions: Vec::new(),
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
            Matcher::Rows { rows: of_value, .. } => of_value.take_all(rows),
            Matcher::Ids(ids) => ids.take_all(),
            _ => Vec::new(),
        }
    }

    /// Limits a matcher that lists ids to these ids, which ascend and all match. Must be called
    /// before the first seek.
    pub fn restrict(&mut self, ids: &[DocumentId]) {
        match self {
            Matcher::Rows { rows, .. } => *rows = IdRows::of_ids(ids.to_vec()),
            Matcher::Ids(of_list) => *of_list = Ids::new(ids.to_vec()),
            _ => {}
        }
    }

    /// The current document.
    pub fn at(&self) -> Option<DocumentId> {
        match self {
            Matcher::Empty => None,
            Matcher::All(rows, _) | Matcher::Rows { rows, .. } => rows.at(),
            Matcher::Words(words) => words.walk.at(),
            Matcher::Ids(ids) => ids.at(),
            Matcher::Near { near, next, .. } => near.get(*next).map(|(id, _)| *id),
            Matcher::Every(every) => every.at,
            Matcher::Any { at, .. } => *at,
            Matcher::Not { all, .. } | Matcher::Optional { all, .. } => all.at(),
            Matcher::Watched(watched) => watched.matcher.at(),
        }
    }

    /// Moves to the first match at or after `id`.
    pub fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        match self {
            Matcher::Empty => None,
            Matcher::All(all, _) => all.seek(rows, id),
            Matcher::Rows { rows: of_value, .. } => of_value.seek(rows, id),
            Matcher::Words(words) => words.seek(rows, id),
            Matcher::Near { near, next, .. } => {
                *next = first_from(near, *next, |(other, _)| *other < id);
                near.get(*next).map(|(id, _)| *id)
            }
            Matcher::Ids(ids) => ids.seek(id),
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
                let candidate = all.seek(rows, id.max(all.at().unwrap_or(0)))?;
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

    /// Adds the distances that have a name and take part in the match at `id`.
    pub fn add_distances(&self, id: DocumentId, found: &mut Vec<(String, f64)>) {
        if self.at() != Some(id) {
            return;
        }
        match self {
            Matcher::Near {
                near,
                next,
                name: Some(name),
            } => found.push((name.clone(), near[*next].1)),
            Matcher::Every(every) => every.children.iter().for_each(|child| child.add_distances(id, found)),
            Matcher::Any { children, .. } => children.iter().for_each(|child| child.add_distances(id, found)),
            Matcher::Optional { child, .. } => child.add_distances(id, found),
            Matcher::Watched(watched) => watched.matcher.add_distances(id, found),
            _ => {}
        }
    }

    /// Adds where the words stand that take part in the match at `id`.
    pub fn add_places(&self, id: DocumentId, found: &mut Vec<Place>) {
        if self.at() != Some(id) {
            return;
        }
        match self {
            Matcher::Words(words) => {
                let mut positions = Vec::new();
                words.walk.add_positions(&mut positions);
                found.extend(positions.into_iter().map(|position| Place {
                    position,
                    term: words.term.clone(),
                    documents: words.documents,
                }));
            }
            Matcher::Every(every) => every.children.iter().for_each(|child| child.add_places(id, found)),
            Matcher::Any { children, .. } => children.iter().for_each(|child| child.add_places(id, found)),
            Matcher::Optional { child, .. } => child.add_places(id, found),
            Matcher::Watched(watched) => watched.matcher.add_places(id, found),
            _ => {}
        }
    }

    /// Adds the positions of the words that take part in the match at `id`, ascending. Returns
    /// false if it has no words.
    pub fn add_positions(&self, id: DocumentId, found: &mut Vec<u32>) -> bool {
        if self.at() != Some(id) {
            return false;
        }
        match self {
            Matcher::Words(words) => {
                words.walk.add_positions(found);
                true
            }
            Matcher::Every(every) => add_merged(&every.children, id, found),
            Matcher::Any { children, .. } => add_merged(children, id, found),
            Matcher::Optional { child, .. } => child.add_positions(id, found),
            Matcher::Watched(watched) => watched.matcher.add_positions(id, found),
            _ => false,
        }
    }
}

fn add_merged(children: &[Matcher], id: DocumentId, found: &mut Vec<u32>) -> bool {
    let before = found.len();
    let with_words = children.iter().filter(|child| child.add_positions(id, found));
    let has_words = with_words.count() > 0;
    found[before..].sort_unstable();
    has_words
}

fn rarest_first(children: &[Matcher]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..children.len()).collect();
    order.sort_by_key(|child| children[*child].documents());
    order
}

impl Every {
    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        if self.at.is_some_and(|at| at >= id) {
            return self.at;
        }
        let mut wanted = id;
        loop {
            let (order, children) = (&self.rarest_first, &mut self.children);
            self.at = agreed(order.len(), wanted, |number, id| children[order[number]].seek(rows, id));
            let at = self.at?;
            if self.is_in_range(at) {
                return Some(at);
            }
            wanted = at + 1;
        }
    }

    /// Returns true if words must be close to each other, or in order.
    pub fn has_order(&self) -> bool {
        self.slop.is_some() || self.in_order
    }

    fn is_in_range(&mut self, id: DocumentId) -> bool {
        if !self.has_order() {
            return true;
        }
        let mut lists = 0;
        for child in &self.children {
            if self.positions.len() == lists {
                self.positions.push(Vec::new());
            }
            let list = &mut self.positions[lists];
            list.clear();
            lists += usize::from(child.add_positions(id, list));
        }
        proximity::are_within(&self.positions[..lists], self.slop, self.in_order)
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

impl Words {
    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        let mut wanted = id;
        loop {
            let at = self.walk.seek(rows, wanted)?;
            if self.walk.fields() & self.fields != 0 {
                return Some(at);
            }
            wanted = at + 1;
        }
    }
}
