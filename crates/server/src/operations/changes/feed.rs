//! One feed: a thread that reads the log and encodes it, and the connection that sends the events.
//!
//! ```text
//!   log --> thread --> at most QUEUE_BYTES --> Follower --> socket
//! ```
//!
//! The thread waits when the queue is full, and ends when the follower is dropped. Its memory is
//! bounded by the queue and one part of a transaction; the log is kept for it within the engine's
//! bound, and no longer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quartet_engine::{Change, ChangeDecoder, Durability, Engine, LogReadError, LogReader, Reader, SPACE_BYTES, Space};
use quartet_model::{DatabaseId, Effect, Effects, EffectsReader, LayerId, Version};
use quartet_tenancy::{DEFAULT_DATABASE, is_place};

use super::{Place, Scope, text};
use crate::http::{Follower, Following, Wake};
use crate::layers::kind::LayerKind;
use crate::tenants::Tenants;

/// The options of a feed.
pub struct FeedOptions {
    pub scope: Scope,
    pub layers: Vec<LayerKind>,
    /// Prefix of names; if empty, all.
    pub prefix: Vec<u8>,
    pub is_event_stream: bool,
}

/// The range of versions that a feed sends.
pub struct FeedRange {
    /// The changes after this version.
    pub from: Version,
    /// The changes up to this version; `None`: future changes too.
    pub until: Option<Version>,
}

/// Upper bound on the bytes that wait for a connection.
const QUEUE_BYTES: usize = 1 << 20;
/// Size above which a transaction is sent in parts.
const PART_BYTES: usize = 256 << 10;
/// Time between two reports of progress, if others have changed something.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The longest interval in any case, so that both ends notice a lost connection.
const IDLE_INTERVAL: Duration = Duration::from_secs(15);
/// Decoders that are kept: one for each layer of each database.
const DECODERS_MAX: usize = 1000;

/// State that the thread and the follower share.
struct Queue {
    state: Mutex<State>,
    /// There is room again, more to read, or the follower was dropped.
    changed: Condvar,
    wake: Wake,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    bytes: usize,
    /// There is more in the log than when it was looked at.
    has_more: bool,
    /// The follower was dropped.
    is_dropped: bool,
    /// Nothing more will be sent.
    is_over: bool,
}

/// The connection's side.
pub struct Feed {
    queue: Arc<Queue>,
    tenants: Arc<Tenants>,
    scope: Scope,
}

impl Feed {
    /// Starts to send the changes of `range`, from the position of `reader`.
    pub fn start(
        engine: Arc<Engine>,
        tenants: Arc<Tenants>,
        reader: LogReader,
        wishes: FeedOptions,
        range: FeedRange,
        place: Place,
        wake: Wake,
    ) -> std::io::Result<Feed> {
        let FeedRange { from, until } = range;
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            wake,
        });
        let more = Arc::downgrade(&queue);
        reader.on_more(Arc::new(move || {
            if let Some(queue) = more.upgrade() {
                queue.state.lock().has_more = true;
                queue.changed.notify_all();
            }
        }));
        let scope = wishes.scope;
        let database = scope.and_then(|id| tenants.catalogue.numbered(id));
        let telling = EventEncoder {
            engine,
            tenants: tenants.clone(),
            queue: queue.clone(),
            wishes,
            from,
            until,
            moves: database.map_or(0, |database| database.moves()),
            is_interrupted: false,
            seen: from,
            told: from,
            told_at: Instant::now(),
            decoders: HashMap::new(),
            place,
        };
        let thread = std::thread::Builder::new().name("quartet-feed".into());
        thread.spawn(move || telling.run(reader))?;
        Ok(Feed { queue, tenants, scope })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.queue.state.lock().is_dropped = true;
        self.queue.changed.notify_all();
    }
}

impl Follower for Feed {
    fn next(&mut self) -> Following {
        let mut state = self.queue.state.lock();
        match state.parts.pop_front() {
            Some(part) => {
                state.bytes -= part.len();
                drop(state);
                self.queue.changed.notify_all();
                if let Some(database) = self.scope.and_then(|id| self.tenants.catalogue.numbered(id)) {
                    database.meter.transferred(0, part.len());
                }
                Following::Send(part)
            }
            None if state.is_over => Following::End,
            None => Following::Idle,
        }
    }
}

