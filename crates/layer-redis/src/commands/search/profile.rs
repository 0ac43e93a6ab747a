//! FT.PROFILE: a search, an aggregation or both kinds of search combined, with what their steps
//! took.
//!
//! The answer has the form of 8.x: the results, and a profile of one shard whose conditions and
//! stages have the original's names. FT.HYBRID's shard has a profile of each of its searches, and
//! its coordinator a profile of the later stages. Times are measured, and include those of the
//! conditions below them. Stages that are interleaved here share one time: the first of them has
//! it, the others have zero.

use quartet_search::search::{Clock, Found, Step};
use quartet_wire_resp::{Arguments, Protocol};

use super::lookup::words;
use super::{aggregate, hybrid, query};
use crate::command::parse;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::refused;

pub struct Profile {
    clock: Clock,
    /// Children of unions are counted and not shown.
    is_limited: bool,
    started_micros: u64,
    parsed_micros: u64,
    last_micros: u64,
    steps: Option<Step>,
    /// Stages after the index: a name, the number of documents, and the time.
    stages: Vec<(String, u64, u64)>,
}

impl Profile {
    fn new(context: &Context<'_, '_>, is_limited: bool) -> Profile {
        let engine = context.engine().clone();
        Profile::beginning(Clock::new(move || engine.now_micros()), is_limited)
    }

    /// A profile of a part of the request, started now.
    pub fn part(&self) -> Profile {
        Profile::beginning(self.clock.clone(), self.is_limited)
    }

    fn beginning(clock: Clock, is_limited: bool) -> Profile {
        let now_micros = clock.micros();
        Profile {
            clock,
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
        let now_micros = self.clock.micros();
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

    /// A part of the request was done, which has a profile of its own.
    pub fn is_done_apart(&mut self) {
        self.lap_micros();
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

    /// Writes the part before the results.
    pub fn write_head(context: &mut Context<'_, '_>) {
        match context.reply.protocol() {
            Protocol::Resp2 => context.reply.array(2),
            Protocol::Resp3 => {
                context.reply.map(2);
                context.reply.simple("Results");
            }
        }
    }

    /// Writes the part after the results.
    pub fn write(mut self, context: &mut Context<'_, '_>, warnings: &[&str]) {
        self.lap_micros();
        write_frame(context);
        self.write_facts(context, warnings, true);
        context.reply.simple("Coordinator");
        context.reply.map(0);
    }

    /// Writes the part after the results of FT.HYBRID: `self` is the profile of the stages after
    /// its searches. Each of the three has its warnings.
    pub fn write_hybrid(mut self, context: &mut Context<'_, '_>, searches: &[Profile; 2], warnings: [&[&str]; 3]) {
        self.lap_micros();
        write_frame(context);
        context.reply.map(2);
        for (at, name) in ["SEARCH", "VSIM"].into_iter().enumerate() {
            context.reply.simple(name);
            searches[at].write_facts(context, warnings[at], true);
        }
        context.reply.simple("Coordinator");
        self.write_facts(context, warnings[2], false);
    }

    fn write_facts(&self, context: &mut Context<'_, '_>, warnings: &[&str], has_steps: bool) {
        let total_micros = self.last_micros.saturating_sub(self.started_micros);
        let parsing_micros = self.parsed_micros.saturating_sub(self.started_micros);
        let reply = &mut context.reply;
        reply.map(6 + usize::from(has_steps));
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
        let none: &[&str] = &["None"];
        let warnings = if warnings.is_empty() { none } else { warnings };
        reply.array(warnings.len());
        warnings.iter().for_each(|warning| reply.simple(warning));
        if has_steps {
            reply.simple("Iterators profile");
            self.write_step(context, self.steps.as_ref().unwrap_or(&Step::default()));
        }
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

/// Writes the head of a profile, up to its only shard.
fn write_frame(context: &mut Context<'_, '_>) {
    let reply = &mut context.reply;
    if reply.protocol() == Protocol::Resp3 {
        reply.simple("Profile");
    }
    reply.map(2);
    reply.simple("Shards");
    reply.array(1);
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

pub fn profile(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let given = words(arguments, 4)?;
    let run = match given[1] {
        word if parse::is(word, "SEARCH") => query::run,
        word if parse::is(word, "AGGREGATE") => aggregate::run,
        word if parse::is(word, "HYBRID") => hybrid::run,
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
    run(context, arguments, &request, Some(Profile::new(context, is_limited)))
}
