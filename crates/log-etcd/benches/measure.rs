//! Measures the log's cost on top of etcd's: appends next to bare puts of the same bytes, and
//! confirmations next to bare reads, by one client with one request outstanding. Rounds alternate,
//! so that both sides run under the same load of the machine.
//!
//! ```text
//! QUARTET_ETCD=/usr/bin/etcd cargo bench -p quartet-log-etcd --bench measure -- [SECONDS A CELL]
//! ```
//!
//! With endpoints of running members it measures only the bare side, for `benchmarks/cluster.py`:
//!
//! ```text
//! measure HOST:PORT,... puts BYTES SECONDS    the latency of each, in microseconds, one a line
//! measure HOST:PORT,... reads SECONDS         the same
//! measure HOST:PORT,... acknowledged          the system's clock after each put, until stdin ends
//! ```

#[path = "../tests/etcd/members.rs"]
mod members;

use std::io::{Read, Write};
use std::time::{Duration, Instant, SystemTime};

use members::Members;
use quartet_log_etcd::{Etcd, EtcdOptions};
use quartet_log_replicated::{
    Answer, ClusterId, Confirmation, Follower, Home, Moment, NodeId, Operation, Outcome, PartitionId, Place, Request,
    Writer, drive,
};
use quartet_model::{LogSequence, Version};

const EPOCH_BYTES: [usize; 4] = [100, 1 << 10, 16 << 10, 64 << 10];
const ROUND: Duration = Duration::from_millis(500);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.as_slice() {
        [] => compare(4),
        [seconds] => compare(number(seconds)),
        [endpoints, arguments @ ..] => {
            let endpoints = endpoints.split(',').map(str::to_owned).collect();
            let mut options = EtcdOptions::new(endpoints);
            options.allow_stale_reads = true;
            let etcd = Etcd::open(&options).expect("the members are fit");
            bare(etcd, arguments);
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

/// Measures etcd without the log. A request without a timely answer is repeated, as the log does.
fn bare(mut etcd: Etcd, arguments: &[String]) {
    let place = Place::new("/bare", ClusterId(1), PartitionId(0));
    let mut key = 0;
    let mut next = |bytes: Vec<u8>| {
        key += 1;
        put(place.record_key(LogSequence(key)), bytes)
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["puts", bytes, seconds] => {
            let bytes = noise(number(bytes) as usize);
            latencies(number(seconds), || {
                let request = next(bytes.clone());
                while drive::ask(&mut etcd, request.clone()).is_err() {}
            });
        }
        ["reads", seconds] => {
            let key = place.record_key(LogSequence(1));
            let _ = drive::ask(&mut etcd, next(noise(100)));
            latencies(number(seconds), || {
                while drive::ask(&mut etcd, Request::Get { key: key.clone() }).is_err() {}
            });
        }
        ["acknowledged"] => acknowledged(|| drive::ask(&mut etcd, next(noise(100))).is_ok()),
        _ => panic!("puts BYTES SECONDS, reads SECONDS or acknowledged"),
    }
    let delete = Operation::Delete {
        from: place.record_key(LogSequence::ZERO),
        until: place.records_end(),
    };
    let _ = drive::ask(&mut etcd, transact(delete));
}

fn latencies(seconds: u64, act: impl FnMut()) {
    let mut cell = Cell::default();
    cell.round(Duration::from_secs(seconds), act);
    for latency in cell.latencies {
        println!("{}", latency.as_micros());
    }
}

/// Writes when each try that succeeded was answered, in microseconds since 1970.
fn acknowledged(mut act: impl FnMut() -> bool) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        if act() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            println!("{}", now.expect("after 1970").as_micros());
            std::io::stdout().flush().expect("somebody reads");
        }
    }
}

