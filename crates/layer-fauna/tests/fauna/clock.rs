//! Starts with a clock that was set: back by an hour, ahead by an hour, or to the very microsecond
//! of the start before.
//!
//! A document created after such a start had the ref of an earlier one and replaced it silently,
//! because ids restarted from the clock. And the past that a reply had shown changed: reads
//! returned the clock as their time, the clock was set back, and the next commits were below. New
//! ids are above everything in the log, reads return versions of the log, and other shown times are
//! first stored in a row.

use std::sync::Arc;

use quartet_engine::Durability;
use quartet_env::{Clock, FaultyDisk};
use quartet_layer_fauna::{Reply, Request, Stream, StreamStep};
use serde_json::Value;

use crate::world::World;

const START_MICROS: u64 = 1_700_000_000_000_000;
const HOUR_MICROS: i64 = 3_600_000_000;
/// By how much the clock is set between two starts.
const SHIFTS_MICROS: [i64; 3] = [-HOUR_MICROS, 0, HOUR_MICROS];

/// A server that can be restarted on the same disk.
struct Starts {
    disk: Arc<FaultyDisk>,
    world: Option<World>,
}

impl Starts {
    fn new() -> Starts {
        let mut starts = Starts {
            disk: Arc::new(FaultyDisk::new()),
            world: None,
        };
        starts.start(START_MICROS);
        starts.ask(r#"{"create_collection":{"object":{"name":"c","history_days":1}}}"#);
        starts
    }

    fn start(&mut self, now_micros: u64) {
        // Unacknowledged writes are lost.
        self.world = None;
        self.disk.crash();
        self.world = Some(World::on(self.disk.clone(), now_micros, Durability::Always));
    }

    /// Restarts with a clock that shows the time of the last start, plus the shift.
    fn start_shifted(&mut self, shift_micros: i64) {
        self.start(START_MICROS.checked_add_signed(shift_micros).unwrap());
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    /// The reply, once it may be sent. No time passes.
    fn reply(&self, body: &str) -> Reply {
        let reply = self.world().fauna.answer(Request {
            method: "POST",
            target: "/",
            headers: &[("authorization", "Bearer secret"), ("x-faunadb-api-version", "4")],
            body: body.as_bytes(),
        });
        assert!(self.world().fauna.engine.wait_durable(reply.dependency));
        reply
    }

    fn ask(&self, body: &str) -> Value {
        let reply = self.reply(body);
        let json: Value = serde_json::from_str(&reply.body).unwrap();
        assert!(reply.status < 300, "{body}: {json}");
        json["resource"].clone()
    }

    fn count_at(&self, micros: u64) -> Value {
        self.ask(&format!(r#"{{"at":{micros},"expr":{COUNT}}}"#))
    }
}

const COUNT: &str = r#"{"count":{"documents":{"collection":"c"}}}"#;
const CREATE: &str = r#"{"create":{"collection":"c"},"params":{"object":{"data":{"object":{"n":1}}}}}"#;
const NOW: &str = r#"{"to_micros":{"now":null}}"#;

fn told_version(reply: &Reply) -> u64 {
    let header = reply.headers.iter().find(|(name, _)| *name == "x-txn-time");
    header.unwrap().1.parse().unwrap()
}

fn id_of(document: &Value) -> u64 {
    document["ref"]["@ref"]["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_generated_id_is_given_once() {
    let many = format!(
        r#"{{"foreach":{{"lambda":"n","expr":{CREATE}}},"collection":{:?}}}"#,
        vec![0; 1000]
    );
    for shift_micros in SHIFTS_MICROS {
        let mut starts = Starts::new();
        let first = starts.ask(CREATE);
        // More ids than the microsecond has.
        starts.ask(&many);
        starts.start_shifted(shift_micros);
        let second = starts.ask(CREATE);
        assert!(id_of(&second) > id_of(&first), "{shift_micros}: {second}");
        assert_eq!(starts.ask(COUNT), 1002, "{shift_micros}");
        starts.start_shifted(shift_micros);
        starts.ask(&many);
        assert_eq!(starts.ask(COUNT), 2002, "{shift_micros}");
        assert_eq!(starts.world().findings(), []);
    }
}

#[test]
fn an_id_that_was_only_shown_is_not_given_again() {
    for shift_micros in SHIFTS_MICROS {
        let mut starts = Starts::new();
        let reply = starts.ask(r#"{"new_id":null}"#);
        starts.start_shifted(shift_micros);
        let shown_id: u64 = reply.as_str().unwrap().parse().unwrap();
        assert!(id_of(&starts.ask(CREATE)) > shown_id, "{shift_micros}");
    }
}

#[test]
fn a_chosen_id_is_not_written_over() {
    let starts = Starts::new();
    let next = r#"{"to_string":{"add":[{"to_number":{"new_id":null}},1]}}"#;
    let chosen = starts.ask(&format!(
        r#"{{"let":[{{"chosen":{{"create":{{"ref":{{"collection":"c"}},"id":{next}}},"params":{{"object":{{"data":{{"object":{{"n":7}}}}}}}}}}}},
            {{"generated":{CREATE}}}],"in":{{"object":{{"chosen":{{"var":"chosen"}},"generated":{{"var":"generated"}}}}}}}}"#
    ));
    let (chosen, generated) = (&chosen["chosen"], &chosen["generated"]);
    assert_eq!(id_of(generated), id_of(chosen) + 1);
    assert_eq!(starts.ask(COUNT), 2);
}

/// A database whose number was another's had that one's documents, and its secrets opened both.
#[test]
fn databases_keys_and_tokens_are_kept_apart() {
    for shift_micros in SHIFTS_MICROS {
        let mut starts = Starts::new();
        let create_key = |starts: &Starts, name: &str| {
            starts.ask(&format!(r#"{{"create_database":{{"object":{{"name":"{name}"}}}}}}"#));
            starts.ask(&format!(
                r#"{{"create_key":{{"object":{{"database":{{"database":"{name}"}},"role":"admin"}}}}}}"#
            ))
        };
        let first = create_key(&starts, "first");
        let collection = r#"{"create_collection":{"object":{"name":"own"}}}"#;
        let secret = first["secret"].as_str().unwrap();
        let made = starts.world().ask(secret, collection);
        assert!(starts.world().fauna.engine.wait_durable(made.dependency));
        starts.start_shifted(shift_micros);
        let second = create_key(&starts, "second");
        assert_ne!(id_of(&first), id_of(&second));
        let exists = r#"{"exists":{"collection":"own"}}"#;
        assert_eq!(starts.world().resource(secret, exists), true);
        assert_eq!(
            starts.world().resource(second["secret"].as_str().unwrap(), exists),
            false
        );
    }
}

#[test]
fn an_observed_past_never_changes() {
    for shift_micros in SHIFTS_MICROS {
        let mut starts = Starts::new();
        starts.ask(CREATE);
        let mut observed = Vec::new();
        for _ in 0..3 {
            starts.world().clock.advance(700_000);
            let reply = starts.reply(COUNT);
            let version = told_version(&reply);
            assert_eq!(version, starts.world().fauna.engine.durable().0, "a version of the log");
            let now = starts.ask(NOW).as_u64().unwrap();
            assert_eq!(now, starts.world().clock.now_micros() - 1);
            // A time of the client's own that has passed.
            let earlier = now - 500_000;
            observed.extend([version, now, earlier]);
        }
        observed
            .iter()
            .for_each(|micros| assert_eq!(starts.count_at(*micros), 1));
        starts.start_shifted(shift_micros);
        let later = starts.ask(CREATE);
        assert!(later["ts"].as_u64() > observed.iter().copied().max(), "{shift_micros}");
        for micros in observed {
            assert_eq!(starts.count_at(micros), 1, "{shift_micros}");
        }
        assert_eq!(starts.count_at(later["ts"].as_u64().unwrap()), 2, "{shift_micros}");
        assert_eq!(starts.ask(COUNT), 2, "{shift_micros}");
        let now = starts.ask(NOW).as_u64().unwrap();
        assert_eq!(starts.count_at(now), 2, "the present is not in the past");
    }
}

/// The clock of a server that runs may be set as well.
#[test]
fn a_clock_that_is_set_back_while_the_server_runs_changes_no_past() {
    let starts = Starts::new();
    starts.ask(CREATE);
    starts.world().clock.advance(1_000);
    let now = starts.ask(NOW).as_u64().unwrap();
    starts.world().clock.set(START_MICROS - HOUR_MICROS.unsigned_abs());
    assert_eq!(starts.count_at(now), 1);
    let later = starts.ask(CREATE);
    assert!(later["ts"].as_u64().unwrap() > now);
    assert_eq!(starts.count_at(now), 1);
    assert!(starts.ask(NOW).as_u64().unwrap() >= later["ts"].as_u64().unwrap());
}

/// A failed query shows its time as well, and a query that writes shows one that is not its
/// commit's.
#[test]
fn times_shown_by_errors_and_writes_are_kept() {
    let mut starts = Starts::new();
    starts.ask(CREATE);
    starts.world().clock.advance(1_000);
    let aborted = starts.reply(r#"{"abort":{"to_string":{"to_micros":{"now":null}}}}"#);
    let aborted: Value = serde_json::from_str(&aborted.body).unwrap();
    let micros: u64 = aborted["errors"][0]["description"].as_str().unwrap().parse().unwrap();
    starts.world().clock.advance(1_000);
    let written = starts.ask(&format!(r#"{{"do":[{CREATE},{NOW}]}}"#)).as_u64().unwrap();
    starts.start_shifted(-HOUR_MICROS);
    starts.ask(CREATE);
    assert_eq!(
        (starts.count_at(micros), starts.count_at(written)),
        (1.into(), 1.into())
    );
}

/// Readers that do not show the time write nothing; the others write once a second.
#[test]
fn shown_times_are_kept_once_a_second() {
    let starts = Starts::new();
    let newest = || starts.world().fauna.moment().unwrap().reader.version;
    let before = newest();
    (0..10).for_each(|_| drop(starts.ask(COUNT)));
    assert_eq!(newest(), before);
    starts.world().clock.advance(1_000);
    starts.ask(NOW);
    let first = newest();
    assert!(first > before);
    for _ in 0..9 {
        starts.world().clock.advance(100_000);
        starts.ask(NOW);
    }
    assert_eq!(newest(), first);
    starts.world().clock.advance(200_000);
    starts.ask(NOW);
    assert!(newest() > first);
}

#[test]
fn expired_documents_stay_expired() {
    let reads = [
        r#"{"exists":{"ref":{"collection":"c"},"id":"1"}}"#,
        r#"{"is_nonempty":{"match":{"index":"all"},"terms":1}}"#,
        r#"{"is_nonempty":{"documents":{"collection":"c"}}}"#,
    ];
    for (shift_micros, read) in SHIFTS_MICROS.iter().flat_map(|shift| reads.map(|read| (*shift, read))) {
        let mut starts = Starts::new();
        starts.ask(
            r#"{"create_index":{"object":{"name":"all","source":{"collection":"c"},"terms":[{"object":{"field":["data","n"]}}]}}}"#,
        );
        starts.ask(
            r#"{"create":{"ref":{"collection":"c"},"id":"1"},"params":{"object":{"data":{"object":{"n":1}},
            "ttl":{"time_add":{"now":null},"offset":1,"unit":"second"}}}}"#,
        );
        assert_eq!(starts.ask(read), true, "{read}");
        starts.start_shifted(2_000_000);
        assert_eq!(starts.ask(read), false, "{read}");
        starts.start_shifted(shift_micros);
        assert_eq!(starts.ask(read), false, "{shift_micros}: {read}");
    }
}

/// The events of a stream and their times; events before the stream's start are excluded.
#[test]
fn streams_continue_after_the_clock_was_set() {
    for shift_micros in SHIFTS_MICROS {
        let mut starts = Starts::new();
        starts.ask(r#"{"create":{"ref":{"collection":"c"},"id":"1"},"params":{"object":{}}}"#);
        starts.world().clock.advance(5_000);
        let started = events(&starts, &mut open(&starts))[0].1;
        starts.start_shifted(shift_micros);
        let mut stream = open(&starts);
        let resumed = events(&starts, &mut stream);
        assert_eq!(resumed, [("start".to_owned(), started)], "{shift_micros}");
        let update = r#"{"update":{"ref":{"collection":"c"},"id":"1"},"params":{"object":{}}}"#;
        for _ in 0..3 {
            let ts = starts.ask(update)["ts"].as_u64().unwrap();
            assert_eq!(
                events(&starts, &mut stream),
                [("version".to_owned(), ts)],
                "{shift_micros}"
            );
        }
    }
}

fn open(starts: &Starts) -> Stream {
    let request = Request {
        method: "POST",
        target: "/stream",
        headers: &[("authorization", "Bearer secret"), ("x-faunadb-api-version", "4")],
        body: br#"{"ref":{"collection":"c"},"id":"1"}"#,
    };
    match starts.world().fauna.stream(request, Arc::new(|| {})) {
        Some(Ok((_, stream))) => stream,
        _ => panic!("no stream"),
    }
}

fn events(starts: &Starts, stream: &mut Stream) -> Vec<(String, u64)> {
    let mut events = Vec::new();
    loop {
        match stream.step() {
            StreamStep::Send(event) => {
                let event: Value = serde_json::from_str(&event).unwrap();
                events.push((
                    event["type"].as_str().unwrap().to_owned(),
                    event["txn"].as_u64().unwrap(),
                ));
            }
            StreamStep::Wait(dependency) => assert!(starts.world().fauna.engine.wait_durable(dependency)),
            StreamStep::Idle => return events,
            StreamStep::Busy | StreamStep::End => panic!("the stream goes on"),
        }
    }
}
