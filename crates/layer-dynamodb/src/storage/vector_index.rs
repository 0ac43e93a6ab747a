//! Vector indexes: the vectors of a table's items, one row each.
//!
//! ```text
//! 'I' table | index | partition of the HASH attribute, or of none | place in the table
//!     -> the vector as it is compared, 4 bytes a component | the filter attributes, as an item
//! ```
//!
//! An entry is written by the transaction of its item. The attributes of a result are those of the
//! item in the same snapshot, so an entry has no copy of them.

use quartet_search::index::vector_kind::{Component, Metric, VectorKind};
use serde::{Deserialize, Serialize};

use crate::storage::key::{self, KeyPart};
use crate::storage::stored;
use crate::storage::table::{HASH_BYTES_MAX, Projection, Table, has_type, is_empty};
use crate::wire::failure::Failure;
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, item_size};

/// The most components of a vector.
pub const DIMENSIONS_MAX: i64 = 4096;
/// The most vector indexes of a table.
pub const VECTOR_INDEXES_MAX: usize = 5;
/// Bytes of a component, here and as the service counts them.
const COMPONENT_BYTES: usize = 4;
/// The least that a write to an index is counted as.
const WRITE_BYTES_MIN: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorIndex {
    pub id: u16,
    pub name: String,
    /// The attribute that holds the vector.
    pub attribute: String,
    pub dimensions: u32,
    pub distance: Distance,
    /// The search schema, in its order.
    pub schema: Vec<SchemaElement>,
    pub projection: Projection,
    /// Not yet filled from the items that existed before it.
    pub filling: bool,
}

/// An attribute of the search schema. Conditions name its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaElement {
    pub part: KeyPart,
    /// Its values divide the index, and each search names one; otherwise a search may name one.
    pub is_hash: bool,
}

