//! Options of the server's reports: slow requests in its log, metrics and spans to a collector.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use quartet_server::TelemetrySettings;
use serde::{Deserialize, Serialize};

use super::values::variable;

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct TelemetryOptions {
    /// Minimum milliseconds of a request of any layer to be logged, with its shape and no values;
    /// 0: never [default: 1000]
    #[arg(long, env = "QUARTET_SLOW_REQUEST_MILLISECONDS")]
    slow_request_milliseconds: Option<u64>,
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, as http://127.0.0.1:4318: it
    /// gets metrics and spans [default: OTEL_EXPORTER_OTLP_ENDPOINT if that is set, otherwise none]
    #[arg(long, env = "QUARTET_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Share of HTTP requests with spans, from 0 to 1, unless the caller's `traceparent` decides
    /// [default: 0.01]
    #[arg(long, env = "QUARTET_OTLP_SAMPLING_RATIO")]
    otlp_sampling_ratio: Option<f64>,
    /// Seconds between two reports of metrics to the collector [default: 60]
    #[arg(long, env = "QUARTET_OTLP_METRICS_SECONDS")]
    otlp_metrics_seconds: Option<u64>,
}

impl TelemetryOptions {
    pub fn slow_requests(&self) -> Option<Duration> {
        let milliseconds = self.slow_request_milliseconds.unwrap_or(1000);
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }

    pub fn validated(&self) -> Result<Option<TelemetrySettings>> {
        let named = || variable(&["OTEL_EXPORTER_OTLP_ENDPOINT"]);
        let Some(endpoint) = self.otlp_endpoint.clone().or_else(named) else {
            return Ok(None);
        };
        anyhow::ensure!(
            endpoint.starts_with("http://") || endpoint.starts_with("https://"),
            "otlp-endpoint: '{endpoint}' does not start with http:// or https://"
        );
        let sampling_ratio = self.otlp_sampling_ratio.unwrap_or(0.01);
        anyhow::ensure!(
            (0.0..=1.0).contains(&sampling_ratio),
            "otlp-sampling-ratio: {sampling_ratio} is not from 0 to 1"
        );
        let headers = variable(&["OTEL_EXPORTER_OTLP_HEADERS"]).unwrap_or_default();
        let headers = headers.split(',').filter_map(|header| header.split_once('='));
        let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        Ok(Some(TelemetrySettings {
            endpoint,
            headers: headers.collect(),
            sampling_ratio,
            metrics_every: Duration::from_secs(self.otlp_metrics_seconds.unwrap_or(60).max(1)),
        }))
    }
}
