//! All definitions as one transaction sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::{ErrorReply, Kind, packed};
use quartet_search::text::analysis::Synonyms;

use crate::indexes::definition::Definition;
use crate::indexes::failures::Failures;
use crate::indexes::key_index::KeyIndex;
use crate::indexes::marks::MARK;
use crate::indexes::stored::{INDEX_TAG, IndexHead, StoredIndex, each_named, read_row};
use crate::indexes::temporary;

/// The first word after the requests if there are synonyms: groups and words alternate.
const SYNONYMS: &[u8] = b"SYNONYMS";

/// An index as FT.CREATE defines it.
#[derive(Clone, Debug)]
pub struct Index {
    pub head: IndexHead,
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
    /// Indexes that are keys, by name.
    key_indexes: BTreeMap<Vec<u8>, Arc<KeyIndex>>,
    /// By alias, the name of one that is a key, or of none.
    key_aliases: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Catalogue {
    /// Changes with every change of the definitions; `None` while there are none.
    pub fn mark(&self) -> Option<&[u8]> {
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
        each_named(tx, Index::TAG, &mut |name, row| {
            let index = Index::read(name, row);
            catalogue.indexes.insert(name.to_vec(), Arc::new(index));
        });
        each_named(tx, Index::ALIAS_TAG, &mut |alias, name| {
            catalogue.aliases.insert(alias.to_vec(), name.to_vec());
        });
        each_named(tx, KeyIndex::TAG, &mut |name, row| {
            let index = KeyIndex::read(name, row);
            catalogue.key_indexes.insert(name.to_vec(), Arc::new(index));
        });
        each_named(tx, KeyIndex::ALIAS_TAG, &mut |alias, name| {
            catalogue.key_aliases.insert(alias.to_vec(), name.to_vec());
        });
        catalogue
    }

    /// The definitions stored in rows, whether or not there is a mark.
    pub fn of_rows(tx: &mut Transaction<'_>) -> Catalogue {
        Catalogue::read(tx, Some(Vec::new()))
    }

    /// The row of a mark before all others.
    pub fn first_mark() -> (Vec<u8>, Vec<u8>) {
        (MARK.to_vec(), UniqueId::default().to_vec())
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.key_indexes.is_empty()
    }

    /// A key without any of these prefixes is irrelevant to all indexes: it is neither a document,
    /// nor a followed stream, nor an index that is a key itself.
    pub fn watched_prefixes(&self) -> Vec<Vec<u8>> {
        let prefixes = self.indexes().flat_map(|index| index.prefixes());
        let key_prefixes = self.key_indexes().flat_map(|index| index.prefixes());
        let names = self.key_indexes().map(|index| &index.head.name);
        prefixes.chain(key_prefixes).chain(names).cloned().collect()
    }

    pub fn key_indexes(&self) -> impl Iterator<Item = &Arc<KeyIndex>> {
        self.key_indexes.values()
    }

    /// The index that is the key of this name, not that of an alias.
    pub fn key_index(&self, name: &[u8]) -> Option<&Arc<KeyIndex>> {
        self.key_indexes.get(name)
    }

    /// The name of an index that is a key: this name, or the target of this alias.
    pub fn key_index_name<'n>(&'n self, name: &'n [u8]) -> &'n [u8] {
        match self.key_indexes.contains_key(name) {
            true => name,
            false => self.key_aliases.get(name).map_or(name, Vec::as_slice),
        }
    }

    /// Aliases with the names of indexes that are keys.
    pub fn key_aliases(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.key_aliases
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
            head: IndexHead::create(tx, name),
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
        let (head, mut parts) = read_row(name, row);
        let created = parts.next().expect("an index was created");
        let mut definition = Definition::parse(&words(created)).expect("what was accepted once");
        let mut requests = vec![created.to_vec()];
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
                    requests.push(request.to_vec());
                }
            }
        }
        Index {
            head,
            definition,
            requests,
        }
    }

    fn write(&self, tx: &mut Transaction<'_>) {
        let synonyms = &self.definition.schema.synonyms;
        let pairs = synonyms
            .iter()
            .flat_map(|(word, groups)| groups.iter().map(move |group| [group, word]));
        let words: Vec<&[u8]> = [SYNONYMS].into_iter().chain(pairs.flatten()).collect();
        let synonyms = (!synonyms.is_empty()).then(|| packed_words(&words));
        let parts: Vec<&[u8]> = self.requests.iter().chain(&synonyms).map(Vec::as_slice).collect();
        self.write_row(tx, &parts);
    }

    /// Removes the index, its rows and its aliases.
    pub fn clear(&self, tx: &mut Transaction<'_>, catalogue: &Catalogue) {
        for alias in catalogue.aliases_of(&self.head.name) {
            Index::clear_alias(tx, alias);
        }
        Failures::clear(tx, &self.head.number);
        temporary::clear(tx, &self.head.number);
        self.clear_all(tx);
    }
}

impl StoredIndex for Index {
    const TAG: u8 = INDEX_TAG;
    const ALIAS_TAG: u8 = b'a';

    fn head(&self) -> &IndexHead {
        &self.head
    }

    fn on(&self) -> Kind {
        self.definition.on
    }

    fn prefixes(&self) -> &[Vec<u8>] {
        &self.definition.prefixes
    }
}
