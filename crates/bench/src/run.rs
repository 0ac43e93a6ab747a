//! Runs a benchmark from arguments to report.
//!
//! Each cell (a test at a parallelism) starts from a cleared database and fresh connections; only
//! searches, which change nothing, run one after the other over data that is loaded once. A given
//! target is cleared only if it was empty at the start or `--flush` allows it, and is left empty.
//! CPU time is read when all workers are ready and again when the last has finished, so loading is
//! not included.

use crate::arguments::{
    Connections, NewsArguments, ProductArguments, RunArguments, SearchArguments, VectorsArguments, YcsbArguments,
};
use crate::cpu::difference;
use crate::measure::{Worker, closed_loop, event_loop, progress};
use crate::records::search::Cloud;
use crate::report_files::write_report;
use crate::results::{Cell, CpuUsed, Results, Settings, TargetSummary};
use crate::targets::{Connection, Target, Trust};
use crate::workload::calvin::CalvinWorker;
use crate::workload::news::{self, NewsWorker};
use crate::workload::product::{self, ProductWorker};
use crate::workload::search::{self, Corpus, SearchWorker};
use crate::workload::vectors::{self, Queries, VectorsWorker};
use crate::workload::ycsb::{self, YcsbWorker};
use crate::{EmbeddedServer, Protocol, StartEmbedded, Wanted, circumstances, cpu, report};
use anyhow::{Context, bail};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs the product benchmark, prints it and writes its report.
pub fn product(arguments: ProductArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let tests = arguments.tests.iter().map(|test| test.name().to_owned()).collect();
    let start = || start_embedded(Wanted::plain(Protocol::Redis));
    let mut bench = Bench::open("product", PRODUCT_REQUEST, tests, arguments.run, start)?;
    for test in arguments.tests {
        bench.run_test(
            test.name(),
            async |connection, seed| match test.is_preloaded() {
                true => Ok(product::load(connection, seed).await?),
                false => Ok(()),
            },
            || |connection, seed, index, workers| Box::new(ProductWorker::new(test, connection, seed, index, workers)),
        )?;
    }
    bench.close()
}

/// Runs the news benchmark, prints it and writes its report.
pub fn news(arguments: NewsArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let requirements = Wanted {
        protocol: arguments.protocol.into(),
        is_tls: arguments.tls,
        is_guarded: true,
    };
    let (start, changes_scores) = (|| start_embedded(requirements), !arguments.keep_scores);
    let is_cold = arguments.connections == Connections::PerRequest;
    let mut request = String::from(if changes_scores {
        NEWS_REQUEST
    } else {
        NEWS_PAGE_REQUEST
    });
    let test = if is_cold { "top ten, cold" } else { "top ten" };
    if is_cold {
        request.push_str(NEWS_COLD_REQUEST);
    }
    let mut bench = Bench::open("news", &request, vec![test.to_owned()], arguments.run, start)?;
    let target = is_cold.then(|| bench.target.clone());
    bench.run_test(test, news::load, || {
        let target = target.clone();
        move |connection, seed, index, workers| {
            let worker = NewsWorker::new(connection, changes_scores, seed, index, workers);
            Box::new(match &target {
                Some(target) => worker.reconnecting(target.clone()),
                None => worker,
            })
        }
    })?;
    bench.close()
}

/// Runs workloads of YCSB, prints them and writes their report.
pub fn ycsb(arguments: YcsbArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let names = arguments.workloads.iter().map(|workload| workload.name().to_owned());
    let start = || start_embedded(Wanted::plain(Protocol::Fauna));
    let mut bench = Bench::open("ycsb", YCSB_REQUEST, names.collect(), arguments.run, start)?;
    for workload in arguments.workloads {
        bench.run_test(
            workload.name(),
            async |connection, seed| Ok(ycsb::load(connection, seed, arguments.records).await?),
            || {
                let shared = ycsb::Shared::new(workload, arguments.distribution, arguments.records);
                move |connection, seed, index, workers| {
                    Box::new(YcsbWorker::new(&shared, connection, seed, index, workers))
                }
            },
        )?;
    }
    bench.close()
}

