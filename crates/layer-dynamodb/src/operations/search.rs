//! Query and Scan. Under the lock a page only collects rows; filters, projections and JSON are
//! applied afterwards.

use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::Row;
use quartet_engine::Transaction;
use quartet_model::KeyRange;

use crate::storage::capacity::{Consumed, Report, read_units};
use crate::storage::key::{self, KeyPart};
use crate::storage::source::{self, Source, outside_query};
use crate::storage::table::{Index, Projection, Table};
use crate::storage::throughput::Use;
use crate::wire::expression::path::{PathTree, project_leaves};
use crate::wire::expression::{
    Condition, KeyTerm, Path, Placeholders, key_terms, parse_condition, parse_key_condition, parse_projection,
};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::wire::value::{Item, Value, parse_item, write_item};
use crate::{DynamoDb, Outcome, settled, storage::stored, wire::legacy};

/// A page holds no more than this, measured before the filter, as the service's documents say.
/// Pages recorded from the service also hold the item that passes it; but clients that set memory
/// aside believe the documents.
const PAGE_BYTES: usize = 1 << 20;

/// Most filter tests of a page, so a page of tiny items with a long filter ends early: it continues
/// like any other.
const PAGE_TESTS: usize = 1 << 20;

/// The requested part of each item.
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
    /// Values of the hash attribute, whose partitions are read one after the other in this order;
    /// the terms then do not mention that attribute. Empty: the value in the terms.
    pub partitions: Vec<Value>,
    pub filter: Option<Condition>,
    pub projection: Option<Vec<Path>>,
    /// Parts of items are shown flat, not in their nested places.
    pub shows_leaves: bool,
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
            partitions: Vec::new(),
            filter: None,
            projection: None,
            shows_leaves: false,
            limit: None,
            forward: true,
            start: None,
            consistent: false,
            segment: None,
            select: Select::Default,
            filter_name: None,
        }
    }

    fn parse(request: &Json<'_>) -> Search {
        let text = |name| request.get(name).and_then(Json::text);
        let flag = |name| request.get(name).and_then(Json::boolean);
        let mut search = Search::of(
            text("TableName").unwrap_or_default().to_owned(),
            text("IndexName").map(str::to_owned),
        );
        search.limit = request
            .get("Limit")
            .and_then(Json::integer)
            .map(|limit| limit.max(0) as usize);
        search.forward = flag("ScanIndexForward").unwrap_or(true);
        search.consistent = flag("ConsistentRead").unwrap_or(false);
        search
    }

    fn parse_query(request: &Json<'_>) -> Result<Search, Failure> {
        if request
            .get("Limit")
            .and_then(Json::integer)
            .is_some_and(|limit| limit < 1)
        {
            return Err(Failure::validation(
                "1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater \
                 than or equal to 1",
            ));
        }
        // KeyConditions may be combined with any expression but its own.
        let own_expression = request.get("KeyConditionExpression").is_some();
        let legacy = ["AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"];
        legacy::check_not_mixed(
            request,
            if own_expression { &legacy } else { &legacy[..3] },
            &["ProjectionExpression", "FilterExpression", "KeyConditionExpression"],
        )?;
        let expressions = ["FilterExpression", "KeyConditionExpression", "ProjectionExpression"];
        Placeholders::check_allowed(request, &expressions)?;
        let mut search = Search::parse(request);
        let filter = legacy::filter(request, "QueryFilter")?;
        let names = legacy::attributes_to_get(request)?;
        search.start = request.get("ExclusiveStartKey").map(parse_start).transpose()?;
        let key_expression = request.get("KeyConditionExpression").and_then(Json::text);
        if key_expression.is_none() && request.get("KeyConditions").is_none() {
            return Err(Failure::validation(
                "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
            ));
        }
        let mut placeholders = Placeholders::read(request)?;
        let key_condition = key_expression.map(|expression| parse_key_condition(expression, &mut placeholders));
        let key_condition = key_condition.transpose()?;
        search.parse_expressions(request, &mut placeholders)?;
        search.take_legacy(filter, "QueryFilter", names);
        search.keys = Some(match (key_condition, request.get("KeyConditions")) {
            (Some(condition), _) => key_terms(condition)?,
            (None, conditions) => legacy::key_conditions(conditions.unwrap_or(&Json::Null))?,
        });
        search.check_terms_count()?;
        search.select = parse_select(request, &search).map_err(Failure::in_envelope)?;
        Ok(search)
    }

    /// No table has keys of more than two attributes; an index may have.
    fn check_terms_count(&self) -> Result<(), Failure> {
        let count = self.keys.as_ref().map_or(0, Vec::len);
        match count == 0 || (count > 2 && self.index.is_none()) {
            true => Err(source::wrong_count()),
            false => Ok(()),
        }
    }

    fn parse_scan(request: &Json<'_>) -> Result<Search, Failure> {
        legacy::check_not_mixed(
            request,
            &["AttributesToGet", "ScanFilter", "ConditionalOperator"],
            &["ProjectionExpression", "FilterExpression"],
        )?;
        Placeholders::check_allowed(request, &["FilterExpression", "ProjectionExpression"])?;
        let mut search = Search::parse(request);
        let names = legacy::attributes_to_get(request)?;
        let filter = legacy::filter(request, "ScanFilter")?;
        search.start = request.get("ExclusiveStartKey").map(parse_start).transpose()?;
        search.segment = parse_segment(request)?;
        let mut placeholders = Placeholders::read(request)?;
        search.parse_expressions(request, &mut placeholders)?;
        search.take_legacy(filter, "ScanFilter", names);
        search.select = parse_select(request, &search)?;
        Ok(search)
    }

    /// Filter and projection, the last expressions of a request.
    fn parse_expressions(&mut self, request: &Json<'_>, placeholders: &mut Placeholders) -> Result<(), Failure> {
        let text = |name| request.get(name).and_then(Json::text);
        if let Some(expression) = text("FilterExpression") {
            self.filter = Some(parse_condition("FilterExpression", expression, placeholders)?);
            self.filter_name = Some("Filter Expression");
        }
        if let Some(expression) = text("ProjectionExpression") {
            self.projection = Some(parse_projection(expression, placeholders)?);
        }
        placeholders.check_all_used()
    }

    /// Takes the parameters older than expressions, which no request combines with these.
    fn take_legacy(&mut self, filter: Option<Condition>, parameter: &'static str, names: Option<Vec<Path>>) {
        if filter.is_some() {
            (self.filter, self.filter_name) = (filter, Some(parameter));
        }
        self.projection = self.projection.take().or(names);
    }

    /// Collects the rows of one page.
    pub fn execute(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Page, Failure> {
        let page = self.execute_uncharged(layer, transaction)?;
        layer.charge(transaction, &page.table, Use::Read, || page.consumed(self.consistent));
        Ok(page)
    }

    /// The same; the caller charges for it.
    pub fn execute_uncharged(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<Page, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let index = self.find_index(&table)?;
        let ranges = self.ranges(&Source { table: &table, index })?;
        let fetch = self.check_projection(&table, index)?;
        self.check_paths(&table)?;
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
        let limit = self.limit.unwrap_or(usize::MAX).min(self.rows_max());
        for range in ranges {
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
            if page.has_more {
                break;
            }
        }
        // Nothing can follow the one item of a key, and the service takes no start key there.
        page.has_more &= self.keys.is_none() || index.is_some() || table.range.is_some() || self.partitions.len() > 1;
        if fetch {
            page.fetch(transaction, self.consistent);
        }
        Ok(page)
    }

    /// Most rows of a page: fewer, the more tests its filter has.
    fn rows_max(&self) -> usize {
        PAGE_TESTS / (1 + self.filter.as_ref().map_or(0, Condition::tests_count))
    }

    fn find_index<'t>(&self, table: &'t Table) -> Result<Option<&'t Index>, Failure> {
        let Some(name) = &self.index else { return Ok(None) };
        if table.vector_index(name).is_some() {
            let operation = if self.keys.is_some() { "Query" } else { "Scan" };
            return Err(unsupported_on_vectors(operation));
        }
        let index = table.index(name).ok_or_else(|| no_such_index(name))?;
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

    fn check_paths(&self, table: &Table) -> Result<(), Failure> {
        let mut paths: Vec<&Path> = self.projection.iter().flatten().collect();
        if let Some(filter) = &self.filter {
            filter.paths(&mut paths);
        }
        table.check_paths(paths)
    }

    /// Returns the ranges to read, in this order.
    fn ranges(&self, source: &Source<'_>) -> Result<Vec<KeyRange>, Failure> {
        let start = self.start.as_ref();
        let mut ranges = match &self.keys {
            Some(terms) if !self.partitions.is_empty() => self.partition_ranges(source, terms)?,
            Some(terms) => {
                source.check_query(terms, start)?;
                self.refuse_filtered_keys(source)?;
                vec![source.query_range(terms)?]
            }
            None => {
                source.check_scan(start)?;
                let (segment, total) = self.segment.unwrap_or((0, 1));
                vec![key::segment(&source.prefix(), segment, total)]
            }
        };
        if let Some(start) = start {
            let after = source.row_key(start)?;
            let position = ranges.iter().position(|range| range.contains(&after));
            ranges.drain(..position.ok_or_else(|| self.misplaced_start())?);
            if self.forward {
                ranges[0].start = KeyRange::point(&after).end;
            } else {
                ranges[0].end = after;
            }
        }
        Ok(ranges)
    }

    fn partition_ranges(&self, source: &Source<'_>, terms: &[KeyTerm]) -> Result<Vec<KeyRange>, Failure> {
        source.check_scan(self.start.as_ref())?;
        let ranges = self.partitions.iter().map(|value| {
            let mut terms = terms.to_vec();
            terms.insert(0, source.partition_term(value));
            source.check_query(&terms, None)?;
            source.query_range(&terms)
        });
        ranges.collect()
    }

    fn misplaced_start(&self) -> Failure {
        match self.segment {
            Some((segment, total)) => Failure::validation(format!(
                "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct \
                 Segment. TotalSegments: {total} Segment: {segment}"
            )),
            None => outside_query(),
        }
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
        let projection = PathTree::new(self.projection.as_deref().unwrap_or_default());
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
                Some(paths) if self.shows_leaves => project_leaves(&item, paths),
                Some(_) => projection.of(&item),
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

/// Only SearchVectors reads a vector index.
pub fn unsupported_on_vectors(operation: &str) -> Failure {
    Failure::validation(format!("{operation} operation not supported on this index type"))
}

/// The index of a search is none of the table's.
pub fn no_such_index(name: &str) -> Failure {
    Failure::validation(format!("The table does not have the specified index: {name}"))
}

fn parse_start(json: &Json<'_>) -> Result<Item, Failure> {
    parse_item(json).map_err(|mut failure| {
        // Faults of numbers and duplicates are reported without their place.
        let told_bare = [
            "duplicates",
            "number set",
            "numeric value",
            "significant digits",
            "magnitude",
        ];
        let is_bare = told_bare.iter().any(|part| failure.message.contains(part));
        if failure.exception == Exception::Validation && !is_bare {
            failure = Failure::validation(format!("The provided starting key is invalid: {}", failure.message));
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
        Some(select) if select != "SPECIFIC_ATTRIBUTES" && search.projection.is_some() => {
            let chosen = if select == "COUNT" { "only the Count" } else { select };
            let text = format!("Cannot specify the {projecting} when choosing to get {chosen}");
            Err(Failure::validation(text))
        }
        Some("ALL_PROJECTED_ATTRIBUTES") if search.index.is_none() => Err(Failure::validation(
            "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
        )),
        Some("ALL_PROJECTED_ATTRIBUTES") => Ok(Select::Projected),
        Some("ALL_ATTRIBUTES") => Ok(Select::All),
        Some("COUNT") => Ok(Select::Count),
        _ => Ok(Select::Default),
    }
}

/// The rows of one page, in order.
pub struct Page {
    pub table: Arc<Table>,
    /// The number of the index that was searched.
    index: Option<u16>,
    rows: Vec<Row>,
    /// The items of the table, where the index does not hold enough; one per row, or none at all.
    fetched: Vec<Row>,
    fetch_units: f64,
    has_more: bool,
    bytes: usize,
}

impl Page {
    fn index(&self) -> Option<&Index> {
        self.table.indexes.iter().find(|index| Some(index.id) == self.index)
    }

    /// Returns the attributes of the last row, after which the next page continues; `None` when
    /// nothing follows.
    pub fn last(&self) -> Option<Item> {
        let last = self.rows.last().filter(|_| self.has_more)?;
        let index_keys = self.index().into_iter().flat_map(Index::keys);
        let parts: Vec<&KeyPart> = self.table.keys().chain(index_keys).collect();
        let is_part = |name: &str| parts.iter().any(|part| part.name == name);
        Some(stored::decode_some(last.value(), is_part))
    }

    /// Returns the size of its rows together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn fetch(&mut self, transaction: &mut Transaction<'_>, consistent: bool) {
        for row in &self.rows {
            let key = self.table.item_key(&stored::decode(row.value()));
            // An entry and its item change together, so the item exists.
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
        Ok(search) => layer.respond_to_read(
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
