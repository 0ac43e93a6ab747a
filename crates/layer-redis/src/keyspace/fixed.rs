//! Concatenated fields of known lengths, the start of many rows' values.

pub struct Fixed<const BYTES: usize> {
    bytes: [u8; BYTES],
    length: usize,
}

impl<const BYTES: usize> Fixed<BYTES> {
    pub fn new() -> Fixed<BYTES> {
        Fixed {
            bytes: [0; BYTES],
            length: 0,
        }
    }

    /// Panics without room for the field.
    #[inline]
    pub fn put<const N: usize>(&mut self, field: [u8; N]) {
        let place = self.bytes[self.length..].first_chunk_mut();
        *place.expect("room for all the fields") = field;
        self.length += N;
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
