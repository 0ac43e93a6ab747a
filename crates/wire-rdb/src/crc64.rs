//! CRC-64 as Redis computes it (polynomial ad93d23594c935a9, reflected): the checksum of DUMP's
//! payloads and of RDB files.
//!
//! Eight bytes a step, each by a table of its own: a file of gigabytes is checked as it is read.

const POLYNOMIAL_REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;

/// The first table is a byte's; the table at `place` is that of a byte followed by `place` zeros.
const TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            let low = remainder & 1;
            remainder >>= 1;
            if low == 1 {
                remainder ^= POLYNOMIAL_REFLECTED;
            }
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut place = 1;
    while place < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[place - 1][byte];
            tables[place][byte] = tables[0][(before & 0xff) as usize] ^ before >> 8;
            byte += 1;
        }
        place += 1;
    }
    tables
};

/// A checksum that grows with the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc64(u64);

impl Crc64 {
    /// Adds bytes to the checksum.
    pub fn add(&mut self, bytes: &[u8]) {
        let (eights, remainder) = bytes.as_chunks::<8>();
        let eight = |crc: u64, bytes: &[u8; 8]| {
            let mixed = (crc ^ u64::from_le_bytes(*bytes)).to_le_bytes();
            let terms = mixed.iter().enumerate();
            terms.fold(0, |crc, (place, &byte)| crc ^ TABLES[7 - place][usize::from(byte)])
        };
        let add_byte = |crc: u64, byte: &u8| TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8;
        self.0 = remainder.iter().fold(eights.iter().fold(self.0, eight), add_byte);
    }

    /// Returns the checksum of all bytes added.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Returns the checksum of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::default();
    crc.add(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_is_the_published_one() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn parts_give_what_the_whole_gives() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..bytes.len() {
            let mut crc = Crc64::default();
            crc.add(&bytes[..cut]);
            crc.add(&bytes[cut..]);
            assert_eq!(crc.value(), crc64(&bytes));
        }
    }
}
