//! The call of admission control, around a logical database that is one of several, before a
//! command.

use std::sync::OnceLock;

use crate::access::admission_control::{Admission, AdmissionControl, Cost, Growth};
use crate::command::error_reply::ErrorReply;
use crate::command::table::Table;
use crate::command::{Command, DENYOOM, GROWS, GROWS_A_LITTLE, Group, WRITE};
use crate::layer::Redis;

/// Requests that affect the whole server are reserved to its operator, on the default database.
const OPERATORS: &[&str] = &[
    "shutdown",
    "debug",
    "save",
    "bgsave",
    "bgrewriteaof",
    "config|rewrite",
    "config|resetstat",
    "replicaof",
    "slaveof",
    "psync",
    "sync",
    "replconf",
    "failover",
    "module",
    "acl|load",
    "migrate",
];

impl Redis {
    /// Calls admission control, if there is any, for a command.
    #[inline]
    pub fn pass_gate(
        &self,
        command: &'static Command,
        request_bytes: usize,
        now_micros: u64,
    ) -> Result<(), ErrorReply> {
        match &self.access.admission_control {
            None => Ok(()),
            Some(admission_control) => judge(admission_control.as_ref(), self, command, request_bytes, now_micros),
        }
    }
}

fn judge(
    admission_control: &dyn AdmissionControl,
    layer: &Redis,
    command: &'static Command,
    request_bytes: usize,
    now_micros: u64,
) -> Result<(), ErrorReply> {
    if is_operators(layer.table, command) {
        return Err(format!("ERR Command is not available: '{}'", command.name.to_ascii_uppercase()).into());
    }
    let cost = match command {
        command if command.group == Group::Connection => Cost::Free,
        command if command.has(WRITE) => Cost::Write,
        _ => Cost::Read,
    };
    let admission = Admission {
        cost,
        request_bytes,
        growth: growth(layer, command),
        now_micros,
    };
    admission_control.admit(&admission).map_err(ErrorReply::from)
}

fn growth(layer: &Redis, command: &Command) -> Growth {
    if !command.has(DENYOOM | GROWS | GROWS_A_LITTLE) {
        return Growth::None;
    }
    let beside_rows_bytes = layer.access.users.bytes() + layer.scripting.scripts.loaded_bytes() as u64;
    match command.grows() {
        true => Growth::Full { beside_rows_bytes },
        false => Growth::Little { beside_rows_bytes },
    }
}

fn is_operators(table: &Table, command: &'static Command) -> bool {
    static BY_INDEX: OnceLock<Vec<bool>> = OnceLock::new();
    let is_operators_by_index = BY_INDEX.get_or_init(|| {
        let is_named = |name: &str| {
            let mut containers = name.split('|');
            OPERATORS.contains(&name) || containers.next().is_some_and(|first| OPERATORS.contains(&first))
        };
        table.all().map(|command| is_named(command.name)).collect()
    });
    is_operators_by_index[table.index(command)]
}
