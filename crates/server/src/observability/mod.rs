//! Metrics, durations, the log of slow requests, and telemetry.

pub(crate) mod durations;
pub(crate) mod exposition;
pub(crate) mod slow_requests;
pub(crate) mod telemetry;
