//! Codes of the vectors of all indexes, and their graphs, in the process' one budget of memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_engine::{Memory, Reserved, UniqueId};
use quartet_search::vectors::flat::Codes;

/// The part of the budget that codes may take.
const SHARE: u64 = 8;

/// Bytes that they may take where there is no budget.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Default)]
pub struct AllCodes {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    of_indexes: BTreeMap<UniqueId, Arc<Codes>>,
    reserved: Option<Reserved>,
}

impl AllCodes {
    /// Those of the index with this number; nothing while memory is short.
    pub fn of(&self, number: &UniqueId, memory: &Arc<Memory>) -> Option<Arc<Codes>> {
        let mut codes_kept = self.kept.lock();
        if memory.is_short() {
            *codes_kept = Kept::default();
            return None;
        }
        let bytes_max = memory.budget().map_or(BYTES_MAX, |budget| budget / SHARE);
        let codes = codes_kept.of_indexes.entry(*number).or_default().clone();
        let bytes_of_others = codes_kept.bytes().saturating_sub(codes.bytes() as u64);
        codes.set_bytes_max(bytes_max.saturating_sub(bytes_of_others) as usize);
        Some(codes)
    }

    /// Counts their memory. Drops the codes of removed indexes, and all while memory is short. Call
    /// it at intervals.
    pub fn count(&self, memory: &Arc<Memory>, is_there: impl Fn(&UniqueId) -> bool) {
        let mut all = self.kept.lock();
        all.of_indexes.retain(|number, _| is_there(number));
        if memory.is_short() || all.of_indexes.is_empty() {
            *all = Kept::default();
            return;
        }
        let bytes = all.bytes();
        let reserved = all.reserved.get_or_insert_with(|| Reserved::new(memory.clone()));
        reserved.set(bytes);
    }
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.of_indexes.values().map(|codes| codes.bytes() as u64).sum()
    }
}
