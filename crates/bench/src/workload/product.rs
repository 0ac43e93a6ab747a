//! The product benchmark (2020): records of twelve fields, read, inserted, overwritten and updated
//! by key.
//!
//! Which fields "update" changes was never published; `update_time`, `count` and `price` are taken.

use async_trait::async_trait;

use crate::measure::Worker;
use crate::random::Random;
use crate::records::product::Product;
use crate::targets::{Connection, OperationError};

/// Records loaded before read, overwrite and update; their pids are `0..PRELOADED`.
pub const PRELOADED: u64 = 1_000;

/// The four tests, in the published order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Test {
    /// All fields of a random one of 1,000 records.
    Read,
    /// Records not seen before, into a database that starts empty.
    Insert,
    /// All fields of a random one of 1,000 records replaced.
    Overwrite,
    /// Three fields of a random one of 1,000 records replaced.
    Update,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Read, Test::Insert, Test::Overwrite, Test::Update];

    pub fn name(self) -> &'static str {
        match self {
            Test::Read => "read",
            Test::Insert => "insert",
            Test::Overwrite => "overwrite",
            Test::Update => "update",
        }
    }

    /// Returns whether the 1,000 records are loaded before it starts.
    pub fn is_preloaded(self) -> bool {
        self != Test::Insert
    }
}

/// The records that read, overwrite and update start from.
pub async fn load(connection: &mut dyn Connection, seed: u64) -> Result<(), OperationError> {
    let mut random = Random::new(seed, &[LOAD_STREAM]);
    let mut product = Product::default();
    for pid in 0..PRELOADED {
        product.fill(pid, &mut random);
        connection.insert(&product).await?;
    }
    Ok(())
}

/// One closed loop of a test. Worker `index` of `count` inserts the pids that are `index` modulo
/// `count`.
pub struct ProductWorker {
    test: Test,
    connection: Box<dyn Connection>,
    random: Random,
    product: Product,
    next_insert_pid: u64,
    workers: u64,
}

impl ProductWorker {
    pub fn new(test: Test, connection: Box<dyn Connection>, seed: u64, index: u64, workers: u64) -> ProductWorker {
        let random = Random::new(seed, &[WORKER_STREAM, test as u64, workers, index]);
        ProductWorker {
            test,
            connection,
            random,
            product: Product::default(),
            next_insert_pid: index,
            workers,
        }
    }
}

#[async_trait(?Send)]
impl Worker for ProductWorker {
    fn prepare(&mut self) {
        let pid = match self.test {
            Test::Insert => self.next_insert_pid,
            Test::Read | Test::Overwrite | Test::Update => self.random.below(PRELOADED),
        };
        match self.test {
            Test::Read => self.product.start(pid),
            Test::Insert | Test::Overwrite => self.product.fill(pid, &mut self.random),
            Test::Update => self.product.fill_update(pid, &mut self.random),
        }
        self.next_insert_pid += self.workers;
    }

    async fn operate(&mut self) -> Result<(), OperationError> {
        match self.test {
            Test::Read => self.connection.read(self.product.pid()).await,
            Test::Insert => self.connection.insert(&self.product).await,
            Test::Overwrite => self.connection.overwrite(&self.product).await,
            Test::Update => self.connection.update(&self.product).await,
        }
    }
}

const LOAD_STREAM: u64 = 1;
const WORKER_STREAM: u64 = 2;
