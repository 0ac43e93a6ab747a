//! PutItem, UpdateItem and DeleteItem; the same writes serve batches, transactions and PartiQL.

use std::collections::HashSet;
use std::sync::Arc;

use quartet_engine::Transaction;

use crate::storage::capacity::{Consumed, Report, read_units, write_units};
use crate::storage::found::Found;
use crate::storage::streams::Author;
use crate::storage::table::{Table, is_empty};
use crate::storage::throughput::Use;
use crate::storage::write::replace;
use crate::wire::expression::path::project;
use crate::wire::expression::update::too_large_to_update;
use crate::wire::expression::{Condition, Path, Placeholders, Update, parse_condition, parse_update};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::wire::legacy;
use crate::wire::value::{ITEM_BYTES_MAX, Item, check_nesting, item_json, item_size, parse_item, write_item};
use crate::{DynamoDb, Outcome};

/// One write of one item, checked as far as it can be without the table.
pub struct Write {
    pub table: String,
    pub action: Action,
    pub condition: Option<Condition>,
    /// A failed condition returns the item.
    pub show_failed: bool,
}

impl Write {
    pub fn deletes(&self) -> bool {
        matches!(self.action, Action::Delete(_))
    }
}

pub enum Action {
    Put(Arc<Item>),
    Update {
        key: Item,
        update: Update,
    },
    Delete(Item),
    /// Only the condition matters.
    Check(Item),
}

/// The outcome of a write.
pub struct Written {
    pub table: Arc<Table>,
    pub old: Found,
    pub new: Option<Arc<Item>>,
    pub consumed: Consumed,
}

impl Written {
    /// Units of a replay of the transaction with this write: reading the larger of the old and the
    /// new item.
    pub fn replay_units(&self) -> u32 {
        let size = self.new.as_deref().map_or(0, item_size).max(self.old.size());
        (2.0 * read_units(size, true)) as u32
    }
}

impl Action {
    /// The item or key that says which item is meant.
    pub fn key(&self) -> &Item {
        match self {
            Action::Put(item) => item,
            Action::Update { key, .. } | Action::Delete(key) | Action::Check(key) => key,
        }
    }
}

impl Write {
    /// Finds the table and refuses what cannot be written to it. To be called before any write of
    /// the same transaction.
    pub fn check(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Arc<Table>, Failure> {
        let table = layer.table(transaction, &self.table)?;
        match &self.action {
            Action::Put(item) => {
                table.check_item_keys(item)?;
                table.check_index_keys(item)?;
                table.check_vectors(item, None)?;
            }
            Action::Update { key, update } => {
                table.check_key(key)?;
                refuse_key_updates(&table, update)?;
                check_known_types(&table, update)?;
                table.check_paths(update.paths())?;
            }
            Action::Delete(key) | Action::Check(key) => table.check_key(key)?,
        }
        Ok(table)
    }

    /// Returns true if what is wrong with it does not depend on any type the table expects: an
    /// empty key, or a key to be updated.
    pub fn is_plainly_wrong(&self, table: &Table) -> bool {
        let empty_key = table
            .keys()
            .any(|part| self.action.key().get(&part.name).is_some_and(is_empty));
        empty_key || matches!(&self.action, Action::Update { update, .. } if refuse_key_updates(table, update).is_err())
    }

    /// Writes, after `check`. A write that is refused, throttled too, has changed nothing.
    pub fn execute(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
        table: Arc<Table>,
    ) -> Result<Written, Failure> {
        let written = self.execute_uncharged(layer, transaction, table)?;
        layer.charge(transaction, &written.table, Use::Write, || written.consumed.clone());
        Ok(written)
    }

    /// The same, for a caller that charges several writes together, so that the first of them do
    /// not throttle the last.
    pub fn execute_uncharged(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
        table: Arc<Table>,
    ) -> Result<Written, Failure> {
        layer.admit(transaction, &table, None, Use::Write)?;
        let key = table.item_key(self.action.key());
        let old = Found::read(transaction, &key);
        if let Err(refused) = self.check_condition(&old) {
            let consumed = || Consumed::of_table(write_units(old.size()));
            layer.charge(transaction, &table, Use::Write, consumed);
            return Err(refused);
        }
        let new = match &self.action {
            Action::Put(item) => Some(item.clone()),
            Action::Update { key, update } => updated(&table, key, update, &old)?.map(Arc::new),
            Action::Delete(_) | Action::Check(_) => None,
        };
        layer.admit_indexes(transaction, &table, &old, new.as_deref())?;
        let consumed = match &self.action {
            Action::Check(_) => Consumed::of_table(write_units(old.size())),
            _ => replace(transaction, &table, &key, &old, new.as_deref(), Author::Client),
        };
        Ok(Written {
            table,
            old,
            new,
            consumed,
        })
    }

    fn check_condition(&self, old: &Found) -> Result<(), Failure> {
        let Some(condition) = &self.condition else {
            return Ok(());
        };
        let mut paths = Vec::new();
        condition.paths(&mut paths);
        let roots: HashSet<&str> = paths.iter().map(|path| path.root.as_str()).collect();
        if condition.holds(&old.attributes(|name| roots.contains(name))) {
            return Ok(());
        }
        let mut failure = Failure::new(Exception::ConditionalCheckFailed, "The conditional request failed");
        if self.show_failed {
            failure.extra = old.item().map(|item| ("Item", item_json(item)));
        }
        Err(failure)
    }
}

fn refuse_key_updates(table: &Table, update: &Update) -> Result<(), Failure> {
    match update.written().iter().find(|path| table.is_key(&path.root)) {
        None => Ok(()),
        Some(path) => Err(Failure::invalid(format!(
            "Cannot update attribute {}. This attribute is part of the key",
            path.root
        ))),
    }
}

/// Refuses an update that gives an index attribute a wrong type, for any item.
fn check_known_types(table: &Table, update: &Update) -> Result<(), Failure> {
    for index in &table.indexes {
        for part in index.keys() {
            if let Some(kind) = update.known_type(&part.name) {
                part.check_type(&index.name, kind)?;
            }
        }
    }
    Ok(())
}

/// The item after the update; `None` if there is none before and after.
fn updated(table: &Table, key: &Item, update: &Update, old: &Found) -> Result<Option<Item>, Failure> {
    if old.row().is_none() && update.only_removes() {
        return Ok(None);
    }
    let mut item = old.to_item().unwrap_or_else(|| key.clone());
    update.apply(&mut item)?;
    if item_size(&item) > ITEM_BYTES_MAX {
        return Err(too_large_to_update());
    }
    check_nesting(&item)?;
    if !table.index_types_fit(&item) {
        return Err(Failure::validation(
            "The update expression attempted to update the secondary index key to unsupported type",
        ));
    }
    table.check_index_keys(&item)?;
    table.check_vectors(&item, old.item())?;
    Ok(Some(item))
}

/// Which attributes a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    Nothing,
    AllOld,
    UpdatedOld,
    AllNew,
    UpdatedNew,
}