impl SchemaElement {
    pub fn kind(&self) -> &'static str {
        match self.is_hash {
            true => "HASH",
            false => "INLINE_FILTER",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Distance {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Distance {
    pub fn parse(name: &str) -> Option<Distance> {
        [Distance::Cosine, Distance::Euclidean, Distance::DotProduct]
            .into_iter()
            .find(|distance| distance.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Distance::Cosine => "COSINE",
            Distance::Euclidean => "EUCLIDEAN",
            Distance::DotProduct => "DOT_PRODUCT",
        }
    }

    /// Returns the score that the service gives for a distance of `quartet-search`. A vector of
    /// zeros has no angle: it is as far as one at a right angle.
    pub fn score(self, distance: f64) -> f32 {
        let score = match self {
            Distance::Cosine if distance.is_infinite() => 1.0,
            Distance::Cosine => distance,
            Distance::Euclidean => distance.sqrt(),
            Distance::DotProduct => 1.0 - distance,
        };
        score.clamp(f32::MIN.into(), f32::MAX.into()) as f32
    }

    /// Returns how near a score is: the least is the nearest.
    pub fn order(self, score: f32) -> f32 {
        match self {
            Distance::Cosine | Distance::Euclidean => score,
            Distance::DotProduct => -score,
        }
    }

    fn metric(self) -> Metric {
        match self {
            Distance::Cosine => Metric::Cosine,
            Distance::Euclidean => Metric::L2,
            Distance::DotProduct => Metric::InnerProduct,
        }
    }
}

/// The components of an attribute value; `None` unless it is a list of numbers of 32 bits.
pub fn components_of(values: &[Value]) -> Option<Vec<f32>> {
    values.iter().map(component_of).collect()
}

fn component_of(value: &Value) -> Option<f32> {
    match value {
        Value::N(number) => Some(to_component(*number)).filter(|component| component.is_finite()),
        _ => None,
    }
}

fn to_component(number: Number) -> f32 {
    number.to_f64() as f32
}

/// The components as bytes.
pub fn blob_of(components: &[f32]) -> Vec<u8> {
    components
        .iter()
        .flat_map(|component| component.to_le_bytes())
        .collect()
}

impl VectorIndex {
    /// The kind of its vectors. A search compares each of them.
    pub fn kind(&self) -> VectorKind {
        VectorKind::new(Component::Float32, self.dimensions as usize, self.distance.metric())
            .expect("a table has checked the dimensions")
    }

    /// The HASH attribute: each search names its value.
    pub fn hash(&self) -> Option<&KeyPart> {
        let hash = self.schema.iter().find(|element| element.is_hash);
        hash.map(|element| &element.part)
    }

    /// Returns the prefix of a partition's rows. `hash` is the value of the HASH attribute, if the
    /// search schema has one.
    pub fn partition(&self, table: &Table, hash: Option<&Value>) -> Vec<u8> {
        let mut key = key::items(table.id, self.id);
        key::write_partition(hash.as_slice(), &mut key);
        key
    }

    /// The components of the item's vector; `None` if it has none that fits.
    fn components(&self, item: &Item) -> Option<Vec<f32>> {
        match item.get(&self.attribute)? {
            Value::L(values) if values.len() == self.dimensions as usize => components_of(values),
            _ => None,
        }
    }

    /// The row of `item` in this index; `None` if it has no vector, no value for the HASH
    /// attribute, or a value of another type than the search schema says: such items may be older
    /// than the index.
    pub fn entry(&self, table: &Table, item: &Item) -> Option<(Vec<u8>, Vec<u8>)> {
        let components = self.components(item)?;
        let (mut hash, mut filters) = (None, Item::new());
        for element in &self.schema {
            let name = &element.part.name;
            match value_of(element, item) {
                Some(value) if element.is_hash => hash = Some(value),
                Some(value) => drop(filters.insert(name.clone(), value.clone())),
                None if element.is_hash || item.contains_key(name) => return None,
                None => {}
            }
        }
        let mut row_key = self.partition(table, hash);
        table.write_place(item, &mut row_key);
        let mut value = self.kind().stored(&blob_of(&components));
        value.extend_from_slice(&stored::encode(&filters));
        Some((row_key, value))
    }

    /// The parts of an entry's value: the vector and the filter attributes.
    pub fn parts<'v>(&self, value: &'v [u8]) -> (&'v [u8], &'v [u8]) {
        value.split_at(self.dimensions as usize * COMPONENT_BYTES)
    }

    /// Returns true if results hold the attribute.
    pub fn projects(&self, table: &Table, attribute: &str) -> bool {
        let is_key = || table.is_key(attribute) || self.schema.iter().any(|own| own.part.name == attribute);
        match &self.projection {
            Projection::All => true,
            Projection::KeysOnly => is_key(),
            Projection::Include(names) => names.iter().any(|name| name == attribute) || is_key(),
        }
    }

    /// Returns the part of an item that results hold, without the vector.
    pub fn projected(&self, table: &Table, item: &Item) -> Item {
        let members = item
            .iter()
            .filter(|(name, _)| **name != self.attribute && self.projects(table, name));
        members.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The bytes of a write that changes what the index shows of an item; zero if it changes
    /// nothing. "Vector Write", recorded from the service, August 2026.
    pub fn written_bytes(&self, table: &Table, old: Option<&Item>, new: Option<&Item>) -> usize {
        let view = |item: Option<&Item>| {
            let item = item?;
            let entry = self.entry(table, item)?;
            Some((entry, self.projected(table, item)))
        };
        let (before, after) = (view(old), view(new));
        if before == after {
            return 0;
        }
        let vector_bytes = self.attribute.len() + self.dimensions as usize * COMPONENT_BYTES;
        let bytes = |(_, view): &(_, Item)| (item_size(view) + vector_bytes).max(WRITE_BYTES_MIN);
        let (before_bytes, after_bytes) = (before.as_ref().map_or(0, bytes), after.as_ref().map_or(0, bytes));
        let is_moved = matches!((&before, &after), (Some(((from, _), _)), Some(((to, _), _))) if from != to);
        match is_moved {
            true => before_bytes + after_bytes,
            false if after.is_some() => after_bytes,
            false => before_bytes,
        }
    }

    /// Refuses vectors of another form or length, and values of the search schema that no key may
    /// have. Attributes that an update leaves as they are in `before` are not
    /// looked at: they may be older than the index.
    fn check(&self, item: &Item, before: Option<&Item>) -> Result<(), Failure> {
        let changed = |name: &String| {
            let value = item.get(name)?;
            (before.and_then(|before| before.get(name)) != Some(value)).then_some(value)
        };
        if let Some(value) = changed(&self.attribute) {
            self.check_vector(value)?;
        }
        for element in &self.schema {
            let Some(value) = changed(&element.part.name) else {
                continue;
            };
            if !has_type(value, element.part.kind) {
                return self.wrong(format!(
                    "Attribute '{}' type mismatch. Expected: {}, Actual: {}. IndexName: {}",
                    element.part.name,
                    element.part.kind.name(),
                    value.type_name(),
                    self.name
                ));
            }
            if element.is_hash {
                element.part.check_value(&self.name, value, HASH_BYTES_MAX)?;
            }
        }
        Ok(())
    }

    fn check_vector(&self, value: &Value) -> Result<(), Failure> {
        let (attribute, name) = (&self.attribute, &self.name);
        let Value::L(values) = value else {
            return self.wrong(format!(
                "Invalid type for parameter {attribute}, Expected: 32-bit floating point number list IndexName: {name}"
            ));
        };
        if values.len() != self.dimensions as usize {
            return self.wrong(format!(
                "Invalid size for parameter {attribute}, Expected: {}, Actual: {} IndexName: {name}",
                self.dimensions,
                values.len()
            ));
        }
        let Some(place) = values.iter().position(|value| component_of(value).is_none()) else {
            return Ok(());
        };
        self.wrong(match &values[place] {
            Value::N(number) => {
                let mut text = Vec::new();
                number.write(&mut text);
                let text = String::from_utf8_lossy(&text);
                format!(
                    "Invalid value for parameter {attribute}[{place}], Value: {text} is outside valid range \
                     [-3.4028235E38, 3.4028235E38]. IndexName: {name}"
                )
            }
            other => format!(
                "Invalid type for parameter {attribute}[{place}], Expected: 32-bit floating point number, Actual: {}. \
                 IndexName: {name}",
                other.type_name()
            ),
        })
    }

    /// Refuses a value. The service's first sentence ends otherwise than in [`Failure::invalid`].
    fn wrong(&self, reason: String) -> Result<(), Failure> {
        Err(Failure::validation(format!(
            "One or more parameter values were invalid. {reason}"
        )))
    }
}

/// Returns the value of the element's attribute; `None` if an index cannot have it.
fn value_of<'i>(element: &SchemaElement, item: &'i Item) -> Option<&'i Value> {
    let value = item.get(&element.part.name)?;
    let fits = !element.is_hash || (!is_empty(value) && value.size() <= HASH_BYTES_MAX);
    (fits && has_type(value, element.part.kind)).then_some(value)
}

impl Table {
    /// Refuses an item that a vector index cannot have; `before` is the item that an update
    /// changes.
    pub fn check_vectors(&self, item: &Item, before: Option<&Item>) -> Result<(), Failure> {
        self.vector_indexes
            .iter()
            .try_for_each(|index| index.check(item, before))
    }

    pub fn vector_index(&self, name: &str) -> Option<&VectorIndex> {
        self.vector_indexes.iter().find(|index| index.name == name)
    }

    /// The size that a write of an item is charged for: a vector of an index counts four bytes a
    /// component. Recorded from the service, October 2026.
    pub fn written_size(&self, item: &Item) -> usize {
        let mut size = item_size(item);
        for (position, index) in self.vector_indexes.iter().enumerate() {
            let earlier = &self.vector_indexes[..position];
            if earlier.iter().any(|other| other.attribute == index.attribute) || index.components(item).is_none() {
                continue;
            }
            let value_bytes = item[&index.attribute].size();
            size = size - value_bytes + index.dimensions as usize * COMPONENT_BYTES;
        }
        size
    }
}
