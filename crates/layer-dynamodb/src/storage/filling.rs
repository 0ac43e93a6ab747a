//! The row that says that an index is to be filled, and how far that has come.

use quartet_engine::Transaction;
use serde::{Deserialize, Serialize};

use crate::storage::key;
use crate::storage::table::Table;

/// How far the filling of an index, or of the expiries of a table (index 0), has come.
#[derive(Serialize, Deserialize)]
pub struct Filling {
    pub table: String,
    /// Key of the last item looked at; empty before the first.
    pub after: Vec<u8>,
}

/// Asks the service's own work to fill an index, or the expiries of a table (index 0).
pub fn start_filling(transaction: &mut Transaction<'_>, table: &Table, index: u16) {
    let filling = Filling {
        table: table.kept_name().into_owned(),
        after: Vec::new(),
    };
    transaction.set(
        &key::filling(table.id, index),
        &serde_json::to_vec(&filling).expect("JSON"),
    );
}
