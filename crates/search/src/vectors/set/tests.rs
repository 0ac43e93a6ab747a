use std::collections::BTreeSet;

use super::codec::Quantization;
use super::portable::{are_sound, judge, matrix, nodes, nodes_linked, store};
use super::*;
use crate::rows::MemoryRows;

/// Numbers from a seed, so that a failure is reproducible.
struct Choice(u64);

impl Choice {
    fn unit(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.unit() + 0.5) * bound as f32) as usize
    }
}

/// Vectors around some centres.
fn clustered(count: usize, dimensions: usize, clusters: usize, choice: &mut Choice) -> Vec<Vec<f32>> {
    let vector = |choice: &mut Choice| (0..dimensions).map(|_| choice.unit()).collect::<Vec<_>>();
    let centres: Vec<Vec<f32>> = (0..clusters).map(|_| vector(choice)).collect();
    (0..count)
        .map(|at| {
            let near = vector(choice);
            let centre = &centres[at % clusters];
            centre
                .iter()
                .zip(near)
                .map(|(centre, own)| centre + own * 0.4)
                .collect()
        })
        .collect()
}

fn query<'q>(vector: &'q [f32], is_exact: bool) -> Query<'q> {
    Query {
        vector,
        count: 10,
        effort: 100,
        filter: None,
        looked_at_max: 1000,
        is_exact,
    }
}

fn found(rows: &mut MemoryRows, head: &Head, query: &Query<'_>) -> BTreeSet<Id> {
    search(rows, head, query).into_iter().map(|hit| hit.id).collect()
}

fn recall(rows: &mut MemoryRows, head: &Head, queries: &[Vec<f32>]) -> f64 {
    let mut right = 0;
    for vector in queries {
        let exact = found(rows, head, &query(vector, true));
        right += found(rows, head, &query(vector, false)).intersection(&exact).count();
    }
    right as f64 / (queries.len() * 10) as f64
}

fn filled(vectors: &[Vec<f32>], quantization: Quantization) -> (MemoryRows, Head) {
    let mut rows = MemoryRows::default();
    let mut head = Head::new(quantization, 16, vectors[0].len());
    for (at, vector) in vectors.iter().enumerate() {
        assert!(add(
            &mut rows,
            &mut head,
            format!("e{at}").as_bytes(),
            vector,
            None,
            200
        ));
    }
    (rows, head)
}

/// The bar of the issue this answers: 0.95 of the ten nearest on vectors in clusters, and no less
/// after half of them were replaced or removed.
#[test]
fn the_graph_finds_what_a_look_at_all_finds() {
    for quantization in [Quantization::None, Quantization::Bytes] {
        let mut choice = Choice(7);
        let vectors = clustered(700, 24, 20, &mut choice);
        let (mut rows, mut head) = filled(&vectors[..500], quantization);
        let queries = &vectors[500..550];
        let before = recall(&mut rows, &head, queries);
        assert!(before >= 0.95, "{quantization:?}: {before}");
        for at in 0..250 {
            let name = format!("e{}", choice.below(500));
            match at % 2 {
                0 => _ = remove(&mut rows, &mut head, name.as_bytes()),
                _ => {
                    _ = add(
                        &mut rows,
                        &mut head,
                        name.as_bytes(),
                        &vectors[550 + at % 150],
                        None,
                        200,
                    )
                }
            }
        }
        assert_eq!(judge(&mut rows, &head), None);
        let after = recall(&mut rows, &head, queries);
        assert!(after >= 0.95, "{quantization:?}: {after}");
    }
}

#[test]
fn equal_commands_make_equal_rows() {
    let vectors = clustered(300, 16, 10, &mut Choice(3));
    assert_eq!(
        filled(&vectors, Quantization::Bytes),
        filled(&vectors, Quantization::Bytes)
    );
}

