//! Compares two servers key by key, by the output of DUMP.
//!
//! A value is compared by its meaning: members of a set and fields of a hash in any order,
//! regardless of encodings. Deadlines are compared to the millisecond where both servers return
//! times. Facts that no client can see are ignored, and so is a consumer's last activity. A key
//! that expires during the comparison may already be missing on one side.

use std::time::{SystemTime, UNIX_EPOCH};

use quartet_wire_rdb::DATABASES;
use quartet_wire_rdb::stream::Stream;
use quartet_wire_rdb::value::{self, Value as Stored};
use quartet_wire_resp::{Value, encode_command};

use crate::connection::{Target, error_text};
use crate::error::{Error, Result};
use crate::progress::{KEY, select};
use crate::watcher::{Watcher, shown};

/// Keys compared in one exchange.
const AT_ONCE: usize = 500;
/// Tolerance for deadlines that are returned as a distance from now.
const DISTANCE_MS_MAX: u64 = 2_000;
/// Differences that are reported one by one.
const TOLD_MAX: u64 = 100;

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Keys of the source.
    pub keys: u64,
    pub differences: u64,
}

impl Verdict {
    pub fn is_equal(&self) -> bool {
        self.differences == 0
    }
}

struct Comparison<'c> {
    source: &'c mut dyn Target,
    target: &'c mut dyn Target,
    watcher: &'c mut dyn Watcher,
    /// Both return a deadline as a time; otherwise as a remaining duration.
    tells_times: bool,
    verdict: Verdict,
}

/// Compares every key of every database. `merges`: keys that only the target has are no difference.
/// `alive` is called at intervals.
pub fn compare(
    source: &mut dyn Target,
    target: &mut dyn Target,
    watcher: &mut dyn Watcher,
    merges: bool,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<Verdict> {
    let tells_times = tells_times(source)? && tells_times(target)?;
    let mut comparison = Comparison {
        source,
        target,
        watcher,
        tells_times,
        verdict: Verdict::default(),
    };
    for db in 0..u64::from(DATABASES) {
        if select(comparison.source, db).is_err() {
            break;
        }
        select(comparison.target, db)?;
        comparison.database(db, merges, alive)?;
    }
    select(comparison.target, 0)?;
    Ok(comparison.verdict)
}

/// Returns true if the server returns deadlines as times.
fn tells_times(side: &mut dyn Target) -> Result<bool> {
    Ok(error_text(&side.call(&[b"PEXPIRETIME", KEY])?).is_none())
}

impl Comparison<'_> {
    fn database(&mut self, db: u64, merges: bool, alive: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut names = Vec::new();
        let mut cursor = b"0".to_vec();
        loop {
            names.extend(scan(self.source, &mut cursor)?);
            let is_over = cursor == b"0";
            while names.len() >= AT_ONCE || is_over && !names.is_empty() {
                let remaining = names.split_off(names.len().min(AT_ONCE));
                self.compare_keys(db, &names)?;
                names = remaining;
                alive()?;
            }
            if is_over {
                break;
            }
        }
        if !merges {
            self.find_extra(db, alive)?;
        }
        Ok(())
    }

    /// Keys that only the target has.
    fn find_extra(&mut self, db: u64, alive: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut cursor = b"0".to_vec();
        loop {
            let names: Vec<Vec<u8>> = scan(self.target, &mut cursor)?
                .into_iter()
                .filter(|name| name != KEY)
                .collect();
            let mut requests = Vec::new();
            names
                .iter()
                .for_each(|name| encode_command(&[b"EXISTS".as_slice(), name], &mut requests));
            self.source.send(&requests)?;
            let mut extra = Vec::new();
            for name in names {
                if self.source.receive()? == Value::Integer(0) {
                    extra.push(name);
                }
            }
            // An expiring key is recognized by its own deadline.
            for name in extra {
                let seen = look(self.target, std::slice::from_ref(&name), self.tells_times)?;
                if seen[0].value.is_some() && !seen[0].is_ending() {
                    self.differ(db, &name, "only the target has it");
                }
            }
            alive()?;
            if cursor == b"0" {
                return Ok(());
            }
        }
    }

    fn compare_keys(&mut self, db: u64, names: &[Vec<u8>]) -> Result<()> {
        let at_source = look(self.source, names, self.tells_times)?;
        let at_target = look(self.target, names, self.tells_times)?;
        self.verdict.keys += names.len() as u64;
        for ((name, source), target) in names.iter().zip(&at_source).zip(&at_target) {
            if let Some(reason) = difference(source, target, self.tells_times) {
                self.differ(db, name, reason);
            }
        }
        self.watcher.progress(self.verdict.keys, 0);
        Ok(())
    }

    fn differ(&mut self, db: u64, name: &[u8], reason: &str) {
        self.verdict.differences += 1;
        if self.verdict.differences <= TOLD_MAX {
            self.watcher
                .note(&format!("differs: database {db}, {}: {reason}", shown(name)));
        }
    }
}

