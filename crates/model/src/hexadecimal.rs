//! Bytes as hexadecimal digits in lower case, two for each byte.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Returns the digits of all bytes.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hexadecimal(&mut text, bytes);
    text
}

/// Appends the digits of all bytes.
pub fn push_hexadecimal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits_that_read_as_it() {
        for byte in 0..=u8::MAX {
            let digits = hexadecimal(&[byte]);
            assert_eq!(digits.len(), 2);
            assert_eq!(u8::from_str_radix(&digits, 16), Ok(byte));
            assert_eq!(digits, digits.to_lowercase());
        }
    }

    #[test]
    fn the_first_byte_is_first() {
        assert_eq!(hexadecimal(b""), "");
        let mut text = String::from("0x");
        push_hexadecimal(&mut text, &[0x00, 0x0a, 0xf0, 0xff]);
        assert_eq!(text, "0x000af0ff");
    }
}
