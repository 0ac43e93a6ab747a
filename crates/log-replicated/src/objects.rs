//! Epochs that are too long for records: their bytes are objects beside the log, and a record
//! points to them.
//!
//! ```text
//! home       object, piece by piece --> store --> all kept: record N points to it --> sequencer
//! follower   record N --> pieces 0, 1, ... --> length and hash as record N says --> delivered
//! trimming   records below N dropped --> their objects removed
//! ```
//!
//! A record is appended only once the store has every piece, so a record without its object is a
//! contradiction. An object's name has the record's sequence, its term and the hash of its bytes:
//! no two homes, and no two epochs, share a name, and a late request has no effect on objects that
//! are read. An object is needed as long as its record is at the sequencer. An object without an
//! appended record is removed by the same rule, once trimming has passed its sequence.

use quartet_model::LogSequence;

use crate::place::{Place, hex};
use crate::pointer::{ObjectRequest, Pointer};
use crate::words::{Position, Term};

impl Place {
    /// The name of a piece of the object that record `sequence` of `term` points to.
    pub fn object_name(&self, sequence: LogSequence, term: Term, pointer: &Pointer, piece: u32) -> String {
        let (prefix, hash) = (self.objects_prefix(), pointer.hash);
        format!("{prefix}{:016x}-{:016x}-{hash:032x}-{piece:08x}", sequence.0, term.0)
    }

    /// The prefix of the names of all objects of the partition.
    pub fn objects_prefix(&self) -> String {
        format!("{:032x}-{}-", self.cluster.0, self.partition.0)
    }

    /// The sequence of the record that points to an object, by the object's name; `None` for other
    /// names.
    pub fn object_sequence(&self, name: &str) -> Option<LogSequence> {
        let digits = name.strip_prefix(&self.objects_prefix())?;
        hex(digits.as_bytes().get(..16)?).map(LogSequence)
    }
}

/// An object that a home gives to the store.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub pointer: Pointer,
    pub epoch: Vec<u8>,
    /// Pieces that the store has.
    pub kept: u32,
    pub is_sent: bool,
}

impl Upload {
    pub fn request(&self, place: &Place, sequence: LogSequence, term: Term) -> ObjectRequest {
        ObjectRequest::Put {
            name: place.object_name(sequence, term, &self.pointer, self.kept),
            bytes: self.epoch[self.pointer.piece(self.kept)].to_vec(),
        }
    }
}

/// An object that a follower reads, and the position of its record.
#[derive(Clone, Debug)]
pub(crate) struct Download {
    pub position: Position,
    pub stored_bytes: usize,
    pub pointer: Pointer,
    /// Pieces that are here, joined.
    epoch: Vec<u8>,
    pieces: u32,
}

impl Download {
    pub fn new(position: Position, stored_bytes: usize, pointer: Pointer) -> Download {
        Download {
            position,
            stored_bytes,
            pointer,
            epoch: Vec::new(),
            pieces: 0,
        }
    }

    pub fn request(&self, place: &Place) -> ObjectRequest {
        ObjectRequest::Get {
            name: place.object_name(self.position.sequence, self.position.term, &self.pointer, self.pieces),
            length: self.pointer.piece(self.pieces).len(),
        }
    }

    /// Takes the next piece. False if it is not as long as the record says.
    pub fn take(&mut self, piece: &[u8]) -> bool {
        let fits = piece.len() == self.pointer.piece(self.pieces).len();
        if fits {
            self.epoch.extend_from_slice(piece);
            self.pieces += 1;
        }
        fits
    }

    pub fn is_whole(&self) -> bool {
        self.pieces == self.pointer.pieces()
    }

