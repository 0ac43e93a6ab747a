//! The stream of commands that replicas are sent: what committed transactions did, in the order of
//! their commits.
//!
//! ```text
//!   handler --effects--> gathered --commit--> part (hold, bytes) ... part --durable--> each replica at its own pace
//!   start                                     ^ backlog                 ^ end
//! ```
//!
//! Positions count bytes. Without followers, nothing is gathered and the command that commits pays
//! one load. A replica that has lost its connection continues if the backlog still holds the bytes
//! after its position; the stream continues for a while after the last replica has left, to allow
//! that. A replica that exceeds the lag limit of its class is disconnected: it restarts.
//!
//! A part may be sent once its dependency is durable, so no replica has effects that a crash
//! undoes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use quartet_engine::Dependency;
use quartet_wire_resp::encode_command;

/// Time for which the stream continues without replicas.
const LINGERS_MICROS: u64 = 60_000_000;
/// Replicas at once.
pub const REPLICAS_MAX: usize = 32;
/// Bytes that a replica gets at once.
const GIVEN_BYTES_MAX: usize = 1 << 20;

/// A command that some transaction amounts to, and the database that it is for.
struct Effect {
    db: u8,
    request: Vec<u8>,
}

struct Part {
    end: u64,
    dependency: Dependency,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Feed {
    /// Notices of the transaction that runs.
    gathered: Vec<Effect>,
    parts: VecDeque<Part>,
    bytes: usize,
    /// The start of the first part, and the end of the last.
    start: u64,
    end: u64,
    /// The database that the stream has selected last.
    db: Option<u8>,
    followers: Vec<Arc<Follower>>,
    last_follower_left_micros: u64,
    /// Backlog without and with replicas that lag.
    bytes_kept: usize,
    bytes_max: usize,
}

/// A replica.
pub struct Follower {
    pub client: u64,
    pub host: String,
    pub port: u16,
    /// The position of its next read.
    position: AtomicU64,
    /// The position that it claims.
    pub acknowledged: AtomicU64,
    /// The position up to which it claims to have everything on its disk; 0 if it never says.
    pub on_disk: AtomicU64,
    pub acknowledged_micros: AtomicU64,
    /// The time of its last message of any kind: a replica that reads a large copy from its disk
    /// sends empty lines meanwhile.
    pub heard_micros: AtomicU64,
    /// It has said how far it is.
    pub has_spoken: AtomicBool,
    /// The first copy is with it.
    pub is_online: AtomicBool,
}

/// Another node of the cluster that this server is the home of: a replica that has its records from
/// the log, not from this server.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// How its clients reach it.
    pub host: String,
    pub port: u16,
    /// Records of the log that it has not applied.
    pub lag_records: u64,
    /// Since it had all of them.
    pub lag_seconds: u64,
}

/// The cluster that this server is the home of.
#[derive(Clone, Debug, Default)]
pub struct ClusterNodes {
    /// Records of the log.
    pub records: u64,
    /// How clients reach this server; `None` if it has no listener for them.
    pub own: Option<(String, u16)>,
    pub others: Vec<ClusterNode>,
}

/// Describes the cluster.
pub type ListNodes = Box<dyn Fn() -> ClusterNodes + Send + Sync>;

/// A replica's next bytes.
pub enum Given {
    /// Bytes of the stream, to be sent once the dependency is durable.
    Bytes(Vec<u8>, Dependency),
    /// Nothing yet.
    Nothing,
    /// It lags further than the backlog.
    Lost,
}

#[derive(Default)]
pub struct Replication {
    on: AtomicBool,
    feed: Mutex<Feed>,
    arrived: Condvar,
    /// Time of the last sign of life to replicas.
    pinged_micros: AtomicU64,
    /// This server is a replica itself, and only what its source sends is written.
    is_replica: AtomicBool,
    /// Replicas that received a first copy, that continued at their position, and that requested to
    /// continue in vain.
    pub served: Served,
    /// Its contents are part of a first copy, and are not shown.
    is_partial: AtomicBool,
    upstream: Mutex<Option<Upstream>>,
    /// Put once, by a server that is the home of a cluster.
    pub list_nodes: OnceLock<ListNodes>,
}

/// Replicas by kind of start, for INFO.
#[derive(Default)]
pub struct Served {
    pub full: AtomicU64,
    pub partial: AtomicU64,
    pub partial_refused: AtomicU64,
}

/// The server that this one replicates.
#[derive(Clone)]
pub struct Upstream {
    pub host: String,
    pub port: u16,
    pub link: LinkState,
    /// The position up to which it has received the stream.
    pub offset: u64,
    /// The times of its last message, and of the loss of the link.
    pub heard_micros: u64,
    pub down_since_micros: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Down,
    /// The first copy arrives.
    Copying,
    Up,
}

