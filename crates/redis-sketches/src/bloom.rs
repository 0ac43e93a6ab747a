//! Scalable Bloom filters: a chain of links. The last link takes new items.
//!
//! An item is in the chain if all its bits are set in some link. A full link is followed by one of
//! `growth` times its capacity and half its error rate, unless the chain does not scale.
//!
//! Almeida, Baquero, Preguiça and Hutchison, *Scalable Bloom Filters* (2007).

use std::ops::Range;

use crate::hash::{murmur_32, murmur_64};
use crate::{BYTES_MAX, Malformed, Numbers, Space, TooLarge};

/// The capacity is the number of items, not rounded to a power of two of bits.
pub const NO_ROUNDING: u32 = 1;
const CAPACITY_IS_BITS: u32 = 2;
/// Items are hashed with 64 bits.
pub const WIDE_HASH: u32 = 4;
/// The last link stays the last.
pub const NO_SCALING: u32 = 8;

#[allow(clippy::approx_constant, reason = "the original's constant has fewer digits")]
const LN_2: f64 = 0.693_147_180_559_945;
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// The error rate of a link, as a share of the rate of the link before it.
const TIGHTENING: f64 = 0.5;
/// Most links of a chain that is read.
const LINKS_MAX: u32 = 4096;
/// Most hashes of an item.
const HASHES_MAX: u32 = 4096;
/// Bits that are read first: of an item that was not added, one of them is unset in most cases.
const FIRST_BITS: u32 = 2;
const HEADER_BYTES: usize = 20;
const LINK_BYTES: usize = 53;
/// Bytes of a chain and of a link in the original's memory.
const CHAIN_MEMORY: u64 = 32;
const LINK_MEMORY: u64 = 64;

/// One filter of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Bytes of its bits.
    pub bytes: u64,
    pub bits: u64,
    /// Items that were added.
    pub size: u64,
    pub error: f64,
    pub bits_per_entry: f64,
    pub hashes: u32,
    /// Items that it takes at its error rate.
    pub entries: u64,
    /// Binary logarithm of the bits; 0 for any other number of bits.
    pub bits_log: u8,
}

/// The head of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Items of all links.
    pub size: u64,
    pub options: u32,
    pub growth: u32,
    /// At least one.
    pub links: Vec<Link>,
}

/// Why a chain does not take an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is full and does not scale.
    Full,
    /// The next link cannot be made.
    NextLink,
}

/// The two numbers that an item's bits follow from.
#[derive(Clone, Copy, Debug)]
struct ItemHash {
    start: u64,
    step: u64,
}

impl Link {
    /// An empty link. `None`: no filter has these numbers.
    fn new(entries: u64, error: f64, options: u32) -> Option<Link> {
        if entries < 1 || !(error > 0.0 && error < 1.0) {
            return None;
        }
        let bits_per_entry = (error.ln() / LN_2_SQUARED).abs();
        let bits_exact = entries as f64 * bits_per_entry;
        let (mut entries, mut bits_log) = (entries, 0);
        let bits = if options & CAPACITY_IS_BITS != 0 {
            bits_log = u8::try_from(entries).ok().filter(|log| *log < 64)?;
            entries = ((1u64 << bits_log) as f64 / bits_per_entry) as u64;
            1 << bits_log
        } else if options & NO_ROUNDING != 0 {
            (bits_exact as u64).max(1)
        } else {
            let log = bits_exact.log2().floor();
            bits_log = (0.0..63.0).contains(&log).then_some(log as u8 + 1)?;
            let bits = 1u64 << bits_log;
            entries += ((bits as f64 - bits_exact) / bits_per_entry) as u64;
            bits
        };
        let bytes = bits.div_ceil(64).checked_mul(8)?;
        Some(Link {
            bytes,
            bits: bytes.checked_mul(8)?,
            size: 0,
            error,
            bits_per_entry,
            hashes: hashes(bits_per_entry),
            entries,
            bits_log,
        })
    }

    fn bit(&self, hash: ItemHash, number: u32) -> u64 {
        let position = hash.start.wrapping_add(u64::from(number).wrapping_mul(hash.step));
        match self.bits_log {
            0 => position % self.bits,
            log => position & ((1 << log) - 1),
        }
    }

    fn is_sound(&self) -> bool {
        self.error > 0.0
            && self.error < 1.0
            && self.bits_log < 64
            && (self.bits_log == 0 || self.bits >= 1 << self.bits_log)
            && self.bits > 0
            && Some(self.bits) == self.bytes.checked_mul(8)
            && self.hashes == hashes(self.bits_per_entry)
            && self.hashes <= HASHES_MAX
            && self.bytes <= BYTES_MAX
    }
}

