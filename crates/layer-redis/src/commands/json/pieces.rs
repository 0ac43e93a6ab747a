//! A document in pieces: rows of some hundred bytes. Each row is found, read and written
//! separately.
//!
//! ```text
//! 'E' id number        text of a piece; number in 4 bytes, big-endian; 0 is the root
//! 'E' id number hash   members of a wide object: those whose names have this hash or a greater one,
//!                      up to the next such row; hash in 4 bytes, big-endian
//! ```
//!
//! The text is JSON, where a string with a leading DEL is a reference:
//!
//! ```text
//! "\x7fn7"        the value in piece 7
//! "\x7fs7:30"     in an array: 30 of its elements, which are in the array in piece 7
//! "\x7fo7:30:45"  the object of 30 members in the rows of number 7; the next member is the 45th ever
//! "\x7f\x7f..."   a client's string that begins with DEL
//! ```
//!
//! A name in a row of members has its place in the object's order as a prefix: `"44:name"`.
//!
//! A value with a longer text than [`INLINE_BYTES`] is a piece of its own. Elements of an array of
//! more than [`PIECE_BYTES`] together are grouped, group by group, until the array fits into a
//! piece; a longer object becomes a wide object. So the values on a path are in few and small rows,
//! for containers of any width. A part of a document that is read or changed in this form, with
//! references, is its *stub*.
//!
//! A row that a change makes longer than [`PIECE_BYTES_MAX`] is divided, and an empty row is
//! removed. Rows that have become short are not merged: there are never more of them than there
//! were values.

use std::ops::{ControlFlow, Range};

use quartet_engine::Row;
use quartet_engine::Transaction;
use xxhash_rust::xxh3::xxh3_64;

use super::document::{ContainerText, Json, Layout, NAME_BYTES, write_container, write_name, write_text};
use super::path::StaticStep;
use super::text::Text;
use crate::keyspace::{Elements, Entry};

/// Length up to which a piece is filled.
const PIECE_BYTES: usize = 512;
/// A piece with a longer text is divided, unless a single string or name makes it so long. A change
/// logs at most one piece, or the two halves of a divided piece, and a few bytes of the pieces
/// around it.
pub const PIECE_BYTES_MAX: usize = 704;
/// A value with a longer text is a piece of its own.
const INLINE_BYTES: usize = 384;
/// Length up to which a value in a piece of its own moves back into the piece around it.
const MOVED_BACK_BYTES: usize = INLINE_BYTES / 4;

const MARK: char = '\u{7f}';

/// The meaning of a string in a piece.
pub enum Meaning<'t> {
    Itself(&'t str),
    Piece(u32),
    Elements(Group),
    Wide(Wide),
}

/// Elements that are stored in a piece of their own.
#[derive(Clone, Copy)]
pub struct Group {
    pub number: u32,
    pub count: usize,
}

/// An object in rows of its own.
#[derive(Clone, Copy)]
pub struct Wide {
    pub number: u32,
    pub count: usize,
    /// The order of the next member.
    next: u64,
}

/// `None` for a reference that no version has written.
pub fn judged_meaning(text: &str) -> Option<Meaning<'_>> {
    let Some(reference) = text.strip_prefix(MARK) else {
        return Some(Meaning::Itself(text));
    };
    if reference.starts_with(MARK) {
        return Some(Meaning::Itself(reference));
    }
    if let Some(number) = reference.strip_prefix('n') {
        return Some(Meaning::Piece(number.parse().ok()?));
    }
    if let Some(group) = reference.strip_prefix('s') {
        let (number, count) = group.split_once(':')?;
        return Some(Meaning::Elements(Group {
            number: number.parse().ok()?,
            count: count.parse().ok()?,
        }));
    }
    let mut numbers = reference.strip_prefix('o')?.splitn(3, ':');
    Some(Meaning::Wide(Wide {
        number: numbers.next()?.parse().ok()?,
        count: numbers.next()?.parse().ok()?,
        next: numbers.next()?.parse().ok()?,
    }))
}

fn meaning(text: &str) -> Meaning<'_> {
    judged_meaning(text).expect("a reference that was written")
}

impl Group {
    fn stub(self) -> Json {
        Json::Text(format!("{MARK}s{}:{}", self.number, self.count))
    }
}

impl Wide {
    fn stub(self) -> Json {
        Json::Text(format!("{MARK}o{}:{}:{}", self.number, self.count, self.next))
    }
}

fn piece_stub(number: u32) -> Json {
    Json::Text(format!("{MARK}n{number}"))
}

/// The stub of a whole value.
fn stub_of(value: &Json) -> Json {
    match value {
        Json::Text(text) if text.starts_with(MARK) => Json::Text(format!("{MARK}{text}")),
        Json::Array(elements) => Json::Array(elements.iter().map(stub_of).collect()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), stub_of(value)));
            Json::Object(members.collect())
        }
        scalar => scalar.clone(),
    }
}