#[test]
fn a_set_is_restored_from_its_nodes() {
    let vectors = clustered(200, 16, 10, &mut Choice(5));
    let (mut rows, mut head) = filled(&vectors, Quantization::Bytes);
    set_attributes(&mut rows, &mut head, b"e7", b"{}");
    remove(&mut rows, &mut head, b"e8");
    let all_nodes = nodes(&mut rows, &head);
    assert!(are_sound(&head, &all_nodes, None));
    let mut copy = (MemoryRows::default(), Head::new(Quantization::Bytes, 16, 16));
    store(&mut copy.0, &mut copy.1, &all_nodes, None);
    assert_eq!(copy.0, rows);
    assert_eq!(copy.1.with_attributes, 1);
    let changes: [fn(&mut Vec<portable::Node>); 6] = [
        |nodes| {
            let own = nodes[0].id;
            nodes[0].levels[0].push(own);
        },
        |nodes| _ = nodes[0].levels[0].pop(),
        |nodes| nodes[1].element = nodes[0].element.clone(),
        |nodes| nodes[0].id = 0,
        |nodes| _ = nodes[0].coded.code.pop(),
        |nodes| nodes[0].levels.clear(),
    ];
    for change in changes {
        let mut nodes = all_nodes.clone();
        change(&mut nodes);
        assert!(!are_sound(&head, &nodes, None));
    }
}

#[test]
fn a_matrix_that_is_not_redis_own_is_kept() {
    let mut head = Head::new(Quantization::None, 16, 2);
    head.projected_from = 3;
    let mut rows = MemoryRows::default();
    assert!(add(&mut rows, &mut head, b"a", &[1.0, 0.0], None, 200));
    let all_nodes = nodes(&mut rows, &head);
    let own = matrix(&mut rows, &head).unwrap();
    let other: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0]
        .iter()
        .flat_map(|float| float.to_le_bytes())
        .collect();
    for (matrix, sums) in [(&own, None), (&other, Some(vec![6.0, 15.0]))] {
        let (mut rows, mut copy) = (MemoryRows::default(), head);
        store(&mut rows, &mut copy, &all_nodes, Some(matrix));
        assert_eq!(copy.has_matrix, sums.is_some());
        assert_eq!(judge(&mut rows, &copy), None);
        if let Some(sums) = sums {
            assert_eq!(projected(&mut rows, &copy, &[1.0; 3]), sums);
        }
    }
}

