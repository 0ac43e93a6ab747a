//! Waiting, on one I/O thread, until replies may be sent, or until a held partition lock is free.
//!
//! A reply may leave once the version that it rests on is durable and, over a log that several
//! nodes share, this node has been shown to be home after the request had arrived. The engine's
//! flusher wakes the thread once; the connections that wait are woken here, without crossing
//! threads again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::{Arrival, Dependency, Durability, Engine, Listening, PartitionId, Role, Settled};
use quartet_tenancy::Partitions;
use tokio::sync::Notify;

use crate::connections::turns::ThreadTurns;

/// Those of one I/O thread, for each partition.
#[derive(Clone)]
pub struct ThreadWaiters {
    all: Arc<[DurableWaiters]>,
    partitions: Arc<Partitions>,
    /// The logs are those of a cluster.
    are_shared: bool,
}

/// The arrival of a request before its partition is known.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    first: Arrival,
    /// The arrivals of the partitions other than the first, if they are needed.
    others: Vec<Arrival>,
}

/// Waits for one partition.
#[derive(Clone)]
pub struct DurableWaiters {
    engine: Arc<Engine>,
    waiting: Arc<Mutex<AllWaiting>>,
    task: Arc<tokio::task::JoinHandle<()>>,
    /// The partition's lock was released after a failed wait for it.
    released: Arc<Notify>,
    thread_turns: ThreadTurns,
    /// Ends with the last of its users.
    _listening: Arc<[Listening; 2]>,
}

/// The longest wait for the engine's signal that the lock is free.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const LOOK_AGAIN_HELD: Duration = Duration::from_millis(5);
const LOOK_AGAIN_SOON: Duration = Duration::from_millis(1);
/// A shorter sync costs less than the way to the flusher's thread and back.
const SYNC_MICROS_LONG: u64 = 200;

/// The condition on which a reply leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    /// The newest version that it rests on.
    pub dependency: Dependency,
    /// A time between the arrival of the request and its execution.
    pub arrival: Arrival,
}

/// The reply may never leave: this node is home no more, and whether the request was executed is
/// not known.
#[derive(Clone, Copy, Debug)]
pub struct Lost;

impl From<Lost> for io::Error {
    fn from(_: Lost) -> io::Error {
        io::ErrorKind::ConnectionAborted.into()
    }
}

struct Waiting {
    hold: Hold,
    waker: Waker,
}

#[derive(Default)]
struct AllWaiting {
    /// For a version.
    durable: BinaryHeap<Reverse<Waiting>>,
    /// For a confirmation: their versions are durable.
    confirmed: Vec<Waiting>,
}

impl ThreadWaiters {
    /// Registers the current thread with the engines. Call on its runtime.
    pub fn start(partitions: &Arc<Partitions>, thread_turns: &ThreadTurns) -> ThreadWaiters {
        let engines = partitions.iter().map(|(_, engine)| engine);
        let waiters = engines.map(|engine| DurableWaiters::start(engine.clone(), thread_turns.clone()));
        ThreadWaiters {
            all: waiters.collect(),
            partitions: partitions.clone(),
            are_shared: partitions.first().role() != Role::Alone,
        }
    }

    #[inline]
    pub fn of(&self, partition: PartitionId) -> &DurableWaiters {
        &self.all[self.partitions.place(partition)]
    }

    /// True if no other connection waits for this thread.
    pub fn is_alone(&self) -> bool {
        self.all[0].is_alone()
    }

    /// The arrival of requests before their partition is known. Only logs that nodes share need
    /// one.
    #[inline]
    pub fn arrivals(&self, durability: Durability) -> Arrivals {
        if !self.are_shared {
            return Arrivals::default();
        }
        let further = self.all[1..].iter().map(|waiters| waiters.arrival(durability));
        Arrivals {
            first: self.all[0].arrival(durability),
            others: further.collect(),
        }
    }

    pub fn stop(&self) {
        self.all.iter().for_each(DurableWaiters::stop);
    }
}

