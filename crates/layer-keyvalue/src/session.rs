//! One connection's requests, the versions it reads at, and its watches.
//!
//! Reads need no lock: they look at a state that the session holds, and everything in it is
//! durable, because the reply with its version waited for that. Read versions, commits and watches
//! take the partition's lock for a moment. If another thread holds it for long, the request is
//! given back, to be tried again when others have been served.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use quartet_engine::Row;
use quartet_engine::{Admission, CommitError, Dependency, Durability, Reader, RowValue};
use quartet_model::Version;
use quartet_wire_keyvalue::{
    Commit, ErrorCode, Frame, Hello, PROTOCOL_VERSION, RangeRequest, Reply, Request, Selector, Welcome,
};

use crate::watches::{Wake, Watches};
use crate::workload::{Count, Tally};
use crate::{KeyValue, batching, check_bound, check_readable_key, commit, keys_end, ranges, selectors, sizes};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The reply was appended; it may be sent once this is durable.
    Reply(Dependency),
    /// There is no reply, or not yet.
    Nothing,
    /// Another thread holds the lock for long. Nothing was done: give the request again.
    Busy,
}

pub struct Session {
    layer: Arc<KeyValue>,
    reading: HashMap<u64, Reading>,
    /// Expired read versions are swept once this many are open.
    reading_swept_from: usize,
    watches: Watches,
    /// The version that read versions of this batch share, and its dependency.
    newest: Option<(Version, Dependency)>,
    /// The state after the last commit of this batch.
    committed: Option<Reader>,
    /// Number of commits whose state was kept.
    commits_kept: u32,
    ahead: Ahead,
    /// Counts of this batch.
    tally: Tally,
    may_write: bool,
    now_micros: u64,
}

/// Prefetched rows for the next requests of this batch, `None` for absent ones, and their version.
#[derive(Default)]
struct Ahead {
    version: u64,
    rows: std::vec::IntoIter<Option<Row>>,
}

/// A version that the client holds, with its count. The state is dropped once its window has
/// passed.
struct Reading {
    reader: Weak<Reader>,
    count: u32,
}

/// Number of a session's first commits whose state is kept, regardless of whether any client has
/// named a version.
const COMMITS_KEPT: u32 = 1_000;

/// Number of open versions below which expired versions are not swept.
const READING_MANY: usize = 10_000;

const SETTLED: Answered = Answered::Reply(Dependency::ZERO);

impl Session {
    pub fn new(layer: Arc<KeyValue>, may_write: bool, wake: Wake) -> Session {
        layer.sessions.fetch_add(1, Ordering::Relaxed);
        Session {
            now_micros: layer.engine.now_micros(),
            watches: Watches::new(wake, layer.watched_bytes.clone()),
            layer,
            reading: HashMap::new(),
            reading_swept_from: READING_MANY,
            newest: None,
            committed: None,
            commits_kept: 0,
            ahead: Ahead::default(),
            tally: Tally::default(),
            may_write,
        }
    }

    /// Largest frame that is taken from this client.
    pub fn frame_bytes_max(&self) -> usize {
        self.layer.options.frame_bytes_max()
    }

    /// The time at which commits of this session are acknowledged.
    pub fn durability(&self) -> Durability {
        self.layer.space.durability
    }

    /// Call it when requests have arrived: the requests of a batch may share a read version.
    pub fn begin_batch(&mut self) {
        self.newest = None;
        self.now_micros = self.layer.engine.now_micros();
    }

    /// Call it when the requests of the batch are answered. The last commit's state stays readable,
    /// for a client that names its version: a client that commits step by step can read each state.
    /// A kept state makes the next commits copy the nodes they change, so a busy client that never
    /// names a version stops paying for it, including states kept before.
    pub fn end_batch(&mut self) {
        self.layer.workload.add(std::mem::take(&mut self.tally));
        self.ahead = Ahead::default();
        if let Some(reader) = self.committed.take() {
            let version = reader.version;
            self.layer.versions.keep(reader);
            self.layer.versions.release(version);
        }
        if self.commits_kept == COMMITS_KEPT && !self.layer.versions.are_named(self.now_micros) {
            self.commits_kept += 1;
            self.layer.versions.forget_unused();
        }
    }

