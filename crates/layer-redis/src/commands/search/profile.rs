//! FT.PROFILE: a search or an aggregation with what its steps took.
//!
//! The answer has the form of 8.x: the results, and a profile of one shard whose conditions and
//! stages have the original's names. Times are measured, and hold those of the conditions below
//! them. Stages that go hand in hand here have one time: the first of them has it, the others zero.

use quartet_search::search::{Clock, Found, Step};
use quartet_wire_resp::{Arguments, Protocol};

use super::lookup::words;
use super::query::TIME_WAS_OVER;
use super::{aggregate, query};
use crate::command::parse;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::refused;

pub struct Profile {
    micros: Box<dyn Fn() -> u64>,
    clock: Clock,
    /// Children of unions are counted and not shown.
    is_limited: bool,
    started_micros: u64,
    parsed_micros: u64,
    last_micros: u64,
    steps: Option<Step>,
    /// Stages behind the index: a name, how many documents, and how long it took.
    stages: Vec<(String, u64, u64)>,
}

impl Profile {
    fn new(context: &Context<'_, '_>, is_limited: bool) -> Profile {
        let (engine, of_clock) = (context.engine().clone(), context.engine().clone());
        let now_micros = engine.now_micros();
        Profile {
            micros: Box::new(move || engine.now_micros()),
            clock: Clock::new(move || of_clock.now_micros()),
            is_limited,
            started_micros: now_micros,
            parsed_micros: now_micros,
            last_micros: now_micros,
            steps: None,
            stages: Vec::new(),
        }
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn lap_micros(&mut self) -> u64 {
        let now_micros = (self.micros)();
        let lap_micros = now_micros.saturating_sub(self.last_micros);
        self.last_micros = now_micros;
        lap_micros
    }

    /// The request was read.
    pub fn is_parsed(&mut self) {
        self.lap_micros();
        self.parsed_micros = self.last_micros;
    }

    /// The index was searched; `behind` are the stages that go hand in hand with that, with the
    /// results of each.
    pub fn is_searched(&mut self, found: &mut Found, behind: &[(&str, u64)]) {
        self.steps = found.steps.take();
        let lap_micros = self.lap_micros();
        let matching_micros = match (&self.steps, behind) {
            (Some(step), [_, ..]) => step.micros,
            _ => lap_micros,
        };
        self.stages.push(("Index".into(), found.total, matching_micros));
        let mut rest_micros = lap_micros.saturating_sub(matching_micros);
        for (name, count) in behind {
            let micros = std::mem::take(&mut rest_micros);
            self.stages.push(((*name).into(), *count, micros));
        }
    }

    /// A stage was done for `count` documents or records.
    pub fn is_done(&mut self, name: impl Into<String>, count: u64) {
        let lap_micros = self.lap_micros();
        self.stages.push((name.into(), count, lap_micros));
    }

    /// The work before this belongs to the last stage.
    pub fn is_done_too(&mut self) {
        let lap_micros = self.lap_micros();
        if let Some((_, _, micros)) = self.stages.last_mut() {
            *micros += lap_micros;
        }
    }

    /// Writes what stands in front of the results.
    pub fn write_head(context: &mut Context<'_, '_>) {
        match context.reply.protocol() {
            Protocol::Resp2 => context.reply.array(2),
            Protocol::Resp3 => {
                context.reply.map(2);
                context.reply.simple("Results");
            }
        }
    }

    /// Writes what stands behind the results.
    pub fn write(mut self, context: &mut Context<'_, '_>, is_part: bool) {
        self.lap_micros();
        let total_micros = self.last_micros.saturating_sub(self.started_micros);
        let parsing_micros = self.parsed_micros.saturating_sub(self.started_micros);
        let steps = self.steps.take().unwrap_or_default();
        let reply = &mut context.reply;
        if reply.protocol() == Protocol::Resp3 {
            reply.simple("Profile");
        }
        reply.map(2);
        reply.simple("Shards");
        reply.array(1);
        reply.map(7);
        for (name, micros) in [
            ("Total profile time", total_micros),
            ("Parsing time", parsing_micros),
            ("Workers queue time", 0),
            ("Pipeline creation time", 0),
        ] {
            reply.simple(name);
            reply.double(milliseconds(micros));
        }
        reply.simple("Warning");
        reply.array(1);
        reply.simple(if is_part { TIME_WAS_OVER } else { "None" });
        reply.simple("Iterators profile");
        self.write_step(context, &steps);
        let reply = &mut context.reply;
        reply.simple("Result processors profile");
        reply.array(self.stages.len());
        for (name, count, micros) in &self.stages {
            reply.map(3);
            reply.simple("Type");
            reply.simple(name);
            reply.simple("Time");
            reply.double(milliseconds(*micros));
            reply.simple("Results processed");
            reply.integer(*count as i64);
        }
        reply.simple("Coordinator");
        reply.map(0);
    }

    fn write_step(&self, context: &mut Context<'_, '_>, step: &Step) {
        // Alternatives that a query writes are shown all the same.
        let is_hidden = self.is_limited && step.united.as_deref().is_some_and(|united| united != "UNION");
        let facts = [
            step.united.is_some(),
            step.about.is_some(),
            step.size.is_some(),
            step.mode.is_some(),
            !step.children.is_empty(),
        ];
        let reply = &mut context.reply;
        reply.map(3 + facts.into_iter().filter(|is_there| *is_there).count());
        reply.simple("Type");
        reply.simple(if step.kind.is_empty() { "EMPTY" } else { step.kind });
        if let Some(united) = &step.united {
            reply.simple("Query type");
            reply.bulk(united.as_bytes());
        }
        if let Some((word, what)) = &step.about {
            reply.simple(word);
            reply.bulk(what);
        }
        reply.simple("Time");
        reply.double(milliseconds(step.micros));
        reply.simple("Number of reading operations");
        reply.integer(step.reads as i64);
        if let Some(size) = step.size {
            reply.simple("Estimated number of matches");
            reply.integer(size as i64);
        }
        if let Some(mode) = step.mode {
            reply.simple("Vector search mode");
            reply.simple(mode);
        }
        match &step.children[..] {
            [] => {}
            [only] if step.has_one_child => {
                reply.simple("Child iterator");
                self.write_step(context, only);
            }
            children if is_hidden => {
                reply.simple("Child iterators");
                let count = children.len();
                reply.bulk(format!("The number of iterators in the union is {count}").as_bytes());
            }
            children => {
                reply.simple("Child iterators");
                reply.array(children.len());
                children.iter().for_each(|child| self.write_step(context, child));
            }
        }
    }
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

pub fn profile(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let given = words(arguments, 4)?;
    let is_aggregation = match given[1] {
        word if parse::is(word, "SEARCH") => false,
        word if parse::is(word, "AGGREGATE") => true,
        word if parse::is(word, "HYBRID") => return Err(refused("FT.PROFILE of HYBRID is not served")),
        _ => return Err(refused("No `SEARCH`, `AGGREGATE`, or `HYBRID` provided")),
    };
    let is_limited = parse::is(given[2], "LIMITED");
    let behind = &given[2 + usize::from(is_limited)..];
    let [word, rest @ ..] = behind else {
        return Err(refused("The QUERY keyword is expected"));
    };
    if !parse::is(word, "QUERY") || rest.is_empty() {
        return Err(refused("The QUERY keyword is expected"));
    }
    let request = [&given[..1], rest].concat();
    let profile = Some(Profile::new(context, is_limited));
    match is_aggregation {
        true => aggregate::run(context, &request, profile),
        false => query::run(context, &request, profile),
    }
}