impl Arrivals {
    /// Arrivals with these numbers, by partition.
    #[cfg(test)]
    pub fn numbered(numbers: &[u64]) -> Arrivals {
        Arrivals {
            first: Arrival::numbered(numbers[0]),
            others: numbers[1..].iter().map(|&number| Arrival::numbered(number)).collect(),
        }
    }

    #[inline]
    pub fn of(&self, partition: PartitionId) -> Arrival {
        match partition.0 {
            0 => self.first,
            // The only partition of a service is the first, under any number.
            number => self.others.get(number as usize - 1).copied().unwrap_or(self.first),
        }
    }
}

impl DurableWaiters {
    /// Registers the current thread with the engine. Call on its runtime.
    pub fn start(engine: Arc<Engine>, thread_turns: ThreadTurns) -> DurableWaiters {
        let moved = Arc::new(Notify::new());
        let notify = moved.clone();
        let on_durable = engine.on_durable(Arc::new(move || notify.notify_one()));
        let released = Arc::new(Notify::new());
        let notify = released.clone();
        let on_free = engine.on_free(Arc::new(move || notify.notify_waiters()));
        let waiting: Arc<Mutex<AllWaiting>> = Arc::default();
        let task = tokio::task::spawn(wake_when_settled(engine.clone(), moved, waiting.clone()));
        DurableWaiters {
            engine,
            waiting,
            task: Arc::new(task),
            released,
            thread_turns,
            _listening: Arc::new([on_durable, on_free]),
        }
    }

    /// True if no other connection waits for this thread.
    pub fn is_alone(&self) -> bool {
        self.thread_turns.is_alone()
    }

    /// Starts to make `dependency` durable in parallel with this thread, if that is worthwhile for
    /// a connection whose waiting replies took `gathered_micros` to compute. Returns true if the
    /// flusher was started.
    pub fn overlaps(&self, gathered_micros: u64, dependency: Dependency) -> bool {
        let sync_micros = self.engine.statistics().sync_micros.load(Ordering::Relaxed);
        is_worth_overlapping(gathered_micros, sync_micros) && !self.engine.is_durable(dependency)
    }

    /// The arrival of requests that are there now, before they are executed in a space of this
    /// durability.
    #[inline]
    pub fn arrival(&self, durability: Durability) -> Arrival {
        self.engine.arrival(durability)
    }

    /// Completes when the reply may be sent. For an otherwise idle connection, which may block its
    /// thread if it is the only connection there.
    pub async fn settled(&self, hold: Hold) -> Result<(), Lost> {
        if self.is_alone() {
            self.engine.make_durable(hold.dependency);
        }
        self.released(hold).await
    }

    /// The same, and never holds the thread up.
    pub async fn released(&self, hold: Hold) -> Result<(), Lost> {
        std::future::poll_fn(|context| match self.engine.settled(hold.dependency, hold.arrival) {
            Settled::Yes => Poll::Ready(Ok(())),
            Settled::Lost => Poll::Ready(Err(Lost)),
            Settled::NotYet => {
                let waker = context.waker().clone();
                self.waiting.lock().durable.push(Reverse(Waiting { hold, waker }));
                Poll::Pending
            }
        })
        .await
    }

    /// Completes once it is shown that this node was home after the arrival: the condition of an
    /// answer that is no execution's and rests on what the node believes. An error if it is not
    /// home.
    pub async fn shown_home(&self, arrival: Arrival) -> Result<(), Lost> {
        // Where this node is not home, nothing will show it.
        if !self.is_home() {
            return Err(Lost);
        }
        let dependency = Dependency::ZERO;
        self.released(Hold { dependency, arrival }).await
    }

    /// Completes once `dependency` is durable, with an error if it never will be.
    pub async fn durable(&self, dependency: Dependency) -> Result<(), Lost> {
        let arrival = self.engine.arrival(Durability::Always);
        self.released(Hold { dependency, arrival }).await
    }

    /// False while requests of the partition are refused here.
    pub fn is_home(&self) -> bool {
        self.engine.is_home()
    }

    /// Requests wait for a hand-over.
    pub fn are_requests_held(&self) -> bool {
        self.engine.are_requests_held()
    }

