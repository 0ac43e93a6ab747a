//! UpdateTable.

use std::collections::HashSet;

use quartet_engine::Transaction;
use quartet_model::KeyRange;

use super::describe::{Shown, Sizes, describe_table};
use super::parameters::{
    check_indexes, flag, initial_warmth, parse_capacity, parse_encryption, parse_on_demand_maximum, parse_stream,
    parse_units, parse_warm_throughput, set_index_capacity,
};
use super::vector_indexes::{check_vector_billing, check_vector_indexes, used_names, vector_index_from};
use crate::storage::attributes::{Definitions, index_from};
use crate::storage::filling::start_filling;
use crate::storage::table::{Index, StreamSettings, StreamView, Table};
use crate::storage::vector_index::{VECTOR_INDEXES_MAX, VectorIndex};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome, storage::key, storage::streams};

/// The request of UpdateTable, checked as far as it can be without the table.
struct Change<'r, 'j> {
    request: &'r Json<'j>,
    stream: Option<Option<StreamView>>,
    definitions: Option<Definitions>,
}

/// Replicas are in other regions, of which there are none; a table's own region is none of its
/// replicas.
fn refuse_replicas(layer: &DynamoDb, request: &Json<'_>) -> Result<(), Failure> {
    let Some(updates) = request.get("ReplicaUpdates") else {
        return Ok(());
    };
    let is_of_own_region = |update: &Json<'_>| {
        let kinds = ["Create", "Update", "Delete"].iter();
        let mut regions = kinds.filter_map(|kind| update.get(kind)?.get("RegionName")?.text());
        regions.any(|region| region == layer.region)
    };
    Err(Failure::validation(
        match updates.elements().iter().any(is_of_own_region) {
            true => {
                "Cannot add, delete, or update the local region through ReplicaUpdates. \
             Use CreateTable, DeleteTable, or UpdateTable as required."
            }
            false => "Another region cannot be reached from this endpoint",
        },
    ))
}

fn nothing_to_change() -> Failure {
    Failure::validation(
        "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, \
         SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, \
         DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required",
    )
}

/// Members of an UpdateTable that change something by being there.
const CHANGES: [&str; 8] = [
    "BillingMode",
    "ProvisionedThroughput",
    "StreamSpecification",
    "SSESpecification",
    "TableClass",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "WarmThroughput",
];

/// Checks an UpdateTable as far as possible before its table is looked up.
fn check_change(layer: &DynamoDb, request: &Json<'_>) -> Result<(), Failure> {
    refuse_replicas(layer, request)?;
    let changes_indexes = !index_updates(request).is_empty() || !vector_index_updates(request).is_empty();
    if !changes_indexes && CHANGES.iter().all(|name| request.get(name).is_none()) {
        return Err(nothing_to_change());
    }
    let provisioned = request.get("BillingMode").and_then(Json::text) == Some("PROVISIONED");
    if parse_units(request)?.is_none() && provisioned {
        return Err(Failure::invalid(
            "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
        ));
    }
    let mut names = HashSet::new();
    for update in index_updates(request) {
        let kinds = ["Update", "Create", "Delete"];
        let Some(json) = kinds.iter().find_map(|kind| update.get(kind)) else {
            return Err(Failure::invalid(
                "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, \
                 GlobalSecondaryIndexUpdate.Delete must not be null",
            ));
        };
        // The units of an existing index are checked once it is found.
        if update.get("Update").is_none() {
            parse_units(json)?;
        }
        let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
        if !names.insert(name) {
            return Err(Failure::invalid(format!(
                "Only one global secondary index update per index is allowed simultaneously. Index: {name}"
            )));
        }
    }
    Ok(())
}

fn index_updates<'r, 'j>(request: &'r Json<'j>) -> &'r [Json<'j>] {
    request.get("GlobalSecondaryIndexUpdates").map_or(&[], Json::elements)
}

fn vector_index_updates<'r, 'j>(request: &'r Json<'j>) -> &'r [Json<'j>] {
    request.get("VectorIndexUpdates").map_or(&[], Json::elements)
}

