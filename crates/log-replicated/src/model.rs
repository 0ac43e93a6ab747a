//! A sequencer in memory, and a network in front of it, determined by one seed.
//!
//! The store executes each request at one instant. The network delays every message randomly, so
//! requests overtake each other; it loses requests and answers, delivers requests twice, seconds
//! apart, and disconnects clients for a while, in one direction or both, during which some of their
//! messages arrive late. A client receives `Unknown` for every request that is unanswered after
//! half a second.
//!
//! Objects are kept apart from the keys, in a store that may be unreachable on its own.
//!
//! The store keeps a journal of all changes, for a checker.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use crate::pointer::{ObjectAnswer, ObjectRequest};
use crate::sequencer::{Answer, Compare, Event, Failure, Hint, LeaseId, Operation, Request, RequestId, Sequencer};

/// A client gives a request up after this.
pub const TIMEOUT: Duration = Duration::from_millis(500);

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Below `limit`, which is more than zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Returns true once in `times` calls on average; never if `times` is zero.
    pub fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    fn within(&mut self, low: Duration, high: Duration) -> Duration {
        let span = (high - low).as_micros() as u64;
        low + Duration::from_micros(self.below(span + 1))
    }
}

/// A change that the store has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// Which client's request did it.
    pub client: usize,
    /// The change.
    pub operation: Operation,
}

/// The keys, without a network.
#[derive(Debug, Default)]
pub struct Store {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, Option<LeaseId>)>,
    leases: BTreeMap<LeaseId, (Duration, Duration)>,
    leases_made: i64,
    revision: i64,
    journal: Vec<Change>,
    objects: BTreeMap<String, Vec<u8>>,
}

impl Store {
    /// All changes, in their order. Keys that went with a lease are not in it.
    pub fn journal(&self) -> &[Change] {
        &self.journal
    }

    /// All objects, by name.
    pub fn objects(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.objects
    }

    /// A key's value.
    pub fn value(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.keys.get(key).map(|(value, _)| value)
    }

    /// Does a request of `client` at `now`.
    pub fn execute(&mut self, client: usize, now: Duration, request: &Request) -> Answer {
        self.end_leases(now);
        match request {
            Request::Get { key } => Answer::Value(self.value(key).cloned()),
            Request::Range { from, until, limit } => self.range(from, until, *limit as usize),
            Request::Transact {
                compares,
                operations,
                otherwise,
            } => {
                if !compares.iter().all(|compare| self.holds(compare)) {
                    let values = otherwise.iter().map(|key| self.value(key).cloned()).collect();
                    return Answer::Refused { values };
                }
                self.revision += 1;
                for operation in operations {
                    self.change(operation);
                    let operation = operation.clone();
                    self.journal.push(Change {
                        at: now,
                        client,
                        operation,
                    });
                }
                let revision = self.revision;
                Answer::Done { revision }
            }
            Request::Compact { .. } => Answer::Compacted,
            Request::Grant { seconds } => {
                self.leases_made += 1;
                let (lease, lasts) = (LeaseId(self.leases_made), Duration::from_secs((*seconds).into()));
                self.leases.insert(lease, (now + lasts, lasts));
                Answer::Lease(lease)
            }
            Request::KeepAlive { lease } => match self.leases.get_mut(lease) {
                Some((ends, lasts)) => {
                    *ends = now + *lasts;
                    Answer::Lease(*lease)
                }
                None => Answer::NoLease,
            },
            Request::Revoke { lease } => {
                self.end(*lease);
                Answer::NoLease
            }
            Request::Object(request) => Answer::Object(self.object(request)),
        }
    }

    fn object(&mut self, request: &ObjectRequest) -> ObjectAnswer {
        match request {
            ObjectRequest::Put { name, bytes } => {
                self.objects.insert(name.clone(), bytes.clone());
                ObjectAnswer::Done
            }
            ObjectRequest::Get { name, .. } => {
                let object = self.objects.get(name).cloned();
                object.map_or(ObjectAnswer::Missing, ObjectAnswer::Bytes)
            }
            ObjectRequest::List { prefix } => {
                let names = self.objects.keys().filter(|name| name.starts_with(prefix));
                ObjectAnswer::Names(names.cloned().collect())
            }
            ObjectRequest::Remove { name } => {
                self.objects.remove(name);
                ObjectAnswer::Done
            }
        }
    }

