//! The reports of a request's stages, in the form of FT.PROFILE.
//!
//! The answer has the form of 8.x: the results, and a profile of one shard. Conditions and stages
//! have the original's names. FT.HYBRID's shard has a profile of each of its searches, and
//! its coordinator a profile of the later stages. Times are measured, and include those of the
//! conditions below them. Stages that are interleaved here share one time: the first of them has
//! it, the others have zero.

use quartet_layer_redis::module_api::Context;
use quartet_search::hits::{Found, Step};
use quartet_search::redis::execute::Clock;
use quartet_wire_resp::Protocol;

/// The reports of a request, or of a part of it.
struct Profile {
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
    fn part(&self) -> Profile {
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

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn lap_micros(&mut self) -> u64 {
        let now_micros = self.clock.micros();
        let lap_micros = now_micros.saturating_sub(self.last_micros);
        self.last_micros = now_micros;
        lap_micros
    }

    /// The request was read.
    fn is_parsed(&mut self) {
        self.lap_micros();
        self.parsed_micros = self.last_micros;
    }

    /// The index was searched; `behind` are the stages that go hand in hand with that, with the
    /// results of each.
    fn is_searched(&mut self, answer: &mut Found, behind: &[(&str, u64)]) {
        self.steps = answer.steps.take();
        let lap_micros = self.lap_micros();
        let matching_micros = match (&self.steps, behind) {
            (Some(step), [_, ..]) => step.micros,
            _ => lap_micros,
        };
        self.stages.push(("Index".into(), answer.total, matching_micros));
        let mut rest_micros = lap_micros.saturating_sub(matching_micros);
        for (name, count) in behind {
            let micros = std::mem::take(&mut rest_micros);
            self.stages.push(((*name).into(), *count, micros));
        }
    }

    /// A part of the request was done, which has a profile of its own.
    fn is_done_apart(&mut self) {
        self.lap_micros();
    }

    /// A stage was done for `count` documents or records.
    fn is_done(&mut self, name: String, count: u64) {
        let lap_micros = self.lap_micros();
        self.stages.push((name, count, lap_micros));
    }

    /// The work before this belongs to the last stage.
    fn is_done_too(&mut self) {
        let lap_micros = self.lap_micros();
        if let Some((_, _, micros)) = self.stages.last_mut() {
            *micros += lap_micros;
        }
    }

    /// Writes the part after the results.
    fn write(mut self, context: &mut Context<'_, '_>, warnings: &[&str]) {
        self.lap_micros();
        write_frame(context);
        self.write_facts(context, warnings, true);
        context.reply.simple("Coordinator");
        context.reply.map(0);
    }

    /// Writes the part after the results of FT.HYBRID: `self` is the profile of the stages after
    /// its searches. Each of the three has its warnings.
    fn write_hybrid(mut self, context: &mut Context<'_, '_>, searches: [Profile; 2], warnings: [&[&str]; 3]) {
        self.lap_micros();
        write_frame(context);
        context.reply.map(2);
        for ((search, name), warnings) in searches.iter().zip(["SEARCH", "VSIM"]).zip(warnings) {
            context.reply.simple(name);
            search.write_facts(context, warnings, true);
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
        if let Some((word, about)) = &step.about {
            reply.simple(word);
            reply.bulk(about);
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

/// The reports of a request's stages: kept for FT.PROFILE, and otherwise dropped.
pub(super) struct Reports(Option<Profile>);

impl Reports {
    /// Keeps the reports for FT.PROFILE. With `is_limited`, children of unions are only counted.
    pub fn kept(context: &Context<'_, '_>, is_limited: bool) -> Reports {
        Reports(Some(Profile::new(context, is_limited)))
    }

    /// Drops each report.
    pub fn dropped() -> Reports {
        Reports(None)
    }

    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// The reports of a part of the request, started now.
    pub fn part(&self) -> Reports {
        Reports(self.0.as_ref().map(Profile::part))
    }

    /// The clock of the conditions, if they are timed.
    pub fn clock(&self) -> Option<Clock> {
        self.0.as_ref().map(Profile::clock)
    }

    /// See [`Profile::is_parsed`].
    pub fn is_parsed(&mut self) {
        self.0.iter_mut().for_each(Profile::is_parsed);
    }

    /// See [`Profile::is_searched`].
    pub fn is_searched(&mut self, answer: &mut Found, stages: impl FnOnce(&Found) -> Vec<(&'static str, u64)>) {
        if let Some(profile) = &mut self.0 {
            let stages = stages(answer);
            profile.is_searched(answer, &stages);
        }
    }

    /// See [`Profile::is_done_apart`].
    pub fn is_done_apart(&mut self) {
        self.0.iter_mut().for_each(Profile::is_done_apart);
    }

    /// See [`Profile::is_done`].
    pub fn is_done(&mut self, name: impl Into<String>, count: usize) {
        if let Some(profile) = &mut self.0 {
            profile.is_done(name.into(), count as u64);
        }
    }

    /// See [`Profile::is_done_too`].
    pub fn is_done_too(&mut self) {
        self.0.iter_mut().for_each(Profile::is_done_too);
    }

    /// Writes the part before the results.
    pub fn write_head(&self, context: &mut Context<'_, '_>) {
        match context.reply.protocol() {
            _ if self.0.is_none() => {}
            Protocol::Resp2 => context.reply.array(2),
            Protocol::Resp3 => {
                context.reply.map(2);
                context.reply.simple("Results");
            }
        }
    }

    /// Writes the part after the results.
    pub fn write(self, context: &mut Context<'_, '_>, warnings: &[&str]) {
        if let Some(profile) = self.0 {
            profile.write(context, warnings);
        }
    }

    /// See [`Profile::write_hybrid`].
    pub fn write_hybrid(self, context: &mut Context<'_, '_>, searches: [Reports; 2], warnings: [&[&str]; 3]) {
        let [words, vectors] = searches.map(|reports| reports.0);
        if let (Some(profile), Some(words), Some(vectors)) = (self.0, words, vectors) {
            profile.write_hybrid(context, [words, vectors], warnings);
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