fn hashes(bits_per_entry: f64) -> u32 {
    (LN_2 * bits_per_entry).ceil() as u32
}

impl Chain {
    /// An empty chain. `None`: no filter has these numbers.
    pub fn new(capacity: u64, error: f64, options: u32, growth: u32) -> Option<Chain> {
        let tightening = if options & NO_SCALING != 0 { 1.0 } else { TIGHTENING };
        let first = Link::new(capacity, error * tightening, options)?;
        Some(Chain {
            size: 0,
            options,
            growth,
            links: vec![first],
        })
    }

    /// The chain does not grow.
    pub fn is_fixed(&self) -> bool {
        self.options & NO_SCALING != 0
    }

    /// Items that all links take.
    pub fn capacity(&self) -> u64 {
        self.links
            .iter()
            .fold(0, |capacity: u64, link| capacity.wrapping_add(link.entries))
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        self.links
            .iter()
            .fold(0, |bytes, link| bytes.saturating_add(link.bytes))
    }

    /// Bytes that the original takes for it.
    pub fn memory_bytes(&self) -> u64 {
        let links = self.links.len() as u64 * LINK_MEMORY;
        self.space_bytes().saturating_add(CHAIN_MEMORY + links)
    }

    /// Returns an error if a link is larger than a filter may be.
    pub fn check_size(&self) -> Result<(), TooLarge> {
        match self.links.iter().all(|link| link.bytes <= BYTES_MAX) {
            true => Ok(()),
            false => Err(TooLarge),
        }
    }

    fn hash(&self, item: &[u8]) -> ItemHash {
        if self.options & WIDE_HASH != 0 {
            let start = murmur_64(item, 0xc6a4_a793_5bd1_e995);
            let step = murmur_64(item, start);
            ItemHash { start, step }
        } else {
            let start = murmur_32(item, 0x9747_b28c);
            let step = murmur_32(item, start);
            ItemHash {
                start: start.into(),
                step: step.into(),
            }
        }
    }

    /// The links with the offsets of their bits.
    fn placed(&self) -> impl DoubleEndedIterator<Item = (u64, &Link)> {
        let mut at = 0;
        let starts: Vec<u64> = self
            .links
            .iter()
            .map(|link| {
                let start = at;
                at += link.bytes;
                start
            })
            .collect();
        starts.into_iter().zip(&self.links)
    }

    /// Returns true if the item was added, or if others have set its bits.
    pub fn contains(&self, space: &mut dyn Space, item: &[u8]) -> bool {
        let hash = self.hash(item);
        self.placed()
            .rev()
            .any(|(start, link)| has_bits(space, start, link, hash))
    }

    /// Adds an item. False: a link has it. `grow` decides whether there is memory for another link.
    pub fn add(
        &mut self,
        space: &mut dyn Space,
        item: &[u8],
        grow: &mut dyn FnMut(&Link) -> bool,
    ) -> Result<bool, Refused> {
        let hash = self.hash(item);
        let (start, last) = self.placed().next_back().expect("a chain has a link");
        let mut bits = Bits::read(space, start, last, hash);
        let is_in_older = |(start, link): (u64, &Link)| has_bits(space, start, link, hash);
        if bits.unset().is_empty() || self.placed().rev().skip(1).any(is_in_older) {
            return Ok(false);
        }
        if last.size >= last.entries {
            if self.is_fixed() {
                return Err(Refused::Full);
            }
            let entries = last.entries.wrapping_mul(self.growth.into());
            let next = Link::new(entries, last.error * TIGHTENING, self.options);
            let next = next.filter(|next| next.bytes <= BYTES_MAX && grow(next));
            self.links.push(next.ok_or(Refused::NextLink)?);
            let (start, last) = self.placed().next_back().expect("a chain has a link");
            bits = Bits::read(space, start, last, hash);
        }
        for (at, byte) in bits.unset() {
            space.write(at, &[byte]);
        }
        self.size += 1;
        self.links.last_mut().expect("a chain has a link").size += 1;
        Ok(true)
    }

