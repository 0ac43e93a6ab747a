//! Making, describing, listing, changing and deleting tables.

mod create;
mod describe;
mod parameters;
mod update;
mod vector_indexes;

pub use create::{Creation, add, create, parse_creation, uuid};
pub use describe::{created_body, describe, measure_items, write_index, write_on_demand_maximum};
pub use parameters::{NO_MAXIMUM, parse_encryption, units_of};
pub use update::update;
pub use vector_indexes::{check_vector_billing, vector_index_from, write_vector_index};

use self::describe::{Shown, describe_table};
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome, operations::backups, storage::streams};

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(100) as usize;
    let start = request.get("ExclusiveStartTableName").and_then(Json::text);
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| Ok(layer.table_names(transaction, start, limit + 1)),
        |(), mut names| {
            let more = names.len() > limit;
            names.truncate(limit);
            Writer::object(|writer| {
                writer.list("TableNames", &names, |writer, name| writer.string(name));
                if let (Some(last), true) = (names.last(), more) {
                    writer.member("LastEvaluatedTableName", last);
                }
            })
        },
    )
}

pub fn delete(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    layer.respond(
        Ok(()),
        |transaction, ()| {
            let table = layer.changeable_table(transaction, name)?;
            if table.deletion_protection {
                return Err(Failure::validation(
                    "Resource cannot be deleted as it is currently protected against deletion. \
                     Disable deletion protection first.",
                ));
            }
            transaction.deletes();
            backups::keep_or_clear(transaction, &table);
            if let Some(stream) = table.live_stream() {
                streams::end(transaction, stream.id);
            }
            layer.forget_table(transaction, &table);
            Ok(table)
        },
        |(), table| {
            Writer::object(|writer| {
                writer.nested("TableDescription", |writer| {
                    describe_table(layer, &table, &Shown::new("DELETING"), writer);
                });
            })
        },
    )
}
