//! The state of a session that moves to another home: a new session with this state continues so
//! that the client notices no change.
//!
//! The state is written as requests. The first request has the database, the user and the state
//! that no command sets; the following requests are commands that a new session executes before the
//! client's, without replies. A request that waits moves as it was sent, and waits at the next home
//! for its remaining time. Keys under WATCH count as touched there: their changes meanwhile are not
//! known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quartet_engine::Busy;
use quartet_model::DatabaseId;
use quartet_wire_resp::{Args, Limits, Parsed, Protocol, encode_command, parse};

use super::received::Next;
use super::{Session, Waiting};
use crate::access::acl::User;
use crate::access::acl::rules::Rules;
use crate::connections::channels::Scope;
use crate::connections::clients::{Client, ReplyMode};
use crate::layer::Redis;

/// A session that has left.
#[derive(Debug, Default)]
pub struct Left {
    /// For [`Session::arrive`].
    pub state: Vec<u8>,
    /// The request that waits, to be received before all others.
    pub request: Vec<u8>,
}

const REPLY_MODES: [ReplyMode; 4] = [ReplyMode::On, ReplyMode::Off, ReplyMode::SkipNext, ReplyMode::SkipThis];
const SCOPES: [(Scope, &[u8]); 3] = [
    (Scope::Channel, b"SUBSCRIBE"),
    (Scope::Pattern, b"PSUBSCRIBE"),
    (Scope::Shard, b"SSUBSCRIBE"),
];

impl Session {
    /// The state for another home; `None` if the session cannot move: the connection shows all
    /// commands, is a replica's, or its client remembers keys that this server reports changes of.
    pub fn leave(&self) -> Option<Left> {
        let client = &self.client;
        let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let is_bound = is(&client.shared.monitor) || is(&client.shared.is_replica);
        let is_bound = is_bound || client.shared.tracking.lock().is_some() || client.is_upstream;
        if is_bound || client.close_after_reply || self.incomplete.is_some() {
            return None;
        }
        let (request, left_ms) = self.waiting_request();
        let has_watched = !client.watched.is_empty() || client.watched_blindly;
        let is_refused = client.multi.as_ref().is_some_and(|queue| queue.refused);
        let mode = REPLY_MODES.iter().position(|mode| *mode == client.reply_mode);
        let words = [
            self.layer.space.database.0.to_string().into_bytes(),
            client.user.name.clone(),
            flag(client.authenticated),
            flag(has_watched),
            flag(is_refused),
            mode.unwrap_or_default().to_string().into_bytes(),
            left_ms.map_or_else(Vec::new, |left_ms| left_ms.to_string().into_bytes()),
        ];
        let mut state = Vec::new();
        encode_command(&words, &mut state);
        if client.authenticated {
            self.tell(&mut state);
        }
        Some(Left { state, request })
    }

