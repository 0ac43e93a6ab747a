//! Documents as rows: short documents whole in the key's own row, long documents in pieces, so that
//! a value at a path is read and changed at the cost of the path.
//!
//! ```text
//! packed: 'K' db name   header, the document's text
//! pieces: 'K' db name   header with LARGE, id (10 bytes), head; the pieces are in `pieces`
//! head:   bytes of the document's text (8) | its bytes in memory (8) | the next piece's number (4)   big-endian
//! ```
//!
//! A change at a path to one value reads and writes the pieces on the path. Every other change
//! reads the whole document and writes it under another id.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;

use quartet_engine::Transaction;

use super::document::{DOCUMENT_BYTES_MAX, Json, Layout, Location, TOO_LARGE};
use super::path::{Path, StaticStep};
use super::pieces::{self, Change, Growth, Pieces};
use super::text::Text;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::commands::strings::VALUE_BYTES_MAX;
use crate::handler::command_memory::Workspace;
use crate::handler::groups::Groups;
use crate::keyspace::{Entry, Header, Keyspace, LARGE};

/// A longer text is written in pieces.
const PACKED_BYTES_MAX: usize = 16 << 10;
/// A document in pieces that a change has made shorter is packed again.
const PACKED_AGAIN_BYTES: u64 = PACKED_BYTES_MAX as u64 / 4;
/// A document with more allocated numbers of pieces is written whole by its next change, which
/// restarts them at 1.
const NUMBERS_MAX: u32 = 1 << 31;
/// Most values of a packed document that are read one by one. For a further value the whole
/// document is read.
const LOOKS_MAX: u32 = 2;

/// The head of a document in pieces, which is in the key's row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    pub text_bytes: u64,
    pub memory_bytes: u64,
    next: u32,
}

impl Head {
    const BYTES: usize = 20;

    /// Reads the payload after the id.
    pub fn read(payload: &[u8]) -> Option<Head> {
        let (text_bytes, tail) = payload.split_first_chunk()?;
        let (memory_bytes, next) = tail.split_first_chunk()?;
        Some(Head {
            text_bytes: u64::from_be_bytes(*text_bytes),
            memory_bytes: u64::from_be_bytes(*memory_bytes),
            next: next.try_into().ok().map(u32::from_be_bytes)?,
        })
    }

    fn of(entry: &Entry) -> Head {
        Head::read(entry.large_payload()).expect("a document in pieces says how long it is")
    }

    fn to_bytes(self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..8].copy_from_slice(&self.text_bytes.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.memory_bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.next.to_be_bytes());
        bytes
    }

    /// An error if the document would become too large.
    fn grown_by(self, growth: Growth, next: u32) -> Result<Head, ErrorReply> {
        let head = Head {
            text_bytes: self.text_bytes.saturating_add_signed(growth.text_bytes),
            memory_bytes: self.memory_bytes.saturating_add_signed(growth.memory_bytes),
            next,
        };
        if head.memory_bytes > DOCUMENT_BYTES_MAX as u64 {
            return Err(TOO_LARGE.into());
        }
        match head.text_bytes > VALUE_BYTES_MAX {
            true => Err(errors::STRING_TOO_LARGE.into()),
            false => Ok(head),
        }
    }
}

/// Bytes of a document's text.
pub fn text_bytes(entry: &Entry) -> u64 {
    match entry.is_large() {
        true => Head::of(entry).text_bytes,
        false => entry.payload().len() as u64,
    }
}

/// Takes the memory that [`document`] needs, for a write. A write of a large document may have to
/// restart where it may take long; the error is dropped then.
pub fn take_document(groups: Groups<'_>, entry: &Entry, workspace: &mut Workspace<'_>) -> Result<(), ErrorReply> {
    if entry.is_large() && groups.must_end_before(Head::of(entry).memory_bytes / BYTES_AN_ELEMENT) {
        return Err(errors::ENDED.into());
    }
    take_memory(entry, workspace)
}

/// Takes the memory that [`document`] needs.
fn take_memory(entry: &Entry, workspace: &mut Workspace<'_>) -> Result<(), ErrorReply> {
    match entry.is_large() {
        true => workspace.take((Head::of(entry).memory_bytes as usize).saturating_mul(2)),
        false => Ok(()),
    }
}

/// Bytes of a document in memory that take about as long as a change of an element.
const BYTES_AN_ELEMENT: u64 = 64;

