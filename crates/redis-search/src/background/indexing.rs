//! Search indexes are updated inside the transaction that changes the keys, and are filled with
//! existing keys, a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quartet_engine::{Frozen, PartitionGuard, Role, Transaction, UniqueId};
use quartet_layer_redis::module_api::{Command, Selector, Unindexed, User};
use quartet_search::vectors::flat::Codes;
use quartet_search::vectors::hnsw::Prepared;
use quartet_wire_resp::Arguments;

use crate::commands::search::{upkeep, upstash};
use crate::indexes::{Catalogue, Index, IndexFigures, StoredIndex};
use crate::state::Search;

/// Keys that are looked at under one hold of the lock.
const STEP_KEYS: u64 = 4;

/// Duration of one call's filling, or adding of vectors to graphs, in microseconds.
const FILLING_MICROS: u64 = 50_000;

/// Temporary indexes that are dropped in one cycle.
const IDLE_AT_ONCE: usize = 16;

/// Keys of an index that are removed in one transaction.
const REMOVED_KEYS: usize = 64;

/// Interval at which a search that waits for an index checks its progress.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// Changes of an index's graph, with the index's number and what it keeps in memory.
type PreparedLinks = (UniqueId, Option<Arc<Codes>>, Prepared);

/// The error of a write that would have many indexes store more of one key than the bound.
const TOO_MUCH: &str =
    "SEARCH_LIMIT_OVER The key has more bytes for all its indexes together than one write may have them take in";

