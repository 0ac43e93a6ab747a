//! Copying a live server: its first copy, and the following stream of commands.
//!
//! A broken connection is re-established and requests the rest; if the server no longer has that,
//! or the first copy was incomplete, the copy restarts with an empty target. Received data is
//! acknowledged to the source when it is durable at the target.

use std::time::{Duration, Instant};

use quartet_wire_rdb::DATABASES;

use crate::address::Address;
use crate::append_only::Copied;
use crate::carrier::Carrier;
use crate::commands::{Commands, Said};
use crate::connection::{Connection, SILENCE_MAX, Target};
use crate::cut_over;
use crate::error::{Error, Result};
use crate::link::{self, FirstCopy, Link, LinkStart, Position};
use crate::progress::{self, Keeper, Step};
use crate::records::{Place, Records, bring};
use crate::verify::{self, Verdict};
use crate::watcher::{Stage, Watcher};

const LOOK: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The source's last commands arrive within this time.
const CUT_OVER_MAX: Duration = Duration::from_secs(60);
/// Longest absence of the source in a copy that does not follow.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

pub struct CopyOptions {
    /// Continues with the stream until the cut-over.
    pub follows: bool,
    /// Existing keys stay.
    pub merges: bool,
}

/// The purpose of a copy.
enum Purpose<'w> {
    Import(&'w CopyOptions),
    /// The target is a server that the source's clients may read from, at this port.
    Replica {
        port: Option<u16>,
    },
}

impl Purpose<'_> {
    fn follows(&self) -> bool {
        match self {
            Purpose::Import(wishes) => wishes.follows,
            Purpose::Replica { .. } => true,
        }
    }

    fn merges(&self) -> bool {
        matches!(self, Purpose::Import(wishes) if wishes.merges)
    }

    fn port(&self) -> Option<u16> {
        match self {
            Purpose::Import(_) => None,
            Purpose::Replica { port } => *port,
        }
    }
}

/// Copies until it is stopped: the target is the source's replica. `begin` is the target's
/// progress; other data of the target is removed before a first copy. Returns the reason of the
/// end.
pub fn replicate(
    source: &Address,
    target: &mut dyn Target,
    watcher: &mut dyn Watcher,
    begin: Step,
    port: Option<u16>,
) -> Error {
    let carrier = Carrier::new(target, watcher, &source.to_string(), begin, Keeper::Replica);
    let mut copy = Copy {
        source,
        carrier,
        purpose: Purpose::Replica { port },
        must_clear: true,
    };
    copy.run().err().unwrap_or(Error::Stopped)
}

/// Copies until the source's state has arrived, or, following, until the cut-over. `None` as the
/// verdict: nothing was compared.
pub fn copy(
    source: &Address,
    target: &mut dyn Target,
    watcher: &mut dyn Watcher,
    wishes: &CopyOptions,
) -> Result<(Copied, Option<Verdict>)> {
    let name = source.to_string();
    let progress = progress::prepare(target, &name, u64::from(DATABASES), wishes.merges)?;
    let must_clear = progress.is_some();
    let begin = progress.map_or(Step::FirstCopy, |progress| progress.step);
    let mut carrier = Carrier::new(target, watcher, &name, begin, Keeper::Key);
    carrier.begin()?;
    let mut copy = Copy {
        source,
        carrier,
        purpose: Purpose::Import(wishes),
        must_clear,
    };
    let verdict = copy.run()?;
    let copied = Copied {
        done: copy.carrier.done,
        rejected: copy.carrier.rejected,
    };
    drop(copy);
    if verdict.as_ref().is_none_or(|verdict| verdict.is_equal()) {
        progress::finish(target)?;
    }
    Ok((copied, verdict))
}

struct Copy<'a, 'c> {
    source: &'a Address,
    carrier: Carrier<'c>,
    purpose: Purpose<'a>,
    /// Keys of an earlier attempt must go before another.
    must_clear: bool,
}

impl Copy<'_, '_> {
    fn run(&mut self) -> Result<Option<Verdict>> {
        let (mut pause, mut absent_since) = (RETRY_FIRST, Instant::now());
        loop {
            let before = self.carrier.confirmed().clone();
            match self.attempt() {
                Err(Error::Link(text)) => {
                    self.carrier.forget();
                    if *self.carrier.confirmed() != before {
                        (pause, absent_since) = (RETRY_FIRST, Instant::now());
                    }
                    if !self.purpose.follows() && absent_since.elapsed() > ABSENCE_MAX {
                        return Err(Error::Link(text));
                    }
                    self.carrier.watcher.note(&format!("the source: {text}; trying again"));
                    self.carrier.watcher.stage(Stage::Apart);
                    self.sleep(pause)?;
                    pause = (pause * 2).min(RETRY_MAX);
                }
                ended => return ended,
            }
        }
    }

