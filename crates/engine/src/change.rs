//! The meaning of a committed effect to the users of a layer: the words of a change feed.
//!
//! The engine knows rows only. Each layer decodes its own rows, and skips rows that are derived
//! from others.

use quartet_model::{Effect, LayerId};

use crate::partition::reader::Reader;

/// Decodes one layer's effects in one logical database, in commit order.
pub trait ChangeDecoder: Send {
    /// The layer of the effects that it decodes.
    fn layer(&self) -> LayerId;

    /// Appends what the effect did, with keys relative to the space; nothing if it follows from
    /// other effects. `reader` shows the latest state, for names that rows hold as numbers; it has
    /// none if the partition is kept for too long.
    fn decode(&mut self, effect: Effect<'_>, reader: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>);
}

/// One change, as a change feed reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name that prefix filters compare: a key, a table, a collection.
    pub name: Vec<u8>,
    /// The extent of the change from there.
    pub reach: Reach,
    /// The event's members, in this order.
    pub members: Vec<(&'static str, Shown)>,
}

/// Which names a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Its own.
    Name,
    /// Names from its own, inclusive, up to this one, exclusive.
    Before(Vec<u8>),
    /// Its own and all that follow.
    All,
}

/// A value in a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A word of the feed's own.
    Word(&'static str),
    /// A number.
    Number(u64),
    /// Bytes of a client: text if they are UTF-8.
    Bytes(Vec<u8>),
    /// JSON as it is.
    Json(String),
    /// Several.
    List(Vec<Shown>),
}

impl Change {
    /// Returns a change of the entity called `name`.
    pub fn new(operation: &'static str, name: &[u8]) -> Change {
        Change {
            name: name.to_vec(),
            reach: Reach::Name,
            members: vec![("op", Shown::Word(operation))],
        }
    }

    /// Extends the change to names after its own.
    pub fn reaching(mut self, reach: Reach) -> Change {
        self.reach = reach;
        self
    }

    /// Returns whether it concerns a name with this prefix.
    pub fn concerns(&self, prefix: &[u8]) -> bool {
        let is_within = || self.name[..] < *prefix;
        self.name.starts_with(prefix)
            || match &self.reach {
                Reach::Name => false,
                Reach::Before(end) => is_within() && end[..] > *prefix,
                Reach::All => is_within(),
            }
    }

    /// Adds one member to the report.
    pub fn with(mut self, member: &'static str, value: Shown) -> Change {
        self.members.push((member, value));
        self
    }

    /// The same for bytes.
    pub fn with_bytes(self, member: &'static str, bytes: &[u8]) -> Change {
        self.with(member, Shown::Bytes(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_range_concerns_each_name_in_it() {
        let check = |change: Change, prefix: &str, expected: bool| {
            assert_eq!(change.concerns(prefix.as_bytes()), expected, "{change:?}, {prefix}");
        };
        let change = || Change::new("set", b"bc");
        for (prefix, expected) in [
            ("", true),
            ("b", true),
            ("bc", true),
            ("bcd", false),
            ("a", false),
            ("c", false),
        ] {
            check(change(), prefix, expected);
        }
        let range = || Change::new("clear_range", b"b").reaching(Reach::Before(b"d".to_vec()));
        for (prefix, expected) in [
            ("", true),
            ("a", false),
            ("b", true),
            ("bx", true),
            ("c", true),
            ("d", false),
            ("e", false),
        ] {
            check(range(), prefix, expected);
        }
        check(Change::new("clear", b"").reaching(Reach::All), "anything", true);
    }
}
