//! A handler's context: the transaction, the connection, the reply, and the state that all
//! connections share.

use std::ops::{ControlFlow, Deref};
use std::sync::atomic::Ordering;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};

use crate::access::acl::selector::Selector;
use crate::command::error_reply::ErrorReply;
use crate::connections::blocking::{Block, EmptyReply};
use crate::connections::clients::ClientState;
use crate::handler::command_memory::{ELEMENT_BYTES, Workspace};
use crate::handler::groups::Groups;
use crate::handler::outcome::Outcome;
use crate::keyspace::changes::What;
use crate::keyspace::late_part::{LATE_FROM, LatePart, Made};
use crate::keyspace::{Entry, Header, Keyspace, Kind, Missing, key_row};
use crate::{command::errors, command::parse};

/// Bytes that are gathered of a byte of a packed value, about.
const PACKED_FACTOR: usize = 4;

pub struct Context<'c, 't> {
    pub tx: &'c mut Transaction<'t>,
    pub client: &'c mut ClientState,
    /// The state that all connections share.
    pub groups: Groups<'c>,
    pub reply: Reply<'c>,
    /// The transaction's time in milliseconds.
    pub now_ms: u64,
    /// The command runs inside EXEC: it must not block.
    pub in_exec: bool,
    /// The command has waited and is called again, because this key changed.
    pub retry_for: Option<&'c [u8]>,
}

impl<'c> Deref for Context<'c, '_> {
    type Target = Groups<'c>;

    #[inline]
    fn deref(&self) -> &Groups<'c> {
        &self.groups
    }
}

impl<'c, 't> Context<'c, 't> {
    /// The selected database.
    pub fn keys(&mut self) -> Keyspace<'_, 't> {
        let db = self.client.db;
        self.keys_of(db)
    }

    pub fn keys_of(&mut self, db: u8) -> Keyspace<'_, 't> {
        let now_ms = self.expires_up_to_ms();
        Keyspace {
            tx: self.tx,
            db,
            now_ms,
            changes: self.groups.changes(),
        }
    }

    /// Deadlines up to here have passed. On a replica none has passed until its source says so, as
    /// the source may have decided otherwise before the deadline.
    pub fn expires_up_to_ms(&self) -> u64 {
        match self.client.is_upstream {
            true => 0,
            false => self.now_ms,
        }
    }

    /// Returns true if a deadline at `deadline_ms` has passed.
    pub fn is_over(&self, deadline_ms: u64) -> bool {
        deadline_ms <= self.expires_up_to_ms()
    }

    /// The selected database together with the reply, for answers written while rows are read.
    pub fn keys_and_reply(&mut self) -> (Keyspace<'_, 't>, &mut Reply<'c>) {
        let now_ms = self.expires_up_to_ms();
        let keys = Keyspace {
            tx: self.tx,
            db: self.client.db,
            now_ms,
            changes: self.groups.changes(),
        };
        (keys, &mut self.reply)
    }

    /// Returns true if a single selector of the user allows the request together with `also`, which
    /// checks the parts of the request outside of its key arguments.
    pub fn user_may(&self, arguments: Arguments<'_>, also: impl Fn(&Selector) -> bool) -> bool {
        let user = &self.client.user;
        let is_allowed = |command| user.allows_with(command, arguments, &also);
        user.is_unrestricted() || self.table().find_of(arguments).is_ok_and(is_allowed)
    }

