//! Small generated programs, compared with a plain model of the documented behaviour.
//!
//! A program writes documents of two collections, rewrites their history and reads sets over three
//! indexes: one over refs, one over values, one over a binding in reverse order and values. The
//! model keeps every version of every document in a list and computes a set from all of them each
//! time; it shares nothing with the layer. Each set is read whole, page by page in both directions
//! and counted, now or at an earlier time, by an admin and with keys of two roles.
//!
//! `FAUNA_PROGRAMS` sets the number of programs (the short form has 40), `FAUNA_SEED` the first
//! seed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use quartet_layer_fauna::Reply;
use serde_json::{Value as Json, json};

use crate::world::World;

const COLLECTIONS: [&str; 2] = ["a", "b"];
/// No index has terms of its own for this.
const INDEXES: [&str; 3] = ["refs", "values", "bound"];

/// A program that finds 1 and 1.0 in one distinct set.
const DISTINCT_NUMBERS: u64 = 764;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

#[derive(Clone, Debug)]
enum Plain {
    Integer(i64),
    Double(f64),
    Text(&'static str),
    Flag(bool),
    Null,
}

const PLAIN: [Plain; 10] = [
    Plain::Integer(0),
    Plain::Integer(1),
    Plain::Integer(2),
    Plain::Integer(7),
    Plain::Double(1.0),
    Plain::Double(1.5),
    Plain::Text("a"),
    Plain::Text("A"),
    Plain::Text("b"),
    Plain::Flag(true),
];

impl Plain {
    fn json(&self) -> Json {
        match self {
            Plain::Integer(integer) => json!(integer),
            Plain::Double(double) => json!(double),
            Plain::Text(text) => json!(text),
            Plain::Flag(flag) => json!(flag),
            Plain::Null => Json::Null,
        }
    }

    /// Numbers, then texts (a before A before b), then true, then null.
    fn place(&self) -> (u8, f64, char, bool) {
        match self {
            Plain::Integer(integer) => (0, *integer as f64, ' ', false),
            Plain::Double(double) => (0, *double, ' ', false),
            Plain::Text(text) => {
                let letter = text.chars().next().unwrap();
                (1, 0.0, letter.to_ascii_lowercase(), letter.is_ascii_uppercase())
            }
            Plain::Flag(_) => (2, 0.0, ' ', false),
            Plain::Null => (3, 0.0, ' ', false),
        }
    }

    fn order(&self, other: &Plain) -> Ordering {
        self.place().partial_cmp(&other.place()).unwrap()
    }

    /// The same as a term: 1 is not 1.0.
    fn is_term(&self, other: &Plain) -> bool {
        self.order(other).is_eq() && matches!(self, Plain::Double(_)) == matches!(other, Plain::Double(_))
    }
}

/// The fields of a document.
#[derive(Clone, Debug, Default)]
struct Data {
    t: Vec<Plain>,
    v: Vec<Plain>,
    n: Option<i64>,
}

impl Data {
    fn json(&self) -> Json {
        let list = |values: &[Plain]| match values {
            [single] => single.json(),
            several => Json::Array(several.iter().map(Plain::json).collect()),
        };
        let mut fields = serde_json::Map::new();
        if !self.t.is_empty() {
            fields.insert("t".into(), list(&self.t));
        }
        if !self.v.is_empty() {
            fields.insert("v".into(), list(&self.v));
        }
        if let Some(n) = self.n {
            fields.insert("n".into(), json!(n));
        }
        json!({ "object": { "data": { "object": fields } } })
    }
}

/// An id and a collection: the order of refs.
type Document = (u64, usize);

/// Every version of a document: its time, and its data; none if it was deleted.
type Versions = BTreeMap<u64, Option<Data>>;

#[derive(Clone, Debug)]
struct Element {
    values: Vec<Plain>,
    document: Document,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Refs,
    Values,
    Bound,
}

#[derive(Clone, Debug)]
enum Set {
    Refs(Plain),
    Values(Plain),
    Bound,
    Documents(usize),
    Union(Vec<Set>),
    Intersection(Vec<Set>),
    Difference(Vec<Set>),
    Distinct(Box<Set>),
    Filter(Box<Set>, Plain),
    Range(Box<Set>, Plain, Plain),
    Join(Box<Set>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Admin,
    /// Reads documents whose `n` is even now, through any index.
    Reader,
    /// Reads all of one index, and another without its documents.
    Narrow,
}

#[derive(Default)]
struct Model {
    documents: BTreeMap<Document, Versions>,
}

impl Model {
    fn live(&self, document: Document, at: u64) -> Option<&Data> {
        let versions = self.documents.get(&document)?;
        versions.range(..=at).next_back()?.1.as_ref()
    }

