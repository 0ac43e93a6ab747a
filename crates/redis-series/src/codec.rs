//! Samples as bits: differences of differences of timestamps, and values combined with the value
//! before by exclusive or.
//!
//! Pelkonen et al., *Gorilla: A Fast, Scalable, In-Memory Time Series Database* (2015), section
//! 4.1, in the layout of RedisTimeSeries: its dumps hold these bits. The lowest bit of a byte is
//! the first.
//!
//! ```text
//! timestamp   difference of the differences: 0 | 10 and 5 bits | 110 and 8 | 1110 and 11
//!             | 11110 and 15 | 111110 and 32 | 111111 and 64
//! value       0: the same | 10 and the bits between the zeros of the last 11
//!             | 11, leading zeros (5 bits), length less one (6 bits), and the bits between
//! ```
//!
//! The first sample of a chunk has no bits: it is in the chunk's state.

use crate::Malformed;

/// A number at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Milliseconds, at most `i64::MAX`.
    pub timestamp: u64,
    /// The number.
    pub value: f64,
}

/// Leading and trailing zeros before a value has had any: together all bits.
pub const NO_ZEROS: (u8, u8) = (32, 32);
const LEADING_MAX: u32 = 31;
/// The widths of a difference, each with its prefix.
const WIDTHS: [(u32, u64, u32); 5] = [
    (5, 0b01, 2),
    (8, 0b011, 3),
    (11, 0b0111, 4),
    (15, 0b01111, 5),
    (32, 0b01_1111, 6),
];
const WIDEST: (u32, u64, u32) = (64, 0b11_1111, 6);
/// Bits for the zeros and the length of a value.
const LEADING_BITS: u32 = 5;
const LENGTH_BITS: u32 = 6;

/// Bits that grow at their end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bits {
    /// The bytes; the unused bits of the last byte are zeros.
    pub bytes: Vec<u8>,
    /// The number of bits.
    pub count: usize,
}

impl Bits {
    fn push(&mut self, value: u64, width: u32) {
        let (mut value, mut bits_left) = (value, width as usize);
        while bits_left > 0 {
            let used = self.count % 8;
            if used == 0 {
                self.bytes.push(0);
            }
            let bits_taken = (8 - used).min(bits_left);
            let last = self.bytes.last_mut().expect("a byte was just pushed");
            *last |= ((value & ((1 << bits_taken) - 1)) as u8) << used;
            value >>= bits_taken;
            self.count += bits_taken;
            bits_left -= bits_taken;
        }
    }
}

/// The previous sample, as the base of the next one's bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Context {
    /// The sample before.
    pub last: Sample,
    /// The difference between the last two timestamps.
    pub delta: u64,
    /// Zeros around the last value that named its own.
    pub zeros: (u8, u8),
}

impl Context {
    /// The state after the first sample.
    pub fn of_first(first: Sample) -> Context {
        Context {
            last: first,
            delta: 0,
            zeros: NO_ZEROS,
        }
    }

    /// Appends a later sample, unless it takes more than `free` bits.
    pub fn push(&mut self, sample: Sample, free: usize, bits: &mut Bits) -> bool {
        let delta = sample.timestamp.wrapping_sub(self.last.timestamp);
        let difference = delta.wrapping_sub(self.delta) as i64;
        let (width, prefix, prefix_bits) = width_of(difference);
        let time_bits = (prefix_bits + width) as usize;
        let changed = sample.value.to_bits() ^ self.last.value.to_bits();
        let leading = changed.leading_zeros().min(LEADING_MAX);
        let trailing = changed.trailing_zeros();
        let length = 64u32.saturating_sub(leading + trailing);
        let (old_leading, old_trailing) = (u32::from(self.zeros.0), u32::from(self.zeros.1));
        let kept_length = 64 - old_leading - old_trailing;
        let named_bits = LEADING_BITS + LENGTH_BITS + length;
        let keeps = leading >= old_leading && trailing >= old_trailing && named_bits > kept_length;
        let value_bits = match changed {
            0 => 1,
            _ if keeps => 2 + kept_length,
            _ => 2 + named_bits,
        };
        if time_bits + value_bits as usize > free {
            return false;
        }
        bits.push(prefix, prefix_bits);
        bits.push(difference as u64, width);
        if changed == 0 {
            bits.push(0, 1);
        } else if keeps {
            bits.push(0b01, 2);
            bits.push(changed >> old_trailing, kept_length);
        } else {
            bits.push(0b11, 2);
            bits.push(leading.into(), LEADING_BITS);
            bits.push(u64::from(length) - 1, LENGTH_BITS);
            bits.push(changed >> trailing, length);
            self.zeros = (leading as u8, trailing as u8);
        }
        self.delta = delta;
        self.last = sample;
        true
    }
}

