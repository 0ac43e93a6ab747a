//! The commands of one request on their way through a session.
//!
//! A session is lent for the request and has no state of an earlier request: commands with an
//! effect that would outlive a request are refused. Short work is done on the I/O thread; long work
//! (a long pipeline, a script, a pause of all clients) continues on a thread that may block.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::{Admission, Dependency, Durability, Reserved};
use quartet_layer_redis::Deferred;
use quartet_layer_redis::access::acl::User;
use quartet_layer_redis::command::table::Table;
use quartet_layer_redis::session::{at_replica, connectionless};
use quartet_layer_redis::{After, Next};
use quartet_layer_redis::{Redis, Session};
use quartet_model::Version;
use quartet_wire_resp::{Limits, Parsed, Parser, Protocol, Reply};
use quartet_wire_rest::Commands;
use quartet_wire_rest::reply::OUT_OF_MEMORY;
use tokio::sync::watch;

use crate::observability::slow_requests::SHAPE_BYTES_MAX;
use crate::redis::rdb_file;
use crate::redis::save;

/// Commands of one request that an I/O thread executes; another thread executes the rest.
const COMMANDS_AT_ONCE: usize = 1000;
/// Bytes of replies that an I/O thread gathers.
const REPLIES_BYTES_AT_ONCE: usize = 1 << 20;
/// The interval at which a held request checks whether it may continue.
const PAUSE_CHECK: Duration = Duration::from_millis(20);
/// Sessions kept for later requests.
const SPARE_MAX: usize = 64;

/// Sessions without a connection, of one logical database.
pub struct Sessions {
    layer: Arc<Redis>,
    spare: Mutex<Vec<Session>>,
    spare_max: usize,
    stop: watch::Receiver<bool>,
}

impl Sessions {
    pub fn new(layer: Arc<Redis>, stop: watch::Receiver<bool>) -> Sessions {
        Sessions {
            layer,
            spare: Mutex::default(),
            spare_max: SPARE_MAX,
            stop,
        }
    }

    /// The sessions of another database. They are not kept, as they would keep the database's
    /// layer.
    pub fn elsewhere(&self, layer: Arc<Redis>) -> Sessions {
        Sessions {
            layer,
            spare: Mutex::default(),
            spare_max: 0,
            stop: self.stop.clone(),
        }
    }

    pub fn layer(&self) -> &Arc<Redis> {
        &self.layer
    }

    /// Refuses one listener more than the database may have, with the text of the error.
    pub fn check_room(&self) -> Result<(), String> {
        let admission_control = self.layer.access.admission_control.as_ref();
        admission_control.map_or(Ok(()), |admission_control| {
            admission_control.check_connections(self.layer.connections.clients.count())
        })
    }

    /// A session of this user that receives messages.
    pub fn listen(&self, user: Arc<User>, wake: Arc<dyn Fn() + Send + Sync>) -> Session {
        let now_micros = self.layer.engine.now_micros();
        let client = self
            .layer
            .connections
            .clients
            .connect(ADDRESS.into(), ADDRESS.into(), now_micros, wake);
        let mut session = Session::new(self.layer.clone(), client);
        session.keep_replies_whole();
        session.act_for(user);
        session
    }

    fn lend(&self, user: Arc<User>) -> Session {
        match self.spare.lock().pop() {
            Some(mut session) => {
                session.act_for(user);
                session
            }
            None => self.listen(user, Arc::new(|| {})),
        }
    }

    fn take_back(&self, session: Session) {
        let is_killed = session.client().killed.load(std::sync::atomic::Ordering::SeqCst);
        let mut spare = self.spare.lock();
        if !is_killed && spare.len() < self.spare_max {
            spare.push(session);
        }
    }
}

/// The address that MONITOR and CLIENT LIST show for a request over REST, as Upstash does.
const ADDRESS: &str = "0.0.0.0:0";

/// The error for what is not executed because something other than a script keeps the partition;
/// what clients know of Redis.
pub const BUSY: &str = "BUSY the database is busy with something that takes long";

/// Interval of checks for a database's arrival in another partition.
const MOVE_LOOK: Duration = Duration::from_millis(1);

/// The outcome of a request on an I/O thread.
pub enum ExecutionStart {
    Everything,
    APart,
    /// Something keeps the partition.
    Nothing,
}

