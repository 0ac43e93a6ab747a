//! The parts of a frame: numbers are little-endian; byte strings have their length before them, or
//! reach to the end.

/// A frame is not what this version of the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed frame")]
pub struct Malformed;

/// Takes a frame's body apart from the front.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (field, remaining) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = remaining;
        Ok(field)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends the parts of a frame's body.
pub(crate) trait Output {
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    /// A byte string with its length before it. Panics at 4 GiB, which no frame can hold.
    fn put_bytes(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a byte string below 4 GiB");
        self.extend_from_slice(&length.to_le_bytes());
        self.extend_from_slice(bytes);
    }
}
