//! FT.PROFILE: a search, an aggregation or both kinds of search combined, with the time of each
//! step.

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome, parse};
use quartet_wire_resp::Arguments;

use super::aggregate::AggregatePlan;
use super::hybrid::HybridPlan;
use super::lookup::words;
use super::plan;
use super::query::SearchPlan;
use super::reports::Reports;
use crate::indexes::refused;

pub fn profile(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words(arguments, 4)?;
    let is_limited = parse::is(words[2], "LIMITED");
    let behind = &words[2 + usize::from(is_limited)..];
    let run = match words[1] {
        word if parse::is(word, "SEARCH") => plan::run::<SearchPlan>,
        word if parse::is(word, "AGGREGATE") => plan::run::<AggregatePlan>,
        word if parse::is(word, "HYBRID") => plan::run::<HybridPlan>,
        _ => return Err(refused("No `SEARCH`, `AGGREGATE`, or `HYBRID` provided")),
    };
    let [word, rest @ ..] = behind else {
        return Err(refused("The QUERY keyword is expected"));
    };
    if !parse::is(word, "QUERY") || rest.is_empty() {
        return Err(refused("The QUERY keyword is expected"));
    }
    let request = [&words[..1], rest].concat();
    let reports = Reports::kept(context, is_limited);
    run(context, arguments, &request, reports)
}
