//! A sequencer that answers at once, and on purpose not at all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_engine::{MakeSequencer, Waker};
use quartet_log_replicated::model::Store;
use quartet_log_replicated::{Answer, Event, Failure, Hint, Operation, Request, RequestId, Sequencer};

/// How a client's requests fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are executed and answered.
    #[default]
    Well,
    /// They are executed, and the client receives no answer.
    AnswersLost,
    /// They are not executed, and the client receives no answer.
    CutOff,
    /// They are executed once this mode ends.
    Late,
}

/// The keys, and the way to them.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    store: Store,
    clients: Vec<Client>,
    /// The initial mode of clients' requests.
    begins: Mode,
    /// The object store answers no request.
    has_no_objects: bool,
}

struct Client {
    mode: Mode,
    waker: Waker,
    watches: Vec<(Vec<u8>, Vec<u8>)>,
    inbox: VecDeque<Event>,
    late: Vec<(RequestId, Request)>,
    hears_hints: bool,
}

impl Shelf {
    /// Does a request at once.
    pub fn ask(&self, request: &Request) -> Answer {
        let mut inside = self.0.lock();
        inside.store.execute(usize::MAX, Duration::ZERO, request)
    }

    /// The number of the next client that connects.
    pub fn next_client(&self) -> usize {
        self.0.lock().clients.len()
    }

    pub fn set_mode(&self, client: usize, mode: Mode) {
        let mut inside = self.0.lock();
        inside.clients[client].mode = mode;
        for (id, request) in std::mem::take(&mut inside.clients[client].late) {
            inside.execute(client, id, &request);
        }
    }

    /// The mode of clients that connect later.
    pub fn begin_with(&self, mode: Mode) {
        self.0.lock().begins = mode;
    }

    /// The store of objects answers, or it does nothing.
    pub fn set_objects(&self, answers: bool) {
        self.0.lock().has_no_objects = !answers;
    }

    /// The names in the store of objects.
    pub fn objects(&self) -> Vec<String> {
        self.0.lock().store.objects().keys().cloned().collect()
    }

    /// Hints reach the client, or none does.
    pub fn set_hints(&self, client: usize, hears: bool) {
        self.0.lock().clients[client].hears_hints = hears;
    }

    pub fn maker(&self) -> MakeSequencer {
        let shelf = self.clone();
        Box::new(move |waker| {
            let mut inside = shelf.0.lock();
            let mode = inside.begins;
            inside.clients.push(Client {
                mode,
                waker,
                watches: Vec::new(),
                inbox: VecDeque::new(),
                late: Vec::new(),
                hears_hints: true,
            });
            let client = inside.clients.len() - 1;
            drop(inside);
            Box::new(Handle { shelf, client, sent: 0 })
        })
    }
}

impl Inside {
    fn execute(&mut self, client: usize, id: RequestId, request: &Request) {
        let answer = self.store.execute(client, Duration::ZERO, request);
        if let (Request::Transact { operations, .. }, Answer::Done { .. }) = (request, &answer) {
            operations.iter().for_each(|operation| self.hint(operation));
        }
        let answer = match self.clients[client].mode {
            Mode::AnswersLost => Err(Failure::Unknown("lost".to_owned())),
            _ => Ok(answer),
        };
        self.report(client, Event::Answered(id, answer));
    }

    fn hint(&mut self, operation: &Operation) {
        let Operation::Put { key, value, .. } = operation else {
            return;
        };
        for client in 0..self.clients.len() {
            let state = &self.clients[client];
            let is_watched = state.watches.iter().any(|(from, until)| (from..until).contains(&key));
            if is_watched && state.hears_hints && state.mode == Mode::Well {
                let (key, value) = (key.clone(), value.clone());
                self.report(client, Event::Hint(Hint::Put { key, value }));
            }
        }
    }

    fn report(&mut self, client: usize, event: Event) {
        self.clients[client].inbox.push_back(event);
        (self.clients[client].waker)();
    }
}

struct Handle {
    shelf: Shelf,
    client: usize,
    sent: u64,
}

impl Sequencer for Handle {
    fn send(&mut self, request: Request) -> RequestId {
        self.sent += 1;
        let id = RequestId(self.sent);
        let mut inside = self.shelf.0.lock();
        if inside.has_no_objects && matches!(request, Request::Object(_)) {
            let away = Err(Failure::Store("away".to_owned()));
            inside.report(self.client, Event::Answered(id, away));
            return id;
        }
        match inside.clients[self.client].mode {
            Mode::Well | Mode::AnswersLost => inside.execute(self.client, id, &request),
            Mode::CutOff => {
                let lost = Err(Failure::Unknown("cut off".to_owned()));
                inside.report(self.client, Event::Answered(id, lost));
            }
            Mode::Late => inside.clients[self.client].late.push((id, request)),
        }
        id
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.shelf.0.lock().clients[self.client].watches.push((from, until));
    }

    fn receive(&mut self, _: Duration) -> Option<Event> {
        self.shelf.0.lock().clients[self.client].inbox.pop_front()
    }
}

/// Waits until it holds; the test fails if it never does.
pub fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "{condition}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
