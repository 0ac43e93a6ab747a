//! ACL LOG: what was refused, the latest first. The same refusal again within a minute counts up its entry.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use super::Denial;
use crate::Redis;
use crate::clients::ClientState;
use crate::command::Command;
use crate::commands::connection::client::{describe, request_bytes};

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u64,
    pub count: u64,
    /// `command`, `key`, `channel`, `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi`.
    pub context: &'static str,
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    pub created_ms: u64,
    pub updated_ms: u64,
    /// The connection's line in CLIENT LIST.
    pub client: String,
}

#[derive(Default)]
pub struct DenialLog {
    pub entries: VecDeque<Entry>,
    next_id: u64,
}

const GROUPED_WITHIN_MS: u64 = 60_000;

impl DenialLog {
    pub fn add(&mut self, mut entry: Entry, length_max: usize) {
        let is_same = |old: &Entry| {
            old.reason == entry.reason
                && old.context == entry.context
                && old.object == entry.object
                && old.user == entry.user
                && entry.updated_ms.saturating_sub(old.updated_ms) <= GROUPED_WITHIN_MS
        };
        if let Some(index) = self.entries.iter().position(is_same) {
            let old = self.entries.remove(index).expect("the entry that was just found");
            entry.count = old.count + 1;
            entry.created_ms = old.created_ms;
            entry.id = old.id;
        } else {
            entry.id = self.next_id;
            self.next_id += 1;
        }
        self.entries.push_front(entry);
        self.entries.truncate(length_max);
    }
}

impl Redis {
    /// Notes that a request was refused, inside MULTI or EXEC or not.
    pub fn log_denial(
        &self,
        client: &ClientState,
        denial: &Denial,
        command: &Command,
        arguments: Arguments<'_>,
        context: &'static str,
    ) {
        let (reason, object) = match denial {
            Denial::Command => ("command", command.name.as_bytes()),
            Denial::Key(position) => ("key", &arguments[*position]),
            Denial::Channel(position) => ("channel", &arguments[*position]),
        };
        self.log_refusal(client, (reason, object), &client.user.name, arguments, context);
    }

    /// Notes that somebody gave a wrong name or password.
    pub fn log_failed_authentication(&self, client: &ClientState, user: &[u8], arguments: Arguments<'_>) {
        let context = if client.multi.is_some() { "multi" } else { "toplevel" };
        self.log_refusal(client, ("auth", &arguments[0]), user, arguments, context);
    }

    fn log_refusal(
        &self,
        client: &ClientState,
        (reason, object): (&'static str, &[u8]),
        user: &[u8],
        arguments: Arguments<'_>,
        context: &'static str,
    ) {
        self.statistics.denied(reason);
        let now_ms = self.engine.now_micros() / 1000;
        let entry = Entry {
            id: 0,
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            user: user.to_vec(),
            created_ms: now_ms,
            updated_ms: now_ms,
            client: describe(self, client.shared.id, &client.shared, request_bytes(arguments)),
        };
        let length_max = self.config.acllog_max_len.load(Ordering::Relaxed) as usize;
        self.users.log.lock().add(entry, length_max);
    }
}
