//! FT.CONFIG: the settings of CONFIG GET `search-*` by their older names. Limits that are as they
//! are can be read, and not changed.

use quartet_layer_redis::module_api::{Access, Context, Denial, ErrorReply, PARAMETERS_OF_TENANTS, Parameter, glob};
use quartet_wire_resp::Arguments;

use super::lookup::words;
use crate::indexes::refused;

/// An older name, the name in CONFIG, and what it is.
type Setting = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const SETTINGS: &[Setting] = &[
    ("CURSOR_MAX_IDLE", "search-cursor-max-idle", "How long a cursor lives without being read, in milliseconds"),
    ("CURSOR_READ_SIZE", "search-cursor-read-size", "Records of a piece that names no number"),
    ("DEFAULT_DIALECT", "search-default-dialect", "The dialect of queries that name none"),
    ("DEFAULT_SCORER", "search-default-scorer", "The scorer of queries that name none"),
    ("INDEX_CURSOR_LIMIT", "search-index-cursor-limit", "Most cursors of an index"),
    ("MAXAGGREGATERESULTS", "search-max-aggregate-results", "Most documents of an aggregation"),
    ("MAXEXPANSIONS", "search-max-prefix-expansions", "Most terms that a pattern stands for"),
    ("MAXPREFIXEXPANSIONS", "search-max-prefix-expansions", "Most terms that a pattern stands for"),
    ("MAXSEARCHRESULTS", "search-max-search-results", "Most documents that a search skips, and takes"),
    ("MINPREFIX", "search-min-prefix", "Fewest bytes before a star"),
    ("MINSTEMLEN", "search-min-stem-len", "Fewest bytes of a word with a stem"),
    ("ON_TIMEOUT", "search-on-timeout", "What a search does when its time is over"),
    ("PARTIAL_RESULTS", "search-partial-results", "Whether a search of an index that is being filled answers what is in it"),
    ("TIMEOUT", "search-timeout", "How long a search may take, in milliseconds"),
];

fn value(context: &Context<'_, '_>, (_, parameter, _): &Setting) -> String {
    context.config().text_of(parameter)
}

pub fn config(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 2)?;
    let is = |word: &str| words[0].eq_ignore_ascii_case(word.as_bytes());
    check_access(context, arguments, if is("SET") { "config|set" } else { "config|get" })?;
    let matching = |pattern: &[u8]| {
        let named = SETTINGS
            .iter()
            .filter(|setting| glob::matches_case(pattern, setting.0.as_bytes(), true));
        named.collect::<Vec<_>>()
    };
    if is("GET") {
        let settings = matching(words[1]);
        let mark = context.reply.mark();
        pairs(context, mark, &settings, |context, setting| {
            let value = value(context, setting);
            context.reply.bulk(value.as_bytes());
        });
        Ok(())
    } else if is("HELP") {
        let settings = matching(words[1]);
        let mark = context.reply.mark();
        help(context, mark, &settings);
        Ok(())
    } else if is("SET") {
        let setting = SETTINGS
            .iter()
            .find(|setting| setting.0.as_bytes().eq_ignore_ascii_case(words[1]));
        let (_, parameter, _) = setting.ok_or_else(|| refused("Invalid option"))?;
        let parameter = Parameter::find(parameter.as_bytes()).expect("a parameter of the table");
        let is_free = !context.is_one_of_several() || PARAMETERS_OF_TENANTS.contains(&parameter.name);
        if parameter.access == Access::Immutable || !is_free {
            return Err(refused("Not modifiable at runtime"));
        }
        let value = words
            .get(2)
            .ok_or_else(|| refused("Bad arguments for SET: a value is missing"))?;
        let change = context.config().check(parameter, value).map_err(refused)?;
        context.config().change(vec![change]);
        context.reply.ok();
        Ok(())
    } else {
        Err(refused("No such configuration action"))
    }
}

/// The settings are those of CONFIG, so the user must be allowed to run that as well.
fn check_access(context: &Context<'_, '_>, arguments: Arguments<'_>, name: &str) -> Result<(), ErrorReply> {
    let command = context.table().find(name.as_bytes()).expect("a command of this table");
    match context.user_may(arguments, |selector| selector.has_command(command)) {
        true => Ok(()),
        false => Err(Denial::Command.text(command).into()),
    }
}

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

#[cfg(test)]
mod tests {
    use quartet_search::redis::execute::{EXPANSIONS_MAX, HITS_MAX};
    use quartet_search::text::analysis::STEMMED_BYTES_MIN;

    use super::*;
    use crate::commands::search::aggregate::{COUNT_DEFAULT, IDLE_MS_MAX};
    use crate::indexes::CURSORS_OF_INDEX_MAX;

    #[test]
    fn shown_limits_are_the_effective_limits() {
        let default_of = |name: &str| Parameter::find(name.as_bytes()).unwrap().default;
        for (name, limit) in [
            ("search-cursor-max-idle", IDLE_MS_MAX as usize),
            ("search-cursor-read-size", COUNT_DEFAULT),
            ("search-index-cursor-limit", CURSORS_OF_INDEX_MAX),
            ("search-max-aggregate-results", HITS_MAX),
            ("search-max-prefix-expansions", EXPANSIONS_MAX),
            ("search-max-search-results", HITS_MAX),
            ("search-min-stem-len", STEMMED_BYTES_MIN),
        ] {
            assert_eq!(default_of(name), limit.to_string(), "{name}");
        }
        assert_eq!(default_of("search-default-scorer"), "BM25STD");
        assert!(
            SETTINGS
                .iter()
                .all(|(_, name, _)| Parameter::find(name.as_bytes()).is_some())
        );
    }
}
