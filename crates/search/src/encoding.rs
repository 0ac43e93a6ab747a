//! Numbers and byte strings within the values of rows: seven bits a byte, the lowest first.

/// Appends seven bits a byte, the lowest first.
pub fn push_number(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u128);
    out.extend_from_slice(bytes);
}

/// Reads what was written here. Panics at bytes that this crate did not write.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn number(&mut self) -> u128 {
        match self.0 {
            [byte, remainder @ ..] if *byte < 0x80 => {
                self.0 = remainder;
                (*byte).into()
            }
            _ => self.long_number(),
        }
    }

    /// The bytes of the next number.
    #[inline]
    pub fn number_bytes(&mut self) -> &'a [u8] {
        let more = self.0.iter().take_while(|byte| **byte >= 0x80).count();
        self.take(more + 1)
    }

    fn long_number(&mut self) -> u128 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let [byte, remainder @ ..] = self.0 else {
                panic!("a row of an index ends within a number");
            };
            self.0 = remainder;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }

    #[inline]
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = self.number() as usize;
        self.take(length)
    }

    #[inline]
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (bytes, remainder) = self.0.split_at(length);
        self.0 = remainder;
        bytes
    }

    pub fn float(&mut self) -> f64 {
        f64::from_bits(self.fixed())
    }

    pub fn fixed(&mut self) -> u64 {
        let bytes = self.take(8).try_into().expect("eight bytes");
        u64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_a_round_trip() {
        let mut out = Vec::new();
        let numbers = [0, 127, 128, u128::from(u64::MAX), u128::MAX];
        numbers.iter().for_each(|&number| push_number(&mut out, number));
        let mut cursor = Cursor(&out);
        assert_eq!(numbers.map(|_| cursor.number()), numbers);
        assert!(cursor.is_at_end());
    }
}
