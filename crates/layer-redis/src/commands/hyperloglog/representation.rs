//! A HyperLogLog as the bytes of a string in Redis' format, so that GET and SET transfer it between
//! servers.
//!
//! ```text
//!   "HYLL" encoding (1) unused (3) cached count (8, little-endian; top bit set: out of date) registers
//!
//!   dense (encoding 0):  16384 registers of 6 bits, each byte filled from its lowest bit
//!   sparse (encoding 1): 00nnnnnn           n + 1 registers are zero
//!                        01nnnnnn nnnnnnnn  n + 1 registers are zero
//!                        1vvvvvnn           n + 1 registers are v + 1
//! ```
//!
//! The bytes may have been written by SET: they are untrusted. A sparse value with runs that do not
//! add up to 16384 registers is [`Corrupted`], which is detected only when it is walked.

/// Registers; the count's standard error is 1.04 / sqrt(REGISTERS), 0.81 %.
pub const REGISTERS: usize = 1 << INDEX_BITS;
pub const INDEX_BITS: u32 = 14;
pub const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;
const REGISTER_BITS: usize = 6;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Largest register that a sparse run can say.
const SPARSE_VALUE_MAX: u8 = 32;
/// Longest run of equal non-zero registers.
const VALUE_RUN_MAX: usize = 4;
/// Longest run of zeros that fits into one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// Runs looked at after a change to join equal neighbours.
const RUNS_JOINED: usize = 5;

/// The runs of a sparse one do not make up its registers.
#[derive(Debug, PartialEq, Eq)]
pub struct Corrupted;

/// A HyperLogLog's bytes with a plausible header.
#[derive(Clone, Debug)]
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

/// A run of equal registers in a sparse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub value: u8,
    pub length: usize,
    /// Bytes that say so: 1 or 2.
    pub bytes: usize,
}

impl Default for HyperLogLog {
    fn default() -> HyperLogLog {
        let mut bytes = b"HYLL".to_vec();
        bytes.extend_from_slice(&[SPARSE, 0, 0, 0]);
        bytes.extend_from_slice(&[0; 8]);
        push_run(&mut bytes, 0, REGISTERS);
        HyperLogLog { bytes }
    }
}

/// Returns whether a value of `length` bytes with these first bytes may be a HyperLogLog, according
/// to the header.
pub fn is_plausible(beginning: &[u8], length: u64) -> bool {
    let header_is_right = length >= HEADER_BYTES as u64 && beginning.starts_with(b"HYLL");
    header_is_right && (beginning[4] == SPARSE || beginning[4] == DENSE && length == DENSE_BYTES as u64)
}

/// The count in the header, unless it is out of date.
pub fn cached_count(bytes: &[u8]) -> Option<u64> {
    let count = u64::from_le_bytes(
        bytes[8..HEADER_BYTES]
            .try_into()
            .expect("eight bytes of a checked header"),
    );
    (count >> 63 == 0).then_some(count)
}

/// Visits runs of equal registers in order. Dense registers are visited one by one.
pub fn each_run(bytes: &[u8], visit: &mut dyn FnMut(usize, u8, usize)) -> Result<(), Corrupted> {
    if bytes[4] == DENSE {
        (0..REGISTERS).for_each(|index| visit(index, dense_register(bytes, index), 1));
        return Ok(());
    }
    let mut index = 0;
    for run in runs(bytes) {
        if index + run.length > REGISTERS {
            return Err(Corrupted);
        }
        visit(index, run.value, run.length);
        index += run.length;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// The runs of a sparse one. A last byte that lacks its second half ends them.
pub fn runs(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let mut input = &bytes[HEADER_BYTES..];
    std::iter::from_fn(move || {
        let run = run_at(input)?;
        input = &input[run.bytes..];
        Some(run)
    })
}

fn run_at(bytes: &[u8]) -> Option<Run> {
    let &first = bytes.first()?;
    Some(match first >> 6 {
        0 => Run {
            value: 0,
            length: usize::from(first & 0x3f) + 1,
            bytes: 1,
        },
        1 => Run {
            value: 0,
            length: (usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?)) + 1,
            bytes: 2,
        },
        _ => Run {
            value: (first >> 2 & 0x1f) + 1,
            length: usize::from(first & 3) + 1,
            bytes: 1,
        },
    })
}

/// Appends a run; nothing for one without registers.
fn push_run(out: &mut Vec<u8>, value: u8, length: usize) {
    if length == 0 {
    } else if value > 0 {
        out.push(0x80 | (value - 1) << 2 | (length - 1) as u8);
    } else if length <= SHORT_ZEROS_MAX {
        out.push((length - 1) as u8);
    } else {
        let zeros = length - 1;
        out.extend_from_slice(&[0x40 | (zeros >> 8) as u8, zeros as u8]);
    }
}

fn dense_register(bytes: &[u8], index: usize) -> u8 {
    let bit = index * REGISTER_BITS;
    let at = HEADER_BYTES + bit / 8;
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]) >> (bit % 8)) as u8 & 0x3f
}

