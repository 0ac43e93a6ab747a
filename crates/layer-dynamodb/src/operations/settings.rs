//! Settings beside a table: time to live, tags, continuous backups; and facts about the account.

use std::collections::BTreeMap;
use std::sync::Arc;

use quartet_engine::Transaction;

use crate::storage::catalog::table_name;
use crate::storage::filling::start_filling;
use crate::storage::table::{Recovery, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, write_seconds};
use crate::{DynamoDb, Outcome, settled, storage::history};

const TAGS_MAX: usize = 50;
const TAG_KEY_CHARACTERS_MAX: usize = 128;
const TAG_VALUE_CHARACTERS_MAX: usize = 256;
const TAGS_PAGE: usize = 50;
const POLICY_BYTES_MAX: usize = 20_480;
/// Days that the service keeps earlier states, unless a table is set to less.
const RECOVERY_DAYS: i64 = 35;

pub fn update_time_to_live(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let specification = request.get("TimeToLiveSpecification").unwrap_or(&Json::Null);
    let attribute = specification
        .get("AttributeName")
        .and_then(Json::text)
        .unwrap_or_default();
    let enabled = specification.get("Enabled").and_then(Json::boolean).unwrap_or(false);
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
        let mut table = Table::clone(&*layer.changeable_table(transaction, name)?);
        match (&table.time_to_live, enabled) {
            (Some(current), _) if current != attribute => Err(Failure::validation(format!(
                "TimeToLive is active on a different AttributeName: current AttributeName is {current}"
            ))),
            (Some(_), true) => Err(Failure::validation("TimeToLive is already enabled")),
            (None, false) => Err(Failure::validation("TimeToLive is already disabled")),
            _ => Ok(()),
        }?;
        table.time_to_live = enabled.then(|| attribute.to_owned());
        layer.store_table(transaction, &table);
        if enabled {
            start_filling(transaction, &table, 0);
        }
        Ok(())
    };
    layer.respond(Ok(()), execute, |(), ()| {
        Writer::object(|writer| {
            writer.nested("TimeToLiveSpecification", |writer| {
                writer.name("Enabled").raw(enabled);
                writer.member("AttributeName", attribute);
            });
        })
    })
}

pub fn describe_time_to_live(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    describe(layer, request, |writer, table| {
        writer.nested("TimeToLiveDescription", |writer| {
            let status = if table.time_to_live.is_some() {
                "ENABLED"
            } else {
                "DISABLED"
            };
            writer.member("TimeToLiveStatus", status);
            if let Some(attribute) = &table.time_to_live {
                writer.member("AttributeName", attribute);
            }
        });
    })
}

/// Answers from the table that the request names.
fn describe(layer: &DynamoDb, request: &Json<'_>, write: impl FnOnce(&mut Writer, &Table)) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| layer.described_table(transaction, name),
        |(), table| Writer::object(|writer| write(writer, &table)),
    )
}

/// Tags of a request; of two with the same key the last one counts.
pub fn parse_tags(json: &Json<'_>) -> Vec<(String, String)> {
    let tags = json.elements().iter().map(|tag| {
        let text = |name| tag.get(name).and_then(Json::text).unwrap_or_default().to_owned();
        (text("Key"), text("Value"))
    });
    tags.collect()
}

pub fn check_tags(tags: &[(String, String)]) -> Result<(), Failure> {
    let allowed = |text: &str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || c.is_whitespace() || "+-=._:/".contains(c))
    };
    for (key, value) in tags {
        let length = key.chars().count();
        if length == 0 || length > TAG_KEY_CHARACTERS_MAX {
            return Err(Failure::invalid(format!(
                "The Tag Key must be between 1 and {TAG_KEY_CHARACTERS_MAX} characters long"
            )));
        }
        if value.chars().count() > TAG_VALUE_CHARACTERS_MAX {
            return Err(Failure::invalid(format!(
                "The Tag Value must be at most {TAG_VALUE_CHARACTERS_MAX} characters long"
            )));
        }
        if !allowed(key) || !allowed(value) {
            return Err(Failure::invalid(
                "The Tag Key or Value contains characters that are not allowed",
            ));
        }
    }
    if tags.len() > TAGS_MAX {
        return Err(Failure::validation("Too many tags"));
    }
    Ok(())
}