    fn all(&self, at: u64) -> Vec<(Document, &Data)> {
        let visible = self
            .documents
            .keys()
            .filter_map(|document| Some((*document, self.live(*document, at)?)));
        visible.collect()
    }

    fn entries(&self, shape: Shape, term: Option<&Plain>, at: u64) -> Vec<Element> {
        let or_null = |values: &[Plain]| match values.is_empty() {
            true => vec![Plain::Null],
            false => values.to_vec(),
        };
        let mut elements: Vec<Element> = Vec::new();
        for (document, data) in self.all(at) {
            // The terms, of which all that are null make no entry.
            if term.is_some_and(|term| !data.t.iter().any(|own| own.is_term(term))) {
                continue;
            }
            let combinations: Vec<Vec<Plain>> = match shape {
                Shape::Refs => vec![Vec::new()],
                Shape::Values => or_null(&data.v).into_iter().map(|value| vec![value]).collect(),
                Shape::Bound => {
                    let factor = if document.1 == 0 { 1 } else { 10 };
                    let bound = data.n.map_or(Plain::Null, |n| Plain::Integer(n * factor));
                    or_null(&data.v)
                        .into_iter()
                        .map(|value| vec![bound.clone(), value])
                        .collect()
                }
            };
            for values in combinations {
                let is_null = !values.is_empty() && values.iter().all(|value| matches!(value, Plain::Null));
                let element = Element { values, document };
                let is_new = !elements
                    .iter()
                    .any(|previous| previous.document == document && same_values(previous, &element));
                if !is_null && is_new {
                    elements.push(element);
                }
            }
        }
        elements
    }

    /// Returns the readable elements of a set, and whether each document must be checked. `None`:
    /// it is denied.
    fn read(&self, set: &Set, caller: Caller, at: u64, now: u64) -> Option<(Vec<Element>, bool)> {
        let shape = shape_of(set);
        let some = |elements: Vec<Element>, is_checked: bool| {
            Some((sorted(elements, shape), is_checked && caller != Caller::Admin))
        };
        match set {
            Set::Refs(term) => some(self.entries(shape, Some(term), at), true),
            Set::Values(term) => some(self.entries(shape, Some(term), at), caller != Caller::Narrow),
            Set::Bound if caller == Caller::Narrow => None,
            Set::Bound => some(self.entries(shape, None, at), true),
            Set::Documents(collection) => {
                let all = self
                    .all(at)
                    .into_iter()
                    .filter(|(document, _)| document.1 == *collection);
                let all = all.map(|(document, _)| Element {
                    values: Vec::new(),
                    document,
                });
                some(all.collect(), true)
            }
            Set::Union(parts) => {
                let parts = self.parts(parts, 0, caller, at, now)?;
                let is_checked = parts.iter().any(|(_, is_checked)| *is_checked);
                let all: Vec<Element> = parts.iter().flat_map(|(part, _)| part.iter().cloned()).collect();
                let most = |group: &Element| {
                    let mut largest: Vec<Element> = Vec::new();
                    for (part, _) in &parts {
                        let of = of_group(part, group);
                        if of.len() > largest.len() {
                            largest = of;
                        }
                    }
                    largest
                };
                some(groups(all, shape).iter().flat_map(most).collect(), is_checked)
            }
            Set::Intersection(parts) => {
                let parts = self.parts(parts, 0, caller, at, now)?;
                let is_checked = parts.iter().any(|(_, is_checked)| *is_checked);
                let common = |group: &Element| {
                    let least = parts
                        .iter()
                        .map(|(part, _)| of_group(part, group).len())
                        .min()
                        .unwrap_or(0);
                    let mut of = of_group(&parts[0].0, group);
                    of.truncate(least);
                    of
                };
                some(
                    groups(parts[0].0.clone(), shape).iter().flat_map(common).collect(),
                    is_checked,
                )
            }
            Set::Difference(parts) => {
                let parts = self.parts(parts, 1, caller, at, now)?;
                let is_checked = parts.iter().any(|(_, is_checked)| *is_checked);
                let (first, following) = parts.split_first()?;
                let stays = |element: &&Element| following.iter().all(|(other, _)| of_group(other, element).is_empty());
                some(first.0.iter().filter(stays).cloned().collect(), is_checked)
            }
            Set::Distinct(of) => {
                let (of, is_checked) = self.read(of, caller, at, now)?;
                some(runs(of, shape), is_checked)
            }
            Set::Filter(of, least) => {
                let (of, is_checked) = self.read(of, caller, at, now)?;
                let stays = |element: &Element| match shape {
                    Shape::Refs => Plain::Integer(element.document.0 as i64).order(least).is_ge(),
                    _ => element.values[0].order(least).is_ge(),
                };
                some(of.into_iter().filter(stays).collect(), is_checked)
            }
            Set::Range(of, from, to) => {
                let (of, is_checked) = self.read(of, caller, at, now)?;
                let turned = |order: Ordering| if shape == Shape::Bound { order.reverse() } else { order };
                let inside = |element: &Element| {
                    turned(element.values[0].order(from)).is_ge() && turned(element.values[0].order(to)).is_le()
                };
                some(of.into_iter().filter(inside).collect(), is_checked)
            }
            Set::Join(source) => {
                let (source, is_checked) = self.read(source, caller, at, now)?;
                let mut all = Vec::new();
                for element in source {
                    let targets = self.entries(Shape::Refs, Some(&element.values[0]), at);
                    all.extend(
                        targets
                            .into_iter()
                            .filter(|target| self.may_read(target.document, caller, now)),
                    );
                }
                some(groups(all, Shape::Refs), is_checked)
            }
        }
    }