#[test]
fn attributes_stay_with_their_element() {
    let mut head = Head::new(Quantization::Bytes, 4, 2);
    let mut rows = MemoryRows::default();
    add(&mut rows, &mut head, b"a", &[1.0, 0.0], Some(br#"{"n":1}"#), 10);
    add(&mut rows, &mut head, b"b", &[1.0, 0.1], Some(br#"{"n":2}"#), 10);
    add(&mut rows, &mut head, b"a", &[0.0, 1.0], None, 10);
    assert_eq!((head.count, head.with_attributes), (2, 2));
    let filter = Filter::parse(b".n == 1").unwrap();
    for is_exact in [false, true] {
        let query = Query {
            filter: Some(&filter),
            ..query(&[1.0, 0.0], is_exact)
        };
        let hits = search(&mut rows, &head, &query);
        assert_eq!(hits.len(), 1);
        assert_eq!((hits[0].element.as_slice(), hits[0].distance), (b"a".as_slice(), 1.0));
    }
    add(&mut rows, &mut head, b"a", &[0.0, 1.0], Some(b""), 10);
    assert_eq!(head.with_attributes, 1);
}

/// Vectors that are all alike, or opposite, and sets that shrink to nothing.
#[test]
fn hard_sets_keep_their_promises() {
    let mut choice = Choice(11);
    for kind in 0..3 {
        let mut head = Head::new(Quantization::None, 4, 2);
        let mut rows = MemoryRows::default();
        for at in 0..200 {
            let vector = match kind {
                0 => [1.0, 1.0],
                1 => [if at % 2 == 0 { 1.0 } else { -1.0 }, 0.0],
                _ => [0.0, 0.0],
            };
            add(&mut rows, &mut head, format!("{at}").as_bytes(), &vector, None, 20);
        }
        assert_eq!(judge(&mut rows, &head), None);
        assert_eq!(search(&mut rows, &head, &query(&[1.0, 1.0], false)).len(), 10);
        let mut remaining: Vec<usize> = (0..200).collect();
        while !remaining.is_empty() {
            let at = remaining.swap_remove(choice.below(remaining.len()));
            assert!(remove(&mut rows, &mut head, format!("{at}").as_bytes()));
            if remaining.len() % 20 == 1 {
                assert_eq!(judge(&mut rows, &head), None);
                assert_eq!(
                    search(&mut rows, &head, &query(&[1.0, 1.0], false)).len(),
                    remaining.len().min(10)
                );
            }
        }
        assert!(rows.is_empty() && head.entry == 0);
    }
}

/// Elements that wait are found, and linked in batches of any size they make the same rows.
#[test]
fn elements_that_wait_are_found_and_linked() {
    let mut choice = Choice(13);
    let vectors = clustered(700, 16, 10, &mut choice);
    let (rows, head) = filled(&vectors[..600], Quantization::Bytes);
    assert_eq!(head.waiting_max(), 600 - linking::LINKED_AT_ONCE);
    let mut linked = Vec::new();
    for batch in [1, 7, 1000] {
        let (mut rows, mut head) = (rows.clone(), head);
        let dumped = nodes_linked(&mut rows, &head);
        loop {
            let exact = found(&mut rows, &head, &query(&vectors[599], true));
            assert!(exact.contains(&600));
            assert_eq!(judge(&mut rows, &head), None);
            assert!(recall(&mut rows, &head, &vectors[650..660]) >= 0.95);
            assert!(!links_of(&mut rows, &head, 600)[0].is_empty());
            if !linking::link(&mut rows, batch) {
                break;
            }
            head = head.with_graph(&mut rows);
        }
        assert!(!linking::has_waiting(&mut rows));
        assert_eq!(nodes(&mut rows, &head), dumped);
        rows.clear(GRAPH);
        linked.push(rows);
    }
    assert!(linked.iter().all(|rows| *rows == linked[0]));
}

/// Elements are removed, added again and changed while they wait, and after their links were
/// prepared.
#[test]
fn elements_that_wait_may_change() {
    for seed in 0..4 {
        let mut choice = Choice(seed);
        let vectors = clustered(600, 8, 10, &mut choice);
        let (mut rows, mut head) = filled(&vectors[..300], Quantization::None);
        let mut prepared = None;
        for _ in 0..600 {
            let at = choice.below(600);
            let name = format!("e{at}").into_bytes();
            match choice.below(8) {
                0 => prepared = linking::prepare(&mut rows, 1 + choice.below(20)),
                1 => {
                    if let Some(prepared) = prepared.take() {
                        prepared.write(&mut rows);
                        head = head.with_graph(&mut rows);
                    }
                }
                2 | 3 => _ = remove(&mut rows, &mut head, &name),
                _ => {
                    let effort = [200, 20][choice.below(2)];
                    _ = add(
                        &mut rows,
                        &mut head,
                        &name,
                        &vectors[choice.below(600)],
                        Some(b"{}"),
                        effort,
                    )
                }
            }
            let exact = found(&mut rows, &head, &query(&vectors[at], true));
            let near = found(&mut rows, &head, &query(&vectors[at], false));
            assert!(near.intersection(&exact).count() >= 7, "seed {seed}");
        }
        assert_eq!(judge(&mut rows, &head), None);
        while linking::link(&mut rows, 5) {}
        head = head.with_graph(&mut rows);
        assert_eq!(judge(&mut rows, &head), None);
        assert_eq!(rows.count(b"w", b"x"), 0);
        for at in 0..600 {
            remove(&mut rows, &mut head, format!("e{at}").as_bytes());
        }
        assert_eq!((head.count, head.entry), (0, 0));
        rows.clear(GRAPH);
        assert!(rows.is_empty());
    }
}

/// At any number of additions no more elements wait than a search compares directly, and the key's
/// row need not have the entry of the graph.
#[test]
fn no_more_wait_than_may() {
    let mut rows = MemoryRows::default();
    let mut head = Head::new(Quantization::Bits, 4, 8);
    let mut choice = Choice(1);
    for at in 0..9000 {
        let vector: Vec<f32> = (0..8).map(|_| choice.unit()).collect();
        add(&mut rows, &mut head, format!("{at}").as_bytes(), &vector, None, 4);
    }
    let read = Head::from_bytes(&head.to_bytes()).unwrap();
    assert_eq!(read.with_graph(&mut rows), head);
    assert!(head.waiting_max() <= 8193);
    assert_eq!(judge(&mut rows, &head), None);
}
