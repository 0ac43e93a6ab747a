//! One connection without its socket.
//!
//! The owner of the socket feeds it bytes with [`Session::receive`] and writes the answer once the
//! returned version is durable. A session that [`is_blocked`](Session::is_blocked) takes no more
//! requests until its mailbox brings the reply.

mod admission;
pub(crate) mod after;
pub mod at_replica;
mod beside;
pub mod connectionless;
mod hold;
pub(crate) mod leaving;
pub(crate) mod received;
mod receiving;
mod turn;
mod waiting;
mod while_busy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, Reserved};
use quartet_wire_resp::{Limits, Parser, Protocol, Reply, Value, encode_command};

use crate::access::acl::User;
use crate::access::acl::rules::Rules;
use crate::access::database_login::DatabaseLogin;
use crate::command::error_reply::ErrorReply;
use crate::command::migration::{Broken, Migration};
use crate::commands::transactions;
use crate::connections::clients::{Client, ClientState, ReplyMode};
use crate::connections::pending_disconnects::Abandoned;
use crate::execution::call::answer_error;
use crate::execution::long_run::LongRun;
use crate::keyspace::late_part::{Incomplete, Made};
use crate::layer::Redis;

pub struct Session {
    layer: Arc<Redis>,
    client: ClientState,
    parser: Parser,
    waiting: Waiting,
    /// The next request continues in another logical database.
    database_login: Option<DatabaseLogin>,
    /// The deadline of the next request's wait, which has begun at another home.
    resumed_deadline_ms: Option<u64>,
    /// The start of the newest reply.
    reply_start: usize,
    incomplete: Option<Incomplete>,
}

/// A reason to receive nothing, and its end. Times are in milliseconds since the Unix epoch.
enum Waiting {
    None,
    /// The current command waits for a key. `None`: indefinitely.
    ForKey {
        deadline_ms: Option<u64>,
    },
    /// The next request waits for the end of CLIENT PAUSE.
    Paused {
        until_ms: u64,
    },
    /// The next request has a password after wrong ones.
    HeldBack {
        until_ms: u64,
    },
}

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
            resumed_deadline_ms: None,
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

    /// Gives back what an unusually large request took, of a connection on which none is arriving.
    pub fn rest(&mut self) {
        self.parser = Parser::new();
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

    /// The newest reply lacks parts: [`Session::complete`] is called until it does not.
    pub fn lacks_parts(&self) -> bool {
        self.incomplete.is_some()
    }

    /// Bytes that it lacks, or about that.
    pub fn lacking_bytes(&self) -> usize {
        self.incomplete.as_ref().map_or(0, Incomplete::bytes)
    }

    /// Replies are not sent in parts: they take memory for all that they will be.
    pub fn keep_replies_whole(&mut self) {
        self.client.keeps_replies_whole = true;
    }

    /// Takes what counts the replies that were written: from now on the owner of the connection
    /// counts them.
    pub fn take_unsent(&mut self) -> Option<Reserved> {
        self.client.unsent.take()
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
        let mail = self.client.shared.drain_mailbox(out, bytes_max);
        if let Some(admission_control) = &self.layer.access.admission_control {
            admission_control.transferred(0, out.len() - start);
        }
        if mail.unblocked {
            self.waiting = Waiting::None;
        }
        mail.dependency
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
    pub fn speak_resp3(&mut self) {
        self.client.speak(quartet_wire_resp::Protocol::Resp3);
    }

    /// For tests: the next command that may visit much starts where it may take long.
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