/// Runs the calvin benchmark, prints it and writes its report.
pub fn calvin(arguments: RunArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let start = || start_embedded(Wanted::plain(Protocol::Fauna));
    let mut bench = Bench::open("calvin", CALVIN_REQUEST, vec!["insert".to_owned()], arguments, start)?;
    let nothing = async |_: &mut dyn Connection, _| Ok(());
    bench.run_test("insert", nothing, || {
        |connection, seed, index, workers| Box::new(CalvinWorker::new(connection, seed, index, workers))
    })?;
    bench.close()
}

/// Runs the search benchmark, prints it and writes its report.
pub fn search(arguments: SearchArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let tests = arguments.tests.iter().map(|test| test.name().to_owned()).collect();
    let start = || start_embedded(Wanted::plain(Protocol::Redis));
    let request = format!("{SEARCH_REQUEST} {} documents.", arguments.documents);
    let mut bench = Bench::open("search", &request, tests, arguments.run, start)?;
    let [nothing, corpus] = [0, arguments.documents].map(|count| Arc::new(Corpus::new(bench.seed(), count)));
    let mut is_loaded = false;
    for test in arguments.tests {
        let makes = test == search::Test::Ingest;
        let test_corpus = if makes { &nothing } else { &corpus };
        let cell = || {
            let corpus = test_corpus.clone();
            move |connection, seed, index, workers| {
                Box::new(SearchWorker::new(
                    test,
                    corpus.clone(),
                    connection,
                    seed,
                    index,
                    workers,
                ))
            }
        };
        let load = async |connection: &mut dyn Connection, _: u64| anyhow::Ok(test_corpus.load(connection).await?);
        if makes {
            bench.run_test(test.name(), load, cell)?;
        } else {
            if !is_loaded {
                bench.load(load)?;
                bench.wait_for_rest();
            }
            bench.run_loaded(test.name(), cell)?;
        }
        is_loaded = !makes;
    }
    bench.close()
}

/// Runs the vectors benchmark, prints it and writes its report.
pub fn vectors(arguments: VectorsArguments, start_embedded: StartEmbedded) -> anyhow::Result<()> {
    let tests = arguments.tests.iter().map(|test| test.name().to_owned()).collect();
    let start = || start_embedded(Wanted::plain(Protocol::Redis));
    let (count, dimensions) = (arguments.vectors, arguments.dimensions as usize);
    let request = format!("{VECTORS_REQUEST} {count} vectors of {dimensions} components.");
    let mut bench = Bench::open("vectors", &request, tests, arguments.run, start)?;
    let cloud = Cloud::new(bench.seed(), dimensions);
    let queries = Arc::new(Queries::new(cloud, count, arguments.candidates));
    for test in arguments.tests {
        let kind = test.vectors();
        let cell = || {
            let queries = queries.clone();
            move |connection, seed, index, workers| {
                Box::new(VectorsWorker::new(
                    test,
                    queries.clone(),
                    connection,
                    seed,
                    index,
                    workers,
                ))
            }
        };
        if test.adds() {
            let load = async |connection: &mut dyn Connection, _: u64| {
                anyhow::Ok(vectors::prepare(connection, kind, dimensions).await?)
            };
            bench.run_test(test.name(), load, cell)?;
        } else {
            let load = async |connection: &mut dyn Connection, _: u64| {
                anyhow::Ok(vectors::load(connection, kind, &queries.cloud, count).await?)
            };
            bench.load(load)?;
            bench.wait_for_rest();
            bench.run_loaded(test.name(), cell)?;
        }
    }
    bench.close()
}

const PRODUCT_REQUEST: &str = "A request is one command on one product, timed from send to reply.";
const NEWS_REQUEST: &str = "A request reads and parses the ten best articles of World (timed), then gives each a new \
     score (not timed). CPU and requests per second include the ten writes.";