    fn parts(
        &self,
        parts: &[Set],
        needed: usize,
        caller: Caller,
        at: u64,
        now: u64,
    ) -> Option<Vec<(Vec<Element>, bool)>> {
        let mut retained = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match self.read(part, caller, at, now) {
                Some(read) => retained.push(read),
                None if index < needed => return None,
                None => {}
            }
        }
        (!retained.is_empty()).then_some(retained)
    }

    fn may_read(&self, document: Document, caller: Caller, now: u64) -> bool {
        match caller {
            Caller::Admin => true,
            Caller::Reader => self
                .live(document, now)
                .is_some_and(|data| data.n.is_some_and(|n| n % 2 == 0)),
            Caller::Narrow => false,
        }
    }

    fn answer(&self, set: &Set, caller: Caller, at: u64, now: u64) -> Option<Vec<Element>> {
        let (mut elements, is_checked) = self.read(set, caller, at, now)?;
        if is_checked {
            elements.retain(|element| self.may_read(element.document, caller, now));
        }
        Some(elements)
    }
}

fn shape_of(set: &Set) -> Shape {
    match set {
        Set::Refs(_) | Set::Documents(_) | Set::Join(_) => Shape::Refs,
        Set::Values(_) => Shape::Values,
        Set::Bound => Shape::Bound,
        Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => shape_of(&parts[0]),
        Set::Distinct(of) | Set::Filter(of, _) | Set::Range(of, ..) => shape_of(of),
    }
}

fn same_values(first: &Element, other: &Element) -> bool {
    first.values.iter().zip(&other.values).all(|(a, b)| a.order(b).is_eq())
}

/// Equal to a set: the same values, or the same document if there are none.
fn is_same(first: &Element, other: &Element) -> bool {
    same_values(first, other) && (!first.values.is_empty() || first.document == other.document)
}

fn of_group(part: &[Element], group: &Element) -> Vec<Element> {
    part.iter().filter(|element| is_same(element, group)).cloned().collect()
}

fn sorted(mut elements: Vec<Element>, shape: Shape) -> Vec<Element> {
    elements.sort_by(|one, other| {
        let values = one.values.iter().zip(&other.values).enumerate();
        let turned = |index: usize, order: Ordering| match (shape, index) {
            (Shape::Bound, 0) => order.reverse(),
            _ => order,
        };
        let unequal = values.map(|(index, (one, other))| turned(index, one.order(other)));
        let first = unequal.into_iter().find(|order| order.is_ne());
        first.unwrap_or_else(|| one.document.cmp(&other.document))
    });
    elements
}

/// The first element of each group.
fn groups(elements: Vec<Element>, shape: Shape) -> Vec<Element> {
    let mut first = sorted(elements, shape);
    first.dedup_by(|a, b| is_same(a, b));
    first
}

/// The first element of each run of the same values: equal numbers of both kinds are not the same.
fn runs(elements: Vec<Element>, shape: Shape) -> Vec<Element> {
    let mut first = sorted(elements, shape);
    first.dedup_by(|one, other| {
        let mut values = one.values.iter().zip(&other.values);
        is_same(one, other) && values.all(|(a, b)| a.is_term(b))
    });
    first
}

// ---- queries

fn reference((id, collection): Document) -> Json {
    json!({ "ref": { "collection": COLLECTIONS[collection] }, "id": id.to_string() })
}

fn asked(set: &Set) -> Json {
    let all = |parts: &[Set]| Json::Array(parts.iter().map(asked).collect());
    match set {
        Set::Refs(term) => json!({ "match": { "index": INDEXES[0] }, "terms": term.json() }),
        Set::Values(term) => json!({ "match": { "index": INDEXES[1] }, "terms": term.json() }),
        Set::Bound => json!({ "match": { "index": INDEXES[2] } }),
        Set::Documents(collection) => json!({ "documents": { "collection": COLLECTIONS[*collection] } }),
        Set::Union(parts) => json!({ "union": all(parts) }),
        Set::Intersection(parts) => json!({ "intersection": all(parts) }),
        Set::Difference(parts) => json!({ "difference": all(parts) }),
        Set::Distinct(of) => json!({ "distinct": asked(of) }),
        Set::Filter(of, least) => {
            let (parameters, value) = match shape_of(of) {
                Shape::Refs => (
                    json!("x"),
                    json!({ "to_integer": { "select": "id", "from": { "var": "x" } } }),
                ),
                Shape::Values => (json!("x"), json!({ "var": "x" })),
                Shape::Bound => (json!(["x", "_"]), json!({ "var": "x" })),
            };
            let lambda = json!({ "lambda": parameters, "expr": { "gte": [value, least.json()] } });
            json!({ "filter": lambda, "collection": asked(of) })
        }
        Set::Range(of, from, to) => json!({ "range": asked(of), "from": [from.json()], "to": [to.json()] }),
        Set::Join(source) => json!({ "join": asked(source), "with": { "index": INDEXES[0] } }),
    }
}

fn generated(chance: &mut Chance, shape: Shape, depth: usize) -> Set {
    let leaf = |chance: &mut Chance| match shape {
        Shape::Refs if chance.below(3) == 0 => Set::Documents(chance.below(2)),
        Shape::Refs => Set::Refs(chance.of(&PLAIN).clone()),
        Shape::Values => Set::Values(chance.of(&PLAIN).clone()),
        Shape::Bound => Set::Bound,
    };
    if depth == 0 {
        return leaf(chance);
    }
    let several = |chance: &mut Chance| -> Vec<Set> {
        let count = 2 + chance.below(2);
        (0..count).map(|_| generated(chance, shape, depth - 1)).collect()
    };
    let inner = |chance: &mut Chance| Box::new(generated(chance, shape, depth - 1));
    match (chance.below(9), shape) {
        (0 | 1, _) => Set::Union(several(chance)),
        (2 | 3, _) => Set::Intersection(several(chance)),
        (4, _) => Set::Difference(several(chance)),
        (5, _) => Set::Distinct(inner(chance)),
        (6, _) => Set::Filter(inner(chance), chance.of(&PLAIN).clone()),
        (7, Shape::Refs) => Set::Join(Box::new(generated(chance, Shape::Values, depth - 1))),
        (7, _) => Set::Range(inner(chance), chance.of(&PLAIN).clone(), chance.of(&PLAIN).clone()),
        _ => leaf(chance),
    }
}

/// Returns the part of an element that a page shows: numbers without their kinds, since equal
/// elements of a group are interchangeable.
fn shown(element: &Element) -> Json {
    let plain = |value: &Plain| normal(&value.json());
    match element.values.as_slice() {
        [] => json!(format!("{}/{}", COLLECTIONS[element.document.1], element.document.0)),
        [single] => plain(single),
        several => Json::Array(several.iter().map(plain).collect()),
    }
}

fn normal(value: &Json) -> Json {
    match value {
        Json::Number(number) => json!(number.as_f64()),
        Json::Array(items) => Json::Array(items.iter().map(normal).collect()),
        Json::Object(fields) => {
            let reference = &fields["@ref"];
            let collection = reference["collection"]["@ref"]["id"].as_str().unwrap();
            json!(format!("{collection}/{}", reference["id"].as_str().unwrap()))
        }
        other => other.clone(),
    }
}

fn committed_at(reply: &Reply) -> u64 {
    let header = reply.headers.iter().find(|(name, _)| *name == "x-txn-time");
    header.unwrap().1.parse().unwrap()
}

// ---- programs

struct Program {
    world: World,
    model: Model,
    chance: Chance,
    secrets: [String; 3],
    /// The times of writes.
    times: Vec<u64>,
    log: Vec<String>,
}

impl Program {
    fn new(seed: u64) -> Program {
        let world = World::new(1_700_000_000_000_000);
        let ask = |query: Json| world.resource("secret", &query.to_string());
        for name in COLLECTIONS {
            ask(json!({ "create_collection": { "object": { "name": name } } }));
        }
        let field = |name: &str| json!({ "object": { "field": ["data", name] } });
        let collections: Vec<Json> = COLLECTIONS.iter().map(|name| json!({ "collection": name })).collect();
        let source = json!({ "object": { "collection": collections } });
        ask(json!({ "create_index": { "object": { "name": INDEXES[0], "source": source, "terms": [field("t")] } } }));
        ask(
            json!({ "create_index": { "object": { "name": INDEXES[1], "source": source, "terms": [field("t")], "values": [field("v")] } } }),
        );
        let bound = |index: usize, factor: u64| {
            let n = json!({ "select": ["data", "n"], "from": { "var": "d" } });
            let lambda = json!({ "query": { "lambda": "d", "expr": { "multiply": [n, factor] } } });
            json!({ "object": { "collection": collections[index], "fields": { "object": { "k": lambda } } } })
        };
        let reverse = json!({ "object": { "binding": "k", "reverse": true } });
        ask(
            json!({ "create_index": { "object": { "name": INDEXES[2], "source": [bound(0, 1), bound(1, 10)], "values": [reverse, field("v")] } } }),
        );
        let n = json!({ "select": ["data", "n"], "from": { "get": { "var": "r" } }, "default": 1 });
        let is_even = json!({ "query": { "lambda": "r", "expr": { "equals": [0, { "modulo": [n, 2] }] } } });
        let privilege = |resource: Json, action: &str, grant: &Json| json!({ "object": { "resource": resource, "actions": { "object": { action: grant } } } });
        let yes = json!(true);
        let mut reader: Vec<Json> = collections
            .iter()
            .map(|of| privilege(of.clone(), "read", &is_even))
            .collect();
        reader.extend(INDEXES.map(|name| privilege(json!({ "index": name }), "read", &yes)));
        let narrow = vec![
            privilege(json!({ "index": INDEXES[0] }), "read", &yes),
            privilege(json!({ "index": INDEXES[1] }), "unrestricted_read", &yes),
        ];
        let key = |name: &str, privileges: Vec<Json>| {
            ask(json!({ "create_role": { "object": { "name": name, "privileges": privileges } } }));
            let key = ask(json!({ "create_key": { "object": { "role": { "role": name } } } }));
            key["secret"].as_str().unwrap().to_owned()
        };
        let secrets = ["secret".to_owned(), key("reader", reader), key("narrow", narrow)];
        Program {
            world,
            model: Model::default(),
            chance: Chance(seed),
            secrets,
            times: Vec::new(),
            log: Vec::new(),
        }
    }