pub fn update(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let parse = || {
        check_change(layer, request)?;
        Ok(Change {
            request,
            stream: parse_stream(request)?,
            definitions: request
                .get("AttributeDefinitions")
                .map(|_| Definitions::parse(request))
                .transpose()?,
        })
    };
    let execute = |transaction: &mut Transaction<'_>, change: &Change<'_, '_>| {
        let name = request.get("TableName").and_then(Json::text).unwrap_or_default();
        let mut table = Table::clone(&*layer.changeable_table(transaction, name)?);
        let mut changed = change.settings(layer, &mut table)?;
        changed |= change.capacity(transaction, &mut table)?;
        changed |= change.stream(transaction, &mut table)?;
        let deleted = change.indexes(transaction, &mut table)?;
        let deleted_vectors = change.vector_indexes(transaction, &mut table)?;
        check_vector_billing(&table.capacity, &table.vector_indexes)?;
        if !changed && index_updates(request).is_empty() && vector_index_updates(request).is_empty() {
            return Err(nothing_to_change());
        }
        layer.store_table(transaction, &table);
        let state = Shown {
            sizes: Sizes::measure(transaction, &table),
            deleted,
            deleted_vectors,
            warms: change.warms(),
            ..Shown::new("UPDATING")
        };
        Ok((table, state))
    };
    layer.respond(parse(), execute, |_, (table, state)| {
        Writer::object(|writer| {
            writer.nested("TableDescription", |writer| {
                describe_table(layer, &table, &state, writer);
            });
        })
    })
}

