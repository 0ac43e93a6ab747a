//! Parts of the keys of a set, from one edge to another.
//!
//! The key of an element is its values in index order, then its document. A cursor or a bound names
//! a prefix of keys. Sets that compare elements by their values read whole groups of equal values,
//! so an edge knows which of its bytes are of a document: without them it is at the border of a
//! group.

use crate::language::value::{Native, Ref, Target, Value};
use crate::storage::order::{self, KeyWriter};
use crate::storage::rows::{self, DOCUMENT_BYTES, Key};
use crate::storage::schema::Schema;

/// A place between keys: before all keys with this prefix, or after them.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    bytes: Vec<u8>,
    /// Number of the last bytes that belong to a document. At most the length of `bytes`.
    of_document: usize,
    is_behind: bool,
}

impl Edge {
    fn before(bytes: Vec<u8>, of_document: usize) -> Edge {
        Edge {
            bytes,
            of_document,
            is_behind: false,
        }
    }

    /// The edge before keys with these values and this document. Without values the document itself
    /// is the group.
    fn before_document(bytes: Vec<u8>) -> Edge {
        let has_values = bytes.len() > DOCUMENT_BYTES;
        Edge::before(bytes, if has_values { DOCUMENT_BYTES } else { 0 })
    }

    /// Turns an inclusive bound into an exclusive one.
    pub fn behind(mut self) -> Edge {
        self.is_behind = true;
        self
    }

    /// The least key that is not before the edge; `None`: all are.
    pub fn position(&self) -> Option<Vec<u8>> {
        match (self.is_behind, self.bytes.iter().all(|byte| *byte == 0xff)) {
            (false, _) => Some(self.bytes.clone()),
            (true, false) => Some(quartet_model::next_prefix(&self.bytes)),
            (true, true) => None,
        }
    }

    fn is_before(&self, other: &Edge) -> bool {
        match (self.position(), other.position()) {
            (Some(own), Some(other)) => own < other,
            (own, None) => own.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// The edge of the group that contains it.
    fn widened(&self, is_behind: bool) -> Edge {
        match self.of_document {
            0 => self.clone(),
            bytes => Edge {
                bytes: self.bytes[..self.bytes.len() - bytes].to_vec(),
                of_document: 0,
                is_behind,
            },
        }
    }
}

/// The properties that sets must share to be combined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// For each value, whether it is in reverse order.
    pub reversals: Vec<bool>,
    /// Elements are listed from the last to the first.
    pub backwards: bool,
    /// Turned round, and without values: its cursors repeat the ref (observed).
    pub repeats_ref: bool,
    /// Its elements are events.
    pub is_history: bool,
    /// It is composed of sets with different forms of keys: keys are recomputed, see
    /// `combinations`.
    pub is_mixed: bool,
    /// Its targets are only known while it is read, so it goes with everything.
    pub is_open: bool,
}

impl Shape {
    /// Returns whether the values have the same directions, as far as both have them; the document
    /// counts as a last value.
    pub fn is_compatible(&self, other: &Shape) -> bool {
        let mut directions = self.directions().into_iter().zip(other.directions());
        let is_open = self.is_open || other.is_open;
        self.is_history == other.is_history && (is_open || directions.all(|(a, b)| a == b))
    }

    /// For each value and the document, whether it is listed in reverse order.
    fn directions(&self) -> Vec<bool> {
        let is_turned_round = self.backwards && self.reversals.is_empty();
        let mut directions = match is_turned_round {
            true => vec![true],
            false => self.reversals.iter().map(|reverse| reverse ^ self.backwards).collect(),
        };
        directions.push(false);
        directions
    }

    /// Returns true if keys of both have one form and are listed in one direction.
    pub fn has_keys_of(&self, other: &Shape) -> bool {
        let is_plain = !self.is_mixed && !other.is_mixed;
        is_plain && self.reversals == other.reversals && self.backwards == other.backwards
    }

    /// The shape of sets whose keys differ in form, of which this is the first.
    pub fn mixed(&self) -> Shape {
        Shape {
            reversals: self.reversals.iter().map(|reverse| reverse ^ self.backwards).collect(),
            backwards: false,
            repeats_ref: false,
            is_mixed: true,
            ..self.clone()
        }
    }
}

/// From `start` to `end`; `None`: no end.
#[derive(Clone, Debug, Default)]
pub struct Range {
    pub start: Edge,
    pub end: Option<Edge>,
}

impl Range {
    /// All keys with this prefix: one element, or one group of equal values.
    pub fn prefix(bytes: &[u8]) -> Range {
        let start = Edge::before(bytes.to_vec(), 0);
        Range {
            end: Some(start.clone().behind()),
            start,
        }
    }