    /// Writers wait until the store has been flushed.
    pub fn is_behind(&self) -> bool {
        self.engine.is_behind()
    }

    /// Completes when a request that found the partition busy may try again: once the lock is free,
    /// or a little later.
    pub async fn free(&self) {
        let mut released = pin!(self.released.notified());
        released.as_mut().enable();
        if self.engine.are_requests_held() {
            // The end of the layers notifies no waiting task.
            tokio::time::sleep(LOOK_AGAIN_HELD).await;
        } else if self.engine.is_behind() {
            let _ = tokio::time::timeout(LOOK_AGAIN, released).await;
        } else if !self.engine.is_busy() {
            // It was released just now, and may be busy again.
            tokio::time::sleep(LOOK_AGAIN_SOON).await;
        } else {
            let heard = tokio::time::timeout(LOOK_AGAIN, released).await;
            if heard.is_err() {
                // If the lock is free, this makes it known.
                drop(self.engine.partition_in_time());
            }
        }
    }

    /// Returns true if a reply may be sent now.
    #[inline]
    pub fn is_settled(&self, hold: Hold) -> bool {
        // A version that is not durable yet needs no wakeup here: its own wait provides it.
        hold.dependency <= self.engine.durable() && self.engine.settled(hold.dependency, hold.arrival) == Settled::Yes
    }

    pub fn stop(&self) {
        self.task.abort();
    }
}

/// If gathering took at least half as long as a sync does, as much again is gathered during the
/// sync, and neither waits for the other. With less, one sync of all replies serves more than two
/// partial syncs.
fn is_worth_overlapping(gathered_micros: u64, sync_micros: u64) -> bool {
    sync_micros >= SYNC_MICROS_LONG && gathered_micros >= sync_micros / 2
}

async fn wake_when_settled(engine: Arc<Engine>, moved: Arc<Notify>, waiting: Arc<Mutex<AllWaiting>>) {
    loop {
        moved.notified().await;
        let mut waiting = waiting.lock();
        waiting.wake(&engine);
        // The remaining holds wait for the next round; the queries keep the engine's notifications
        // coming.
        let first = waiting.durable.peek().map(|Reverse(first)| first.hold);
        let holds = [first, waiting.confirmed.first().map(|first| first.hold)];
        let is_settled = |hold: &Hold| engine.settled(hold.dependency, hold.arrival) != Settled::NotYet;
        if holds.iter().flatten().any(is_settled) {
            moved.notify_one();
        }
    }
}

impl AllWaiting {
    /// Wakes connections whose replies may be sent, or never will be.
    fn wake(&mut self, engine: &Engine) {
        let is_over = |waiting: &Waiting| {
            let Hold { dependency, arrival } = waiting.hold;
            engine.settled(dependency, arrival) != Settled::NotYet
        };
        while let Some(Reverse(first)) = self.durable.peek()
            && (first.hold.dependency <= engine.durable() || is_over(first))
        {
            let Some(Reverse(first)) = self.durable.pop() else {
                break;
            };
            self.confirmed.push(first);
        }
        self.confirmed.retain(|waiting| {
            let is_over = is_over(waiting);
            if is_over {
                waiting.waker.wake_by_ref();
            }
            !is_over
        });
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.hold.dependency == other.hold.dependency
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.hold.dependency.cmp(&other.hold.dependency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hundred transactions under way on one connection were answered, then synced, then
    /// answered again.
    #[test]
    fn a_sync_overlaps_with_answering_if_both_take_long() {
        let check = |gathered_micros, sync_micros, expected| {
            let is_worth_it = is_worth_overlapping(gathered_micros, sync_micros);
            assert_eq!(is_worth_it, expected, "{gathered_micros} of {sync_micros}");
        };
        // A lone small commit, twenty, and a part of two hundred, on a disk whose sync takes 1.6
        // ms.
        check(20, 1_600, false);
        check(400, 1_600, false);
        check(1_000, 1_600, true);
        // A slow disk should get everything at once; a fast disk is not worth a thread switch.
        check(4_000, 20_000, false);
        check(4_000, 50, false);
    }
}
