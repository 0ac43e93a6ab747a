//! Recall and cost of a graph of vectors, beside comparing all: built from nothing, and
//! after every vector has been replaced ten times. `cargo bench -p quartet-search --bench graph --
//! [VECTORS] [DIMENSIONS]`.

use std::sync::Arc;
use std::time::Instant;

use quartet_search::index;
use quartet_search::index::document::Document;
use quartet_search::index::schema::{Field, FieldKind, Schema};
use quartet_search::index::vector_kind::{Component, Graph, Metric, VectorKind};
use quartet_search::redis::execute::{Request, search};
use quartet_search::redis::query::{Expander, Parameters, parse};
use quartet_search::rows::MemoryRows;
use quartet_search::time::Time;
use quartet_search::vectors::fields::VectorFields;
use quartet_search::vectors::flat::Codes;
use quartet_search::vectors::hnsw;

const QUERIES: u64 = 200;
const NEAREST: usize = 10;
const SETTLED_AT_A_TIME: usize = 256;
const ROUNDS: u64 = 10;
const CODES_BYTES_MAX: usize = 1 << 30;

/// A sequence of numbers that look random (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number of a normal distribution, nearly.
    fn normal(&mut self) -> f32 {
        let sum: f32 = (0..12).map(|_| (self.next() >> 40) as f32 / (1u32 << 24) as f32).sum();
        sum - 6.0
    }
}

#[derive(Clone, Copy)]
enum Shape {
    /// Every component by itself.
    Random,
    /// Around 200 centres, in 32 directions.
    Clustered,
}

fn vector(shape: Shape, seed: u64, dimensions: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let components: Vec<f32> = match shape {
        Shape::Random => (0..dimensions).map(|_| numbers.normal()).collect(),
        Shape::Clustered => {
            let mut center = Numbers(numbers.next() % 200 + 1_000_000);
            let latent: Vec<f32> = (0..32).map(|_| center.normal() + 0.5 * numbers.normal()).collect();
            let mut directions = Numbers(7);
            let component = |_| latent.iter().map(|part| part * directions.normal()).sum();
            (0..dimensions).map(component).collect()
        }
    };
    components
        .iter()
        .flat_map(|component| component.to_le_bytes())
        .collect()
}

fn schema(dimensions: usize, graph: Option<Graph>) -> Schema {
    let mut kind = VectorKind::new(Component::Float32, dimensions, Metric::L2).unwrap();
    if let Some(graph) = graph {
        kind = kind.with_graph(graph);
    }
    Schema::new(vec![Field::new("v", FieldKind::Vector(kind))]).unwrap()
}

fn put(rows: &mut MemoryRows, schema: &Schema, key: u64, vector: &[u8]) {
    let document = Document::new(schema, &key.to_be_bytes(), |_| Some(vector.to_vec())).unwrap();
    index::put(rows, &document, &VectorFields);
}

/// Keys of the nearest, and the time that it took.
fn nearest(
    rows: &mut MemoryRows,
    schema: &Schema,
    vector: Vec<u8>,
    candidates: usize,
    codes: Option<&Arc<Codes>>,
) -> (Vec<Vec<u8>>, f64) {
    let parameters: Parameters = [("q".to_owned(), vector)].into();
    let text = match candidates {
        0 => format!("*=>[KNN {NEAREST} @v $q]"),
        candidates => format!("*=>[KNN {NEAREST} @v $q EF_RUNTIME {candidates}]"),
    };
    let query = parse(schema, text.as_bytes(), &parameters, Expander::All).unwrap();
    let request = Request {
        codes: codes.cloned(),
        ..Request::default()
    };
    let start = Instant::now();
    let answer = search(rows, schema, &query, &request, Time::until(&|| false)).unwrap();
    let time = start.elapsed().as_secs_f64();
    (answer.hits.into_iter().map(|hit| hit.key).collect(), time)
}

fn report(
    name: &str,
    (rows, codes): (&mut MemoryRows, &Arc<Codes>),
    schema: (&Schema, &Schema),
    shape: Shape,
    dimensions: usize,
) {
    for candidates in [10, 20, 50, 100] {
        let (mut matches, mut time, mut exact_time) = (0, 0.0, 0.0);
        for query in 0..QUERIES {
            let vector = vector(shape, 5_000_000_000 + query, dimensions);
            let (exact, exact_seconds) = nearest(rows, schema.1, vector.clone(), 0, None);
            let (near, graph_seconds) = nearest(rows, schema.0, vector, candidates, Some(codes));
            matches += near.iter().filter(|key| exact.contains(key)).count();
            time += graph_seconds;
            exact_time += exact_seconds;
        }
        let recall = matches as f64 / (QUERIES as usize * NEAREST) as f64;
        let (micros, exact) = (time / QUERIES as f64 * 1e6, exact_time / QUERIES as f64 * 1e6);
        println!("{name}, EF_RUNTIME {candidates}: recall {recall:.3}, {micros:.0} us; comparing all {exact:.0} us");
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let count = arguments.first().copied().unwrap_or(5_000) as u64;
    let dimensions = arguments.get(1).copied().unwrap_or(64);
    for (name, shape) in [("random", Shape::Random), ("clustered", Shape::Clustered)] {
        let (with_graph, without) = (schema(dimensions, Some(Graph::default())), schema(dimensions, None));
        let (mut rows, codes) = (MemoryRows::default(), Arc::new(Codes::default()));
        codes.set_bytes_max(CODES_BYTES_MAX);
        let mut seed = 0;
        for round in 0..=ROUNDS {
            let start = Instant::now();
            for key in 0..count {
                seed += 1;
                put(&mut rows, &with_graph, key, &vector(shape, seed, dimensions));
            }
            while hnsw::settle(&mut rows, &with_graph, Some(&codes), SETTLED_AT_A_TIME) {}
            let micros = start.elapsed().as_secs_f64() * 1e6 / count as f64;
            println!("{name}, round {round}: {micros:.0} us a vector");
            if round == 0 || round == ROUNDS {
                report(name, (&mut rows, &codes), (&with_graph, &without), shape, dimensions);
            }
        }
    }
}
