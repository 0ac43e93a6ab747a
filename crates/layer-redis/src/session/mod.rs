//! One connection without its socket.
//!
//! The owner of the socket feeds it bytes with [`Session::receive`] and writes the answer once the
//! returned version is durable. A session that [`is_blocked`](Session::is_blocked) takes no more
//! requests until its mailbox brings the reply.

mod admission;
pub(crate) mod after;
mod beside;
pub mod connectionless;
mod turn;
mod waiting;
mod while_busy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Busy, Dependency};
use quartet_model::Version;
use quartet_wire_resp::{Limits, Parsed, Parser, Protocol, Reply, Value, encode_command};

use crate::access::acl::User;
use crate::access::acl::rules::Rules;
use crate::access::database_login::DatabaseLogin;
use crate::access::login_guard::peer_of;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::command::migration::{Broken, Migration};
use crate::commands::transactions;
use crate::connections::clients::{Client, ClientState, ReplyMode};
use crate::connections::pending_disconnects::Abandoned;
use crate::execution::call::answer_error;
use crate::execution::long_run::LongRun;
use crate::keyspace::key_row;
use crate::keyspace::late_part::{Incomplete, Made};
use crate::keyspace::places::KeyBytes;
use crate::layer::Redis;
use crate::session::after::After;
use crate::session::beside::{Hold, RunBeside};
use crate::session::turn::{Request, Turn};
use crate::session::waiting::Waiting;

/// The outcome of a call of [`Session::receive`].
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// The replies may be sent once this version is durable.
    pub dependency: Dependency,
    /// The latest commit when the requests were done; zero if they were answered without the lock.
    pub version: Version,
    /// Close the connection after sending the replies.
    pub close: bool,
    /// Work to be done without the lock before the next request; its reply is already written, and
    /// is replaced by an error if the work fails.
    pub after: Option<After>,
    /// Another thread holds the lock, or the store has a backlog: the next request must be received
    /// again once [`Engine::is_busy`](quartet_engine::Engine::is_busy) and
    /// [`Engine::is_behind`](quartet_engine::Engine::is_behind) are false.
    pub is_busy: bool,
    /// The given credentials open another logical database: the session now belongs to that
    /// database's layer. If it is in another partition, the request must be received again: earlier
    /// replies depend on the partition before.
    pub moved: bool,
    /// The credentials in the next request are for a database that another process serves: if that
    /// accepts them, the connection must continue there. With the bytes of the request.
    pub elsewhere: Option<(DatabaseLogin, usize)>,
}

pub struct Session {
    layer: Arc<Redis>,
    client: ClientState,
    parser: Parser,
    waiting: Waiting,
    /// The next request continues in another logical database.
    database_login: Option<DatabaseLogin>,
    /// The start of the newest reply.
    reply_start: usize,
    incomplete: Option<Incomplete>,
}

/// Requests executed under one hold of the lock, so that a huge pipeline does not keep the others
/// out.
const REQUESTS_PER_LOCK: usize = 64;
/// Replies after which a hold of the lock ends earlier, and the time: a few requests may be as much
/// work as a huge pipeline.
const REPLY_BYTES_PER_LOCK: usize = 256 << 10;
const MICROS_PER_LOCK: u64 = 1_000;
/// Approximate size of the parts in which mail is sent.
const MAIL_BYTES_AT_ONCE: usize = 1 << 20;

impl Session {
    pub fn new(layer: Arc<Redis>, client: Arc<Client>) -> Session {
        let authenticated = layer.access.users.are_all_welcome();
        let user = layer.access.users.default_user().clone();
        layer
            .observation
            .statistics
            .connections_received
            .fetch_add(1, Ordering::Relaxed);
        Session {
            layer,
            client: ClientState::new(client, authenticated, user),
            parser: Parser::new(),
            waiting: Waiting::None,
            database_login: None,
            reply_start: 0,
            incomplete: None,
        }
    }

    /// The layer of the logical database that the connection is in.
    pub fn layer(&self) -> &Arc<Redis> {
        &self.layer
    }

