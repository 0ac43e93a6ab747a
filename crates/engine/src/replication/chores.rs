//! A node's chores at the sequencer beside the log: it reports what it has, and a home drops what
//! enough nodes have synced.

use std::collections::BTreeMap;
use std::time::Duration;

use quartet_log_replicated::copies::{self, NodeReport};
use quartet_log_replicated::{
    Answer, Copies, Failure, Home, LeaseId, Moment, NodeId, ObjectOptions, Place, Request, RequestId, Sequencer,
    Window, configured, configured_request, configures, trim,
};
use quartet_model::LogSequence;

use crate::replication::objects::Objects;
use crate::standing::Replication;

/// The lease of a node's report.
const LEASE_SECONDS: u32 = 10;
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const TRIM_INTERVAL: Duration = Duration::from_secs(2);

/// This node's progress, and its wall clock in microseconds since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Reached {
    pub applied: LogSequence,
    pub synced: LogSequence,
    /// Archived apart from the nodes, and synced here: a home that has lost power needs the later
    /// records.
    pub archived: LogSequence,
    pub clock_us: u64,
}

enum Chore {
    Lease,
    Report,
    /// Reads which nodes are configured.
    Configured,
    /// Reads all reports.
    Reports,
    Holds,
    /// Drops the records below.
    Trim(LogSequence),
    Compact,
}

pub(crate) struct Chores {
    node: NodeId,
    /// The operator's number of nodes.
    announced: usize,
    /// The announced number of nodes, and the removed ones.
    nodes: usize,
    removed: Vec<NodeId>,
    budget_bytes: u64,
    lease: Option<LeaseId>,
    open: BTreeMap<RequestId, Chore>,
    reported: Option<Moment>,
    is_home: bool,
    trimmed: Option<Moment>,
    synced: Vec<LogSequence>,
    archived: LogSequence,
    window: Window,
    trimmed_below: LogSequence,
    lacks_copies: bool,
    /// `None` without a store of objects.
    pub objects: Option<Objects>,
    pub object_options: Option<ObjectOptions>,
}

impl Chores {
    pub fn new(node: NodeId, nodes: usize, budget_bytes: u64, object_options: Option<ObjectOptions>) -> Chores {
        Chores {
            node,
            announced: nodes,
            nodes,
            removed: Vec::new(),
            budget_bytes,
            lease: None,
            open: BTreeMap::new(),
            reported: None,
            is_home: false,
            trimmed: None,
            synced: Vec::new(),
            archived: LogSequence::ZERO,
            window: Window::default(),
            trimmed_below: LogSequence::ZERO,
            lacks_copies: false,
            objects: object_options.map(|_| Objects::default()),
            object_options,
        }
    }

    pub fn begin_home(&mut self) {
        self.is_home = true;
        self.lacks_copies = false;
        if let Some(objects) = &mut self.objects {
            objects.begin_home();
        }
    }

    /// A record was appended or applied.
    pub fn appended(&mut self, sequence: LogSequence, stored_bytes: usize) {
        self.window.note(sequence, stored_bytes);
        if !self.is_home {
            self.window
                .keep(self.budget_bytes.saturating_add(self.budget_bytes / 8));
        }
    }

    /// The sequencer holds more than it should, for want of copies.
    pub fn lacks_copies(&self) -> bool {
        self.is_home && self.lacks_copies
    }

    pub fn note(&self, figures: &mut Replication) {
        figures.trimmed_below = self.trimmed_below.0;
        figures.budget_bytes = self.budget_bytes;
        figures.window_bytes = self.window.bytes_from(LogSequence::ZERO);
        if let Some(objects) = &self.objects {
            figures.object_store_answers = objects.is_well();
            figures.objects_removed = objects.removed;
        }
    }

    pub fn is_mine(&self, id: RequestId) -> bool {
        self.open.contains_key(&id) || self.objects.as_ref().is_some_and(|objects| objects.is_mine(id))
    }

