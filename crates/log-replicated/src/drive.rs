//! Carries the machines' requests to a sequencer and back, one at a time, on the caller's thread.
//!
//! For tests, tools and other callers that may block. A server, which may not, drives the machines
//! by events itself.

use std::time::Duration;

use quartet_model::Version;

use crate::follower::{Delivery, Follower};
use crate::home::{Confirmation, Home, Outcome};
use crate::place::{Place, meta_key};
use crate::sequencer::{Answer, Event, Failure, Request, Sequencer};
use crate::stop::StopReason;
use crate::take_over::{Progress, TakeOver};
use crate::words::{Moment, Writer};

/// Longer than any sequencer takes to answer or to give up.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Why following or taking over has ended without success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// The log contradicts what the node has.
    #[error(transparent)]
    Stopped(#[from] StopReason),
    /// The sequencer has not answered within the tries allowed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Sends a request and waits for its answer. Other events that arrive meanwhile are dropped.
pub fn ask(sequencer: &mut dyn Sequencer, request: Request) -> Result<Answer, Failure> {
    let id = sequencer.send(request);
    while let Some(event) = sequencer.receive(ANSWER_WITHIN) {
        if let Event::Answered(of, answer) = event
            && of == id
        {
            return answer;
        }
    }
    Err(Failure::Unknown("the sequencer is silent".to_owned()))
}

/// Returns the first partition of the cluster at the root of `new`, and founds it as that if there
/// is none.
pub fn join(sequencer: &mut dyn Sequencer, new: &Place) -> Result<Place, Failure> {
    ask(sequencer, new.found())?;
    cluster(sequencer, new.root())?.ok_or_else(|| Failure::Unknown("the cluster is gone again".to_owned()))
}

/// Returns the first partition of the cluster with keys below `root`, if there is one.
pub fn cluster(sequencer: &mut dyn Sequencer, root: &str) -> Result<Option<Place>, Failure> {
    let key = meta_key(root);
    let Answer::Value(meta) = ask(sequencer, Request::Get { key })? else {
        return Err(Failure::Unknown("a read of `meta`".to_owned()));
    };
    let unreadable = || Failure::Denied("the root's `meta` cannot be read: another program's keys?".to_owned());
    meta.map(|meta| Place::of_meta(root, &meta).ok_or_else(unreadable))
        .transpose()
}

/// Appends the epoch that `home` has in flight, with all its chunks and after its object if it has
/// one, and returns the last outcome: `Unknown` once `tries` answers are missing. Returns `None` if
/// no epoch is in flight, or if as many answers of the object store are missing.
pub fn append(
    home: &mut Home,
    sequencer: &mut dyn Sequencer,
    mut tries: u32,
    now: &dyn Fn() -> Moment,
) -> Option<Outcome> {
    while let Some(request) = home.object_request(now()).filter(|_| tries > 0) {
        let answer = ask(sequencer, request);
        tries -= u32::from(answer.is_err());
        home.object_kept(&answer, now());
    }
    let mut last = None;
    while let Some(request) = home.append_request(now()) {
        let outcome = home.appended(ask(sequencer, request));
        if matches!(outcome, Outcome::Unknown(_)) {
            tries = tries.saturating_sub(1);
        }
        last = Some(outcome);
        if tries == 0 {
            break;
        }
    }
    last
}

/// Confirms all requests that have arrived at `home`, by one read of `term`.
pub fn confirm(home: &mut Home, sequencer: &mut dyn Sequencer, now: Moment) -> Option<Confirmation> {
    home.want(home.arrival());
    let request = home.confirm_request(now)?;
    Some(home.confirmed(ask(sequencer, request)))
}

/// Reads all records after the follower's position.
pub fn catch_up(follower: &mut Follower, sequencer: &mut dyn Sequencer) -> Result<Vec<Delivery>, DriveError> {
    let mut all = Vec::new();
    loop {
        let answer = ask(sequencer, follower.request())?;
        let (deliveries, more) = follower.take(answer)?;
        all.extend(deliveries);
        if !more {
            return Ok(all);
        }
    }
}

/// Takes over as `me`, despite interference of others, and passes `apply` all records in log order,
/// its own Term record last. `floor` is called once all are applied. Returns the failure once
/// `tries` answers are missing.
pub fn take_over(
    me: Writer,
    follower: &mut Follower,
    sequencer: &mut dyn Sequencer,
    mut tries: u32,
    apply: &mut dyn FnMut(Delivery),
    floor: &dyn Fn() -> Version,
) -> Result<Home, DriveError> {
    let mut attempt = TakeOver::new(me);
    loop {
        let Some(request) = attempt.request(follower) else {
            attempt.claim(follower, floor());
            continue;
        };
        let answer = ask(sequencer, request);
        if let Err(failure) = &answer {
            tries = tries.saturating_sub(1);
            if tries == 0 {
                return Err(failure.clone().into());
            }
        }
        match attempt.answered(follower, answer)? {
            Progress::Apply(deliveries) => deliveries.into_iter().for_each(&mut *apply),
            Progress::Won(home, delivery) => {
                apply(delivery);
                return Ok(*home);
            }
            Progress::Ready | Progress::Again => {}
        }
    }
}
