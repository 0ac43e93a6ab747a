//! The key-value benchmark: transactions of ten operations on keys of 16 bytes, as FoundationDB's
//! published figures were made.
//!
//! A request is a transaction. Its reads are sent together, as in the published load generators,
//! and its phases are timed separately: getting the read version, the reads, the commit.

mod in_process;

use std::cell::{OnceCell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use async_trait::async_trait;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use quartet_client::{Cluster, Database, ErrorCode, RangeOptions, Selector, Transaction};

use crate::arguments::{KeyValueArguments, KeyValueTest as Test};
use crate::cpu::difference;
use crate::measure::{Measured, Recall, Worker, closed_loop, event_loop, histogram, progress};
use crate::random::Random;
use crate::report_files::write_report;
use crate::results::{Cell, CpuUsed, Results, Settings, TargetSummary};
use crate::targets::OperationError;
use crate::{EmbeddedServer, OpenInProcess, Protocol, StartEmbedded, Wanted, circumstances, cpu, report};

const VALUE_BYTES_MIN: u64 = 8;
const VALUE_BYTES_MAX: u64 = 100;
/// Number of keys loaded by one transaction.
const LOADED_AT_ONCE: u64 = 1000;

/// Runs the benchmark, prints it and writes its report.
pub fn run(arguments: KeyValueArguments, start_embedded: StartEmbedded, open: OpenInProcess) -> anyhow::Result<()> {
    if arguments.in_process {
        return in_process::run(&arguments, open);
    }
    let embedded = match &arguments.run.target {
        Some(_) => None,
        None => {
            Some(start_embedded(Wanted::plain(Protocol::KeyValue)).context("cannot start a server for the benchmark")?)
        }
    };
    let url = embedded.as_ref().map(|server| server.url.as_str());
    let cluster = cluster(url.or(arguments.run.target.as_deref()).context("a target")?)?;
    let mut results = begin(&arguments, &cluster, embedded.as_ref());
    println!("{}", report::heading(&results));
    event_loop()?.block_on(load(&arguments, &cluster, embedded.is_some()))?;
    for test in arguments.tests.clone() {
        for parallelism in arguments.run.parallelism.clone() {
            let cells = run_cell(&arguments, &cluster, test, parallelism, results.target.server_pid)?;
            for cell in cells {
                println!("{}", report::cell(&cell));
                results.cells.push(cell);
            }
        }
    }
    event_loop()?.block_on(async { clear(&Database::open(cluster)).await })?;
    match &arguments.run.report {
        Some(directory) => write_report(&results, directory),
        None => Ok(()),
    }
}

/// The text of a cluster file, or the path of one.
fn cluster(target: &str) -> anyhow::Result<Cluster> {
    Cluster::parse(target)
        .or_else(|_| Cluster::read(Some(target.as_ref())))
        .map_err(|code| anyhow::anyhow!("{target} is no cluster file: {code}"))
}

fn begin(arguments: &KeyValueArguments, cluster: &Cluster, embedded: Option<&EmbeddedServer>) -> Results {
    let target = TargetSummary {
        address: cluster.addresses.join(","),
        version: "the key-value protocol".to_owned(),
        embedded: embedded.is_some(),
        server_pid: arguments.run.server_pid.or(embedded.and_then(|server| server.pid)),
    };
    results(arguments, target)
}

fn results(arguments: &KeyValueArguments, target: TargetSummary) -> Results {
    let run = &arguments.run;
    Results {
        benchmark: "keyvalue".to_owned(),
        quartet_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: circumstances::now(),
        machine: circumstances::machine(),
        target,
        settings: Settings {
            seed: run.seed,
            seconds: run.seconds as f64,
            parallelism: run.parallelism.clone(),
            tests: arguments.tests.iter().map(|test| test.name().to_owned()).collect(),
        },
        request: format!(
            "A request is a transaction of {} operations on {} keys of 16 bytes, with values of 8 to 100; CPU is per transaction.",
            arguments.operations, arguments.keys
        ),
        cells: Vec::new(),
    }
}

async fn load(arguments: &KeyValueArguments, cluster: &Cluster, is_own: bool) -> anyhow::Result<()> {
    let database = Database::open(cluster.clone());
    let is_empty = database
        .run(async |transaction| {
            let options = RangeOptions {
                rows_max: 1,
                ..RangeOptions::default()
            };
            let (begin, end) = whole();
            let range = transaction.get_range(&begin, &end, options, true).await?;
            Ok(range.rows.is_empty())
        })
        .await?;
    if !is_empty && !is_own && !arguments.run.flush {
        bail!("the database holds data, and the benchmark clears it: --flush allows that");
    }
    clear(&database).await?;
    let mut random = Random::new(arguments.run.seed, &[0]);
    let mut first = 0;
    while first < arguments.keys {
        let last = arguments.keys.min(first + LOADED_AT_ONCE);
        let rows: Vec<_> = (first..last).map(|number| (key(number), value(&mut random))).collect();
        database
            .run(async |transaction| {
                rows.iter().for_each(|(key, value)| transaction.set(key, value));
                Ok(())
            })
            .await?;
        first = last;
    }
    Ok(())
}

async fn clear(database: &Database) -> anyhow::Result<()> {
    let cleared = database.run(async |transaction| {
        transaction.clear_range(b"", b"\xff");
        Ok(())
    });
    Ok(cleared.await?)
}

fn whole() -> (Selector, Selector) {
    (
        Selector::first_greater_or_equal(b""),
        Selector::first_greater_or_equal(b"\xff"),
    )
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key_____________";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    let bytes = VALUE_BYTES_MIN + random.below(VALUE_BYTES_MAX - VALUE_BYTES_MIN + 1);
    std::iter::repeat_with(|| random.next() as u8)
        .take(bytes as usize)
        .collect()
}

/// The phases of the transactions of one cell, in microseconds.
struct Phases {
    read_version: Histogram<u64>,
    read: Histogram<u64>,
    commit: Histogram<u64>,
}

fn run_cell(
    arguments: &KeyValueArguments,
    cluster: &Cluster,
    test: Test,
    parallelism: u32,
    server_pid: Option<u32>,
) -> anyhow::Result<Vec<Cell>> {
    let phases = Arc::new(Mutex::new(Phases {
        read_version: histogram(),
        read: histogram(),
        commit: histogram(),
    }));
    let cpu_used = || CpuUsed {
        server: server_pid.and_then(cpu::process_cpu),
        client: cpu::process_cpu(std::process::id()),
    };
    let make = async |index| {
        let worker = TransactionWorker {
            database: database_of_thread(cluster),
            random: Random::new(arguments.run.seed, &[1, index]),
            writes: test.writes_of(arguments.operations),
            reads: arguments.operations - test.writes_of(arguments.operations),
            keys: arguments.keys,
            phases: phases.clone(),
        };
        // The connection is open before the clock starts.
        worker.database.begin().get_read_version().await?;
        let worker: Box<dyn Worker> = Box::new(worker);
        anyhow::Ok(worker)
    };
    let progress = progress(test.name(), parallelism);
    let mut before = CpuUsed::default();
    let duration = Duration::from_secs(arguments.run.seconds);
    let measured = closed_loop(parallelism.into(), &make, duration, &progress, || before = cpu_used());
    let after = cpu_used();
    progress.finish_and_clear();
    let used = CpuUsed {
        server: difference(before.server, after.server),
        client: difference(before.client, after.client),
    };
    let measured = measured?;
    let phases = Arc::into_inner(phases).context("the workers are gone")?.into_inner();
    let phase = |name: &str, latency: Histogram<u64>| {
        let measured = Measured {
            latency,
            elapsed: measured.elapsed,
            errors: 0,
            first_error: None,
            recall: Recall::default(),
        };
        let is_there = !measured.latency.is_empty();
        is_there.then(|| {
            Cell::new(
                &format!("{}: {name}", test.name()),
                parallelism,
                &measured,
                CpuUsed::default(),
            )
        })
    };
    let whole = Cell::new(test.name(), parallelism, &measured, used);
    let parts = [
        phase("read version", phases.read_version),
        phase("reads of a transaction", phases.read),
        phase("commit", phases.commit),
    ];
    Ok(std::iter::once(whole).chain(parts.into_iter().flatten()).collect())
}

/// The workers of a thread share one connection, as transactions of one program do.
fn database_of_thread(cluster: &Cluster) -> Database {
    thread_local! {
        static DATABASE: OnceCell<Database> = const { OnceCell::new() };
    }
    DATABASE.with(|database| database.get_or_init(|| Database::open(cluster.clone())).clone())
}

struct TransactionWorker {
    database: Database,
    random: Random,
    reads: u64,
    writes: u64,
    keys: u64,
    phases: Arc<Mutex<Phases>>,
}

impl TransactionWorker {
    fn key(&mut self) -> [u8; 16] {
        key(self.random.below(self.keys))
    }

    async fn read(&mut self, transaction: &Transaction) -> Result<(), ErrorCode> {
        let started = Instant::now();
        transaction.get_read_version().await?;
        let got_version = Instant::now();
        let reads = (0..self.reads).map(|_| transaction.get(&self.key(), false));
        all(reads.collect()).await?;
        let mut phases = self.phases.lock();
        phases.read_version.saturating_record(micros(started, got_version));
        phases.read.saturating_record(micros(got_version, Instant::now()));
        Ok(())
    }

    async fn write(&mut self, transaction: &Transaction) -> Result<(), ErrorCode> {
        for _ in 0..self.writes {
            let key = self.key();
            transaction.set(&key, &value(&mut self.random));
        }
        let started = Instant::now();
        transaction.commit().await?;
        let took = micros(started, Instant::now());
        self.phases.lock().commit.saturating_record(took);
        Ok(())
    }
}

fn micros(from: Instant, to: Instant) -> u64 {
    (to - from).as_micros().max(1) as u64
}

#[async_trait(?Send)]
impl Worker for TransactionWorker {
    async fn operate(&mut self) -> Result<(), OperationError> {
        let transaction = self.database.begin();
        let attempt = async {
            if self.reads > 0 {
                self.read(&transaction).await?;
            }
            if self.writes > 0 {
                self.write(&transaction).await?;
            }
            Ok(())
        };
        attempt
            .await
            .map_err(|code: ErrorCode| OperationError::Refused(code.to_string()))
    }
}

/// Waits for all futures, which run concurrently.
async fn all<T, E>(futures: Vec<impl Future<Output = Result<T, E>>>) -> Result<(), E> {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let failed = RefCell::new(None);
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(done) => {
                if let Err(error) = done {
                    failed.borrow_mut().get_or_insert(error);
                }
                false
            }
        });
        match futures.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    failed.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_sixteen_bytes_and_values_their_sizes() {
        assert_eq!(key(258), *b"key_____\0\0\0\0\0\0\x01\x02");
        let mut random = Random::new(1, &[]);
        for _ in 0..1000 {
            assert!((8..=100).contains(&value(&mut random).len()));
        }
    }

    #[test]
    fn a_tenth_of_a_mixed_transaction_writes() {
        assert_eq!(
            [Test::Reads, Test::Writes, Test::Mixed].map(|test| test.writes_of(10)),
            [0, 10, 1]
        );
    }
}
