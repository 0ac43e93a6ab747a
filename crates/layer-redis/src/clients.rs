//! Connections: what each carries, and the list of all of them that CLIENT commands look at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Hold, WatchId};
use quartet_wire_resp::Protocol;

/// What a connection's own thread changes freely.
pub struct ClientState {
    pub shared: Arc<Client>,
    pub db: u8,
    pub protocol: Protocol,
    pub authenticated: bool,
    /// The requests queued since MULTI.
    pub multi: Option<Queue>,
    pub watched: Vec<Watched>,
    pub reply_mode: ReplyMode,
    pub close_after_reply: bool,
    /// The request is no request: close at once.
    pub close_without_reply: bool,
    /// How long DEBUG SLEEP, of the request that runs now, is to keep the connection waiting behind the lock.
    pub sleep_micros: u64,
    /// The error reply of the latest failed command may be sent once this version is durable.
    pub failure_hold: Hold,
}

/// Requests waiting for EXEC, as they were sent.
#[derive(Default)]
pub struct Queue {
    pub requests: Vec<Vec<u8>>,
    pub bytes: usize,
    /// Some request writes.
    pub writes: bool,
    /// Some request is refused while memory is short.
    pub may_need_memory: bool,
    /// A request was refused: EXEC will discard them all.
    pub refused: bool,
}

/// A key under WATCH.
pub struct Watched {
    pub db: u8,
    pub name: Vec<u8>,
    pub id: WatchId,
    /// Set once the key was touched.
    pub touched: Arc<AtomicBool>,
    /// The key was there, but had expired, when WATCH looked.
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
    pub fn new(shared: Arc<Client>, authenticated: bool) -> ClientState {
        ClientState {
            shared,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            multi: None,
            watched: Vec::new(),
            reply_mode: ReplyMode::On,
            close_after_reply: false,
            close_without_reply: false,
            sleep_micros: 0,
            failure_hold: Hold::ZERO,
        }
    }
}

/// What other connections may see and change: CLIENT LIST, KILL, UNBLOCK, and replies that arrive unasked.
pub struct Client {
    pub id: u64,
    pub address: String,
    pub local_address: String,
    pub connected_micros: u64,
    /// When its latest bytes arrived or its latest command ended.
    pub last_active_micros: AtomicU64,
    pub db: AtomicU8,
    pub resp: AtomicU8,
    /// Number of queued requests plus one while in MULTI; zero outside.
    pub multi: AtomicU64,
    pub watch_count: AtomicU64,
    pub blocked: AtomicBool,
    pub monitor: AtomicBool,
    pub no_evict: AtomicBool,
    pub no_touch: AtomicBool,
    pub killed: AtomicBool,
    pub buffers: Buffers,
    /// Index of the latest command in the table.
    last_command: AtomicUsize,
    pub details: Mutex<ClientDetails>,
    mailbox: Mutex<Mailbox>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Bytes of the buffers, as their owner last told: for CLIENT LIST and INFO.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Requests that are not executed yet.
    pub input: AtomicUsize,
    /// Room behind them.
    pub input_free: AtomicUsize,
    /// Replies that are not sent yet.
    pub output: AtomicUsize,
}

impl Buffers {
    pub fn total(&self) -> usize {
        let parts = [&self.input, &self.input_free, &self.output];
        parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

#[derive(Clone, Debug, Default)]
pub struct ClientDetails {
    pub name: String,
    pub library_name: String,
    pub library_version: String,
}

/// Bytes for a connection that another thread produced.
#[derive(Default)]
pub struct Mailbox {
    pub bytes: Vec<u8>,
    pub hold: Hold,
    /// The reply to the command that blocked is among the bytes.
    pub unblocked: bool,
}

/// A mailbox that nobody empties is cut off here: the connection is closed.
const MAILBOX_BYTES_MAX: usize = 256 << 20;

const NO_COMMAND: usize = usize::MAX;

impl Client {
    /// Notes the command at `index` of the table as the latest.
    pub fn note_command(&self, index: usize) {
        self.last_command.store(index, Ordering::Relaxed);
    }

    /// The latest command's name; `NULL` before the first.
    pub fn last_command(&self) -> &'static str {
        match self.last_command.load(Ordering::Relaxed) {
            NO_COMMAND => "NULL",
            index => crate::commands::table().at(index).name,
        }
    }

    /// Leaves bytes for the connection and wakes it. The hold is what they have to wait for.
    pub fn post(&self, bytes: &[u8], hold: Hold, unblocked: bool) {
        self.post_within(MAILBOX_BYTES_MAX, bytes, hold, unblocked);
    }

    fn post_within(&self, bytes_max: usize, bytes: &[u8], hold: Hold, unblocked: bool) {
        let mut mailbox = self.mailbox.lock();
        if mailbox.bytes.len() + bytes.len() > bytes_max {
            self.killed.store(true, Ordering::SeqCst);
        } else {
            mailbox.bytes.extend_from_slice(bytes);
            mailbox.hold = mailbox.hold.max(hold);
            mailbox.unblocked |= unblocked;
        }
        drop(mailbox);
        (self.wake)();
    }

    pub fn take_mail(&self) -> Mailbox {
        std::mem::take(&mut *self.mailbox.lock())
    }

    /// Asks the connection to close.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        (self.wake)();
    }
}

/// All connections by id.
#[derive(Default)]
pub struct Clients {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    monitors: AtomicU64,
}

impl Clients {
    pub fn connect(
        &self,
        address: String,
        local_address: String,
        now_micros: u64,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local_address,
            connected_micros: now_micros,
            last_active_micros: AtomicU64::new(now_micros),
            db: AtomicU8::new(0),
            resp: AtomicU8::new(2),
            multi: AtomicU64::new(0),
            watch_count: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            buffers: Buffers::default(),
            last_command: AtomicUsize::new(NO_COMMAND),
            details: Mutex::default(),
            mailbox: Mutex::default(),
            wake,
        });
        self.all.lock().insert(client.id, client.clone());
        client
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

    /// Wakes every connection: what it waits for may be over, or have moved.
    pub fn wake_all(&self) {
        self.list().iter().for_each(|client| (client.wake)());
    }

    /// Wakes the connections that hold buffers and have been idle since `micros`: they can give them back.
    pub fn wake_idle(&self, micros: u64) {
        for client in self.list() {
            let is_idle = client.last_active_micros.load(Ordering::Relaxed) <= micros;
            if is_idle && client.buffers.total() > 0 {
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

    pub fn set_monitor(&self, client: &Client, on: bool) {
        if client.monitor.swap(on, Ordering::SeqCst) != on {
            if on {
                self.monitors.fetch_add(1, Ordering::SeqCst)
            } else {
                self.monitors.fetch_sub(1, Ordering::SeqCst)
            };
        }
    }

    pub fn has_monitors(&self) -> bool {
        self.monitors.load(Ordering::Relaxed) > 0
    }

    /// Sends a line to every monitor. One that leaves more than `bytes_max` unread is disconnected.
    pub fn tell_monitors(&self, line: &[u8], bytes_max: Option<usize>) {
        let bytes_max = bytes_max.unwrap_or(MAILBOX_BYTES_MAX).min(MAILBOX_BYTES_MAX);
        for client in self.list() {
            if client.monitor.load(Ordering::Relaxed) {
                client.post_within(bytes_max, line, Hold::ZERO, false);
            }
        }
    }
}