impl Upstream {
    pub fn new(host: &str, port: u16, now_micros: u64) -> Upstream {
        Upstream {
            host: host.into(),
            port,
            link: LinkState::Down,
            offset: 0,
            heard_micros: now_micros,
            down_since_micros: now_micros,
        }
    }
}

impl Replication {
    /// This server is a replica from now on, or no more.
    pub fn follow(&self, upstream: Option<Upstream>) {
        let mut present = self.upstream.lock();
        self.is_replica.store(upstream.is_some(), Ordering::SeqCst);
        *present = upstream;
    }

    /// This server is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }

    /// The server's contents are part of a first copy.
    #[inline]
    pub fn is_partial(&self) -> bool {
        self.is_partial.load(Ordering::Relaxed)
    }

    pub fn hold_part(&self, is_partial: bool) {
        self.is_partial.store(is_partial, Ordering::SeqCst);
    }

    /// The other nodes of the cluster, if this server is the home of one, and the stream position
    /// of each. A node does not read the stream: its distance to the stream's end is its lag in the
    /// log, in records. While there is no stream, positions are records.
    pub fn nodes(&self) -> Vec<(ClusterNode, u64)> {
        let cluster = self.list_nodes.get().map(|list| list()).unwrap_or_default();
        let end = self.end_beside(&cluster);
        let other_nodes = cluster.others.into_iter();
        other_nodes
            .map(|node| {
                let offset = end.saturating_sub(node.lag_records);
                (node, offset)
            })
            .collect()
    }

    /// How clients reach this server, if it is the home of a cluster.
    pub fn own_address(&self) -> Option<(String, u16)> {
        self.list_nodes.get().and_then(|list| list().own)
    }

    /// The end of the stream, as INFO and ROLE show it.
    pub fn shown_end(&self) -> u64 {
        let cluster = self.list_nodes.get().map(|list| list()).unwrap_or_default();
        self.end_beside(&cluster)
    }

    fn end_beside(&self, cluster: &ClusterNodes) -> u64 {
        if self.is_on() || cluster.records == 0 {
            return self.end();
        }
        cluster.records
    }

    pub fn upstream(&self) -> Option<Upstream> {
        self.upstream.lock().clone()
    }

    /// Notes how the link to the source is, if there is one.
    pub fn note_link(&self, link: LinkState, now_micros: u64) {
        if let Some(upstream) = self.upstream.lock().as_mut() {
            if link == LinkState::Down && upstream.link != LinkState::Down {
                upstream.down_since_micros = now_micros;
            }
            upstream.link = link;
            upstream.heard_micros = now_micros;
        }
    }

    /// Notes how far the source's stream has arrived.
    pub fn note_offset(&self, offset: u64, now_micros: u64) {
        if let Some(upstream) = self.upstream.lock().as_mut() {
            upstream.offset = offset;
            upstream.heard_micros = now_micros;
        }
    }

    /// Returns true if a replica follows, or did a moment ago.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Adds what the running transaction amounts to.
    pub fn gather(&self, db: u8, words: &[impl AsRef<[u8]>]) {
        let mut request = Vec::new();
        encode_command(words, &mut request);
        self.feed.lock().gathered.push(Effect { db, request });
    }

    /// The transaction has committed. Called with the partition's lock held.
    #[inline]
    pub fn commit(&self, dependency: Dependency) {
        if self.is_on() {
            self.commit_gathered(dependency);
        }
    }

    fn commit_gathered(&self, dependency: Dependency) {
        let mut feed = self.feed.lock();
        let gathered = std::mem::take(&mut feed.gathered);
        if gathered.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        let is_several = gathered.len() > 1;
        for (index, effect) in gathered.into_iter().enumerate() {
            if feed.db != Some(effect.db) {
                feed.db = Some(effect.db);
                encode_command(&["SELECT", &effect.db.to_string()], &mut bytes);
            }
            if index == 0 && is_several {
                encode_command(&["MULTI"], &mut bytes);
            }
            bytes.extend_from_slice(&effect.request);
        }
        if is_several {
            encode_command(&["EXEC"], &mut bytes);
        }
        feed.append(bytes, dependency);
        self.arrived.notify_all();
    }

    /// The transaction was rolled back.
    #[inline]
    pub fn discard(&self) {
        if self.is_on() {
            self.feed.lock().gathered.clear();
        }
    }

    /// Says to every replica that we live, if nothing was said of it for so long.
    pub fn ping(&self, now_micros: u64, period_micros: u64) {
        let last = self.pinged_micros.load(Ordering::Relaxed);
        if !self.is_on() || now_micros < last + period_micros {
            return;
        }
        self.pinged_micros.store(now_micros, Ordering::Relaxed);
        let mut bytes = Vec::new();
        encode_command(&["PING"], &mut bytes);
        self.say(bytes);
    }

