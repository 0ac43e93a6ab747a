//! The format that the nodes of a cluster have agreed to write.
//!
//! ```text
//! ROOT/format   QFMT | format 1 u32 | written u32 | read u32 | checksum u32
//! ```
//!
//! Each node writes `written`; a program that does not read `read` must not start as a node.
//! `written <= read`. A step to the next format raises `read` first, verifies that each node reads
//! it, and raises `written` then. A node puts its member's key before it reads this key: so either
//! the step sees the node, or the node sees the step. Without the key both are 1.

use quartet_model::format;

use crate::place::{FORMAT, Place, meta_key, put};
use crate::record::{Fields, seal, unsealed};
use crate::sequencer::{Answer, Compare, Operation, Request};

const MAGIC: &[u8; 4] = b"QFMT";

/// The formats of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The format that every node writes.
    pub written: u32,
    /// The format that each node has to read.
    pub read: u32,
}

/// A program that cannot be a node of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitFormat {
    /// Its program cannot read the format.
    #[error(
        "the cluster writes format {0} or is about to, and this program reads up to format {newest}: start a newer one",
        newest = format::newest()
    )]
    TooNew(u32),
    /// It would write bytes that other nodes cannot read.
    #[error(
        "the cluster writes format {0}, and this program writes format {oldest} and later: upgrade one version at a \
         time, and finish each with `quartet cluster finish-upgrade`",
        oldest = format::oldest()
    )]
    TooOld(u32),
}

impl Agreed {
    /// The formats of a cluster that this program founds.
    pub fn of_founder() -> Agreed {
        let newest = format::newest();
        Agreed {
            written: newest,
            read: newest,
        }
    }

    /// Reads the formats. The answer goes to `of`.
    pub fn request(place: &Place) -> Request {
        let key = key(place.root());
        Request::Get { key }
    }

    /// Returns what the sequencer holds; `None` if it is unreadable.
    pub fn of(answer: &Answer) -> Option<Agreed> {
        match answer {
            Answer::Value(Some(value)) => Agreed::decode(value),
            Answer::Value(None) => Some(Agreed { written: 1, read: 1 }),
            _ => None,
        }
    }

    /// Replaces these formats by `next`: `Done`, or `Refused` if they are others meanwhile.
    pub fn change(&self, place: &Place, next: Agreed) -> Request {
        let key = key(place.root());
        let is_unchanged = match *self {
            Agreed { written: 1, read: 1 } => Compare::Absent(key.clone()),
            present => Compare::Value {
                key: key.clone(),
                value: present.encode(),
            },
        };
        let operation = match next {
            Agreed { written: 1, read: 1 } => Operation::Delete {
                until: [&key[..], &[0]].concat(),
                from: key.clone(),
            },
            next => put(key.clone(), next.encode()),
        };
        Request::Transact {
            compares: vec![place.is_this_cluster(), is_unchanged],
            operations: vec![operation],
            otherwise: vec![key],
        }
    }

    /// Errors: this program cannot be a node of a cluster with these formats.
    pub fn check(&self) -> Result<(), UnfitFormat> {
        if self.read > format::newest() {
            return Err(UnfitFormat::TooNew(self.read));
        }
        if self.written < format::oldest() {
            return Err(UnfitFormat::TooOld(self.written));
        }
        Ok(())
    }

    /// The operation of the transaction that founds a cluster; none for format 1.
    pub(crate) fn founding(self, root: &str) -> Option<Operation> {
        (self.read > 1).then(|| put(key(root), self.encode()))
    }

    fn encode(self) -> Vec<u8> {
        let numbers = [FORMAT, self.written, self.read].map(u32::to_le_bytes);
        let mut bytes = [&MAGIC[..], numbers.as_flattened()].concat();
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Agreed> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let is_known = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
        let (written, read) = (fields.u32()?, fields.u32()?);
        let is_whole = fields.0.is_empty() && 1 <= written && written <= read;
        (is_known && is_whole).then_some(Agreed { written, read })
    }
}

impl Place {
    /// Founds the cluster: `Done`, or `Refused` with the `meta` of a cluster below the same root.
    pub fn found(&self) -> Request {
        let format = Agreed::of_founder().founding(self.root());
        Request::Transact {
            compares: vec![Compare::Absent(meta_key(self.root()))],
            operations: [Some(put(meta_key(self.root()), self.meta_value())), format]
                .into_iter()
                .flatten()
                .collect(),
            otherwise: vec![meta_key(self.root())],
        }
    }
}

/// `ROOT/format`.
fn key(root: &str) -> Vec<u8> {
    format!("{root}/format").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Store;
    use crate::words::{ClusterId, PartitionId};

    fn ask(store: &mut Store, request: &Request) -> Answer {
        store.execute(0, Duration::ZERO, request)
    }

    #[test]
    fn a_step_and_its_withdrawal_are_made_once() {
        let place = Place::new("/x", ClusterId(7), PartitionId(0));
        let mut store = Store::default();
        ask(&mut store, &place.found());
        let read = |store: &mut Store| Agreed::of(&ask(store, &Agreed::request(&place))).unwrap();
        let (before, between, after) = (
            Agreed { written: 1, read: 1 },
            Agreed { written: 1, read: 2 },
            Agreed { written: 2, read: 2 },
        );
        assert_eq!(read(&mut store), before);
        for (from, to) in [
            (before, between),
            (between, before),
            (before, between),
            (between, after),
        ] {
            let done = ask(&mut store, &from.change(&place, to));
            assert!(matches!(done, Answer::Done { .. }), "{from:?} to {to:?}");
            assert_eq!(read(&mut store), to);
            let again = ask(&mut store, &from.change(&place, to));
            assert!(matches!(again, Answer::Refused { .. }), "{from:?} to {to:?} again");
        }
        let other = Place::new("/x", ClusterId(8), PartitionId(0));
        assert!(matches!(
            ask(&mut store, &after.change(&other, before)),
            Answer::Refused { .. }
        ));
    }

    #[test]
    fn a_program_is_fit_for_the_formats_that_it_reads_and_writes() {
        let newest = format::newest();
        let agreed = |written, read| Agreed { written, read };
        assert_eq!(Agreed::of_founder().check(), Ok(()));
        assert_eq!(
            agreed(newest, newest + 1).check(),
            Err(UnfitFormat::TooNew(newest + 1)),
            "a step has begun"
        );
        assert_eq!(
            agreed(newest + 1, newest + 1).check(),
            Err(UnfitFormat::TooNew(newest + 1))
        );
    }

    #[test]
    fn bytes_that_are_no_formats_are_refused() {
        let bytes = Agreed { written: 1, read: 2 }.encode();
        assert_eq!(Agreed::decode(&bytes), Some(Agreed { written: 1, read: 2 }));
        for length in 0..bytes.len() {
            assert_eq!(Agreed::decode(&bytes[..length]), None, "{length} bytes");
        }
        assert_eq!(Agreed::decode(&Agreed { written: 2, read: 1 }.encode()), None);
        assert_eq!(Agreed::decode(&Agreed { written: 0, read: 1 }.encode()), None);
    }
}