    /// Keeps the parsed request for the next run, on a thread that may take long.
    pub fn keep_parsed<P: Send + Sync + 'static>(&mut self, parsed: Box<P>) {
        if self.is_request() && !self.client.may_take_long {
            self.client.parsed = Some(parsed);
        }
    }

    /// Takes the parsed request from the run before, if that kept one of this type. It can differ
    /// from what the words mean now.
    pub fn take_parsed<P: Send + 'static>(&mut self) -> Option<Box<P>> {
        match self.is_request() {
            true => self.client.parsed.take()?.downcast().ok(),
            false => None,
        }
    }

    /// The command is the client's request itself, not one of EXEC or of a script.
    fn is_request(&self) -> bool {
        !self.in_exec && !self.client.is_script
    }

    /// A key that a command reads: counted as a hit or a miss, and as used now.
    pub fn read(&mut self, name: &[u8]) -> Option<Entry> {
        let entry = self.look_at(name);
        if entry.is_some() {
            self.note_use(name);
        }
        entry
    }

    /// A key that a command looks at from outside, such as TTL: counted as a hit or a miss, but not
    /// as used.
    pub fn look_at(&mut self, name: &[u8]) -> Option<Entry> {
        let entry = self.keys().look_up(name);
        match self.beside() {
            Some(beside) => beside.key_read(entry.is_ok()),
            None => self.observation().statistics.key_read(entry.is_ok()),
        }
        if matches!(entry, Err(Missing::Expired)) {
            self.note_end(name);
        }
        if entry.is_err() {
            self.changes().note(self.client.db, name, What::Missed);
        }
        entry.ok()
    }

    /// A dead key is reported where it was found, unless nothing may expire now.
    fn note_end(&mut self, name: &[u8]) {
        let may_expire = self.groups.layer.may_expire(self.now_ms);
        if let Some(beside) = self.beside() {
            if may_expire {
                beside.needs_lock_alone();
            }
        } else if may_expire
            && self.expiry().found.note(self.client.db, name)
            && let Some(ended) = self.keys().end_of(name)
        {
            self.changes().note(self.client.db, name, ended);
        }
    }

    /// A key is used now, which nothing else says.
    pub fn note_use(&self, name: &[u8]) {
        if !self.client.shared.no_touch.load(Ordering::Relaxed) {
            let db = self.client.db;
            if self.eviction_policy().counts_frequency() {
                let config = self.config();
                let decay_minutes = config.lfu_decay_time.load(Ordering::Relaxed) as u64;
                let log_factor = config.lfu_log_factor.load(Ordering::Relaxed) as u64;
                let recency = &self.eviction().recency;
                recency.note_often(db, name, self.now_ms, decay_minutes, |rarity| {
                    self.random().below(rarity.saturating_mul(log_factor).saturating_add(1)) == 0
                });
            } else {
                self.eviction().recency.note(db, name, self.now_ms);
            }
        }
    }

    /// Records the change of a key's elements. If the elements are rows of their own, the key's row
    /// may stay unchanged, and does not record the use.
    pub fn note_change(&self, name: &[u8], entry: Option<&Entry>) {
        if entry.is_some_and(Entry::is_large) {
            self.note_use(name);
        }
    }

    /// See [`Keyspace::patch_string`].
    pub fn patch_string(&mut self, name: &[u8], header: Header, old: Option<&Entry>, offset: u64, bytes: &[u8]) {
        self.note_change(name, old);
        self.keys().patch_string(name, header, old, offset, bytes);
    }

    /// Reads a key that must hold `kind` if it exists.
    pub fn read_kind(&mut self, name: &[u8], kind: Kind) -> Result<Option<Entry>, ErrorReply> {
        match self.read(name) {
            Some(entry) if entry.kind != kind => Err(errors::WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    /// Takes memory for all elements of keys, which a command is about to gather.
    pub fn takes_elements<'e>(
        &mut self,
        workspace: &mut Workspace<'_>,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<(), ErrorReply> {
        for entry in entries {
            workspace.take(entry.row_bytes().saturating_mul(PACKED_FACTOR))?;
            if !entry.is_large() {
                continue;
            }
            let mut outcome = Ok(());
            entry.elements().scan(self.tx, b"", None, false, &mut |key, value| {
                outcome = workspace.take(key.len() + value.len() + ELEMENT_BYTES);
                match outcome {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            outcome?;
        }
        Ok(())
    }

    /// Whether a part of the reply that rests on `bytes` is to be made when the lock is free. Not
    /// in EXEC or a script, where more than the command's own reply depends on it.
    pub fn makes_late(&self, bytes: u64) -> bool {
        bytes >= LATE_FROM && self.client.takes_late_parts && !self.in_exec
    }

    /// Leaves out a part of the reply that belongs to the position `at` and is about as long as
    /// `bytes`: `make` appends it step by step when the lock is free. Only if
    /// [`Context::makes_late`].
    pub fn make_late(
        &mut self,
        at: usize,
        bytes: usize,
        make: impl FnMut(&mut Vec<u8>) -> Made + Send + Sync + 'static,
    ) {
        let make = Box::new(make);
        self.client.late_parts.push(LatePart { at, bytes, make });
    }

    /// The command has waited. It has reported keys of a wrong kind long ago, and passes them over.
    pub fn is_retry(&self) -> bool {
        self.retry_for.is_some()
    }

    /// Returns true if `name` may serve a blocking command: any of its keys at first, later only
    /// the changed key, so that several keys of one transaction serve in the order of their writes.
    pub fn may_be_served_by(&self, name: &[u8]) -> bool {
        self.retry_for.is_none_or(|changed| changed == name)
    }

    /// Notes a change below a key without a change of its own row: blocked commands that wait for
    /// it are retried.
    pub fn changed_below(&self, name: &[u8]) {
        let row = key_row(self.client.db, name);
        self.connections().blocking.changed_below(&row);
    }

    /// The answer of a blocking command that found nothing: wait for `keys`.
    pub fn block_on(&self, keys: Vec<Vec<u8>>, timeout: &[u8], in_exec: EmptyReply) -> Result<Outcome, ErrorReply> {
        let deadline_ms = parse::deadline_ms(timeout, self.now_ms)?;
        Ok(Outcome::Wait(Box::new(Block {
            keys,
            deadline_ms,
            in_exec,
            ask_again: None,
            even_if_gone: false,
            even_below: false,
            again_at_ms: None,
        })))
    }
}