/// Returns the next names. The cursor is "0" again after the last. A name may be repeated.
fn scan(side: &mut dyn Target, cursor: &mut Vec<u8>) -> Result<Vec<Vec<u8>>> {
    match side.call(&[b"SCAN", cursor, b"COUNT", b"1000"])? {
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::Bulk(next), Value::Array(names)]) => {
                *cursor = next;
                let names = names.into_iter().filter_map(|name| match name {
                    Value::Bulk(name) => Some(name),
                    _ => None,
                });
                Ok(names.collect())
            }
            _ => Err(Error::Source("SCAN answers something else".into())),
        },
        other => Err(Error::Source(
            error_text(&other).unwrap_or_else(|| "SCAN answers something else".into()),
        )),
    }
}

/// A key as one side has it.
struct Seen {
    /// The result of DUMP; an error is its text.
    value: Option<std::result::Result<Vec<u8>, String>>,
    /// As returned by the server: a time, or a remaining duration.
    deadline_ms: Option<u64>,
    tells_times: bool,
}

impl Seen {
    /// Its time is nearly over.
    fn is_ending(&self) -> bool {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_millis() as u64);
        let left_ms = |deadline_ms: u64| match self.tells_times {
            true => deadline_ms.saturating_sub(now_ms),
            false => deadline_ms,
        };
        self.deadline_ms
            .is_some_and(|deadline_ms| left_ms(deadline_ms) < DISTANCE_MS_MAX)
    }
}

fn look(side: &mut dyn Target, names: &[Vec<u8>], tells_times: bool) -> Result<Vec<Seen>> {
    let asks: &[u8] = if tells_times { b"PEXPIRETIME" } else { b"PTTL" };
    let mut requests = Vec::new();
    for name in names {
        encode_command(&[b"DUMP".as_slice(), name], &mut requests);
        encode_command(&[asks, name], &mut requests);
    }
    side.send(&requests)?;
    let mut seen = Vec::new();
    for _ in names {
        let value = match side.receive()? {
            Value::Bulk(payload) => Some(Ok(payload)),
            Value::Error(text) => Some(Err(String::from_utf8_lossy(&text).into_owned())),
            _ => None,
        };
        let deadline_ms = match side.receive()? {
            Value::Integer(milliseconds) => u64::try_from(milliseconds).ok(),
            _ => None,
        };
        seen.push(Seen {
            value,
            deadline_ms,
            tells_times,
        });
    }
    Ok(seen)
}

fn difference(source: &Seen, target: &Seen, tells_times: bool) -> Option<&'static str> {
    let (here_value, there_value) = match (&source.value, &target.value) {
        (None, None) => return None,
        (None, Some(_)) if target.is_ending() => return None,
        (Some(_), None) if source.is_ending() => return None,
        // It expired between the scan of its name and this look-up.
        (None, Some(_)) => return Some("only the target has it"),
        (Some(_), None) => return Some("the target does not have it"),
        (Some(Ok(source)), Some(Ok(target))) => (source, target),
        (Some(_), Some(_)) => return Some("it cannot be compared: DUMP refuses"),
    };
    let same_deadline = match (source.deadline_ms, target.deadline_ms) {
        (Some(source), Some(target)) => source.abs_diff(target) <= if tells_times { 0 } else { DISTANCE_MS_MAX },
        (None, None) => true,
        _ => false,
    };
    if !same_deadline {
        return Some("its deadline differs");
    }
    match is_same(here_value, there_value) {
        true => None,
        false => Some("its value differs"),
    }
}

