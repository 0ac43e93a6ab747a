//! Chunks: consecutive samples of a series, compressed or not, with the state that the next sample
//! is appended to.

use crate::codec::{Bits, Context, Sample, decode};
use crate::{Encoding, Malformed, Numbers};

/// Bytes of a sample that is not compressed.
const SAMPLE_BYTES: usize = 16;
/// Bytes that an inserted sample may add to a compressed chunk.
const GROWTH_BYTES: u32 = 32;

/// The state of a chunk, without its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Bytes that its samples may take.
    pub size: u32,
    /// Samples; at least 1.
    pub count: u32,
    /// Bits of its samples.
    pub bits: u32,
    /// The first sample.
    pub first: Sample,
    /// The state after the last sample.
    pub context: Context,
}

impl State {
    /// Bytes of a stored state.
    pub const BYTES: usize = 46;

    fn of_first(size: u32, first: Sample) -> State {
        State {
            size,
            count: 1,
            bits: 0,
            first,
            context: Context::of_first(first),
        }
    }

    /// Returns the state of a chunk of one sample, and its data.
    pub fn start(encoding: Encoding, size: u32, first: Sample) -> (State, Bits) {
        let mut state = State::of_first(size, first);
        let mut bits = Bits::default();
        if encoding == Encoding::Uncompressed {
            append_whole(first, &mut bits);
            state.bits = bits.count as u32;
        }
        (state, bits)
    }

    /// Appends a later sample to the data, unless it is full. `bits` is the data, or the part of it
    /// from the last byte on that is not full.
    pub fn push(&mut self, encoding: Encoding, sample: Sample, bits: &mut Bits) -> bool {
        let before = bits.count;
        let has_room = match encoding {
            Encoding::Compressed => {
                let free = (self.size as usize * 8).saturating_sub(self.bits as usize);
                self.context.push(sample, free, bits)
            }
            Encoding::Uncompressed => {
                let has_room = (self.count as usize) < self.size as usize / SAMPLE_BYTES;
                if has_room {
                    append_whole(sample, bits);
                    self.context = Context {
                        last: sample,
                        ..self.context
                    };
                }
                has_room
            }
        };
        if has_room {
            self.count += 1;
            self.bits += (bits.count - before) as u32;
        }
        has_room
    }

    /// The stored state, without the first timestamp.
    pub fn to_bytes(&self) -> [u8; State::BYTES] {
        let mut bytes = [0; State::BYTES];
        let (words, rest) = bytes.split_at_mut(12);
        for (place, number) in words.chunks_exact_mut(4).zip([self.size, self.count, self.bits]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let context = &self.context;
        let numbers = [
            self.first.value.to_bits(),
            context.last.timestamp,
            context.last.value.to_bits(),
            context.delta,
        ];
        for (place, number) in rest.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        [bytes[44], bytes[45]] = [context.zeros.0, context.zeros.1];
        bytes
    }

    /// Reads a stored state.
    pub fn from_bytes(bytes: &[u8], first_timestamp: u64) -> Result<State, Malformed> {
        let mut numbers = Numbers(bytes);
        let (size, count, bits) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
        let first = Sample {
            timestamp: first_timestamp,
            value: numbers.f64()?,
        };
        let last = Sample {
            timestamp: numbers.u64()?,
            value: numbers.f64()?,
        };
        let delta = numbers.u64()?;
        let [leading, trailing] = numbers.array()?;
        numbers.end()?;
        let is_sound = count > 0 && leading <= 64 && trailing <= 64 && leading + trailing <= 64;
        let context = Context {
            last,
            delta,
            zeros: (leading, trailing),
        };
        let state = State {
            size,
            count,
            bits,
            first,
            context,
        };
        is_sound.then_some(state).ok_or(Malformed)
    }

    /// Bytes of the data.
    pub fn data_bytes(&self) -> usize {
        (self.bits as usize).div_ceil(8)
    }
}

fn append_whole(sample: Sample, bits: &mut Bits) {
    bits.bytes.extend_from_slice(&sample.timestamp.to_le_bytes());
    bits.bytes.extend_from_slice(&sample.value.to_le_bytes());
    bits.count += SAMPLE_BYTES * 8;
}

/// A chunk with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The state.
    pub state: State,
    /// The data, [`State::data_bytes`] bytes.
    pub data: Vec<u8>,
}

