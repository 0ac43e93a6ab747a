//! The state of a node of a replicated log, shared by all threads: its role, and whether a reply
//! may be sent.
//!
//! A reply depends on a version, which must be durable, and requires evidence that this node was
//! home after the arrival of the request. Attempts to obtain that evidence are numbered when they
//! are sent; a request records the last number at its arrival, and a successful attempt with a
//! higher number confirms it (`quartet_log_replicated`). The log's thread raises `sent` before it
//! sends, so a request that arrives after the sending records at least that number.
//!
//! Numbers restart with each home, and after a rollback a version may be assigned again to other
//! content. So arrivals carry the *generation*, which increases whenever this node becomes home or
//! ceases to be: odd while it is home. When it ceases to be, the state that was durable and
//! confirmed at that time is kept: replies that depend on nothing else are still sent. All other
//! replies of an earlier home are lost.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_log_replicated::{EVIDENCE_LASTS, Moment, Position, StopReason, Term, Writer};
use quartet_model::{LogSequence, Version};
use quartet_store::PartitionSnapshot;

use crate::options::Durability;

/// A node's part in its partition's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The log is this node's own: it is always home.
    Alone,
    /// It applies what others append.
    Following {
        /// The running term.
        term: Term,
        /// Its home; `None` before the first.
        home: Option<Writer>,
    },
    /// It tries to take over.
    Candidate {
        /// The term that it would end.
        term: Term,
    },
    /// It executes transactions.
    Home {
        /// Its term.
        term: Term,
        /// Whether it commits.
        condition: Condition,
    },
    /// It was deposed with unconfirmed commits, and reloads its state.
    RollingBack,
    /// The sequencer has dropped the next record: the node needs a copy in an empty directory.
    Copying,
    /// Its history contradicts the sequencer. It serves nothing until an operator decides.
    Stopped(StopReason),
}

/// Whether a home commits. Commits are refused unless it is `Sure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It does.
    Sure,
    /// The sequencer has not answered for a second, has no room, or keeps more than it should for
    /// want of copies.
    Uncertain,
    /// The node shall hand over, and some state is not confirmed yet.
    Draining,
    /// The node shall hand over, and everything is confirmed.
    Drained,
}

/// The arrival of a request, which determines how its reply may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    generation: u32,
    is_relaxed: bool,
    /// Its reply says nothing of the data.
    is_of_the_node: bool,
    /// Attempts sent before it.
    number: u64,
}

impl Arrival {
    /// The arrival of a request whose reply tells of this node alone: it waits for nobody, whoever
    /// is home.
    pub fn of_the_node() -> Arrival {
        Arrival {
            is_of_the_node: true,
            ..Arrival::default()
        }
    }

    /// An arrival that differs from those of other numbers, for tests of types that keep arrivals.
    #[doc(hidden)]
    pub fn numbered(number: u64) -> Arrival {
        Arrival {
            number,
            ..Arrival::default()
        }
    }
}

/// A time in which a node follows the log without being home: it ends when the node becomes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowingPeriod {
    generation: u32,
}

/// The arrival of a request that is to be read here although another node is home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadArrival {
    period: FollowingPeriod,
    /// Ranges of the log sent before it.
    number: u64,
}

impl ReadArrival {
    /// The request may be read here until this ends.
    pub fn period(self) -> FollowingPeriod {
        self.period
    }
}

/// Whether a reply may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It may.
    Yes,
    /// Not yet: the listeners of [`Engine::on_durable`](crate::Engine::on_durable) are called when
    /// that may have changed.
    NotYet,
    /// It never may: the home that executed the request is deposed, and the outcome is unknown.
    Lost,
}

/// The hash of all rows as of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash {
    /// The record.
    pub at: LogSequence,
    /// The hash.
    pub hash: u128,
}

