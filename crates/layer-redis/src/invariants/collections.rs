//! Large sets, hashes, sorted sets, lists, strings and documents: their counts, and the indexes
//! among their rows. Their bytes: `commands/sets/value.rs`, `commands/hashes/value.rs`,
//! `commands/sorted_sets/value.rs`, `commands/lists/blocks.rs`.

use std::ops::ControlFlow;

use quartet_engine::{Reader, Repair, Verification, decoded};

use crate::commands::json::{self, Json};
use crate::commands::lists::{Ends, position_key, position_of, without_shifts};
use crate::keyspace::stored_key::{ELEMENTS_PREFIX_BYTES, StoredKey};
use crate::keyspace::string_value::{CHUNK_BYTES, INDEX_BYTES, chunked_length, start_of};
use crate::keyspace::{FLAG_B, FieldDeadlines};
use crate::{keyspace::packed, keyspace::scan};

/// Prefixes before the elements of a hash or a sorted set: the rows of an index of their own.
const INDEX: [u8; 8] = [0; 8];

/// Verifies that the count at the start of a collection's row is that of `counted` rows.
pub fn verify_count(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8], counted: u64) {
    let stated = u64::from_be_bytes(stored.entry.large_payload()[..8].try_into().expect("eight bytes"));
    if stated == counted {
        return;
    }
    let message = format!("{} says that it has {stated} elements and has {counted}", stored.name());
    let repair = match counted {
        0 => Repair::Clear {
            key: stored.row_key.to_vec(),
        },
        _ => stored.with_number(value, 0, counted),
    };
    verification.found(message, vec![repair]);
}

/// Rows whose position is that of their element; others are dropped. Answers how many are right.
fn verify_positions(
    verification: &mut Verification<'_>,
    stored: &StoredKey<'_>,
    mut visit: impl FnMut(&mut Verification<'_>, &[u8], &[u8]),
) -> u64 {
    let (prefix, end) = stored.elements();
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
                let message = format!("an element of {} stands where none can be found", stored.name());
                verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
            }
        }
        ControlFlow::Continue(())
    });
    counted
}

/// A string's chunks end where it ends, or before.
pub(super) fn verify_chunks(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let stated = chunked_length(stored.entry.large_payload()).expect("the row of a chunked string");
    let (prefix, end) = stored.elements();
    let rows = verification.rows;
    let mut reached = 0;
    rows.scan(&prefix, &end, false, &mut |key, chunk| {
        let index = &key[ELEMENTS_PREFIX_BYTES..];
        if index.len() == INDEX_BYTES && (1..=CHUNK_BYTES).contains(&chunk.len()) {
            reached = start_of(index) + chunk.len() as u64;
        } else {
            let message = format!("a part of {} is none that a version has written", stored.name());
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
    if reached > stated {
        let message = format!("{} says that it has {stated} bytes and has {reached}", stored.name());
        verification.found(message, vec![stored.with_number(value, 0, reached)]);
    }
}

/// The rows of a document.
struct DocumentRows<'r> {
    rows: &'r Reader,
    prefix: Vec<u8>,
}

impl DocumentRows<'_> {
    fn key(&self, number: u32) -> Vec<u8> {
        [self.prefix.as_slice(), &number.to_be_bytes()].concat()
    }
}

impl json::Pieced for DocumentRows<'_> {
    fn piece(&mut self, number: u32) -> Option<Json> {
        let row = self.rows.get_row(&self.key(number))?;
        decoded(|| Json::stored(&row))
    }

    fn members(&mut self, number: u32) -> Vec<(u32, Option<Json>)> {
        let start = self.key(number);
        let mut members = Vec::new();
        let end = quartet_model::next_prefix(&start);
        self.rows.scan(&start, &end, false, &mut |key, value| {
            let hash = key[start.len()..].try_into().map_or(u32::MAX, u32::from_be_bytes);
            members.push((hash, decoded(|| Json::stored(value))));
            ControlFlow::Continue(())
        });
        members
    }
}

