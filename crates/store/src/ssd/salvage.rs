//! Recovers the trustworthy part of a damaged tree: everything that the root still leads to.
//!
//! Every node and value is verified by the checksum that is stored with the reference to it, so
//! nothing below an unreadable node can be trusted, in any file. The parent states the number of
//! those rows and the keys around them.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_env::Disk;

use super::files::{Files, damaged};
use super::node::{Child, Entry, Inner, Leaf, Node, Place, Value};
use super::root::{Root, Tree};
use crate::damage::{Damage, Lost, Salvaged, mend_bit, note_likely};
use crate::error::StoreError;
use crate::open_error::OpenError;
use crate::options::StoreKind;
use crate::row::Row;

pub(crate) fn salvage(
    disk: &Arc<dyn Disk>,
    row: &mut dyn FnMut(Row) -> ControlFlow<()>,
    tell: &mut dyn FnMut(Damage),
) -> Result<Salvaged, OpenError> {
    let (root, mended) = Root::read_mended(disk.as_ref())?;
    if let Some(mended) = mended {
        tell(Damage::Mended(mended));
    }
    let mut reading = Reading {
        files: Files::new(disk.clone(), 0),
        row,
        tell,
        rows: 0,
    };
    if let Some(Tree { height, root }) = &root.tree {
        reading.child(root, *height, None)?;
    }
    let stated = root.tree.as_ref().map_or(0, |tree| tree.root.rows);
    Ok(Salvaged {
        kind: StoreKind::Ssd,
        position: root.position,
        rows: reading.rows,
        missing: Some(stated.saturating_sub(reading.rows)),
    })
}

struct Reading<'a> {
    files: Files,
    row: &'a mut dyn FnMut(Row) -> ControlFlow<()>,
    tell: &'a mut dyn FnMut(Damage),
    rows: u64,
}

impl Reading<'_> {
    /// Reads the subtree, with keys below `high`.
    fn child(&mut self, child: &Child, height: u8, high: Option<&[u8]>) -> Result<(), OpenError> {
        let node = match self.bytes(&child.place)? {
            Ok(bytes) => Node::parse(bytes),
            Err(damage) => {
                let likely = self.likely(child, height, high);
                self.lose(child, high, damage.to_string(), likely);
                return Ok(());
            }
        };
        match node {
            Some(Node::Leaf(leaf)) if height == 0 && leaf_is_sound(&leaf, child, high) => {
                leaf.entries().try_for_each(|entry| self.entry(entry))
            }
            Some(Node::Inner(inner)) if inner.height == height && inner_is_sound(&inner, child, high) => {
                for (index, below) in inner.children.iter().enumerate() {
                    let next = inner.children.get(index + 1).map(|next| &*next.low).or(high);
                    self.child(below, height - 1, next)?;
                }
                Ok(())
            }
            _ => {
                let reason = damaged(&child.place, "not the node that belongs here").to_string();
                self.lose(child, high, reason, Vec::new());
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: Entry<'_>) -> Result<(), OpenError> {
        let row = match entry.value {
            Value::Inline(value) => Row::new(entry.key, value, entry.version),
            Value::Apart(place) => match self.bytes(&place)? {
                Ok(value) => Row::new(entry.key, &value, entry.version),
                Err(damage) => {
                    (self.tell)(Damage::Lost(Lost {
                        from: entry.key.to_vec(),
                        before: Some([entry.key, b"\0"].concat()),
                        rows: Some(1),
                        likely: vec![entry.key.to_vec()],
                        what: damage.to_string(),
                    }));
                    return Ok(());
                }
            },
        };
        self.rows += 1;
        match (self.row)(row) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(std::io::Error::other("the rows that were read are not taken").into()),
        }
    }

    /// The bytes at a place, or how they are damaged; an error if the disk failed.
    fn bytes(&mut self, place: &Place) -> Result<Result<Vec<u8>, StoreError>, StoreError> {
        let damage = match self.files.read(place) {
            Err(error) if error.is_damage() => error,
            other => return other.map(Ok),
        };
        let Ok(mut bytes) = self.files.read_unverified(place) else {
            return Ok(Err(damage));
        };
        match mend_bit(&mut bytes, place.checksum) {
            Some(byte) => {
                let (file, byte) = (Files::name(place.file), u64::from(place.offset) + byte as u64);
                (self.tell)(Damage::Mended(format!("one bit of {file} at byte {byte}")));
                Ok(Ok(bytes))
            }
            None => Ok(Err(damage)),
        }
    }

    fn lose(&mut self, child: &Child, high: Option<&[u8]>, what: String, likely: Vec<Vec<u8>>) {
        (self.tell)(Damage::Lost(Lost {
            from: child.low.to_vec(),
            before: high.map(<[u8]>::to_vec),
            rows: Some(child.rows),
            likely,
            what,
        }));
    }

    /// The keys that a damaged leaf names, as long as they make sense.
    fn likely(&self, child: &Child, height: u8, high: Option<&[u8]>) -> Vec<Vec<u8>> {
        let mut likely = Vec::new();
        if height == 0
            && let Ok(bytes) = self.files.read_unverified(&child.place)
        {
            for key in Leaf::keys_unverified(&bytes) {
                if key < &*child.low || high.is_some_and(|high| key >= high) {
                    break;
                }
                note_likely(&mut likely, key);
            }
        }
        likely
    }
}

fn leaf_is_sound(leaf: &Leaf, child: &Child, high: Option<&[u8]>) -> bool {
    let is_inside = |key: &[u8]| *key >= *child.low && high.is_none_or(|high| key < high);
    (0..leaf.len()).all(|index| is_inside(leaf.key(index)) && (index == 0 || leaf.key(index - 1) < leaf.key(index)))
}

fn inner_is_sound(inner: &Inner, child: &Child, high: Option<&[u8]>) -> bool {
    let lows = || inner.children.iter().map(|below| &*below.low);
    let is_inside = |low: &[u8]| *low >= *child.low && high.is_none_or(|high| low < high);
    lows().all(is_inside) && lows().zip(lows().skip(1)).all(|(low, next)| low < next)
}
