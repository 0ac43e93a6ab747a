//! The vector indexes of CreateTable, UpdateTable and restores, read, checked and described.

use std::collections::HashSet;

use super::describe::Shown;
use crate::DynamoDb;
use crate::storage::attributes::{Definitions, parse_projection, write_projection};
use crate::storage::key::KeyPart;
use crate::storage::table::{Capacity, Index, Table};
use crate::storage::vector_index::{DIMENSIONS_MAX, Distance, SchemaElement, VECTOR_INDEXES_MAX, VectorIndex};
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer};

/// Reads an index; its number is the caller's. `definitions` are those of the request.
pub fn vector_index_from(json: &Json<'_>, definitions: &Definitions) -> Result<VectorIndex, Failure> {
    let text = |name| json.get(name).and_then(Json::text).unwrap_or_default();
    let dimensions = json.get("Dimensions").and_then(Json::integer).unwrap_or_default();
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(Failure::invalid(format!(
            "Number of dimensions must be between 1 and {DIMENSIONS_MAX} inclusive."
        )));
    }
    let attribute = json.get("VectorAttribute").and_then(|named| named.get("AttributeName"));
    let elements = json.get("SearchSchema").map_or(&[][..], Json::elements);
    Ok(VectorIndex {
        id: 0,
        name: text("IndexName").to_owned(),
        attribute: attribute.and_then(Json::text).unwrap_or_default().to_owned(),
        dimensions: dimensions as u32,
        distance: Distance::parse(text("DistanceFunction")).expect("the shape allows its names only"),
        schema: schema_from(elements, definitions)?,
        projection: parse_projection(json)?,
        filling: false,
    })
}

fn schema_from(elements: &[Json<'_>], definitions: &Definitions) -> Result<Vec<SchemaElement>, Failure> {
    let mut schema: Vec<SchemaElement> = Vec::new();
    for json in elements {
        let text = |name| json.get(name).and_then(Json::text).unwrap_or_default();
        let name = text("AttributeName");
        let Some(part) = definitions.find(name) else {
            return Err(Failure::invalid(
                "One element in SearchSchema is not defined in attribute definitions",
            ));
        };
        let is_hash = text("SearchSchemaElementType") == "HASH";
        if schema.iter().any(|other| other.part.name == name) {
            return Err(Failure::invalid(format!("Duplicate element in SearchSchema: {name}")));
        }
        if is_hash && schema.iter().any(|other| other.is_hash) {
            return Err(Failure::invalid("SearchSchema has more than one HASH element"));
        }
        let part = part.clone();
        schema.push(SchemaElement { part, is_hash });
    }
    Ok(schema)
}

/// Reads the vector indexes of a new table.
pub fn parse_vector_indexes(
    request: &Json<'_>,
    definitions: &Definitions,
    secondary: &[Index],
    capacity: &Capacity,
) -> Result<Vec<VectorIndex>, Failure> {
    let elements = request.get("VectorIndexes").map_or(&[][..], Json::elements);
    let mut indexes = Vec::new();
    for json in elements {
        let mut index = vector_index_from(json, definitions)?;
        index.id = (secondary.len() + indexes.len() + 1) as u16;
        indexes.push(index);
    }
    check_vector_billing(capacity, &indexes)?;
    if indexes.len() > VECTOR_INDEXES_MAX {
        return Err(Failure::invalid(format!(
            "VectorIndex count exceeds the per-table limit of {VECTOR_INDEXES_MAX}"
        )));
    }
    check_vector_indexes(&indexes, secondary, definitions)?;
    Ok(indexes)
}

/// Refuses vector indexes of a table that is not paid for by request.
pub fn check_vector_billing(capacity: &Capacity, indexes: &[VectorIndex]) -> Result<(), Failure> {
    match capacity.on_demand || indexes.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(
            "Vector indexes are only supported for PAY_PER_REQUEST tables",
        )),
    }
}

/// Refuses indexes that do not go together. `definitions` are those of the request.
pub fn check_vector_indexes(
    indexes: &[VectorIndex],
    secondary: &[Index],
    definitions: &Definitions,
) -> Result<(), Failure> {
    for (position, index) in indexes.iter().enumerate() {
        let (name, attribute) = (&index.name, &index.attribute);
        let before = &indexes[..position];
        if before.iter().any(|other| other.name == *name) || secondary.iter().any(|other| other.name == *name) {
            return Err(Failure::invalid(format!("Duplicate index name: {name}")));
        }
        if definitions.find(attribute).is_some() {
            return Err(Failure::invalid(format!(
                "Conflicting attribute definition for '{attribute}'. An attribute cannot be defined in \
                 AttributeDefinitions when used as a VectorAttribute."
            )));
        }
        let differs = |other: &VectorIndex| other.attribute == *attribute && other.dimensions != index.dimensions;
        if before.iter().any(differs) {
            return Err(Failure::invalid(format!(
                "Conflicting attribute definition for '{attribute}'. All VectorIndexes on the same vector attribute must \
                 use the same dimensions."
            )));
        }
    }
    Ok(())
}

/// The attributes that keys and search schemas use.
pub fn used_names<'n>(
    keys: impl Iterator<Item = &'n KeyPart>,
    indexes: &'n [Index],
    vector_indexes: &'n [VectorIndex],
) -> HashSet<&'n str> {
    let schemas = vector_indexes.iter().flat_map(|index| &index.schema);
    let parts = keys
        .chain(indexes.iter().flat_map(Index::keys))
        .chain(schemas.map(|element| &element.part));
    parts.map(|part| part.name.as_str()).collect()
}

/// Writes the definition of an index.
pub fn write_vector_index(writer: &mut Writer, index: &VectorIndex) {
    writer.member("IndexName", &index.name);
    writer.nested("VectorAttribute", |writer| {
        writer.member("AttributeName", &index.attribute);
    });
    if !index.schema.is_empty() {
        writer.list("SearchSchema", &index.schema, |writer, element| {
            writer.open(b'{');
            writer.member("AttributeName", &element.part.name);
            writer.member("SearchSchemaElementType", element.kind());
            writer.close(b'}');
        });
    }
    write_projection(writer, &index.projection);
    writer.name("Dimensions").raw(index.dimensions);
    writer.member("DistanceFunction", index.distance.name());
}

/// Writes the member of a TableDescription, if the table has vector indexes.
pub fn describe_vector_indexes(layer: &DynamoDb, table: &Table, state: &Shown, writer: &mut Writer) {
    let indexes = table.vector_indexes.iter().chain(&state.deleted_vectors).enumerate();
    let indexes: Vec<(usize, &VectorIndex)> = indexes.collect();
    if indexes.is_empty() {
        return;
    }
    writer.list("VectorIndexes", indexes, |writer, (position, index)| {
        let (count, bytes) = state.sizes.vector_part(position);
        let is_deleted = state.deleted_vectors.iter().any(|deleted| deleted.id == index.id);
        writer.open(b'{');
        write_vector_index(writer, index);
        writer.member(
            "IndexStatus",
            match () {
                () if is_deleted => "DELETING",
                () if index.filling || state.status == "CREATING" => "CREATING",
                () => "ACTIVE",
            },
        );
        if index.filling {
            writer.name("Backfilling").raw(true);
        }
        writer.name("IndexSizeBytes").raw(bytes);
        writer.name("ItemCount").raw(count);
        let arn = format!("{}/index/{}", layer.table_arn(&table.name), index.name);
        writer.member("IndexArn", &arn);
        writer.close(b'}');
    });
}
