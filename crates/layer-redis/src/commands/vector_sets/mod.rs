//! Vector sets: the commands V*, as Redis 8 has them in its module `vectorset`.
//!
//! ```text
//! the key's payload   id (10 bytes)  head (see `quartet_search::vector_set::Head`)
//! elements            rows of `quartet_search::vector_set`
//! ```
//!
//! That crate has the forms of vectors, the graph and conditions; this module has arguments,
//! replies and keys. An element is found once VADD has replied, with or without CAS, and a search
//! reads the transaction's rows. In larger sets an element is linked into the graph later, by
//! `execution::linking`. Replies and errors follow Redis 8.2.3's observed ones
//! (`tests/redis-oracle`), VRANGE <https://redis.io/docs/latest/commands/vrange/>.

mod add;
mod read;
mod similar;
mod stored;
mod vector;

#[cfg(test)]
mod tests;

use quartet_engine::{Transaction, UniqueId};
use quartet_search::WriteRows;
use quartet_search::vector_set::{self, Head, Id};
use quartet_store::Row;

pub use self::add::ELEMENT_BYTES_MAX;
pub use self::similar::COMPARED_WITH_LOCK;
pub use self::stored::{head, is_sound, judge, nodes_hashed, replace, takes_long, value};
pub use self::vector::{of_blob, of_words};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::indexes::{SetRows, TransactionRows};
use crate::keyspace::{Elements, Entry, Header, Keyspace, Kind};

const READ: u32 = READONLY;
const FAST_READ: u32 = READONLY | FAST;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    row("vadd", WRITE | DENYOOM, "O(log(N)) in the number of elements", "Adds an element to a vector set, or changes its vector.", add::add),
    row("vrem", WRITE, "O(log(N)) in the number of elements", "Removes an element from a vector set.", add::remove),
    row("vsim", READ, "O(log(N)) in the number of elements", "Returns the elements whose vectors are nearest to a vector.", similar::similar),
    row("vdim", FAST_READ, "O(1)", "Returns the number of components of the vectors of a vector set.", read::dimensions),
    row("vcard", FAST_READ, "O(1)", "Returns the number of elements of a vector set.", read::count),
    row("vemb", FAST_READ, "O(1)", "Returns the vector of an element.", read::embedding),
    row("vlinks", FAST_READ, "O(1)", "Returns the elements that an element is linked to in the graph.", read::links),
    row("vinfo", FAST_READ, "O(1)", "Describes a vector set.", read::information),
    row("vsetattr", WRITE | FAST, "O(1)", "Gives an element attributes, or takes them away.", add::set_attributes),
    row("vgetattr", FAST_READ, "O(1)", "Returns the attributes of an element.", read::attributes),
    row("vrandmember", READ, "O(N) in the number of elements that are returned", "Returns elements that are picked at random.", read::random_members),
    row("vismember", READ, "O(1)", "Determines whether a vector set has an element.", read::is_member),
    row("vrange", READ, "O(log(N)+M) in the numbers of all elements and of those returned", "Returns elements in the order of their names.", read::range)
        .since("8.4.0"),
];

/// A module's command checks the number of its arguments itself, and COMMAND INFO shows -1.
const fn row(
    name: &'static str,
    flags: u32,
    complexity: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    command(
        name,
        -1,
        flags,
        ONE_KEY,
        Group::VectorSet,
        "8.0.0",
        complexity,
        summary,
        handler,
    )
}

fn wrong_arity(name: &str) -> ErrorReply {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// Refuses a request with another number of arguments, the command's name included.
fn check_arity(arguments: quartet_wire_resp::Arguments<'_>, wanted: usize, name: &str) -> Result<(), ErrorReply> {
    if arguments.len() == wanted {
        Ok(())
    } else {
        Err(wrong_arity(name))
    }
}

/// A vector set as it was found.
struct Set {
    entry: Entry,
    head: Head,
    mark: Row,
}

impl Set {
    /// One that a command reads.
    fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Set>, ErrorReply> {
        let entry = context.read_kind(name, Kind::VectorSet)?;
        Ok(entry.map(|entry| {
            let (head, mark) = head_and_mark(&entry, context.tx);
            Set { entry, head, mark }
        }))
    }

    fn element(&self, context: &mut Context<'_, '_>, element: &[u8]) -> Option<Id> {
        vector_set::find(&mut rows_of(&self.entry.elements(), context.tx), element)
    }

    fn rows<'r, 't>(&self, context: &'r mut Context<'_, 't>) -> SetRows<'r, 't> {
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
    rows_below(id, tx).row_at(vector_set::GRAPH)
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
    let has_graph = matches!(copy.kind, Kind::VectorSet | Kind::VectorIndex);
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
    let of_state = || groups.indexes().resident_sets.of_state(elements.id(), mark, head);
    SetRows::new(rows_of(&elements, context.tx), has_resident.then(of_state).flatten())
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