impl Change<'_, '_> {
    /// Returns true if it changes what the table or an index is warm for.
    fn warms(&self) -> bool {
        let index_warms = |update: &Json<'_>| {
            update
                .get("Update")
                .is_some_and(|json| json.get("WarmThroughput").is_some())
        };
        self.request.get("WarmThroughput").is_some() || index_updates(self.request).iter().any(index_warms)
    }

    fn settings(&self, layer: &DynamoDb, table: &mut Table) -> Result<bool, Failure> {
        let request = self.request;
        let mut changed = false;
        if let Some(protected) = flag(request, "DeletionProtectionEnabled") {
            table.deletion_protection = protected;
            changed = true;
        }
        if let Some(class) = request.get("TableClass").and_then(Json::text) {
            table.table_class = Some(class.to_owned());
            changed = true;
        }
        if request.get("SSESpecification").is_some() {
            table.sse_description = parse_encryption(layer, request.get("SSESpecification"));
            changed = true;
        }
        let present = table.warm_throughput.unwrap_or_else(|| initial_warmth(&table.capacity));
        if let Some(warm) = parse_warm_throughput(request, "table", &table.capacity, Some(present))? {
            table.warm_throughput = Some(warm);
            changed = true;
        }
        Ok(changed)
    }

    fn capacity(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<bool, Failure> {
        let request = self.request;
        let now = transaction.now_micros();
        let is_requested = request.get("BillingMode").is_some() || request.get("ProvisionedThroughput").is_some();
        if is_requested {
            let before = table.capacity.clone();
            let mut after = parse_capacity(request, Some(&before))?;
            let same = (after.on_demand, after.read_units, after.write_units)
                == (before.on_demand, before.read_units, before.write_units);
            if same && !after.on_demand {
                return Err(Failure::validation(format!(
                    "The provisioned throughput for the table will not change. The requested value equals the current value. \
                     Current ReadCapacityUnits provisioned for the table: {}. Requested ReadCapacityUnits: {}. \
                     Current WriteCapacityUnits provisioned for the table: {}. Requested WriteCapacityUnits: {}. \
                     Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
                    before.read_units, after.read_units, before.write_units, after.write_units
                )));
            }
            after.on_demand_since_micros = match after.on_demand && !before.on_demand {
                true => now,
                false => before.on_demand_since_micros,
            };
            let grows = after.read_units > before.read_units || after.write_units > before.write_units;
            let shrinks = after.read_units < before.read_units || after.write_units < before.write_units;
            after.increased_micros = if grows { now } else { before.increased_micros };
            after.decreased_micros = if shrinks { now } else { before.decreased_micros };
            for index in table.indexes.iter_mut().filter(|index| index.global) {
                index.capacity.on_demand = after.on_demand;
                match after.on_demand {
                    true => (index.capacity.read_units, index.capacity.write_units) = (0, 0),
                    false => index.on_demand_maximum = None,
                }
            }
            table.capacity = after;
        }
        table.on_demand_maximum = parse_on_demand_maximum(request, None, &table.capacity, table.on_demand_maximum)?;
        Ok(is_requested || request.get("OnDemandThroughput").is_some())
    }

    fn stream(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<bool, Failure> {
        let Some(stream) = self.stream else { return Ok(false) };
        match (stream, table.live_stream().map(|stream| stream.id)) {
            (Some(_), Some(_)) => {
                return Err(Failure::validation(format!(
                    "Table already has an enabled stream: TableName: {}",
                    table.name
                )));
            }
            (None, None) => {
                return Err(Failure::validation(format!(
                    "Table has no stream to disable: TableName: {}",
                    table.name
                )));
            }
            (Some(view), None) => table.stream = Some(streams::start(transaction, table, view)),
            (None, Some(id)) => {
                streams::end(transaction, id);
                table.stream = table.stream.take().map(|stream| StreamSettings {
                    enabled: false,
                    ..stream
                });
            }
        }
        Ok(true)
    }

    /// Answers the indexes that it deletes.
    fn indexes(&self, transaction: &mut Transaction<'_>, table: &mut Table) -> Result<Vec<Index>, Failure> {
        let updates = index_updates(self.request);
        for update in updates {
            let kinds = ["Update", "Create", "Delete"]
                .iter()
                .filter(|kind| update.get(kind).is_some());
            if kinds.count() != 1 {
                return Err(Failure::invalid(
                    "Exactly one of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, \
                     GlobalSecondaryIndexUpdate.Delete must be given",
                ));
            }
        }
        let online = updates.iter().filter(|update| update.get("Update").is_none()).count();
        if online + vector_index_updates(self.request).len() > 1 {
            return Err(Failure::new(
                Exception::LimitExceeded,
                "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
            ));
        }
        let mut deleted = Vec::new();
        for update in updates {
            if let Some(json) = update.get("Create") {
                self.create_index(transaction, table, json)?;
            } else if let Some(json) = update.get("Delete") {
                deleted.push(delete_index(transaction, table, json)?);
            } else if let Some(json) = update.get("Update") {
                update_index(table, json)?;
            }
        }
        Ok(deleted)
    }

    fn create_index(
        &self,
        transaction: &mut Transaction<'_>,
        table: &mut Table,
        json: &Json<'_>,
    ) -> Result<(), Failure> {
        let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
        if table.index(name).is_some() || table.vector_index(name).is_some() {
            return Err(Failure::validation(
                "Attempting to create an index which already exists",
            ));
        }
        let mut definitions = Definitions {
            parts: table.definitions.clone(),
        };
        if let Some(requested) = &self.definitions {
            definitions.extend(requested)?;
        }
        // Definitions that the table has already must be repeated.
        let requested = self.definitions.as_ref().map_or(&[][..], |requested| &requested.parts);
        let mut index = index_from(
            json,
            &Definitions {
                parts: requested.to_vec(),
            },
            None,
        )?;
        set_index_capacity(&mut index, json, &table.capacity)?;
        table.last_index += 1;
        index.id = table.last_index;
        index.filling = true;
        let mut indexes = table.indexes.clone();
        indexes.push(index);
        check_indexes(&indexes)?;
        if let Some(requested) = &self.definitions {
            requested.check_all_used(&used_names(table.keys(), &indexes, &table.vector_indexes), true)?;
        }
        table.indexes = indexes;
        table.definitions = definitions.only_used(table);
        start_filling(transaction, table, table.last_index);
        Ok(())
    }
}

impl Change<'_, '_> {
    /// Answers the vector indexes that it deletes.
    fn vector_indexes(
        &self,
        transaction: &mut Transaction<'_>,
        table: &mut Table,
    ) -> Result<Vec<VectorIndex>, Failure> {
        let mut deleted = Vec::new();
        for update in vector_index_updates(self.request) {
            match (update.get("Create"), update.get("Delete")) {
                (Some(json), None) => self.create_vector_index(transaction, table, json)?,
                (None, Some(json)) => deleted.push(delete_vector_index(transaction, table, json)?),
                _ => {
                    return Err(Failure::invalid(
                        "Exactly one of VectorIndexUpdate.Create, VectorIndexUpdate.Delete must be given",
                    ));
                }
            }
        }
        Ok(deleted)
    }

    fn create_vector_index(
        &self,
        transaction: &mut Transaction<'_>,
        table: &mut Table,
        json: &Json<'_>,
    ) -> Result<(), Failure> {
        // Definitions that the table has already must be repeated.
        let requested = Definitions {
            parts: self
                .definitions
                .as_ref()
                .map_or_else(Vec::new, |definitions| definitions.parts.clone()),
        };
        let mut index = vector_index_from(json, &requested)?;
        if let Some(present) = table.vector_index(&index.name) {
            return Err(match present.filling {
                true => Failure::new(
                    Exception::ResourceInUse,
                    format!(
                        "Attempt to change a resource which is still in use: Index is being created.  Table: {} Index: {}",
                        table.name, index.name
                    ),
                ),
                false => Failure::validation("Attempting to create an index which already exists"),
            });
        }
        if table.vector_indexes.len() >= VECTOR_INDEXES_MAX {
            return Err(Failure::new(
                Exception::LimitExceeded,
                format!(
                    "Subscriber limit exceeded: Number of vector secondary indexes exceeds per-table limit of {VECTOR_INDEXES_MAX}"
                ),
            ));
        }
        refuse_key_as_vector(table, &index)?;
        let mut definitions = Definitions {
            parts: table.definitions.clone(),
        };
        definitions.extend(&requested)?;
        table.last_index += 1;
        index.id = table.last_index;
        index.filling = true;
        let mut vector_indexes = table.vector_indexes.clone();
        vector_indexes.push(index);
        check_vector_indexes(&vector_indexes, &table.indexes, &requested)?;
        if self.definitions.is_some() {
            requested.check_all_used(&used_names(table.keys(), &table.indexes, &vector_indexes), true)?;
        }
        table.vector_indexes = vector_indexes;
        table.definitions = definitions.only_used(table);
        start_filling(transaction, table, table.last_index);
        Ok(())
    }
}

/// A key of the table is no vector.
fn refuse_key_as_vector(table: &Table, index: &VectorIndex) -> Result<(), Failure> {
    let Some(key) = table.keys().find(|part| part.name == index.attribute) else {
        return Ok(());
    };
    let role = if *key == table.hash { "HASH" } else { "RANGE" };
    Err(Failure::invalid(format!(
        "Attributes cannot be redefined. Please check that your attribute has the same type as previously defined. \
         Existing schema: Schema:[SchemaElement: key{{{name}:{}:{role}}}] \
         New schema: VectorIndexSchema:[VectorAttribute: key{{{name}:L:{}}}]",
        key.kind.name(),
        index.dimensions,
        name = key.name,
    )))
}

fn delete_vector_index(
    transaction: &mut Transaction<'_>,
    table: &mut Table,
    json: &Json<'_>,
) -> Result<VectorIndex, Failure> {
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    let position = table.vector_indexes.iter().position(|index| index.name == name);
    let Some(position) = position else {
        return Err(no_such_index(name));
    };
    let index = table.vector_indexes.remove(position);
    clear_index(transaction, table, index.id);
    Ok(index)
}

fn no_such_index(name: &str) -> Failure {
    Failure::new(
        Exception::ResourceNotFound,
        format!("Requested resource not found: Index: {name} not found"),
    )
}

/// Clears the entries of an index that the table has no longer, and forgets the definitions that
/// only it used.
fn clear_index(transaction: &mut Transaction<'_>, table: &mut Table, id: u16) {
    let entries = KeyRange::prefix(&key::items(table.id, id));
    transaction.clear_range(&entries.start, &entries.end);
    transaction.clear(&key::filling(table.id, id));
    let definitions = Definitions {
        parts: table.definitions.clone(),
    };
    table.definitions = definitions.only_used(table);
}

fn delete_index(transaction: &mut Transaction<'_>, table: &mut Table, json: &Json<'_>) -> Result<Index, Failure> {
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    let Some(position) = table
        .indexes
        .iter()
        .position(|index| index.global && index.name == name)
    else {
        return Err(no_such_index(name));
    };
    let index = table.indexes.remove(position);
    table.insights.remove(name);
    clear_index(transaction, table, index.id);
    Ok(index)
}

fn update_index(table: &mut Table, json: &Json<'_>) -> Result<(), Failure> {
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    let capacity = table.capacity.clone();
    let Some(index) = table
        .indexes
        .iter_mut()
        .find(|index| index.global && index.name == name)
    else {
        return Err(no_such_index(name));
    };
    if let Some((read_units, write_units)) = parse_units(json)? {
        (index.capacity.read_units, index.capacity.write_units) = (read_units, write_units);
    }
    index.on_demand_maximum = parse_on_demand_maximum(json, Some(name), &capacity, index.on_demand_maximum)?;
    let present = index.warm_throughput.unwrap_or_else(|| initial_warmth(&index.capacity));
    let subject = format!("index {name}");
    if let Some(warm) = parse_warm_throughput(json, &subject, &index.capacity, Some(present))? {
        index.warm_throughput = Some(warm);
    }
    Ok(())
}
