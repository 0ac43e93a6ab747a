//! etcd, for tests of a process that is killed at one of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use quartet_log_replicated::model::Store;
use quartet_log_replicated::{Event, Failure, Request, RequestId, Sequencer};

/// Kills the process at a request: before its execution, or after it.
pub struct UntilKilled<'o> {
    etcd: &'o mut Store,
    executes: usize,
    answers: usize,
    sent: usize,
    inbox: VecDeque<Event>,
}

impl UntilKilled<'_> {
    /// `executes`: how many requests are executed; `answers`: how many of them are answered.
    pub fn new(etcd: &mut Store, executes: usize, answers: usize) -> UntilKilled<'_> {
        UntilKilled {
            etcd,
            executes,
            answers,
            sent: 0,
            inbox: VecDeque::new(),
        }
    }

    /// The number of sent requests.
    pub fn sent(&self) -> usize {
        self.sent
    }
}

impl Sequencer for UntilKilled<'_> {
    fn send(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.sent as u64);
        self.sent += 1;
        let answer = (self.sent <= self.executes)
            .then(|| self.etcd.execute(0, Duration::ZERO, &request))
            .filter(|_| self.sent <= self.answers);
        let killed = || Failure::Unknown("killed".to_owned());
        self.inbox.push_back(Event::Answered(id, answer.ok_or_else(killed)));
        id
    }

    fn watch(&mut self, _: Vec<u8>, _: Vec<u8>) {}

    fn receive(&mut self, _: Duration) -> Option<Event> {
        self.inbox.pop_front()
    }
}