    fn data(&mut self) -> Data {
        let chance = &mut self.chance;
        let mut some = |most: usize| -> Vec<Plain> {
            let mut values: Vec<Plain> = Vec::new();
            for _ in 0..chance.below(most + 1) {
                let value = chance.of(&PLAIN).clone();
                if !values.iter().any(|previous| previous.order(&value).is_eq()) {
                    values.push(value);
                }
            }
            values
        };
        let (t, v) = (some(2), some(3));
        let n = (self.chance.below(4) > 0).then(|| self.chance.below(6) as i64);
        Data { t, v, n }
    }

    /// Writes something; the model notes it at the time of the commit.
    fn write(&mut self) {
        let document = (self.chance.below(6) as u64 + 1, self.chance.below(2));
        let data = self.data();
        let is_there = self.model.live(document, u64::MAX).is_some();
        let past = match self.chance.below(6) {
            0 if !self.times.is_empty() => Some(*self.chance.of(&self.times) + 1),
            _ => None,
        };
        let is_deletion = self.chance.below(5) == 0;
        let (query, version) = match (past, is_there, is_deletion) {
            (Some(ts), _, true) => (
                json!({ "insert": reference(document), "ts": ts, "action": "delete" }),
                None,
            ),
            (Some(ts), _, false) => {
                let params = data.json();
                (
                    json!({ "insert": reference(document), "ts": ts, "action": "create", "params": params }),
                    Some(data),
                )
            }
            (None, true, true) => (json!({ "delete": reference(document) }), None),
            (None, true, false) => (
                json!({ "replace": reference(document), "params": data.json() }),
                Some(data),
            ),
            (None, false, _) => (
                json!({ "create": reference(document), "params": data.json() }),
                Some(data),
            ),
        };
        let query = json!({ "do": [query, null] }).to_string();
        let reply = self.world.ask("secret", &query);
        self.log.push(query.clone());
        assert!(reply.status < 300, "{query}: {}", reply.body);
        let committed = committed_at(&reply);
        self.times.push(committed);
        let versions = self.model.documents.entry(document).or_default();
        versions.insert(past.unwrap_or(committed), version);
    }

