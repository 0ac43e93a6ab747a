//! A sketch of any family: its stored head, and its form in RDB files and in DUMP's payloads.

use quartet_wire_rdb::Part;
use quartet_wire_rdb::sketch::{Sketch, SketchKind};

use crate::bloom::{Chain, Link};
use crate::count_min::Matrix;
use crate::cuckoo::Cuckoo;
use crate::t_digest::{Digest, Head as DigestHead, Node};
use crate::top_k::{Slot, Storage, TopK};
use crate::{BYTES_MAX, Malformed, Space};

/// Bytes of a slot of a Top-K heap in a dump: fingerprint, length, pointer, count, padding.
const DUMPED_SLOT_BYTES: usize = 24;

/// The head of a sketch.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    Bloom(Chain),
    Cuckoo(Cuckoo),
    CountMin(Matrix),
    TopK(TopK),
    TDigest(DigestHead),
}

/// A sketch that was read from its dump: pieces of its space by their offsets, and items.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    pub head: Head,
    pub pieces: Vec<(u64, Vec<u8>)>,
    pub items: Vec<(u32, Vec<u8>)>,
}

impl Head {
    /// Reads the stored head of a sketch of this family.
    pub fn from_bytes(kind: SketchKind, bytes: &[u8]) -> Result<Head, Malformed> {
        Ok(match kind {
            SketchKind::Bloom => Head::Bloom(Chain::from_header(bytes)?),
            SketchKind::Cuckoo => Head::Cuckoo(Cuckoo::from_bytes(bytes)?),
            SketchKind::CountMin => Head::CountMin(Matrix::from_bytes(bytes)?),
            SketchKind::TopK => Head::TopK(TopK::from_bytes(bytes)?),
            SketchKind::TDigest => Head::TDigest(DigestHead::from_bytes(bytes)?),
        })
    }

    /// The stored head.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Head::Bloom(chain) => chain.to_header(),
            Head::Cuckoo(cuckoo) => cuckoo.to_bytes(),
            Head::CountMin(matrix) => matrix.to_bytes(),
            Head::TopK(list) => list.to_bytes(),
            Head::TDigest(head) => head.to_bytes(),
        }
    }

    /// The family.
    pub fn kind(&self) -> SketchKind {
        match self {
            Head::Bloom(_) => SketchKind::Bloom,
            Head::Cuckoo(_) => SketchKind::Cuckoo,
            Head::CountMin(_) => SketchKind::CountMin,
            Head::TopK(_) => SketchKind::TopK,
            Head::TDigest(_) => SketchKind::TDigest,
        }
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        match self {
            Head::Bloom(chain) => chain.space_bytes(),
            Head::Cuckoo(cuckoo) => cuckoo.space_bytes(),
            Head::CountMin(matrix) => matrix.space_bytes(),
            Head::TopK(list) => list.space_bytes(),
            Head::TDigest(head) => head.space_bytes(),
        }
    }

    /// The dump of a sketch. Takes memory for all of its space.
    pub fn dump(&self, storage: &mut dyn Storage) -> Sketch {
        let parts = match self {
            Head::Bloom(chain) => dump_bloom(chain, storage),
            Head::Cuckoo(cuckoo) => dump_cuckoo(cuckoo, storage),
            Head::CountMin(matrix) => vec![
                Part::Number(matrix.width),
                Part::Number(matrix.depth),
                Part::Number(matrix.count),
                text(storage, 0, matrix.space_bytes()),
            ],
            Head::TopK(list) => dump_top_k(list, storage),
            Head::TDigest(head) => dump_t_digest(*head, storage),
        };
        Sketch::new(self.kind(), parts)
    }
}

/// Reads a dump.
pub fn restore(sketch: Sketch) -> Result<Restored, Malformed> {
    let mut parts = Parts(sketch.parts.into_iter());
    let restored = match sketch.kind {
        SketchKind::Bloom => restore_bloom(sketch.version, &mut parts)?,
        SketchKind::Cuckoo => restore_cuckoo(sketch.version, &mut parts)?,
        SketchKind::CountMin => restore_count_min(&mut parts)?,
        SketchKind::TopK => restore_top_k(&mut parts)?,
        SketchKind::TDigest => restore_t_digest(&mut parts)?,
    };
    match parts.0.next() {
        None => Ok(restored),
        Some(_) => Err(Malformed),
    }
}

fn text(space: &mut (impl Space + ?Sized), at: u64, bytes: u64) -> Part {
    let mut text = vec![0; bytes as usize];
    space.read(at, &mut text);
    Part::Text(text)
}

struct Parts(std::vec::IntoIter<Part>);

impl Parts {
    fn number(&mut self) -> Result<u64, Malformed> {
        match self.0.next() {
            Some(Part::Number(number)) => Ok(number),
            _ => Err(Malformed),
        }
    }

    fn small<N: TryFrom<u64>>(&mut self) -> Result<N, Malformed> {
        N::try_from(self.number()?).map_err(|_| Malformed)
    }

