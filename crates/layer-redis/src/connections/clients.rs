//! Connections: what each carries, and the list of all of them that CLIENT commands look at.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Dependency, Reserved, WatchId};
use quartet_wire_resp::Protocol;

use crate::access::acl::{User, Users};
use crate::command::Command;
use crate::command::table::Table;
use crate::connections::client_memory::{ClientMemory, Counted, SharedBytes};
use crate::connections::mailbox::{Mailbox, SHARED_BYTES_MIN, Taken};
use crate::connections::subscriptions::Subscriptions;
use crate::connections::tracking::Mode;
use crate::keyspace::late_part::LatePart;
use crate::replication::ReplicaRequest;

/// State that a connection's own thread changes freely.
pub struct ClientState {
    pub shared: Arc<Client>,
    pub db: u8,
    pub protocol: Protocol,
    pub authenticated: bool,
    /// The user with the rights of a command.
    pub user: Arc<User>,
    /// The requests queued since MULTI.
    pub multi: Option<Queue>,
    /// Keys under WATCH, by database and name.
    pub watched: BTreeMap<(u8, Arc<[u8]>), Watched>,
    /// WATCH was sent while a script kept the lock, so the keys count as touched.
    pub watched_blindly: bool,
    pub reply_mode: ReplyMode,
    pub close_after_reply: bool,
    /// The request is no request: close at once.
    pub close_without_reply: bool,
    /// Time for which DEBUG SLEEP, in the current request, keeps the connection waiting after the
    /// lock is released.
    pub sleep_micros: u64,
    /// The clock's time at the end of the previous command, or when the lock was taken, if no time
    /// has passed since: it is then the next command's start.
    pub started_micros: Option<u64>,
    /// The commands are those of a script.
    pub is_script: bool,
    /// The thread may be kept by a script until it is done.
    pub may_take_long: bool,
    /// The last of its long-running kinds of commands took long: the next starts where it may take
    /// long.
    pub expects_long: bool,
    pub subscriptions: Subscriptions,
    /// CLIENT CACHING: the setting for the next command, or for the transaction that it starts.
    pub caching: Option<bool>,
    /// Its statements about itself as a replica, before it is one.
    pub replica: ReplicaRequest,
    /// It brings what the server that we are a replica of has sent: nothing is refused, and nothing
    /// expires before it says so.
    pub is_upstream: bool,
    /// The reply of the command that runs now may lack parts for a while.
    pub takes_late_parts: bool,
    /// Parts that the reply lacks, in the order of their places.
    pub late_parts: Vec<LatePart>,
    /// Replies are not sent in parts: each is kept until it is whole.
    pub keeps_replies_whole: bool,
    /// Counts replies until the connection's owner does.
    pub unsent: Option<Reserved>,
    /// The parsed request of a command that runs again where it may take long. A command that runs
    /// on the connection's thread drops it.
    pub parsed: Option<Box<dyn Any + Send + Sync>>,
}

/// Requests waiting for EXEC, as they were sent.
#[derive(Default)]
pub struct Queue {
    pub requests: Vec<Vec<u8>>,
    pub bytes: usize,
    /// Some request writes.
    pub writes: bool,
    /// Some request does more than to read keys.
    pub does_more_than_read: bool,
    /// Some request is refused while memory is short.
    pub may_need_memory: bool,
    /// A request was refused: EXEC will discard them all.
    pub refused: bool,
}

/// A key under WATCH.
pub struct Watched {
    pub id: WatchId,
    /// Set once the key was touched.
    pub touched: Arc<AtomicBool>,
    /// The key existed, but had expired, at WATCH.
    pub was_expired: bool,
}

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next command answers nothing.
    SkipNext,
    /// This command answers nothing.
    SkipThis,
}

