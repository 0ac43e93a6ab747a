//! How many connections the process has open, of all listeners together.
//!
//! A connection costs a descriptor, and the log and the checkpoints need descriptors too: a process
//! without free descriptors cannot start a log segment and ends. So the limit on open files is
//! raised at the start as far as the system permits, a part is set aside, and connections share the
//! rest.
//!
//! When all places are taken, the connection that has waited longest without a credential makes
//! room for the new connection. Peers that only hold connections open therefore block no clients;
//! the limit turns clients away when it is reached by authenticated connections.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;

/// Descriptors for log segments, checkpoints, the file of users, the keys of issuers and
/// migrations, and for connections that are being closed while their replacements are already open.
const RESERVED: usize = 96;
/// Connections that may be open beyond the limit because the connections that they replace are not
/// closed yet.
const REPLACING_MAX: usize = 32;
/// Places that only the HTTP listener gives, and only to this machine, when all others are taken:
/// for the admin API.
const LOCAL_HTTP_PLACES: usize = 8;
/// A server that could have fewer connections than this does not start.
const CONNECTIONS_MIN: usize = 16;

/// The limit, and how much of it is used.
pub struct ConnectionLimit {
    connections_max: usize,
    state: Mutex<State>,
    next_id: AtomicU64,
    /// A place was given back.
    freed: Notify,
}

#[derive(Default)]
struct State {
    open: usize,
    /// Evicted connections that are still open.
    replacing: usize,
    /// Closes the connections that have shown no credential, oldest first.
    strangers: BTreeMap<u64, Close>,
}

type Close = Box<dyn Fn() + Send>;

enum Admission {
    Permitted(Permit),
    /// All places are taken.
    Full,
    /// As many connections as may be are being closed to make room.
    Replacing,
}

/// The applicant for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Any,
    /// A connection from this machine to the HTTP listener.
    LocalHttp,
}

/// The place of one open connection. Dropping it gives the place back.
pub struct Permit {
    limit: Arc<ConnectionLimit>,
    id: u64,
    is_stranger: AtomicBool,
}

impl ConnectionLimit {
    pub fn new(connections_max: usize) -> Arc<ConnectionLimit> {
        Arc::new(ConnectionLimit {
            connections_max,
            state: Mutex::default(),
            next_id: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Raises the limit on open files for `configured` connections. The actual number may be lower
    /// if the system does not allow as many files. Errors: it allows too few to serve any client.
    pub fn of_process(configured: usize) -> Result<Arc<ConnectionLimit>> {
        let other_files = open_files() + RESERVED;
        let files_max = raise_open_files(configured + other_files);
        let connections_max = configured.min(files_max.saturating_sub(other_files));
        ensure!(
            connections_max >= CONNECTIONS_MIN.min(configured),
            "the limit on open files, {files_max}, is too low: {other_files} are needed for other things than connections (ulimit -n)"
        );
        if connections_max < configured {
            tracing::warn!(
                connections_max,
                configured,
                files_max,
                "fewer connections than configured: the limit on open files is too low (ulimit -n)"
            );
        }
        Ok(ConnectionLimit::new(connections_max))
    }

    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Returns a place for one connection; `None` if all are taken by authenticated connections.
    /// Waits while many evicted connections are still being closed.
    pub async fn admit(self: &Arc<Self>, place: Place) -> Option<Permit> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            match self.try_admit(place) {
                Admission::Permitted(permit) => return Some(permit),
                Admission::Full => return None,
                Admission::Replacing => freed.await,
            }
        }
    }

    fn try_admit(self: &Arc<Self>, place: Place) -> Admission {
        let mut state = self.state.lock();
        let local_places = match place {
            Place::Any => 0,
            Place::LocalHttp => LOCAL_HTTP_PLACES,
        };
        if state.open >= self.connections_max {
            if state.open >= self.connections_max + REPLACING_MAX && state.replacing > 0 {
                return Admission::Replacing;
            }
            match state.strangers.pop_first() {
                Some((_, close)) => {
                    state.replacing += 1;
                    close();
                }
                None if state.open < self.connections_max + local_places => {}
                None => return Admission::Full,
            }
        }
        state.open += 1;
        Admission::Permitted(Permit {
            limit: self.clone(),
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            is_stranger: AtomicBool::new(false),
        })
    }
}

#[cfg(test)]
impl ConnectionLimit {
    pub fn permit_for_test(self: &Arc<Self>) -> Permit {
        match self.try_admit(Place::Any) {
            Admission::Permitted(permit) => permit,
            _ => panic!("no place"),
        }
    }
}

impl Permit {
    /// The peer has yet to show who it is: `close` is called if its place is needed.
    pub fn is_of_stranger(&self, close: impl Fn() + Send + 'static) {
        self.limit.state.lock().strangers.insert(self.id, Box::new(close));
        self.is_stranger.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_stranger(&self) -> bool {
        self.is_stranger.load(Ordering::Relaxed)
    }

    /// The peer has shown a credential: it keeps its place.
    #[inline]
    pub fn authenticated(&self) {
        if self.is_stranger() {
            let stranger = self.limit.state.lock().strangers.remove(&self.id);
            // A connection that was evicted must close all the same.
            self.is_stranger.store(stranger.is_none(), Ordering::Relaxed);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.limit.state.lock();
        state.open -= 1;
        let forgotten = state.strangers.remove(&self.id);
        if self.is_stranger() && forgotten.is_none() {
            state.replacing -= 1;
        }
        // Its contents may be dropped with it, which is not for under the lock.
        drop(state);
        drop(forgotten);
        self.limit.freed.notify_waiters();
    }
}

/// Files that are open at the moment; a guess where the system does not say.
fn open_files() -> usize {
    const GUESS: usize = 32;
    std::fs::read_dir("/proc/self/fd").map_or(GUESS, Iterator::count)
}

/// Raises the soft limit on open files to `files_min` if it is lower, but not beyond the hard one.
/// Returns the limit in force.
fn raise_open_files(files_min: usize) -> usize {
    let limits = getrlimit(Resource::Nofile);
    let files = |limit: Option<u64>| limit.map_or(usize::MAX, |files| files as usize);
    let raised = files_min.min(files(limits.maximum));
    if files(limits.current) >= files_min {
        return files(limits.current);
    }
    let raising = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(raised as u64),
            maximum: limits.maximum,
        },
    );
    match raising {
        Ok(()) => raised,
        Err(_) => files(limits.current),
    }
}

/// Time without accepts after an error, which may be a lack of descriptors.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// Logs errors of accepting connections, at most one line a second: an error that stays would fill
/// the disk otherwise.
#[derive(Default)]
pub struct AcceptErrors {
    logged: Option<Instant>,
    unlogged_count: u64,
}

impl AcceptErrors {
    pub fn note(&mut self, error: &std::io::Error) {
        if let Some(count) = self.count_to_log(Instant::now()) {
            tracing::warn!(%error, count, "accepting a connection failed");
        }
    }

