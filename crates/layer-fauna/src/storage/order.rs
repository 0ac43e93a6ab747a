//! The order of values, for comparisons and as bytes for the keys of index entries.
//!
//! numbers < bytes < strings < arrays < objects < refs < times < dates < queries < transaction time
//! < uuid < false < true < null. Integers and doubles are ordered by magnitude together; strings by
//! the Unicode collation of the root locale, ties by their bytes; refs by id, then by collection.
//!
//! The bytes of a value start with its tag and are self-delimiting, so they can be concatenated,
//! and inverting every bit inverts their order.

use std::cmp::Ordering;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::{Collator, CollatorBorrowed};
use quartet_engine::Stamp;
use quartet_model::Version;
use sha2::{Digest, Sha256};

use crate::language::value::{Names, Native, Ref, Target, Value};

const NUMBER: u8 = 0x10;
/// A double among terms, where 1 and 1.0 are two.
const DOUBLE: u8 = 0x11;
const BYTES: u8 = 0x18;
const STRING: u8 = 0x20;
const ARRAY: u8 = 0x28;
const OBJECT: u8 = 0x30;
const REF: u8 = 0x38;
const TIME: u8 = 0x40;
const DATE: u8 = 0x48;
const QUERY: u8 = 0x50;
const TRANSACTION_TIME: u8 = 0x58;
const UUID: u8 = 0x60;
const FALSE: u8 = 0x68;
const TRUE: u8 = 0x70;
const NULL: u8 = 0x78;

/// Strings longer than this are ordered by this many bytes of their collation key, and
/// distinguished by a hash.
const STRING_BYTES_PLAIN: usize = 4096;

fn collator() -> &'static CollatorBorrowed<'static> {
    static COLLATOR: std::sync::LazyLock<CollatorBorrowed<'static>> = std::sync::LazyLock::new(|| {
        let mut options = CollatorOptions::default();
        options.strength = Some(Strength::Tertiary);
        Collator::try_new(Default::default(), options).expect("the root collation is compiled in")
    });
    &COLLATOR
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Double(_) => NUMBER,
        Value::Bytes(_) => BYTES,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) | Value::Document(_) | Value::Page(_) => OBJECT,
        Value::Ref(_) => REF,
        Value::Time(_) => TIME,
        Value::Date(_) => DATE,
        Value::Query(_) | Value::Set(_) => QUERY,
        Value::TransactionTime => TRANSACTION_TIME,
        Value::Uuid(_) => UUID,
        Value::Bool(false) => FALSE,
        Value::Bool(true) => TRUE,
        Value::Null => NULL,
    }
}

/// Returns whether every ref sorts after the value.
pub fn stands_before_refs(value: &Value) -> bool {
    rank(value) < REF
}

pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => compare_strings(left, right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_all(&left.values, &right.values),
        (Value::Ref(left), Value::Ref(right)) => compare_refs(left, right),
        (Value::Time(left), Value::Time(right)) => left.cmp(right),
        (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
        _ if rank(left) != rank(right) => rank(left).cmp(&rank(right)),
        _ => match rank(left) {
            NUMBER => number_key(left).cmp(&number_key(right)),
            OBJECT => compare_objects(left, right),
            QUERY => crate::language::render::compact(left).cmp(&crate::language::render::compact(right)),
            _ => Ordering::Equal,
        },
    }
}

fn compare_all(left: &[Value], right: &[Value]) -> Ordering {
    let unequal = left.iter().zip(right).map(|(left, right)| compare(left, right));
    let first = unequal.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_strings(left: &str, right: &str) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    collator().compare(left, right).then_with(|| left.cmp(right))
}

