//! Searches concurrent with many writers, checked against the keys of the same moment, while power
//! is cut.
//!
//! Writers are threads with a connection each. Half of the time a search and a scan of all keys are
//! in one script; in the other half each change is logged with the number that it writes to a
//! document, so that a search at a snapshot shows by this document which keys it must know. Then
//! power is cut while writers are active, and the reopened state is checked completely.
//!
//! Longer by the environment: QUARTET_SEARCH_JUDGED searches, QUARTET_SEARCH_CUTS,
//! QUARTET_SEARCH_WRITERS, from QUARTET_SEARCH_SEED on; the counts are printed
//! (`cargo test -- --nocapture`).
//!
//! On the ssd engine a writer reads from the disk, and after the cut the read fails: its request is
//! refused, and if it has written by then it ends, as the server would, because it cannot read the
//! replaced values for a rollback.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_engine::{Durability, Engine, EngineOptions, Space, StoreKind};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_layer_redis::{After, Identity, Next, Redis};
use quartet_model::{DatabaseId, LayerId};
use quartet_wire_resp::{Value, decode, encode_command};

use super::Choice;
use crate::testing::{Connection, findings, show};

const KEYS: u64 = 40;
const JUDGES: u64 = 2;
const SEARCHES_AT_ONCE: usize = 10;
/// Longest pause of a writer between two changes, for each writer that there is.
const PAUSE_MICROS: u64 = 500;
const BUSY_MAX: Duration = Duration::from_secs(60);
/// States that searches at a snapshot are compared with.
const STATES_MAX: usize = 10_000;
/// The document that counts changes: the number of a state, or what was acknowledged.
const COUNTER: &str = "d:counter";

const WORDS: &[&str] = &["alpha", "beta", "gamma", "delta", "albert"];
const TAGS: &[&str] = &["red", "blue", "green", "red,blue"];

const CREATE: &[&str] = &[
    "FT.CREATE",
    "i",
    "PREFIX",
    "1",
    "d:",
    "SCHEMA",
    "t",
    "TEXT",
    "NOSTEM",
    "g",
    "TAG",
    "n",
    "NUMERIC",
    "SORTABLE",
    "c",
    "NUMERIC",
    "v",
    "VECTOR",
    "FLAT",
    "6",
    "TYPE",
    "UINT8",
    "DIM",
    "2",
    "DISTANCE_METRIC",
    "L2",
    "v",
    "AS",
    "h",
    "VECTOR",
    "HNSW",
    "8",
    "TYPE",
    "UINT8",
    "DIM",
    "2",
    "DISTANCE_METRIC",
    "L2",
    "M",
    "4",
];

