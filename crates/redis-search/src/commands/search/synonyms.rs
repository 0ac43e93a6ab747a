//! FT.SYNUPDATE and FT.SYNDUMP: groups of words that mean the same.

use quartet_layer_redis::module_api::{Context, ErrorReply, parse};
use quartet_wire_resp::Arguments;

use super::lookup::{find, words};
use super::upkeep::begin_filling;

pub fn update(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 3)?;
    let index = find(context, arguments, words[0], false)?;
    let skips_scan = parse::is(words[2], "SKIPINITIALSCAN");
    let meaning_the_same = &words[2 + usize::from(skips_scan)..];
    let mut synonyms = index.definition.schema.synonyms.clone();
    synonyms.add(words[1], meaning_the_same).map_err(|error| error.text())?;
    let altered = index.with_synonyms(context.tx, synonyms);
    if !skips_scan {
        begin_filling(context, &altered, true);
    }
    context.reply.ok();
    Ok(())
}

/// FT.SYNADD, of search 1, which search 2 refuses. The text is the original's.
pub fn add(_: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    Err("No longer suppoted, use FT.SYNUPDATE".into())
}

pub fn dump(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 1)?;
    let index = find(context, arguments, words[0], false)?;
    let synonyms = &index.definition.schema.synonyms;
    context.reply.map(synonyms.iter().count());
    for (word, groups) in synonyms.iter() {
        context.reply.bulk(word);
        context.reply.array(groups.len());
        groups.iter().for_each(|group| context.reply.bulk(group));
    }
    Ok(())
}
