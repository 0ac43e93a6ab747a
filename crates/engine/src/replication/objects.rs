//! A home's maintenance of the object store: it probes the store, and removes objects that no
//! record needs.
//!
//! An object may go once the records up to its own are dropped from the sequencer, whether its
//! record was ever appended or not. It stays until the look after that, so that a follower that
//! reads it at the moment can finish.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quartet_log_replicated::{
    Answer, Failure, Moment, ObjectAnswer, ObjectRequest, Place, Request, RequestId, Sequencer,
};
use quartet_model::LogSequence;

/// Intervals of checks of the store: while it holds objects, while it holds none, and while it does
/// not respond.
const HOLDS_INTERVAL: Duration = Duration::from_secs(5);
const IDLE_INTERVAL: Duration = Duration::from_secs(60);
const AWAY_INTERVAL: Duration = Duration::from_secs(1);

enum Chore {
    /// Puts the small object that shows that the store takes any.
    Probe,
    List,
    Remove,
}

#[derive(Default)]
pub(crate) struct Objects {
    open: BTreeMap<RequestId, Chore>,
    is_well: bool,
    looked: Option<Moment>,
    /// The store may hold objects of this partition.
    holds: bool,
    /// The limit of dropped records; and the limit at the previous look.
    dropped_below: LogSequence,
    spared_from: LogSequence,
    garbage: VecDeque<String>,
    pub removed: u64,
}

impl Objects {
    /// Starts a term: the store must be probed before any record depends on it.
    pub fn begin_home(&mut self) {
        (self.is_well, self.looked) = (false, None);
        self.garbage.clear();
    }

    /// Returns true while the store has answered everything: an epoch that needs it may be taken.
    pub fn is_well(&self) -> bool {
        self.is_well
    }

    /// Records below are dropped from the sequencer.
    pub fn dropped(&mut self, below: LogSequence) {
        self.dropped_below = self.dropped_below.max(below);
    }

    /// The home has kept a piece, or has tried to.
    pub fn noted(&mut self, is_kept: bool) {
        self.holds = true;
        self.is_well &= is_kept;
    }

    pub fn is_mine(&self, id: RequestId) -> bool {
        self.open.contains_key(&id)
    }

    /// Sends what is due.
    pub fn send(&mut self, now: Moment, place: &Place, sequencer: &mut dyn Sequencer) {
        if !self.open.is_empty() {
            return;
        }
        if let Some(name) = self.garbage.pop_front() {
            return self.ask(Chore::Remove, ObjectRequest::Remove { name }, sequencer);
        }
        let interval = match (self.is_well, self.holds) {
            (false, _) => AWAY_INTERVAL,
            (true, true) => HOLDS_INTERVAL,
            (true, false) => IDLE_INTERVAL,
        };
        if self.looked.is_none_or(|looked| now.since(looked) >= interval) {
            self.looked = Some(now);
            let (name, bytes) = (format!("{}probe", place.objects_prefix()), b"probe".to_vec());
            self.ask(Chore::Probe, ObjectRequest::Put { name, bytes }, sequencer);
        }
    }

    fn ask(&mut self, chore: Chore, request: ObjectRequest, sequencer: &mut dyn Sequencer) {
        let id = sequencer.send(Request::Object(request));
        self.open.insert(id, chore);
    }

    /// Takes the answer to one of its requests.
    pub fn answered(
        &mut self,
        id: RequestId,
        answer: Result<Answer, Failure>,
        place: &Place,
        is_home: bool,
        sequencer: &mut dyn Sequencer,
    ) {
        let chore = self.open.remove(&id);
        match (chore, answer) {
            (Some(Chore::Probe), Ok(Answer::Object(ObjectAnswer::Done))) if is_home => {
                let prefix = place.objects_prefix();
                self.ask(Chore::List, ObjectRequest::List { prefix }, sequencer);
            }
            (Some(Chore::List), Ok(Answer::Object(ObjectAnswer::Names(names)))) => {
                self.is_well = true;
                self.listed(place, names);
            }
            (Some(Chore::Remove), Ok(_)) => self.removed += 1,
            // Another node is home, which probes the store itself.
            (Some(Chore::Probe), Ok(_)) if !is_home => {}
            _ => self.is_well = false,
        }
    }

    fn listed(&mut self, place: &Place, mut names: Vec<String>) {
        let sequence = |name: &String| place.object_sequence(name);
        names.retain(|name| sequence(name).is_some());
        self.holds = !names.is_empty();
        let below = self.spared_from;
        names.retain(|name| sequence(name).is_some_and(|sequence| sequence < below));
        self.garbage = names.into();
        self.spared_from = self.dropped_below;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartet_log_replicated::model::{Chaos, ModelSequencer, World};
    use quartet_log_replicated::{ClusterId, Event, PartitionId};

    /// An object is removed at the second look after its record was dropped, together with orphaned
    /// objects; objects that records may still need stay.
    #[test]
    fn objects_go_once_their_records_are_dropped() {
        let place = Place::new("/x", ClusterId(7), PartitionId(0));
        let world = World::new(1, Chaos::default());
        let mut sequencer = ModelSequencer::new(&world);
        let name = |sequence: u64| format!("{}{sequence:016x}-rest", place.objects_prefix());
        for sequence in [3, 4, 5] {
            let (name, bytes) = (name(sequence), vec![1]);
            sequencer.send(Request::Object(ObjectRequest::Put { name, bytes }));
        }
        let mut objects = Objects::default();
        objects.begin_home();
        let mut live = |objects: &mut Objects, seconds: u64| {
            for _ in 0..seconds * 10 {
                let now = Moment(world.borrow().now());
                objects.send(now, &place, &mut sequencer);
                let until = now.0 + Duration::from_millis(100);
                let wait = || until.saturating_sub(world.borrow().now());
                while let Some(event) = sequencer.receive(wait()) {
                    if let Event::Answered(id, answer) = event
                        && objects.is_mine(id)
                    {
                        objects.answered(id, answer, &place, true, &mut sequencer);
                    }
                }
            }
        };
        live(&mut objects, 12);
        assert!(objects.is_well());
        let names = || world.borrow().store().objects().keys().cloned().collect::<Vec<_>>();
        let probe = format!("{}probe", place.objects_prefix());
        assert_eq!(names(), [name(3), name(4), name(5), probe.clone()]);
        objects.dropped(LogSequence(5));
        live(&mut objects, 12);
        assert_eq!(names(), [name(5), probe]);
        assert_eq!(objects.removed, 2);
    }
}
