//! Where a value of the RDB format ends, found without reading what it says.
//!
//! A file or a stream arrives in pieces; this distinguishes an incomplete value from a malformed
//! one, and builds nothing. Announced lengths are compared with the remaining bytes, never
//! allocated.

use crate::primitives::STRING_BYTES_MAX;
use crate::{stream, value};

/// Why the end was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The bytes end before it. At least this many more are needed, which is the peer's
    /// announcement: a hint for a read, not for memory.
    Short(usize),
    Malformed(&'static str),
}

pub struct Walk<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Walk<'a> {
    pub fn new(bytes: &'a [u8]) -> Walk<'a> {
        Walk { bytes, at: 0 }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let remaining = &self.bytes[self.at..];
        let bytes = remaining
            .get(..count)
            .ok_or_else(|| Stop::Short(count - remaining.len()))?;
        self.at += count;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    pub fn byte(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    /// A length; `Err` of the pair is the number of a special encoding.
    fn any_length(&mut self) -> Result<Result<u64, u8>, Stop> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, low) {
            (0, _) => Ok(u64::from(low)),
            (1, _) => Ok(u64::from(low) << 8 | u64::from(self.byte()?)),
            (2, 0) => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 1) => Ok(u64::from_be_bytes(self.array()?)),
            (3, _) => Err(low),
            _ => return Err(Stop::Malformed("a length of no known form")),
        })
    }

    pub fn length(&mut self) -> Result<u64, Stop> {
        self.any_length()?
            .map_err(|_| Stop::Malformed("a string where a length should be"))
    }

    /// Passes over a string.
    pub fn string(&mut self) -> Result<(), Stop> {
        let count = match self.any_length()? {
            Ok(length) => length,
            Err(0) => 1,
            Err(1) => 2,
            Err(2) => 4,
            Err(3) => {
                let compressed = self.length()?;
                self.length()?;
                compressed
            }
            Err(_) => return Err(Stop::Malformed("a string of no known encoding")),
        };
        if count > STRING_BYTES_MAX as u64 {
            return Err(Stop::Malformed("a string of more than 512 MB"));
        }
        self.take(count as usize).map(drop)
    }

    fn strings(&mut self, each: u64) -> Result<(), Stop> {
        let count = self.length()?.checked_mul(each);
        let count = count.ok_or(Stop::Malformed("a collection of too many elements"))?;
        (0..count).try_for_each(|_| self.string())
    }

    fn times(&mut self, step: fn(&mut Walk<'a>) -> Result<(), Stop>) -> Result<(), Stop> {
        (0..self.length()?).try_for_each(|_| step(self))
    }

    /// Passes over a value of the kind, which has been read.
    pub fn value(&mut self, kind: u8) -> Result<(), Stop> {
        use value::*;
        match kind {
            STRING | HASH_ZIPMAP | LIST_ZIPLIST | SET_INTSET | ZSET_ZIPLIST | HASH_ZIPLIST | HASH_LISTPACK
            | ZSET_LISTPACK | SET_LISTPACK => self.string(),
            LIST | SET | LIST_QUICKLIST => self.strings(1),
            HASH => self.strings(2),
            ZSET => self.times(|walk| {
                walk.string()?;
                let length = walk.byte()?;
                walk.take(if length < 253 { usize::from(length) } else { 0 }).map(drop)
            }),
            ZSET_2 => self.times(|walk| {
                walk.string()?;
                walk.take(8).map(drop)
            }),
            LIST_QUICKLIST_2 => self.times(|walk| {
                walk.length()?;
                walk.string()
            }),
            HASH_2 => self.times(|walk| {
                walk.string()?;
                walk.string()?;
                walk.take(8).map(drop)
            }),
            HASH_METADATA => {
                self.take(8)?;
                self.times(|walk| {
                    walk.length()?;
                    walk.string()?;
                    walk.string()
                })
            }
            HASH_LISTPACK_EX => {
                self.take(8)?;
                self.string()
            }
            _ if stream::KINDS.contains(&kind) => self.stream(kind),
            _ => Err(Stop::Malformed("a value of a kind that is not known here")),
        }
    }

    fn stream(&mut self, kind: u8) -> Result<(), Stop> {
        let is_first_form = kind == stream::LISTPACKS;
        self.strings(2)?;
        let numbers = if is_first_form { 3 } else { 8 };
        (0..numbers).try_for_each(|_| self.length().map(drop))?;
        for _ in 0..self.length()? {
            self.string()?;
            let numbers = if is_first_form { 2 } else { 3 };
            (0..numbers).try_for_each(|_| self.length().map(drop))?;
            self.times(|walk| {
                walk.take(24)?;
                walk.length().map(drop)
            })?;
            for _ in 0..self.length()? {
                self.string()?;
                self.take(if kind == stream::LISTPACKS_3 { 16 } else { 8 })?;
                self.times(|walk| walk.take(16).map(drop))?;
            }
        }
        Ok(())
    }

    /// Passes over what a module has saved: its parts, each with its kind before it, until the kind
    /// 0.
    pub fn module(&mut self) -> Result<(), Stop> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => drop(self.length()?),
                3 => drop(self.take(4)?),
                4 => drop(self.take(8)?),
                5 => self.string()?,
                _ => return Err(Stop::Malformed("a module's value of no known form")),
            }
        }
    }
}
