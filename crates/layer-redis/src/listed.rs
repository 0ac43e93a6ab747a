//! A list without repetitions, in the order of addition, that finds a member without a look at the
//! others.
//!
//! ACL SETUSER names as many patterns, channels and passwords as fit into its request, and one
//! transaction may write as many keys that others wait for. Looking through those that are there
//! for each new one took half a minute for 100,000 of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Members in the order of addition, each once and with a value.
#[derive(Clone, Debug)]
pub struct Listed<K, V = ()> {
    /// By the number that a member got at its addition.
    members: BTreeMap<u64, (K, V)>,
    numbers: BTreeMap<K, u64>,
    next: u64,
}

impl<K, V> Default for Listed<K, V> {
    fn default() -> Listed<K, V> {
        Listed {
            members: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Listed<K, V> {
    fn eq(&self, other: &Listed<K, V>) -> bool {
        self.members.values().eq(other.members.values())
    }
}

impl<K: Ord, V: Eq> Eq for Listed<K, V> {}

impl<K: Clone + Ord> FromIterator<K> for Listed<K> {
    fn from_iter<I: IntoIterator<Item = K>>(members: I) -> Listed<K> {
        let mut listed = Listed::default();
        members.into_iter().for_each(|member| listed.add(member, ()));
        listed
    }
}

impl<K: Clone + Ord, V> Listed<K, V> {
    /// The members with their values, in the order of addition.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.members.values().map(|(member, value)| (member, value))
    }

    /// The members without their values, in the same order.
    pub fn names(&self) -> impl Iterator<Item = &K> {
        self.members.values().map(|(member, _)| member)
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn clear(&mut self) {
        self.members.clear();
        self.numbers.clear();
    }

    pub fn get_mut(&mut self, member: &K) -> Option<&mut V> {
        let number = self.numbers.get(member)?;
        self.members.get_mut(number).map(|(_, value)| value)
    }

    /// Appends a member. An existing member keeps its value.
    pub fn add(&mut self, member: K, value: V) {
        if !self.numbers.contains_key(&member) {
            self.numbers.insert(member.clone(), self.next);
            self.members.insert(self.next, (member, value));
            self.next += 1;
        }
    }

    /// Takes out the oldest member.
    pub fn take_first(&mut self) -> Option<K> {
        let (_, (member, _)) = self.members.pop_first()?;
        self.numbers.remove(&member);
        Some(member)
    }

    /// Takes a member out; false if it is not there.
    pub fn remove(&mut self, member: &K) -> bool {
        let number = self.numbers.remove(member);
        number.is_some_and(|number| self.members.remove(&number).is_some())
    }
}

impl<V> Listed<Arc<str>, V> {
    /// Takes out the members with the prefix `prefix`.
    pub fn remove_prefixed(&mut self, prefix: &str) {
        let from = self
            .numbers
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let covered: Vec<Arc<str>> = from
            .map(|(member, _)| member.clone())
            .take_while(|member| member.starts_with(prefix))
            .collect();
        for member in covered {
            self.remove(&member);
        }
    }
}
