//! Documents as rows: short documents whole in the key's own row, long documents in pieces, so that
//! a change of a number reads and writes only the pieces on its path.
//!
//! ```text
//! packed: 'K' db name   header, the document's text
//! pieces: 'K' db name   header with LARGE, id (10 bytes), bytes of the document's text (8 bytes, big-endian)
//!         'E' id number text of a piece; number in 4 bytes, big-endian; 0 is the root
//! ```
//!
//! The text of a piece is JSON in which a string with a leading NUL is a reference:
//!
//! ```text
//! "\0n7"     the value in piece 7
//! "\0s7:30"  the 30 children of the array or object in piece 7, in this place; in an object it is the name of a member
//! "\0\0..."  a client's string or name that begins with NUL
//! ```
//!
//! A value of more than [`INLINE_BYTES`] is a piece of its own, and children of more than
//! [`PIECE_BYTES`] together are grouped, group by group, until their container fits into a piece.
//! So a path leads through few and small pieces, however wide its containers are. Only scalars are
//! changed in place; every other change rewrites the document, under another id.

use std::collections::HashSet;

use quartet_engine::Transaction;

use super::document::{Json, Location};
use super::path::{Path, StaticStep};
use crate::command::error_reply::ErrorReply;
use crate::commands::strings::VALUE_BYTES_MAX;
use crate::keyspace::{Elements, Entry, Header, Keyspace, LARGE};

/// A longer text is written in pieces.
const PACKED_BYTES_MAX: usize = 16 << 10;
/// A piece is not much longer, unless a single string or name is.
const PIECE_BYTES: usize = 4 << 10;
/// A value with a longer text is a piece of its own.
const INLINE_BYTES: usize = 512;
/// A change that makes a piece longer than this rewrites the document.
const CHANGED_PIECE_BYTES_MAX: usize = 4 * PIECE_BYTES;

const NUL: char = '\0';

/// Bytes of a document's text.
pub fn text_bytes(entry: &Entry) -> u64 {
    match entry.is_large() {
        true => large_text_bytes(entry.large_payload()).expect("a document in pieces says how long it is"),
        false => entry.payload().len() as u64,
    }
}

