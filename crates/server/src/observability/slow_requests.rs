//! Slow requests of every layer, in the server's log: layer, operation, database, duration, and the
//! shape of the request, without any value.
//!
//! A client with many slow requests would fill the log, so it takes a few lines a second and then
//! counts. The latest are kept for the operator's API (`GET /admin/v1/slow-requests`).

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Lines in a second.
const LINES_MAX: u32 = 10;
/// Requests that are kept.
const KEPT_MAX: usize = 128;
/// A longer shape is cut off.
pub const SHAPE_BYTES_MAX: usize = 400;

/// An operation of a layer, by the names that the log has.
#[derive(Clone, Copy)]
pub struct LayerOperation<'o> {
    pub layer: &'o str,
    pub name: &'o str,
}

pub struct SlowRequests {
    /// `None`: no request is logged.
    slower_than: Option<Duration>,
    told: Mutex<LoggedRequests>,
    /// The latest requests, the newest last.
    latest: Mutex<VecDeque<Value>>,
}

struct LoggedRequests {
    second: Instant,
    lines: u32,
    /// Requests over the limit.
    left_out: u64,
}

impl SlowRequests {
    pub fn new(slower_than: Option<Duration>) -> SlowRequests {
        SlowRequests {
            slower_than,
            told: Mutex::new(LoggedRequests {
                second: Instant::now(),
                lines: 0,
                left_out: 0,
            }),
            latest: Mutex::default(),
        }
    }

    /// The latest requests, the newest first, and the duration from which on a request is slow.
    pub fn described(&self) -> Value {
        let slower_than = self.slower_than.map(|slower_than| slower_than.as_millis() as u64);
        let latest: Vec<Value> = self.latest.lock().iter().rev().cloned().collect();
        json!({ "slower_than_milliseconds": slower_than, "slow_requests": latest })
    }

    /// Notes the duration of a request. `database` and `shape` are called only if it is logged.
    #[inline]
    pub fn note(
        &self,
        micros: u64,
        operation: LayerOperation<'_>,
        database: impl FnOnce() -> String,
        shape: impl FnOnce() -> String,
    ) {
        let took = Duration::from_micros(micros);
        if self.slower_than.is_some_and(|slower_than| took >= slower_than) {
            self.tell(took, operation, &database(), &shape());
        }
    }

    #[cold]
    fn tell(&self, took: Duration, operation: LayerOperation<'_>, database: &str, shape: &str) {
        let LayerOperation { layer, name: operation } = operation;
        let milliseconds = took.as_millis() as u64;
        let at_seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        self.keep(json!({
            "at_seconds": at_seconds, "layer": layer, "operation": operation, "database": database,
            "milliseconds": milliseconds, "shape": shape,
        }));
        let Some(left_out) = self.may_tell() else {
            return;
        };
        if left_out > 0 {
            tracing::warn!(left_out, "more slow requests than are logged");
        }
        tracing::warn!(layer, operation, database, milliseconds, shape, "slow request");
    }

    fn keep(&self, request: Value) {
        let mut latest = self.latest.lock();
        if latest.len() == KEPT_MAX {
            latest.pop_front();
        }
        latest.push_back(request);
    }

    /// Returns the number of requests left out since the last logged one; `None` if this request is
    /// left out too.
    fn may_tell(&self) -> Option<u64> {
        let mut logged = self.told.lock();
        if logged.second.elapsed() >= Duration::from_secs(1) {
            (logged.second, logged.lines) = (Instant::now(), 0);
        }
        if logged.lines == LINES_MAX {
            logged.left_out += 1;
            return None;
        }
        logged.lines += 1;
        Some(std::mem::take(&mut logged.left_out))
    }
}