impl Chunk {
    /// A chunk of at least one sample. If the samples do not fit into `size` bytes it
    /// is larger.
    pub fn of_samples(encoding: Encoding, size: u32, samples: &[Sample]) -> Chunk {
        let (mut state, mut bits) = State::start(encoding, size, samples[0]);
        for sample in &samples[1..] {
            while !state.push(encoding, *sample, &mut bits) {
                state.size += match encoding {
                    Encoding::Compressed => GROWTH_BYTES,
                    Encoding::Uncompressed => SAMPLE_BYTES as u32,
                };
            }
        }
        Chunk {
            state,
            data: bits.bytes,
        }
    }

    /// The samples.
    pub fn samples(&self, encoding: Encoding) -> Result<Vec<Sample>, Malformed> {
        let mut samples = Vec::new();
        append_samples(encoding, &self.state, &self.data, &mut samples)?;
        Ok(samples)
    }

    /// Splits a chunk of two samples or more into halves, as the original does.
    pub fn split(&self, encoding: Encoding, samples: &[Sample]) -> [Chunk; 2] {
        let half = samples.len() - samples.len() / 2;
        let (first, second) = samples.split_at(half);
        [first, second].map(|samples| match encoding {
            Encoding::Compressed => {
                let mut chunk = Chunk::of_samples(encoding, self.state.size, samples);
                chunk.trim();
                chunk
            }
            Encoding::Uncompressed => {
                let size = samples.len() * SAMPLE_BYTES;
                Chunk::of_samples(encoding, size as u32, samples)
            }
        })
    }

    /// Gives up room that no sample uses, in words of eight bytes.
    fn trim(&mut self) {
        let free = (self.state.size * 8 - self.state.bits) / 8;
        if free > 1 {
            let size = self.state.size - free + 1;
            self.state.size = size + 8 - size % 8;
        }
    }
}

/// Appends the samples of a chunk.
pub fn append_samples(encoding: Encoding, state: &State, data: &[u8], out: &mut Vec<Sample>) -> Result<(), Malformed> {
    match encoding {
        Encoding::Compressed => {
            let (count, bits) = (state.count as usize, state.bits as usize);
            decode(state.first, count, data, bits, out).map(drop)
        }
        Encoding::Uncompressed => {
            let (whole, rest) = data.as_chunks::<SAMPLE_BYTES>();
            if whole.len() != state.count as usize || !rest.is_empty() {
                return Err(Malformed);
            }
            out.extend(whole.iter().map(|bytes| {
                let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
                Sample {
                    timestamp: number(0),
                    value: f64::from_bits(number(8)),
                }
            }));
            Ok(())
        }
    }
}

/// Checks that the bits of a foreign chunk are those of its samples, and that timestamps rise.
pub fn check(encoding: Encoding, chunk: &Chunk) -> Result<Vec<Sample>, Malformed> {
    let samples = chunk.samples(encoding)?;
    let rises = samples.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp);
    let (first, last) = (samples.first().ok_or(Malformed)?, samples.last().ok_or(Malformed)?);
    let same =
        |one: &Sample, other: &Sample| one.timestamp == other.timestamp && one.value.to_bits() == other.value.to_bits();
    let is_sound = rises
        && same(first, &chunk.state.first)
        && same(last, &chunk.state.context.last)
        && last.timestamp <= i64::MAX as u64;
    is_sound.then_some(samples).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_split_and_read_back() {
        let samples: Vec<Sample> = (0..501)
            .map(|index| Sample {
                timestamp: index * 37,
                value: index as f64 * 0.1,
            })
            .collect();
        for encoding in [Encoding::Compressed, Encoding::Uncompressed] {
            let chunk = Chunk::of_samples(encoding, 48, &samples);
            assert!(chunk.state.size as usize >= chunk.data.len());
            assert_eq!(check(encoding, &chunk), Ok(samples.clone()));
            let halves = chunk.split(encoding, &samples);
            assert_eq!(halves.each_ref().map(|half| half.state.count), [251, 250]);
            let stored = halves[1].state.to_bytes();
            let read = State::from_bytes(&stored, halves[1].state.first.timestamp);
            assert_eq!(read, Ok(halves[1].state));
            let joined: Vec<Sample> = halves.iter().flat_map(|half| half.samples(encoding).unwrap()).collect();
            assert_eq!(joined, samples);
        }
    }
}
