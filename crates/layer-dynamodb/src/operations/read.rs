//! GetItem; the same read serves batches, transactions and PartiQL.

use quartet_engine::Row;
use quartet_engine::Transaction;

use crate::operations::items::parse_key;
use crate::storage::capacity::{Consumed, Report, read_units};
use crate::storage::table::Table;
use crate::storage::throughput::Use;
use crate::wire::expression::path::project;
use crate::wire::expression::{Path, Placeholders, parse_projection};
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer};
use crate::wire::value::{Item, write_item};
use crate::{DynamoDb, Outcome, storage::stored, wire::legacy};

/// The read of one item.
pub struct Get {
    pub table: String,
    pub key: Item,
    pub projection: Option<Vec<Path>>,
    pub consistent: bool,
}

impl Get {
    pub fn parse(request: &Json<'_>) -> Result<Get, Failure> {
        check_projection_allowed(request)?;
        let key = parse_key(request)?;
        Ok(Get {
            table: request
                .get("TableName")
                .and_then(Json::text)
                .unwrap_or_default()
                .to_owned(),
            key,
            projection: parse_projected(request)?,
            consistent: request.get("ConsistentRead").and_then(Json::boolean).unwrap_or(false),
        })
    }

    pub fn execute(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Option<Row>, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let row = self.execute_uncharged(layer, transaction, &table)?;
        layer.charge(transaction, &table, Use::Read, || self.consumed(row.as_ref()));
        Ok(row)
    }

    /// The read by itself; the caller charges for it.
    pub fn execute_uncharged(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
        table: &Table,
    ) -> Result<Option<Row>, Failure> {
        table.check_key(&self.key)?;
        table.check_paths(self.projection.iter().flatten())?;
        layer.admit(transaction, table, None, Use::Read)?;
        Ok(transaction.get(&table.item_key(&self.key)))
    }

    pub fn consumed(&self, row: Option<&Row>) -> Consumed {
        Consumed::of_table(self.units(row))
    }

    /// Returns the units that reading `row` consumes.
    pub fn units(&self, row: Option<&Row>) -> f64 {
        read_units(row.map_or(0, |row| stored::size(row.value())), self.consistent)
    }

    /// Returns true if the projection finds something of a row.
    pub fn shows_anything(&self, row: &Row) -> bool {
        let projected = |paths: &Vec<Path>| project(&stored::decode(row.value()), paths);
        self.projection
            .as_ref()
            .is_none_or(|paths| !projected(paths).is_empty())
    }

    /// Writes a row as the projection wants it.
    pub fn write(&self, row: &Row, out: &mut Vec<u8>) {
        write_projected(self.projection.as_deref(), row.value(), out);
    }
}

/// Writes a stored item, or the parts of it that `projection` names.
pub fn write_projected(projection: Option<&[Path]>, stored_item: &[u8], out: &mut Vec<u8>) {
    match projection {
        None => stored::write_json(stored_item, out),
        Some(paths) => write_item(&project(&stored::decode(stored_item), paths), out),
    }
}

/// Refuses parameters that do not go together, in a request that has no expression but a
/// projection.
pub fn check_projection_allowed(request: &Json<'_>) -> Result<(), Failure> {
    legacy::check_not_mixed(request, &["AttributesToGet"], &["ProjectionExpression"])?;
    Placeholders::check_allowed(request, &["ProjectionExpression"])
}

/// The projection of a request that has no other expression.
pub fn parse_projected(request: &Json<'_>) -> Result<Option<Vec<Path>>, Failure> {
    let mut placeholders = Placeholders::read(request)?;
    let projection = match request.get("ProjectionExpression").and_then(Json::text) {
        Some(expression) => Some(parse_projection(expression, &mut placeholders)?),
        None => legacy::attributes_to_get(request)?,
    };
    placeholders.check_all_used()?;
    Ok(projection)
}

pub fn get(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    layer.respond_to_read(
        Get::parse(request),
        |transaction, get| get.execute(layer, transaction),
        |get, row| {
            Writer::object(|writer| {
                if let Some(row) = &row {
                    get.write(row, &mut writer.name("Item").text);
                }
                get.consumed(row.as_ref()).write_member(writer, &get.table, report);
            })
        },
    )
}
