//! A table: its keys, its indexes and its settings, as they are kept.
//!
//! Kept as one JSON row. Each index knows how to place an item and what of it to keep.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::storage::key::kept_name;
use crate::storage::key::{self, KeyPart, KeyType};
use crate::storage::vector_index::VectorIndex;
use crate::wire::expression::Path;
use crate::wire::failure::Failure;
use crate::wire::value::{Item, Value};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub id: u32,
    pub name: String,
    /// The region it is in, if that is apart from the others and not the home region.
    pub region: Option<String>,
    pub uuid: String,
    pub created_micros: u64,
    /// AttributeDefinitions, in their order.
    pub definitions: Vec<KeyPart>,
    pub hash: KeyPart,
    pub range: Option<KeyPart>,
    pub indexes: Vec<Index>,
    #[serde(default)]
    pub vector_indexes: Vec<VectorIndex>,
    /// The last number given to an index of either kind.
    pub last_index: u16,
    pub capacity: Capacity,
    pub stream: Option<StreamSettings>,
    /// The attribute that holds the expiry, if items expire.
    pub time_to_live: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub deletion_protection: bool,
    pub table_class: Option<String>,
    /// JSON of members that are kept and shown but have no effect here.
    pub sse_description: Option<String>,
    pub warm_throughput: Option<(i64, i64)>,
    pub on_demand_maximum: Option<(i64, i64)>,
    pub resource_policy: Option<Policy>,
    pub recovery: Option<Recovery>,
    /// The newest version whose state is needed: what is older than it becomes history when it
    /// changes.
    pub pinned: u64,
    pub restored: Option<Restored>,
    /// Its items are being imported.
    pub importing: bool,
    /// By the name of an index; by no name, those of the table.
    pub insights: BTreeMap<String, Insights>,
}

/// A resource policy and its revision.
pub type Policy = (String, String);

/// Point-in-time recovery: every change becomes history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// The commit that switched it on.
    pub since_micros: u64,
    pub days: i64,
    /// The time of the next sweep for expired history.
    pub sweep_micros: u64,
}

const DAY_MICROS: u64 = 24 * 3600 * 1_000_000;

impl Recovery {
    /// Returns the earliest version whose state is available.
    pub fn earliest_micros(&self, now_micros: u64) -> u64 {
        let kept_micros = self.days as u64 * DAY_MICROS;
        self.since_micros.max(now_micros.saturating_sub(kept_micros))
    }
}

/// Whether a table, or an index of it, is watched for what its keys are used for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Insights {
    pub enabled: bool,
    pub mode: String,
    pub updated_micros: u64,
}

impl Insights {
    pub fn status(&self) -> &'static str {
        match self.enabled {
            true => "ENABLED",
            false => "DISABLED",
        }
    }
}

/// The origin of a restored table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Restored {
    pub backup_arn: Option<String>,
    pub table_arn: String,
    pub micros: u64,
    pub in_progress: bool,
}

/// The most shards that a stream has.
pub const SHARDS_MAX: u8 = 4;

/// The stream that is on, or was the latest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamSettings {
    pub id: u32,
    pub label: String,
    pub view: StreamView,
    pub enabled: bool,
    pub shards: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamView {
    KeysOnly,
    NewImage,
    OldImage,
    NewAndOldImages,
}

impl StreamView {
    pub fn parse(name: &str) -> Option<StreamView> {
        [Self::KeysOnly, Self::NewImage, Self::OldImage, Self::NewAndOldImages]
            .into_iter()
            .find(|view| view.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            StreamView::KeysOnly => "KEYS_ONLY",
            StreamView::NewImage => "NEW_IMAGE",
            StreamView::OldImage => "OLD_IMAGE",
            StreamView::NewAndOldImages => "NEW_AND_OLD_IMAGES",
        }
    }
}

/// How the table, or an index, is paid for: units are zero if on demand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    pub on_demand: bool,
    pub read_units: i64,
    pub write_units: i64,
    /// The time of its last change to on demand; zero if always provisioned.
    pub on_demand_since_micros: u64,
    pub increased_micros: u64,
    pub decreased_micros: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    pub id: u16,
    pub name: String,
    pub global: bool,
    pub hash: Vec<KeyPart>,
    pub range: Vec<KeyPart>,
    pub projection: Projection,
    /// Not yet filled from the items that existed before it.
    pub filling: bool,
    pub capacity: Capacity,
    pub warm_throughput: Option<(i64, i64)>,
    pub on_demand_maximum: Option<(i64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Projection {
    All,
    KeysOnly,
    Include(Vec<String>),
}

impl Projection {
    pub fn name(&self) -> &'static str {
        match self {
            Projection::All => "ALL",
            Projection::KeysOnly => "KEYS_ONLY",
            Projection::Include(_) => "INCLUDE",
        }
    }

    /// The attributes of INCLUDE.
    pub fn names(&self) -> &[String] {
        match self {
            Projection::Include(names) => names,
            _ => &[],
        }
    }
}

