//! Mapped ranges: each row of a range, and the query that a mapper makes of it.
//!
//! Evaluated here, over ordinary reads of the same version. The original's refusals are kept:
//! snapshot reads, transactions that do not read their own writes, and ranges in
//! which the transaction has written.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use quartet_wire_keyvalue::ErrorCode;

use crate::mapper::{Mapper, Query, end_of_prefix};
use crate::reading::{RangeOptions, Selector, View};
use crate::writes::Writes;
use crate::{Transaction, key_after, special};

/// Queries of one mapped range that are under way at once.
const QUERIES_MAX: usize = 64;
/// Overhead of a row in a limit of bytes, beside its key and value.
const ROW_BYTES: usize = 24;

/// A row of a range, and what its query found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRow {
    /// The row's own key.
    pub key: Vec<u8>,
    /// The row's own value.
    pub value: Vec<u8>,
    /// The outcome of its query.
    pub mapped: Mapped,
}

/// The outcome of the query of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// The mapper names one key.
    Value {
        /// The key.
        key: Vec<u8>,
        /// Its value; `None` if there is none.
        value: Option<Vec<u8>>,
    },
    /// The mapper names the keys with a prefix.
    Range {
        /// The prefix, which is the first of them.
        begin: Vec<u8>,
        /// The first key after them.
        end: Vec<u8>,
        /// All rows with the prefix, in ascending order.
        rows: Vec<(Vec<u8>, Vec<u8>)>,
    },
}

/// Rows of a mapped range, in the order they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappedRows {
    /// Each with the whole outcome of its query.
    pub rows: Vec<MappedRow>,
    /// A limit ended it: there may be more.
    pub more: bool,
}

impl MappedRow {
    fn bytes(&self) -> usize {
        let mapped = match &self.mapped {
            Mapped::Value { key, value } => key.len() + value.as_ref().map_or(0, Vec::len),
            Mapped::Range { rows, .. } => rows
                .iter()
                .map(|(key, value)| key.len() + value.len() + ROW_BYTES)
                .sum(),
        };
        self.key.len() + self.value.len() + ROW_BYTES + mapped
    }

    /// Returns the keys that its query read.
    fn span(&self) -> (Vec<u8>, Vec<u8>) {
        match &self.mapped {
            Mapped::Value { key, .. } => (key.clone(), key_after(key)),
            Mapped::Range { begin, end, .. } => (begin.clone(), end.clone()),
        }
    }
}

impl Transaction {
    /// Reads the rows from `begin` to before `end` as `get_range` does, and for each of them what
    /// the mapper names. The limits count both; a row comes with the whole outcome of its query.
    /// Errors: `UNSUPPORTED_OPERATION` for a snapshot read, or without reading own writes;
    /// `MAPPED_RANGE_READS_YOUR_WRITES` if the transaction has written what is read.
    pub fn get_mapped_range(
        &self,
        begin: &Selector,
        end: &Selector,
        mapper: &[u8],
        options: RangeOptions,
        snapshot: bool,
    ) -> impl Future<Output = Result<MappedRows, ErrorCode>> + Send + use<> {
        let (begin, end) = (begin.clone(), end.clone());
        let result = self
            .begin_mapped(&begin, &end, snapshot)
            .map(|(view, own)| (view.attempt.begin_read(), view, own));
        let mapper = Mapper::parse(mapper);
        async move {
            let (under_way, view, own) = result?;
            let rows = async {
                let rows = mapped_rows(&view, &begin, &end, &mapper?, options).await?;
                depend_on(&view, &own, &rows)?;
                Ok(rows.rows)
            };
            under_way.outcome(rows).await
        }
    }

    /// Returns the stored state, which the queries see, and the transaction's own writes.
    fn begin_mapped(&self, begin: &Selector, end: &Selector, snapshot: bool) -> Result<(View, Arc<Writes>), ErrorCode> {
        if special::is_special_range(&begin.key, &end.key) {
            return Err(ErrorCode::CLIENT_INVALID_OPERATION);
        }
        let mut state = self.state();
        state.check_operation()?;
        state.check_selector(begin)?;
        state.check_selector(end)?;
        if snapshot || state.options.read_your_writes_disabled {
            return Err(ErrorCode::UNSUPPORTED_OPERATION);
        }
        state.has_begun = true;
        let own = state.shown_writes().clone();
        let view = View {
            attempt: state.attempt.clone(),
            writes: Arc::default(),
            end: state.options.end_of_readable(),
            bypass_unreadable: state.options.bypass_unreadable,
            conflicts: false,
        };
        Ok((view, own))
    }
}

