//! A JSON document: read, changed, written.
//!
//! Members of an object keep their order of insertion; if names repeat, the last value counts, in
//! the first one's place. A whole number within 64 signed bits is an integer, every other number a
//! double. A document nests at most [`DEPTH_MAX`] deep, which bounds all recursion here for
//! documents from any source.
//!
//! A value takes up to sixteen times the memory of its text, so [`DOCUMENT_BYTES_MAX`] bounds its
//! size in memory: while it is read, and before a change writes copies of a value to many places.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::path::StaticStep;
use super::text::Text;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::commands::strings::VALUE_BYTES_MAX;
use crate::handler::command_memory::Workspace;

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    #[default]
    Null,
    Boolean(bool),
    Integer(i64),
    /// Finite.
    Double(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 120;
/// Most memory that a document may take.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 30;
/// Additions in one command up to which a document is not measured before it is changed. It is
/// measured when it is written.
const ADDED_BYTES_FREE: usize = 1 << 20;
/// Copies of an addition that exist together: in the document, its rows, and the log.
const COPIES: usize = 3;
/// Shorter texts are not counted before they are read.
const COUNTED_TEXT_BYTES_MIN: usize = 64 << 10;
const VALUE_BYTES: usize = size_of::<Json>();
pub const NAME_BYTES: usize = size_of::<String>();

/// The location of a value: the position among the children of each container, from the root on.
/// The root's is empty.
pub type Location = Vec<usize>;

/// How JSON.GET wants its text. All empty: as short as it can be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    pub indent: &'a [u8],
    pub newline: &'a [u8],
    pub space: &'a [u8],
}

impl Json {
    /// Reads what a client sent.
    pub fn parse(text: &[u8]) -> Result<Json, ErrorReply> {
        let budget = Cell::new(DOCUMENT_BYTES_MAX);
        let value = Json::read(text, &budget).map_err(|error| match budget.get() {
            0 => TOO_LARGE.to_owned(),
            _ => format!("ERR {error}"),
        })?;
        match value.is_deeper_than(DEPTH_MAX) {
            true => Err(TOO_DEEP.into()),
            false => Ok(value),
        }
    }

    /// Returns an upper bound of the memory that the texts' values take until they are in the
    /// store and the log; zero for short texts.
    pub fn most_memory_of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> usize {
        texts.map(most_memory_of).sum()
    }

