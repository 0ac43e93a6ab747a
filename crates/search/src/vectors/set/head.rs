//! The head of a vector set: its form, its size and the entry of its graph.

use super::codec::{DIMENSIONS_MAX, Projection, Quantization};
use super::rows::Id;

/// Least and most links that a set can request for a node (M).
pub const LINKS_MIN: usize = 4;
/// See [`LINKS_MIN`].
pub const LINKS_MAX: usize = 4096;

/// The form of a set and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The form of its vectors.
    pub quantization: Quantization,
    /// The requested number of links of a new node on each level; the lowest allows twice as many.
    pub links: usize,
    /// Components of a stored vector.
    pub dimensions: usize,
    /// Components of vectors before their projection; zero if there is none.
    pub projected_from: usize,
    /// The projection's matrix is a row of its own.
    pub has_matrix: bool,
    /// The number of elements.
    pub count: u64,
    /// The number of elements with attributes.
    pub with_attributes: u64,
    /// The highest id that was given.
    pub last_id: Id,
    /// The entry of searches, a node of the highest level; zero if there is none.
    pub entry: Id,
    /// The elements that wait for their links. None if there are none; [`Head::with_graph`] reads
    /// it.
    pub linking: Option<Linking>,
}

impl Head {
    /// Bytes of [`Head::to_bytes`].
    pub const BYTES: usize = 44;

    /// A set without elements.
    pub fn new(quantization: Quantization, links: usize, dimensions: usize) -> Head {
        Head {
            quantization,
            links,
            dimensions,
            projected_from: 0,
            has_matrix: false,
            count: 0,
            with_attributes: 0,
            last_id: 0,
            entry: 0,
            linking: None,
        }
    }

    /// Returns the head as it is kept.
    pub fn to_bytes(&self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.with_attributes.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.last_id.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.entry.to_be_bytes());
        bytes[32..36].copy_from_slice(&(self.dimensions as u32).to_be_bytes());
        bytes[36..40].copy_from_slice(&(self.projected_from as u32).to_be_bytes());
        bytes[40..42].copy_from_slice(&(self.links as u16).to_be_bytes());
        bytes[42] = self.quantization as u8;
        bytes[43] = u8::from(self.has_matrix);
        bytes
    }

    /// Reads [`Head::to_bytes`]. None: no head was written so.
    pub fn from_bytes(bytes: &[u8]) -> Option<Head> {
        let bytes: &[u8; Head::BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        let head = Head {
            quantization: Quantization::from_number(bytes[42])?,
            links: usize::from(u16::from_be_bytes([bytes[40], bytes[41]])),
            dimensions: word(32),
            projected_from: word(36),
            has_matrix: bytes[43] == 1,
            count: long(0),
            with_attributes: long(8),
            last_id: long(16),
            entry: long(24),
            linking: None,
        };
        head.is_sound().then_some(head)
    }

    pub(super) fn is_sound(&self) -> bool {
        let is_projected = self.projected_from == 0 || self.projection().is_some();
        (1..=DIMENSIONS_MAX).contains(&self.dimensions) && self.links > 0 && self.links <= LINKS_MAX && is_projected
    }

    /// How vectors are made shorter.
    pub fn projection(&self) -> Option<Projection> {
        Projection::new(self.projected_from, self.dimensions)
    }

    pub(super) fn code_bytes(&self) -> usize {
        self.quantization.code_bytes(self.dimensions)
    }
}

/// The linking progress of a set's elements, if some wait or have waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linking {
    /// Elements with greater ids wait.
    pub reached: Id,
    /// Counts the changes of nodes.
    pub(super) changes: u64,
}
