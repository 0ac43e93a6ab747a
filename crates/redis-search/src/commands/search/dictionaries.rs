//! Dictionaries: lists of words that FT.SPELLCHECK takes into account.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_layer_redis::module_api::{Context, ErrorReply, GatheredList};
use quartet_search::error::SearchError;
use quartet_wire_rdb::suggestions::Dictionary;
use quartet_wire_resp::Arguments;

use super::lookup::{NO_PERMISSION, words};
use crate::errors::IntoReply;
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
    let mut dictionary_words = context.gathered_list();
    each_word(context.tx, words[0], &mut |word| dictionary_words.push_on(word));
    let dictionary_words = dictionary_words.all()?;
    if dictionary_words.is_empty() {
        return Err(SearchError::NoDictionary.into_reply());
    }
    context.reply.set(dictionary_words.len());
    dictionary_words.iter().for_each(|word| context.reply.bulk(word));
    Ok(())
}

/// Appends the words of a dictionary in byte order.
pub fn read(tx: &mut Transaction<'_>, name: &[u8], list: &mut GatheredList<'_>) {
    each_word(tx, name, &mut |word| list.push_on(word));
}

/// Visits the words of a dictionary in byte order, [`WORDS_MAX`] at most, until `visit` breaks.
fn each_word(tx: &mut Transaction<'_>, name: &[u8], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) {
    let (start, mut visited) = (prefix(name), 0);
    tx.scan(&start, &quartet_model::next_prefix(&start), false, &mut |row| {
        visited += 1;
        match visited < WORDS_MAX {
            true => visit(&Transaction::layer_key(row)[start.len()..]),
            false => ControlFlow::Break(()),
        }
    });
}

/// All dictionaries with their words.
pub fn all(tx: &mut Transaction<'_>) -> Vec<Dictionary> {
    let mut all: Vec<Dictionary> = Vec::new();
    tx.scan(TAGS, &quartet_model::next_prefix(TAGS), false, &mut |row| {
        let (length, name_and_word) = Transaction::layer_key(row)[TAGS.len()..]
            .split_first_chunk()
            .expect("a dictionary's row has the length of its name");
        let (name, word) = name_and_word.split_at(u16::from_be_bytes(*length).into());
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
