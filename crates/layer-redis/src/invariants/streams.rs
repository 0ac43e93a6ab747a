//! Streams: the length, the ends, nodes, and what groups say of consumers and pending entries.
//! Their bytes: `commands/streams/stream.rs`, `commands/streams/groups.rs`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use quartet_engine::{Repair, Verification};

use super::{ELEMENTS_PREFIX_BYTES, Found};
use crate::commands::streams::stream::Stream;
use crate::keyspace::Entry;

/// Panics unless the payload is one that a version has written.
pub(super) fn of_entry(entry: &Entry) -> Stream {
    Stream::of(entry)
}

/// Offset of the length after the id, and of the first ID.
const LENGTH_OFFSET: usize = 0;

pub(super) fn judge(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let stream = of_entry(found.entry);
    verify_entries(verification, found, value, &stream);
    let groups = verify_groups(verification, found);
    verify_consumers(verification, found, &groups);
    verify_pending(verification, found);
}

/// Visits the rows of one kind: the key after the kind, and the value.
fn each(
    verification: &mut Verification<'_>,
    found: &Found<'_>,
    kind: u8,
    mut visit: impl FnMut(&mut Verification<'_>, &[u8], &[u8]),
) {
    let (prefix, _) = found.elements();
    let bounds = [kind, kind + 1].map(|kind| [prefix.as_slice(), &[kind]].concat());
    let rows = verification.rows;
    rows.scan(&bounds[0], &bounds[1], false, &mut |key, value| {
        visit(verification, &key[ELEMENTS_PREFIX_BYTES + 1..], value);
        ControlFlow::Continue(())
    });
}

fn key(found: &Found<'_>, kind: u8, rest: &[&[u8]]) -> Vec<u8> {
    let (prefix, _) = found.elements();
    [prefix.as_slice(), &[kind], &rest.concat()].concat()
}

fn verify_entries(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8], stream: &Stream) {
    let (mut counted, mut first, mut last) = (0, None, Vec::new());
    each(verification, found, b'e', |_, id, _| {
        counted += 1;
        first.get_or_insert_with(|| id.to_vec());
        last = id.to_vec();
    });
    if counted != stream.length {
        let what = format!(
            "{} says that it has {} entries and has {counted}",
            found.name(),
            stream.length
        );
        let repair = found.with_number(value, LENGTH_OFFSET, counted);
        verification.found(what, vec![repair]);
    } else if counted > 0 && first.as_deref() != Some(&stream.first.to_bytes()) {
        verification.found(
            format!("{} names another first entry than it has", found.name()),
            Vec::new(),
        );
    }
    if last.as_slice() > &stream.last.to_bytes()[..] {
        verification.found(format!("{} has entries behind its last ID", found.name()), Vec::new());
    }
}

/// Answers the numbers of the groups.
fn verify_groups(verification: &mut Verification<'_>, found: &Found<'_>) -> HashSet<[u8; 4]> {
    let mut groups = HashSet::new();
    each(verification, found, b'g', |verification, name, value| {
        match value.first_chunk() {
            Some(number) if groups.insert(*number) => {}
            _ => {
                let what = format!(
                    "group \"{}\" of {} has no number of its own",
                    name.escape_ascii(),
                    found.name()
                );
                verification.found(what, Vec::new());
            }
        }
    });
    groups
}

/// A consumer has a group, and the row that leads from its number to its name.
fn verify_consumers(verification: &mut Verification<'_>, found: &Found<'_>, groups: &HashSet<[u8; 4]>) {
    each(verification, found, b'c', |verification, rest, value| {
        let own = key(found, b'c', &[rest]);
        let (Some((group, name)), Some(number)) = (rest.split_first_chunk::<4>(), value.first_chunk::<4>()) else {
            verification.found(
                format!("a consumer of {} is none that a version has written", found.name()),
                vec![Repair::Clear { key: own }],
            );
            return;
        };
        if !groups.contains(group) {
            let what = format!(
                "consumer \"{}\" of {} is in no group",
                name.escape_ascii(),
                found.name()
            );
            verification.found(what, vec![Repair::Clear { key: own }]);
            return;
        }
        let name_key = key(found, b'd', &[group, number]);
        if verification.rows.get(&name_key).as_deref() != Some(name) {
            let what = format!(
                "the number of consumer \"{}\" of {} leads to another",
                name.escape_ascii(),
                found.name()
            );
            let value = name.to_vec();
            verification.found(what, vec![Repair::Set { key: name_key, value }]);
        }
    });
    each(verification, found, b'd', |verification, rest, name| {
        let group = rest.get(..4).unwrap_or_default();
        let consumer = verification.rows.get(&key(found, b'c', &[group, name]));
        if consumer.as_deref().and_then(|value| value.get(..4)) != rest.get(4..) {
            let what = format!("a number of {} leads to no consumer", found.name());
            let key = key(found, b'd', &[rest]);
            verification.found(what, vec![Repair::Clear { key }]);
        }
    });
}

/// A pending entry is owned, and what is owned is pending.
fn verify_pending(verification: &mut Verification<'_>, found: &Found<'_>) {
    each(verification, found, b'p', |verification, rest, value| {
        let (Some((group, id)), Some(owner)) = (rest.split_first_chunk::<4>(), value.first_chunk::<4>()) else {
            let key = key(found, b'p', &[rest]);
            let what = format!("a pending entry of {} is none that a version has written", found.name());
            verification.found(what, vec![Repair::Clear { key }]);
            return;
        };
        let owned = key(found, b'o', &[group, owner, id]);
        if verification.rows.get_row(&owned).is_none() {
            let what = format!("a pending entry of {} is not among its consumer's", found.name());
            let value = Vec::new();
            verification.found(what, vec![Repair::Set { key: owned, value }]);
        }
    });
    each(verification, found, b'o', |verification, rest, _| {
        let parts = rest
            .split_first_chunk::<4>()
            .and_then(|(group, rest)| Some((group, rest.split_first_chunk::<4>()?)));
        let is_supported = parts.is_some_and(|(group, (owner, id))| {
            let pending = verification.rows.get(&key(found, b'p', &[group, id]));
            pending.as_deref().and_then(|value| value.get(..4)) == Some(owner)
        });
        if !is_supported {
            let what = format!("a consumer of {} has an entry that is not pending", found.name());
            let key = key(found, b'o', &[rest]);
            verification.found(what, vec![Repair::Clear { key }]);
        }
    });
}
