//! A set as a list of its elements, with the links between them: what DUMP and RDB files carry.

use std::collections::{HashMap, HashSet};

use super::codec::{Coded, Projection};
use super::graph::LEVELS_MAX;
use super::head::Head;
use super::rows::{self, Id, Levels, attributes_row, links_row, read_levels, vector_row, write_levels};
use super::{attributes_of, levels_of, linking, vector_of};
use crate::rows::{Rows, WriteRows};

/// An element with its vector, its attributes and its links.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The element's number.
    pub id: Id,
    /// The element's name.
    pub element: Vec<u8>,
    /// Empty: there are none.
    pub attributes: Vec<u8>,
    /// The vector as it is stored.
    pub coded: Coded,
    /// The ids of the nodes that it is linked to, the lowest level first; at least one level,
    /// unless it waits.
    pub levels: Vec<Vec<Id>>,
}

/// Returns the elements, the newest first, which is their order in Redis files.
pub fn nodes(rows: &mut dyn Rows, head: &Head) -> Vec<Node> {
    let mut ids = Vec::new();
    rows::each_vector(rows, 0, &mut |id, _| ids.push(id));
    let node = |id: &Id| {
        let (coded, element) = vector_of(rows, head, *id);
        Node {
            id: *id,
            element,
            attributes: attributes_of(rows, *id).unwrap_or_default(),
            coded,
            levels: levels_of(rows, *id),
        }
    };
    ids.iter().rev().map(node).collect()
}

/// Returns the elements in their state after the linking of all waiting elements, in the order of
/// [`nodes`].
pub fn nodes_linked(rows: &mut dyn Rows, head: &Head) -> Vec<Node> {
    let mut nodes = nodes(rows, head);
    let linked = linking::prepare(rows, usize::MAX).map(linking::Prepared::into_nodes);
    for node in &mut nodes {
        if let Some(Some(row)) = linked.as_ref().and_then(|linked| linked.get(&node.id)) {
            node.levels = read_levels(row);
        }
    }
    nodes
}

/// Returns the matrix of the projection; none if the set has no projection.
pub fn matrix(rows: &mut dyn Rows, head: &Head) -> Option<Vec<u8>> {
    match head.has_matrix {
        true => rows.get(rows::MATRIX),
        false => head.projection().map(Projection::matrix),
    }
}

/// Returns the distance of two vectors, for who writes it beside the links.
pub fn distance(head: &Head, first: &Coded, other: &Coded) -> f32 {
    let (first, other) = (first.to_row(b""), other.to_row(b""));
    super::codec::distance(head.quantization, head.dimensions, &first, &other)
}

/// Returns true if these nodes can form a set: no element or id is repeated, vectors have their
/// length and only finite components, and each link leads to a node of that level and back.
pub fn are_sound(head: &Head, nodes: &[Node], matrix: Option<&[u8]>) -> bool {
    if !head.is_sound() || nodes.is_empty() && !head.quantization.is_plain() {
        return false;
    }
    let is_matrix = |bytes: &[u8]| {
        let is_whole = bytes.len() == head.projected_from * head.dimensions * 4;
        is_whole && are_finite(bytes)
    };
    if matrix.is_some_and(|matrix| !is_matrix(matrix)) || matrix.is_some() != (head.projected_from > 0) {
        return false;
    }
    let elements: HashSet<&[u8]> = nodes.iter().map(|node| node.element.as_slice()).collect();
    let levels_of: HashMap<Id, &Levels> = nodes.iter().map(|node| (node.id, &node.levels)).collect();
    if elements.len() < nodes.len() || levels_of.len() < nodes.len() {
        return false;
    }
    let links: HashSet<(Id, usize, Id)> = nodes.iter().flat_map(each_link).collect();
    let count: usize = nodes.iter().flat_map(|node| &node.levels).map(Vec::len).sum();
    let is_mutual = |&(id, level, other): &(Id, usize, Id)| id != other && links.contains(&(other, level, id));
    count == links.len() && links.iter().all(is_mutual) && nodes.iter().all(|node| is_node(head, node))
}

