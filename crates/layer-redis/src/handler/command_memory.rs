//! The memory that a command takes for its reply and for what it gathers before it writes one.
//!
//! It is taken from the process' budget before it is used ([`RequestMemory`]), for each caller
//! of the command: a connection, EXEC, a script, or a request over REST. A command that is refused
//! memory answers [`errors::REPLY_OUT_OF_MEMORY`], and has no effects.

use std::ops::ControlFlow;

use quartet_engine::{RequestMemory, Reserved};
use quartet_wire_resp::ReplyMemory;

use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::connections::clients::ClientState;
use crate::layer::Redis;

/// Bytes that are taken together, and the first bytes of a workspace.
const STEP_BYTES: usize = 64 << 10;

/// The memory of one command, or of all commands of a transaction or a script.
pub struct CommandMemory<'m> {
    layer: &'m Redis,
    /// Bytes of the replies before the current reply that are kept with it.
    before_bytes: u64,
    pub request: RequestMemory<'m>,
}

impl<'m> CommandMemory<'m> {
    #[inline]
    pub fn new(layer: &'m Redis) -> CommandMemory<'m> {
        CommandMemory {
            layer,
            before_bytes: 0,
            request: RequestMemory::new(layer.engine.memory()),
        }
    }

    /// For a command with replies before its own that the connection's owner does not count.
    #[inline]
    pub fn behind(layer: &'m Redis, client: &ClientState) -> CommandMemory<'m> {
        let before_bytes = client.unsent.as_ref().map_or(0, Reserved::bytes);
        CommandMemory {
            before_bytes,
            ..CommandMemory::new(layer)
        }
    }

    /// The command has ended: its reply counts until the owner of the connection counts it.
    #[inline]
    pub fn keep_for(self, client: &mut ClientState) {
        if self.request.bytes() > 0 {
            let memory = self.layer.engine.memory();
            let unsent = client.unsent.get_or_insert_with(|| Reserved::new(memory.clone()));
            self.request.keep_in(unsent);
        }
    }
}

impl ReplyMemory for CommandMemory<'_> {
    fn take(&self, bytes: usize, old_bytes: usize) -> bool {
        let all = (self.before_bytes + self.request.bytes()).saturating_add(bytes as u64);
        if all.saturating_sub(old_bytes as u64) > self.layer.reply_memory_max() {
            self.request.refuse();
            return false;
        }
        self.request.take_instead(bytes as u64, old_bytes as u64)
    }

    fn give_back(&self, old_bytes: usize) {
        self.request.give_back(old_bytes as u64);
    }
}

/// Memory for what a command gathers. Dropping it gives it back.
pub struct Workspace<'m> {
    memory: Option<&'m CommandMemory<'m>>,
    taken_bytes: usize,
    left_bytes: usize,
}

impl<'m> Workspace<'m> {
    /// `None`: without a limit.
    pub fn new(memory: Option<&'m CommandMemory<'m>>) -> Workspace<'m> {
        Workspace {
            memory,
            taken_bytes: 0,
            left_bytes: STEP_BYTES,
        }
    }

    /// Takes `bytes` more, before they are made.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        match self.left_bytes.checked_sub(bytes) {
            Some(left_bytes) => {
                self.left_bytes = left_bytes;
                Ok(())
            }
            None => self.take_more(bytes),
        }
    }

    #[cold]
    fn take_more(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        let more = (bytes - self.left_bytes).max(STEP_BYTES.max(self.taken_bytes / 4));
        if !memory.take(more, 0) {
            return Err(errors::REPLY_OUT_OF_MEMORY.into());
        }
        self.taken_bytes += more;
        self.left_bytes += more;
        self.left_bytes -= bytes;
        Ok(())
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.filter(|_| self.taken_bytes > 0) {
            memory.give_back(self.taken_bytes);
        }
    }
}

/// Byte strings that a command gathers before it answers them. Once there is no memory for one,
/// the rest is left out.
pub struct GatheredList<'m> {
    all: Vec<Vec<u8>>,
    workspace: Workspace<'m>,
    refused: Option<ErrorReply>,
}

impl<'m> GatheredList<'m> {
    pub fn new(workspace: Workspace<'m>) -> GatheredList<'m> {
        GatheredList {
            all: Vec::new(),
            workspace,
            refused: None,
        }
    }

    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.refused.is_none() {
            match self.workspace.take(bytes.len() + ELEMENT_BYTES) {
                Ok(()) => self.all.push(bytes.to_vec()),
                Err(refused) => self.refused = Some(refused),
            }
        }
    }

