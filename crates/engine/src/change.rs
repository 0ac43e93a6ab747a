//! What a committed effect means to whoever uses a layer: the words of a change feed.
//!
//! The engine knows rows. Each layer tells what a row of its own says, and that a row which only follows from others says nothing.

use quartet_model::{Effect, LayerId};

use crate::Reader;

/// Tells one layer's effects in one logical database, in the order of their commits.
pub trait ChangeDecoder: Send {
    /// Whose effects it knows.
    fn layer(&self) -> LayerId;

    /// Appends what the effect did, with keys relative to the space; nothing if it follows from other effects. `reader` shows the latest
    /// state, for names that rows hold as numbers; it has none if the partition is kept for too long.
    fn decode(&mut self, effect: Effect<'_>, reader: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>);
}

/// One thing that was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What filters by prefix look at: a key, a table, a collection.
    pub name: Vec<u8>,
    /// What is told of it, in this order.
    pub members: Vec<(&'static str, Shown)>,
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
    /// A change of what is called `name`.
    pub fn new(operation: &'static str, name: &[u8]) -> Change {
        Change {
            name: name.to_vec(),
            members: vec![("op", Shown::Word(operation))],
        }
    }

    /// Tells one thing more.
    pub fn with(mut self, member: &'static str, shown: Shown) -> Change {
        self.members.push((member, shown));
        self
    }

    /// The same for bytes.
    pub fn with_bytes(self, member: &'static str, bytes: &[u8]) -> Change {
        self.with(member, Shown::Bytes(bytes.to_vec()))
    }
}
