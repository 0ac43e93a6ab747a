//! The contract of a log, as one check that any implementation's tests can call.
//!
//! Random but seeded steps are applied to the log and to a list side by side; every answer, every
//! read and the records after a restart or a crash are compared.

use quartet_model::LogSequence;

use crate::{Log, LogCursor, LogError};

type Records = Vec<(u64, Vec<u8>)>;

/// The storage of a log: it can be opened there repeatedly, by one writer at a time.
pub trait Place {
    /// Opens the log, and returns the records that it replayed from `replay_from` on.
    fn open(&mut self, replay_from: LogSequence) -> (Box<dyn Log>, Records);

    /// Loses, as by a loss of power, some of the bytes that were not durable. Returns false if the
    /// log does not support it.
    fn crash(&mut self, seed: u64) -> bool;
}

/// Panics, naming the seed, if the logs that `make` gives a place to do anything else than a list
/// would.
pub fn check(seeds: u64, make: impl Fn(u64) -> Box<dyn Place>) {
    for seed in 1..=seeds {
        let mut place = make(seed);
        let (log, replayed) = place.open(LogSequence(1));
        assert!(
            replayed.is_empty() && log.tail() == LogSequence::ZERO,
            "a new log is empty"
        );
        Check {
            place,
            log: Some(log),
            records: Vec::new(),
            durable: 0,
            needed: 1,
            follower: None,
            random: seed,
            seed,
        }
        .run();
    }
}

const STEPS: u64 = 300;
const PAYLOAD_BYTES_MAX: u64 = 700;

struct Check {
    place: Box<dyn Place>,
    /// None while it is opened again.
    log: Option<Box<dyn Log>>,
    /// Record N is at index N - 1.
    records: Vec<Vec<u8>>,
    /// The last answer of `sync`.
    durable: u64,
    /// Records below this may be dropped.
    needed: u64,
    /// Reads beside the writer, in the same process.
    follower: Option<Box<dyn LogCursor>>,
    random: u64,
    seed: u64,
}

impl Check {
    fn run(mut self) {
        for _ in 0..STEPS {
            match self.below(100) {
                0..50 => self.append(),
                50..60 => self.append_behind(),
                60..75 => self.sync(),
                75..80 => self.log().mark_durable().unwrap(),
                80..85 => self.read(),
                85..90 => self.follow(),
                90..93 => self.trim(),
                93..97 => self.restart(),
                _ => self.crash(),
            }
            assert_eq!(self.log().tail().0, self.records.len() as u64, "seed {}", self.seed);
        }
        self.restart();
        self.read();
    }

    fn append(&mut self) {
        let bytes = self.below(PAYLOAD_BYTES_MAX);
        let payload: Vec<u8> = (0..bytes).map(|_| self.below(256) as u8).collect();
        let split = self.below(bytes + 1) as usize;
        let tail = self.log().tail();
        let appended = self
            .log()
            .append(tail, &[&payload[..split], &payload[split..]])
            .unwrap();
        self.records.push(payload);
        assert_eq!(appended.0, self.records.len() as u64, "seed {}", self.seed);
    }

    /// A writer that does not know the tail changes nothing.
    fn append_behind(&mut self) {
        let tail = self.log().tail();
        let wrong = [LogSequence(tail.0.wrapping_sub(1)), tail.next(), LogSequence(u64::MAX)];
        for expected in wrong {
            let bytes = self.log().bytes();
            match self.log().append(expected, &[b"of another"]) {
                Err(LogError::TailMoved {
                    expected: claimed,
                    tail: is,
                }) => assert_eq!((claimed, is), (expected, tail)),
                other => panic!("seed {}: appended behind {expected:?}: {other:?}", self.seed),
            }
            assert_eq!(self.log().bytes(), bytes, "seed {}", self.seed);
        }
    }

    fn sync(&mut self) {
        let durable = self.log().sync().unwrap().0;
        assert!(self.durable <= durable, "seed {}: durable went back", self.seed);
        assert!(
            durable <= self.records.len() as u64,
            "seed {}: more is durable than there is",
            self.seed
        );
        self.durable = durable;
    }