    /// The epoch; `None` if it does not match the record's pointer.
    pub fn into_epoch(self) -> Option<Vec<u8>> {
        self.pointer.fits(&self.epoch).then_some(self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive;
    use crate::follower::{Content, Follower};
    use crate::home::{Fate, Home, ObjectOptions, Outcome};
    use crate::model::{Chaos, ModelSequencer, World};
    use crate::pointer::ObjectAnswer;
    use crate::sequencer::{Request, Sequencer};
    use crate::stop::StopReason;
    use crate::words::{ClusterId, Moment, NodeId, PartitionId, Writer};
    use quartet_model::Version;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    const TRIES: u32 = 10_000;
    const OPTIONS: ObjectOptions = ObjectOptions {
        beyond_bytes: 100,
        piece_bytes: 64,
        patience: Duration::from_secs(10),
    };

    fn place() -> Place {
        Place::new("/x", ClusterId(7), PartitionId(2))
    }

    fn world(seed: u64, chaos: Chaos) -> (Rc<RefCell<World>>, ModelSequencer) {
        let world = World::new(seed, chaos);
        let mut sequencer = ModelSequencer::new(&world);
        while drive::ask(&mut sequencer, place().found()).is_err() {}
        (world, sequencer)
    }

    fn home(sequencer: &mut ModelSequencer, node: u64) -> Home {
        let me = Writer {
            node: NodeId(node),
            incarnation: 1,
        };
        let mut follower = Follower::new(place(), place().beginning());
        let won = drive::take_over(me, &mut follower, sequencer, TRIES, &mut |_| {}, &|| Version(1));
        let mut home = won.unwrap();
        home.keep_objects(OPTIONS);
        home
    }

    fn epochs(sequencer: &mut ModelSequencer) -> Result<Vec<Vec<u8>>, StopReason> {
        let mut follower = Follower::new(place(), place().beginning());
        let (mut epochs, mut more) = (Vec::new(), true);
        while more {
            let Ok(answer) = drive::ask(sequencer, follower.request()) else {
                continue;
            };
            let batch = follower.take(answer)?;
            more = batch.1;
            epochs.extend(batch.0.into_iter().filter_map(|delivery| match delivery.content {
                Content::Epoch(epoch) => Some(epoch),
                _ => None,
            }));
        }
        Ok(epochs)
    }

    #[test]
    fn epochs_arrive_whole_over_a_bad_network_and_a_store_that_is_away() {
        for seed in 0..30 {
            let chaos = Chaos {
                lost_requests: 20,
                lost_answers: 20,
                duplicates: 10,
                late_requests: 20,
                late_answers: 20,
                lost_hints: 5,
                late: Duration::from_secs(3),
            };
            let (world, mut sequencer) = world(seed, chaos);
            let mut home = home(&mut sequencer, 1);
            let written: Vec<Vec<u8>> = (0..12).map(|number| vec![number; usize::from(number) * 40]).collect();
            for epoch in &written {
                if epoch.len() == 240 {
                    world.borrow_mut().take_objects_away(Duration::from_secs(2));
                }
                home.append(epoch).unwrap();
                let now = || Moment(world.borrow().now());
                let outcome = drive::append(&mut home, &mut sequencer, TRIES, &now);
                let is_done = matches!(outcome, Some(Outcome::Done(_) | Outcome::Landed(_)));
                assert!(is_done, "seed {seed}: {outcome:?}");
            }
            assert_eq!(epochs(&mut sequencer), Ok(written), "seed {seed}");
        }
    }

    /// Another takes over while an object is given to the store: no record ever points to it.
    #[test]
    fn an_object_of_a_deposed_home_never_happened() {
        let (_, mut sequencer) = world(1, Chaos::default());
        let mut old = home(&mut sequencer, 1);
        old.append(vec![1; 200]).unwrap();
        let request = old.object_request(Moment::default()).unwrap();
        let mut new = home(&mut sequencer, 2);
        new.append(vec![2; 200]).unwrap();
        let now = || Moment::default();
        drive::append(&mut new, &mut sequencer, TRIES, &now);
        old.object_kept(&drive::ask(&mut sequencer, request), Moment::default());
        let Some(Outcome::Deposed { fate, .. }) = drive::append(&mut old, &mut sequencer, TRIES, &now) else {
            panic!("appended behind a later term");
        };
        assert_eq!(fate, Fate::Never);
        assert_eq!(epochs(&mut sequencer), Ok(vec![vec![2; 200]]));
    }

    #[test]
    fn a_home_gives_up_once_the_store_has_been_silent_for_too_long() {
        let (_, mut sequencer) = world(1, Chaos::default());
        let mut home = home(&mut sequencer, 1);
        let at = |seconds| Moment(Duration::from_secs(seconds));
        assert!(!home.give_up(at(100)), "nothing is given to it");
        home.append(vec![1; 200]).unwrap();
        let request = home.object_request(at(100)).unwrap();
        home.object_kept(&drive::ask(&mut sequencer, request), at(105));
        assert!(!home.give_up(at(114)), "it has kept a piece");
        let silent = Err(crate::sequencer::Failure::Store("away".to_owned()));
        home.object_request(at(106)).unwrap();
        home.object_kept(&silent, at(110));
        assert!(home.object_request(at(110)).is_some(), "the same piece again");
        assert!(home.give_up(at(115)) && home.is_over());
        assert_eq!(home.append(vec![3; 9]), Err(crate::home::AppendError::Over));
    }

    /// Relaxed replies may be sent until two seconds after the start of an upload, even if the home
    /// is confirmed meanwhile: it may give up, and they would be lost.
    #[test]
    fn evidence_after_the_start_of_an_upload_does_not_count_for_relaxed_replies() {
        let (_, mut sequencer) = world(1, Chaos::default());
        let mut home = home(&mut sequencer, 1);
        let at = |seconds| Moment(Duration::from_secs(seconds));
        home.append(vec![1; 200]).unwrap();
        home.object_request(at(10)).unwrap();
        drive::confirm(&mut home, &mut sequencer, at(12));
        assert_eq!((home.evidence(), home.relaxed_evidence()), (Some(at(12)), Some(at(10))));
        assert!(home.is_fresh(at(11)) && !home.is_fresh(at(12)));
    }

    /// A reader that finds no object checks again whether the record exists.
    #[test]
    fn a_missing_object_is_lost_only_if_its_record_exists() {
        let (_, mut sequencer) = world(1, Chaos::default());
        let mut home = home(&mut sequencer, 1);
        home.append(vec![1; 200]).unwrap();
        drive::append(&mut home, &mut sequencer, TRIES, &Moment::default);
        let mut follower = Follower::new(place(), place().beginning());
        for _ in 0..2 {
            let answer = drive::ask(&mut sequencer, follower.request()).unwrap();
            follower.take(answer).unwrap();
        }
        assert!(follower.reads_object());
        let prefix = place().objects_prefix();
        let listed = drive::ask(&mut sequencer, Request::Object(ObjectRequest::List { prefix }));
        let Ok(crate::sequencer::Answer::Object(ObjectAnswer::Names(names))) = listed else {
            panic!("no list");
        };
        for name in names {
            sequencer.send(Request::Object(ObjectRequest::Remove { name }));
        }
        let mut other = follower.clone();
        let mut read = |follower: &mut Follower| {
            let answer = drive::ask(&mut sequencer, follower.request()).unwrap();
            follower.take(answer)
        };
        assert_eq!(read(&mut follower), Ok((Vec::new(), true)));
        let at = LogSequence(2);
        assert_eq!(read(&mut follower), Err(StopReason::LostObject { at }));
        assert_eq!(read(&mut other), Ok((Vec::new(), true)));
        home.append(b"behind").unwrap();
        drive::append(&mut home, &mut sequencer, TRIES, &Moment::default);
        drive::ask(&mut sequencer, home.trim_request(LogSequence(3))).unwrap();
        let answer = drive::ask(&mut sequencer, other.request()).unwrap();
        let (next, first) = (LogSequence(2), LogSequence(3));
        assert_eq!(other.take(answer), Err(StopReason::Trimmed { next, first }));
    }

    #[test]
    fn pieces_make_the_whole_and_names_have_the_record() {
        let epoch: Vec<u8> = (0..=99).collect();
        let pointer = Pointer::to(&epoch, 30).unwrap();
        let pieces = (0..pointer.pieces()).map(|piece| epoch[pointer.piece(piece)].to_vec());
        let pieces: Vec<Vec<u8>> = pieces.collect();
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [30, 30, 30, 10]);
        assert!(pointer.fits(&pieces.concat()));
        let place = Place::new("/x", ClusterId(7), PartitionId(2));
        let name = place.object_name(LogSequence(300), Term(4), &pointer, 3);
        assert_eq!(place.object_sequence(&name), Some(LogSequence(300)));
        assert_eq!(
            place.object_sequence(&format!("{name}.unfinished")),
            Some(LogSequence(300))
        );
        let other = Place::new("/x", ClusterId(7), PartitionId(20));
        assert_eq!(other.object_sequence(&name), None);
    }

    #[test]
    fn an_object_that_has_changed_is_none() {
        let epoch = vec![7; 100];
        let pointer = Pointer::to(&epoch, 60).unwrap();
        let position = Place::new("/x", ClusterId(7), PartitionId(2)).beginning();
        let mut download = Download::new(position, 0, pointer);
        assert!(!download.take(&epoch[..59]), "too short");
        assert!(!download.take(&epoch[..61]), "too long");
        assert!(download.take(&epoch[..60]) && !download.is_whole());
        let mut changed = download.clone();
        assert!(changed.take(&[8; 40]) && changed.is_whole());
        assert_eq!(changed.into_epoch(), None);
        assert!(download.take(&epoch[60..]));
        assert_eq!(download.into_epoch(), Some(epoch));
    }
}
