//! Mail from other threads for a connection, in order, until the connection takes it.
//!
//! ```text
//!   pieces: [own bytes | shared message | shared message | own bytes]   tail: own bytes, growing
//! ```
//!
//! Small things are copied into the tail. A larger message that goes to many connections is one
//! allocation for all of them, and is copied only when a connection is about to send it, a part at
//! a time.

use std::collections::VecDeque;
use std::sync::Arc;

use quartet_engine::Dependency;

use crate::connections::client_memory::{ClientMemory, Counted, SharedBytes};

/// Messages that are shorter are copied: that costs no more than sharing them.
pub const SHARED_BYTES_MIN: usize = 512;

pub struct Mailbox {
    pieces: VecDeque<Piece>,
    tail: Vec<u8>,
    /// All that waits, shared messages in full.
    bytes: usize,
    /// Size of the pieces' own part of the mailbox.
    own_piece_bytes: usize,
    pub dependency: Dependency,
    /// The reply to the command that blocked is among the bytes.
    pub unblocked: bool,
    /// Since when more than the soft limit of listeners has been pending.
    pub over_soft_since_micros: Option<u64>,
    counted: Counted,
}

enum Piece {
    Own(Vec<u8>),
    /// The first byte says what it is in the connection's protocol; the rest is alike in all.
    Shared(u8, Arc<SharedBytes>),
}

/// The taken mail.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub dependency: Dependency,
    pub unblocked: bool,
}

impl Mailbox {
    pub fn new(memory: Arc<ClientMemory>) -> Mailbox {
        Mailbox {
            pieces: VecDeque::new(),
            tail: Vec::new(),
            bytes: 0,
            own_piece_bytes: 0,
            dependency: Dependency::ZERO,
            unblocked: false,
            over_soft_since_micros: None,
            counted: Counted::new(memory, 0),
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The mailbox's own part of what is counted, without shared messages.
    pub fn own_bytes(&self) -> usize {
        self.counted.bytes()
    }

    /// `first`, if given, replaces the first of the bytes.
    pub fn add(&mut self, first: Option<u8>, bytes: &[u8], dependency: Dependency) {
        let start = self.tail.len();
        self.tail.extend_from_slice(bytes);
        if let (Some(first), Some(place)) = (first, self.tail.get_mut(start)) {
            *place = first;
        }
        self.added(bytes.len(), dependency);
    }

    pub fn add_shared(&mut self, first: Option<u8>, message: &Arc<SharedBytes>, dependency: Dependency) {
        if !self.tail.is_empty() {
            let own = std::mem::take(&mut self.tail);
            self.own_piece_bytes += own.capacity();
            self.pieces.push_back(Piece::Own(own));
        }
        let first = first.unwrap_or_else(|| message.first().copied().unwrap_or_default());
        self.pieces.push_back(Piece::Shared(first, message.clone()));
        self.added(message.len(), dependency);
    }

    fn added(&mut self, bytes: usize, dependency: Dependency) {
        self.bytes += bytes;
        self.dependency = self.dependency.max(dependency);
        self.count();
    }

    fn count(&mut self) {
        let pieces_bytes = self.pieces.capacity() * size_of::<Piece>();
        self.counted
            .set(self.tail.capacity() + self.own_piece_bytes + pieces_bytes);
    }

    /// Moves pending bytes to the end of `out`, until `out` has at least `bytes_max` bytes.
    pub fn take(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Taken {
        while out.len() < bytes_max
            && let Some(piece) = self.pieces.pop_front()
        {
            match piece {
                Piece::Own(bytes) => {
                    self.own_piece_bytes -= bytes.capacity();
                    self.bytes -= bytes.len();
                    out.extend_from_slice(&bytes);
                }
                Piece::Shared(first, message) => {
                    self.bytes -= message.len();
                    out.push(first);
                    out.extend_from_slice(message.get(1..).unwrap_or_default());
                }
            }
        }
        let is_all = self.pieces.is_empty();
        if is_all {
            self.take_tail(out);
        }
        self.count();
        Taken {
            dependency: if is_all {
                std::mem::take(&mut self.dependency)
            } else {
                self.dependency
            },
            unblocked: is_all && std::mem::take(&mut self.unblocked),
        }
    }

    /// Swaps the two buffers if that moves all bytes, so that both are reused.
    fn take_tail(&mut self, out: &mut Vec<u8>) {
        self.pieces = VecDeque::new();
        self.bytes = 0;
        if out.is_empty() {
            std::mem::swap(out, &mut self.tail);
        } else {
            out.extend_from_slice(&self.tail);
            self.tail = Vec::new();
        }
    }

    /// Drops everything that waits.
    pub fn empty(&mut self) {
        (self.pieces, self.tail) = (VecDeque::new(), Vec::new());
        (self.bytes, self.own_piece_bytes) = (0, 0);
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartet_model::Version;

    #[test]
    fn waiting_messages_are_delivered_in_order_and_in_parts() {
        let memory = Arc::<ClientMemory>::default();
        let mut mailbox = Mailbox::new(memory.clone());
        let message = SharedBytes::new(&memory, b">shared".to_vec());
        mailbox.add(None, b"a", Version(1));
        mailbox.add_shared(Some(b'*'), &message, Version(3));
        mailbox.add_shared(None, &message, Version(2));
        mailbox.add(Some(b'*'), b">own", Version(1));
        mailbox.unblocked = true;
        assert_eq!(mailbox.bytes(), 19);
        let mut out = Vec::new();
        let part = mailbox.take(&mut out, 5);
        assert_eq!(out, b"a*shared");
        assert_eq!((part.unblocked, part.dependency), (false, Version(3)));
        assert_eq!(mailbox.bytes(), 11);
        let second_part = mailbox.take(&mut out, usize::MAX);
        assert_eq!(out, b"a*shared>shared*own");
        assert_eq!((second_part.unblocked, second_part.dependency), (true, Version(3)));
        assert_eq!((mailbox.bytes(), mailbox.dependency), (0, Version(0)));
    }

    #[test]
    fn a_message_to_many_is_one_allocation() {
        let memory = Arc::<ClientMemory>::default();
        let mut mailboxes: Vec<Mailbox> = (0..500).map(|_| Mailbox::new(memory.clone())).collect();
        for _ in 0..40 {
            let message = SharedBytes::new(&memory, vec![b'>'; 100_000]);
            mailboxes
                .iter_mut()
                .for_each(|mailbox| mailbox.add_shared(None, &message, Version(1)));
        }
        assert_eq!(mailboxes[0].bytes(), 4_000_000);
        assert!(
            memory.used() <= 4_000_000 + 500 * 64 * size_of::<Piece>(),
            "{}",
            memory.used()
        );
        mailboxes.iter_mut().for_each(Mailbox::empty);
        assert_eq!(memory.used(), 0);
    }
}
