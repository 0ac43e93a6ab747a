//! All definitions as one transaction sees them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Transaction, UniqueId};
use quartet_search::analysis::Synonyms;

use crate::command::error_reply::ErrorReply;
use crate::indexes::{Definition, Failures, numbered};
use crate::keyspace::packed;

/// The first word of what stands behind the requests if there are synonyms: groups and words in
/// turn.
const SYNONYMS: &[u8] = b"SYNONYMS";

pub(super) const MARK: &[u8] = b"Sc";

/// An index and where its rows stand.
#[derive(Clone, Debug)]
pub struct Index {
    pub name: Vec<u8>,
    pub number: UniqueId,
    pub definition: Definition,
    /// The requests that define it, packed word by word.
    requests: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct Catalogue {
    mark: Option<Vec<u8>>,
    /// By name.
    indexes: BTreeMap<Vec<u8>, Arc<Index>>,
    /// By alias, the index's name.
    aliases: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Catalogue {
    pub(super) fn mark(&self) -> Option<&[u8]> {
        self.mark.as_deref()
    }

    pub(super) fn read(tx: &mut Transaction<'_>, mark: Option<Vec<u8>>) -> Catalogue {
        let mut catalogue = Catalogue {
            mark,
            ..Catalogue::default()
        };
        if catalogue.mark.is_none() {
            return catalogue;
        }
        tx.scan(b"Si", b"Sj", false, &mut |row| {
            let name = &Transaction::layer_key(row)[2..];
            let index = Index::read(name, row.value());
            catalogue.indexes.insert(name.to_vec(), Arc::new(index));
            ControlFlow::Continue(())
        });
        tx.scan(b"Sa", b"Sb", false, &mut |row| {
            let alias = Transaction::layer_key(row)[2..].to_vec();
            catalogue.aliases.insert(alias, row.value().to_vec());
            ControlFlow::Continue(())
        });
        catalogue
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    pub fn indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.values()
    }

    /// The index with this name, not that of an alias.
    pub fn named(&self, name: &[u8]) -> Option<&Arc<Index>> {
        self.indexes.get(name)
    }

    /// The index with this name or alias.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<Index>> {
        self.named(name).or_else(|| self.named(self.aliases.get(name)?))
    }

    pub fn is_alias(&self, name: &[u8]) -> bool {
        self.aliases.contains_key(name)
    }

    pub fn aliases_of<'c>(&'c self, name: &'c [u8]) -> impl Iterator<Item = &'c Vec<u8>> {
        self.aliases
            .iter()
            .filter(move |(_, index)| *index == name)
            .map(|(alias, _)| alias)
    }
}

/// The definitions are others from here on.
fn changed(tx: &mut Transaction<'_>) {
    let mark = tx.unique_id();
    tx.set(MARK, &mark);
}

fn index_row(name: &[u8]) -> Vec<u8> {
    [b"Si", name].concat()
}

fn alias_row(alias: &[u8]) -> Vec<u8> {
    [b"Sa", alias].concat()
}

pub fn put_alias(tx: &mut Transaction<'_>, alias: &[u8], index: &[u8]) {
    tx.set(&alias_row(alias), index);
    changed(tx);
}

pub fn clear_alias(tx: &mut Transaction<'_>, alias: &[u8]) {
    tx.clear(&alias_row(alias));
    changed(tx);
}

fn words(request: &[u8]) -> Vec<&[u8]> {
    packed::iter(request).collect()
}

fn packed_words(words: &[&[u8]]) -> Vec<u8> {
    let mut request = Vec::new();
    words.iter().for_each(|word| packed::push(&mut request, word));
    request
}

impl Index {
    /// A definition that was accepted, with a number of its own.
    pub fn create(tx: &mut Transaction<'_>, name: &[u8], request: &[&[u8]]) -> Result<Index, ErrorReply> {
        let definition = Definition::parse(request)?;
        let index = Index {
            name: name.to_vec(),
            number: tx.unique_id(),
            definition,
            requests: vec![packed_words(request)],
        };
        index.write(tx);
        Ok(index)
    }