const TRAILER_BYTES: usize = 10;

/// Two payloads mean the same value.
fn is_same(source: &[u8], target: &[u8]) -> bool {
    let body = |payload: &[u8]| {
        payload
            .len()
            .checked_sub(TRAILER_BYTES)
            .map(|end| payload[..end].to_vec())
    };
    if body(source) == body(target) {
        return true;
    }
    match (value::restore(source), value::restore(target)) {
        (Ok(source), Ok(target)) => is_same_value(in_order(source), in_order(target)),
        _ => false,
    }
}

fn in_order(value: Stored) -> Stored {
    match value {
        Stored::Set(mut members) => {
            members.sort_unstable();
            Stored::Set(members)
        }
        Stored::Hash(mut fields) => {
            fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Stored::Hash(fields)
        }
        Stored::SortedSet(mut pairs) => {
            pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Stored::SortedSet(pairs)
        }
        Stored::Stream(stream) => Stored::Stream(stream_in_order(stream)),
        Stored::Suggestions(mut suggestions) => {
            suggestions.sort_unstable_by(|a, b| a.text.cmp(&b.text));
            Stored::Suggestions(suggestions)
        }
        value => value,
    }
}

/// One node, groups and consumers by name, pending entries by ID, and no fields that clients cannot
/// query.
fn stream_in_order(mut stream: Stream) -> Stream {
    stream.nodes = vec![stream.nodes.into_iter().flatten().collect()];
    stream.groups.sort_by(|a, b| a.name.cmp(&b.name));
    for group in &mut stream.groups {
        group.consumers.sort_by(|a, b| a.name.cmp(&b.name));
        for consumer in &mut group.consumers {
            (consumer.seen_ms, consumer.active_ms) = (0, 0);
            consumer.pending.sort_by_key(|pending| pending.id);
        }
    }
    stream
}

/// Numbers of a document may be written in two ways.
fn is_same_document(source: &[u8], target: &[u8]) -> bool {
    let read = serde_json::from_slice::<serde_json::Value>;
    source == target || matches!((read(source), read(target)), (Ok(source), Ok(target)) if source == target)
}

fn is_same_value(source: Stored, target: Stored) -> bool {
    if let (Stored::Json(source), Stored::Json(target)) = (&source, &target) {
        return is_same_document(source, target);
    }
    let (Stored::Stream(mut source), Stored::Stream(mut target)) = (source.clone(), target.clone()) else {
        return source == target;
    };
    // Before Redis 7.0 these were not counted.
    if source.entries_added.is_none() || target.entries_added.is_none() {
        for stream in [&mut source, &mut target] {
            stream.entries_added = None;
            stream.max_deleted = Default::default();
            stream.groups.iter_mut().for_each(|group| group.entries_read = None);
        }
    }
    source == target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let set = |members: &[&str]| {
            value::dump(&Stored::Set(
                members.iter().map(|member| member.as_bytes().to_vec()).collect(),
            ))
        };
        assert!(is_same(&set(&["a", "b"]), &set(&["b", "a"])));
        assert!(!is_same(&set(&["a", "b"]), &set(&["a", "c"])));
        let list = |elements: &[&str]| {
            value::dump(&Stored::List(
                elements.iter().map(|element| element.as_bytes().to_vec()).collect(),
            ))
        };
        assert!(!is_same(&list(&["a", "b"]), &list(&["b", "a"])));
        assert!(!is_same(&list(&["a"]), &set(&["a"])));
    }
}
