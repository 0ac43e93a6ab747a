//! SearchVectors: the nearest items by their vectors.
//!
//! Every vector of the searched partition of the index is compared, so the answer is exact. The
//! rows are those of one snapshot, which is read without the partition's lock.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Reader, Row, Transaction};
use quartet_model::KeyRange;
use quartet_search::top_k::{Best, Rank};

use crate::operations::search::no_such_index;
use crate::storage::capacity::Report;
use crate::storage::key;
use crate::storage::stored;
use crate::storage::table::{Table, has_type};
use crate::storage::throughput::Use;
use crate::storage::vector_index::{VectorIndex, blob_of, components_of};
use crate::wire::expression::condition::{Comparison, Operand};
use crate::wire::expression::path::PathTree;
use crate::wire::expression::{Condition, Path, Placeholders, parse_condition, parse_projection};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, write_item};
use crate::{DynamoDb, Outcome, settled};

const TOP_K_MAX: i64 = 100;
/// The most bytes of the items of a reply, as the service counts them.
const REPLY_BYTES_MAX: usize = 16 << 20;

struct Search {
    table: String,
    index: String,
    components: Vec<f32>,
    /// Values that attributes of the search schema must have.
    equal: Option<BTreeMap<String, Value>>,
    projection: Option<Vec<Path>>,
    count: usize,
    report: Report,
}

impl Search {
    fn parse(request: &Json<'_>) -> Result<Search, Failure> {
        let text = |name| request.get(name).and_then(Json::text);
        let count = request.get("TopK").and_then(Json::integer).unwrap_or_default();
        if count > TOP_K_MAX {
            return Err(Failure::validation(format!(
                "Provided TopK value '{count}' is out of valid range. The value must be between 1 and {TOP_K_MAX} inclusive"
            )));
        }
        let elements = request.get("SearchVector").map_or(&[][..], Json::elements);
        let values: Vec<Value> = elements.iter().map(Value::parse).collect::<Result<_, Failure>>()?;
        let components = components_of(&values).ok_or_else(|| {
            Failure::validation(
                "Search vector contains invalid values. All values in the search vector must be a 32-bit floating-point \
                 number attribute",
            )
        })?;
        let expressions = ["SearchConditionExpression", "ProjectionExpression"];
        Placeholders::check_allowed(request, &expressions)?;
        let mut placeholders = Placeholders::read(request)?;
        let condition = text("SearchConditionExpression")
            .map(|expression| parse_condition("SearchConditionExpression", expression, &mut placeholders))
            .transpose()?;
        let projection = text("ProjectionExpression")
            .map(|expression| parse_projection(expression, &mut placeholders))
            .transpose()?;
        placeholders.check_all_used()?;
        Ok(Search {
            table: text("TableName").unwrap_or_default().to_owned(),
            index: text("IndexName").unwrap_or_default().to_owned(),
            components,
            equal: condition.map(equalities).transpose()?,
            projection,
            count: count as usize,
            report: Report::read(request),
        })
    }

    /// Finds the index, and refuses what cannot be searched for in it.
    fn check(&self, table: &Table) -> Result<VectorIndex, Failure> {
        let index = table
            .vector_index(&self.index)
            .ok_or_else(|| no_such_index(&self.index))?;
        if index.filling {
            return Err(Failure::validation(format!(
                "Cannot search backfilling vector index: {}",
                index.name
            )));
        }
        if self.components.len() != index.dimensions as usize {
            return Err(Failure::validation(format!(
                "Input search vector dimension {} does not match vector index dimension {}",
                self.components.len(),
                index.dimensions
            )));
        }
        self.check_condition(index)?;
        let missing = self.projection.iter().flatten().map(|path| path.root.as_str());
        let missing: Vec<&str> = missing.filter(|name| !index.projects(table, name)).collect();
        match missing.is_empty() {
            true => Ok(index.clone()),
            false => Err(Failure::invalid(format!(
                "Vector index {} does not project [{}]",
                index.name,
                missing.join(", ")
            ))),
        }
    }

    fn check_condition(&self, index: &VectorIndex) -> Result<(), Failure> {
        for (name, value) in self.equal.iter().flatten() {
            let Some(element) = index.schema.iter().find(|element| element.part.name == *name) else {
                return Err(Failure::validation(format!(
                    "SearchConditionExpression must not contain any attributes that is not in SearchSchema. \
                     Invalid attribute: {name}"
                )));
            };
            if !has_type(value, element.part.kind) {
                return Err(Failure::invalid("Condition parameter type does not match schema type"));
            }
        }
        match index.hash() {
            Some(hash) if self.value_of(&hash.name).is_none() => Err(Failure::validation(
                "SearchConditionExpression must be provided when SearchSchema has a HASH key",
            )),
            _ => Ok(()),
        }
    }

    fn value_of(&self, attribute: &str) -> Option<&Value> {
        self.equal.as_ref()?.get(attribute)
    }

