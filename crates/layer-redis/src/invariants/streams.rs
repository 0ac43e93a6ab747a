//! Streams: the length, the ends, nodes, and what groups say of consumers and pending entries.
//! Their bytes: `commands/streams/stream.rs`, `commands/streams/groups.rs`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use quartet_engine::{Repair, Verification};

use crate::commands::streams::stream::Stream;
use crate::keyspace::Entry;
use crate::keyspace::stored_key::{ELEMENTS_PREFIX_BYTES, StoredKey};

/// Panics unless the payload is one that a version has written.
pub(super) fn of_entry(entry: &Entry) -> Stream {
    Stream::of(entry)
}

/// Offset of the length after the id, and of the first ID.
const LENGTH_OFFSET: usize = 0;

pub(super) fn judge(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let stream = of_entry(stored.entry);
    verify_entries(verification, stored, value, &stream);
    let groups = verify_groups(verification, stored);
    verify_consumers(verification, stored, &groups);
    verify_pending(verification, stored);
}

/// Visits the rows of one kind: the key after the kind, and the value.
fn each(
    verification: &mut Verification<'_>,
    stored: &StoredKey<'_>,
    kind: u8,
    mut visit: impl FnMut(&mut Verification<'_>, &[u8], &[u8]),
) {
    let (prefix, _) = stored.elements();
    let bounds = [kind, kind + 1].map(|kind| [prefix.as_slice(), &[kind]].concat());
    let rows = verification.rows;
    rows.scan(&bounds[0], &bounds[1], false, &mut |key, value| {
        visit(verification, &key[ELEMENTS_PREFIX_BYTES + 1..], value);
        ControlFlow::Continue(())
    });
}

fn key(stored: &StoredKey<'_>, kind: u8, suffix: &[&[u8]]) -> Vec<u8> {
    let (prefix, _) = stored.elements();
    [prefix.as_slice(), &[kind], &suffix.concat()].concat()
}

fn verify_entries(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8], stream: &Stream) {
    let (mut counted, mut first, mut last) = (0, None, Vec::new());
    each(verification, stored, b'e', |_, id, _| {
        counted += 1;
        first.get_or_insert_with(|| id.to_vec());
        last = id.to_vec();
    });
    if counted != stream.length {
        let message = format!(
            "{} says that it has {} entries and has {counted}",
            stored.name(),
            stream.length
        );
        let repair = stored.with_number(value, LENGTH_OFFSET, counted);
        verification.found(message, vec![repair]);
    } else if counted > 0 && first.as_deref() != Some(&stream.first.to_bytes()) {
        verification.found(
            format!("{} names another first entry than it has", stored.name()),
            Vec::new(),
        );
    }
    if last.as_slice() > &stream.last.to_bytes()[..] {
        verification.found(format!("{} has entries behind its last ID", stored.name()), Vec::new());
    }
}

/// Answers the numbers of the groups.
fn verify_groups(verification: &mut Verification<'_>, stored: &StoredKey<'_>) -> HashSet<[u8; 4]> {
    let mut groups = HashSet::new();
    each(verification, stored, b'g', |verification, name, value| {
        match value.first_chunk() {
            Some(number) if groups.insert(*number) => {}
            _ => {
                let message = format!(
                    "group \"{}\" of {} has no number of its own",
                    name.escape_ascii(),
                    stored.name()
                );
                verification.found(message, Vec::new());
            }
        }
    });
    groups
}

/// A consumer has a group, and the row that leads from its number to its name.
fn verify_consumers(verification: &mut Verification<'_>, stored: &StoredKey<'_>, groups: &HashSet<[u8; 4]>) {
    each(verification, stored, b'c', |verification, suffix, value| {
        let own = key(stored, b'c', &[suffix]);
        let (Some((group, name)), Some(number)) = (suffix.split_first_chunk::<4>(), value.first_chunk::<4>()) else {
            verification.found(
                format!("a consumer of {} is none that a version has written", stored.name()),
                vec![Repair::Clear { key: own }],
            );
            return;
        };
        if !groups.contains(group) {
            let message = format!(
                "consumer \"{}\" of {} is in no group",
                name.escape_ascii(),
                stored.name()
            );
            verification.found(message, vec![Repair::Clear { key: own }]);
            return;
        }
        let name_key = key(stored, b'd', &[group, number]);
        if verification.rows.get(&name_key).as_deref() != Some(name) {
            let message = format!(
                "the number of consumer \"{}\" of {} leads to another",
                name.escape_ascii(),
                stored.name()
            );
            let value = name.to_vec();
            verification.found(message, vec![Repair::Set { key: name_key, value }]);
        }
    });
    each(verification, stored, b'd', |verification, suffix, name| {
        let group = suffix.get(..4).unwrap_or_default();
        let consumer = verification.rows.get(&key(stored, b'c', &[group, name]));
        if consumer.as_deref().and_then(|value| value.get(..4)) != suffix.get(4..) {
            let message = format!("a number of {} leads to no consumer", stored.name());
            let key = key(stored, b'd', &[suffix]);
            verification.found(message, vec![Repair::Clear { key }]);
        }
    });
}

/// A pending entry is owned, and what is owned is pending.
fn verify_pending(verification: &mut Verification<'_>, stored: &StoredKey<'_>) {
    each(verification, stored, b'p', |verification, suffix, value| {
        let (Some((group, id)), Some(owner)) = (suffix.split_first_chunk::<4>(), value.first_chunk::<4>()) else {
            let key = key(stored, b'p', &[suffix]);
            let message = format!(
                "a pending entry of {} is none that a version has written",
                stored.name()
            );
            verification.found(message, vec![Repair::Clear { key }]);
            return;
        };
        let owned = key(stored, b'o', &[group, owner, id]);
        if verification.rows.get_row(&owned).is_none() {
            let message = format!("a pending entry of {} is not among its consumer's", stored.name());
            let value = Vec::new();
            verification.found(message, vec![Repair::Set { key: owned, value }]);
        }
    });
    each(verification, stored, b'o', |verification, suffix, _| {
        let parts = suffix
            .split_first_chunk::<4>()
            .and_then(|(group, suffix)| Some((group, suffix.split_first_chunk::<4>()?)));
        let is_supported = parts.is_some_and(|(group, (owner, id))| {
            let pending = verification.rows.get(&key(stored, b'p', &[group, id]));
            pending.as_deref().and_then(|value| value.get(..4)) == Some(owner)
        });
        if !is_supported {
            let message = format!("a consumer of {} has an entry that is not pending", stored.name());
            let key = key(stored, b'o', &[suffix]);
            verification.found(message, vec![Repair::Clear { key }]);
        }
    });
}
