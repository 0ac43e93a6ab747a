//! The vectors benchmark: vectors around a hundred centres, added to and looked for in an index
//! with a graph and in a set of vectors.
//!
//! The nearest of each query are found by comparing it with all, before the clock runs; the part
//! of them that the answers have is the recall.

use std::sync::Arc;

use async_trait::async_trait;

use crate::measure::{Recall, Worker};
use crate::random::Random;
use crate::records::search::{Cloud, Vectors, bytes, product};
use crate::targets::{Connection, OperationError};

/// Number of vectors per load request.
const LOADED_AT_ONCE: u64 = 100;

/// Queries that workers choose from.
const QUERIES: u64 = 100;

/// Number of nearest vectors per query.
pub const NEAREST: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Test {
    /// A hash with a vector added below an index with a graph
    Hset,
    /// The nearest by FT.SEARCH, of a graph
    Knn,
    /// A vector added to a set
    Vadd,
    /// The nearest of a set
    Vsim,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Hset, Test::Knn, Test::Vadd, Test::Vsim];

    pub fn name(self) -> &'static str {
        ["hset", "knn", "vadd", "vsim"][self as usize]
    }

    pub fn adds(self) -> bool {
        matches!(self, Test::Hset | Test::Vadd)
    }

    pub fn vectors(self) -> Vectors {
        match self {
            Test::Hset | Test::Knn => Vectors::Indexed,
            Test::Vadd | Test::Vsim => Vectors::Set,
        }
    }
}

/// The query vectors, with the numbers of the vectors nearest to each.
pub struct Queries {
    pub cloud: Cloud,
    /// Candidates that a search keeps, if it is not the server's own choice.
    candidates: Option<u64>,
    queries: Vec<(Vec<u8>, Vec<u64>)>,
}

impl Queries {
    /// The queries over `vectors` stored vectors.
    pub fn new(cloud: Cloud, vectors: u64, candidates: Option<u64>) -> Queries {
        let queries: Vec<_> = (0..QUERIES).map(|number| cloud.asked(number)).collect();
        let mut nearest = vec![Vec::with_capacity(NEAREST + 1); queries.len()];
        for number in 0..vectors {
            let vector = cloud.stored(number);
            for (query, nearest) in queries.iter().zip(&mut nearest) {
                keep(nearest, product(query, &vector), number);
            }
        }
        let numbers = |nearest: Vec<(f32, u64)>| nearest.into_iter().map(|(_, number)| number).collect();
        let queries = queries
            .iter()
            .map(|query| bytes(query))
            .zip(nearest.into_iter().map(numbers));
        Queries {
            queries: queries.collect(),
            cloud,
            candidates,
        }
    }
}

/// Keeps the nearest, the best first.
fn keep(nearest: &mut Vec<(f32, u64)>, nearness: f32, number: u64) {
    let at = nearest.partition_point(|(other, _)| *other >= nearness);
    if at < NEAREST {
        nearest.insert(at, (nearness, number));
        nearest.truncate(NEAREST);
    }
}

/// Makes what the vectors are added to.
pub async fn prepare(connection: &mut dyn Connection, kind: Vectors, dimensions: usize) -> Result<(), OperationError> {
    match kind {
        Vectors::Indexed => connection.searches()?.index_vectors(dimensions).await,
        // The first element makes the set.
        Vectors::Set => Ok(()),
    }
}

/// Stores the vectors `0..vectors`.
pub async fn load(
    connection: &mut dyn Connection,
    kind: Vectors,
    cloud: &Cloud,
    vectors: u64,
) -> Result<(), OperationError> {
    prepare(connection, kind, cloud.dimensions()).await?;
    for start in (0..vectors).step_by(LOADED_AT_ONCE as usize) {
        let numbers = start..vectors.min(start + LOADED_AT_ONCE);
        let batch: Vec<_> = numbers.map(|number| bytes(&cloud.stored(number))).collect();
        connection.searches()?.add_vectors(kind, start, &batch).await?;
    }
    Ok(())
}

pub struct VectorsWorker {
    test: Test,
    connection: Box<dyn Connection>,
    random: Random,
    queries: Arc<Queries>,
    query: usize,
    next_number: u64,
    workers: u64,
    added: [Vec<u8>; 1],
    answered: Vec<u64>,
    recall: Recall,
}

impl VectorsWorker {
    pub fn new(
        test: Test,
        queries: Arc<Queries>,
        connection: Box<dyn Connection>,
        seed: u64,
        index: u64,
        workers: u64,
    ) -> VectorsWorker {
        VectorsWorker {
            test,
            connection,
            random: Random::new(seed, &[WORKER_STREAM, test as u64, workers, index]),
            queries,
            query: 0,
            next_number: index,
            workers,
            added: [Vec::new()],
            answered: Vec::new(),
            recall: Recall::default(),
        }
    }
}

#[async_trait(?Send)]
impl Worker for VectorsWorker {
    fn prepare(&mut self) {
        match self.test.adds() {
            true => {
                self.added = [bytes(&self.queries.cloud.stored(self.next_number))];
                self.next_number += self.workers;
            }
            false => self.query = self.random.below(QUERIES) as usize,
        }
    }

    async fn operate(&mut self) -> Result<(), OperationError> {
        let (kind, searches) = (self.test.vectors(), self.connection.searches()?);
        if self.test.adds() {
            let number = self.next_number - self.workers;
            return searches.add_vectors(kind, number, &self.added).await;
        }
        let (vector, _) = &self.queries.queries[self.query];
        let candidates = self.queries.candidates;
        searches
            .nearest(kind, vector, NEAREST, candidates, &mut self.answered)
            .await
    }

    async fn settle(&mut self) -> Result<(), OperationError> {
        if !self.test.adds() {
            let (_, nearest) = &self.queries.queries[self.query];
            let hits = nearest.iter().filter(|number| self.answered.contains(number)).count();
            self.recall.found += hits as u64;
            self.recall.wanted += nearest.len() as u64;
        }
        Ok(())
    }

    fn recall(&self) -> Recall {
        self.recall
    }
}

const WORKER_STREAM: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_a_query_are_nearer_than_the_others() {
        let queries = Queries::new(Cloud::new(5, 8), 300, None);
        for (number, (query, nearest)) in (0..).zip(&queries.queries) {
            let asked_vector = queries.cloud.asked(number);
            assert_eq!(*query, bytes(&asked_vector));
            let nearness = |number: u64| product(&asked_vector, &queries.cloud.stored(number));
            let least = nearest.iter().map(|number| nearness(*number)).fold(1.0, f32::min);
            let nearer = (0..300).filter(|number| nearness(*number) > least).count();
            assert_eq!((nearest.len(), nearer), (NEAREST, NEAREST - 1));
        }
    }
}