    /// Writes more documents than the chunk size of sets, with few values, so that equal elements
    /// are at the borders.
    fn write_many(&mut self) {
        let numbers: Vec<u64> = (0..300).collect();
        let number = |expression: Json| json!({ "object": { "t": "b", "v": expression, "n": { "modulo": [{ "var": "i" }, 6] } } });
        let id = json!({ "to_string": { "add": [100, { "var": "i" }] } });
        let data = number(json!({ "divide": [{ "var": "i" }, 3] }));
        let create =
            json!({ "create": { "ref": { "collection": "a" }, "id": id }, "params": { "object": { "data": data } } });
        let query = json!({ "foreach": { "lambda": "i", "expr": create }, "collection": numbers }).to_string();
        let reply = self.world.ask("secret", &query);
        assert!(reply.status < 300, "{query}: {}", reply.body);
        let committed = committed_at(&reply);
        self.times.push(committed);
        for i in 0..300 {
            let data = Data {
                t: vec![Plain::Text("b")],
                v: vec![Plain::Integer(i / 3)],
                n: Some(i % 6),
            };
            let versions = self.model.documents.entry((100 + i as u64, 0)).or_default();
            versions.insert(committed, Some(data));
        }
    }

    /// A page; nothing: it is denied.
    fn page(&mut self, caller: Caller, query: &Json) -> Option<Json> {
        let query = query.to_string();
        let reply = self.world.ask(&self.secrets[caller as usize], &query);
        self.log.push(format!("{caller:?} {query} -> {}", reply.body));
        let body: Json = serde_json::from_str(&reply.body).unwrap();
        match reply.status {
            200 => Some(body["resource"].clone()),
            403 => None,
            _ => panic!("{query}: {}", reply.body),
        }
    }

