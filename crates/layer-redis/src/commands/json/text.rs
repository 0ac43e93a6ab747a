//! JSON as text, up to a limit: a path may mean one long value many times, and a layout may indent
//! a small document by megabytes.

use std::io;

/// Grows up to a limit; what does not fit is left out, and the text is none.
pub struct Text {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl Text {
    pub fn limited(bytes_max: usize) -> Text {
        Text {
            bytes: Vec::new(),
            bytes_max,
            is_full: false,
        }
    }

    #[inline]
    pub fn push(&mut self, piece: &[u8]) {
        self.is_full |= piece.len() > self.bytes_max - self.bytes.len();
        if !self.is_full {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Nothing that is pushed from now on matters.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// `None` if something was left out.
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.is_full).then_some(self.bytes)
    }
}

impl io::Write for Text {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.push(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
