//! Searches that continue without the lock: their replies, the clients that wait for them, and the
//! reasons of their end.
//!
//! The clock calls a hook of the thread that looks at it, so that a test can stop a search at any
//! of its looks.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quartet_engine::BriefWaits;
use quartet_env::Clock;
use quartet_layer_redis::access::admission_control::{Admission, AdmissionControl};
use quartet_layer_redis::testing::layer_with;
use quartet_layer_redis::{After, Client, LongRun, Next, Redis};
use quartet_wire_resp::{Value, decode, encode_command};

use crate::testing::{Connection, commands, show};

/// Longer than a command may run with the lock held.
const LONG_MICROS: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of attempts of a request before the lock counts as held.
const ATTEMPTS: u32 = 20;
/// The number of runs of a search that find the lock held at one of its looks before the search
/// counts as its holder.
const RUNS: u32 = 10;

thread_local! {
    /// Called at each look of this thread.
    static HOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

struct SteppingClock {
    micros: AtomicU64,
    /// The advance of time at each reading.
    step: AtomicU64,
}

impl Clock for SteppingClock {
    fn now_micros(&self) -> u64 {
        HOOK.with_borrow_mut(|hook| {
            if let Some(hook) = hook {
                hook();
            }
        });
        self.micros
            .fetch_add(self.step.load(Ordering::SeqCst), Ordering::SeqCst)
    }
}

struct World {
    clock: Arc<SteppingClock>,
    layer: Arc<Redis>,
}

const KEYS: usize = 1_500;

impl World {
    /// No key. The clock is stopped.
    fn empty() -> World {
        let clock = Arc::new(SteppingClock {
            micros: AtomicU64::new(1_700_000_000_000_000),
            step: AtomicU64::new(0),
        });
        let layer = layer_with(clock.clone(), commands());
        World { clock, layer }
    }

    /// An index over many keys. The clock is stopped.
    fn new() -> World {
        let world = World::empty();
        let mut connection = Connection::to(&world.layer);
        connection.check("FT.CREATE i PREFIX 1 k SCHEMA n NUMERIC SORTABLE g TAG t TEXT => OK");
        for key in 0..KEYS {
            let (name, number) = (format!("k{key:04}"), key.to_string());
            let group = (key % 7).to_string();
            connection.run(&["HSET", &name, "n", &number, "g", &group, "t", "word"]);
        }
        world
    }

    fn goes_on(&self) {
        self.clock.step.store(LONG_MICROS, Ordering::SeqCst);
    }

    fn stands_still(&self) {
        self.clock.step.store(0, Ordering::SeqCst);
    }

    /// Starts a request that takes long: it is left to another thread.
    fn begin(&self, connection: &mut Connection, words: &[&str]) -> Box<LongRun> {
        self.goes_on();
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(words, &mut request);
        let end = Instant::now() + PATIENCE;
        loop {
            let received = connection.session.receive(&request, &mut out);
            if matches!(received.next, Next::Busy) && Instant::now() < end {
                continue;
            }
            self.stands_still();
            assert_eq!((received.consumed, out.len()), (request.len(), 0), "{words:?}");
            match received.next {
                Next::After(After::LongRun(run)) => return run,
                other => panic!("{words:?} ended with {other:?}"),
            }
        }
    }
}

/// Runs it on a thread of its own, which calls `hook` at each look at the clock.
fn run(mut run: Box<LongRun>, hook: impl FnMut() + Send + 'static) -> thread::JoinHandle<Box<LongRun>> {
    thread::spawn(move || {
        HOOK.set(Some(Box::new(hook)));
        run.run();
        HOOK.set(None);
        run
    })
}

fn reply(connection: &mut Connection, run: LongRun) -> Value {
    let mut out = Vec::new();
    connection.session.take_back(run, &mut out);
    decode(&out).unwrap().unwrap().0
}

/// Returns true if the request is served, and not put off each time because the lock is held. The
/// flusher releases the lock in time on any machine.
fn is_served(connection: &mut Connection, words: &[&str]) -> bool {
    let end = Instant::now() + PATIENCE;
    is_served_while(|_| Instant::now() < end, connection, words)
}

/// The same for a few attempts. On a busy machine the flusher may have the lock during all of them.
fn is_served_within(attempts: u32, connection: &mut Connection, words: &[&str]) -> bool {
    is_served_while(|attempt| attempt < attempts, connection, words)
}

fn is_served_while(goes_on: impl Fn(u32) -> bool, connection: &mut Connection, words: &[&str]) -> bool {
    let _brief = BriefWaits::begin();
    let (mut request, mut out) = (Vec::new(), Vec::new());
    encode_command(words, &mut request);
    for _ in (0..).take_while(|attempt| goes_on(*attempt)) {
        let received = connection.session.receive(&request, &mut out);
        let is_busy = matches!(received.next, Next::Busy);
        assert_ne!(is_busy, !out.is_empty());
        if !is_busy {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

const REQUESTS: &[&[&str]] = &[
    &[
        "FT.SEARCH",
        "i",
        "@t:word",
        "SORTBY",
        "n",
        "LIMIT",
        "0",
        "2000",
        "NOCONTENT",
    ],
    &["FT.SEARCH", "i", "@n:[0 inf]", "LIMIT", "0", "700"],
    &[
        "FT.AGGREGATE",
        "i",
        "*",
        "GROUPBY",
        "1",
        "@g",
        "REDUCE",
        "COUNT",
        "0",
        "AS",
        "c",
        "REDUCE",
        "SUM",
        "1",
        "@n",
        "AS",
        "s",
        "SORTBY",
        "1",
        "@g",
    ],
    &[
        "FT.PROFILE",
        "i",
        "SEARCH",
        "LIMITED",
        "QUERY",
        "word",
        "LIMIT",
        "0",
        "0",
    ],
    &["KEYS", "k*"],
];

/// The totals are enough of a profile: it has times.
fn comparable(request: &[&str], value: &Value) -> String {
    match value {
        Value::Array(parts) if request[0] == "FT.PROFILE" => show(&parts[0]),
        value => show(value),
    }
}

/// At each of the search's clock readings, a client changes keys: the reply is the content of one
/// version, from some reading on the version of the start, and it blocks no other client.
///
/// On a machine with a load of 33 the flusher was descheduled with the lock. A reading without the
/// search's lock counted as its hold then, and half of a change was made and not undone. A hold
/// counts now if several runs find it, and the second half of a change waits for the lock.
#[test]
fn a_long_search_reads_one_state_and_delays_no_client() {
    let world = World::new();
    let (mut searcher, mut writer) = (Connection::to(&world.layer), Connection::to(&world.layer));
    for request in REQUESTS {
        let change = |writer: &mut Connection| {
            let was_set = is_served(writer, &["HSET", "k0005", "n", "100000", "g", "0", "t", "word"]);
            was_set && is_served(writer, &["DEL", "k0009"])
        };
        let change_in_time = |writer: &mut Connection| {
            let set = ["HSET", "k0005", "n", "100000", "g", "0", "t", "word"];
            is_served_within(ATTEMPTS, writer, &set) && is_served(writer, &["DEL", "k0009"])
        };
        let change_back = |writer: &mut Connection| {
            writer.run(&["HSET", "k0005", "n", "5", "g", "5", "t", "word"]);
            writer.run(&["HSET", "k0009", "n", "9", "g", "2", "t", "word"]);
        };
        let before = comparable(request, &searcher.run(request));
        assert!(change(&mut writer));
        let after = comparable(request, &searcher.run(request));
        change_back(&mut writer);
        assert_ne!(before, after);
        let looks = {
            let looks = Arc::new(AtomicU64::new(0));
            let counted = looks.clone();
            let hook = move || _ = counted.fetch_add(1, Ordering::SeqCst);
            let ended = run(world.begin(&mut searcher, request), hook).join().unwrap();
            assert_eq!(comparable(request, &reply(&mut searcher, *ended)), before);
            looks.load(Ordering::SeqCst)
        };
        let mut run_once = |stop_at| {
            let long_run = world.begin(&mut searcher, request);
            let (is_changed, ended) = stopped_at(long_run, stop_at, || change_in_time(&mut writer));
            let answer = comparable(request, &reply(&mut searcher, *ended));
            assert!(
                answer == before || is_changed && answer == after,
                "{request:?} at {stop_at}: {answer}"
            );
            if is_changed {
                change_back(&mut writer);
            }
            match (is_changed, answer == before) {
                (false, _) => Seen::Held,
                (true, true) => Seen::Before,
                (true, false) => Seen::After,
            }
        };
        let mut seen = Vec::new();
        for stop_at in 0..looks {
            let runs = if seen.contains(&Seen::Before) { RUNS } else { 1 };
            let mut runs = (0..runs).map(|_| run_once(stop_at));
            seen.push(runs.find(|seen| *seen != Seen::Held).unwrap_or(Seen::Held));
        }
        let frozen_at = seen.iter().position(|seen| *seen == Seen::Before).unwrap();
        assert!(!seen[frozen_at..].contains(&Seen::After), "{request:?}: {seen:?}");
        // The lock is held where the command is counted.
        let held_back = seen[frozen_at..].iter().filter(|seen| **seen == Seen::Held).count();
        assert!(held_back <= 2 && seen.len() - frozen_at > 4, "{request:?}: {seen:?}");
    }
}

/// Runs it, and does something else while it is stopped at one of its clock readings.
fn stopped_at(long_run: Box<LongRun>, look: u64, meanwhile: impl FnOnce() -> bool) -> (bool, Box<LongRun>) {
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut looks = 0;
    let hook = move || {
        if looks == look {
            reached.send(()).unwrap();
            may_go_on.recv_timeout(PATIENCE).unwrap();
        }
        looks += 1;
    };
    let running = run(long_run, hook);
    is_reached.recv_timeout(PATIENCE).unwrap();
    let done = meanwhile();
    go_on.send(()).unwrap();
    (done, running.join().unwrap())
}

/// Commands that know the number of elements to visit start with the lock held only if it is small.
/// The clock is stopped: they do not find out by taking long.
#[test]
fn a_command_known_to_be_large_delays_no_client() {
    let world = World::new();
    let (mut reader, mut writer) = (Connection::to(&world.layer), Connection::to(&world.layer));
    let numbers: Vec<String> = (0..12_000).map(|number| number.to_string()).collect();
    for words in [["RPUSH", "list"], ["SADD", "set"], ["SADD", "same"]] {
        let command: Vec<&str> = words.into_iter().chain(numbers.iter().map(String::as_str)).collect();
        writer.run(&command);
    }
    for words in [["HSET", "hash"], ["ZADD", "sorted"]] {
        let pairs = numbers.iter().flat_map(|number| [number.as_str(); 2]);
        let command: Vec<&str> = words.into_iter().chain(pairs).collect();
        writer.run(&command);
    }
    for number in &numbers {
        writer.run(&["XADD", "stream", &format!("{number}-1"), "f", "v"]);
    }
    writer.run(&["SADD", "few", "5", "7"]);
    let text = "ab".repeat(600);
    writer.run(&["MSET", "a", &text, "b", &text]);
    let list: [&[&str]; 2] = [&["LSET", "list", "3", "77"], &["LSET", "list", "3", "3"]];
    let set: [&[&str]; 2] = [&["SREM", "set", "3"], &["SADD", "set", "3"]];
    let hash: [&[&str]; 2] = [&["HSET", "hash", "3", "77"], &["HSET", "hash", "3", "3"]];
    let sorted: [&[&str]; 2] = [&["ZREM", "sorted", "3"], &["ZADD", "sorted", "3", "3"]];
    let values: [&[&str]; 2] = [&["HSET", "hash", "one", "more"], &["HDEL", "hash", "one"]];
    let stream: [&[&str]; 2] = [&["RENAME", "stream", "away"], &["RENAME", "away", "stream"]];
    let text: [&[&str]; 2] = [&["SETRANGE", "a", "0", "zz"], &["SETRANGE", "a", "0", "ab"]];
    let large: [(&[&str], [&[&str]; 2]); 21] = [
        (&["LRANGE", "list", "0", "-1"], list),
        (&["SORT_RO", "list", "DESC"], list),
        (&["SMEMBERS", "set"], set),
        (&["SINTER", "set", "same"], set),
        (&["SINTERCARD", "2", "set", "same"], set),
        (&["SUNION", "set", "few"], set),
        (&["SDIFF", "set", "few"], set),
        (&["HGETALL", "hash"], hash),
        (&["HKEYS", "hash"], values),
        (&["HVALS", "hash"], hash),
        (&["ZRANGE", "sorted", "0", "-1"], sorted),
        (&["ZREVRANGE", "sorted", "0", "-1", "WITHSCORES"], sorted),
        (&["ZRANGEBYSCORE", "sorted", "2", "+inf"], sorted),
        (&["ZREVRANGEBYSCORE", "sorted", "+inf", "2"], sorted),
        (&["ZUNION", "2", "sorted", "few"], sorted),
        (&["ZINTER", "2", "sorted", "same"], sorted),
        (&["ZINTERCARD", "2", "sorted", "same"], sorted),
        (&["ZDIFF", "2", "sorted", "few"], sorted),
        (&["XRANGE", "stream", "-", "+"], stream),
        (&["XREVRANGE", "stream", "+", "5"], stream),
        (&["LCS", "a", "b", "LEN"], text),
    ];
    for (request, [change, change_back]) in large {
        let before = show(&reader.run(request));
        writer.run(change);
        let after = show(&reader.run(request));
        writer.run(change_back);
        assert!(before != after, "{request:?}");
        let looks = Arc::new(AtomicU64::new(0));
        let counted = looks.clone();
        let hook = move || _ = counted.fetch_add(1, Ordering::SeqCst);
        let ended = run(world.begin(&mut reader, request), hook).join().unwrap();
        assert!(show(&reply(&mut reader, *ended)) == before, "{request:?}");
        let looks = looks.load(Ordering::SeqCst);
        let end = Instant::now() + PATIENCE;
        let mut look = 0;
        loop {
            assert!(Instant::now() < end, "{request:?} keeps others waiting at each look");
            let long_run = world.begin(&mut reader, request);
            let (is_changed, ended) = stopped_at(long_run, look, || is_served_within(1, &mut writer, change));
            let answer = show(&reply(&mut reader, *ended));
            assert!(
                answer == before || is_changed && answer == after,
                "{request:?} at {look}"
            );
            if is_changed {
                writer.run(change_back);
            }
            if is_changed && answer == before {
                break;
            }
            look = (look + 1) % looks;
        }
    }
    // A small part of a large value is read directly.
    for request in [
        ["LRANGE", "list", "0", "9"].as_slice(),
        &["ZRANGE", "sorted", "0", "9"],
        &["XRANGE", "stream", "3", "5"],
        &["XRANGE", "stream", "-", "+", "COUNT", "3"],
        &["SINTER", "few", "set"],
        &["LCS", "a", "none"],
    ] {
        assert!(is_served(&mut reader, request), "{request:?}");
    }
}

/// The version seen by a search that was stopped at a clock reading, or that no write was possible
/// there.
#[derive(Debug, PartialEq)]
enum Seen {
    Held,
    Before,
    After,
}

/// Ends a search in the middle, and returns its reply and how often it looked at the clock after
/// that.
fn ended_by(end: fn(&Redis, &Client)) -> (String, u64) {
    let world = World::new();
    let mut searcher = Connection::to(&world.layer);
    let looks = Arc::new(AtomicU64::new(0));
    let mut run_until = |ends_at: u64| {
        let (layer, client) = (world.layer.clone(), searcher.session.client().clone());
        let counted = looks.clone();
        let hook = move || {
            if counted.fetch_add(1, Ordering::SeqCst) == ends_at {
                end(&layer, &client);
            }
        };
        let ended = run(world.begin(&mut searcher, REQUESTS[1]), hook).join().unwrap();
        show(&reply(&mut searcher, *ended))
    };
    assert!(run_until(u64::MAX).starts_with("[1500 "));
    let middle = looks.swap(0, Ordering::SeqCst) / 2;
    let reply = run_until(middle);
    (reply, looks.load(Ordering::SeqCst) - middle)
}

#[test]
fn a_search_without_a_waiting_client_ends() {
    let ends: [fn(&Redis, &Client); 3] = [
        |_, client| client.killed.store(true, Ordering::SeqCst),
        |_, client| client.is_gone.store(true, Ordering::SeqCst),
        |layer, _| layer.scripting.long_scripts.abandon(),
    ];
    for end in ends {
        let (reply, looks) = ended_by(end);
        assert_eq!(reply, "!ERR the command was ended because the server stops");
        // The reading that detects it, and those of counting and of the end.
        assert!(looks <= 6, "it looked at the clock {looks} times more");
    }
}

#[test]
fn a_search_without_the_lock_ends_with_its_time() {
    let world = World::new();
    let mut searcher = Connection::to(&world.layer);
    let long_run = world.begin(&mut searcher, &["FT.SEARCH", "i", "word", "TIMEOUT", "20"]);
    world.clock.step.store(30_000, Ordering::SeqCst);
    let ended = run(long_run, || {}).join().unwrap();
    assert_eq!(
        show(&reply(&mut searcher, *ended)),
        "!SEARCH_TIMEOUT Timeout limit was reached"
    );
}

fn member<'v>(map: &'v Value, name: &str) -> &'v Value {
    let Value::Map(pairs) = map else {
        panic!("no map: {map:?}");
    };
    let pair = pairs.iter().find(|(key, _)| show(key) == name);
    pair.map_or_else(|| panic!("no {name} in {map:?}"), |(_, value)| value)
}

fn members(map: &Value, name: &str) -> Vec<Value> {
    match member(map, name) {
        Value::Array(values) => values.clone(),
        other => panic!("{name} is no list: {other:?}"),
    }
}

/// The replies of a request that runs out of time at each clock reading in turn, and finally the
/// complete one: its results, and its warnings.
fn parts(world: &World, searcher: &mut Connection, request: &[&str], warnings: &str) -> Vec<(Vec<Value>, Vec<String>)> {
    let mut answers = Vec::new();
    for over_at in 0.. {
        let clock = world.clock.clone();
        let looks = Arc::new(AtomicU64::new(0));
        let counted = looks.clone();
        let hook = move || {
            if counted.fetch_add(1, Ordering::SeqCst) == over_at {
                clock.micros.fetch_add(1_000_000, Ordering::SeqCst);
            }
        };
        let ended = run(world.begin(searcher, request), hook).join().unwrap();
        let answer = reply(searcher, *ended);
        let warned = members(&answer, warnings).iter().map(show).collect();
        answers.push((members(&answer, "results"), warned));
        if looks.load(Ordering::SeqCst) <= over_at {
            break;
        }
    }
    answers
}

/// Requests whose results in a part are some of the whole answer's.
const OF_RESULTS: &[&str] = &[
    "FT.SEARCH i @t:word NOCONTENT LIMIT 0 2000",
    "FT.SEARCH i @n:[0+inf] NOCONTENT SORTBY n LIMIT 0 2000",
    "FT.SEARCH i * SORTBY t LIMIT 0 2000",
    "FT.SEARCH i -none LIMIT 0 2000",
    "FT.AGGREGATE i word LOAD 1 @n APPLY @n+1 AS m FILTER @m>10 LIMIT 0 2000",
];

#[test]
fn a_search_that_may_answer_a_part_has_the_results_found_in_time() {
    let world = World::new();
    let mut searcher = Connection::to(&world.layer);
    searcher.session.speak_resp3();
    searcher.check("CONFIG SET search-on-timeout return => OK");
    let over = ["Timeout limit was reached".to_owned()];
    for request in OF_RESULTS {
        let request: Vec<_> = request.split(' ').map(|word| word.replace('+', " +")).collect();
        let request: Vec<_> = request.iter().map(String::as_str).collect();
        let answers = parts(&world, &mut searcher, &request, "warning");
        let (whole, warned) = answers.last().unwrap();
        assert!(whole.len() > 1400 && warned.is_empty(), "{request:?}: {}", whole.len());
        for (results, warned) in &answers {
            assert!(results == whole || *warned == over, "{request:?}: {warned:?}");
            assert!(results.iter().all(|result| whole.contains(result)), "{request:?}");
        }
        let is_part = |(results, _): &&(Vec<Value>, _)| !results.is_empty() && results.len() < whole.len();
        assert!(answers.iter().filter(is_part).count() > 1, "{request:?}");
    }
    // Groups of the results.
    let request: Vec<_> = "FT.AGGREGATE i * GROUPBY 0 REDUCE COUNT 0 AS c".split(' ').collect();
    let answers = parts(&world, &mut searcher, &request, "warning");
    let count = |results: &[Value]| match results {
        [] => 0,
        [group] => show(member(member(group, "extra_attributes"), "c")).parse().unwrap(),
        _ => panic!("several groups"),
    };
    let counts: Vec<usize> = answers.iter().map(|(results, _)| count(results)).collect();
    assert_eq!(*counts.last().unwrap(), KEYS);
    assert!(counts.iter().all(|count| *count <= KEYS), "{counts:?}");
    assert!(counts.iter().any(|count| (1..KEYS).contains(count)), "{counts:?}");
}

/// A search that left the lock was parsed again, which for a long query takes as long as the first
/// time; a setting that was changed in between applied to the second half of the request. Its plan
/// is kept now, unless the index was altered meanwhile.
#[test]
fn a_long_search_keeps_its_plan() {
    let world = World::empty();
    let (mut searcher, mut other) = (Connection::to(&world.layer), Connection::to(&world.layer));
    let schema = [
        "SCHEMA",
        "x",
        "VECTOR",
        "FLAT",
        "6",
        "TYPE",
        "FLOAT32",
        "DIM",
        "1",
        "DISTANCE_METRIC",
        "L2",
    ];
    other.run(&[&["FT.CREATE", "near", "PREFIX", "1", "p"][..], &schema].concat());
    for key in 0..200 {
        other.run(&["HSET", &format!("p{key:03}"), "x", "aaaa"]);
    }
    // The first dialect has no nearest vectors.
    let nearest = ["near", "*=>[KNN 150 @x $v]", "PARAMS", "2", "v", "aaaa"];
    let searches = [
        [&["FT.SEARCH"], &nearest[..], &["NOCONTENT", "LIMIT", "0", "200"]].concat(),
        [
            &["FT.AGGREGATE"],
            &nearest[..],
            &["GROUPBY", "0", "REDUCE", "COUNT", "0"],
        ]
        .concat(),
        [
            &["FT.PROFILE", "near", "SEARCH", "QUERY"],
            &nearest[1..],
            &["LIMIT", "0", "0"],
        ]
        .concat(),
    ];
    let dialect =
        |other: &mut Connection, dialect| other.check(&format!("CONFIG SET search-default-dialect {dialect} => OK"));
    dialect(&mut other, 2);
    let changes: [(&str, bool); 3] = [
        ("PING => PONG", true),
        ("FT.SYNUPDATE near group word => OK", false),
        ("FT.ALIASADD another near => OK", false),
    ];
    for ((change, keeps_plan), request) in changes.into_iter().zip(&searches) {
        let expected = comparable(request, &searcher.run(request));
        assert!(!expected.starts_with('!'), "{expected}");
        let long_run = world.begin(&mut searcher, request);
        other.check(change);
        dialect(&mut other, 1);
        let ended = run(long_run, || {}).join().unwrap();
        let answer = comparable(request, &reply(&mut searcher, *ended));
        assert_eq!(answer == expected, keeps_plan, "{request:?} after {change}: {answer}");
        assert!(keeps_plan || answer.starts_with("!SEARCH_SYNTAX"), "{answer}");
        // The plan of a request is no other's.
        let answer = searcher.run(request);
        assert!(show(&answer).starts_with("!SEARCH_SYNTAX"), "{}", show(&answer));
        dialect(&mut other, 2);
    }
    let long_run = world.begin(&mut searcher, &searches[0]);
    other.check("FT.DROPINDEX near => OK");
    let ended = run(long_run, || {}).join().unwrap();
    let answer = show(&reply(&mut searcher, *ended));
    assert!(answer.starts_with("!SEARCH_INDEX_NOT_FOUND"), "{answer}");
}

/// The next search of a connection starts where the last one took long, and with the lock again
/// once one was short.
#[test]
fn a_connection_remembers_whether_its_last_search_took_long() {
    let world = World::new();
    let mut searcher = Connection::to(&world.layer);
    let long_run = world.begin(&mut searcher, REQUESTS[0]);
    world.goes_on();
    let ended = run(long_run, || {}).join().unwrap();
    reply(&mut searcher, *ended);
    world.stands_still();
    for is_long in [true, false] {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(&["FT.SEARCH", "i", "none"], &mut request);
        let received = searcher.session.receive(&request, &mut out);
        assert_eq!(matches!(received.next, Next::After(_)), is_long);
        if let Next::After(After::LongRun(long_run)) = received.next {
            let ended = run(long_run, || {}).join().unwrap();
            assert_eq!(show(&reply(&mut searcher, *ended)), "[0]");
        }
    }
}

/// A client that caches a search's reads at a snapshot is notified of the changes that the snapshot
/// lacks, after the reply.
#[test]
fn what_is_read_at_a_snapshot_is_remembered() {
    let world = World::new();
    let (mut searcher, mut writer) = (Connection::to(&world.layer), Connection::to(&world.layer));
    for element in 0..20 {
        let (x, name) = (element.to_string(), format!("e{element}"));
        writer.run(&["VADD", "v", "VALUES", "2", &x, "1", &name]);
    }
    searcher.session.speak_resp3();
    searcher.check("CLIENT TRACKING on => OK");
    let request = ["VSIM", "v", "VALUES", "2", "1", "1", "COUNT", "3"];
    let expected = show(&writer.run(&request));
    searcher.session.expect_long();
    let long_run = world.begin(&mut searcher, &request);
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (layer, mut is_stopped) = (world.layer.clone(), false);
    let running = run(long_run, move || {
        // The key is remembered before the state is frozen, with the lock held.
        let is_remembered = !layer.connections.tracking.table.lock().keys.is_empty();
        if is_remembered && !is_stopped {
            is_stopped = true;
            reached.send(()).unwrap();
            may_go_on.recv_timeout(PATIENCE).unwrap();
        }
    });
    is_reached.recv_timeout(PATIENCE).unwrap();
    assert!(is_served(
        &mut writer,
        &["VADD", "v", "VALUES", "2", "1", "1", "nearest"]
    ));
    go_on.send(()).unwrap();
    let ended = running.join().unwrap();
    assert_eq!(show(&reply(&mut searcher, *ended)), expected);
    assert_eq!(searcher.mail(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nv\r\n");
}

/// Scripts and transactions may take this long.
const RUN_MICROS_MAX: u64 = 100_000;

struct BoundedRuns;

impl AdmissionControl for BoundedRuns {
    fn admit(&self, _: &Admission) -> Result<(), String> {
        Ok(())
    }

    fn took(&self, _micros: u64) {}

    fn transferred(&self, _: usize, _: usize) {}

    fn check_connections(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn script_micros_max(&self) -> u64 {
        RUN_MICROS_MAX
    }

    fn script_bytes_max(&self) -> usize {
        4 << 20
    }
}

/// A world whose scripts are bounded, with two values that LCS compares for long.
fn bounded_world() -> (World, Connection) {
    let mut world = World::new();
    let layer = Arc::get_mut(&mut world.layer).expect("nobody else has it yet");
    layer.access.admission_control = Some(Arc::new(BoundedRuns));
    let mut connection = Connection::to(&world.layer);
    connection.check("SETRANGE a 8000 x => 8001\nSETRANGE b 8000 y => 8001");
    (world, connection)
}

/// How often a command has run to its end.
fn calls(connection: &mut Connection, command: &str) -> u64 {
    let Value::Bulk(text) = connection.run(&["INFO", "commandstats"]) else {
        panic!("INFO answers a string");
    };
    let text = String::from_utf8(text).unwrap();
    let line = text.split(&format!("cmdstat_{command}:calls=")).nth(1);
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// The clock was looked at every 10,000 instructions of Lua and nowhere else: a loop around one
/// command held many of them between two looks, `redis.pcall` hid that a search's time was over,
/// and LCS asked nobody. A tenant with a limit of 100 ms held its neighbours for half a minute. The
/// limit is looked at before and after each command, and by commands that take long.
#[test]
fn a_script_ends_at_its_deadline_in_any_command() {
    let (world, mut connection) = bounded_world();
    for (step, command, calls_max, script) in [
        (
            1_000,
            "get",
            100,
            "for i = 1, 1000 do redis.pcall('GET', 'none') end return 1",
        ),
        (
            10_000,
            "lcs",
            0,
            "while true do redis.pcall('LCS', 'a', 'b', 'LEN') end",
        ),
        (
            10_000,
            "FT.SEARCH",
            0,
            "while true do pcall(redis.pcall, 'FT.SEARCH', 'i', '*', 'SORTBY', 'n', 'NOCONTENT') end",
        ),
    ] {
        let before = calls(&mut connection, command);
        world.clock.step.store(step, Ordering::SeqCst);
        let reply = show(&connection.run(&["EVAL", script, "0"]));
        world.stands_still();
        assert!(reply.contains("max script duration exceeded"), "{script}: {reply}");
        let calls = calls(&mut connection, command) - before;
        assert!(calls <= calls_max, "{script}: {calls} calls");
    }
}

/// A command of EXEC was waited for, however long it took, before the limit was looked at.
#[test]
fn a_transaction_ends_at_its_deadline_within_a_command() {
    let (world, mut connection) = bounded_world();
    connection.check("MULTI => OK\nSET x 1 => QUEUED\nLCS a b LEN => QUEUED");
    world.clock.step.store(10_000, Ordering::SeqCst);
    let reply = show(&connection.run(&["EXEC"]));
    world.stands_still();
    assert!(reply.contains("max transaction duration exceeded"), "{reply}");
    assert_eq!(calls(&mut connection, "lcs"), 0);
    connection.check("EXISTS x => 0");
}

/// More than a command may change with the lock held.
const MANY: usize = 11_000;

/// A world whose keys have as many elements and a half, and a key beside them.
fn world_of_many() -> (World, Connection) {
    let world = World::new();
    let mut connection = Connection::to(&world.layer);
    let members: Vec<String> = (0..MANY * 3 / 2).map(|number| format!("m{number}")).collect();
    for chunk in members.chunks(4_000) {
        let pairs = |value: &'static str, is_second: bool| {
            let words = chunk.iter().flat_map(move |member| match is_second {
                true => [member.as_str(), value],
                false => [value, member.as_str()],
            });
            words.collect::<Vec<_>>()
        };
        let plain: Vec<&str> = chunk.iter().map(String::as_str).collect();
        for (head, words) in [
            ("ZADD z", pairs("1", false)),
            ("HSET h", pairs("v", true)),
            ("SADD s", plain.clone()),
            ("RPUSH l", plain),
        ] {
            connection.run(&[head.split(' ').collect(), words].concat());
        }
        connection.run(&["SELECT", "1"]);
        connection.run(&[vec!["MSET"], pairs("v", true)].concat());
        connection.run(&["SELECT", "0"]);
    }
    connection.check("SETRANGE bits 1000000 x => 1000001\nSET other before => OK");
    (world, connection)
}

/// Removing 200,000 members, combining large sets or exchanging two databases held the lock for up
/// to four seconds, and a GET of another key waited as long. Such a write runs on a thread of its
/// own now. Until its commit others read the state before it; writes wait.
#[test]
fn others_read_the_state_before_a_long_write_until_its_commit() {
    let (world, mut writer) = world_of_many();
    let mut reader = Connection::to(&world.layer);
    let last = (MANY - 1).to_string();
    let long_run = world.begin(&mut writer, &["ZREMRANGEBYRANK", "z", "0", &last]);
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (layer, mut is_stopped) = (world.layer.clone(), false);
    let running = run(long_run, move || {
        if layer.engine.shows_state() && !is_stopped {
            is_stopped = true;
            reached.send(()).unwrap();
            may_go_on.recv_timeout(PATIENCE).unwrap();
        }
    });
    is_reached.recv_timeout(PATIENCE).unwrap();
    let many = (MANY * 3 / 2).to_string();
    for (line, expected) in [
        ("GET other", "before"),
        ("ZCARD z", &many),
        ("ZSCORE z m1", "1"),
        ("TTL other", "-1"),
    ] {
        let _brief = BriefWaits::begin();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(show(&reader.run(&words)), expected, "{line}");
    }
    // A transaction and what is written wait, and so does what tells others.
    assert!(!is_served_within(3, &mut reader, &["SET", "other", "after"]));
    let mut caching = Connection::to(&world.layer);
    caching.session.speak_resp3();
    assert!(!is_served_within(3, &mut caching, &["CLIENT", "TRACKING", "on"]));
    go_on.send(()).unwrap();
    let removed = reply(&mut writer, *running.join().unwrap());
    assert_eq!(show(&removed), MANY.to_string());
    assert!(!world.layer.engine.shows_state());
    reader.check(&format!("ZCARD z => {}\nGET other => before", MANY / 2));
    let calls = show(&reader.run(&["INFO", "commandstats"]));
    assert!(calls.contains("cmdstat_get:calls=2,"), "{calls}");
}

#[test]
fn writes_of_many_elements_run_on_a_thread_that_may_take_long() {
    let (world, mut writer) = world_of_many();
    let (many, half) = (MANY.to_string(), (MANY / 2).to_string());
    let (last, all) = ((MANY - 1).to_string(), (MANY * 3 / 2).to_string());
    let names: Vec<String> = (0..MANY).map(|number| format!("m{number}")).collect();
    let named = |head: &[&'static str]| {
        let head = head.iter().map(|word| (*word).to_owned());
        head.chain(names.iter().cloned()).collect::<Vec<String>>()
    };
    let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    for (request, expected) in [
        (line(&format!("ZRANGESTORE stored z 0 {last}")), &many),
        (line("ZUNIONSTORE stored 1 z"), &all),
        (line("ZINTERSTORE stored 2 z z"), &all),
        (line("SUNIONSTORE stored s"), &all),
        (line("SDIFFSTORE stored s none"), &all),
        (line("SORT s ALPHA STORE stored"), &all),
        (line("BITOP NOT stored bits"), &"1000001".to_owned()),
        (line("COPY z stored REPLACE"), &"1".to_owned()),
        (line(&format!("ZREMRANGEBYRANK stored 0 {last}")), &many),
        (named(&["ZREM", "z"]), &many),
        (named(&["SREM", "s"]), &many),
        (named(&["HDEL", "h"]), &many),
        (line("SWAPDB 0 1"), &"OK".to_owned()),
        (named(&["UNLINK"]), &many),
    ] {
        let words: Vec<&str> = request.iter().map(String::as_str).collect();
        let long_run = world.begin(&mut writer, &words);
        let ended = run(long_run, || {}).join().unwrap();
        assert_eq!(show(&reply(&mut writer, *ended)), *expected, "{}", words[0]);
    }
    writer.run(&["SWAPDB", "1", "0"]);
    writer.check(&format!("ZCARD z => {half}\nSCARD s => {half}\nHLEN h => {half}"));
    // A transaction moves before that command has done any work.
    writer.check("MULTI => OK\nSET other queued => QUEUED");
    writer.run(&["LPOP", "l", &many]);
    let long_run = world.begin(&mut writer, &["EXEC"]);
    let ended = run(long_run, || {}).join().unwrap();
    reply(&mut writer, *ended);
    writer.check(&format!("GET other => queued\nLLEN l => {half}"));
}
