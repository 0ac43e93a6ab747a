//! The flusher of a node that shares its log: it carries out what the replicated log's machines
//! report.
//!
//! ```text
//! follower   record --> applied under the lock --> own file log --> published
//! home       epoch that has gathered --> sequencer --> durable there --> own file log --> published
//! ```
//!
//! The file log is written after the sequencer's confirmation and synced each second, so it never
//! holds records that could be undone. A home that is deposed with unconfirmed commits reloads its
//! state from the store's files and that log.
//!
//! Nothing here waits for the sequencer. The file log is waited for, as by any flusher.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_log::LogError;
use quartet_log_replicated::{Content, Delivery, Moment, Position as Place, StopReason};
use quartet_model::{LogSequence, Version};
use quartet_store::{PartitionSnapshot, Position, Store, state_hash};

use super::control::{GATHER, LOCK_TIMEOUT, SYNC_INTERVAL};
use super::log_end::reusable;
use super::worker::Worker;
use crate::durability::epochs::Epoch;
use crate::durability::job::Job;
use crate::flusher::shared_log::{Edge, EpochInFlight, Flight, Sharing, Unwritten};
use crate::partition::state::ApplyError;
use crate::replication::TRANSACTION_EFFECTS_MAX;
use crate::replication::chores::Reached;
use crate::replication::place::{Kind, Placed};
use crate::replication::replica::Happening;
use crate::standing::{Condition, Copied, Role, StateHash};

/// A follower that has much to apply lets the lock go after as many bytes of records: about ten
/// milliseconds of work.
const APPLIED_AT_ONCE_BYTES: usize = 256 << 10;
/// Time for which a stopping server waits until its last commits are confirmed.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// The position of a checkpoint of `version`. The file log may continue with parts of an incomplete
/// group: a node's position is given by the last whole record, which has to stay in it.
fn whole(sharing: &Sharing, version: Version) -> Position {
    let sequence = sharing.written.sequence;
    Position { sequence, version }
}

impl Worker {
    /// One turn of a node that shares its log. True if a stop has to wait for confirmations.
    pub(super) fn sharing_turn(&mut self, stopping: bool) -> Result<bool, LogError> {
        let Some(mut sharing) = self.sharing.take() else {
            return Ok(false);
        };
        let turned = self.turn_sharing(&mut sharing, stopping);
        self.sharing = Some(sharing);
        self.tend()?;
        turned
    }

    fn turn_sharing(&mut self, sharing: &mut Sharing, stopping: bool) -> Result<bool, LogError> {
        let now = Moment(self.now());
        sharing.standing.turns(now.0);
        self.write_down(sharing)?;
        while sharing.unwritten.is_empty()
            && let Some(happening) = sharing.replica.next(now)
        {
            self.carry_out(sharing, happening)?;
        }
        if sharing.replica.give_up(now) {
            tracing::error!(
                "the object store does not answer: this node ends its term, and what was committed behind the last \
                 large transaction never happened"
            );
            sharing.standing.figures.lock().given_up += 1;
            self.carry_out(sharing, Happening::Deposed { has_landed: false })?;
        }
        self.show_limit(sharing);
        self.look_at_hashes(sharing);
        if sharing.standing.wishes.take_over.swap(false, Ordering::SeqCst) && !stopping {
            sharing.replica.take_over();
        }
        self.launch(sharing, stopping)?;
        if sharing.replica.is_following() {
            self.tend_follower(sharing)?;
        }
        self.sync_own_log(sharing)?;
        let clock_us = self.shared.clock.now_micros();
        // Above the last version: the floor is a version in each file log.
        let floor = Version(clock_us.max(self.shared.durable().0 + 1));
        let reached = Reached {
            applied: sharing.written.sequence,
            synced: sharing.synced,
            archived: LogSequence(sharing.standing.wishes.archived.load(Ordering::SeqCst)).min(sharing.synced),
            clock_us,
        };
        sharing.replica.send(now, floor, reached);
        self.show(sharing, now);
        Ok(stopping && self.may_confirm(sharing))
    }

