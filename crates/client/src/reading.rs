//! Reads that merge the transaction's own writes with stored values.
//!
//! A read sees the writes at the time of its call: it holds them by an `Arc`, and a later write
//! makes its own copy. A range is read in pieces: each piece of the stored rows is complete between
//! its first and last key, so own writes in between can be merged in, and cleared parts are never
//! requested.

use std::sync::Arc;

use quartet_wire_keyvalue::{ErrorCode, RangeReply, RangeRequest, Request, Selector as WireSelector};
use tokio::sync::oneshot;

use crate::attempt::{Attempt, StoredValue, TakeValue};
use crate::connection::code_of_read;
use crate::writes::{Writes, Written};
use crate::{SYSTEM_KEYS_END, key_after};

/// Names a key by its place: the last key before `key` (or at it, if `or_equal`), and then `offset`
/// keys on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The key to start at.
    pub key: Vec<u8>,
    /// `key` itself counts as before.
    pub or_equal: bool,
    /// Number of keys to advance from the previous key; negative: backwards.
    pub offset: i32,
}

impl Selector {
    /// Names the last key before `key`.
    pub fn last_less_than(key: &[u8]) -> Selector {
        Selector::new(key, false, 0)
    }

    /// Names `key`, or the last key before it.
    pub fn last_less_or_equal(key: &[u8]) -> Selector {
        Selector::new(key, true, 0)
    }

    /// Names the first key after `key`.
    pub fn first_greater_than(key: &[u8]) -> Selector {
        Selector::new(key, true, 1)
    }

    /// Names `key`, or the first key after it.
    pub fn first_greater_or_equal(key: &[u8]) -> Selector {
        Selector::new(key, false, 1)
    }

    /// Returns the selector of these parts.
    pub fn new(key: &[u8], or_equal: bool, offset: i32) -> Selector {
        Selector {
            key: key.to_vec(),
            or_equal,
            offset,
        }
    }

    fn wire(&self) -> WireSelector<'_> {
        WireSelector {
            key: &self.key,
            or_equal: self.or_equal,
            offset: self.offset,
        }
    }

    /// The key that the offset counts from, as if nothing could be equal.
    fn base(&self) -> Vec<u8> {
        if self.or_equal {
            key_after(&self.key)
        } else {
            self.key.clone()
        }
    }
}

/// Limits and direction of a range read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeOptions {
    /// Most rows; 0: no limit.
    pub rows_max: usize,
    /// The row that reaches this many bytes is the last; 0: no limit.
    pub bytes_max: usize,
    /// Rows are returned from the end, in descending order.
    pub reverse: bool,
}

/// Rows of a range, in the requested order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Keys and their values.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// A limit ended it: there may be more.
    pub more: bool,
}

/// Overhead of a row beside its key and value in the caller's limit. The server counts 24 bytes, as
/// the original's does, so a limit is mostly reached there.
const ROW_BYTES: usize = 8;
/// Largest requested piece of a range in bytes, for reads without and with a byte limit.
const PIECE_BYTES: usize = 512 << 10;
const LIMITED_PIECE_BYTES: usize = 80_000;

/// The state seen by one read.
pub(crate) struct View {
    pub attempt: Arc<Attempt>,
    pub writes: Arc<Writes>,
    /// The first key out of reach.
    pub end: &'static [u8],
    pub bypass_unreadable: bool,
    /// Reads become part of the commit's read conflicts.
    pub conflicts: bool,
}

impl View {
    /// The value of a key for a transaction without writes of its own.
    pub fn is_stored(&self) -> bool {
        self.writes.is_empty()
    }

    /// Passes `take` the stored value of a key.
    pub fn take_stored(&self, key: &[u8], take: TakeValue) {
        let system = self.end == SYSTEM_KEYS_END;
        self.attempt.get(key, system, self.conflicts, take);
    }