    /// To be called with requests that are about to be answered: what they read or write is looked
    /// for together.
    pub fn look_ahead(&mut self, together: &[(Frame<'_>, Request<'_>)]) {
        let Some(((_, first), _)) = together.split_first().filter(|(_, following)| !following.is_empty()) else {
            return;
        };
        match first {
            Request::Get { version, .. } => {
                if let Ok(reader) = self.reader(*version) {
                    let rows = reader.get_each(&batching::keys_read(together)).into_iter();
                    let version = *version;
                    self.ahead = Ahead { version, rows };
                }
            }
            Request::GetRange(range) => {
                if let Ok(reader) = self.reader(range.version) {
                    batching::fetch_ranges(&reader, together);
                }
            }
            Request::Commit(_) if self.may_write => {
                if let Some(mut partition) = self.layer.partition() {
                    partition.fetch(self.layer.space, batching::keys_written(together));
                }
            }
            _ => {}
        }
    }

    pub fn answer(&mut self, id: u32, request: &Request<'_>, output: &mut Vec<u8>) -> Answered {
        let start = output.len();
        let answered = match request {
            Request::Hello(hello) => self.welcome(id, hello, output),
            Request::ReadVersion => self.read_version(id, output),
            Request::OpenVersion { version } => self.open_version(id, Version(*version), output),
            Request::Release { version } => {
                self.release(*version);
                Ok(Answered::Nothing)
            }
            Request::Get { version, system, key } => self.get(id, *version, *system, key, output),
            Request::GetKey {
                version,
                selector,
                system,
            } => self.get_key(id, *version, selector, *system, output),
            Request::GetRange(range) => self.get_range(id, range, output),
            Request::Commit(commit) => self.commit(id, commit, output),
            Request::Watch { system, key, value } => {
                check_watched(key, *value, *system).and_then(|()| self.watch(id, key, *value, output))
            }
            Request::Cancel { id } => Ok(self.cancel(*id)),
            Request::EstimatedBytes { begin, end } => {
                check_range(begin, end, true).and_then(|()| self.estimated_bytes(id, begin, end, output))
            }
            Request::SplitPoints {
                begin,
                end,
                piece_bytes,
                limit,
                system,
            } => check_range(begin, end, *system)
                .and_then(|()| self.split_points(id, begin, end, *piece_bytes, *limit, output)),
            Request::Status => {
                Reply::put_bytes(output, id, self.layer.status().as_bytes());
                Ok(SETTLED)
            }
        };
        if matches!(answered, Ok(Answered::Reply(_))) {
            self.tally.add_answered(request, output.len() - start);
        }
        answered.unwrap_or_else(|code| {
            Reply::put_failure(output, id, code, b"");
            SETTLED
        })
    }

    fn welcome(&self, id: u32, hello: &Hello<'_>, output: &mut Vec<u8>) -> Result<Answered, ErrorCode> {
        if hello.protocol_version < PROTOCOL_VERSION {
            return Err(ErrorCode::INCOMPATIBLE_PROTOCOL);
        }
        let options = &self.layer.options;
        let welcome = Welcome {
            protocol_version: PROTOCOL_VERSION,
            instance: self.layer.instance,
            read_window_micros: options.read_window_micros,
            transaction_bytes_max: u32::try_from(options.transaction_bytes_max).unwrap_or(u32::MAX),
        };
        welcome.put(output, id);
        Ok(SETTLED)
    }

    /// Errors: this node is not home, and no read version of it would be confirmed.
    fn check_home(&self) -> Result<(), ErrorCode> {
        match self.layer.engine.is_home() {
            true => Ok(()),
            false => Err(ErrorCode::PROCESS_BEHIND),
        }
    }

    fn read_version(&mut self, id: u32, output: &mut Vec<u8>) -> Result<Answered, ErrorCode> {
        self.check_home()?;
        let Some((version, dependency)) = self.newest() else {
            return Ok(Answered::Busy);
        };
        Reply::put_number(output, id, version.0);
        Ok(Answered::Reply(dependency))
    }