/// The group that an element of an array refers to.
pub fn group_of(element: &Json) -> Option<Group> {
    match element {
        Json::Text(text) if text.starts_with(MARK) => match meaning(text) {
            Meaning::Elements(group) => Some(group),
            _ => None,
        },
        _ => None,
    }
}

/// The number of the document's elements that an element of a piece represents.
pub fn count_of(element: &Json) -> usize {
    group_of(element).map_or(1, |group| group.count)
}

fn wide_of(stub: &Json) -> Option<Wide> {
    match stub {
        Json::Text(text) => match meaning(text) {
            Meaning::Wide(wide) => Some(wide),
            _ => None,
        },
        _ => None,
    }
}

fn is_reference(stub: &Json) -> bool {
    matches!(stub, Json::Text(text) if !matches!(meaning(text), Meaning::Itself(_)))
}

pub fn hash_of(name: &str) -> u32 {
    (xxh3_64(name.as_bytes()) >> 32) as u32
}

/// Order and name of a member of a wide object. `None` for what no version has written.
pub fn judged_name(stored: &str) -> Option<(u64, &str)> {
    let (order, name) = stored.split_once(':')?;
    Some((order.parse().ok()?, name))
}

fn name_of(stored: &str) -> &str {
    stored.split_once(':').map_or(stored, |(_, name)| name)
}

/// Whether the rows of a value that is read whole are retained or removed.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Keep,
    Clear,
}

/// Growth of a document.
#[derive(Clone, Copy, Default)]
pub struct Growth {
    /// Growth of its text.
    pub text_bytes: i64,
    /// Growth in memory, as [`Json::memory_bytes`] counts it.
    pub memory_bytes: i64,
}

/// Members with their stubs, in the object's order. `takes` is called for the memory of each row,
/// and the rest is left out once it has returned false.
fn members_of(
    tx: &mut Transaction<'_>,
    elements: Elements,
    wide: Wide,
    takes: &mut dyn FnMut(usize) -> bool,
) -> impl Iterator<Item = (String, Json)> + use<> {
    let (start, end) = rows_of(wide.number);
    let mut ordered: Vec<(u64, String, Json)> = Vec::new();
    elements.scan(tx, &start, Some(&end), false, &mut |_, text| {
        if !takes(text.len()) {
            return ControlFlow::Break(());
        }
        let row = Json::stored(text);
        if !takes(3 * row.memory_bytes()) {
            return ControlFlow::Break(());
        }
        if let Json::Object(members) = row {
            ordered.extend(members.into_iter().map(|(stored, value)| {
                let (order, name) = judged_name(&stored).expect("a member's order and name");
                (order, name.to_owned(), value)
            }));
        }
        ControlFlow::Continue(())
    });
    ordered.sort_unstable_by_key(|(order, _, _)| *order);
    ordered.into_iter().map(|(_, name, value)| (name, value))
}

/// The members of a wide object that are in one row.
struct Bucket {
    key: [u8; 8],
    row: Option<Row>,
    members: Vec<(String, Json)>,
}

/// A value on its way into a piece.
struct Stub {
    json: Json,
    /// Length of its text.
    bytes: usize,
}

/// A child on its way into its container, or a reference to children in another piece.
struct Child {
    name: Option<String>,
    stub: Stub,
    /// The number of the document's children that it represents.
    count: usize,
}

impl Child {
    /// Length with its name and a comma.
    fn bytes(&self) -> usize {
        self.name.as_deref().map_or(0, Json::name_bytes) + self.stub.bytes + 1
    }
}

impl Stub {
    fn of(json: Json) -> Stub {
        let bytes = json.text_bytes();
        Stub { json, bytes }
    }
}

/// Changes a value of a document: takes its stub and returns another.
pub type Change<'c> = &'c mut dyn FnMut(&mut Pieces<'_, '_>, Json) -> Json;

/// The pieces of one document.
pub struct Pieces<'k, 't> {
    tx: &'k mut Transaction<'t>,
    elements: Elements,
    /// The next piece's number.
    pub next: u32,
    pub growth: Growth,
    /// Takes memory for what is read. False: there is none.
    taking: Option<&'k mut (dyn FnMut(usize) -> bool + 'k)>,
    is_refused: bool,
}

impl<'k, 't> Pieces<'k, 't> {
    pub fn of(tx: &'k mut Transaction<'t>, entry: &Entry, next: u32) -> Pieces<'k, 't> {
        Pieces {
            tx,
            elements: entry.elements(),
            next,
            growth: Growth::default(),
            taking: None,
            is_refused: false,
        }
    }

