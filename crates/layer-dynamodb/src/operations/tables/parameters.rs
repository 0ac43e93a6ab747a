//! The parameters of CreateTable and UpdateTable about capacity, streams, encryption and indexes,
//! read and checked.

use crate::DynamoDb;
use crate::operations::managed_keys;
use crate::storage::attributes::{Definitions, index_from};
use crate::storage::key::KeyPart;
use crate::storage::table::{Capacity, Index, StreamView};
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer, json_text};

const LOCAL_INDEXES_MAX: usize = 5;
const GLOBAL_INDEXES_MAX: usize = 20;
const PROJECTED_NAMES_MAX: usize = 100;

pub fn flag(json: &Json<'_>, name: &str) -> Option<bool> {
    json.get(name).and_then(Json::boolean)
}

/// Reads BillingMode and ProvisionedThroughput; for an update, over what is in force.
pub fn parse_capacity(request: &Json<'_>, present: Option<&Capacity>) -> Result<Capacity, Failure> {
    let units = parse_units(request)?;
    let on_demand = match request.get("BillingMode").and_then(Json::text) {
        Some(mode) => mode == "PAY_PER_REQUEST",
        None => present.is_some_and(|capacity| capacity.on_demand),
    };
    match (on_demand, units) {
        (true, None) => Ok(Capacity {
            on_demand,
            ..Capacity::default()
        }),
        (true, Some(_)) => Err(Failure::invalid(
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST",
        )),
        (false, Some((read_units, write_units))) => Ok(Capacity {
            on_demand,
            read_units,
            write_units,
            ..Capacity::default()
        }),
        (false, None) => Err(Failure::invalid(
            "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
        )),
    }
}

pub fn parse_units(json: &Json<'_>) -> Result<Option<(i64, i64)>, Failure> {
    json.get("ProvisionedThroughput").map(units_of).transpose()
}

/// Read and write units of a ProvisionedThroughput.
pub fn units_of(throughput: &Json<'_>) -> Result<(i64, i64), Failure> {
    let units = |name: &str| {
        let units = throughput.get(name).and_then(Json::integer).unwrap_or_default();
        match units {
            units if units > 1_000_000_000_000 => Err(Failure::validation(format!(
                "Given value {units} for {name} is out of bounds"
            ))),
            units => Ok(units),
        }
    };
    Ok((units("ReadCapacityUnits")?, units("WriteCapacityUnits")?))
}

/// The units of a maximum that is none.
pub const NO_MAXIMUM: i64 = -1;
const MAXIMA: [&str; 2] = ["MaxReadRequestUnits", "MaxWriteRequestUnits"];

/// Reads OnDemandThroughput of a table, or of an index by its name, over the maxima in force: a
/// member that is not named stays, one of -1 is removed. `None`: there are none afterwards.
pub fn parse_on_demand_maximum(
    json: &Json<'_>,
    index: Option<&str>,
    capacity: &Capacity,
    present: Option<(i64, i64)>,
) -> Result<Option<(i64, i64)>, Failure> {
    let Some(throughput) = json.get("OnDemandThroughput") else {
        return Ok(present.filter(|_| capacity.on_demand));
    };
    let [read, write] = MAXIMA.map(|name| throughput.get(name).and_then(Json::integer));
    if !capacity.on_demand {
        let [read_name, write_name] = MAXIMA;
        let name = if read.is_some() { read_name } else { write_name };
        let place = index.map_or(String::new(), |index| format!(" for index : {index}"));
        return Err(Failure::invalid(format!(
            "{name} for OnDemandThroughput{place} cannot be specified when the table BillingMode is PROVISIONED"
        )));
    }
    let (present_read, present_write) = present.unwrap_or((NO_MAXIMUM, NO_MAXIMUM));
    let maxima = (read.unwrap_or(present_read), write.unwrap_or(present_write));
    Ok(Some(maxima).filter(|maxima| *maxima != (NO_MAXIMUM, NO_MAXIMUM)))
}

/// Returns the warm throughput of a new table or index: its provisioned one, or that of a new table
/// on demand.
pub fn initial_warmth(capacity: &Capacity) -> (i64, i64) {
    match capacity.on_demand {
        true => (12_000, 4_000),
        false => (capacity.read_units, capacity.write_units),
    }
}

/// Reads WarmThroughput of `subject`, a table or an index; for an update, over what is in force. It
/// can only grow.
pub fn parse_warm_throughput(
    json: &Json<'_>,
    subject: &str,
    capacity: &Capacity,
    present: Option<(i64, i64)>,
) -> Result<Option<(i64, i64)>, Failure> {
    let Some(throughput) = json.get("WarmThroughput") else {
        return Ok(None);
    };
    let (read_min, write_min) = present.unwrap_or_else(|| initial_warmth(capacity));
    let units = |name: &str, provisioned: &str, min: i64| match throughput.get(name).and_then(Json::integer) {
        Some(units) if units < min => {
            let bound = match (present, capacity.on_demand) {
                (Some(_), _) => "current WarmThroughput, decreasing WarmThroughput is not supported".to_owned(),
                (None, true) => "initial throughput for OnDemand".to_owned(),
                (None, false) => format!("{provisioned} of ProvisionedThroughput"),
            };
            Err(Failure::invalid(format!(
                "Requested {name} for WarmThroughput for {subject} is lower than {bound}"
            )))
        }
        units => Ok(units),
    };
    let read = units("ReadUnitsPerSecond", "ReadCapacityUnits", read_min)?;
    let write = units("WriteUnitsPerSecond", "WriteCapacityUnits", write_min)?;
    match (read, write) {
        (None, None) => Err(Failure::invalid(
            "WarmThroughput must have at least one of ReadUnitsPerSecond and WriteUnitsPerSecond",
        )),
        (read, write) => Ok(Some((read.unwrap_or(read_min), write.unwrap_or(write_min)))),
    }
}

