//! A layer on an in-memory disk with a stopped clock, for the unit tests of families and modules.

pub mod recording;

use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_engine::{BriefWaits, Durability, Engine, EngineOptions, Findings, Invariants, Space, Transaction};
use quartet_env::{Clock, FaultyDisk, ManualClock};
use quartet_model::{DatabaseId, LayerId, next_prefix};
use quartet_wire_resp::{Value, decode, encode_command};

use crate::access::admission_control::{Admission, AdmissionControl};
use crate::command_set::Commands;
use crate::commands;
use crate::invariants::RedisInvariants;
use crate::layer::{Identity, Redis};
use crate::session::Session;
use crate::session::after::After;
use crate::session::received::Next;

pub struct Fixture {
    pub layer: Arc<Redis>,
    pub clock: Arc<ManualClock>,
}

/// Lets everything through and counts nothing.
struct NoAdmissionControl;

impl AdmissionControl for NoAdmissionControl {
    fn admit(&self, _: &Admission) -> Result<(), String> {
        Ok(())
    }

    fn took(&self, _micros: u64) {}

    fn transferred(&self, _: usize, _: usize) {}

    fn check_connections(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn script_micros_max(&self) -> u64 {
        u64::MAX
    }

    fn script_bytes_max(&self) -> usize {
        4 << 20
    }
}

/// One connection of a fixture.
pub struct Connection {
    pub session: Session,
}

impl Fixture {
    /// Does all the work that commands have left to modules.
    pub fn finish_work(&self) {
        self.layer.tick_modules();
        while self.layer.work_of_modules().is_some() {}
    }

    /// The faults in the layer's rows.
    pub fn findings(&self) -> Findings {
        findings(&self.layer)
    }

    #[allow(
        clippy::new_without_default,
        reason = "a fixture starts threads; nothing about it is a default"
    )]
    pub fn new() -> Fixture {
        Fixture::with(commands::own())
    }

    /// A layer with these commands.
    pub fn with(commands: &'static Commands) -> Fixture {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
        let layer = layer_with(clock.clone(), commands);
        Fixture { layer, clock }
    }

    /// A layer that is one of several: its memory is that of its own database, independent of other
    /// tests of the process.
    pub fn of_several() -> Fixture {
        Fixture::new().as_one_of_several()
    }

    /// The same layer as one of several.
    pub fn as_one_of_several(mut self) -> Fixture {
        let layer = Arc::get_mut(&mut self.layer).expect("nobody else has it yet");
        layer.access.admission_control = Some(Arc::new(NoAdmissionControl));
        self
    }

    pub fn connect(&self) -> Connection {
        Connection::to(&self.layer)
    }

    pub fn advance_ms(&self, milliseconds: u64) {
        self.clock.advance(milliseconds * 1000);
    }
}

/// The faults in a layer's rows.
pub fn findings(layer: &Redis) -> Findings {
    let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(RedisInvariants::new(&layer.commands().modules))];
    layer.engine.judge(&invariants).unwrap()
}

/// The faults in the layer's rows, one line each.
pub fn found(fixture: &Fixture) -> Vec<String> {
    let findings = fixture.findings().kept;
    findings.into_iter().map(|finding| finding.what).collect()
}

/// The reply to a request while another thread reads; `None`: it needs the exclusive lock, or
/// another thread waits for that.
pub fn beside_a_reader(fixture: &Fixture, connection: &mut Connection, line: &str) -> Option<Vec<u8>> {
    let (_reader, _brief) = (fixture.layer.engine.read(), BriefWaits::begin());
    let words: Vec<&str> = line.split_whitespace().collect();
    let (mut request, mut out) = (Vec::new(), Vec::new());
    encode_command(&words, &mut request);
    let received = connection.session.receive(&request, &mut out);
    let is_busy = matches!(received.next, Next::Busy);
    assert_ne!(is_busy, received.consumed == request.len(), "{line}");
    (!is_busy).then_some(out)
}