    /// The same, with `taking` called for memory before anything is read. Once it has returned
    /// false, what is read is incomplete: [`Pieces::is_refused`].
    pub fn taking(self, taking: &'k mut (dyn FnMut(usize) -> bool + 'k)) -> Pieces<'k, 't> {
        Pieces {
            taking: Some(taking),
            ..self
        }
    }

    /// There was no memory for a part of what was read.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Writes a document whole.
    pub fn write_all(tx: &'k mut Transaction<'t>, elements: Elements, document: &Json) -> u32 {
        let mut pieces = Pieces {
            tx,
            elements,
            next: 1,
            growth: Growth::default(),
            taking: None,
            is_refused: false,
        };
        let root = pieces.fitted(stub_of(document)).json;
        pieces.write(&0_u32.to_be_bytes(), None, &root);
        pieces.next
    }

    fn load(&mut self, number: u32) -> (Option<Row>, Json) {
        let row = self.elements.get(self.tx, &number.to_be_bytes());
        // A row that could not be read: the transaction's answer is dropped.
        let read = row.as_ref().map(Row::value).filter(|text| self.takes(text.len()));
        let stub = read.map_or(Json::Null, Json::stored);
        self.takes_values(&stub);
        (row, stub)
    }

    fn takes(&mut self, bytes: usize) -> bool {
        if let Some(taking) = &mut self.taking
            && !self.is_refused
        {
            self.is_refused = !taking(bytes);
        }
        !self.is_refused
    }

    /// Takes memory for values that were read: a list that grows has twice the room that its
    /// elements need.
    fn takes_values(&mut self, stub: &Json) {
        if self.taking.is_some() {
            self.takes(2 * stub.memory_bytes());
        }
    }

    /// Writes a row: where `old` is stored, only the bytes that differ from it, unless the row
    /// becomes shorter.
    fn write(&mut self, key: &[u8], old: Option<&Row>, stub: &Json) {
        let text = stub.text();
        let old = old.map(Row::value).filter(|old| old.len() <= text.len());
        let Some(old) = old else {
            self.elements.set(self.tx, key, &text);
            return;
        };
        let start = old.iter().zip(&text).take_while(|(old, new)| old == new).count();
        let mut end = text.len();
        if old.len() == end {
            let pairs = old[start..].iter().zip(&text[start..]).rev();
            end -= pairs.take_while(|(old, new)| old == new).count();
        }
        if start < end {
            self.elements.patch(self.tx, key, start, &text[start..end]);
        }
    }

    fn take_number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn clear(&mut self, number: u32) {
        self.elements.clear(self.tx, &number.to_be_bytes());
    }

    // Reading.

    /// The stub of the value at a path, not a reference to a piece; `None` if there is no value.
    pub fn find(&mut self, steps: &[StaticStep<'_>]) -> Option<Json> {
        let mut stub = self.resolved(piece_stub(0));
        for step in steps {
            let child = match step {
                StaticStep::Name(name) => self.member(stub, name)?,
                StaticStep::Index(index) => self.element(stub, *index)?,
            };
            stub = self.resolved(child);
        }
        Some(stub)
    }

    fn resolved(&mut self, mut stub: Json) -> Json {
        while let Json::Text(text) = &stub
            && let Meaning::Piece(number) = meaning(text)
        {
            stub = self.load(number).1;
        }
        stub
    }

    fn member(&mut self, stub: Json, name: &str) -> Option<Json> {
        if let Some(wide) = wide_of(&stub) {
            let members = self.bucket(wide.number, name).members;
            let mut members = members.into_iter();
            return members
                .find(|(stored, _)| name_of(stored) == name)
                .map(|(_, value)| value);
        }
        let Json::Object(members) = stub else { return None };
        members
            .into_iter()
            .find(|(member_name, _)| member_name == name)
            .map(|(_, value)| value)
    }

    fn element(&mut self, stub: Json, index: i64) -> Option<Json> {
        let Json::Array(mut elements) = stub else { return None };
        let mut index = from_end(index, count_of_all(&elements))?;
        'level: loop {
            for element in elements {
                let count = count_of(&element);
                if index >= count {
                    index -= count;
                    continue;
                }
                let Some(group) = group_of(&element) else {
                    return Some(element);
                };
                elements = self.group(group.number);
                continue 'level;
            }
            return None;
        }
    }

    fn group(&mut self, number: u32) -> Vec<Json> {
        match self.load(number).1 {
            Json::Array(elements) => elements,
            _ => Vec::new(),
        }
    }

    /// The position of the first element of a range that equals a value.
    pub fn position(&mut self, elements: Vec<Json>, range: &Range<usize>, expected: &Json) -> Option<usize> {
        let mut start = 0;
        for element in elements {
            let count = count_of(&element);
            let within = range.start.max(start)..range.end.min(start + count);
            if !within.is_empty() {
                let position_in_group = match group_of(&element) {
                    Some(group) => {
                        let inner = self.group(group.number);
                        self.position(inner, &(within.start - start..within.end - start), expected)
                    }
                    None => (self.whole(element) == *expected).then_some(0),
                };
                if let Some(position_in_group) = position_in_group {
                    return Some(start + position_in_group);
                }
            }
            start += count;
        }
        None
    }

    /// The value of a stub.
    pub fn whole(&mut self, stub: Json) -> Json {
        self.read(stub, Then::Keep)
    }

    fn read(&mut self, stub: Json, then: Then) -> Json {
        match stub {
            Json::Text(text) => match meaning(&text) {
                Meaning::Piece(number) => {
                    let inner = self.read_piece(number, then);
                    self.read(inner, then)
                }
                Meaning::Wide(wide) => self.read_wide(wide, then),
                Meaning::Itself(own) if own.len() < text.len() => Json::Text(own.to_owned()),
                _ => Json::Text(text),
            },
            Json::Array(elements) => {
                let mut all = Vec::with_capacity(elements.len());
                self.read_elements(elements, then, &mut all);
                Json::Array(all)
            }
            Json::Object(members) => {
                let members = members.into_iter();
                Json::Object(members.map(|(name, value)| (name, self.read(value, then))).collect())
            }
            scalar => scalar,
        }
    }

    fn read_piece(&mut self, number: u32, then: Then) -> Json {
        let stub = self.load(number).1;
        if then == Then::Clear {
            self.clear(number);
        }
        stub
    }

    fn read_elements(&mut self, elements: Vec<Json>, then: Then, all: &mut Vec<Json>) {
        for element in elements {
            match group_of(&element) {
                Some(group) => {
                    if let Json::Array(inner) = self.read_piece(group.number, then) {
                        self.read_elements(inner, then, all);
                    }
                }
                None => all.push(self.read(element, then)),
            }
        }
    }

    fn read_wide(&mut self, wide: Wide, then: Then) -> Json {
        let (taking, mut is_refused) = (&mut self.taking, self.is_refused);
        let members = members_of(self.tx, self.elements, wide, &mut |bytes| {
            is_refused = is_refused || taking.as_mut().is_some_and(|taking| !taking(bytes));
            !is_refused
        });
        self.is_refused = is_refused;
        if then == Then::Clear {
            let (start, end) = rows_of(wide.number);
            self.elements.clear_range(self.tx, &start, Some(&end));
        }
        Json::Object(members.map(|(name, value)| (name, self.read(value, then))).collect())
    }

    /// Appends the text of a stub's value, as [`Json::write_with`] does, without reading the value
    /// whole: a row at a time, and a wide object's rows together, because they are not in the order
    /// of its members.
    pub fn append_text(&mut self, stub: Json, layout: &Layout<'_>, depth: usize, out: &mut Text<'_>) {
        match stub {
            _ if out.is_full() => {}
            Json::Text(text) => match meaning(&text) {
                Meaning::Piece(number) => {
                    let inner = self.load(number).1;
                    self.append_text(inner, layout, depth, out);
                }
                Meaning::Wide(wide) => {
                    let mut workspace = out.workspace();
                    let mut is_refused = false;
                    let members = members_of(self.tx, self.elements, wide, &mut |bytes| {
                        is_refused = is_refused || workspace.take(bytes).is_err();
                        !is_refused
                    });
                    match is_refused {
                        true => out.refuse(),
                        false => self.append_members(members, layout, depth, out),
                    }
                }
                Meaning::Itself(own) => write_text(own, out),
                Meaning::Elements(_) => write_text(&text, out),
            },
            Json::Array(elements) => {
                let mut container = ContainerText::open(b"[]", layout, depth, out);
                self.append_elements(elements, &mut container, layout, depth, out);
                container.close(out);
            }
            Json::Object(members) => self.append_members(members.into_iter(), layout, depth, out),
            scalar => scalar.write_with(layout, depth, out),
        }
    }

    fn append_elements(
        &mut self,
        elements: Vec<Json>,
        container: &mut ContainerText<'_>,
        layout: &Layout<'_>,
        depth: usize,
        out: &mut Text<'_>,
    ) {
        for element in elements {
            if out.is_full() {
                return;
            }
            if let Some(group) = group_of(&element) {
                let inner = self.group(group.number);
                self.append_elements(inner, container, layout, depth, out);
                continue;
            }
            container.start_child(out);
            self.append_text(element, layout, depth + 1, out);
        }
    }

    fn append_members(
        &mut self,
        members: impl Iterator<Item = (String, Json)>,
        layout: &Layout<'_>,
        depth: usize,
        out: &mut Text<'_>,
    ) {
        write_container(b"{}", members, layout, depth, out, |(name, value), out| {
            write_name(&name, layout, out);
            self.append_text(value, layout, depth + 1, out);
        });
    }

    /// The row of a wide object for the member of this name, stored or not.
    fn bucket(&mut self, number: u32, name: &str) -> Bucket {
        let start = number.to_be_bytes();
        let mut key = [0; 8];
        key[..4].copy_from_slice(&start);
        let mut end = [0; 9];
        end[..4].copy_from_slice(&start);
        end[4..8].copy_from_slice(&hash_of(name).to_be_bytes());
        let row = self.elements.last(self.tx, &start, Some(&end));
        let Some(row) = row else {
            return Bucket {
                key,
                row: None,
                members: Vec::new(),
            };
        };
        key.copy_from_slice(Elements::name(&row));
        let members = match Json::stored(row.value()) {
            Json::Object(members) => members,
            _ => Vec::new(),
        };
        Bucket {
            key,
            row: Some(row),
            members,
        }
    }

    // Laying out.

    /// Makes a stub fit into a piece: longer values are written into pieces of their own.
    fn fitted(&mut self, stub: Json) -> Stub {
        match stub {
            Json::Array(elements) => {
                let mut children = self.children(elements);
                while bytes_of_all(&children) > PIECE_BYTES && children.len() > 1 {
                    let groups = divided(children, PIECE_BYTES);
                    children = groups.map(|group| self.grouped(group)).collect();
                }
                let bytes = 2 + bytes_of_all(&children);
                let json = array_of(children);
                Stub { json, bytes }
            }
            Json::Object(members) => {
                let children = members.into_iter().map(|(name, value)| Child {
                    name: Some(name),
                    stub: self.inline(value),
                    count: 1,
                });
                let children: Vec<Child> = children.collect();
                if bytes_of_all(&children) > PIECE_BYTES && children.len() > 1 {
                    return self.widened(children);
                }
                let bytes = 2 + bytes_of_all(&children);
                let members = children.into_iter();
                let members = members.map(|child| (child.name.unwrap_or_default(), child.stub.json));
                let json = Json::Object(members.collect());
                Stub { json, bytes }
            }
            scalar => Stub::of(scalar),
        }
    }

    fn children(&mut self, elements: Vec<Json>) -> Vec<Child> {
        let children = elements.into_iter().map(|element| Child {
            name: None,
            count: count_of(&element),
            stub: self.inline(element),
        });
        children.collect()
    }

    /// The stub that a container has of its child: the child's own, or a reference.
    fn inline(&mut self, stub: Json) -> Stub {
        let stub = self.fitted(stub);
        if stub.bytes <= INLINE_BYTES {
            return stub;
        }
        let number = self.take_number();
        self.write(&number.to_be_bytes(), None, &stub.json);
        Stub::of(piece_stub(number))
    }

    fn grouped(&mut self, children: Vec<Child>) -> Child {
        let number = self.take_number();
        self.write_group(number, None, children)
    }

    fn write_group(&mut self, number: u32, old: Option<&Row>, children: Vec<Child>) -> Child {
        let count = children.iter().map(|child| child.count).sum();
        self.write(&number.to_be_bytes(), old, &array_of(children));
        Child {
            name: None,
            stub: Stub::of(Group { number, count }.stub()),
            count,
        }
    }

    fn widened(&mut self, children: Vec<Child>) -> Stub {
        let wide = Wide {
            number: self.take_number(),
            count: children.len(),
            next: children.len() as u64,
        };
        let members = children.into_iter().enumerate().map(|(order, child)| {
            let name = child.name.unwrap_or_default();
            (hash_of(&name), (format!("{order}:{name}"), child.stub.json))
        });
        self.write_members(wide.number.to_be_bytes(), 0, None, members.collect(), PIECE_BYTES);
        Stub::of(wide.stub())
    }

    /// Writes members into rows of about `row_bytes` each. The first row starts at `first_hash`,
    /// and `old` is what it replaces.
    fn write_members(
        &mut self,
        number: [u8; 4],
        first_hash: u32,
        mut old: Option<&Row>,
        mut members: Vec<(u32, (String, Json))>,
        row_bytes: usize,
    ) {
        members.sort_by_key(|(hash, _)| *hash);
        let (mut open, mut open_bytes) = (Vec::new(), 0);
        let (mut start, mut last) = (first_hash, first_hash);
        for (hash, member) in members {
            let bytes = Json::name_bytes(&member.0) + member.1.text_bytes() + 1;
            // Members with one hash are in one row.
            if open_bytes + bytes > row_bytes && !open.is_empty() && hash != last {
                let key = [number, start.to_be_bytes()].concat();
                self.write(&key, old.take(), &Json::Object(std::mem::take(&mut open)));
                (start, open_bytes) = (hash, 0);
            }
            last = hash;
            open_bytes += bytes;
            open.push(member);
        }
        let key = [number, start.to_be_bytes()].concat();
        self.write(&key, old, &Json::Object(open));
    }

    // Changing.

    /// Changes the value at a path. The value must exist.
    pub fn change(&mut self, steps: &[StaticStep<'_>], change: Change<'_>) {
        let (row, root) = self.load(0);
        let mut root = self.changed(root, steps, change);
        if root.text_bytes() > PIECE_BYTES_MAX {
            root = self.fitted(root).json;
        }
        // The root may have been written into a piece of its own, as any long new value is.
        let root = self.unwrapped(root);
        self.write(&0_u32.to_be_bytes(), row.as_ref(), &root);
    }

    fn unwrapped(&mut self, mut stub: Json) -> Json {
        while let Json::Text(text) = &stub
            && let Meaning::Piece(number) = meaning(text)
        {
            stub = self.read_piece(number, Then::Clear);
        }
        stub
    }

    fn changed(&mut self, stub: Json, steps: &[StaticStep<'_>], change: Change<'_>) -> Json {
        if let Json::Text(text) = &stub
            && let Meaning::Piece(number) = meaning(text)
        {
            let (row, inner) = self.load(number);
            let inner = self.changed(inner, steps, change);
            return self.settled(number, row.as_ref(), inner);
        }
        let Some((step, further)) = steps.split_first() else {
            return change(self, stub);
        };
        match step {
            StaticStep::Name(name) => {
                self.with_member(stub, name, &mut |pieces, value| pieces.changed(value, further, change))
            }
            StaticStep::Index(index) => {
                let Json::Array(mut elements) = stub else { return stub };
                if let Some(index) = from_end(*index, count_of_all(&elements)) {
                    self.with_element(&mut elements, index, &mut |pieces, value| {
                        pieces.changed(value, further, change)
                    });
                }
                Json::Array(elements)
            }
        }
    }

    /// Writes a value's own piece, and returns the stub that its container has of it.
    fn settled(&mut self, number: u32, old: Option<&Row>, mut stub: Json) -> Json {
        let mut bytes = stub.text_bytes();
        if bytes > PIECE_BYTES_MAX {
            Stub { json: stub, bytes } = self.fitted(stub);
        }
        if is_reference(&stub) || bytes <= MOVED_BACK_BYTES {
            self.clear(number);
            return stub;
        }
        self.write(&number.to_be_bytes(), old, &stub);
        piece_stub(number)
    }

    /// Changes an existing member.
    fn with_member(&mut self, stub: Json, name: &str, change: Change<'_>) -> Json {
        if let Some(wide) = wide_of(&stub) {
            let mut bucket = self.bucket(wide.number, name);
            let member = bucket.members.iter_mut().find(|(stored, _)| name_of(stored) == name);
            if let Some((_, value)) = member {
                *value = change(self, std::mem::take(value));
            }
            self.settle_bucket(bucket);
            return stub;
        }
        let Json::Object(mut members) = stub else { return stub };
        if let Some((_, value)) = members.iter_mut().find(|(member_name, _)| member_name == name) {
            *value = change(self, std::mem::take(value));
        }
        Json::Object(members)
    }

    fn settle_bucket(&mut self, bucket: Bucket) {
        let Bucket { key, row, members } = bucket;
        if members.is_empty() {
            self.elements.clear(self.tx, &key);
            return;
        }
        let bytes: usize = members
            .iter()
            .map(|(name, value)| Json::name_bytes(name) + value.text_bytes() + 1)
            .sum();
        if bytes < PIECE_BYTES_MAX {
            return self.write(&key, row.as_ref(), &Json::Object(members));
        }
        let members = members.into_iter().map(|(stored, value)| {
            let hash = hash_of(name_of(&stored));
            (hash, (stored, self.inline(value).json))
        });
        let members: Vec<_> = members.collect();
        let (number, hash) = key.split_at(4);
        let number = number.try_into().expect("four bytes of a number");
        let hash = u32::from_be_bytes(hash.try_into().expect("four bytes of a hash"));
        self.write_members(number, hash, row.as_ref(), members, PIECE_BYTES_MAX / 2);
    }

    /// Changes an existing element.
    fn with_element(&mut self, elements: &mut Vec<Json>, mut index: usize, change: Change<'_>) {
        for position in 0..elements.len() {
            let count = count_of(&elements[position]);
            if index >= count {
                index -= count;
                continue;
            }
            match group_of(&elements[position]) {
                Some(group) => self.with_group(elements, position, group.number, &mut |pieces, inner| {
                    pieces.with_element(inner, index, change);
                }),
                None => elements[position] = change(self, std::mem::take(&mut elements[position])),
            }
            return;
        }
    }

    /// Changes the elements of a group, and the reference to it at a position of the array.
    fn with_group(
        &mut self,
        elements: &mut Vec<Json>,
        position: usize,
        number: u32,
        change: &mut dyn FnMut(&mut Self, &mut Vec<Json>),
    ) {
        let (row, inner) = self.load(number);
        let Json::Array(mut inner) = inner else { return };
        change(self, &mut inner);
        let references = self.settle_group(number, row.as_ref(), inner);
        elements.splice(position..=position, references);
    }

    fn settle_group(&mut self, number: u32, old: Option<&Row>, elements: Vec<Json>) -> Vec<Json> {
        if elements.is_empty() {
            self.clear(number);
            return Vec::new();
        }
        let count = count_of_all(&elements);
        let stub = Json::Array(elements);
        if stub.text_bytes() <= PIECE_BYTES_MAX {
            self.write(&number.to_be_bytes(), old, &stub);
            return vec![Group { number, count }.stub()];
        }
        let Json::Array(elements) = stub else { return Vec::new() };
        let mut groups = divided(self.children(elements), PIECE_BYTES);
        let first = groups.next().unwrap_or_default();
        let mut references = vec![self.write_group(number, old, first).stub.json];
        references.extend(groups.map(|group| self.grouped(group).stub.json));
        references
    }

    fn grow_by(&mut self, sign: i64, text_bytes: usize, memory_bytes: usize) {
        self.growth.text_bytes += sign * text_bytes as i64;
        self.growth.memory_bytes += sign * memory_bytes as i64;
    }

    fn count_value(&mut self, sign: i64, value: &Json) {
        self.grow_by(sign, value.text_bytes(), value.memory_bytes());
    }

    /// Counts the commas of a container that has gained or lost children.
    fn count_commas(&mut self, before: usize, after: usize) {
        self.growth.text_bytes += after.saturating_sub(1) as i64 - before.saturating_sub(1) as i64;
    }

    /// The stub of a new value, as its container has it.
    fn placed(&mut self, value: &Json) -> Json {
        self.count_value(1, value);
        self.inline(stub_of(value)).json
    }

    /// Replaces a value by another. Returns the new value's stub and the old value.
    pub fn replaced(&mut self, stub: Json, value: &Json) -> (Json, Json) {
        let old = self.read(stub, Then::Clear);
        self.count_value(-1, &old);
        (self.placed(value), old)
    }

    /// Replaces elements of an array by others. Returns the array's stub and the removed elements.
    pub fn spliced(&mut self, stub: Json, removed: Range<usize>, inserted: &[Json]) -> (Json, Vec<Json>) {
        let Json::Array(mut elements) = stub else {
            return (stub, Vec::new());
        };
        let before = count_of_all(&elements);
        let (start, removed_count) = (removed.start, removed.len());
        let mut old = Vec::new();
        if !removed.is_empty() {
            self.remove(&mut elements, removed, &mut old);
        }
        if !inserted.is_empty() {
            let new = inserted.iter().map(|value| self.placed(value)).collect();
            self.insert(&mut elements, start, new);
        }
        for value in &old {
            self.count_value(-1, value);
        }
        self.count_commas(before, before - removed_count + inserted.len());
        while let [only] = elements.as_slice()
            && let Some(group) = group_of(only)
        {
            elements = match self.read_piece(group.number, Then::Clear) {
                Json::Array(elements) => elements,
                _ => Vec::new(),
            };
        }
        (Json::Array(elements), old)
    }

    fn insert(&mut self, elements: &mut Vec<Json>, mut index: usize, mut new: Vec<Json>) {
        for position in 0..elements.len() {
            let count = count_of(&elements[position]);
            let is_last = position + 1 == elements.len();
            match group_of(&elements[position]) {
                Some(group) if index < count || index == count && is_last => {
                    return self.with_group(elements, position, group.number, &mut |pieces, inner| {
                        pieces.insert(inner, index, std::mem::take(&mut new));
                    });
                }
                None if index == 0 => {
                    elements.splice(position..position, new);
                    return;
                }
                _ => index -= count.min(index),
            }
        }
        elements.extend(new);
    }

    fn remove(&mut self, elements: &mut Vec<Json>, range: Range<usize>, old: &mut Vec<Json>) {
        let (mut start, mut position) = (0, 0);
        while position < elements.len() && start < range.end {
            let count = count_of(&elements[position]);
            let removed = range.start.max(start)..range.end.min(start + count);
            if removed.is_empty() {
                position += 1;
            } else if removed.len() == count {
                let element = elements.remove(position);
                self.read_elements(vec![element], Then::Clear, old);
            } else if let Some(group) = group_of(&elements[position]) {
                let length = elements.len();
                let removed = removed.start - start..removed.end - start;
                self.with_group(elements, position, group.number, &mut |pieces, inner| {
                    pieces.remove(inner, removed.clone(), old);
                });
                position += elements.len() + 1 - length;
            }
            start += count;
        }
    }

    /// Sets a member of an object: another value, or a new member.
    pub fn with_member_set(&mut self, stub: Json, name: &str, value: &Json) -> Json {
        if self.has_member(&stub, name) {
            return self.with_member(stub, name, &mut |pieces, old| pieces.replaced(old, value).0);
        }
        let new = self.placed(value);
        let length = length_of_object(&stub).unwrap_or_default();
        self.count_commas(length, length + 1);
        self.count_name(1, name);
        if let Some(wide) = wide_of(&stub) {
            let mut bucket = self.bucket(wide.number, name);
            bucket.members.push((format!("{}:{name}", wide.next), new));
            self.settle_bucket(bucket);
            let grown = Wide {
                count: wide.count + 1,
                next: wide.next + 1,
                ..wide
            };
            return grown.stub();
        }
        let Json::Object(mut members) = stub else { return stub };
        members.push((name.to_owned(), new));
        Json::Object(members)
    }

    fn count_name(&mut self, sign: i64, name: &str) {
        self.grow_by(sign, Json::name_bytes(name), NAME_BYTES + name.len());
    }

    fn has_member(&mut self, stub: &Json, name: &str) -> bool {
        match wide_of(stub) {
            Some(wide) => {
                let members = self.bucket(wide.number, name).members;
                members.iter().any(|(stored, _)| name_of(stored) == name)
            }
            None => stub.member(name).is_some(),
        }
    }

    /// Removes an existing member.
    pub fn without_member(&mut self, stub: Json, name: &str) -> Json {
        let length = length_of_object(&stub).unwrap_or_default();
        let (stub, value) = match (wide_of(&stub), stub) {
            (Some(wide), _) => {
                let mut bucket = self.bucket(wide.number, name);
                let position = bucket.members.iter().position(|(stored, _)| name_of(stored) == name);
                let value = position.map(|position| bucket.members.remove(position).1);
                self.settle_bucket(bucket);
                let count = wide.count - 1;
                let stub = match count {
                    0 => Json::Object(Vec::new()),
                    _ => Wide { count, ..wide }.stub(),
                };
                (stub, value)
            }
            (None, Json::Object(mut members)) => {
                let position = members.iter().position(|(member_name, _)| member_name == name);
                let value = position.map(|position| members.remove(position).1);
                (Json::Object(members), value)
            }
            (None, other) => (other, None),
        };
        if let Some(value) = value {
            let value = self.read(value, Then::Clear);
            self.count_value(-1, &value);
            self.count_name(-1, name);
            self.count_commas(length, length - 1);
        }
        stub
    }

    /// Removes the child at the last step of a path from its container.
    pub fn without_child(&mut self, stub: Json, step: &StaticStep<'_>) -> Json {
        match step {
            StaticStep::Name(name) => self.without_member(stub, name),
            StaticStep::Index(index) => {
                let length = length_of_array(&stub).unwrap_or_default();
                match from_end(*index, length) {
                    Some(index) => self.spliced(stub, index..index + 1, &[]).0,
                    None => stub,
                }
            }
        }
    }

    /// As [`Json::merge`].
    pub fn merged(&mut self, stub: Json, patch: &Json) -> Json {
        if let Json::Text(text) = &stub
            && let Meaning::Piece(number) = meaning(text)
        {
            let (row, inner) = self.load(number);
            let inner = self.merged(inner, patch);
            return self.settled(number, row.as_ref(), inner);
        }
        let mut stub = stub;
        let changes = match patch {
            Json::Object(changes) if length_of_object(&stub).is_some() => changes,
            _ => {
                let mut value = Json::Null;
                value.merge(patch);
                return self.replaced(stub, &value).0;
            }
        };
        for (name, change) in changes {
            stub = match (self.has_member(&stub, name), change) {
                (true, Json::Null) => self.without_member(stub, name),
                (false, Json::Null) => stub,
                (true, _) => self.with_member(stub, name, &mut |pieces, value| pieces.merged(value, change)),
                (false, _) => {
                    let mut value = Json::Null;
                    value.merge(change);
                    self.with_member_set(stub, name, &value)
                }
            };
        }
        stub
    }
}

/// Start and end of the keys of the rows of a wide object.
pub fn rows_of(number: u32) -> ([u8; 4], [u8; 4]) {
    (number.to_be_bytes(), (number + 1).to_be_bytes())
}

pub fn length_of_array(stub: &Json) -> Option<usize> {
    match stub {
        Json::Array(elements) => Some(count_of_all(elements)),
        _ => None,
    }
}

pub fn length_of_object(stub: &Json) -> Option<usize> {
    match stub {
        Json::Object(members) => Some(members.len()),
        stub => wide_of(stub).map(|wide| wide.count),
    }
}

fn count_of_all(elements: &[Json]) -> usize {
    elements.iter().map(count_of).sum()
}

/// Returns the position of an existing element. A negative index counts from the end.
fn from_end(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

fn bytes_of_all(children: &[Child]) -> usize {
    children.iter().map(Child::bytes).sum()
}

/// Groups neighbours up to a length of about `bytes_max`. Each group is made when it is asked for:
/// the groups of a long array together would take as much memory as its children.
fn divided(children: Vec<Child>, bytes_max: usize) -> impl Iterator<Item = Vec<Child>> {
    let mut children = children.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = children.next()?;
        let (mut bytes, mut group) = (first.bytes(), vec![first]);
        while let Some(child) = children.next_if(|child| bytes + child.bytes() <= bytes_max) {
            bytes += child.bytes();
            group.push(child);
        }
        Some(group)
    })
}

fn array_of(children: Vec<Child>) -> Json {
    Json::Array(children.into_iter().map(|child| child.stub.json).collect())
}
