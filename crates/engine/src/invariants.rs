//! Invariants between a layer's rows, and their breaches: indexes, counts, names that lead
//! somewhere.
//!
//! The engine knows no layer. Each layer registers the invariants of its rows in one logical
//! database, and receives all of them at one snapshot; it reports each breach, with a repair that
//! involves no guess. A [`Repair`] only rebuilds or drops derived rows: data that nothing
//! contradicts is never touched.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quartet_model::{DatabaseId, LayerId, Version};
use quartet_store::{PartitionSnapshot, Read, StoreError};

use crate::options::Durability;
use crate::partition::frozen::Frozen;
use crate::partition::reader::Reader;
use crate::space::Space;

/// The invariants that a layer guarantees for its rows.
pub trait Invariants {
    /// The layer of the rows that it verifies.
    fn layer(&self) -> LayerId;

    /// Looks at all rows of the layer in one logical database. Bytes that no version has written
    /// are a finding, never a panic: see [`decoded`].
    fn judge(&self, verification: &mut Verification<'_>);

    /// Returns the databases whose rows in this partition belong to no layer, such as a partial
    /// copy's: they are not verified. `rows` are those of the system space.
    fn disowned(&self, _rows: &Reader) -> Vec<DatabaseId> {
        Vec::new()
    }
}

/// One layer's rows in one logical database, and the breaches found in them.
pub struct Verification<'r> {
    /// The rows; its time is the newest commit's.
    pub rows: &'r Reader,
    /// The logical databases that have rows, in rising order.
    pub databases: &'r [DatabaseId],
    space: Space,
    snapshot: &'r dyn Fn() -> PartitionSnapshot,
    findings: &'r mut Findings,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The logical database of the rows.
    pub database: DatabaseId,
    /// The layer of the rows.
    pub layer: LayerId,
    /// A sentence: which row, and what is wrong with it.
    pub what: String,
    /// The repairs; empty if a person has to decide.
    pub repairs: Vec<Repair>,
}

/// A change that follows from other rows. Keys are relative to the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Recomputes a row.
    #[expect(missing_docs, reason = "a key and its value")]
    Set { key: Vec<u8>, value: Vec<u8> },
    /// A row that nothing supports goes.
    #[expect(missing_docs, reason = "a key")]
    Clear { key: Vec<u8> },
    /// All of them from `start` on and before `end` go.
    #[expect(missing_docs, reason = "the bounds of a range")]
    ClearRange { start: Vec<u8>, end: Vec<u8> },
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first of them.
    pub kept: Vec<Finding>,
    /// Their number.
    pub count: u64,
}

/// Findings that are kept; the others are only counted.
const FINDINGS_MAX: usize = 10_000;

impl Verification<'_> {
    /// Returns another reader of the same rows, for a check that needs its own. If it fails to read
    /// a row, the check reads that row again by `rows`.
    pub fn reader(&self) -> Reader {
        Reader::of_snapshot((self.snapshot)(), self.space, self.rows.version)
    }

    /// The same rows, for code that is written for transactions. The caller reads again by `rows`
    /// what it could not read.
    pub fn frozen(&self) -> Frozen {
        Frozen::of_snapshot((self.snapshot)(), self.space, self.rows.version)
    }

    /// The database of the rows.
    pub fn database(&self) -> DatabaseId {
        self.space.database
    }

    /// Notes what does not hold, and what puts it right.
    pub fn found(&mut self, what: String, repairs: Vec<Repair>) {
        self.findings.count += 1;
        if self.findings.kept.len() < FINDINGS_MAX {
            self.findings.kept.push(Finding {
                database: self.space.database,
                layer: self.space.layer,
                what,
                repairs,
            });
        }
    }
}

/// Returns the decoded row, or `None` if `decode` panics, as a layer's decoders do at bytes that no
/// version has written.
pub fn decoded<T>(decode: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(decode)).ok()
}

/// Verifies every layer's rows of every logical database. `snapshot` returns the same state each
/// time.
pub(crate) fn judge(
    snapshot: &dyn Fn() -> PartitionSnapshot,
    version: Version,
    invariants: &[Box<dyn Invariants>],
) -> Result<Findings, StoreError> {
    let rows = snapshot();
    let mut findings = Findings::default();
    let databases = databases(&rows)?;
    let system = Space {
        database: DatabaseId(0),
        layer: LayerId::System,
        durability: Durability::Always,
    };
    let system = Reader::of_snapshot(snapshot(), system, version);
    let disowned: Vec<DatabaseId> = invariants
        .iter()
        .flat_map(|checker| checker.disowned(&system))
        .collect();
    for &database in databases.iter().filter(|database| !disowned.contains(database)) {
        for layer in layers(&rows, database)? {
            let Some(knowing) = invariants.iter().find(|checker| checker.layer() as u8 == layer) else {
                continue;
            };
            let space = Space {
                database,
                layer: knowing.layer(),
                durability: Durability::Always,
            };
            let reader = Reader::of_snapshot(snapshot(), space, version);
            knowing.judge(&mut Verification {
                rows: &reader,
                databases: &databases,
                space,
                snapshot,
                findings: &mut findings,
            });
            if reader.is_unreadable() {
                // Reading it again returns the error.
                rows.walk(b"", &mut |_| std::ops::ControlFlow::Continue(()))?;
            }
        }
    }
    Ok(findings)
}

fn databases(rows: &PartitionSnapshot) -> Result<Vec<DatabaseId>, StoreError> {
    let mut databases = Vec::new();
    let mut next = Some(0_u16);
    while let Some(from) = next {
        let Some(row) = rows.nth(&from.to_be_bytes(), &[0xff; 3], 0)? else {
            break;
        };
        let database = crate::durability::stored::database_of(row.key());
        databases.push(database);
        next = database.0.checked_add(1);
    }
    Ok(databases)
}

/// The layers that have rows in a database, as their keys name them.
fn layers(rows: &PartitionSnapshot, database: DatabaseId) -> Result<Vec<u8>, StoreError> {
    let [high, low] = database.0.to_be_bytes();
    let mut layers = Vec::new();
    for layer in 0..0xff {
        if rows.nth(&[high, low, layer], &[high, low, layer + 1], 0)?.is_some() {
            layers.push(layer);
        }
    }
    Ok(layers)
}
