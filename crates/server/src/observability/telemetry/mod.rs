//! Metrics, and spans of some requests, for an OpenTelemetry collector: OTLP over HTTP. Off unless
//! an endpoint is named.
//!
//! ```text
//!   requests --spans, at most WAITING_MAX--> thread --/v1/traces---> collector
//!   the table of metrics, now and then ----> thread --/v1/metrics--> collector
//! ```
//!
//! A request never waits for any of this: what has no room is left out and counted, and what a
//! collector does not take within a few seconds is dropped. The messages are those of
//! `opentelemetry-proto`: the exporters of OpenTelemetry's SDK send what its own meters have
//! counted, and ours is counted already.

mod messages;
pub mod spans;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use prost::Message;
use ureq::Agent;

use self::messages::{Messages, Origin};
use self::spans::{Item, Spans};
use crate::observability::exposition::Exposition;
use crate::settings::TelemetrySettings;

/// A batch is dropped if the collector takes longer than this.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Spans sent at once.
const SPANS_AT_ONCE: usize = 512;
/// Fewer of them wait so long for more.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// Time for which the end of the server waits for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// Bytes of a collector's answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Writes all metrics.
pub type WriteMetrics = Box<dyn Fn(&mut dyn Exposition) + Send>;

/// The source of metrics when they are sent. `None` once the server stops: its engine must have no
/// other owner then.
type Source = Mutex<Option<WriteMetrics>>;

/// The thread that sends.
pub struct Telemetry {
    spans: Arc<Spans>,
    source: Arc<Source>,
    ended: Receiver<()>,
}

impl Telemetry {
    pub fn start(
        settings: &TelemetrySettings,
        spans: Arc<Spans>,
        received: Receiver<Item>,
        metrics: WriteMetrics,
        started_micros: u64,
    ) -> Result<Telemetry> {
        let source = Arc::new(Mutex::new(Some(metrics)));
        let (end, ended) = std::sync::mpsc::channel();
        let sending = Sending {
            collector: Collector::new(settings),
            origin: Origin::new(started_micros),
            spans: spans.clone(),
            source: source.clone(),
            metrics_every: settings.metrics_every,
            is_failing: false,
        };
        let thread = std::thread::Builder::new().name("otlp".into());
        let run = move || {
            sending.run(&received);
            drop(end);
        };
        thread.spawn(run).context("a thread for telemetry")?;
        Ok(Telemetry { spans, source, ended })
    }

    /// Sends the spans that wait, if the collector takes them soon.
    pub fn stop(self) {
        *self.source.lock() = None;
        self.spans.stop();
        let _ = self.ended.recv_timeout(LAST_SPANS);
    }
}

struct Sending {
    collector: Collector,
    origin: Origin,
    spans: Arc<Spans>,
    source: Arc<Source>,
    metrics_every: Duration,
    is_failing: bool,
}

impl Sending {
    fn run(mut self, received: &Receiver<Item>) {
        let mut metrics_due = Instant::now();
        let mut gathered = Vec::new();
        loop {
            let is_last = self.gather(received, &mut gathered, metrics_due.min(Instant::now() + SPANS_EVERY));
            if !gathered.is_empty() {
                self.send_spans(std::mem::take(&mut gathered));
            }
            if is_last {
                return;
            }
            if Instant::now() >= metrics_due {
                metrics_due = Instant::now() + self.metrics_every;
                self.send_metrics();
            }
        }
    }

    /// Takes spans until there are enough of them, or until `deadline`. True if there will be no
    /// more.
    fn gather(&self, received: &Receiver<Item>, gathered: &mut Vec<spans::Span>, deadline: Instant) -> bool {
        while gathered.len() < SPANS_AT_ONCE {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match received.recv_timeout(remaining) {
                Ok(Item::Span(span)) => {
                    self.spans.taken(&span);
                    gathered.push(*span);
                }
                Ok(Item::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        self.spans.has_stopped() && gathered.len() < SPANS_AT_ONCE
    }

    fn send_spans(&mut self, gathered: Vec<spans::Span>) {
        let count = gathered.len() as u64;
        let body = self.origin.spans(gathered).encode_to_vec();
        let is_sent = self.send("traces", &body);
        let counter = if is_sent { &self.spans.sent } else { &self.spans.dropped };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    fn send_metrics(&mut self) {
        let Some(messages) = self.read_metrics() else {
            return;
        };
        let body = self.origin.metrics(messages).encode_to_vec();
        self.send("metrics", &body);
    }

    /// Reads the counters. The lock is held meanwhile, so that the end of the server waits for it,
    /// and not for a collector.
    fn read_metrics(&self) -> Option<Messages> {
        let source = self.source.lock();
        let write = source.as_ref()?;
        let mut messages = self.origin.messages();
        write(&mut messages);
        Some(messages)
    }

    /// Sends a message. Returns false if the collector has not taken it. The first failure is
    /// logged, and so is the recovery.
    fn send(&mut self, signal: &str, body: &[u8]) -> bool {
        let sent = self.collector.post(signal, body);
        if let Err(reason) = &sent {
            self.spans.failures.fetch_add(1, Ordering::Relaxed);
            if !self.is_failing {
                tracing::warn!(
                    signal,
                    reason,
                    "the collector does not take telemetry; what it misses is dropped"
                );
            }
        } else if self.is_failing {
            tracing::info!("the collector takes telemetry again");
        }
        self.is_failing = sent.is_err();
        sent.is_ok()
    }
}

/// The target of telemetry.
struct Collector {
    agent: Agent,
    endpoint: String,
    headers: Vec<(String, String)>,
}

impl Collector {
    fn new(settings: &TelemetrySettings) -> Collector {
        let config = Agent::config_builder()
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        Collector {
            agent: config.into(),
            endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
            headers: settings.headers.clone(),
        }
    }

    fn post(&self, signal: &str, body: &[u8]) -> Result<(), String> {
        let mut request = self
            .agent
            .post(format!("{}/v1/{signal}", self.endpoint))
            .header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| error.to_string())?;
        // Read to its end, the connection can be used again.
        let _ = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        match response.status().as_u16() {
            200..300 => Ok(()),
            status => Err(format!("status {status}")),
        }
    }
}