impl ClientState {
    pub fn new(shared: Arc<Client>, authenticated: bool, user: Arc<User>) -> ClientState {
        ClientState {
            shared,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            user,
            multi: None,
            watched: BTreeMap::new(),
            watched_blindly: false,
            reply_mode: ReplyMode::On,
            close_after_reply: false,
            close_without_reply: false,
            sleep_micros: 0,
            started_micros: None,
            is_script: false,
            may_take_long: false,
            expects_long: false,
            subscriptions: Subscriptions::default(),
            caching: None,
            replica: ReplicaRequest::default(),
            is_upstream: false,
            takes_late_parts: false,
            late_parts: Vec::new(),
            keeps_replies_whole: false,
            unsent: None,
            parsed: None,
        }
    }
}

impl ClientState {
    /// Returns true if EXEC would only run commands that read keys, and depends on no watch.
    pub fn executes_only_reads(&self) -> bool {
        let queue = self.multi.as_ref();
        let only_reads = queue.is_some_and(|queue| !queue.does_more_than_read && !queue.refused);
        only_reads && self.watched.is_empty() && !self.watched_blindly
    }

    /// Returns true if this command only reads, and may take so long that it continues without the
    /// partition's lock.
    pub fn may_look_at_much(&self, command: &Command) -> bool {
        command.may_look_at_much() || command.name == "exec" && self.executes_only_reads()
    }

    pub fn select(&mut self, db: u8) {
        self.db = db;
        self.shared.db.store(db, Ordering::Relaxed);
    }

    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.shared.resp.store(number, Ordering::Relaxed);
    }

    /// The connection is this user's from now on.
    pub fn become_user(&mut self, user: Arc<User>) {
        *self.shared.user.lock() = Some(user.clone());
        self.user = user;
    }

    /// The setting of CLIENT CACHING applies to one command or one transaction: not beyond the
    /// command of this name, unless it is CLIENT or inside MULTI (Redis' `resetClient`).
    pub fn forget_caching_behind(&mut self, command: &[u8]) {
        if self.caching.is_some() && self.multi.is_none() && !command.eq_ignore_ascii_case(b"client") {
            self.caching = None;
        }
    }
}

/// State that other connections may see and change: CLIENT LIST, KILL, UNBLOCK, and replies that
/// arrive unasked.
pub struct Client {
    pub id: u64,
    pub address: String,
    pub local_address: String,
    pub connected_micros: u64,
    /// The time at which its latest bytes arrived or its latest command ended.
    pub last_active_micros: AtomicU64,
    pub db: AtomicU8,
    pub resp: AtomicU8,
    /// Number of queued requests plus one while in MULTI; zero outside.
    pub multi: AtomicU64,
    /// Database and name of each key under WATCH.
    pub watched_keys: Mutex<Vec<(u8, Arc<[u8]>)>>,
    pub blocked: AtomicBool,
    pub monitor: AtomicBool,
    /// The connection is a replica's.
    pub is_replica: AtomicBool,
    pub no_evict: AtomicBool,
    pub no_touch: AtomicBool,
    pub killed: AtomicBool,
    /// Its peer has left while a command ran.
    pub is_gone: AtomicBool,
    pub buffers: Buffers,
    pub subscriptions: SubscriptionCounts,
    /// `None`: the default user.
    pub user: Mutex<Option<Arc<User>>>,
    /// How CLIENT TRACKING was turned on.
    pub tracking: Mutex<Option<Mode>>,
    /// Index of the latest command in the table.
    last_command: AtomicUsize,
    pub details: Mutex<ClientDetails>,
    kept: Mutex<Kept>,
    mailbox: Mutex<Mailbox>,
    has_mail: AtomicBool,
    wake: Wake,
}

