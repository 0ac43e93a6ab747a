//! The way of FT.SEARCH, FT.AGGREGATE and FT.HYBRID.
//!
//! ```text
//!   words --parse--> plan --execute, stage after stage--> answer --reply--> RESP
//!                                 `--> a report of each stage, for FT.PROFILE
//! ```
//!
//! A plan depends only on the words, the settings and the index's definition. It is executed at the
//! snapshot of the command's transaction. Its first stage is a search: FT.EXPLAIN prints that.
//!
//! A run that takes too long with the lock held ends, and the request runs again where it may take
//! long. Its plan goes with it, and is executed there unless the index was altered or dropped
//! meanwhile.

use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome};
use quartet_search::redis::query::Query;
use quartet_search::time::{Parts, Time};
use quartet_wire_resp::Arguments;

use super::arguments::Common;
use super::content;
use super::lookup::find;
use super::reports::Reports;
use crate::indexes::{Index, Words};
use crate::state::SearchGroups;

/// The phases of a request. Each may end with a part of its results. FT.SEARCH and FT.AGGREGATE
/// have only the last.
pub(super) const PHASES: [&str; 3] = ["SEARCH", "VSIM", "POST PROCESSING"];

/// A request with its index.
pub(super) struct Request<'w> {
    pub index: Arc<Index>,
    /// The words after the index's name.
    pub words: Words<'w>,
    /// FT.PROFILE runs it.
    pub is_profiled: bool,
}

impl<'w> Request<'w> {
    /// Finds the index that the first word names. The check of access needs all arguments.
    pub fn open(
        context: &mut Context<'_, '_>,
        arguments: Arguments<'_>,
        words: &'w [&'w [u8]],
    ) -> Result<Request<'w>, ErrorReply> {
        Ok(Request {
            index: find(context, arguments, words[0], false)?,
            words: Words::new(&words[1..]),
            is_profiled: false,
        })
    }
}

/// The first stage of a plan: the search of an index for the matches of a query.
pub(super) struct QueryStage {
    pub index: Arc<Index>,
    pub query: Query,
}

impl QueryStage {
    /// The query as FT.EXPLAIN shows it.
    pub fn explain(&self) -> String {
        self.query.explain(&self.index.definition.schema)
    }
}

/// A request that was read.
pub(super) trait Plan: Sized + Send + Sync + 'static {
    /// The results, with the memory that they take.
    type Answer<'c>;

    fn parse(context: &Context<'_, '_>, request: Request<'_>) -> Result<Self, ErrorReply>;

    fn index(&self) -> &Arc<Index>;

    fn common(&self) -> &Common;

    /// Runs the stages. Each notes its report.
    fn execute<'c>(
        &self,
        context: &mut Context<'c, '_>,
        run: &mut Execution<'_>,
    ) -> Result<Self::Answer<'c>, ErrorReply>;

    /// Writes the results, and the reports if they are kept.
    fn reply(
        &self,
        context: &mut Context<'_, '_>,
        answer: Self::Answer<'_>,
        run: Execution<'_>,
    ) -> Result<(), ErrorReply>;
}

/// One execution of a plan.
pub(super) struct Execution<'e> {
    pub started_micros: u64,
    /// The time of each phase.
    pub times: [Time<'e>; PHASES.len()],
    pub parts: &'e [Parts<'e>; PHASES.len()],
    /// Says how far the index is, if it is being filled.
    pub filling: Option<String>,
    pub reports: Reports,
}

impl<'e> Execution<'e> {
    /// The time of the last phase.
    pub fn time(&self) -> Time<'e> {
        self.times[PHASES.len() - 1]
    }

    /// The reports, which end with the reply.
    pub fn take_reports(&mut self) -> Reports {
        std::mem::replace(&mut self.reports, Reports::dropped())
    }

    /// Returns true if the last phase ended with a part of its results.
    pub fn was_over(&self) -> bool {
        self.parts[PHASES.len() - 1].was_over()
    }

    /// The warnings of a phase.
    pub fn warnings_of(&self, phase: usize) -> Vec<&str> {
        content::warnings(self.filling.as_deref(), &self.parts[phase])
    }

    /// The warnings of the last phase.
    pub fn warnings(&self) -> Vec<&str> {
        self.warnings_of(PHASES.len() - 1)
    }
}

/// Parses, executes and answers a request. If the request has to run again where it may take long,
/// its plan is kept for that.
pub(super) fn run<P: Plan>(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    words: &[&[u8]],
    mut reports: Reports,
) -> Result<Outcome, ErrorReply> {
    let started_micros = context.engine().now_micros();
    let mut request = Request::open(context, arguments, words)?;
    request.is_profiled = reports.are_kept();
    let kept = context.take_parsed::<P>();
    let plan = match kept.filter(|plan| Arc::ptr_eq(plan.index(), &request.index)) {
        Some(plan) => plan,
        None => Box::new(P::parse(context, request)?),
    };
    reports.is_parsed();
    let outcome = answer(context, plan.as_ref(), started_micros, reports);
    if matches!(outcome, Ok(Outcome::RunLong)) || context.groups.has_used_up_allowance() {
        context.keep_parsed(plan);
    }
    outcome
}

/// Executes a plan and answers its request.
fn answer<P: Plan>(
    context: &mut Context<'_, '_>,
    plan: &P,
    started_micros: u64,
    reports: Reports,
) -> Result<Outcome, ErrorReply> {
    let (index, common) = (plan.index(), plan.common());
    if let Some(outcome) = content::wait(context, index)? {
        return Ok(outcome);
    }
    let filling = content::filling_warning(context, index);
    let is_over = common.clock(context, started_micros);
    let is_late = common.last_clock(context, started_micros);
    let parts = PHASES.map(|_| Parts::until(&is_late));
    let mut execution = Execution {
        started_micros,
        times: parts.each_ref().map(|parts| common.time(&is_over, parts)),
        parts: &parts,
        filling,
        reports,
    };
    let answer = plan.execute(context, &mut execution)?;
    let usage = &context.groups.indexes().usage;
    usage.note_query(&index.head.number, common.dialect);
    plan.reply(context, answer, execution)?;
    Ok(Outcome::Done)
}
