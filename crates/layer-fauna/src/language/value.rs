//! The values that an expression evaluates to.
//!
//! Values are shared, never changed. Each container knows how deep and how large it would be
//! written out, so that a query which keeps doubling a shared value is refused long before anything
//! walks it: see `LIMITS` in `eval`.

use std::sync::Arc;

use crate::language::api_version::ApiVersion;
use crate::language::expression::Lambda;
use crate::language::time::{Date, Time};

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Array(Arc<Items>),
    Object(Arc<Fields>),
    Page(Arc<Page>),
    Ref(Ref),
    Set(Arc<Set>),
    Time(Time),
    Date(Date),
    Uuid([u8; 16]),
    Query(Arc<Closure>),
    Document(Arc<Document>),
    /// The time at which this very transaction will commit.
    TransactionTime,
}

/// An array.
#[derive(Debug)]
pub struct Items {
    pub values: Vec<Value>,
    size: Size,
}

/// An object: keys differ, in order of their writing.
#[derive(Debug, Default)]
pub struct Fields {
    pub entries: Vec<(Arc<str>, Value)>,
    size: Size,
}

#[derive(Debug)]
pub struct Page {
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub data: Arc<Items>,
    pub origin: Arc<Origin>,
}

/// The origin of a page, independent of its data: its cursors are built from it.
#[derive(Debug)]
pub enum Origin {
    /// Elements of a set: what they showed, and the documents they are of.
    Elements {
        shown: Arc<Items>,
        documents: Vec<Ref>,
        /// The number of values that each of them shows; 0: the document itself.
        values: usize,
        /// Cursors name the document twice.
        repeats_ref: bool,
    },
    /// The cursor to each element.
    Cursors(Vec<Value>),
}

impl Origin {
    /// The cursor to each element of the page as it was read.
    pub fn cursors(&self) -> Vec<Value> {
        match self {
            Origin::Cursors(cursors) => cursors.clone(),
            Origin::Elements {
                shown,
                documents,
                values,
                repeats_ref,
            } => {
                let each = shown.values.iter().zip(documents);
                each.map(|(value, document)| {
                    let parts = match values {
                        0 => &[],
                        1 => std::slice::from_ref(value),
                        _ => value.one_or_many(),
                    };
                    let document = std::iter::repeat_n(Value::Ref(document.clone()), 1 + usize::from(*repeats_ref));
                    Value::array(parts.iter().cloned().chain(document).collect())
                })
                .collect()
            }
        }
    }
}

/// How deep a value nests, and about how many bytes it takes when written out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub depth: u32,
    pub bytes: u64,
}

/// A version of a document: its top-level fields, among them `data`.
#[derive(Debug)]
pub struct Document {
    pub reference: Ref,
    pub ts: Timestamp,
    pub contents: Contents,
    /// A create of this query has made it.
    pub is_new: bool,
}

/// The fields of a document, decoded on demand.
#[derive(Clone, Debug)]
pub enum Contents {
    Known(Arc<Fields>),
    Stored(Arc<dyn StoredFields>),
}

/// Stored fields, decoded on demand.
pub trait StoredFields: std::fmt::Debug + Send + Sync {
    fn bytes(&self) -> &[u8];

    /// Returns the meaning of names in them.
    fn names(&self) -> &dyn Names;

    fn fields(&self) -> &Arc<Fields>;

    /// The field that says when the document ends.
    fn ttl(&self) -> Option<&Value>;

    fn size(&self) -> Size;
}

impl Contents {
    pub fn fields(&self) -> &Arc<Fields> {
        match self {
            Contents::Known(fields) => fields,
            Contents::Stored(stored) => stored.fields(),
        }
    }

    /// The field that says when the document ends.
    pub fn ttl(&self) -> Option<&Value> {
        match self {
            Contents::Known(fields) => fields.get("ttl"),
            Contents::Stored(stored) => stored.ttl(),
        }
    }

    pub fn size(&self) -> Size {
        match self {
            Contents::Known(fields) => fields.size(),
            Contents::Stored(stored) => stored.size(),
        }
    }
}

impl From<Arc<Fields>> for Contents {
    fn from(fields: Arc<Fields>) -> Contents {
        Contents::Known(fields)
    }
}

/// Numbers of named things, and back.
pub trait Names {
    fn number(&self, kind: Native, name: &str) -> Option<u64>;
    fn name(&self, kind: Native, number: u64) -> Option<Arc<str>>;
}

/// Names stay names.
pub struct NoNames;

impl Names for NoNames {
    fn number(&self, _: Native, _: &str) -> Option<u64> {
        None
    }

    fn name(&self, _: Native, _: u64) -> Option<Arc<str>> {
        None
    }
}