    /// The version of the latest commit as of this batch, for one more use, and the dependency of a
    /// reply that contains it.
    fn newest(&mut self) -> Option<(Version, Dependency)> {
        if let Some((version, dependency)) = self.newest
            && let Some(reading) = self.reading.get_mut(&version.0)
        {
            reading.count += 1;
            return Some((version, dependency));
        }
        let reader = self.layer.engine.read_in_time().ok()?.read_version(self.layer.space);
        let (version, dependency) = (reader.version, reader.dependency);
        let reader = self.layer.versions.keep(reader);
        self.newest = Some((version, dependency));
        self.read_at(version, reader);
        Some((version, dependency))
    }

    /// Records that the client reads at `version`; `versions` has already counted the user.
    fn read_at(&mut self, version: Version, reader: Weak<Reader>) {
        if self.reading.len() >= self.reading_swept_from {
            self.reading.retain(|_, reading| reading.reader.strong_count() > 0);
            self.reading_swept_from = READING_MANY.max(2 * self.reading.len());
        }
        let reading = self.reading.entry(version.0).or_insert(Reading {
            reader: Weak::new(),
            count: 0,
        });
        reading.count += 1;
        let replaced = std::mem::replace(&mut reading.reader, reader);
        if replaced.strong_count() > 0 {
            // A session counts as one user, however often it was given the version.
            self.layer.versions.release(version);
        }
    }

    fn open_version(&mut self, id: u32, version: Version, output: &mut Vec<u8>) -> Result<Answered, ErrorCode> {
        self.layer.versions.named(self.now_micros);
        self.check_home()?;
        let state = self.layer.versions.first_at_or_after(version, self.now_micros);
        let (opened, dependency) = match state {
            Some((opened, reader)) => {
                let dependency = reader.upgrade().map_or(Dependency::ZERO, |reader| reader.dependency);
                self.read_at(opened, reader);
                (opened, dependency)
            }
            None => match self.newest() {
                Some(newest) => newest,
                None => return Ok(Answered::Busy),
            },
        };
        let oldest = self.now_micros.saturating_sub(self.layer.options.read_window_micros);
        let refusal = if opened < version {
            Some(ErrorCode::FUTURE_VERSION)
        } else if opened > version && version.0 < oldest {
            Some(ErrorCode::TRANSACTION_TOO_OLD)
        } else {
            None
        };
        if let Some(code) = refusal {
            self.release(opened.0);
            return Err(code);
        }
        Reply::put_number(output, id, opened.0);
        Ok(Answered::Reply(dependency))
    }

    fn release(&mut self, version: u64) {
        let Some(reading) = self.reading.get_mut(&version) else {
            return;
        };
        reading.count -= 1;
        if reading.count == 0 {
            self.forget(version);
        }
    }

    fn forget(&mut self, version: u64) {
        if let Some(reading) = self.reading.remove(&version)
            && reading.reader.strong_count() > 0
        {
            self.layer.versions.release(Version(version));
        }
    }

    fn reader(&self, version: u64) -> Result<Arc<Reader>, ErrorCode> {
        let reading = self.reading.get(&version);
        reading
            .and_then(|reading| reading.reader.upgrade())
            .ok_or(ErrorCode::TRANSACTION_TOO_OLD)
    }