    /// The number of errors that the next log line represents; `None` if no line is due.
    fn count_to_log(&mut self, now: Instant) -> Option<u64> {
        self.unlogged_count += 1;
        let is_due = self.logged.is_none_or(|logged| now - logged >= LOG_INTERVAL);
        is_due.then(|| {
            self.logged = Some(now);
            std::mem::take(&mut self.unlogged_count)
        })
    }
}

const LOG_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    /// The immediate answer of `admit`.
    fn admit(limit: &Arc<ConnectionLimit>, place: Place) -> Option<Permit> {
        match limit.try_admit(place) {
            Admission::Permitted(permit) => Some(permit),
            Admission::Full | Admission::Replacing => None,
        }
    }

    #[test]
    fn the_oldest_unauthenticated_peer_makes_room_and_authenticated_peers_stay() {
        let limit = ConnectionLimit::new(3);
        let closed = Arc::new(Mutex::new(Vec::new()));
        let stranger = |name: &'static str| {
            let permit = admit(&limit, Place::Any).unwrap();
            let closed = closed.clone();
            permit.is_of_stranger(move || closed.lock().push(name));
            permit
        };
        let (authenticated, first, second) = (stranger("known"), stranger("first"), stranger("second"));
        authenticated.authenticated();
        let third = stranger("third");
        assert_eq!(*closed.lock(), ["first"]);
        first.authenticated();
        drop(first);
        assert_eq!(limit.state.lock().open, 3);
        second.authenticated();
        third.authenticated();
        assert!(admit(&limit, Place::Any).is_none());
        assert_eq!(*closed.lock(), ["first"]);
        drop(second);
        assert!(admit(&limit, Place::Any).is_some());
        assert_eq!(limit.state.lock().replacing, 0);
    }

    #[tokio::test]
    async fn replacing_is_bounded_and_waited_for_while_the_replaced_are_still_open() {
        let limit = ConnectionLimit::new(100);
        let closed = Arc::new(AtomicUsize::new(0));
        let admit_stranger = || {
            let permit = admit(&limit, Place::Any)?;
            let closed = closed.clone();
            permit.is_of_stranger(move || {
                closed.fetch_add(1, Ordering::Relaxed);
            });
            Some(permit)
        };
        let mut permits: Vec<Permit> = (0..1000).map_while(|_| admit_stranger()).collect();
        assert_eq!(permits.len(), 100 + REPLACING_MAX);
        assert_eq!(closed.load(Ordering::Relaxed), REPLACING_MAX);
        let mut waiting = pin!(limit.admit(Place::Any));
        assert!(
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)))
                .await
                .is_pending()
        );
        drop(permits.remove(0));
        assert!(waiting.await.is_some());
        drop(permits);
        assert_eq!(limit.state.lock().open, 0);
        assert_eq!(limit.state.lock().replacing, 0);
        assert!(limit.state.lock().strangers.is_empty());
    }

    #[test]
    fn the_admin_api_can_be_reached_from_this_machine_when_all_places_are_taken() {
        let limit = ConnectionLimit::new(2);
        let _clients = [admit(&limit, Place::Any), admit(&limit, Place::Any)].map(Option::unwrap);
        assert!(admit(&limit, Place::Any).is_none());
        let local: Vec<Permit> = (0..100).map_while(|_| admit(&limit, Place::LocalHttp)).collect();
        assert_eq!(local.len(), LOCAL_HTTP_PLACES);
    }

    #[test]
    fn errors_are_logged_once_a_second() {
        let mut errors = AcceptErrors::default();
        let start = Instant::now();
        let logged: Vec<Option<u64>> = (0..2500)
            .map(|index| errors.count_to_log(start + Duration::from_millis(index)))
            .collect();
        let lines: Vec<u64> = logged.into_iter().flatten().collect();
        assert_eq!(lines, [1, 1000, 1000]);
    }
}
