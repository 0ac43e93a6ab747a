//! Metrics of the data sent to a collector.

use super::metric::{Metric, Sources, Table, count};
use crate::observability::telemetry::spans::Spans;

pub const TABLE: Table = Table {
    title: "Telemetry",
    shown: "With `--otlp-endpoint`.",
    is_shown: |sources| sources.tenants.parts.spans.is_some(),
    is_by_service: false,
    metrics: &[
        Metric::counter(
            "quartet_otlp_spans_sent_total",
            "Spans that the collector has taken.",
            |sources| count(&spans(sources).sent),
        ),
        Metric::counter(
            "quartet_otlp_spans_dropped_total",
            "Spans for which there was no room, or that the collector did not take.",
            |sources| count(&spans(sources).dropped),
        ),
        Metric::counter(
            "quartet_otlp_failures_total",
            "Requests to the collector that failed.",
            |sources| count(&spans(sources).failures),
        ),
    ],
};

fn spans<'s>(sources: &Sources<'s>) -> &'s Spans {
    sources.tenants.parts.spans.as_ref().expect("the table is shown")
}