fn each_link(node: &Node) -> impl Iterator<Item = (Id, usize, Id)> {
    let levels = node.levels.iter().enumerate();
    levels.flat_map(move |(level, links)| links.iter().map(move |other| (node.id, level, *other)))
}

/// The greatest id of a restored set: its next elements get greater ids.
const ID_MAX: Id = 1 << 56;

fn is_node(head: &Head, node: &Node) -> bool {
    let has_levels = (1..=LEVELS_MAX + 1).contains(&node.levels.len());
    let is_coded = node.coded.code.len() == head.code_bytes();
    let has_floats = head.quantization.has_floats();
    let are_numbers = node.coded.range.is_finite() && (!has_floats || are_finite(&node.coded.code));
    (1..=ID_MAX).contains(&node.id) && has_levels && is_coded && are_numbers
}

fn are_finite(floats: &[u8]) -> bool {
    let mut floats = floats.as_chunks::<4>().0.iter().map(|float| f32::from_le_bytes(*float));
    floats.all(f32::is_finite)
}

/// Makes a set of sound nodes below an empty prefix, in the order in which [`nodes`] gives them.
pub fn store(rows: &mut dyn WriteRows, head: &mut Head, nodes: &[Node], matrix: Option<&[u8]>) {
    let own = head.projection().map(Projection::matrix);
    head.has_matrix = matrix.is_some_and(|matrix| own.as_deref() != Some(matrix));
    if let Some(matrix) = matrix.filter(|_| head.has_matrix) {
        rows.set(rows::MATRIX, matrix);
    }
    let mut highest = 0;
    for node in nodes {
        rows.set(&super::member_row(&node.element), &node.id.to_be_bytes());
        rows.set(&vector_row(node.id), &node.coded.to_row(&node.element));
        rows.set(&links_row(node.id), &write_levels(&node.levels));
        if !node.attributes.is_empty() {
            rows.set(&attributes_row(node.id), &node.attributes);
            head.with_attributes += 1;
        }
        if node.levels.len() > highest {
            (highest, head.entry) = (node.levels.len(), node.id);
        }
        head.last_id = head.last_id.max(node.id);
    }
    head.count = nodes.len() as u64;
}

/// Checks the rows of a set. Returns a fault, if there is any.
pub fn judge(rows: &mut dyn Rows, head: &Head) -> Option<String> {
    let mut nodes = nodes(rows, head);
    let has_linked = nodes.iter().any(|node| !head.waits(node.id));
    let is_entry = |node: &Node| node.id == head.entry && !head.waits(node.id);
    let has_entry = nodes.iter().any(is_entry) || head.entry == 0 && !has_linked;
    let waiting = nodes.iter_mut().filter(|node| head.waits(node.id));
    for node in waiting {
        if !node.levels.is_empty() {
            return Some("has links of an element that waits for them".into());
        }
        // Its lowest possible level.
        node.levels.push(Vec::new());
    }
    let matrix = matrix(rows, head);
    let with_attributes = nodes.iter().filter(|node| !node.attributes.is_empty()).count() as u64;
    let has_id = |node: &&Node| super::find(rows, &node.element) == Some(node.id);
    let named = nodes.iter().filter(has_id).count();
    let [members, end] = super::MEMBERS_RANGE;
    let members = rows.count(members, end);
    match () {
        () if !are_sound(head, &nodes, matrix.as_deref()) => Some("has a graph that is none".into()),
        () if nodes.len() as u64 != head.count => Some(format!(
            "says that it has {} elements and has {}",
            head.count,
            nodes.len()
        )),
        () if named != nodes.len() || members != head.count => Some("has elements without a name".into()),
        () if with_attributes != head.with_attributes => Some("counts its attributes wrong".into()),
        () if !has_entry => Some("has no node where searches begin".into()),
        () => None,
    }
}