    /// Ends the session once the replies written so far have been sent.
    pub fn end_after_replies(&mut self) {
        self.client.close_after_reply = true;
    }

    /// Returns true if the session ends with the replies written so far.
    pub fn is_ending(&self) -> bool {
        self.client.close_after_reply
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client.shared
    }

    pub fn is_authenticated(&self) -> bool {
        self.client.authenticated
    }

    /// Memory in which the words of the request that is arriving are noted, beside its own bytes.
    pub fn words_bytes(&self) -> usize {
        self.parser.words_bytes()
    }

    /// From now on the requests are this user's, who has shown who he is.
    pub fn act_for(&mut self, user: Arc<User>) {
        self.client.authenticated = true;
        self.client.become_user(user);
    }

    /// From now on the requests are those of the server that we are a replica of. They may do
    /// everything.
    pub fn act_for_upstream(&mut self) {
        let rules = Rules::of_default_user(self.layer.table);
        self.act_for(Arc::new(User::new(b"replication", rules)));
        self.client.is_upstream = true;
    }

    /// A client that was silent for the time of `timeout` is disconnected, unless it waits for
    /// something of the server's.
    pub fn may_idle(&self) -> bool {
        let shared = &self.client.shared;
        self.is_blocked() || shared.monitor.load(Ordering::Relaxed) || shared.subscriptions.any()
    }