/// The time of a version's write, in microseconds; `PENDING` until the transaction that writes it
/// commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub const PENDING: Timestamp = Timestamp(u64::MAX);

    pub fn value(self) -> Value {
        match self {
            Timestamp::PENDING => Value::TransactionTime,
            Timestamp(micros) => Value::Int(micros as i64),
        }
    }
}

/// The collections that every database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Native {
    Databases,
    Collections,
    Indexes,
    Functions,
    Roles,
    Keys,
    Tokens,
    Credentials,
    AccessProviders,
}

impl Native {
    pub const ALL: [Native; 9] = [
        Native::Databases,
        Native::Collections,
        Native::Indexes,
        Native::Functions,
        Native::Roles,
        Native::Keys,
        Native::Tokens,
        Native::Credentials,
        Native::AccessProviders,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Native::Databases => "databases",
            Native::Collections => "collections",
            Native::Indexes => "indexes",
            Native::Functions => "functions",
            Native::Roles => "roles",
            Native::Keys => "keys",
            Native::Tokens => "tokens",
            Native::Credentials => "credentials",
            Native::AccessProviders => "access_providers",
        }
    }

    /// One of them, as messages call it.
    pub fn singular(self) -> &'static str {
        match self {
            Native::Databases => "database",
            Native::Collections => "collection",
            Native::Indexes => "index",
            Native::Functions => "function",
            Native::Roles => "role",
            Native::Keys => "key",
            Native::Tokens => "token",
            Native::Credentials => "credentials",
            Native::AccessProviders => "access_provider",
        }
    }

    /// The singular name of its documents, at the start of messages.
    pub fn title(self) -> &'static str {
        match self {
            Native::Databases => "Database",
            Native::Collections => "Collection",
            Native::Indexes => "Index",
            Native::Functions => "Function",
            Native::Roles => "Role",
            Native::Keys => "Key",
            Native::Tokens => "Token",
            Native::Credentials => "Credentials",
            // The original has no word for it.
            Native::AccessProviders => "other",
        }
    }

    /// `classes` is the old word for collections.
    pub fn parse(name: &str) -> Option<Native> {
        if name == "classes" {
            return Some(Native::Collections);
        }
        Native::ALL.into_iter().find(|native| native.name() == name)
    }

    /// Its members have names; those of the others have numbers.
    pub fn has_names(self) -> bool {
        !matches!(self, Native::Keys | Native::Tokens | Native::Credentials)
    }
}

/// The built-in collection of that number.
pub fn native_of(collection: u64) -> Option<Native> {
    Native::ALL.into_iter().find(|native| *native as u64 == collection)
}

/// Names something that need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ref {
    pub target: Target,
    /// The databases to walk down from the request's own. Empty: its own.
    pub scope: Arc<[Arc<str>]>,
    /// Made from a name that only this query has given: names are looked up in the schema as it was
    /// before the query.
    pub is_unknown: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    Native(Native),
    Named(Native, Arc<str>),
    Numbered(Native, i64),
    Document(Arc<str>, i64),
}

impl Ref {
    pub fn new(target: Target) -> Ref {
        Ref {
            target,
            scope: no_scope(),
            is_unknown: false,
        }
    }

    pub fn native(native: Native) -> Ref {
        Ref::new(Target::Native(native))
    }

    pub fn named(native: Native, name: impl Into<Arc<str>>) -> Ref {
        Ref::new(Target::Named(native, name.into()))
    }

    pub fn with_scope(mut self, scope: Arc<[Arc<str>]>) -> Ref {
        self.scope = scope;
        self
    }

    /// The collection it is in; of a built-in collection nothing.
    pub fn collection(&self) -> Option<Ref> {
        let target = match &self.target {
            Target::Native(_) => return None,
            Target::Named(native, _) | Target::Numbered(native, _) => Target::Native(*native),
            Target::Document(collection, _) => Target::Named(Native::Collections, collection.clone()),
        };
        Some(Ref::new(target).with_scope(self.scope.clone()))
    }

    pub fn id(&self) -> Arc<str> {
        match &self.target {
            Target::Native(native) => native.name().into(),
            Target::Named(_, name) => name.clone(),
            Target::Numbered(_, id) | Target::Document(_, id) => id.to_string().into(),
        }
    }

    /// The database it is scoped to.
    pub fn database(&self) -> Option<Ref> {
        let (last, above) = self.scope.split_last()?;
        Some(Ref::named(Native::Databases, last.clone()).with_scope(above.into()))
    }

    /// The built-in collection that it is a member of.
    pub fn kind(&self) -> Option<Native> {
        match self.target {
            Target::Native(_) => Some(Native::Collections),
            Target::Named(native, _) | Target::Numbered(native, _) => Some(native),
            Target::Document(..) => None,
        }
    }