    fn range(&self, from: &[u8], until: &[u8], limit: usize) -> Answer {
        let mut range = self.keys.range(from.to_vec()..until.to_vec());
        let entries = range.by_ref().take(limit);
        let entries = entries.map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let more = range.next().is_some();
        Answer::Entries { entries, more }
    }

    fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Value { key, value } => self.value(key) == Some(value),
            Compare::Absent(key) => !self.keys.contains_key(key),
            Compare::Present(key) => self.keys.contains_key(key),
        }
    }

    fn change(&mut self, operation: &Operation) {
        match operation {
            Operation::Put { key, value, lease } => {
                self.keys.insert(key.clone(), (value.clone(), *lease));
            }
            Operation::Delete { from, until } => {
                self.keys.retain(|key, _| key < from || key >= until);
            }
        }
    }

    fn end_leases(&mut self, now: Duration) {
        let over = self.leases.iter().filter(|(_, (ends, _))| *ends <= now);
        let over: Vec<LeaseId> = over.map(|(lease, _)| *lease).collect();
        over.into_iter().for_each(|lease| self.end(lease));
    }

    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        self.keys.retain(|_, (_, of)| *of != Some(lease));
    }
}

/// How badly the network behaves: each happens once in this many messages, and never if the number
/// is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chaos {
    /// A request is lost.
    pub lost_requests: u64,
    /// An answer is lost.
    pub lost_answers: u64,
    /// A request arrives a second time, up to `late` later.
    pub duplicates: u64,
    /// A request arrives up to `late` later.
    pub late_requests: u64,
    /// An answer arrives up to nearly half a second later.
    pub late_answers: u64,
    /// A hint is lost.
    pub lost_hints: u64,
    /// The longest delay of a late message.
    pub late: Duration,
}

