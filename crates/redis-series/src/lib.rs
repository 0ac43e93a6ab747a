//! Time series of Redis: samples in compressed chunks, aggregators, and the commands TS.*.
//!
//! Chunks have the layout of RedisTimeSeries, so that dumps travel both ways and the figures of
//! TS.INFO agree.
//!
//! ```text
//! codec       samples as bits
//! chunk       consecutive samples, with the state that the next one is appended to
//! aggregation one number of many: minima, averages over time, and so on
//! commands    keys, rows, replies
//! ```
//!
//! Chunks are also read from dumps of peers: a malformed one is an error, and nothing is allocated
//! by an announced size.

pub mod aggregation;
pub mod chunk;
pub mod codec;
mod commands;

pub use commands::SeriesModule;

/// The form of a series' chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As bits of differences.
    Compressed,
    /// Sixteen bytes a sample.
    Uncompressed,
}

/// The dump or the stored row is none that a version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads little-endian numbers from the front of bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn f64(&mut self) -> Result<f64, Malformed> {
        self.array().map(f64::from_le_bytes)
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }
}