    /// A collection, of documents or built in.
    pub fn is_collection(&self) -> bool {
        matches!(self.target, Target::Native(_) | Target::Named(Native::Collections, _))
    }

    /// The size of its text: it repeats its names, which may be any text of a query.
    pub fn size(&self) -> Size {
        let name_bytes = match &self.target {
            Target::Named(_, name) | Target::Document(name, _) => name.len(),
            Target::Native(_) | Target::Numbered(..) => 0,
        };
        let scope_bytes: usize = self.scope.iter().map(|part| REF_BYTES + part.len()).sum();
        Size::leaf(REF_BYTES + name_bytes + scope_bytes)
    }

    /// The kind of schema object it names, if it does.
    pub fn names(&self, native: Native) -> bool {
        matches!(&self.target, Target::Named(kind, _) if *kind == native)
    }
}

/// The bytes of a ref that is written out, without its names.
const REF_BYTES: usize = 96;

pub fn no_scope() -> Arc<[Arc<str>]> {
    static NONE: std::sync::LazyLock<Arc<[Arc<str>]>> = std::sync::LazyLock::new(|| Arc::from([]));
    NONE.clone()
}

/// A set, not yet looked at.
#[derive(Debug)]
pub enum Set {
    Match {
        index: Ref,
        terms: Option<Value>,
    },
    Documents(Ref),
    Singleton(Ref),
    /// Events of a ref or a set.
    Events(Value),
    Union(Vec<Value>),
    Intersection(Vec<Value>),
    Difference(Vec<Value>),
    Distinct(Value),
    Reverse(Value),
    Filter(Value, Arc<Closure>),
    /// With a lambda, or the ref of an index.
    Join(Value, Value),
    Range {
        of: Value,
        from: Value,
        to: Value,
    },
}

/// The set of a value: a set, or the ref of a built-in collection.
pub fn as_set(value: &Value) -> Option<Arc<Set>> {
    match value {
        Value::Set(set) => Some(set.clone()),
        Value::Ref(reference) if matches!(reference.target, Target::Native(_)) => {
            Some(Arc::new(Set::Documents(reference.clone())))
        }
        _ => None,
    }
}

/// A lambda and the variables it was made among.
#[derive(Debug)]
pub struct Closure {
    pub lambda: Arc<Lambda>,
    pub variables: Arc<[Value]>,
    /// As stored and shown.
    pub api_version: ApiVersion,
}

impl Items {
    pub fn new(values: Vec<Value>) -> Items {
        let size = values
            .iter()
            .fold(Size::empty(), |size, value| size.holding(value.size(), None));
        Items { values, size }
    }
}

impl Fields {
    pub fn new(entries: Vec<(Arc<str>, Value)>) -> Fields {
        let empty = Size::empty();
        let size = entries
            .iter()
            .fold(empty, |size, (key, value)| size.holding(value.size(), Some(key.len())));
        Fields { entries, size }
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// About what they take when written out.
    pub fn encoded_bytes(&self) -> usize {
        self.size.bytes.min(64 << 10) as usize
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries
            .iter()
            .find(|(name, _)| &**name == key)
            .map(|(_, value)| value)
    }

    pub fn string(&self, key: &str) -> Option<&Arc<str>> {
        match self.get(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The same with `key` set to `value`, in its old place if it had one.
    pub fn with(&self, key: &str, value: Value) -> Fields {
        let mut entries = self.entries.clone();
        match entries.iter_mut().find(|(name, _)| &**name == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key.into(), value)),
        }
        Fields::new(entries)
    }

    pub fn without(&self, keys: &[&str]) -> Fields {
        let entries = self.entries.iter().filter(|(name, _)| !keys.contains(&&**name));
        Fields::new(entries.cloned().collect())
    }
}

impl Size {
    /// The size of a leaf of `bytes` bytes.
    pub fn leaf(bytes: usize) -> Size {
        Size {
            depth: 0,
            bytes: bytes as u64 + 8,
        }
    }

    /// The size of an empty container.
    pub fn empty() -> Size {
        Size { depth: 1, bytes: 2 }
    }

    /// Adds one inner value, under a key of `key_bytes`.
    pub fn holding(self, inner: Size, key_bytes: Option<usize>) -> Size {
        Size {
            depth: self.depth.max(inner.depth + 1),
            bytes: self
                .bytes
                .saturating_add(inner.bytes + 1)
                .saturating_add(key_bytes.map_or(0, |bytes| bytes as u64 + 4)),
        }
    }

