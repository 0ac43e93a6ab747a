//! Checks a history of transactions that read lists and append to them.
//!
//! Every value is appended once, so a list that was read shows the writers of its elements, in
//! order. The dependencies between transactions follow from that (Adya, Liskov and O'Neil,
//! "Generalized Isolation Level Definitions", 2000):
//!
//! ```text
//! ww   one appended behind what the other had appended
//! wr   one read what the other had appended last
//! rw   one read a list to which the other appended next
//! rt   one had ended before the other began
//! ```
//!
//! Strictly serializable means that there is no cycle among all of them. Each transaction reads
//! every list before it appends to it. A transaction with an unknown outcome counts as committed if
//! any of its writes was read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

type List = Vec<u32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Failed,
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub reads: Vec<(Vec<u8>, List)>,
    /// To lists that it has read.
    pub appends: Vec<(Vec<u8>, u32)>,
    pub began: Duration,
    pub ended: Duration,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Anomaly {
    #[error("transaction {0} read an element that nobody has appended, or twice")]
    Invented(usize),
    #[error("transaction {0} read what another had failed to append (G1a)")]
    Failed(usize),
    #[error("transaction {0} saw a list in another order than others")]
    Order(usize),
    #[error("a cycle among {0} transactions ({1})")]
    Cycle(usize, &'static str),
}

/// The dependencies that a history has shown, for the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub transactions: u64,
    pub edges: u64,
}

type Edges = BTreeMap<usize, BTreeSet<usize>>;