/// Longest hash and range attribute, in bytes.
pub const HASH_BYTES_MAX: usize = 2048;
const RANGE_BYTES_MAX: usize = 1024;

impl Table {
    pub fn kept_name(&self) -> Cow<'_, str> {
        kept_name(self.region.as_deref(), &self.name)
    }

    pub fn keys(&self) -> impl Iterator<Item = &KeyPart> {
        std::iter::once(&self.hash).chain(&self.range)
    }

    pub fn is_key(&self, attribute: &str) -> bool {
        self.keys().any(|part| part.name == attribute)
    }

    /// Returns true if an index of either kind has the number.
    pub fn has_index(&self, id: u16) -> bool {
        let mut vectors = self.vector_indexes.iter();
        self.indexes.iter().any(|index| index.id == id) || vectors.any(|index| index.id == id)
    }

    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Not all of its items are there yet.
    pub fn is_coming(&self) -> bool {
        self.importing || self.restored.as_ref().is_some_and(|restored| restored.in_progress)
    }

    pub fn has_local_indexes(&self) -> bool {
        self.indexes.iter().any(|index| !index.global)
    }

    /// The stream to which changes are written.
    pub fn live_stream(&self) -> Option<&StreamSettings> {
        self.stream.as_ref().filter(|stream| stream.enabled)
    }

    /// The row of an item that holds this table's keys.
    pub fn item_key(&self, item: &Item) -> Vec<u8> {
        let mut key = key::items(self.id, 0);
        self.write_place(item, &mut key);
        key
    }

    pub fn write_place(&self, item: &Item, key: &mut Vec<u8>) {
        key::write_partition(&[&item[&self.hash.name]], key);
        if let Some(range) = &self.range {
            key::write_range(&item[&range.name], key);
        }
    }

    /// Returns true if the item has all keys, each of its type.
    pub fn holds_keys(&self, item: &Item) -> bool {
        let mut keys = self.keys();
        keys.all(|part| item.get(&part.name).is_some_and(|value| has_type(value, part.kind)))
    }

    /// Only the key attributes.
    pub fn key_of(&self, item: &Item) -> Item {
        self.keys()
            .map(|part| (part.name.clone(), item[&part.name].clone()))
            .collect()
    }

    /// Refuses a Key that is not exactly this table's.
    pub fn check_key(&self, key: &Item) -> Result<(), Failure> {
        if key.len() != self.keys().count() || !self.holds_keys(key) {
            return Err(Failure::validation(
                "The provided key element does not match the schema",
            ));
        }
        self.check_key_values(key)
    }

    /// Refuses an item whose keys are missing, of a wrong type, empty or too long.
    pub fn check_item_keys(&self, item: &Item) -> Result<(), Failure> {
        for part in self.keys() {
            match item.get(&part.name) {
                None => return Err(Failure::invalid(format!("Missing the key {} in the item", part.name))),
                Some(value) if !has_type(value, part.kind) => {
                    return Err(Failure::invalid(format!(
                        "Type mismatch for key {} expected: {} actual: {}",
                        part.name,
                        part.kind.name(),
                        value.type_name()
                    )));
                }
                Some(_) => {}
            }
        }
        self.check_key_values(item)
    }

    fn check_key_values(&self, item: &Item) -> Result<(), Failure> {
        for part in self.keys() {
            let value = &item[&part.name];
            if is_empty(value) {
                let kind = if part.kind == KeyType::S { "string" } else { "binary" };
                return Err(Failure::validation(format!(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
                     empty {kind} value. Key: {}",
                    part.name
                )));
            }
        }
        if item[&self.hash.name].size() > HASH_BYTES_MAX {
            return Err(Failure::invalid(
                "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ));
        }
        match &self.range {
            Some(range) if item[&range.name].size() > RANGE_BYTES_MAX => Err(Failure::invalid(
                "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses paths into the attributes of keys, which are scalar.
    pub fn check_paths<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) -> Result<(), Failure> {
        let in_index = |name: &str| self.index_keys().any(|part| part.name == name);
        for path in paths.into_iter().filter(|path| !path.steps.is_empty()) {
            let kind = match path.root.as_str() {
                root if self.is_key(root) => "Key",
                root if in_index(root) => "IndexKey",
                _ => continue,
            };
            return Err(Failure::validation(format!(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: {kind}: {}",
                path.root
            )));
        }
        Ok(())
    }

    /// The attributes of the keys of its indexes, of either kind.
    pub fn index_keys(&self) -> impl Iterator<Item = &KeyPart> {
        let vectors = self.vector_indexes.iter().flat_map(|index| &index.schema);
        let keys = self.indexes.iter().flat_map(Index::keys);
        keys.chain(vectors.map(|element| &element.part))
    }

    /// Returns true if no index attribute of `item` has a wrong type.
    pub fn index_types_fit(&self, item: &Item) -> bool {
        let mut parts = self.indexes.iter().flat_map(Index::keys);
        parts.all(|part| item.get(&part.name).is_none_or(|value| has_type(value, part.kind)))
    }

    /// Refuses an item whose index attributes have a wrong type, are empty or too long.
    pub fn check_index_keys(&self, item: &Item) -> Result<(), Failure> {
        for index in &self.indexes {
            for (part, bytes_max) in index.own_keys() {
                let Some(value) = item.get(&part.name) else { continue };
                part.check_type(&index.name, value.type_name())?;
                part.check_value(&index.name, value, bytes_max)?;
            }
        }
        Ok(())
    }
}

impl KeyPart {
    /// Refuses a value that no key of an index may have.
    pub fn check_value(&self, index: &str, value: &Value, bytes_max: usize) -> Result<(), Failure> {
        if is_empty(value) {
            let kind = if self.kind == KeyType::S { "string" } else { "binary" };
            return Err(Failure::validation(format!(
                "One or more parameter values are not valid. A value specified for a secondary index key is not supported. \
                 The AttributeValue for a key attribute cannot contain an empty {kind} value. IndexName: {index}, IndexKey: {}",
                self.name
            )));
        }
        if value.size() > bytes_max {
            let message = match bytes_max {
                HASH_BYTES_MAX => "Size of hashkey has exceeded the maximum size limit of2048 bytes",
                _ => "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
            };
            return Err(Failure::invalid(message));
        }
        Ok(())
    }

    /// Refuses a value of another type than the index attribute has.
    pub fn check_type(&self, index: &str, actual: &str) -> Result<(), Failure> {
        match actual == self.kind.name() {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "Type mismatch for Index Key {} Expected: {} Actual: {actual} IndexName: {index}",
                self.name,
                self.kind.name(),
            ))),
        }
    }
}

impl Index {
    pub fn keys(&self) -> impl Iterator<Item = &KeyPart> {
        self.hash.iter().chain(&self.range)
    }

    fn own_keys(&self) -> impl Iterator<Item = (&KeyPart, usize)> {
        let hash = self.hash.iter().map(|part| (part, HASH_BYTES_MAX));
        hash.chain(self.range.iter().map(|part| (part, RANGE_BYTES_MAX)))
    }

    /// The row of `item` in this index; `None` if it lacks one of the index's attributes, or has
    /// one that cannot be a key: such items may be older than the index.
    pub fn item_key(&self, table: &Table, item: &Item) -> Option<Vec<u8>> {
        let fits = |(part, bytes_max): (&KeyPart, usize)| {
            let value = item.get(&part.name).filter(|value| has_type(value, part.kind))?;
            (!is_empty(value) && value.size() <= bytes_max).then_some(value)
        };
        let values = self.own_keys().map(fits).collect::<Option<Vec<&Value>>>()?;
        let (hash, range) = values.split_at(self.hash.len());
        let mut key = key::items(table.id, self.id);
        key::write_partition(hash, &mut key);
        range.iter().for_each(|value| key::write_range(value, &mut key));
        table.write_place(item, &mut key);
        Some(key)
    }

    /// The row of `item` in this index and what it holds; `None` as above.
    pub fn entry(&self, table: &Table, item: &Item) -> Option<(Vec<u8>, Item)> {
        Some((self.item_key(table, item)?, self.projected(table, item)))
    }

    /// Returns true if entries hold the attribute.
    pub fn projects(&self, table: &Table, attribute: &str) -> bool {
        let is_key = || table.is_key(attribute) || self.keys().any(|part| part.name == attribute);
        match &self.projection {
            Projection::All => true,
            Projection::KeysOnly => is_key(),
            Projection::Include(names) => names.iter().any(|name| name == attribute) || is_key(),
        }
    }

    /// Returns the part of an item that an entry keeps.
    pub fn projected(&self, table: &Table, item: &Item) -> Item {
        let members = item.iter().filter(|(name, _)| self.projects(table, name));
        members.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

pub fn has_type(value: &Value, kind: KeyType) -> bool {
    value.type_name() == kind.name()
}

/// True for a text or bytes that no key may hold.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::S(text) => text.is_empty(),
        Value::B(bytes) => bytes.is_empty(),
        _ => false,
    }
}