/// Rows, and the range that they are all of.
struct Found {
    rows: MappedRows,
    span: (Vec<u8>, Vec<u8>),
}

async fn mapped_rows(
    view: &View,
    begin: &Selector,
    end: &Selector,
    mapper: &Mapper,
    options: RangeOptions,
) -> Result<Found, ErrorCode> {
    let Some(located) = view.located(begin, end).await? else {
        return Ok(Found {
            rows: MappedRows::default(),
            span: Default::default(),
        });
    };
    let mut read = located.rows(view, options).await?;
    let mut rows = MappedRows {
        rows: Vec::with_capacity(read.rows.len()),
        more: read.more,
    };
    let mut bytes = 0;
    'read: for chunk in read.rows.chunks(QUERIES_MAX) {
        for row in mapped_together(view, mapper, chunk).await? {
            bytes += row.bytes();
            rows.rows.push(row);
            if options.bytes_max > 0 && bytes >= options.bytes_max {
                break 'read;
            }
        }
    }
    if rows.rows.len() < read.rows.len() {
        rows.more = true;
        read.more = true;
        read.rows.truncate(rows.rows.len());
    }
    Ok(Found {
        span: located.span(&read, options.reverse),
        rows,
    })
}

/// Asks the queries of several rows at once.
async fn mapped_together(
    view: &View,
    mapper: &Mapper,
    rows: &[(Vec<u8>, Vec<u8>)],
) -> Result<Vec<MappedRow>, ErrorCode> {
    type Asked<'a> = Pin<Box<dyn Future<Output = Result<Mapped, ErrorCode>> + Send + 'a>>;
    let mut lookups: Vec<(Asked<'_>, Option<Mapped>)> = Vec::with_capacity(rows.len());
    for (key, value) in rows {
        let query = mapper.query(key, value)?;
        lookups.push((Box::pin(outcome(view, query)), None));
    }
    poll_fn(|context| {
        let mut is_whole = true;
        for (query, outcome) in lookups.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            match query.as_mut().poll(context) {
                Poll::Ready(Ok(mapped)) => *outcome = Some(mapped),
                Poll::Ready(Err(code)) => return Poll::Ready(Err(code)),
                Poll::Pending => is_whole = false,
            }
        }
        match is_whole {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await?;
    let outcomes = lookups.into_iter().filter_map(|(_, outcome)| outcome);
    let rows = rows.iter().zip(outcomes).map(|((key, value), mapped)| MappedRow {
        key: key.clone(),
        value: value.clone(),
        mapped,
    });
    Ok(rows.collect())
}

async fn outcome(view: &View, query: Query) -> Result<Mapped, ErrorCode> {
    let prefix = match query {
        Query::Key(key) => {
            let value = match key.as_slice() < view.end {
                true => view.get(&key).await?.map(|value| value.to_vec()),
                false => return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE),
            };
            return Ok(Mapped::Value { key, value });
        }
        Query::Prefix(prefix) => prefix,
    };
    let end = end_of_prefix(&prefix).map_or(view.end.to_vec(), |end| end.min(view.end.to_vec()));
    let (first, last) = (
        Selector::first_greater_or_equal(&prefix),
        Selector::first_greater_or_equal(&end),
    );
    let rows = view.get_range(&first, &last, RangeOptions::default()).await?.rows;
    Ok(Mapped::Range {
        begin: prefix,
        end,
        rows,
    })
}

/// All that was read becomes part of the commit's read conflicts; nothing of it may be what the
/// transaction itself has written.
fn depend_on(view: &View, own: &Writes, range: &Found) -> Result<(), ErrorCode> {
    let queries = range.rows.rows.iter().map(MappedRow::span);
    let spans: Vec<_> = std::iter::once(range.span.clone()).chain(queries).collect();
    if spans.iter().any(|(start, end)| own.touches(start, end)) {
        return Err(ErrorCode::MAPPED_RANGE_READS_YOUR_WRITES);
    }
    view.attempt.with_read_conflicts(|conflicts| {
        for (start, end) in &spans {
            conflicts.add(start, end);
        }
    });
    Ok(())
}
