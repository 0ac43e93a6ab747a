//! How the server does, in the shape that FoundationDB's tools read: what exists here is filled in,
//! and nothing is invented.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::KeyValue;

impl KeyValue {
    pub(crate) fn status(&self) -> String {
        let statistics = self.engine.statistics();
        let counter = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let now_micros = self.engine.now_micros();
        let sessions = self.sessions.load(Ordering::Relaxed);
        let stored_bytes = self.engine.stored_bytes(self.space.database);
        json!({
            "client": {
                "database_status": { "available": true, "healthy": true },
                "coordinators": { "quorum_reachable": true },
                "messages": [],
                "timestamp": now_micros / 1_000_000,
            },
            "cluster": {
                "database_available": true,
                "database_lock_state": { "locked": false },
                "configuration": {
                    "redundancy_mode": "single",
                    "storage_engine": "memory",
                    "usable_regions": 1,
                },
                "data": {
                    "state": { "healthy": true, "name": "healthy" },
                    "total_kv_size_bytes": stored_bytes,
                    "moving_data": { "in_flight_bytes": 0, "in_queue_bytes": 0 },
                },
                "workload": self.workload.described(now_micros),
                "fault_tolerance": {
                    "max_zone_failures_without_losing_availability": 0,
                    "max_zone_failures_without_losing_data": 0,
                },
                "full_replication": true,
                "recovery_state": { "name": "fully_recovered" },
                "qos": { "performance_limited_by": { "name": "workload" } },
                "latest_durable_version": self.engine.durable().0,
                "readable_versions": self.versions.count(),
                "clients": { "count": sessions },
                "latency_probe": self.latency_probe(),
                "processes": {
                    "1": {
                        "class_source": "command_line",
                        "class_type": "unset",
                        "fault_domain": "1",
                        "machine_id": "1",
                        "locality": { "machineid": "1", "processid": "1", "zoneid": "1" },
                        "network": { "current_connections": sessions },
                        "roles": [
                            { "role": "coordinator" },
                            { "role": "commit_proxy" },
                            { "role": "log", "queue_disk_used_bytes": counter(&statistics.log_bytes) },
                            { "role": "storage", "stored_bytes": stored_bytes, "data_version": now_micros },
                        ],
                        "version": env!("CARGO_PKG_VERSION"),
                        "excluded": false,
                        "degraded": false,
                        "messages": [],
                    },
                },
                "messages": [],
                "generation": 1,
                "cluster_controller_timestamp": now_micros / 1_000_000,
            },
        })
        .to_string()
    }

    /// Seconds that a read version and the read of a key take now, and that the last sync of the
    /// log took. A partition that is held for long answers no probe.
    fn latency_probe(&self) -> Value {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let sync_micros = self.engine.statistics().sync_micros.load(Ordering::Relaxed);
        let mut probe = json!({ "commit_seconds": seconds(sync_micros) });
        let begin_micros = self.engine.now_micros();
        let Ok(guard) = self.engine.read_in_time() else {
            return probe;
        };
        let reader = guard.read_version(self.space);
        drop(guard);
        let read_micros = self.engine.now_micros();
        let _ = reader.get_row(b"");
        let end_micros = self.engine.now_micros();
        let start = seconds(read_micros.saturating_sub(begin_micros));
        probe["transaction_start_seconds"] = start.into();
        probe["immediate_priority_transaction_start_seconds"] = start.into();
        probe["batch_priority_transaction_start_seconds"] = start.into();
        probe["read_seconds"] = seconds(end_micros.saturating_sub(read_micros)).into();
        probe
    }
}
