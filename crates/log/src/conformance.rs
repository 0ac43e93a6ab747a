//! What every log must do, as one check that any implementation's tests can call.
//!
//! Random but seeded steps are applied to the log and to a list side by side; every answer, every reading and what comes back
//! after a restart or a crash are compared.

use quartet_model::LogSequence;

use crate::{Log, LogError};

type Records = Vec<(u64, Vec<u8>)>;

/// Where a log lives: it can be opened there again and again, by one writer at a time.
pub trait Place {
    /// Opens the log, and tells what it replayed from `replay_from` on.
    fn open(&mut self, replay_from: LogSequence) -> (Box<dyn Log>, Records);

    /// What was not durable may be lost, as by a loss of power. False where that cannot be brought about.
    fn crash(&mut self, seed: u64) -> bool;
}

/// Panics, naming the seed, if the logs that `make` gives a place to do anything else than a list would.
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
    /// Record N stands at N - 1.
    records: Vec<Vec<u8>>,
    /// What `sync` answered last.
    durable: u64,
    /// Records below this may be dropped.
    needed: u64,
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
                80..90 => self.read(),
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
                    expected: told,
                    tail: is,
                }) => assert_eq!((told, is), (expected, tail)),
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
            let mut found = Records::new();
            let mut visit = |sequence: LogSequence, payload: &[u8]| {
                found.push((sequence.0, payload.to_vec()));
                Ok(())
            };
            self.log().read(LogSequence(from), &mut visit).unwrap();
            assert_eq!(found, self.expected(from), "seed {}: read from {from}", self.seed);
        }
        // What is older is there whole, or is said to be gone.
        let mut count = 0;
        let mut visit = |_: LogSequence, _: &[u8]| {
            count += 1;
            Ok(())
        };
        match self.log().read(LogSequence(1), &mut visit) {
            Ok(()) => assert_eq!(count, tail, "seed {}", self.seed),
            Err(LogError::Trimmed { first, .. }) => assert!(first.0 <= self.needed, "seed {}", self.seed),
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
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

    /// What comes back is a beginning of what was appended, and holds all that was durable.
    fn open(&mut self) {
        self.log = None;
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
