//! Values as bytes in rows.
//!
//! Refs are stored by number, so that renaming a collection renames them all; where no number is
//! known the name stays. A value that a query would read as a set or a document is stored as a
//! plain object (observed: the original shows a stored set as `{"@obj":{"@set":…}}`). Bytes of a
//! row are trusted to be ours, and still nothing in them can panic: a broken value is null.

use std::sync::Arc;

use quartet_engine::Stamp;
use quartet_model::Version;

use crate::language::api_version::ApiVersion;
use crate::language::interned;
use crate::language::json;
use crate::language::parse;
use crate::language::render;
use crate::language::time::{Date, Time};
use crate::language::value::{Closure, Fields, Names, Native, Ref, Set, Size, Target, Value};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const DOUBLE: u8 = 4;
const STRING: u8 = 5;
const BYTES: u8 = 6;
const ARRAY: u8 = 7;
const OBJECT: u8 = 8;
const REF: u8 = 9;
const TIME: u8 = 10;
const DATE: u8 = 11;
const UUID: u8 = 12;
const QUERY: u8 = 13;

/// Prefix of the name of a deleted entity; its number follows.
pub const DELETED: &str = "_deleted_";

/// Represents the time of the commit until it is known: an integer that never occurs.
const PENDING_TIME: u64 = 0x8000_0051_7561_7274;

/// The commit version as the eight bytes of a time.
pub fn stamp(offset: usize) -> Stamp {
    Stamp {
        offset,
        bytes: |version: Version| version.0.to_be_bytes(),
    }
}

/// Bytes being written, with the places that the commit version fills in.
#[derive(Default)]
pub struct Encoder {
    pub bytes: Vec<u8>,
    pub stamps: Vec<Stamp>,
}

