//! Which requests have a span, and what it says: layer, operation, database and status, and nothing
//! that a client has written.
//!
//! A request with a `traceparent` (W3C Trace Context) is in that trace, and sampled if its parent
//! is; a share of the others is sampled too. Only spans of authenticated peers are kept, and no
//! more than the queue of the sending thread holds. A logical database may take as much of the
//! queue as it leaves free, so a database with very many spans leaves room for the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::SystemTime;

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{SpanFlags, Status};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use parking_lot::Mutex;
use quartet_model::hexadecimal;
use quartet_tenancy::{DEFAULT_NAME, Database};

use super::messages::{nanos, text};
use crate::process::system::fill_random;

/// Spans that wait to be sent.
pub const WAITING_MAX: usize = 2048;
pub const TRACEPARENT: &str = "traceparent";
/// A longer `tracestate` is left out, as W3C Trace Context allows: spans that wait must stay small.
const TRACE_STATE_BYTES_MAX: usize = 512;

/// Describes a request for its span.
pub struct Described {
    pub layer: &'static str,
    /// One of few: it names the span.
    pub operation: &'static str,
    pub database: Option<String>,
}

/// The name of a database; `None` is the default one.
pub fn named(database: Option<&Database>) -> Option<String> {
    Some(database.map_or_else(
        || DEFAULT_NAME.to_owned(),
        |database| database.definition().name.clone(),
    ))
}

/// A request with a span that has not ended.
pub type UnderWay = Box<Span>;

pub enum Item {
    Span(UnderWay),
    Stop,
}

pub struct Spans {
    /// Requests per 2^32 without a parent that are sampled.
    share: u64,
    /// The number of sampling decisions; its hash decides.
    asked: AtomicU64,
    waiting: Mutex<Waiting>,
    sender: SyncSender<Item>,
    is_stopped: AtomicBool,
    pub sent: AtomicU64,
    /// There was no room, or the collector did not take them.
    pub dropped: AtomicU64,
    /// Requests to the collector that failed.
    pub failures: AtomicU64,
}

impl Spans {
    pub fn new(sampling_ratio: f64) -> (Spans, Receiver<Item>) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let spans = Spans {
            share: (sampling_ratio.clamp(0.0, 1.0) * (1_u64 << 32) as f64) as u64,
            asked: AtomicU64::new(0),
            waiting: Mutex::default(),
            sender,
            is_stopped: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        (spans, receiver)
    }

    /// Starts a span, if the request is sampled and there is room. `headers` may name the caller's
    /// span.
    pub fn begin(
        &self,
        method: &str,
        headers: &dyn Extractor,
        describe: impl FnOnce() -> Described,
    ) -> Option<UnderWay> {
        let parent = headers.get(TRACEPARENT).and_then(|_| parent_of(headers));
        let is_sampled = match &parent {
            Some(parent) => parent.is_sampled(),
            None => self.draws(),
        };
        if !is_sampled {
            return None;
        }
        let described = describe();
        if !self
            .waiting
            .lock()
            .has_room(described.database.as_deref().unwrap_or_default())
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Box::new(begun(method, parent, described)))
    }

    /// Returns true for the share of requests to sample.
    fn draws(&self) -> bool {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        (mixed(number) >> 32) < self.share
    }

    /// Ends a span now.
    pub fn end(&self, mut span: UnderWay) {
        span.end_time_unix_nano = nanos(SystemTime::now()).max(span.start_time_unix_nano);
        let mut waiting = self.waiting.lock();
        let database = database_of(&span).to_owned();
        // Under the lock: the sender must not take it before it was counted.
        if waiting.has_room(&database) && self.sender.try_send(Item::Span(span)).is_ok() {
            waiting.add(database);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A span was taken by the thread that sends.
    pub fn taken(&self, span: &Span) {
        self.waiting.lock().remove(database_of(span));
    }

    /// The thread ends once it has taken what waits.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // If the queue is full, the thread checks the flag after emptying it.
        let _ = self.sender.try_send(Item::Stop);
    }

    pub fn has_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// The numbers of waiting spans, in all and of each database with spans: no more entries than
/// spans.
#[derive(Default)]
struct Waiting {
    total: usize,
    of: HashMap<String, usize>,
}

impl Waiting {
    /// A database may have no more waiting spans than the room left. So a single database has half
    /// of all room, two with very many spans have a third each, and a new database always has the
    /// same.
    fn has_room(&self, database: &str) -> bool {
        let own = self.of.get(database).copied().unwrap_or(0);
        own < WAITING_MAX - self.total
    }

    fn add(&mut self, database: String) {
        self.total += 1;
        *self.of.entry(database).or_default() += 1;
    }

    fn remove(&mut self, database: &str) {
        self.total -= 1;
        if let Some(own) = self.of.get_mut(database) {
            *own -= 1;
            if *own == 0 {
                self.of.remove(database);
            }
        }
    }
}

const DATABASE: &str = "db.namespace";

/// The database of a span; spans without a database share a room of their own.
fn database_of(span: &Span) -> &str {
    let named = span.attributes.iter().find(|attribute| attribute.key == DATABASE);
    match named.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(name)) => name,
        _ => "",
    }
}