/// The width of a difference with its prefix and the length of that.
fn width_of(difference: i64) -> (u32, u64, u32) {
    if difference == 0 {
        return (0, 0, 1);
    }
    let fits = |width: u32| (-(1 << (width - 1))..1 << (width - 1)).contains(&difference);
    WIDTHS.into_iter().find(|(width, ..)| fits(*width)).unwrap_or(WIDEST)
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
}

impl Reader<'_> {
    #[inline]
    fn take(&mut self, width: u32) -> Result<u64, Malformed> {
        let end = self.at + width as usize;
        if end > self.end {
            return Err(Malformed);
        }
        let (byte, shift) = (self.at / 8, self.at % 8);
        self.at = end;
        let low = match self.data[byte..].first_chunk() {
            Some(whole) => u64::from_le_bytes(*whole),
            None => {
                let mut whole = [0; 8];
                let rest = &self.data[byte..];
                whole[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(whole)
            }
        };
        let mut value = low >> shift;
        if width as usize + shift > 64 {
            value |= u64::from(self.data[byte + 8]) << (64 - shift);
        }
        Ok(match width {
            64 => value,
            _ => value & ((1 << width) - 1),
        })
    }

    /// Counts set bits up to the first zero bit, at most `most`.
    fn ones(&mut self, most: usize) -> Result<usize, Malformed> {
        for count in 0..most {
            if self.take(1)? == 0 {
                return Ok(count);
            }
        }
        Ok(most)
    }

    fn difference(&mut self) -> Result<u64, Malformed> {
        let width = match self.ones(WIDTHS.len() + 1)? {
            0 => return Ok(0),
            ones => WIDTHS.get(ones - 1).map_or(64, |(width, ..)| *width),
        };
        let shift = 64 - width;
        let value = self.take(width)?;
        Ok(((value << shift) as i64 >> shift) as u64)
    }
}

/// Appends `count` samples, the first of them given, to `out`, and returns the state after the
/// last. An error if the first `bits` bits of `data` are not exactly those of `count` samples.
pub fn decode(
    first: Sample,
    count: usize,
    data: &[u8],
    bits: usize,
    out: &mut Vec<Sample>,
) -> Result<Context, Malformed> {
    if bits > data.len() * 8 {
        return Err(Malformed);
    }
    let mut reader = Reader { data, at: 0, end: bits };
    let mut context = Context::of_first(first);
    let mut length = 0;
    if count > 0 {
        out.push(first);
    }
    for _ in 1..count {
        context.delta = context.delta.wrapping_add(reader.difference()?);
        context.last.timestamp = context.last.timestamp.wrapping_add(context.delta);
        if reader.take(1)? == 1 {
            if reader.take(1)? == 1 {
                let leading = reader.take(LEADING_BITS)? as u32;
                length = reader.take(LENGTH_BITS)? as u32 + 1;
                let trailing = 64u32.checked_sub(leading + length).ok_or(Malformed)?;
                context.zeros = (leading as u8, trailing as u8);
            }
            let changed = reader.take(length)? << (u32::from(context.zeros.1) % 64);
            context.last.value = f64::from_bits(context.last.value.to_bits() ^ changed);
        }
        out.push(context.last);
    }
    match reader.at == bits {
        true => Ok(context),
        false => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[Sample]) {
        let mut bits = Bits::default();
        let mut context = Context::of_first(samples[0]);
        for sample in &samples[1..] {
            assert!(context.push(*sample, usize::MAX, &mut bits));
        }
        let mut out = Vec::new();
        let behind = decode(samples[0], samples.len(), &bits.bytes, bits.count, &mut out);
        assert_eq!(behind, Ok(context));
        assert_eq!(out, samples);
        let cut = decode(samples[0], samples.len(), &bits.bytes, bits.count - 1, &mut out);
        assert_eq!(cut, Err(Malformed));
    }

    #[test]
    fn samples_are_read_back() {
        let steps = [0, 1, 15, 16, 17, 127, 128, 1 << 10, 1 << 14, 1 << 31, 1 << 32, 1 << 40];
        let mut timestamp = 0;
        let mut samples = Vec::new();
        for (index, step) in steps.iter().cycle().take(100).enumerate() {
            timestamp += step + 1;
            let value = [0.0, -0.0, 1.5, 1e300, 5e-324, f64::INFINITY, 0.1, -3.25][index % 8];
            samples.push(Sample { timestamp, value });
        }
        samples.push(Sample {
            timestamp: i64::MAX as u64,
            value: 1.0,
        });
        check(&samples);
    }

    #[test]
    fn equal_steps_of_an_equal_value_take_two_bits() {
        let mut bits = Bits::default();
        let mut context = Context::of_first(Sample {
            timestamp: 10,
            value: 7.0,
        });
        for index in 2..100 {
            let sample = Sample {
                timestamp: index * 10,
                value: 7.0,
            };
            assert!(context.push(sample, usize::MAX, &mut bits));
        }
        assert_eq!(bits.count, 8 + 97 * 2);
        assert!(!context.push(
            Sample {
                timestamp: 1000,
                value: 7.0
            },
            1,
            &mut bits
        ));
    }
}