/// Figures of a node of a replicated log; all zero for a log of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// The running term, as far as is known here.
    pub term: u64,
    /// The node that is its home.
    pub home_node: u64,
    /// True if the home is this node.
    pub is_home: bool,
    /// True if this node is home and the sequencer has left a request of its without an answer for
    /// a second.
    pub is_cut_off: bool,
    /// Milliseconds since the last turn of the log's thread: it waits for its own disk.
    pub stalled_millis: u64,
    /// The last record that is confirmed and applied here.
    pub applied: u64,
    /// The last record that is durable in the own file log.
    pub synced: u64,
    /// Number of known records after `applied`.
    pub lag_records: u64,
    /// Milliseconds since this node last had everything; zero at home.
    pub lag_millis: u64,
    /// Records appended.
    pub appends: u64,
    /// Their bytes, as stored.
    pub append_bytes: u64,
    /// Microseconds from the last append's first sending to its answer.
    pub append_micros: u64,
    /// Microseconds that the sequencer usually takes to answer this node as home.
    pub answer_micros: u64,
    /// A home that has been without an answer for as long is uncertain.
    pub uncertain_after_micros: u64,
    /// True while this node is home and executes nothing, because the sequencer is silent.
    pub is_suspended: bool,
    /// Times that it was.
    pub suspensions: u64,
    /// Reads of `term` that showed this node to be home.
    pub confirmations: u64,
    /// Reads of the log for requests that were answered here while another node was home.
    pub replica_ranges: u64,
    /// Such requests.
    pub replica_reads: u64,
    /// Requests without an answer.
    pub unknown_answers: u64,
    /// Number of terms that this node has started.
    pub take_overs: u64,
    /// Terms lost.
    pub depositions: u64,
    /// Number of reloads of the state.
    pub roll_backs: u64,
    /// State hashes taken.
    pub marks: u64,
    /// State hashes that differed from the home's.
    pub hash_mismatches: u64,
    /// Microseconds that the last state hash took, beside other work.
    pub hash_micros: u64,
    /// The last state hash taken.
    pub own_hash: Option<StateHash>,
    /// The last state hash in the log, a home's.
    pub recorded_hash: Option<StateHash>,
    /// Records below are dropped from the sequencer.
    pub trimmed_below: u64,
    /// Bytes of records that the sequencer holds, as counted at home.
    pub window_bytes: u64,
    /// Bytes of records that the sequencer may hold before writes are refused.
    pub budget_bytes: u64,
    /// True while this node is home and commits nothing.
    pub is_uncertain: bool,
    /// How far the clock of this node's machine is ahead of most nodes' clocks, in microseconds.
    pub clock_ahead_micros: i64,
    /// The part of it that is taken off this node's times.
    pub clock_correction_micros: i64,
    /// True while this node is home and the store of objects has answered everything.
    pub object_store_answers: bool,
    /// Pieces of objects that this node has given to the store.
    pub object_pieces: u64,
    /// Terms that this node has ended because the store of objects was away.
    pub given_up: u64,
    /// Pieces of objects that this node has removed from the store.
    pub objects_removed: u64,
}

/// The state after a confirmed record, for a copy.
pub(crate) struct Copied {
    pub snapshot: PartitionSnapshot,
    pub place: Position,
    pub version: Version,
}

/// Requests of other threads to the log's thread.
#[derive(Default)]
pub(crate) struct Wishes {
    pub take_over: AtomicBool,
    /// End of the refusal of commits, in microseconds of the runtime's clock; zero if not.
    pub drain_until_micros: AtomicU64,
    pub mark: AtomicBool,
    pub copy: AtomicBool,
    /// The last record that is archived.
    pub archived: AtomicU64,
}

/// The reads at a node that is not home. The numbers never restart.
#[derive(Default)]
struct Reads {
    /// Ranges of the log sent for them.
    sent: AtomicU64,
    /// Reads with lower numbers are in what is applied.
    confirmed_below: AtomicU64,
    /// The highest waiting arrival plus one; zero without any.
    wanted: AtomicU64,
    /// Ranges of the log that were sent only for them, and requests that were answered.
    ranges: AtomicU64,
    answered: AtomicU64,
}