impl HyperLogLog {
    /// Bytes that [`is_plausible`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> HyperLogLog {
        let bytes = bytes.into();
        debug_assert!(is_plausible(&bytes, bytes.len() as u64));
        HyperLogLog { bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn is_sparse(&self) -> bool {
        self.bytes[4] == SPARSE
    }

    pub fn cache_count(&mut self, count: u64) {
        self.bytes[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    pub fn forget_count(&mut self) {
        self.bytes[HEADER_BYTES - 1] |= 0x80;
    }

    /// Raises a register to `value`, at most 63. True if it was lower. A sparse one that would grow
    /// beyond `sparse_bytes_max`, or cannot say the value, becomes dense.
    pub fn raise(&mut self, index: usize, value: u8, sparse_bytes_max: usize) -> Result<bool, Corrupted> {
        if !self.is_sparse() {
            return Ok(self.raise_dense(index, value));
        }
        if value <= SPARSE_VALUE_MAX
            && let Some(raised) = self.raise_sparse(index, value, sparse_bytes_max)?
        {
            return Ok(raised);
        }
        self.make_dense()?;
        Ok(self.raise_dense(index, value))
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        if dense_register(&self.bytes, index) >= value {
            return false;
        }
        self.store_dense(index, value);
        true
    }

    fn store_dense(&mut self, index: usize, value: u8) {
        let bit = index * REGISTER_BITS;
        let (at, shift) = (HEADER_BYTES + bit / 8, bit % 8);
        let next = self.bytes.get(at + 1).copied().unwrap_or(0);
        let pair = u16::from_le_bytes([self.bytes[at], next]) & !(0x3f << shift) | u16::from(value) << shift;
        let [low, high] = pair.to_le_bytes();
        self.bytes[at] = low;
        if let Some(next) = self.bytes.get_mut(at + 1) {
            *next = high;
        }
    }

    /// The same for a sparse one; `None` if it has no room.
    fn raise_sparse(&mut self, index: usize, value: u8, bytes_max: usize) -> Result<Option<bool>, Corrupted> {
        let (mut at, mut start, mut before_at) = (HEADER_BYTES, 0, HEADER_BYTES);
        let run = loop {
            let run = run_at(&self.bytes[at..]).ok_or(Corrupted)?;
            if index < start + run.length {
                break run;
            }
            before_at = at;
            start += run.length;
            at += run.bytes;
        };
        if run.value >= value {
            return Ok(Some(false));
        }
        let mut split = Vec::with_capacity(5);
        push_run(&mut split, run.value, index - start);
        push_run(&mut split, value, 1);
        push_run(&mut split, run.value, start + run.length - index - 1);
        let grown = self.bytes.len() + split.len() - run.bytes;
        if split.len() > run.bytes && grown > bytes_max + HEADER_BYTES {
            return Ok(None);
        }
        self.bytes.splice(at..at + run.bytes, split);
        self.join_runs(before_at);
        Ok(Some(true))
    }

    /// Joins equal neighbours among the few runs from `at` on.
    fn join_runs(&mut self, mut at: usize) {
        for _ in 0..RUNS_JOINED {
            let Some(run) = run_at(&self.bytes[at..]) else { return };
            let after = at + run.bytes;
            match run_at(&self.bytes[after..]) {
                Some(next) if run.value > 0 && next.value == run.value && run.length + next.length <= VALUE_RUN_MAX => {
                    self.bytes[at] = 0x80 | (run.value - 1) << 2 | (run.length + next.length - 1) as u8;
                    self.bytes.remove(after);
                }
                _ => at = after,
            }
        }
    }

    /// Changes to the dense encoding. True if it was sparse.
    pub fn make_dense(&mut self) -> Result<bool, Corrupted> {
        if !self.is_sparse() {
            return Ok(false);
        }
        let mut dense = HyperLogLog {
            bytes: vec![0; DENSE_BYTES],
        };
        dense.bytes[..HEADER_BYTES].copy_from_slice(&self.bytes[..HEADER_BYTES]);
        dense.bytes[4] = DENSE;
        each_run(&self.bytes, &mut |start, value, length| {
            if value > 0 {
                (start..start + length).for_each(|index| dense.store_dense(index, value));
            }
        })?;
        *self = dense;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn registers(bytes: &[u8]) -> Result<Vec<u8>, Corrupted> {
        let mut registers = vec![0; REGISTERS];
        each_run(bytes, &mut |start, value, length| {
            registers[start..start + length].fill(value)
        })?;
        Ok(registers)
    }

    #[test]
    fn an_empty_one_is_a_single_run() {
        let empty = HyperLogLog::default();
        assert_eq!(empty.bytes()[HEADER_BYTES..], [0x7f, 0xff]);
        assert_eq!(cached_count(empty.bytes()), Some(0));
        assert_eq!(registers(empty.bytes()), Ok(vec![0; REGISTERS]));
    }

    proptest! {
        #[test]
        fn both_encodings_hold_the_highest_values(
            raises in prop::collection::vec((prop_oneof![0..40usize, 0..REGISTERS], 1u8..=51), 0..200),
            bytes_max in prop_oneof![Just(20usize), Just(3000)],
        ) {
            let mut model = vec![0; REGISTERS];
            let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
            dense.make_dense().unwrap();
            for (index, value) in raises {
                let higher = model[index] < value;
                model[index] = model[index].max(value);
                prop_assert_eq!(sparse.raise(index, value, bytes_max), Ok(higher));
                prop_assert_eq!(dense.raise(index, value, bytes_max), Ok(higher));
            }
            prop_assert_eq!(registers(sparse.bytes()), Ok(model.clone()));
            prop_assert_eq!(registers(dense.bytes()), Ok(model));
            sparse.make_dense().unwrap();
            prop_assert_eq!(sparse.bytes(), dense.bytes());
        }

        #[test]
        fn any_bytes_are_walked_or_refused(
            tail in prop::collection::vec(any::<u8>(), 0..300),
            index in 0..REGISTERS,
            value in 1u8..=51,
        ) {
            let mut bytes = HyperLogLog::default().bytes()[..HEADER_BYTES].to_vec();
            bytes.extend_from_slice(&tail);
            prop_assert!(is_plausible(&bytes, bytes.len() as u64));
            let _ = registers(&bytes);
            let mut value_of = HyperLogLog::from_bytes(bytes.clone());
            let _ = value_of.raise(index, value, 3000);
            let _ = value_of.make_dense();
        }
    }
}