/// Notes the status of the answer.
pub fn note_status(span: &mut Span, status: u16) {
    const SERVER_ERRORS: u16 = 500;
    span.attributes.push(KeyValue {
        key: "http.response.status_code".into(),
        value: Some(opentelemetry::Value::I64(i64::from(status)).into()),
        ..KeyValue::default()
    });
    if status >= SERVER_ERRORS {
        span.status = Some(Status {
            message: String::new(),
            code: StatusCode::Error.into(),
        });
    }
}

/// The span's name in a header [`TRACEPARENT`].
pub fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hexadecimal(&span.trace_id), hexadecimal(&span.span_id))
}

fn begun(method: &str, parent: Option<SpanContext>, described: Described) -> Span {
    let mut fresh = [0; 24];
    fill_random(&mut fresh);
    let (trace_id, span_id) = fresh.split_at(16);
    let mut attributes = vec![
        text("quartet.layer", described.layer),
        text("db.operation.name", described.operation),
        text("http.request.method", method),
    ];
    attributes.extend(described.database.map(|name| text(DATABASE, &name)));
    let mut span = Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        flags: SpanFlags::ContextHasIsRemoteMask as u32 | SAMPLED,
        name: format!("{} {}", described.layer, described.operation),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: nanos(SystemTime::now()),
        attributes,
        ..Span::default()
    };
    if let Some(parent) = parent {
        span.trace_id = parent.trace_id().to_bytes().to_vec();
        span.parent_span_id = parent.span_id().to_bytes().to_vec();
        span.trace_state = Some(parent.trace_state().header())
            .filter(|state| state.len() <= TRACE_STATE_BYTES_MAX)
            .unwrap_or_default();
        span.flags |= SpanFlags::ContextIsRemoteMask as u32;
    }
    span
}

/// The flag of W3C Trace Context.
const SAMPLED: u32 = 1;

/// Returns the span that the request is part of. An invalid header names none.
fn parent_of(headers: &dyn Extractor) -> Option<SpanContext> {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), headers);
    let parent = context.span().span_context().clone();
    parent.is_valid().then_some(parent)
}

