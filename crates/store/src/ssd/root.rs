//! The file `base`: the root of the tree on disk, and which point of the log it holds. Its presence
//! says that the directory is the ssd engine's.
//!
//! ```text
//! "QUARTETB" | format version u32 = 1 | version u64 | log sequence u64 | next file u32
//! has tree u8 | height u8 | the tree's root if there is one
//! file count u32 | files, each: number u32 | bytes u64 | bytes in use u64
//! checksum u64, XXH3-64 of everything before it
//!
//! root    key length u32 | place | rows u64 | row bytes u64 | newest version u64 | has values apart u8 | key
//! ```
//!
//! All numbers are little-endian. It is written as `base.partial`, synced, renamed, and the
//! directory synced; the data that it refers to is durable before. So a crash leaves the old root
//! or the new one.
//!
//! `base.copy` is the same again, written next, before anything is removed that the root before
//! needs. Only a repair reads it: without a root nothing of the tree could be saved.

use std::collections::BTreeMap;
use std::io;

use quartet_env::Disk;
use quartet_model::{LogSequence, Version, format};
use xxhash_rust::xxh3::xxh3_64;

use super::node::{Child, Input};
use crate::damage::mend_bit;
use crate::error::StoreError;
use crate::open_error::OpenError;
use crate::position::Position;

pub(super) const NAME: &str = "base";
pub(super) const PARTIAL: &str = "base.partial";
pub(super) const COPY: &str = "base.copy";
const MAGIC: &[u8; 8] = b"QUARTETB";
/// Far more than any root has: a million files.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Root {
    pub position: Position,
    pub tree: Option<Tree>,
    pub files: BTreeMap<u32, Use>,
    pub next_file: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// Height of the root: 0 if it is a leaf.
    pub height: u8,
    pub root: Child,
}

/// The length of a file, and the part of it that the tree needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub bytes: u64,
    pub live_bytes: u64,
}

impl Use {
    /// Returns its size; zero if nothing of it is needed.
    pub fn needed_bytes(&self) -> u64 {
        if self.live_bytes > 0 { self.bytes } else { 0 }
    }
}

impl Root {
    /// Reads `base`; `None` if there is none.
    pub fn read(disk: &dyn Disk) -> Result<Option<Root>, OpenError> {
        Root::read_bytes(disk, NAME)?
            .map(|bytes| Root::parse(&bytes))
            .transpose()
    }

    /// As [`Root::read`], with repairs: a single flipped bit is flipped back; a root with more
    /// damage is replaced by its copy. Also returns a description of the repair.
    pub fn read_mended(disk: &dyn Disk) -> Result<(Root, Option<String>), OpenError> {
        let bytes = Root::read_bytes(disk, NAME)?.unwrap_or_default();
        let damage = match Root::parse(&bytes) {
            Ok(root) => return Ok((root, None)),
            Err(damage) => damage,
        };
        if let Some((root, place)) = Root::mended(bytes) {
            return Ok((root, Some(format!("one bit of {NAME} at byte {place}"))));
        }
        let copy = Root::read_bytes(disk, COPY)?.and_then(|bytes| Root::parse(&bytes).ok());
        match copy {
            Some(root) => Ok((root, Some(format!("{NAME}, from {COPY}")))),
            None => Err(damage),
        }
    }

    /// Returns the root with one bit flipped, and the index of the byte it is in.
    fn mended(mut bytes: Vec<u8>) -> Option<(Root, usize)> {
        let (content, checksum) = bytes.split_last_chunk_mut::<8>()?;
        let checksum_said = u64::from_le_bytes(*checksum);
        let checksum_found = xxh3_64(content);
        let place = match (checksum_said ^ checksum_found).count_ones() {
            1 => {
                *checksum = checksum_found.to_le_bytes();
                content.len()
            }
            _ => mend_bit(content, checksum_said)?,
        };
        Some((Root::parse(&bytes).ok()?, place))
    }

