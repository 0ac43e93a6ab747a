//! LZF, the compression of RDB strings: reading, and writing what LibLZF reads.
//!
//! A control byte below 32 is followed by one more literal than its value; any other is a back
//! reference: three bits of length, five of the offset, and the rest of both follows.

/// Furthest reference backwards.
const OFFSET_MAX: usize = 1 << 13;
/// Longest reference.
const LENGTH_MAX: usize = 264;
const LITERALS_MAX: usize = 32;
const HASH_BITS: u32 = 14;

/// The text of `length` bytes, or nothing if the bytes are malformed or say something of another
/// length.
pub fn decompress(mut bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    // Two bytes give at most one longest reference, so an announced length cannot make us allocate
    // much.
    if length > bytes.len().saturating_mul(LENGTH_MAX) {
        return None;
    }
    let mut out: Vec<u8> = Vec::with_capacity(length);
    while let Some((&control, remaining)) = bytes.split_first() {
        let control = usize::from(control);
        bytes = remaining;
        if control < LITERALS_MAX {
            let (literals, remaining) = bytes.split_at_checked(control + 1)?;
            out.extend_from_slice(literals);
            bytes = remaining;
        } else {
            let mut count = (control >> 5) + 2;
            if count == 9 {
                count += usize::from(next(&mut bytes)?);
            }
            let offset = (control & 31) << 8 | usize::from(next(&mut bytes)?);
            let start = out.len().checked_sub(offset + 1)?;
            for at in start..start + count {
                out.push(out[at]);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

fn next(bytes: &mut &[u8]) -> Option<u8> {
    let (&byte, remaining) = bytes.split_first()?;
    *bytes = remaining;
    Some(byte)
}

/// The compressed text, if it is shorter than the text by at least four bytes.
pub fn compress(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut seen = vec![usize::MAX; 1 << HASH_BITS];
    let (mut at, mut literals_from) = (0, 0);
    while at + 2 < text.len() {
        let slot = hash(&text[at..at + 3]);
        let candidate = std::mem::replace(&mut seen[slot], at);
        let is_near = candidate < at && at - candidate <= OFFSET_MAX;
        if !is_near || text[candidate..candidate + 3] != text[at..at + 3] {
            at += 1;
            continue;
        }
        let most = LENGTH_MAX.min(text.len() - at);
        let count = (0..most)
            .take_while(|&index| text[candidate + index] == text[at + index])
            .count();
        write_literals(&text[literals_from..at], &mut out);
        write_reference(at - candidate - 1, count, &mut out);
        at += count;
        literals_from = at;
    }
    write_literals(&text[literals_from..], &mut out);
    (out.len() + 4 <= text.len()).then_some(out)
}

fn hash(three: &[u8]) -> usize {
    let number = u32::from_le_bytes([three[0], three[1], three[2], 0]);
    (number.wrapping_mul(2_654_435_761) >> (32 - HASH_BITS)) as usize
}

fn write_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn write_reference(offset: usize, count: usize, out: &mut Vec<u8>) {
    let (high, low) = ((offset >> 8) as u8, offset as u8);
    let length = count - 2;
    if length < 7 {
        out.extend_from_slice(&[(length as u8) << 5 | high, low]);
    } else {
        out.extend_from_slice(&[7 << 5 | high, (length - 7) as u8, low]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_come_back(text in prop::collection::vec(0u8..4, 0..2000)) {
            if let Some(compressed) = compress(&text) {
                prop_assert_eq!(decompress(&compressed, text.len()), Some(text));
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0usize..5000) {
            if let Some(text) = decompress(&bytes, length) {
                prop_assert_eq!(text.len(), length);
            }
        }
    }

    #[test]
    fn an_announced_length_is_not_believed() {
        assert_eq!(decompress(b"\x00a", usize::MAX), None);
        assert_eq!(decompress(b"\x20\x00", 3), None);
    }
}
