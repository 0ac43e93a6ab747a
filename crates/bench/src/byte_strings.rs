//! Byte strings, one after the other in one buffer that is reused from request to request.
//!
//! A list of vectors would allocate in the hot loop, and the load generator shares its machine with
//! the server.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteStrings {
    /// The string being written follows the last end.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteStrings {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub fn push(&mut self, string: &[u8]) {
        self.extend(string);
        self.end_string();
    }

    /// Adds to the string being written.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends the current string.
    pub fn end_string(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Bytes of the string being written.
    pub fn open_bytes(&self) -> usize {
        self.bytes.len() - self.ends.last().unwrap_or(&0)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.ends
            .iter()
            .zip(starts)
            .map(|(&end, start)| &self.bytes[start..end])
    }
}

/// Adds to the string being written. Never fails.
impl std::io::Write for ByteStrings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn strings_survive_a_round_trip() {
        let mut strings = ByteStrings::default();
        strings.push(b"stale");
        strings.clear();
        strings.push(b"ab");
        strings.push(b"");
        write!(strings, "{}-", 1).unwrap();
        write!(strings, "{}", 2).unwrap();
        assert_eq!(strings.open_bytes(), 3);
        strings.end_string();
        assert_eq!(strings.len(), 3);
        assert_eq!(strings.iter().collect::<Vec<_>>(), [&b"ab"[..], b"", b"1-2"]);
    }
}
