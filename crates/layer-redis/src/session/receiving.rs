//! The requests that a connection has received, executed as far as the partition's lock is held for
//! one batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::Busy;
use quartet_model::Version;
use quartet_wire_resp::{Limits, Parsed, Parser};

use super::Session;
use super::beside::RunBeside;
use super::hold::Hold;
use super::received::{Next, Received};
use super::turn::{Request, Turn};
use crate::access::database_login::DatabaseLogin;
use crate::access::login_guard::peer_of;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::keyspace::key_row;
use crate::keyspace::late_part::{Incomplete, Made};
use crate::keyspace::places::KeyBytes;
use crate::layer::Redis;

/// Requests executed under one hold of the lock, so that a huge pipeline does not keep the others
/// out.
const REQUESTS_PER_LOCK: usize = 64;
/// Replies after which a hold of the lock ends earlier, and the time: a few requests may be as much
/// work as a huge pipeline.
const REPLY_BYTES_PER_LOCK: usize = 256 << 10;
const MICROS_PER_LOCK: u64 = 1_000;

impl Session {
    /// Executes the whole requests at the start of `input`, at most a lock's worth, and appends
    /// their replies to `out`.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Received {
        let mut received = self.receive_in_steps(input, out);
        while matches!(received.next, Next::Moved) && received.consumed == 0 {
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
            let next = self.follow_database();
            return Received {
                next,
                ..Received::default()
            };
        }
        if !self.client.keeps_replies_whole {
            // The owner counts the replies before these by now.
            self.client.unsent = None;
        }
        let start = out.len();
        let mut received = self.receive_here(input, out);
        if let Some(database_login) = self.database_login.take() {
            let request_bytes = self.first_request_bytes(&input[received.consumed..]);
            received.next = self.switch_database(database_login, request_bytes, out);
            if let Next::More = received.next {
                // The request is answered: the connection stays where it is.
                received.consumed += request_bytes;
            }
        }
        if let Some(admission_control) = &self.layer.access.admission_control {
            let sent_bytes = out.len().saturating_sub(start) + self.lacking_bytes();
            admission_control.transferred(received.consumed, sent_bytes);
        }
        received
    }

    /// Continues in the database that the credentials of the next request open. That request was
    /// refused if the result is [`Next::More`].
    fn switch_database(&mut self, database_login: DatabaseLogin, request_bytes: usize, out: &mut Vec<u8>) -> Next {
        let directory = self.layer.access.directory.as_ref();
        if directory.is_some_and(|directory| directory.is_elsewhere(database_login.database)) {
            return Next::Elsewhere {
                database_login: Box::new(database_login),
                request_bytes,
            };
        }
        match self.log_in_to(database_login, out) {
            Ok(true) => Next::Moved,
            Ok(false) => Next::More,
            Err(Busy) => Next::Busy,
        }
    }

    fn receive_here(&mut self, input: &[u8], out: &mut Vec<u8>) -> Received {
        self.resume_if_over();
        let layer = self.layer.clone();
        let mut received = Received::default();
        let mut held: Option<Hold<'_>> = None;
        let (replies_start, mut first_done_micros) = (out.len(), None);
        // Read once for all requests under this hold of the lock: it is too large to be moved about
        // for each.
        let mut parser = std::mem::take(&mut self.parser);
        for _ in 0..REQUESTS_PER_LOCK {
            let following = &input[received.consumed..];
            if following.is_empty() || self.ends_batch(&received.next) {
                break;
            }
            if received.consumed > 0 {
                let done_micros = self.client.shared.last_active_micros.load(Ordering::Relaxed);
                let since_micros = done_micros.saturating_sub(*first_done_micros.get_or_insert(done_micros));
                if out.len().saturating_sub(replies_start) >= REPLY_BYTES_PER_LOCK || since_micros >= MICROS_PER_LOCK {
                    break;
                }
            }
            match parser.parse(following, &self.limits()) {
                Ok(Parsed::Incomplete { .. }) => break,
                Ok(Parsed::Nothing { consumed }) => received.consumed += consumed,
                Ok(Parsed::Request { consumed }) => {
                    let request = Request {
                        arguments: parser.arguments(following),
                        raw: &following[..consumed],
                    };
                    if !self.receive_request(&layer, &mut held, &request, following, out, &mut received) {
                        break;
                    }
                    received.consumed += consumed;
                }
                Err(error) => {
                    let error = ErrorReply::from(format!("ERR {error}"));
                    self.error(&layer, &error, out.len(), out);
                    received.consumed = input.len();
                    received.next = Next::Close;
                }
            }
        }
        self.parser = parser;
        self.client.started_micros = None;
        if self.client.close_after_reply && !matches!(received.next, Next::After(_)) {
            received.next = Next::Close;
        }
        received.version = held.as_ref().map_or(Version::ZERO, Hold::last_version);
        drop(held);
        self.incomplete = Incomplete::new(out, std::mem::take(&mut self.client.late_parts));
        received
    }

    /// Returns true if no further request is executed under this hold of the lock.
    #[inline]
    fn ends_batch(&self, next: &Next) -> bool {
        !next.is_more() || self.client.close_after_reply || !self.client.late_parts.is_empty() || self.is_blocked()
    }

    /// Executes the request at the start of `input` under the lock that it needs. Returns false if
    /// it must be received again; if not at once, `received` says when.
    #[inline]
    fn receive_request<'l>(
        &mut self,
        layer: &'l Redis,
        held: &mut Option<Hold<'l>>,
        request: &Request<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
        received: &mut Received,
    ) -> bool {
        let arguments = request.arguments;
        if !matches!(held, Some(Hold::Alone(_))) {
            *held = match self.before_long(layer, held, arguments) {
                None => {
                    let runs_beside = self.may_run_beside(layer, arguments);
                    self.hold(layer, held.take(), runs_beside, input)
                }
                before => before,
            };
        }
        if held.is_none() && !layer.scripting.long_scripts.is_busy() {
            received.next = Next::Busy;
            return false;
        }
        let may_pause = layer.connections.pause.is_set() && !self.client.is_upstream;
        let exclusive = match held {
            Some(Hold::Alone(partition)) => Some(partition),
            _ => None,
        };
        if may_pause && self.pause(layer, exclusive, arguments, request.raw.len()) {
            return false;
        }
        let mut admitted = None;
        if let Some(reading) = held.as_mut().and_then(Hold::reading) {
            let turn = Turn::new(layer, out, received);
            match self.request_beside(reading, turn, request) {
                RunBeside::Answered => return true,
                RunBeside::Again => return false,
                RunBeside::NotHere(command) => admitted = Some(command),
            }
            *held = self.hold(layer, held.take(), false, input);
            if held.is_none() {
                received.next = Next::Busy;
                return false;
            }
        }
        match held {
            Some(Hold::Alone(partition)) => {
                let turn = Turn::new(layer, out, received);
                self.request(partition, turn, request, admitted)
            }
            Some(Hold::Beside(_) | Hold::BeforeLong(_)) => unreachable!("it was let go"),
            None => self.request_while_busy(layer, arguments, request.raw.len(), out, received),
        }
    }

    /// Takes the partition's lock as the next request needs it, unless it is held so. `None` if
    /// another thread keeps it.
    fn hold<'l>(&mut self, layer: &'l Redis, held: Option<Hold<'l>>, beside: bool, input: &[u8]) -> Option<Hold<'l>> {
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
                    partition.fetch(layer.space, self.first_keys(input).iter().map(|key| key.as_slice()));
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
                    partition.fetch(layer.space, self.first_keys(input).iter().map(|key| key.as_slice()));
                }
                let now_micros = partition.now_micros();
                (Hold::Alone(partition), now_micros)
            }
        };
        self.client.started_micros = Some(now_micros);
        Some(held)
    }

    /// Rows that the requests of a pipeline name first are read together, where rows may be on a
    /// disk: one after the other each request would wait for it.
    fn looks_ahead(&self, layer: &Redis) -> bool {
        !layer.engine.is_all_in_memory() && self.client.multi.is_none() && self.client.authenticated
    }

    /// The keys of the rows that the requests of a pipeline name first; none if there is one
    /// request.
    fn first_keys(&self, input: &[u8]) -> Vec<KeyBytes> {
        let (mut parser, mut following, mut keys) = (Parser::default(), input, Vec::new());
        for _ in 0..REQUESTS_PER_LOCK {
            let Ok(Parsed::Request { consumed }) = parser.parse(following, &self.limits()) else {
                break;
            };
            let arguments = parser.arguments(following);
            if let Ok(command) = self.layer.table.find_of(arguments)
                && command.keys.are_from_the_first_argument_on()
                && let Some(name) = arguments.get(1)
            {
                keys.push(key_row(self.client.db, name));
            }
            following = &following[consumed..];
        }
        if keys.len() < 2 {
            keys.clear();
        }
        keys
    }

    /// Continues in another logical database, if the password is correct and there is room. Returns
    /// false if the request is answered.
    fn log_in_to(&mut self, database_login: DatabaseLogin, out: &mut Vec<u8>) -> Result<bool, Busy> {
        let source = self.layer.clone();
        let target = match &source.access.directory {
            Some(directory) => directory.open(database_login.database)?,
            None => None,
        };
        let Some(target) = target else {
            self.error(&source, &errors::WRONG_PASSWORD.into(), out.len(), out);
            return Ok(false);
        };
        if target
            .access
            .users
            .authenticate(&database_login.user, &database_login.password)
            .is_none()
        {
            let peer = peer_of(&self.client.shared.address);
            source
                .access
                .login_guard
                .failed(peer, &database_login.name, source.engine.now_micros());
            self.error(&source, &errors::WRONG_PASSWORD.into(), out.len(), out);
            return Ok(false);
        }
        let open = target.connections.clients.count();
        if let Some(Err(refusal)) = target
            .access
            .admission_control
            .as_ref()
            .map(|admission_control| admission_control.check_connections(open))
        {
            self.error(&source, &refusal.into(), out.len(), out);
            return Ok(false);
        }
        let client = target
            .connections
            .clients
            .admit(self.client(), target.engine.now_micros());
        let mut session = Session::new(target, client);
        session.client.protocol = self.client.protocol;
        *self = session;
        Ok(true)
    }

    /// Continues in the database's layer in the partition to which it was moved, once it has
    /// arrived. A session with state that exists only here ends.
    fn follow_database(&mut self) -> Next {
        let opened = match &self.layer.access.directory {
            Some(directory) => directory.open(self.layer.space.database),
            None => Ok(None),
        };
        match opened {
            Err(Busy) => Next::Busy,
            // It has stayed.
            Ok(Some(target)) if Arc::ptr_eq(&target, &self.layer) => Next::Busy,
            Ok(Some(target)) if !self.client.shared.is_bound() => match self.continue_in(target) {
                true => Next::Moved,
                false => Next::Close,
            },
            Ok(_) => Next::Close,
        }
    }

    /// Returns false if the user does not exist there.
    fn continue_in(&mut self, target: Arc<Redis>) -> bool {
        let user = target.access.users.find(&self.client.user.name);
        let Some(user) = user.filter(|_| self.client.authenticated) else {
            return false;
        };
        let source = self.client();
        let client = target.connections.clients.admit(source, target.engine.now_micros());
        for (new, old) in [
            (&client.no_evict, &source.no_evict),
            (&client.no_touch, &source.no_touch),
        ] {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        client.db.store(self.client.db, Ordering::Relaxed);
        let mut session = Session::new(target, client);
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
}