impl Returned {
    fn parse(request: &Json<'_>, updates: bool) -> Result<Returned, Failure> {
        let returned = match request.get("ReturnValues").and_then(Json::text) {
            None | Some("NONE") => Returned::Nothing,
            Some("ALL_OLD") => Returned::AllOld,
            Some("UPDATED_OLD") => Returned::UpdatedOld,
            Some("ALL_NEW") => Returned::AllNew,
            Some(_) => Returned::UpdatedNew,
        };
        match (updates, returned) {
            (true, _) | (_, Returned::Nothing | Returned::AllOld) => Ok(returned),
            _ => Err(Failure::validation("ReturnValues can only be ALL_OLD or NONE")),
        }
    }

    /// The attributes to show; `paths` are the written paths.
    pub fn attributes(self, written: &Written, paths: &[Path]) -> Option<Item> {
        let parts = |item: Option<&Item>| item.map(|item| project(item, paths)).filter(|parts| !parts.is_empty());
        match self {
            Returned::Nothing => None,
            Returned::AllOld => written.old.item().cloned(),
            Returned::AllNew => written.new.as_deref().cloned(),
            Returned::UpdatedOld => parts(written.old.item()),
            Returned::UpdatedNew => parts(written.new.as_deref()),
        }
    }
}

/// A request for one write, and the requested reply.
struct Single {
    write: Write,
    returned: Returned,
    report: Report,
    collection_metrics: bool,
}

impl Single {
    fn parse(
        request: &Json<'_>,
        updates: bool,
        parse: fn(&Json<'_>) -> Result<Write, Failure>,
    ) -> Result<Single, Failure> {
        Ok(Single {
            returned: Returned::parse(request, updates)?,
            write: parse(request)?,
            report: Report::read(request),
            collection_metrics: request.get("ReturnItemCollectionMetrics").and_then(Json::text) == Some("SIZE"),
        })
    }

    fn respond(layer: &DynamoDb, single: Result<Single, Failure>) -> Outcome {
        let single = single.map_err(Failure::in_envelope);
        let execute = |transaction: &mut Transaction<'_>, single: &Single| {
            if single.write.deletes() {
                transaction.deletes();
            }
            let table = single.write.check(layer, transaction)?;
            single.write.execute(layer, transaction, table)
        };
        layer.respond(single, execute, |single, written| single.body(&written))
    }

