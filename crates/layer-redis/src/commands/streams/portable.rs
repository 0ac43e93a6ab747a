//! A stream as one value outside of its rows: for DUMP and RESTORE.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_wire_rdb::stream as rdb;

use super::groups;
use super::id::{ALL_IDS, StreamId};
use super::stream::Stream;
use crate::keyspace::{Entry, Keyspace};

/// All that the stream is, its nodes as Redis would keep them.
pub fn value(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> rdb::Stream {
    let stream = Stream::of(entry);
    let nodes = stream.nodes(keys.tx).into_iter();
    let as_entry = |(id, words)| rdb::Entry { id, words };
    let groups = stream.groups(keys.tx);
    rdb::Stream {
        nodes: nodes.map(|node| node.into_iter().map(as_entry).collect()).collect(),
        last: stream.last,
        max_deleted: stream.max_deleted,
        entries_added: Some(stream.entries_added),
        groups: groups.iter().map(|group| group_value(keys.tx, group)).collect(),
    }
}

fn group_value(tx: &mut Transaction<'_>, group: &groups::Group) -> rdb::Group {
    let mut consumers = Vec::new();
    for consumer in group.consumers(tx) {
        let mut pending = Vec::new();
        group.each_pending(tx, Some(consumer.number), ALL_IDS, &mut |_, id, entry| {
            pending.push(rdb::Pending {
                id,
                delivered_ms: entry.delivered_ms,
                deliveries: entry.deliveries,
            });
            ControlFlow::Continue(())
        });
        consumers.push(rdb::Consumer {
            name: consumer.name,
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
            pending,
        });
    }
    rdb::Group {
        name: group.name.clone(),
        last: group.last,
        entries_read: group.entries_read,
        consumers,
    }
}

/// An entry that a group's consumer was given at a time, and the group's position then.
pub struct Delivered {
    pub group_last: StreamId,
    pub entries_read: Option<u64>,
    /// IDs, and how often each was delivered.
    pub entries: Vec<(StreamId, u64)>,
}

/// `None` if there is no such group or consumer.
pub fn delivered(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    group: &[u8],
    consumer: &[u8],
    at_ms: u64,
) -> Option<Delivered> {
    let group = Stream::of(entry).group(keys.tx, group)?;
    let consumer = group.consumer(keys.tx, consumer)?;
    let mut entries = Vec::new();
    group.each_pending(keys.tx, Some(consumer.number), ALL_IDS, &mut |_, id, pending| {
        if pending.delivered_ms == at_ms {
            entries.push((id, pending.deliveries));
        }
        ControlFlow::Continue(())
    });
    Some(Delivered {
        group_last: group.last,
        entries_read: group.entries_read,
        entries,
    })
}

/// Writes the stream under a name that is free.
pub fn store(keys: &mut Keyspace<'_, '_>, name: &[u8], value: &rdb::Stream) {
    let mut stream = Stream::new(keys);
    for node in &value.nodes {
        let entries = node.iter().map(|entry| (entry.id, entry.words.as_slice()));
        stream.append_node(keys.tx, entries);
    }
    stream.last = value.last;
    stream.max_deleted = value.max_deleted;
    stream.entries_added = value.entries_added.unwrap_or(stream.length);
    for group in &value.groups {
        let entries_read = match value.entries_added {
            Some(_) => group.entries_read,
            None => stream.added_up_to(group.last),
        };
        let rows = stream.new_group(&group.name, group.last, entries_read);
        store_group(keys.tx, rows, group);
    }
    stream.write(keys, name);
}

fn store_group(tx: &mut Transaction<'_>, mut rows: groups::Group, group: &rdb::Group) {
    for consumer in &group.consumers {
        let mut row = rows.add_consumer(tx, &consumer.name, consumer.seen_ms);
        row.active_ms = consumer.active_ms;
        rows.write_consumer(tx, &row);
        for entry in &consumer.pending {
            let pending = groups::Pending {
                owner: row.number,
                delivered_ms: entry.delivered_ms,
                deliveries: entry.deliveries,
            };
            rows.assign(tx, entry.id, pending);
        }
    }
    rows.write(tx);
}

/// Length of the longest name of a group or consumer, in bytes: they are part of row keys.
pub fn longest_name(value: &rdb::Stream) -> usize {
    let longest_in_group = |group: &rdb::Group| {
        let consumers = group.consumers.iter().map(|consumer| consumer.name.len());
        consumers.chain([group.name.len()]).max().unwrap_or(0)
    };
    value.groups.iter().map(longest_in_group).max().unwrap_or(0)
}
