//! Operations on features that this server does not have: replicas in other regions, bulk loading
//! from S3 and streams of Kinesis. Lists are empty, descriptions report their
//! absence, and requests that need such a feature are refused with an exception that the service's
//! model has for the operation and no client retries.

use quartet_engine::Transaction;

use crate::operations::settings::backed_up_table;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome, settled};

/// The text of a member, or an empty one.
fn text<'j>(request: &'j Json<'_>, member: &str) -> &'j str {
    request.get(member).and_then(Json::text).unwrap_or_default()
}

/// Answers with `write`, if the table exists.
fn of_table(layer: &DynamoDb, request: &Json<'_>, write: impl Fn(&mut Writer, &str)) -> Outcome {
    let name_or_arn = text(request, "TableName");
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| {
            layer
                .described_table(transaction, name_or_arn)
                .map(|table| table.name.clone())
        },
        |(), name| Writer::object(|writer| write(writer, &name)),
    )
}

/// Refuses with `failure`, if the table exists.
fn refused_of_table(layer: &DynamoDb, request: &Json<'_>, failure: impl Fn(&str) -> Failure) -> Outcome {
    let name_or_arn = text(request, "TableName");
    layer.respond(
        Ok(()),
        |transaction, ()| Err::<(), _>(failure(&layer.described_table(transaction, name_or_arn)?.name)),
        |(), ()| Writer::object(|_| {}),
    )
}

fn not_here(resource: &str) -> Failure {
    Failure::validation(format!("{resource} cannot be reached from this endpoint"))
}

// ---- backups

/// Refuses what concerns the backups of a table named by `member`, with another exception if there
/// is no such table.
fn refused_of_backed_up(layer: &DynamoDb, name_or_arn: &str, failure: impl Fn() -> Failure) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        backed_up_table(layer, transaction, name_or_arn)?;
        Err::<(), _>(failure())
    };
    layer.respond(Ok(()), execute, |(), ()| Writer::object(|_| {}))
}

// ---- S3

pub fn bulk_put(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    refused_of_table(layer, request, |_| not_here("The S3 bucket"))
}

pub fn bulk_operation(_: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = text(request, "BulkOperationArn");
    let text = format!("Requested resource not found: Bulk operation: {arn} not found");
    settled(Err(Failure::new(Exception::ResourceNotFound, text)))
}

pub fn list_bulk_operations(_: &DynamoDb, _: &Json<'_>) -> Outcome {
    settled(Ok(r#"{"BulkOperationsSummaryList":[]}"#.into()))
}

// ---- other regions

pub fn create_global_table(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name_or_arn = text(request, "GlobalTableName");
    refused_of_backed_up(layer, name_or_arn, || not_here("Another region"))
}

pub fn global_table(_: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = text(request, "GlobalTableName");
    let text = format!("Global table with name: '{name}' does not exist");
    settled(Err(Failure::new(Exception::GlobalTableNotFound, text)))
}

pub fn list_global_tables(_: &DynamoDb, _: &Json<'_>) -> Outcome {
    settled(Ok(r#"{"GlobalTables":[]}"#.into()))
}

pub fn describe_auto_scaling(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    of_table(layer, request, |writer, name| {
        writer.nested("TableAutoScalingDescription", |writer| {
            writer.member("TableName", name);
            writer.member("TableStatus", "ACTIVE");
            writer.name("Replicas").raw("[]");
        });
    })
}

pub fn update_auto_scaling(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    refused_of_table(layer, request, |_| not_here("Auto scaling"))
}

// ---- Kinesis

pub fn describe_kinesis(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    of_table(layer, request, |writer, name| {
        writer.member("TableName", name);
        writer.name("KinesisDataStreamDestinations").raw("[]");
    })
}

pub fn enable_kinesis(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = text(request, "StreamArn");
    refused_of_table(layer, request, |_| {
        let text = format!("Requested resource not found: Kinesis stream: {arn} not found");
        Failure::new(Exception::ResourceNotFound, text)
    })
}

pub fn change_kinesis(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    refused_of_table(layer, request, |_| {
        Failure::validation("Table is not in a valid state: it has no active Kinesis streaming destination")
    })
}
