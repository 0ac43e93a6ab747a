//! Running a closure on a snapshot, without the lock, until nothing that it read has changed when
//! its writes land.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use quartet_model::Version;

use crate::certify::attempt::Attempt;
use crate::certify::optimistic::OptimisticTransaction;
use crate::conflicts::full_keys::FullKeys;
use crate::engine::Engine;
use crate::options::Durability;
use crate::partition::ExecuteError;
use crate::partition::busy::Busy;
use crate::partition::reader::Readable;
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::space::Space;

/// Why `run` gave up.
#[derive(Debug, PartialEq, Eq)]
pub enum RunError<E> {
    /// The answer of the layer's code; nothing was written. It may be sent once the dependency is
    /// durable.
    Layer(E, Dependency),
    /// Every attempt found a concurrent change of its reads; nothing was written.
    Conflict,
    /// See [`ExecuteError::TooLarge`].
    TooLarge(Dependency),
    /// See [`ExecuteError::DiskFull`].
    DiskFull(Dependency),
    /// See [`ExecuteError::Unreadable`].
    Unreadable(Dependency),
    /// See [`ExecuteError::NotHome`].
    NotHome,
    /// See [`Busy`]; nothing was written.
    Busy,
}

impl<E> From<Busy> for RunError<E> {
    fn from(_: Busy) -> RunError<E> {
        RunError::Busy
    }
}

impl Engine {
    /// Runs `body` on a snapshot without the lock, certifies what it read, and lands its writes
    /// together. Tried at most `attempts` times.
    pub fn run<R, E>(
        &self,
        space: Space,
        attempts: u32,
        body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Dependency), RunError<E>> {
        self.run_telling(false, space, attempts, body)
            .map(|(answer, _, dependency)| (answer, dependency))
    }

    /// Like `run`, and returns the commit version, or the read version if nothing was written.
    pub fn run_versioned<R, E>(
        &self,
        space: Space,
        attempts: u32,
        body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Version, Dependency), RunError<E>> {
        self.run_telling(true, space, attempts, body)
    }

    /// A returned version must be in the log, so writes that change nothing are logged for that
    /// reason only.
    fn run_telling<R, E>(
        &self,
        tells_version: bool,
        space: Space,
        attempts: u32,
        mut body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Version, Dependency), RunError<E>> {
        for _ in 0..attempts {
            let (mut transaction, reading, dependency) = self.begin(space)?;
            let answer = body(&mut transaction);
            let (mut attempt, unreadable) = transaction.end();
            let mut partition = self.partition_in_time()?;
            let judged = match &answer {
                Ok(_) if !attempt.writes.is_empty() => attempt.certify(partition.state(), &space.prefix()),
                _ => Ok(()),
            };
            reading.end(partition.state());
            if unreadable {
                return Err(RunError::Unreadable(dependency));
            }
            let answer = answer.map_err(|error| RunError::Layer(error, dependency))?;
            if judged.is_err() {
                self.shared().statistics.conflicts.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if attempt.writes.is_empty() {
                return Ok((answer, attempt.read_version, dependency));
            }
            partition.land_above(attempt.above_micros);
            let (version, written) = partition
                .execute(space, |target| attempt.write_to(target, tells_version))
                .map_err(|error| match error {
                    ExecuteError::Layer(never, _) => match never {},
                    ExecuteError::TooLarge(written) => RunError::TooLarge(dependency.max(written)),
                    ExecuteError::DiskFull(written) => RunError::DiskFull(dependency.max(written)),
                    ExecuteError::Unreadable(written) => RunError::Unreadable(dependency.max(written)),
                    ExecuteError::NotHome => RunError::NotHome,
                })?;
            // Writes that changed nothing leave only what was read to wait for.
            return Ok((answer, version, dependency.max(written)));
        }
        Err(RunError::Conflict)
    }

    fn begin<E>(&self, space: Space) -> Result<(OptimisticTransaction, Reading<'_>, Dependency), RunError<E>> {
        let mut partition = self.partition_in_time()?;
        if !partition.state().executes(space.database) {
            return Err(RunError::NotHome);
        }
        let now_micros = partition.now_micros();
        let read_version = partition.state().last_version();
        partition.state().reader_started(read_version);
        let transaction = OptimisticTransaction {
            snapshot: Readable::new(partition.state().snapshot()),
            prefix: space.prefix(),
            now_micros,
            present_micros: partition.state().present(now_micros),
            attempt: Attempt {
                read_version,
                points_read: FullKeys::new(),
                ranges_read: Vec::new(),
                writes: BTreeMap::new(),
                deletes: false,
                above_micros: 0,
            },
        };
        let dependency = match space.durability {
            Durability::Always => partition.state().dependency_on_everything(self.durable()),
            Durability::Interval | Durability::None => Version::ZERO,
        };
        let reading = Reading {
            engine: self,
            version: read_version,
            ended: false,
        };
        Ok((transaction, reading, dependency))
    }
}

/// A running optimistic transaction: the evidence that certifies it is kept until it ends, even by
/// a panic in the layer or because the lock cannot be obtained.
struct Reading<'e> {
    engine: &'e Engine,
    version: Version,
    ended: bool,
}

impl Reading<'_> {
    fn end(mut self, state: &mut PartitionState) {
        state.reader_ended(self.version);
        self.ended = true;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.engine.shared().partition.reader_ended(self.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_model::{DatabaseId, KeyRange, LayerId};
    use quartet_store::Read;

    use super::*;
    use crate::options::EngineOptions;

    const SPACE: Space = Space {
        database: DatabaseId(1),
        layer: LayerId::Fauna,
        durability: Durability::Interval,
    };

    fn write(engine: &Engine, keys: &[&[u8]]) {
        let written = engine.run(SPACE, 1, |transaction| {
            for key in keys {
                transaction.get(key);
                transaction.set(key, b"value");
            }
            Ok::<(), Infallible>(())
        });
        written.unwrap();
    }

    /// Address of the node that holds the row of this key.
    fn place(engine: &Engine, key: &[u8]) -> usize {
        let mut partition = engine.partition();
        let start = [&SPACE.prefix(), key].concat();
        let end = KeyRange::point(&start).end;
        let mut place = 0;
        let snapshot = partition.state().snapshot();
        let visited = snapshot.scan(&start, &end, false, &mut |row| {
            place = std::ptr::from_ref(row).addr();
            ControlFlow::Break(())
        });
        visited.unwrap();
        place
    }

    /// A transaction that still held its snapshot while its writes were applied copied the nodes on
    /// the path of each: a FaunaDB update took 17% more of the server's time. A copied node has
    /// another address, because the old node still exists.
    #[test]
    fn writes_that_land_copy_no_nodes() {
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let (disk, clock) = (Arc::new(FaultyDisk::new()), Arc::new(ManualClock::new(1)));
        let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
        write(&engine, &[b"neighbour", b"row"]);
        let before = place(&engine, b"neighbour");
        assert_ne!(before, 0);
        write(&engine, &[b"row"]);
        assert_eq!(place(&engine, b"neighbour"), before);
        let snapshot = engine.partition().state().snapshot();
        write(&engine, &[b"row"]);
        assert_ne!(place(&engine, b"neighbour"), before);
        drop(snapshot);
    }
}
