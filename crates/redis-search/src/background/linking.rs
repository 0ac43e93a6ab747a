//! Elements of vector sets and of vector indexes that wait are linked into their graphs, some at a
//! time. A row says which sets to look at, so that those of a database that was just opened are
//! known too.

use std::sync::atomic::Ordering;

use quartet_engine::{Transaction, UniqueId};
use quartet_search::vectors::set::linking::{self, Prepared};

use crate::commands::vector_sets::{graph_row, rows_below, waiting_row};
use crate::indexes::SetRows;
use crate::state::Search;

/// Elements that are linked in one transaction, at most, and about how many bytes of their vectors:
/// it holds the lock while it writes their nodes.
const LINKED_MAX: usize = 32;
const LINKED_BYTES: usize = 64 << 10;

/// Elements that are linked with the lock held, if the graph has changed since it was frozen.
const LINKED_WITH_LOCK: usize = 4;

impl Search<'_> {
    /// Links some elements of one set. Other requests continue while it searches their neighbours.
    /// `None` if it may rest; otherwise whether there has been no write since the last step.
    pub fn link_set_step(&self) -> Option<bool> {
        let mut partition = self.layer.read_in_time().ok()?;
        let chosen = partition.execute(self.layer.space, |tx| -> Result<_, ()> { Ok(any_waiting(tx)) });
        let Ok(Ok((Some(id), _))) = chosen else { return None };
        let mut frozen = partition.freeze(self.layer.space);
        drop(partition);
        let is_alone = self.indexes.linked.load(Ordering::Relaxed) == frozen.version.0;
        let prepared = {
            let mut tx = frozen.transaction();
            let prepared = self.prepare_set(&mut tx, &id);
            prepared.filter(|_| !tx.is_unreadable())
        };
        drop(frozen);
        let mut partition = self.layer.partition_in_time().ok()?;
        let written = partition.execute(self.layer.space, |tx| -> Result<u64, ()> {
            self.write_links(tx, &id, prepared);
            Ok(tx.commit_version().0)
        });
        let (version, _) = written.ok()?;
        self.indexes.linked.store(version, Ordering::Relaxed);
        Some(is_alone)
    }

    fn prepare_set(&self, tx: &mut Transaction<'_>, id: &UniqueId) -> Option<Prepared> {
        let mark = graph_row(id, tx)?;
        let rows = rows_below(id, tx);
        let mut rows = SetRows::new(rows, None);
        let head = linking::graph_of(&mut rows)?;
        if self.layer.engine.is_all_in_memory() {
            let resident = self.indexes.resident_sets.of_state(id, &mark, &head);
            rows = rows.with_resident(resident);
        }
        let bytes = head.quantization.code_bytes(head.dimensions).max(1);
        linking::prepare(&mut rows, (LINKED_BYTES / bytes).clamp(1, LINKED_MAX))
    }

    /// Writes what was prepared, or links a few elements if that has become void.
    fn write_links(&self, tx: &mut Transaction<'_>, id: &UniqueId, prepared: Option<Prepared>) {
        let mark = graph_row(id, tx);
        let mut rows = SetRows::new(rows_below(id, tx), None);
        if let Some(head) = linking::graph_of(&mut rows).filter(|_| self.layer.engine.is_all_in_memory()) {
            let resident = self.indexes.resident_sets.take(id, mark.as_ref(), &head);
            rows = rows.with_resident(Some(resident));
        }
        if !prepared.is_some_and(|prepared| prepared.write(&mut rows)) {
            linking::link(&mut rows, LINKED_WITH_LOCK);
        }
        let is_linked = !linking::has_waiting(&mut rows);
        let resident = rows.into_changed();
        if let Some((new, resident)) = graph_row(id, tx).zip(resident) {
            self.indexes.resident_sets.put(id, mark.as_ref(), &new, resident);
        }
        if is_linked {
            tx.clear(&waiting_row(id));
        }
    }
}

/// The id of a set with elements that may wait; other sets follow later.
fn any_waiting(tx: &mut Transaction<'_>) -> Option<UniqueId> {
    let (start, end) = (b"V", b"W");
    let count = tx.count(start, end);
    let row = tx.nth(start, end, tx.now_micros().checked_rem(count)?)?;
    let id = Transaction::layer_key(&row).get(1..)?;
    id.try_into().ok()
}