    fn and(self, other: Size) -> Size {
        Size {
            depth: self.depth.max(other.depth),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub fn deeper(self) -> Size {
        Size {
            depth: self.depth + 1,
            bytes: self.bytes + 16,
        }
    }
}

impl Value {
    pub fn string(text: impl Into<Arc<str>>) -> Value {
        Value::String(text.into())
    }

    pub fn array(values: Vec<Value>) -> Value {
        Value::Array(Arc::new(Items::new(values)))
    }

    pub fn object(entries: Vec<(Arc<str>, Value)>) -> Value {
        Value::Object(Arc::new(Fields::new(entries)))
    }

    /// An object of fixed keys.
    pub fn record<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    pub fn native(native: Native) -> Value {
        Value::Ref(Ref::native(native))
    }

    pub fn named(native: Native, name: impl Into<Arc<str>>) -> Value {
        Value::Ref(Ref::named(native, name))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn as_str(&self) -> Option<&Arc<str>> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&Arc<Fields>> {
        match self {
            Value::Object(fields) => Some(fields),
            _ => None,
        }
    }

    pub fn as_items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(&items.values),
            _ => None,
        }
    }

    /// One or many: the elements of an array, or the value itself.
    pub fn one_or_many(&self) -> &[Value] {
        match self {
            Value::Array(items) => &items.values,
            single => std::slice::from_ref(single),
        }
    }

    pub fn size(&self) -> Size {
        let leaf = Size::leaf;
        match self {
            Value::String(text) => leaf(text.len()),
            Value::Bytes(bytes) => leaf(bytes.len()),
            Value::Array(items) => items.size,
            Value::Object(fields) => fields.size,
            Value::Page(page) => [&page.before, &page.after]
                .into_iter()
                .flatten()
                .fold(page.data.size, |size, cursor| size.and(cursor.size()))
                .deeper(),
            Value::Document(document) => document.contents.size().deeper(),
            Value::Set(set) => set.size(),
            Value::Query(closure) => closure
                .variables
                .iter()
                .fold(leaf(64), |size, value| size.and(value.size()))
                .deeper(),
            Value::Ref(reference) => reference.size(),
            _ => leaf(8),
        }
    }

    /// The name that error messages have for its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "Null",
            Value::Bool(_) => "Boolean",
            Value::Int(_) => "Integer",
            Value::Double(_) => "Double",
            Value::String(_) => "String",
            Value::Bytes(_) => "Bytes",
            Value::Array(_) => "Array",
            Value::Object(_) => "Object",
            Value::Page(_) => "Page",
            Value::Ref(reference) => reference.type_name(),
            Value::Set(_) => "Set",
            Value::Time(_) => "Time",
            Value::Date(_) => "Date",
            Value::Uuid(_) => "UUID",
            Value::Query(_) => "Lambda",
            Value::Document(_) => "Object",
            Value::TransactionTime => "Unresolved Transaction Time",
        }
    }
}

impl Ref {
    /// The name that error messages have for its kind.
    pub fn type_name(&self) -> &'static str {
        match &self.target {
            Target::Named(Native::Databases, _) => "Database Ref",
            Target::Native(_) | Target::Named(Native::Collections, _) => "Collection Ref",
            Target::Named(Native::Indexes, _) => "Index Ref",
            Target::Named(Native::Functions, _) => "User Function Ref",
            Target::Numbered(Native::Keys, _) => "Key Ref",
            _ => "Ref",
        }
    }
}

impl Set {
    /// Its elements are events.
    pub fn is_history(&self) -> bool {
        let of = match self {
            Set::Events(_) => return true,
            Set::Match { .. } | Set::Documents(_) | Set::Singleton(_) | Set::Join(..) => return false,
            Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => parts.first(),
            Set::Distinct(of) | Set::Reverse(of) | Set::Filter(of, _) | Set::Range { of, .. } => Some(of),
        };
        matches!(of, Some(Value::Set(of)) if of.is_history())
    }

    fn size(&self) -> Size {
        let base = Size { depth: 1, bytes: 64 };
        let all = |values: &[Value]| values.iter().fold(base, |size, value| size.and(value.size())).deeper();
        match self {
            Set::Match { index, terms } => {
                let base = base.and(index.size());
                terms.as_ref().map_or(base, |terms| base.and(terms.size()).deeper())
            }
            Set::Documents(reference) | Set::Singleton(reference) => base.and(reference.size()),
            Set::Union(sets) | Set::Intersection(sets) | Set::Difference(sets) => all(sets),
            Set::Distinct(set) | Set::Reverse(set) | Set::Events(set) => base.and(set.size()).deeper(),
            Set::Filter(set, closure) => base.and(set.size()).and(Value::Query(closure.clone()).size()).deeper(),
            Set::Join(set, with) => base.and(set.size()).and(with.size()).deeper(),
            Set::Range { of, from, to } => base.and(of.size()).and(from.size()).and(to.size()).deeper(),
        }
    }
}