    pub fn is_empty(&self) -> bool {
        match (&self.end, self.start.position()) {
            (_, None) => true,
            (None, _) => false,
            (Some(end), Some(start)) => end.position().is_some_and(|end| end <= start),
        }
    }

    /// The part after an element in the direction of reading.
    pub fn after(&self, element: &[u8], backwards: bool) -> Range {
        self.beyond(Edge::before_document(element.to_vec()), backwards)
    }

    /// The part after a whole group.
    pub fn after_group(&self, group: &[u8], backwards: bool) -> Range {
        self.beyond(Edge::before(group.to_vec(), 0), backwards)
    }

    fn beyond(&self, edge: Edge, backwards: bool) -> Range {
        let mut range = self.clone();
        match backwards {
            true => range.end = Some(edge),
            false => range.start = edge.behind(),
        }
        range
    }

    /// With the groups at its ends whole.
    pub fn widened(&self) -> Range {
        Range {
            start: self.start.widened(false),
            end: self.end.as_ref().map(|end| end.widened(true)),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        let is_behind_start = self.start.position().is_some_and(|start| *key >= *start);
        let end = self.end.as_ref().and_then(Edge::position);
        is_behind_start && end.is_none_or(|end| *key < *end)
    }

    /// The part from one edge to another.
    pub fn narrowed(&self, start: Edge, end: Option<Edge>) -> Range {
        let mut narrowed = self.clone();
        if narrowed.start.is_before(&start) {
            narrowed.start = start;
        }
        if let Some(end) = end
            && narrowed.end.as_ref().is_none_or(|old| end.is_before(old))
        {
            narrowed.end = Some(end);
        }
        narrowed
    }

    /// As a range of rows whose keys are `prefix` and the key of an element.
    pub fn within(&self, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
        let row = |position: Option<Vec<u8>>| match position {
            Some(bytes) => prefix.clone().bytes(&bytes).0,
            None => prefix.end(),
        };
        let end = self
            .end
            .as_ref()
            .map_or_else(|| prefix.end(), |end| row(end.position()));
        (row(self.start.position()), end)
    }

    /// As a range of the rows of one collection's documents, whose keys are `prefix` and an id.
    pub fn of_documents(&self, collection: u64, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
        let row = |position: Option<Vec<u8>>| match position.and_then(|bytes| first_id(&bytes, collection)) {
            Some(id) => prefix.clone().number(id).0,
            None => prefix.end(),
        };
        let end = self
            .end
            .as_ref()
            .map_or_else(|| prefix.end(), |end| row(end.position()));
        (row(self.start.position()), end)
    }
}

/// The least id of which the document in this collection is not before a position.
fn first_id(position: &[u8], collection: u64) -> Option<u64> {
    let (id, collection_bytes) = position.split_at(position.len().min(8));
    let mut padded = [0; 8];
    padded[..id.len()].copy_from_slice(id);
    let id = u64::from_be_bytes(padded);
    match collection.to_be_bytes()[..] >= *collection_bytes {
        true => Some(id),
        false => id.checked_add(1),
    }
}

/// The edge before what a cursor or a bound names: values first, then the document.
pub fn edge_of(cursor: &[Value], shape: &Shape, schema: &Schema) -> Edge {
    if shape.is_mixed {
        return edge_among_mixed(cursor, shape, schema);
    }
    let mut writer = KeyWriter::ordered(schema);
    for (value, reverse) in cursor.iter().zip(&shape.reversals) {
        writer.value(value, *reverse);
    }
    let mut bytes = writer.bytes;
    match cursor.get(shape.reversals.len()) {
        Some(Value::Ref(reference)) => {
            bytes.extend(document_key(reference, schema));
            Edge::before_document(bytes)
        }
        // A value other than a document sorts before all documents, or after.
        Some(other) => {
            let filling = if order::stands_before_refs(other) { 0 } else { 0xff };
            bytes.extend([filling; DOCUMENT_BYTES]);
            Edge::before_document(bytes)
        }
        None => Edge::before(bytes, 0),
    }
}

/// Among keys of several forms. A ref after values ends a whole key; a ref without values is a
/// value itself.
fn edge_among_mixed(cursor: &[Value], shape: &Shape, schema: &Schema) -> Edge {
    match cursor {
        [values @ .., Value::Ref(document)] if !values.is_empty() => {
            Edge::before_document(mixed_key(values, &shape.reversals, document, schema))
        }
        values => Edge::before(mixed_values(values, &shape.reversals, schema), 0),
    }
}

/// The key of an element among keys of several forms: a document without values is its own value.
pub fn mixed_key(values: &[Value], reversals: &[bool], document: &Ref, schema: &Schema) -> Vec<u8> {
    let own = [Value::Ref(document.clone())];
    let values = if values.is_empty() { &own[..] } else { values };
    let mut bytes = mixed_values(values, reversals, schema);
    bytes.extend(document_key(document, schema));
    bytes
}

fn mixed_values(values: &[Value], reversals: &[bool], schema: &Schema) -> Vec<u8> {
    let mut writer = KeyWriter::ordered(schema);
    for (index, value) in values.iter().enumerate() {
        writer.value(value, reversals.get(index).copied().unwrap_or_default());
    }
    writer.bytes
}

/// A document as it ends the keys of elements.
pub fn document_key(reference: &Ref, schema: &Schema) -> [u8; DOCUMENT_BYTES] {
    use crate::language::value::Names;
    let (collection, id) = match &reference.target {
        Target::Document(collection, id) => (schema.number(Native::Collections, collection), *id as u64),
        Target::Numbered(native, id) => (Some(*native as u64), *id as u64),
        Target::Named(native, name) => {
            let number = schema.number(*native, name).unwrap_or(u64::MAX);
            (Some(*native as u64), number)
        }
        Target::Native(native) => (Some(Native::Collections as u64), *native as u64),
    };
    rows::entry_document(collection.unwrap_or(u64::MAX), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &[u8] = b"v";

    fn element(id: u64) -> Vec<u8> {
        [GROUP, &rows::entry_document(3, id)].concat()
    }

    #[test]
    fn a_range_from_within_a_group_is_widened_to_all_of_it() {
        let range = Range::default().after(&element(5), false);
        assert!(!range.contains(&element(5)) && range.contains(&element(6)));
        assert!(range.widened().contains(&element(0)));
        assert!(!range.widened().contains(b"u"));
        let range = Range::default().after(&element(5), true);
        assert!(range.contains(&element(4)) && !range.contains(&element(5)));
        assert!(range.widened().contains(&element(u64::MAX)));
        assert!(!range.widened().contains(b"w"));
    }

    #[test]
    fn a_document_without_values_is_a_group_of_its_own() {
        let of = |id| rows::entry_document(3, id);
        let range = Range::default().after(&of(5), true);
        assert!(range.widened().contains(&of(4)) && !range.widened().contains(&of(5)));
    }

    #[test]
    fn nothing_follows_the_last_key() {
        let last = rows::entry_document(u64::MAX, u64::MAX);
        let range = Range::default().after(&last, false);
        assert!(range.is_empty() && !range.contains(&last));
        let prefix = Key(b"p".to_vec());
        assert_eq!(range.within(&prefix).0, b"q");
        assert_eq!(range.of_documents(1, &prefix).0, b"q");
    }

    /// Documents of one collection are rows ordered only by id.
    #[test]
    fn positions_among_documents_are_found_among_ids() {
        let at = |id, collection| Edge::before(rows::entry_document(collection, id).to_vec(), DOCUMENT_BYTES);
        let start = |edge: Edge| {
            let range = Range::default().narrowed(edge, None);
            range.of_documents(7, &Key(b"p".to_vec())).0.split_off(1)
        };
        assert_eq!(start(at(5, 7)), 5u64.to_be_bytes());
        assert_eq!(start(at(5, 6)), 5u64.to_be_bytes());
        assert_eq!(start(at(5, 8)), 6u64.to_be_bytes());
        assert_eq!(start(at(5, 7).behind()), 6u64.to_be_bytes());
        assert_eq!(start(Edge::before(vec![1], 0)), (1u64 << 56).to_be_bytes());
    }
}