/// Verifies that a document's rows exist, each referenced once, and no others, and that its size is
/// as its key says.
pub(super) fn verify_document(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let (prefix, end) = stored.elements();
    let rows = verification.rows;
    let mut document_rows = DocumentRows { rows, prefix };
    let judged = match json::verify_pieces(&mut document_rows) {
        Ok(judged) => judged,
        Err(message) => return verification.found(format!("{} {message}", stored.name()), Vec::new()),
    };
    let prefix = &document_rows.prefix;
    rows.scan(prefix, &end, false, &mut |key, _| {
        let is_known = match key[ELEMENTS_PREFIX_BYTES..].split_first_chunk() {
            Some((number, suffix)) => {
                let number = u32::from_be_bytes(*number);
                match suffix.len() {
                    0 => judged.pieces.contains(&number),
                    length => length == 4 && judged.wide.contains(&number),
                }
            }
            None => false,
        };
        if !is_known {
            let message = format!("a piece of {} is in no place of it", stored.name());
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
    let stated = json::Head::read(stored.entry.large_payload()).expect("the row of a document in pieces");
    let sizes = [
        ("text", 0, stated.text_bytes, judged.text_bytes),
        ("memory", 8, stated.memory_bytes, judged.memory_bytes),
    ];
    for (of, offset, stated, counted) in sizes {
        if stated != counted {
            let message = format!(
                "{} says that it has {stated} bytes of {of} and has {counted}",
                stored.name()
            );
            verification.found(message, vec![stored.with_number(value, offset, counted)]);
        }
    }
}

pub(super) fn verify_set(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let counted = verify_positions(verification, stored, |_, _, _| {});
    verify_count(verification, stored, value, counted);
}

/// An index row of this collection, relative to the layer.
fn index_key(stored: &StoredKey<'_>, number: u64, element: &[u8]) -> Vec<u8> {
    let (prefix, _) = stored.elements();
    [prefix.as_slice(), &INDEX, &number.to_be_bytes(), element].concat()
}

/// Each index row has its element with that number; others go.
fn verify_index(
    verification: &mut Verification<'_>,
    stored: &StoredKey<'_>,
    index_name: &str,
    number_of: impl Fn(&[u8]) -> Option<u64>,
) {
    let (prefix, _) = stored.elements();
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
            let message = format!("{} of {} has a row that no element supports", index_name, stored.name());
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

pub(super) fn verify_sorted_set(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let score = |row: &[u8]| row.try_into().ok().map(u64::from_be_bytes);
    let counted = verify_positions(verification, stored, |verification, member, row| {
        let Some(score) = score(row) else {
            let message = format!("a member of {} has no score", stored.name());
            verification.found(message, Vec::new());
            return;
        };
        verify_index_row(verification, stored, "the order", score, member);
    });
    verify_index(verification, stored, "the order", score);
    verify_count(verification, stored, value, counted);
}

fn verify_index_row(
    verification: &mut Verification<'_>,
    stored: &StoredKey<'_>,
    index: &str,
    number: u64,
    element: &[u8],
) {
    let key = index_key(stored, number, element);
    if verification.rows.get_row(&key).is_none() {
        let message = format!("{index} of {} lacks \"{}\"", stored.name(), element.escape_ascii());
        let value = Vec::new();
        verification.found(message, vec![Repair::Set { key, value }]);
    }
}

/// The deadline in an element's row; `None` if it has none, or the row is none that a version has
/// written.
fn deadline(row: &[u8]) -> Option<u64> {
    let (1, suffix) = row.split_first()? else { return None };
    suffix.first_chunk().map(|deadline| u64::from_be_bytes(*deadline))
}

pub(super) fn verify_hash(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let (mut first, mut last, mut expiring) = (None, None, 0);
    let counted = verify_positions(verification, stored, |verification, field, row| {
        if let Some(deadline) = deadline(row) {
            first = first.into_iter().chain([deadline]).min();
            last = last.max(Some(deadline));
            expiring += 1;
            verify_index_row(verification, stored, "the index of times", deadline, field);
        } else if row.first() != Some(&0) {
            let message = format!("a field of {} has no value that a version has written", stored.name());
            verification.found(message, Vec::new());
        }
    });
    verify_index(verification, stored, "the index of times", deadline);
    let deadlines = FieldDeadlines {
        first_ms: first,
        last_ms: last.filter(|_| expiring == counted),
    };
    if stored.entry.flags & FLAG_B != 0 && stored.entry.field_deadlines() != deadlines {
        let message = format!("{} names other times than its fields have", stored.name());
        let repair = stored.with_bytes(value, 8, &deadlines.to_bytes());
        verification.found(message, vec![repair]);
        return;
    }
    verify_count(verification, stored, value, counted);
}

/// Verifies that the blocks between the ends of a list follow each other, each at its place. If
/// they do not, the readable blocks are moved together.
pub(super) fn verify_blocks(verification: &mut Verification<'_>, stored: &StoredKey<'_>, value: &[u8]) {
    let Some(ends) = Ends::of(stored.entry) else {
        return;
    };
    let blocks_start = ends.blocks_start;
    let mut next = blocks_start;
    let mut is_sound = true;
    visit_blocks(verification, stored, |place, elements, _| {
        is_sound &= elements > 0 && place.is_some() && place == ends.place_of(next);
        next = next.saturating_add_unsigned(elements);
    });
    let counted = (ends.head.len() + ends.tail.len()) as u64 + next.abs_diff(blocks_start);
    if is_sound {
        return verify_count(verification, stored, value, counted);
    }
    let (prefix, end) = stored.elements();
    let mut repairs = vec![Repair::ClearRange {
        start: prefix.clone(),
        end,
    }];
    next = blocks_start;
    visit_blocks(verification, stored, |_, elements, block| {
        if elements > 0 {
            let key = [prefix.as_slice(), &position_key(next)].concat();
            let value = block.to_vec();
            repairs.push(Repair::Set { key, value });
            next = next.saturating_add_unsigned(elements);
        }
    });
    repairs.push(match counted {
        0 => Repair::Clear {
            key: stored.row_key.to_vec(),
        },
        _ => stored.with_number(&without_shifts(stored.entry, value), 0, counted),
    });
    verification.found(
        format!("the blocks of {} do not follow each other", stored.name()),
        repairs,
    );
}

/// Visits the rows of a list in blocks: place, how many elements (none if it is no block), bytes.
fn visit_blocks(
    verification: &Verification<'_>,
    stored: &StoredKey<'_>,
    mut visit: impl FnMut(Option<i64>, u64, &[u8]),
) {
    let (prefix, end) = stored.elements();
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
