//! Extracts the trustworthy rows of a damaged checkpoint or tree, and rebuilds a sound one from
//! them.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_env::Disk;
use quartet_store::Row;
use quartet_store::salvage::{self, Damage, Salvaged};

use crate::options::OpenError;
use crate::recovery::restore::Restoration;

/// Reads the trustworthy rows and reports each damage. The disk is not changed.
///
/// Errors: damage without any rows to save, and errors of reading the disk.
pub fn salvage(damaged: &Arc<dyn Disk>, tell: &mut dyn FnMut(Damage)) -> Result<Salvaged, OpenError> {
    Ok(salvage::salvage(damaged, &mut |_| ControlFlow::Continue(()), tell)?)
}

/// The same, and writes the rows into `anew`, an empty directory. Its files can be moved next to
/// those of `damaged` by their names, except the file that replaces the damaged one.
pub fn rebuild(
    damaged: &Arc<dyn Disk>,
    anew: Arc<dyn Disk>,
    tell: &mut dyn FnMut(Damage),
) -> Result<Salvaged, OpenError> {
    let kind = salvage::begin_beside(anew.as_ref(), damaged.as_ref())?;
    let mut restoration = Restoration::begin(anew, kind, Box::new(|_| true))?;
    let mut failure = None;
    let mut keep = |row: Row| match restoration.row(row.key(), row.value(), row.version()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let salvaged = salvage::salvage(damaged, &mut keep, tell);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let salvaged = salvaged?;
    restoration.finish(salvaged.position)?;
    Ok(salvaged)
}