const NEWS_PAGE_REQUEST: &str = "A request reads and parses the ten best articles of World. Scores stay as they are.";
const NEWS_COLD_REQUEST: &str = " Each request opens a connection of its own, with TLS where the target has it, and authenticates; all of \
     that is timed with it.";
const YCSB_REQUEST: &str = "A request is one operation on one record of ten fields of 100 bytes (a scan: on up to 100), as one \
     transaction where the protocol has them. An update writes one field.";
const CALVIN_REQUEST: &str = "A request is one authenticated query, one transaction, that inserts four instances of four small \
     random strings into a collection with four indexes: 36 writes.";

const SEARCH_REQUEST: &str = "A request adds one document of 60 words, a tag and a number to an index, or reads the first ten of \
     those that match a tag, a range of numbers or a word, and compares the total with that of the documents themselves. \
     Searches are over";
const VECTORS_REQUEST: &str = "A request adds one vector, below an index with a graph (HSET) or to a set (VADD), or reads the ten \
     nearest, of the index (FT.SEARCH) or the set (VSIM). The recall is the part of the ten that comparing with all vectors \
     gives. Searches are over";

/// A server rests that takes less of a processor than this.
const REST_SHARE: f64 = 0.05;
const REST_LOOK: Duration = Duration::from_millis(500);
const REST_WAIT_MAX: Duration = Duration::from_secs(600);

struct Bench {
    arguments: RunArguments,
    target: Arc<dyn Target>,
    /// For requests between the tests, with its event loop.
    control: Box<dyn Connection>,
    runtime: tokio::runtime::Runtime,
    results: Results,
    /// Held until the end of the benchmark.
    embedded: Option<EmbeddedServer>,
}

impl Bench {
    fn open(
        benchmark: &str,
        request: &str,
        tests: Vec<String>,
        arguments: RunArguments,
        start_embedded: impl FnOnce() -> anyhow::Result<EmbeddedServer>,
    ) -> anyhow::Result<Bench> {
        let embedded = match &arguments.target {
            Some(_) => None,
            None => Some(start_embedded().context("cannot start a server for the benchmark")?),
        };
        let url = embedded
            .as_ref()
            .map(|server| server.url.as_str())
            .or(arguments.target.as_deref());
        let given_roots = arguments.tls_roots.as_deref();
        let roots = embedded
            .as_ref()
            .map_or(given_roots, |server| server.tls_roots.as_deref());
        let target: Arc<dyn Target> = crate::targets::of_url(url.context("a target")?, &Trust::new(roots)?)?.into();
        let runtime = event_loop()?;
        let mut control = runtime.block_on(target.connect())?;
        if embedded.is_none() && !arguments.flush && !runtime.block_on(control.is_empty())? {
            bail!(
                "{} holds data, and the benchmark clears its database: --flush allows that",
                target.address()
            );
        }
        let described = runtime.block_on(control.describe())?;
        let found_pid = described
            .pid
            .filter(|&pid| target.is_loopback() && cpu::is_server(pid, described.executable.as_deref()));
        let embedded_pid = embedded.as_ref().and_then(|server| server.pid);
        let results = Results {
            benchmark: benchmark.to_owned(),
            quartet_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: circumstances::now(),
            machine: circumstances::machine(),
            target: TargetSummary {
                address: target.address(),
                version: described.version,
                embedded: embedded.is_some(),
                server_pid: arguments.server_pid.or(embedded_pid).or(found_pid),
            },
            settings: Settings {
                seed: arguments.seed,
                seconds: arguments.seconds as f64,
                parallelism: arguments.parallelism.clone(),
                tests,
            },
            request: request.to_owned(),
            cells: Vec::new(),
        };
        println!("{}", report::heading(&results));
        Ok(Bench {
            arguments,
            target,
            control,
            runtime,
            results,
            embedded,
        })
    }

