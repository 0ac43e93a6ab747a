//! One node: its disk, and the machine that it runs at the moment.

use std::time::Duration;

use quartet_log_replicated::model::{ModelSequencer, Random, World};
use quartet_log_replicated::{
    Answer, Arrival, BODY_BYTES_MAX, Confirmation, Content, Copies, Delivery, Event, Failure, Fate, Follower, Hint,
    Hinted, Home, Moment, NodeId, Outcome, Place, Position, Progress, Record, Request, RequestId, Sequencer,
    StopReason, TakeOver, Window, Writer, trim,
};
use quartet_model::{LogSequence, Version};

use crate::fault::Fault;
use crate::judge::{Judge, Violation, epoch, writes};

/// Records that a home may keep in the sequencer, in bytes.
const BUDGET_BYTES: u64 = 1 << 20;

pub struct Node {
    pub id: usize,
    incarnation: u64,
    place: Place,
    sequencer: ModelSequencer,
    pub disk: Disk,
    role: Role,
    /// It is suspended until then.
    pub asleep_until: Duration,
}

/// The node's own log of its applied records.
#[derive(Clone)]
pub struct Disk {
    entries: Vec<Entry>,
    /// Entries that a crash leaves.
    synced: usize,
    /// Writes in all entries.
    writes: usize,
}

#[derive(Clone)]
struct Entry {
    position: Position,
    /// None within a group.
    writes: Option<Vec<u64>>,
}

enum Role {
    Down,
    Following(Box<Following>),
    Candidate(Box<Candidate>),
    Home(Box<Serving>),
    /// The next records are trimmed: a peer must give them.
    Behind,
}

struct Following {
    follower: Follower,
    asked: Option<RequestId>,
}

struct Candidate {
    follower: Follower,
    attempt: TakeOver,
    asked: Option<RequestId>,
}

struct Serving {
    home: Home,
    append: Option<RequestId>,
    confirm: Option<RequestId>,
    trim: Option<RequestId>,
    gathering: Vec<u64>,
    /// The epoch in flight.
    writes: Vec<u64>,
    /// The home as it was before it took the epoch in flight.
    before: Home,
    reads: Vec<Read>,
    window: Window,
}

struct Read {
    arrival: Arrival,
    rests_on: LogSequence,
    applied: usize,
    in_flight: Vec<u64>,
    required: usize,
}

/// All that is not the node's own.
pub struct Around<'a> {
    pub world: &'a std::rc::Rc<std::cell::RefCell<World>>,
    pub judge: &'a mut Judge,
    pub random: &'a mut Random,
    pub fault: Option<Fault>,
    pub reached: &'a mut std::collections::BTreeMap<&'static str, u64>,
    /// The last write given to a client.
    pub written: &'a mut u64,
    /// The last record that each node has reported as synced.
    pub reported: &'a [LogSequence],
}

type Judged = Result<(), Violation>;

impl Node {
    pub fn new(id: usize, place: &Place, sequencer: ModelSequencer) -> Node {
        let mut node = Node {
            id,
            incarnation: 0,
            place: place.clone(),
            sequencer,
            disk: Disk {
                entries: Vec::new(),
                synced: 0,
                writes: 0,
            },
            role: Role::Down,
            asleep_until: Duration::ZERO,
        };
        node.start();
        node
    }

    pub fn is_down(&self) -> bool {
        matches!(self.role, Role::Down)
    }

    pub fn is_behind(&self) -> bool {
        matches!(self.role, Role::Behind)
    }

    pub fn is_home(&self) -> bool {
        matches!(self.role, Role::Home(_))
    }

    /// A new process over the same disk.
    pub fn start(&mut self) {
        self.incarnation += 1;
        let (from, until) = (self.place.record_key(LogSequence::ZERO), self.place.records_end());
        self.sequencer.watch(from, until);
        self.follow();
    }

    /// The process ends, and with it all that the disk has not synced.
    pub fn crash(&mut self, around: &mut Around<'_>) {
        around.reach("node crashed");
        around.world.borrow_mut().forget(self.sequencer.client());
        self.disk.crash();
        self.role = Role::Down;
    }