/// Returns JSON with its structure and the names of its members, and `?` for each value:
/// `{"get":?}`. Invalid JSON has some shape too.
pub fn shape_of_json(body: &[u8]) -> String {
    let mut shape = String::new();
    let mut input = body;
    while let Some((byte, after)) = input.split_first() {
        if shape.len() > SHAPE_BYTES_MAX {
            shape.push_str("...");
            break;
        }
        input = match byte {
            b'"' => text(after, &mut shape),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => {
                shape.push(char::from(*byte));
                after
            }
            byte if byte.is_ascii_whitespace() => after,
            _ => {
                shape.push('?');
                let end = after.iter().position(|byte| b",]}: \n\t\r".contains(byte));
                &after[end.unwrap_or(after.len())..]
            }
        };
    }
    shape
}

/// Reads a text after its first quote: a member's name as it is, as far as there is room, a value
/// as `?`. Returns the rest.
fn text<'b>(bytes: &'b [u8], shape: &mut String) -> &'b [u8] {
    let mut escaped = false;
    let end = bytes.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    let Some(end) = end else {
        shape.push('?');
        return &[];
    };
    let after = &bytes[end + 1..];
    let is_name = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
    match is_name {
        true => {
            let name = String::from_utf8_lossy(&bytes[..end.min(SHAPE_BYTES_MAX)]);
            let _ = write!(shape, "\"{name}\"");
        }
        false => shape.push('?'),
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, shape: &str) {
        assert_eq!(shape_of_json(body.as_bytes()), shape);
    }

    #[test]
    fn a_shape_has_names_and_no_values() {
        check(r#"{"get": {"@ref": {"id": "secret"}}}"#, r#"{"get":{"@ref":{"id":?}}}"#);
        check(
            r#"{"Key":{"pk":{"S":"a \" b: c"}},"Limit":12,"x":[1,true,null,-1.5e3]}"#,
            r#"{"Key":{"pk":{"S":?}},"Limit":?,"x":[?,?,?,?]}"#,
        );
        check(r#""a secret""#, "?");
        check(r#"{"cut off": "a secre"#, r#"{"cut off":?"#);
        check("", "");
        let long = shape_of_json(format!("[{}]", "1,".repeat(10_000)).as_bytes());
        assert!(long.len() < SHAPE_BYTES_MAX + 10 && long.ends_with("..."));
        let long_name = shape_of_json(format!("{{\"{}\": 1}}", "n".repeat(10_000)).as_bytes());
        assert!(long_name.len() < 2 * SHAPE_BYTES_MAX + 10);
    }

    #[test]
    fn the_latest_are_kept_and_not_more() {
        let slow = SlowRequests::new(Some(Duration::from_millis(1)));
        for number in 0..KEPT_MAX as u64 + 5 {
            let operation = LayerOperation {
                layer: "fauna",
                name: "query",
            };
            slow.note(1000 * number, operation, || "shop".into(), || "{\"get\":?}".into());
        }
        let described = slow.described();
        let requests = described["slow_requests"].as_array().unwrap();
        assert_eq!(requests.len(), KEPT_MAX);
        let newest = json!({ "layer": "fauna", "operation": "query", "database": "shop", "shape": "{\"get\":?}" });
        let parts = newest.as_object().unwrap().iter();
        assert!(parts.clone().all(|(name, value)| requests[0][name] == *value));
        assert_eq!(requests[0]["milliseconds"], KEPT_MAX + 4);
    }

    #[test]
    fn a_few_lines_a_second_are_logged_and_the_others_counted() {
        let slow = SlowRequests::new(Some(Duration::from_millis(1)));
        slow.told.lock().second = Instant::now() + Duration::from_secs(3600);
        let decisions: Vec<_> = (0..LINES_MAX + 5).map(|_| slow.may_tell()).collect();
        assert_eq!(
            decisions.iter().filter(|decisions| decisions.is_some()).count() as u32,
            LINES_MAX
        );
        assert_eq!(slow.told.lock().left_out, 5);
        slow.told.lock().lines = 0;
        assert_eq!(slow.may_tell(), Some(5));
    }
}