    fn double(&mut self) -> Result<f64, Malformed> {
        match self.0.next() {
            Some(Part::Double(number)) => Ok(number),
            _ => Err(Malformed),
        }
    }

    fn text(&mut self) -> Result<Vec<u8>, Malformed> {
        match self.0.next() {
            Some(Part::Text(text)) => Ok(text),
            _ => Err(Malformed),
        }
    }
}

/// A weight, which a dump has as a double.
fn weight(number: f64) -> Result<i64, Malformed> {
    match (0.0..9.2e18).contains(&number) {
        true => Ok(number as i64),
        false => Err(Malformed),
    }
}

fn dump_bloom(chain: &Chain, storage: &mut dyn Storage) -> Vec<Part> {
    let mut parts = [
        chain.size,
        chain.links.len() as u64,
        chain.options.into(),
        chain.growth.into(),
    ]
    .map(Part::Number)
    .to_vec();
    let mut at = 0;
    for link in &chain.links {
        parts.extend([
            Part::Number(link.entries),
            Part::Double(link.error),
            Part::Number(link.hashes.into()),
            Part::Double(link.bits_per_entry),
            Part::Number(link.bits),
            Part::Number(link.bits_log.into()),
            text(storage, at, link.bytes),
            Part::Number(link.size),
        ]);
        at += link.bytes;
    }
    parts
}

fn restore_bloom(version: u64, parts: &mut Parts) -> Result<Restored, Malformed> {
    let (size, links) = (parts.number()?, parts.number()?);
    let mut chain = Chain {
        size,
        options: if version >= 2 { parts.small()? } else { 0 },
        growth: if version >= 4 { parts.small()? } else { 2 },
        links: Vec::new(),
    };
    let (mut pieces, mut at) = (Vec::new(), 0);
    for _ in 0..links {
        let (entries, error) = (parts.number()?, parts.double()?);
        let (hashes, bits_per_entry) = (parts.small()?, parts.double()?);
        let (bits, bits_log, text) = (parts.number()?, parts.small()?, parts.text()?);
        let bytes = text.len() as u64;
        chain.links.push(Link {
            bytes,
            bits,
            size: parts.number()?,
            error,
            bits_per_entry,
            hashes,
            entries,
            bits_log,
        });
        pieces.push((at, text));
        at += bytes;
    }
    Ok(Restored {
        head: Head::Bloom(chain.checked()?),
        pieces,
        items: Vec::new(),
    })
}

fn dump_cuckoo(cuckoo: &Cuckoo, storage: &mut dyn Storage) -> Vec<Part> {
    let mut parts = [
        cuckoo.filters.len() as u64,
        cuckoo.buckets,
        cuckoo.items,
        cuckoo.deletes,
        cuckoo.bucket_size.into(),
        cuckoo.iterations_max.into(),
        cuckoo.expansion.into(),
    ]
    .map(Part::Number)
    .to_vec();
    for (filter, buckets) in cuckoo.filters.iter().enumerate() {
        parts.push(Part::Number(*buckets));
        parts.push(text(storage, cuckoo.filter_start(filter), cuckoo.filter_bytes(filter)));
    }
    parts
}

/// Versions before the fourth had no parameters of their own: those of their server.
fn restore_cuckoo(version: u64, parts: &mut Parts) -> Result<Restored, Malformed> {
    let (filters, buckets, items) = (parts.number()?, parts.number()?, parts.number()?);
    let has_parameters = version >= 4;
    let mut cuckoo = Cuckoo {
        buckets,
        items,
        deletes: if has_parameters { parts.number()? } else { 0 },
        bucket_size: if has_parameters { parts.small()? } else { 2 },
        iterations_max: if has_parameters { parts.small()? } else { 20 },
        expansion: if has_parameters { parts.small()? } else { 1 },
        filters: Vec::new(),
    };
    let (mut pieces, mut at) = (Vec::new(), 0);
    for _ in 0..filters {
        let buckets = if has_parameters { parts.number()? } else { buckets };
        let text = parts.text()?;
        if buckets.checked_mul(cuckoo.bucket_size.into()) != Some(text.len() as u64) {
            return Err(Malformed);
        }
        cuckoo.filters.push(buckets);
        let bytes = text.len() as u64;
        pieces.push((at, text));
        at += bytes;
    }
    Ok(Restored {
        head: Head::Cuckoo(cuckoo.checked()?),
        pieces,
        items: Vec::new(),
    })
}

fn restore_count_min(parts: &mut Parts) -> Result<Restored, Malformed> {
    let matrix = Matrix {
        width: parts.number()?,
        depth: parts.number()?,
        count: parts.number()?,
    };
    let (matrix, text) = (matrix.checked()?, parts.text()?);
    if text.len() as u64 != matrix.space_bytes() {
        return Err(Malformed);
    }
    Ok(Restored {
        head: Head::CountMin(matrix),
        pieces: vec![(0, text)],
        items: Vec::new(),
    })
}

