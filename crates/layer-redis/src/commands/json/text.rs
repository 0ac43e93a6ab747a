//! JSON as text, up to a limit: a path may mean one long value many times, and a layout may indent
//! a small document by megabytes.

use std::io;

use quartet_wire_resp::ReplyMemory;
use quartet_wire_resp::reply::{counted_bytes, grow};

use crate::handler::command_memory::{CommandMemory, Workspace};
use crate::handler::groups::Groups;

/// Grows up to a limit, and as long as there is memory; what does not fit is left out, and the text
/// is none.
pub struct Text<'m> {
    bytes: Vec<u8>,
    bytes_max: usize,
    memory: Option<&'m CommandMemory<'m>>,
    is_full: bool,
}

impl<'m> Text<'m> {
    pub fn limited(bytes_max: usize) -> Text<'m> {
        Text {
            bytes: Vec::new(),
            bytes_max,
            memory: None,
            is_full: false,
        }
    }

    /// For a reply of a command.
    pub fn of_reply(groups: Groups<'m>) -> Text<'m> {
        let mut text = Text::limited(groups.reply_bytes_max());
        text.memory = groups.memory();
        text
    }

    #[inline]
    pub fn push(&mut self, piece: &[u8]) {
        self.is_full |= piece.len() > self.bytes_max - self.bytes.len();
        if piece.len() > self.bytes.capacity() - self.bytes.len()
            && let Some(memory) = self.memory
        {
            self.is_full |= !grow(&mut self.bytes, piece.len(), memory);
        }
        if !self.is_full {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Memory for what is gathered before it is pushed.
    pub fn workspace(&self) -> Workspace<'m> {
        Workspace::new(self.memory)
    }

    /// There is no memory for the next text, and it is left out.
    pub fn refuse(&mut self) {
        self.is_full = true;
    }

    /// Nothing that is pushed from now on matters.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the text, `None` if something was left out.
    pub fn whole(&self) -> Option<&[u8]> {
        (!self.is_full).then_some(&self.bytes)
    }

    /// The same for a text that is not of a reply.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        (!self.is_full).then(|| std::mem::take(&mut self.bytes))
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        let bytes = counted_bytes(self.bytes.capacity());
        if let Some(memory) = self.memory {
            memory.give_back(bytes);
        }
    }
}

impl io::Write for Text<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.push(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
