//! Query and Scan. Under the lock a page only collects rows; filters, projections and JSON come after it.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::Transaction;
use quartet_model::KeyRange;
use quartet_store::Row;

use crate::capacity::{Consumed, Report, read_units};
use crate::expression::path::project;
use crate::expression::{
    Condition, KeyTerm, KeyTest, Path, Placeholders, parse_condition, parse_key_condition, parse_projection,
};
use crate::failure::{Exception, Failure};
use crate::json::{Json, Writer};
use crate::key::{self, KeyPart};
use crate::table::{Index, Projection, Table, has_type};
use crate::throughput::Use;
use crate::value::{Item, Value, item_json, parse_item, write_item};
use crate::{DynamoDb, Outcome, legacy, settled, stored};

/// A page holds no more than this, measured before the filter.
const PAGE_BYTES: usize = 1 << 20;

/// What of each item is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Select {
    /// Everything the table or the index holds, or what the projection names.
    Default,
    All,
    Projected,
    Count,
}

/// A Query, if there are key terms, or a Scan.
pub struct Search {
    pub table: String,
    pub index: Option<String>,
    pub keys: Option<Vec<KeyTerm>>,
    pub filter: Option<Condition>,
    pub projection: Option<Vec<Path>>,
    pub limit: Option<usize>,
    pub forward: bool,
    pub start: Option<Item>,
    pub consistent: bool,
    /// Which one, of how many.
    segment: Option<(u64, u64)>,
    select: Select,
    /// The parameter that holds the filter, as errors name it; `None`: it may name key attributes.
    filter_name: Option<&'static str>,
}

impl Search {
    /// A search for everything in a table or an index.
    pub fn of(table: String, index: Option<String>) -> Search {
        Search {
            table,
            index,
            keys: None,
            filter: None,
            projection: None,
            limit: None,
            forward: true,
            start: None,
            consistent: false,
            segment: None,
            select: Select::Default,
            filter_name: None,
        }
    }

    fn parse(request: &Json<'_>) -> Result<Search, Failure> {
        let text = |name| request.get(name).and_then(Json::text);
        let flag = |name| request.get(name).and_then(Json::boolean);
        let mut search = Search::of(
            text("TableName").unwrap_or_default().to_owned(),
            text("IndexName").map(str::to_owned),
        );
        search.limit = request.get("Limit").and_then(Json::integer).map(|limit| limit as usize);
        search.forward = flag("ScanIndexForward").unwrap_or(true);
        search.consistent = flag("ConsistentRead").unwrap_or(false);
        search.start = request.get("ExclusiveStartKey").map(parse_start).transpose()?;
        Ok(search)
    }

    fn parse_query(request: &Json<'_>) -> Result<Search, Failure> {
        // KeyConditions may stand beside any expression but its own.
        let own_expression = request.get("KeyConditionExpression").is_some();
        let legacy = ["AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"];
        legacy::check_not_mixed(
            request,
            if own_expression { &legacy } else { &legacy[..3] },
            &["ProjectionExpression", "FilterExpression", "KeyConditionExpression"],
        )?;
        let expressions = ["FilterExpression", "KeyConditionExpression", "ProjectionExpression"];
        Placeholders::check_allowed(request, &expressions)?;
        let mut search = Search::parse(request)?;
        let mut placeholders = Placeholders::read(request)?;
        search.keys = Some(match request.get("KeyConditionExpression").and_then(Json::text) {
            Some(expression) => parse_key_condition(expression, &mut placeholders)?,
            None => match request.get("KeyConditions") {
                Some(conditions) => legacy::key_conditions(conditions)?,
                None => {
                    return Err(Failure::validation(
                        "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
                    ));
                }
            },
        });
        search.parse_filter(request, "QueryFilter", &mut placeholders)?;
        Ok(search)
    }

    fn parse_scan(request: &Json<'_>) -> Result<Search, Failure> {
        legacy::check_not_mixed(
            request,
            &["AttributesToGet", "ScanFilter", "ConditionalOperator"],
            &["ProjectionExpression", "FilterExpression"],
        )?;
        Placeholders::check_allowed(request, &["FilterExpression", "ProjectionExpression"])?;
        let mut search = Search::parse(request)?;
        search.segment = parse_segment(request)?;
        let mut placeholders = Placeholders::read(request)?;
        search.parse_filter(request, "ScanFilter", &mut placeholders)?;
        Ok(search)
    }