/// SplitMix64's output: neighbours look nothing alike.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe() -> Described {
        describe_of("shop")
    }

    fn describe_of(database: &str) -> Described {
        Described {
            layer: "rest",
            operation: "command",
            database: Some(database.into()),
        }
    }

    fn begin_of(spans: &Spans, database: &str) -> Option<UnderWay> {
        spans.begin("GET", &HashMap::new(), || describe_of(database))
    }

    fn begin(spans: &Spans, traceparent: Option<&str>) -> Option<UnderWay> {
        begin_with(spans, traceparent, None)
    }

    fn begin_with(spans: &Spans, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<UnderWay> {
        let headers = [("traceparent", traceparent), ("tracestate", tracestate)];
        let headers = headers
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        spans.begin("GET", &headers.collect::<HashMap<_, _>>(), describe)
    }

    #[test]
    fn a_trace_state_that_is_long_does_not_wait_with_the_span() {
        let (spans, _received) = Spans::new(0.0);
        let parent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let span = begin_with(&spans, parent, Some("vendor=short")).unwrap();
        assert_eq!(span.trace_state, "vendor=short");
        let long = format!("vendor={}", "x".repeat(200));
        let long = [
            long.as_str(),
            &long.replace("vendor", "other"),
            &long.replace("vendor", "third"),
        ]
        .join(",");
        assert!(begin_with(&spans, parent, Some(&long)).unwrap().trace_state.is_empty());
    }

    #[test]
    fn a_span_belongs_to_the_trace_of_its_caller_and_is_sampled_if_that_is() {
        let (spans, _received) = Spans::new(0.0);
        let span = begin(&spans, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).unwrap();
        assert_eq!(hexadecimal(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(hexadecimal(&span.parent_span_id), "b7ad6b7169203331");
        assert_eq!(span.name, "rest command");
        assert!(!format!("{span:?}").contains("hidden"));
        let (all, _received) = Spans::new(1.0);
        assert!(begin(&all, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")).is_none());
        for broken in [
            "",
            "00-xyz-abc-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        ] {
            assert!(begin(&spans, Some(broken)).is_none(), "{broken}");
            assert!(begin(&all, Some(broken)).unwrap().parent_span_id.is_empty(), "{broken}");
        }
    }

    #[test]
    fn a_share_of_the_others_is_sampled() {
        let (spans, _received) = Spans::new(0.1);
        // The draws follow from a counter, so this is the same in every run.
        let sampled = (0..100_000).filter(|_| spans.draws()).count();
        assert!((9_500..10_500).contains(&sampled), "{sampled}");
    }

    #[test]
    fn without_room_nothing_waits_and_what_is_left_out_is_counted() {
        let (spans, received) = Spans::new(1.0);
        for _ in 0..WAITING_MAX / 2 {
            spans.end(begin(&spans, None).unwrap());
        }
        assert!(begin(&spans, None).is_none());
        assert_eq!(spans.dropped.load(Ordering::Relaxed), 1);
        let Ok(Item::Span(span)) = received.try_recv() else {
            panic!("a span waits");
        };
        spans.taken(&span);
        spans.end(begin(&spans, None).unwrap());
        assert_eq!(spans.dropped.load(Ordering::Relaxed), 1);
    }

    /// One tenant that sent a sampled `traceparent` with each of very many requests had all the
    /// room, and the spans of the others were dropped.
    #[test]
    fn a_database_that_sends_very_many_leaves_room_for_the_others() {
        let (spans, received) = Spans::new(1.0);
        let fill = |database: &str| {
            let mut count = 0;
            while let Some(span) = begin_of(&spans, database) {
                spans.end(span);
                count += 1;
            }
            count
        };
        assert_eq!(fill("greedy"), WAITING_MAX / 2);
        assert_eq!(fill("greedy as well"), WAITING_MAX / 4);
        let modest = begin_of(&spans, "modest").unwrap();
        spans.end(modest);
        assert_eq!(spans.dropped.load(Ordering::Relaxed), 2);
        // Nothing is left of the databases once their spans were taken.
        while let Ok(Item::Span(taken)) = received.try_recv() {
            spans.taken(&taken);
        }
        let waiting = spans.waiting.lock();
        assert_eq!((waiting.total, waiting.of.len()), (0, 0));
    }

    #[test]
    fn an_answer_of_the_servers_fault_ends_the_span_as_an_error() {
        let (spans, _received) = Spans::new(1.0);
        let status = |answered| {
            let mut span = begin(&spans, None).unwrap();
            note_status(&mut span, answered);
            span.status.as_ref().map(|status| status.code)
        };
        assert_eq!([200, 404, 503].map(status), [None, None, Some(2)]);
    }
}
