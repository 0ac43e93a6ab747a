//! Elements that wait to be linked into their set's graph.
//!
//! Finding an element's neighbours takes far longer than storing its vector. So in a set of more
//! than a few elements a new one waits: it has its name, its vector and its attributes, but no
//! node. A search compares its vector by itself. Elements are linked in the order of their ids,
//! some at a time, by [`prepare`] at a snapshot and [`Prepared::write`] in a transaction.
//!
//! The row 'g' exists from the first element that waits until a small set links at once again. It
//! changes with every node, so that it marks a state of the graph, and not with an element that
//! only waits.
//!
//! ```text
//! reached (8)  entry (8)  changes (8)  dimensions (4)  links (2)  form (1)
//! ```

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::codec::Quantization;
use super::element_of;
use super::graph::{self, Graph};
use super::head::{Head, Linking};
use super::rows::{GRAPH, Id, VECTORS, effort_row, id_of, vector_row};
use crate::rows::{Rows, WriteRows};

/// In a set of no more elements than these, one is linked when it is added: that takes no longer
/// than a search.
pub(super) const LINKED_AT_ONCE: u64 = 256;

/// No more elements wait than these, for each search compares them all. Beyond, one that is added
/// links some in its transaction.
const WAITING_MAX: u64 = 8192;

/// The number of elements that such an addition links.
const LINKED_BY_ADD: usize = 2;

/// Candidates that the search for an element's neighbours keeps, unless its row says otherwise.
const EFFORT: usize = 200;

impl Head {
    /// Bytes of the row 'g'.
    const GRAPH_BYTES: usize = 31;

    /// Takes over what the rows say about the graph. The key's row is not written when elements are
    /// linked.
    pub fn with_graph(mut self, rows: &mut dyn Rows) -> Head {
        rows.show(GRAPH, &mut |row| {
            let graph = Head::of_graph(row);
            (self.entry, self.linking) = (graph.entry, graph.linking);
        });
        self
    }

    /// As much of a set's head as its graph is made with.
    fn of_graph(row: &[u8]) -> Head {
        let row: &[u8; Head::GRAPH_BYTES] = row.try_into().expect("the row of a graph");
        let long = |at: usize| u64::from_be_bytes(row[at..at + 8].try_into().expect("eight bytes"));
        let dimensions = u32::from_be_bytes(row[24..28].try_into().expect("four bytes"));
        let links = u16::from_be_bytes([row[28], row[29]]);
        let quantization = Quantization::from_number(row[30]).expect("the form of a set");
        Head {
            entry: long(8),
            linking: Some(Linking {
                reached: long(0),
                changes: long(16),
            }),
            ..Head::new(quantization, links.into(), dimensions as usize)
        }
    }

    fn write_graph(&self, rows: &mut dyn WriteRows, linking: Linking) {
        let mut row = Vec::with_capacity(Head::GRAPH_BYTES);
        for number in [linking.reached, self.entry, linking.changes] {
            row.extend(number.to_be_bytes());
        }
        row.extend((self.dimensions as u32).to_be_bytes());
        row.extend((self.links as u16).to_be_bytes());
        row.push(self.quantization as u8);
        rows.set(GRAPH, &row);
    }

    /// Returns true if this element has no node yet.
    pub fn waits(&self, id: Id) -> bool {
        self.linking.is_some_and(|linking| id > linking.reached)
    }

    /// About how many elements wait, and no fewer than do.
    pub fn waiting_max(&self) -> u64 {
        self.linking.map_or(0, |linking| self.last_id - linking.reached)
    }

    /// Nodes have changed.
    pub(super) fn note_change(&mut self, rows: &mut dyn WriteRows) {
        if let Some(linking) = &mut self.linking {
            linking.changes += 1;
            let linking = *linking;
            self.write_graph(rows, linking);
        }
    }
}

/// The number of waiting elements.
fn waiting(rows: &mut dyn Rows, linking: Linking) -> u64 {
    rows.count(&vector_row(linking.reached + 1), &[VECTORS + 1])
}

/// Links the newest element, whose other rows exist already, if the set is small, and otherwise
/// leaves it waiting.
pub(super) fn take_in(rows: &mut dyn WriteRows, head: &mut Head, element: &[u8], effort: usize) {
    let id = head.last_id;
    let waiting = head.linking.map_or(0, |linking| waiting(rows, linking));
    if waiting <= 1 && head.count <= LINKED_AT_ONCE {
        if head.linking.take().is_some() {
            rows.clear(GRAPH);
        }
        let mut graph = Graph::new(rows, *head);
        head.entry = graph.insert(id, graph::level_of(id, element), effort);
        let changes = graph.changes();
        return graph::write(rows, changes);
    }
    if effort != EFFORT {
        rows.set(&effort_row(id), &(effort as u64).to_be_bytes());
    }
    if head.linking.is_none() {
        let linking = Linking {
            reached: id - 1,
            changes: 0,
        };
        head.linking = Some(linking);
        head.write_graph(rows, linking);
    }
    if waiting > WAITING_MAX {
        link(rows, LINKED_BY_ADD);
        *head = head.with_graph(rows);
    }
}

