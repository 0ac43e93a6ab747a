//! Dictionaries: lists of words that FT.SPELLCHECK takes into account.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_wire_rdb::suggestions::Dictionary;
use quartet_wire_resp::Arguments;

use super::lookup::{NO_PERMISSION, words};
use crate::handler::context::Context;
use crate::handler::definition::ErrorReply;
use crate::indexes::refused;

/// Longest name of a dictionary and longest word, in bytes.
const BYTES_MAX: usize = 1024;

/// Most words that a dictionary gives at once.
const WORDS_MAX: usize = 1_000_000;

/// The tags of all dictionaries' rows.
const TAGS: &[u8] = b"Sy";

/// The prefix of a dictionary's rows. The length keeps one name from being the start of another.
fn prefix(name: &[u8]) -> Vec<u8> {
    let length = (name.len() as u16).to_be_bytes();
    [TAGS, &length[..], name].concat()
}

fn row(name: &[u8], word: &[u8]) -> Vec<u8> {
    [&prefix(name), word].concat()
}

fn check(words: &[&[u8]]) -> Result<(), ErrorReply> {
    match words.iter().all(|word| word.len() <= BYTES_MAX) {
        true => Ok(()),
        false => Err(refused(format!(
            "Words and names of dictionaries have at most {BYTES_MAX} bytes"
        ))),
    }
}

/// Access to a dictionary is checked by its name, as for a key.
pub fn check_access(
    context: &Context<'_, '_>,
    arguments: Arguments<'_>,
    name: &[u8],
    writes: bool,
) -> Result<(), ErrorReply> {
    let may = context.user_may(arguments, |selector| selector.has_key(name, writes));
    may.then_some(()).ok_or(NO_PERMISSION.into())
}

pub fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 2)?;
    check(&words)?;
    check_access(context, arguments, words[0], true)?;
    let mut added = 0;
    for word in words[1..].iter().filter(|word| !word.is_empty()) {
        let key = row(words[0], word);
        added += i64::from(context.tx.get(&key).is_none());
        context.tx.set(&key, b"");
    }
    context.reply.integer(added);
    Ok(())
}

pub fn remove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 2)?;
    check(&words)?;
    check_access(context, arguments, words[0], true)?;
    let rows = words[1..].iter().map(|word| row(words[0], word));
    let removed = rows.filter(|row| context.tx.clear(row).is_some()).count();
    context.reply.integer(removed as i64);
    Ok(())
}

pub fn dump(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 1)?;
    check_access(context, arguments, words[0], false)?;
    let found = read(context.tx, words[0]);
    if found.is_empty() {
        return Err("SEARCH_GENERIC could not open dict key".into());
    }
    context.reply.set(found.len());
    found.iter().for_each(|word| context.reply.bulk(word));
    Ok(())
}

/// The words of a dictionary in byte order.
pub fn read(tx: &mut Transaction<'_>, name: &[u8]) -> Vec<Vec<u8>> {
    let (start, mut found) = (prefix(name), Vec::new());
    tx.scan(&start, &quartet_model::next_prefix(&start), false, &mut |row| {
        found.push(Transaction::layer_key(row)[start.len()..].to_vec());
        match found.len() < WORDS_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    found
}

/// All dictionaries with their words.
pub fn all(tx: &mut Transaction<'_>) -> Vec<Dictionary> {
    let mut all: Vec<Dictionary> = Vec::new();
    tx.scan(TAGS, &quartet_model::next_prefix(TAGS), false, &mut |row| {
        let (length, rest) = Transaction::layer_key(row)[TAGS.len()..]
            .split_first_chunk()
            .expect("a dictionary's row has the length of its name");
        let (name, word) = rest.split_at(u16::from_be_bytes(*length).into());
        match all.last_mut() {
            Some(last) if last.name == name => last.words.push(word.to_vec()),
            _ => all.push(Dictionary {
                name: name.to_vec(),
                words: vec![word.to_vec()],
            }),
        }
        ControlFlow::Continue(())
    });
    all
}
