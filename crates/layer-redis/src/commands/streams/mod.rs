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

use self::id::ALL_IDS;
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

const FAMILY: Family = Family::of(Group::Stream)
    .keys(ONE_KEY)
    .since("5.0.0")
    .complexity("O(log N) for each ID");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("xadd", -5, WRITE | DENYOOM | FAST, "Appends an entry to a stream, creating it if needed.", Answers(write::xadd)).complexity("O(log N); O(N) in the number of entries trimmed"),
    FAMILY.row("xtrim", -4, WRITE, "Removes the oldest entries of a stream.", Answers(write::xtrim)).complexity("O(N) in the number of entries trimmed"),
    FAMILY.row("xdel", -3, WRITE | FAST, "Removes entries from a stream.", Answers(write::xdel)),
    FAMILY.row("xdelex", -5, WRITE | FAST, "Removes entries from a stream, as far as consumer groups let them go.", Answers(references::xdelex)).since("8.2.0").complexity("O(log N) for each ID and group"),
    FAMILY.row("xsetid", -3, WRITE | DENYOOM | FAST, "Sets the last ID of a stream.", Answers(write::xsetid)).complexity("O(1)"),
    FAMILY.row("xlen", 2, READONLY | FAST, "Counts the entries of a stream.", Answers(range::xlen)).complexity("O(1)"),
    FAMILY.row("xrange", -4, READONLY | KNOWS_SIZE, "Returns the entries of a range of IDs.", Answers(range::xrange)).complexity("O(log N + M) with M entries returned"),
    FAMILY.row("xrevrange", -4, READONLY | KNOWS_SIZE, "Returns the entries of a range of IDs, the latest first.", Answers(range::xrevrange)).complexity("O(log N + M) with M entries returned"),
    FAMILY.row("xread", -4, READONLY | BLOCKING | MOVABLE_KEYS, "Returns entries behind given IDs of several streams, and waits if there are none.", Decides(read::xread)).keys(READ_KEYS).complexity("O(log N + M) for each stream with M entries returned"),
    FAMILY.row("xreadgroup", -7, WRITE | BLOCKING | MOVABLE_KEYS | GROWS_A_LITTLE, "Gives a consumer of a group entries that nobody of it was given, and waits if there are none.", Decides(read::xreadgroup)).keys(READ_KEYS_OF_GROUP).complexity("O(M log N) for each stream with M entries returned"),
    FAMILY.row("xack", -4, WRITE | FAST, "Acknowledges pending entries of a group.", Answers(pending::xack)),
    FAMILY.row("xackdel", -6, WRITE | FAST, "Acknowledges pending entries of a group and removes them from the stream.", Answers(references::xackdel)).since("8.2.0").complexity("O(log N) for each ID and group"),
    FAMILY.row("xpending", -3, READONLY, "Tells what a group was given and did not acknowledge.", Answers(pending::xpending)).complexity("O(log N + M) with M entries looked at or consumers counted"),
    FAMILY.row("xclaim", -6, WRITE | FAST | GROWS_A_LITTLE, "Gives pending entries to another consumer.", Answers(claim::xclaim)),
    FAMILY.row("xautoclaim", -6, WRITE | FAST | GROWS_A_LITTLE, "Gives entries that have been pending for long to another consumer.", Answers(claim::xautoclaim)).since("6.2.0").complexity("O(M log N) with M entries looked at"),
    container("xgroup", Group::Stream, "5.0.0", "Makes, moves and removes consumer groups.", &[
        FAMILY.row("xgroup|create", -5, WRITE | DENYOOM, "Makes a consumer group.", Answers(group_commands::create)).keys(SECOND_KEY).complexity("O(log N)"),
        FAMILY.row("xgroup|createconsumer", 5, WRITE | DENYOOM, "Makes a consumer.", Answers(group_commands::create_consumer)).keys(SECOND_KEY).since("6.2.0").complexity("O(log N)"),
        FAMILY.row("xgroup|delconsumer", 5, WRITE, "Removes a consumer and what is pending for it.", Answers(group_commands::delete_consumer)).keys(SECOND_KEY).complexity("O(N) in the number of its pending entries"),
        FAMILY.row("xgroup|destroy", 4, WRITE, "Removes a consumer group.", Answers(group_commands::destroy)).keys(SECOND_KEY).complexity("O(log N); its rows go as ranges"),
        help_command("xgroup|help", Group::Stream, "5.0.0"),
        FAMILY.row("xgroup|setid", -5, WRITE, "Sets what a group was given last.", Answers(group_commands::set_id)).keys(SECOND_KEY).complexity("O(log N)"),
    ]),
    container("xinfo", Group::Stream, "5.0.0", "Describes streams, groups and consumers.", &[
        FAMILY.row("xinfo|consumers", 4, READONLY, "Lists the consumers of a group.", Answers(info::consumers)).keys(SECOND_KEY).complexity("O(N) in the number of consumers"),
        FAMILY.row("xinfo|groups", 3, READONLY, "Lists the groups of a stream.", Answers(info::groups)).keys(SECOND_KEY).complexity("O(N) in the number of groups"),
        help_command("xinfo|help", Group::Stream, "5.0.0"),
        FAMILY.row("xinfo|stream", -3, READONLY, "Describes a stream.", Answers(info::stream)).keys(SECOND_KEY).complexity("O(log N); with FULL O(N) in what is shown"),
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
    let stream = Stream::of(entry);
    visit(&[b"last", &stream.last.to_bytes()]);
    stream.scan(keys.tx, ALL_IDS, false, &mut |id, fields| {
        visit(&[b"entry", &id.to_bytes(), fields]);
        ControlFlow::Continue(())
    });
    for group in stream.groups(keys.tx) {
        visit(&[b"group", &group.name, &group.last.to_bytes()]);
        for consumer in group.consumers(keys.tx) {
            visit(&[b"consumer", &group.name, &consumer.name]);
        }
        group.each_pending(keys.tx, None, ALL_IDS, &mut |tx, id, pending| {
            let owner = group.owner_name(tx, pending.owner);
            let (delivered, deliveries) = (pending.delivered_ms.to_be_bytes(), pending.deliveries.to_be_bytes());
            visit(&[b"pending", &group.name, &id.to_bytes(), &owner, &delivered, &deliveries]);
            ControlFlow::Continue(())
        });
    }
}
