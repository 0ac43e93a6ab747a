//! The formats of a cluster's nodes, for rolling upgrades (`quartet_model::format`).
//!
//! A node with a new program writes what the cluster has agreed on, which nodes with the program
//! before it read as well. `quartet cluster finish-upgrade` changes the agreement, once every node
//! has the new program: `quartet_log_replicated::Agreed` has the order of its steps.

use anyhow::{Context, Result, bail, ensure};
use quartet_log_replicated::drive::ask;
use quartet_log_replicated::{Agreed, Answer, Failure, Place, Sequencer, UnfitFormat};
use quartet_model::format;
use serde::{Deserialize, Serialize};

use super::members::{Members, View};

/// The formats of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formats {
    /// It reads these, and all before them in files.
    pub oldest: u32,
    pub newest: u32,
    pub written: u32,
}

/// The formats of a node that does not report them.
impl Default for Formats {
    fn default() -> Formats {
        Formats {
            oldest: 1,
            newest: 1,
            written: 1,
        }
    }
}

/// Why the agreed format is not known.
pub enum NotLearned {
    Failed(Failure),
    Unfit(UnfitFormat),
}

impl From<Failure> for NotLearned {
    fn from(failure: Failure) -> NotLearned {
        NotLearned::Failed(failure)
    }
}

impl Formats {
    pub fn of_this_process() -> Formats {
        Formats {
            oldest: format::oldest(),
            newest: format::newest(),
            written: format::written(),
        }
    }
}

/// Reads the agreed format, and writes it from now on.
pub fn learn(sequencer: &mut dyn Sequencer, place: &Place) -> Result<(), NotLearned> {
    let answer = ask(sequencer, Agreed::request(place))?;
    // An unreadable value is one of a later program.
    let agreed = Agreed::of(&answer).ok_or(NotLearned::Unfit(UnfitFormat::TooNew(format::newest() + 1)))?;
    agreed.check().map_err(NotLearned::Unfit)?;
    format::write(agreed.written);
    Ok(())
}

/// The same for a node that starts.
pub fn join(sequencer: &mut dyn Sequencer, place: &Place) -> Result<()> {
    learn(sequencer, place).map_err(|error| match error {
        NotLearned::Failed(failure) => anyhow::Error::from(failure).context("log"),
        NotLearned::Unfit(unfit) => unfit.into(),
    })
}

/// Makes all nodes write the newest format that each of them reads, and returns it. Can be repeated
/// if it was interrupted.
pub fn finish_upgrade(sequencer: &mut dyn Sequencer, members: &Members) -> Result<u32> {
    let place = members.place();
    let present = agreed(sequencer, place)?;
    members.look_once(sequencer)?;
    let next = newest_of_all(&members.view())?;
    if next == present.written && present.read == present.written {
        bail!("every node writes format {next}, the newest that all of them read");
    }
    let begun = Agreed {
        written: present.written,
        read: next,
    };
    if present != begun {
        change(sequencer, place, present, begun)?;
    }
    // A node that has started meanwhile has put its key before it saw this step, or sees it.
    let verified = members.look_once(sequencer).map_err(anyhow::Error::from);
    let verified = verified.and_then(|()| newest_of_all(&members.view()));
    match verified {
        Ok(newest) if newest >= next => {}
        otherwise => {
            change(sequencer, place, begun, present)?;
            otherwise?;
            bail!("a node with an earlier program has started meanwhile");
        }
    }
    let done = Agreed {
        written: next,
        read: next,
    };
    change(sequencer, place, begun, done)?;
    Ok(next)
}

fn agreed(sequencer: &mut dyn Sequencer, place: &Place) -> Result<Agreed> {
    let answer = ask(sequencer, Agreed::request(place))?;
    Agreed::of(&answer).context("log: the key `format` cannot be read")
}

fn change(sequencer: &mut dyn Sequencer, place: &Place, from: Agreed, to: Agreed) -> Result<()> {
    if from == to {
        return Ok(());
    }
    match ask(sequencer, from.change(place, to))? {
        Answer::Done { .. } => Ok(()),
        _ => bail!("another request changes the format now: see `quartet cluster status`"),
    }
}

/// The newest format that every configured node reads. Errors: not every node runs.
fn newest_of_all(view: &View) -> Result<u32> {
    let rows = view.configured.iter().filter(|(_, row)| !row.is_removed);
    for (node, row) in rows {
        ensure!(
            view.members.contains_key(&node.0),
            "{} does not run: start it with the new program, or remove it",
            row.name
        );
    }
    let newest = view.members.values().map(|member| member.formats.newest).min();
    newest.context("no node runs")
}
