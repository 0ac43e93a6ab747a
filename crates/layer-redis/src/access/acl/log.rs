//! ACL LOG: what was refused, the latest first. The same refusal again within a minute counts up
//! its entry.

use std::collections::VecDeque;

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
