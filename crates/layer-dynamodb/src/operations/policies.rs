//! Resource policies of tables and streams: kept with their revisions and shown, allowing or
//! denying nothing here.
//!
//! Each change of a policy makes a new revision; a caller may name the revision that it expects, or
//! `NO_POLICY` for none (API reference of DynamoDB: PutResourcePolicy, GetResourcePolicy,
//! DeleteResourcePolicy).

use quartet_engine::Transaction;

use crate::operations::settings::{check_policy, table_by_arn};
use crate::storage::catalog::{no_described_table, table_name};
use crate::storage::streams::{self, Stream};
use crate::storage::table::{Policy, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome};

/// The revision that requires the absence of a policy.
const NO_POLICY: &str = "NO_POLICY";

/// The target of a policy.
enum Resource {
    Table(Box<Table>),
    Stream(Box<Stream>, String),
}

impl Resource {
    /// The resource named by a request.
    fn of(layer: &DynamoDb, transaction: &mut Transaction<'_>, request: &Json<'_>) -> Result<Resource, Failure> {
        let arn = request.get("ResourceArn").and_then(Json::text).unwrap_or_default();
        if arn.contains("/stream/") {
            let stream = layer.stream_by_arn(transaction, arn)?;
            return Ok(Resource::Stream(Box::new(stream), arn.to_owned()));
        }
        match table_by_arn(layer, transaction, arn) {
            Ok(table) => Ok(Resource::Table(Box::new(table))),
            Err(failure) if failure.exception == Exception::ResourceNotFound => {
                Err(no_described_table(table_name(arn)))
            }
            Err(failure) => Err(failure),
        }
    }

    fn policy(&mut self) -> &mut Option<Policy> {
        match self {
            Resource::Table(table) => &mut table.resource_policy,
            Resource::Stream(stream, _) => &mut stream.resource_policy,
        }
    }

    fn store(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) {
        match self {
            Resource::Table(table) => layer.store_table(transaction, table),
            Resource::Stream(stream, _) => streams::store(transaction, stream),
        }
    }

    /// As refusals name it.
    fn description(&self) -> String {
        match self {
            Resource::Table(table) => format!("table {}", table.name),
            Resource::Stream(_, arn) => format!("stream {arn}"),
        }
    }
}

pub fn put(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let policy = request.get("Policy").and_then(Json::text).unwrap_or_default();
    change_policy(layer, request, check_policy(policy), |present, version| match present {
        // The same policy put again is no new revision.
        Some((present, revision)) if present == policy => Some((present, revision)),
        _ => Some((policy.to_owned(), version.to_string())),
    })
}

pub fn delete(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    change_policy(layer, request, Ok(()), |_, _| None)
}

/// Returns the new revision id, or the previous one when the policy was deleted.
fn change_policy(
    layer: &DynamoDb,
    request: &Json<'_>,
    checked: Result<(), Failure>,
    change: impl FnOnce(Option<Policy>, u64) -> Option<Policy>,
) -> Outcome {
    layer.respond(
        checked,
        |transaction, ()| {
            let mut resource = Resource::of(layer, transaction, request)?;
            check_revision(&mut resource, request)?;
            let before = resource.policy().clone();
            // A revision is named to change no other, so no two are alike: a clock that was set
            // back gives none.
            let after = change(before.clone(), transaction.commit_version().0);
            if after != before {
                *resource.policy() = after.clone();
                resource.store(layer, transaction);
            }
            Ok(after.or(before))
        },
        |(), present| {
            Writer::object(|writer| {
                if let Some((_, revision)) = &present {
                    writer.member("RevisionId", revision);
                }
            })
        },
    )
}

fn check_revision(resource: &mut Resource, request: &Json<'_>) -> Result<(), Failure> {
    let Some(expected) = request.get("ExpectedRevisionId").and_then(Json::text) else {
        return Ok(());
    };
    let target = resource.description();
    let reason = match resource.policy() {
        None if expected == NO_POLICY => return Ok(()),
        Some((_, revision)) if expected == revision => return Ok(()),
        None => format!(
            "Requested update for policy with revision id {expected}, but no policy is associated to target {target}."
        ),
        Some((_, revision)) if expected == NO_POLICY => format!(
            "Requested policy update expecting none to be present for {target}, but a policy exists with revision id {revision}."
        ),
        Some((_, revision)) => format!(
            "Requested update for policy with revision id {expected}, but the policy associated to target {target} has \
             revision id {revision}."
        ),
    };
    Err(no_policy(&reason))
}

fn no_policy(resource: &str) -> Failure {
    let text = format!("Resource-based policy not found for the provided ResourceArn: {resource}");
    Failure::new(Exception::PolicyNotFound, text)
}

pub fn show(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("ResourceArn").and_then(Json::text).unwrap_or_default();
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| {
            let mut resource = Resource::of(layer, transaction, request)?;
            resource.policy().take().ok_or_else(|| no_policy(arn))
        },
        |(), (policy, revision)| {
            Writer::object(|writer| {
                writer.member("Policy", &policy);
                writer.member("RevisionId", &revision);
            })
        },
    )
}