    /// Filter, projection and Select.
    fn parse_filter(
        &mut self,
        request: &Json<'_>,
        legacy_filter: &'static str,
        placeholders: &mut Placeholders,
    ) -> Result<(), Failure> {
        let text = |name| request.get(name).and_then(Json::text);
        self.filter = match text("FilterExpression") {
            Some(expression) => {
                self.filter_name = Some("Filter Expression");
                Some(parse_condition("FilterExpression", expression, placeholders)?)
            }
            None => {
                self.filter_name = Some(legacy_filter);
                legacy::filter(request, legacy_filter)?
            }
        };
        self.projection = match text("ProjectionExpression") {
            Some(expression) => Some(parse_projection(expression, placeholders)?),
            None => legacy::attributes_to_get(request)?,
        };
        placeholders.check_all_used()?;
        self.select = parse_select(request, self)?;
        Ok(())
    }

    /// Collects the rows of one page.
    pub fn execute(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Page, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let index = self.find_index(&table)?;
        let fetch = self.check_projection(&table, index)?;
        let source = Source { table: &table, index };
        let range = self.range(&source)?;
        layer.admit(transaction, &table, index, Use::Read)?;
        let mut page = Page {
            rows: Vec::new(),
            fetched: Vec::new(),
            has_more: false,
            bytes: 0,
            fetch_units: 0.0,
            index: index.map(|index| index.id),
            table: table.clone(),
        };
        let limit = self.limit.unwrap_or(usize::MAX);
        transaction.scan(&range.start, &range.end, !self.forward, &mut |row| {
            let size = stored::size(row.value());
            if !page.rows.is_empty() && page.bytes + size > PAGE_BYTES {
                page.has_more = true;
                return ControlFlow::Break(());
            }
            page.bytes += size;
            page.rows.push(row.clone());
            page.has_more = page.rows.len() >= limit;
            if page.has_more {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if fetch {
            page.fetch(transaction, self.consistent);
        }
        layer.charge(transaction, &table, Use::Read, || page.consumed(self.consistent));
        Ok(page)
    }

    fn find_index<'t>(&self, table: &'t Table) -> Result<Option<&'t Index>, Failure> {
        let Some(name) = &self.index else { return Ok(None) };
        let index = table
            .index(name)
            .ok_or_else(|| Failure::validation(format!("The table does not have the specified index: {name}")))?;
        if index.global && index.filling {
            return Err(Failure::validation(format!(
                "Cannot read from backfilling global secondary index: {name}"
            )));
        }
        if index.global && self.consistent {
            return Err(Failure::validation(
                "Consistent reads are not supported on global secondary indexes",
            ));
        }
        Ok(Some(index))
    }

    /// Refuses what the index does not hold; true if the items of the table are needed.
    fn check_projection(&self, table: &Table, index: Option<&Index>) -> Result<bool, Failure> {
        let Some(index) = index else { return Ok(false) };
        let wants_all = self.select == Select::All && index.projection != Projection::All;
        let missing: Vec<&str> = self
            .projection
            .iter()
            .flatten()
            .map(|path| path.root.as_str())
            .filter(|name| !index.projects(table, name))
            .collect();
        if !index.global {
            return Ok(wants_all || !missing.is_empty());
        }
        if wants_all {
            return Err(Failure::invalid(format!(
                "Select type ALL_ATTRIBUTES is not supported for global secondary index {} \
                 because its projection type is not ALL",
                index.name
            )));
        }
        if !missing.is_empty() {
            return Err(Failure::invalid(format!(
                "Global secondary index {} does not project [{}]",
                index.name,
                missing.join(", ")
            )));
        }
        Ok(false)
    }

    fn range(&self, source: &Source<'_>) -> Result<KeyRange, Failure> {
        let start = self.start.as_ref().map(|start| source.start_key(start)).transpose()?;
        let mut range = match &self.keys {
            Some(terms) => {
                let range = source.query_range(terms)?;
                self.refuse_filtered_keys(source)?;
                range
            }
            None => {
                let (segment, total) = self.segment.unwrap_or((0, 1));
                key::segment(&source.prefix(), segment, total)
            }
        };
        if let (Some(start), Some(given)) = (start, &self.start) {
            if self.keys.is_some() && source.index.is_none() && source.range_parts().is_empty() {
                return Err(Failure::validation(format!(
                    "The provided exclusive start key is invalid: ExclusiveStartKey: {}",
                    item_json(given)
                )));
            }
            self.check_start(&range, &start)?;
            if self.forward {
                range.start = KeyRange::point(&start).end;
            } else {
                range.end = start;
            }
        }
        Ok(range)
    }

    fn check_start(&self, range: &KeyRange, start: &[u8]) -> Result<(), Failure> {
        if range.contains(start) {
            return Ok(());
        }
        Err(match self.segment {
            Some((segment, total)) => Failure::validation(format!(
                "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct \
                 Segment. TotalSegments: {total} Segment: {segment}"
            )),
            None => Failure::validation(
                "The provided starting key is outside query boundaries based on provided conditions",
            ),
        })
    }

    /// A Query's filter may not name the keys it queries by.
    fn refuse_filtered_keys(&self, source: &Source<'_>) -> Result<(), Failure> {
        let (Some(filter), Some(name)) = (&self.filter, self.filter_name) else {
            return Ok(());
        };
        let mut paths = Vec::new();
        filter.paths(&mut paths);
        let is_key = |path: &&&Path| source.keys().any(|part| part.name == path.root);
        match paths.iter().find(is_key) {
            None => Ok(()),
            Some(path) => Err(Failure::validation(format!(
                "{name} can only contain non-primary key attributes: Primary key attribute: {}",
                path.root
            ))),
        }
    }

    /// The items of a page that pass the filter: each is handed over decoded or as it is stored.
    pub fn each_match(&self, page: &Page, mut take: impl FnMut(Match<'_>)) {
        for (position, row) in page.rows.iter().enumerate() {
            let row = page.fetched.get(position).unwrap_or(row);
            if self.filter.is_none() && self.projection.is_none() {
                take(Match::Stored(row.value()));
                continue;
            }
            let item = stored::decode(row.value());
            if self.filter.as_ref().is_some_and(|filter| !filter.holds(&item)) {
                continue;
            }
            take(Match::Decoded(match &self.projection {
                Some(paths) => project(&item, paths),
                None => item,
            }));
        }
    }
}

/// An item of a page.
pub enum Match<'p> {
    Stored(&'p [u8]),
    Decoded(Item),
}

impl Match<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Match::Stored(stored) => stored::write_json(stored, out),
            Match::Decoded(item) => write_item(item, out),
        }
    }
}

