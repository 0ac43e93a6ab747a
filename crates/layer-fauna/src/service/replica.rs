//! Queries that a node which is not home answers from its replica.
//!
//! They only read, and show nothing of the present: the answer follows from the rows. A query that
//! shows a time after the newest commit, such as `Now`, a new id, or that something has expired, is
//! for the home, which lets no commit land at or below it. A time that some home has shown is below
//! the one in the row of [`shown_times`](super::shown_times), which was in the log before the
//! reply: the present of a replica is never before that, so what a home has shown as expired no
//! replica shows as present.

use quartet_engine::{Busy, Engine, FollowingPeriod, Reader, Space};

use crate::language::expression::Query;
use crate::language::parse;
use crate::service::headers::RequestHeaders;
use crate::service::message::{Request, parse_body};
use crate::service::shown_times::shown_until_micros;
use crate::service::{Fauna, Random, RootSecret, STRANGERS_BODY_BYTES_MAX};
use std::sync::Arc;

/// The home verifies keys and tokens that end within this time by the node's clock: a clock of a
/// cluster differs from the median by less than half of it.
const CLOCKS_DIFFER_MICROS: u64 = 2_000_000;

impl Fauna {
    /// The layer at a node that is not home, in a period of it.
    pub fn at_replica(
        engine: Arc<Engine>,
        space: Space,
        root_secret: RootSecret,
        random: Random,
        period: FollowingPeriod,
    ) -> Fauna {
        Fauna {
            replica: Some(period),
            ..Fauna::over(engine, space, root_secret, random)
        }
    }

    pub(super) fn replica_reader(&self, period: FollowingPeriod) -> Result<Reader, Busy> {
        let mut reader = self.engine.replica_reader(self.space, period)?;
        reader.present_micros = reader.present_micros.max(shown_until_micros(&reader));
        Ok(reader)
    }

    /// Returns true if only a home runs the query.
    pub(super) fn is_for_home(&self, query: &Query) -> bool {
        self.replica.is_some() && (query.may_write || self.rate_limits.are_set())
    }

    /// Time for which a key or a token must remain valid.
    pub(super) fn credential_margin_micros(&self) -> u64 {
        self.replica.map_or(0, |_| CLOCKS_DIFFER_MICROS)
    }
}

/// Returns true if the request is a query that only reads.
pub fn only_reads(request: &Request<'_>) -> bool {
    let headers = RequestHeaders::new(request.headers);
    let path = request.target.split('?').next().unwrap_or_default();
    let is_query = matches!((request.method, path), ("POST", "/" | "/linearized"));
    if !is_query || headers.check().is_err() || request.body.len() > STRANGERS_BODY_BYTES_MAX {
        return false;
    }
    let query = parse_body(request.body).and_then(|json| parse::query(&json, headers.api_version()));
    query.is_ok_and(|query| !query.may_write)
}
