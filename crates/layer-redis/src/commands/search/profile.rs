//! FT.PROFILE: a search or an aggregation with what its steps took.
//!
//! Only steps that exist here are listed, and their time is measured. Times hold those of the steps
//! below them; matching and ranking go hand in hand, so the ranking's time is the rest of the
//! search's.

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

    /// The index was searched; `ranking` is the name of how the best were chosen.
    pub fn is_searched(&mut self, found: &mut Found, ranking: &str) {
        self.steps = found.steps.take();
        let matching_micros = self.steps.as_ref().map_or(0, |step| step.micros);
        let reads = self.steps.as_ref().map_or(0, |step| step.reads);
        let lap_micros = self.lap_micros();
        self.stages.push(("Index".into(), reads, matching_micros));
        let ranking_micros = lap_micros.saturating_sub(matching_micros);
        self.stages.push((ranking.into(), found.total, ranking_micros));
    }

    /// A stage was done for `count` documents or records.
    pub fn is_done(&mut self, name: impl Into<String>, count: u64) {
        let lap_micros = self.lap_micros();
        self.stages.push((name.into(), count, lap_micros));
    }

    /// Writes the second part of the answer: in RESP2 an element of its own, in RESP3 a member of
    /// the map.
    pub fn write(mut self, context: &mut Context<'_, '_>, is_part: bool) {
        self.lap_micros();
        let total_micros = self.last_micros.saturating_sub(self.started_micros);
        let parsing_micros = self.parsed_micros.saturating_sub(self.started_micros);
        let steps = self.steps.take().unwrap_or_default();
        let is_map = context.reply.protocol() == Protocol::Resp3;
        let reply = &mut context.reply;
        match is_map {
            true => {
                reply.simple("profile");
                reply.map(6);
            }
            false => reply.array(6),
        }
        for (name, micros) in [
            ("Total profile time", total_micros),
            ("Parsing time", parsing_micros),
            ("Pipeline creation time", 0),
        ] {
            if !is_map {
                reply.array(2);
            }
            reply.simple(name);
            reply.double(milliseconds(micros));
        }
        match is_map {
            true => {
                reply.simple("Warning");
                reply.simple(if is_part { TIME_WAS_OVER } else { "None" });
                reply.simple("Iterators profile");
                reply.array(1);
            }
            false => {
                reply.array(1 + usize::from(is_part));
                reply.simple("Warning");
                if is_part {
                    reply.simple(TIME_WAS_OVER);
                }
                reply.array(2);
                reply.simple("Iterators profile");
            }
        }
        self.write_step(context, &steps);
        let reply = &mut context.reply;
        match is_map {
            true => {
                reply.simple("Result processors profile");
                reply.array(self.stages.len());
            }
            false => {
                reply.array(1 + self.stages.len());
                reply.simple("Result processors profile");
            }
        }
        for (name, count, micros) in &self.stages {
            reply.map(3);
            reply.simple("Type");
            reply.simple(name);
            reply.simple("Time");
            reply.double(milliseconds(*micros));
            reply.simple("Counter");
            reply.integer(*count as i64);
        }
    }

    fn write_step(&self, context: &mut Context<'_, '_>, step: &Step) {
        let mark = context.reply.mark();
        let mut pairs = 3;
        let reply = &mut context.reply;
        let kind = if step.kind.is_empty() { "EMPTY" } else { step.kind };
        reply.simple("Type");
        reply.simple(kind);
        if let Some(united) = &step.united {
            reply.simple("Query type");
            reply.bulk(united.as_bytes());
            pairs += 1;
        }
        if let Some(term) = &step.term {
            reply.simple("Term");
            reply.bulk(term);
            pairs += 1;
        }
        reply.simple("Time");
        reply.double(milliseconds(step.micros));
        reply.simple("Counter");
        reply.integer(step.reads as i64);
        if let Some(size) = step.size {
            reply.simple("Size");
            reply.integer(size as i64);
            pairs += 1;
        }
        // Alternatives that a query writes are shown all the same.
        let is_hidden = self.is_limited && step.united.as_deref().is_some_and(|united| united != "UNION");
        match &step.children[..] {
            [] => {}
            [only] if step.has_one_child => {
                reply.simple("Child iterator");
                self.write_step(context, only);
                pairs += 1;
            }
            children if is_hidden => {
                reply.simple("Child iterators");
                let count = children.len();
                reply.bulk(format!("The number of iterators in the union is {count}").as_bytes());
                pairs += 1;
            }
            children if context.reply.protocol() == Protocol::Resp3 => {
                context.reply.simple("Child iterators");
                context.reply.array(children.len());
                children.iter().for_each(|child| self.write_step(context, child));
                pairs += 1;
            }
            // In RESP2 they stand in the same list.
            children => {
                context.reply.simple("Child iterators");
                children.iter().for_each(|child| self.write_step(context, child));
                return context.reply.array_since(mark, 2 * pairs + 1 + children.len());
            }
        }
        context.reply.map_since(mark, pairs);
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
        _ => return Err(refused("No `SEARCH` or `AGGREGATE` provided")),
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