    /// Requests the position of every replica.
    pub fn ask(&self) {
        let mut bytes = Vec::new();
        encode_command(&["REPLCONF", "GETACK", "*"], &mut bytes);
        self.say(bytes);
    }

    fn say(&self, bytes: Vec<u8>) {
        self.feed.lock().append(bytes, Dependency::ZERO);
        self.arrived.notify_all();
    }

    /// The end of the stream.
    pub fn end(&self) -> u64 {
        self.feed.lock().end
    }

    /// Start and length of the backlog.
    pub fn backlog(&self) -> (u64, u64) {
        let feed = self.feed.lock();
        (feed.start, feed.end - feed.start)
    }

    pub fn followers(&self) -> Vec<Arc<Follower>> {
        self.feed.lock().followers.clone()
    }

    /// Attaches a replica, with the partition's lock held. `from`: the position after its data, to
    /// continue. `bytes_kept` and `bytes_max`: the backlog without and with replicas that lag.
    /// `None`: there are too many. Returns true if it continues; otherwise a first copy as of now
    /// must be sent before the stream.
    pub fn attach(
        &self,
        replica: Attachment,
        from: Option<u64>,
        bytes_kept: usize,
        bytes_max: usize,
    ) -> Option<(Arc<Follower>, bool)> {
        let mut feed = self.feed.lock();
        if feed.followers.len() >= REPLICAS_MAX {
            return None;
        }
        (feed.bytes_kept, feed.bytes_max) = (bytes_kept, bytes_max);
        let goes_on = from.filter(|from| self.is_on() && (feed.start..=feed.end).contains(from));
        if !self.on.swap(true, Ordering::Relaxed) {
            self.pinged_micros.store(replica.now_micros, Ordering::Relaxed);
        }
        let position = goes_on.unwrap_or(feed.end);
        if goes_on.is_none() {
            // The first copy selects no database: the stream selects its database again.
            feed.db = None;
        }
        let follower = Arc::new(Follower {
            client: replica.client,
            host: replica.host,
            port: replica.port,
            position: AtomicU64::new(position),
            acknowledged: AtomicU64::new(position),
            on_disk: AtomicU64::new(0),
            acknowledged_micros: AtomicU64::new(replica.now_micros),
            heard_micros: AtomicU64::new(replica.now_micros),
            has_spoken: AtomicBool::new(false),
            is_online: AtomicBool::new(goes_on.is_some()),
        });
        feed.followers.push(follower.clone());
        Some((follower, goes_on.is_some()))
    }

    pub fn detach(&self, follower: &Arc<Follower>, now_micros: u64) {
        let mut feed = self.feed.lock();
        feed.followers.retain(|other| !Arc::ptr_eq(other, follower));
        feed.last_follower_left_micros = now_micros;
        feed.trim();
    }

    /// Ends the stream after a while without followers. Returns true if it ended just now.
    pub fn rest(&self, now_micros: u64) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut feed = self.feed.lock();
        let is_over = feed.followers.is_empty() && now_micros >= feed.last_follower_left_micros + LINGERS_MICROS;
        if is_over {
            self.on.store(false, Ordering::Relaxed);
            // Present changes are not sent, so no replica may continue at the former end.
            let (start, end) = (feed.end + 1, feed.end + 1);
            let (bytes_kept, bytes_max) = (feed.bytes_kept, feed.bytes_max);
            *feed = Feed {
                start,
                end,
                bytes_kept,
                bytes_max,
                ..Feed::default()
            };
        }
        is_over
    }

    /// Returns the stream after the replica's position; waits a little if there is nothing.
    pub fn give(&self, follower: &Follower, timeout: Duration) -> Given {
        let mut feed = self.feed.lock();
        let position = follower.position.load(Ordering::Relaxed);
        if position == feed.end {
            self.arrived.wait_for(&mut feed, timeout);
        }
        if position < feed.start {
            return Given::Lost;
        }
        let (mut bytes, mut dependency) = (Vec::new(), Dependency::ZERO);
        let first = feed.parts.partition_point(|part| part.end <= position);
        for part in feed.parts.range(first..) {
            let part_start = part.end - part.bytes.len() as u64;
            let skipped = position.saturating_sub(part_start) as usize;
            bytes.extend_from_slice(&part.bytes[skipped..]);
            dependency = dependency.max(part.dependency);
            if bytes.len() >= GIVEN_BYTES_MAX {
                break;
            }
        }
        if bytes.is_empty() {
            return Given::Nothing;
        }
        follower
            .position
            .store(position + bytes.len() as u64, Ordering::Relaxed);
        Given::Bytes(bytes, dependency)
    }
}