/// The same of a request that needs no more than the lock beside others.
pub fn answer_beside(fixture: &Fixture, connection: &mut Connection, line: &str) -> Vec<u8> {
    let give_up_at = Instant::now() + Duration::from_secs(60);
    loop {
        match beside_a_reader(fixture, connection, line) {
            Some(answer) => return answer,
            None => assert!(Instant::now() < give_up_at, "{line}"),
        }
    }
}

/// The key of the first row with this prefix.
pub fn first(fixture: &Fixture, prefix: &[u8]) -> Vec<u8> {
    let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
    let row = reader.nth(prefix, &next_prefix(prefix), 0).unwrap();
    Transaction::layer_key(&row).to_vec()
}

/// Changes rows as no command does.
pub fn plant(fixture: &Fixture, change: impl FnOnce(&mut Transaction<'_>)) {
    let mut partition = fixture.layer.engine.partition();
    let planted = partition.execute(fixture.layer.space, |tx| -> Result<(), ()> {
        change(tx);
        Ok(())
    });
    planted.unwrap();
}

/// A layer over an empty engine with the time of `clock`.
pub fn layer_with(clock: Arc<dyn Clock>, commands: &'static Commands) -> Arc<Redis> {
    let disk = Arc::new(FaultyDisk::new());
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::Redis,
        durability: Durability::None,
    };
    let layer = Redis::new(Arc::new(engine), space, commands, Identity::default(), Box::new(|| {}));
    Arc::new(layer)
}

impl Connection {
    pub fn to(layer: &Arc<Redis>) -> Connection {
        let clients = &layer.connections.clients;
        let client = clients.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), 0, Arc::new(|| {}));
        Connection {
            session: Session::new(layer.clone(), client),
        }
    }

    /// The reply to a command given as words, also where another thread gives it. Panics if it
    /// blocks.
    pub fn run(&mut self, words: &[&str]) -> Value {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(words, &mut request);
        let received = self.session.receive(&request, &mut out);
        if let Next::After(After::LongRun(mut run)) = received.next {
            std::thread::scope(|scope| _ = scope.spawn(|| run.run()));
            self.session.take_back(*run, &mut out);
        }
        assert!(!out.is_empty(), "no reply to {words:?}");
        decode(&out).unwrap().unwrap().0
    }

    /// The raw reply; empty if the command blocks.
    pub fn bytes(&mut self, words: &[&str]) -> Vec<u8> {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(words, &mut request);
        self.session.receive(&request, &mut out);
        out
    }

    /// The reply to a command that starts on a thread where it may take long, if it may visit much.
    pub fn run_long(&mut self, words: &[&str]) -> Value {
        self.session.expect_long();
        self.run(words)
    }

    /// The message that arrived unasked: the reply to a blocked command.
    pub fn mail(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.drain_mailbox(&mut out);
        out
    }

    /// Runs each line of `script`, words split at blanks, and compares the reply as [`show`] prints
    /// it. `SET a 1 => OK`, `LRANGE l 0 -1 => [a b]`, `GET x => nil`, `INCR a => 2`, an error as
    /// `!ERR text`.
    pub fn check(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" =>").expect("command => reply");
            let words: Vec<&str> = command
                .split_whitespace()
                .map(|word| if word == "\"\"" { "" } else { word })
                .collect();
            assert_eq!(show(&self.run(&words)).trim_end(), expected.trim(), "{command}");
        }
    }
}

/// Chooses by a seed, so that a failure is reproducible.
pub struct Choice(pub u64);

impl Choice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }
}

/// A reply as a line: lists in brackets, maps in braces, nil, numbers, `!` before an error.
pub fn show(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = |values: &[Value]| values.iter().map(show).collect::<Vec<_>>().join(" ");
    match value {
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::BigNumber(bytes) => text(bytes),
        Value::Verbatim { text: bytes, .. } => text(bytes),
        Value::Error(bytes) => format!("!{}", text(bytes)),
        Value::Integer(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Null | Value::NullArray => "nil".into(),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => format!("[{}]", list(values)),
        Value::Map(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", show(key), show(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Attribute { reply, .. } => show(reply),
    }
}
