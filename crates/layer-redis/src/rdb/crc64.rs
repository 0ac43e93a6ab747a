//! CRC-64 as Redis computes it (polynomial ad93d23594c935a9, reflected): the checksum of DUMP's payloads.

const POLYNOMIAL_REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
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
        table[byte] = remainder;
        byte += 1;
    }
    table
};

pub fn crc64(bytes: &[u8]) -> u64 {
    let step = |crc: u64, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    bytes.iter().fold(0, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_is_the_published_one() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
