//! The row of a backup: what the table was made of, and which state of it is pinned.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::DynamoDb;
use crate::storage::key::kept_name;
use crate::storage::table::Table;

/// A backup, as its row says it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Backup {
    /// The end of its ARN: the time of its creation and eight digits.
    pub id: String,
    pub name: String,
    pub kind: Kind,
    /// The table as it was.
    pub table: Table,
    /// The version of the state, which is pinned under the number.
    pub version: u64,
    pub number: u32,
    pub created_micros: u64,
    pub expires_micros: Option<u64>,
    pub items: u64,
    pub bytes: u64,
}

/// Whether a client or the service took a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    User,
    System,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::User => "USER",
            Kind::System => "SYSTEM",
        }
    }
}

impl Backup {
    pub fn arn(&self, layer: &DynamoDb) -> String {
        format!("{}/backup/{}", layer.table_arn(&self.table.name), self.id)
    }

    pub fn kept_name(&self) -> Cow<'_, str> {
        kept_name(self.table.region.as_deref(), &self.id)
    }
}
