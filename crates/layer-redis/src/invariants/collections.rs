//! Large sets, hashes, sorted sets, lists, strings and documents: their counts, and the indexes
//! among their rows. Their bytes: `commands/sets/value.rs`, `commands/hashes/value.rs`,
//! `commands/sorted_sets/value.rs`, `commands/lists/blocks.rs`.

use std::ops::ControlFlow;

use quartet_engine::{Repair, Verification, decoded};

use super::{ELEMENTS_PREFIX_BYTES, Found};
use crate::commands::json::{self, Json};
use crate::commands::lists::{Ends, position_key, position_of, without_shifts};
use crate::keyspace::string_value::{CHUNK_BYTES, INDEX_BYTES, chunked_length, start_of};
use crate::keyspace::{FLAG_B, FieldDeadlines};
use crate::{keyspace::packed, keyspace::scan};

/// Prefixes before the elements of a hash or a sorted set: the rows of an index of their own.
const INDEX: [u8; 8] = [0; 8];

/// Verifies that the count at the start of a collection's row is that of `counted` rows.
fn verify_count(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8], counted: u64) {
    let stated = u64::from_be_bytes(found.entry.large_payload()[..8].try_into().expect("eight bytes"));
    if stated == counted {
        return;
    }
    let what = format!("{} says that it has {stated} elements and has {counted}", found.name());
    let repair = match counted {
        0 => Repair::Clear {
            key: found.row_key.to_vec(),
        },
        _ => found.with_number(value, 0, counted),
    };
    verification.found(what, vec![repair]);
}