    fn body(&self, written: &Written) -> Vec<u8> {
        Writer::object(|writer| {
            let paths: Vec<Path> = match &self.write.action {
                Action::Update { update, .. } => update.written().into_iter().cloned().collect(),
                _ => Vec::new(),
            };
            if let Some(attributes) = self.returned.attributes(written, &paths) {
                write_item(&attributes, &mut writer.name("Attributes").text);
            }
            written.consumed.write_member(writer, &self.write.table, self.report);
            if self.collection_metrics && written.table.has_local_indexes() {
                writer.name("ItemCollectionMetrics");
                write_collection_metrics(writer, &written.table, self.write.action.key());
            }
        })
    }
}

/// The size of an item collection is not kept: the range says what is true of all that fit.
pub fn write_collection_metrics(writer: &mut Writer, table: &Table, key: &Item) {
    writer.open(b'{');
    writer.nested("ItemCollectionKey", |writer| {
        key[&table.hash.name].write(&mut writer.name(&table.hash.name).text);
    });
    writer.list("SizeEstimateRangeGB", [0.0, 1.0], |writer, bound| {
        writer.raw(format_args!("{bound:?}"))
    });
    writer.close(b'}');
}

pub fn put(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    Single::respond(layer, Single::parse(request, false, parse_put))
}

pub fn delete(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    Single::respond(layer, Single::parse(request, false, parse_delete))
}

pub fn update(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    Single::respond(layer, Single::parse(request, true, parse_update_item))
}

pub fn parse_put(request: &Json<'_>) -> Result<Write, Failure> {
    parse_write(request, &["ConditionExpression"], parse_new_item, |item, _| {
        Ok(Action::Put(Arc::new(item)))
    })
}

fn parse_new_item(request: &Json<'_>) -> Result<Item, Failure> {
    let item = parse_item(request.get("Item").unwrap_or(&Json::Null))?;
    check_item_size(&item)?;
    Ok(item)
}

pub fn check_item_size(item: &Item) -> Result<(), Failure> {
    match item_size(item) > ITEM_BYTES_MAX {
        true => Err(Failure::of_data("Item size has exceeded the maximum allowed size")),
        false => Ok(()),
    }
}

pub fn parse_delete(request: &Json<'_>) -> Result<Write, Failure> {
    parse_write(request, &["ConditionExpression"], parse_key, |key, _| {
        Ok(Action::Delete(key))
    })
}

/// The ConditionCheck of a transaction.
pub fn parse_check(request: &Json<'_>) -> Result<Write, Failure> {
    parse_write(request, &["ConditionExpression"], parse_key, |key, _| {
        Ok(Action::Check(key))
    })
}

pub fn parse_update_item(request: &Json<'_>) -> Result<Write, Failure> {
    let expressions = ["UpdateExpression", "ConditionExpression"];
    parse_write(request, &expressions, parse_key, |key, placeholders| {
        let update = match (request.get("UpdateExpression"), request.get("AttributeUpdates")) {
            (Some(expression), _) => parse_update(expression.text().unwrap_or_default(), placeholders)?,
            (None, Some(updates)) => legacy::attribute_updates(updates)?,
            (None, None) => Update::default(),
        };
        Ok(Action::Update { key, update })
    })
}

pub fn parse_key(request: &Json<'_>) -> Result<Item, Failure> {
    parse_item(request.get("Key").unwrap_or(&Json::Null))
}

/// Checks in the service's order: which parameters may be combined before their content, and the
/// item or key before placeholders.
fn parse_write(
    request: &Json<'_>,
    expressions: &[&str],
    subject: fn(&Json<'_>) -> Result<Item, Failure>,
    action: impl FnOnce(Item, &mut Placeholders) -> Result<Action, Failure>,
) -> Result<Write, Failure> {
    legacy::check_not_mixed(
        request,
        &["AttributeUpdates", "Expected", "ConditionalOperator"],
        &["UpdateExpression", "ConditionExpression"],
    )?;
    Placeholders::check_allowed(request, expressions)?;
    let subject = subject(request)?;
    let mut placeholders = Placeholders::read(request)?;
    let action = action(subject, &mut placeholders)?;
    let condition = match request.get("ConditionExpression") {
        Some(expression) => {
            let text = expression.text().unwrap_or_default();
            Some(parse_condition("ConditionExpression", text, &mut placeholders)?)
        }
        None => legacy::expected(request)?,
    };
    placeholders.check_all_used()?;
    let text = |name| request.get(name).and_then(Json::text);
    Ok(Write {
        table: text("TableName").unwrap_or_default().to_owned(),
        action,
        condition,
        show_failed: text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD"),
    })
}
