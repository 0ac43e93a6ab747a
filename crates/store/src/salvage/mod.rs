//! Recovers every trustworthy row of a damaged checkpoint or a damaged tree, and names the gaps as
//! far as that is possible.
//!
//! A row is trusted if its bytes match the checksum written with them, and if its key fits its
//! neighbours. An unreadable part is a [`Lost`] piece: an interval of keys outside of which no row
//! is missing. If flipping one bit makes a 64-bit checksum hold again, that bit was the damage, and
//! nothing is lost.
//!
//! Nothing on the disk is changed. A disk that fails ends it: only what was read and is wrong
//! counts as damage.

mod checkpoint;

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_env::Disk;

pub use crate::damage::{Damage, Lost, Salvaged};
use crate::open_error::OpenError;
use crate::options::StoreKind;
use crate::row::Row;
use crate::ssd;

/// Reads the trustworthy rows in key order, and reports each damage. `row` ends it by `Break`.
///
/// Errors: what nothing can be saved of (the root of a tree), a format that this program does not
/// know, a disk that fails.
pub fn salvage(
    disk: &Arc<dyn Disk>,
    row: &mut dyn FnMut(Row) -> ControlFlow<()>,
    tell: &mut dyn FnMut(Damage),
) -> Result<Salvaged, OpenError> {
    match StoreKind::of(disk.as_ref())? {
        Some(StoreKind::Ssd) => ssd::salvage(disk, row, tell),
        _ => checkpoint::salvage(disk.as_ref(), row, tell),
    }
}

/// Prepares the empty directory `anew` for the rows that are saved from `damaged`: the files
/// written there can be moved next to those in `damaged`.
pub fn begin_beside(anew: &dyn Disk, damaged: &dyn Disk) -> Result<StoreKind, OpenError> {
    let kind = StoreKind::of(damaged)?.unwrap_or(StoreKind::Memory);
    if kind == StoreKind::Ssd {
        ssd::create_beside(anew, damaged)?;
    }
    Ok(kind)
}

#[cfg(test)]
mod tests;
