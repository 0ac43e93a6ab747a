//! The benchmarks against a real redis-server on a free loopback port. Skipped, saying so, where
//! none is installed.

use quartet_bench::{
    BenchArguments, BenchCommand, Connections, EmbeddedServer, NewsArguments, NewsProtocol, ProductArguments,
    ProductTest, Results, RunArguments, SearchArguments, SearchTest, YcsbArguments, YcsbWorkload,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Redis is not in this process.
fn no_engine() -> anyhow::Result<Box<dyn quartet_bench::InProcess>> {
    anyhow::bail!("not for this test")
}

#[test]
fn product_runs_every_test_at_every_parallelism() {
    let report = TempDir::new().unwrap();
    let command = BenchCommand::Product(ProductArguments {
        run: arguments(&report),
        tests: ProductTest::ALL.to_vec(),
    });
    if !run_embedded(command) {
        return;
    }
    let results = read_results(report.path(), "product");
    let cells: Vec<(&str, u32)> = results
        .cells
        .iter()
        .map(|cell| (cell.test.as_str(), cell.parallelism))
        .collect();
    let expected = ["read", "insert", "overwrite", "update"].map(|test| [(test, 1), (test, 4)]);
    assert_eq!(cells, expected.concat());
    check_cells(&results);
    check_page(report.path(), &results);
}

#[test]
fn news_runs_at_every_parallelism() {
    check_news(Connections::Kept, "top ten");
}

#[test]
fn news_runs_with_a_connection_for_each_request() {
    check_news(Connections::PerRequest, "top ten, cold");
}

fn check_news(connections: Connections, test: &str) {
    let report = TempDir::new().unwrap();
    if !run_embedded(BenchCommand::News(NewsArguments {
        run: arguments(&report),
        keep_scores: false,
        connections,
        protocol: NewsProtocol::Redis,
        tls: false,
    })) {
        return;
    }
    let results = read_results(report.path(), "news");
    let cells: Vec<(&str, u32)> = results
        .cells
        .iter()
        .map(|cell| (cell.test.as_str(), cell.parallelism))
        .collect();
    assert_eq!(cells, [(test, 1), (test, 4)]);
    check_cells(&results);
    check_page(report.path(), &results);
}

#[test]
fn ycsb_runs_every_workload() {
    let report = TempDir::new().unwrap();
    let command = BenchCommand::Ycsb(YcsbArguments {
        run: RunArguments {
            parallelism: vec![4],
            ..arguments(&report)
        },
        workloads: YcsbWorkload::ALL.to_vec(),
        records: 130,
        distribution: None,
    });
    if !run_embedded(command) {
        return;
    }
    let results = read_results(report.path(), "ycsb");
    let cells: Vec<&str> = results.cells.iter().map(|cell| cell.test.as_str()).collect();
    assert_eq!(cells, ["A", "B", "C", "D", "E", "F"]);
    check_cells(&results);
    check_page(report.path(), &results);
}

#[test]
fn a_server_without_search_refuses_it() {
    let Some(server) = Redis::start() else { return };
    let report = TempDir::new().unwrap();
    let command = BenchCommand::Search(SearchArguments {
        run: RunArguments {
            target: Some(server.url()),
            ..arguments(&report)
        },
        tests: SearchTest::ALL.to_vec(),
        documents: 10,
    });
    let ended = quartet_bench::run(BenchArguments { command }, &|_| panic!("a target is given"), &no_engine);
    let error = format!("{:#}", ended.unwrap_err());
    assert!(
        error.contains("cannot load the data") && error.contains("FT.CREATE"),
        "{error}"
    );
}

#[test]
fn a_given_target_that_holds_data_is_cleared_only_on_demand() {
    let Some(server) = Redis::start() else { return };
    let report = TempDir::new().unwrap();
    let run = |flush| {
        let run = RunArguments {
            target: Some(server.url()),
            parallelism: vec![1],
            flush,
            ..arguments(&report)
        };
        let tests = vec![ProductTest::Read];
        let command = BenchCommand::Product(ProductArguments { run, tests });
        quartet_bench::run(BenchArguments { command }, &|_| panic!("a target is given"), &no_engine)
    };
    assert_eq!(server.ask("SET precious 1"), "+OK\r\n");
    assert!(run(false).unwrap_err().to_string().contains("--flush"));
    assert_eq!(server.ask("DBSIZE"), ":1\r\n");
    run(true).unwrap();
    assert_eq!(server.ask("DBSIZE"), ":0\r\n");
    run(false).unwrap();
    let results = read_results(report.path(), "product");
    assert_eq!(
        results.target.server_pid,
        Some(server.child.id()),
        "found through INFO, the target being loopback"
    );
    assert!(!results.target.embedded);
}

fn arguments(report: &TempDir) -> RunArguments {
    RunArguments {
        target: None,
        tls_roots: None,
        parallelism: vec![1, 4],
        seconds: 1,
        report: Some(report.path().to_owned()),
        seed: 7,
        server_pid: None,
        flush: false,
    }
}

/// Runs `command` with a redis-server instead of the embedded one. Returns false if there is none
/// to run.
fn run_embedded(command: BenchCommand) -> bool {
    let Some(server) = Redis::start() else { return false };
    let server = std::cell::Cell::new(Some(server));
    let start = |_| {
        let server = server.take().expect("one server a run");
        Ok(EmbeddedServer::new(server.url(), Some(server.child.id()), server))
    };
    quartet_bench::run(BenchArguments { command }, &start, &no_engine).unwrap();
    true
}

fn read_results(directory: &Path, benchmark: &str) -> Results {
    let text = std::fs::read_to_string(directory.join(format!("{benchmark}.json"))).unwrap();
    let results: Results = serde_json::from_str(&text).unwrap();
    assert_eq!((results.benchmark.as_str(), results.settings.seed), (benchmark, 7));
    assert!(
        results.target.version.starts_with("Redis "),
        "{}",
        results.target.version
    );
    results
}

fn check_cells(results: &Results) {
    for cell in &results.cells {
        assert!(cell.requests > 0 && cell.requests_per_second > 0.0 && cell.elapsed_seconds >= 1.0);
        assert_eq!((cell.errors, &cell.first_error), (0, &None));
        // It is counted in ticks; a short cell next to busy threads may have none.
        assert!(cell.server_cpu_us_per_request.is_some_and(|us| us >= 0.0));
        let latency = &cell.latency_us;
        assert_eq!(latency.percentiles.len(), 7);
        for points in [&latency.percentiles, &latency.curve] {
            assert!(points.is_sorted_by(|a, b| a.latency_us <= b.latency_us && a.count <= b.count));
            assert!(
                points
                    .last()
                    .is_some_and(|last| last.percentile == 1.0 && last.count == cell.requests)
            );
        }
        assert_eq!(
            latency.buckets.iter().map(|bucket| bucket.count).sum::<u64>(),
            cell.requests
        );
    }
}

fn check_page(directory: &Path, results: &Results) {
    let html = std::fs::read_to_string(directory.join(format!("{}.html", results.benchmark))).unwrap();
    assert_eq!(html.matches("<svg").count(), 2 * results.cells.len());
    assert!(html.contains(&results.target.version) && html.contains("published, with their hardware"));
    assert!(!html.contains("NaN"));
}

/// A redis-server of its own, without persistence, stopped when dropped.
struct Redis {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl Redis {
    /// `None` if redis-server is not installed.
    fn start() -> Option<Redis> {
        loop {
            let server = Redis::spawn(free_port())?;
            if server.answers() {
                return Some(server);
            }
        }
    }

    fn spawn(port: u16) -> Option<Redis> {
        let directory = TempDir::new().unwrap();
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string());
        command
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Redis {
                child,
                port,
                _directory: directory,
            }),
            Err(error) => {
                eprintln!("SKIPPED: redis-server cannot be started: {error}");
                None
            }
        }
    }

    /// Waits until it answers. Returns false if it ended, because another process has taken its
    /// port.
    fn answers(&self) -> bool {
        let start = Instant::now();
        while self.try_ask("PING").is_none_or(|reply| !reply.starts_with("+PONG")) {
            if !Path::new(&format!("/proc/{}/exe", self.child.id())).exists() {
                return false;
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "redis-server does not listen"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends one inline command with a short reply.
    fn ask(&self, command: &str) -> String {
        self.try_ask(command).unwrap()
    }

    fn try_ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut reply = [0; 64];
        let length = stream.read(&mut reply).ok()?;
        Some(String::from_utf8_lossy(&reply[..length]).into_owned())
    }
}

/// Below the ports that the system gives to clients: a benchmark that connects for each request
/// goes through thousands of those.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port = 20_000 + (std::process::id() as u16 % 1_000) * 10 + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
