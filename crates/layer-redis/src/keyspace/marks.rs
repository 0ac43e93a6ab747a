//! Marks: rows by which keys of modules are found by something else than their names.
//!
//! ```text
//! 'M' db 0 id name                   a key with LISTED_BY_ID; no value
//! 'M' db 1 attribute value name      a key with MARKED, for each of its marks; no value
//!
//! attribute, value: zeros as 0 ff, ended by 0 1, so that rows are in the order of the texts
//! payload of a key with MARKED: id | bytes of the marks u32 | (length u32 | text)*, attributes and
//!                               values in turn | the module's own bytes; numbers are big-endian
//! ```
//!
//! Only [`Keyspace`] writes them, with the key and from its payload, so code that moves, copies,
//! replaces or removes a key need not know of them.

use std::ops::ControlFlow;

use quartet_engine::{Transaction, UniqueId};

use crate::keyspace::{FLAG_A, FLAG_B, Keyspace, Kind, LARGE};

/// The payload has marks. Only for large collections of modules.
pub const MARKED: u8 = FLAG_A;
/// The key is found by the id of its elements. Only for large collections of modules.
pub const LISTED_BY_ID: u8 = FLAG_B;

const ID_BYTES: usize = 10;
const BY_ID: u8 = 0;
const BY_MARK: u8 = 1;

/// An attribute and its value.
pub type Mark<'m> = (&'m [u8], &'m [u8]);

/// Returns the marks as they are in a payload, their length first.
pub fn to_bytes<'m>(marks: impl IntoIterator<Item = Mark<'m>>) -> Vec<u8> {
    let mut out = vec![0; 4];
    for text in marks.into_iter().flat_map(|(attribute, value)| [attribute, value]) {
        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        out.extend_from_slice(text);
    }
    let bytes = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&bytes.to_be_bytes());
    out
}

/// Splits what follows the id in a payload into the marks and the module's own bytes; `None` if no
/// version has written it.
pub fn split(payload: &[u8]) -> Option<(Vec<Mark<'_>>, &[u8])> {
    let (mut marks, own) = taken(payload)?;
    let mut all = Vec::new();
    while !marks.is_empty() {
        let (attribute, tail) = taken(marks)?;
        let (value, tail) = taken(tail)?;
        all.push((attribute, value));
        marks = tail;
    }
    Some((all, own))
}

/// Returns the module's own bytes of a payload with marks, as [`split`] does.
pub fn behind(payload: &[u8]) -> Option<&[u8]> {
    taken(payload).map(|(_, own)| own)
}

fn taken(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, tail) = bytes.split_first_chunk()?;
    tail.split_at_checked(u32::from_be_bytes(*length) as usize)
}

