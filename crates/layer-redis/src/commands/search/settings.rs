//! FT.CONFIG: the settings of CONFIG GET `search-*` by their older names, and limits that are as
//! they are.

use quartet_search::search::{EXPANSIONS_MAX, HITS_MAX};
use quartet_wire_resp::Arguments;

use super::lookup::words;
use crate::command::glob;
use crate::config::table::Parameter;
use crate::handler::context::Context;
use crate::handler::definition::ErrorReply;
use crate::indexes::refused;

/// An older name, the name in CONFIG if it can be changed, and what it is.
const SETTINGS: &[(&str, Option<&str>, &str)] = &[
    (
        "DEFAULT_DIALECT",
        Some("search-default-dialect"),
        "The dialect of queries that name none",
    ),
    ("MAXAGGREGATERESULTS", None, "Most documents of an aggregation"),
    ("MAXEXPANSIONS", None, "Most terms that a pattern stands for"),
    ("MAXPREFIXEXPANSIONS", None, "Most terms that a pattern stands for"),
    (
        "MAXSEARCHRESULTS",
        None,
        "Most documents that a search skips, and takes",
    ),
    ("MINPREFIX", None, "Fewest bytes before a star"),
    ("MINSTEMLEN", None, "Fewest bytes of a word with a stem"),
    (
        "ON_TIMEOUT",
        Some("search-on-timeout"),
        "What a search does when its time is over",
    ),
    (
        "TIMEOUT",
        Some("search-timeout"),
        "How long a search may take, in milliseconds",
    ),
];

fn value(context: &Context<'_, '_>, (name, parameter, _): &(&str, Option<&str>, &str)) -> String {
    match (parameter, *name) {
        (Some(parameter), _) => context.config().text_of(parameter),
        (None, "MAXEXPANSIONS" | "MAXPREFIXEXPANSIONS") => EXPANSIONS_MAX.to_string(),
        (None, "MINPREFIX") => "2".into(),
        (None, "MINSTEMLEN") => quartet_search::analysis::STEMMED_BYTES_MIN.to_string(),
        (None, _) => HITS_MAX.to_string(),
    }
}

pub fn config(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let given = words(arguments, 2)?;
    let is = |word: &str| given[0].eq_ignore_ascii_case(word.as_bytes());
    let found = |pattern: &[u8]| {
        let named = SETTINGS
            .iter()
            .filter(|setting| glob::matches_case(pattern, setting.0.as_bytes(), true));
        named.collect::<Vec<_>>()
    };
    if is("GET") {
        let settings = found(given[1]);
        let mark = context.reply.mark();
        pairs(context, mark, &settings, |context, setting| {
            let value = value(context, setting);
            context.reply.bulk(value.as_bytes());
        });
        Ok(())
    } else if is("HELP") {
        let settings = found(given[1]);
        let mark = context.reply.mark();
        help(context, mark, &settings);
        Ok(())
    } else if is("SET") {
        let setting = SETTINGS
            .iter()
            .find(|setting| setting.0.as_bytes().eq_ignore_ascii_case(given[1]));
        let (_, parameter, _) = setting.ok_or_else(|| refused("Invalid option"))?;
        let parameter = parameter.ok_or_else(|| refused("Not modifiable at runtime"))?;
        let value = given
            .get(2)
            .ok_or_else(|| refused("Bad arguments for SET: a value is missing"))?;
        let parameter = Parameter::find(parameter.as_bytes()).expect("a parameter of the table");
        let change = context.config().check(parameter, value).map_err(refused)?;
        context.config().change(vec![change]);
        context.reply.ok();
        Ok(())
    } else {
        Err(refused("No such configuration action"))
    }
}

type Setting = (&'static str, Option<&'static str>, &'static str);

/// A list of pairs in RESP2, a map in RESP3.
fn pairs(
    context: &mut Context<'_, '_>,
    mark: usize,
    settings: &[&Setting],
    mut write: impl FnMut(&mut Context<'_, '_>, &Setting),
) {
    let is_map = context.reply.protocol() == quartet_wire_resp::Protocol::Resp3;
    for setting in settings {
        if !is_map {
            context.reply.array(2);
        }
        context.reply.simple(setting.0);
        write(context, setting);
    }
    match is_map {
        true => context.reply.map_since(mark, settings.len()),
        false => context.reply.array_since(mark, settings.len()),
    }
}

fn help(context: &mut Context<'_, '_>, mark: usize, settings: &[&Setting]) {
    let is_map = context.reply.protocol() == quartet_wire_resp::Protocol::Resp3;
    for setting in settings {
        match is_map {
            true => {
                context.reply.simple(setting.0);
                context.reply.map(2);
            }
            false => {
                context.reply.array(5);
                context.reply.simple(setting.0);
            }
        }
        let value = value(context, setting);
        context.reply.simple("Description");
        context.reply.simple(setting.2);
        context.reply.simple("Value");
        context.reply.bulk(value.as_bytes());
    }
    match is_map {
        true => context.reply.map_since(mark, settings.len()),
        false => context.reply.array_since(mark, settings.len()),
    }
}
