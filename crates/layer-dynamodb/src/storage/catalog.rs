//! The tables of the logical database: looking them up, keeping them, numbering them.
//!
//! A table's row is read in every transaction that uses it, so its version takes part in what the
//! transaction depends on. The parsed form is kept beside, under that version, and is never trusted
//! without it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::RwLock;
use quartet_engine::Transaction;
use quartet_model::{KeyRange, Version};

use crate::DynamoDb;
use crate::storage::key;
use crate::storage::key::kept_name;
use crate::storage::table::Table;
use crate::wire::failure::{Exception, Failure};

#[derive(Default)]
pub struct Catalog {
    parsed: RwLock<HashMap<String, (Version, Arc<Table>)>>,
}

impl DynamoDb {
    /// The table that a request names, by name or ARN.
    pub(crate) fn table(&self, transaction: &mut Transaction<'_>, name_or_arn: &str) -> Result<Arc<Table>, Failure> {
        let table = self
            .find_table(transaction, table_name(self.check_region(name_or_arn)?))
            .filter(|table| !table.is_coming())
            .ok_or_else(Failure::no_such_table)?;
        // The home counts what all nodes consume of it.
        match self.replica.is_some() && self.throughput.limits(&table) {
            true => Err(Failure::busy()),
            false => Ok(table),
        }
    }

    /// The same for operations on tables, whose error says more.
    pub(crate) fn described_table(
        &self,
        transaction: &mut Transaction<'_>,
        name_or_arn: &str,
    ) -> Result<Arc<Table>, Failure> {
        let name = table_name(self.check_region(name_or_arn)?);
        self.find_table(transaction, name)
            .ok_or_else(|| no_described_table(name))
    }

    /// The same for operations that change a table.
    pub(crate) fn changeable_table(
        &self,
        transaction: &mut Transaction<'_>,
        name_or_arn: &str,
    ) -> Result<Arc<Table>, Failure> {
        let table = self.described_table(transaction, name_or_arn)?;
        check_is_there(&table, Exception::ResourceInUse)?;
        Ok(table)
    }

    /// The table of this region.
    pub(crate) fn find_table(&self, transaction: &mut Transaction<'_>, name: &str) -> Option<Arc<Table>> {
        self.find_kept_table(transaction, &kept_name(self.own_region(), name))
    }

    /// The table stored under this name, in any region.
    pub(crate) fn find_kept_table(&self, transaction: &mut Transaction<'_>, name: &str) -> Option<Arc<Table>> {
        let row = transaction.get(&key::table(name))?;
        if let Some((version, table)) = self.catalog.parsed.read().get(name)
            && *version == row.version()
        {
            return Some(table.clone());
        }
        let table: Table = serde_json::from_slice(row.value()).expect("a stored table");
        let table = Arc::new(table);
        let mut parsed = self.catalog.parsed.write();
        parsed.insert(name.to_owned(), (row.version(), table.clone()));
        Some(table)
    }

    pub(crate) fn store_table(&self, transaction: &mut Transaction<'_>, table: &Table) {
        let json = serde_json::to_vec(table).expect("a table is JSON");
        transaction.set(&key::table(&table.kept_name()), &json);
    }

    pub(crate) fn forget_table(&self, transaction: &mut Transaction<'_>, table: &Table) {
        let name = table.kept_name();
        transaction.clear(&key::table(&name));
        self.catalog.parsed.write().remove(name.as_ref());
    }

    /// Up to `limit` names of this region's tables after `start`, sorted.
    pub(crate) fn table_names(
        &self,
        transaction: &mut Transaction<'_>,
        start: Option<&str>,
        limit: usize,
    ) -> Vec<String> {
        let prefix = key::table(&kept_name(self.own_region(), ""));
        let all = KeyRange::prefix(&prefix);
        let start = start.map_or(all.start, |name| {
            KeyRange::point(&[&prefix, name.as_bytes()].concat()).end
        });
        let mut names = Vec::new();
        transaction.scan(&start, &all.end, false, &mut |row| {
            let name = String::from_utf8_lossy(&Transaction::layer_key(row)[prefix.len()..]).into_owned();
            if !name.contains('/') {
                names.push(name);
            }
            if names.len() < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        names
    }
}

/// Refuses a table that is still being made.
pub fn check_is_there(table: &Table, exception: Exception) -> Result<(), Failure> {
    match table.is_coming() {
        false => Ok(()),
        true => Err(Failure::new(
            exception,
            format!(
                "Attempt to change a resource which is still in use: Table is being created: {}",
                table.name
            ),
        )),
    }
}

pub fn no_described_table(name: &str) -> Failure {
    let text = format!("Requested resource not found: Table: {name} not found");
    Failure::new(Exception::ResourceNotFound, text)
}

/// A number that no other table or stream has or had.
pub fn next_number(transaction: &mut Transaction<'_>) -> u32 {
    let last = transaction.get(key::LAST_NUMBER);
    let last = last.map_or(0, |row| u32::from_be_bytes(row.value().try_into().expect("four bytes")));
    transaction.set(key::LAST_NUMBER, &(last + 1).to_be_bytes());
    last + 1
}

/// The name in a table's ARN, or the name itself.
pub fn table_name(name_or_arn: &str) -> &str {
    match name_or_arn
        .strip_prefix("arn:")
        .and_then(|arn| arn.split_once(":table/"))
    {
        Some((_, path)) => path.split('/').next().unwrap_or(path),
        None => name_or_arn,
    }
}