    /// Sends what is due.
    pub fn send(&mut self, now: Moment, reached: Reached, place: &Place, sequencer: &mut dyn Sequencer) {
        self.archived = reached.archived;
        let is_due = |last: Option<Moment>, interval| last.is_none_or(|last| now.since(last) >= interval);
        if is_due(self.reported, REPORT_INTERVAL) {
            self.reported = Some(now);
            match self.lease {
                None => self.ask(Chore::Lease, Request::Grant { seconds: LEASE_SECONDS }, sequencer),
                Some(lease) => {
                    self.ask(Chore::Lease, Request::KeepAlive { lease }, sequencer);
                    let report = report(place, reached).request(place, self.node, lease);
                    self.ask(Chore::Report, report, sequencer);
                }
            }
        }
        if self.is_home && is_due(self.trimmed, TRIM_INTERVAL) {
            self.trimmed = Some(now);
            self.ask(Chore::Configured, configured_request(place), sequencer);
        }
        if self.is_home
            && let Some(objects) = &mut self.objects
        {
            objects.send(now, place, sequencer);
        }
    }

    fn ask(&mut self, chore: Chore, request: Request, sequencer: &mut dyn Sequencer) {
        let id = sequencer.send(request);
        self.open.insert(id, chore);
    }

    /// Takes the answer to one of its requests. `home`: this node, while it is.
    pub fn answered(
        &mut self,
        id: RequestId,
        answer: Result<Answer, Failure>,
        place: &Place,
        home: Option<&Home>,
        sequencer: &mut dyn Sequencer,
    ) {
        self.is_home = home.is_some();
        if let Some(objects) = self.objects.as_mut().filter(|objects| objects.is_mine(id)) {
            return objects.answered(id, answer, place, home.is_some(), sequencer);
        }
        let (Some(chore), Ok(answer)) = (self.open.remove(&id), answer) else {
            return;
        };
        match (chore, answer) {
            (Chore::Lease, Answer::Lease(lease)) => self.lease = Some(lease),
            (Chore::Lease, _) => self.lease = None,
            (Chore::Configured, answer) if self.is_home => {
                let Some(rows) = configured(place, &answer) else {
                    return;
                };
                self.nodes = configures(self.announced, &rows);
                let removed = rows.into_iter().filter(|(_, row)| row.is_removed);
                self.removed = removed.map(|(node, _)| node).collect();
                self.ask(Chore::Reports, copies::reports_request(place), sequencer);
            }
            (Chore::Reports, answer) if self.is_home => {
                let mut reports = copies::reports(place, &answer);
                reports.retain(|(node, _)| !self.removed.contains(node));
                let reached = reports.iter().flat_map(|(_, report)| &report.partitions);
                let here = reached.filter(|reached| reached.partition == place.partition);
                self.synced = here.map(|reached| reached.synced).collect();
                self.ask(Chore::Holds, copies::holds_request(place), sequencer);
            }
            (Chore::Holds, answer) => {
                if let (Some(home), Some(holds)) = (home, copies::holds(&answer)) {
                    self.trim(home, &holds, sequencer);
                }
            }
            (Chore::Trim(below), Answer::Done { revision }) => {
                if let Some(objects) = &mut self.objects {
                    objects.dropped(below);
                }
                self.ask(Chore::Compact, Request::Compact { revision }, sequencer);
            }
            _ => {}
        }
    }

    fn trim(&mut self, home: &Home, holds: &[LogSequence], sequencer: &mut dyn Sequencer) {
        let copies = Copies {
            nodes: self.nodes,
            synced: &self.synced,
            archived: self.archived,
            holds,
        };
        let decided = trim(&copies, home.tail().sequence, &self.window, self.budget_bytes);
        self.lacks_copies = decided.writes_refused;
        if decided.below > self.trimmed_below {
            self.trimmed_below = decided.below;
            self.window.forget_below(decided.below);
            let chore = Chore::Trim(home.may_drop_below(decided.below));
            self.ask(chore, home.trim_request(decided.below), sequencer);
        }
    }
}

fn report(place: &Place, reached: Reached) -> NodeReport {
    NodeReport {
        cluster: place.cluster,
        clock_us: reached.clock_us,
        partitions: vec![copies::Reached {
            partition: place.partition,
            applied: reached.applied,
            synced: reached.synced,
        }],
    }
}
