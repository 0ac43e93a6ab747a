//! One client's handle of an etcd cluster, with a thread of its own for the connections.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use quartet_log_replicated::{Event, Request, RequestId, Sequencer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::calls::{execute, watch};
use crate::messages::{StatusRequest, StatusResponse};
use crate::opening::{OpenError, STATUS, judge};
use crate::options::EtcdOptions;
use crate::wire::Wire;

/// A cluster of etcd as the log's sequencer. Dropping it ends its watches and gives up its open
/// requests.
pub struct Etcd {
    endpoints: Vec<String>,
    /// `None` once `drop` has started.
    commands: Option<UnboundedSender<Command>>,
    events: Receiver<Event>,
    sent: u64,
    thread: Option<JoinHandle<()>>,
}

/// A member, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which of the endpoints it is.
    pub endpoint: String,
    /// Its version.
    pub version: String,
    /// Bytes of its database file.
    pub file_bytes: u64,
    /// Its quota, which members before 3.6 do not report.
    pub quota_bytes: Option<u64>,
    /// True if it leads.
    pub is_leader: bool,
}

/// Called when there is something to receive.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The way of events to the handle.
#[derive(Clone)]
struct Report {
    events: Sender<Event>,
    waker: Waker,
}

impl Report {
    /// Returns false if the handle was dropped.
    fn send(&self, event: Event) -> bool {
        let is_sent = self.events.send(event).is_ok();
        (self.waker)();
        is_sent
    }
}

enum Command {
    Send(RequestId, Request),
    Watch(Vec<u8>, Vec<u8>),
    Status(Sender<Vec<(usize, StatusResponse)>>),
}

impl Etcd {
    /// Connects, and checks whether the cluster is fit to hold a log.
    pub fn open(options: &EtcdOptions) -> Result<Etcd, OpenError> {
        Etcd::open_waking(options, Arc::new(|| {}))
    }

    /// The same, and calls `waker` after each event that `receive` has to give, from the
    /// connections' thread. It must be quick.
    pub fn open_waking(options: &EtcdOptions, waker: Waker) -> Result<Etcd, OpenError> {
        if options.endpoints.is_empty() {
            return Err(OpenError::Settings("there are no endpoints".to_owned()));
        }
        if let Some(endpoint) = options.in_the_clear() {
            let endpoint = endpoint.clone();
            return Err(OpenError::ClearText { endpoint });
        }
        let (commands, received) = unbounded_channel();
        let (events, received_events) = channel();
        let report = Report { events, waker };
        let (judged, verdict) = channel();
        let (options, endpoints) = (options.clone(), options.endpoints.clone());
        let thread = std::thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || run(&options, received, report, &judged))
            .map_err(|error| OpenError::Settings(error.to_string()))?;
        let etcd = Etcd {
            endpoints,
            commands: Some(commands),
            events: received_events,
            sent: 0,
            thread: Some(thread),
        };
        let ended = Err(OpenError::Settings("the connections' thread has ended".to_owned()));
        verdict.recv().unwrap_or(ended).map(|()| etcd)
    }

    /// Queries the status of every endpoint. Unreachable endpoints are left out.
    pub fn status(&self) -> Vec<MemberStatus> {
        let (report, answers) = channel();
        self.command(Command::Status(report));
        let member = |(endpoint, status): (usize, StatusResponse)| MemberStatus {
            endpoint: self.endpoints.get(endpoint).cloned().unwrap_or_default(),
            is_leader: status.header.is_some_and(|header| header.member_id == status.leader),
            version: status.version,
            quota_bytes: u64::try_from(status.db_size_quota).ok().filter(|quota| *quota > 0),
            file_bytes: u64::try_from(status.db_size).unwrap_or_default(),
        };
        let answers = answers.recv().unwrap_or_default();
        answers.into_iter().map(member).collect()
    }

    fn command(&self, command: Command) {
        // The thread ends only when `commands` is dropped.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
    }
}

impl Sequencer for Etcd {
    fn send(&mut self, request: Request) -> RequestId {
        self.sent += 1;
        let id = RequestId(self.sent);
        self.command(Command::Send(id, request));
        id
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.command(Command::Watch(from, until));
    }

    fn receive(&mut self, wait: Duration) -> Option<Event> {
        self.events.recv_timeout(wait).ok()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(
    options: &EtcdOptions,
    commands: UnboundedReceiver<Command>,
    events: Report,
    judged: &Sender<Result<(), OpenError>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let opened = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let wire = runtime.block_on(async { Wire::new(options) });
        wire.map(|wire| (runtime, Arc::new(wire)))
            .map_err(|error| error.to_string())
    });
    let (runtime, wire) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let _ = judged.send(Err(OpenError::Settings(error)));
            return;
        }
    };
    let verdict = runtime.block_on(judge(&wire, options));
    let is_fit = verdict.is_ok();
    let _ = judged.send(verdict);
    if is_fit {
        runtime.block_on(serve(wire, commands, events));
    }
}

/// Ends when the handle is dropped.
async fn serve(wire: Arc<Wire>, mut commands: UnboundedReceiver<Command>, events: Report) {
    while let Some(command) = commands.recv().await {
        let (wire, events) = (wire.clone(), events.clone());
        match command {
            Command::Send(id, request) => drop(tokio::spawn(async move {
                let answer = execute(&wire, request).await;
                events.send(Event::Answered(id, answer));
            })),
            Command::Watch(from, until) => drop(tokio::spawn(async move {
                watch(&wire, from, until, &|hint| events.send(Event::Hint(hint))).await;
            })),
            Command::Status(report) => drop(tokio::spawn(async move {
                let mut answers = Vec::new();
                for endpoint in 0..wire.endpoints() {
                    if let Ok(status) = wire.call_at(endpoint, STATUS, StatusRequest {}).await {
                        answers.push((endpoint, status));
                    }
                }
                let _ = report.send(answers);
            })),
        }
    }
}