fn append_escaped(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// Reads a text that [`append_escaped`] wrote, and returns the rest.
fn unescaped(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    let mut remaining = bytes;
    loop {
        match remaining {
            [0, 1, tail @ ..] => return Some((text, tail)),
            [0, 0xff, tail @ ..] => {
                text.push(0);
                remaining = tail;
            }
            [0, ..] | [] => return None,
            [byte, tail @ ..] => {
                text.push(*byte);
                remaining = tail;
            }
        }
    }
}

fn by_id(db: u8, id: &[u8]) -> Vec<u8> {
    [&[b'M', db, BY_ID], id].concat()
}

/// The start of the rows with these texts: an attribute, and perhaps its value.
fn by_mark(db: u8, texts: &[&[u8]]) -> Vec<u8> {
    let mut row = vec![b'M', db, BY_MARK];
    texts.iter().for_each(|text| append_escaped(text, &mut row));
    row
}

fn end_of(start: &[u8]) -> Vec<u8> {
    quartet_model::next_prefix(start)
}

/// The rows of a key with this payload.
pub(crate) fn rows(db: u8, name: &[u8], flags: u8, payload: &[u8]) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    if flags & LISTED_BY_ID != 0 {
        rows.push([by_id(db, &payload[..ID_BYTES]).as_slice(), name].concat());
    }
    let marks = (flags & MARKED != 0).then(|| split(&payload[ID_BYTES..])).flatten();
    for (attribute, value) in marks.map(|(marks, _)| marks).unwrap_or_default() {
        let mut row = by_mark(db, &[attribute, value]);
        row.extend_from_slice(name);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// Returns true if keys of this kind with these flags have rows here.
#[inline]
pub(crate) fn are_of(kind: Kind, flags: u8) -> bool {
    flags & LARGE != 0 && flags & (MARKED | LISTED_BY_ID) != 0 && matches!(kind, Kind::Module(_))
}

/// Replaces the rows of a key.
pub(super) fn replace(tx: &mut Transaction<'_>, old: &[Vec<u8>], new: &[Vec<u8>]) {
    for row in old.iter().filter(|row| !new.contains(row)) {
        tx.clear(row);
    }
    for row in new.iter().filter(|row| !old.contains(row)) {
        tx.set(row, b"");
    }
}

/// A row here, read back: the key's database and name.
pub(crate) fn key_of(row: &[u8]) -> Option<(u8, Vec<u8>)> {
    match row {
        [b'M', db, BY_ID, tail @ ..] => tail.get(ID_BYTES..).map(|name| (*db, name.to_vec())),
        [b'M', db, BY_MARK, tail @ ..] => {
            let (_, tail) = unescaped(tail)?;
            let (_, name) = unescaped(tail)?;
            Some((*db, name.to_vec()))
        }
        _ => None,
    }
}

impl Keyspace<'_, '_> {
    /// The name of the key with this id; `None` if no key is listed under it.
    pub fn name_by_id(&mut self, id: &UniqueId) -> Option<Vec<u8>> {
        let start = by_id(self.db, id);
        let mut entry = None;
        self.tx.scan(&start, &end_of(&start), false, &mut |row| {
            entry = Some(Transaction::layer_key(row)[start.len()..].to_vec());
            ControlFlow::Break(())
        });
        entry
    }

    /// The number of keys with this mark, expired keys that still have rows included.
    pub fn count_marked(&mut self, attribute: &[u8], value: &[u8]) -> u64 {
        let start = by_mark(self.db, &[attribute, value]);
        self.tx.count(&start, &end_of(&start))
    }

    /// Visits the names of keys with this mark in their order, expired keys that still have rows
    /// included.
    pub fn each_marked(&mut self, attribute: &[u8], value: &[u8], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) {
        let start = by_mark(self.db, &[attribute, value]);
        self.tx.scan(&start, &end_of(&start), false, &mut |row| {
            visit(&Transaction::layer_key(row)[start.len()..])
        });
    }

    /// Visits the names of attributes that keys have, each once, or with `attribute` its values.
    pub fn each_mark_text(&mut self, attribute: Option<&[u8]>, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) {
        let prefix = by_mark(self.db, attribute.as_slice());
        let end = end_of(&prefix);
        let mut start = prefix.clone();
        loop {
            let mut entry = None;
            self.tx.scan(&start, &end, false, &mut |row| {
                entry = unescaped(&Transaction::layer_key(row)[prefix.len()..]).map(|(text, _)| text);
                ControlFlow::Break(())
            });
            let Some(text) = entry.filter(|text| visit(text).is_continue()) else {
                return;
            };
            start.truncate(prefix.len());
            append_escaped(&text, &mut start);
            start = end_of(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back_and_damaged_marks_are_none() {
        let marks: [Mark<'_>; 3] = [(b"a", b"1"), (b"a\0b", b""), (b"", b"\0\xff")];
        let bytes = [to_bytes(marks).as_slice(), b"own"].concat();
        assert_eq!(split(&bytes), Some((marks.to_vec(), b"own".as_slice())));
        for length in 0..bytes.len() - 3 {
            assert_eq!(split(&bytes[..length]), None, "{length}");
        }
        let payload = [[7; ID_BYTES].as_slice(), &bytes].concat();
        for row in rows(3, b"name", MARKED | LISTED_BY_ID, &payload) {
            assert_eq!(key_of(&row), Some((3, b"name".to_vec())));
        }
    }
}