    fn read_bytes(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
        if !disk.exists(name)? {
            return Ok(None);
        }
        let file = disk.open(name)?;
        let length = file.len()?;
        if length > BYTES_MAX {
            return Err(StoreError::damaged(name, 0, "an impossible length").into());
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    pub fn write_partial(&self, disk: &dyn Disk) -> io::Result<()> {
        write_file(disk, PARTIAL, &self.bytes())
    }

    /// Puts what was written as `base.partial` in force. After an error, either may be.
    pub fn rename_partial(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.rename(PARTIAL, NAME)?;
        disk.sync_directory()?;
        keep_copy(disk, &self.bytes());
        Ok(())
    }

    /// The root that the next start reads. Its copy is rewritten if it is missing or another
    /// root's, after a crash or a full disk in between.
    pub fn read_and_copy(disk: &dyn Disk) -> Result<Root, OpenError> {
        let bytes = Root::read_bytes(disk, NAME)?.unwrap_or_default();
        let root = Root::parse(&bytes)?;
        let copy = Root::read_bytes(disk, COPY).ok().flatten();
        if copy.is_none_or(|copy| copy != bytes) {
            keep_copy(disk, &bytes);
        }
        Ok(root)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&format::written().to_le_bytes());
        bytes.extend_from_slice(&self.position.version.0.to_le_bytes());
        bytes.extend_from_slice(&self.position.sequence.0.to_le_bytes());
        bytes.extend_from_slice(&self.next_file.to_le_bytes());
        bytes.push(u8::from(self.tree.is_some()));
        bytes.push(self.tree.as_ref().map_or(0, |tree| tree.height));
        if let Some(tree) = &self.tree {
            tree.root.put(&mut bytes);
        }
        bytes.extend_from_slice(&(self.files.len() as u32).to_le_bytes());
        for (number, file) in &self.files {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&file.bytes.to_le_bytes());
            bytes.extend_from_slice(&file.live_bytes.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Root, OpenError> {
        let damaged = |reason| OpenError::Store(StoreError::damaged(NAME, 0, reason));
        let Some((content, checksum)) = bytes.split_last_chunk::<8>() else {
            return Err(damaged("a sudden end"));
        };
        if !content.starts_with(MAGIC) {
            return Err(damaged("not the first bytes of a base"));
        }
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(damaged("a wrong checksum"));
        }
        let mut input = Input(&content[MAGIC.len()..]);
        match input.u32() {
            Some(format) if format::is_read(format) => Root::take(&mut input).ok_or_else(|| damaged("a sudden end")),
            Some(other) => Err(OpenError::UnknownFormat(other)),
            None => Err(damaged("a sudden end")),
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Root> {
        let position = Position {
            version: Version(input.u64()?),
            sequence: LogSequence(input.u64()?),
        };
        let next_file = input.u32()?;
        let (has_tree, height) = (input.u8()?, input.u8()?);
        let root = match has_tree {
            0 => None,
            _ => Some(Child::take(input)?),
        };
        let mut files = BTreeMap::new();
        for _ in 0..input.u32()? {
            let number = input.u32()?;
            let (bytes, live_bytes) = (input.u64()?, input.u64()?);
            files.insert(number, Use { bytes, live_bytes });
        }
        let tree = root.map(|root| Tree { height, root });
        let root = Root {
            position,
            tree,
            files,
            next_file,
        };
        input.0.is_empty().then_some(root)
    }
}

/// Only a repair reads the copy: failing to write it stops nothing else. On a full disk a flush has
/// to make room.
fn keep_copy(disk: &dyn Disk, bytes: &[u8]) {
    if let Err(error) = write_file(disk, COPY, bytes) {
        tracing::warn!(%error, "{COPY} could not be written");
        // The copy belongs to an older root.
        _ = disk.remove(COPY);
    }
}

fn write_file(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = disk.create(name)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}
