//! A set, or a vector index, as a value: for DUMP and RDB files, for digests, and for `quartet
//! check`.

use std::collections::HashMap;

use quartet_layer_redis::module_api::{Entry, Header, Keyspace, Kind, LARGE};
use quartet_search::rows::Rows;
use quartet_search::vectors::set::codec::{Coded, Quantization};
use quartet_search::vectors::set::portable::{self, Node};
use quartet_search::vectors::set::{Head, Id};
use quartet_wire_rdb::vector_set::{Element, Links, Projection, VectorSet};

use super::key::{head_and_mark, put, rows_of};
use crate::kinds::VECTOR_INDEX;

/// The head of a set's row, without the graph's part; `None` if no version has written it.
pub fn head(entry: &Entry) -> Option<Head> {
    Head::from_bytes(entry.large_payload())
}

/// Verifies a set's rows: returns a description of a breach, if there is one.
pub fn judge(rows: &mut dyn Rows, head: &Head) -> Option<String> {
    let head = head.with_graph(rows);
    portable::judge(rows, &head)
}

/// Elements that are linked for a value while others wait for the lock, at most.
const LINKED_WITH_LOCK: u64 = 16;

/// Returns true if [`value`] takes long: it links the elements that wait.
pub fn takes_long(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> bool {
    head_and_mark(entry, keys.tx).0.waiting_max() > LINKED_WITH_LOCK
}

/// Gives the parts of each element to `add`, and of the set as a whole.
pub fn nodes_hashed(keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]])) {
    let head = head(entry).expect("the row of a vector set");
    let form = [head.quantization as u8];
    let sizes = [head.dimensions, head.projected_from, head.links].map(|size| (size as u64).to_be_bytes());
    add(&[&form, &sizes.concat()]);
    for node in portable::nodes(&mut rows_of(&entry.elements(), keys.tx), &head) {
        let coded = &node.coded;
        let scales = [coded.length.to_be_bytes(), coded.range.to_be_bytes()].concat();
        add(&[&node.element, &node.attributes, &coded.code, &scales]);
    }
}

/// The set with its graph, in which all elements are linked.
pub fn value(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> VectorSet {
    let (head, _) = head_and_mark(entry, keys.tx);
    let mut rows = rows_of(&entry.elements(), keys.tx);
    let nodes = portable::nodes_linked(&mut rows, &head);
    let matrix = portable::matrix(&mut rows, &head);
    let coded: HashMap<Id, &Coded> = nodes.iter().map(|node| (node.id, &node.coded)).collect();
    VectorSet {
        dimensions: head.dimensions as u32,
        form: head.quantization as u8,
        links: head.links as u16,
        projection: matrix.map(|matrix| Projection {
            from: head.projected_from as u32,
            matrix,
        }),
        elements: nodes.iter().map(|node| element(&head, node, &coded)).collect(),
    }
}

fn element(head: &Head, node: &Node, coded: &HashMap<Id, &Coded>) -> Element {
    let levels = node.levels.iter().enumerate().map(|(level, links)| {
        let most = if level == 0 { head.links * 2 } else { head.links };
        let mut farthest = (0, 0.0);
        for (at, other) in links.iter().enumerate() {
            let distance = portable::distance(head, &node.coded, coded[other]);
            if distance > farthest.1 {
                farthest = (at as u32, distance);
            }
        }
        Links {
            max: most.max(links.len()) as u32,
            to: links.clone(),
            farthest,
        }
    });
    Element {
        name: node.element.clone(),
        attributes: node.attributes.clone(),
        code: node.coded.code.clone(),
        id: node.id,
        levels: levels.collect(),
        length: node.coded.length,
        range: node.coded.range,
    }
}

/// A head and nodes that make up a set, or a vector index; none if these do not.
fn read(set: &VectorSet, kind: Kind) -> Option<(Head, Vec<Node>)> {
    const LINKS_OF_FIRST_FILES: u16 = 16;
    let is_index = kind == VECTOR_INDEX;
    let quantization = Quantization::from_number(set.form).filter(|form| form.is_plain() == is_index)?;
    let links = if set.links == 0 {
        LINKS_OF_FIRST_FILES
    } else {
        set.links
    };
    let mut head = Head::new(quantization, usize::from(links), set.dimensions as usize);
    head.projected_from = set.projection.as_ref().map_or(0, |projection| projection.from as usize);
    let range = |element: &Element| match quantization {
        Quantization::Bytes => element.range,
        _ => 0.0,
    };
    let nodes: Vec<Node> = set
        .elements
        .iter()
        .map(|element| Node {
            id: element.id,
            element: element.name.clone(),
            attributes: element.attributes.clone(),
            coded: Coded {
                length: element.length,
                range: range(element),
                code: element.code.clone(),
            }
            .with_own_length(quantization),
            levels: element.levels.iter().map(|links| links.to.clone()).collect(),
        })
        .collect();
    portable::are_sound(&head, &nodes, matrix(set)).then_some((head, nodes))
}

fn matrix(set: &VectorSet) -> Option<&[u8]> {
    set.projection.as_ref().map(|projection| projection.matrix.as_slice())
}

/// Returns true if a key of this kind can be made of this.
pub fn is_sound(set: &VectorSet, kind: Kind) -> bool {
    read(set, kind).is_some()
}

/// Makes `name` this set or index. Panics if [`is_sound`] says that it is none.
pub fn replace(keys: &mut Keyspace<'_, '_>, name: &[u8], set: &VectorSet, kind: Kind) {
    let (mut head, nodes) = read(set, kind).expect("a set that was judged");
    let elements = keys.new_elements();
    portable::store(&mut rows_of(&elements, keys.tx), &mut head, &nodes, matrix(set));
    let header = Header::new(kind).flags(LARGE);
    put(keys, name, header, &elements, &head);
}
