//! Noting what took long: LATENCY.

use std::sync::atomic::Ordering;

use crate::layer::Redis;

impl Redis {
    /// Notes what has taken so long until now, if that is longer than `latency-monitor-threshold`.
    pub fn note_latency(&self, event: &'static str, now_micros: u64, micros: u64) {
        let threshold_ms = self.config.latency_monitor_threshold.load(Ordering::Relaxed);
        if threshold_ms > 0 && micros / 1000 >= threshold_ms as u64 {
            self.observation
                .latency
                .lock()
                .add(event, now_micros / 1_000_000, micros / 1000);
        }
    }
}
