//! An index's rows as `quartet_search` sees them: those of a transaction, or these with changes
//! that stay in memory.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use quartet_engine::Row;
use quartet_engine::Transaction;
use quartet_search::rows::{KeyRange, Rows, Visit, VisitIds, WriteRows, numbered};

/// The rows of one index inside a transaction.
pub struct TransactionRows<'r, 't> {
    pub tx: &'r mut Transaction<'t>,
    pub prefix: Vec<u8>,
}

impl TransactionRows<'_, '_> {
    /// The row at a key, to be kept.
    pub fn row_at(&mut self, key: &[u8]) -> Option<Row> {
        self.tx.get_parts(&[&self.prefix, key])
    }

    fn row(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }
}

impl Rows for TransactionRows<'_, '_> {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let row = self.tx.get_parts(&[&self.prefix, key])?;
        Some(row.value().to_vec())
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        let row = self.tx.get_parts(&[&self.prefix, key]);
        row.map(|row| visit(row.value())).is_some()
    }

    fn show_each(&mut self, tag: u8, numbers: &[u64], bytes: usize, visit: &mut dyn FnMut(usize, &[u8])) {
        let prefix = self.row(&[tag]);
        let rows = self
            .tx
            .get_each(&prefix, numbers.iter().map(|number| number.to_be_bytes()));
        rows.iter().flatten().for_each(|row| row.prefetch_bytes(bytes));
        for (at, row) in rows.iter().enumerate() {
            if let Some(row) = row {
                visit(at, row.value());
            }
        }
    }

    fn scan_ids(&mut self, keys: KeyRange<'_>, key_bytes: usize, visit: VisitIds<'_>) {
        let (start, end) = (self.row(keys.start), self.row(keys.end));
        let key_bytes = self.prefix.len() + key_bytes;
        if start < end {
            self.tx.scan_numbers(&start..&end, key_bytes, visit);
        }
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        let (start, end, prefix) = (self.row(start), self.row(end), self.prefix.len());
        if start >= end {
            return;
        }
        self.tx.scan(&start, &end, false, &mut |row| {
            visit(&Transaction::layer_key(row)[prefix..], row.value())
        });
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        let (start, end) = (self.row(start), self.row(end));
        if start < end { self.tx.count(&start, &end) } else { 0 }
    }
}

impl WriteRows for TransactionRows<'_, '_> {
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.tx.set_parts(&[&self.prefix, key], &[value]);
    }

    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]) {
        self.tx.patch_parts(&[&self.prefix, key], offset, bytes);
    }

    fn clear(&mut self, key: &[u8]) {
        self.tx.clear_parts(&[&self.prefix, key]);
    }
}

/// Rows with private changes: a search removes documents with expired keys, and writes nothing.
pub struct Overlay<R> {
    below: R,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<R: Rows> Overlay<R> {
    pub fn new(below: R) -> Overlay<R> {
        Overlay {
            below,
            changes: BTreeMap::new(),
        }
    }

    fn changed(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Option<Vec<u8>>)> {
        let bounds = (Bound::Included(start.to_vec()), Bound::Excluded(end.to_vec()));
        let range = (start < end).then(|| self.changes.range(bounds));
        range.into_iter().flatten()
    }
}

impl<R: Rows> Rows for Overlay<R> {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.below.get(key),
        }
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        match self.changes.get(key) {
            Some(changed) => changed.as_deref().map(visit).is_some(),
            None => self.below.show(key, visit),
        }
    }

    fn show_each(&mut self, tag: u8, numbers: &[u64], bytes: usize, visit: &mut dyn FnMut(usize, &[u8])) {
        if self.changes.is_empty() {
            return self.below.show_each(tag, numbers, bytes, visit);
        }
        for (at, number) in numbers.iter().enumerate() {
            self.show(&numbered(tag, *number), &mut |value| visit(at, value));
        }
    }

    fn scan_ids(&mut self, keys: KeyRange<'_>, key_bytes: usize, visit: VisitIds<'_>) {
        if self.changes.is_empty() {
            return self.below.scan_ids(keys, key_bytes, visit);
        }
        self.scan(keys.start, keys.end, &mut |key, _| {
            let id = key.last_chunk().expect("the key ends with an id");
            visit(&[u64::from_be_bytes(*id)])
        });
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        if self.changes.is_empty() {
            return self.below.scan(start, end, visit);
        }
        let changed: Vec<_> = self
            .changed(start, end)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut changed = changed.into_iter().peekable();
        let mut is_over = false;
        self.below.scan(start, end, &mut |key, value| {
            while let Some((own, value)) = changed.next_if(|(own, _)| own.as_slice() < key) {
                if value.is_some_and(|value| visit(&own, &value).is_break()) {
                    is_over = true;
                    return ControlFlow::Break(());
                }
            }
            let step = match changed.next_if(|(own, _)| own.as_slice() == key) {
                Some((_, Some(value))) => visit(key, &value),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            is_over = step.is_break();
            step
        });
        if is_over {
            return;
        }
        for (key, value) in changed {
            if let Some(value) = value
                && visit(&key, &value).is_break()
            {
                return;
            }
        }
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        let changed: Vec<_> = self
            .changed(start, end)
            .map(|(key, value)| (key.clone(), value.is_some()))
            .collect();
        let mut count = self.below.count(start, end);
        for (key, is_there) in changed {
            match (self.below.get(&key).is_some(), is_there) {
                (false, true) => count += 1,
                (true, false) => count -= 1,
                _ => {}
            }
        }
        count
    }
}