    pub fn client(&self) -> usize {
        self.sequencer.client()
    }

    fn follow(&mut self) {
        self.disk.cut_to_whole();
        let position = self.disk.position().unwrap_or(self.place.beginning());
        let follower = Follower::new(self.place.clone(), position);
        self.role = Role::Following(Box::new(Following { follower, asked: None }));
    }

    /// Takes what a peer has, if that is more.
    pub fn copy(&mut self, peer: &Disk, around: &mut Around<'_>) {
        let sequence = |disk: &Disk| disk.position().map(|position| position.sequence);
        let mut copy = peer.clone();
        copy.cut_to_whole();
        if sequence(&copy) > sequence(&self.disk) {
            around.reach("copied from a peer");
            copy.sync();
            self.disk = copy;
            self.follow();
        }
    }

    /// Tries to become home.
    pub fn aspire(&mut self, around: &mut Around<'_>) {
        if !matches!(self.role, Role::Following(_)) {
            return;
        }
        self.follow();
        if let Role::Following(following) = std::mem::replace(&mut self.role, Role::Down) {
            let Following { follower, .. } = *following;
            let writer = Writer {
                node: NodeId(self.id as u64),
                incarnation: self.incarnation,
            };
            let attempt = TakeOver::new(writer);
            let asked = None;
            self.role = Role::Candidate(Box::new(Candidate {
                follower,
                attempt,
                asked,
            }));
            self.send(around);
        }
    }

    /// Reads what the log holds, in case hints were lost.
    pub fn poll(&mut self) {
        if let Role::Following(following) = &mut self.role
            && following.asked.is_none()
        {
            following.asked = Some(self.sequencer.send(following.follower.request()));
        }
    }

    /// A client writes.
    pub fn write(&mut self, around: &mut Around<'_>) -> Judged {
        if let Role::Home(serving) = &mut self.role {
            *around.written += 1;
            serving.gathering.push(*around.written);
            self.launch(around)?;
        }
        Ok(())
    }

    /// A client reads: it sees the epoch in flight, and its reply waits for that and for a
    /// confirmation.
    pub fn read(&mut self, around: &mut Around<'_>) -> Judged {
        if let Role::Home(serving) = &mut self.role {
            let arrival = serving.home.arrival();
            serving.home.want(arrival);
            let rests_on = match serving.home.is_appending() {
                true => LogSequence(u64::MAX),
                false => serving.home.tail().sequence,
            };
            serving.reads.push(Read {
                arrival,
                rests_on,
                applied: self.disk.writes,
                in_flight: serving.writes.clone(),
                required: around.judge.required(),
            });
            self.launch(around)?;
        }
        Ok(())
    }

    pub fn trim(&mut self, around: &mut Around<'_>) {
        let Role::Home(serving) = &mut self.role else { return };
        let tail = serving.home.tail().sequence;
        let everywhere = vec![tail; around.reported.len()];
        let copies = Copies {
            nodes: around.reported.len(),
            synced: match around.fault {
                Some(Fault::TrimWithoutCopies) => &everywhere,
                _ => around.reported,
            },
            archived: LogSequence::ZERO,
            holds: &[],
        };
        let decided = trim(&copies, tail, &serving.window, BUDGET_BYTES);
        if serving.trim.is_none() {
            serving.window.forget_below(decided.below);
            let request = serving.home.trim_request(decided.below);
            serving.trim = Some(self.sequencer.send(request));
            around.reach("records trimmed");
        }
    }

    /// Takes everything that has arrived.
    pub fn receive(&mut self, around: &mut Around<'_>) -> Judged {
        while let Some(event) = self.sequencer.arrived() {
            match event {
                Event::Hint(hint) => self.hinted(&hint, around)?,
                Event::Answered(id, answer) => {
                    if answer.is_err() {
                        around.reach("answers unknown");
                    }
                    self.answered(id, answer, around)?;
                }
            }
        }
        Ok(())
    }