/// Rows whose position is that of their element; others are dropped. Answers how many are right.
fn verify_positions(
    verification: &mut Verification<'_>,
    found: &Found<'_>,
    mut visit: impl FnMut(&mut Verification<'_>, &[u8], &[u8]),
) -> u64 {
    let (prefix, end) = found.elements();
    let start = [prefix.as_slice(), &scan::FIRST].concat();
    let rows = verification.rows;
    let mut counted = 0;
    rows.scan(&start, &end, false, &mut |key, value| {
        let element = &key[ELEMENTS_PREFIX_BYTES..];
        match element.split_first_chunk::<8>() {
            Some((position, member)) if *position == scan::position(member) => {
                counted += 1;
                visit(verification, member, value);
            }
            _ => {
                let what = format!("an element of {} stands where none can be found", found.name());
                verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
            }
        }
        ControlFlow::Continue(())
    });
    counted
}

/// A string's chunks end where it ends, or before.
pub(super) fn verify_chunks(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let stated = chunked_length(found.entry.large_payload()).expect("the row of a chunked string");
    let (prefix, end) = found.elements();
    let rows = verification.rows;
    let mut reached = 0;
    rows.scan(&prefix, &end, false, &mut |key, chunk| {
        let index = &key[ELEMENTS_PREFIX_BYTES..];
        if index.len() == INDEX_BYTES && (1..=CHUNK_BYTES).contains(&chunk.len()) {
            reached = start_of(index) + chunk.len() as u64;
        } else {
            let what = format!("a part of {} is none that a version has written", found.name());
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
    if reached > stated {
        let what = format!("{} says that it has {stated} bytes and has {reached}", found.name());
        verification.found(what, vec![found.with_number(value, 0, reached)]);
    }
}

/// Verifies that a document's pieces exist, each referenced once, and no others.
pub(super) fn verify_document(verification: &mut Verification<'_>, found: &Found<'_>) {
    let (prefix, end) = found.elements();
    let rows = verification.rows;
    let pieces = json::verify_pieces(&mut |number| {
        let row = rows.get_row(&[prefix.as_slice(), &number.to_be_bytes()].concat())?;
        decoded(|| Json::stored(&row))
    });
    let pieces = match pieces {
        Ok(pieces) => pieces,
        Err(what) => return verification.found(format!("{} {what}", found.name()), Vec::new()),
    };
    rows.scan(&prefix, &end, false, &mut |key, _| {
        let number = key[ELEMENTS_PREFIX_BYTES..].try_into().map(u32::from_be_bytes);
        if !number.is_ok_and(|number| pieces.contains(&number)) {
            let what = format!("a piece of {} is in no place of it", found.name());
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

pub(super) fn verify_set(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let counted = verify_positions(verification, found, |_, _, _| {});
    verify_count(verification, found, value, counted);
}

/// Verifies that each text has a score, and that their number matches the key's.
pub(super) fn verify_suggestions(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let (prefix, _) = found.elements();
    let rows = verification.rows;
    let mut counted = 0;
    rows.scan(
        &prefix,
        &quartet_model::next_prefix(&prefix),
        false,
        &mut |key, value| {
            match value.len() >= 8 {
                true => counted += 1,
                false => {
                    let what = format!("a suggestion of {} has no score", found.name());
                    verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
                }
            }
            ControlFlow::Continue(())
        },
    );
    verify_count(verification, found, value, counted);
}

/// An index row of this collection, relative to the layer.
fn index_key(found: &Found<'_>, number: u64, element: &[u8]) -> Vec<u8> {
    let (prefix, _) = found.elements();
    [prefix.as_slice(), &INDEX, &number.to_be_bytes(), element].concat()
}

/// Each index row has its element with that number; others go.
fn verify_index(
    verification: &mut Verification<'_>,
    found: &Found<'_>,
    what: &str,
    number_of: impl Fn(&[u8]) -> Option<u64>,
) {
    let (prefix, _) = found.elements();
    let start = [prefix.as_slice(), &INDEX].concat();
    let end = [prefix.as_slice(), &scan::FIRST].concat();
    let rows = verification.rows;
    rows.scan(&start, &end, false, &mut |key, _| {
        let parts = key[ELEMENTS_PREFIX_BYTES + INDEX.len()..].split_first_chunk::<8>();
        let is_supported = parts.is_some_and(|(number, element)| {
            let row = rows.get_row(&[prefix.as_slice(), &scan::position(element), element].concat());
            row.and_then(|row| number_of(&row)) == Some(u64::from_be_bytes(*number))
        });
        if !is_supported {
            let what = format!("{} of {} has a row that no element supports", what, found.name());
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

pub(super) fn verify_sorted_set(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let score = |row: &[u8]| row.try_into().ok().map(u64::from_be_bytes);
    let counted = verify_positions(verification, found, |verification, member, row| {
        let Some(score) = score(row) else {
            let what = format!("a member of {} has no score", found.name());
            verification.found(what, Vec::new());
            return;
        };
        verify_index_row(verification, found, "the order", score, member);
    });
    verify_index(verification, found, "the order", score);
    verify_count(verification, found, value, counted);
}

fn verify_index_row(verification: &mut Verification<'_>, found: &Found<'_>, index: &str, number: u64, element: &[u8]) {
    let key = index_key(found, number, element);
    if verification.rows.get_row(&key).is_none() {
        let what = format!("{index} of {} lacks \"{}\"", found.name(), element.escape_ascii());
        let value = Vec::new();
        verification.found(what, vec![Repair::Set { key, value }]);
    }
}

/// The deadline in an element's row; `None` if it has none, or the row is none that a version has
/// written.
fn deadline(row: &[u8]) -> Option<u64> {
    let (1, rest) = row.split_first()? else { return None };
    rest.first_chunk().map(|deadline| u64::from_be_bytes(*deadline))
}

pub(super) fn verify_hash(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let (mut first, mut last, mut expiring) = (None, None, 0);
    let counted = verify_positions(verification, found, |verification, field, row| {
        if let Some(deadline) = deadline(row) {
            first = first.into_iter().chain([deadline]).min();
            last = last.max(Some(deadline));
            expiring += 1;
            verify_index_row(verification, found, "the index of times", deadline, field);
        } else if row.first() != Some(&0) {
            let what = format!("a field of {} has no value that a version has written", found.name());
            verification.found(what, Vec::new());
        }
    });
    verify_index(verification, found, "the index of times", deadline);
    let deadlines = FieldDeadlines {
        first_ms: first,
        last_ms: last.filter(|_| expiring == counted),
    };
    if found.entry.flags & FLAG_B != 0 && found.entry.field_deadlines() != deadlines {
        let what = format!("{} names other times than its fields have", found.name());
        let repair = found.with_bytes(value, 8, &deadlines.to_bytes());
        verification.found(what, vec![repair]);
        return;
    }
    verify_count(verification, found, value, counted);
}

/// Verifies that the blocks between the ends of a list follow each other, each at its place. If
/// they do not, the readable blocks are moved together.
pub(super) fn verify_blocks(verification: &mut Verification<'_>, found: &Found<'_>, value: &[u8]) {
    let Some(ends) = Ends::of(found.entry) else {
        return;
    };
    let blocks_start = ends.blocks_start;
    let mut next = blocks_start;
    let mut is_sound = true;
    visit_blocks(verification, found, |place, elements, _| {
        is_sound &= elements > 0 && place.is_some() && place == ends.place_of(next);
        next = next.saturating_add_unsigned(elements);
    });
    let counted = (ends.head.len() + ends.tail.len()) as u64 + next.abs_diff(blocks_start);
    if is_sound {
        return verify_count(verification, found, value, counted);
    }
    let (prefix, end) = found.elements();
    let mut repairs = vec![Repair::ClearRange {
        start: prefix.clone(),
        end,
    }];
    next = blocks_start;
    visit_blocks(verification, found, |_, elements, block| {
        if elements > 0 {
            let key = [prefix.as_slice(), &position_key(next)].concat();
            let value = block.to_vec();
            repairs.push(Repair::Set { key, value });
            next = next.saturating_add_unsigned(elements);
        }
    });
    repairs.push(match counted {
        0 => Repair::Clear {
            key: found.row_key.to_vec(),
        },
        _ => found.with_number(&without_shifts(found.entry, value), 0, counted),
    });
    verification.found(
        format!("the blocks of {} do not follow each other", found.name()),
        repairs,
    );
}

/// Visits the rows of a list in blocks: place, how many elements (none if it is no block), bytes.
fn visit_blocks(verification: &Verification<'_>, found: &Found<'_>, mut visit: impl FnMut(Option<i64>, u64, &[u8])) {
    let (prefix, end) = found.elements();
    verification.rows.scan(&prefix, &end, false, &mut |key, block| {
        let elements = if packed::is_whole(block) {
            packed::count(block)
        } else {
            0
        };
        visit(position_of(&key[ELEMENTS_PREFIX_BYTES..]), elements as u64, block);
        ControlFlow::Continue(())
    });
}
