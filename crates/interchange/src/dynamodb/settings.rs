//! Settings of a table that its items and its keys do not show: expiry, tags, recovery, policy,
//! insights, protection, class, and, between two servers of ours, encryption and capacity.
//!
//! They are read from the source and applied once all items have arrived: before that no capacity
//! slows the copy, and no item expires while others are still copied.

use serde_json::{Map, Value, json};

use super::client::{Client, Refused};
use crate::error::{Result, target};
use crate::observer::Observer;

/// Operations that describe a part of the settings, and the request's member that names the table.
const READS: [(&str, &str); 5] = [
    ("DescribeTimeToLive", "TableName"),
    ("ListTagsOfResource", "ResourceArn"),
    ("DescribeContinuousBackups", "TableName"),
    ("GetResourcePolicy", "ResourceArn"),
    ("ListContributorInsights", "TableName"),
];
/// Lists, with their pages.
const LISTS: [(&str, &str); 2] = [
    ("ListTagsOfResource", "Tags"),
    ("ListContributorInsights", "ContributorInsightsSummaries"),
];

/// Reads the settings of a table: its description, and the answer of each operation of [`READS`].
/// A source that refuses one, as a policy of AWS may, is reported and lacks that part.
pub fn read(client: &Client, description: &Value, observer: &mut dyn Observer) -> Result<Value> {
    let mut settings = Map::from_iter([("DescribeTable".to_owned(), description.clone())]);
    for (operation, member) in READS {
        let id = match member {
            "TableName" => &description["TableName"],
            _ => &description["TableArn"],
        };
        match read_pages(client, operation, json!({ member: id })) {
            Ok(answer) => drop(settings.insert(operation.to_owned(), answer)),
            Err(refused) if is_without(&refused) => {}
            Err(refused) => observer.reject(&format!("the answer of {operation}"), &refused.to_string())?,
        }
    }
    Ok(settings.into())
}

/// The table has no such setting, or its server does not know the operation: another emulator's
/// error may be none of the protocol.
fn is_without(refused: &Refused) -> bool {
    let absent_kinds = ["PolicyNotFoundException", "UnknownOperationException"];
    refused.kind.is_empty() || absent_kinds.contains(&refused.kind.as_str())
}

fn read_pages(client: &Client, operation: &str, mut request: Value) -> std::result::Result<Value, Refused> {
    let list = LISTS.iter().find(|(name, _)| *name == operation).map(|(_, list)| *list);
    let mut whole = client.ask(operation, &request)?;
    while let Some(list) = list
        && let next @ Value::String(_) = whole["NextToken"].take()
    {
        request["NextToken"] = next;
        let mut page = client.ask(operation, &request)?;
        let more = page[list].take();
        let elements = whole[list].as_array_mut();
        elements
            .into_iter()
            .for_each(|elements| elements.extend(more.as_array().cloned().unwrap_or_default()));
        whole["NextToken"] = page["NextToken"].take();
    }
    Ok(whole)
}

/// Applies the settings to a table that the copy has made. `is_own`: both servers are of one kind,
/// so keys of encryption and capacity mean the same.
pub fn apply(client: &Client, table: &str, settings: &Value, is_own: bool, observer: &mut dyn Observer) -> Result<()> {
    let description = client.describe(table).map_err(target)?.unwrap_or_default();
    let mut requests = requests(table, &description["TableArn"], settings);
    let described = &settings["DescribeTable"];
    if is_own {
        requests.extend(capacity(described));
        requests.extend(encryption(described));
    }
    requests.extend(class(described));
    requests.extend(protection(described));
    for (operation, mut request) in requests {
        if operation == "UpdateTable" {
            request["TableName"] = table.into();
        }
        match client.ask(operation, &request) {
            Ok(_) => client.wait_until_active(table).map_err(target)?,
            Err(refused) => observer.reject(&format!("{operation} {request}"), &refused.to_string())?,
        }
    }
    Ok(())
}