/// Notifies a connection of pending work.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Bytes of the buffers, as their owner last set them: for CLIENT LIST and INFO.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Requests that are not executed yet.
    pub input: AtomicUsize,
    /// Free buffer space after the unprocessed input.
    pub input_free: AtomicUsize,
    /// Replies that are not sent yet.
    pub output: AtomicUsize,
    /// Mail from others that the connection has not taken.
    pub mailbox: AtomicUsize,
    /// The requests of a transaction.
    pub queue: AtomicUsize,
    /// All that the connection's owner counts: its buffers with the room in them, the words of a
    /// request that is arriving, the queue.
    pub owned: AtomicUsize,
    /// The connection's own part of the mailbox.
    pub own_mail: AtomicUsize,
    /// See [`Client::keep`].
    pub kept: AtomicUsize,
}

/// The memory that the server takes beside buffers at a connection's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFor {
    /// The keys under WATCH.
    Watches,
    /// The keys that a command waits for.
    Wait,
    Subscriptions,
}

/// Bytes by what they are kept for, and all of them.
struct Kept {
    bytes: [usize; 3],
    counted: Counted,
}

/// Number of the connection's subscriptions, as their owner last set it.
#[derive(Debug, Default)]
pub struct SubscriptionCounts {
    pub channels: AtomicUsize,
    pub patterns: AtomicUsize,
    pub shards: AtomicUsize,
}