    /// The request that waits for a key, and its remaining time; `None`: indefinitely, or no
    /// request waits.
    fn waiting_request(&self) -> (Vec<u8>, Option<u64>) {
        let Waiting::ForKey { deadline_ms } = self.waiting else {
            return (Vec::new(), None);
        };
        let request = self.layer.connections.blocking.request_of(self.client.shared.id);
        let now_ms = self.layer.engine.now_micros() / 1000;
        let left_ms = deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms));
        (request.map_or_else(Vec::new, |request| request.to_vec()), left_ms)
    }

    /// Writes the commands that bring a new session to this one's state.
    fn tell(&self, state: &mut Vec<u8>) {
        let client = &self.client;
        if client.protocol == Protocol::Resp3 {
            encode_command(&["HELLO", "3"], state);
        }
        let details = client.shared.details.lock().clone();
        for (subcommand, attribute, value) in [
            ("SETNAME", None, details.name),
            ("SETINFO", Some("LIB-NAME"), details.library_name),
            ("SETINFO", Some("LIB-VER"), details.library_version),
        ] {
            if !value.is_empty() {
                let words = ["CLIENT", subcommand].into_iter().chain(attribute);
                let words: Vec<&str> = words.chain([value.as_str()]).collect();
                encode_command(&words, state);
            }
        }
        for (flag, option) in [
            (&client.shared.no_evict, "NO-EVICT"),
            (&client.shared.no_touch, "NO-TOUCH"),
        ] {
            if flag.load(Ordering::Relaxed) {
                encode_command(&["CLIENT", option, "ON"], state);
            }
        }
        if client.db > 0 {
            encode_command(&["SELECT", &client.db.to_string()], state);
        }
        for (scope, command) in SCOPES {
            let names = client.subscriptions.of(scope);
            if !names.is_empty() {
                let words: Vec<&[u8]> = [command].into_iter().chain(names.iter().map(Vec::as_slice)).collect();
                encode_command(&words, state);
            }
        }
        if let Some(queue) = &client.multi {
            encode_command(&["MULTI"], state);
            queue
                .requests
                .iter()
                .for_each(|request| state.extend_from_slice(request));
        }
    }

    /// Continues a session that has left another home. `default_layer` is the default database's
    /// layer. `None`: its database or its user does not exist any more. `Busy`: nothing was done,
    /// call again later.
    pub fn arrive(default_layer: &Arc<Redis>, client: Arc<Client>, state: &[u8]) -> Result<Option<Session>, Busy> {
        let mut args = Args::new();
        let Ok(Parsed::Request { consumed }) = parse(state, &Limits::unlimited(), &mut args) else {
            return Ok(None);
        };
        let first = args.of(state);
        let number = |index: usize| std::str::from_utf8(first.get(index)?).ok()?.parse::<u64>().ok();
        let is_set = |index: usize| number(index) == Some(1);
        let Some(database) = number(0).and_then(|number| u16::try_from(number).ok()).map(DatabaseId) else {
            return Ok(None);
        };
        let mut session = if database == default_layer.space.database {
            Session::new(default_layer.clone(), client)
        } else {
            let directory = default_layer.access.directory.as_ref();
            let opened = directory.filter(|directory| !directory.is_elsewhere(database));
            let Some(opened_layer) = opened.map(|directory| directory.open(database)).transpose()?.flatten() else {
                return Ok(None);
            };
            let admitted = opened_layer
                .connections
                .clients
                .admit(&client, opened_layer.engine.now_micros());
            default_layer.connections.clients.disconnect(&client);
            Session::new(opened_layer, admitted)
        };
        if !is_set(2) {
            return Ok(Some(session));
        }
        let Some(user) = session.layer.access.users.find(first.get(1).unwrap_or_default()) else {
            return Ok(None);
        };
        if !session.replay(&state[consumed..])? {
            return Ok(None);
        }
        session.act_for(user);
        session.client.watched_blindly = is_set(3);
        if let Some(queue) = &mut session.client.multi {
            queue.refused |= is_set(4);
        }
        let mode = number(5).and_then(|mode| REPLY_MODES.get(mode as usize));
        session.client.reply_mode = mode.copied().unwrap_or_default();
        let now_ms = session.layer.engine.now_micros() / 1000;
        session.resumed_deadline_ms = number(6).map(|left_ms| now_ms + left_ms);
        Ok(Some(session))
    }

    /// Executes the commands of a state, without the user's restrictions. False: the bytes are no
    /// commands.
    fn replay(&mut self, commands: &[u8]) -> Result<bool, Busy> {
        let rules = Rules::of_default_user(self.layer.table);
        self.act_for(Arc::new(User::new(b"default", rules)));
        let (mut consumed, mut replies) = (0, Vec::new());
        while consumed < commands.len() {
            let received = self.receive(&commands[consumed..], &mut replies);
            match received.next {
                Next::Busy => return Err(Busy),
                Next::Close => return Ok(false),
                _ if received.consumed == 0 => return Ok(false),
                _ => {}
            }
            consumed += received.consumed;
            replies.clear();
        }
        Ok(true)
    }
}

fn flag(is_set: bool) -> Vec<u8> {
    if is_set { b"1".to_vec() } else { b"0".to_vec() }
}