    /// All pages of a size in one direction.
    fn walk(&mut self, caller: Caller, set: &Json, at: Option<u64>, size: usize, backwards: bool) -> Vec<Json> {
        // The last there could be in the order of the set: nulls, or where that is reversed, the
        // least of numbers. Bound values are in reverse order; a join leads to refs.
        let written = set.to_string();
        let is_bound = written.contains(INDEXES[2]) && !written.contains("\"join\"");
        let last_in = |turned: bool| if turned { json!(-1e308) } else { Json::Null };
        let is_turned = set.get("reverse").is_some();
        let mut last = vec![last_in(is_turned); 4];
        last[0] = last_in(is_turned != is_bound);
        let last = Json::Array(last);
        let (key, mut cursor) = if backwards {
            ("before", Some(last))
        } else {
            ("after", None)
        };
        let mut pages: Vec<Vec<Json>> = Vec::new();
        loop {
            let mut query = json!({ "paginate": set, "size": size });
            if let Some(cursor) = &cursor {
                query[key] = cursor.clone();
            }
            if let Some(at) = at {
                query["ts"] = json!(at);
            }
            let page = self.page(caller, &query).unwrap();
            pages.push(page["data"].as_array().unwrap().iter().map(normal).collect());
            cursor = page.get(key).cloned();
            // A cursor is the values and the document; for a reversed set without values the ref
            // occurs twice.
            if let Some(Json::Array(parts)) = &cursor
                && set.get("reverse").is_none()
            {
                let shape = page["data"].get(0).map_or(0, |row| row.as_array().map_or(1, Vec::len));
                let is_ref = page["data"].get(0).is_some_and(Json::is_object);
                assert!(shape == 0 || parts.len() == shape + usize::from(!is_ref), "{parts:?}");
            }
            assert!(pages.len() < 500, "{query}");
            if cursor.is_none() {
                break;
            }
        }
        if backwards {
            pages.reverse();
        }
        pages.concat()
    }

