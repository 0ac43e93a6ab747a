//! Keys as the store knows them, with the prefix of their space.

/// Concatenated full keys: a transaction reads many, and inspects them again only if another
/// transaction has committed.
pub(crate) struct FullKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FullKeys {
    /// With room for the keys of a usual transaction: growing would copy them again and again.
    pub fn new() -> FullKeys {
        FullKeys {
            bytes: Vec::with_capacity(256),
            ends: Vec::with_capacity(8),
        }
    }

    /// Adds a key and returns it.
    pub fn push(&mut self, prefix: &[u8], key: &[u8]) -> &[u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        &self.bytes[start..]
    }

    pub fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}