type Request = (&'static str, Value);

fn requests(table: &str, arn: &Value, settings: &Value) -> Vec<Request> {
    let mut requests = Vec::new();
    let expiry = &settings["DescribeTimeToLive"]["TimeToLiveDescription"];
    if is_on(&expiry["TimeToLiveStatus"]) {
        let specification = json!({ "Enabled": true, "AttributeName": expiry["AttributeName"] });
        requests.push((
            "UpdateTimeToLive",
            json!({ "TableName": table, "TimeToLiveSpecification": specification }),
        ));
    }
    let tags = &settings["ListTagsOfResource"]["Tags"];
    if tags.as_array().is_some_and(|tags| !tags.is_empty()) {
        requests.push(("TagResource", json!({ "ResourceArn": arn, "Tags": tags })));
    }
    let backups = &settings["DescribeContinuousBackups"]["ContinuousBackupsDescription"];
    let recovery = &backups["PointInTimeRecoveryDescription"];
    if is_on(&recovery["PointInTimeRecoveryStatus"]) {
        let mut specification = json!({ "PointInTimeRecoveryEnabled": true });
        if recovery["RecoveryPeriodInDays"].is_number() {
            specification["RecoveryPeriodInDays"] = recovery["RecoveryPeriodInDays"].clone();
        }
        let request = json!({ "TableName": table, "PointInTimeRecoverySpecification": specification });
        requests.push(("UpdateContinuousBackups", request));
    }
    let policy = &settings["GetResourcePolicy"]["Policy"];
    if policy.is_string() {
        requests.push(("PutResourcePolicy", json!({ "ResourceArn": arn, "Policy": policy })));
    }
    let insights = settings["ListContributorInsights"]["ContributorInsightsSummaries"].as_array();
    for summary in insights.into_iter().flatten() {
        if is_on(&summary["ContributorInsightsStatus"]) {
            let mut request = json!({ "TableName": table, "ContributorInsightsAction": "ENABLE" });
            for member in ["IndexName", "ContributorInsightsMode"] {
                if summary[member].is_string() {
                    request[member] = summary[member].clone();
                }
            }
            requests.push(("UpdateContributorInsights", request));
        }
    }
    requests
}

fn is_on(status: &Value) -> bool {
    matches!(status.as_str(), Some("ENABLED" | "ENABLING"))
}

/// Provisioned units of the table and its indexes, or the maxima of one on demand.
fn capacity(described: &Value) -> Vec<Request> {
    let is_on_demand = described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST";
    let member = if is_on_demand {
        "OnDemandThroughput"
    } else {
        "ProvisionedThroughput"
    };
    let units = |described: &Value| -> Option<Value> {
        let throughput = described[member].as_object()?;
        let is_unit = |name: &str| name.ends_with("Units");
        Some(
            throughput
                .iter()
                .filter(|(name, _)| is_unit(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    };
    let mut request = json!({});
    if let Some(units) = units(described) {
        request[member] = units;
    }
    let indexes = described["GlobalSecondaryIndexes"].as_array();
    let updates: Vec<Value> = indexes
        .into_iter()
        .flatten()
        .filter_map(|index| Some(json!({ "Update": { "IndexName": index["IndexName"], member: units(index)? } })))
        .collect();
    if !updates.is_empty() {
        request["GlobalSecondaryIndexUpdates"] = updates.into();
    }
    if !is_on_demand {
        request["BillingMode"] = "PROVISIONED".into();
    }
    let is_empty = request.as_object().is_none_or(Map::is_empty);
    (!is_empty).then_some(("UpdateTable", request)).into_iter().collect()
}

fn encryption(described: &Value) -> Option<Request> {
    let description = &described["SSEDescription"];
    let mut specification = json!({ "Enabled": true, "SSEType": description["SSEType"] });
    if description["KMSMasterKeyArn"].is_string() {
        specification["KMSMasterKeyId"] = description["KMSMasterKeyArn"].clone();
    }
    is_on(&description["Status"]).then(|| ("UpdateTable", json!({ "SSESpecification": specification })))
}

fn class(described: &Value) -> Option<Request> {
    let class = &described["TableClassSummary"]["TableClass"];
    class
        .is_string()
        .then(|| ("UpdateTable", json!({ "TableClass": class })))
}

fn protection(described: &Value) -> Option<Request> {
    let is_protected = described["DeletionProtectionEnabled"] == true;
    is_protected.then(|| ("UpdateTable", json!({ "DeletionProtectionEnabled": true })))
}