    /// The nearest items.
    fn find(&self, table: &Table, index: &VectorIndex, reader: &Reader) -> Nearest {
        let hash = index.hash().and_then(|hash| self.value_of(&hash.name));
        let partition = index.partition(table, hash);
        let is_filter = |name: &str| index.hash().is_none_or(|hash| hash.name != name);
        let filters: Vec<(&String, &Value)> = self.equal.iter().flatten().collect();
        let filters: Vec<_> = filters.into_iter().filter(|(name, _)| is_filter(name)).collect();
        let kind = index.kind();
        let query = kind.query(&blob_of(&self.components)).expect("the length was checked");
        let mut best = Best::new(0, self.count);
        let mut compared_bytes = 0;
        let range = KeyRange::prefix(&partition);
        reader.scan_rows(&range.start, &range.end, &mut |row| {
            let (vector, attributes) = index.parts(row.value());
            compared_bytes += row.value().len();
            let passes = filters.is_empty() || {
                let attributes = stored::decode(attributes);
                let mut filters = filters.iter();
                filters.all(|(name, value)| attributes.get(*name) == Some(*value))
            };
            if passes {
                let score = index.distance.score(query.distance(vector));
                best.add(Near {
                    order: index.distance.order(score),
                    score,
                    row: row.clone(),
                });
            }
            ControlFlow::Continue(())
        });
        let near: Vec<Near> = best.into_sorted().collect();
        let keys: Vec<Vec<u8>> = near
            .iter()
            .map(|near| {
                let place = &Transaction::layer_key(&near.row)[partition.len()..];
                [&key::items(table.id, 0), place].concat()
            })
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let items = reader.get_each(&keys);
        // An entry and its item change together, so the item exists.
        let results = near
            .iter()
            .zip(items)
            .filter_map(|(near, item)| Some((near.score, item?)));
        Nearest {
            results: results.collect(),
            compared_bytes,
        }
    }

    fn body(&self, table: &Table, index: &VectorIndex, nearest: &Nearest) -> Result<Vec<u8>, Failure> {
        let bytes: usize = nearest.results.iter().map(|(_, item)| stored::size(item.value())).sum();
        if self.projection.is_none() && index.projection.names().is_empty() && bytes > REPLY_BYTES_MAX {
            return Err(Failure::validation(
                "The response of SearchVectors exceeds 16 MB. Use a lower TopK value or a ProjectionExpression",
            ));
        }
        let projection = self.projection.as_deref().map(PathTree::new);
        Ok(Writer::object(|writer| {
            writer.list("SearchResults", &nearest.results, |writer, (score, item)| {
                let item = shown(table, index, projection.as_ref(), &stored::decode(item.value()));
                writer.open(b'{');
                write_item(&item, &mut writer.name("Item").text);
                writer.name("Score").raw(format_args!("{score:?}"));
                writer.close(b'}');
            });
            if self.report != Report::None {
                writer.nested("ConsumedCapacity", |writer| {
                    let bytes = nearest.compared_bytes as f64;
                    writer
                        .name("VectorSearchRequestBytes")
                        .raw(format_args!("{:?}", bytes.max(1.0)));
                });
            }
        }))
    }
}

/// The attributes of a result: those of the projection, or else all that the index projects but the
/// vector. A vector has 32 bits a component, as in the index.
fn shown(table: &Table, index: &VectorIndex, projection: Option<&PathTree<'_>>, item: &Item) -> Item {
    let Some(projection) = projection else {
        return index.projected(table, item);
    };
    let mut item = item.clone();
    if let Some(Value::L(values)) = item.get_mut(&index.attribute)
        && let Some(components) = components_of(values)
    {
        let values_shown = components.iter().filter_map(|component| {
            let number = Number::parse(&component.to_string()).ok()?;
            Some(Value::N(number))
        });
        *values = values_shown.collect();
    }
    projection.of(&item)
}

/// The nearest items, the nearest first, with their scores.
struct Nearest {
    results: Vec<(f32, Row)>,
    compared_bytes: usize,
}

struct Near {
    /// The least is the nearest.
    order: f32,
    score: f32,
    row: Row,
}

impl Rank for Near {
    fn rank(&self, other: &Near) -> Ordering {
        let nearer = self.order.total_cmp(&other.order);
        nearer.then_with(|| self.row.key().cmp(other.row.key()))
    }
}

/// The values of a condition that is one equality, or several that all must hold.
fn equalities(condition: Condition) -> Result<BTreeMap<String, Value>, Failure> {
    let invalid = || {
        Failure::validation("Invalid SearchConditionExpression: Invalid comparator used in SearchConditionExpression")
    };
    let (mut equal, mut conditions) = (BTreeMap::new(), vec![condition]);
    while let Some(condition) = conditions.pop() {
        let (path, value) = match condition {
            Condition::And(parts) => {
                conditions.extend(parts);
                continue;
            }
            Condition::Compare(Comparison::Equal, Operand::Path(path), Operand::Value(value))
            | Condition::Compare(Comparison::Equal, Operand::Value(value), Operand::Path(path)) => (path, value),
            _ => return Err(invalid()),
        };
        if !path.steps.is_empty() {
            return Err(invalid());
        }
        let root = path.root.clone();
        if equal.insert(path.root, value).is_some() {
            return Err(Failure::validation(format!(
                "Invalid SearchConditionExpression: more than one condition on the attribute {root}"
            )));
        }
    }
    Ok(equal)
}

pub fn search(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let search = match Search::parse(request) {
        Ok(search) => search,
        Err(failure) => return settled(Err(failure)),
    };
    let checked = |transaction: &mut Transaction<'_>| {
        let table = layer.table(transaction, &search.table)?;
        layer.admit(transaction, &table, None, Use::Read)?;
        let index = search.check(&table)?;
        Ok((table, index))
    };
    let (table, index): (Arc<Table>, VectorIndex) = match layer.read(checked) {
        (Ok(checked), _) => checked,
        (Err(failure), dependency) => return (Err(failure), dependency),
    };
    // The snapshot is newer than the table: an index that was deleted in between has no rows.
    let Ok(reader) = layer.engine.reader(layer.space) else {
        return settled(Err(Failure::busy()));
    };
    let nearest = search.find(&table, &index, &reader);
    if reader.is_unreadable() {
        let failure = Failure::new(Exception::InternalServer, "Internal server error");
        return (Err(failure), reader.dependency);
    }
    (search.body(&table, &index, &nearest), reader.dependency)
}