impl Encoder {
    fn length(&mut self, length: usize) {
        let mut remaining = length;
        while remaining >= 0x80 {
            self.bytes.push(remaining as u8 | 0x80);
            remaining >>= 7;
        }
        self.bytes.push(remaining as u8);
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn value(&mut self, value: &Value, names: &dyn Names) {
        match value {
            Value::Null => self.bytes.push(NULL),
            Value::Bool(value) => self.bytes.push(if *value { TRUE } else { FALSE }),
            Value::Int(value) => self.tagged(INT, &value.to_be_bytes()),
            Value::Double(value) => self.tagged(DOUBLE, &value.to_bits().to_be_bytes()),
            Value::String(text) => {
                self.bytes.push(STRING);
                self.text(text);
            }
            Value::Bytes(bytes) => {
                self.bytes.push(BYTES);
                self.length(bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
            Value::Array(items) => self.array(&items.values, names),
            Value::Object(fields) => self.fields(fields, names),
            Value::Ref(reference) => self.reference(reference, names),
            Value::Time(time) => {
                self.tagged(TIME, &time.seconds.to_be_bytes());
                self.bytes.extend_from_slice(&time.nanos.to_be_bytes());
            }
            Value::Date(date) => self.tagged(DATE, &date.days.to_be_bytes()),
            Value::Uuid(uuid) => self.tagged(UUID, uuid),
            Value::Query(closure) => self.query(closure),
            Value::TransactionTime => {
                self.stamps.push(stamp(self.bytes.len() + 1));
                self.tagged(INT, &PENDING_TIME.to_be_bytes());
            }
            Value::Set(set) => self.value(&set_as_object(set), names),
            Value::Page(page) => self.value(&page_as_object(page), names),
            Value::Document(document) => self.value(&document.as_object(), names),
        }
    }

    pub fn array(&mut self, values: &[Value], names: &dyn Names) {
        self.bytes.push(ARRAY);
        self.length(values.len());
        for value in values {
            self.value(value, names);
        }
    }

    pub fn fields(&mut self, fields: &Fields, names: &dyn Names) {
        self.bytes.push(OBJECT);
        self.length(fields.entries.len());
        for (key, value) in &fields.entries {
            self.text(key);
            self.value(value, names);
        }
    }

    fn query(&mut self, closure: &Closure) {
        let mut source = String::new();
        json::write(&render::lambda_source(closure), &mut source);
        self.bytes.push(QUERY);
        self.text(closure.api_version.name());
        self.text(&source);
    }

    fn reference(&mut self, reference: &Ref, names: &dyn Names) {
        self.bytes.push(REF);
        self.length(reference.scope.len());
        for part in reference.scope.iter() {
            self.text(part);
        }
        let number = |kind, name: &str| reference.scope.is_empty().then(|| names.number(kind, name)).flatten();
        match &reference.target {
            Target::Native(native) => self.bytes.extend([0, *native as u8]),
            Target::Named(native, name) => match number(*native, name) {
                Some(number) => {
                    self.bytes.extend([1, *native as u8]);
                    self.bytes.extend(number.to_be_bytes());
                }
                None => {
                    self.bytes.extend([2, *native as u8]);
                    self.text(name);
                }
            },
            Target::Numbered(native, id) => {
                self.bytes.extend([3, *native as u8]);
                self.bytes.extend(id.to_be_bytes());
            }
            Target::Document(collection, id) => {
                match number(Native::Collections, collection) {
                    Some(number) => self.tagged(4, &number.to_be_bytes()),
                    None => {
                        self.bytes.push(5);
                        self.text(collection);
                    }
                }
                self.bytes.extend(id.to_be_bytes());
            }
        }
    }
}

/// Bytes being read.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    names: &'a dyn Names,
    depth: usize,
}

/// A value on its way from a row to a reply. A container is the number of its elements, followed by
/// these.
pub enum Part<'a> {
    Text(&'a str),
    Array(usize),
    Object(usize),
    Whole(Value),
}

/// Beyond the depth of any written value: guards against broken rows.
const DEPTH_MAX: usize = 2000;

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8], names: &'a dyn Names) -> Decoder<'a> {
        Decoder { bytes, names, depth: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, remaining) = self.bytes.split_first()?;
        self.bytes = remaining;
        Some(first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, remaining) = self.bytes.split_at_checked(length)?;
        self.bytes = remaining;
        Some(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    #[inline]
    fn length(&mut self) -> Option<usize> {
        match *self.bytes {
            [length @ ..0x80, ref remaining @ ..] => {
                self.bytes = remaining;
                Some(length.into())
            }
            _ => self.long_length(),
        }
    }

    fn long_length(&mut self) -> Option<usize> {
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(length);
            }
            if shift > 56 {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text_bytes()?).ok()
    }

    /// A text that is skipped or compared.
    fn text_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = match self.byte()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => match u64::from_be_bytes(self.fixed()?) {
                PENDING_TIME => Value::TransactionTime,
                value => Value::Int(value as i64),
            },
            DOUBLE => Value::Double(f64::from_bits(u64::from_be_bytes(self.fixed()?))),
            STRING => Value::string(self.text()?),
            BYTES => {
                let length = self.length()?;
                Value::Bytes(self.take(length)?.into())
            }
            ARRAY => {
                let length = self.length()?;
                let mut values = Vec::new();
                for _ in 0..length {
                    values.push(self.value()?);
                }
                Value::array(values)
            }
            OBJECT => Value::Object(Arc::new(self.entries()?)),
            REF => Value::Ref(self.reference()?),
            TIME => Value::Time(Time {
                seconds: i64::from_be_bytes(self.fixed()?),
                nanos: u32::from_be_bytes(self.fixed()?),
            }),
            DATE => Value::Date(Date {
                days: i64::from_be_bytes(self.fixed()?),
            }),
            UUID => Value::Uuid(self.fixed()?),
            QUERY => self.query()?,
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }

    fn entries(&mut self) -> Option<Fields> {
        let length = self.length()?;
        // Each takes two bytes at least.
        let mut entries = Vec::with_capacity(length.min(self.bytes.len() / 2));
        for _ in 0..length {
            entries.push((interned::name_of(self.text_bytes()?)?, self.value()?));
        }
        Some(Fields::new(entries))
    }

