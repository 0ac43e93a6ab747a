//! Streams: the table, and what other families use.
//!
//! [`stream`] knows how entries are stored, [`node`] how Redis would pack them, and [`groups`] how
//! consumer groups are; the commands are in [`write`], [`range`], [`read`], [`group_commands`],
//! [`pending`], [`claim`] and [`info`]; [`references`] joins deleting with acknowledging;
//! [`portable`] is for DUMP and RESTORE. The commands follow Redis 7.0; `+` of XREAD and the time
//! of a consumer's last delivery are those of 7.4.

mod claim;
mod group_commands;
mod groups;
mod id;
mod info;
mod lookup;
mod node;
mod pending;
mod portable;
mod range;
mod read;
mod references;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::ops::ControlFlow;

pub use self::id::StreamId;
pub use self::portable::{delivered, longest_name, store, value};
use self::stream::Stream;
use crate::commands::help::help_command;
use crate::handler::definition::*;
use crate::keyspace::{Entry, Keyspace};

const SECOND_KEY: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};
const READ_KEYS: Keys = Keys::Computed(read::key_positions, &[behind_streams(1)]);
const READ_KEYS_OF_GROUP: Keys = Keys::Computed(read::key_positions, &[behind_streams(4)]);

/// The first half of the arguments after the word: keys, followed by an ID for each.
const fn behind_streams(from: i32) -> Specification {
    let half = Find::Range {
        last: -1,
        step: 1,
        limit: 2,
    };
    Specification::new("RO access", Begin::Keyword("STREAMS", from), half)
}

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    command("xadd", -5, WRITE | DENYOOM | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(log N); O(N) in the number of entries trimmed", "Appends an entry to a stream, creating it if needed.", write::xadd),
    command("xtrim", -4, WRITE, ONE_KEY, Group::Stream, "5.0.0", "O(N) in the number of entries trimmed", "Removes the oldest entries of a stream.", write::xtrim),
    command("xdel", -3, WRITE | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(log N) for each ID", "Removes entries from a stream.", write::xdel),
    command("xdelex", -5, WRITE | FAST, ONE_KEY, Group::Stream, "8.2.0", "O(log N) for each ID and group", "Removes entries from a stream, as far as consumer groups let them go.", references::xdelex),
    command("xsetid", -3, WRITE | DENYOOM | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(1)", "Sets the last ID of a stream.", write::xsetid),
    command("xlen", 2, READONLY | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(1)", "Counts the entries of a stream.", range::xlen),
    command("xrange", -4, READONLY | KNOWS_SIZE, ONE_KEY, Group::Stream, "5.0.0", "O(log N + M) with M entries returned", "Returns the entries of a range of IDs.", range::xrange),
    command("xrevrange", -4, READONLY | KNOWS_SIZE, ONE_KEY, Group::Stream, "5.0.0", "O(log N + M) with M entries returned", "Returns the entries of a range of IDs, the latest first.", range::xrevrange),
    entry("xread", -4, READONLY | BLOCKING | MOVABLE_KEYS, READ_KEYS, Group::Stream, "5.0.0", "O(log N + M) for each stream with M entries returned", "Returns entries behind given IDs of several streams, and waits if there are none.", Decides(read::xread)),
    entry("xreadgroup", -7, WRITE | BLOCKING | MOVABLE_KEYS, READ_KEYS_OF_GROUP, Group::Stream, "5.0.0", "O(M log N) for each stream with M entries returned", "Gives a consumer of a group entries that nobody of it was given, and waits if there are none.", Decides(read::xreadgroup)),
    command("xack", -4, WRITE | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(log N) for each ID", "Acknowledges pending entries of a group.", pending::xack),
    command("xackdel", -6, WRITE | FAST, ONE_KEY, Group::Stream, "8.2.0", "O(log N) for each ID and group", "Acknowledges pending entries of a group and removes them from the stream.", references::xackdel),
    command("xpending", -3, READONLY, ONE_KEY, Group::Stream, "5.0.0", "O(log N + M) with M entries looked at or consumers counted", "Tells what a group was given and did not acknowledge.", pending::xpending),
    command("xclaim", -6, WRITE | FAST, ONE_KEY, Group::Stream, "5.0.0", "O(log N) for each ID", "Gives pending entries to another consumer.", claim::xclaim),
    command("xautoclaim", -6, WRITE | FAST, ONE_KEY, Group::Stream, "6.2.0", "O(M log N) with M entries looked at", "Gives entries that have been pending for long to another consumer.", claim::xautoclaim),
    container("xgroup", Group::Stream, "5.0.0", "Makes, moves and removes consumer groups.", &[
        command("xgroup|create", -5, WRITE | DENYOOM, SECOND_KEY, Group::Stream, "5.0.0", "O(log N)", "Makes a consumer group.", group_commands::create),
        command("xgroup|createconsumer", 5, WRITE | DENYOOM, SECOND_KEY, Group::Stream, "6.2.0", "O(log N)", "Makes a consumer.", group_commands::create_consumer),
        command("xgroup|delconsumer", 5, WRITE, SECOND_KEY, Group::Stream, "5.0.0", "O(N) in the number of its pending entries", "Removes a consumer and what is pending for it.", group_commands::delete_consumer),
        command("xgroup|destroy", 4, WRITE, SECOND_KEY, Group::Stream, "5.0.0", "O(log N); its rows go as ranges", "Removes a consumer group.", group_commands::destroy),
        help_command("xgroup|help", Group::Stream, "5.0.0"),
        command("xgroup|setid", -5, WRITE, SECOND_KEY, Group::Stream, "5.0.0", "O(log N)", "Sets what a group was given last.", group_commands::set_id),
    ]),
    container("xinfo", Group::Stream, "5.0.0", "Describes streams, groups and consumers.", &[
        command("xinfo|consumers", 4, READONLY, SECOND_KEY, Group::Stream, "5.0.0", "O(N) in the number of consumers", "Lists the consumers of a group.", info::consumers),
        command("xinfo|groups", 3, READONLY, SECOND_KEY, Group::Stream, "5.0.0", "O(N) in the number of groups", "Lists the groups of a stream.", info::groups),
        help_command("xinfo|help", Group::Stream, "5.0.0"),
        command("xinfo|stream", -3, READONLY, SECOND_KEY, Group::Stream, "5.0.0", "O(log N); with FULL O(N) in what is shown", "Describes a stream.", info::stream),
    ]),
];

/// The ID of the latest entry that was added.
pub fn last_id(entry: &Entry) -> StreamId {
    Stream::of(entry).last
}

/// The number of entries.
pub fn length(entry: &Entry) -> u64 {
    Stream::of(entry).length
}

/// Visits the content of a stream, in parts that do not depend on the numbers of its groups and
/// consumers.
pub fn each_part(keys: &mut Keyspace<'_, '_>, entry: &Entry, visit: &mut dyn FnMut(&[&[u8]])) {
    const ALL: (StreamId, StreamId) = (StreamId::ZERO, StreamId::MAX);
    let stream = Stream::of(entry);
    visit(&[b"last", &stream.last.to_bytes()]);
    stream.scan(keys.tx, ALL, false, &mut |id, fields| {
        visit(&[b"entry", &id.to_bytes(), fields]);
        ControlFlow::Continue(())
    });
    for group in stream.groups(keys.tx) {
        visit(&[b"group", &group.name, &group.last.to_bytes()]);
        for consumer in group.consumers(keys.tx) {
            visit(&[b"consumer", &group.name, &consumer.name]);
        }
        group.each_pending(keys.tx, None, ALL, &mut |tx, id, pending| {
            let owner = group.owner_name(tx, pending.owner);
            let (delivered, deliveries) = (pending.delivered_ms.to_be_bytes(), pending.deliveries.to_be_bytes());
            visit(&[b"pending", &group.name, &id.to_bytes(), &owner, &delivered, &deliveries]);
            ControlFlow::Continue(())
        });
    }
}