impl<R: Rows> WriteRows for Overlay<R> {
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.changes.insert(key.to_vec(), Some(value.to_vec()));
    }

    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]) {
        let mut value = self.get(key).unwrap_or_default();
        value.resize(value.len().max(offset + bytes.len()), 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.set(key, &value);
    }

    fn clear(&mut self, key: &[u8]) {
        self.changes.insert(key.to_vec(), None);
    }
}

#[cfg(test)]
mod tests {
    use quartet_search::rows::MemoryRows;

    use super::*;

    /// Ids and rows of numbers of an overlay are those of a map with the same changes.
    #[test]
    fn an_overlay_has_the_ids_that_it_has_written() {
        let mut below = MemoryRows::default();
        (0..20).for_each(|id| below.set(&numbered(b'd', id * 3), &[id as u8]));
        let mut written = below.clone();
        let mut overlay = Overlay::new(below);
        for changes in 0..2 {
            let ids: Vec<u64> = (0..70).collect();
            let seen = |rows: &mut dyn Rows| {
                let (mut read_ids, mut values) = (Vec::new(), Vec::new());
                let (start, end) = (numbered(b'd', 4), numbered(b'd', 65));
                let keys = KeyRange {
                    start: &start,
                    end: &end,
                };
                rows.scan_ids(keys, start.len(), &mut |ids| {
                    read_ids.extend_from_slice(ids);
                    ControlFlow::Continue(())
                });
                rows.show_each(b'd', &ids, 1, &mut |at, value| values.push((ids[at], value.to_vec())));
                (read_ids, values)
            };
            let expected = seen(&mut written);
            assert_eq!(seen(&mut overlay), expected, "{changes}");
            let changes: [&mut dyn WriteRows; 2] = [&mut overlay, &mut written];
            for rows in changes {
                rows.clear(&numbered(b'd', 9));
                rows.set(&numbered(b'd', 10), b"new");
                rows.set(&numbered(b'd', 12), b"changed");
            }
        }
    }

    /// Scans and counts of an overlay are those of a map with the same changes.
    #[test]
    fn an_overlay_reads_as_if_it_had_written() {
        let mut below = MemoryRows::default();
        [b"b", b"d", b"f"].iter().for_each(|key| below.set(*key, b"old"));
        let mut written = below.clone();
        let mut overlay = Overlay::new(below);
        let changes: [&mut dyn WriteRows; 2] = [&mut overlay, &mut written];
        for rows in changes {
            rows.set(b"a", b"new");
            rows.set(b"d", b"new");
            rows.set(b"g", b"new");
            rows.clear(b"f");
            rows.clear(b"z");
            rows.patch(b"b", 1, b"##");
        }
        for (start, end) in [("a", "z"), ("b", "e"), ("e", "g"), ("c", "a"), ("f", "h")] {
            let (start, end) = (start.as_bytes(), end.as_bytes());
            assert_eq!(overlay.count(start, end), written.count(start, end));
            for limit in 1..6 {
                let of = |rows: &mut dyn Rows| {
                    let mut seen = Vec::new();
                    rows.scan(start, end, &mut |key, value| {
                        seen.push((key.to_vec(), value.to_vec()));
                        if seen.len() < limit {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    });
                    seen
                };
                assert_eq!(of(&mut overlay), of(&mut written));
            }
        }
    }
}
