//! Metrics and spans as messages of OTLP.

use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;

use crate::observability::exposition::{Buckets, Exposition, Family, Kind, Labels, seconds};

/// Collectors refuse requests of more than a few megabytes.
const METRICS_BYTES_MAX: usize = 1 << 20;
/// About what a value takes beside its labels.
const VALUE_BYTES: usize = 64;

pub fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

pub fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

/// The sender's description in every message.
pub struct Origin {
    resource: Resource,
    started_nanos: u64,
}

impl Origin {
    /// The environment may name the service otherwise, and say more of it: `OTEL_SERVICE_NAME`,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub fn new(started_micros: u64) -> Origin {
        let detected = opentelemetry_sdk::Resource::builder().build();
        let mut attributes = ResourceAttributesWithSchema::from(&detected).attributes.0;
        const NAME: &str = "service.name";
        let is_named = detected
            .iter()
            .any(|(key, value)| key.as_str() == NAME && !value.as_str().starts_with("unknown_service"));
        if !is_named {
            attributes.retain(|attribute| attribute.key != NAME);
            attributes.push(text(NAME, "quartet"));
        }
        attributes.push(text("service.version", env!("CARGO_PKG_VERSION")));
        Origin {
            resource: Resource {
                attributes,
                ..Resource::default()
            },
            started_nanos: started_micros.saturating_mul(1000),
        }
    }

    pub fn spans(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }

    pub fn messages(&self) -> Messages {
        Messages {
            metrics: Vec::new(),
            started_nanos: self.started_nanos,
            now_nanos: nanos(SystemTime::now()),
            bytes: 0,
        }
    }

    pub fn metrics(&self, messages: Messages) -> ExportMetricsServiceRequest {
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: messages.metrics,
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        }
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "quartet".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    }
}

/// The metrics of one moment.
pub struct Messages {
    metrics: Vec<Metric>,
    started_nanos: u64,
    now_nanos: u64,
    bytes: usize,
}

impl Messages {
    fn count(&mut self, labels: Labels<'_>, values: usize) {
        let label_bytes = labels.iter().map(|(name, value)| name.len() + value.len() + 8);
        self.bytes += label_bytes.sum::<usize>() + values * VALUE_BYTES;
    }

    fn data(&mut self) -> Option<&mut Data> {
        self.metrics.last_mut()?.data.as_mut()
    }
}

impl Exposition for Messages {
    fn family(&mut self, family: &Family) {
        const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
        let data = match family.kind {
            Kind::Gauge => Data::Gauge(Gauge::default()),
            Kind::Counter => Data::Sum(Sum {
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
                ..Sum::default()
            }),
            Kind::Histogram => Data::Histogram(Histogram {
                aggregation_temporality: CUMULATIVE,
                ..Histogram::default()
            }),
        };
        self.metrics.push(Metric {
            name: family.name.to_owned(),
            description: family.help.to_owned(),
            unit: family.unit.code().to_owned(),
            data: Some(data),
            ..Metric::default()
        });
    }

    fn value(&mut self, labels: Labels<'_>, value: f64) {
        self.count(labels, 1);
        let point = NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.started_nanos,
            time_unix_nano: self.now_nanos,
            value: Some(number_data_point::Value::AsDouble(value)),
            ..NumberDataPoint::default()
        };
        match self.data() {
            Some(Data::Gauge(gauge)) => gauge.data_points.push(point),
            Some(Data::Sum(sum)) => sum.data_points.push(point),
            _ => unreachable!("a value belongs to a gauge or a counter"),
        }
    }

    fn histogram(&mut self, labels: Labels<'_>, buckets: &Buckets) {
        self.count(labels, buckets.within.len() / 2);
        let mut before = 0;
        let within = buckets.within.iter().map(|(_, within)| *within);
        let counts = within.chain([buckets.count]).map(|within| {
            let count = within.saturating_sub(before);
            before = within.max(before);
            count
        });
        let bucket_counts: Vec<u64> = counts.collect();
        let point = HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.started_nanos,
            time_unix_nano: self.now_nanos,
            count: bucket_counts.iter().sum(),
            sum: Some(seconds(buckets.micros)),
            bucket_counts,
            explicit_bounds: buckets.within.iter().map(|(bound, _)| seconds(*bound)).collect(),
            ..HistogramDataPoint::default()
        };
        match self.data() {
            Some(Data::Histogram(histogram)) => histogram.data_points.push(point),
            _ => unreachable!("a histogram belongs to a histogram"),
        }
    }

    fn room(&self) -> usize {
        METRICS_BYTES_MAX.saturating_sub(self.bytes)
    }
}

fn attributes(labels: Labels<'_>) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observability::exposition::Unit;

    #[test]
    fn families_become_metrics() {
        let origin = Origin::new(5);
        let mut messages = origin.messages();
        let family = |name, kind, unit| {
            let help = "One of three.";
            Family { name, kind, unit, help }
        };
        messages.family(&family("one_bytes", Kind::Gauge, Unit::Bytes));
        messages.value(&[], 1.5);
        messages.family(&family("two_total", Kind::Counter, Unit::None));
        messages.value(&[("mode", "a")], 2.0);
        messages.family(&family("three_seconds", Kind::Histogram, Unit::Seconds));
        let buckets = Buckets {
            within: vec![(1000, 2), (2000, 2), (1_000_000, 3)],
            count: 5,
            micros: 2_500_000,
        };
        messages.histogram(&[], &buckets);
        let [first, two, three] = messages.metrics.as_slice() else {
            panic!("three families");
        };
        assert_eq!([&first.unit, &two.unit, &three.unit], ["By", "", "s"]);
        let Some(Data::Sum(sum)) = &two.data else {
            panic!("a counter is a sum");
        };
        assert!(sum.is_monotonic && sum.data_points[0].start_time_unix_nano == 5000);
        let Some(Data::Histogram(histogram)) = &three.data else {
            panic!("a histogram");
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts, [2, 0, 1, 2]);
        assert_eq!(point.explicit_bounds, [0.001, 0.002, 1.0]);
        assert_eq!((point.count, point.sum), (5, Some(2.5)));
    }
}