/// The store, its network, and simulated time.
pub struct World {
    now: Duration,
    random: Random,
    chaos: Chaos,
    store: Store,
    /// Messages under way, by time and order of making.
    queue: BTreeMap<(Duration, u64), Message>,
    made: u64,
    clients: Vec<Client>,
    objects_away_until: Duration,
    digest: Xxh3,
    counts: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Client {
    requests: u64,
    open: BTreeSet<RequestId>,
    /// The requests in flight at the object store.
    open_objects: BTreeSet<RequestId>,
    watches: Vec<(Vec<u8>, Vec<u8>)>,
    inbox: VecDeque<Event>,
    requests_cut_until: Duration,
    answers_cut_until: Duration,
}

#[derive(Debug)]
enum Message {
    Request(usize, RequestId, Request),
    Answer(usize, RequestId, Answer),
    GiveUp(usize, RequestId),
    Hint(usize, Hint),
}

impl World {
    /// A world without clients.
    pub fn new(seed: u64, chaos: Chaos) -> Rc<RefCell<World>> {
        Rc::new(RefCell::new(World {
            now: Duration::ZERO,
            random: Random::new(seed),
            chaos,
            store: Store::default(),
            queue: BTreeMap::new(),
            made: 0,
            clients: Vec::new(),
            objects_away_until: Duration::ZERO,
            digest: Xxh3::new(),
            counts: BTreeMap::new(),
        }))
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The store, for a checker.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Changes how the network behaves from now on.
    pub fn behave(&mut self, chaos: Chaos) {
        self.chaos = chaos;
    }

    /// The hash of all arrived messages: equal runs have equal hashes.
    pub fn digest(&self) -> u64 {
        self.digest.digest()
    }

    /// Returns how often the network has done each of its faults.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Cuts a client off for a while.
    pub fn cut(&mut self, client: usize, lasts: Duration) {
        self.cut_requests(client, lasts);
        self.cut_answers(client, lasts);
    }

    /// Lets none of a client's requests through for a while, or late; it gets answers and hints.
    pub fn cut_requests(&mut self, client: usize, lasts: Duration) {
        self.clients[client].requests_cut_until = self.now + lasts;
    }

    /// Lets neither answers nor hints through to a client for a while; its requests arrive.
    pub fn cut_answers(&mut self, client: usize, lasts: Duration) {
        self.clients[client].answers_cut_until = self.now + lasts;
    }

    /// Makes the object store unreachable for a while. Half of the messages sent to it arrive all
    /// the same.
    pub fn take_objects_away(&mut self, lasts: Duration) {
        self.objects_away_until = self.now + lasts;
    }

    /// Forgets what a client waits for, as when its process has ended. Its requests still arrive.
    pub fn forget(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.open.clear();
        client.open_objects.clear();
        client.watches.clear();
        client.inbox.clear();
    }

    /// The arrival time of the next message.
    pub fn next_at(&self) -> Option<Duration> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// Lets the time pass to `until`, or to the next message if that is sooner, which arrives.
    pub fn step(&mut self, until: Duration) {
        match self.queue.first_entry() {
            Some(entry) if entry.key().0 <= until => {
                let ((at, _), message) = entry.remove_entry();
                self.now = self.now.max(at);
                self.arrive(message);
            }
            _ => self.now = self.now.max(until),
        }
    }

    fn arrive(&mut self, message: Message) {
        self.note(&message);
        match message {
            Message::Request(client, id, request) => self.execute(client, id, &request),
            Message::Answer(client, id, answer) => self.close(client, id, Ok(answer)),
            Message::GiveUp(client, id) => {
                let why = "no answer in time".to_owned();
                let silent = match self.clients[client].open_objects.contains(&id) {
                    true => Failure::Store(why),
                    false => Failure::Unknown(why),
                };
                self.close(client, id, Err(silent));
            }
            Message::Hint(client, hint) => self.clients[client].inbox.push_back(Event::Hint(hint)),
        }
    }

    /// Takes the message into the digest: when, which, and the values that it puts.
    fn note(&mut self, message: &Message) {
        let (kind, client, id) = match message {
            Message::Request(client, id, _) => (0, *client, id.0),
            Message::Answer(client, id, _) => (1, *client, id.0),
            Message::GiveUp(client, id) => (2, *client, id.0),
            Message::Hint(client, _) => (3, *client, 0),
        };
        for number in [self.now.as_micros() as u64, kind, client as u64, id] {
            self.digest.update(&number.to_le_bytes());
        }
        let Message::Request(_, _, Request::Transact { operations, .. }) = message else {
            return;
        };
        for operation in operations {
            match operation {
                Operation::Put { key, value, .. } => [key, value].map(|bytes| self.digest.update(bytes)),
                Operation::Delete { from, until } => [from, until].map(|bytes| self.digest.update(bytes)),
            };
        }
    }

    fn count(&mut self, event: &'static str) {
        *self.counts.entry(event).or_default() += 1;
    }

    /// Returns true once in `times`, which is counted.
    fn happens(&mut self, times: u64, event: &'static str) -> bool {
        let happens = self.random.one_in(times);
        if happens {
            self.count(event);
        }
        happens
    }

    fn execute(&mut self, client: usize, id: RequestId, request: &Request) {
        if !self.clients[client].open.contains(&id) {
            self.count("request executed after its sender had given it up");
        }
        let changes = self.store.journal.len();
        let answer = self.store.execute(client, self.now, request);
        for change in changes..self.store.journal.len() {
            self.hint_of(change);
        }
        let chaos = self.chaos;
        let is_away = matches!(request, Request::Object(_)) && self.objects_away_until > self.now;
        if is_away {
            self.count("object store away");
        }
        let is_cut = self.clients[client].answers_cut_until > self.now;
        if is_cut {
            self.count("answer cut off");
        }
        let is_cut = is_cut || is_away;
        if !is_cut && !self.happens(chaos.lost_answers, "answer lost") {
            let is_late = self.happens(chaos.late_answers, "answer late");
            let delay = if is_late {
                self.random.within(Duration::ZERO, TIMEOUT)
            } else {
                self.delay()
            };
            self.post(delay, Message::Answer(client, id, answer));
        }
    }

    fn hint_of(&mut self, change: usize) {
        let hint = match &self.store.journal[change].operation {
            Operation::Put { key, value, .. } => Hint::Put {
                key: key.clone(),
                value: value.clone(),
            },
            Operation::Delete { .. } => return,
        };
        for client in 0..self.clients.len() {
            let Hint::Put { key, .. } = &hint else { continue };
            let watches = &self.clients[client].watches;
            let is_watched = watches.iter().any(|(from, until)| (from..until).contains(&key));
            let is_cut = self.clients[client].answers_cut_until > self.now;
            if is_watched && !is_cut && !self.happens(self.chaos.lost_hints, "hint lost") {
                let delay = self.delay();
                self.post(delay, Message::Hint(client, hint.clone()));
            }
        }
    }

    fn send(&mut self, client: usize, request: Request) -> RequestId {
        let chaos = self.chaos;
        self.clients[client].requests += 1;
        let id = RequestId(self.clients[client].requests);
        self.clients[client].open.insert(id);
        let is_object = matches!(request, Request::Object(_));
        if is_object {
            self.clients[client].open_objects.insert(id);
        }
        self.post(TIMEOUT, Message::GiveUp(client, id));
        let cut_for = self.clients[client].requests_cut_until.saturating_sub(self.now);
        let is_away = is_object && self.objects_away_until > self.now;
        let is_lost = self.happens(chaos.lost_requests, "request lost")
            || (is_away && self.happens(2, "request to the object store lost"))
            || (!cut_for.is_zero() && self.happens(2, "request cut off"));
        if is_lost {
            return id;
        }
        if self.happens(chaos.duplicates, "request twice") {
            let late = self.late();
            self.post(cut_for + late, Message::Request(client, id, request.clone()));
        }
        let is_late = self.happens(chaos.late_requests, "request late");
        let delay = if is_late { self.late() } else { self.delay() };
        self.post(cut_for + delay, Message::Request(client, id, request));
        id
    }

    fn close(&mut self, client: usize, id: RequestId, answer: Result<Answer, Failure>) {
        let client = &mut self.clients[client];
        client.open_objects.remove(&id);
        if client.open.remove(&id) {
            client.inbox.push_back(Event::Answered(id, answer));
        }
    }

    fn post(&mut self, delay: Duration, message: Message) {
        self.made += 1;
        self.queue.insert((self.now + delay, self.made), message);
    }

    fn delay(&mut self) -> Duration {
        self.random
            .within(Duration::from_micros(100), Duration::from_micros(2_000))
    }

    fn late(&mut self) -> Duration {
        self.random.within(Duration::ZERO, self.chaos.late)
    }
}

/// A client of a world.
#[derive(Clone)]
pub struct ModelSequencer {
    world: Rc<RefCell<World>>,
    client: usize,
}

impl ModelSequencer {
    /// A new client.
    pub fn new(world: &Rc<RefCell<World>>) -> ModelSequencer {
        let mut inside = world.borrow_mut();
        inside.clients.push(Client::default());
        ModelSequencer {
            world: world.clone(),
            client: inside.clients.len() - 1,
        }
    }

    /// Its number in the world.
    pub fn client(&self) -> usize {
        self.client
    }

    /// An event that has arrived, without letting time pass.
    pub fn arrived(&mut self) -> Option<Event> {
        self.world.borrow_mut().clients[self.client].inbox.pop_front()
    }
}

impl Sequencer for ModelSequencer {
    fn send(&mut self, request: Request) -> RequestId {
        self.world.borrow_mut().send(self.client, request)
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.world.borrow_mut().clients[self.client].watches.push((from, until));
    }

    fn receive(&mut self, wait: Duration) -> Option<Event> {
        let deadline = self.world.borrow().now + wait;
        loop {
            if let Some(event) = self.arrived() {
                return Some(event);
            }
            if self.world.borrow().now >= deadline {
                return None;
            }
            self.world.borrow_mut().step(deadline);
        }
    }
}
