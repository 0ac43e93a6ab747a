//! FT.SPELLCHECK: terms that words of a query may have been meant to be.

use std::collections::BTreeSet;

use quartet_layer_redis::module_api::{Context, ErrorReply, GatheredList, Outcome};
use quartet_search::index::State;
use quartet_search::redis::execute::{Correction, Spelling, corrections};
use quartet_search::redis::query::{Expander, Parameters, parse, parse_first};
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, default_clock, dialect};
use super::lookup::{find, words};
use super::{content, dictionaries};
use crate::errors::IntoReply;
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
    let words = words(arguments, 2)?;
    let index = find(context, arguments, words[0], false)?;
    let mut options = Words::new(&words[1..]);
    let text = options.next().unwrap_or_default();
    let request = SpellArguments::read(&mut options, Common::new(context).dialect)?;
    let mut schema = index.definition.schema.clone();
    schema.stop_words = quartet_search::text::analysis::StopWords::of::<&[u8]>([]);
    let parse = if request.dialect == 1 { parse_first } else { parse };
    let query = parse(&schema, text, &Parameters::new(), Expander::Nothing).into_reply()?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let mut included = dictionaries(context, arguments, &request.includes)?;
    let mut excluded = dictionaries(context, arguments, &request.excludes)?;
    let excluded = excluded.all()?.drain(..);
    let excluded: BTreeSet<_> = excluded
        .map(|word| quartet_search::text::analysis::folded(&word))
        .collect();
    let is_over = default_clock(context);
    let spelling = Spelling {
        distance: request.distance,
        excluded: &|word| excluded.contains(word),
        included: included.all()?,
    };
    let mut rows = content::rows(context, index.as_ref(), &is_over).into_reply()?;
    let documents = State::read(&mut rows).documents;
    let misspelled = corrections(&mut rows, &schema, &query.root, &spelling, &is_over).into_reply()?;
    drop((rows, included));
    write(context, &request, documents, &misspelled);
    Ok(Outcome::Done)
}

/// The words of all these dictionaries. One that is named again adds nothing.
fn dictionaries<'c>(
    context: &mut Context<'c, '_>,
    arguments: Arguments<'_>,
    names: &[Vec<u8>],
) -> Result<GatheredList<'c>, ErrorReply> {
    let mut words = context.groups.gathered_list();
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert(*name)) {
        dictionaries::check_access(context, arguments, name, false)?;
        let before = words.len();
        dictionaries::read(context.tx, name, &mut words);
        if words.len() == before && !words.is_refused() {
            let name = String::from_utf8_lossy(name);
            return Err(refused(format!("Dict does not exist: {name}")));
        }
    }
    Ok(words)
}

fn write(context: &mut Context<'_, '_>, request: &SpellArguments, documents: u64, misspelled: &[Correction]) {
    let score = |documents_of_term: u64| match request.counts {
        true => documents_of_term as f64,
        false => documents_of_term as f64 / documents.max(1) as f64,
    };
    let reply = &mut context.reply;
    if reply.protocol() == Protocol::Resp2 {
        reply.array(misspelled.len() + usize::from(request.counts));
        if request.counts {
            reply.integer(documents as i64);
        }
        for correction in misspelled {
            reply.array(3);
            reply.bulk(b"TERM");
            reply.bulk(&correction.word);
            reply.array(correction.proposals.len());
            for (term, documents_of_term) in &correction.proposals {
                reply.array(2);
                reply.double(score(*documents_of_term));
                reply.bulk(term);
            }
        }
        return;
    }
    reply.map(1 + usize::from(request.counts));
    if request.counts {
        reply.simple("total_docs");
        reply.integer(documents as i64);
    }
    reply.simple("results");
    reply.map(misspelled.len());
    for correction in misspelled {
        reply.bulk(&correction.word);
        reply.array(correction.proposals.len());
        for (term, documents_of_term) in &correction.proposals {
            reply.map(1);
            reply.bulk(term);
            reply.double(score(*documents_of_term));
        }
    }
}