    /// The header of BF.SCANDUMP.
    pub fn to_header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES + LINK_BYTES * self.links.len());
        header.extend_from_slice(&self.size.to_le_bytes());
        header.extend_from_slice(&(self.links.len() as u32).to_le_bytes());
        header.extend_from_slice(&self.options.to_le_bytes());
        header.extend_from_slice(&self.growth.to_le_bytes());
        for link in &self.links {
            header.extend_from_slice(&link.bytes.to_le_bytes());
            header.extend_from_slice(&link.bits.to_le_bytes());
            header.extend_from_slice(&link.size.to_le_bytes());
            header.extend_from_slice(&link.error.to_le_bytes());
            header.extend_from_slice(&link.bits_per_entry.to_le_bytes());
            header.extend_from_slice(&link.hashes.to_le_bytes());
            header.extend_from_slice(&link.entries.to_le_bytes());
            header.push(link.bits_log);
        }
        header
    }

    /// Reads the header of BF.SCANDUMP.
    pub fn from_header(header: &[u8]) -> Result<Chain, Malformed> {
        let mut numbers = Numbers(header);
        let size = numbers.u64()?;
        let links = numbers.u32()?;
        let (options, growth) = (numbers.u32()?, numbers.u32()?);
        if numbers.0.len() != links as usize * LINK_BYTES {
            return Err(Malformed);
        }
        let link = |numbers: &mut Numbers<'_>| {
            Ok(Link {
                bytes: numbers.u64()?,
                bits: numbers.u64()?,
                size: numbers.u64()?,
                error: numbers.f64()?,
                bits_per_entry: numbers.f64()?,
                hashes: numbers.u32()?,
                entries: numbers.u64()?,
                bits_log: numbers.array::<1>()?[0],
            })
        };
        let links = (0..links)
            .map(|_| link(&mut numbers))
            .collect::<Result<_, Malformed>>()?;
        Chain {
            size,
            options,
            growth,
            links,
        }
        .checked()
    }

    /// The chain, if an original could have it.
    pub fn checked(self) -> Result<Chain, Malformed> {
        let all_options = NO_ROUNDING | CAPACITY_IS_BITS | WIDE_HASH | NO_SCALING;
        let sizes = self.links.iter().try_fold(0u64, |sum, link| sum.checked_add(link.size));
        let is_sound = !self.links.is_empty()
            && self.links.len() <= LINKS_MAX as usize
            && self.options & !all_options == 0
            && sizes == Some(self.size)
            && self.links.iter().all(Link::is_sound);
        match is_sound {
            true => Ok(self),
            false => Err(Malformed),
        }
    }

    /// The link with the byte at `offset` of all links, the offset in its bits, and its start.
    pub fn link_at(&self, offset: u64) -> Option<(&Link, u64)> {
        let mut links = self.placed();
        let (start, link) = links.find(|(start, link)| offset - start < link.bytes)?;
        Some((link, offset - start))
    }
}

/// The bits of an item in one link.
struct Bits {
    offsets: Vec<u64>,
    masks: Vec<u8>,
    bytes: Vec<u8>,
}

impl Bits {
    fn read(space: &mut dyn Space, start: u64, link: &Link, hash: ItemHash) -> Bits {
        Bits::read_some(space, start, link, hash, 0..link.hashes)
    }

    fn read_some(space: &mut dyn Space, start: u64, link: &Link, hash: ItemHash, numbers: Range<u32>) -> Bits {
        let bits = numbers.map(|number| link.bit(hash, number));
        let (offsets, masks): (Vec<u64>, Vec<u8>) = bits.map(|bit| (start + bit / 8, 1u8 << (bit % 8))).unzip();
        let mut bytes = vec![0; offsets.len()];
        space.parts_at(&offsets, &mut bytes);
        Bits { offsets, masks, bytes }
    }

    /// The bytes with unset bits, once each and with those bits set.
    fn unset(&self) -> Vec<(u64, u8)> {
        let mut unset: Vec<(u64, u8)> = Vec::new();
        for ((at, mask), byte) in self.offsets.iter().zip(&self.masks).zip(&self.bytes) {
            if byte & mask != 0 {
                continue;
            }
            match unset.iter_mut().find(|(offset, _)| offset == at) {
                Some((_, byte)) => *byte |= mask,
                None => unset.push((*at, byte | mask)),
            }
        }
        unset
    }
}

fn has_bits(space: &mut dyn Space, start: u64, link: &Link, hash: ItemHash) -> bool {
    let first = link.hashes.min(FIRST_BITS);
    let mut has = |numbers: Range<u32>| {
        let bits = Bits::read_some(space, start, link, hash, numbers);
        bits.unset().is_empty()
    };
    has(0..first) && has(first..link.hashes)
}