/// The thread's side.
struct EventEncoder {
    engine: Arc<Engine>,
    tenants: Arc<Tenants>,
    queue: Arc<Queue>,
    wishes: FeedOptions,
    /// Changes at or before this version were sent before.
    from: Version,
    /// The database left this log for another partition's there.
    until: Option<Version>,
    /// The count of its moves at the start of the feed.
    moves: u64,
    /// A database has moved into or out of the partition of this feed.
    is_interrupted: bool,
    /// The newest transaction that was looked at, and that of which the client knows.
    seen: Version,
    told: Version,
    told_at: Instant,
    decoders: HashMap<(DatabaseId, LayerId), Box<dyn ChangeDecoder>>,
    place: Place,
}

/// The error of a dropped follower.
struct Dropped;

impl EventEncoder {
    fn run(mut self, reader: LogReader) {
        let end = self.tell_all(reader);
        let queue = self.queue.clone();
        let is_event_stream = self.wishes.is_event_stream;
        // The place is released last: after that nothing here uses the engine.
        let EventEncoder {
            engine, tenants, place, ..
        } = self;
        drop((engine, tenants));
        drop(place);
        let mut state = queue.state.lock();
        if let Ok(error) = end {
            state.parts.push_back(text::end(error, is_event_stream));
            state.bytes += state.parts.back().map_or(0, Vec::len);
        }
        state.is_over = true;
        drop(state);
        queue.wake.notify_one();
    }