/// The table that an operation on tags or policies names by ARN.
pub fn table_by_arn(layer: &DynamoDb, transaction: &mut Transaction<'_>, arn: &str) -> Result<Table, Failure> {
    if !arn.starts_with("arn:") {
        return Err(Failure::validation(format!(
            "Invalid TableArn: ARNs must start with 'arn:': {arn}"
        )));
    }
    let invalid = || Failure::validation(format!("Invalid TableArn: Invalid ResourceArn provided as input {arn}"));
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let ["arn", "aws", "dynamodb", _, account, resource] = parts.as_slice() else {
        return Err(invalid());
    };
    let name = resource.strip_prefix("table/").ok_or_else(invalid)?;
    if name.contains("/index/") || !layer.is_of_this_region(arn) {
        return Err(invalid());
    }
    if *account != layer.account {
        let text = format!("User is not authorized to perform this operation on resource: {arn}");
        return Err(Failure::new(Exception::AccessDenied, text));
    }
    let table = match name.contains('/') {
        true => None,
        false => layer.find_table(transaction, name),
    };
    table.map(|table| Table::clone(&table)).ok_or_else(|| {
        Failure::new(
            Exception::ResourceNotFound,
            format!("Requested resource not found: ResourcArn: {arn} not found"),
        )
    })
}

/// Changes the table that `ResourceArn` names; the reply has no body.
fn change_by_arn(
    layer: &DynamoDb,
    request: &Json<'_>,
    change: impl FnOnce(&mut Table) -> Result<(), Failure>,
) -> Outcome {
    let arn = request.get("ResourceArn").and_then(Json::text).unwrap_or_default();
    layer.respond(
        Ok(()),
        |transaction, ()| {
            let mut table = table_by_arn(layer, transaction, arn)?;
            change(&mut table)?;
            layer.store_table(transaction, &table);
            Ok(())
        },
        |(), ()| Vec::new(),
    )
}

pub fn tag(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    change_by_arn(layer, request, |table| {
        let tags = parse_tags(request.get("Tags").unwrap_or(&Json::Null));
        if tags.is_empty() {
            return Err(Failure::validation("Atleast one Tag needs to be provided as Input."));
        }
        check_tags(&tags)?;
        table.tags.extend(tags);
        let all: Vec<(String, String)> = table.tags.clone().into_iter().collect();
        check_tags(&all)
    })
}

pub fn untag(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    change_by_arn(layer, request, |table| {
        let keys = request.get("TagKeys").map_or(&[][..], Json::elements);
        if keys.is_empty() {
            return Err(Failure::validation(
                "Atleast one Tag Key needs to be provided as Input.",
            ));
        }
        for key in keys.iter().filter_map(Json::text) {
            table.tags.remove(key);
        }
        Ok(())
    })
}

pub fn list_tags(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("ResourceArn").and_then(Json::text).unwrap_or_default();
    let after = request.get("NextToken").and_then(Json::text);
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| table_by_arn(layer, transaction, arn),
        |(), table| {
            let tags: BTreeMap<&String, &String> = table
                .tags
                .iter()
                .filter(|(key, _)| after.is_none_or(|after| key.as_str() > after))
                .collect();
            Writer::object(|writer| {
                writer.list("Tags", tags.iter().take(TAGS_PAGE), |writer, (key, value)| {
                    writer.open(b'{');
                    writer.member("Key", key);
                    writer.member("Value", value);
                    writer.close(b'}');
                });
                if let (true, Some((last, _))) = (tags.len() > TAGS_PAGE, tags.iter().nth(TAGS_PAGE - 1)) {
                    writer.member("NextToken", last);
                }
            })
        },
    )
}

/// A policy is a JSON object with statements.
pub fn check_policy(policy: &str) -> Result<(), Failure> {
    let refused = |reason: &str| Err(Failure::invalid(reason));
    if policy.len() > POLICY_BYTES_MAX {
        return refused(&format!("Maximum policy size of {POLICY_BYTES_MAX} bytes exceeded"));
    }
    match Json::parse(policy.as_bytes()) {
        Ok(Json::Object(members)) => match members.iter().any(|(name, _)| *name == "Statement") {
            true => Ok(()),
            false => refused("Invalid policy document: Could not parse the policy: Statement is empty!"),
        },
        _ => refused("Invalid policy document: This policy contains invalid Json"),
    }
}

