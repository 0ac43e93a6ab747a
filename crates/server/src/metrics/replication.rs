//! A node of a cluster: its part in the log that the nodes share.

use quartet_engine::{Replication, Role};

use super::metric::{Metric, Read, Table, flag};
use crate::observability::exposition::Kind;

pub const TABLE: Table = Table {
    title: "Replication",
    shown: "On each node of a cluster, whether it is home or not.",
    is_shown: |sources| sources.redis.engine.role() != Role::Alone,
    is_by_service: false,
    metrics: &[
        Metric::replication_gauge("quartet_term", "The running term.", |log| log.term as f64),
        Metric::replication_gauge("quartet_home", "1 if this node is home.", |log| flag(log.is_home)),
        Metric::replication_gauge("quartet_log_applied", "The last record that is applied here.", |log| {
            log.applied as f64
        }),
        Metric::replication_gauge(
            "quartet_log_synced",
            "The last record that is on this node's disk.",
            |log| log.synced as f64,
        ),
        Metric::replication_gauge(
            "quartet_lag_records",
            "Records that are known and not applied here.",
            |log| log.lag_records as f64,
        ),
        Metric::replication_gauge(
            "quartet_lag_seconds",
            "Time since this node last had every record.",
            |log| log.lag_millis as f64 / 1e3,
        )
        .in_seconds(),
        Metric::replication_counter(
            "quartet_appends_total",
            "Records appended to the log by this node.",
            |log| log.appends as f64,
        ),
        Metric::replication_counter("quartet_append_bytes_total", "Bytes of these records.", |log| {
            log.append_bytes as f64
        })
        .in_bytes(),
        Metric::replication_gauge("quartet_append_seconds", "Duration of the last append.", |log| {
            log.append_micros as f64 / 1e6
        })
        .in_seconds(),
        Metric::replication_counter(
            "quartet_confirmations_total",
            "Reads of the term that showed this node to be home.",
            |log| log.confirmations as f64,
        ),
        Metric::replication_counter(
            "quartet_unknown_answers_total",
            "Requests to the sequencer without an answer.",
            |log| log.unknown_answers as f64,
        ),
        Metric::replication_counter("quartet_take_overs_total", "Terms started by this node.", |log| {
            log.take_overs as f64
        }),
        Metric::replication_counter(
            "quartet_replica_reads_total",
            "Reads that this node has answered while another was home.",
            |log| log.replica_reads as f64,
        ),
        Metric::replication_counter(
            "quartet_replica_read_ranges_total",
            "Reads of the log for them; those that wait together share one.",
            |log| log.replica_ranges as f64,
        ),
        Metric::replication_counter("quartet_depositions_total", "Terms that this node has lost.", |log| {
            log.depositions as f64
        }),
        Metric::replication_counter(
            "quartet_roll_backs_total",
            "Times that commits were rolled back after the loss of a term.",
            |log| log.roll_backs as f64,
        ),
        Metric::replication_gauge(
            "quartet_sequencer_answer_seconds",
            "Time that the sequencer usually takes to answer this node as home.",
            |log| log.answer_micros as f64 / 1e6,
        )
        .in_seconds(),
        Metric::replication_gauge(
            "quartet_sequencer_uncertain_after_seconds",
            "A home that has been without an answer for as long refuses writes; it follows the time above.",
            |log| log.uncertain_after_micros as f64 / 1e6,
        )
        .in_seconds(),
        Metric::replication_gauge(
            "quartet_home_is_suspended",
            "1 while this home refuses everything because the sequencer does not answer.",
            |log| f64::from(u8::from(log.is_suspended)),
        ),
        Metric::replication_gauge(
            "quartet_home_is_uncertain",
            "1 while this home refuses writes: the sequencer is late or has no room, or copies are missing.",
            |log| flag(log.is_uncertain),
        ),
        Metric::replication_gauge(
            "quartet_clock_ahead_seconds",
            "How far the clock of this machine is ahead of most nodes' clocks.",
            |log| log.clock_ahead_micros as f64 / 1e6,
        )
        .in_seconds(),
        Metric::replication_gauge(
            "quartet_clock_correction_seconds",
            "The part of it that is taken off the times that clients see.",
            |log| log.clock_correction_micros as f64 / 1e6,
        )
        .in_seconds(),
        Metric::replication_counter(
            "quartet_state_hashes_total",
            "State hashes compared with the home's.",
            |log| log.marks as f64,
        ),
        Metric::replication_counter(
            "quartet_state_hash_mismatches_total",
            "State hashes that differed.",
            |log| log.hash_mismatches as f64,
        ),
        Metric::replication_gauge(
            "quartet_state_hash_seconds",
            "Time that the last state hash took, beside other work.",
            |log| log.hash_micros as f64 / 1e6,
        )
        .in_seconds(),
        Metric::replication_gauge(
            "quartet_log_window_bytes",
            "Bytes of records that the sequencer holds.",
            |log| log.window_bytes as f64,
        )
        .in_bytes(),
        Metric::replication_gauge(
            "quartet_log_budget_bytes",
            "Bytes of records that the sequencer may hold before the home refuses writes.",
            |log| log.budget_bytes as f64,
        )
        .in_bytes(),
        Metric::replication_gauge(
            "quartet_log_trimmed_below",
            "Records below this are dropped at the sequencer, as far as this home has done it.",
            |log| log.trimmed_below as f64,
        ),
        Metric::replication_gauge(
            "quartet_object_store_answers",
            "1 while this node is home and its object store answers: large transactions are taken.",
            |log| flag(log.object_store_answers),
        ),
        Metric::replication_counter(
            "quartet_object_pieces_total",
            "Pieces of large transactions that this node has given to the object store.",
            |log| log.object_pieces as f64,
        ),
        Metric::replication_counter(
            "quartet_object_pieces_removed_total",
            "Pieces that this node has removed from there.",
            |log| log.objects_removed as f64,
        ),
        Metric::replication_counter(
            "quartet_object_store_given_up_total",
            "Terms that this node has ended because the object store was silent.",
            |log| log.given_up as f64,
        ),
    ],
};

impl Metric {
    const fn replication_gauge(name: &'static str, help: &'static str, read: fn(&Replication) -> f64) -> Metric {
        Metric::new(name, Kind::Gauge, help, Read::Replication(read))
    }

    const fn replication_counter(name: &'static str, help: &'static str, read: fn(&Replication) -> f64) -> Metric {
        Metric::new(name, Kind::Counter, help, Read::Replication(read))
    }
}