    /// Executes the whole requests at the start of `input`, at most a lock's worth, and appends
    /// their replies to `out`.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Received {
        let mut received = self.receive_in_steps(input, out);
        if received.moved && received.consumed == 0 {
            received = self.receive_in_steps(input, out);
        }
        while self.incomplete.is_some() {
            if self.complete(out) == Made::Unreadable {
                let layer = self.layer.clone();
                self.error(&layer, &errors::UNREADABLE.into(), self.reply_start, out);
            }
        }
        received
    }

    /// The same for an owner that has other connections to look after: the newest reply may lack
    /// long parts, which are made by [`Session::complete`] before anything else is received.
    pub fn receive_in_steps(&mut self, input: &[u8], out: &mut Vec<u8>) -> Received {
        debug_assert!(self.incomplete.is_none(), "a reply that was not completed");
        if self.layer.connections.is_held.load(Ordering::SeqCst) {
            return self.follow_database();
        }
        let start = out.len();
        let mut received = self.receive_here(input, out);
        while let Some(database_login) = self.database_login.take() {
            let rest = &input[received.consumed..];
            let engine = self.layer.engine.clone();
            let directory = &self.layer.access.directory;
            if directory
                .as_ref()
                .is_some_and(|directory| directory.is_elsewhere(database_login.database))
            {
                let request_bytes = self.first_request_bytes(rest);
                received.elsewhere = Some((database_login, request_bytes));
                break;
            }
            match self.log_in_to(database_login, out) {
                Ok(true) => {}
                Ok(false) => {
                    // The request is answered: the connection stays where it is.
                    received.consumed += self.first_request_bytes(rest);
                    break;
                }
                Err(Busy) => {
                    received.is_busy = true;
                    break;
                }
            }
            received.moved = true;
            if !Arc::ptr_eq(&engine, &self.layer.engine) {
                break;
            }
            let there = self.receive_here(rest, out);
            received.consumed += there.consumed;
            received.dependency = received.dependency.max(there.dependency);
            received.close |= there.close;
            received.after = there.after;
            received.is_busy = there.is_busy;
        }
        if let Some(admission_control) = &self.layer.access.admission_control {
            let sent_bytes = out.len().saturating_sub(start) + self.lacking_bytes();
            admission_control.transferred(received.consumed, sent_bytes);
        }
        received
    }

    fn receive_here(&mut self, input: &[u8], out: &mut Vec<u8>) -> Received {
        self.resume_if_over();
        let layer = self.layer.clone();
        let mut received = Received::default();
        let mut partition: Option<Hold<'_>> = None;
        let (replies_start, mut first_done_micros) = (out.len(), None);
        // Read once for all requests under this hold of the lock: it is too large to be moved about
        // for each.
        let mut parser = std::mem::take(&mut self.parser);
        for _ in 0..REQUESTS_PER_LOCK {
            let rest = &input[received.consumed..];
            let lacks_parts = !self.client.late_parts.is_empty();
            let ends = received.close || self.client.close_after_reply || received.after.is_some() || lacks_parts;
            if rest.is_empty() || self.is_blocked() || ends {
                break;
            }
            if received.consumed > 0 {
                let done_micros = self.client.shared.last_active_micros.load(Ordering::Relaxed);
                let since_micros = done_micros.saturating_sub(*first_done_micros.get_or_insert(done_micros));
                if out.len().saturating_sub(replies_start) >= REPLY_BYTES_PER_LOCK || since_micros >= MICROS_PER_LOCK {
                    break;
                }
            }
            match parser.parse(rest, &self.limits()) {
                Ok(Parsed::Incomplete { .. }) => break,
                Ok(Parsed::Nothing { consumed }) => received.consumed += consumed,
                Ok(Parsed::Request { consumed }) => {
                    let arguments = parser.arguments(rest);
                    if !matches!(partition, Some(Hold::Alone(_))) {
                        let runs_beside = self.may_run_beside(&layer, arguments);
                        partition = self.hold(&layer, partition, runs_beside, rest);
                    }
                    if partition.is_none() && !layer.scripting.long_scripts.is_busy() {
                        received.is_busy = true;
                        break;
                    }
                    let may_pause = layer.connections.pause.is_set() && !self.client.is_upstream;
                    let alone = match &mut partition {
                        Some(Hold::Alone(partition)) => Some(partition),
                        _ => None,
                    };
                    if may_pause && self.pause(&layer, alone, arguments, consumed) {
                        break;
                    }
                    let raw = &rest[..consumed];
                    let request = Request { arguments, raw };
                    let mut not_beside = None;
                    if let Some(Hold::Beside(beside)) = &mut partition {
                        let turn = Turn::new(&layer, out, &mut received);
                        match self.request_beside(beside, turn, &request) {
                            RunBeside::Answered => {
                                received.consumed += consumed;
                                continue;
                            }
                            RunBeside::Again => break,
                            RunBeside::NotHere(command) => not_beside = Some(command),
                        }
                        partition = self.hold(&layer, partition, false, rest);
                        if partition.is_none() {
                            received.is_busy = true;
                            break;
                        }
                    }
                    let is_done = match &mut partition {
                        Some(Hold::Alone(partition)) => {
                            let turn = Turn::new(&layer, out, &mut received);
                            self.request(partition, turn, &request, not_beside)
                        }
                        Some(Hold::Beside(_)) => unreachable!("it was let go"),
                        None => self.request_while_busy(&layer, arguments, consumed, out, &mut received),
                    };
                    if !is_done {
                        break;
                    }
                    received.consumed += consumed;
                }
                Err(error) => {
                    let error = ErrorReply::from(format!("ERR {error}"));
                    self.error(&layer, &error, out.len(), out);
                    received.consumed = input.len();
                    received.close = true;
                }
            }
        }
        self.parser = parser;
        self.client.started_micros = None;
        received.close |= self.client.close_after_reply;
        received.version = match &partition {
            None => Version::ZERO,
            Some(Hold::Alone(partition)) => partition.last_version(),
            Some(Hold::Beside(partition)) => partition.last_version(),
        };
        drop(partition);
        self.incomplete = Incomplete::new(out, std::mem::take(&mut self.client.late_parts));
        received
    }

    /// Takes the partition's lock as the next request needs it, unless it is held so. `None` if
    /// another thread keeps it.
    fn hold<'l>(&mut self, layer: &'l Redis, held: Option<Hold<'l>>, beside: bool, rest: &[u8]) -> Option<Hold<'l>> {
        if beside && held.is_some() {
            return held;
        }
        drop(held);
        let (held, now_micros) = match beside {
            true => {
                let partition = layer.read_in_time().ok()?;
                // Read under the lock, without which a database cannot leave.
                if layer.connections.is_held.load(Ordering::SeqCst) {
                    return None;
                }
                if self.looks_ahead(layer) {
                    partition.fetch(layer.space, self.first_keys(rest).iter().map(|key| key.as_slice()));
                }
                let now_micros = partition.now_micros();
                (Hold::Beside(partition), now_micros)
            }
            false => {
                let mut partition = layer.partition_in_time().ok()?;
                if layer.connections.is_held.load(Ordering::SeqCst) {
                    return None;
                }
                if self.looks_ahead(layer) {
                    partition.fetch(layer.space, self.first_keys(rest).iter().map(|key| key.as_slice()));
                }
                let now_micros = partition.now_micros();
                (Hold::Alone(partition), now_micros)
            }
        };
        self.client.started_micros = Some(now_micros);
        Some(held)
    }

    /// The newest reply lacks parts: [`Session::complete`] is called until it does not.
    pub fn lacks_parts(&self) -> bool {
        self.incomplete.is_some()
    }

    /// Bytes that it lacks, or about that.
    pub fn lacking_bytes(&self) -> usize {
        self.incomplete.as_ref().map_or(0, Incomplete::bytes)
    }

    /// Appends what comes next of a reply that lacks parts. After [`Made::Unreadable`] what was
    /// written of it is no reply.
    pub fn complete(&mut self, out: &mut Vec<u8>) -> Made {
        let made = self
            .incomplete
            .as_mut()
            .map_or(Made::Wholly, |incomplete| incomplete.step(out));
        if made != Made::Partly {
            self.incomplete = None;
        }
        made
    }

    /// Rows that the requests of a pipeline name first are read together, where rows may be on a
    /// disk: one after the other each request would wait for it.
    fn looks_ahead(&self, layer: &Redis) -> bool {
        !layer.engine.is_all_in_memory() && self.client.multi.is_none() && self.client.authenticated
    }

    /// The keys of the rows that the requests of a pipeline name first; none if there is one
    /// request.
    fn first_keys(&self, input: &[u8]) -> Vec<KeyBytes> {
        let (mut parser, mut rest, mut keys) = (Parser::default(), input, Vec::new());
        for _ in 0..REQUESTS_PER_LOCK {
            let Ok(Parsed::Request { consumed }) = parser.parse(rest, &self.limits()) else {
                break;
            };
            let arguments = parser.arguments(rest);
            if let Ok(command) = self.layer.table.find_of(arguments)
                && command.keys.are_from_the_first_argument_on()
                && let Some(name) = arguments.get(1)
            {
                keys.push(key_row(self.client.db, name));
            }
            rest = &rest[consumed..];
        }
        if keys.len() < 2 {
            keys.clear();
        }
        keys
    }

    /// Continues in another logical database, if the password is correct and there is room. Returns
    /// false if the request is answered.
    fn log_in_to(&mut self, database_login: DatabaseLogin, out: &mut Vec<u8>) -> Result<bool, Busy> {
        let here = self.layer.clone();
        let there = match &here.access.directory {
            Some(directory) => directory.open(database_login.database)?,
            None => None,
        };
        let Some(there) = there else {
            self.error(&here, &errors::WRONG_PASSWORD.into(), out.len(), out);
            return Ok(false);
        };
        if there
            .access
            .users
            .authenticate(&database_login.user, &database_login.password)
            .is_none()
        {
            let peer = peer_of(&self.client.shared.address);
            here.access
                .login_guard
                .failed(peer, &database_login.name, here.engine.now_micros());
            self.error(&here, &errors::WRONG_PASSWORD.into(), out.len(), out);
            return Ok(false);
        }
        let open = there.connections.clients.count();
        if let Some(Err(refusal)) = there
            .access
            .admission_control
            .as_ref()
            .map(|admission_control| admission_control.check_connections(open))
        {
            self.error(&here, &refusal.into(), out.len(), out);
            return Ok(false);
        }
        let client = there
            .connections
            .clients
            .admit(self.client(), there.engine.now_micros());
        let mut session = Session::new(there, client);
        session.client.protocol = self.client.protocol;
        *self = session;
        Ok(true)
    }

    /// The request that gives another process what has been agreed with the client so far: the
    /// version of the protocol, and its name. Empty: nothing.
    pub fn introduction(&self, database_login: &DatabaseLogin) -> Vec<u8> {
        let protocol: &[u8] = match self.client.protocol {
            Protocol::Resp2 => b"2",
            Protocol::Resp3 => b"3",
        };
        let name = self.client.shared.details.lock().name.clone();
        let mut introduction = Vec::new();
        if protocol == b"3" || !name.is_empty() {
            let mut words: Vec<&[u8]> = vec![
                b"HELLO",
                protocol,
                b"AUTH",
                &database_login.name,
                &database_login.password,
            ];
            if !name.is_empty() {
                words.extend([&b"SETNAME"[..], name.as_bytes()]);
            }
            encode_command(&words, &mut introduction);
        }
        introduction
    }

    /// Continues in the database's layer in the partition to which it was moved, once it has
    /// arrived. A session with state that exists only here ends.
    fn follow_database(&mut self) -> Received {
        let mut received = Received::default();
        let there = match &self.layer.access.directory {
            Some(directory) => directory.open(self.layer.space.database),
            None => Ok(None),
        };
        match there {
            Err(Busy) => received.is_busy = true,
            // It has stayed.
            Ok(Some(there)) if Arc::ptr_eq(&there, &self.layer) => received.is_busy = true,
            Ok(Some(there)) if !self.client.shared.is_bound() => {
                received.moved = self.go_on_in(there);
                received.close = !received.moved;
            }
            Ok(_) => received.close = true,
        }
        received
    }

    /// False: the user is not there.
    fn go_on_in(&mut self, there: Arc<Redis>) -> bool {
        let user = there.access.users.find(&self.client.user.name);
        let Some(user) = user.filter(|_| self.client.authenticated) else {
            return false;
        };
        let here = self.client();
        let client = there.connections.clients.admit(here, there.engine.now_micros());
        for (new, old) in [(&client.no_evict, &here.no_evict), (&client.no_touch, &here.no_touch)] {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        client.db.store(self.client.db, Ordering::Relaxed);
        let mut session = Session::new(there, client);
        session.client.protocol = self.client.protocol;
        session.client.db = self.client.db;
        session.client.reply_mode = self.client.reply_mode;
        session.act_for(user);
        *self = session;
        true
    }

    fn first_request_bytes(&mut self, input: &[u8]) -> usize {
        match self.parser.parse(input, &Limits::unlimited()) {
            Ok(Parsed::Request { consumed }) => consumed,
            other => unreachable!("a request that parsed once and now gives {other:?}"),
        }
    }

    /// Fetches what other threads left for this connection, until `out` has a good deal to send:
    /// what is left then is for when that is sent. Returns the version the bytes must wait for.
    pub fn drain_mailbox(&mut self, out: &mut Vec<u8>) -> Dependency {
        self.take_mail_up_to(MAIL_BYTES_AT_ONCE, out)
    }

    /// Notices of a command to its own connection have their place around the reply. Returns the
    /// version that they must wait for.
    #[inline]
    fn append_own_mail(&mut self, out: &mut Vec<u8>) -> Dependency {
        if !self.client.shared.has_mail() {
            return Dependency::ZERO;
        }
        self.client.started_micros = None;
        self.take_mail_up_to(usize::MAX, out)
    }

    fn take_mail_up_to(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> Dependency {
        self.resume_if_over();
        let start = out.len();
        let taken = self.client.shared.drain_mailbox(out, bytes_max);
        if let Some(admission_control) = &self.layer.access.admission_control {
            admission_control.transferred(0, out.len() - start);
        }
        if taken.unblocked {
            self.waiting = Waiting::None;
        }
        taken.dependency
    }

    /// The connection is closed: it waits for nothing and watches nothing any more.
    pub fn close(&mut self) {
        self.resume();
        self.forget_watches();
        self.leave_behind();
        self.layer.connections.tracking.disable(&self.client.shared);
        self.layer.decide_on_changes();
        self.layer.connections.clients.disconnect(&self.client.shared);
    }

    fn forget_watches(&mut self) {
        let watches = transactions::take_watches(&mut self.client);
        if !watches.is_empty() {
            self.layer.engine.unwatch(watches);
        }
    }

    /// The connection waits for nothing and listens to nothing any more.
    fn leave_behind(&mut self) {
        let has_waited = matches!(self.waiting, Waiting::ForKey { .. });
        if has_waited || !self.client.subscriptions.is_empty() {
            self.layer.leave_behind(Abandoned {
                client: self.client.shared.clone(),
                has_waited,
                subscriptions: std::mem::take(&mut self.client.subscriptions),
            });
        }
    }

    /// For tests of replies' shapes, without HELLO.
    #[cfg(test)]
    pub fn speak_resp3(&mut self) {
        self.client.speak(quartet_wire_resp::Protocol::Resp3);
    }

    /// For tests: the next command that may visit much starts where it may take long.
    #[cfg(test)]
    pub fn expect_long(&mut self) {
        self.client.expects_long = true;
    }

    fn limits(&self) -> Limits {
        let bulk_bytes_max = self.layer.config.proto_max_bulk_len.load(Ordering::Relaxed);
        Limits {
            bulk_bytes_max: bulk_bytes_max as usize,
            authenticated: self.client.authenticated,
            ..Limits::default()
        }
    }

    /// Drops what CLIENT REPLY does not want to be sent. Confirmations of subscriptions are pushes,
    /// and no replies.
    fn mute(&mut self, replies_start: usize, keeps_pushes: bool, out: &mut Vec<u8>) {
        let mode = self.client.reply_mode;
        self.client.reply_mode = match mode {
            ReplyMode::SkipNext => ReplyMode::SkipThis,
            ReplyMode::SkipThis => ReplyMode::On,
            ReplyMode::On | ReplyMode::Off => mode,
        };
        if mode != ReplyMode::On && !keeps_pushes {
            self.client.late_parts.clear();
            out.truncate(replies_start);
        }
    }

    /// The request must be run again where it may take long; the connection's state is moved with
    /// it.
    fn long_run(&mut self, raw: &[u8]) -> LongRun {
        let placeholder = ClientState::new(
            self.client.shared.clone(),
            self.client.authenticated,
            self.client.user.clone(),
        );
        let client = std::mem::replace(&mut self.client, placeholder);
        LongRun::new(self.layer.clone(), client, raw.to_vec())
    }

    /// Ends a long run. Returns the version that its reply, which is appended to `out`, must wait
    /// for.
    pub fn take_back(&mut self, run: LongRun, out: &mut Vec<u8>) -> Dependency {
        let (client, reply, dependency) = run.into_parts();
        self.client = client;
        let start = out.len();
        match out.is_empty() {
            // It may be large, and others of this thread wait.
            true => *out = reply,
            false => out.extend_from_slice(&reply),
        }
        self.mute(start, false, out);
        self.client.caching = None;
        dependency
    }

    /// Ends a migration after the other server's answer, or its disconnection. Appends the reply to
    /// `out`, and returns the version that it must wait for. `None`: a script holds the lock, and
    /// nothing was done; call again.
    pub fn end_migration(
        &mut self,
        migration: &Migration,
        replies: &[Value],
        broken: Option<Broken>,
        out: &mut Vec<u8>,
    ) -> Option<Dependency> {
        let start = out.len();
        let dependency = self
            .layer
            .end_migration(migration, &self.client, replies, broken, out)?;
        self.mute(start, false, out);
        Some(dependency.max(self.append_own_mail(out)))
    }

    fn error(&mut self, layer: &Redis, error: &ErrorReply, replies_start: usize, out: &mut Vec<u8>) {
        out.truncate(replies_start);
        answer_error(layer, error, &mut Reply::new(out, self.client.protocol));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