/// The last that was shown of this node while it was home.
#[derive(Default)]
struct Ended {
    generation: u32,
    /// It had handed over: all that it had committed was durable.
    was_drained: bool,
    /// Its replies may rest on versions up to this.
    durable: Version,
    confirmed_below: u64,
}

pub(crate) struct Standing {
    generation: AtomicU32,
    sent: AtomicU64,
    confirmed_below: AtomicU64,
    /// The highest waiting arrival plus one; zero without any.
    wanted: AtomicU64,
    /// Time before which relaxed replies are sent immediately, in microseconds of the runtime's
    /// clock.
    fresh_until_micros: AtomicU64,
    /// A home that the sequencer leaves without answers: it executes nothing, and its generation is
    /// that of a node that is not home.
    is_suspended: AtomicBool,
    /// The last attempt that was sent before this generation began: later ones confirm requests
    /// that had arrived before.
    sent_before: AtomicU64,
    /// The last time that this node was home.
    ended: Mutex<Ended>,
    reads: Reads,
    role: Mutex<Role>,
    pub figures: Mutex<Replication>,
    /// Time of the last turn of the log's thread, in microseconds of the runtime's clock.
    turned_micros: AtomicU64,
    pub wishes: Wishes,
    /// The answer to `Wishes::copy`.
    pub copied: Mutex<Option<Copied>>,
    on_role: Box<dyn Fn(&Role) + Send + Sync>,
}

impl Standing {
    pub fn new(role: Role, on_role: Box<dyn Fn(&Role) + Send + Sync>) -> Standing {
        Standing {
            generation: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            confirmed_below: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            fresh_until_micros: AtomicU64::new(0),
            is_suspended: AtomicBool::new(false),
            sent_before: AtomicU64::new(0),
            ended: Mutex::default(),
            reads: Reads::default(),
            role: Mutex::new(role),
            figures: Mutex::default(),
            turned_micros: AtomicU64::new(0),
            wishes: Wishes::default(),
            copied: Mutex::default(),
            on_role,
        }
    }

    pub fn role(&self) -> Role {
        self.role.lock().clone()
    }

    /// Records the start of a turn of the log's thread.
    pub fn turns(&self, now: Duration) {
        self.turned_micros.store(now.as_micros() as u64, Ordering::SeqCst);
    }

    /// The figures as of `now`.
    pub fn replication(&self, now: Duration) -> Replication {
        let turned = self.turned_micros.load(Ordering::SeqCst);
        Replication {
            stalled_millis: (now.as_micros() as u64).saturating_sub(turned) / 1_000,
            is_uncertain: matches!(
                *self.role.lock(),
                Role::Home {
                    condition: Condition::Uncertain,
                    ..
                }
            ),
            replica_ranges: self.reads.ranges.load(Ordering::Relaxed),
            replica_reads: self.reads.answered.load(Ordering::Relaxed),
            ..self.figures.lock().clone()
        }
    }

    pub fn is_home(&self) -> bool {
        self.generation.load(Ordering::SeqCst) % 2 == 1
    }

    /// Records the role. Returns true if it has changed.
    pub fn set_role(&self, role: Role) {
        let is_new = {
            let mut known = self.role.lock();
            let is_new = *known != role;
            known.clone_from(&role);
            is_new
        };
        if is_new {
            (self.on_role)(&role);
        }
    }

    /// Becomes home, if it is not. Nothing is confirmed yet.
    pub fn begin_home(&self) {
        self.sent.store(0, Ordering::SeqCst);
        self.confirmed_below.store(0, Ordering::SeqCst);
        self.wanted.store(0, Ordering::SeqCst);
        self.fresh_until_micros.store(0, Ordering::SeqCst);
        self.sent_before.store(0, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// True from the start of a term of this node's to its end.
    pub fn has_term(&self) -> bool {
        self.is_home() || self.is_suspended()
    }

    pub fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::SeqCst)
    }

    /// The sequencer has been silent for long: waiting replies are lost, as at the end of a
    /// term, and requests that arrive are refused before they execute.
    pub fn suspend(&self, durable: Version) {
        if self.is_home() {
            self.is_suspended.store(true, Ordering::SeqCst);
            self.end_generation(durable);
        }
    }