/// The whole document. The caller has taken memory for it where a request reads it:
/// [`take_document`].
pub fn document(tx: &mut Transaction<'_>, entry: &Entry) -> Json {
    if !entry.is_large() {
        return Json::stored(entry.payload());
    }
    let mut pieces = pieces_of(tx, entry);
    match pieces.find(&[]) {
        Some(root) => pieces.whole(root),
        None => Json::Null,
    }
}

fn pieces_of<'k, 't>(tx: &'k mut Transaction<'t>, entry: &Entry) -> Pieces<'k, 't> {
    Pieces::of(tx, entry, Head::of(entry).next)
}

/// The whole document's text.
pub fn text(tx: &mut Transaction<'_>, entry: &Entry) -> Vec<u8> {
    if !entry.is_large() {
        return entry.payload().to_vec();
    }
    let mut text = Text::limited(usize::MAX);
    write_document(tx, entry, &Layout::default(), 0, &mut text);
    text.finish().expect("a text without a limit")
}

/// Appends the document's text in a layout, without reading the whole document at once.
pub fn write_document(tx: &mut Transaction<'_>, entry: &Entry, layout: &Layout<'_>, depth: usize, out: &mut Text<'_>) {
    if !entry.is_large() {
        return Json::stored(entry.payload()).write_with(layout, depth, out);
    }
    let mut pieces = pieces_of(tx, entry);
    if let Some(root) = pieces.find(&[]) {
        pieces.append_text(root, layout, depth, out);
    }
}

/// Writes a document whole.
pub fn put(keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header, document: &Json) -> Result<(), ErrorReply> {
    let text = document.to_stored()?;
    if text.len() <= PACKED_BYTES_MAX {
        keys.put(name, header.flags(0), &text);
        return Ok(());
    }
    let elements = keys.new_elements();
    let head = Head {
        text_bytes: text.len() as u64,
        memory_bytes: document.memory_bytes() as u64,
        next: Pieces::write_all(keys.tx, elements, document),
    };
    keys.put_parts(name, header.flags(LARGE), &[elements.id(), &head.to_bytes()]);
    Ok(())
}

/// A kind of value and its length.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Null,
    Boolean,
    Integer,
    Double,
    Text(usize),
    Array(usize),
    Object(usize),
}

impl Shape {
    pub fn of(value: &Json) -> Shape {
        match value {
            Json::Null => Shape::Null,
            Json::Boolean(_) => Shape::Boolean,
            Json::Integer(_) => Shape::Integer,
            Json::Double(_) => Shape::Double,
            Json::Text(text) => Shape::Text(text.len()),
            Json::Array(elements) => Shape::Array(elements.len()),
            Json::Object(members) => Shape::Object(members.len()),
        }
    }

    /// The word of JSON.TYPE.
    pub fn kind(self) -> &'static str {
        match self {
            Shape::Null => "null",
            Shape::Boolean => "boolean",
            Shape::Integer => "integer",
            Shape::Double => "number",
            Shape::Text(_) => "string",
            Shape::Array(_) => "array",
            Shape::Object(_) => "object",
        }
    }

    fn of_stub(pieces: &mut Pieces<'_, '_>, stub: Json) -> Shape {
        let array = pieces::length_of_array(&stub).map(Shape::Array);
        let container = array.or_else(|| pieces::length_of_object(&stub).map(Shape::Object));
        container.unwrap_or_else(|| Shape::of(&pieces.whole(stub)))
    }
}

/// A stored document. Only the requested values are read where possible.
pub struct Stored<'m> {
    entry: Entry,
    whole: OnceCell<Json>,
    looks: Cell<u32>,
    /// The memory of what is read, until the command has ended.
    workspace: RefCell<Workspace<'m>>,
}

/// Memory for each value that a path selects: its shape or its answer, and the list around it.
const MATCH_BYTES: usize = 64;

/// The values that a path selects.
pub struct Matches<'d> {
    /// The document, or a part of it.
    from: Cow<'d, Json>,
    locations: Vec<Location>,
}

impl<'d> Matches<'d> {
    fn one(value: Json) -> Matches<'d> {
        Matches {
            from: Cow::Owned(value),
            locations: vec![Location::new()],
        }
    }

    pub fn none() -> Matches<'d> {
        Matches {
            from: Cow::Owned(Json::Null),
            locations: Vec::new(),
        }
    }

    /// The values in document order of the path's steps. A value may occur more than once.
    pub fn values(&self) -> impl Iterator<Item = &Json> {
        self.locations.iter().filter_map(|location| self.from.at(location))
    }

    #[allow(clippy::len_without_is_empty, reason = "callers need the number alone")]
    pub fn len(&self) -> usize {
        self.locations.len()
    }
}

