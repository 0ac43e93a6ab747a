//! The row of an index that must be filled, with the progress.

use quartet_engine::Transaction;
use serde::{Deserialize, Serialize};

use crate::storage::key;
use crate::storage::table::Table;

/// The progress of filling an index, or the expiries of a table (index 0).
#[derive(Serialize, Deserialize)]
pub struct Filling {
    pub table: String,
    /// Key of the last item looked at; empty before the first.
    pub after: Vec<u8>,
}

/// Schedules the filling of an index, or of the expiries of a table (index 0).
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