    async fn stored(&self, key: &[u8]) -> Result<Option<StoredValue>, ErrorCode> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        self.take_stored(key, Box::new(move |value| drop(sender.send(value))));
        receiver.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE))
    }

    /// The value of a key that the transaction may have written.
    pub async fn get(&self, key: &[u8]) -> Result<Option<StoredValue>, ErrorCode> {
        self.check_readable(key, &key_after(key))?;
        match self.writes.of_key(key) {
            Some(Written::Unreadable(_)) if !self.bypass_unreadable => Err(ErrorCode::ACCESSED_UNREADABLE),
            Some(written) if !written.needs_stored() => Ok(written.value(None).map(StoredValue::from)),
            Some(written) => {
                let stored = self.stored(key).await?;
                Ok(written.value(stored.as_deref()).map(StoredValue::from))
            }
            None => self.stored(key).await,
        }
    }

    pub async fn get_key(&self, selector: &Selector) -> Result<Vec<u8>, ErrorCode> {
        let key = self.resolve(selector).await?;
        if self.conflicts {
            let base = selector.base();
            match selector.offset >= 1 {
                true => self.depend_on(&base, &key_after(&key)),
                false => self.depend_on(&key, &base),
            }
        }
        Ok(key)
    }

    /// The key that a selector names among stored rows and own writes: `""` before the first, `end`
    /// after the last.
    async fn resolve(&self, selector: &Selector) -> Result<Vec<u8>, ErrorCode> {
        if self.writes.is_empty() {
            let version = self.attempt.version().await?;
            let request = Request::GetKey {
                version: version.version,
                selector: selector.wire(),
                system: self.end == SYSTEM_KEYS_END,
            };
            return self
                .attempt
                .connection
                .ask_at(&version, &request)
                .await
                .map_err(code_of_read);
        }
        let base = selector.base();
        let reverse = selector.offset < 1;
        let steps = i64::from(selector.offset);
        let rows_max = if reverse { 1 - steps } else { steps };
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let options = RangeOptions {
            rows_max,
            bytes_max: 0,
            reverse,
        };
        let (start, end) = if reverse {
            (&b""[..], &base[..])
        } else {
            (&base[..], self.end)
        };
        let rows = self.merged(start, end, options).await?.rows;
        Ok(match rows.into_iter().nth(rows_max - 1) {
            Some((key, _)) => key,
            None if reverse => Vec::new(),
            None => self.end.to_vec(),
        })
    }

    pub async fn get_range(&self, begin: &Selector, end: &Selector, options: RangeOptions) -> Result<Rows, ErrorCode> {
        let Some(located) = self.located(begin, end).await? else {
            return Ok(Rows::default());
        };
        let rows = located.rows(self, options).await?;
        if self.conflicts {
            let (first, last) = located.span(&rows, options.reverse);
            self.depend_on(&first, last.as_slice().min(self.end));
        }
        Ok(rows)
    }

    /// Where the range of two selectors lies; `None` if it is empty whatever there is.
    pub async fn located<'s>(
        &self,
        begin: &'s Selector,
        end: &'s Selector,
    ) -> Result<Option<LocatedRange<'s>>, ErrorCode> {
        if begin.offset >= end.offset && begin.base() >= end.base() {
            return Ok(None);
        }
        Ok(Some(LocatedRange {
            start: self.bound(begin).await?,
            stop: self.bound(end).await?,
            begin,
            end,
        }))
    }

    fn is_plain(&self, selector: &Selector) -> bool {
        selector.offset == 1 && selector.key.as_slice() <= self.end
    }

    /// Resolves a bound of a range. The first key at or after a key needs no look-up.
    async fn bound(&self, selector: &Selector) -> Result<Vec<u8>, ErrorCode> {
        match self.is_plain(selector) {
            true => Ok(selector.base().min(self.end.to_vec())),
            false => self.resolve(selector).await,
        }
    }

    /// Rows of `start..end`, stored and own.
    async fn merged(&self, start: &[u8], end: &[u8], options: RangeOptions) -> Result<Rows, ErrorCode> {
        let mut gathered = Gathered::new(options);
        let (whole_start, whole_end) = (start, end);
        let (mut start, mut end) = (start.to_vec(), end.to_vec());
        let mut requests = 0;
        while start < end {
            let (stop, piece) = match self.cleared_piece(&start, &end, options.reverse) {
                Some(stop) => (stop, Vec::new()),
                // A piece has returned rows, and the byte limit needs no second piece.
                None if gathered.is_enough() => {
                    gathered.rows.more = true;
                    break;
                }
                None => {
                    requests += 1;
                    self.stored_piece(&start, &end, &gathered, requests).await?
                }
            };
            let (from, to) = match options.reverse {
                false => (start.clone(), stop.clone()),
                true => (stop.clone(), end.clone()),
            };
            let is_full = self.merge_piece(&from, &to, piece, &mut gathered)?;
            match options.reverse {
                false => start = stop,
                true => end = stop,
            }
            if is_full {
                break;
            }
        }
        let rows = gathered.rows;
        let (first, last) = covered(whole_start, whole_end, &rows, options.reverse);
        self.check_readable(&first, &last)?;
        Ok(rows)
    }

    /// The end of the cleared range at the start of `start..end`, in the direction of the read.
    fn cleared_piece(&self, start: &[u8], end: &[u8], reverse: bool) -> Option<Vec<u8>> {
        let stop = match reverse {
            false => self.writes.cleared_at(start)?.1.min(end),
            true => self.writes.cleared_before(end)?.0.max(start),
        };
        Some(stop.to_vec())
    }

    /// The next stored rows, in order, and the key up to which there are no others. `requests` is
    /// the number of requests.
    async fn stored_piece(
        &self,
        start: &[u8],
        end: &[u8],
        gathered: &Gathered,
        requests: u32,
    ) -> Result<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>), ErrorCode> {
        let reverse = gathered.options.reverse;
        let version = self.attempt.version().await?;
        let request = RangeRequest {
            version: version.version,
            begin: WireSelector::first_at_or_after(start),
            end: WireSelector::first_at_or_after(end),
            rows_max: gathered.rows_to_ask(&self.writes),
            bytes_max: gathered.bytes_to_ask(requests),
            reverse,
            system: self.end == SYSTEM_KEYS_END,
        };
        let body = self
            .attempt
            .connection
            .ask_at(&version, &Request::GetRange(request))
            .await;
        let body = body.map_err(code_of_read)?;
        let reply = RangeReply::parse(&body).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
        let rows: Vec<_> = reply
            .rows()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        let stop = match (reply.more, rows.last(), reverse) {
            (true, Some((key, _)), false) => key_after(key),
            (true, Some((key, _)), true) => key.clone(),
            (_, _, false) => end.to_vec(),
            (_, _, true) => start.to_vec(),
        };
        Ok((stop, rows))
    }

    /// Merges the stored rows of `start..end`, which are all there are, with own writes. True if a
    /// limit was reached.
    fn merge_piece(
        &self,
        start: &[u8],
        end: &[u8],
        stored: Vec<(Vec<u8>, Vec<u8>)>,
        gathered: &mut Gathered,
    ) -> Result<bool, ErrorCode> {
        let reverse = gathered.options.reverse;
        let mut own: Box<dyn Iterator<Item = (&Vec<u8>, &Written)>> = match reverse {
            false => Box::new(self.writes.keys_in(start, end)),
            true => Box::new(self.writes.keys_in(start, end).rev()),
        };
        let mut next_own = own.next();
        let mut stored = stored.into_iter();
        let mut next_stored = stored.next();
        loop {
            let own_first = match (&next_own, &next_stored) {
                (None, None) => return Ok(false),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own_key, _)), Some((key, _))) if reverse => *own_key >= key,
                (Some((own_key, _)), Some((key, _))) => *own_key <= key,
            };
            let row = if own_first {
                let Some((key, written)) = next_own.take() else {
                    continue;
                };
                next_own = own.next();
                let base = next_stored.take_if(|(stored_key, _)| stored_key == key);
                if base.is_some() {
                    next_stored = stored.next();
                }
                if matches!(written, Written::Unreadable(_)) && !self.bypass_unreadable {
                    return Err(ErrorCode::ACCESSED_UNREADABLE);
                }
                let base = base.map(|(_, value)| value);
                written.value(base.as_deref()).map(|value| (key.clone(), value))
            } else {
                let row = next_stored.take();
                next_stored = stored.next();
                row.filter(|(key, _)| self.writes.cleared_at(key).is_none())
            };
            if let Some((key, value)) = row
                && gathered.push(key, value)
            {
                return Ok(true);
            }
        }
    }

    /// Fails if something of `start..end` depends on the versionstamp.
    fn check_readable(&self, start: &[u8], end: &[u8]) -> Result<(), ErrorCode> {
        if self.bypass_unreadable || self.writes.is_empty() {
            return Ok(());
        }
        if self.writes.is_unreadable(start, end) {
            Err(ErrorCode::ACCESSED_UNREADABLE)
        } else {
            Ok(())
        }
    }

    /// Adds a dependency of the commit on the stored values of `start..end`, except where the
    /// transaction's own writes decide.
    fn depend_on(&self, start: &[u8], end: &[u8]) {
        self.attempt.with_read_conflicts(|conflicts| {
            if self.writes.is_empty() {
                return conflicts.add(start, end);
            }
            conflicts.add_parts(start, end, &self.writes.depended_on(start, end));
        });
    }
}