    fn get(
        &mut self,
        id: u32,
        version: u64,
        system: bool,
        key: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Answered, ErrorCode> {
        check_readable_key(key, system)?;
        let reader = self.reader(version)?;
        let value = match self.ahead.take(version).filter(|row| reader.is_at(row, key)) {
            Some(row) => Some(RowValue::Stored(row)),
            None => reader.get_row(key),
        };
        check_readable(&reader)?;
        Reply::put_value(output, id, value.as_deref());
        Ok(SETTLED)
    }

    fn get_key(
        &self,
        id: u32,
        version: u64,
        selector: &Selector<'_>,
        system: bool,
        output: &mut Vec<u8>,
    ) -> Result<Answered, ErrorCode> {
        check_bound(selector.key, system)?;
        let reader = self.reader(version)?;
        let key = selectors::resolve(&reader, selector, keys_end(system));
        check_readable(&reader)?;
        Reply::put_bytes(output, id, &key);
        Ok(SETTLED)
    }

    fn get_range(&self, id: u32, range: &RangeRequest<'_>, output: &mut Vec<u8>) -> Result<Answered, ErrorCode> {
        check_bound(range.begin.key, range.system)?;
        check_bound(range.end.key, range.system)?;
        let reader = self.reader(range.version)?;
        let length = output.len();
        Reply::put_range(output, id, |body| ranges::read(&reader, range, body));
        check_readable(&reader).inspect_err(|_| output.truncate(length))?;
        Ok(SETTLED)
    }

    fn commit(&mut self, id: u32, commit: &Commit<'_>, output: &mut Vec<u8>) -> Result<Answered, ErrorCode> {
        if !self.may_write {
            return Err(ErrorCode::PERMISSION_DENIED);
        }
        if commit::makes_larger(commit) {
            match self.layer.engine.admission() {
                Admission::Now => {}
                Admission::Later => return Ok(Answered::Busy),
                Admission::Refused => return Err(ErrorCode::COMMIT_PROXY_MEMORY_LIMIT),
            }
        }
        let request = commit::translated(commit, &self.layer.options)?;
        let Some(mut partition) = self.layer.partition() else {
            return Ok(Answered::Busy);
        };
        // A held state makes a commit copy the nodes it changes. So read versions of this batch
        // continue to share the earlier state: their clients have not seen this commit.
        self.committed = None;
        let committed = partition.commit(self.layer.space, &request);
        let are_named = || self.commits_kept < COMMITS_KEPT || self.layer.versions.are_named(self.now_micros);
        if committed.is_ok() && are_named() && !self.layer.engine.gathers_much() {
            self.commits_kept = self.commits_kept.saturating_add(1);
            self.committed = Some(partition.read_version(self.layer.space));
        }
        drop(partition);
        match committed {
            Ok((version, dependency)) => {
                self.tally.add_committed(commit);
                Reply::put_number(output, id, version.0);
                Ok(Answered::Reply(dependency))
            }
            Err(CommitError::Conflict(changed)) => {
                self.tally.add(Count::Conflicted, 1);
                Reply::put_conflict(output, id, &changed);
                Ok(SETTLED)
            }
            Err(error) => Err(commit::code_of(&error)),
        }
    }

    fn watch(
        &mut self,
        id: u32,
        key: &[u8],
        value: Option<&[u8]>,
        output: &mut Vec<u8>,
    ) -> Result<Answered, ErrorCode> {
        let Some(mut partition) = self.layer.partition() else {
            return Ok(Answered::Busy);
        };
        Ok(match self.watches.add(&self.layer, &mut partition, id, key, value)? {
            None => Answered::Nothing,
            Some(dependency) => {
                Reply::put_empty(output, id);
                Answered::Reply(dependency)
            }
        })
    }

    fn cancel(&mut self, id: u32) -> Answered {
        if self.watches.is_empty() {
            return Answered::Nothing;
        }
        match self.layer.partition() {
            None => Answered::Busy,
            Some(mut partition) => {
                self.watches.cancel(&mut partition, id);
                Answered::Nothing
            }
        }
    }

    /// The requests for the watches that have not fired, for a session at another home. Versions
    /// that this one reads at are too old there.
    pub fn watch_requests(&self) -> Vec<u8> {
        self.watches.requests()
    }

    /// Returns true if a watched key of this session was written: the caller then calls `fired`.
    pub fn is_touched(&self) -> bool {
        self.watches.is_touched()
    }

    /// The watches that fired since the last call, each with its notification's dependency; `None`
    /// if the lock is held for long.
    pub fn fired(&mut self) -> Option<Vec<(u32, Dependency)>> {
        let mut partition = self.layer.partition()?;
        Some(self.watches.fired(&self.layer, &mut partition))
    }

    fn estimated_bytes(
        &mut self,
        id: u32,
        begin: &[u8],
        end: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Answered, ErrorCode> {
        self.estimate(output, |reader, output| {
            Reply::put_number(output, id, sizes::estimated_bytes(reader, begin, end));
        })
    }

    fn split_points(
        &mut self,
        id: u32,
        begin: &[u8],
        end: &[u8],
        piece_bytes: u64,
        limit: u32,
        output: &mut Vec<u8>,
    ) -> Result<Answered, ErrorCode> {
        self.estimate(output, |reader, output| {
            Reply::put_keys(output, id, &sizes::split_points(reader, begin, end, piece_bytes, limit));
        })
    }

    /// Lets `answer` look at the newest state.
    fn estimate(
        &mut self,
        output: &mut Vec<u8>,
        answer: impl FnOnce(&Reader, &mut Vec<u8>),
    ) -> Result<Answered, ErrorCode> {
        let Some((version, dependency)) = self.newest() else {
            return Ok(Answered::Busy);
        };
        let reader = self.reader(version.0)?;
        let length = output.len();
        answer(&reader, output);
        check_readable(&reader).inspect_err(|_| output.truncate(length))?;
        self.release(version.0);
        Ok(Answered::Reply(dependency))
    }
}

/// A watch keeps both, so what could never be stored is refused.
fn check_watched(key: &[u8], value: Option<&[u8]>, system: bool) -> Result<(), ErrorCode> {
    check_readable_key(key, system)?;
    commit::check_key_length(key)?;
    commit::check_value_length(value.unwrap_or_default())
}

/// The read result may be sent.
fn check_readable(reader: &Reader) -> Result<(), ErrorCode> {
    if reader.is_unreadable() {
        return Err(ErrorCode::IO_ERROR);
    }
    Ok(())
}

fn check_range(begin: &[u8], end: &[u8], system: bool) -> Result<(), ErrorCode> {
    if begin > end {
        return Err(ErrorCode::INVERTED_RANGE);
    }
    check_bound(end, system)
}

impl Ahead {
    /// The result read ahead for the next request, if that is at `version`. The caller checks
    /// whether it is for the same key.
    fn take(&mut self, version: u64) -> Option<Row> {
        if self.version != version {
            return None;
        }
        self.rows.next().flatten()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let versions: Vec<u64> = self.reading.keys().copied().collect();
        versions.into_iter().for_each(|version| self.forget(version));
        self.layer.engine.unwatch(self.watches.take_all());
        self.layer.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use quartet_wire_keyvalue::{FRAME_BYTES_MAX, Mutation, MutationKind, next_frame};

    use super::*;
    use crate::first_requests;

    /// The body of the reply, if it is no failure.
    fn ask<T>(session: &mut Session, request: &Request<'_>, read: impl Fn(&[u8]) -> T) -> Option<T> {
        let mut output = Vec::new();
        session.answer(1, request, &mut output);
        let frame = next_frame(&output, FRAME_BYTES_MAX).unwrap().unwrap();
        match Reply::parse(&frame).unwrap() {
            Reply::Done(body) => Some(read(body)),
            Reply::Failed { .. } => None,
        }
    }

    fn number(session: &mut Session, request: &Request<'_>) -> Option<u64> {
        ask(session, request, |body| Reply::number(body).unwrap())
    }

    fn value(session: &mut Session, version: u64) -> Option<Vec<u8>> {
        let get = Request::Get {
            version,
            system: false,
            key: b"k",
        };
        ask(session, &get, |body| Reply::value(body).unwrap().map(<[u8]>::to_vec)).expect("a readable version")
    }

    fn set(value: &[u8]) -> Request<'_> {
        let mutation = Mutation {
            kind: MutationKind::Set,
            key: b"k",
            value,
        };
        Request::Commit(Commit {
            mutations: vec![mutation],
            ..Commit::default()
        })
    }

    /// Each commit between two of them made the next one copy its changed nodes.
    #[test]
    fn read_versions_of_a_batch_share_a_state_across_a_commit() {
        let (engine, space) = crate::test_engine();
        let layer = Arc::new(KeyValue::new(Arc::new(engine), space, crate::Options::default(), 1));
        let mut session = Session::new(layer.clone(), true, Arc::new(|| {}));
        session.begin_batch();
        let first = number(&mut session, &Request::ReadVersion).unwrap();
        let committed = number(&mut session, &set(b"new")).unwrap();
        assert_eq!(number(&mut session, &Request::ReadVersion), Some(first));
        session.end_batch();
        // Commits acknowledged before a batch are seen in it.
        session.begin_batch();
        let second = number(&mut session, &Request::ReadVersion).unwrap();
        assert!(second >= committed && first < committed);
        assert_eq!(value(&mut session, second).as_deref(), Some(&b"new"[..]));
        assert_eq!(value(&mut session, first), None);
        session.end_batch();
    }

    /// Any request may arrive instead of the predicted one.
    #[test]
    fn reads_ahead_change_no_answer() {
        let (engine, space) = crate::test_engine();
        let layer = Arc::new(KeyValue::new(Arc::new(engine), space, crate::Options::default(), 1));
        let mut session = Session::new(layer, true, Arc::new(|| {}));
        let before = batch(&mut session, &Request::ReadVersion);
        let mutations = [b"a", b"b", b"c"].map(|key| Mutation {
            kind: MutationKind::Set,
            key,
            value: key,
        });
        let mutations = mutations.to_vec();
        batch(
            &mut session,
            &Request::Commit(Commit {
                mutations,
                ..Commit::default()
            }),
        );
        let after = batch(&mut session, &Request::ReadVersion);
        let get = |version, key| Request::Get {
            version,
            system: false,
            key,
        };
        let read = |session: &mut Session, version, key| {
            ask(session, &get(version, key), |body| {
                Reply::value(body).unwrap().map(<[u8]>::to_vec)
            })
            .unwrap()
        };
        let keys: [&[u8]; 5] = [b"a", b"none", b"b", b"b", b"c"];
        let mut input = Vec::new();
        keys.iter().for_each(|key| get(after, key).put(1, &mut input));
        let batches: [&[&[u8]]; 4] = [
            &keys,
            &[b"b", b"a", b"c"],
            &[b"none", b"a", b"a", b"b", b"c", b"c"],
            &[],
        ];
        for batch in batches {
            session.begin_batch();
            let together = first_requests(&input, FRAME_BYTES_MAX).unwrap();
            assert_eq!(together.len(), keys.len());
            session.look_ahead(&together);
            assert_eq!(session.ahead.rows.len(), keys.len());
            for key in batch {
                assert_eq!(read(&mut session, before, key), None);
                assert_eq!(
                    read(&mut session, after, key).as_deref(),
                    (key.len() == 1).then_some(*key)
                );
            }
            session.end_batch();
            assert_eq!(session.ahead.take(after), None);
        }
    }

    fn answers(session: &mut Session, input: &[u8], ahead: bool) -> Vec<u8> {
        let (mut consumed, mut output) = (0, Vec::new());
        session.begin_batch();
        while consumed < input.len() {
            let together = first_requests(&input[consumed..], FRAME_BYTES_MAX).unwrap();
            assert!(!together.is_empty());
            if ahead {
                session.look_ahead(&together);
            }
            for (frame, request) in &together {
                session.answer(frame.id, request, &mut output);
                consumed += frame.bytes;
            }
        }
        session.end_batch();
        output
    }

    /// The same requests, once batched and once individually.
    #[test]
    fn commits_and_ranges_that_arrive_together_are_answered_as_by_themselves() {
        use quartet_model::AtomicOperation::Add;
        let numbered = |number: u64| format!("{:03}", number * 7 % 300).into_bytes();
        let keys: Vec<Vec<u8>> = (0..300).map(numbered).collect();
        let kinds = [
            MutationKind::Set,
            MutationKind::Set,
            MutationKind::Clear,
            MutationKind::Set,
            MutationKind::Atomic(Add),
            MutationKind::ClearRange,
            MutationKind::Set,
        ];
        // Some keys are written twice, some are absent, and some are deleted before they are read.
        let mutations: Vec<Mutation<'_>> = (0..700)
            .map(|place| Mutation {
                kind: kinds[place * place % kinds.len()],
                key: &keys[place * 13 % 290],
                value: &keys[place * 13 % 290 + 10],
            })
            .filter(|mutation| mutation.kind != MutationKind::ClearRange || mutation.key < mutation.value)
            .collect();
        let mut commits = Vec::new();
        for mutations in [&mutations[..], &mutations[100..]].concat().chunks(9) {
            let mutations = mutations.to_vec();
            Request::Commit(Commit {
                mutations,
                ..Commit::default()
            })
            .put(1, &mut commits);
        }
        let whole = Request::Commit(Commit {
            mutations: mutations.clone(),
            ..Commit::default()
        });
        whole.put(2, &mut commits);
        let answers = [false, true].map(|ahead| {
            let (engine, space) = crate::test_engine();
            let layer = Arc::new(KeyValue::new(Arc::new(engine), space, crate::Options::default(), 1));
            let mut session = Session::new(layer, true, Arc::new(|| {}));
            let committed = answers(&mut session, &commits, ahead);
            session.begin_batch();
            let version = number(&mut session, &Request::ReadVersion).unwrap();
            let mut ranges = Vec::new();
            for place in 0..40 {
                let bound = |key| Selector {
                    key,
                    or_equal: place % 3 == 0,
                    offset: if place % 5 == 0 { 2 } else { 1 },
                };
                Request::GetRange(RangeRequest {
                    version,
                    begin: bound(&keys[place]),
                    end: bound(if place % 4 == 0 { b"9" } else { &keys[place + 1] }),
                    rows_max: place as u32 % 30,
                    bytes_max: 0,
                    reverse: place % 2 == 0,
                    system: false,
                })
                .put(3, &mut ranges);
            }
            let read = answers(&mut session, &ranges, ahead);
            assert!(read.len() > 1000);
            (committed, version, read)
        });
        assert_eq!(answers[0], answers[1]);
    }

    fn batch(session: &mut Session, request: &Request<'_>) -> u64 {
        session.begin_batch();
        let answer = number(session, request).unwrap();
        session.end_batch();
        answer
    }

    /// The states of its first commits stayed for seconds, and every write meanwhile copied what it
    /// changed.
    #[test]
    fn a_busy_client_without_named_versions_retains_no_state() {
        let (engine, space) = crate::test_engine();
        let layer = Arc::new(KeyValue::new(Arc::new(engine), space, crate::Options::default(), 1));
        let commits = |count, then_kept| {
            let mut session = Session::new(layer.clone(), true, Arc::new(|| {}));
            (0..count).for_each(|_| _ = batch(&mut session, &set(b"v")));
            assert_eq!(layer.versions.count() > 0, then_kept, "after {count} commits");
        };
        commits(COMMITS_KEPT - 1, true);
        commits(COMMITS_KEPT, false);
        layer.versions.named(layer.engine.now_micros());
        commits(2 * COMMITS_KEPT, true);
    }

    /// With 64 states kept for clients that had named no version yet, bindingtester's `api` with
    /// seed 8 read later writes: it names its first version after hundreds of commits and read
    /// versions.
    #[test]
    fn a_client_that_names_its_first_version_late_sees_the_state_at_it() {
        let (engine, space) = crate::test_engine();
        let layer = Arc::new(KeyValue::new(Arc::new(engine), space, crate::Options::default(), 1));
        let mut session = Session::new(layer, true, Arc::new(|| {}));
        for _ in 0..300 {
            batch(&mut session, &set(b"early"));
            let version = batch(&mut session, &Request::ReadVersion);
            session.answer(2, &Request::Release { version }, &mut Vec::new());
        }
        let committed = batch(&mut session, &set(b"committed"));
        batch(&mut session, &set(b"later"));
        let read = batch(&mut session, &Request::ReadVersion);
        session.answer(2, &Request::Release { version: read }, &mut Vec::new());
        batch(&mut session, &set(b"latest"));
        for (version, expected) in [(committed, &b"committed"[..]), (read, b"later")] {
            assert_eq!(batch(&mut session, &Request::OpenVersion { version }), version);
            assert_eq!(value(&mut session, version).as_deref(), Some(expected));
        }
    }
}