impl SubscriptionCounts {
    pub fn any(&self) -> bool {
        let counts = [&self.channels, &self.patterns, &self.shards];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

impl Buffers {
    /// The connection's part of the bytes that are counted for all connections.
    pub fn counted(&self) -> usize {
        let parts = [&self.owned, &self.own_mail, &self.kept];
        parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }

    /// Bytes of messages in its mailbox that others may wait for too.
    pub fn shared_mail(&self) -> usize {
        let mail = self.mailbox.load(Ordering::Relaxed);
        mail.saturating_sub(self.own_mail.load(Ordering::Relaxed))
    }

    pub fn total(&self) -> usize {
        let parts = [&self.input, &self.input_free, &self.output, &self.mailbox, &self.queue];
        parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

#[derive(Clone, Debug, Default)]
pub struct ClientDetails {
    pub name: String,
    pub library_name: String,
    pub library_version: String,
    /// CLIENT CAPA: the client understands a redirection to another server. This one sends none.
    pub can_redirect: bool,
}

impl ClientDetails {
    /// The letters of CLIENT LIST.
    pub fn capabilities(&self) -> &'static str {
        if self.can_redirect { "r" } else { "" }
    }
}

/// The dependency of pushes, and the limits of listeners: `client-output-buffer-limit` of the class
/// `pubsub`.
pub struct Delivery {
    pub dependency: Dependency,
    pub now_micros: u64,
    /// 0: no limit.
    pub bytes_hard: usize,
    /// 0: no limit.
    pub bytes_soft: usize,
    /// Time for which more than the soft limit may wait.
    pub soft_micros: u64,
}

/// A connection with a mailbox above this limit is closed.
const MAILBOX_BYTES_MAX: usize = 256 << 20;

const NO_COMMAND: usize = usize::MAX;

impl Client {
    /// The user of the connection.
    pub fn user(&self, users: &Users) -> Arc<User> {
        self.user.lock().clone().unwrap_or_else(|| users.default_user().clone())
    }

    /// Notes the command at `index` of the table as the latest.
    pub fn note_command(&self, index: usize) {
        self.last_command.store(index, Ordering::Relaxed);
    }

    /// The last note of [`Client::note_command`].
    pub fn last_command_index(&self) -> usize {
        self.last_command.load(Ordering::Relaxed)
    }

    /// The latest command's name; `NULL` before the first.
    pub fn last_command(&self, table: &Table) -> &'static str {
        match self.last_command.load(Ordering::Relaxed) {
            NO_COMMAND => "NULL",
            index => table.at(index).name,
        }
    }

    /// Leaves bytes for the connection and wakes it. The hold is what they have to wait for.
    pub fn post(&self, bytes: &[u8], dependency: Dependency, unblocked: bool) {
        self.post_within(MAILBOX_BYTES_MAX, bytes, dependency, unblocked);
    }

    fn post_within(&self, bytes_max: usize, bytes: &[u8], dependency: Dependency, unblocked: bool) {
        let mut mailbox = self.mailbox.lock();
        if mailbox.bytes() + bytes.len() > bytes_max {
            self.cut_off(&mut mailbox);
        } else {
            mailbox.add(None, bytes, dependency);
            mailbox.unblocked |= unblocked;
            self.note_mail(&mailbox);
        }
        drop(mailbox);
        (self.wake)();
    }

    /// Leaves a line for a connection that listens to all commands.
    fn post_line(&self, bytes_max: usize, line: &Content<'_>) {
        let mut mailbox = self.mailbox.lock();
        if !self.monitor.load(Ordering::Relaxed) {
            return;
        }
        if mailbox.bytes() + line.len() > bytes_max {
            self.cut_off(&mut mailbox);
        } else {
            line.add_to(&mut mailbox, None, Dependency::ZERO);
            self.note_mail(&mailbox);
        }
        drop(mailbox);
        (self.wake)();
    }

    /// Leaves a push, in RESP3's form, which RESP2 has as an array.
    pub fn push(&self, content: &Content<'_>, delivery: &Delivery) {
        let mut mailbox = self.mailbox.lock();
        if self.is_cut_off(mailbox.bytes() + content.len(), delivery, &mut mailbox) {
            self.cut_off(&mut mailbox);
        } else {
            let first = (self.resp.load(Ordering::Relaxed) == 2).then_some(b'*');
            content.add_to(&mut mailbox, first, delivery.dependency);
            self.note_mail(&mailbox);
        }
        drop(mailbox);
        (self.wake)();
    }

    /// Counts `bytes` as what is kept for this purpose from now on. False: the process has no room
    /// for more, or one connection may not have it; nothing has changed, and the request for it is
    /// to be refused. Beyond the bound of one connection it would be closed instead, unanswered.
    #[must_use]
    pub fn keep(&self, purpose: KeptFor, bytes: usize) -> bool {
        let mut memory_by_purpose = self.kept.lock();
        let other_bytes: usize =
            memory_by_purpose.bytes.iter().sum::<usize>() - memory_by_purpose.bytes[purpose as usize];
        let is_more = bytes > memory_by_purpose.bytes[purpose as usize];
        let may_be_kept = !is_more || other_bytes + bytes <= memory_by_purpose.counted.most_of_one();
        let has_room = may_be_kept && memory_by_purpose.counted.try_set(other_bytes + bytes);
        if has_room {
            memory_by_purpose.bytes[purpose as usize] = bytes;
            self.buffers.kept.store(other_bytes + bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// The same for `bytes` more.
    #[must_use]
    pub fn keep_more(&self, purpose: KeptFor, bytes: usize) -> bool {
        let before = self.kept.lock().bytes[purpose as usize];
        self.keep(purpose, before + bytes)
    }

    /// The same for `bytes` less.
    pub fn keep_less(&self, purpose: KeptFor, bytes: usize) {
        let before = self.kept.lock().bytes[purpose as usize];
        let is_less = self.keep(purpose, before.saturating_sub(bytes));
        debug_assert!(is_less, "less is always possible");
    }

    /// Nothing is kept for this purpose any longer.
    pub fn keep_nothing(&self, purpose: KeptFor) {
        let is_less = self.keep(purpose, 0);
        debug_assert!(is_less, "less is always possible");
    }

    fn note_mail(&self, mailbox: &Mailbox) {
        self.buffers.own_mail.store(mailbox.own_bytes(), Ordering::Relaxed);
        self.has_mail.store(mailbox.bytes() > 0, Ordering::Relaxed);
        self.buffers.mailbox.store(mailbox.bytes(), Ordering::Relaxed);
    }

    fn cut_off(&self, mailbox: &mut Mailbox) {
        mailbox.empty();
        self.note_mail(mailbox);
        self.killed.store(true, Ordering::SeqCst);
    }

    /// Drops what was left for the connection.
    pub fn empty_mailbox(&self) {
        let mut mailbox = self.mailbox.lock();
        mailbox.empty();
        self.note_mail(&mailbox);
    }

    /// Closes a connection that listens and has left more unread than the soft limit allows for too
    /// long, though nothing more was left for it since.
    fn enforce_soft_limit(&self, delivery: &Delivery) {
        let mut mailbox = self.mailbox.lock();
        if self.is_cut_off(mailbox.bytes(), delivery, &mut mailbox) {
            self.cut_off(&mut mailbox);
            drop(mailbox);
            (self.wake)();
        }
    }

    /// Nothing more is kept for a connection that reads too slowly: the limits of listeners, or of
    /// any connection.
    fn is_cut_off(&self, mailbox_bytes: usize, delivery: &Delivery, mailbox: &mut Mailbox) -> bool {
        if self.killed.load(Ordering::Relaxed) || mailbox_bytes > MAILBOX_BYTES_MAX {
            return true;
        }
        if !self.subscriptions.any() {
            return false;
        }
        let waiting = mailbox_bytes + self.buffers.output.load(Ordering::Relaxed);
        if delivery.bytes_soft == 0 || waiting <= delivery.bytes_soft {
            mailbox.over_soft_since_micros = None;
        }
        let since_micros = match mailbox.over_soft_since_micros {
            Some(micros) => micros,
            None if delivery.bytes_soft > 0 && waiting > delivery.bytes_soft => {
                *mailbox.over_soft_since_micros.insert(delivery.now_micros)
            }
            None => delivery.now_micros,
        };
        let is_over_soft = delivery.now_micros.saturating_sub(since_micros) > delivery.soft_micros;
        is_over_soft || delivery.bytes_hard > 0 && waiting > delivery.bytes_hard
    }

    /// Returns true if the mailbox is not empty. Called by the connection itself, for messages of
    /// its own commands.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Relaxed)
    }

    /// Appends what was left to `out`, until that has at least `bytes_max` bytes.
    pub fn drain_mailbox(&self, out: &mut Vec<u8>, bytes_max: usize) -> Taken {
        let mut mailbox = self.mailbox.lock();
        let mail = mailbox.take(out, bytes_max);
        self.note_mail(&mailbox);
        mail
    }

    /// Returns true if the connection has state that is only in this layer: it waits, subscribes,
    /// watches or caches keys.
    pub fn is_bound(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        is(&self.blocked)
            || is(&self.monitor)
            || is(&self.is_replica)
            || self.subscriptions.any()
            || self.multi.load(Ordering::SeqCst) > 0
            || !self.watched_keys.lock().is_empty()
            || self.tracking.lock().is_some()
    }

    /// Requests the close of the connection.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        (self.wake)();
    }
}

/// Bytes to be left for connections.
pub enum Content<'b> {
    Own(&'b [u8]),
    Shared(Arc<SharedBytes>),
}

impl Content<'_> {
    fn len(&self) -> usize {
        match self {
            Content::Own(bytes) => bytes.len(),
            Content::Shared(message) => message.len(),
        }
    }

    fn add_to(&self, mailbox: &mut Mailbox, first: Option<u8>, dependency: Dependency) {
        match self {
            Content::Own(bytes) => mailbox.add(first, bytes, dependency),
            Content::Shared(message) => mailbox.add_shared(first, message, dependency),
        }
    }
}

/// All connections by id.
#[derive(Default)]
pub struct Clients {
    /// Their size, with those of all other logical databases.
    pub memory: Arc<ClientMemory>,
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    monitors: AtomicU64,
}

impl Clients {
    pub fn connect(&self, address: String, local_address: String, now_micros: u64, wake: Wake) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local_address,
            connected_micros: now_micros,
            last_active_micros: AtomicU64::new(now_micros),
            db: AtomicU8::new(0),
            resp: AtomicU8::new(2),
            multi: AtomicU64::new(0),
            watched_keys: Mutex::default(),
            blocked: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            buffers: Buffers::default(),
            subscriptions: SubscriptionCounts::default(),
            user: Mutex::default(),
            tracking: Mutex::default(),
            last_command: AtomicUsize::new(NO_COMMAND),
            details: Mutex::default(),
            kept: Mutex::new(Kept {
                bytes: [0; 3],
                counted: Counted::new(self.memory.clone(), 0),
            }),
            mailbox: Mutex::new(Mailbox::new(self.memory.clone())),
            has_mail: AtomicBool::new(false),
            wake,
        });
        self.all.lock().insert(client.id, client.clone());
        client
    }

    /// Lists a connection that was another database's until now. Its statements about itself go
    /// with it.
    pub fn admit(&self, client: &Client, now_micros: u64) -> Arc<Client> {
        let (address, local_address) = (client.address.clone(), client.local_address.clone());
        let admitted = self.connect(address, local_address, now_micros, client.wake.clone());
        admitted
            .resp
            .store(client.resp.load(Ordering::Relaxed), Ordering::Relaxed);
        *admitted.details.lock() = client.details.lock().clone();
        admitted
    }

    pub fn disconnect(&self, client: &Client) {
        self.set_monitor(client, false);
        self.all.lock().remove(&client.id);
    }

    /// Makes the connection close. It no longer counts from now on.
    pub fn kill(&self, client: &Client) {
        self.disconnect(client);
        client.kill();
    }

    /// Wakes every connection: the event that it waits for may have occurred or moved.
    pub fn wake_all(&self) {
        self.list().iter().for_each(|client| (client.wake)());
    }

    /// Wakes the connections that hold buffers and have been idle since `micros`: they can give
    /// them back.
    pub fn wake_idle(&self, micros: u64) {
        for client in self.list() {
            let is_idle = client.last_active_micros.load(Ordering::Relaxed) <= micros;
            if is_idle && client.buffers.owned.load(Ordering::Relaxed) + client.buffers.total() > 0 {
                (client.wake)();
            }
        }
    }

    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).cloned()
    }

    /// Every connection, oldest first.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Starts or ends MONITOR. Once it has ended, no further lines are added, and pending lines are
    /// dropped: a client would take them for the replies of its next commands.
    pub fn set_monitor(&self, client: &Client, on: bool) {
        let mut mailbox = client.mailbox.lock();
        if client.monitor.swap(on, Ordering::SeqCst) == on {
            return;
        }
        if on {
            self.monitors.fetch_add(1, Ordering::SeqCst);
        } else {
            self.monitors.fetch_sub(1, Ordering::SeqCst);
            mailbox.empty();
            client.note_mail(&mailbox);
        }
    }

    pub fn has_monitors(&self) -> bool {
        self.monitors.load(Ordering::Relaxed) > 0
    }

    /// Sends a line to every monitor. One that leaves more than `bytes_max` unread is disconnected.
    pub fn tell_monitors(&self, line: &[u8], bytes_max: Option<usize>) {
        let bytes_max = bytes_max.unwrap_or(MAILBOX_BYTES_MAX).min(MAILBOX_BYTES_MAX);
        let line = match self.monitors.load(Ordering::Relaxed) > 1 && line.len() >= SHARED_BYTES_MIN {
            true => Content::Shared(SharedBytes::new(&self.memory, line.to_vec())),
            false => Content::Own(line),
        };
        for client in self.list() {
            if client.monitor.load(Ordering::Relaxed) {
                client.post_line(bytes_max, &line);
            }
        }
    }

    /// Closes the connections that have left more unread than their soft limit allows for too long.
    /// Called about once a second.
    pub fn enforce_soft_limits(&self, delivery: &Delivery) {
        let clients = self.list();
        let listening = clients.iter().filter(|client| client.subscriptions.any());
        listening.for_each(|client| client.enforce_soft_limit(delivery));
    }
}
