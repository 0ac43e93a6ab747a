//! The cluster's store of objects beside its etcd: a folder that all nodes share, or a bucket.
//!
//! ```text
//! ROOT/store (etcd)        QSTO | format 1 u32 | the store's address | checksum u32      by the first node that has one
//! cluster-ID (the store)   empty: the store is this cluster's                            by the same node
//! ```
//!
//! One thread executes the requests one by one, and may wait for the store; callers never wait. A
//! request times out without an answer, and while the thread still waits for the store's answer to
//! it, other requests fail at once.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use quartet_backup::{Target, open_shared};
use quartet_log_etcd::{Etcd, Waker};
use quartet_log_replicated::drive::ask;
use quartet_log_replicated::{
    Answer, ClusterId, Event, Failure, ObjectAnswer, ObjectRequest, Place, Request, RequestId, Sequencer,
};

use crate::settings::ClusterSettings;

/// Time limit of a request to the store.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests of the store have numbers from this one on, those of etcd below it.
const FIRST_NUMBER: u64 = 1 << 63;

/// An etcd and the store of objects beside it, as one sequencer.
pub struct EtcdWithStore {
    etcd: Etcd,
    /// `None`: the cluster has none.
    store: Option<Store>,
}

/// The handle of the store's thread.
struct Store {
    jobs: Sender<(RequestId, ObjectRequest)>,
    answers: Receiver<(RequestId, Result<ObjectAnswer, Failure>)>,
    /// Requests without an answer, and when each is given up.
    open: BTreeMap<RequestId, Instant>,
    /// Requests that were given up and that the thread has not done with.
    stuck: usize,
    failed: VecDeque<RequestId>,
    sent: u64,
    waker: Waker,
}

impl EtcdWithStore {
    /// `address`: the store's address.
    pub fn new(etcd: Etcd, address: Option<&str>, cluster: ClusterId, waker: Waker) -> io::Result<EtcdWithStore> {
        let store = address
            .map(|address| Store::start(address, cluster, waker))
            .transpose()?;
        Ok(EtcdWithStore { etcd, store })
    }
}

impl Sequencer for EtcdWithStore {
    fn send(&mut self, request: Request) -> RequestId {
        match (request, &mut self.store) {
            (Request::Object(request), Some(store)) => store.send(request),
            (request, _) => self.etcd.send(request),
        }
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.etcd.watch(from, until);
    }

    fn receive(&mut self, wait: Duration) -> Option<Event> {
        /// How soon an answer of the store is noticed by who waits for an event.
        const LOOK: Duration = Duration::from_millis(5);
        let Some(store) = &mut self.store else {
            return self.etcd.receive(wait);
        };
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = store.receive().or_else(|| self.etcd.receive(left.min(LOOK)));
            if event.is_some() || left.is_zero() {
                return event;
            }
        }
    }
}

impl Store {
    fn start(address: &str, cluster: ClusterId, waker: Waker) -> io::Result<Store> {
        let (jobs, received) = channel::<(RequestId, ObjectRequest)>();
        let (report, answers) = channel();
        let (address, wakes) = (address.to_owned(), waker.clone());
        let work = move || {
            let mut opened = None;
            for (id, request) in received {
                let answer = execute(&mut opened, &address, cluster, request);
                if report.send((id, answer)).is_err() {
                    return;
                }
                wakes();
            }
        };
        // Its end is not awaited: a folder over a network may never respond.
        std::thread::Builder::new().name("object-store".into()).spawn(work)?;
        Ok(Store {
            jobs,
            answers,
            open: BTreeMap::new(),
            stuck: 0,
            failed: VecDeque::new(),
            sent: 0,
            waker,
        })
    }

    fn send(&mut self, request: ObjectRequest) -> RequestId {
        let id = RequestId(FIRST_NUMBER + self.sent);
        self.sent += 1;
        if self.stuck > 0 || self.jobs.send((id, request)).is_err() {
            self.failed.push_back(id);
            (self.waker)();
        } else {
            self.open.insert(id, Instant::now() + PATIENCE);
        }
        id
    }

    fn receive(&mut self) -> Option<Event> {
        while let Ok((id, answer)) = self.answers.try_recv() {
            match self.open.remove(&id) {
                Some(_) => return Some(Event::Answered(id, answer.map(Answer::Object))),
                None => self.stuck -= 1,
            }
        }
        let now = Instant::now();
        let given_up = self.open.iter().find(|(_, until)| **until <= now).map(|(id, _)| *id);
        if let Some(id) = given_up {
            self.open.remove(&id);
            self.stuck += 1;
        }
        let id = given_up.or_else(|| self.failed.pop_front())?;
        let silent = Failure::Store("it is silent".to_owned());
        Some(Event::Answered(id, Err(silent)))
    }
}

fn marker(cluster: ClusterId) -> String {
    format!("cluster-{:032x}", cluster.0)
}

