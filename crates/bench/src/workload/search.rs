//! The search benchmark: documents of a text of 60 words, a tag and a number in one index, added
//! one after the other and found by each of the three.
//!
//! Each answer's total is compared with the total of the documents themselves, so no server gains
//! by leaving some out.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::measure::Worker;
use crate::random::Random;
use crate::records::search::{Condition, Document, NUMBERS, TAGS, VOCABULARY};
use crate::targets::{Connection, OperationError};

/// Number of documents per load request.
const LOADED_AT_ONCE: u64 = 100;

/// A range of numbers has a thousandth of all.
const RANGE: u64 = NUMBERS / 1_000;

/// Words that are looked for are neither in most texts nor in next to none.
const RANKS: std::ops::Range<u64> = 50..1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Test {
    /// A document added
    Ingest,
    /// By a tag that one of a thousand documents has
    Tag,
    /// By a range that holds one of a thousand numbers
    Number,
    /// By a word, ranked
    Word,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Ingest, Test::Tag, Test::Number, Test::Word];

    pub fn name(self) -> &'static str {
        ["ingest", "tag", "number", "word"][self as usize]
    }
}

/// The documents that are loaded, as far as the totals of answers follow from them.
pub struct Corpus {
    seed: u64,
    documents: u64,
    /// By tag and by rank: how many documents have it.
    tags: Vec<u64>,
    words: Vec<u64>,
    /// In their order.
    values: Vec<u64>,
}

impl Corpus {
    pub fn new(seed: u64, documents: u64) -> Corpus {
        let mut corpus = Corpus {
            seed,
            documents,
            tags: vec![0; TAGS as usize],
            words: vec![0; VOCABULARY as usize],
            values: Vec::new(),
        };
        let (mut random, mut document) = (corpus.random(), Document::default());
        for number in 0..documents {
            document.fill(number, &mut random);
            corpus.tags[document.tag as usize] += 1;
            corpus.values.push(document.value);
            let words: BTreeSet<u64> = document.words.iter().copied().collect();
            words.iter().for_each(|rank| corpus.words[*rank as usize] += 1);
        }
        corpus.values.sort_unstable();
        corpus
    }

    /// Makes the index and stores the documents.
    pub async fn load(&self, connection: &mut dyn Connection) -> Result<(), OperationError> {
        let searches = connection.searches()?;
        searches.index_documents().await?;
        let mut random = self.random();
        let mut batch = vec![Document::default(); LOADED_AT_ONCE as usize];
        for start in (0..self.documents).step_by(LOADED_AT_ONCE as usize) {
            let batch = &mut batch[..LOADED_AT_ONCE.min(self.documents - start) as usize];
            for (number, document) in (start..).zip(batch.iter_mut()) {
                document.fill(number, &mut random);
            }
            searches.add_documents(batch).await?;
        }
        Ok(())
    }

    fn random(&self) -> Random {
        Random::new(self.seed, &[LOAD_STREAM])
    }

    /// The number of documents that match a condition.
    fn total(&self, condition: Condition) -> u64 {
        match condition {
            Condition::Tag(tag) => self.tags[tag as usize],
            Condition::Word(rank) => self.words[rank as usize],
            Condition::Numbers(least, most) => {
                let below = |bound: u64| self.values.partition_point(|value| *value < bound) as u64;
                below(most + 1) - below(least)
            }
        }
    }
}

pub struct SearchWorker {
    test: Test,
    connection: Box<dyn Connection>,
    random: Random,
    corpus: Arc<Corpus>,
    condition: Condition,
    document: Document,
    next_number: u64,
    workers: u64,
}

impl SearchWorker {
    pub fn new(
        test: Test,
        corpus: Arc<Corpus>,
        connection: Box<dyn Connection>,
        seed: u64,
        index: u64,
        workers: u64,
    ) -> SearchWorker {
        SearchWorker {
            test,
            connection,
            random: Random::new(seed, &[WORKER_STREAM, test as u64, workers, index]),
            corpus,
            condition: Condition::Tag(0),
            document: Document::default(),
            next_number: index,
            workers,
        }
    }
}

#[async_trait(?Send)]
impl Worker for SearchWorker {
    fn prepare(&mut self) {
        let random = &mut self.random;
        match self.test {
            Test::Ingest => {
                self.document.fill(self.next_number, random);
                self.next_number += self.workers;
            }
            Test::Tag => self.condition = Condition::Tag(random.below(TAGS)),
            Test::Number => {
                let least = random.below(NUMBERS - RANGE);
                self.condition = Condition::Numbers(least, least + RANGE - 1);
            }
            Test::Word => self.condition = Condition::Word(RANKS.start + random.below(RANKS.end - RANKS.start)),
        }
    }

    async fn operate(&mut self) -> Result<(), OperationError> {
        let searches = self.connection.searches()?;
        if self.test == Test::Ingest {
            return searches.add_documents(std::slice::from_ref(&self.document)).await;
        }
        let (total, expected) = (searches.total(self.condition).await?, self.corpus.total(self.condition));
        match total == expected {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "{total} documents match {:?}, not {expected}",
                self.condition
            ))),
        }
    }
}

const LOAD_STREAM: u64 = 1;
const WORKER_STREAM: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_documents() {
        let corpus = Corpus::new(3, 500);
        assert_eq!((0..TAGS).map(|tag| corpus.total(Condition::Tag(tag))).sum::<u64>(), 500);
        assert_eq!(corpus.total(Condition::Numbers(0, NUMBERS)), 500);
        let middle = corpus.values[250];
        let halves =
            [(0, middle), (middle + 1, NUMBERS)].map(|(least, most)| corpus.total(Condition::Numbers(least, most)));
        assert!(halves[0] >= 251 && halves.iter().sum::<u64>() == 500);
        assert!(corpus.total(Condition::Word(0)) > 400);
    }
}
