//! The usage that a node counts while another is home: it is sent to the home, which adds it to the
//! databases' accounts.
//!
//! A report is repeated until the home has it, under one number, which a home adds once. Counts of
//! the last second are lost with the node, as a server's own are; a report may count twice if the
//! home changed before its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_log_replicated::PartitionId;
use quartet_model::DatabaseId;
use tokio::io::AsyncReadExt;

use super::{LOOK_EVERY, NOT_HOME, Shared};
use crate::cluster::link;
use crate::cluster::protocol::NodeRequest;
use crate::cluster::replica_reads::Used;
use crate::connections::stream::Stream;

/// Interval of reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Time limit of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a report: more than all databases take.
pub(super) const REPORT_BYTES_MAX: u64 = 32 << 20;

/// The last report of each process, as a home has added them.
pub(super) type Reported = BTreeMap<u64, u64>;

/// The report under way.
#[derive(Default)]
struct Report {
    number: u64,
    bytes: Option<Vec<u8>>,
}

impl Shared {
    /// Reports what this node counts until it ends.
    pub(super) fn keep_accounts(&self) {
        let (mut report, mut last) = (Report::default(), Instant::now());
        while !self.is_over() {
            std::thread::sleep(LOOK_EVERY);
            if last.elapsed() >= REPORT_EVERY {
                self.report(&mut report);
                last = Instant::now();
            }
        }
        self.report(&mut report);
    }

    fn report(&self, report: &mut Report) {
        if report.bytes.is_none() {
            let used = self.home.reads.get().map(|reads| reads.take_used());
            let Some(used) = used.filter(|used| !used.is_empty()) else {
                return;
            };
            report.number += 1;
            report.bytes = Some(serde_json::to_vec(&used).expect("counters are JSON"));
        }
        let bytes = report.bytes.as_deref().unwrap_or_default();
        match self.give_report(report.number, bytes) {
            Ok(()) => report.bytes = None,
            Err(error) => tracing::debug!(%error, "usage is reported again"),
        }
    }

    fn give_report(&self, number: u64, bytes: &[u8]) -> Result<(), String> {
        if self.way(PartitionId(0)).is_some() {
            return self.take_report(self.process, number, bytes);
        }
        let home = self.home.members.other_home(PartitionId(0)).ok_or(NOT_HOME)?;
        let count = NodeRequest::Count {
            process: self.process,
            number,
            bytes: bytes.len() as u64,
        };
        self.ask(&home, &count, bytes, ANSWER_TIMEOUT)
            .map_err(|error| error.to_string())
    }

    /// Adds a report to the accounts.
    fn take_report(&self, process: u64, number: u64, bytes: &[u8]) -> Result<(), String> {
        let used: Used = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let way = self.way(PartitionId(0)).ok_or(NOT_HOME)?;
        let mut reported = self.reported.lock();
        let last = reported.entry(process).or_default();
        if number <= *last {
            return Ok(());
        }
        *last = number;
        let now_micros = self.foundation.engine.now_micros();
        for (id, counted) in &used {
            // One that was deleted has no account.
            if let Some(database) = way.tenants.catalogue.numbered(DatabaseId(*id)) {
                database.meter.add_counted(counted, now_micros);
            }
        }
        Ok(())
    }

    pub(super) async fn hear_report(
        self: Arc<Shared>,
        process: u64,
        number: u64,
        bytes: u64,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        link::accept(stream.as_mut()).await?;
        let mut report = Vec::new();
        stream.as_mut().take(bytes).read_to_end(&mut report).await?;
        if report.len() as u64 != bytes {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let took = self.take_report(process, number, &report);
        link::say(stream.as_mut(), took).await
    }
}