fn parse_start(json: &Json<'_>) -> Result<Item, Failure> {
    parse_item(json).map_err(|mut failure| {
        // Faults of numbers and duplicates are told without saying where.
        let told_bare = [
            "duplicates",
            "number set",
            "numeric value",
            "significant digits",
            "magnitude",
        ];
        let is_bare = told_bare.iter().any(|part| failure.message.contains(part));
        if failure.exception == Exception::Validation && !is_bare {
            failure.message = format!("The provided starting key is invalid: {}", failure.message);
        }
        failure
    })
}

fn parse_segment(request: &Json<'_>) -> Result<Option<(u64, u64)>, Failure> {
    let number = |name| request.get(name).and_then(Json::integer);
    match (number("Segment"), number("TotalSegments")) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(Failure::validation(
            "The TotalSegments parameter is required but was not present in the request when Segment parameter is present",
        )),
        (None, Some(_)) => Err(Failure::validation(
            "The Segment parameter is required but was not present in the request when parameter TotalSegments is present",
        )),
        (Some(segment), Some(total)) if segment >= total => Err(Failure::validation(format!(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: \
             Segment: {segment} is not less than TotalSegments: {total}"
        ))),
        (Some(segment), Some(total)) => Ok(Some((segment as u64, total as u64))),
    }
}

fn parse_select(request: &Json<'_>, search: &Search) -> Result<Select, Failure> {
    let select = request.get("Select").and_then(Json::text);
    let projecting = match request.get("AttributesToGet") {
        Some(_) => "AttributesToGet",
        None => "ProjectionExpression",
    };
    match select {
        Some("SPECIFIC_ATTRIBUTES") if search.projection.is_none() => Err(Failure::validation(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
        )),
        Some(select) if select != "SPECIFIC_ATTRIBUTES" && search.projection.is_some() => Err(Failure::validation(
            format!("Cannot specify the {projecting} when choosing to get {select}"),
        )),
        Some("ALL_PROJECTED_ATTRIBUTES") if search.index.is_none() => Err(Failure::validation(
            "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
        )),
        Some("ALL_PROJECTED_ATTRIBUTES") => Ok(Select::Projected),
        Some("ALL_ATTRIBUTES") => Ok(Select::All),
        Some("COUNT") => Ok(Select::Count),
        _ => Ok(Select::Default),
    }
}

