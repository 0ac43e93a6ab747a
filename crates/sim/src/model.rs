//! The database's required contents: every commit in order, and the state they lead to.
//!
//! Every transaction writes its commit version under one key, so the state after a crash shows the
//! last surviving commit.

use std::collections::BTreeMap;

use quartet_model::Version;

use crate::judgement::Violation;

pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A transaction's effect on one key: a new value, or none.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

#[derive(Default)]
pub struct Model {
    commits: Vec<(Version, Vec<Write>)>,
    rows: Rows,
    /// Everything up to this version was acknowledged, or read by a client.
    acknowledged: Version,
}

impl Model {
    pub fn committed(&mut self, version: Version, writes: Vec<Write>) -> Result<(), Violation> {
        if version <= self.last_version() {
            return Err(Violation::VersionAgain {
                version,
                last: self.last_version(),
            });
        }
        apply(&mut self.rows, &writes);
        self.commits.push((version, writes));
        Ok(())
    }

    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    pub fn last_version(&self) -> Version {
        self.commits.last().map(|(version, _)| *version).unwrap_or_default()
    }

    pub fn acknowledge(&mut self, version: Version) {
        self.acknowledged = self.acknowledged.max(version);
    }

    /// Checks that a crash has left everything up to `recovered`, and nothing later.
    pub fn recovered(&mut self, recovered: Version) -> Result<(), Violation> {
        if recovered < self.acknowledged {
            return Err(Violation::Lost {
                acknowledged: self.acknowledged,
                recovered,
            });
        }
        let count = self.commits.partition_point(|(version, _)| *version <= recovered);
        self.commits.truncate(count);
        if self.last_version() != recovered {
            return Err(Violation::Unknown { recovered });
        }
        self.rows.clear();
        for (_, writes) in &self.commits {
            apply(&mut self.rows, writes);
        }
        Ok(())
    }
}

fn apply(rows: &mut Rows, writes: &[Write]) {
    for (key, value) in writes {
        match value {
            Some(value) => drop(rows.insert(key.clone(), value.clone())),
            None => drop(rows.remove(key)),
        }
    }
}