    /// The number that it is.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Integer(number) => Some(*number as f64),
            Json::Double(number) => Some(*number),
            _ => None,
        }
    }

    /// Reads what this layer wrote.
    pub fn stored(text: &[u8]) -> Json {
        Json::read(text, &Cell::new(usize::MAX)).expect("a document that was written as JSON")
    }

    /// Reads the value at the steps from a text that this layer wrote, and skips all other values.
    /// No step may count from the end.
    pub fn stored_at(text: &[u8], steps: &[StaticStep<'_>]) -> Option<Json> {
        let value = Cell::new(None);
        let seeker = Seeker { steps, found: &value };
        // Reading ends with an error where the value is found, or where there is none.
        _ = seeker.deserialize(&mut serde_json::Deserializer::from_slice(text));
        value.take()
    }

    /// `budget` is reduced by the value's size in memory; it is zero if it did not suffice.
    fn read(text: &[u8], budget: &Cell<usize>) -> serde_json::Result<Json> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let value = Reader { budget }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }

    /// The bytes to be stored, unless changes have nested the document too deeply or made it too
    /// large.
    pub fn to_stored(&self) -> Result<Vec<u8>, ErrorReply> {
        if self.is_deeper_than(DEPTH_MAX) {
            return Err(TOO_DEEP.into());
        }
        if self.memory_bytes() > DOCUMENT_BYTES_MAX {
            return Err(TOO_LARGE.into());
        }
        let mut text = Text::limited(VALUE_BYTES_MAX as usize);
        self.write_with(&Layout::default(), 0, &mut text);
        text.finish().ok_or(errors::STRING_TOO_LARGE.into())
    }

    /// Returns the value's size in memory, without spare room.
    pub fn memory_bytes(&self) -> usize {
        let content: usize = match self {
            Json::Text(text) => text.len(),
            Json::Object(members) => members.iter().map(|(name, _)| NAME_BYTES + name.len()).sum(),
            _ => 0,
        };
        VALUE_BYTES + content + self.children().map(Json::memory_bytes).sum::<usize>()
    }

    /// Returns the length of [`Json::text`].
    pub fn text_bytes(&self) -> usize {
        match self {
            Json::Null | Json::Boolean(true) => 4,
            Json::Boolean(false) => 5,
            Json::Integer(number) => itoa::Buffer::new().format(*number).len(),
            Json::Double(_) => self.text().len(),
            Json::Text(text) => quoted_bytes(text),
            Json::Array(elements) => {
                let content: usize = elements.iter().map(Json::text_bytes).sum();
                2 + content + elements.len().saturating_sub(1)
            }
            Json::Object(members) => {
                let content = members
                    .iter()
                    .map(|(name, value)| Json::name_bytes(name) + value.text_bytes());
                2 + content.sum::<usize>() + members.len().saturating_sub(1)
            }
        }
    }

    /// Returns the length of a member's name and the colon after it.
    pub fn name_bytes(name: &str) -> usize {
        quoted_bytes(name) + 1
    }

    /// Takes memory for an addition of bytes in each of several places, and refuses it if the
    /// document would become too large. The copies in the document, in its rows and in the log
    /// exist together.
    pub fn take_additions(
        &self,
        places: usize,
        bytes_each: usize,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), ErrorReply> {
        let added = places.saturating_mul(bytes_each);
        if added <= ADDED_BYTES_FREE {
            return Ok(());
        }
        if added > DOCUMENT_BYTES_MAX.saturating_sub(self.memory_bytes()) {
            return Err(TOO_LARGE.into());
        }
        workspace.take(added * COPIES)
    }

    /// Refuses the value `levels` below the root of a document if it nests too deeply there.
    pub fn check_depth(&self, levels: usize) -> Result<(), ErrorReply> {
        match DEPTH_MAX
            .checked_sub(levels)
            .is_none_or(|depth| self.is_deeper_than(depth))
        {
            true => Err(TOO_DEEP.into()),
            false => Ok(()),
        }
    }

    fn is_deeper_than(&self, depth_max: usize) -> bool {
        let is_container = matches!(self, Json::Array(_) | Json::Object(_));
        is_container && (depth_max == 0 || self.children().any(|child| child.is_deeper_than(depth_max - 1)))
    }

    /// The word of JSON.TYPE.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Boolean(_) => "boolean",
            Json::Integer(_) => "integer",
            Json::Double(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    pub fn children(&self) -> impl Iterator<Item = &Json> {
        let (elements, members): (&[Json], &[(String, Json)]) = match self {
            Json::Array(elements) => (elements, &[]),
            Json::Object(members) => (&[], members),
            _ => (&[], &[]),
        };
        elements.iter().chain(members.iter().map(|(_, value)| value))
    }

    pub fn member(&self, name: &str) -> Option<usize> {
        match self {
            Json::Object(members) => members.iter().position(|(member, _)| member == name),
            _ => None,
        }
    }

    pub fn at(&self, location: &[usize]) -> Option<&Json> {
        location.iter().try_fold(self, |value, &index| match value {
            Json::Array(elements) => elements.get(index),
            Json::Object(members) => members.get(index).map(|(_, value)| value),
            _ => None,
        })
    }

    pub fn at_mut(&mut self, location: &[usize]) -> Option<&mut Json> {
        location.iter().try_fold(self, |value, &index| match value {
            Json::Array(elements) => elements.get_mut(index),
            Json::Object(members) => members.get_mut(index).map(|(_, value)| value),
            _ => None,
        })
    }

    /// Sets a member of an object. False if this value is no object.
    pub fn set_member(&mut self, name: &str, value: Json) -> bool {
        let position = self.member(name);
        let Json::Object(members) = self else { return false };
        match position {
            Some(index) => members[index].1 = value,
            None => members.push((name.to_owned(), value)),
        }
        true
    }

    /// Removes the values at these locations, which must not include the root. Returns the number
    /// of removed values, without the values inside of other removed values.
    pub fn remove(&mut self, mut locations: Vec<Location>) -> usize {
        locations.sort();
        locations.dedup_by(|later, earlier| later.starts_with(earlier));
        let siblings = |first: &Location, other: &Location| {
            first.split_last().map(|(_, parent)| parent) == other.split_last().map(|(_, parent)| parent)
        };
        for group in locations.chunk_by(siblings).rev() {
            let Some((_, parent)) = group[0].split_last() else {
                continue;
            };
            // All of one parent at once: single removals would move the later members each time.
            let removed = group.iter().filter_map(|location| location.last().copied());
            match self.at_mut(parent) {
                Some(Json::Array(elements)) => remove_each(elements, removed),
                Some(Json::Object(members)) => remove_each(members, removed),
                _ => {}
            }
        }
        locations.len()
    }

    /// Applies a merge patch (RFC 7396): members that are null are removed, objects are merged,
    /// everything else is replaced.
    pub fn merge(&mut self, patch: &Json) {
        let Json::Object(changes) = patch else {
            *self = patch.clone();
            return;
        };
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        let Json::Object(members) = self else { return };
        let mut places = Places::of(members, changes.len());
        let mut removed = BTreeSet::new();
        for (name, change) in changes {
            match (places.find(members, name), change) {
                (Some(index), Json::Null) => drop(removed.insert(index)),
                (None, Json::Null) => {}
                (Some(index), _) => members[index].1.merge(change),
                (None, _) => {
                    let mut value = Json::Null;
                    value.merge(change);
                    places.added(name, members.len());
                    members.push((name.clone(), value));
                }
            }
        }
        remove_each(members, removed.into_iter());
    }

    /// The shortest text of a value of a document, which is no longer than the document's.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Text::limited(usize::MAX);
        self.write_with(&Layout::default(), 0, &mut text);
        text.finish().expect("a text without a limit")
    }

    /// Appends the text, in the given layout, of a value `depth` levels deep.
    pub fn write_with(&self, layout: &Layout<'_>, depth: usize, out: &mut Text<'_>) {
        match self {
            Json::Null => out.push(b"null"),
            Json::Boolean(value) => out.push(if *value { b"true" } else { b"false" }),
            Json::Integer(number) => out.push(itoa::Buffer::new().format(*number).as_bytes()),
            Json::Double(number) => serde_json::to_writer(out, number).expect("writing to memory"),
            Json::Text(text) => write_text(text, out),
            Json::Array(elements) => {
                write_container(b"[]", elements, layout, depth, out, |element, out| {
                    element.write_with(layout, depth + 1, out);
                });
            }
            Json::Object(members) => {
                write_container(b"{}", members, layout, depth, out, |(name, value), out| {
                    write_name(name, layout, out);
                    value.write_with(layout, depth + 1, out);
                });
            }
        }
    }
}