/// Length of the text of a document in pieces, from the payload after its id.
pub fn large_text_bytes(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

/// The whole document.
pub fn document(tx: &mut Transaction<'_>, entry: &Entry) -> Json {
    if !entry.is_large() {
        return Json::stored(entry.payload());
    }
    let elements = entry.elements();
    whole(piece(tx, &elements, 0), &mut |number| piece(tx, &elements, number))
}

/// The whole document's text.
pub fn text(tx: &mut Transaction<'_>, entry: &Entry) -> Vec<u8> {
    match entry.is_large() {
        true => document(tx, entry).text(),
        false => entry.payload().to_vec(),
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
    let bytes = (text.len() as u64).to_be_bytes();
    keys.put_parts(name, header.flags(LARGE), &[elements.id(), &bytes]);
    let mut pieces = Pieces {
        tx: keys.tx,
        elements,
        count: 1,
    };
    let root = pieces.stub(document);
    pieces.write(0, &root.json);
    Ok(())
}

fn piece(tx: &mut Transaction<'_>, elements: &Elements, number: u32) -> Json {
    match elements.get(tx, &number.to_be_bytes()) {
        Some(row) => Json::stored(row.value()),
        // It could not be read, and the transaction's answer is dropped.
        None => Json::Null,
    }
}

/// The meaning of a string in a piece.
enum Meaning<'t> {
    Itself(&'t str),
    Piece(u32),
    Children(Group),
}

/// Children that are stored in a piece of their own.
#[derive(Clone, Copy)]
struct Group {
    number: u32,
    count: usize,
}

fn meaning(text: &str) -> Meaning<'_> {
    let Some(reference) = text.strip_prefix(NUL) else {
        return Meaning::Itself(text);
    };
    if let Some(number) = reference.strip_prefix('n') {
        return Meaning::Piece(number.parse().expect("a piece's number"));
    }
    let Some((number, count)) = reference.strip_prefix('s').and_then(|group| group.split_once(':')) else {
        return Meaning::Itself(reference);
    };
    Meaning::Children(Group {
        number: number.parse().expect("a piece's number"),
        count: count.parse().expect("a number of children"),
    })
}

/// The string or name as encoded in a piece.
fn escaped(text: &str) -> String {
    match text.starts_with(NUL) {
        true => format!("{NUL}{text}"),
        false => text.to_owned(),
    }
}

/// Resolves the references in a piece, or in a part of one.
fn whole(stub: Json, load: &mut dyn FnMut(u32) -> Json) -> Json {
    match stub {
        Json::Text(text) => match meaning(&text) {
            Meaning::Piece(number) => whole(load(number), load),
            Meaning::Itself(own) if own.len() < text.len() => Json::Text(own.to_owned()),
            _ => Json::Text(text),
        },
        Json::Array(elements) => {
            let mut all = Vec::with_capacity(elements.len());
            append_elements(elements, load, &mut all);
            Json::Array(all)
        }
        Json::Object(members) => {
            let mut all = Vec::with_capacity(members.len());
            append_members(members, load, &mut all);
            Json::Object(all)
        }
        scalar => scalar,
    }
}

fn append_elements(elements: Vec<Json>, load: &mut dyn FnMut(u32) -> Json, all: &mut Vec<Json>) {
    for element in elements {
        match group_of(&element) {
            Some(group) => {
                if let Json::Array(inner) = load(group.number) {
                    append_elements(inner, load, all);
                }
            }
            None => all.push(whole(element, load)),
        }
    }
}

fn append_members(members: Vec<(String, Json)>, load: &mut dyn FnMut(u32) -> Json, all: &mut Vec<(String, Json)>) {
    for (name, value) in members {
        match meaning(&name) {
            Meaning::Children(group) => {
                if let Json::Object(inner) = load(group.number) {
                    append_members(inner, load, all);
                }
            }
            Meaning::Itself(own) if own.len() < name.len() => all.push((own.to_owned(), whole(value, load))),
            _ => all.push((name, whole(value, load))),
        }
    }
}

/// The group that an element of an array refers to.
fn group_of(element: &Json) -> Option<Group> {
    match element {
        Json::Text(text) => match meaning(text) {
            Meaning::Children(group) => Some(group),
            _ => None,
        },
        _ => None,
    }
}

/// Writes the pieces of one document, those inside of others first.
struct Pieces<'k, 't> {
    tx: &'k mut Transaction<'t>,
    elements: Elements,
    /// The next one's number.
    count: u32,
}

/// A value on its way into a piece.
struct Stub {
    json: Json,
    /// Length of its text.
    bytes: usize,
}

/// A child on its way into its container, or a reference to children in another piece.
struct Child {
    /// Empty in an array.
    name: String,
    stub: Stub,
    /// The number of the document's children that it represents.
    count: usize,
}

/// Quotes, a colon and a comma.
const AROUND_CHILD_BYTES: usize = 4;

impl Child {
    fn bytes(&self) -> usize {
        self.name.len() + self.stub.bytes + AROUND_CHILD_BYTES
    }
}

impl Stub {
    fn of(json: Json) -> Stub {
        let bytes = json.text().len();
        Stub { json, bytes }
    }
}

impl Pieces<'_, '_> {
    fn stub(&mut self, value: &Json) -> Stub {
        match value {
            Json::Array(elements) => {
                let children = elements.iter().map(|element| self.child("", element)).collect();
                self.container(children, false)
            }
            Json::Object(members) => {
                let children = members.iter().map(|(name, value)| self.child(name, value)).collect();
                self.container(children, true)
            }
            Json::Text(text) => Stub::of(Json::Text(escaped(text))),
            scalar => Stub::of(scalar.clone()),
        }
    }

    fn child(&mut self, name: &str, value: &Json) -> Child {
        let mut stub = self.stub(value);
        if stub.bytes > INLINE_BYTES {
            let number = self.add(&stub.json);
            stub = Stub::of(Json::Text(format!("{NUL}n{number}")));
        }
        Child {
            name: escaped(name),
            stub,
            count: 1,
        }
    }

    fn container(&mut self, mut children: Vec<Child>, is_object: bool) -> Stub {
        while children.iter().map(Child::bytes).sum::<usize>() > PIECE_BYTES && children.len() > 1 {
            children = self.grouped(children, is_object);
        }
        let bytes = 2 + children.iter().map(Child::bytes).sum::<usize>();
        let json = joined(children, is_object);
        Stub { json, bytes }
    }

    /// Puts neighbours together into pieces of their own.
    fn grouped(&mut self, children: Vec<Child>, is_object: bool) -> Vec<Child> {
        let (mut groups, mut open, mut open_bytes) = (Vec::new(), Vec::new(), 0);
        for child in children {
            if open_bytes + child.bytes() > PIECE_BYTES && !open.is_empty() {
                groups.push(self.group(std::mem::take(&mut open), is_object));
                open_bytes = 0;
            }
            open_bytes += child.bytes();
            open.push(child);
        }
        groups.push(self.group(open, is_object));
        groups
    }

    fn group(&mut self, children: Vec<Child>, is_object: bool) -> Child {
        let count = children.iter().map(|child| child.count).sum();
        let number = self.add(&joined(children, is_object));
        let reference = format!("{NUL}s{number}:{count}");
        let (name, value) = match is_object {
            true => (reference, Json::Null),
            false => (String::new(), Json::Text(reference)),
        };
        Child {
            name,
            stub: Stub::of(value),
            count,
        }
    }

    /// Writes a piece and returns its number.
    fn add(&mut self, json: &Json) -> u32 {
        let number = self.count;
        self.count += 1;
        self.write(number, json);
        number
    }

    fn write(&mut self, number: u32, json: &Json) {
        self.elements.set(self.tx, &number.to_be_bytes(), &json.text());
    }
}

fn joined(children: Vec<Child>, is_object: bool) -> Json {
    let values = children.into_iter();
    match is_object {
        true => Json::Object(values.map(|child| (child.name, child.stub.json)).collect()),
        false => Json::Array(values.map(|child| child.stub.json).collect()),
    }
}

/// A value that holds no others, in its piece.
pub struct Place {
    elements: Elements,
    number: u32,
    piece: Json,
    location: Location,
}

impl Place {
    /// Finds the place of a path's value in a document in pieces. None if it may mean several
    /// values, or none, or a value with children.
    pub fn find(tx: &mut Transaction<'_>, entry: &Entry, path: &Path) -> Option<Place> {
        let steps = path.static_steps().filter(|_| entry.is_large())?;
        let elements = entry.elements();
        let mut place = Place {
            elements,
            number: 0,
            piece: piece(tx, &elements, 0),
            location: Location::new(),
        };
        for step in steps {
            place = match step {
                StaticStep::Name(name) => place.member(tx, &escaped(name))?,
                StaticStep::Index(index) => place.element_from_either_end(tx, index)?,
            };
            if let Json::Text(text) = place.stub()
                && let Meaning::Piece(number) = meaning(text)
            {
                place.enter(tx, number);
            }
        }
        (!matches!(place.stub(), Json::Array(_) | Json::Object(_))).then_some(place)
    }

    fn stub(&self) -> &Json {
        self.piece.at(&self.location).expect("a location that was found")
    }

    fn enter(&mut self, tx: &mut Transaction<'_>, number: u32) {
        self.number = number;
        self.piece = piece(tx, &self.elements, number);
        self.location.clear();
    }

    fn member(mut self, tx: &mut Transaction<'_>, name: &str) -> Option<Place> {
        let Json::Object(members) = self.stub() else {
            return None;
        };
        if let Some(index) = members.iter().position(|(known, _)| known == name) {
            self.location.push(index);
            return Some(self);
        }
        let groups = members.iter().filter_map(|(name, _)| match meaning(name) {
            Meaning::Children(group) => Some(group),
            _ => None,
        });
        let groups: Vec<Group> = groups.collect();
        groups
            .into_iter()
            .find_map(|group| self.group(tx, group).member(tx, name))
    }

    fn element_from_either_end(self, tx: &mut Transaction<'_>, index: i64) -> Option<Place> {
        let Json::Array(elements) = self.stub() else {
            return None;
        };
        let count: usize = elements.iter().map(count_of).sum();
        let index = if index < 0 { index + count as i64 } else { index };
        self.element(tx, usize::try_from(index).ok()?)
    }

    fn element(mut self, tx: &mut Transaction<'_>, mut index: usize) -> Option<Place> {
        let Json::Array(elements) = self.stub() else {
            return None;
        };
        for (position, element) in elements.iter().enumerate() {
            let count = count_of(element);
            if index >= count {
                index -= count;
                continue;
            }
            return match group_of(element) {
                Some(group) => self.group(tx, group).element(tx, index),
                None => {
                    self.location.push(position);
                    Some(self)
                }
            };
        }
        None
    }

    fn group(&self, tx: &mut Transaction<'_>, group: Group) -> Place {
        Place {
            elements: self.elements,
            number: group.number,
            piece: piece(tx, &self.elements, group.number),
            location: Location::new(),
        }
    }

    /// The value there.
    pub fn value(&self) -> Json {
        match self.stub() {
            Json::Text(text) => match meaning(text) {
                Meaning::Itself(own) => Json::Text(own.to_owned()),
                _ => unreachable!("a place is no reference"),
            },
            scalar => scalar.clone(),
        }
    }

    /// Puts another value there. False, and nothing is written, if that holds others or is too long
    /// for its piece or the document.
    pub fn put(mut self, keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, value: &Json) -> bool {
        let stub = match value {
            Json::Array(_) | Json::Object(_) => return false,
            Json::Text(text) => Json::Text(escaped(text)),
            scalar => scalar.clone(),
        };
        let (old_bytes, new_bytes) = (self.value().text().len() as u64, value.text().len() as u64);
        let document_bytes = text_bytes(entry) - old_bytes + new_bytes;
        *self.piece.at_mut(&self.location).expect("a location that was found") = stub;
        let text = self.piece.text();
        if new_bytes > INLINE_BYTES as u64 || text.len() > CHANGED_PIECE_BYTES_MAX || document_bytes > VALUE_BYTES_MAX {
            return false;
        }
        self.elements.set(keys.tx, &self.number.to_be_bytes(), &text);
        match new_bytes == old_bytes {
            true => keys.touch(name),
            false => {
                let bytes = document_bytes.to_be_bytes();
                keys.put_parts(name, Header::of(entry), &[self.elements.id(), &bytes]);
            }
        }
        true
    }
}

/// The number of the document's elements that an element of a piece represents.
fn count_of(element: &Json) -> usize {
    group_of(element).map_or(1, |group| group.count)
}

/// The pieces that a document is made of, each of which `load` gives once; what is wrong with them
/// otherwise.
pub fn judge(load: &mut dyn FnMut(u32) -> Option<Json>) -> Result<HashSet<u32>, String> {
    let mut met = HashSet::new();
    let mut open = vec![(0, None)];
    while let Some((number, count)) = open.pop() {
        if !met.insert(number) {
            return Err(format!("has piece {number} in two places"));
        }
        let piece = load(number).ok_or_else(|| format!("lacks piece {number}"))?;
        let mut counted = 0;
        for child in piece.children() {
            counted += count_of(child);
        }
        if let Json::Object(members) = &piece {
            let groups = members.iter().filter_map(|(name, _)| match meaning(name) {
                Meaning::Children(group) => Some(group.count - 1),
                _ => None,
            });
            counted += groups.sum::<usize>();
        }
        if count.is_some_and(|count| count != counted) {
            return Err(format!("has {counted} values in piece {number} and says otherwise"));
        }
        references(&piece, &mut open);
    }
    Ok(met)
}

/// The pieces that a value of a piece refers to, with the expected number of children of each.
fn references(value: &Json, found: &mut Vec<(u32, Option<usize>)>) {
    let mut refer = |text: &str| match meaning(text) {
        Meaning::Piece(number) => found.push((number, None)),
        Meaning::Children(group) => found.push((group.number, Some(group.count))),
        Meaning::Itself(_) => {}
    };
    match value {
        Json::Text(text) => refer(text),
        Json::Object(members) => members.iter().for_each(|(name, _)| refer(name)),
        _ => {}
    }
    value.children().for_each(|child| references(child, found));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quartet_engine::Invariants;

    use super::*;
    use crate::invariants::RedisInvariants;
    use crate::keyspace::Kind;
    use crate::testing::{Fixture, show};

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z]{0,12}",
            Just("\0n1".to_owned()),
            Just("\0\0s1:2".to_owned()),
            Just("\0".to_owned()),
            (0..3000usize).prop_map(|length| "long ".repeat(length / 5)),
        ]
    }

    fn any_document() -> impl Strategy<Value = Json> {
        let scalar = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Boolean),
            any::<i64>().prop_map(Json::Integer),
            any::<i32>().prop_map(|number| Json::Double(f64::from(number) / 8.0)),
            any_text().prop_map(Json::Text),
        ];
        scalar.prop_recursive(5, 600, 60, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..60).prop_map(Json::Array),
                (prop::collection::btree_map(any_text(), inner, 0..40))
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Wide and deep enough that groups are grouped.
    fn any_large_document() -> impl Strategy<Value = Json> {
        (any_document(), 0..900i64, 0..700usize).prop_map(|(some, wide, many)| {
            let records = (0..wide).map(|number| {
                let record = ["id", "price", "name"].map(|name| (name.to_owned(), Json::Integer(number)));
                Json::Object(record.into())
            });
            let names = (0..many).map(|number| (format!("member {number}"), Json::Double(number as f64)));
            Json::Object(vec![
                ("records".into(), Json::Array(records.collect())),
                ("some".into(), some),
                ("names".into(), Json::Object(names.collect())),
                ("text".into(), Json::Text("x".repeat(PACKED_BYTES_MAX))),
            ])
        })
    }

    /// The path of a location, in brackets; none if a name cannot be said.
    fn path_of(document: &Json, location: &[usize]) -> Option<Path> {
        let mut text = "$".to_owned();
        let mut value = document;
        for (depth, &index) in location.iter().enumerate() {
            match value {
                Json::Object(members) => {
                    let name = &members[index].0;
                    if name.contains(['"', '\\', NUL]) {
                        return None;
                    }
                    text += &format!("[\"{name}\"]");
                }
                _ => text += &format!("[{index}]"),
            }
            value = document.at(&location[..=depth]).unwrap();
        }
        Some(Path::parse(text.as_bytes()).unwrap())
    }

    fn locations(value: &Json, here: &mut Location, found: &mut Vec<Location>) {
        found.push(here.clone());
        for (index, child) in value.children().enumerate() {
            here.push(index);
            locations(child, here, found);
            here.pop();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_document_in_pieces_is_the_document(mut model in any_large_document(), picks in prop::collection::vec((any::<prop::sample::Index>(), any_text()), 12)) {
            let fixture = Fixture::new();
            let engine = &fixture.layer.engine;
            let done: Result<_, quartet_engine::ExecuteError<()>> = engine.partition().execute(fixture.layer.space, |tx| {
                let mut keys = Keyspace { tx, db: 0, now_ms: 1, changes: &fixture.layer.changes };
                put(&mut keys, b"j", Header::new(Kind::Json), &model).unwrap();
                let entry = keys.find(b"j").unwrap();
                assert!(entry.is_large());
                assert_eq!(document(keys.tx, &entry), model);
                let mut all = Vec::new();
                locations(&model, &mut Location::new(), &mut all);
                for (pick, text) in &picks {
                    let location = pick.get(&all);
                    let Some(path) = path_of(&model, location) else { continue };
                    let entry = keys.find(b"j").unwrap();
                    let at = model.at(location).unwrap().clone();
                    let place = Place::find(keys.tx, &entry, &path);
                    assert_eq!(place.is_some(), !matches!(at, Json::Array(_) | Json::Object(_)));
                    let Some(place) = place else { continue };
                    assert_eq!(place.value(), at);
                    let value = Json::Text(text.clone());
                    if place.put(&mut keys, b"j", &entry, &value) {
                        *model.at_mut(location).unwrap() = value;
                    }
                    let entry = keys.find(b"j").unwrap();
                    assert_eq!(text_bytes(&entry), model.text().len() as u64);
                    assert_eq!(document(keys.tx, &entry), model);
                }
                Ok(())
            });
            done.unwrap();
            let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(RedisInvariants)];
            let findings = engine.judge(&invariants).unwrap().kept;
            prop_assert!(findings.is_empty(), "{:?}", findings.iter().map(|finding| &finding.what).collect::<Vec<_>>());
        }
    }

    /// JSON.NUMINCRBY read and wrote the whole document: 5 MB in the log for a counter among 50,000
    /// records.
    #[test]
    fn a_number_in_a_large_document_is_changed_on_its_path() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let records: Vec<String> = (0..50_000)
            .map(|number| format!("{{\"id\":{number},\"sold\":0,\"tags\":[\"a\",\"b\"]}}"))
            .collect();
        let text = format!(
            "{{\"records\":[{}],\"count\":1,\"deep\":{{\"er\":{{\"n\":1.5}}}}}}",
            records.join(",")
        );
        connection.run(&["JSON.SET", "j", "$", &text]);
        let engine = &fixture.layer.engine;
        let wait = || {
            let last = engine.partition().last_version();
            assert!(engine.wait_durable(last));
        };
        wait();
        let mut reader = engine.read_log(engine.durable_sequence().next()).unwrap();
        for (command, expected) in [
            ("JSON.NUMINCRBY j $.count 9", "[10]"),
            ("JSON.NUMINCRBY j $.records[31234].sold 5", "[5]"),
            ("JSON.NUMINCRBY j .records[-1].sold 5", "5"),
            ("JSON.NUMMULTBY j $.deep.er.n 2", "[3.0]"),
            ("JSON.SET j $.records[7].id \"seven\"", "OK"),
            ("JSON.STRAPPEND j $.records[7].id \"th\"", "[7]"),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(show(&connection.run(&words)), expected, "{command}");
            wait();
            let record = reader.next().unwrap().expect("a record");
            assert!(
                record.payload.len() < 2 * PIECE_BYTES,
                "{command}: {} bytes",
                record.payload.len()
            );
        }
        connection.check(
            "JSON.GET j $.count => [10]
             JSON.GET j $.records[31234] => [{\"id\":31234,\"sold\":5,\"tags\":[\"a\",\"b\"]}]
             JSON.GET j $.records[49999].sold => [5]
             JSON.GET j $.records[7].id => [\"seventh\"]
             JSON.NUMINCRBY j $.records[7].id 1 => [null]
             JSON.NUMINCRBY j .nothing 1 => !ERR Path '$.nothing' does not exist or does not contain a number
             JSON.ARRLEN j $.records => [50000]
             JSON.DEL j $.records => 1
             JSON.GET j => {\"count\":10,\"deep\":{\"er\":{\"n\":3.0}}}",
        );
    }
}
