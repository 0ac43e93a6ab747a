//! Cached rows of vector sets by the numbers of their elements, from one command to the next.
//!
//! A walk through a graph reads some thousand rows. Each is a look-up in the tree of all rows, or
//! in an array of handles to the same rows, which this module keeps. Rows are added when they are
//! read, so nothing is built, and nothing is copied.
//!
//! The handles belong to one state of a graph: the state with exactly the row that is held here,
//! its mark. The mark is the row that records how far elements are linked, or the key's row if
//! there is none. Each change of nodes ends with a new mark, and a rollback restores the old one,
//! so no other state has it. A vector never changes, as each has a number of its own. A row newer
//! than the mark is not added: a transaction that will be refused may have written it without
//! writing the mark.

use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use quartet_engine::Row;
use quartet_engine::{Memory, Reserved, UniqueId};
use quartet_model::Version;
use quartet_search::rows::Visit;
use quartet_search::rows::{Rows, WriteRows};
use quartet_search::vectors::set::{Head, NODES, VECTORS};

use crate::indexes::rows::TransactionRows;

/// The part of the memory's budget that handles may take.
const SHARE: u64 = 16;

/// Bytes that they may take where there is no budget.
const BYTES_MAX: u64 = 1 << 30;

/// A set that no command has used during this many calls of [`ResidentSets::count`] is forgotten.
const IDLE_MAX: u32 = 100;

const PAGE_SLOTS: usize = 256;

/// Pages, most of them empty, for each that may be in use.
const PAGES_OF_ONE_IN_USE: usize = 16;

/// Sets with cached rows.
#[derive(Default)]
pub struct ResidentSets {
    sets: Mutex<Sets>,
}

#[derive(Default)]
struct Sets {
    /// By the id of the set's elements.
    known: BTreeMap<UniqueId, Known>,
    reserved: Option<Reserved>,
}

struct Known {
    mark: Row,
    rows: Arc<ResidentRows>,
    idle: u32,
}

impl ResidentSets {
    /// For a command that reads a set in the state that has this mark. None if another state is
    /// kept that is newer.
    pub fn of_state(&self, id: &UniqueId, mark: &Row, head: &Head) -> Option<Arc<ResidentRows>> {
        let mut sets = self.sets.lock();
        match sets.known.get_mut(id) {
            Some(set) if is_same(&set.mark, mark) => {
                set.idle = 0;
                return Some(set.rows.clone());
            }
            Some(set) if set.mark.version() > mark.version() => return None,
            _ => {}
        }
        let rows = Arc::new(ResidentRows::new(head, mark.version()));
        sets.known.insert(*id, Known::new(mark, rows.clone()));
        Some(rows)
    }

    /// For a transaction that changes a set from the state that has this mark, or makes it. Give
    /// them back with [`ResidentSets::put`] once the set has its new mark.
    pub fn take(&self, id: &UniqueId, mark: Option<&Row>, head: &Head) -> Arc<ResidentRows> {
        let set = self.sets.lock().known.remove(id);
        let set = set.filter(|set| mark.is_some_and(|mark| is_same(&set.mark, mark)));
        let newest = mark.map_or(Version(0), Row::version);
        let mut rows = set.map_or_else(|| Arc::new(ResidentRows::new(head, newest)), |set| set.rows);
        // A search beside us may use them too.
        if let Some(own) = Arc::get_mut(&mut rows) {
            own.grow(head);
        }
        rows
    }

    /// The set's rows are now those of the state that has this mark, after `old`. They are
    /// forgotten if nodes have changed and the mark has not: the transaction is too large.
    pub fn put(&self, id: &UniqueId, old: Option<&Row>, mark: &Row, rows: ChangedRows) {
        let has_old = old.is_some_and(|old| is_same(old, mark));
        if rows.is_changed && has_old {
            return;
        }
        let mut rows = rows.rows;
        match Arc::get_mut(&mut rows) {
            Some(own) => own.newest = mark.version(),
            None if has_old => {}
            None => return,
        }
        self.sets.lock().known.insert(*id, Known::new(mark, rows));
    }

