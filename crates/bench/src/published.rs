//! The figures that others published for the same workloads. Never measured here, and always shown
//! with their hardware.
//!
//! Sources: "Lambda Store, serverless Redis, against FaunaDB" (2020) for product; the DynamoDB,
//! FaunaDB and Upstash latency comparison from AWS Lambda (2021) for news; FaunaDB's own reports on
//! YCSB (2019) and on 120,000 writes per second (2017).

/// The note beside every published product figure.
pub const PRODUCT_CIRCUMSTANCES: &str = "Published in 2020 by the vendor of Lambda Store, not measured here: a Go client \
     on one AWS m6g.xlarge in the database's region (a network between client and server), go-redis 7.2 and the FaunaDB Go \
     driver 2.0, 60 seconds a test, hosted serverless databases on undisclosed hardware, Lambda Store replicating \
     asynchronously inside one region.";

/// The note beside every published news figure.
pub const NEWS_CIRCUMSTANCES: &str = "Published in 2021, not measured here: calls from AWS Lambda functions (1 GB, \
     us-west-1) to hosted databases on undisclosed hardware, cold starts and reconnects included. Warm calls: about 1 ms to \
     Upstash and 7 ms to DynamoDB.";

/// The note beside every published YCSB figure.
pub const YCSB_CIRCUMSTANCES: &str = "Published in 2019 by the vendor of FaunaDB, version 2.7, not measured here: one replica of \
     three nodes on Google Cloud, each with 4, 8 or 16 virtual processors, 26 GB of memory and 2 TB of local SSD; client threads \
     were raised until requests began to fail.";

/// The note beside the published calvin figure.
pub const CALVIN_CIRCUMSTANCES: &str = "Published in 2017 by the vendor of FaunaDB, not measured here: fifteen c3.4xlarge (16 \
     threads, 30 GB, two SSDs each) in three logical data centres, each a full copy, and six c3.large for the load; everything \
     replicated and on disk before the acknowledgement; one hour.";

/// Transactions per second.
pub const CALVIN_PER_SECOND: u32 = 3_330;

/// Operations per second of a workload by the number of client threads, on nodes of 4, 8 and 16
/// virtual processors.
pub fn ycsb(workload: &str, threads: u32) -> Option<[Option<u32>; 3]> {
    let row = YCSB.iter().find(|row| row.0 == workload && row.1 == threads);
    row.map(|row| row.2.map(|per_second| (per_second > 0).then_some(per_second)))
}

/// Zero: not published.
static YCSB: [(&str, u32, [u32; 3]); 12] = [
    ("A", 300, [3_069, 4_249, 5_200]),
    ("A", 1_000, [3_974, 7_148, 9_927]),
    ("A", 2_000, [4_435, 8_638, 12_757]),
    ("A", 4_000, [0, 0, 15_578]),
    ("B", 300, [7_120, 13_209, 17_492]),
    ("B", 1_000, [8_210, 16_391, 26_556]),
    ("B", 2_000, [8_675, 17_332, 29_241]),
    ("B", 4_000, [0, 0, 30_830]),
    ("C", 300, [9_166, 20_944, 27_205]),
    ("C", 1_000, [10_484, 24_236, 37_077]),
    ("C", 2_000, [10_814, 25_473, 39_255]),
    ("C", 4_000, [0, 0, 39_532]),
];

/// One test at one parallelism, for the two systems of the product benchmark.
#[derive(Debug)]
pub struct ProductRow {
    pub test: &'static str,
    pub parallelism: u32,
    pub lambda_store: Figures,
    pub fauna_db: Figures,
}

#[derive(Debug)]
pub struct Figures {
    pub requests_per_minute: u32,
    /// At percentiles 0.5, 0.9921875 and 1.0.
    pub latency_ms: [f64; 3],
}

/// The published row for a cell, if there is one.
pub fn product(test: &str, parallelism: u32) -> Option<&'static ProductRow> {
    PRODUCT
        .iter()
        .find(|row| row.test == test && row.parallelism == parallelism)
}

/// System and p99 in milliseconds, all approximate.
pub const NEWS_P99_MS: [(&str, u32); 3] = [("Upstash", 50), ("DynamoDB", 200), ("FaunaDB", 900)];

const fn row(
    test: &'static str,
    parallelism: u32,
    requests_per_minute: [u32; 2],
    lambda_store_ms: [f64; 3],
    fauna_db_ms: [f64; 3],
) -> ProductRow {
    let lambda_store = Figures {
        requests_per_minute: requests_per_minute[0],
        latency_ms: lambda_store_ms,
    };
    let fauna_db = Figures {
        requests_per_minute: requests_per_minute[1],
        latency_ms: fauna_db_ms,
    };
    ProductRow {
        test,
        parallelism,
        lambda_store,
        fauna_db,
    }
}

static PRODUCT: [ProductRow; 12] = [
    row("read", 1, [90_159, 5_060], [0.658, 0.739, 9.0], [7.43, 112.0, 935.0]),
    row("read", 10, [864_270, 41_016], [0.673, 1.04, 19.8], [9.40, 124.0, 979.0]),
    row(
        "read",
        100,
        [1_919_849, 60_888],
        [3.02, 8.28, 35.4],
        [84.7, 458.0, 1_273.0],
    ),
    row("insert", 1, [80_460, 304], [0.677, 2.78, 19.6], [180.0, 506.0, 616.0]),
    row(
        "insert",
        10,
        [360_779, 3_070],
        [0.712, 14.3, 1_912.0],
        [172.0, 512.0, 715.0],
    ),
    row(
        "insert",
        100,
        [370_100, 29_762],
        [7.74, 284.0, 2_031.0],
        [179.0, 496.0, 835.0],
    ),
    row(
        "overwrite",
        1,
        [83_292, 297],
        [0.670, 1.76, 16.1],
        [183.0, 469.0, 945.0],
    ),
    row(
        "overwrite",
        10,
        [660_878, 3_271],
        [0.697, 3.96, 28.6],
        [154.0, 885.0, 1_799.0],
    ),
    row(
        "overwrite",
        100,
        [835_029, 29_941],
        [5.99, 29.0, 63.0],
        [177.0, 570.0, 1_139.0],
    ),
    row("update", 1, [87_742, 209], [0.659, 0.973, 206.0], [252.0, 754.0, 925.0]),
    row(
        "update",
        10,
        [790_974, 2_476],
        [0.657, 4.12, 16.0],
        [185.0, 963.0, 1_584.0],
    ),
    row(
        "update",
        100,
        [1_298_606, 13_303],
        [3.97, 20.8, 72.2],
        [231.0, 1_800.0, 3_024.0],
    ),
];
