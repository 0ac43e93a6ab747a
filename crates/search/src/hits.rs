//! The answer to a search, for both query engines: its hits, and how they are ordered.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::index::document::Sortable;
use crate::rows::DocumentId;
use crate::top_k::{self, Rank};

/// A document that matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hit {
    /// Its id in the index.
    pub id: DocumentId,
    /// Its key.
    pub key: Vec<u8>,
    /// How well it matches.
    pub score: f64,
    /// The distance of its vector, for a query by nearness.
    pub distance: Option<f64>,
    /// The distances of its vectors for ranges, by the names that the query gives them.
    pub range_distances: Vec<(String, f64)>,
    /// The value that it was sorted by.
    pub sorted_by: Option<Sortable>,
    /// The places of the query's words, on request.
    pub places: Vec<Place>,
    /// The explanation of the score, on request.
    pub explanation: Option<Explanation>,
}

impl Hit {
    pub(crate) fn new(id: DocumentId, key: Vec<u8>, score: f64) -> Hit {
        Hit {
            id,
            key,
            score,
            ..Hit::default()
        }
    }

    /// Compares by the values that hits are sorted by, and hits with equal values by their keys.
    /// Hits without a value are last in both directions.
    pub fn by_value(&self, other: &Hit, ascends: bool) -> Ordering {
        let values = (self.sorted_by.as_ref(), other.sorted_by.as_ref());
        let order = top_k::by_value(values.0, values.1, ascends, Sortable::compare);
        order.then_with(|| self.key.cmp(&other.key))
    }
}

/// The answer to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The number of matching documents. Exact.
    pub total: u64,
    /// The requested hits, the best first.
    pub hits: Vec<Hit>,
    /// The steps that found them, if a clock was given.
    pub steps: Option<Step>,
}

/// The place of a query's word in a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The position among the document's words.
    pub position: u32,
    /// The term.
    pub term: Arc<[u8]>,
    /// How many documents have it.
    pub documents: u64,
}

/// A part of a score, and the parts that it is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The worth of the part, and why.
    pub text: String,
    /// Its parts.
    pub parts: Vec<Explanation>,
}

impl Explanation {
    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(Explanation::size);
        size_of::<Explanation>() + self.text.len() + parts.sum::<usize>()
    }
}

/// One condition of a search as it was executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The original's word for it.
    pub kind: &'static str,
    /// The kind of alternatives of a union.
    pub united: Option<String>,
    /// The term, range or field of the condition, after the original's word for it.
    pub about: Option<(&'static str, Vec<u8>)>,
    /// Its duration, including its children.
    pub micros: u64,
    /// The number of documents that it found.
    pub reads: u64,
    /// The number of its documents, if that is known.
    pub size: Option<u64>,
    /// The original's word for how vectors were compared.
    pub mode: Option<&'static str>,
    /// The conditions below it.
    pub children: Vec<Step>,
    /// There is never more than one child.
    pub has_one_child: bool,
}

/// The order of candidates; equal candidates are ordered by key.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Score,
    Value { ascends: bool },
}

/// A hit to be ranked.
pub(crate) struct Candidate {
    pub order: Order,
    pub hit: Hit,
}

impl Rank for Candidate {
    fn rank(&self, other: &Candidate) -> Ordering {
        let (a, b) = (&self.hit, &other.hit);
        match self.order {
            Order::Value { ascends } => a.by_value(b, ascends),
            Order::Score => b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)),
        }
    }
}