    /// Counts what the handles take. Forgets those of sets that are not in use, and all when they
    /// take too much or memory is short. Call it about ten times a second.
    pub fn count(&self, memory: &Arc<Memory>) {
        let mut sets = self.sets.lock();
        sets.known.retain(|_, set| {
            set.idle += 1;
            set.idle <= IDLE_MAX
        });
        let bytes: u64 = sets.known.values().map(|set| set.rows.bytes()).sum();
        let bytes_max = memory.budget().map_or(BYTES_MAX, |budget| budget / SHARE);
        if sets.known.is_empty() || bytes > bytes_max || memory.is_short() {
            *sets = Sets::default();
            return;
        }
        let reserved = sets.reserved.get_or_insert_with(|| Reserved::new(memory.clone()));
        reserved.set(bytes);
    }

    /// Forgets all.
    #[cfg(test)]
    pub fn forget(&self) {
        *self.sets.lock() = Sets::default();
    }
}

impl Known {
    fn new(mark: &Row, rows: Arc<ResidentRows>) -> Known {
        Known {
            mark: mark.clone(),
            rows,
            idle: 0,
        }
    }
}

/// Returns true if both are handles of one row: as long as one is held, no other row has that
/// address.
fn is_same(row: &Row, other: &Row) -> bool {
    std::ptr::eq(row.key().as_ptr(), other.key().as_ptr())
}

/// The cached rows of one set.
pub struct ResidentRows {
    pages: Vec<OnceLock<Box<Page>>>,
    page_count: AtomicUsize,
    page_count_max: usize,
    /// Newer rows are not added.
    newest: Version,
}

/// A vector and a node for each of [`PAGE_SLOTS`] numbers.
type Page = [[OnceLock<Row>; 2]; PAGE_SLOTS];

impl ResidentRows {
    fn new(head: &Head, newest: Version) -> ResidentRows {
        let mut rows = ResidentRows {
            pages: Vec::new(),
            page_count: AtomicUsize::new(0),
            page_count_max: 0,
            newest,
        };
        rows.grow(head);
        rows
    }

    /// Makes room for one more element. Where few of the numbers are in use, some rows stay out: a
    /// restored set may have any numbers.
    fn grow(&mut self, head: &Head) {
        self.page_count_max = head.count as usize / 16 + 16;
        let pages = (head.last_id + 1) as usize / PAGE_SLOTS + 1;
        let pages = pages.min(PAGES_OF_ONE_IN_USE * self.page_count_max);
        self.pages.resize_with(pages.max(self.pages.len()), OnceLock::new);
    }

    fn bytes(&self) -> u64 {
        let pages = self.page_count.load(Ordering::Relaxed) * size_of::<Page>();
        (pages + self.pages.len() * size_of::<OnceLock<Box<Page>>>()) as u64
    }

    #[inline]
    fn get(&self, slot: usize, number: u64) -> Option<&Row> {
        let page = self.pages.get(number as usize / PAGE_SLOTS)?.get()?;
        page[number as usize % PAGE_SLOTS][slot].get()
    }

    fn keep(&self, slot: usize, number: u64, row: &Row) {
        let Some(page) = self.pages.get(number as usize / PAGE_SLOTS) else {
            return;
        };
        let is_full = || self.page_count.load(Ordering::Relaxed) >= self.page_count_max;
        if row.version() > self.newest || page.get().is_none() && is_full() {
            return;
        }
        let page = page.get_or_init(|| {
            self.page_count.fetch_add(1, Ordering::Relaxed);
            Box::new(array::from_fn(|_| Default::default()))
        });
        _ = page[number as usize % PAGE_SLOTS][slot].set(row.clone());
    }

    fn forget(&mut self, slot: usize, number: u64) {
        let page = self.pages.get_mut(number as usize / PAGE_SLOTS);
        if let Some(page) = page.and_then(OnceLock::get_mut) {
            page[number as usize % PAGE_SLOTS][slot].take();
        }
    }
}

