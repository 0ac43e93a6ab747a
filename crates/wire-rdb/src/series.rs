//! Time series, as RedisTimeSeries saves them: their parts, in sequence.
//!
//! ```text
//! module's number, parts, 0
//! ```
//!
//! The crate `redis-series` knows the meaning of the parts.

use crate::module::{self, Part};
use crate::primitives::{Malformed, Reader, write_length};

pub(crate) const MODULE: u64 = module::number_of(b"TSDB-TYPE");
/// The version that Redis 8.2 writes, and the newest that is read: rules may then have one part
/// more.
const VERSION: u64 = 8;
const VERSION_MAX: u64 = 9;
/// The oldest version with chunks.
const VERSION_MIN: u64 = 2;

/// The parts of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The version of the form.
    pub version: u64,
    /// The parts, in no way verified.
    pub parts: Vec<Part>,
}

impl Series {
    /// A series in the form of Redis 8.2, which newer versions read too.
    pub fn new(parts: Vec<Part>) -> Series {
        Series {
            version: VERSION,
            parts,
        }
    }
}

pub(crate) fn is_known(version: u64) -> bool {
    (VERSION_MIN..=VERSION_MAX).contains(&version)
}

pub(crate) fn write(series: &Series, out: &mut Vec<u8>) {
    write_length((MODULE | series.version) as usize, out);
    series.parts.iter().for_each(|part| module::write_part(part, out));
    module::write_end(out);
}

/// Reads the parts after the module's number.
pub(crate) fn read(version: u64, reader: &mut Reader<'_>) -> Result<Series, Malformed> {
    if !is_known(version) {
        return Err(Malformed);
    }
    let mut parts = Vec::new();
    while let Some(part) = module::part(reader)? {
        parts.push(part);
    }
    Ok(Series { version, parts })
}