    fn sleep(&mut self, pause: Duration) -> Result<()> {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.carrier.watcher.is_stopped() {
                return Err(Error::Stopped);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn attempt(&mut self) -> Result<Option<Verdict>> {
        let (position, db) = match self.carrier.confirmed() {
            Step::Following { id, offset, db } => (
                Some(Position {
                    id: id.clone(),
                    offset: *offset,
                }),
                *db,
            ),
            _ => (None, 0),
        };
        let mut connection = Connection::open(self.source)?;
        connection.ends_with(self.carrier.watcher.stop_flag());
        let start = link::begin(connection, self.source, position.as_ref(), self.purpose.port())?;
        match (start, position) {
            (LinkStart::GoesOn(link), Some(position)) => {
                self.carrier.watcher.note("the stream of commands goes on");
                self.follow(link, position.offset, db)
            }
            (LinkStart::FirstCopy(first), _) => {
                let offset = first.position.offset;
                let link = self.first_copy(first)?;
                self.follow(link, offset, 0)
            }
            (LinkStart::GoesOn(_), None) => Err(Error::Source("it goes on with what was never begun".into())),
        }
    }

    fn first_copy(&mut self, first: FirstCopy) -> Result<Link> {
        self.carrier.watcher.stage(Stage::FirstCopy);
        if self.must_clear && !self.purpose.merges() {
            self.carrier
                .watcher
                .note("what an unfinished copy has brought is removed, and the copy begins anew");
            self.carrier.clear()?;
        }
        self.must_clear = true;
        self.carrier.watcher.phase("first copy", first.bytes);
        let position = first.position.clone();
        let mut records = Records::new("the first copy", first);
        let mut place = Place { db: 0, skip_before: 0 };
        self.carrier.begin()?;
        bring(&mut records, &mut self.carrier, &mut place, 0, &|_, _| Step::FirstCopy)?;
        let bytes = records.offset();
        let (unread, first) = records.into_rest();
        let link = first.into_link(unread, bytes)?;
        // From here on the copy can resume at this position.
        self.carrier.bring_commands(Step::Following {
            id: position.id,
            offset: position.offset,
            db: 0,
        })?;
        Ok(link)
    }

    fn follow(&mut self, mut link: Link, offset: u64, db: u64) -> Result<Option<Verdict>> {
        let commands = match self.purpose {
            Purpose::Import(_) => Commands::new(db),
            Purpose::Replica { .. } => Commands::new(db).with_messages(),
        };
        let mut stream = Stream { commands, read: offset };
        let mut heard = Instant::now();
        self.carrier.watcher.stage(Stage::Following(offset));
        self.carrier.watcher.phase("following", None);
        // A source starts its stream once it knows that the first copy has arrived.
        link.acknowledge(offset, true)?;
        let goal = match self.purpose.follows() {
            true => None,
            false => Some(source_offset(self.source)?),
        };
        loop {
            self.drain(&mut link, &mut stream)?;
            let arrived = self.arrived();
            link.acknowledge(arrived, false)?;
            if self.carrier.watcher.is_stopped() {
                link.acknowledge(arrived, true)?;
                return Err(Error::Stopped);
            }
            if goal.is_some_and(|goal| arrived >= goal) {
                link.acknowledge(arrived, true)?;
                return Ok(None);
            }
            if self.purpose.follows() && self.carrier.watcher.wants_cut_over() {
                return self.cut_over(&mut link, &mut stream).map(Some);
            }
            if link.connection.read_more(LOOK)? {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE_MAX {
                return Err(Error::Link("it has said nothing for a minute".into()));
            }
        }
    }

    /// Sends every whole command that has been read.
    fn drain(&mut self, link: &mut Link, stream: &mut Stream) -> Result<()> {
        let mut must_answer = false;
        loop {
            let applied = stream.commands.take(link.connection.unread(), &mut self.carrier);
            let applied = applied
                .map_err(|reason| Error::Source(format!("its stream of commands at {}: {reason}", stream.read)))?;
            let Some((count, said)) = applied else { break };
            link.connection.consume(count);
            stream.read += count as u64;
            self.carrier.bytes_read = stream.read;
            must_answer |= said == Said::Asked;
            if self.carrier.is_full() {
                self.bring(link, stream)?;
            }
        }
        if stream.read > self.arrived() {
            self.bring(link, stream)?;
        }
        if must_answer {
            link.acknowledge(self.arrived(), true)?;
        }
        Ok(())
    }

    /// Sends the commands read, unless they end within a transaction of the source.
    fn bring(&mut self, link: &Link, stream: &Stream) -> Result<()> {
        if stream.commands.is_in_transaction() {
            return Ok(());
        }
        let (id, offset, db) = (link.id.clone(), stream.read, stream.commands.db);
        self.carrier.bring_commands(Step::Following { id, offset, db })?;
        self.carrier.watcher.stage(Stage::Following(offset));
        Ok(())
    }

    /// Commands up to here are with the target, durably.
    fn arrived(&self) -> u64 {
        match self.carrier.confirmed() {
            Step::Following { offset, .. } => *offset,
            _ => 0,
        }
    }

    /// Closes the source to writers, waits for its acknowledged writes, and compares both sides. It
    /// stays closed only if they are equal.
    fn cut_over(&mut self, link: &mut Link, stream: &mut Stream) -> Result<Verdict> {
        self.carrier
            .watcher
            .phase("cut-over: the source takes no more writes", None);
        let mut closed = cut_over::close(self.source)?;
        let verdict = self.compare(&mut closed, link, stream);
        match &verdict {
            Ok(verdict) if verdict.is_equal() => {}
            _ => closed.reopen()?,
        }
        verdict
    }

    fn compare(&mut self, closed: &mut cut_over::Closed, link: &mut Link, stream: &mut Stream) -> Result<Verdict> {
        let goal = closed.offset()?;
        let until = Instant::now() + CUT_OVER_MAX;
        while self.arrived() < goal {
            if Instant::now() > until {
                return Err(Error::Link("the source's last commands did not arrive".into()));
            }
            link.connection.read_more(LOOK)?;
            self.drain(link, stream)?;
            link.acknowledge(self.arrived(), false)?;
        }
        self.carrier.watcher.phase("cut-over: both sides are compared", None);
        let merges = self.purpose.merges();
        let (target, watcher) = self.carrier.parts();
        verify::compare(&mut closed.connection, target, watcher, merges, &mut || {
            link.acknowledge(goal, false)
        })
    }
}

/// The stream of commands as far as it was read.
struct Stream {
    commands: Commands,
    read: u64,
}

fn source_offset(source: &Address) -> Result<u64> {
    let mut connection = Connection::open(source)?;
    link::replication_offset(&mut connection)
}
