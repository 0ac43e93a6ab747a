//! The engine's registry of readers of its log on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_log::LogSource;
use quartet_model::LogSequence;

/// Is called when there is more to read. Must be quick: the flusher calls it.
pub type OnMore = Arc<dyn Fn() + Send + Sync>;

/// The readers that the engine's threads know.
pub(crate) struct LogReaders {
    pub source: Arc<dyn LogSource>,
    /// The newest record that is durable.
    durable: AtomicU64,
    pub holders: Mutex<Vec<Arc<Holder>>>,
    /// A reader has seen all there is and waits to be notified of more.
    pub is_awaited: AtomicBool,
}

pub(crate) struct Holder {
    /// The oldest record that the reader may still request; later records are held too.
    pub from: AtomicU64,
    /// The records it holds were trimmed anyway.
    pub is_lost: AtomicBool,
    /// It has seen all there is.
    pub waits: AtomicBool,
    pub on_more: Mutex<Option<OnMore>>,
}

impl LogReaders {
    pub fn new(source: Arc<dyn LogSource>, durable: LogSequence) -> LogReaders {
        LogReaders {
            source,
            durable: AtomicU64::new(durable.0),
            holders: Mutex::default(),
            is_awaited: AtomicBool::new(false),
        }
    }

    pub fn durable(&self) -> LogSequence {
        LogSequence(self.durable.load(Ordering::SeqCst))
    }

    /// Lets readers read everything up to `durable`. They are notified only if it has increased: a
    /// log may return the same sequence from two syncs.
    pub fn publish_durable(&self, durable: LogSequence) {
        let before = self.durable.swap(durable.0, Ordering::SeqCst);
        if before != durable.0 && self.is_awaited.swap(false, Ordering::SeqCst) {
            for listener in self.waiting() {
                listener();
            }
        }
    }

    fn waiting(&self) -> Vec<OnMore> {
        let holders = self.holders.lock();
        let waiting = holders
            .iter()
            .filter(|holder| holder.waits.swap(false, Ordering::SeqCst));
        waiting.filter_map(|holder| holder.on_more.lock().clone()).collect()
    }

    pub fn count(&self) -> usize {
        self.holders.lock().len()
    }

    /// The lowest record that a reader may still request; `None` if no reader holds any.
    pub fn held(&self) -> Option<LogSequence> {
        let holders = self.holders.lock();
        let active = holders.iter().filter(|holder| !holder.is_lost.load(Ordering::SeqCst));
        active
            .map(|holder| LogSequence(holder.from.load(Ordering::SeqCst)))
            .min()
    }

    /// Marks readers whose position is below `floor` as lost, because those records will be
    /// dropped. Returns their number.
    pub fn give_up_below(&self, floor: LogSequence) -> u64 {
        let mut lost = 0;
        for holder in self.holders.lock().iter() {
            let is_behind = holder.from.load(Ordering::SeqCst) < floor.0;
            if is_behind && !holder.is_lost.swap(true, Ordering::SeqCst) {
                lost += 1;
                // The reader is woken to notice it.
                holder.waits.store(true, Ordering::SeqCst);
                self.is_awaited.store(true, Ordering::SeqCst);
            }
        }
        lost
    }

    pub fn hold(&self, from: LogSequence) -> Arc<Holder> {
        let holder = Arc::new(Holder {
            from: AtomicU64::new(from.0),
            is_lost: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            on_more: Mutex::default(),
        });
        self.holders.lock().push(holder.clone());
        holder
    }
}
