//! FT.SPELLCHECK: terms that words of a query may have been meant to be.

use quartet_search::index::State;
use quartet_search::query::{Expander, Parameters, parse, parse_first};
use quartet_search::search::{Correction, Spelling, corrections};
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, dialect};
use super::content;
use super::dictionaries;
use super::lookup::{find, words};
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::{Words, refused};

/// Most letters that may differ.
const DISTANCE_MAX: usize = 4;

struct SpellArguments {
    distance: usize,
    includes: Vec<Vec<u8>>,
    excludes: Vec<Vec<u8>>,
    /// Counts of documents instead of their shares.
    counts: bool,
    dialect: u8,
}

impl SpellArguments {
    /// `dialect_default` is that of a request that names none.
    fn read(words: &mut Words<'_>, dialect_default: u8) -> Result<SpellArguments, ErrorReply> {
        let mut arguments = SpellArguments {
            distance: 1,
            includes: Vec::new(),
            excludes: Vec::new(),
            counts: false,
            dialect: dialect_default,
        };
        while words.left() > 0 {
            if words.take("DISTANCE") {
                let missing = || refused("DISTANCE arg is given but no DISTANCE comes after");
                let word = words.next().ok_or_else(missing)?;
                let distance = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
                let distance = distance.filter(|distance| (1..=DISTANCE_MAX).contains(distance));
                let wrong = || refused("bad distance given, distance must be a natural number between 1 to 4");
                arguments.distance = distance.ok_or_else(wrong)?;
            } else if words.take("TERMS") {
                let included = words.take("INCLUDE");
                if !included && !words.take("EXCLUDE") {
                    return Err(refused(match words.left() {
                        0 => "TERM arg is given but no TERM params comes after",
                        _ => "bad format, exlude/include operation was not given",
                    }));
                }
                let missing = || refused("TERM arg is given but no TERM params comes after");
                let name = words.next().ok_or_else(missing)?.to_vec();
                let names = if included {
                    &mut arguments.includes
                } else {
                    &mut arguments.excludes
                };
                names.push(name);
            } else if words.take("FULLSCOREINFO") {
                arguments.counts = true;
            } else if words.take("DIALECT") {
                arguments.dialect = dialect(words)?;
            } else {
                // As at the original, which passes over what it does not know.
                words.next();
            }
        }
        Ok(arguments)
    }
}

pub fn spell_check(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let given = words(arguments, 2)?;
    let index = find(context, arguments, given[0], false)?;
    let mut rest = Words::new(&given[1..]);
    let text = rest.next().unwrap_or_default();
    let asked = SpellArguments::read(&mut rest, Common::new(context).dialect)?;
    let mut schema = index.definition.schema.clone();
    schema.stop_words = quartet_search::analysis::StopWords::of::<&[u8]>([]);
    let parse = if asked.dialect == 1 { parse_first } else { parse };
    let query = parse(&schema, text, &Parameters::new(), Expander::Nothing)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let mut included = Vec::new();
    for name in &asked.includes {
        included.extend(dictionary(context, arguments, name)?);
    }
    let mut excluded = std::collections::BTreeSet::new();
    for name in &asked.excludes {
        let words = dictionary(context, arguments, name)?;
        excluded.extend(words.iter().map(|word| quartet_search::analysis::folded(word)));
    }
    let is_over = Common::new(context).clock(context);
    let spelling = Spelling {
        distance: asked.distance,
        excluded: &|word| excluded.contains(word),
        included: &included,
    };
    let mut rows = content::rows(context, index.as_ref(), &is_over)?;
    let documents = State::read(&mut rows).documents;
    let found = corrections(&mut rows, &schema, &query.root, &spelling, &is_over)?;
    drop(rows);
    write(context, &asked, documents, &found);
    Ok(Outcome::Done)
}

fn dictionary(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    dictionaries::check_access(context, arguments, name, false)?;
    let words = dictionaries::read(context.tx, name);
    match words.is_empty() {
        true => Err(refused(format!(
            "Dict does not exist: {}",
            String::from_utf8_lossy(name)
        ))),
        false => Ok(words),
    }
}

fn write(context: &mut Context<'_, '_>, asked: &SpellArguments, documents: u64, found: &[Correction]) {
    let score = |of_term: u64| match asked.counts {
        true => of_term as f64,
        false => of_term as f64 / documents.max(1) as f64,
    };
    let reply = &mut context.reply;
    if reply.protocol() == Protocol::Resp2 {
        reply.array(found.len() + usize::from(asked.counts));
        if asked.counts {
            reply.integer(documents as i64);
        }
        for correction in found {
            reply.array(3);
            reply.bulk(b"TERM");
            reply.bulk(&correction.word);
            reply.array(correction.proposals.len());
            for (term, of_term) in &correction.proposals {
                reply.array(2);
                reply.double(score(*of_term));
                reply.bulk(term);
            }
        }
        return;
    }
    reply.map(1 + usize::from(asked.counts));
    if asked.counts {
        reply.simple("total_docs");
        reply.integer(documents as i64);
    }
    reply.simple("results");
    reply.map(found.len());
    for correction in found {
        reply.bulk(&correction.word);
        reply.array(correction.proposals.len());
        for (term, of_term) in &correction.proposals {
            reply.map(1);
            reply.bulk(term);
            reply.double(score(*of_term));
        }
    }
}