    /// The fields of a document.
    pub fn fields(&mut self) -> Option<Fields> {
        (self.byte()? == OBJECT).then(|| self.entries()).flatten()
    }

    /// Walks through the fields of a document: how large they are, and the value of one of them.
    pub fn survey(&mut self, key: &str) -> Option<(Size, Option<Value>)> {
        let (mut size, mut value) = (Size::empty(), None);
        if self.byte()? != OBJECT {
            return None;
        }
        for _ in 0..self.length()? {
            let name = self.text_bytes()?;
            if name == key.as_bytes() {
                value = Some(Decoder::new(self.bytes, self.names).value()?);
            }
            size = size.holding(self.skip()?, Some(name.len()));
        }
        Some((size, value))
    }

    /// Skips a value; returns the size of the decoded value.
    fn skip(&mut self) -> Option<Size> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let tag = self.byte()?;
        let size = match tag {
            STRING | BYTES => {
                let length = self.length()?;
                self.take(length)?;
                Size::leaf(length)
            }
            ARRAY | OBJECT => {
                let mut size = Size::empty();
                for _ in 0..self.length()? {
                    let key_bytes = match tag {
                        OBJECT => Some(self.text_bytes()?.len()),
                        _ => None,
                    };
                    size = size.holding(self.skip()?, key_bytes);
                }
                size
            }
            NULL | FALSE | TRUE => Size::leaf(8),
            INT | DOUBLE | DATE => self.take(8).map(|_| Size::leaf(8))?,
            TIME => self.take(12).map(|_| Size::leaf(8))?,
            UUID => self.take(16).map(|_| Size::leaf(8))?,
            REF => self.reference()?.size(),
            QUERY => {
                self.text()?;
                self.text()?;
                Size::leaf(64).deeper()
            }
            _ => return None,
        };
        self.depth -= 1;
        Some(size)
    }

    /// Returns the next part, decoded only as far as it must be to be shown.
    pub fn next_part(&mut self) -> Option<Part<'a>> {
        match *self.bytes.first()? {
            STRING => {
                self.byte()?;
                self.text().map(Part::Text)
            }
            ARRAY => {
                self.byte()?;
                self.length().map(Part::Array)
            }
            OBJECT => {
                self.byte()?;
                self.length().map(Part::Object)
            }
            _ => self.value().map(Part::Whole),
        }
    }

    /// The next key of an object.
    pub fn key(&mut self) -> Option<&'a str> {
        self.text()
    }

    fn query(&mut self) -> Option<Value> {
        let api_version = ApiVersion::parse(self.text()?)?;
        let source = json::parse(self.text()?.as_bytes()).ok()?;
        let lambda = parse::lambda(&source, api_version).ok()?;
        Some(Value::Query(Arc::new(Closure {
            lambda,
            variables: Arc::from([]),
            api_version,
        })))
    }

    fn reference(&mut self) -> Option<Ref> {
        let mut scope = Vec::new();
        for _ in 0..self.length()? {
            scope.push(interned::name_of(self.text_bytes()?)?);
        }
        let target = match self.byte()? {
            0 => Target::Native(self.native()?),
            1 => {
                let native = self.native()?;
                let number = u64::from_be_bytes(self.fixed()?);
                Target::Named(native, self.name(native, number))
            }
            2 => Target::Named(self.native()?, interned::name_of(self.text_bytes()?)?),
            3 => Target::Numbered(self.native()?, i64::from_be_bytes(self.fixed()?)),
            4 => {
                let number = u64::from_be_bytes(self.fixed()?);
                let collection = self.name(Native::Collections, number);
                Target::Document(collection, i64::from_be_bytes(self.fixed()?))
            }
            5 => Target::Document(
                interned::name_of(self.text_bytes()?)?,
                i64::from_be_bytes(self.fixed()?),
            ),
            _ => return None,
        };
        Some(Ref {
            target,
            scope: if scope.is_empty() {
                crate::language::value::no_scope()
            } else {
                scope.into()
            },
            is_unknown: false,
        })
    }

    fn native(&mut self) -> Option<Native> {
        let number = self.byte()?;
        Native::ALL.into_iter().find(|native| *native as u8 == number)
    }

    /// Something deleted is shown by its number.
    fn name(&self, native: Native, number: u64) -> Arc<str> {
        self.names
            .name(native, number)
            .unwrap_or_else(|| format!("{DELETED}{number}").into())
    }
}