    fn hinted(&mut self, hint: &Hint, around: &mut Around<'_>) -> Judged {
        let Role::Following(following) = &mut self.role else {
            return Ok(());
        };
        match following.follower.hint(hint) {
            Hinted::Nothing => Ok(()),
            Hinted::Delivered(delivery) => self.deliver(delivery, around),
            Hinted::ReadRange if around.fault == Some(Fault::SkippedGap) => self.skip(hint, around),
            Hinted::ReadRange => {
                self.poll();
                Ok(())
            }
        }
    }

    fn skip(&mut self, hint: &Hint, around: &mut Around<'_>) -> Judged {
        let (Role::Following(following), Hint::Put { value, .. }) = (&mut self.role, hint) else {
            return Ok(());
        };
        let Ok(record) = Record::decode(value) else {
            return Ok(());
        };
        let position = Position {
            sequence: LogSequence(record.sequence.0 - 1),
            hash: record.before,
            term: record.term,
            writer: record.writer,
        };
        let mut follower = Follower::new(self.place.clone(), position);
        if let Hinted::Delivered(delivery) = follower.hint(hint) {
            following.follower = follower;
            self.deliver(delivery, around)?;
        }
        Ok(())
    }

    fn answered(&mut self, id: RequestId, answer: Result<Answer, Failure>, around: &mut Around<'_>) -> Judged {
        match &mut self.role {
            Role::Following(following) if following.asked == Some(id) => {
                following.asked = None;
                self.ranged(answer, around)
            }
            Role::Candidate(candidate) if candidate.asked == Some(id) => {
                candidate.asked = None;
                self.progress(answer, around)
            }
            Role::Home(serving) if serving.append == Some(id) => {
                serving.append = None;
                self.appended(answer, around)
            }
            Role::Home(serving) if serving.confirm == Some(id) => {
                serving.confirm = None;
                self.confirmed(answer, around)
            }
            Role::Home(serving) if serving.trim == Some(id) => {
                serving.trim = None;
                if let Ok(Answer::Done { revision }) = answer {
                    self.sequencer.send(Request::Compact { revision });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ranged(&mut self, answer: Result<Answer, Failure>, around: &mut Around<'_>) -> Judged {
        let (Role::Following(following), Ok(answer)) = (&mut self.role, answer) else {
            return Ok(());
        };
        match following.follower.take(answer) {
            Ok((deliveries, more)) => {
                self.deliver_all(deliveries, around)?;
                if more {
                    self.poll();
                }
                Ok(())
            }
            Err(reason) => self.stopped(reason),
        }
    }

    fn stopped(&mut self, reason: StopReason) -> Judged {
        let node = self.id;
        match reason {
            StopReason::Trimmed { .. } => {
                self.role = Role::Behind;
                Ok(())
            }
            reason => Err(Violation::Stopped { node, reason }),
        }
    }

    fn progress(&mut self, answer: Result<Answer, Failure>, around: &mut Around<'_>) -> Judged {
        let Role::Candidate(candidate) = &mut self.role else {
            return Ok(());
        };
        match candidate.attempt.answered(&mut candidate.follower, answer) {
            Ok(Progress::Apply(deliveries)) => self.deliver_all(deliveries, around)?,
            Ok(Progress::Won(home, delivery)) => {
                around.reach("claim won");
                self.deliver(delivery, around)?;
                self.serve(*home);
                return Ok(());
            }
            Ok(Progress::Ready | Progress::Again) => {}
            Err(reason) => return self.stopped(reason),
        }
        self.send(around);
        Ok(())
    }

    /// The candidate's next request.
    fn send(&mut self, around: &Around<'_>) {
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        if candidate.attempt.is_ready() {
            let now = around.world.borrow().now().as_micros() as u64;
            candidate.attempt.claim(&candidate.follower, Version(now));
        }
        let request = candidate.attempt.request(&mut candidate.follower);
        candidate.asked = request.map(|request| self.sequencer.send(request));
    }

    fn serve(&mut self, home: Home) {
        self.role = Role::Home(Box::new(Serving {
            before: home.clone(),
            home,
            append: None,
            confirm: None,
            trim: None,
            gathering: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            window: Window::default(),
        }));
    }

    /// Gives the home its next epoch, and sends what it has to send.
    fn launch(&mut self, around: &mut Around<'_>) -> Judged {
        let Role::Home(serving) = &mut self.role else {
            return Ok(());
        };
        let now = Moment(around.world.borrow().now());
        if !serving.home.is_appending() && !serving.gathering.is_empty() {
            serving.before = serving.home.clone();
            serving.writes = std::mem::take(&mut serving.gathering);
            let padding = if around.random.one_in(100) {
                BODY_BYTES_MAX * 3 / 2
            } else {
                0
            };
            let bytes = epoch(&serving.writes, padding);
            serving.home.append(&bytes).expect("nothing is in flight");
            serving.window.note(serving.home.tail().sequence.next(), bytes.len());
            if around.fault == Some(Fault::EarlyReply) {
                let term = serving.home.term().term;
                around.judge.acknowledge(self.id, term, &serving.writes)?;
            }
        }
        if let Some(request) = serving.home.append_request(now) {
            let request = match around.fault {
                Some(fault) => fault.append(&self.place, request),
                None => request,
            };
            serving.append = Some(self.sequencer.send(request));
        }
        if let Some(request) = serving.home.confirm_request(now) {
            serving.confirm = Some(self.sequencer.send(request));
        }
        Ok(())
    }

    fn appended(&mut self, answer: Result<Answer, Failure>, around: &mut Around<'_>) -> Judged {
        let Role::Home(serving) = &mut self.role else {
            return Ok(());
        };
        let outcome = serving.home.appended(answer);
        match outcome {
            Outcome::Done(appended) | Outcome::Landed(appended) => {
                if matches!(outcome, Outcome::Landed(_)) {
                    around.reach("append had landed");
                }
                let position = serving.home.tail();
                let writes = appended.is_whole.then(|| std::mem::take(&mut serving.writes));
                let term = serving.home.term().term;
                if let Some(writes) = &writes {
                    around.judge.applied(self.id, self.disk.writes, writes)?;
                    if around.fault != Some(Fault::EarlyReply) {
                        around.judge.acknowledge(self.id, term, writes)?;
                    }
                    around.reach("epochs acknowledged");
                    for read in &mut serving.reads {
                        if read.rests_on == LogSequence(u64::MAX) {
                            read.rests_on = position.sequence;
                        }
                    }
                }
                self.disk.push(position, writes);
                self.reply(false, around)?;
                self.launch(around)
            }
            Outcome::Unknown(_) => {
                if around.fault == Some(Fault::ChangedEpoch) {
                    self.change_epoch(around);
                }
                self.launch(around)
            }
            Outcome::Deposed { fate, .. } => self.deposed(Some(fate), around),
            Outcome::Stopped(reason) => self.stopped(reason),
        }
    }

    fn change_epoch(&mut self, around: &mut Around<'_>) {
        let Role::Home(serving) = &mut self.role else { return };
        if serving.before.tail() == serving.home.tail() {
            *around.written += 1;
            serving.home = serving.before.clone();
            serving.writes = vec![*around.written];
            serving.reads.clear();
            serving.confirm = None;
            serving
                .home
                .append(epoch(&serving.writes, 0))
                .expect("nothing is in flight");
        }
    }

    fn confirmed(&mut self, answer: Result<Answer, Failure>, around: &mut Around<'_>) -> Judged {
        let Role::Home(serving) = &mut self.role else {
            return Ok(());
        };
        match serving.home.confirmed(answer) {
            Confirmation::Confirmed => {
                self.reply(true, around)?;
                self.launch(around)
            }
            Confirmation::Unknown(_) => self.launch(around),
            Confirmation::Deposed { fate, .. } => {
                around.reach("deposed by a confirmation");
                self.deposed(fate, around)
            }
            Confirmation::Stopped(reason) => self.stopped(reason),
        }
    }

    /// Sends the replies that may leave.
    fn reply(&mut self, is_confirmation: bool, around: &mut Around<'_>) -> Judged {
        let Role::Home(serving) = &mut self.role else {
            return Ok(());
        };
        let durable = serving.home.tail().sequence;
        let may_leave = |read: &Read| {
            let confirmed = serving.home.is_confirmed(read.arrival)
                || (is_confirmation && around.fault == Some(Fault::EarlyConfirmation))
                || around.fault == Some(Fault::NoConfirmation);
            durable >= read.rests_on && confirmed
        };
        let (leaving, waiting) = std::mem::take(&mut serving.reads).into_iter().partition(may_leave);
        serving.reads = waiting;
        let leaving: Vec<Read> = leaving;
        for read in leaving {
            around.reach("reads answered");
            around
                .judge
                .answer(self.id, read.applied, &read.in_flight, read.required)?;
        }
        Ok(())
    }

    /// Acknowledges the epoch in flight if it has landed. Nothing else leaves, and the node
    /// follows.
    fn deposed(&mut self, fate: Option<Fate>, around: &mut Around<'_>) -> Judged {
        let Role::Home(serving) = &mut self.role else {
            return Ok(());
        };
        let name = match fate {
            None => "deposed: idle",
            Some(Fate::Landed) => "deposed: landed",
            Some(Fate::Never) => "deposed: never",
            Some(Fate::Unknown) => "deposed: unknown",
        };
        around.reach(name);
        if fate == Some(Fate::Landed) && around.fault != Some(Fault::EarlyReply) {
            let term = serving.home.term().term;
            around.judge.acknowledge(self.id, term, &serving.writes)?;
        }
        self.follow();
        Ok(())
    }

    fn deliver_all(&mut self, deliveries: Vec<Delivery>, around: &mut Around<'_>) -> Judged {
        deliveries
            .into_iter()
            .try_for_each(|delivery| self.deliver(delivery, around))
    }

    fn deliver(&mut self, delivery: Delivery, around: &mut Around<'_>) -> Judged {
        let cut = match delivery.content {
            Content::Term { .. } => around.judge.cut_at(delivery.position.sequence).cloned(),
            _ => None,
        };
        if cut.is_some() {
            around.reach("group cut by a term");
        }
        let happened = match delivery.content {
            Content::Epoch(bytes) => Some(writes(&bytes)),
            Content::Part => None,
            Content::Term { .. } if around.fault == Some(Fault::CutGroupApplied) => Some(cut.unwrap_or_default()),
            _ => Some(Vec::new()),
        };
        if let Some(writes) = &happened {
            around.judge.applied(self.id, self.disk.writes, writes)?;
        }
        self.disk.push(delivery.position, happened);
        Ok(())
    }
}

impl Around<'_> {
    pub fn reach(&mut self, state: &'static str) {
        *self.reached.entry(state).or_default() += 1;
    }
}

impl Disk {
    pub fn sync(&mut self) {
        self.synced = self.entries.len();
    }

    /// The last record, not within a group, that a crash leaves.
    pub fn synced(&self) -> LogSequence {
        let synced = &self.entries[..self.synced];
        let whole = synced.iter().rfind(|entry| entry.writes.is_some());
        whole.map_or(LogSequence::ZERO, |entry| entry.position.sequence)
    }

    fn position(&self) -> Option<Position> {
        self.entries.last().map(|entry| entry.position)
    }

    fn push(&mut self, position: Position, writes: Option<Vec<u64>>) {
        self.writes += writes.as_ref().map_or(0, Vec::len);
        self.entries.push(Entry { position, writes });
    }

    fn crash(&mut self) {
        self.cut(self.synced);
    }

    /// Drops the chunks of an unfinished group, which are read again.
    fn cut_to_whole(&mut self) {
        let whole = self.entries.iter().rposition(|entry| entry.writes.is_some());
        self.cut(whole.map_or(0, |whole| whole + 1));
    }

    fn cut(&mut self, count: usize) {
        for entry in self.entries.drain(count..) {
            self.writes -= entry.writes.map_or(0, |writes| writes.len());
        }
        self.synced = self.synced.min(count);
    }
}