/// A range, and the keys that its selectors name.
pub(crate) struct LocatedRange<'s> {
    begin: &'s Selector,
    start: Vec<u8>,
    end: &'s Selector,
    stop: Vec<u8>,
}

impl LocatedRange<'_> {
    pub async fn rows(&self, view: &View, options: RangeOptions) -> Result<Rows, ErrorCode> {
        view.merged(&self.start, &self.stop, options).await
    }

    /// The conflict range of these rows: everything from where they begin to where they stop, and
    /// the keys that the selectors passed.
    pub fn span(&self, read: &Rows, reverse: bool) -> (Vec<u8>, Vec<u8>) {
        let mut first = self.start.clone().min(self.begin.base());
        let last = self.stop.clone().max(self.end.base());
        if self.begin.offset < 1 {
            first = self.start.clone();
        }
        covered(&first, &last, read, reverse)
    }
}

/// Rows on their way to the caller, within limits.
struct Gathered {
    options: RangeOptions,
    rows: Rows,
    bytes: usize,
}

impl Gathered {
    fn new(options: RangeOptions) -> Gathered {
        Gathered {
            options,
            rows: Rows::default(),
            bytes: 0,
        }
    }

    /// Returns true if this was the last row.
    fn push(&mut self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.bytes += key.len() + value.len() + ROW_BYTES;
        self.rows.rows.push((key, value));
        let RangeOptions {
            rows_max, bytes_max, ..
        } = self.options;
        self.rows.more = rows_max > 0 && self.rows.rows.len() >= rows_max || bytes_max > 0 && self.bytes >= bytes_max;
        self.rows.more
    }

