//! Changes to fields of one hash, gathered before any is made.

use std::collections::HashMap;

use smallvec::SmallVec;

/// The effect on one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Set {
        value: &'a [u8],
        deadline: Deadline,
    },
    /// Nothing happens to a field that is absent.
    Expire(Deadline),
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    Keep,
    Never,
    At(u64),
}

impl Deadline {
    pub(super) fn after(self, old: Option<u64>) -> Option<u64> {
        match self {
            Deadline::Keep => old,
            Deadline::Never => None,
            Deadline::At(deadline_ms) => Some(deadline_ms),
        }
    }
}

pub(super) struct Edit<'a> {
    pub(super) name: &'a [u8],
    pub(super) change: Change<'a>,
    pub(super) is_done: bool,
}

/// Changes to different fields of one hash, applied together. A later change of a field replaces an
/// earlier one.
#[derive(Default)]
pub struct Edits<'a> {
    pub(super) list: SmallVec<[Edit<'a>; 16]>,
    /// Parallel to `list`: equal fields have equal tags, so most comparisons end at one word.
    tags: SmallVec<[u64; 16]>,
    /// Positions in `list`, once there are too many for a search.
    index: HashMap<&'a [u8], usize>,
}

/// Number of edits from which they are found by hash.
const SEARCHED_MAX: usize = 64;

impl<'a> Edits<'a> {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn set(&mut self, name: &'a [u8], change: Change<'a>) {
        if let Some(position) = self.position(name) {
            self.list[position].change = change;
            return;
        }
        if self.list.len() == SEARCHED_MAX {
            let known = self.list.iter().enumerate();
            self.index = known.map(|(position, edit)| (edit.name, position)).collect();
        }
        if self.list.len() >= SEARCHED_MAX {
            self.index.insert(name, self.list.len());
        }
        self.tags.push(tag(name));
        self.list.push(Edit {
            name,
            change,
            is_done: false,
        });
    }

    pub fn change(&self, name: &[u8]) -> Option<Change<'a>> {
        self.position(name).map(|position| self.list[position].change)
    }

    pub(super) fn position(&self, name: &[u8]) -> Option<usize> {
        if self.list.len() > SEARCHED_MAX {
            return self.index.get(name).copied();
        }
        let name_tag = tag(name);
        let mut tags = self.tags.iter().enumerate();
        tags.find(|&(position, &tag)| tag == name_tag && self.list[position].name == name)
            .map(|(position, _)| position)
    }

    pub(super) fn sets_deadline(&self) -> bool {
        self.list.iter().any(|edit| match edit.change {
            Change::Set { deadline, .. } | Change::Expire(deadline) => matches!(deadline, Deadline::At(_)),
            Change::Remove => false,
        })
    }

    /// Some field or value is longer than Redis' compact form takes.
    pub(super) fn has_longer_than(&self, bytes_max: usize) -> bool {
        self.list.iter().any(|edit| match edit.change {
            Change::Set { value, .. } => edit.name.len().max(value.len()) > bytes_max,
            _ => false,
        })
    }
}

/// The field's length and its first and last bytes in one word.
fn tag(name: &[u8]) -> u64 {
    let length = name.len() as u64;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => word(first) ^ word(last).rotate_left(23) ^ length.rotate_right(8),
        _ => name.iter().fold(length, |tag, &byte| tag << 8 | u64::from(byte)),
    }
}