pub fn judge(history: &[Transaction]) -> Result<Shown, Anomaly> {
    let mut writers = BTreeMap::new();
    for (index, transaction) in history.iter().enumerate() {
        for (_, value) in &transaction.appends {
            writers.insert(*value, index);
        }
    }
    let lists = longest(history)?;
    let committed = committed(history, &lists, &writers)?;
    let (writes, reads, anti) = dependencies(history, &lists, &writers, &committed);
    let time = real_time(history, &committed);
    let kinds: [(&'static str, &[&Edges]); 6] = [
        ("G0", &[&writes]),
        ("G1c", &[&writes, &reads]),
        ("G2", &[&writes, &reads, &anti]),
        ("G0-realtime", &[&writes, &time]),
        ("G1c-realtime", &[&writes, &reads, &time]),
        ("G2-realtime", &[&writes, &reads, &anti, &time]),
    ];
    for (name, edges) in kinds {
        match in_cycles(edges) {
            0 => {}
            count => return Err(Anomaly::Cycle(count, name)),
        }
    }
    let edges = [&writes, &reads, &anti, &time].map(|edges| edges.values().map(BTreeSet::len).sum::<usize>());
    Ok(Shown {
        transactions: committed.len() as u64,
        edges: edges.iter().sum::<usize>() as u64,
    })
}

/// Each list as a transaction that committed has seen it, with its own append.
fn seen(transaction: &Transaction) -> impl Iterator<Item = (&Vec<u8>, List)> {
    transaction.reads.iter().map(|(key, read)| {
        let own = transaction.appends.iter().filter(|(of, _)| of == key);
        (key, read.iter().copied().chain(own.map(|(_, value)| *value)).collect())
    })
}

fn longest(history: &[Transaction]) -> Result<BTreeMap<&Vec<u8>, List>, Anomaly> {
    let mut lists: BTreeMap<&Vec<u8>, List> = BTreeMap::new();
    let successes = || {
        history
            .iter()
            .enumerate()
            .filter(|(_, transaction)| transaction.outcome == Outcome::Ok)
    };
    for (_, transaction) in successes() {
        for (key, list) in seen(transaction) {
            let longest = lists.entry(key).or_default();
            if list.len() > longest.len() {
                *longest = list;
            }
        }
    }
    for (index, transaction) in successes() {
        for (key, list) in seen(transaction) {
            if !lists[key].starts_with(&list) {
                return Err(Anomaly::Order(index));
            }
            if list.iter().collect::<BTreeSet<_>>().len() < list.len() {
                return Err(Anomaly::Invented(index));
            }
        }
    }
    Ok(lists)
}

fn committed(
    history: &[Transaction],
    lists: &BTreeMap<&Vec<u8>, List>,
    writers: &BTreeMap<u32, usize>,
) -> Result<BTreeSet<usize>, Anomaly> {
    let is_ok = |index: &usize| history[*index].outcome == Outcome::Ok;
    let mut committed: BTreeSet<usize> = (0..history.len()).filter(is_ok).collect();
    for (key, list) in lists {
        for value in list {
            let writer = writers.get(value).copied();
            let wrote = |writer: &usize| {
                history[*writer]
                    .appends
                    .iter()
                    .any(|(of, element)| of == *key && element == value)
            };
            let writer = writer.filter(wrote).ok_or(Anomaly::Invented(0))?;
            if history[writer].outcome == Outcome::Failed {
                return Err(Anomaly::Failed(writer));
            }
            committed.insert(writer);
        }
    }
    Ok(committed)
}

/// The edges ww, wr and rw.
fn dependencies(
    history: &[Transaction],
    lists: &BTreeMap<&Vec<u8>, List>,
    writers: &BTreeMap<u32, usize>,
    committed: &BTreeSet<usize>,
) -> (Edges, Edges, Edges) {
    let (mut writes, mut reads, mut anti) = (Edges::new(), Edges::new(), Edges::new());
    let add = |edges: &mut Edges, from: usize, to: usize| {
        if from != to && committed.contains(&from) && committed.contains(&to) {
            edges.entry(from).or_default().insert(to);
        }
    };
    for list in lists.values() {
        for pair in list.windows(2) {
            add(&mut writes, writers[&pair[0]], writers[&pair[1]]);
        }
    }
    for (index, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Ok {
            continue;
        }
        for (key, list) in &transaction.reads {
            if let Some(last) = list.last() {
                add(&mut reads, writers[last], index);
            }
            if let Some(next) = lists[key].get(list.len()) {
                add(&mut anti, index, writers[next]);
            }
        }
    }
    (writes, reads, anti)
}

/// Edges from each transaction to every transaction that started after its end; edges implied by
/// others are left out.
fn real_time(history: &[Transaction], committed: &BTreeSet<usize>) -> Edges {
    let mut events = Vec::new();
    for &index in committed {
        let transaction = &history[index];
        // An end at the same time as a start does not precede it.
        events.push((transaction.began, 0, index));
        if transaction.outcome == Outcome::Ok {
            events.push((transaction.ended, 1, index));
        }
    }
    events.sort_unstable();
    let (mut edges, mut before) = (Edges::new(), BTreeMap::new());
    let mut frontier: BTreeSet<usize> = BTreeSet::new();
    for (_, kind, index) in events {
        if kind == 0 {
            before.insert(index, frontier.clone());
            for &other in &frontier {
                edges.entry(other).or_default().insert(index);
            }
        } else {
            frontier.retain(|other| !before[&index].contains(other));
            frontier.insert(index);
        }
    }
    edges
}

/// The number of transactions that remain after repeatedly removing those without predecessors: the
/// cycles, and their successors.
fn in_cycles(kinds: &[&Edges]) -> usize {
    let mut ahead: BTreeMap<usize, usize> = BTreeMap::new();
    for (from, to) in kinds.iter().flat_map(|edges| edges.iter()) {
        ahead.entry(*from).or_default();
        to.iter().for_each(|to| *ahead.entry(*to).or_default() += 1);
    }
    let mut free: Vec<usize> = ahead
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(node, _)| *node)
        .collect();
    let mut remaining = ahead.len();
    while let Some(node) = free.pop() {
        remaining -= 1;
        for to in kinds.iter().filter_map(|edges| edges.get(&node)).flatten() {
            let count = ahead.get_mut(to).expect("every end of an edge is counted");
            *count -= 1;
            if *count == 0 {
                free.push(*to);
            }
        }
    }
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction from `began` to `ended` that reads lists and appends one value to each named.
    fn transaction(times: (u64, u64), reads: &[(&str, &[u32])], appends: &[(&str, u32)]) -> Transaction {
        let key = |name: &str| name.as_bytes().to_vec();
        Transaction {
            reads: reads.iter().map(|(name, list)| (key(name), list.to_vec())).collect(),
            appends: appends.iter().map(|(name, value)| (key(name), *value)).collect(),
            began: Duration::from_secs(times.0),
            ended: Duration::from_secs(times.1),
            outcome: Outcome::Ok,
        }
    }

    fn check(history: &[Transaction], expected: Result<u64, Anomaly>) {
        assert_eq!(judge(history).map(|report| report.transactions), expected);
    }

    #[test]
    fn sequential_operations_are_valid() {
        let (first, second) = (
            transaction((0, 1), &[("a", &[])], &[("a", 1)]),
            transaction((2, 3), &[("a", &[1]), ("b", &[])], &[("b", 2)]),
        );
        check(&[first.clone(), second], Ok(2));
        let unknown = Transaction {
            outcome: Outcome::Unknown,
            ..first.clone()
        };
        let reader = transaction((2, 3), &[("a", &[1])], &[]);
        check(&[unknown.clone(), reader.clone()], Ok(2));
        check(&[unknown], Ok(0));
        let failed = Transaction {
            outcome: Outcome::Failed,
            ..first
        };
        check(&[failed, reader], Err(Anomaly::Failed(0)));
    }

    #[test]
    fn a_stale_read_is_found() {
        let history = [
            transaction((0, 1), &[("a", &[])], &[("a", 1)]),
            transaction((2, 3), &[("a", &[])], &[]),
        ];
        check(&history, Err(Anomaly::Cycle(2, "G2-realtime")));
    }

    #[test]
    fn a_write_skew_is_found() {
        let keys: &[(&str, &[u32])] = &[("a", &[]), ("b", &[])];
        let history = [
            transaction((0, 9), keys, &[("a", 1)]),
            transaction((0, 9), keys, &[("b", 2)]),
            transaction((10, 11), &[("a", &[1]), ("b", &[2])], &[]),
        ];
        check(&history, Err(Anomaly::Cycle(3, "G2")));
    }

    #[test]
    fn a_lost_append_is_found() {
        let history = [
            transaction((0, 9), &[("a", &[])], &[("a", 1)]),
            transaction((0, 9), &[("a", &[])], &[("a", 2)]),
        ];
        check(&history, Err(Anomaly::Order(1)));
        let history = [transaction((0, 9), &[("a", &[7])], &[])];
        check(&history, Err(Anomaly::Invented(0)));
    }
}
