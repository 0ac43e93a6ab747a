//! Vector sets: elements with a vector each, and the search for the nearest.
//!
//! A set is the rows below its prefix, drawn in [`rows`], and a [`Head`] that its owner keeps. A
//! search sees every element that was added, whether it has its place in the graph or still waits
//! for it ([`linking`]). Vectors are compared by their angle; forms, distances and conditions are
//! those of Redis' vector sets:
//! <https://redis.io/docs/latest/develop/data-types/vector-sets/>.

mod attributes;
pub mod codec;
pub mod filter;
mod graph;
mod head;
pub mod linking;
pub mod portable;
mod rows;

use self::codec::Coded;
use self::filter::Filter;
use self::graph::{Graph, Near, Wanted};
use self::rows::{Levels, attributes_row, effort_row, links_row, read_levels, vector_row};
use crate::rows::{Rows, WriteRows};
use crate::vectors::hnsw::walk::Nearest;

pub use self::head::{Head, LINKS_MAX, LINKS_MIN, Linking};
pub use self::rows::{GRAPH, Id, MEMBERS_RANGE, NODES, VECTORS, find, member_row};

/// Returns the projection of a vector of `projected_from` components.
pub fn projected(rows: &mut dyn Rows, head: &Head, vector: &[f32]) -> Vec<f32> {
    let matrix = if head.has_matrix { rows.get(rows::MATRIX) } else { None };
    match head.projection() {
        Some(projection) => projection.apply(vector, matrix.as_deref()),
        None => vector.to_vec(),
    }
}

/// Sets an element's vector, which has the set's dimensions and finite components, and its
/// attributes, if given: empty attributes remove the old attributes. `effort` is the number of
/// candidates in the search for neighbours. Returns true if the element is new.
pub fn add(
    rows: &mut dyn WriteRows,
    head: &mut Head,
    element: &[u8],
    vector: &[f32],
    attributes: Option<&[u8]>,
    effort: usize,
) -> bool {
    let old = find(rows, element);
    let previous = old.and_then(|id| take(rows, head, id));
    head.last_id += 1;
    let id = head.last_id;
    rows.set(&member_row(element), &id.to_be_bytes());
    rows.set(&vector_row(id), &Coded::of(vector, head.quantization).to_row(element));
    let attributes = attributes.map(<[u8]>::to_vec).or(previous);
    if let Some(attributes) = attributes.filter(|attributes| !attributes.is_empty()) {
        rows.set(&attributes_row(id), &attributes);
        head.with_attributes += 1;
    }
    head.count += 1;
    linking::take_in(rows, head, element, effort.max(head.links));
    old.is_none()
}

/// Removes an element. False if there is none.
pub fn remove(rows: &mut dyn WriteRows, head: &mut Head, element: &[u8]) -> bool {
    let Some(id) = find(rows, element) else { return false };
    take(rows, head, id);
    rows.clear(&member_row(element));
    true
}

/// Takes out all of an element but its name. Returns its attributes.
fn take(rows: &mut dyn WriteRows, head: &mut Head, id: Id) -> Option<Vec<u8>> {
    if head.waits(id) {
        if rows.show(&effort_row(id), &mut |_| {}) {
            rows.clear(&effort_row(id));
        }
    } else {
        let mut graph = Graph::new(rows, *head);
        head.entry = graph.remove(id);
        let changes = graph.changes();
        graph::write(rows, changes);
        head.note_change(rows);
    }
    rows.clear(&vector_row(id));
    let attributes = attributes_of(rows, id);
    if attributes.is_some() {
        rows.clear(&attributes_row(id));
        head.with_attributes -= 1;
    }
    head.count -= 1;
    attributes
}

/// Sets an element's attributes; empty attributes remove them. Returns false if there is no such
/// element.
pub fn set_attributes(rows: &mut dyn WriteRows, head: &mut Head, element: &[u8], attributes: &[u8]) -> bool {
    let Some(id) = find(rows, element) else { return false };
    let had = rows.show(&attributes_row(id), &mut |_| {});
    match attributes.is_empty() {
        true => rows.clear(&attributes_row(id)),
        false => rows.set(&attributes_row(id), attributes),
    }
    head.with_attributes -= u64::from(had);
    head.with_attributes += u64::from(!attributes.is_empty());
    true
}

/// Returns the attributes of an element.
pub fn attributes_of(rows: &mut dyn Rows, id: Id) -> Option<Vec<u8>> {
    rows.get(&attributes_row(id))
}

/// Returns a vector as it is stored, with the element's name.
pub fn vector_of(rows: &mut dyn Rows, head: &Head, id: Id) -> (Coded, Vec<u8>) {
    let row = rows.get(&vector_row(id)).expect("an element has a vector");
    let (coded, element) = Coded::split(&row, head.code_bytes());
    (coded, element.to_vec())
}

fn element_of(rows: &mut dyn Rows, head: &Head, id: Id) -> Vec<u8> {
    let mut element = Vec::new();
    rows.show(&vector_row(id), &mut |row| {
        element = row[codec::SCALES_BYTES + head.code_bytes()..].to_vec();
    });
    element
}