    fn check(&mut self) {
        let shape = *self.chance.of(&[Shape::Refs, Shape::Values, Shape::Bound]);
        let depth = 1 + self.chance.below(2);
        let set = generated(&mut self.chance, shape, depth);
        let caller = *self
            .chance
            .of(&[Caller::Admin, Caller::Admin, Caller::Reader, Caller::Narrow]);
        let at = match self.chance.below(3) {
            0 => Some(*self.chance.of(&self.times)),
            _ => None,
        };
        let turned = self.chance.below(4) == 0;
        // A set with many elements would have many pages of one or two.
        let is_large = self.model.documents.len() > 100;
        let size = (1 + self.chance.below(3)) * if is_large { 40 } else { 1 };
        self.check_set(&set, caller, at, turned, size);
    }

    fn check_set(&mut self, set: &Set, caller: Caller, at: Option<u64>, turned: bool, size: usize) {
        let expected = self.model.answer(set, caller, at.unwrap_or(u64::MAX), u64::MAX);
        let mut query = asked(set);
        if turned {
            query = json!({ "reverse": query });
        }
        let mut whole = json!({ "paginate": query, "size": 10_000 });
        if let Some(at) = at {
            whole["ts"] = json!(at);
        }
        let page = self.page(caller, &whole);
        let Some(expected) = expected else {
            return assert_eq!(page, None);
        };
        let mut expected: Vec<Json> = expected.iter().map(shown).collect();
        if turned {
            expected.reverse();
        }
        let actual: Vec<Json> = page.unwrap()["data"].as_array().unwrap().iter().map(normal).collect();
        assert_eq!(actual, expected, "whole");
        let backwards = self.chance.below(2) == 0;
        let walked = self.walk(caller, &query, at, size, backwards);
        assert_eq!(walked, expected, "by {size}, backwards: {backwards}");
        let count = json!({ "count": query });
        let count = match at {
            Some(at) => json!({ "at": at, "expr": count }),
            None => count,
        };
        assert_eq!(self.page(caller, &count), Some(json!(expected.len())), "count");
    }

    fn run(&mut self) {
        for _ in 0..6 {
            (0..5).for_each(|_| self.write());
            (0..6).for_each(|_| self.check());
        }
    }

    fn run_large(&mut self) {
        self.write_many();
        let many = Set::Values(Plain::Text("b"));
        let distinct = Set::Distinct(Box::new(many.clone()));
        for set in [distinct, Set::Union(vec![many.clone(), many]), Set::Bound] {
            for caller in [Caller::Admin, Caller::Reader] {
                self.check_set(&set, caller, None, false, 97);
            }
        }
        self.run();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn programs_agree_with_the_model() {
    let (seed, programs) = (number("FAUNA_SEED", 1), number("FAUNA_PROGRAMS", 40));
    for seed in (seed..seed + programs).chain([DISTINCT_NUMBERS]) {
        let mut program = Program::new(seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match seed % 16 {
            0 => program.run_large(),
            _ => program.run(),
        }));
        if let Err(panic) = ran {
            let last = program.log.len().saturating_sub(60);
            eprintln!(
                "FAUNA_SEED={seed} FAUNA_PROGRAMS=1, the end of the program:\n{}",
                program.log[last..].join("\n")
            );
            std::panic::resume_unwind(panic);
        }
    }
}