/// Measures the log beside bare etcd.
fn compare(seconds: u64) {
    let members = Members::start(3);
    let mut etcd = Etcd::open(&members.options()).expect("the members are fit");
    let version = etcd
        .status()
        .first()
        .map(|member| member.version.clone())
        .unwrap_or_default();
    println!("etcd {version}, three members on loopback; {seconds} s a cell, in rounds of half a second\n");
    let mut home = home(&mut etcd);
    println!("| epoch bytes | bare puts/s | p50 ms | appends/s | p50 ms | p50 over bare |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for bytes in EPOCH_BYTES {
        let (bare, log) = appends(&mut etcd, &mut home, bytes, seconds);
        row(&bytes.to_string(), &bare, &log);
    }
    println!("\n| | bare reads/s | p50 ms | confirmations/s | p50 ms | p50 over bare |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let (bare, log) = confirmations(&mut etcd, &mut home, seconds);
    row("one waiting", &bare, &log);
}

fn row(name: &str, bare: &Cell, log: &Cell) {
    let over = log.p50() / bare.p50();
    let (bare_p50, log_p50) = (bare.p50() * 1e3, log.p50() * 1e3);
    println!(
        "| {name} | {:.0} | {bare_p50:.2} | {:.0} | {log_p50:.2} | {over:.2} |",
        bare.rate(),
        log.rate()
    );
}

fn home(etcd: &mut Etcd) -> Home {
    let place = Place::new("/measure", ClusterId(1), PartitionId(0));
    drive::ask(etcd, place.found()).expect("the cluster is founded");
    let mut follower = Follower::new(place.clone(), place.beginning());
    let writer = Writer {
        node: NodeId(1),
        incarnation: 1,
    };
    let outcome = drive::take_over(writer, &mut follower, etcd, 10, &mut |_| {}, &|| Version::ZERO);
    outcome.expect("nobody else takes over")
}

fn appends(etcd: &mut Etcd, home: &mut Home, bytes: usize, seconds: u64) -> (Cell, Cell) {
    let (mut bare, mut log) = (Cell::default(), Cell::default());
    let epoch = noise(bytes);
    let place = Place::new("/bare", ClusterId(1), PartitionId(0));
    let mut key = 0;
    for _ in 0..rounds(seconds) {
        bare.round(ROUND, || {
            key += 1;
            let answer = drive::ask(etcd, put(place.record_key(LogSequence(key)), epoch.clone()));
            assert!(matches!(answer, Ok(Answer::Done { .. })), "{answer:?}");
        });
        log.round(ROUND, || {
            home.append(&epoch).expect("nothing is in flight");
            let outcome = drive::append(home, etcd, 10, &|| Moment::default());
            assert!(matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}");
        });
        tidy(etcd, home, &place);
    }
    (bare, log)
}

fn confirmations(etcd: &mut Etcd, home: &mut Home, seconds: u64) -> (Cell, Cell) {
    let (mut bare, mut log) = (Cell::default(), Cell::default());
    let key = Place::new("/measure", ClusterId(1), PartitionId(0)).term_key();
    for _ in 0..rounds(seconds) {
        bare.round(ROUND, || {
            let answer = drive::ask(etcd, Request::Get { key: key.clone() });
            assert!(matches!(answer, Ok(Answer::Value(Some(_)))), "{answer:?}");
        });
        log.round(ROUND, || {
            let confirmed = drive::confirm(home, etcd, Moment::default());
            assert_eq!(confirmed, Some(Confirmation::Confirmed));
        });
    }
    (bare, log)
}

/// Between rounds: both sides' records go, and history with them.
fn tidy(etcd: &mut Etcd, home: &Home, bare: &Place) {
    let delete = Operation::Delete {
        from: bare.record_key(LogSequence::ZERO),
        until: bare.records_end(),
    };
    let requests = [home.trim_request(home.tail().sequence), transact(delete)];
    for request in requests {
        if let Ok(Answer::Done { revision }) = drive::ask(etcd, request) {
            let _ = drive::ask(etcd, Request::Compact { revision });
        }
    }
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Request {
    let lease = None;
    transact(Operation::Put { key, value, lease })
}

fn transact(operation: Operation) -> Request {
    Request::Transact {
        compares: Vec::new(),
        operations: vec![operation],
        otherwise: Vec::new(),
    }
}

/// Bytes that nothing packs, so that both sides send the same.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    next.take(bytes).collect()
}

fn rounds(seconds: u64) -> u64 {
    (seconds * 1000 / ROUND.as_millis() as u64).max(1)
}

/// The work of one side.
#[derive(Default)]
struct Cell {
    latencies: Vec<Duration>,
}

impl Cell {
    fn round(&mut self, length: Duration, mut act: impl FnMut()) {
        let began = Instant::now();
        while began.elapsed() < length {
            let start = Instant::now();
            act();
            self.latencies.push(start.elapsed());
        }
    }

    /// Seconds.
    fn p50(&self) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map_or(0.0, Duration::as_secs_f64)
    }

    fn rate(&self) -> f64 {
        let whole: Duration = self.latencies.iter().sum();
        self.latencies.len() as f64 / whole.as_secs_f64()
    }
}
