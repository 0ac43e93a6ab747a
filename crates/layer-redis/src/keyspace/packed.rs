//! Several byte strings in one value: each a varint length and its bytes. Small collections live in
//! one row this way.
//!
//! Values are from our own rows, whose checksums the store has verified; a malformed one is our own
//! broken invariant and reading simply ends there.

/// Appends one element.
#[inline]
pub fn push(out: &mut Vec<u8>, element: &[u8]) {
    let mut length = element.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(element);
}

/// A length takes at most five bytes.
const LENGTH_SHIFT_MAX: u32 = 28;

/// Walks the elements from the front.
#[derive(Clone, Copy, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

pub fn iter(packed: &[u8]) -> Iter<'_> {
    Iter { rest: packed }
}

impl<'a> Iter<'a> {
    /// The part that has not been walked yet.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

pub fn count(packed: &[u8]) -> usize {
    iter(packed).count()
}

/// Returns true if the elements fill the bytes to their end.
pub fn is_whole(packed: &[u8]) -> bool {
    let mut parts = iter(packed);
    parts.by_ref().for_each(drop);
    parts.rest.is_empty()
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (&first, mut input) = self.rest.split_first()?;
        let mut length = usize::from(first & 0x7f);
        let (mut byte, mut shift) = (first, 0);
        while byte & 0x80 != 0 {
            shift += 7;
            if shift > LENGTH_SHIFT_MAX {
                return None;
            }
            (byte, input) = input.split_first().map(|(&byte, input)| (byte, input))?;
            length |= usize::from(byte & 0x7f) << shift;
        }
        let (element, input) = input.split_at_checked(length)?;
        self.rest = input;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn elements_come_back(elements in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut packed = Vec::new();
            elements.iter().for_each(|element| push(&mut packed, element));
            prop_assert_eq!(iter(&packed).map(<[u8]>::to_vec).collect::<Vec<_>>(), elements);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(iter(&bytes).count() <= bytes.len());
        }
    }
}