pub fn limits(_: &DynamoDb, _: &Json<'_>) -> Outcome {
    settled(Ok(Writer::object(|writer| {
        writer.name("AccountMaxReadCapacityUnits").raw(80_000);
        writer.name("AccountMaxWriteCapacityUnits").raw(80_000);
        writer.name("TableMaxReadCapacityUnits").raw(40_000);
        writer.name("TableMaxWriteCapacityUnits").raw(40_000);
    })))
}

/// The endpoint is the called one; the server replaces the host with its name.
pub fn endpoints(layer: &DynamoDb, _: &Json<'_>) -> Outcome {
    settled(Ok(Writer::object(|writer| {
        writer.list("Endpoints", [&layer.endpoint], |writer, endpoint| {
            writer.open(b'{');
            writer.member("Address", endpoint);
            writer.name("CachePeriodInMinutes").raw(1440);
            writer.close(b'}');
        });
    })))
}

pub fn continuous_backups(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let table = backed_up_table(layer, transaction, name)?;
        Ok((table.recovery.clone(), transaction.now_micros()))
    };
    layer.respond_to_read(Ok(()), execute, |(), (recovery, now)| {
        continuous_backups_body(recovery.as_ref(), now)
    })
}

pub fn update_continuous_backups(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    let specification = request.get("PointInTimeRecoverySpecification").unwrap_or(&Json::Null);
    let enabled = specification.get("PointInTimeRecoveryEnabled").and_then(Json::boolean) == Some(true);
    let days = specification.get("RecoveryPeriodInDays").and_then(Json::integer);
    let checked = match (enabled, days) {
        (false, Some(_)) => Err(Failure::validation(
            "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery.",
        )),
        _ => Ok(()),
    };
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let mut table = Table::clone(&*backed_up_table(layer, transaction, name)?);
        let now = transaction.now_micros();
        table.recovery = match (enabled, table.recovery.take()) {
            (false, before) => {
                if before.is_some() {
                    history::sweep_now(transaction, &table);
                }
                None
            }
            (true, Some(before)) => Some(Recovery {
                days: days.unwrap_or(before.days),
                ..before
            }),
            (true, None) => Some(history::start(transaction, &table, days.unwrap_or(RECOVERY_DAYS))),
        };
        layer.store_table(transaction, &table);
        Ok((table.recovery, now))
    };
    layer.respond(checked, execute, |(), (recovery, now)| {
        continuous_backups_body(recovery.as_ref(), now)
    })
}

/// Operations on backups have an exception of their own for a table that is not there.
pub fn backed_up_table(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    name_or_arn: &str,
) -> Result<Arc<Table>, Failure> {
    let name = table_name(layer.check_region(name_or_arn)?);
    layer
        .find_table(transaction, name)
        .ok_or_else(|| Failure::new(Exception::TableNotFound, format!("Table not found: {name}")))
}

fn continuous_backups_body(recovery: Option<&Recovery>, now_micros: u64) -> Vec<u8> {
    Writer::object(|writer| {
        writer.nested("ContinuousBackupsDescription", |writer| {
            // Whether or not recovery is on, so the service says.
            writer.member("ContinuousBackupsStatus", "ENABLED");
            writer.nested("PointInTimeRecoveryDescription", |writer| match recovery {
                None => writer.member("PointInTimeRecoveryStatus", "DISABLED"),
                Some(recovery) => write_recovery(recovery, now_micros, writer),
            });
        });
    })
}

fn write_recovery(recovery: &Recovery, now_micros: u64, writer: &mut Writer) {
    let earliest = recovery.earliest_micros(now_micros);
    let latest = earliest.max(now_micros);
    writer.member("PointInTimeRecoveryStatus", "ENABLED");
    writer.name("RecoveryPeriodInDays").raw(recovery.days);
    write_seconds(writer, "EarliestRestorableDateTime", earliest);
    write_seconds(writer, "LatestRestorableDateTime", latest);
}