    /// Number of rows to request: own writes may hide stored rows, so a transaction with writes
    /// requests more than are missing.
    fn rows_to_ask(&self, writes: &Writes) -> u32 {
        if self.options.rows_max == 0 {
            return 0;
        }
        let missing = self.options.rows_max - self.rows.rows.len();
        let spare = if writes.is_empty() { 0 } else { 16 };
        u32::try_from(missing + spare).unwrap_or(0)
    }

    /// Number of bytes to request, which doubles after a piece whose rows own writes have hidden.
    fn bytes_to_ask(&self, requests: u32) -> u32 {
        let bytes = match self.options.bytes_max {
            0 => PIECE_BYTES,
            bytes => bytes
                .saturating_mul(1 << (requests - 1).min(20))
                .min(LIMITED_PIECE_BYTES),
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// There are rows, and a limit of bytes: the next piece is for the next request.
    fn is_enough(&self) -> bool {
        self.options.bytes_max > 0 && !self.rows.rows.is_empty()
    }
}

/// The part of a range that its rows cover: less than all of it if a limit ended them.
fn covered(start: &[u8], end: &[u8], read: &Rows, reverse: bool) -> (Vec<u8>, Vec<u8>) {
    match read.rows.last() {
        Some((key, _)) if read.more && !reverse => (start.to_vec(), key_after(key)),
        Some((key, _)) if read.more => (key.clone(), end.to_vec()),
        _ => (start.to_vec(), end.to_vec()),
    }
}