/// Does a request, if the place is the cluster's: a folder that is not mounted is not.
fn execute(
    opened: &mut Option<Box<dyn Target>>,
    address: &str,
    cluster: ClusterId,
    request: ObjectRequest,
) -> Result<ObjectAnswer, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Store(format!("{address}: {error}"));
    let target = match opened {
        Some(target) => target,
        None => opened.insert(open_shared(address, PATIENCE).map_err(|error| failed(&error))?),
    };
    match target.get_at_most(&marker(cluster), 0) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(failed(&"it is not this cluster's store")),
        Err(error) => return Err(failed(&error)),
    }
    let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let done = match request {
        ObjectRequest::Put { name, bytes } => target.put(&name, bytes).map(|()| ObjectAnswer::Done),
        ObjectRequest::Get { name, length } => match target.get_at_most(&name, length) {
            Err(error) if is_missing(&error) => Ok(ObjectAnswer::Missing),
            got => got.map(ObjectAnswer::Bytes),
        },
        ObjectRequest::List { prefix } => target.list().map(|mut names| {
            names.retain(|name| name.starts_with(&prefix));
            ObjectAnswer::Names(names)
        }),
        ObjectRequest::Remove { name } => match target.remove(&name) {
            Err(error) if is_missing(&error) => Ok(ObjectAnswer::Done),
            removed => removed.map(|()| ObjectAnswer::Done),
        },
    };
    done.map_err(|error| failed(&error))
}

/// Makes sure that this node has the cluster's store, which the first node that has one decides.
pub fn agree(sequencer: &mut dyn Sequencer, place: &Place, settings: &ClusterSettings) -> Result<()> {
    let known = known(sequencer, place)?;
    match (&known, &settings.store) {
        (None, None) => return Ok(()),
        (None, Some(address)) => {
            mark(place.cluster, address).with_context(|| format!("cluster-store: {address}"))?;
            ask(sequencer, place.store_request(address)).context("log")?;
        }
        (Some(_), _) => {}
    }
    match (self::known(sequencer, place)?, &settings.store) {
        (Some(known), Some(address)) if known == *address => Ok(()),
        (Some(known), Some(address)) => bail!("cluster-store: the cluster's is {known}, and this node has {address}"),
        (Some(known), None) => bail!("cluster-store: the cluster has {known}: give it to every node"),
        (None, _) => bail!("log: the cluster's store could not be noted"),
    }
}

fn known(sequencer: &mut dyn Sequencer, place: &Place) -> Result<Option<String>> {
    let key = place.store_key();
    match ask(sequencer, Request::Get { key }).context("log")? {
        Answer::Value(None) => Ok(None),
        Answer::Value(Some(value)) => {
            let address = Place::store_of(&value);
            Ok(Some(address.context("log: the key `store` cannot be read")?))
        }
        _ => bail!("log: no answer to a read of `store`"),
    }
}

/// Marks the store as the cluster's. Creates a folder if necessary; a bucket must exist.
fn mark(cluster: ClusterId, address: &str) -> Result<()> {
    if !address.contains("://") {
        std::fs::create_dir_all(address)?;
    }
    let target = open_shared(address, PATIENCE)?;
    target.put(&marker(cluster), Vec::new())?;
    let read = target.get_at_most(&marker(cluster), 0)?;
    ensure!(read.is_empty(), "it does not give what was put");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(opened: &mut Option<Box<dyn Target>>, address: &str, request: ObjectRequest) -> ObjectAnswer {
        execute(opened, address, ClusterId(7), request).unwrap()
    }

    #[test]
    fn objects_are_kept_read_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("store").to_str().unwrap().to_owned();
        mark(ClusterId(7), &address).unwrap();
        let mut opened = None;
        let name = || "a-1".to_owned();
        let put = ObjectRequest::Put {
            name: name(),
            bytes: b"bytes".to_vec(),
        };
        assert_eq!(done(&mut opened, &address, put), ObjectAnswer::Done);
        let get = |length| ObjectRequest::Get { name: name(), length };
        let found = done(&mut opened, &address, get(5));
        assert_eq!(found, ObjectAnswer::Bytes(b"bytes".to_vec()));
        let too_long = execute(&mut opened, &address, ClusterId(7), get(4));
        assert!(matches!(too_long, Err(Failure::Store(_))), "longer than it may be");
        let list = ObjectRequest::List {
            prefix: "a-".to_owned(),
        };
        let names = done(&mut opened, &address, list);
        assert_eq!(names, ObjectAnswer::Names(vec![name()]));
        for _ in 0..2 {
            let remove = ObjectRequest::Remove { name: name() };
            assert_eq!(done(&mut opened, &address, remove), ObjectAnswer::Done);
        }
        assert_eq!(done(&mut opened, &address, get(5)), ObjectAnswer::Missing);
    }

    /// A folder that is empty because nothing is mounted there says nothing about objects.
    #[test]
    fn a_place_that_is_not_the_clusters_is_no_store() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().to_str().unwrap().to_owned();
        let get = || ObjectRequest::Get {
            name: "a-1".to_owned(),
            length: 5,
        };
        let answer = |cluster| execute(&mut None, &address, cluster, get());
        assert!(matches!(answer(ClusterId(7)), Err(Failure::Store(_))));
        mark(ClusterId(7), &address).unwrap();
        assert_eq!(answer(ClusterId(7)), Ok(ObjectAnswer::Missing));
        assert!(matches!(answer(ClusterId(8)), Err(Failure::Store(_))));
        drop(folder);
        assert!(
            matches!(answer(ClusterId(7)), Err(Failure::Store(_))),
            "the folder is gone"
        );
    }
}