fn compare_objects(left: &Value, right: &Value) -> Ordering {
    let (left, right) = (sorted_entries(left), sorted_entries(right));
    for ((left_key, left), (right_key, right)) in left.iter().zip(&right) {
        let order = left_key.cmp(right_key).then_with(|| compare(left, right));
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

fn sorted_entries(value: &Value) -> Vec<(std::sync::Arc<str>, Value)> {
    let object = match value {
        Value::Document(document) => document.as_object(),
        Value::Page(page) => Value::record([("data", Value::Array(page.data.clone()))]),
        other => other.clone(),
    };
    let mut entries = object
        .as_object()
        .map(|fields| fields.entries.clone())
        .unwrap_or_default();
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    entries
}

/// By id, then by collection. Named entities have no ids here: they sort first, by their names.
fn compare_refs(left: &Ref, right: &Ref) -> Ordering {
    let place = |reference: &Ref| match &reference.target {
        Target::Native(native) => (0, 0, *native as u8, "".into()),
        Target::Named(native, name) => (1, 0, *native as u8, name.clone()),
        Target::Numbered(native, id) => (2, *id as u64, *native as u8, "".into()),
        Target::Document(collection, id) => (2, *id as u64, u8::MAX, collection.clone()),
    };
    left.scope
        .cmp(&right.scope)
        .then_with(|| place(left).cmp(&place(right)))
}

/// Equal as the operands of `equals` are: of two numbers the doubles nearest to them, so 1 is 1.0;
/// of everything else, what is in it.
pub fn equal(left: &Value, right: &Value) -> bool {
    let bits = |number: f64| {
        if number.is_nan() {
            f64::NAN.to_bits()
        } else {
            number.to_bits()
        }
    };
    match (left, right) {
        (Value::Int(left), Value::Double(right)) => bits(*left as f64) == bits(*right),
        (Value::Double(left), Value::Int(right)) => bits(*left) == bits(*right as f64),
        (Value::Double(left), Value::Double(right)) => bits(*left) == bits(*right),
        _ => same(left, right),
    }
}

/// The same value inside and out: 1 is not 1.0, the keys of objects are in no order.
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(_), Value::Double(_)) | (Value::Double(_), Value::Int(_)) => false,
        (Value::Double(left), Value::Double(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Array(left), Value::Array(right)) => {
            left.values.len() == right.values.len() && left.values.iter().zip(&right.values).all(|(l, r)| same(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has =
                |(key, value): &(std::sync::Arc<str>, Value)| right.get(key).is_some_and(|other| same(value, other));
            left.entries.len() == right.entries.len() && left.entries.iter().all(has)
        }
        _ => compare(left, right).is_eq(),
    }
}

/// The double in order of its bits, then what an integer has beyond it.
fn number_key(value: &Value) -> [u8; 10] {
    let (double, beyond) = match value {
        Value::Int(integer) => {
            let double = *integer as f64;
            (double, (i128::from(*integer) - double as i128) as i16)
        }
        Value::Double(double) => (*double, 0),
        _ => (0.0, 0),
    };
    let mut key = [0; 10];
    key[..8].copy_from_slice(&ordered_double(double));
    key[8..].copy_from_slice(&((beyond as u16) ^ 0x8000).to_be_bytes());
    key
}

fn ordered_double(double: f64) -> [u8; 8] {
    // Minus zero is zero.
    let bits = (double + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    ordered.to_be_bytes()
}

/// Bytes in the order of values, being written.
pub struct KeyWriter<'n> {
    pub bytes: Vec<u8>,
    pub stamps: Vec<Stamp>,
    names: &'n dyn Names,
    /// Only equality matters: strings go without their collation keys.
    identity: bool,
}

impl<'n> KeyWriter<'n> {
    pub fn ordered(names: &'n dyn Names) -> KeyWriter<'n> {
        KeyWriter {
            bytes: Vec::with_capacity(32),
            stamps: Vec::new(),
            names,
            identity: false,
        }
    }

    pub fn identity(names: &'n dyn Names) -> KeyWriter<'n> {
        KeyWriter {
            identity: true,
            ..KeyWriter::ordered(names)
        }
    }

    pub fn value(&mut self, value: &Value, reverse: bool) {
        let (start, stamped) = (self.bytes.len(), self.stamps.len());
        self.forward(value);
        if reverse {
            self.bytes[start..].iter_mut().for_each(|byte| *byte = !*byte);
            for stamp in &mut self.stamps[stamped..] {
                stamp.bytes = |version| ordered_version(version).map(|byte| !byte);
            }
        }
    }

    fn forward(&mut self, value: &Value) {
        self.bytes.push(match value {
            // It becomes a number when the transaction commits.
            Value::TransactionTime => NUMBER,
            Value::Double(_) if self.identity => DOUBLE,
            other => rank(other),
        });
        match value {
            Value::Int(_) | Value::Double(_) => self.bytes.extend(number_key(value)),
            Value::TransactionTime => {
                self.stamps.push(Stamp {
                    offset: self.bytes.len(),
                    bytes: ordered_version,
                });
                self.bytes.extend(ordered_version(Version::MAX));
                self.bytes.extend([0x80, 0]);
            }
            Value::Bytes(bytes) => self.terminated(bytes),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                items.values.iter().for_each(|item| self.forward(item));
                self.bytes.push(0);
            }
            Value::Object(_) | Value::Document(_) | Value::Page(_) => {
                for (key, value) in sorted_entries(value) {
                    self.bytes.push(1);
                    self.terminated(key.as_bytes());
                    self.forward(&value);
                }
                self.bytes.push(0);
            }
            Value::Ref(reference) => self.reference(reference),
            Value::Time(time) => {
                self.integer(time.seconds);
                self.bytes.extend(time.nanos.to_be_bytes());
            }
            Value::Date(date) => self.integer(date.days),
            Value::Query(_) | Value::Set(_) => {
                self.terminated(&Sha256::digest(crate::language::render::compact(value)))
            }
            Value::Uuid(uuid) => self.bytes.extend(uuid),
            Value::Bool(_) | Value::Null => {}
        }
    }

    fn integer(&mut self, integer: i64) {
        self.bytes.extend(((integer as u64) ^ 1 << 63).to_be_bytes());
    }

    fn string(&mut self, text: &str) {
        let long = text.len() > STRING_BYTES_PLAIN;
        if !self.identity {
            let mut key = Vec::new();
            let start = if long {
                text.floor_char_boundary(STRING_BYTES_PLAIN)
            } else {
                text.len()
            };
            // Writing to a vector cannot fail.
            let Ok(()) = collator().write_sort_key_to(&text[..start], &mut key);
            self.terminated(&key);
        }
        if long {
            self.terminated(&Sha256::digest(text));
        } else {
            self.terminated(text.as_bytes());
        }
    }

    /// Zero bytes are escaped, so that a shorter value sorts first.
    fn terminated(&mut self, bytes: &[u8]) {
        for (index, part) in bytes.split(|&byte| byte == 0).enumerate() {
            if index > 0 {
                self.bytes.extend([0, 0xff]);
            }
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend([0, 0]);
    }

    fn reference(&mut self, reference: &Ref) {
        self.bytes.push(reference.scope.len().min(255) as u8);
        for part in reference.scope.iter() {
            self.terminated(part.as_bytes());
        }
        let (id, collection, unknown) = self.place(reference);
        self.bytes.extend(id.to_be_bytes());
        self.bytes.extend(collection.to_be_bytes());
        if let Some(name) = unknown {
            self.terminated(name.as_bytes());
        }
    }

    /// The id of a ref's target and the number of its collection; and its name, if that has no
    /// number.
    fn place<'r>(&self, reference: &'r Ref) -> (u64, u64, Option<&'r str>) {
        match &reference.target {
            Target::Native(native) => (*native as u64, Native::Collections as u64, None),
            Target::Numbered(native, id) => (*id as u64, *native as u64, None),
            Target::Named(native, name) => match self.names.number(*native, name) {
                Some(number) => (number, *native as u64, None),
                None => (u64::MAX, *native as u64, Some(name)),
            },
            Target::Document(collection, id) => match self.names.number(Native::Collections, collection) {
                Some(number) => (*id as u64, number, None),
                None => (*id as u64, u64::MAX, Some(collection)),
            },
        }
    }
}

fn ordered_version(version: Version) -> [u8; 8] {
    ordered_double(version.0 as f64)
}
