//! Sketches, as RedisBloom saves them: their parts, in sequence.
//!
//! ```text
//! module's number, parts, 0
//! ```
//!
//! The crate `redis-sketches` knows the meaning of the parts of each family.

use crate::module::{self, Part};
use crate::primitives::{Malformed, Reader, write_length};

/// A family of sketches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchKind {
    /// A scalable Bloom filter.
    Bloom,
    /// A cuckoo filter.
    Cuckoo,
    /// A count-min sketch.
    CountMin,
    /// A Top-K list.
    TopK,
    /// A t-digest.
    TDigest,
}

/// The families, each with its module's number and the newest version of its form.
const MODULES: [(SketchKind, u64, u64); 5] = [
    (SketchKind::Bloom, module::number_of(b"MBbloom--"), 4),
    (SketchKind::Cuckoo, module::number_of(b"MBbloomCF"), 4),
    (SketchKind::CountMin, module::number_of(b"CMSk-TYPE"), 0),
    (SketchKind::TopK, module::number_of(b"TopK-TYPE"), 0),
    (SketchKind::TDigest, module::number_of(b"TDIS-TYPE"), 0),
];

/// The parts of a sketch.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// The family.
    pub kind: SketchKind,
    /// The version of the form.
    pub version: u64,
    /// The parts, in no way verified.
    pub parts: Vec<Part>,
}

impl Sketch {
    /// A sketch in the newest form.
    pub fn new(kind: SketchKind, parts: Vec<Part>) -> Sketch {
        let version = of_kind(kind).1;
        Sketch { kind, version, parts }
    }
}

fn of_kind(kind: SketchKind) -> (u64, u64) {
    let module = MODULES.iter().find(|(family, ..)| *family == kind);
    module
        .map(|(_, number, version)| (*number, *version))
        .expect("every family is listed")
}

fn kind_of(module: u64, version: u64) -> Option<SketchKind> {
    let module = MODULES
        .iter()
        .find(|(_, number, newest)| *number == module && version <= *newest);
    module.map(|(kind, ..)| *kind)
}

pub(crate) fn is_known(module: u64, version: u64) -> bool {
    kind_of(module, version).is_some()
}

pub(crate) fn write(sketch: &Sketch, out: &mut Vec<u8>) {
    let (module, _) = of_kind(sketch.kind);
    write_length((module | sketch.version) as usize, out);
    sketch.parts.iter().for_each(|part| module::write_part(part, out));
    module::write_end(out);
}

/// Reads the parts after the module's number.
pub(crate) fn read(module: u64, version: u64, reader: &mut Reader<'_>) -> Result<Sketch, Malformed> {
    let kind = kind_of(module, version).ok_or(Malformed)?;
    let mut parts = Vec::new();
    while let Some(part) = module::part(reader)? {
        parts.push(part);
    }
    Ok(Sketch { kind, version, parts })
}
