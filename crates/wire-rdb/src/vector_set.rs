//! A vector set, as Redis' module `vectorset` saves it.
//!
//! ```text
//! module's number (a length)
//! then parts, each a 2 and a number (a length), or a 5 and a string; a 0 ends them:
//!   dimensions, elements, form of the vectors | links of a node << 8, 1: a projection | 2: attributes
//!   components before the projection, its matrix            if there is one
//!   name, attributes (if any element has some), components, count of numbers, numbers: of each element
//! numbers: id, level | 1 << 24
//!          for each level, the lowest first: count of links, most links, ids of links,
//!                                            place of the farthest link | its distance (a float) << 32
//!          length (a float) | range (a float) << 32
//! ```
//!
//! Follows what Redis 8.2.3 was seen to write. Numbers without the farthest links, which its first
//! releases wrote, are read.

use crate::module::{self, end, number, text, write_end, write_number, write_text};
use crate::primitives::{Malformed, Reader, write_length};

pub(crate) const MODULE: u64 = module::number_of(b"vectorset");

/// The module of vector indexes. No Redis has one of this name.
pub(crate) const MODULE_OF_INDEXES: u64 = module::number_of(b"vectoridx");

const HAS_PROJECTION: u64 = 1;
const HAS_ATTRIBUTES: u64 = 2;
/// The form of a node's numbers, above the eight bits of its level.
const NODE_VERSION: u64 = 1;

/// A vector set.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSet {
    /// Components of a vector.
    pub dimensions: u32,
    /// The form of the vectors: 0 floats, 1 bytes, 2 bits; other values are those of vector
    /// indexes.
    pub form: u8,
    /// Target number of links of a node; zero means 16.
    pub links: u16,
    /// Vectors were made shorter.
    pub projection: Option<Projection>,
    /// The elements, the last added first.
    pub elements: Vec<Element>,
}

/// How vectors are made shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// Components before.
    pub from: u32,
    /// A float for each component after and each before.
    pub matrix: Vec<u8>,
}

/// An element.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// The element's name.
    pub name: Vec<u8>,
    /// Empty: it has none.
    pub attributes: Vec<u8>,
    /// The components, in the set's form.
    pub code: Vec<u8>,
    /// The element's number.
    pub id: u64,
    /// The links of each level, the lowest first.
    pub levels: Vec<Links>,
    /// The length of the vector.
    pub length: f32,
    /// The magnitude that the byte 127 represents.
    pub range: f32,
}

/// The links of an element on one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// The most that there may be.
    pub max: u32,
    /// The numbers of the elements that it is linked to.
    pub to: Vec<u64>,
    /// The place of the farthest of them, and how far it is.
    pub farthest: (u32, f32),
}

fn packed(low: u32, high: f32) -> u64 {
    u64::from(high.to_bits()) << 32 | u64::from(low)
}

fn unpacked(number: u64) -> (u32, f32) {
    (number as u32, f32::from_bits((number >> 32) as u32))
}

pub(crate) fn write(module: u64, set: &VectorSet, out: &mut Vec<u8>) {
    let has_attributes = set.elements.iter().any(|element| !element.attributes.is_empty());
    let projection = if set.projection.is_some() { HAS_PROJECTION } else { 0 };
    let attributes = if has_attributes { HAS_ATTRIBUTES } else { 0 };
    write_length(module as usize, out);
    write_number(u64::from(set.dimensions), out);
    write_number(set.elements.len() as u64, out);
    write_number(u64::from(set.links) << 8 | u64::from(set.form), out);
    write_number(projection | attributes, out);
    if let Some(projection) = &set.projection {
        write_number(u64::from(projection.from), out);
        write_text(&projection.matrix, out);
    }
    for element in &set.elements {
        write_text(&element.name, out);
        if has_attributes {
            write_text(&element.attributes, out);
        }
        write_text(&element.code, out);
        let numbers = numbers(element);
        write_number(numbers.len() as u64, out);
        numbers.iter().for_each(|number| write_number(*number, out));
    }
    write_end(out);
}

fn numbers(element: &Element) -> Vec<u64> {
    let level = element.levels.len() as u64 - 1;
    let mut numbers = vec![element.id, NODE_VERSION << 24 | level];
    for links in &element.levels {
        numbers.extend([links.to.len() as u64, u64::from(links.max)]);
        numbers.extend(&links.to);
        numbers.push(packed(links.farthest.0, links.farthest.1));
    }
    numbers.push(packed(element.length.to_bits(), element.range));
    numbers
}