    /// The sequencer answers again, and this node is home still.
    pub fn resume(&self) {
        if self.is_suspended.swap(false, Ordering::SeqCst) {
            self.sent_before
                .store(self.sent.load(Ordering::SeqCst), Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Ceases to be home: all replies that wait are lost, but for those that rest on versions up to
    /// `durable` and are confirmed.
    pub fn end_home(&self, durable: Version) {
        if !self.is_suspended.swap(false, Ordering::SeqCst) {
            self.end_generation(durable);
        }
    }

    fn end_generation(&self, durable: Version) {
        let was_drained = matches!(
            *self.role.lock(),
            Role::Home {
                condition: Condition::Drained,
                ..
            }
        );
        *self.ended.lock() = Ended {
            generation: self.generation.load(Ordering::SeqCst),
            was_drained,
            durable,
            confirmed_below: self.confirmed_below.load(Ordering::SeqCst),
        };
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// An attempt with this number is about to be sent.
    pub fn sends(&self, number: u64) {
        self.sent.store(number, Ordering::SeqCst);
    }

    /// Records the confirmed attempts and the evidence. Returns true if a waiting reply may be
    /// affected.
    pub fn confirmed(&self, below: u64, evidence: Option<Moment>) -> bool {
        let until = evidence.map_or(Duration::ZERO, |evidence| evidence.0 + EVIDENCE_LASTS);
        let until_micros = until.as_micros() as u64;
        let was_until = self.fresh_until_micros.swap(until_micros, Ordering::SeqCst);
        self.confirmed_below.swap(below, Ordering::SeqCst) != below || was_until != until_micros
    }

    /// A range of the log is about to be sent, after which reads have this number.
    pub fn sends_read(&self, number: u64) {
        self.reads.sent.store(number, Ordering::SeqCst);
    }

    /// A range of the log is sent that only reads need.
    pub fn counts_range(&self) {
        self.reads.ranges.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was answered from the state of this node.
    pub fn count_read(&self) {
        self.reads.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything that reads below this number must see is applied. Returns true if that is news.
    pub fn confirmed_reads(&self, below: u64) -> bool {
        self.reads.confirmed_below.swap(below, Ordering::SeqCst) != below
    }

    /// The highest read that waits.
    pub fn wanted_read(&self) -> Option<u64> {
        self.reads.wanted.load(Ordering::SeqCst).checked_sub(1)
    }

    /// `None`: this node does not follow the log.
    pub fn read_arrival(&self) -> Option<ReadArrival> {
        let generation = self.generation.load(Ordering::SeqCst);
        let period = FollowingPeriod { generation };
        let number = self.reads.sent.load(Ordering::SeqCst);
        let follows = matches!(*self.role.lock(), Role::Following { .. });
        (follows && self.is_in(period)).then_some(ReadArrival { period, number })
    }

    /// Returns true until the period ends.
    pub fn is_in(&self, period: FollowingPeriod) -> bool {
        self.generation.load(Ordering::SeqCst) == period.generation && period.generation.is_multiple_of(2)
    }

    /// Returns true if the node's state has everything that the read must see. Records otherwise
    /// that it waits.
    pub fn confirms_read(&self, arrival: ReadArrival) -> bool {
        let is_confirmed = self.reads.confirmed_below.load(Ordering::SeqCst) > arrival.number;
        if !is_confirmed {
            self.reads.wanted.fetch_max(arrival.number + 1, Ordering::SeqCst);
        }
        is_confirmed && self.is_in(arrival.period)
    }

    /// Requires a confirmation of every request that has arrived.
    pub fn want_confirmation(&self) {
        let sent = self.sent.load(Ordering::SeqCst);
        self.wanted.fetch_max(sent + 1, Ordering::SeqCst);
    }

    /// Returns true if every arrival that waits is confirmed.
    pub fn is_all_confirmed(&self) -> bool {
        let confirmed_below = self.confirmed_below.load(Ordering::SeqCst);
        self.wanted().is_none_or(|wanted| wanted < confirmed_below)
    }

    /// The highest arrival that waits to be confirmed.
    pub fn wanted(&self) -> Option<u64> {
        self.wanted.load(Ordering::SeqCst).checked_sub(1)
    }

    pub fn arrival(&self, durability: Durability) -> Arrival {
        let generation = self.generation.load(Ordering::SeqCst);
        Arrival {
            generation,
            is_relaxed: durability != Durability::Always,
            is_of_the_node: false,
            number: self.sent.load(Ordering::SeqCst),
        }
    }

    /// Returns whether a reply that depends on `dependency` may be sent. `durable`: the newest
    /// durable version, `now`: the runtime's time. Records that a confirmation is required if it is
    /// missing.
    pub fn settles(&self, dependency: Version, arrival: Arrival, durable: Version, now: Duration) -> Settled {
        match self.confirms(arrival, now) {
            Settled::Yes if dependency > durable => Settled::NotYet,
            Settled::Lost if self.was_settled(dependency, arrival) => Settled::Yes,
            settled => settled,
        }
    }

    /// Returns true if the reply might have been sent before this node ceased to be home. A relaxed
    /// reply is sent ahead of its dependency, so nothing can be concluded from it, unless all
    /// commits were durable.
    fn was_settled(&self, dependency: Version, arrival: Arrival) -> bool {
        let ended = self.ended.lock();
        let is_told = !arrival.is_relaxed || ended.was_drained;
        let is_of_it = ended.generation == arrival.generation && is_told;
        is_of_it && dependency <= ended.durable && arrival.number < ended.confirmed_below
    }

    /// Whether it is shown that this node was home after the arrival.
    fn confirms(&self, arrival: Arrival, now: Duration) -> Settled {
        if arrival.is_of_the_node {
            return Settled::Yes;
        }
        let generation = self.generation.load(Ordering::SeqCst);
        let number = match generation.wrapping_sub(arrival.generation) {
            // It was not home, and nothing was executed.
            0 if generation.is_multiple_of(2) => return Settled::Yes,
            0 => arrival.number,
            // It has become home since.
            1 if generation % 2 == 1 => self.sent_before.load(Ordering::SeqCst),
            _ => return Settled::Lost,
        };
        let is_confirmed = match arrival.is_relaxed {
            true => (now.as_micros() as u64) < self.fresh_until_micros.load(Ordering::SeqCst),
            false => self.confirmed_below.load(Ordering::SeqCst) > number,
        };
        if !is_confirmed {
            let sent = self.sent.load(Ordering::SeqCst);
            let number = if arrival.is_relaxed { sent } else { number };
            self.wanted.fetch_max(number + 1, Ordering::SeqCst);
        }
        // Numbers restart with each generation.
        match self.generation.load(Ordering::SeqCst) == generation {
            true if is_confirmed => Settled::Yes,
            true => Settled::NotYet,
            false => Settled::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Standing {
        let standing = Standing::new(Role::Alone, Box::new(|_| {}));
        standing.begin_home();
        standing
    }

    /// For a reply that rests on a version which is durable.
    fn settles(standing: &Standing, arrival: Arrival) -> Settled {
        standing.settles(Version(1), arrival, Version(1), Duration::ZERO)
    }

    #[test]
    fn a_reply_waits_for_an_attempt_sent_after_its_arrival() {
        let standing = home();
        standing.sends(1);
        let arrival = standing.arrival(Durability::Always);
        assert_eq!(settles(&standing, arrival), Settled::NotYet);
        assert_eq!(standing.wanted(), Some(1));
        standing.confirmed(1, Some(Moment::default()));
        assert_eq!(settles(&standing, arrival), Settled::NotYet);
        standing.sends(2);
        standing.confirmed(2, Some(Moment::default()));
        assert_eq!(settles(&standing, arrival), Settled::Yes);
    }

    #[test]
    fn a_relaxed_reply_leaves_while_the_evidence_is_young() {
        let standing = home();
        let arrival = standing.arrival(Durability::Interval);
        assert_eq!(settles(&standing, arrival), Settled::NotYet);
        standing.confirmed(1, Some(Moment(Duration::from_secs(5))));
        assert_eq!(
            standing.settles(Version(1), arrival, Version(1), Duration::from_millis(6_999)),
            Settled::Yes
        );
        assert_eq!(
            standing.settles(Version(1), arrival, Version(1), Duration::from_secs(7)),
            Settled::NotYet
        );
    }

    /// A home without answers of the sequencer kept every request for as long as that lasted. It
    /// gives them up, and is confirmed anew behind the silence: a confirmation from before it shows
    /// nothing of requests that arrived in it.
    #[test]
    fn a_suspended_home_drops_waiting_replies_and_is_confirmed_again() {
        let standing = home();
        standing.sends(1);
        let before = standing.arrival(Durability::Always);
        standing.confirmed(1, Some(Moment::default()));
        standing.suspend(Version(1));
        assert!(!standing.is_home() && standing.has_term());
        assert_eq!(settles(&standing, before), Settled::Lost);
        let meanwhile = standing.arrival(Durability::Always);
        assert_eq!(settles(&standing, meanwhile), Settled::Yes, "it was refused");
        standing.sends(2);
        standing.confirmed(2, Some(Moment::default()));
        standing.resume();
        assert!(standing.is_home());
        // It may have been executed since.
        assert_eq!(settles(&standing, meanwhile), Settled::NotYet);
        assert_eq!(settles(&standing, before), Settled::Lost);
        standing.sends(3);
        standing.confirmed(3, Some(Moment::default()));
        assert_eq!(settles(&standing, meanwhile), Settled::Yes);
        standing.suspend(Version(1));
        standing.end_home(Version(1));
        assert!(!standing.is_home() && !standing.has_term());
        standing.begin_home();
        assert!(standing.is_home());
    }

    #[test]
    fn replies_of_an_earlier_home_are_lost() {
        let standing = home();
        let arrival = standing.arrival(Durability::Always);
        standing.end_home(Version(1));
        assert_eq!(settles(&standing, arrival), Settled::Lost);
        let refused = standing.arrival(Durability::Always);
        assert_eq!(settles(&standing, refused), Settled::Yes);
        standing.begin_home();
        standing.confirmed(9, Some(Moment::default()));
        assert_eq!(settles(&standing, arrival), Settled::Lost);
    }

    /// All replies that waited were lost, though what they rested on had landed.
    #[test]
    fn replies_that_depend_on_confirmed_versions_leave_after_the_end() {
        let standing = home();
        let early = standing.arrival(Durability::Always);
        let relaxed = standing.arrival(Durability::Interval);
        standing.sends(1);
        let late = standing.arrival(Durability::Always);
        standing.confirmed(1, None);
        standing.end_home(Version(5));
        let settles = |version, arrival| standing.settles(Version(version), arrival, Version(4), Duration::ZERO);
        assert_eq!(settles(5, early), Settled::Yes);
        assert_eq!(settles(6, early), Settled::Lost, "it never happened");
        assert_eq!(settles(5, late), Settled::Lost, "it is not confirmed");
        assert_eq!(settles(5, relaxed), Settled::Lost);
        standing.begin_home();
        assert_eq!(settles(5, early), Settled::Yes);
        standing.end_home(Version(9));
        assert_eq!(settles(5, early), Settled::Lost, "two homes ago");
    }

    /// A request that arrived at a follower and was executed after its promotion waits for an
    /// attempt of the new home.
    #[test]
    fn a_request_from_before_the_promotion_waits_for_the_new_home() {
        let standing = Standing::new(Role::Alone, Box::new(|_| {}));
        let arrival = standing.arrival(Durability::Always);
        standing.begin_home();
        assert_eq!(settles(&standing, arrival), Settled::NotYet);
        standing.sends(1);
        standing.confirmed(1, Some(Moment::default()));
        assert_eq!(settles(&standing, arrival), Settled::Yes);
    }
}