pub struct Execution {
    sessions: Arc<Sessions>,
    /// `None` once it was given back.
    session: Option<Session>,
    commands: Commands,
    /// The memory of the commands.
    _input: Reserved,
    /// Commands that are answered.
    done: usize,
    /// The step after the executed commands. Work after them needs a thread that may be kept.
    next: Next,
    /// In RESP2, one for each command that is done.
    pub replies: Vec<u8>,
    /// Counts the replies.
    pub unsent: Option<Reserved>,
    pub dependency: Dependency,
    /// The latest commit that the request can have seen.
    pub version: Version,
}

/// Returns true if a node that is not home answers all of these commands.
pub fn are_read_at_replicas(table: &Table, commands: &Commands) -> bool {
    let count = commands.len();
    // MULTI and EXEC around a transaction.
    let own = if commands.is_transaction() {
        1..count - 1
    } else {
        0..count
    };
    (1..=COMMANDS_AT_ONCE).contains(&own.len())
        && own.into_iter().all(|index| {
            let command = commands.get(index);
            command.is_some_and(|command| at_replica::is_read_at_replicas(table, command))
        })
}

impl Execution {
    pub fn new(sessions: Arc<Sessions>, user: Arc<User>, commands: Commands, input: Reserved) -> Execution {
        let session = sessions.lend(user);
        Execution {
            sessions,
            session: Some(session),
            commands,
            _input: input,
            done: 0,
            next: Next::More,
            replies: Vec::new(),
            unsent: None,
            dependency: Dependency::ZERO,
            version: Version::ZERO,
        }
    }

    pub fn layer(&self) -> &Arc<Redis> {
        self.sessions.layer()
    }

    /// Returns true if a node that is not home answers all of it.
    pub fn is_read_at_replicas(&self) -> bool {
        are_read_at_replicas(self.sessions.layer().table, &self.commands)
    }

    /// Executes as much as an I/O thread may be kept with.
    pub fn begin(&mut self) -> ExecutionStart {
        // One that is refused inside a transaction is not queued, and without it nothing of the
        // rest may be done.
        let refused = (0..self.commands.len()).find_map(|index| self.refusal_at(index));
        if let (true, Some(text)) = (self.commands.is_transaction(), refused) {
            self.answer_rest(&text);
        }
        while self.done < self.commands.len() {
            let is_long = self.done >= COMMANDS_AT_ONCE || self.replies.len() >= REPLIES_BYTES_AT_ONCE;
            if is_long || !self.step() {
                return match self.next {
                    Next::Busy if self.done == 0 => ExecutionStart::Nothing,
                    _ => ExecutionStart::APart,
                };
            }
        }
        self.end();
        ExecutionStart::Everything
    }

    /// Executes the rest, however long it takes.
    pub fn finish(&mut self) {
        while self.done < self.commands.len() || matches!(self.next, Next::After(_)) {
            if let Some(after) = self.take_after() {
                self.perform(after);
            } else if self.replies.len() as u64 > self.layer().reply_memory_max() {
                // Each reply was counted, and all of them are kept until the request has ended.
                self.answer_rest(OUT_OF_MEMORY);
            } else if !self.step() {
                match self.next {
                    Next::After(_) => {}
                    Next::Busy if self.has_room_again() || self.waits_for_a_move() => {}
                    // This thread has waited as long as it may.
                    Next::Busy => self.answer_rest(BUSY),
                    _ => self.wait_for_the_end_of_a_pause(),
                }
            }
        }
        self.end();
    }

    fn take_after(&mut self) -> Option<After> {
        match std::mem::take(&mut self.next) {
            Next::After(after) => Some(after),
            next => {
                self.next = next;
                None
            }
        }
    }

    /// Returns true if the store was behind, and has caught up.
    fn has_room_again(&self) -> bool {
        let engine = &self.sessions.layer().engine;
        engine.is_behind() && engine.wait_for_room() == Admission::Now
    }

    /// Returns true while the database moves to another partition.
    fn waits_for_a_move(&self) -> bool {
        let is_held = self.sessions.layer().connections.is_held.load(Ordering::SeqCst);
        if is_held {
            std::thread::sleep(MOVE_LOOK);
        }
        is_held
    }

    /// Executes the next commands. False if something must be waited for first.
    fn step(&mut self) -> bool {
        let start = self.done;
        let refused = self.refusal_at(start);
        if let Some(text) = refused {
            Reply::new(&mut self.replies, Protocol::Resp2).error(&text);
            self.done += 1;
            return true;
        }
        let end_max = self.commands.len().min(start + COMMANDS_AT_ONCE);
        let end = (start + 1..end_max).find(|index| self.refusal_at(*index).is_some());
        let input = self.commands.range(start, end.unwrap_or(end_max));
        let session = self.session.as_mut().expect("lent until the end");
        let received = session.receive(input, &mut self.replies);
        self.done += self.commands.count_in(start, received.consumed);
        self.dependency = self.dependency.max(received.dependency);
        self.version = self.version.max(received.version);
        self.next = received.next;
        if let Next::Close = self.next {
            self.answer_rest("ERR the connection was closed");
        }
        received.consumed > 0 && !matches!(self.next, Next::After(_))
    }

