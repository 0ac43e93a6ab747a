//! CreateTable.

use quartet_engine::Transaction;
use xxhash_rust::xxh3::xxh3_128;

use super::describe::created_body;
use super::parameters::{
    flag, parse_capacity, parse_encryption, parse_indexes, parse_on_demand_maximum, parse_stream, parse_warm_throughput,
};
use super::vector_indexes::{parse_vector_indexes, used_names};
use crate::operations::settings::{check_policy, check_tags, parse_tags};
use crate::storage::attributes::Definitions;
use crate::storage::catalog::{next_number, table_name};
use crate::storage::table::{StreamView, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::Json;
use crate::{DynamoDb, Outcome, storage::streams};

/// The checked request of CreateTable.
pub struct Creation {
    pub table: Table,
    stream: Option<StreamView>,
}

pub fn create(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, creation: &Creation| add(layer, transaction, creation);
    layer.respond(parse_creation(layer, request), execute, |_, table| {
        created_body(layer, &table)
    })
}

/// Makes the table, unless there is one of its name.
pub fn add(layer: &DynamoDb, transaction: &mut Transaction<'_>, creation: &Creation) -> Result<Table, Failure> {
    let mut table = creation.table.clone();
    table.region = layer.own_region().map(str::to_owned);
    if layer.find_table(transaction, &table.name).is_some() {
        return Err(Failure::new(
            Exception::ResourceInUse,
            format!("Table already exists: {}", table.name),
        ));
    }
    let now = transaction.now_micros();
    table.id = next_number(transaction);
    table.created_micros = now;
    table.uuid = uuid(&transaction.unique_id());
    if let Some((_, revision)) = &mut table.resource_policy {
        *revision = transaction.commit_version().0.to_string();
    }
    table.capacity.on_demand_since_micros = if table.capacity.on_demand { now } else { 0 };
    table.stream = creation.stream.map(|view| streams::start(transaction, &table, view));
    layer.store_table(transaction, &table);
    Ok(table)
}

/// A UUID of version 4, from bytes that are never given out twice.
pub fn uuid(unique: &[u8]) -> String {
    let [version, variant] = [0x4000_0000_0000_0000_0000, 0x8000_0000_0000_0000];
    let bits = xxh3_128(unique) & !(0xf << 76) & !(0x3 << 62);
    let digits = format!("{:032x}", bits | version | variant);
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

pub fn parse_creation(layer: &DynamoDb, request: &Json<'_>) -> Result<Creation, Failure> {
    let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
    let capacity = parse_capacity(request, None)?;
    let definitions = Definitions::parse(request)?;
    let (hash, range) = definitions.table_keys(request)?;
    let indexes = parse_indexes(request, &definitions, &hash, range.as_ref(), &capacity)?;
    let vector_indexes = parse_vector_indexes(request, &definitions, &indexes, &capacity)?;
    let used = used_names(std::iter::once(&hash).chain(&range), &indexes, &vector_indexes);
    definitions.check_all_used(&used, !indexes.is_empty() || !vector_indexes.is_empty())?;
    let tags = parse_tags(request.get("Tags").unwrap_or(&Json::Null));
    check_tags(&tags)?;
    let text = |name: &str| request.get(name).and_then(Json::text).map(str::to_owned);
    let policy = text("ResourcePolicy");
    policy.as_deref().map_or(Ok(()), check_policy)?;
    Ok(Creation {
        stream: parse_stream(request)?.flatten(),
        table: Table {
            id: 0,
            name: table_name(name).to_owned(),
            region: None,
            uuid: String::new(),
            created_micros: 0,
            definitions: definitions.parts,
            hash,
            range,
            last_index: (indexes.len() + vector_indexes.len()) as u16,
            indexes,
            vector_indexes,
            stream: None,
            time_to_live: None,
            tags: tags.into_iter().collect(),
            deletion_protection: flag(request, "DeletionProtectionEnabled").unwrap_or(false),
            table_class: text("TableClass"),
            sse_description: parse_encryption(layer, request.get("SSESpecification")),
            warm_throughput: parse_warm_throughput(request, "table", &capacity, None)?,
            on_demand_maximum: parse_on_demand_maximum(request, None, &capacity, None)?,
            resource_policy: policy.map(|policy| (policy, String::new())),
            recovery: None,
            pinned: 0,
            restored: None,
            importing: false,
            insights: Default::default(),
            capacity,
        },
    })
}
