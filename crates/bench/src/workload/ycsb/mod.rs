//! YCSB (Cooper and others, "Benchmarking cloud serving systems with YCSB", 2010): records of ten
//! fields of 100 bytes, read, updated, inserted, scanned, and read to be changed, in the six mixes
//! of the core workloads.
//!
//! FaunaDB published A, B and C (2019): each operation one transaction on one record of 1 KB. As in
//! YCSB an update writes one field, a read takes all, and a record's key is a hash of its number,
//! so that keys are in no order of insertion.

mod choice;
mod inserted;

use std::sync::Arc;

use choice::Choice;
pub use choice::Distribution;
use inserted::Inserted;

use async_trait::async_trait;

use crate::byte_strings::ByteStrings;
use crate::measure::Worker;
use crate::random::Random;
use crate::records::ycsb::{FIELD_BYTES, FIELD_NAMES, Record, key_of};
use crate::targets::{Connection, OperationError};

/// Number of records per load request.
const LOADED_AT_ONCE: u64 = 25;
/// Upper bound on the records of a scan; the lower bound is one.
const SCAN_RECORDS_MAX: u64 = 100;

/// The core workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Half reads, half updates
    A,
    /// 95% reads, 5% updates
    B,
    /// Reads only
    C,
    /// 95% reads of the latest records, 5% inserts
    D,
    /// 95% scans, 5% inserts
    E,
    /// Half reads, half reads followed by an update of the same record
    F,
}

impl Workload {
    pub const ALL: [Workload; 6] = [
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::E,
        Workload::F,
    ];

    pub fn name(self) -> &'static str {
        ["A", "B", "C", "D", "E", "F"][self as usize]
    }

    fn distribution(self) -> Distribution {
        match self {
            Workload::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }

    /// The operation for a number below 100.
    fn operation(self, percentile: u64) -> Operation {
        match (self, percentile) {
            (Workload::A, 0..50) | (Workload::B, 0..5) => Operation::Update,
            (Workload::D | Workload::E, 0..5) => Operation::Insert,
            (Workload::E, _) => Operation::Scan,
            (Workload::F, 0..50) => Operation::ReadModifyWrite,
            _ => Operation::Read,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// Stores the records `0..records`.
pub async fn load(connection: &mut dyn Connection, seed: u64, records: u64) -> Result<(), OperationError> {
    let mut random = Random::new(seed, &[LOAD_STREAM]);
    let mut batch = vec![Record::default(); LOADED_AT_ONCE as usize];
    for start in (0..records).step_by(LOADED_AT_ONCE as usize) {
        let batch = &mut batch[..LOADED_AT_ONCE.min(records - start) as usize];
        for (number, record) in (start..).zip(batch.iter_mut()) {
            record.fill(number, &mut random);
        }
        connection.records().insert_all(batch).await?;
    }
    Ok(())
}

/// State that the workers of one cell share.
#[derive(Clone)]
pub struct Shared {
    workload: Workload,
    choice: Choice,
    inserted: Arc<Inserted>,
}

impl Shared {
    /// For workers over `records` loaded ones. Without a distribution the workload's own.
    pub fn new(workload: Workload, distribution: Option<Distribution>, records: u64) -> Shared {
        let distribution = distribution.unwrap_or(workload.distribution());
        Shared {
            workload,
            choice: Choice::new(distribution, records),
            inserted: Arc::new(Inserted::after(records)),
        }
    }
}

/// One closed loop of a workload.
pub struct YcsbWorker {
    connection: Box<dyn Connection>,
    shared: Shared,
    random: Random,
    operation: Operation,
    /// The record that is read, updated, or where a scan starts; of an insert its number.
    number: u64,
    record: Record,
    field: usize,
    value: ByteStrings,
    scanned: usize,
}

impl YcsbWorker {
    pub fn new(shared: &Shared, connection: Box<dyn Connection>, seed: u64, index: u64, workers: u64) -> YcsbWorker {
        YcsbWorker {
            connection,
            shared: shared.clone(),
            random: Random::new(seed, &[WORKER_STREAM, shared.workload as u64, workers, index]),
            operation: Operation::Read,
            number: 0,
            record: Record::default(),
            field: 0,
            value: ByteStrings::default(),
            scanned: 0,
        }
    }
}

#[async_trait(?Send)]
impl Worker for YcsbWorker {
    fn prepare(&mut self) {
        self.operation = self.shared.workload.operation(self.random.below(100));
        if self.operation == Operation::Insert {
            self.number = self.shared.inserted.begin();
            return self.record.fill(self.number, &mut self.random);
        }
        let present = self.shared.inserted.present();
        self.number = self.shared.choice.choose(&mut self.random, present);
        self.scanned = 1 + self.random.below(SCAN_RECORDS_MAX) as usize;
        self.field = self.random.below(FIELD_NAMES.len() as u64) as usize;
        if matches!(self.operation, Operation::Update | Operation::ReadModifyWrite) {
            self.value.clear();
            self.random.text(FIELD_BYTES, &mut self.value);
        }
    }

    async fn operate(&mut self) -> Result<(), OperationError> {
        let (key, records) = (key_of(self.number), self.connection.records());
        let value = self.value.iter().next().unwrap_or_default();
        match self.operation {
            Operation::Read => records.read(key).await,
            Operation::Update => records.update(key, self.field, value).await,
            Operation::Scan => records.scan(key, self.scanned).await,
            Operation::ReadModifyWrite => records.read_modify_write(key, self.field, value).await,
            Operation::Insert => {
                records.insert(&self.record).await?;
                self.shared.inserted.acknowledge(self.number);
                Ok(())
            }
        }
    }
}

const LOAD_STREAM: u64 = 1;
const WORKER_STREAM: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_are_those_of_the_core_workloads() {
        use Operation::*;
        let check = |workload: Workload, expected: &[(Operation, usize)]| {
            for (operation, percent) in expected {
                let count = (0..100)
                    .filter(|number| workload.operation(*number) == *operation)
                    .count();
                assert_eq!(count, *percent, "{workload:?} {operation:?}");
            }
        };
        check(Workload::A, &[(Read, 50), (Update, 50)]);
        check(Workload::B, &[(Read, 95), (Update, 5)]);
        check(Workload::C, &[(Read, 100)]);
        check(Workload::D, &[(Read, 95), (Insert, 5)]);
        check(Workload::E, &[(Scan, 95), (Insert, 5)]);
        check(Workload::F, &[(Read, 50), (ReadModifyWrite, 50)]);
    }
}