    /// Returns true while a home that stops may still have its last commits confirmed.
    fn may_confirm(&mut self, sharing: &mut Sharing) -> bool {
        let now = self.now();
        let since = *sharing.stopping_since.get_or_insert(now);
        sharing.replica.home().is_some() && self.is_ahead(sharing) && now - since < STOP_WITHIN
    }

    /// Returns true if the state holds what the file log does not.
    fn is_ahead(&self, sharing: &Sharing) -> bool {
        let partition = self.shared.partition.borrow();
        let gathers = !partition.pending.is_empty() || !partition.full_epochs.queue.is_empty();
        let is_in_flight = matches!(sharing.flight, Some(Flight::Epoch(_))) || !sharing.waiting.is_empty();
        gathers || is_in_flight || !sharing.unwritten.is_empty()
    }

    /// Returns true if the store may be flushed as it is when the server ends.
    pub(super) fn is_at_its_log(&self) -> bool {
        self.sharing
            .as_ref()
            .is_none_or(|sharing| !self.is_ahead(sharing) && sharing.written.sequence == self.end.tail)
    }

    fn carry_out(&mut self, sharing: &mut Sharing, happening: Happening) -> Result<(), LogError> {
        match happening {
            Happening::Deliver(deliveries) => self.deliver(sharing, deliveries),
            Happening::Won(delivery) => {
                self.deliver(sharing, vec![delivery])?;
                self.shared.partition.begin_term();
                sharing.standing.begin_home();
                sharing.standing.figures.lock().take_overs += 1;
                let mut partition = self.shared.partition.borrow();
                (partition.is_home, partition.follows) = (true, false);
                Ok(())
            }
            Happening::Appended(place, is_whole) => self.appended(sharing, place, is_whole),
            Happening::Deposed { has_landed } => {
                sharing.standing.figures.lock().depositions += 1;
                self.end_home(sharing, has_landed)?;
                sharing.replica.follow(sharing.written);
                self.shared.partition.borrow().follows = true;
                Ok(())
            }
            Happening::Ended(reason) => self.ended(sharing, reason),
        }
    }

    /// Applies records in the log's order, and appends them to the file log. After an absence there
    /// are many: the lock is released between pieces.
    fn deliver(&mut self, sharing: &mut Sharing, deliveries: Vec<Delivery>) -> Result<(), LogError> {
        let mut deliveries = deliveries.into_iter().peekable();
        while deliveries.peek().is_some() {
            let (mut piece, mut bytes) = (Vec::new(), 0);
            while let Some(delivery) = deliveries.next_if(|_| bytes < APPLIED_AT_ONCE_BYTES) {
                bytes += delivery.stored_bytes;
                piece.push(delivery);
            }
            if !self.deliver_piece(sharing, piece)? {
                break;
            }
        }
        Ok(())
    }

    /// Applies records in one hold of the lock. False: one cannot be applied, and nothing more is.
    fn deliver_piece(&mut self, sharing: &mut Sharing, deliveries: Vec<Delivery>) -> Result<bool, LogError> {
        let shared = self.shared.clone();
        let mut partition = shared.partition.borrow();
        let mut failed = None;
        for delivery in deliveries {
            let Delivery {
                position,
                stored_bytes,
                content,
            } = delivery;
            let applied = match &content {
                Content::Epoch(epoch) => partition.apply(epoch, &shared.stored),
                Content::Term { floor, .. } => partition.begin_term(*floor),
                Content::Part | Content::Mark | Content::Hash { .. } => Ok(()),
            };
            match applied {
                Ok(()) => {}
                Err(ApplyError::Store(error)) => return Err(LogError::Failing(error.into())),
                Err(ApplyError::Record) => {
                    failed = Some(StopReason::Inapplicable { at: position.sequence });
                    break;
                }
            }
            match content {
                Content::Mark => self.begin_hash(sharing, position.sequence, partition.snapshot()),
                Content::Hash { at, state } => {
                    sharing.homes_hash = Some((at, state));
                    sharing.standing.figures.lock().recorded_hash = Some(StateHash { at, hash: state });
                }
                _ => {}
            }
            sharing.replica.applied(position.sequence, stored_bytes);
            sharing.unwritten.push_back(Unwritten {
                place: position,
                is_part: matches!(content, Content::Part),
                payload: payload_of(content),
            });
        }
        let (version, garbage) = (partition.last_version(), std::mem::take(&mut partition.garbage));
        shared.note_gathered(&partition);
        drop(partition);
        for (database, cleared) in garbage {
            shared.stored.freed(database, &cleared);
        }
        self.write_down(sharing)?;
        shared.publish_durable(version);
        match failed {
            None => Ok(true),
            Some(reason) => self.ended(sharing, reason).map(|()| false),
        }
    }

