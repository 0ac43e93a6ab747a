//! Large lists as versions before the blocks have written them: a row for each element. They are read as they are; the first change
//! of such a list puts it into blocks.
//!
//! ```text
//! payload: id (10 bytes), count, first, last (8 bytes each, big-endian)
//! element row: position, order-preserving -> the element
//! ```
//!
//! Positions ascend with gaps between them; `first` and `last` bound them and need not be taken.

use std::ops::ControlFlow;

use crate::keyspace::{Elements, Entry, Keyspace};

/// Visits the elements from an end, but for the first `skip`, until `visit` breaks.
pub fn scan(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    backwards: bool,
    mut skip: u64,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) {
    let elements = entry.elements();
    let mut start = Vec::new();
    if !backwards && skip > 0 {
        let Some(row) = elements.nth(keys.tx, b"", std::mem::take(&mut skip)) else {
            return;
        };
        start = Elements::name(&row).to_vec();
    }
    elements.scan(keys.tx, &start, None, backwards, &mut |_, value| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        visit(value)
    });
}