/// The positions of the members of an object: by a look at each member, or by a map of their names
/// for many lookups among many members.
struct Places(Option<HashMap<String, usize>>);

impl Places {
    /// Times up to which a look at each member costs less.
    const COMPARED_MAX: usize = 16;

    /// For an object with `times` lookups of its members.
    fn of(members: &[(String, Json)], times: usize) -> Places {
        let places = members
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), index));
        Places((times > Self::COMPARED_MAX).then(|| places.collect()))
    }

    fn find(&self, members: &[(String, Json)], name: &str) -> Option<usize> {
        match &self.0 {
            Some(places) => places.get(name).copied(),
            None => members.iter().position(|(member, _)| member == name),
        }
    }

    fn added(&mut self, name: &str, index: usize) {
        if let Some(places) = &mut self.0 {
            places.insert(name.to_owned(), index);
        }
    }
}

/// Removes the values at these positions, which ascend.
fn remove_each<T>(values: &mut Vec<T>, removed: impl Iterator<Item = usize>) {
    let mut removed = removed.peekable();
    let mut index = 0;
    values.retain(|_| {
        let stays = removed.next_if_eq(&index).is_none();
        index += 1;
        stays
    });
}

const TOO_DEEP: &str = "ERR the document nests too deeply";
pub const TOO_LARGE: &str = "ERR the document exceeds the maximum size of 1 GB in memory";

/// Appends a member's name and the separator between it and the value.
pub fn write_name(name: &str, layout: &Layout<'_>, out: &mut Text<'_>) {
    write_text(name, out);
    out.push(b":");
    out.push(layout.space);
}