/// The links of an element's node with the distances to their ends, the highest level first. For an
/// element that waits, these are the links that it would get now.
pub fn links_of(rows: &mut dyn Rows, head: &Head, id: Id) -> Vec<Vec<(Vec<u8>, f32)>> {
    let own = rows.get(&vector_row(id)).expect("an element has a vector");
    let levels = match head.waits(id) {
        false => levels_of(rows, id),
        true => {
            let (element, effort) = (element_of(rows, head, id), linking::effort_of(rows, head, id));
            let mut graph = Graph::new(rows, *head);
            graph.insert(id, graph::level_of(id, &element), effort);
            graph.into_levels(id)
        }
    };
    let mut attributes = Vec::new();
    for links in levels.iter().rev() {
        let ends = links.iter().map(|other| {
            let row = rows.get(&vector_row(*other)).expect("a link leads to a vector");
            let distance = codec::distance(head.quantization, head.dimensions, &own, &row);
            (row[codec::SCALES_BYTES + head.code_bytes()..].to_vec(), distance)
        });
        attributes.push(ends.collect());
    }
    attributes
}

fn levels_of(rows: &mut dyn Rows, id: Id) -> Levels {
    let mut levels = Levels::new();
    rows.show(&links_row(id), &mut |row| levels = read_levels(row));
    levels
}

/// Returns the highest level of a set's graph.
pub fn highest_level(rows: &mut dyn Rows, head: &Head) -> usize {
    levels_of(rows, head.entry).len().saturating_sub(1)
}

/// A search.
#[derive(Clone, Debug)]
pub struct Query<'q> {
    /// The vector to search for, which has the set's dimensions.
    pub vector: &'q [f32],
    /// At most this many hits.
    pub count: usize,
    /// The number of candidates that a search keeps.
    pub effort: usize,
    /// Limits the hits to elements whose attributes pass this filter.
    pub filter: Option<&'q Filter>,
    /// A search with a filter examines at most this many nodes.
    pub looked_at_max: u64,
    /// Compare with all vectors instead of following the graph.
    pub is_exact: bool,
}

impl Query<'_> {
    /// The approximate upper bound on the comparisons of a search.
    pub fn compared(&self, head: &Head) -> u64 {
        let effort = self.effort.max(self.count) as u64;
        let nodes = match self.filter {
            None => effort,
            Some(_) => effort.max(self.looked_at_max),
        };
        // The lowest level has twice as many links.
        let linked = nodes.saturating_mul(2 * head.links as u64);
        match self.is_exact {
            true => head.count,
            false => linked.saturating_add(head.waiting_max()).min(head.count),
        }
    }
}

/// An element near the query.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbor {
    /// The element's number.
    pub id: Id,
    /// The element's name.
    pub element: Vec<u8>,
    /// Zero for the direction of the query, 2 for the opposite one.
    pub distance: f32,
}

/// Returns the elements with the nearest vectors, the nearest first; equally near elements in the
/// order of their insertion.
pub fn search(rows: &mut dyn Rows, head: &Head, query: &Query<'_>) -> Vec<Neighbor> {
    let vector = Coded::of(query.vector, head.quantization).to_row(b"");
    let finds_all = query.count as u64 >= head.count && query.filter.is_none();
    let mut near = match query.is_exact || finds_all {
        true => nearest_from(rows, head, 0, &vector, query),
        false => nearest_by_graph(rows, head, &vector, query),
    };
    // Vectors that are all alike may end up in parts that no link joins.
    let is_cut_short = (near.len() as u64) < head.count.min(query.count as u64);
    if is_cut_short && query.filter.is_none() {
        near = nearest_from(rows, head, 0, &vector, query);
    }
    near.truncate(query.count);
    let neighbor = |near: Near| Neighbor {
        id: near.id,
        element: element_of(rows, head, near.id),
        distance: near.distance as f32,
    };
    near.into_iter().map(neighbor).collect()
}

/// The nearest nodes of the graph, and the elements that wait.
fn nearest_by_graph(rows: &mut dyn Rows, head: &Head, vector: &[u8], query: &Query<'_>) -> Vec<Near> {
    let wanted = match query.filter {
        None => Wanted::All,
        Some(filter) => Wanted::Passing {
            filter,
            looked_at_max: query.looked_at_max,
        },
    };
    let mut near = match head.entry {
        0 => Vec::new(),
        _ => Graph::new(rows, *head).nearest(vector, query.effort.max(query.count), wanted),
    };
    if let Some(linking) = head.linking {
        near.extend(nearest_from(rows, head, linking.reached + 1, vector, query));
        near.sort_unstable();
    }
    near
}

/// The nearest of all elements with this id or a greater one.
fn nearest_from(rows: &mut dyn Rows, head: &Head, first: Id, vector: &[u8], query: &Query<'_>) -> Vec<Near> {
    let mut nearest = Nearest::new(query.count);
    let mut all = Vec::new();
    rows::each_vector(rows, first, &mut |id, row| {
        let distance = codec::distance(head.quantization, head.dimensions, vector, row).into();
        let near = Near { distance, id };
        match query.filter {
            None => nearest.add(near),
            Some(_) => all.push(near),
        }
    });
    if let Some(filter) = query.filter {
        for near in all {
            if nearest.has_room_for(&near) && graph::passes(rows, filter, near.id) {
                nearest.add(near);
            }
        }
    }
    nearest.into_sorted()
}

#[cfg(test)]
mod tests;