    /// Takes what is confirmed to the file log, as far as the disk has room.
    fn write_down(&mut self, sharing: &mut Sharing) -> Result<(), LogError> {
        while let Some(Unwritten {
            place,
            is_part,
            payload,
        }) = sharing.unwritten.front()
        {
            // Parts of a group may be there from before.
            if place.sequence > self.end.tail {
                let placed = Placed {
                    position: *place,
                    kind: Kind::of(*is_part),
                    before: sharing.chained,
                };
                match self.log.append(self.end.tail, &[&placed.encode(), payload]) {
                    Ok(tail) => (self.end.tail, sharing.chained) = (tail, place.hash),
                    Err(LogError::NoRoom { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
                let statistics = &self.shared.statistics;
                statistics.epochs.fetch_add(1, Ordering::Relaxed);
                statistics
                    .epoch_bytes
                    .fetch_add(payload.len() as u64, Ordering::Relaxed);
                self.checkpoints.log_bytes += payload.len() as u64;
                self.end.durable = self.end.tail;
                self.shared.log_readers.publish_durable(self.end.tail);
            }
            if !is_part {
                sharing.written = *place;
            }
            sharing.unwritten.pop_front();
        }
        Ok(())
    }

    fn sync_own_log(&mut self, sharing: &mut Sharing) -> Result<(), LogError> {
        if self.now() - self.end.last_sync >= SYNC_INTERVAL {
            self.sync_sharing(sharing)?;
        }
        Ok(())
    }

    fn sync_sharing(&mut self, sharing: &mut Sharing) -> Result<(), LogError> {
        self.log.sync()?;
        self.end.last_sync = self.now();
        sharing.synced = sharing.written.sequence;
        Ok(())
    }

    /// Passes the gathered epoch to the sequencer, if no epoch is in flight.
    fn launch(&mut self, sharing: &mut Sharing, stopping: bool) -> Result<(), LogError> {
        if sharing.replica.home().is_none() {
            return Ok(());
        }
        self.take_full_epochs(sharing);
        let is_free = sharing.flight.is_none() && sharing.unwritten.is_empty();
        let wishes = &sharing.standing.wishes;
        let is_wished = wishes.mark.load(Ordering::SeqCst) || wishes.copy.load(Ordering::SeqCst);
        let is_waited_for = stopping || is_wished || self.shared.waited_for.load(Ordering::SeqCst);
        let is_due = is_waited_for || !sharing.waiting.is_empty() || self.now() - sharing.last_take >= GATHER;
        if !is_free || !is_due {
            return Ok(());
        }
        if let Some((at, state)) = sharing.unsent_hash.take() {
            let taken = sharing
                .replica
                .home()
                .map(|serving| serving.home.append_hash(at, state));
            if let Some(Ok(_)) = taken {
                sharing.flight = Some(Flight::Hash(StateHash { at, hash: state }));
            }
            return Ok(());
        }
        let Some((epoch, edge)) = self.take_epoch(sharing) else {
            return Ok(());
        };
        sharing.last_take = self.now();
        if epoch.payload.is_empty() {
            let version = epoch.version;
            self.spare = epoch.payload.into_buffer();
            return self.reached_edge(sharing, edge, version);
        }
        let bytes = epoch.payload.parts().concat();
        let taken = sharing.replica.home().map(|serving| serving.home.append(bytes));
        if let Some(Err(error)) = taken {
            tracing::error!(%error, "an epoch was not taken by the replicated log");
            return Err(LogError::Failed);
        }
        sharing.flight = Some(Flight::Epoch(Box::new(EpochInFlight { epoch, edge })));
        self.note_in_flight(sharing);
        Ok(())
    }

    /// Takes what the lock's holders have queued, so that none of them waits for the sequencer.
    fn take_full_epochs(&mut self, sharing: &mut Sharing) {
        let shared = self.shared.clone();
        let Some(mut partition) = shared.partition.borrow_within(LOCK_TIMEOUT) else {
            return;
        };
        if !partition.full_epochs.queue.is_empty() {
            sharing.waiting.extend(shared.partition.pop_all(&mut partition));
            self.note_in_flight(sharing);
            shared.note_gathered(&partition);
        }
    }

    fn note_in_flight(&self, sharing: &Sharing) {
        let in_flight = match &sharing.flight {
            Some(Flight::Epoch(flight)) => flight.epoch.payload.len(),
            _ => 0,
        };
        let waiting: usize = sharing.waiting.iter().map(|epoch| epoch.payload.len()).sum();
        let bytes = (in_flight + waiting) as u64;
        self.shared.pressure.in_flight_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The next epoch, with the state at its end if no commits follow it.
    fn take_epoch(&mut self, sharing: &mut Sharing) -> Option<(Epoch, Edge)> {
        if let Some(full) = sharing.waiting.pop_front() {
            return Some((full, Edge::default()));
        }
        let shared = self.shared.clone();
        let mut partition = shared.partition.borrow_within(LOCK_TIMEOUT)?;
        if let Some(full) = shared.partition.pop(&mut partition) {
            return Some((full, Edge::default()));
        }
        let epoch = partition.close_epoch(std::mem::take(&mut self.spare), &shared.room);
        let garbage = std::mem::take(&mut partition.garbage);
        shared.partition.tidy(&mut partition);
        let forgotten = partition.forget_changes(shared.durable(), shared.clock.now_micros());
        let wishes = &sharing.standing.wishes;
        let flush = self
            .checkpoint_wanted(&partition.store)
            .then(|| partition.store.begin_flush());
        let edge = Edge {
            flush,
            marked: (sharing.hashing.is_none() && wishes.mark.swap(false, Ordering::SeqCst))
                .then(|| partition.snapshot()),
            copied: wishes.copy.swap(false, Ordering::SeqCst).then(|| partition.snapshot()),
        };
        if edge.flush.is_some() {
            shared
                .statistics
                .transactions_since_checkpoint
                .store(0, Ordering::Relaxed);
            self.checkpoints.flush_begins(partition.store.unflushed_bytes());
        }
        shared.note_gathered(&partition);
        drop(partition);
        drop(forgotten);
        for (database, cleared) in garbage {
            shared.stored.freed(database, &cleared);
        }
        Some((epoch, edge))
    }

    /// A record of this home's is durable.
    fn appended(&mut self, sharing: &mut Sharing, place: Place, is_whole: bool) -> Result<(), LogError> {
        if !is_whole {
            let (is_part, payload) = (true, Vec::new());
            sharing.unwritten.push_back(Unwritten {
                place,
                is_part,
                payload,
            });
            return self.write_down(sharing);
        }
        let flight = sharing.flight.take();
        self.note_in_flight(sharing);
        let payload = match &flight {
            Some(Flight::Epoch(flight)) => flight.epoch.payload.parts().concat(),
            _ => Vec::new(),
        };
        let shared = self.shared.clone();
        let appending = shared.room.appending();
        let bytes = payload.len();
        sharing.unwritten.push_back(Unwritten {
            place,
            is_part: false,
            payload,
        });
        self.write_down(sharing)?;
        if bytes > 0 {
            shared.room.appended(bytes);
        }
        drop(appending);
        match flight {
            Some(Flight::Epoch(flight)) => {
                let EpochInFlight { epoch, edge } = *flight;
                let version = epoch.version;
                self.spare = reusable(epoch.payload);
                // Before waiting replies are checked: the append has confirmed them as well.
                if let Some(serving) = sharing.replica.home() {
                    let below = serving.home.confirmed_below().0;
                    sharing.standing.confirmed(below, serving.home.relaxed_evidence());
                }
                shared.publish_durable(version);
                self.reached_edge(sharing, edge, version)
            }
            Some(Flight::Mark(snapshot)) => {
                self.begin_hash(sharing, place.sequence, *snapshot);
                Ok(())
            }
            Some(Flight::Hash(hash)) => {
                sharing.standing.figures.lock().recorded_hash = Some(hash);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Everything up to `version` is confirmed and written down, and the state was as `edge` has
    /// it.
    fn reached_edge(&mut self, sharing: &mut Sharing, edge: Edge, version: Version) -> Result<(), LogError> {
        if let Some(snapshot) = edge.copied {
            // While the disk is full the file log ends before the state.
            if !sharing.unwritten.is_empty() {
                sharing.standing.wishes.copy.store(true, Ordering::SeqCst);
                return self.reached_edge(sharing, Edge { copied: None, ..edge }, version);
            }
            let place = sharing.written;
            *sharing.standing.copied.lock() = Some(Copied {
                snapshot,
                place,
                version,
            });
        }
        if let Some(snapshot) = edge.marked {
            let taken = sharing.replica.home().map(|serving| serving.home.append_mark());
            if let Some(Ok(_)) = taken {
                sharing.flight = Some(Flight::Mark(Box::new(snapshot)));
            }
        }
        if let Some(flush) = edge.flush {
            // While the disk is full the file log ends before the state.
            if !sharing.unwritten.is_empty() {
                self.give_up_checkpoint("the disk is full".into());
                return Ok(());
            }
            self.sync_sharing(sharing)?;
            self.start_checkpoint(flush, whole(sharing, version));
        }
        Ok(())
    }

    /// A follower's checkpoints and copies.
    fn tend_follower(&mut self, sharing: &mut Sharing) -> Result<(), LogError> {
        let is_whole = sharing.replica.position().is_some_and(|(_, is_whole)| is_whole);
        if !is_whole || !sharing.unwritten.is_empty() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let Some(mut partition) = shared.partition.borrow_within(LOCK_TIMEOUT) else {
            return Ok(());
        };
        shared.partition.tidy(&mut partition);
        let version = partition.last_version();
        if sharing.replica.is_verified() && sharing.standing.wishes.copy.swap(false, Ordering::SeqCst) {
            let (snapshot, place) = (partition.snapshot(), sharing.written);
            *sharing.standing.copied.lock() = Some(Copied {
                snapshot,
                place,
                version,
            });
        }
        if self.checkpoint_wanted(&partition.store) {
            let flush = partition.store.begin_flush();
            self.checkpoints.flush_begins(partition.store.unflushed_bytes());
            drop(partition);
            self.sync_sharing(sharing)?;
            self.start_checkpoint(flush, whole(sharing, version));
        }
        Ok(())
    }

    /// Ends this node's role as home. Nothing executes; unconfirmed commits never happened here.
    /// `has_landed`: the epoch in flight is durable, and replies that depend on it may be sent. It
    /// is read from the log again, as part of the history after `written`.
    fn end_home(&mut self, sharing: &mut Sharing, has_landed: bool) -> Result<(), LogError> {
        let mut partition = self.shared.partition.borrow();
        partition.is_home = false;
        self.shared.partition.end_term(&mut partition);
        drop(partition);
        let confirmed = match (&sharing.flight, has_landed) {
            (Some(Flight::Epoch(flight)), true) => flight.epoch.version,
            _ => self.shared.durable(),
        };
        if let Some(serving) = sharing.replica.home() {
            sharing.standing.confirmed(serving.home.confirmed_below().0, None);
        }
        sharing.standing.end_home(confirmed);
        // The request for a hand-over was for this term, not for a later term of this node.
        sharing.standing.wishes.drain_until_micros.store(0, Ordering::SeqCst);
        self.shared.partition.release();
        let is_ahead = self.is_ahead(sharing);
        let flight = sharing.flight.take();
        sharing.waiting.clear();
        self.note_in_flight(sharing);
        if let Some(Flight::Epoch(flight)) = flight
            && flight.edge.flush.is_some()
        {
            self.give_up_checkpoint("another is home".into());
        }
        sharing.unsent_hash = None;
        if is_ahead {
            sharing.standing.figures.lock().roll_backs += 1;
            sharing.standing.set_role(Role::RollingBack);
            self.roll_back()?;
        }
        self.shared.room.forget_taken();
        self.shared.tell_waiting();
        Ok(())
    }

    /// Reloads the state of the store's files and the file log.
    fn roll_back(&mut self) -> Result<(), LogError> {
        if let Some(running) = self.checkpoints.running.take() {
            let shared = self.shared.clone();
            self.end_checkpoint(running, shared.partition.borrow())?;
        }
        let confirmed = self
            .confirmed_state()
            .map_err(|error| LogError::Failing(error.into()))?;
        let mut partition = self.shared.partition.borrow();
        let recounted = self.shared.stored.recount(&confirmed.store);
        recounted.map_err(|error| LogError::Failing(error.into()))?;
        partition.roll_back_to(confirmed.store, confirmed.version);
        tracing::warn!(
            version = confirmed.version.0,
            "another is home: this node is back at what the log has confirmed"
        );
        Ok(())
    }

    fn ended(&mut self, sharing: &mut Sharing, reason: StopReason) -> Result<(), LogError> {
        sharing.replica.end();
        self.shared.partition.borrow().follows = false;
        if sharing.standing.has_term() {
            self.end_home(sharing, false)?;
        }
        match reason {
            StopReason::Trimmed { .. } => {
                tracing::warn!(%reason, "this node has been away for too long, and needs a copy");
                sharing.standing.set_role(Role::Copying);
            }
            reason => {
                tracing::error!(%reason, "this node has stopped: an operator must decide");
                sharing.standing.set_role(Role::Stopped(reason));
            }
        }
        Ok(())
    }

    fn begin_hash(&self, sharing: &mut Sharing, at: LogSequence, snapshot: PartitionSnapshot) {
        if sharing.hashing.is_some() {
            return;
        }
        let hash = move || state_hash(&snapshot, None);
        let started = Job::start(self.shared.runtime.as_ref(), "state-hash", hash);
        sharing.hashing = started.ok().map(|job| (at, job));
        sharing.hashing_since = self.shared.runtime.now();
    }

    /// Takes a state hash that is done, and compares it with the home's. The majority of nodes
    /// decides which of the two copies the other (`quartet_cluster::divergence`).
    fn look_at_hashes(&mut self, sharing: &mut Sharing) {
        if let Some((at, job)) = sharing.hashing.take_if(|(_, job)| job.is_finished())
            && let Some(Ok(hash)) = job.join()
        {
            let mut figures = sharing.standing.figures.lock();
            figures.marks += 1;
            figures.hash_micros = (self.shared.runtime.now() - sharing.hashing_since).as_micros() as u64;
            figures.own_hash = Some(StateHash { at, hash });
            drop(figures);
            sharing.own_hash = Some((at, hash));
            if sharing.replica.home().is_some() {
                sharing.unsent_hash = Some((at, hash));
            }
        }
        if let (Some((own_at, own)), Some((homes_at, homes))) = (sharing.own_hash, sharing.homes_hash)
            && own_at == homes_at
            && own != homes
        {
            tracing::error!(record = own_at.0, "the state differs from the home's");
            sharing.standing.figures.lock().hash_mismatches += 1;
            sharing.own_hash = None;
        }
    }

    /// Raises the limit of transactions to the object store's, while that answers. A transaction
    /// above the limit is refused before it commits.
    fn show_limit(&mut self, sharing: &mut Sharing) {
        let takes_objects = sharing.replica.takes_objects();
        if takes_objects == sharing.takes_objects {
            return;
        }
        let shared = self.shared.clone();
        if let Some(mut partition) = shared.partition.borrow_within(LOCK_TIMEOUT) {
            partition.effects_bytes_max = match takes_objects {
                true => usize::MAX,
                false => TRANSACTION_EFFECTS_MAX,
            };
            sharing.takes_objects = takes_objects;
        }
    }

    /// Publishes the state of this node.
    fn show(&mut self, sharing: &mut Sharing, now: Moment) {
        let (standing, replica) = (&sharing.standing, &mut sharing.replica);
        let Some((position, _)) = replica.position() else {
            return;
        };
        let (is_uncertain, is_cut_off) = (replica.is_uncertain(now), replica.is_cut_off(now));
        let drain_until = standing.wishes.drain_until_micros.load(Ordering::SeqCst);
        let drains = now.0.as_micros() < u128::from(drain_until);
        let mut is_news = false;
        let role = if let Some(serving) = replica.home() {
            is_news = standing.confirmed(serving.home.confirmed_below().0, serving.home.relaxed_evidence());
            let condition = match (is_uncertain || !sharing.unwritten.is_empty(), drains) {
                (true, _) => Condition::Uncertain,
                (false, false) => Condition::Sure,
                (false, true) => Condition::Draining,
            };
            let term = serving.home.term().term;
            Role::Home { term, condition }
        } else if replica.is_candidate() {
            Role::Candidate { term: position.term }
        } else {
            let has_home = position.term != quartet_log_replicated::Term::ZERO;
            Role::Following {
                term: position.term,
                home: has_home.then_some(position.writer),
            }
        };
        let confirmed_reads = replica.reads_confirmed_below().0;
        let (lag_records, lag_millis) = replica.lag(now);
        let mut figures = standing.figures.lock();
        (figures.term, figures.home_node) = (position.term.0, position.writer.node.0);
        figures.is_home = matches!(role, Role::Home { .. });
        figures.is_cut_off = is_cut_off;
        (figures.applied, figures.synced) = (sharing.written.sequence.0, sharing.synced.0);
        (figures.lag_records, figures.lag_millis) = (lag_records, lag_millis);
        replica.note_chores(&mut figures);
        let pace = replica.pace();
        figures.answer_micros = pace.usual().as_micros() as u64;
        figures.uncertain_after_micros = pace.uncertain_after().as_micros() as u64;
        figures.is_suspended = standing.is_suspended();
        drop(figures);
        let is_silent = replica.is_to_be_suspended(now);
        self.suspend_or_resume(sharing, is_silent, is_cut_off);
        self.show_role(sharing, role);
        // After the role: a read may depend on the home of the state that it sees.
        let are_reads_news = sharing.standing.confirmed_reads(confirmed_reads);
        if is_news || are_reads_news {
            self.shared.tell_waiting();
        }
    }

    /// Suspends a home while the sequencer does not answer: it executes nothing,
    /// refuses requests at once, and reports waiting replies as of unknown outcome.
    fn suspend_or_resume(&self, sharing: &Sharing, is_silent: bool, is_cut_off: bool) {
        let standing = &sharing.standing;
        let suspends = is_silent && standing.is_home();
        let resumes = !is_cut_off && standing.is_suspended();
        if !suspends && !resumes {
            return;
        }
        let Some(mut partition) = self.shared.partition.borrow_within(LOCK_TIMEOUT) else {
            return;
        };
        if suspends {
            partition.is_home = false;
            drop(partition);
            tracing::warn!("the sequencer does not answer: requests are refused until it does");
            standing.suspend(self.shared.durable());
            standing.figures.lock().suspensions += 1;
            self.shared.partition.release();
        } else {
            standing.resume();
            partition.is_home = true;
            drop(partition);
            tracing::info!("the sequencer answers again");
        }
        self.shared.tell_waiting();
    }

    /// Refuses commits before the role says so.
    fn show_role(&self, sharing: &Sharing, mut role: Role) {
        let refuses = !matches!(
            role,
            Role::Home {
                condition: Condition::Sure,
                ..
            }
        );
        if self.shared.room.refuse(refuses) && refuses {
            self.shared.partition.release();
        }
        if let Role::Home { condition, .. } = &mut role
            && *condition == Condition::Draining
            && !self.is_ahead(sharing)
            && sharing.standing.is_all_confirmed()
        {
            *condition = Condition::Drained;
        }
        sharing.standing.set_role(role);
    }
}

/// Returns the part of a record that the file log has: a term's floor is the version of an empty
/// transaction.
fn payload_of(content: Content) -> Vec<u8> {
    match content {
        Content::Epoch(epoch) => epoch,
        Content::Term { floor, .. } => [&floor.0.to_le_bytes()[..], &[0; 4]].concat(),
        Content::Part | Content::Mark | Content::Hash { .. } => Vec::new(),
    }
}