/// Candidates that the search for the neighbours of an element that waits keeps.
pub(super) fn effort_of(rows: &mut dyn Rows, head: &Head, id: Id) -> usize {
    let mut effort = EFFORT;
    rows.show(&effort_row(id), &mut |row| {
        effort = u64::from_be_bytes(row.try_into().expect("eight bytes of a number")) as usize;
    });
    effort.max(head.links)
}

/// Links up to `count_max` elements that wait, in this transaction. Returns true if there were
/// some.
pub fn link(rows: &mut dyn WriteRows, count_max: usize) -> bool {
    let prepared = prepare(rows, count_max);
    prepared.is_some_and(|prepared| prepared.write(rows))
}

/// Changes of a graph that link elements which wait.
pub struct Prepared {
    before: (Id, Linking),
    after: Head,
    linked: Vec<Id>,
    nodes: Vec<(Id, Option<Vec<u8>>)>,
}

/// Computes the changes that link up to `count_max` elements, the oldest first. None if no element
/// waits. The graph does not depend on the number that is linked at once.
pub fn prepare(rows: &mut dyn Rows, count_max: usize) -> Option<Prepared> {
    let mut head = graph_of(rows)?;
    let before = (head.entry, head.linking?);
    let linked = waiting_ids(rows, before.1, count_max);
    let reached = *linked.last()?;
    let mut levels = Vec::with_capacity(linked.len());
    for id in &linked {
        let element = element_of(rows, &head, *id);
        levels.push((graph::level_of(*id, &element), effort_of(rows, &head, *id)));
    }
    let mut graph = Graph::new(rows, head);
    for (id, (level, effort)) in linked.iter().zip(levels) {
        graph.insert(*id, level, effort);
    }
    let (entry, nodes) = (graph.entry(), graph.changes());
    head.entry = entry;
    head.linking = Some(Linking {
        reached,
        changes: before.1.changes + 1,
    });
    Some(Prepared {
        before,
        after: head,
        linked,
        nodes,
    })
}

/// The head of a set as far as its graph needs it, with the count of elements and about the
/// greatest id. None if no element waits or has waited.
pub fn graph_of(rows: &mut dyn Rows) -> Option<Head> {
    let mut head = rows.get(GRAPH).map(|row| Head::of_graph(&row))?;
    let linking = head.linking?;
    head.count = rows.count(&[VECTORS], &[VECTORS + 1]);
    head.last_id = linking.reached + waiting(rows, linking);
    Some(head)
}

/// Returns true if elements wait.
pub fn has_waiting(rows: &mut dyn Rows) -> bool {
    let linking = graph_of(rows).and_then(|head| head.linking);
    linking.is_some_and(|linking| waiting(rows, linking) > 0)
}

/// The ids of elements that wait, ascending.
fn waiting_ids(rows: &mut dyn Rows, linking: Linking, count_max: usize) -> Vec<Id> {
    let mut ids = Vec::new();
    rows.scan(&vector_row(linking.reached + 1), &[VECTORS + 1], &mut |key, _| {
        ids.push(id_of(key));
        match ids.len() < count_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    ids
}

impl Prepared {
    /// The changed rows by id; `None` deletes the node's row.
    pub(super) fn into_nodes(self) -> BTreeMap<Id, Option<Vec<u8>>> {
        self.nodes.into_iter().collect()
    }

    /// Writes the changes, if the graph is unchanged since their preparation and the elements
    /// exist. Returns false and changes nothing otherwise.
    pub fn write(self, rows: &mut dyn WriteRows) -> bool {
        let now = rows.get(GRAPH).map(|row| Head::of_graph(&row));
        let now = now.and_then(|head| Some((head.entry, head.linking?)));
        let is_there = |id: &Id| rows.show(&vector_row(*id), &mut |_| {});
        if now != Some(self.before) || !self.linked.iter().all(is_there) {
            return false;
        }
        graph::write(rows, self.nodes);
        for id in &self.linked {
            if rows.show(&effort_row(*id), &mut |_| {}) {
                rows.clear(&effort_row(*id));
            }
        }
        let linking = self.after.linking.expect("a graph that is being linked");
        self.after.write_graph(rows, linking);
        true
    }
}