/// What is searched.
struct Source<'t> {
    table: &'t Table,
    index: Option<&'t Index>,
}

impl<'t> Source<'t> {
    fn prefix(&self) -> Vec<u8> {
        key::items(self.table.id, self.index.map_or(0, |index| index.id))
    }

    fn hash_parts(&self) -> &'t [KeyPart] {
        self.index
            .map_or(std::slice::from_ref(&self.table.hash), |index| &index.hash)
    }

    fn range_parts(&self) -> &'t [KeyPart] {
        self.index.map_or(self.table.range.as_slice(), |index| &index.range)
    }

    fn keys(&self) -> impl Iterator<Item = &'t KeyPart> {
        self.hash_parts().iter().chain(self.range_parts())
    }

    fn query_range(&self, terms: &[KeyTerm]) -> Result<KeyRange, Failure> {
        self.check_terms(terms)?;
        let term = |part: &KeyPart| terms.iter().find(|term| term.attribute == part.name);
        let mut hash = Vec::new();
        for part in self.hash_parts() {
            let term = term(part).ok_or_else(|| self.missed(part))?;
            hash.push(term.test.equal_to().ok_or_else(|| self.unsuited(term, "HASH"))?);
        }
        let mut prefix = self.prefix();
        key::write_partition(&hash, &mut prefix);
        let mut used = hash.len();
        for part in self.range_parts() {
            let Some(term) = term(part) else { break };
            used += 1;
            match term.test.equal_to() {
                Some(value) => key::write_range(value, &mut prefix),
                None if used == terms.len() && term.test != KeyTest::Unindexed => {
                    return Ok(key::test_range(&prefix, &term.test));
                }
                None => return Err(self.unsuited(term, "RANGE")),
            }
        }
        if used < terms.len() {
            let skipped = self.range_parts().iter().find(|part| term(part).is_none());
            return Err(skipped.map_or_else(|| self.not_supported("RANGE"), |part| self.missed(part)));
        }
        Ok(KeyRange::prefix(&prefix))
    }

    fn check_terms(&self, terms: &[KeyTerm]) -> Result<(), Failure> {
        for (position, term) in terms.iter().enumerate() {
            if terms[..position].iter().any(|other| other.attribute == term.attribute) {
                return Err(Failure::validation(
                    "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key",
                ));
            }
        }
        let most = self.hash_parts().len() + self.range_parts().len();
        if terms.len() > most && most <= 2 {
            let known = |term: &&KeyTerm| self.keys().any(|part| part.name == term.attribute);
            if terms.len() > 2 {
                return Err(Failure::validation("Conditions can be of length 1 or 2 only"));
            }
            if terms.iter().filter(known).count() == most {
                return Err(self.not_supported("RANGE"));
            }
        }
        for term in terms {
            let Some(part) = self.keys().find(|part| part.name == term.attribute) else {
                continue;
            };
            for value in term.test.values() {
                if !has_type(value, part.kind) {
                    return Err(Failure::invalid("Condition parameter type does not match schema type"));
                }
                if term.test.equal_to().is_some() {
                    refuse_empty(part, value, "")?;
                }
            }
        }
        Ok(())
    }

    fn unsuited(&self, term: &KeyTerm, kind: &str) -> Failure {
        match term.test {
            KeyTest::Unindexed => Failure::validation("Attempted conditional constraint is not an indexable operation"),
            _ => self.not_supported(kind),
        }
    }

    fn is_composite(&self) -> bool {
        self.hash_parts().len() > 1 || self.range_parts().len() > 1
    }

    fn missed(&self, part: &KeyPart) -> Failure {
        if self.is_composite() {
            let is_hash = self.hash_parts().contains(part);
            return self.not_supported(if is_hash { "HASH" } else { "RANGE" });
        }
        Failure::validation(format!("Query condition missed key schema element: {}", part.name))
    }

    /// `kind` is the kind of key that the condition does not suit.
    fn not_supported(&self, kind: &str) -> Failure {
        Failure::validation(match (self.is_composite(), kind) {
            (false, _) => "Query key condition not supported",
            (true, "HASH") => {
                "Query key condition not supported: each HASH key attribute must have an equality condition"
            }
            (true, _) => {
                "Query key condition not supported: RANGE key attributes must be used in their order, and each but the last \
                 must have an equality condition"
            }
        })
    }

    /// The row after which a page starts. It need not exist.
    fn start_key(&self, start: &Item) -> Result<Vec<u8>, Failure> {
        let parts: Vec<&KeyPart> = self
            .table
            .keys()
            .chain(self.index.iter().flat_map(|index| index.keys()))
            .collect();
        let known = |name: &String| parts.iter().any(|part| part.name == *name);
        let fits = |part: &&KeyPart| start.get(&part.name).is_some_and(|value| has_type(value, part.kind));
        if !start.keys().all(known) || !parts.iter().all(fits) {
            return Err(Failure::validation(
                "The provided starting key is invalid: The provided key element does not match the schema",
            ));
        }
        for part in &parts {
            refuse_empty(part, &start[&part.name], "The provided starting key is invalid: ")?;
        }
        match self.index {
            None => Ok(self.table.item_key(start)),
            Some(index) => index
                .item_key(self.table, start)
                .ok_or_else(|| Failure::validation("The provided starting key is invalid")),
        }
    }
}