    /// As [`GatheredList::push`], for a visit that ends once there is no memory.
    pub fn push_on(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.push(bytes);
        match self.is_refused() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    #[allow(clippy::len_without_is_empty, reason = "callers need the number alone")]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Something was left out: what is pushed from now on does not matter.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the strings, unless something was left out.
    pub fn all(&mut self) -> Result<&mut Vec<Vec<u8>>, ErrorReply> {
        match self.refused.take() {
            Some(refused) => Err(refused),
            None => Ok(&mut self.all),
        }
    }
}

/// A vector in a vector that grows, and an allocation of its own.
pub const ELEMENT_BYTES: usize = 2 * size_of::<Vec<u8>>() + 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    /// A read-only user ended the server with one of these: replies were made before they were
    /// counted. A refused command has no effects, and a command that fits continues.
    #[test]
    fn what_does_not_fit_is_refused_and_has_no_effects() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("CONFIG SET maxmemory-clients 4mb => OK");
        let long = "m".repeat(60_000);
        let doc = format!(r#"{{"a":"{long}"}}"#);
        for words in [
            ["ZADD", "z", "1", &long].as_slice(),
            &["SADD", "s", &long],
            &["HSET", "h", "f", &long],
            &["SET", "k", &long],
            &["JSON.SET", "j", "$", &doc],
        ] {
            assert!(connection.bytes(words)[0] != b'-', "{}", words[0]);
        }
        (0..100).for_each(|_| drop(connection.bytes(&["RPUSH", "l", &long])));
        let many = |first: &[&'static str], word: &'static str| {
            let words = first.iter().copied().chain(std::iter::repeat_n(word, 100));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let requests = [
            of(&["ZRANDMEMBER", "z", "-15000"]),
            of(&["SRANDMEMBER", "s", "-15000"]),
            of(&["HRANDFIELD", "h", "-15000", "WITHVALUES"]),
            of(&["SRANDMEMBER", "s", "-4000000"]),
            many(&["HMGET", "h"], "f"),
            many(&["MGET"], "k"),
            of(&["LRANGE", "l", "0", "-1"]),
            of(&["LPOP", "l", "100"]),
            of(&["SORT", "l", "ALPHA"]),
            of(&["DUMP", "l"]),
            many(&["JSON.GET", "j"], "$.a"),
            of(&["JSON.GET", "j", "INDENT", &"i".repeat(3_000_000), "$"]),
            of(&[
                "EVAL",
                "local all = {} for at = 1, 100 do all[at] = redis.call('GET', 'k') end return all",
                "0",
            ]),
            of(&["EVAL", "return redis.call('LRANGE', 'l', 0, -1)", "0"]),
        ];
        for request in &requests {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            let reply = connection.bytes(&words);
            assert!(
                reply.starts_with(b"-OOM "),
                "{} {}",
                words[0],
                reply[..60.min(reply.len())].escape_ascii()
            );
        }
        connection.check("LLEN l => 100\nMULTI => OK\nSET done no => QUEUED");
        (0..2).for_each(|_| drop(connection.bytes(&["LRANGE", "l", "0", "30"])));
        assert!(connection.bytes(&["EXEC"]).starts_with(b"-OOM "));
        connection.check("EXISTS done => 0");
        assert_eq!(
            connection.bytes(&["LRANGE", "l", "0", "9"]).len(),
            10 * (60_000 + 10) + 5
        );
        // Long strings are made piece by piece.
        connection.bytes(&["SET", "long", &"v".repeat(8 << 20)]);
        assert!(connection.bytes(&["MGET", "long", "long"]).len() > 16 << 20);
    }

    #[test]
    fn a_workspace_takes_steps_and_gives_them_back() {
        let fixture = Fixture::new();
        fixture.connect().check("CONFIG SET maxmemory-clients 20mb => OK");
        let command = CommandMemory::new(&fixture.layer);
        let mut workspace = Workspace::new(Some(&command));
        assert!(workspace.take(STEP_BYTES).is_ok() && command.request.bytes() == 0);
        assert!(workspace.take(1).is_ok() && command.request.bytes() == STEP_BYTES as u64);
        assert!(workspace.take(9 << 20).is_ok());
        assert!(workspace.take(1 << 20).is_err());
        drop(workspace);
        assert_eq!(command.request.bytes(), 0);
        assert!(Workspace::new(None).take(usize::MAX).is_ok());
    }
}
