//! Copies what an Upstash database holds, over its REST API, key by key.
//!
//! ```text
//! SCAN cursor --names--> TYPE and PTTL of each --> each value by its kind's own commands, in pieces --> one transaction of the target
//! ```
//!
//! It is not a copy of one moment: concurrent writes may or may not be in it, so writers should be
//! stopped. All replies are requested in base64, as JSON has no bytes; arguments that are not text
//! go into the path.
//!
//! Source: the Upstash documentation, "REST API". A stream keeps its entries, its last ID and its
//! groups with their last delivered IDs; pending entries of a group are reported and left out.

use std::io::Read;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_wire_rdb::DATABASES;
use serde_json::Value;

use crate::append_only::Copied;
use crate::carrier::Carrier;
use crate::connection::Target;
use crate::error::{Error, Result};
use crate::progress::{self, Keeper, Step};
use crate::watcher::{Watcher, shown};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time for which the source may be unreachable.
const ABSENCE_MAX: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(200);
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Number of a collection's elements per request.
const PIECE: usize = 1000;

/// A command's words.
type Words = Vec<Vec<u8>>;

/// An Upstash database, or another server with its REST API.
pub struct Rest {
    agent: ureq::Agent,
    url: String,
    authorization: String,
}

impl Rest {
    pub fn new(url: &str, token: &str) -> Rest {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Rest {
            agent: config.into(),
            url: url.trim_end_matches('/').into(),
            authorization: format!("Bearer {token}"),
        }
    }

    /// The replies, each a value or the text of an error.
    fn ask(&self, commands: &[Words]) -> Result<Vec<Answer>> {
        let texts: Option<Vec<Vec<&str>>> = commands.iter().map(|words| texts(words)).collect();
        match texts {
            Some(texts) => {
                let body = serde_json::to_string(&texts).expect("texts");
                let answers = self.post("/pipeline", body)?;
                match answers {
                    Value::Array(answers) if answers.len() == commands.len() => {
                        Ok(answers.into_iter().map(answer).collect())
                    }
                    other => Err(refusal(&other)),
                }
            }
            None => commands
                .iter()
                .map(|words| self.post(&path(words), String::new()).map(answer))
                .collect(),
        }
    }

    fn ask_one(&self, words: Words) -> Result<Answer> {
        let mut answers = self.ask(&[words])?;
        answers.pop().ok_or_else(|| Error::Source("it answers nothing".into()))
    }

    /// Repeats the request while the source is unreachable.
    fn post(&self, path: &str, body: String) -> Result<Value> {
        let since = Instant::now();
        loop {
            match self.post_once(path, body.clone()) {
                Err(_) if since.elapsed() < ABSENCE_MAX => std::thread::sleep(RETRY),
                answered => return answered.map_err(Error::Link),
            }
        }
    }

    fn post_once(&self, path: &str, body: String) -> std::result::Result<Value, String> {
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = request.header("authorization", &self.authorization);
        let response = request.header("upstash-encoding", "base64").send(body);
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        let read = response
            .into_body()
            .into_reader()
            .take(BODY_BYTES_MAX)
            .read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        match status {
            429 | 500.. => Err(format!("status {status}")),
            _ => serde_json::from_slice(&bytes).map_err(|error| format!("status {status}, and no JSON: {error}")),
        }
    }
}

type Answer = std::result::Result<Value, String>;

fn answer(mut answer: Value) -> Answer {
    match answer["error"].as_str() {
        Some(text) => Err(text.to_owned()),
        None => Ok(answer["result"].take()),
    }
}

fn refusal(answer: &Value) -> Error {
    Error::Source(
        answer["error"]
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned),
    )
}

fn texts(words: &[Vec<u8>]) -> Option<Vec<&str>> {
    words.iter().map(|word| std::str::from_utf8(word).ok()).collect()
}