    /// Answers why the feed ends.
    fn tell_all(&mut self, mut reader: LogReader) -> Result<&'static str, Dropped> {
        self.tell_progress()?;
        loop {
            if self.queue.state.lock().is_dropped {
                return Err(Dropped);
            }
            if self.is_closed() {
                return Ok("the database is being deleted");
            }
            self.look_for_a_move();
            if self.until.is_some_and(|until| self.seen >= until) {
                self.tell_progress()?;
                return Ok("the database was moved to another partition; continue from the last version");
            }
            if self.is_interrupted {
                self.tell_progress()?;
                return Ok(
                    "a database was moved to this partition or from it; read the present data, and continue from the last version",
                );
            }
            match reader.next() {
                Ok(Some(record)) => self.tell_record(record.payload)?,
                Ok(None) => self.wait_for_more()?,
                Err(LogReadError::TooOld { .. }) => {
                    return Ok("too old: the log no longer has this feed's position; start again");
                }
                Err(error) => {
                    tracing::error!(%error, "the log could not be read for a feed");
                    return Ok("the log cannot be read, see the server's log");
                }
            }
        }
    }

    fn is_closed(&self) -> bool {
        let of = self.wishes.scope.filter(|scope| *scope != DEFAULT_DATABASE);
        of.is_some_and(|id| {
            self.tenants
                .catalogue
                .numbered(id)
                .is_none_or(|database| database.is_closed())
        })
    }

    /// The database's part of this log ends where it has left.
    fn look_for_a_move(&mut self) {
        let database = self.wishes.scope.and_then(|id| self.tenants.catalogue.numbered(id));
        if let Some(database) = database.filter(|database| self.until.is_none() && database.moves() != self.moves) {
            let last = database.definition().moved.filter(|last| last.times == self.moves + 1);
            // The end of the first of several moves is not known any more.
            self.until = Some(last.map_or(self.seen, |last| Version(last.left)));
        }
    }

    fn tell_record(&mut self, payload: &[u8]) -> Result<(), Dropped> {
        let mut transactions = EffectsReader::new(payload);
        // A record was verified at its read; a record that does not parse ends the feed for all
        // readers.
        while let Ok(Some((version, effects))) = transactions.next_transaction() {
            // The log has it a moment before the engine does, and a client may reconnect with this
            // version at once.
            self.engine.wait_durable(version);
            if let Some(until) = self.until.filter(|until| version > *until) {
                self.seen = until;
                return Ok(());
            }
            if self.is_interrupted {
                return Ok(());
            }
            self.seen = version;
            if version > self.from {
                self.tell_transaction(version, effects)?;
            }
        }
        Ok(())
    }

    fn tell_transaction(&mut self, version: Version, mut effects: Effects<'_>) -> Result<(), Dropped> {
        let (mut changes, mut database) = (String::new(), None);
        let mut found = Vec::new();
        while let Some(Ok(effect)) = effects.next() {
            self.is_interrupted |= self.wishes.scope.is_none() && is_place(effect.start());
            let Some((of, layer)) = self.decode(effect, &mut found) else {
                continue;
            };
            for change in found.drain(..) {
                if !change.concerns(&self.wishes.prefix) {
                    continue;
                }
                if changes.len() >= PART_BYTES {
                    self.send(version, of, &std::mem::take(&mut changes), false)?;
                }
                if !changes.is_empty() {
                    changes.push(',');
                }
                changes.push_str(&text::change(layer, change));
                database = Some(of);
            }
        }
        match database {
            Some(database) => self.send(version, database, &changes, true),
            None => Ok(()),
        }
    }

    /// Appends the change of an effect, if the client requested it; returns the effect's database
    /// and layer.
    fn decode(&mut self, effect: Effect<'_>, changes: &mut Vec<Change>) -> Option<(DatabaseId, &'static str)> {
        let (&[high, low, layer], _) = effect.start().split_first_chunk::<SPACE_BYTES>()?;
        let database = DatabaseId(u16::from_be_bytes([high, low]));
        let kind = *self.wishes.layers.iter().find(|kind| kind.id as u8 == layer)?;
        let is_wanted = self.wishes.scope.is_none_or(|scope| scope == database);
        if !is_wanted {
            return None;
        }
        if self.decoders.len() > DECODERS_MAX {
            self.decoders.clear();
        }
        let decoder = self.decoders.entry((database, kind.id)).or_insert_with(kind.changes);
        let space = Space {
            database,
            layer: kind.id,
            durability: Durability::Always,
        };
        let engine = &self.engine;
        let mut reader = || -> Option<Reader> { engine.reader(space).ok() };
        decoder.decode(relative(effect, &space.prefix()), &mut reader, changes);
        Some((database, kind.name))
    }

    fn send(&mut self, version: Version, database: DatabaseId, changes: &str, is_last: bool) -> Result<(), Dropped> {
        let named = match database {
            DEFAULT_DATABASE => "default".to_owned(),
            id => match self.tenants.catalogue.numbered(id) {
                Some(database) => database.definition().name.clone(),
                None => format!("deleted-{}", id.0),
            },
        };
        let part = text::part(version, Some(&named), changes, is_last, self.wishes.is_event_stream);
        self.push(part)?;
        if is_last {
            (self.told, self.told_at) = (version, Instant::now());
        }
        Ok(())
    }

    /// Sends the position of the feed, so that a client can continue from there.
    fn tell_progress(&mut self) -> Result<(), Dropped> {
        let part = text::part(self.seen, None, "", true, self.wishes.is_event_stream);
        self.push(part)?;
        (self.told, self.told_at) = (self.seen, Instant::now());
        Ok(())
    }

    /// Waits while the queue is full.
    fn push(&self, part: Vec<u8>) -> Result<(), Dropped> {
        let mut state = self.queue.state.lock();
        while state.bytes >= QUEUE_BYTES && !state.is_dropped {
            self.queue.changed.wait(&mut state);
        }
        if state.is_dropped {
            return Err(Dropped);
        }
        state.bytes += part.len();
        state.parts.push_back(part);
        drop(state);
        self.queue.wake.notify_one();
        Ok(())
    }

    /// Waits for more, after everything durable was sent.
    fn wait_for_more(&mut self) -> Result<(), Dropped> {
        let interval = if self.seen > self.told {
            PROGRESS_INTERVAL
        } else {
            IDLE_INTERVAL
        };
        let remaining = interval.saturating_sub(self.told_at.elapsed());
        if remaining.is_zero() {
            return self.tell_progress();
        }
        let mut state = self.queue.state.lock();
        if !state.has_more && !state.is_dropped {
            self.queue.changed.wait_for(&mut state, remaining);
        }
        state.has_more = false;
        match state.is_dropped {
            true => Err(Dropped),
            false => Ok(()),
        }
    }
}

/// The effect with keys of the space. A range to the end of the space ends after all keys of
/// clients.
fn relative<'e>(effect: Effect<'e>, prefix: &[u8]) -> Effect<'e> {
    match effect {
        Effect::Set { key, value } => Effect::Set {
            key: &key[SPACE_BYTES..],
            value,
        },
        Effect::Clear { key } => Effect::Clear {
            key: &key[SPACE_BYTES..],
        },
        Effect::ClearRange { start, end } => Effect::ClearRange {
            start: &start[SPACE_BYTES..],
            end: end.strip_prefix(prefix).unwrap_or(&[0xff, 0xff]),
        },
        Effect::Row { key, value, version } => Effect::Row {
            key: &key[SPACE_BYTES..],
            value,
            version,
        },
        Effect::Patch { key, offset, bytes } => Effect::Patch {
            key: &key[SPACE_BYTES..],
            offset,
            bytes,
        },
    }
}