pub fn write_text(text: &str, out: &mut Text<'_>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}

/// As `write_text` writes it.
fn quoted_bytes(text: &str) -> usize {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..32 => 6,
        _ => 1,
    });
    2 + escaped.sum::<usize>()
}

/// Appends children between the two brackets, each on a line of its own if there is a newline.
pub fn write_container<T>(
    brackets: &[u8; 2],
    children: impl IntoIterator<Item = T>,
    layout: &Layout<'_>,
    depth: usize,
    out: &mut Text<'_>,
    mut write: impl FnMut(T, &mut Text<'_>),
) {
    let mut container = ContainerText::open(brackets, layout, depth, out);
    for child in children {
        if out.is_full() {
            return;
        }
        container.start_child(out);
        write(child, out);
    }
    container.close(out);
}

/// The text of a container that receives its children one by one.
pub struct ContainerText<'l> {
    brackets: &'l [u8; 2],
    layout: &'l Layout<'l>,
    depth: usize,
    is_empty: bool,
}

impl<'l> ContainerText<'l> {
    pub fn open(brackets: &'l [u8; 2], layout: &'l Layout<'l>, depth: usize, out: &mut Text<'_>) -> ContainerText<'l> {
        out.push(&brackets[..1]);
        ContainerText {
            brackets,
            layout,
            depth,
            is_empty: true,
        }
    }

    /// Appends the text before the next child.
    pub fn start_child(&mut self, out: &mut Text<'_>) {
        if !self.is_empty {
            out.push(b",");
        }
        self.is_empty = false;
        self.new_line(self.depth + 1, out);
    }

    pub fn close(self, out: &mut Text<'_>) {
        if !self.is_empty {
            self.new_line(self.depth, out);
        }
        out.push(&self.brackets[1..]);
    }

    fn new_line(&self, depth: usize, out: &mut Text<'_>) {
        out.push(self.layout.newline);
        (0..depth).for_each(|_| out.push(self.layout.indent));
    }
}

fn most_memory_of(text: &[u8]) -> usize {
    if text.len() <= COUNTED_TEXT_BYTES_MIN {
        return 0;
    }
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in text {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b',' | b':' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    // A list that grows has twice the room that its elements need. The text is copied to the value,
    // the rows, the store and the log.
    values * VALUE_BYTES * 2 + text.len() * 4
}

/// Reads a value as long as there is a budget of memory for it.
#[derive(Clone, Copy)]
struct Reader<'b> {
    budget: &'b Cell<usize>,
}

impl Reader<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let remaining = self.budget.get().saturating_sub(bytes);
        self.budget.set(remaining);
        match remaining {
            0 => Err(E::custom("too large")),
            _ => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.spend(VALUE_BYTES)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Double(value as f64), Json::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Double(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        self.spend(value.len())?;
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            all.push(element);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut all: Vec<(String, Json)> = Vec::new();
        let mut positions: rustc_hash::FxHashMap<String, usize> = rustc_hash::FxHashMap::default();
        while let Some(name) = members.next_key::<String>()? {
            self.spend(NAME_BYTES + name.len())?;
            let value = members.next_value_seed(self)?;
            match positions.get(&name) {
                Some(&index) => all[index].1 = value,
                None => {
                    positions.insert(name.clone(), all.len());
                    all.push((name, value));
                }
            }
        }
        Ok(Json::Object(all))
    }
}

/// Reads the value at a path, and skips the values before it.
#[derive(Clone, Copy)]
struct Seeker<'s> {
    steps: &'s [StaticStep<'s>],
    found: &'s Cell<Option<Json>>,
}

/// The text of an error that only ends a read.
const ENOUGH: &str = "enough is known";

