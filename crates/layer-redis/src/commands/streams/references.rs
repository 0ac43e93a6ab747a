//! Groups' references to entries that go: KEEPREF, DELREF and ACKED of Redis 8.2, XDELEX and
//! XACKDEL.
//!
//! A group refers to an entry while it has not been given it, or while it is pending. Follows
//! <https://redis.io/docs/latest/commands/xdelex/> and
//! <https://redis.io/docs/latest/commands/xackdel/>. That ACKED trims past entries which are
//! referred to, down to the limit, is how XTRIM's page is read here.

use std::ops::{ControlFlow, RangeInclusive};

use quartet_engine::Transaction;
use quartet_wire_resp::Arguments;

use super::groups::Group;
use super::id::{self, StreamId};
use super::stream::{Keep, Stream, Trim};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::{command::errors, command::parse};

/// Entries looked at between two changes while trimming.
const PAGE: usize = 128;
const ABSENT: i64 = -1;
const DELETED: i64 = 1;
/// Not deleted, because a group refers to it.
const REFERENCED: i64 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Pending entries stay pending without their entry, as with XDEL.
    #[default]
    Keep,
    /// They go with the entry.
    Drop,
    /// Only an entry that no group refers to goes.
    Acknowledged,
}

impl Policy {
    pub fn of(word: &[u8]) -> Option<Policy> {
        let words = [
            ("keepref", Policy::Keep),
            ("delref", Policy::Drop),
            ("acked", Policy::Acknowledged),
        ];
        let row = words.iter().find(|(name, _)| parse::is(word, name));
        row.map(|(_, policy)| *policy)
    }
}

/// All that may refer to a stream's entries.
struct References(Vec<Group>);

impl References {
    /// Empty, without a look-up, unless the policy needs them.
    fn of(stream: &Stream, tx: &mut Transaction<'_>, policy: Policy) -> References {
        match policy {
            Policy::Keep => References(Vec::new()),
            Policy::Drop | Policy::Acknowledged => References(stream.groups(tx)),
        }
    }

    fn refer_to(&self, tx: &mut Transaction<'_>, id: StreamId) -> bool {
        let mut groups = self.0.iter();
        groups.any(|group| group.last < id || group.pending(tx, id).is_some())
    }

    fn forget(&self, tx: &mut Transaction<'_>, id: StreamId) {
        for group in &self.0 {
            group.settle(tx, id);
        }
    }

    fn forget_range(&self, tx: &mut Transaction<'_>, range: RangeInclusive<StreamId>) {
        for group in &self.0 {
            group.each_pending(tx, None, range.clone(), &mut |tx, id, _| {
                group.settle(tx, id);
                ControlFlow::Continue(())
            });
        }
    }

    /// The last ID that every group was given.
    fn given_to_all(&self) -> StreamId {
        let last = self.0.iter().map(|group| group.last).min();
        last.unwrap_or(StreamId::MAX)
    }
}

impl Stream {
    /// Removes old entries, as far as `policy` lets them go. Returns how many.
    pub fn trim_by(&mut self, tx: &mut Transaction<'_>, trim: &Trim, policy: Policy) -> u64 {
        if policy == Policy::Acknowledged {
            return self.trim_acknowledged(tx, trim);
        }
        let references = References::of(self, tx, policy);
        let first = self.first;
        let removed = self.trim(tx, trim);
        if removed > 0 {
            let last_retained = if self.length > 0 { self.first.previous() } else { None };
            references.forget_range(tx, first..=last_retained.unwrap_or(self.last));
        }
        removed
    }

    /// Trims entry by entry, even if whole nodes would do: referenced entries stay in between.
    fn trim_acknowledged(&mut self, tx: &mut Transaction<'_>, trim: &Trim) -> u64 {
        let references = References::of(self, tx, Policy::Acknowledged);
        let limit = trim.limit.filter(|_| trim.approximate).unwrap_or(u64::MAX);
        let length_min = match trim.keep {
            Keep::Length(length) => length,
            Keep::From(_) => 0,
        };
        let end = match trim.keep {
            Keep::Length(_) => Some(references.given_to_all()),
            Keep::From(id) => id.previous().map(|end| end.min(references.given_to_all())),
        };
        let (mut next, mut removed) = (end.map(|_| StreamId::ZERO), 0);
        while let Some((start, end)) = next.zip(end) {
            let page = self.page(tx, start..=end);
            next = page.last().filter(|_| page.len() == PAGE).and_then(|id| id.next());
            for id in page {
                if self.length <= length_min || removed >= limit {
                    return removed;
                }
                if !references.refer_to(tx, id) {
                    removed += u64::from(self.delete(tx, id));
                }
            }
        }
        removed
    }