    fn read(&mut self) {
        let tail = self.records.len() as u64;
        for from in [self.needed, (self.needed + tail) / 2, tail, tail + 1, tail + 5] {
            if from < self.needed {
                continue;
            }
            let records = self.read_from(from, tail).unwrap();
            assert_eq!(records, self.expected(from), "seed {}: read from {from}", self.seed);
        }
        // Older records are complete, or reported as trimmed.
        let starts = self.log().source().starts().unwrap();
        let oldest = starts.first().map_or(1, |first| first.0);
        match self.read_from(1, tail) {
            Ok(records) => assert_eq!((records.len() as u64, oldest), (tail, 1), "seed {}", self.seed),
            Err(LogError::Trimmed { first, .. }) => {
                assert_eq!(first.0, oldest, "seed {}", self.seed);
                assert!(first.0 <= self.needed, "seed {}", self.seed);
            }
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
        self.parts_add_up(starts);
    }

    fn read_from(&mut self, from: u64, through: u64) -> Result<Records, LogError> {
        let mut cursor = self.log().source().cursor(LogSequence(from));
        let mut records = Records::new();
        while let Some(record) = cursor.next(LogSequence(through))? {
            records.push((record.sequence.0, record.payload.to_vec()));
        }
        Ok(records)
    }

    /// Reads start where parts start, and the parts together are the whole log.
    fn parts_add_up(&mut self, starts: Vec<LogSequence>) {
        let parts = self.log().parts();
        let bytes = parts.iter().map(|part| part.bytes).sum::<u64>();
        assert_eq!(bytes, self.log().bytes(), "seed {}", self.seed);
        let firsts: Vec<LogSequence> = parts.iter().map(|part| part.first).collect();
        assert_eq!(firsts, starts, "seed {}", self.seed);
    }

    /// A reader concurrent with the writer gets each durable record once, in order, until the
    /// records it needs are trimmed.
    fn follow(&mut self) {
        let (durable, steps) = (self.durable, self.below(20));
        let mut cursor = match self.follower.take() {
            Some(cursor) => cursor,
            None => self.log().source().cursor(LogSequence(self.needed)),
        };
        for _ in 0..steps {
            let expected = cursor.position().0;
            match cursor.next(LogSequence(durable)) {
                Ok(Some(record)) => {
                    assert_eq!(record.sequence.0, expected, "seed {}", self.seed);
                    let written = &self.records[expected as usize - 1];
                    assert_eq!(record.payload, written, "seed {}", self.seed);
                }
                Ok(None) => assert!(expected > durable, "seed {}: {expected} is withheld", self.seed),
                Err(LogError::Trimmed { .. }) => {
                    assert!(expected < self.needed, "seed {}: {expected} is gone", self.seed);
                    return;
                }
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
        self.follower = Some(cursor);
    }

    fn expected(&self, from: u64) -> Records {
        (from..=self.records.len() as u64)
            .map(|sequence| (sequence, self.records[sequence as usize - 1].clone()))
            .collect()
    }

    fn trim(&mut self) {
        // Only what is durable can be in a checkpoint.
        self.needed = self.needed.max(self.below(self.durable + 1) + 1);
        let needed = LogSequence(self.needed);
        self.log().trim_below(needed).unwrap();
    }

    fn restart(&mut self) {
        self.log().close().unwrap();
        self.durable = self.records.len() as u64;
        self.open();
    }

    fn crash(&mut self) {
        let seed = self.below(u64::MAX);
        if self.place.crash(seed) {
            self.open();
        }
    }

    /// Opening returns a prefix of the appended records that holds all durable ones.
    fn open(&mut self) {
        (self.log, self.follower) = (None, None);
        let (log, replayed) = self.place.open(LogSequence(self.needed));
        self.log = Some(log);
        let tail = self.log().tail().0;
        let all = self.records.len() as u64;
        assert!(
            (self.durable..=all).contains(&tail),
            "seed {}: {tail} of {all} are left",
            self.seed
        );
        self.records.truncate(tail as usize);
        assert_eq!(replayed, self.expected(self.needed), "seed {}", self.seed);
        self.durable = tail;
    }

    fn log(&mut self) -> &mut dyn Log {
        self.log.as_deref_mut().expect("the log is open")
    }

    /// SplitMix64.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