/// Reads the data after the module's number. The caller verifies that the links form a graph.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<VectorSet, Malformed> {
    let dimensions = u32::try_from(number(reader)?).map_err(|_| Malformed)?;
    let count = number(reader)?;
    let form_and_links = number(reader)?;
    let flags = number(reader)?;
    let projection = match flags & HAS_PROJECTION {
        0 => None,
        _ => Some(Projection {
            from: u32::try_from(number(reader)?).map_err(|_| Malformed)?,
            matrix: text(reader)?,
        }),
    };
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(element(reader, flags & HAS_ATTRIBUTES != 0)?);
    }
    end(reader)?;
    Ok(VectorSet {
        dimensions,
        form: form_and_links as u8,
        links: (form_and_links >> 8) as u16,
        projection,
        elements,
    })
}

fn element(reader: &mut Reader<'_>, has_attributes: bool) -> Result<Element, Malformed> {
    let name = text(reader)?;
    let attributes = if has_attributes { text(reader)? } else { Vec::new() };
    let code = text(reader)?;
    let mut remaining = number(reader)?;
    let mut next = || {
        remaining = remaining.checked_sub(1).ok_or(Malformed)?;
        number(reader)
    };
    let id = next()?;
    let form_and_level = next()?;
    let (has_farthest, level) = (form_and_level >> 24 & 0xff, form_and_level & 0xff);
    if has_farthest > NODE_VERSION {
        return Err(Malformed);
    }
    let mut levels = Vec::new();
    for _ in 0..=level {
        let count = next()?;
        let max = u32::try_from(next()?).map_err(|_| Malformed)?;
        let to: Vec<u64> = (0..count).map(|_| next()).collect::<Result<_, _>>()?;
        let farthest = if has_farthest > 0 { unpacked(next()?) } else { (0, 0.0) };
        levels.push(Links { max, to, farthest });
    }
    let (length, range) = unpacked(next()?);
    if remaining > 0 {
        return Err(Malformed);
    }
    Ok(Element {
        name,
        attributes,
        code,
        id,
        levels,
        length: f32::from_bits(length),
        range,
    })
}

#[cfg(test)]
mod tests {
    use crate::value::{Value, dump, restore};

    /// The bytes of Redis 8.2.3 for two elements, one of them with two levels.
    const RECORDED: &[u8] = b"\x07\x81\xbd\xe7-\xa2\xbb\x1e\xb4\x00\x02\x03\x02\x02\x02P\x01\x02\x02\x05\x01b\x05\x07{\"y\":1}\x05\x03\x7fU\xd6\x02\x07\x02\x03\x02\x80\x01\x00\x00\x00\x02\x01\x02 \x02\x02\x02\x81?\x80\x00\x00\x00\x00\x00\x00\x02\x81?MA\xb2@owQ\x05\x01a\x05\x07notjson\x05\x03*U\x7f\x02\x0a\x02\x02\x02\x80\x01\x00\x00\x01\x02\x01\x02 \x02\x03\x02\x81?\x80\x00\x00\x00\x00\x00\x00\x02\x00\x02\x10\x02\x00\x02\x81?MA\xb2@owQ\x00";

    #[test]
    fn a_set_is_read_and_written_alike() {
        let payload = crate::seal(RECORDED.to_vec());
        let Ok(Value::VectorSet(set)) = restore(&payload) else {
            panic!("no vector set");
        };
        assert_eq!((set.dimensions, set.form, set.links), (3, 1, 16));
        assert_eq!(set.elements[1].levels.len(), 2);
        assert_eq!(set.elements[0].levels[0].to, [2]);
        assert_eq!(
            (set.elements[0].length, set.elements[0].code.as_slice()),
            (3.741_657_5, b"\x7fU\xd6".as_slice())
        );
        assert_eq!(dump(&Value::VectorSet(set)), payload);
    }

    #[test]
    fn cut_and_foreign_bytes_are_refused() {
        for length in 1..RECORDED.len() {
            assert!(restore(&crate::seal(RECORDED[..length].to_vec())).is_err(), "{length}");
        }
        let mut other = RECORDED.to_vec();
        other[2] ^= 1;
        assert!(restore(&crate::seal(other)).is_err());
    }
}
