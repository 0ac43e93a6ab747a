//! Interactive transactions: a client reads at a version for as long as it likes, and then sends
//! what it read and what it writes, to be certified and applied together.
//!
//! The client sends its read conflict ranges (the ranges it depends on) and its write conflict
//! ranges (ranges that others must treat as written, beyond those its mutations write). A mutation
//! counts as a write also where it changes nothing: clearing an empty range conflicts with
//! transactions that have read in it. Certification is that of `attempt`: a conflict is a change of
//! a range that was read, after the read version. A read version older than the kept conflict
//! history is answered `TooOld`.

use std::sync::atomic::Ordering;

use quartet_model::{KeyRange, Version};

use crate::certify::attempt::unchanged_range;
use crate::certify::mutation::Mutation;
use crate::engine::Engine;
use crate::partition::reader::Reader;
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::partition::transaction::Transaction;
use crate::partition::{ExecuteError, PartitionGuard};
use crate::space::Space;

/// Why `commit` refused; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// A range that was read has been written since: read again and retry. Carries the positions of
    /// the changed ranges in `read_conflicts`: all of them if the request set `report_conflicts`,
    /// else none.
    Conflict(Vec<usize>),
    /// The read version is outside the conflict window: read again and retry.
    TooOld,
    /// The read version is newer than any commit: the caller made it up.
    FutureVersion,
    /// See [`ExecuteError::TooLarge`].
    TooLarge,
    /// See [`ExecuteError::DiskFull`].
    DiskFull,
    /// See [`ExecuteError::Unreadable`].
    Unreadable,
    /// See [`ExecuteError::NotHome`].
    NotHome,
}

/// An interactive transaction, ready to be certified.
#[derive(Clone, Debug, Default)]
pub struct CommitRequest {
    /// The transaction's read version.
    pub read_version: Version,
    /// The ranges it read. If empty, it commits unconditionally.
    pub read_conflicts: Vec<KeyRange>,
    /// Ranges that others must consider written by it, beyond its mutations.
    pub write_conflicts: Vec<KeyRange>,
    /// Its writes, in order.
    pub mutations: Vec<Mutation>,
    /// A refusal names all ranges that changed.
    pub report_conflicts: bool,
}

/// Keys that are looked up before the first of them is written. Looking up many at a time hides
/// memory latency; too many evict each other from the processor's cache.
const FETCHED_TOGETHER: usize = 64;

impl CommitRequest {
    fn certify(&self, state: &PartitionState, prefix: &[u8]) -> Result<(), CommitError> {
        if self.read_version > state.last_version() {
            return Err(CommitError::FutureVersion);
        }
        let names_version = self.read_version > Version::ZERO || !self.read_conflicts.is_empty();
        if names_version && !state.changes.can_certify(prefix, self.read_version) {
            return Err(CommitError::TooOld);
        }
        let mut changed = self.read_conflicts.iter().enumerate().filter(|(_, range)| {
            let range = prefixed(prefix, range);
            unchanged_range(state, &range, self.read_version).is_err()
        });
        match changed.next() {
            None => Ok(()),
            Some(_) if !self.report_conflicts => Err(CommitError::Conflict(Vec::new())),
            Some((first, _)) => {
                let all = std::iter::once(first).chain(changed.map(|(index, _)| index));
                Err(CommitError::Conflict(all.collect()))
            }
        }
    }

    /// The keys that it writes, as far as they are known before it commits.
    fn keys(mutations: &[Mutation]) -> impl Iterator<Item = &[u8]> {
        mutations.iter().filter_map(Mutation::key)
    }

    /// Returns the ranges that it writes without leaving a trace.
    fn apply(&self, target: &mut Transaction<'_>) -> Vec<KeyRange> {
        let mut traceless = Vec::new();
        for mutations in self.mutations.chunks(FETCHED_TOGETHER) {
            if mutations.len() > 1 {
                target.fetch(CommitRequest::keys(mutations));
            }
            traceless.extend(mutations.iter().filter_map(|mutation| mutation.apply(target)));
        }
        traceless
    }

    fn writes_nothing(&self) -> bool {
        self.mutations.is_empty() && self.write_conflicts.is_empty()
    }
}

impl Engine {
    /// See [`PartitionGuard::read_version`].
    pub fn read_version(&self, space: Space) -> Reader {
        self.read().read_version(space)
    }

    /// See [`PartitionGuard::commit`].
    pub fn commit(&self, space: Space, request: &CommitRequest) -> Result<(Version, Dependency), CommitError> {
        self.partition().commit(space, request)
    }
}

impl PartitionGuard<'_> {
    /// Returns the state of one space at the latest commit, for an interactive transaction that
    /// will commit against its version. Its contents may not be sent before the dependency is
    /// durable.
    pub fn read_version(&mut self, space: Space) -> Reader {
        let now_micros = self.now_micros();
        self.state().interactive_reader(now_micros);
        self.reader(space)
    }

    /// Prefetches the rows that commits are about to overwrite: the first keys that they write, in
    /// this order.
    pub fn fetch<'k>(&mut self, space: Space, keys: impl Iterator<Item = &'k [u8]>) {
        self.state().fetch(&space.prefix(), keys.take(FETCHED_TOGETHER));
    }

    /// Certifies an interactive transaction and applies its writes. Returns its commit version; for
    /// a transaction that writes nothing, the newest version at which its reads still hold.
    pub fn commit(&mut self, space: Space, request: &CommitRequest) -> Result<(Version, Dependency), CommitError> {
        if !self.state().executes(space.database) {
            return Err(CommitError::NotHome);
        }
        let prefix = space.prefix();
        request.certify(self.state(), &prefix).inspect_err(|_| {
            self.statistics().conflicts.fetch_add(1, Ordering::Relaxed);
        })?;
        if request.writes_nothing() {
            return Ok((self.last_version(), self.latest_dependency(space)));
        }
        let committed = self.execute(space, |target| -> Result<_, std::convert::Infallible> {
            let traceless = request.apply(target);
            Ok((target.commit_version(), traceless))
        });
        let ((version, traceless), dependency) = match committed {
            Ok(committed) => committed,
            Err(ExecuteError::TooLarge(_)) => return Err(CommitError::TooLarge),
            Err(ExecuteError::DiskFull(_)) => return Err(CommitError::DiskFull),
            Err(ExecuteError::Unreadable(_)) => return Err(CommitError::Unreadable),
            Err(ExecuteError::NotHome) => return Err(CommitError::NotHome),
            Err(ExecuteError::Layer(never, _)) => match never {},
        };
        for range in request.write_conflicts.iter().chain(&traceless) {
            self.state().changes.declare(&prefixed(&prefix, range), version);
        }
        Ok((version, dependency))
    }
}

fn prefixed(prefix: &[u8], range: &KeyRange) -> KeyRange {
    KeyRange::new([prefix, &range.start].concat(), [prefix, &range.end].concat())
}