fn path(words: &[Vec<u8>]) -> String {
    let mut path = String::new();
    for word in words {
        path.push('/');
        for byte in word {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => path.push(char::from(*byte)),
                byte => path.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    path
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The bytes of a string, or the digits of a number.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => STANDARD.decode(text).unwrap_or_else(|_| text.clone().into_bytes()),
        Value::Null => Vec::new(),
        other => other.to_string().into_bytes(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = Vec<u8>> + '_ {
    value.as_array().into_iter().flatten().map(bytes)
}

/// Copies all keys into database 0 of the target.
pub fn copy(source: &Rest, target: &mut dyn Target, watcher: &mut dyn Watcher, merges: bool) -> Result<Copied> {
    let progress = progress::prepare(target, &source.url, u64::from(DATABASES), merges)?;
    let begin = match progress.map(|progress| progress.step) {
        Some(step @ Step::Scan { .. }) => step,
        _ => Step::Scan { cursor: "0".into() },
    };
    let Step::Scan { mut cursor } = begin.clone() else {
        unreachable!("made so")
    };
    let size = source.ask_one(words(&[b"DBSIZE"]))?.map_err(Error::Source)?;
    watcher.note(&format!("the source holds {size} keys"));
    watcher.phase("copying", None);
    let mut carrier = Carrier::new(target, watcher, &source.url, begin, Keeper::Key);
    carrier.begin()?;
    loop {
        let page = source.ask_one(words(&[b"SCAN", cursor.as_bytes(), b"COUNT", b"100"]))?;
        let page = page.map_err(Error::Source)?;
        cursor = String::from_utf8_lossy(&bytes(&page[0])).into_owned();
        copy_keys(source, &list(&page[1]).collect::<Vec<_>>(), &mut carrier)?;
        let is_over = cursor == "0";
        carrier.send_keys(Step::Scan { cursor: cursor.clone() })?;
        if is_over {
            break;
        }
        if carrier.watcher.is_stopped() {
            carrier.wait()?;
            return Err(Error::Stopped);
        }
    }
    carrier.wait()?;
    let copied = Copied {
        done: carrier.done,
        rejected: carrier.rejected,
    };
    progress::finish(target)?;
    Ok(copied)
}

fn copy_keys(source: &Rest, names: &[Vec<u8>], carrier: &mut Carrier<'_>) -> Result<()> {
    let requests: Vec<Words> = names
        .iter()
        .flat_map(|name| [words(&[b"TYPE", name]), words(&[b"PTTL", name])])
        .collect();
    if requests.is_empty() {
        return Ok(());
    }
    let answers = source.ask(&requests)?;
    for (name, pair) in names.iter().zip(answers.chunks(2)) {
        let [Ok(kind), Ok(remaining)] = pair else {
            carrier.reject(0, shown(name), "the source does not list its keys");
            continue;
        };
        let mark = carrier.mark();
        let mut key = Key { source, carrier, name };
        let brought = key.bring(&bytes(kind), remaining.as_i64().unwrap_or(-1))?;
        if let Err(reason) = brought {
            carrier.forget_behind(mark);
            carrier.reject(0, shown(name), reason);
        }
    }
    Ok(())
}

/// A key on its way. Its requests are of one transaction.
struct Key<'k, 'c> {
    source: &'k Rest,
    carrier: &'k mut Carrier<'c>,
    name: &'k [u8],
}

/// Either a failure of the whole copy, or the reason why this key stays out.
type Brought = Result<std::result::Result<(), String>>;

impl Key<'_, '_> {
    fn bring(&mut self, kind: &[u8], remaining_ms: i64) -> Brought {
        if kind == b"none" {
            return Ok(Ok(()));
        }
        self.carrier.add(0, &[b"DEL", self.name]);
        let brought = match kind {
            b"string" => self.whole(b"GET", b"SET", &[]),
            b"ReJSON-RL" => self.whole(b"JSON.GET", b"JSON.SET", &[b"$"]),
            b"list" => self.list(),
            b"set" => self.scanned(b"SSCAN", b"SADD", false),
            b"hash" => self.scanned(b"HSCAN", b"HSET", false),
            b"zset" => self.scanned(b"ZSCAN", b"ZADD", true),
            b"stream" => self.stream(),
            other => return Ok(Err(format!("a value of the kind {}", other.escape_ascii()))),
        }?;
        if brought.is_ok() && remaining_ms >= 0 {
            let now_ms = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_millis() as i64);
            let deadline_ms = (now_ms + remaining_ms).to_string();
            self.carrier.add(0, &[b"PEXPIREAT", self.name, deadline_ms.as_bytes()]);
        }
        Ok(brought)
    }

    fn ask(&self, arguments: &[&[u8]]) -> Result<Answer> {
        self.source.ask_one(words(arguments))
    }

    fn whole(&mut self, read: &[u8], write: &[u8], between: &[&[u8]]) -> Brought {
        let value = match self.ask(&[read, self.name])? {
            // It has been deleted meanwhile.
            Ok(Value::Null) => return Ok(Ok(())),
            Ok(value) => bytes(&value),
            Err(text) => return Ok(Err(text)),
        };
        let request: Vec<&[u8]> = [write, self.name]
            .into_iter()
            .chain(between.iter().copied())
            .chain([value.as_slice()])
            .collect();
        self.carrier.add(0, &request);
        Ok(Ok(()))
    }

    fn list(&mut self) -> Brought {
        let mut start = 0;
        loop {
            let (first, last) = (start.to_string(), (start + PIECE - 1).to_string());
            let elements: Words = match self.ask(&[b"LRANGE", self.name, first.as_bytes(), last.as_bytes()])? {
                Ok(value) => list(&value).collect(),
                Err(text) => return Ok(Err(text)),
            };
            self.add_all(b"RPUSH", &elements);
            start += elements.len();
            if elements.len() < PIECE {
                return Ok(Ok(()));
            }
        }
    }

    /// `swaps`: a member precedes its score in the reply, and follows it in the request.
    fn scanned(&mut self, read: &[u8], write: &[u8], swaps: bool) -> Brought {
        let (mut cursor, count) = (b"0".to_vec(), PIECE.to_string());
        loop {
            let page = match self.ask(&[read, self.name, &cursor, b"COUNT", count.as_bytes()])? {
                Ok(page) => page,
                Err(text) => return Ok(Err(text)),
            };
            let mut elements: Words = list(&page[1]).collect();
            if swaps {
                elements.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
            }
            self.add_all(write, &elements);
            cursor = bytes(&page[0]);
            if cursor == b"0" {
                return Ok(Ok(()));
            }
        }
    }

    fn add_all(&mut self, write: &[u8], elements: &[Vec<u8>]) {
        if !elements.is_empty() {
            let request: Vec<&[u8]> = [write, self.name]
                .into_iter()
                .chain(elements.iter().map(Vec::as_slice))
                .collect();
            self.carrier.add(0, &request);
        }
    }

    fn stream(&mut self) -> Brought {
        let (mut start, count) = (b"-".to_vec(), PIECE.to_string());
        loop {
            let entries = match self.ask(&[b"XRANGE", self.name, &start, b"+", b"COUNT", count.as_bytes()])? {
                Ok(entries) => entries,
                Err(text) => return Ok(Err(text)),
            };
            let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
            for entry in entries {
                let (id, fields): (Vec<u8>, Words) = (bytes(&entry[0]), list(&entry[1]).collect());
                let head = [b"XADD".as_slice(), self.name, &id];
                let request: Vec<&[u8]> = head.into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
                self.carrier.add(0, &request);
                start = [b"(", id.as_slice()].concat();
            }
            if entries.len() < PIECE {
                break;
            }
        }
        self.groups()
    }

    /// Copies the groups, and the last ID, which may be a deleted entry's, after the entries.
    fn groups(&mut self) -> Brought {
        let requests = [
            words(&[b"XINFO", b"GROUPS", self.name]),
            words(&[b"XINFO", b"STREAM", self.name]),
        ];
        let mut answers = self.source.ask(&requests)?.into_iter();
        let (Some(Ok(groups)), Some(Ok(stream))) = (answers.next(), answers.next()) else {
            return Ok(Err("the source does not report its groups".into()));
        };
        for group in groups.as_array().into_iter().flatten() {
            let (name, last) = (field(group, "name"), field(group, "last-delivered-id"));
            self.carrier
                .add(0, &[b"XGROUP", b"CREATE", self.name, &name, &last, b"MKSTREAM"]);
            if field(group, "pending") != b"0" {
                let description = format!("{}: what is pending in the group {}", shown(self.name), shown(&name));
                self.carrier.reject(0, description, "groups begin without it");
            }
        }
        let last = field(&stream, "last-generated-id");
        if !last.is_empty() && last != b"0-0" {
            self.carrier.add(0, &[b"XSETID", self.name, &last]);
        }
        Ok(Ok(()))
    }
}

/// A field of an XINFO reply: name and value alternate.
fn field(reply: &Value, name: &str) -> Vec<u8> {
    let fields: Words = list(reply).collect();
    let pair = fields.chunks_exact(2).find(|pair| pair[0] == name.as_bytes());
    pair.map_or_else(Vec::new, |pair| pair[1].clone())
}