impl Search<'_> {
    /// Brings indexes up to date with the keys that changed. A write is refused
    /// with its transaction if all indexes together would store too much for it.
    pub fn follow(&self, tx: &mut Transaction<'_>, unindexed: &Unindexed, now_ms: u64) -> Result<(), &'static str> {
        let catalogue = self.indexes.catalogue(tx);
        if !catalogue.is_empty() {
            let keys = &mut self.layer.keyspace(tx, 0, now_ms);
            let mut work = upkeep::Work::of(&unindexed.names);
            upkeep::follow(keys, &catalogue, &mut work, &|index| self.codes_of(index));
            if !work.is_too_much() {
                upstash::upkeep::follow(keys, &catalogue, unindexed, &mut work);
            }
            if work.is_too_much() {
                return Err(TOO_MUCH);
            }
            self.note_covered_names_only(&catalogue);
            return Ok(());
        }
        self.indexes.codes.count(self.layer.engine.memory(), |_| false);
        // Another node of a cluster may make an index while this node is not home.
        if matches!(self.layer.engine.role(), Role::Alone) {
            self.layer.changes.index(false);
        }
        Ok(())
    }

    /// Keys that none of these indexes covers need not be noted, until there is another index.
    fn note_covered_names_only(&self, catalogue: &Catalogue) {
        let mark = catalogue.mark().expect("there are definitions");
        if self.layer.changes.indexes_covered_by(mark) {
            return;
        }
        // The definitions of an unfinished transaction may be rolled back; another node of a
        // cluster may create an index while this node is not home.
        if self.indexes.is_certain() && matches!(self.layer.engine.role(), Role::Alone) {
            self.layer.changes.index_covered(mark, catalogue.watched_prefixes());
        }
    }

    /// Fills incomplete indexes, and settles pending changes of quiet indexes. Call it about ten
    /// times a second.
    pub fn fill_indexes(&self) {
        if !self.layer.changes.are_indexed() {
            return;
        }
        let ends_micros = self.layer.engine.now_micros() + FILLING_MICROS;
        while let Ok(mut partition) = self.layer.partition_in_time() {
            let is_done = self.fill_step(&mut partition);
            drop(partition);
            self.layer.send_outbox();
            if is_done || self.layer.engine.now_micros() > ends_micros {
                break;
            }
            self.layer.engine.give_way();
        }
    }

    /// Takes vectors that wait into their graphs, and makes images of graphs that searches have
    /// looked for. Most of it is done without the lock. Returns after which pause to call it again
    /// for more; while others write it takes a third of a core, which they may need.
    pub fn link_vectors(&self) -> Option<Duration> {
        let began_micros = self.layer.engine.now_micros();
        loop {
            let index_step = self.layer.changes.are_indexed().then(|| self.link_step()).flatten();
            let set_step = self.link_set_step();
            let is_alone = index_step.max(set_step)?;
            let took_micros = self.layer.engine.now_micros().saturating_sub(began_micros);
            if !is_alone {
                return Some(Duration::from_micros(2 * took_micros));
            }
            if took_micros > FILLING_MICROS {
                return Some(Duration::ZERO);
            }
        }
    }

    /// The codes and graphs of an index in memory; nothing while memory is short.
    fn codes_of(&self, index: &Index) -> Option<Arc<Codes>> {
        self.indexes.codes.of(&index.head.number, self.layer.engine.memory())
    }

    /// Adds some of the pending vectors to their graphs. Other requests continue while it searches
    /// their neighbours. `None` if it may rest; otherwise whether there has been no write since the
    /// last step.
    fn link_step(&self) -> Option<bool> {
        let mut partition = self.layer.read_in_time().ok()?;
        let is_idle = partition.execute(self.layer.space, |tx| -> Result<bool, ()> {
            let catalogue = self.indexes.catalogue(tx);
            let mut indexes = catalogue.indexes();
            Ok(!indexes.any(|index| upkeep::has_links_to_make(tx, index, &|index| self.codes_of(index))))
        });
        if !matches!(is_idle, Ok(Ok((false, _)))) {
            return None;
        }
        let mut frozen = partition.freeze(self.layer.space);
        drop(partition);
        let is_alone = self.indexes.linked.load(Ordering::Relaxed) == frozen.version.0;
        let prepared = self.prepare_links(&mut frozen)?;
        drop(frozen);
        let mut partition = self.layer.partition_in_time().ok()?;
        let written = partition.execute(self.layer.space, |tx| -> Result<u64, ()> {
            let catalogue = self.indexes.catalogue(tx);
            for (number, codes, links) in prepared {
                if let Some(index) = catalogue.indexes().find(|index| index.head.number == number) {
                    links.write(&mut upkeep::rows(tx, index.as_ref()), codes.as_deref());
                }
            }
            Ok(tx.commit_version().0)
        });
        let (version, _) = written.ok()?;
        self.indexes.linked.store(version, Ordering::Relaxed);
        Some(is_alone)
    }

    /// The changes of the graphs of all indexes; nothing if there are none.
    fn prepare_links(&self, frozen: &mut Frozen) -> Option<Vec<PreparedLinks>> {
        let mut tx = frozen.transaction();
        let catalogue = self.indexes.catalogue(&mut tx);
        let mut prepared = Vec::new();
        for index in catalogue.indexes() {
            let codes = self.codes_of(index);
            let links = upkeep::prepare_links(&mut tx, index, codes.as_deref());
            prepared.extend(links.into_iter().map(|link| (index.head.number, codes.clone(), link)));
        }
        (!prepared.is_empty() && !tx.is_unreadable()).then_some(prepared)
    }

    /// Returns true if there is nothing more to fill.
    fn fill_step(&self, partition: &mut PartitionGuard<'_>) -> bool {
        let now_ms = partition.now_micros() / 1000;
        let step = partition.execute(self.layer.space, |tx| -> Result<bool, ()> {
            let catalogue = self.indexes.catalogue(tx);
            let mut is_done = true;
            for index in catalogue.indexes() {
                let progress = index.progress(tx);
                self.indexes.paces.note(index.number(), progress, now_ms);
                is_done &= match progress {
                    // Until some of them are in their graphs.
                    Some(_) if upkeep::are_too_many_unlinked(tx, index) => true,
                    Some(progress) => upkeep::fill(
                        &mut self.layer.keyspace(tx, 0, now_ms),
                        index.as_ref(),
                        progress,
                        STEP_KEYS,
                    ),
                    None => {
                        upkeep::settle_quiet(tx, index, self.indexes, now_ms);
                        true
                    }
                };
            }
            let is_there = |number: &_| catalogue.indexes().any(|index| index.head.number == *number);
            self.indexes.codes.count(self.layer.engine.memory(), is_there);
            for index in catalogue.key_indexes() {
                let progress = index.progress(tx);
                self.indexes.paces.note(index.number(), progress, now_ms);
                if let Some(progress) = progress {
                    let keys = &mut self.layer.keyspace(tx, 0, now_ms);
                    is_done &= upstash::upkeep::fill(keys, index, progress, STEP_KEYS);
                }
            }
            Ok(is_done)
        });
        step.map_or(true, |(is_done, _)| is_done)
    }

    /// Removes keys of an index that is to be dropped with them, in batches, until few remain.
    pub fn remove_keys_of_index(&self, name: &[u8], user: &User, command: &'static Command, arguments: Arguments<'_>) {
        self.remove_keys_of(&|catalogue| {
            let index = catalogue.find(name)?;
            let has_keys = |selector: &Selector| selector.has_prefixes(&index.definition.prefixes, true);
            user.allows_with(command, arguments, &has_keys).then(|| index.clone())
        });
    }

    fn remove_keys_of(&self, find: &dyn Fn(&Catalogue) -> Option<Arc<Index>>) {
        let mut remaining = None;
        while let Ok(mut partition) = self.layer.partition_in_time() {
            let now_ms = partition.now_micros() / 1000;
            let removed = partition.execute(self.layer.space, |tx| -> Result<(usize, usize), ()> {
                let catalogue = self.indexes.catalogue(tx);
                let index = find(&catalogue).ok_or(())?;
                let count = upkeep::document_count(tx, &index);
                let names = upkeep::keys_of(tx, &index, REMOVED_KEYS);
                let mut keys = self.layer.keyspace(tx, 0, now_ms);
                names.iter().for_each(|name| _ = keys.remove(name));
                self.layer.follow_changes(tx, now_ms);
                Ok((names.len(), count))
            });
            let Ok(((removed, count), dependency)) = removed else {
                self.layer.changes.take();
                return self.layer.roll_modules_back();
            };
            self.indexes.commit();
            self.layer.tell_removed(dependency);
            drop(partition);
            self.layer.send_outbox();
            // Keys that are written meanwhile are left to the command.
            let remaining = remaining.get_or_insert(count);
            *remaining = remaining.saturating_sub(removed);
            if removed < REMOVED_KEYS || *remaining == 0 {
                return;
            }
            self.layer.engine.give_way();
        }
    }

    /// Drops temporary indexes that have been idle for their time, with their keys.
    pub fn drop_idle_indexes(&self) {
        if !self.layer.changes.are_indexed() {
            return;
        }
        let Ok(mut partition) = self.layer.partition_in_time() else {
            return;
        };
        let now_ms = partition.now_micros() / 1000;
        let idle = partition.execute(self.layer.space, |tx| -> Result<_, ()> {
            let catalogue = self.indexes.catalogue(tx);
            let is_idle = |index: &&Arc<Index>| self.indexes.uses.keep(tx, index, now_ms);
            let idle = catalogue.indexes().filter(is_idle).take(IDLE_AT_ONCE);
            Ok(idle
                .map(|index| (index.head.name.clone(), index.head.number))
                .collect::<Vec<_>>())
        });
        drop(partition);
        for (name, number) in idle.map(|(idle, _)| idle).unwrap_or_default() {
            self.drop_with_keys(&name, &number);
        }
    }

    /// Drops an index with its keys. Another one of its name stays.
    fn drop_with_keys(&self, name: &[u8], number: &UniqueId) {
        let find = |catalogue: &Catalogue| {
            let index = catalogue.named(name).filter(|index| index.head.number == *number);
            index.cloned()
        };
        self.remove_keys_of(&find);
        let Ok(mut partition) = self.layer.partition_in_time() else {
            return;
        };
        let now_ms = partition.now_micros() / 1000;
        let dropped = partition.execute(self.layer.space, |tx| -> Result<(), ()> {
            let catalogue = self.indexes.catalogue(tx);
            let index = find(&catalogue).ok_or(())?;
            let names = upkeep::keys_of(tx, &index, usize::MAX);
            let mut keys = self.layer.keyspace(tx, 0, now_ms);
            names.iter().for_each(|name| _ = keys.remove(name));
            self.layer.follow_changes(tx, now_ms);
            index.clear(tx, &catalogue);
            Ok(())
        });
        let Ok(((), dependency)) = dropped else {
            self.layer.changes.take();
            return self.layer.roll_modules_back();
        };
        self.indexes.commit();
        self.indexes.uses.forget(number);
        self.cursors.forget(number);
        self.layer.tell_removed(dependency);
        if self.layer.replication.is_on() {
            self.layer
                .replication
                .gather(0, &[b"FT._DROPINDEXIFX".as_slice(), name]);
            self.layer.replication.commit(dependency);
        }
        drop(partition);
        self.layer.send_outbox();
    }

    /// Searches that ran out of time: with an error reply, and with a partial reply.
    pub fn search_timeouts(&self) -> &[AtomicU64; 2] {
        &self.indexes.timeouts
    }

    /// Bytes that running searches hold, about.
    pub fn search_bytes(&self) -> u64 {
        self.indexes.query_memory.bytes()
    }

    /// The figures of all indexes. While the lock is held they are an earlier call's.
    pub fn index_figures(&self) -> Vec<IndexFigures> {
        if !self.layer.changes.are_indexed() {
            return Vec::new();
        }
        let is_busy = self.layer.engine.is_busy();
        let Some(partition) = (!is_busy).then(|| self.layer.read_in_time().ok()).flatten() else {
            return self.indexes.figures(None);
        };
        let mut frozen = partition.freeze(self.layer.space);
        drop(partition);
        self.indexes.figures(Some(&mut frozen.transaction()))
    }

    /// Waits until all indexes are filled, or a search's time has passed.
    pub fn await_filled_indexes(&self) {
        if !self.layer.changes.are_indexed() {
            return;
        }
        let timeout_ms = self.layer.config.search_timeout.load(Ordering::Relaxed).max(0) as u64;
        let ends_micros = self.layer.engine.now_micros() + timeout_ms * 1000;
        while self.layer.engine.now_micros() < ends_micros {
            let Ok(mut partition) = self.layer.read_in_time() else {
                return;
            };
            let is_filling = partition.execute(self.layer.space, |tx| -> Result<bool, ()> {
                let catalogue = self.indexes.catalogue(tx);
                let is_filling = catalogue.indexes().any(|index| index.progress(tx).is_some());
                Ok(is_filling || catalogue.key_indexes().any(|index| index.progress(tx).is_some()))
            });
            drop(partition);
            if !matches!(is_filling, Ok(Ok((true, _)))) {
                return;
            }
            thread::sleep(LOOKS_EVERY);
        }
    }
}