impl<'m> Stored<'m> {
    pub fn of(entry: Entry, workspace: Workspace<'m>) -> Stored<'m> {
        Stored {
            entry,
            whole: OnceCell::new(),
            looks: Cell::new(0),
            workspace: RefCell::new(workspace),
        }
    }

    /// As [`Stored::of`], for `values` values: if they are many, a packed document is read whole at
    /// once.
    pub fn of_many(entry: Entry, values: usize, workspace: Workspace<'m>) -> Stored<'m> {
        let stored = Stored::of(entry, workspace);
        if values > LOOKS_MAX as usize {
            stored.looks.set(LOOKS_MAX);
        }
        stored
    }

    /// For an object in pieces, an object of these members; for any other document, the whole
    /// document. `None` if there is no memory for it.
    pub fn members<'n>(self, tx: &mut Transaction<'_>, names: impl Iterator<Item = &'n str>) -> Option<Json> {
        if self.entry.is_large() {
            let members = self.read_pieces(tx, |pieces| {
                let root = pieces.find(&[])?;
                pieces::length_of_object(&root)?;
                let mut members = Json::Object(Vec::new());
                for name in names {
                    if members.member(name).is_none()
                        && let Some(stub) = pieces.find(&[StaticStep::Name(name)])
                    {
                        let value = pieces.whole(stub);
                        members.set_member(name, value);
                    }
                }
                Some(members)
            });
            if let Some(members) = members.ok()? {
                return Some(members);
            }
        }
        self.into_whole(tx)
    }

    /// `None` if there is no memory for it.
    pub fn into_whole(self, tx: &mut Transaction<'_>) -> Option<Json> {
        take_memory(&self.entry, &mut self.workspace.borrow_mut()).ok()?;
        Some(document(tx, &self.entry))
    }

    /// Appends the whole document's text in a layout.
    pub fn write_whole(&self, tx: &mut Transaction<'_>, layout: &Layout<'_>, depth: usize, out: &mut Text<'_>) {
        match self.whole.get() {
            Some(whole) => whole.write_with(layout, depth, out),
            None => write_document(tx, &self.entry, layout, depth, out),
        }
    }

    /// The whole document's text; empty if there is no memory for it.
    pub fn text(&self, tx: &mut Transaction<'_>) -> Vec<u8> {
        let bytes = text_bytes(&self.entry) as usize;
        match self.workspace.borrow_mut().take(bytes) {
            Ok(()) => text(tx, &self.entry),
            Err(_) => Vec::new(),
        }
    }

    fn whole(&self, tx: &mut Transaction<'_>) -> Result<&Json, ErrorReply> {
        if self.whole.get().is_none() {
            take_memory(&self.entry, &mut self.workspace.borrow_mut())?;
        }
        Ok(self.whole.get_or_init(|| document(tx, &self.entry)))
    }

    /// The values that the path selects.
    pub fn select(&self, tx: &mut Transaction<'_>, path: &Path) -> Result<Matches<'_>, ErrorReply> {
        if self.whole.get().is_none()
            && !path.is_root()
            && let Some(matches) = self.select_apart(tx, path)?
        {
            return Ok(matches);
        }
        let whole = self.whole(tx)?;
        let mut workspace = self.workspace.borrow_mut();
        let locations = path.select(whole, &mut workspace)?;
        workspace.take(locations.len() * MATCH_BYTES)?;
        Ok(Matches {
            from: Cow::Borrowed(whole),
            locations,
        })
    }

    /// As [`Stored::select`], without reading the rest of the document. `None` if the whole
    /// document must be read.
    fn select_apart(&self, tx: &mut Transaction<'_>, path: &Path) -> Result<Option<Matches<'_>>, ErrorReply> {
        if !self.entry.is_large() {
            let value = self.look(path);
            return Ok(value.map(|value| value.map_or_else(Matches::none, Matches::one)));
        }
        let Some((steps, further)) = path.scope().filter(|(steps, _)| !steps.is_empty()) else {
            return Ok(None);
        };
        let selected = self.read_pieces(tx, |pieces| {
            let stub = pieces.find(&steps);
            stub.map(|stub| pieces.whole(stub))
        })?;
        let Some(value) = selected else {
            return Ok(Some(Matches::none()));
        };
        let mut workspace = self.workspace.borrow_mut();
        let locations = further.select(&value, &mut workspace)?;
        workspace.take(locations.len() * MATCH_BYTES)?;
        Ok(Some(Matches {
            from: Cow::Owned(value),
            locations,
        }))
    }

    /// Reads pieces, and takes memory for each before it is read.
    fn read_pieces<T>(
        &self,
        tx: &mut Transaction<'_>,
        read: impl FnOnce(&mut Pieces<'_, '_>) -> T,
    ) -> Result<T, ErrorReply> {
        let mut workspace = self.workspace.borrow_mut();
        let mut taking = |bytes| workspace.take(bytes).is_ok();
        let mut pieces = pieces_of(tx, &self.entry).taking(&mut taking);
        let read = read(&mut pieces);
        match pieces.is_refused() {
            true => Err(errors::REPLY_OUT_OF_MEMORY.into()),
            false => Ok(read),
        }
    }

    /// The value of a packed document at a path to a single value; the outer `None` if the whole
    /// document must be read.
    fn look(&self, path: &Path) -> Option<Option<Json>> {
        let steps = path.static_steps()?;
        let counts_from_end = |step: &StaticStep<'_>| matches!(step, StaticStep::Index(..0));
        if self.looks.get() == LOOKS_MAX || steps.iter().any(counts_from_end) {
            return None;
        }
        self.looks.set(self.looks.get() + 1);
        Some(Json::stored_at(self.entry.payload(), &steps))
    }

    /// The shapes of the values that the path selects.
    pub fn shapes(&self, tx: &mut Transaction<'_>, path: &Path) -> Result<Vec<Shape>, ErrorReply> {
        if let Some(steps) = self.steps_to_one(path) {
            let shape = self.read_pieces(tx, |pieces| {
                let stub = pieces.find(&steps);
                stub.map(|stub| Shape::of_stub(pieces, stub))
            });
            return Ok(shape?.into_iter().collect());
        }
        Ok(self.select(tx, path)?.values().map(Shape::of).collect())
    }

    /// For each array that the path selects, the position of the first element that equals
    /// `expected`, within the range that `range` returns for the array's length. `None` for other
    /// values.
    pub fn positions(
        &self,
        tx: &mut Transaction<'_>,
        path: &Path,
        expected: &Json,
        range: impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<Option<Option<usize>>>, ErrorReply> {
        if let Some(steps) = self.steps_to_one(path) {
            let position = self.read_pieces(tx, |pieces| {
                let stub = pieces.find(&steps);
                stub.map(|stub| {
                    let range = range(pieces::length_of_array(&stub)?);
                    let Json::Array(elements) = stub else { return None };
                    Some(pieces.position(elements, &range, expected))
                })
            });
            return Ok(position?.into_iter().collect());
        }
        let matches = self.select(tx, path)?;
        let positions = matches.values().map(|value| {
            let Json::Array(elements) = value else { return None };
            let range = range(elements.len());
            let within = elements.get(range.clone()).unwrap_or_default();
            let offset = within.iter().position(|element| element == expected);
            Some(offset.map(|offset| range.start + offset))
        });
        Ok(positions.collect())
    }

    fn steps_to_one<'p>(&self, path: &'p Path) -> Option<Vec<StaticStep<'p>>> {
        path.static_steps()
            .filter(|_| self.entry.is_large() && self.whole.get().is_none())
    }
}

/// The place of one value of a document in pieces. The value may be absent.
pub struct Place<'e, 'p> {
    pub name: &'e [u8],
    entry: &'e Entry,
    head: Head,
    pub steps: Vec<StaticStep<'p>>,
}

impl<'e, 'p> Place<'e, 'p> {
    /// `None` for a packed document, and for a path that may mean several values: the document is
    /// then read and written whole.
    pub fn of(name: &'e [u8], entry: &'e Entry, path: &'p Path) -> Option<Place<'e, 'p>> {
        if !entry.is_large() {
            return None;
        }
        let head = Head::of(entry);
        let steps = path.static_steps().filter(|_| head.next < NUMBERS_MAX)?;
        Some(Place {
            name,
            entry,
            head,
            steps,
        })
    }

    fn pieces<'k, 't>(&self, tx: &'k mut Transaction<'t>) -> Pieces<'k, 't> {
        Pieces::of(tx, self.entry, self.head.next)
    }

    /// The shape of the value. `None` if it is absent.
    pub fn shape(&self, tx: &mut Transaction<'_>) -> Option<Shape> {
        self.shape_at(tx, &self.steps)
    }

    /// The shape of the container around the value.
    pub fn shape_around(&self, tx: &mut Transaction<'_>) -> Option<Shape> {
        let (_, around) = self.steps.split_last()?;
        self.shape_at(tx, around)
    }

    fn shape_at(&self, tx: &mut Transaction<'_>, steps: &[StaticStep<'_>]) -> Option<Shape> {
        let mut pieces = self.pieces(tx);
        let stub = pieces.find(steps)?;
        Some(Shape::of_stub(&mut pieces, stub))
    }

    /// The value, if it is a scalar; `Some(None)` for a container.
    pub fn scalar(&self, tx: &mut Transaction<'_>) -> Option<Option<Json>> {
        let mut pieces = self.pieces(tx);
        let stub = pieces.find(&self.steps)?;
        let is_container = pieces::length_of_array(&stub).is_some() || pieces::length_of_object(&stub).is_some();
        Some((!is_container).then(|| pieces.whole(stub)))
    }

    /// Replaces the value.
    pub fn replace(&self, keys: &mut Keyspace<'_, '_>, value: &Json) -> Result<(), ErrorReply> {
        value.check_depth(self.steps.len())?;
        if self.steps.is_empty() {
            return put(keys, self.name, Header::of(self.entry), value);
        }
        self.change(keys, &self.steps, &mut |pieces, stub| pieces.replaced(stub, value).0)
    }

    /// Adds a member to the object around the absent value.
    pub fn create(&self, keys: &mut Keyspace<'_, '_>, name: &str, value: &Json) -> Result<(), ErrorReply> {
        value.check_depth(self.steps.len())?;
        let (_, around) = self.steps.split_last().expect("the root is there");
        self.change(keys, around, &mut |pieces, stub| {
            pieces.with_member_set(stub, name, value)
        })
    }

    /// Removes the value, which must not be the root.
    pub fn remove(&self, keys: &mut Keyspace<'_, '_>) -> Result<(), ErrorReply> {
        let (last, around) = self.steps.split_last().expect("a value below the root");
        self.change(keys, around, &mut |pieces, stub| pieces.without_child(stub, last))
    }

    /// As [`Json::merge`], for the value.
    pub fn merge(&self, keys: &mut Keyspace<'_, '_>, patch: &Json) -> Result<(), ErrorReply> {
        patch.check_depth(self.steps.len())?;
        self.change(keys, &self.steps, &mut |pieces, stub| pieces.merged(stub, patch))
    }

    /// Applies splices to the array, one after another. Returns the removed elements.
    pub fn splice(&self, keys: &mut Keyspace<'_, '_>, splices: &[Splice<'_>]) -> Result<Vec<Json>, ErrorReply> {
        for value in splices.iter().flat_map(|splice| splice.inserted) {
            value.check_depth(self.steps.len() + 1)?;
        }
        let mut removed = Vec::new();
        self.change(keys, &self.steps, &mut |pieces, mut stub| {
            for splice in splices {
                let old;
                (stub, old) = pieces.spliced(stub, splice.removed.clone(), splice.inserted);
                removed.extend(old);
            }
            stub
        })?;
        Ok(removed)
    }

    /// Changes the value at steps. An error rolls the whole command back.
    fn change(
        &self,
        keys: &mut Keyspace<'_, '_>,
        steps: &[StaticStep<'_>],
        change: Change<'_>,
    ) -> Result<(), ErrorReply> {
        let mut pieces = self.pieces(keys.tx);
        pieces.change(steps, change);
        let head = self.head.grown_by(pieces.growth, pieces.next)?;
        let header = Header::of(self.entry);
        if head.text_bytes <= PACKED_AGAIN_BYTES {
            let document = document(keys.tx, self.entry);
            return put(keys, self.name, header, &document);
        }
        match head == self.head {
            true => keys.touch(self.name),
            false => keys.put_parts(self.name, header, &[self.entry.elements().id(), &head.to_bytes()]),
        }
        Ok(())
    }
}

/// Elements of an array that are removed, and the elements that replace them.
pub struct Splice<'v> {
    pub removed: Range<usize>,
    pub inserted: &'v [Json],
}

impl<'v> Splice<'v> {
    pub fn of(removed: Range<usize>, inserted: &'v [Json]) -> Splice<'v> {
        Splice { removed, inserted }
    }
}