/// Executes requests, each prefixed by the number of its words, and returns their results and all
/// keys.
const SCRIPT: &str = "
    local found, at = {}, 1
    while at <= #ARGV do
        local count = tonumber(ARGV[at])
        found[#found + 1] = redis.call(unpack(ARGV, at + 1, at + count))
        at = at + count + 1
    end
    local all = {}
    for _, key in ipairs(redis.call('KEYS', 'd:*')) do
        if redis.call('TYPE', key)['ok'] == 'hash' then
            all[#all + 1] = {key, redis.call('HGETALL', key)}
        end
    end
    return {found, all}";

/// Answers the fields of keys; nothing for one that is no hash.
const LOOK: &str = "
    local all = {}
    for at, key in ipairs(KEYS) do
        all[at] = redis.call('TYPE', key)['ok'] == 'hash' and redis.call('HGETALL', key) or {}
    end
    return all";

type Fields = BTreeMap<String, String>;
type Keys = BTreeMap<String, Arc<Fields>>;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

// ---- Questions

#[derive(Clone, Copy, Debug)]
enum Condition {
    Any,
    Word(&'static str),
    Either(&'static str, &'static str),
    Both(&'static str, &'static str),
    Phrase(&'static str, &'static str),
    Prefix,
    Tag(&'static str),
    From(u64),
    Between(u64),
    OtherWordAndTag(&'static str, &'static str),
    WordUpTo(&'static str, u64),
    /// A near vector, in a field that compares all vectors or in a field with a graph.
    Near(&'static str),
}

impl Condition {
    fn choose(choice: &mut Choice) -> Condition {
        let (at, distance) = (
            choice.below(WORDS.len() as u64),
            1 + choice.below(WORDS.len() as u64 - 1),
        );
        // Two different words: a word repeated in a phrase is found where it occurs once.
        let (word, other) = (WORDS[at as usize], WORDS[(at + distance) as usize % WORDS.len()]);
        let (tag, low) = (choice.of(&TAGS[..3]), choice.below(100));
        match choice.below(12) {
            0 => Condition::Any,
            1 => Condition::Word(word),
            2 => Condition::Either(word, other),
            3 => Condition::Both(word, other),
            4 => Condition::Phrase(word, other),
            5 => Condition::Prefix,
            6 => Condition::Tag(tag),
            7 => Condition::From(low),
            8 => Condition::Between(low),
            9 => Condition::OtherWordAndTag(word, tag),
            10 => Condition::WordUpTo(word, low),
            _ => Condition::Near(choice.of(&["v", "h"])),
        }
    }

    fn query(&self) -> String {
        match self {
            Condition::Any => "*".into(),
            Condition::Word(word) => format!("@t:{word}"),
            Condition::Either(word, other) => format!("@t:({word}|{other})"),
            Condition::Both(word, other) => format!("@t:({word} {other})"),
            Condition::Phrase(word, other) => format!("@t:\"{word} {other}\""),
            Condition::Prefix => "@t:al*".into(),
            Condition::Tag(tag) => format!("@g:{{{tag}}}"),
            Condition::From(low) => format!("@n:[{low} +inf]"),
            Condition::Between(low) => format!("@n:[({low} {}]", low + 30),
            Condition::OtherWordAndTag(word, tag) => format!("-@t:{word} @g:{{{tag}}}"),
            Condition::WordUpTo(word, high) => format!("@t:{word} @n:[-inf {high}]"),
            Condition::Near(field) => format!("@{field}:[VECTOR_RANGE 9 $q]"),
        }
    }

    fn fits(&self, fields: &Fields) -> bool {
        let words: Vec<&str> = fields.get("t").map_or(Vec::new(), |text| text.split(' ').collect());
        let has = |word: &&'static str| words.contains(word);
        let has_tag = |tag: &&'static str| {
            fields
                .get("g")
                .is_some_and(|tags| tags.split(',').any(|part| part == *tag))
        };
        let number = number_of(fields);
        match self {
            Condition::Any => true,
            Condition::Word(word) => has(word),
            Condition::Either(word, other) => has(word) || has(other),
            Condition::Both(word, other) => has(word) && has(other),
            Condition::Phrase(word, other) => words.windows(2).any(|pair| pair == [*word, *other]),
            Condition::Prefix => words.iter().any(|word| word.starts_with("al")),
            Condition::Tag(tag) => has_tag(tag),
            Condition::From(low) => number.is_some_and(|number| number >= *low as f64),
            Condition::Between(low) => number.is_some_and(|number| number > *low as f64 && number <= (low + 30) as f64),
            Condition::OtherWordAndTag(word, tag) => !has(word) && has_tag(tag),
            Condition::WordUpTo(word, high) => has(word) && number.is_some_and(|number| number <= *high as f64),
            Condition::Near(_) => fields.get("v").is_some_and(|vector| {
                let squares = vector.bytes().map(|digit| (i64::from(digit) - i64::from(b'5')).pow(2));
                squares.sum::<i64>() <= 9
            }),
        }
    }
}

fn number_of(fields: &Fields) -> Option<f64> {
    fields.get("n").and_then(|number| number.parse().ok())
}

/// A hash with a value that does not fit its field is not found at all.
fn is_indexed(fields: &Fields) -> bool {
    fields.get("n").is_none_or(|number| number.parse::<f64>().is_ok())
}

/// The requested part of the matching keys.
#[derive(Clone, Copy, Debug)]
enum Form {
    Keys,
    Total,
    /// The largest number first, those without one last.
    Sorted,
    /// The number of keys with each value of `g`.
    Counted,
}

struct Question {
    condition: Condition,
    form: Form,
}

impl Question {
    fn choose(choice: &mut Choice) -> Question {
        let form = match choice.below(10) {
            0 => Form::Total,
            1 | 2 => Form::Sorted,
            3 => Form::Counted,
            _ => Form::Keys,
        };
        let condition = Condition::choose(choice);
        Question { condition, form }
    }

    fn request(&self) -> Vec<String> {
        let query = self.condition.query();
        let mut words = match self.form {
            Form::Keys => vec!["FT.SEARCH", "i", &query, "NOCONTENT", "LIMIT", "0", "10000"],
            Form::Total => vec!["FT.SEARCH", "i", &query, "LIMIT", "0", "0"],
            Form::Sorted => vec![
                "FT.SEARCH",
                "i",
                &query,
                "NOCONTENT",
                "SORTBY",
                "n",
                "DESC",
                "LIMIT",
                "0",
                "10000",
            ],
            Form::Counted => vec![
                "FT.AGGREGATE",
                "i",
                &query,
                "GROUPBY",
                "1",
                "@g",
                "REDUCE",
                "COUNT",
                "0",
                "AS",
                "count",
                "LIMIT",
                "0",
                "10000",
            ],
        };
        words.extend(["PARAMS", "2", "q", "55", "TIMEOUT", "0"]);
        words.into_iter().map(String::from).collect()
    }

    /// The answer that the keys give, as text.
    fn expected(&self, keys: &Keys) -> String {
        let fits = |fields: &Fields| is_indexed(fields) && self.condition.fits(fields);
        let matching: Vec<_> = keys.iter().filter(|(_, fields)| fits(fields)).collect();
        match self.form {
            Form::Total => matching.len().to_string(),
            Form::Keys => format!("{:?}", matching.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>()),
            Form::Sorted => {
                let mut matching: Vec<_> = matching
                    .iter()
                    .map(|(key, fields)| (number_of(fields), key.as_str()))
                    .collect();
                matching.sort_by(|(number, key), (other, other_key)| {
                    let order = other.is_some().cmp(&number.is_some());
                    let numbers = other.unwrap_or_default().total_cmp(&number.unwrap_or_default());
                    order.then(numbers).then(key.cmp(other_key))
                });
                format!("{:?}", matching.iter().map(|(_, key)| *key).collect::<Vec<_>>())
            }
            Form::Counted => {
                let mut counts = BTreeMap::<String, u64>::new();
                for (_, fields) in matching {
                    let tag = fields.get("g").map_or("nil", String::as_str);
                    *counts.entry(tag.into()).or_default() += 1;
                }
                format!("{counts:?}")
            }
        }
    }

    /// The reply as the same text.
    fn answer(&self, reply: &Value) -> String {
        let Value::Array(values) = reply else {
            return show(reply);
        };
        let total = show(&values[0]).parse::<usize>().expect("a total");
        match self.form {
            Form::Total => total.to_string(),
            Form::Keys | Form::Sorted => {
                let mut keys: Vec<String> = values[1..].iter().map(show).collect();
                assert_eq!(total, keys.len(), "{reply:?}");
                if matches!(self.form, Form::Keys) {
                    keys.sort();
                }
                format!("{keys:?}")
            }
            Form::Counted => {
                let groups = values[1..].iter().map(|group| {
                    let fields = pairs(group);
                    let tag = fields.get("g").map_or("nil", String::as_str);
                    (String::from(tag), fields["count"].parse::<u64>().expect("a count"))
                });
                let counts: BTreeMap<String, u64> = groups.collect();
                assert_eq!(counts.len(), values.len() - 1, "{reply:?}");
                format!("{counts:?}")
            }
        }
    }
}

fn pairs(value: &Value) -> Fields {
    let Value::Array(values) = value else {
        panic!("{value:?}");
    };
    values.chunks(2).map(|pair| (show(&pair[0]), show(&pair[1]))).collect()
}

// ---- Changes

/// A change of one or two keys; requests of a transaction are in order.
fn change(choice: &mut Choice, expires: bool) -> (String, String, Vec<Vec<String>>) {
    let name = |choice: &mut Choice| format!("{}{}", choice.of(&["d:", "d:", "d:", "d:", "e:"]), choice.below(KEYS));
    let (key, other) = (name(choice), name(choice));
    let set = hset(choice, &key);
    let single = |words: &[&str]| vec![words.iter().map(|word| String::from(*word)).collect::<Vec<_>>()];
    let requests = match choice.below(if expires { 20 } else { 16 }) {
        0..=4 => vec![set],
        5 => single(&["DEL", &key]),
        6 => single(&["UNLINK", &key, &other]),
        7 => single(&["RENAME", &key, &other]),
        8 => single(&["COPY", &key, &other, "REPLACE"]),
        9 => single(&["SET", &key, "text"]),
        10 => single(&["HDEL", &key, "n"]),
        11 => single(&["HINCRBY", &key, "n", "5"]),
        12 => single(&["HGETDEL", &key, "FIELDS", "1", "g"]),
        13 => {
            let script = "redis.call('HSET', KEYS[1], 'n', '7', 't', 'alpha beta') return redis.call('DEL', KEYS[2])";
            single(&["EVAL", script, "2", &key, &other])
        }
        // An error rolls back the writes of its script.
        14 => single(&["EVAL", "redis.call('HSET', KEYS[1], 'n', '8') error('over')", "1", &key]),
        15 => vec![set, single(&["RENAME", &key, &other]).remove(0), hset(choice, &key)],
        16 => single(&["PEXPIRE", &key, "20"]),
        17 => single(&["PERSIST", &key]),
        18 => single(&["HPEXPIRE", &key, "15", "FIELDS", "1", "g"]),
        _ => vec![set, single(&["PEXPIRE", &key, "5"]).remove(0)],
    };
    (key, other, requests)
}

fn hset(choice: &mut Choice, key: &str) -> Vec<String> {
    let number = match choice.below(20) {
        0 => "none".to_owned(),
        _ => choice.below(100).to_string(),
    };
    let text = format!("{} {}", choice.of(WORDS), choice.of(WORDS));
    let vector = format!("{}{}", choice.below(10), choice.below(10));
    let tag = choice.of(TAGS).to_owned();
    let fields = [
        "t".into(),
        text,
        "g".into(),
        tag,
        "n".into(),
        number,
        "v".into(),
        vector,
    ];
    let count = 2 * (1 + choice.below(4) as usize);
    let words = ["HSET".into(), key.into()]
        .into_iter()
        .chain(fields.into_iter().take(count));
    words.collect()
}

// ---- The world

struct World {
    store: StoreKind,
    disk: FaultyDisk,
    clock: Arc<ManualClock>,
    writers: u64,
    /// Changes of the counter that were durable when power went.
    acknowledged: u64,
    judged: u64,
    changes: u64,
}

/// State that the threads between two cuts share.
struct Life {
    layer: Arc<Redis>,
    clock: Arc<ManualClock>,
    writers: u64,
    /// Whether searches run at a snapshot, beside changes that are written down.
    at_snapshots: bool,
    states: Mutex<BTreeMap<u64, Arc<Keys>>>,
    is_over: AtomicBool,
    judged: AtomicU64,
    changes: AtomicU64,
    acknowledged: AtomicU64,
}

/// A connection that retries while the server is busy.
struct Client<'l> {
    connection: Connection,
    is_over: &'l AtomicBool,
}

impl Client<'_> {
    fn ask(&mut self, words: &[&str]) -> Value {
        self.answer_to(words, false)
    }

    /// Sends a request that starts on a thread where it may take long.
    fn ask_long(&mut self, words: &[&str]) -> Value {
        self.answer_to(words, true)
    }

    /// The reply; nothing if power went before there was one.
    fn answer_to(&mut self, words: &[&str], is_long: bool) -> Value {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(words, &mut request);
        let deadline = Instant::now() + BUSY_MAX;
        loop {
            if is_long {
                self.connection.session.expect_long();
            }
            let received = self.connection.session.receive(&request, &mut out);
            let is_busy = matches!(received.next, Next::Busy);
            if let Next::After(After::LongRun(mut run)) = received.next {
                run.run();
                self.connection.session.take_back(*run, &mut out);
            }
            if !out.is_empty() {
                return decode(&out).unwrap().unwrap().0;
            }
            assert!(is_busy && Instant::now() < deadline, "no reply to {words:?}");
            if self.is_over.load(Ordering::SeqCst) {
                return Value::Null;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl World {
    fn open(&self) -> Arc<Redis> {
        let options = EngineOptions {
            store: Some(self.store),
            kept_bytes: 64 << 10,
            checkpoint_log_bytes: 256 << 10,
            // The ssd engine flushes often and reads most rows from its files.
            unflushed_log_bytes: 64 << 10,
            cache_bytes: 64 << 10,
            ..EngineOptions::default()
        };
        // The log fails when power goes.
        let failure = Box::new(|_: &_| ());
        // Its flusher may still run when power goes.
        let disk = Arc::new(self.disk.for_one_run());
        let engine = Engine::open(disk, self.clock.clone(), options, failure, &mut |_| {}).unwrap();
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        Arc::new(Redis::new(
            Arc::new(engine),
            space,
            crate::testing::commands(),
            Identity::default(),
            Box::new(|| {}),
        ))
    }

    /// Opens the disk's contents, checks them, and checks `searches` searches concurrent with
    /// writers until the power cut.
    fn live(&mut self, seed: u64, searches: u64) {
        let layer = self.open();
        self.judge_opened(&layer);
        let mut choice = Choice(seed);
        let life = Life {
            layer,
            clock: self.clock.clone(),
            writers: self.writers,
            at_snapshots: choice.below(2) == 0,
            states: Mutex::default(),
            is_over: AtomicBool::new(false),
            judged: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            acknowledged: AtomicU64::new(self.acknowledged),
        };
        life.begin();
        std::thread::scope(|scope| {
            let judges: Vec<_> = (0..JUDGES)
                .map(|number| (&life, seed ^ ((number + 1) << 32)))
                .map(|(life, seed)| scope.spawn(move || life.judge_until(seed, searches)))
                .collect();
            let mut writers: Vec<_> = (0..self.writers)
                .map(|number| (&life, seed ^ ((number + 1) << 40)))
                .map(|(life, seed)| scope.spawn(move || life.write(seed)))
                .collect();
            writers.push(scope.spawn(|| life.keep()));
            let judged: Vec<_> = judges.into_iter().map(|judge| judge.join()).collect();
            let all_write = !writers.iter().any(|writer| writer.is_finished());
            match choice.below(3) {
                0 => self.disk.crash(),
                _ => self.disk.crash_keeping_some(seed),
            }
            life.is_over.store(true, Ordering::SeqCst);
            judged
                .into_iter()
                .for_each(|outcome| outcome.expect("a judge found a fault"));
            assert!(all_write, "a writer ended while there was power");
            check_ended(writers.into_iter().filter_map(|writer| writer.join().err()).collect());
        });
        self.judged += life.judged.into_inner();
        self.changes += life.changes.into_inner();
        self.acknowledged = life.acknowledged.into_inner();
        let engine = life.layer.engine.clone();
        drop(life.layer);
        drop(Arc::into_inner(engine).expect("nobody else holds the engine"));
    }

    /// Index and keys agree, and what was acknowledged is found.
    fn judge_opened(&self, layer: &Arc<Redis>) {
        let findings = findings(layer);
        assert!(findings.kept.is_empty(), "{:?}", findings.kept);
        let mut connection = Connection::to(layer);
        if self.acknowledged > 0 {
            let query = format!("@c:[{} +inf]", self.acknowledged);
            let reply = connection.run(&["FT.SEARCH", "i", &query, "NOCONTENT"]);
            assert_eq!(show(&reply), format!("[1 {COUNTER}]"), "{}", self.acknowledged);
        } else if show(&connection.run(&["FT._LIST"])) == "[]" {
            assert_eq!(show(&connection.run(CREATE)), "OK");
        }
    }
}

impl Life {
    fn connect(&self) -> Client<'_> {
        Client {
            connection: Connection::to(&self.layer),
            is_over: &self.is_over,
        }
    }

    /// Writes down the first state.
    fn begin(&self) {
        let mut client = self.connect();
        if self.at_snapshots {
            // An expiring key changes without being logged. A key of another prefix may be renamed
            // into the index.
            for key in (0..KEYS).flat_map(|key| [format!("d:{key}"), format!("e:{key}")]) {
                client.ask(&["PERSIST", &key]);
                client.ask(&["HPERSIST", &key, "FIELDS", "1", "g"]);
            }
        }
        let count = show(&client.ask(&["HINCRBY", COUNTER, "c", "1"]));
        let (_, keys) = look(&mut client, &[]);
        let state = (count.parse().expect("a count"), Arc::new(keys));
        self.states.lock().extend([state]);
    }

    fn write(&self, seed: u64) {
        let (mut client, mut choice) = (self.connect(), Choice(seed));
        while !self.is_over.load(Ordering::SeqCst) {
            match self.at_snapshots {
                true => self.change_and_note(&mut client, &mut choice),
                false => self.change(&mut client, &mut choice),
            }
            self.changes.fetch_add(1, Ordering::Relaxed);
            // Regardless of their number, they leave time to the checkers.
            std::thread::sleep(Duration::from_micros(choice.below(PAUSE_MICROS * self.writers)));
        }
    }

    fn change(&self, client: &mut Client<'_>, choice: &mut Choice) {
        let (_, _, requests) = change(choice, true);
        let is_transaction = requests.len() > 1;
        if is_transaction {
            client.ask(&["MULTI"]);
        }
        for request in &requests {
            client.ask(&words(request));
        }
        if is_transaction {
            // A search in it sees what it has written.
            client.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]);
            client.ask(&[if choice.below(4) == 0 { "DISCARD" } else { "EXEC" }]);
        }
    }

    /// The state after the change is known before any other change.
    fn change_and_note(&self, client: &mut Client<'_>, choice: &mut Choice) {
        let (key, other, requests) = change(choice, false);
        let mut states = self.states.lock();
        client.ask(&["MULTI"]);
        client.ask(&["HINCRBY", COUNTER, "c", "1"]);
        for request in &requests {
            client.ask(&words(request));
        }
        client.ask(&["EVAL", LOOK, "3", &key, &other, COUNTER]);
        let Value::Array(replies) = client.ask(&["EXEC"]) else {
            return; // power is gone
        };
        let Some(Value::Array(looked)) = replies.last() else {
            panic!("{replies:?}");
        };
        let (_, before) = states.last_key_value().expect("the first state");
        let mut keys = Keys::clone(before);
        for (key, fields) in [key.as_str(), &other, COUNTER].into_iter().zip(looked) {
            let fields = pairs(fields);
            match fields.is_empty() || !key.starts_with("d:") {
                true => keys.remove(key),
                false => keys.insert(key.into(), Arc::new(fields)),
            };
        }
        states.insert(show(&replies[0]).parse().expect("a count"), Arc::new(keys));
        while states.len() > STATES_MAX {
            states.pop_first();
        }
    }

    /// Lets time pass, keys expire and documents settle, and waits for the disk now and then.
    fn keep(&self) {
        let (mut client, mut choice) = (self.connect(), Choice(1));
        while !self.is_over.load(Ordering::SeqCst) {
            self.clock.advance(choice.below(3000));
            self.layer.expire_due();
            self.layer.work_of_modules();
            if !self.at_snapshots && choice.below(4) == 0 {
                let count = show(&client.ask(&["HINCRBY", COUNTER, "c", "1"]));
                let (_, _, dependency) = self.layer.engine.snapshot();
                if self.layer.engine.make_durable(dependency) {
                    let count = count.parse().expect("a count");
                    self.acknowledged.store(count, Ordering::SeqCst);
                }
            }
            std::thread::sleep(Duration::from_micros(choice.below(2000)));
        }
    }

    fn judge_until(&self, seed: u64, searches: u64) {
        let (mut client, mut choice) = (self.connect(), Choice(seed));
        while self.judged.load(Ordering::Relaxed) < searches {
            let judged = match self.at_snapshots {
                true => self.judge_at_a_snapshot(&mut client, &mut choice),
                false => judge_in_a_script(&mut client, &mut choice),
            };
            self.judged.fetch_add(judged, Ordering::Relaxed);
        }
    }

    /// The counter is among the hits, and says which state the search has seen.
    fn judge_at_a_snapshot(&self, client: &mut Client<'_>, choice: &mut Choice) -> u64 {
        let condition = Condition::choose(choice);
        let query = match condition {
            Condition::Any => "*".into(),
            _ => format!("({})|@c:[0 +inf]", condition.query()),
        };
        let request = [
            "FT.SEARCH",
            "i",
            &query,
            "RETURN",
            "1",
            "c",
            "LIMIT",
            "0",
            "10000",
            "PARAMS",
            "2",
            "q",
            "55",
            "TIMEOUT",
            "0",
        ];
        let reply = client.ask_long(&request);
        let Value::Array(values) = &reply else {
            panic!("{request:?}: {reply:?}");
        };
        let hits: BTreeMap<String, &Value> = values[1..].chunks(2).map(|hit| (show(&hit[0]), &hit[1])).collect();
        assert_eq!(
            (show(&values[0]), 2 * hits.len() + 1),
            (hits.len().to_string(), values.len())
        );
        let count: u64 = pairs(hits[COUNTER])["c"].parse().expect("a count");
        let state = self.states.lock().get(&count).cloned();
        let state = state.expect("a search sees a state that there was");
        let fits = |(key, fields): &(&String, &Arc<Fields>)| {
            is_indexed(fields) && (condition.fits(fields) || key.as_str() == COUNTER)
        };
        let expected: BTreeSet<&String> = state.iter().filter(fits).map(|(key, _)| key).collect();
        assert_eq!(hits.keys().collect::<BTreeSet<_>>(), expected, "{query} at {count}");
        1
    }
}

/// Without power a writer may end because it cannot roll back its writes; in the server all end
/// with it, and here the others continue with the remaining state.
fn check_ended(panics: Vec<Box<dyn Any + Send>>) {
    let texts: Vec<_> = panics.iter().map(|panic| panic.downcast_ref::<String>()).collect();
    let is_last = |text: &Option<&String>| text.is_some_and(|text| text.contains("what was written can be taken back"));
    assert!(texts.is_empty() || texts.iter().any(is_last), "{texts:?}");
}

fn words(request: &[String]) -> Vec<&str> {
    request.iter().map(String::as_str).collect()
}

/// Runs requests in a script; their replies and the keys of the same moment.
fn look(client: &mut Client<'_>, requests: &[Vec<String>]) -> (Vec<Value>, Keys) {
    let counts: Vec<String> = requests.iter().map(|request| request.len().to_string()).collect();
    let mut script = vec!["EVAL", SCRIPT, "0"];
    for (count, request) in counts.iter().zip(requests) {
        script.push(count);
        script.extend(request.iter().map(String::as_str));
    }
    let reply = client.ask(&script);
    let Value::Array(parts) = &reply else {
        panic!("{reply:?}");
    };
    let [Value::Array(results), Value::Array(every)] = &parts[..] else {
        panic!("{reply:?}");
    };
    let hash = |value: &Value| match value {
        Value::Array(pair) => (show(&pair[0]), Arc::new(pairs(&pair[1]))),
        other => panic!("{other:?}"),
    };
    (results.clone(), every.iter().map(hash).collect())
}

fn judge_in_a_script(client: &mut Client<'_>, choice: &mut Choice) -> u64 {
    let questions: Vec<Question> = (0..SEARCHES_AT_ONCE).map(|_| Question::choose(choice)).collect();
    let requests: Vec<Vec<String>> = questions.iter().map(Question::request).collect();
    let (answers, keys) = look(client, &requests);
    assert_eq!(answers.len(), questions.len());
    for (question, reply) in questions.iter().zip(&answers) {
        let answer = question.answer(reply);
        assert_eq!(answer, question.expected(&keys), "{:?}", question.request());
    }
    questions.len() as u64
}

#[test]
fn every_search_is_right_through_power_cuts() {
    judge(StoreKind::Memory);
}

#[test]
fn every_search_on_ssd_is_right_through_power_cuts() {
    judge(StoreKind::Ssd);
}

fn judge(store: StoreKind) {
    let searches = from_environment("QUARTET_SEARCH_JUDGED", 1000);
    let cuts = from_environment("QUARTET_SEARCH_CUTS", 4);
    let first = from_environment("QUARTET_SEARCH_SEED", 0);
    let mut world = World {
        store,
        disk: FaultyDisk::new(),
        clock: Arc::new(ManualClock::new(1_700_000_000_000_000)),
        writers: from_environment("QUARTET_SEARCH_WRITERS", 6),
        acknowledged: 0,
        judged: 0,
        changes: 0,
    };
    for cut in 0..cuts {
        world.live(first + cut, searches.div_ceil(cuts));
    }
    let layer = world.open();
    world.judge_opened(&layer);
    assert!(world.judged >= searches);
    println!(
        "{store:?}: {} searches judged beside {} changes, {cuts} cuts",
        world.judged, world.changes
    );
}