    /// The index with more fields.
    pub fn altered(&self, tx: &mut Transaction<'_>, request: &[&[u8]]) -> Result<Index, ErrorReply> {
        let mut index = self.clone();
        index.definition.alter(request)?;
        index.requests.push(packed_words(request));
        index.write(tx);
        Ok(index)
    }

    /// The index with other synonyms.
    pub fn with_synonyms(&self, tx: &mut Transaction<'_>, synonyms: Synonyms) -> Index {
        let mut index = self.clone();
        index.definition.schema.synonyms = synonyms;
        index.write(tx);
        index
    }

    /// Reads a row. Panics if no version has written it.
    fn read(name: &[u8], row: &[u8]) -> Index {
        let (number, rest) = row.split_first_chunk().expect("an index begins with its number");
        let rows: Vec<Vec<u8>> = packed::iter(rest).map(<[u8]>::to_vec).collect();
        let mut parts = rows.iter();
        let created = parts.next().expect("an index was created");
        let mut definition = Definition::parse(&words(created)).expect("what was accepted once");
        let mut requests = vec![created.clone()];
        for request in parts {
            match &words(request)[..] {
                [word, synonyms @ ..] if *word == SYNONYMS => {
                    for pair in synonyms.chunks_exact(2) {
                        let groups = &mut definition.schema.synonyms;
                        groups.add(pair[0], &[pair[1]]).expect("what was accepted once");
                    }
                }
                altered => {
                    definition.alter(altered).expect("what was accepted once");
                    requests.push(request.clone());
                }
            }
        }
        Index {
            name: name.to_vec(),
            number: *number,
            definition,
            requests,
        }
    }

    fn write(&self, tx: &mut Transaction<'_>) {
        let mut row = self.number.to_vec();
        self.requests.iter().for_each(|request| packed::push(&mut row, request));
        let synonyms = &self.definition.schema.synonyms;
        if !synonyms.is_empty() {
            let pairs = synonyms
                .iter()
                .flat_map(|(word, groups)| groups.iter().map(move |group| [group, word]));
            let words: Vec<&[u8]> = [SYNONYMS].into_iter().chain(pairs.flatten()).collect();
            packed::push(&mut row, &packed_words(&words));
        }
        tx.set(&index_row(&self.name), &row);
        changed(tx);
    }

    /// Removes the index, its rows and its aliases.
    pub fn clear(&self, tx: &mut Transaction<'_>, catalogue: &Catalogue) {
        tx.clear(&index_row(&self.name));
        for alias in catalogue.aliases_of(&self.name) {
            tx.clear(&alias_row(alias));
        }
        tx.clear(&self.progress_row());
        Failures::clear(tx, &self.number);
        let prefix = self.rows_prefix();
        tx.clear_range(&prefix, &quartet_model::next_prefix(&prefix));
        match catalogue.indexes.len() {
            1 => _ = tx.clear(MARK),
            _ => changed(tx),
        }
    }

    pub fn rows_prefix(&self) -> Vec<u8> {
        numbered(b'd', &self.number)
    }

    fn progress_row(&self) -> Vec<u8> {
        numbered(b'b', &self.number)
    }

    /// How far the index is filled; nothing once it is.
    pub fn progress(&self, tx: &mut Transaction<'_>) -> Option<Progress> {
        let row = tx.get(&self.progress_row())?;
        let (cursor, rest) = row.value().split_first_chunk().expect("a cursor has eight bytes");
        Some(Progress {
            cursor: u64::from_be_bytes(*cursor),
            anew: rest == [1],
        })
    }

    pub fn set_progress(&self, tx: &mut Transaction<'_>, progress: Option<Progress>) {
        match progress {
            None => _ = tx.clear(&self.progress_row()),
            Some(progress) => {
                let row = [&progress.cursor.to_be_bytes()[..], &[u8::from(progress.anew)]].concat();
                tx.set(&self.progress_row(), &row);
            }
        }
    }

    /// A key of this name is looked at.
    pub fn covers(&self, name: &[u8]) -> bool {
        self.definition.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// The state of an index that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// As SCAN's: keys before it are in the index.
    pub cursor: u64,
    /// Documents that are there already are analysed anew, for a field that was added.
    pub anew: bool,
}