fn refuse_empty(part: &KeyPart, value: &Value, prefix: &str) -> Result<(), Failure> {
    let kind = match value {
        Value::S(text) if text.is_empty() => "string",
        Value::B(bytes) if bytes.is_empty() => "binary",
        _ => return Ok(()),
    };
    Err(Failure::validation(format!(
        "{prefix}One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
         empty {kind} value. Key: {}",
        part.name
    )))
}

/// The rows of one page, in order.
pub struct Page {
    pub table: Arc<Table>,
    /// The number of the index that was searched.
    index: Option<u16>,
    rows: Vec<Row>,
    /// The items of the table, where the index does not hold enough; as many as there are rows, or none.
    fetched: Vec<Row>,
    fetch_units: f64,
    has_more: bool,
    bytes: usize,
}

impl Page {
    fn index(&self) -> Option<&Index> {
        self.table.indexes.iter().find(|index| Some(index.id) == self.index)
    }

    /// What to continue after: the attributes that say where the last row stands; `None` when nothing follows.
    pub fn last(&self) -> Option<Item> {
        let last = self.rows.last().filter(|_| self.has_more)?;
        let index_keys = self.index().into_iter().flat_map(Index::keys);
        let parts: Vec<&KeyPart> = self.table.keys().chain(index_keys).collect();
        let is_part = |name: &str| parts.iter().any(|part| part.name == name);
        Some(stored::decode_some(last.value(), is_part))
    }

    fn fetch(&mut self, transaction: &mut Transaction<'_>, consistent: bool) {
        for row in &self.rows {
            let key = self.table.item_key(&stored::decode(row.value()));
            // An entry and its item change together, so the item is there.
            let item = transaction.get(&key).unwrap_or_else(|| row.clone());
            self.fetch_units += read_units(stored::size(item.value()), consistent);
            self.fetched.push(item);
        }
    }

    pub fn consumed(&self, consistent: bool) -> Consumed {
        let units = read_units(self.bytes, consistent);
        match self.index() {
            None => Consumed::of_table(units),
            Some(index) => {
                let mut consumed = Consumed::of_index(&index.name, index.global, units);
                consumed.table = self.fetch_units;
                consumed
            }
        }
    }

    fn body(&self, search: &Search, report: Report) -> Vec<u8> {
        Writer::object(|writer| {
            let mut count = 0;
            if search.select == Select::Count {
                search.each_match(self, |_| count += 1);
            } else {
                writer.name("Items").open(b'[');
                search.each_match(self, |item| {
                    writer.comma();
                    item.write(&mut writer.text);
                    count += 1;
                });
                writer.close(b']');
            }
            writer.name("Count").raw(count);
            writer.name("ScannedCount").raw(self.rows.len());
            if let Some(last) = self.last() {
                write_item(&last, &mut writer.name("LastEvaluatedKey").text);
            }
            self.consumed(search.consistent)
                .write_member(writer, &search.table, report);
        })
    }
}

fn respond(layer: &DynamoDb, request: &Json<'_>, search: Result<Search, Failure>) -> Outcome {
    let report = Report::read(request);
    match search {
        Ok(search) => layer.respond(
            Ok(search),
            |transaction, search| search.execute(layer, transaction),
            |search, page| page.body(&search, report),
        ),
        Err(failure) => settled(Err(failure)),
    }
}

pub fn query(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    respond(layer, request, Search::parse_query(request))
}

pub fn scan(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    respond(layer, request, Search::parse_scan(request))
}
