//! The clients' work: a bank whose money must neither grow nor shrink, and registers that must hold
//! the last written value.
//!
//! Transactions use all three interfaces of the engine. Transactions without the lock are
//! interleaved with concurrent commits: a closure lets another client run in between, and an
//! interactive transaction stays open over several turns.

use std::time::Duration;

use quartet_engine::{
    CommitError, CommitRequest, ExecuteError, Mutation, RunError, Stamp, Transaction, VERSIONSTAMP_BYTES,
};
use quartet_model::{KeyRange, Version};

use crate::judgement::{Planted, Violation};
use crate::model::Write;
use crate::world::{LAST, World};

const ACCOUNTS: u64 = 8;
const OPENING_BALANCE: u64 = 100;
const REGISTERS: u64 = 6;
const VALUE_BYTES_MAX: u64 = 300;
/// Attempts of a closure in case of conflicts.
const ATTEMPTS: u32 = 3;

/// A transfer that has read and not committed.
pub struct OpenTransfer {
    read_version: Version,
    writes: Vec<Write>,
}

fn account(number: u64) -> Vec<u8> {
    format!("account/{number}").into_bytes()
}

fn register(number: u64) -> Vec<u8> {
    format!("register/{number}").into_bytes()
}

fn balance(bytes: Option<&[u8]>) -> u64 {
    bytes
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// An account and its balance.
struct Account {
    number: u64,
    balance: u64,
}

impl Account {
    fn of(number: u64, row: Option<&[u8]>) -> Account {
        let balance = balance(row);
        Account { number, balance }
    }

    fn write_balance(&self, balance: u64) -> Write {
        (account(self.number), Some(balance.to_be_bytes().to_vec()))
    }
}

/// The new balances after moving `amount`, or the whole balance if that is less.
fn transfer(from: Account, to: Account, amount: u64) -> Vec<Write> {
    let amount = amount.min(from.balance);
    vec![
        from.write_balance(from.balance - amount),
        to.write_balance(to.balance + amount),
    ]
}

impl World {
    /// Gives each account its money, unless that was done in an earlier life.
    pub fn open_accounts(&mut self) -> Result<(), Violation> {
        if self.model.rows().is_empty() {
            let opened = |number| (account(number), Some(OPENING_BALANCE.to_be_bytes().to_vec()));
            self.write_at_once((0..ACCOUNTS).map(opened).collect())?;
        }
        Ok(())
    }

    /// One turn of some client.
    pub fn turn(&mut self, open: &mut Vec<OpenTransfer>) -> Result<(), Violation> {
        match self.random.below(100) {
            0..20 => self.write_register(),
            20..30 => self.clear_register(),
            30..45 => self.read_register(),
            45..55 => self.transfer_at_once(),
            55..68 => self.transfer_by_closure(true),
            68..74 => self.begin_transfer(open),
            74..80 => self.end_transfer(open),
            80..84 => self.audit(),
            84..90 => self.flush(),
            90..92 => {
                self.engine().checkpoint_in_background();
                Ok(())
            }
            _ => {
                let time = Duration::from_micros(self.random.below(30_000));
                self.wait(time);
                Ok(())
            }
        }
    }

    /// One transaction at the latest state that makes these writes.
    fn write_at_once(&mut self, writes: Vec<Write>) -> Result<(), Violation> {
        let executed = self
            .engine()
            .partition()
            .execute(self.space, |tx| -> Result<Version, ()> {
                for (key, value) in &writes {
                    match value {
                        Some(value) => drop(tx.set(key, value)),
                        None => drop(tx.clear(key)),
                    }
                }
                Ok(stamp_last(tx))
            });
        match executed {
            Ok((version, dependency)) => self.committed(version, dependency, writes),
            // The disk is full; it has changed nothing.
            Err(ExecuteError::DiskFull(_)) => Ok(()),
            Err(error) => Err(Violation::Refused(format!("{error:?}"))),
        }
    }

    fn committed(&mut self, version: Version, dependency: Version, mut writes: Vec<Write>) -> Result<(), Violation> {
        writes.push((LAST.to_vec(), Some(version.0.to_be_bytes().to_vec())));
        self.model.committed(version, writes)?;
        self.observe(version.0);
        match self.planted {
            Some(Planted::EarlyAnswers) => self.model.acknowledge(version),
            _ => self.answer_once_durable(dependency),
        }
        Ok(())
    }

    fn write_register(&mut self) -> Result<(), Violation> {
        let key = register(self.random.below(REGISTERS));
        let bytes = self.random.below(VALUE_BYTES_MAX);
        let value = (0..bytes).map(|_| self.random.next() as u8).collect();
        self.write_at_once(vec![(key, Some(value))])
    }

    fn clear_register(&mut self) -> Result<(), Violation> {
        let key = register(self.random.below(REGISTERS));
        self.write_at_once(vec![(key, None)])
    }

    fn read_register(&mut self) -> Result<(), Violation> {
        let key = register(self.random.below(REGISTERS));
        let read = self.engine().partition().execute(self.space, |tx| -> Result<_, ()> {
            Ok(tx.get(&key).map(|row| row.value().to_vec()))
        });
        let (value, dependency) = read.map_err(|error| Violation::Refused(format!("{error:?}")))?;
        if self.model.rows().get(&key) != value.as_ref() {
            return Err(Violation::State { key });
        }
        self.answer_once_durable(dependency);
        Ok(())
    }

    fn two_accounts(&mut self) -> (u64, u64) {
        let from = self.random.below(ACCOUNTS);
        (from, (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS)
    }

    fn transfer_at_once(&mut self) -> Result<(), Violation> {
        let ((from, to), amount) = (self.two_accounts(), self.random.below(50));
        let rows = self.model.rows();
        let read = |number| Account::of(number, rows.get(&account(number)).map(Vec::as_slice));
        let writes = transfer(read(from), read(to), amount);
        self.write_at_once(writes)
    }

    /// Without the lock; occasionally another client commits between its reads and its commit.
    fn transfer_by_closure(&mut self, lets_others_in: bool) -> Result<(), Violation> {
        let ((from, to), amount) = (self.two_accounts(), self.random.below(50));
        let (engine, space, planted) = (self.engine(), self.space, self.planted);
        let mut writes = Vec::new();
        let mut met = Ok(());
        let ran = engine.run_versioned(space, ATTEMPTS, |tx| -> Result<(), ()> {
            let mut read = |number| {
                let key = account(number);
                let value = match planted {
                    Some(Planted::UncertifiedReads) => tx.snapshot_get(&key),
                    _ => tx.get(&key),
                };
                Account::of(number, value.as_deref())
            };
            let (from, to) = (read(from), read(to));
            if lets_others_in && met.is_ok() && self.random.one_in(2) {
                met = match self.random.below(3) {
                    0 => self.transfer_by_closure(false),
                    1 => self.transfer_at_once(),
                    _ => self.write_register(),
                };
            }
            writes = transfer(from, to, amount);
            for (key, value) in &writes {
                tx.set(key, value.as_deref().unwrap_or_default());
            }
            let stamp = Stamp {
                offset: 0,
                bytes: |version| version.0.to_be_bytes(),
            };
            tx.set_stamped(LAST, &[], vec![0; 8], vec![stamp]);
            Ok(())
        });
        met?;
        match ran {
            Ok(((), version, dependency)) => self.committed(version, dependency, writes),
            Err(RunError::Conflict | RunError::DiskFull(_)) => Ok(()),
            Err(error) => Err(Violation::Refused(format!("{error:?}"))),
        }
    }

    fn begin_transfer(&mut self, open: &mut Vec<OpenTransfer>) -> Result<(), Violation> {
        let ((from, to), amount) = (self.two_accounts(), self.random.below(50));
        let reader = self.engine().read_version(self.space);
        let read = |number| Account::of(number, reader.get(&account(number)).as_deref());
        open.push(OpenTransfer {
            read_version: reader.version,
            writes: transfer(read(from), read(to), amount),
        });
        Ok(())
    }

    fn end_transfer(&mut self, open: &mut Vec<OpenTransfer>) -> Result<(), Violation> {
        if open.is_empty() {
            return Ok(());
        }
        let at = self.random.below(open.len() as u64) as usize;
        let OpenTransfer { read_version, writes } = open.swap_remove(at);
        let set = |(key, value): &Write| Mutation::Set {
            key: key.clone(),
            value: value.clone().unwrap_or_default(),
        };
        let last = Mutation::SetVersionstampedValue {
            key: LAST.to_vec(),
            value: vec![0; VERSIONSTAMP_BYTES],
            offset: 0,
        };
        let request = CommitRequest {
            read_version,
            read_conflicts: writes.iter().map(|(key, _)| KeyRange::point(key)).collect(),
            mutations: writes.iter().map(set).chain([last]).collect(),
            ..CommitRequest::default()
        };
        match self.engine().commit(self.space, &request) {
            Ok((version, dependency)) => self.committed(version, dependency, writes),
            Err(CommitError::Conflict(_) | CommitError::TooOld | CommitError::DiskFull) => Ok(()),
            Err(error) => Err(Violation::Refused(format!("{error:?}"))),
        }
    }

    /// All money, seen at one snapshot.
    pub fn audit(&mut self) -> Result<(), Violation> {
        let rows = self.rows();
        let money = rows.iter().filter(|(key, _)| key.starts_with(b"account/"));
        let found = money.map(|(_, value)| balance(Some(value))).sum();
        let expected = match rows.is_empty() {
            true => 0,
            false => ACCOUNTS * OPENING_BALANCE,
        };
        if found != expected {
            return Err(Violation::Money { found, expected });
        }
        self.judge_rows(&rows)
    }

    /// A client without others makes its last answer durable itself.
    fn flush(&mut self) -> Result<(), Violation> {
        self.engine().make_durable(self.model.last_version());
        self.give_answers();
        Ok(())
    }
}

fn stamp_last(tx: &mut Transaction<'_>) -> Version {
    let version = tx.commit_version();
    tx.set(LAST, &version.0.to_be_bytes());
    version
}
