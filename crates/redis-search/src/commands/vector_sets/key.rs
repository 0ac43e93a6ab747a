//! The key of a vector set or a vector index: its head, its rows, and changes of both.

use quartet_engine::Row;
use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::{Context, Elements, Entry, ErrorReply, Groups, Header, Keyspace};
use quartet_search::rows::WriteRows;
use quartet_search::vectors::set::{self, Head, Id};
use quartet_wire_resp::Arguments;

use super::stored::head;
use crate::indexes::{SetRows, TransactionRows};
use crate::kinds::{VECTOR_INDEX, VECTOR_SET};
use crate::state::SearchGroups;

pub(super) fn wrong_arity(name: &str) -> ErrorReply {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// Refuses a request with another number of arguments, the command's name included.
pub(super) fn check_arity(arguments: Arguments<'_>, count: usize, name: &str) -> Result<(), ErrorReply> {
    if arguments.len() == count {
        Ok(())
    } else {
        Err(wrong_arity(name))
    }
}

/// A vector set as a command reads it.
pub(super) struct Set {
    pub entry: Entry,
    pub head: Head,
    mark: Row,
}

impl Set {
    /// The set at this key, if there is one.
    pub fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Set>, ErrorReply> {
        let entry = context.read_kind(name, VECTOR_SET)?;
        Ok(entry.map(|entry| {
            let (head, mark) = head_and_mark(&entry, context.tx);
            Set { entry, head, mark }
        }))
    }

    pub fn element(&self, context: &mut Context<'_, '_>, element: &[u8]) -> Option<Id> {
        set::find(&mut rows_of(&self.entry.elements(), context.tx), element)
    }

    pub fn rows<'r, 't>(&self, context: &'r mut Context<'_, 't>) -> SetRows<'r, 't> {
        rows_to_read(context, &self.entry, &self.head, &self.mark)
    }
}

/// The head of a set or an index, and the row that marks the state of its graph.
pub fn head_and_mark(entry: &Entry, tx: &mut Transaction<'_>) -> (Head, Row) {
    let elements = entry.elements();
    let head = head(entry).expect("the row of a vector set");
    match graph_row(elements.id(), tx) {
        Some(mark) => (head.with_graph(&mut rows_of(&elements, tx)), mark),
        None => (head, entry.row().clone()),
    }
}

/// The row that says how far the elements of the set with this id are linked.
pub fn graph_row(id: &UniqueId, tx: &mut Transaction<'_>) -> Option<Row> {
    rows_below(id, tx).row_at(set::GRAPH)
}

/// Records that elements of this id may be unlinked, so that a background task links them.
pub fn note_waiting(tx: &mut Transaction<'_>, id: &UniqueId) {
    let key = waiting_row(id);
    if tx.get(&key).is_none() {
        tx.set(&key, b"");
    }
}

/// The key of the row that [`note_waiting`] writes.
pub fn waiting_row(id: &UniqueId) -> Vec<u8> {
    [b"V".as_slice(), id].concat()
}

/// After a key was copied with its elements: unlinked elements have to be linked in the copy too.
pub fn note_copy(context: &mut Context<'_, '_>, copy: &Entry) {
    let has_graph = matches!(copy.kind, VECTOR_SET | VECTOR_INDEX);
    let elements = copy.elements();
    if has_graph && graph_row(elements.id(), context.tx).is_some() {
        note_waiting(context.tx, elements.id());
    }
}

/// The rows below a key's elements.
pub fn rows_of<'r, 't>(elements: &Elements, tx: &'r mut Transaction<'t>) -> TransactionRows<'r, 't> {
    rows_below(elements.id(), tx)
}

/// The rows of the set with this id.
pub fn rows_below<'r, 't>(id: &UniqueId, tx: &'r mut Transaction<'t>) -> TransactionRows<'r, 't> {
    let prefix = [b"E".as_slice(), id].concat();
    TransactionRows { tx, prefix }
}

/// The rows of a set or an index, which a command reads.
pub fn rows_to_read<'r, 't>(
    context: &'r mut Context<'_, 't>,
    entry: &Entry,
    head: &Head,
    mark: &Row,
) -> SetRows<'r, 't> {
    let (groups, elements) = (context.groups, entry.elements());
    let has_resident = groups.engine().is_all_in_memory();
    let resident_rows = || groups.indexes().resident_sets.of_state(elements.id(), mark, head);
    SetRows::new(
        rows_of(&elements, context.tx),
        has_resident.then(resident_rows).flatten(),
    )
}

/// A set or an index that a command makes or changes.
pub struct Changed<'a> {
    pub name: &'a [u8],
    pub header: Header,
    pub elements: Elements,
    /// As it was, with the mark of its graph; none if it is new.
    pub before: Option<(Entry, Row)>,
    pub head: Head,
}

impl<'a> Changed<'a> {
    pub fn of(name: &'a [u8], entry: Entry, tx: &mut Transaction<'_>) -> Changed<'a> {
        let (head, mark) = head_and_mark(&entry, tx);
        Changed {
            name,
            header: Header::of(&entry),
            elements: entry.elements(),
            head,
            before: Some((entry, mark)),
        }
    }

    /// Changes the rows by what `work` does, and writes the key's row if it returns true.
    pub fn change(
        mut self,
        groups: Groups<'_>,
        keys: &mut Keyspace<'_, '_>,
        work: impl FnOnce(&mut dyn WriteRows, &mut Head) -> bool,
    ) -> bool {
        let has_resident = groups.engine().is_all_in_memory() && !keys.tx.only_reads();
        let indexes = groups.indexes();
        let mark = self.before.as_ref().map(|(_, mark)| mark);
        let take = || indexes.resident_sets.take(self.elements.id(), mark, &self.head);
        let resident = has_resident.then(take);
        let mut rows = SetRows::new(rows_of(&self.elements, keys.tx), resident);
        let last_id = self.head.last_id;
        let is_changed = work(&mut rows, &mut self.head);
        let resident = rows.into_changed();
        if is_changed {
            put(keys, self.name, self.header, &self.elements, &self.head);
        }
        if self.head.linking.is_some() && self.head.last_id > last_id {
            note_waiting(keys.tx, self.elements.id());
        }
        let is_own = |entry: &Entry| entry.is_large() && entry.elements().id() == self.elements.id();
        if let Some(resident) = resident
            && let Some(entry) = keys.find(self.name).filter(is_own)
        {
            let (_, new) = head_and_mark(&entry, keys.tx);
            indexes.resident_sets.put(self.elements.id(), mark, &new, resident);
        }
        is_changed
    }
}

/// Writes the key's row; without elements, the key goes, unless it is a vector index.
pub fn put(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, elements: &Elements, head: &Head) {
    match head.count > 0 || head.quantization.is_plain() {
        false => drop(keys.remove(name)),
        true => keys.put_parts(name, header, &[elements.id(), &head.to_bytes()]),
    }
}