/// A value as a document keeps it: without nulls, sets and documents as objects.
pub fn storable(value: &Value) -> Value {
    if is_storable(value) {
        return value.clone();
    }
    match value {
        Value::Array(items) => {
            let present = items.values.iter().filter(|value| !value.is_null()).map(storable);
            Value::array(present.collect())
        }
        Value::Object(fields) => {
            let present = fields.entries.iter().filter(|(_, value)| !value.is_null());
            Value::object(present.map(|(key, value)| (key.clone(), storable(value))).collect())
        }
        Value::Set(set) => set_as_object(set),
        Value::Page(page) => storable(&page_as_object(page)),
        Value::Document(document) => storable(&document.as_object()),
        other => other.clone(),
    }
}

/// Returns true if the value is stored as it is: there is nothing to leave out or to turn into an
/// object.
fn is_storable(value: &Value) -> bool {
    let is_kept = |value: &Value| !value.is_null() && is_storable(value);
    match value {
        Value::Array(items) => items.values.iter().all(is_kept),
        Value::Object(fields) => fields.entries.iter().all(|(_, value)| is_kept(value)),
        Value::Set(_) | Value::Page(_) | Value::Document(_) => false,
        _ => true,
    }
}

fn page_as_object(page: &crate::language::value::Page) -> Value {
    let cursors = [("before", &page.before), ("after", &page.after)];
    let cursors = cursors
        .into_iter()
        .filter_map(|(key, cursor)| Some((key.into(), cursor.clone()?)));
    Value::object(
        cursors
            .chain([("data".into(), Value::Array(page.data.clone()))])
            .collect(),
    )
}

impl crate::language::value::Document {
    /// As an object: `ref`, `ts` and its fields.
    pub fn as_object(&self) -> Value {
        let head = [
            ("ref".into(), Value::Ref(self.reference.clone())),
            ("ts".into(), self.ts.value()),
        ];
        Value::object(
            head.into_iter()
                .chain(self.contents.fields().entries.iter().cloned())
                .collect(),
        )
    }
}

fn set_as_object(set: &Set) -> Value {
    Value::record([("@set", Value::object(set_parts(set)))])
}

/// The fields of a set as it is written out.
pub fn set_parts(set: &Set) -> Vec<(Arc<str>, Value)> {
    let single = |key: &str, value: &Value| vec![(key.into(), value.clone())];
    let many = |key: &str, values: &[Value]| vec![(key.into(), Value::array(values.to_vec()))];
    match set {
        Set::Match { index, terms } => {
            let index = ("match".into(), Value::Ref(index.clone()));
            let terms = terms.iter().map(|terms| ("terms".into(), terms.clone()));
            [index].into_iter().chain(terms).collect()
        }
        Set::Documents(collection) => single("documents", &Value::Ref(collection.clone())),
        Set::Singleton(document) => single("singleton", &Value::Ref(document.clone())),
        Set::Events(of) => single("events", of),
        Set::Union(sets) => many("union", sets),
        Set::Intersection(sets) => many("intersection", sets),
        Set::Difference(sets) => many("difference", sets),
        Set::Distinct(of) => single("distinct", of),
        Set::Reverse(of) => single("reverse", of),
        Set::Filter(of, closure) => vec![
            ("filter".into(), Value::Query(closure.clone())),
            ("collection".into(), of.clone()),
        ],
        Set::Join(of, with) => vec![("join".into(), of.clone()), ("with".into(), with.clone())],
        Set::Range { of, from, to } => vec![
            ("range".into(), of.clone()),
            ("from".into(), from.clone()),
            ("to".into(), to.clone()),
        ],
    }
}