/// A connection's statements about itself as a replica, in REPLCONF and PSYNC.
#[derive(Clone, Debug, Default)]
pub struct ReplicaRequest {
    /// The stream that it has followed, and the position at which it wants to continue.
    pub position: Option<(String, u64)>,
    /// It said SYNC, and knows of no positions.
    pub is_old: bool,
    /// It recognizes the end of a copy by a mark, so the length need not be known in advance.
    pub takes_mark: bool,
    /// It wants a copy and nothing else.
    pub only_records: bool,
    /// The port at which it can be reached itself.
    pub port: u16,
}

/// The identity of a new replica.
pub struct Attachment {
    pub client: u64,
    pub host: String,
    pub port: u16,
    pub now_micros: u64,
}

impl Feed {
    fn append(&mut self, bytes: Vec<u8>, dependency: Dependency) {
        self.end += bytes.len() as u64;
        self.bytes += bytes.len();
        let end = self.end;
        self.parts.push_back(Part { end, dependency, bytes });
        self.trim();
    }

    /// Drops parts beyond the backlog that no replica needs, and parts beyond the limit in any
    /// case.
    fn trim(&mut self) {
        let positions = self
            .followers
            .iter()
            .map(|follower| follower.position.load(Ordering::Relaxed));
        let slowest = positions.min().unwrap_or(u64::MAX);
        while let Some(part) = self.parts.front() {
            let may_go = self.bytes > self.bytes_kept && part.end <= slowest || self.bytes > self.bytes_max;
            if !may_go {
                break;
            }
            self.bytes -= part.bytes.len();
            self.start = part.end;
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartet_model::Version;

    const NOW: Duration = Duration::ZERO;

    fn attach(replication: &Replication, from: Option<u64>) -> (Arc<Follower>, bool) {
        let replica = Attachment {
            client: 1,
            host: "h".into(),
            port: 1,
            now_micros: 0,
        };
        replication.attach(replica, from, 100, 300).expect("there is room")
    }

    fn given(replication: &Replication, follower: &Follower) -> (String, Dependency) {
        match replication.give(follower, NOW) {
            Given::Bytes(bytes, dependency) => (String::from_utf8(bytes).unwrap().replace("\r\n", " "), dependency),
            Given::Nothing => ("".into(), Dependency::ZERO),
            Given::Lost => ("lost".into(), Dependency::ZERO),
        }
    }

    #[test]
    fn transactions_arrive_whole_in_order_and_with_their_hold() {
        let replication = Replication::default();
        replication.commit(Version(1));
        let (follower, goes_on) = attach(&replication, None);
        assert!(!goes_on);
        replication.gather(0, &["DEL", "a"]);
        replication.commit(Version(2));
        replication.gather(3, &["DEL", "b"]);
        replication.discard();
        replication.gather(3, &["DEL", "c"]);
        replication.gather(3, &["DEL", "d"]);
        replication.commit(Version(3));
        let expected =
            "*2 $6 SELECT $1 0 *2 $3 DEL $1 a *2 $6 SELECT $1 3 *1 $5 MULTI *2 $3 DEL $1 c *2 $3 DEL $1 d *1 $4 EXEC ";
        assert_eq!(given(&replication, &follower), (expected.into(), Version(3)));
        assert_eq!(given(&replication, &follower).0, "");
    }

    #[test]
    fn a_replica_that_lags_too_far_is_lost_and_a_timely_replica_continues() {
        let replication = Replication::default();
        let (slow, _) = attach(&replication, None);
        let (quick, _) = attach(&replication, None);
        for _ in 0..20 {
            replication.gather(0, &["SET", "a", "b"]);
            replication.commit(Version(1));
            given(&replication, &quick);
        }
        assert_eq!(given(&replication, &slow).0, "lost");
        let end = replication.end();
        let (start, length) = replication.backlog();
        assert!(start + length == end && length <= 300);
        replication.detach(&slow, 0);
        replication.detach(&quick, 0);
        assert!(attach(&replication, Some(end)).1);
        assert!(!attach(&replication, Some(0)).1);
        assert!(!attach(&replication, Some(end + 1)).1);
    }

    /// The first PING was sent immediately, between a transaction and a waiting client.
    #[test]
    fn a_new_stream_is_silent_for_a_period() {
        let replication = Replication::default();
        let (follower, _) = attach(&replication, None);
        replication.ping(9, 10);
        assert_eq!(given(&replication, &follower).0, "");
        replication.ping(10, 10);
        assert_eq!(given(&replication, &follower).0, "*1 $4 PING ");
    }

    /// A stream without followers has a gap, which no replica may skip.
    #[test]
    fn no_message_follows_a_final_one() {
        let replication = Replication::default();
        let (follower, _) = attach(&replication, None);
        replication.detach(&follower, 5);
        assert!(!replication.rest(LINGERS_MICROS));
        assert!(replication.rest(LINGERS_MICROS + 5) && !replication.is_on());
        assert!(!attach(&replication, Some(0)).1);
    }
}