fn dump_top_k(list: &TopK, storage: &mut dyn Storage) -> Vec<Part> {
    let slots = list.slots(storage);
    let mut heap = Vec::with_capacity(slots.len() * DUMPED_SLOT_BYTES);
    for slot in &slots {
        heap.extend_from_slice(&slot.fingerprint.to_le_bytes());
        heap.extend_from_slice(&slot.item_bytes.to_le_bytes());
        heap.extend_from_slice(&[0; 8]);
        heap.extend_from_slice(&u64::from(slot.count).to_le_bytes());
    }
    let mut parts = [list.k, list.width, list.depth]
        .map(|number| Part::Number(number.into()))
        .to_vec();
    parts.push(Part::Double(list.decay));
    parts.push(Part::Text(list.buckets(storage)));
    parts.push(Part::Text(heap));
    parts.extend(slots.iter().map(|slot| {
        let mut item = slot.item.map(|number| storage.item(number)).unwrap_or_default();
        item.push(0);
        Part::Text(item)
    }));
    parts
}

fn restore_top_k(parts: &mut Parts) -> Result<Restored, Malformed> {
    let list = TopK {
        k: parts.small()?,
        width: parts.small()?,
        depth: parts.small()?,
        decay: parts.double()?,
    };
    let list = list.checked()?;
    let (buckets, heap) = (parts.text()?, parts.text()?);
    let is_sized = heap.len() == list.k as usize * DUMPED_SLOT_BYTES
        && list.space_bytes() <= 2 * BYTES_MAX
        && buckets.len() as u64 == u64::from(list.width) * u64::from(list.depth) * 8;
    if !is_sized {
        return Err(Malformed);
    }
    let (mut space, mut items) = (buckets, Vec::new());
    for (index, bytes) in heap.chunks_exact(DUMPED_SLOT_BYTES).enumerate() {
        let part = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let mut item = parts.text()?;
        if item.pop() != Some(0) {
            return Err(Malformed);
        }
        let slot = Slot {
            fingerprint: part(0),
            item_bytes: item.len() as u32,
            count: part(16),
            item: (part(0) != 0 || part(16) != 0 || !item.is_empty()).then_some(index as u32),
        };
        list.set_slot(&mut space, index, slot);
        if slot.item.is_some() {
            items.push((index as u32, item));
        }
    }
    Ok(Restored {
        head: Head::TopK(list),
        pieces: vec![(0, space)],
        items,
    })
}

fn dump_t_digest(head: DigestHead, storage: &mut dyn Storage) -> Vec<Part> {
    let mut digest = Digest::read(head, storage);
    digest.compress();
    let head = digest.head;
    let mut parts = [head.compression, head.min, head.max].map(Part::Double).to_vec();
    parts.extend([head.capacity, head.merged_nodes, head.unmerged_nodes].map(Part::Number));
    parts.push(Part::Number(head.compressions as u64));
    parts.extend([head.merged_weight, head.unmerged_weight].map(|weight| Part::Double(weight as f64)));
    parts.extend(digest.nodes.iter().map(|node| Part::Double(node.mean)));
    parts.extend(digest.nodes.iter().map(|node| Part::Double(node.weight as f64)));
    parts
}

fn restore_t_digest(parts: &mut Parts) -> Result<Restored, Malformed> {
    let (compression, min, max) = (parts.double()?, parts.double()?, parts.double()?);
    let (capacity, merged_nodes, unmerged_nodes) = (parts.number()?, parts.number()?, parts.number()?);
    let head = DigestHead {
        compression,
        min,
        max,
        capacity,
        merged_nodes,
        unmerged_nodes,
        compressions: parts.number()? as i64,
        merged_weight: weight(parts.double()?)?,
        unmerged_weight: weight(parts.double()?)?,
    };
    let head = head.checked()?;
    let means: Vec<f64> = (0..merged_nodes).map(|_| parts.double()).collect::<Result<_, _>>()?;
    let nodes = means.into_iter().map(|mean| {
        let weight = weight(parts.double()?)?;
        match mean.is_finite() && weight > 0 {
            true => Ok(Node { mean, weight }),
            false => Err(Malformed),
        }
    });
    let mut digest = Digest {
        head,
        nodes: nodes.collect::<Result<_, _>>()?,
    };
    // The original does not write nodes that are not merged, and it does not merge a single number,
    // which is then also the smallest.
    match (merged_nodes, unmerged_nodes, head.unmerged_weight) {
        (_, 0, 0) => {}
        (0, 1, 1) if min.is_finite() => digest.nodes.push(Node { mean: min, weight: 1 }),
        _ => return Err(Malformed),
    }
    let sum = digest
        .nodes
        .iter()
        .try_fold(0i64, |sum, node| sum.checked_add(node.weight));
    if sum.is_none_or(|sum| sum != head.size()) {
        return Err(Malformed);
    }
    let mut space = Vec::new();
    digest.write(&mut space);
    Ok(Restored {
        head: Head::TDigest(head),
        pieces: vec![(0, space)],
        items: Vec::new(),
    })
}
