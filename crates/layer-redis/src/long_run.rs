//! A request that takes too long for a thread that serves connections, run on one that may take long.
//!
//! The request was begun, and all of it taken back, before: nobody has seen anything of it. The connection's state comes
//! along and goes back with the reply. While it runs it holds the partition's lock; the others wait for it, or are told
//! that a script keeps the server busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::{Hold, Home, WatchId};
use quartet_wire_resp::{Limits, Parsed, Parser, Reply};

use crate::clients::ClientState;
use crate::command::Failure;
use crate::{Redis, commands, session};

pub struct LongRun {
    layer: Arc<Redis>,
    client: ClientState,
    request: Vec<u8>,
    reply: Vec<u8>,
    hold: Hold,
}

impl LongRun {
    pub fn new(layer: Arc<Redis>, client: ClientState, request: Vec<u8>) -> LongRun {
        LongRun {
            layer,
            client,
            request,
            reply: Vec::new(),
            hold: Hold::ZERO,
        }
    }

    /// Runs the request to its end. Blocks the calling thread as long as it takes.
    pub fn run(&mut self) {
        let layer = self.layer.clone();
        let mut home = layer.engine.home();
        self.client.may_take_long = true;
        let outcome = self.call(&mut home);
        self.client.may_take_long = false;
        let text = match outcome {
            Ok(hold) => {
                self.hold = hold;
                None
            }
            Err(Failure::Error(text)) => Some(text.to_owned()),
            Err(Failure::Message(text)) => Some(text),
            Err(_) => Some("ERR the script was ended because the server stops".to_owned()),
        };
        if let Some(text) = text {
            self.hold = std::mem::take(&mut self.client.failure_hold);
            self.reply.clear();
            layer.statistics.error_sent(text.as_bytes());
            Reply::new(&mut self.reply, self.client.protocol).error(&text);
        }
        layer.expire_found(&mut home);
        layer.send_outbox();
        layer.blocking.serve(&mut home, &layer);
        layer.clear_left_behind(&mut home);
    }

    fn call(&mut self, home: &mut Home<'_>) -> Result<Hold, Failure> {
        let mut parser = Parser::new();
        let Ok(Parsed::Request { .. }) = parser.parse(&self.request, &Limits::unlimited()) else {
            unreachable!("a request that parsed once");
        };
        let arguments = parser.arguments(&self.request);
        let command = commands::find(arguments)?;
        session::call(
            home,
            &self.layer,
            &mut self.client,
            command,
            arguments,
            None,
            &mut self.reply,
        )
    }

    /// The connection's state, the reply, and the version that the reply must wait for.
    pub fn into_parts(self) -> (ClientState, Vec<u8>, Hold) {
        (self.client, self.reply, self.hold)
    }
}

/// Connections that closed while a long script held the lock: what they waited for and watched is still registered.
#[derive(Default)]
pub struct LeftBehind {
    any: AtomicBool,
    clients: Mutex<Vec<(u64, Vec<WatchId>)>>,
}

/// How long a thread waits for the lock before it looks again whether a script keeps everybody waiting.
const PATIENCE: Duration = Duration::from_millis(5);

impl Redis {
    /// Takes the partition's lock, unless a script has held it for longer than `busy-reply-threshold`.
    pub fn home_unless_busy(&self) -> Option<Home<'_>> {
        loop {
            let patience = if self.long_scripts.is_busy() {
                Duration::ZERO
            } else {
                PATIENCE
            };
            if let Some(mut home) = self.engine.home_within(patience) {
                self.clear_left_behind(&mut home);
                return Some(home);
            }
            if patience.is_zero() {
                return None;
            }
        }
    }

    /// A closed connection waits for nothing and watches nothing any more: now, or once the lock is free.
    pub fn leave_behind(&self, client_id: u64, watches: Vec<WatchId>) {
        self.left_behind.clients.lock().push((client_id, watches));
        self.left_behind.any.store(true, Ordering::SeqCst);
        drop(self.home_unless_busy());
    }

    fn clear_left_behind(&self, home: &mut Home<'_>) {
        if !self.left_behind.any.swap(false, Ordering::SeqCst) {
            return;
        }
        for (client_id, watches) in std::mem::take(&mut *self.left_behind.clients.lock()) {
            self.blocking.forget(home, client_id);
            watches.into_iter().for_each(|watch| home.unwatch(watch));
        }
    }
}