/// The cached rows of a set after a transaction.
pub struct ChangedRows {
    rows: Arc<ResidentRows>,
    is_changed: bool,
}

/// The rows of a set in a transaction, some of them cached.
pub struct SetRows<'r, 't> {
    rows: TransactionRows<'r, 't>,
    resident: Option<Arc<ResidentRows>>,
    /// Nodes have changed.
    is_changed: bool,
}

impl<'r, 't> SetRows<'r, 't> {
    pub fn new(rows: TransactionRows<'r, 't>, resident: Option<Arc<ResidentRows>>) -> SetRows<'r, 't> {
        SetRows {
            rows,
            resident,
            is_changed: false,
        }
    }

    pub fn with_resident(self, resident: Option<Arc<ResidentRows>>) -> SetRows<'r, 't> {
        SetRows { resident, ..self }
    }

    /// The cached rows, with the changes.
    pub fn into_changed(self) -> Option<ChangedRows> {
        let is_changed = self.is_changed;
        self.resident.map(|rows| ChangedRows { rows, is_changed })
    }

    /// The row is about to change.
    fn forget(&mut self, key: &[u8]) {
        let Some((slot, number)) = slot_of(key) else { return };
        self.is_changed |= key[0] == NODES;
        let Some(resident) = &mut self.resident else { return };
        let is_new_vector = key[0] == VECTORS && resident.get(slot, number).is_none();
        match Arc::get_mut(resident) {
            Some(own) => own.forget(slot, number),
            // No other transaction looks for it.
            None if is_new_vector => {}
            None => self.resident = None,
        }
    }
}

/// The slot of a key's row, if it is a vector's or a node's.
fn slot_of(key: &[u8]) -> Option<(usize, u64)> {
    let (tag, number) = key.split_first()?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((slot_of_tag(*tag)?, number))
}

fn slot_of_tag(tag: u8) -> Option<usize> {
    match tag {
        VECTORS => Some(0),
        NODES => Some(1),
        _ => None,
    }
}

impl Rows for SetRows<'_, '_> {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = None;
        self.show(key, &mut |bytes| value = Some(bytes.to_vec()));
        value
    }

    fn show(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        match slot_of(key) {
            Some((_, number)) => self.show_numbered(key[0], number, visit),
            None => self.rows.show(key, visit),
        }
    }

    fn show_numbered(&mut self, tag: u8, number: u64, visit: &mut dyn FnMut(&[u8])) -> bool {
        let resident = self.resident.as_deref().zip(slot_of_tag(tag));
        if let Some(row) = resident.and_then(|(resident, slot)| resident.get(slot, number)) {
            visit(row.value());
            return true;
        }
        let row = self.rows.row_at(&quartet_search::rows::numbered(tag, number));
        if let Some((row, (resident, slot))) = row.as_ref().zip(resident) {
            resident.keep(slot, number, row);
        }
        row.map(|row| visit(row.value())).is_some()
    }

    fn fetch_numbered(&mut self, tag: u8, number: u64, bytes: usize) {
        let resident = self.resident.as_deref().zip(slot_of_tag(tag));
        if let Some(row) = resident.and_then(|(resident, slot)| resident.get(slot, number)) {
            row.prefetch_bytes(bytes);
        }
    }

    fn scan(&mut self, start: &[u8], end: &[u8], visit: Visit<'_>) {
        self.rows.scan(start, end, visit);
    }

    fn count(&mut self, start: &[u8], end: &[u8]) -> u64 {
        self.rows.count(start, end)
    }
}

impl WriteRows for SetRows<'_, '_> {
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.forget(key);
        self.rows.set(key, value);
    }

    fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8]) {
        self.forget(key);
        self.rows.patch(key, offset, bytes);
    }

    fn clear(&mut self, key: &[u8]) {
        self.forget(key);
        self.rows.clear(key);
    }
}
