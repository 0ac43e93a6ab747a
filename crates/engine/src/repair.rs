//! Verification of a running engine's rows, and the repair of its findings.

use quartet_store::StoreError;

use crate::engine::Engine;
use crate::invariants::judge;
use crate::invariants::{Finding, Findings, Invariants, Repair};
use crate::options::Durability;
use crate::partition::ExecuteError;
use crate::space::Space;

/// Number of repairs per transaction.
const REPAIRS_AT_ONCE: usize = 256;

impl Engine {
    /// Verifies the rows of the last commit. No other thread should change rows meanwhile.
    pub fn judge(&self, invariants: &[Box<dyn Invariants>]) -> Result<Findings, StoreError> {
        let (_, version, _) = self.snapshot();
        judge(&|| self.snapshot().0, version, invariants)
    }

    /// Makes the repairs of these findings, durably. A finding without repairs is left as it is.
    pub fn repair(&self, findings: &[Finding]) -> Result<(), ExecuteError<std::convert::Infallible>> {
        let same_space = |one: &Finding, other: &Finding| (one.database, one.layer) == (other.database, other.layer);
        for findings in findings.chunk_by(same_space) {
            let space = Space {
                database: findings[0].database,
                layer: findings[0].layer,
                durability: Durability::Always,
            };
            let repairs: Vec<&Repair> = findings.iter().flat_map(|finding| &finding.repairs).collect();
            for some in repairs.chunks(REPAIRS_AT_ONCE) {
                let ((), dependency) = self.partition().execute(space, |tx| {
                    for repair in some {
                        match repair {
                            Repair::Set { key, value } => drop(tx.set(key, value)),
                            Repair::Clear { key } => drop(tx.clear(key)),
                            Repair::ClearRange { start, end } => drop(tx.clear_range(start, end)),
                        }
                    }
                    Ok(())
                })?;
                self.wait_durable(dependency);
            }
        }
        Ok(())
    }
}