    /// Runs one test at every parallelism. `cell` gives what makes the workers of one cell.
    fn run_test<W: Worker + 'static, M: Fn(Box<dyn Connection>, u64, u64, u64) -> Box<W> + Sync>(
        &mut self,
        test: &str,
        load: impl AsyncFn(&mut dyn Connection, u64) -> anyhow::Result<()>,
        cell: impl Fn() -> M,
    ) -> anyhow::Result<()> {
        for parallelism in self.arguments.parallelism.clone() {
            self.load(&load)?;
            self.run_at(test, parallelism, cell())?;
        }
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.arguments.seed
    }

    /// Clears the database and stores the data.
    fn load(&mut self, load: impl AsyncFn(&mut dyn Connection, u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let seed = self.arguments.seed;
        let prepared = async {
            let control = &mut *self.control;
            control.clear().await.context("cannot clear the database")?;
            load(control, seed).await.context("cannot load the data")
        };
        self.runtime.block_on(prepared)
    }

    /// Runs one test at every parallelism over the data as it is.
    fn run_loaded<W: Worker + 'static, M: Fn(Box<dyn Connection>, u64, u64, u64) -> Box<W> + Sync>(
        &mut self,
        test: &str,
        cell: impl Fn() -> M,
    ) -> anyhow::Result<()> {
        for parallelism in self.arguments.parallelism.clone() {
            self.run_at(test, parallelism, cell())?;
        }
        Ok(())
    }

    fn run_at<W: Worker + 'static>(
        &mut self,
        test: &str,
        parallelism: u32,
        worker: impl Fn(Box<dyn Connection>, u64, u64, u64) -> Box<W> + Sync,
    ) -> anyhow::Result<()> {
        let (seed, target) = (self.arguments.seed, &*self.target);
        let make = async |index| {
            let worker: Box<dyn Worker> = worker(target.connect().await?, seed, index, parallelism.into());
            anyhow::Ok(worker)
        };
        let cell = self.run_cell(test, parallelism, &make);
        let cell = cell.with_context(|| format!("in {test}"))?;
        println!("{}", report::cell(&cell));
        self.results.cells.push(cell);
        Ok(())
    }

    /// Waits until a server with a visible process has completed its background work, such as
    /// building a graph.
    fn wait_for_rest(&self) {
        let started = Instant::now();
        let used = || self.results.target.server_pid.and_then(cpu::process_cpu);
        while started.elapsed() < REST_WAIT_MAX {
            let before = used();
            std::thread::sleep(REST_LOOK);
            let Some(busy) = difference(before, used()) else {
                return;
            };
            if busy.as_secs_f64() < REST_SHARE * REST_LOOK.as_secs_f64() {
                return;
            }
        }
    }

    fn run_cell(
        &self,
        test: &str,
        parallelism: u32,
        make: &(impl AsyncFn(u64) -> anyhow::Result<Box<dyn Worker>> + Sync),
    ) -> anyhow::Result<Cell> {
        let progress = progress(test, parallelism);
        let duration = Duration::from_secs(self.arguments.seconds);
        let mut before = CpuUsed::default();
        let at_start = || before = self.cpu_used();
        let measured = closed_loop(parallelism.into(), make, duration, &progress, at_start);
        let after = self.cpu_used();
        progress.finish_and_clear();
        let used = CpuUsed {
            server: difference(before.server, after.server),
            client: difference(before.client, after.client),
        };
        Ok(Cell::new(test, parallelism, &measured?, used))
    }

    fn cpu_used(&self) -> CpuUsed {
        CpuUsed {
            server: self.results.target.server_pid.and_then(cpu::process_cpu),
            client: cpu::process_cpu(std::process::id()),
        }
    }

    fn close(mut self) -> anyhow::Result<()> {
        let cleared = self.runtime.block_on(self.control.clear());
        cleared.context("cannot clear the database after the benchmark")?;
        if let Some(directory) = &self.arguments.report {
            write_report(&self.results, directory)?;
        }
        drop(self.embedded);
        Ok(())
    }
}