/// `Some(None)`: switch the stream off.
pub fn parse_stream(request: &Json<'_>) -> Result<Option<Option<StreamView>>, Failure> {
    let Some(specification) = request.get("StreamSpecification") else {
        return Ok(None);
    };
    let view = specification.get("StreamViewType").and_then(Json::text);
    match (flag(specification, "StreamEnabled"), view) {
        (Some(true), Some(view)) => Ok(Some(StreamView::parse(view))),
        (Some(true), None) => Err(Failure::invalid(
            "StreamViewType is required when StreamEnabled is true",
        )),
        (_, Some(_)) => Err(Failure::invalid(
            "StreamViewType is not allowed when StreamEnabled is false",
        )),
        (_, None) => Ok(Some(None)),
    }
}

/// Returns the key of an SSESpecification, in the form in which it is described.
pub fn parse_encryption(layer: &DynamoDb, specification: Option<&Json<'_>>) -> Option<String> {
    let specification = specification?;
    flag(specification, "Enabled").filter(|enabled| *enabled)?;
    let text = |name| specification.get(name).and_then(Json::text);
    Some(json_text(Writer::object(|writer| {
        writer.member("Status", "ENABLED");
        writer.member("SSEType", text("SSEType").unwrap_or("KMS"));
        let default = managed_keys::arn(layer);
        writer.member("KMSMasterKeyArn", text("KMSMasterKeyId").unwrap_or(&default));
    })))
}

pub fn parse_indexes(
    request: &Json<'_>,
    definitions: &Definitions,
    hash: &KeyPart,
    range: Option<&KeyPart>,
    table_capacity: &Capacity,
) -> Result<Vec<Index>, Failure> {
    let mut indexes = Vec::new();
    for (member, global) in [("LocalSecondaryIndexes", false), ("GlobalSecondaryIndexes", true)] {
        let Some(list) = request.get(member) else { continue };
        if list.elements().is_empty() {
            return Err(Failure::invalid(format!("List of {member} is empty")));
        }
        if !global && range.is_none() {
            return Err(Failure::invalid(
                "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",
            ));
        }
        for json in list.elements() {
            let mut index = index_from(json, definitions, (!global).then_some(hash))?;
            index.id = indexes.len() as u16 + 1;
            if global {
                set_index_capacity(&mut index, json, table_capacity)?;
            }
            indexes.push(index);
        }
    }
    check_indexes(&indexes)?;
    Ok(indexes)
}

pub fn set_index_capacity(index: &mut Index, json: &Json<'_>, table: &Capacity) -> Result<(), Failure> {
    let units = parse_units(json)?;
    if table.on_demand && units.is_some() {
        return Err(Failure::invalid(format!(
            "ProvisionedThroughput should not be specified for index: {} when BillingMode is PAY_PER_REQUEST",
            index.name
        )));
    }
    if !table.on_demand && units.is_none() {
        return Err(Failure::invalid(format!(
            "ProvisionedThroughput must be specified for index: {}",
            index.name
        )));
    }
    let (read_units, write_units) = units.unwrap_or_default();
    index.capacity = Capacity {
        on_demand: table.on_demand,
        read_units,
        write_units,
        ..Capacity::default()
    };
    index.on_demand_maximum = parse_on_demand_maximum(json, Some(&index.name), table, None)?;
    let subject = format!("index {}", index.name);
    index.warm_throughput = parse_warm_throughput(json, &subject, &index.capacity, None)?;
    Ok(())
}

pub fn check_indexes(indexes: &[Index]) -> Result<(), Failure> {
    let global = indexes.iter().filter(|index| index.global).count();
    if indexes.len() - global > LOCAL_INDEXES_MAX {
        return Err(Failure::invalid(format!(
            "Number of LocalSecondaryIndexes exceeds per-table limit of {LOCAL_INDEXES_MAX}"
        )));
    }
    if global > GLOBAL_INDEXES_MAX {
        return Err(Failure::invalid(format!(
            "GlobalSecondaryIndex count exceeds the per-table limit of {GLOBAL_INDEXES_MAX}"
        )));
    }
    for (position, index) in indexes.iter().enumerate() {
        if indexes[..position].iter().any(|other| other.name == index.name) {
            return Err(Failure::invalid(format!("Duplicate index name: {}", index.name)));
        }
    }
    let names: usize = indexes.iter().map(|index| index.projection.names().len()).sum();
    if names > PROJECTED_NAMES_MAX {
        return Err(Failure::invalid(format!(
            "The number of projected attributes in all indexes exceeds the limit of {PROJECTED_NAMES_MAX}"
        )));
    }
    Ok(())
}