    fn page(&self, tx: &mut Transaction<'_>, range: RangeInclusive<StreamId>) -> Vec<StreamId> {
        let mut page = Vec::new();
        self.scan(tx, range, false, &mut |id, _| {
            page.push(id);
            if page.len() < PAGE {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        page
    }
}

pub fn xdelex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (policy, ids) = request(arguments.tail(2))?;
    let mut keys = context.keys();
    let Some(mut stream) = Stream::find(&mut keys, &arguments[1])? else {
        answer(context, &vec![ABSENT; ids.len()]);
        return Ok(());
    };
    let references = References::of(&stream, keys.tx, policy);
    let length = stream.length;
    let became: Vec<i64> = ids
        .iter()
        .map(|&id| delete(&mut stream, keys.tx, &references, policy, id))
        .collect();
    if stream.length < length {
        stream.write(&mut keys, &arguments[1]);
    }
    answer(context, &became);
    Ok(())
}

fn delete(stream: &mut Stream, tx: &mut Transaction<'_>, references: &References, policy: Policy, id: StreamId) -> i64 {
    match policy {
        Policy::Keep => {}
        Policy::Drop => references.forget(tx, id),
        Policy::Acknowledged if stream.edge(tx, id..=id, false).is_none() => return ABSENT,
        Policy::Acknowledged if references.refer_to(tx, id) => return REFERENCED,
        Policy::Acknowledged => {}
    }
    if stream.delete(tx, id) { DELETED } else { ABSENT }
}

pub fn xackdel(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (policy, ids) = request(arguments.tail(3))?;
    let mut keys = context.keys();
    let stream_and_group = Stream::find(&mut keys, &arguments[1])?.and_then(|stream| {
        let group = stream.group(keys.tx, &arguments[2])?;
        Some((stream, group))
    });
    let Some((mut stream, group)) = stream_and_group else {
        answer(context, &vec![ABSENT; ids.len()]);
        return Ok(());
    };
    let references = References::of(&stream, keys.tx, policy);
    let length = stream.length;
    let mut became = Vec::with_capacity(ids.len());
    for id in ids {
        became.push(if !group.settle(keys.tx, id) {
            ABSENT
        } else if delete(&mut stream, keys.tx, &references, policy, id) == REFERENCED {
            REFERENCED
        } else {
            // Also if the entry was deleted before.
            DELETED
        });
    }
    if stream.length < length {
        stream.write(&mut keys, &arguments[1]);
    }
    answer(context, &became);
    Ok(())
}

fn answer(context: &mut Context<'_, '_>, became: &[i64]) {
    context.reply.array(became.len());
    became.iter().for_each(|&became| context.reply.integer(became));
}

/// `[KEEPREF | DELREF | ACKED] IDS count id...`, in any order.
fn request(words: Arguments<'_>) -> Result<(Policy, Vec<StreamId>), ErrorReply> {
    let (mut policy, mut ids, mut at) = (None, None, 0);
    while let Some(word) = words.get(at) {
        if let Some(found) = Policy::of(word).filter(|_| policy.is_none()) {
            policy = Some(found);
            at += 1;
        } else if parse::is(word, "ids") && ids.is_none() {
            let found = counted_ids(words.tail(at + 1))?;
            at += 2 + found.len();
            ids = Some(found);
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok((policy.unwrap_or_default(), ids.ok_or(errors::SYNTAX)?))
}

fn counted_ids(words: Arguments<'_>) -> Result<Vec<StreamId>, ErrorReply> {
    let count = words.get(0).ok_or(errors::SYNTAX)?;
    let count = parse::required_integer(count)
        .ok()
        .and_then(|count| usize::try_from(count).ok());
    let count = count
        .filter(|&count| count > 0)
        .ok_or("ERR Number of IDs must be a positive integer")?;
    if count >= words.len() {
        return Err("ERR The `numids` parameter must match the number of arguments".into());
    }
    let ids = words.iter().skip(1).take(count);
    ids.map(|word| id::exact(word, 0)).collect()
}
