//! Time series: the commands TS, as RedisTimeSeries answers them.
//!
//! Texts and the order of checks were observed of Redis 8.2.3 with RedisTimeSeries 1.12.2; commands
//! and options of Redis 8.10 follow its documents.
//!
//! ```text
//! write, query, information, waiting   commands    requests: their arguments    replies
//! series, rules                        changes of samples, and of compactions
//! reading, filters                     queries of a series, and which series
//! definition, rows, saved, data_type   rows of a key, dumps
//! ```

mod data_type;
mod definition;
mod filters;
mod gatherings;
mod groups;
mod information;
mod query;
mod reading;
mod references;
mod replies;
mod requests;
mod rows;
mod rules;
mod saved;
mod series;
mod waiting;
mod write;

#[cfg(test)]
mod tests;

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{DataType, Events, Module, parse};
use quartet_wire_resp::Arguments;

use self::data_type::TimeSeries;
use self::requests::position;

/// The module: the row of a server's list of modules.
pub struct SeriesModule;

impl Module for SeriesModule {
    fn names(&self) -> &'static [(&'static str, i64)] {
        &[("timeseries", 11_202)]
    }

    fn commands(&self) -> &'static [&'static [Definition]] {
        &[
            write::COMMANDS,
            query::COMMANDS,
            information::COMMANDS,
            waiting::COMMANDS,
        ]
    }

    fn arguments(&self) -> &'static str {
        include_str!("arguments.txt")
    }

    fn events(&self) -> &'static [(&'static [&'static str], Events)] {
        &[
            (&["ts.create"], Events::Each("ts.create")),
            (&["ts.alter"], Events::Each("ts.alter")),
            (&["ts.add", "ts.madd"], Events::Each("ts.add")),
            (&["ts.incrby"], Events::Each("ts.incrby")),
            (&["ts.decrby"], Events::Each("ts.decrby")),
            (&["ts.del"], Events::Each("ts.del")),
            (&["ts.createrule"], Events::Each("ts.createrule")),
            (&["ts.deleterule"], Events::Each("ts.deleterule")),
        ]
    }

    fn sent_as_they_came(&self) -> &'static [&'static str] {
        &[
            "ts.create",
            "ts.alter",
            "ts.add",
            "ts.madd",
            "ts.incrby",
            "ts.decrby",
            "ts.del",
            "ts.createrule",
            "ts.deleterule",
        ]
    }

    /// Samples of the present time, with that time.
    fn sent_instead(&self, command: &Command, arguments: Arguments<'_>, now_ms: u64) -> Option<Vec<Vec<u8>>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        let now = now_ms.to_string().into_bytes();
        match command.name {
            "ts.add" | "ts.madd" => {
                let last = if command.name == "ts.add" { 3 } else { arguments.len() };
                let times = (2..last).step_by(3);
                let times: Vec<usize> = times.filter(|at| &arguments[*at] == b"*").collect();
                if times.is_empty() {
                    return None;
                }
                words.extend(arguments.iter().map(<[u8]>::to_vec));
                times.into_iter().for_each(|at| words[at] = now.clone());
            }
            "ts.incrby" | "ts.decrby" => {
                let time = position(arguments, 1, "TIMESTAMP");
                let is_given = time.is_some_and(|at| arguments.get(at + 1).is_some_and(|word| !parse::is(word, "*")));
                if is_given {
                    return None;
                }
                words.extend(arguments.iter().map(<[u8]>::to_vec));
                match time {
                    Some(at) => words[at + 1] = now,
                    None => {
                        let time = [b"TIMESTAMP".to_vec(), now];
                        words.splice(3..3, time);
                    }
                }
            }
            _ => return None,
        }
        Some(words)
    }

    fn data_types(&self) -> &'static [&'static dyn DataType] {
        &[&TimeSeries]
    }
}