impl<'de> DeserializeSeed<'de> for Seeker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.steps.is_empty() {
            let budget = Cell::new(usize::MAX);
            let reader = Reader { budget: &budget };
            self.found
                .set(Some(DeserializeSeed::deserialize(reader, deserializer)?));
            return Err(D::Error::custom(ENOUGH));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seeker<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Some((StaticStep::Index(index), further)) = self.steps.split_first() else {
            return Err(A::Error::custom(ENOUGH));
        };
        for _ in 0..*index {
            if elements.next_element::<IgnoredAny>()?.is_none() {
                return Err(A::Error::custom(ENOUGH));
            }
        }
        elements.next_element_seed(Seeker { steps: further, ..self })?;
        Err(A::Error::custom(ENOUGH))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((StaticStep::Name(name), further)) = self.steps.split_first() else {
            return Err(A::Error::custom(ENOUGH));
        };
        while let Some(is_meant) = members.next_key_seed(Named(name))? {
            if is_meant {
                members.next_value_seed(Seeker { steps: further, ..self })?;
                break;
            }
            members.next_value::<IgnoredAny>()?;
        }
        Err(A::Error::custom(ENOUGH))
    }
}

/// Reads a name. Returns true if it equals this name.
struct Named<'s>(&'s str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let value = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(value.text()).unwrap(), expected);
        assert_eq!(Json::stored(&value.to_stored().unwrap()), value);
    }

    #[test]
    fn a_document_that_is_read_is_written_alike() {
        check(
            r#" { "b" : [1, 2.50, -0.0, 1e3], "a" : null, "b" : true } "#,
            r#"{"b":true,"a":null}"#,
        );
        check(
            "[1, 2.50, 1e3, 9223372036854775808]",
            "[1,2.5,1000.0,9.223372036854776e+18]",
        );
        check(r#""a\u00e4\n\"""#, r#""aä\n\"""#);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(Json::parse(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(Json::parse(nested(100_000).as_bytes()).is_err());
    }

    /// A document of 130 MB with the text `[[],[],...` took 2 GB while it was parsed, despite all
    /// limits on values.
    #[test]
    fn memory_is_bounded_while_a_document_is_read() {
        let read = |text: &str, bytes: usize| Json::read(text.as_bytes(), &Cell::new(bytes)).is_ok();
        for text in ["[[],[],[]]", r#"{"name":"text","b":[1,2]}"#, r#""abcdefgh""#] {
            let bytes = Json::parse(text.as_bytes()).unwrap().memory_bytes();
            assert!(read(text, bytes + 1) && !read(text, bytes), "{text}");
        }
    }

    #[test]
    fn a_long_text_takes_at_most_the_memory_that_is_said_before_it_is_read() {
        let bound = |text: &str| Json::most_memory_of([text.as_bytes()].into_iter());
        for text in [
            format!("[{}]", vec!["1"; 100_000].join(",")),
            format!("[{}]", vec!["[[]]"; 50_000].join(",")),
            format!("{{{}}}", vec![r#""name":{"a,[":1}"#; 20_000].join(",")),
            format!("\"{}\"", r#"\",[{"#.repeat(50_000)),
        ] {
            let value = Json::parse(text.as_bytes()).unwrap();
            assert!(bound(&text) >= value.memory_bytes() + 3 * text.len(), "{}", &text[..20]);
        }
        // Signs within a text are no values.
        let commas = format!("\"{}\"", ",".repeat(100_000));
        assert!(bound(&commas) < 5 * commas.len());
    }

    #[test]
    fn additions_are_checked_before_they_are_made() {
        let value = Json::parse(b"[1,2]").unwrap();
        let mut workspace = Workspace::new(None);
        let mut take = |places, bytes_each| value.take_additions(places, bytes_each, &mut workspace);
        assert!(take(1000, 1000).is_ok());
        assert!(take(20_000, 200_000).is_err());
        assert!(take(usize::MAX, 2).is_err());
        assert!(take(1, DOCUMENT_BYTES_MAX).is_err());
    }

    #[test]
    fn patches_are_merged() {
        let mut value = Json::parse(br#"{"a":{"b":1,"c":2},"d":[1]}"#).unwrap();
        value.merge(&Json::parse(br#"{"a":{"b":null,"e":{"f":null}},"d":{"g":1}}"#).unwrap());
        assert_eq!(value.text(), br#"{"a":{"c":2,"e":{}},"d":{"g":1}}"#);
    }

    #[test]
    fn values_inside_a_removed_one_go_with_it() {
        let mut value = Json::parse(b"[[1,2],[3,[4]],5]").unwrap();
        assert_eq!(value.remove(vec![vec![1], vec![1, 1], vec![0, 0], vec![1, 0]]), 2);
        assert_eq!(value.text(), b"[[2],5]");
    }
}