    /// MULTI and EXEC around a transaction are the request's own.
    fn refusal_at(&self, index: usize) -> Option<String> {
        let is_frame = self.commands.is_transaction() && (index == 0 || index + 1 == self.commands.len());
        let command = self.commands.get(index).filter(|_| !is_frame)?;
        connectionless::refusal(self.sessions.layer().table, command)
    }

    /// The names of the commands, each with how many arguments follow: `set 2, get 1`.
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        for index in 0..self.commands.len() {
            if shape.len() > SHAPE_BYTES_MAX {
                shape.push_str(", ...");
                break;
            }
            if index > 0 {
                shape.push_str(", ");
            }
            let request = self.commands.get(index).unwrap_or_default();
            let mut parser = Parser::new();
            if let Ok(Parsed::Request { .. }) = parser.parse(request, &Limits::unlimited()) {
                let arguments = parser.arguments(request);
                let name = self.sessions.layer().table.find_of(arguments);
                // An unknown command may be a value in the wrong place.
                let name = name.map_or("?", |command| command.name);
                let _ = write!(shape, "{name} {}", arguments.len().saturating_sub(1));
            }
        }
        shape
    }

    fn answer_rest(&mut self, text: &str) {
        for _ in self.done..self.commands.len() {
            Reply::new(&mut self.replies, Protocol::Resp2).error(text);
        }
        self.done = self.commands.len();
    }

    /// Does what a command left. Its OK is the last of the replies.
    fn perform(&mut self, after: After) {
        let layer = self.sessions.layer();
        match after {
            After::Deferred(Deferred::Checkpoint) => {
                if let Err(text) = save(layer) {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::SaveUsers) => {
                if let Err(text) = layer.save_users() {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::LoadUsers) => {
                let own = self.session.as_ref().map_or(0, |session| session.client().id);
                if let Err(text) = layer.reload_users(own) {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::RewriteConfig) => {
                if let Err(text) = layer.rewrite_config() {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::ChangeTls(changes)) => {
                if let Err(text) = layer.change_tls(changes) {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::Shutdown) => (layer.process.shutdown)(),
            After::LongRun(mut run) => {
                run.run();
                let session = self.session.as_mut().expect("lent until the end");
                let dependency = session.take_back(*run, &mut self.replies);
                self.dependency = self.dependency.max(dependency);
                self.note_version();
            }
            After::Sleep { micros } => std::thread::sleep(Duration::from_micros(micros)),
            After::Deferred(Deferred::SaveInBackground) => {
                layer.engine.checkpoint_in_background();
                rdb_file::write_in_background(layer.clone());
            }
            // REST does not wait: the answer is the present number.
            After::Deferred(Deferred::AwaitReplicas(wait)) => {
                let replicas = layer.replicas_at(layer.replication.end(), wait.disks.is_some());
                let is_durable = layer.space.durability == Durability::Always;
                wait.reply(
                    is_durable,
                    replicas,
                    &mut Reply::new(&mut self.replies, Protocol::Resp2),
                );
            }
            After::Deferred(Deferred::Migrate(_) | Deferred::Replicate(_) | Deferred::ReplicaOf(_)) => {
                unreachable!("refused without a connection")
            }
        }
    }

    fn replace_ok_by(&mut self, error: &str) {
        let ok_bytes = b"+OK\r\n".len();
        self.replies.truncate(self.replies.len().saturating_sub(ok_bytes));
        Reply::new(&mut self.replies, Protocol::Resp2).error(error);
    }

    fn note_version(&mut self) {
        if let Ok(partition) = self.sessions.layer().engine.read_in_time() {
            self.version = self.version.max(partition.last_version());
        }
    }

    fn wait_for_the_end_of_a_pause(&mut self) {
        if *self.sessions.stop.borrow() {
            return self.answer_rest("ERR the server stops");
        }
        std::thread::sleep(PAUSE_CHECK);
        let session = self.session.as_mut().expect("lent until the end");
        session.time_out();
    }

    fn end(&mut self) {
        if let Some(mut session) = self.session.take() {
            self.unsent = session.take_unsent();
            self.sessions.take_back(session);
        }
    }
}
