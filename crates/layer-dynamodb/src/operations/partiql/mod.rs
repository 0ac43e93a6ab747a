//! PartiQL: statements that become the reads and writes that the other operations use.
//!
//! A SELECT whose condition names partition keys is a Query of each, any other a Scan; its whole
//! condition is the filter of each. UPDATE and DELETE need the full key by equality; what else the
//! condition says must hold of the item.
//!
//! | file         | what it is                                                          |
//! |--------------|---------------------------------------------------------------------|
//! | `lexer`      | tokens of the published grammar                                     |
//! | `parser`     | the published grammar                                               |
//! | `syntax`     | what it makes of a statement                                        |
//! | `values`     | literals and paths                                                  |
//! | `conditions` | WHERE                                                               |
//! | `updates`    | SET and REMOVE                                                      |
//! | `statement`  | whole statements: what DynamoDB allows of the grammar               |
//! | `keys`       | what WHERE says of keys                                             |

mod conditions;
mod keys;
mod lexer;
mod parser;
mod statement;
mod syntax;
mod updates;
mod values;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::Transaction;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::operations::items::{Action, Returned, Write, Written, check_item_size};
use crate::operations::search::{Match, Page, Search, unsupported_on_vectors};
use crate::operations::transact::{charge_unless_throttled, check_bytes, fingerprint, refuse_if_any, refuse_repeated};
use crate::storage::capacity::{Consumed, Kind, Report, write_list};
use crate::storage::key::KeyPart;
use crate::storage::table::{Index, Table};
use crate::storage::throughput::Use;
use crate::wire::expression::{Condition, Path};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::wire::value::{Item, Value, check_nesting, item_json, item_size, write_item};
use crate::{DynamoDb, Outcome};
use keys::split_key;
use statement::{Select, Statement, misplaced_exists};

/// A statement of a request.
struct PreparedStatement {
    statement: Statement,
    show_failed: bool,
    consistent: bool,
}

fn parameters(json: &Json<'_>) -> Result<Vec<Value>, Failure> {
    let parameters = json.get("Parameters").map_or(&[][..], Json::elements);
    parameters.iter().map(Value::parse).collect()
}

impl PreparedStatement {
    fn parse(json: &Json<'_>) -> Result<PreparedStatement, Failure> {
        PreparedStatement::parse_with(json, &parameters(json)?)
    }

    fn parse_with(json: &Json<'_>, parameters: &[Value]) -> Result<PreparedStatement, Failure> {
        let text = |name| json.get(name).and_then(Json::text);
        Ok(PreparedStatement {
            statement: statement::parse(text("Statement").unwrap_or_default(), parameters)?,
            show_failed: text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD"),
            consistent: json.get("ConsistentRead").and_then(Json::boolean).unwrap_or(false),
        })
    }
}

impl PreparedStatement {
    /// The row of the item named by the statement, if its table exists.
    fn item_key(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Option<Vec<u8>> {
        let table = layer.table(transaction, self.statement.table()).ok()?;
        let write = write_of(&self.statement, &table, false).ok()?;
        let key = write.action.key();
        table.holds_keys(key).then(|| table.item_key(key))
    }
}

impl Select {
    /// The search that answers it.
    fn search(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>, consistent: bool) -> Result<Search, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let mut search = Search::of(self.table.clone(), self.index.clone());
        search.consistent = consistent;
        search.projection = self.projection.clone();
        search.shows_leaves = true;
        search.filter = self.condition.clone();
        let index = self.index(&table)?;
        if consistent && index.is_some_and(|index| index.global) {
            return Err(Failure::validation(
                "Strongly consistent read is not supported on Global Secondary Indexes",
            ));
        }
        let (hash, range) = match index {
            Some(index) => (&index.hash[0], index.range.first()),
            None => (&table.hash, table.range.as_ref()),
        };
        let reach = keys::reach(self.condition.as_ref(), hash, range)?;
        if let Some(condition) = &self.condition {
            let parts: Vec<&KeyPart> = table.keys().chain(index.into_iter().flat_map(Index::keys)).collect();
            keys::check_values(condition, &parts)?;
        }
        if let Some(partitions) = reach.partitions {
            search.keys = Some(reach.range.into_iter().collect());
            search.partitions = partitions;
        }
        self.sort(&mut search, hash, range)?;
        Ok(search)
    }

    /// The index it reads, which must exist and have at most one attribute of each kind.
    fn index<'t>(&self, table: &'t Table) -> Result<Option<&'t Index>, Failure> {
        let Some(name) = &self.index else { return Ok(None) };
        if table.vector_index(name).is_some() {
            return Err(unsupported_on_vectors("Scan"));
        }
        let absent = || Failure::validation("The table does not have the specified index");
        let index = table.index(name).ok_or_else(absent)?;
        match index.hash.len() > 1 || index.range.len() > 1 {
            true => Err(Failure::validation(
                "PartiQL statements cannot be executed on tables with multi-attribute HASH keys or multi-attribute RANGE keys.",
            )),
            false => Ok(Some(index)),
        }
    }

    /// Sorts partitions, and the items in each, in the requested order.
    fn sort(&self, search: &mut Search, hash: &KeyPart, range: Option<&KeyPart>) -> Result<(), Failure> {
        if self.order.is_empty() {
            return Ok(());
        }
        if search.keys.is_none() {
            return Err(Failure::validation(
                "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause.",
            ));
        }
        let is_key = |name: &str| name == hash.name || range.is_some_and(|range| range.name == name);
        if let Some((attribute, _)) = self.order.iter().find(|(attribute, _)| !is_key(attribute)) {
            return Err(Failure::validation(format!(
                "Variable reference {attribute} in ORDER BY clause must be part of the primary key"
            )));
        }
        if search.partitions.len() > 1 && self.order[0].0 != hash.name {
            return Err(Failure::validation(
                "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause.",
            ));
        }
        for (position, (attribute, ascending)) in self.order.iter().enumerate() {
            // A sort by one attribute twice is in order already.
            if self.order[..position].iter().any(|(other, _)| other == attribute) {
                continue;
            }
            match *attribute == hash.name {
                true if !ascending => search.partitions.reverse(),
                true => {}
                false => search.forward = *ascending,
            }
        }
        Ok(())
    }
}

impl Select {
    /// In a batch or a transaction it must name one item.
    fn check_names_item(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let table = layer.table(transaction, &self.table)?;
        match self.index(&table)?.is_none() && self.names_item(&table)? {
            true => Ok(()),
            false => Err(Failure::validation(
                "Select statements within BatchExecuteStatement must specify the primary key in the where clause.",
            )),
        }
    }

    /// Returns true if it names one item, and says nothing else of it.
    fn names_item(&self, table: &Table) -> Result<bool, Failure> {
        let mut names = std::collections::BTreeSet::new();
        for condition in keys::conjuncts(self.condition.as_ref()) {
            let term = keys::key_term(condition).filter(|term| table.is_key(&term.attribute));
            match term {
                Some(term) if term.test.equal_to().is_some() => names.insert(term.attribute),
                _ => return Ok(false),
            };
        }
        if names.len() != table.keys().count() {
            return Ok(false);
        }
        split_key(table, self.condition.as_ref()).map(|_| true)
    }

    /// Reads the one item as transactions read, strongly; the caller charges for it.
    fn read_uncharged(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
    ) -> Result<(Box<Search>, Box<Page>), Failure> {
        let search = self.search(layer, transaction, true)?;
        let page = search.execute_uncharged(layer, transaction)?;
        Ok((Box::new(search), Box::new(page)))
    }
}

/// The write of a statement.
fn write_of(statement: &Statement, table: &Table, show_failed: bool) -> Result<Write, Failure> {
    let exists = |condition: bool| {
        let path = Path::top(table.hash.name.clone());
        if condition {
            Condition::Exists(path)
        } else {
            Condition::NotExists(path)
        }
    };
    let joined = |mut conditions: Vec<Condition>| match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(Condition::And(conditions)),
    };
    let (action, condition) = match statement {
        Statement::Insert { item, .. } => {
            keys::check_inserted(table, item)?;
            check_item_size(item)?;
            check_nesting(item)?;
            (Action::Put(Arc::new(item.clone())), Some(exists(false)))
        }
        Statement::Update { update, condition, .. } => {
            let (key, mut remaining) = split_key(table, condition.as_ref())?;
            remaining.insert(0, exists(true));
            let update = update.clone();
            (Action::Update { key, update }, joined(remaining))
        }
        // An absent item counts as deleted, under any other conditions.
        Statement::Delete { condition, .. } => {
            let (key, remaining) = split_key(table, condition.as_ref())?;
            let holds = joined(remaining).map(|condition| Condition::Or(vec![exists(false), condition]));
            (Action::Delete(key), holds)
        }
        Statement::Select(select) | Statement::Exists(select) => {
            let (key, mut remaining) = split_key(table, select.condition.as_ref())?;
            remaining.insert(0, exists(true));
            (Action::Check(key), joined(remaining))
        }
    };
    if let Some(condition) = &condition {
        let mut paths = Vec::new();
        condition.paths(&mut paths);
        table.check_paths(paths)?;
    }
    Ok(Write {
        table: statement.table().to_owned(),
        action,
        condition,
        show_failed,
    })
}

fn execute_write(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    prepared: &PreparedStatement,
) -> Result<(Written, Returned, Vec<Path>), Failure> {
    let table = layer.table(transaction, prepared.statement.table())?;
    let write = write_of(&prepared.statement, &table, prepared.show_failed)?;
    let table = write.check(layer, transaction)?;
    let written = write.execute_uncharged(layer, transaction, table);
    let written = written.map_err(|failure| match (&prepared.statement, failure.exception) {
        (Statement::Insert { .. }, Exception::ConditionalCheckFailed) => {
            let mut duplicate = Failure::new(Exception::DuplicateItem, "Duplicate primary key exists in table");
            duplicate.extra = failure.extra;
            duplicate
        }
        _ => failure,
    })?;
    let returned = match &prepared.statement {
        Statement::Update { returned, .. } | Statement::Delete { returned, .. } => *returned,
        _ => Returned::Nothing,
    };
    let paths = match &prepared.statement {
        Statement::Update { update, .. } => update.written().into_iter().cloned().collect(),
        _ => Vec::new(),
    };
    Ok((written, returned, paths))
}

/// The answer of one statement.
enum Answer {
    Page(Box<Search>, Box<Page>),
    Written(Box<Written>, Option<Item>),
}

impl Answer {
    fn consumed(&self) -> Consumed {
        match self {
            Answer::Page(search, page) => page.consumed(search.consistent),
            Answer::Written(written, _) => written.consumed.clone(),
        }
    }

    fn each_item(&self, mut take: impl FnMut(Match<'_>)) {
        match self {
            Answer::Page(search, page) => search.each_match(page, take),
            Answer::Written(_, Some(item)) => take(Match::Decoded(item.clone())),
            Answer::Written(_, None) => {}
        }
    }
}

fn answer(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    prepared: &PreparedStatement,
) -> Result<Answer, Failure> {
    match &prepared.statement {
        Statement::Select(select) => {
            let search = select.search(layer, transaction, prepared.consistent)?;
            let page = search.execute(layer, transaction)?;
            Ok(Answer::Page(Box::new(search), Box::new(page)))
        }
        Statement::Exists(_) => Err(misplaced_exists()),
        _ => {
            let (written, returned, paths) = execute_write(layer, transaction, prepared)?;
            layer.charge(transaction, &written.table, Use::Write, || written.consumed.clone());
            let attributes = returned.attributes(&written, &paths);
            Ok(Answer::Written(Box::new(written), attributes))
        }
    }
}

/// The member with the statements of an operation of PartiQL: a text, or a list of objects with a
/// text.
pub fn statements_member(operation: &str) -> Option<&'static str> {
    match operation {
        "ExecuteStatement" => Some("Statement"),
        "BatchExecuteStatement" => Some("Statements"),
        "ExecuteTransaction" => Some("TransactStatements"),
        _ => None,
    }
}

/// Returns true if the first word of each statement of a request is SELECT.
pub fn only_selects(request: &Json<'_>, member: &str) -> bool {
    let is_select = |statement: &str| {
        let start = statement.trim_start().as_bytes();
        start.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"select"))
    };
    match request.get(member) {
        Some(Json::List(statements)) => statements.iter().all(|statement| {
            let text = statement.get("Statement").and_then(Json::text);
            text.is_some_and(is_select)
        }),
        Some(statement) => statement.text().is_some_and(is_select),
        None => false,
    }
}

pub fn statement(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let limit = request.get("Limit").and_then(Json::integer).map(|limit| limit as usize);
    let parse = || {
        Ok((
            PreparedStatement::parse(request)?,
            request.get("NextToken").map(parse_token).transpose()?,
        ))
    };
    let execute = |transaction: &mut Transaction<'_>, (prepared, start): &(PreparedStatement, Option<Item>)| {
        let Statement::Select(select) = &prepared.statement else {
            return answer(layer, transaction, prepared);
        };
        let mut search = select.search(layer, transaction, prepared.consistent)?;
        (search.limit, search.start) = (limit, start.clone());
        let page = search.execute(layer, transaction)?;
        Ok(Answer::Page(Box::new(search), Box::new(page)))
    };
    let parsed = parse();
    let reads = parsed.as_ref().is_ok_and(|(prepared, _)| prepared.statement.is_read());
    let write = |(prepared, _): (PreparedStatement, Option<Item>), answer: Answer| {
        Writer::object(|writer| {
            writer.name("Items").open(b'[');
            answer.each_item(|item| {
                writer.comma();
                item.write(&mut writer.text);
            });
            writer.close(b']');
            if let Answer::Page(_, page) = &answer
                && let Some(last) = page.last()
            {
                writer.member("NextToken", &STANDARD.encode(item_json(&last)));
                write_item(&last, &mut writer.name("LastEvaluatedKey").text);
            }
            answer
                .consumed()
                .write_member(writer, prepared.statement.table(), report);
        })
    };
    match reads {
        true => layer.respond_to_read(parsed, execute, write),
        false => layer.respond(parsed, execute, write),
    }
}

/// A token holds the key to continue after as JSON, which is checked like any other start key.
fn parse_token(token: &Json<'_>) -> Result<Item, Failure> {
    let invalid = || Failure::validation("Invalid NextToken");
    let bytes = STANDARD
        .decode(token.text().unwrap_or_default())
        .map_err(|_| invalid())?;
    let json = Json::parse(&bytes).map_err(|_| invalid())?;
    crate::wire::value::parse_item(&json).map_err(|_| invalid())
}

fn statements<'j, 'a>(request: &'j Json<'a>, member: &str) -> &'j [Json<'a>] {
    request.get(member).map_or(&[], Json::elements)
}

/// Returns true if some of the statements read and some write.
fn are_mixed<'s>(statements: impl Iterator<Item = &'s PreparedStatement> + Clone) -> bool {
    let mut kinds = statements.map(|prepared| prepared.statement.is_read());
    kinds.next().is_some_and(|first| kinds.any(|kind| kind != first))
}

/// The statements of a batch; one that is not well formed, or has wrong parameters, is refused by
/// itself, but not what is no request at all.
fn parse_batch(request: &Json<'_>) -> Result<Vec<Result<PreparedStatement, Failure>>, Failure> {
    let all: Vec<Result<PreparedStatement, Failure>> = statements(request, "Statements")
        .iter()
        .map(PreparedStatement::parse)
        .collect();
    let unreadable = |failure: &&Failure| failure.exception == Exception::Serialization;
    if let Some(failure) = all
        .iter()
        .filter_map(|prepared| prepared.as_ref().err())
        .find(unreadable)
    {
        return Err(failure.clone());
    }
    match are_mixed(all.iter().flatten()) {
        true => Err(Failure::validation(
            "Read and write requests together in the same batch is not supported.",
        )),
        false => Ok(all),
    }
}

/// The outcome of one statement of a batch.
struct BatchAnswer {
    answer: Result<Answer, Failure>,
    /// The table that the statement names, unless it was refused before it ran.
    table: Option<String>,
}

pub fn batch(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let parsed = parse_batch(request);
    let are_reads = |all: &Vec<Result<PreparedStatement, Failure>>| {
        all.iter().flatten().all(|prepared| prepared.statement.is_read())
    };
    let reads = parsed.as_ref().is_ok_and(are_reads);
    let execute = |transaction: &mut Transaction<'_>, all: &Vec<Result<PreparedStatement, Failure>>| {
        execute_batch(layer, transaction, all)
    };
    let write = |_, answers: Vec<BatchAnswer>| {
        let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
        Writer::object(|writer| {
            writer.list("Responses", &answers, |writer, entry| {
                writer.open(b'{');
                match &entry.answer {
                    Ok(answer) => {
                        write_first(writer, answer);
                        let table = entry.table.clone().unwrap_or_default();
                        consumed.entry(table).or_default().add(&answer.consumed());
                    }
                    Err(failure) => write_error(writer, failure),
                }
                if let Some(table) = &entry.table {
                    writer.member("TableName", table);
                }
                writer.close(b'}');
            });
            write_list(writer, &consumed, report, Kind::Plain);
        })
    };
    match reads {
        true => layer.respond_to_read(parsed, execute, write),
        false => layer.respond(parsed, execute, write),
    }
}

fn execute_batch(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[Result<PreparedStatement, Failure>],
) -> Result<Vec<BatchAnswer>, Failure> {
    let mut named = BTreeSet::new();
    for prepared in all.iter().flatten() {
        if let Some(key) = prepared.item_key(layer, transaction)
            && !named.insert(key)
        {
            return Err(Failure::validation("Provided list of item keys contains duplicates"));
        }
    }
    let answers = all.iter().map(|prepared| match prepared {
        Ok(prepared) => batch_answer(layer, transaction, prepared),
        Err(failure) => BatchAnswer {
            answer: Err(failure.clone()),
            table: None,
        },
    });
    Ok(answers.collect())
}

fn batch_answer(layer: &DynamoDb, transaction: &mut Transaction<'_>, prepared: &PreparedStatement) -> BatchAnswer {
    let named = match &prepared.statement {
        Statement::Select(select) => select.check_names_item(layer, transaction),
        _ => Ok(()),
    };
    let answer = named.and_then(|()| answer(layer, transaction, prepared));
    let was_refused = matches!(&answer, Err(failure) if failure.exception == Exception::Validation);
    BatchAnswer {
        answer,
        table: (!was_refused).then(|| prepared.statement.table().to_owned()),
    }
}

fn write_first(writer: &mut Writer, answer: &Answer) {
    let mut first = true;
    answer.each_item(|item| {
        if std::mem::take(&mut first) {
            item.write(&mut writer.name("Item").text);
        }
    });
}

fn write_error(writer: &mut Writer, failure: &Failure) {
    writer.nested("Error", |writer| {
        let code = match failure.exception {
            Exception::Validation => "ValidationError",
            Exception::Throttling => "ThrottlingError",
            other => other.name().trim_end_matches("Exception"),
        };
        writer.member("Code", code);
        writer.member("Message", &failure.message);
        failure.write_item(writer);
    });
}

pub fn transaction(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let token = request.get("ClientRequestToken").and_then(Json::text);
    let token = token.map(|token| (layer.token_of(token), fingerprint(request)));
    let execute = |transaction: &mut Transaction<'_>, all: &Vec<PreparedStatement>| {
        if all.iter().all(|prepared| prepared.statement.is_read()) {
            let shown = execute_reads(layer, transaction, all)?;
            return Ok(Transacted {
                consumed: consumed_together(all.iter().zip(&shown)),
                shown,
                kind: Kind::Read,
            });
        }
        let mut writes = crate::operations::transact::Writes {
            writes: Vec::new(),
            token: token.clone(),
        };
        for (position, prepared) in all.iter().enumerate() {
            let table = layer.table(transaction, prepared.statement.table())?;
            if let Statement::Exists(select) = &prepared.statement {
                check_exists(select, &table).map_err(|failure| of_statement(position, failure))?;
            }
            writes
                .writes
                .push(write_of(&prepared.statement, &table, prepared.show_failed)?);
        }
        execute_writes(layer, transaction, all, &writes)
    };
    let parsed = parse_transaction(request);
    let are_reads = |all: &Vec<PreparedStatement>| all.iter().all(|prepared| prepared.statement.is_read());
    let reads = parsed.as_ref().is_ok_and(are_reads);
    let write = |_, transacted: Transacted| {
        Writer::object(|writer| {
            writer.list("Responses", &transacted.shown, |writer, answer| {
                writer.open(b'{');
                write_first(writer, answer);
                writer.close(b'}');
            });
            write_list(writer, &transacted.consumed, report, transacted.kind);
        })
    };
    match reads {
        true => layer.respond_to_read(parsed, execute, write),
        false => layer.respond(parsed, execute, write),
    }
}

/// The answers of a transaction: one to each read, none to writes.
struct Transacted {
    shown: Vec<Answer>,
    consumed: BTreeMap<String, Consumed>,
    kind: Kind,
}

/// Returns the consumption of the statements as parts of one transaction, by table.
fn consumed_together<'s>(
    answers: impl Iterator<Item = (&'s PreparedStatement, &'s Answer)>,
) -> BTreeMap<String, Consumed> {
    let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
    for (prepared, answer) in answers {
        let total = consumed.entry(prepared.statement.table().to_owned()).or_default();
        total.add(&answer.consumed().in_transaction());
    }
    consumed
}

/// The statements of a transaction, all of which must be such as transactions take.
fn parse_transaction(request: &Json<'_>) -> Result<Vec<PreparedStatement>, Failure> {
    let mut all = Vec::new();
    for (position, json) in statements(request, "TransactStatements").iter().enumerate() {
        let prepared = PreparedStatement::parse_with(json, &parameters(json)?);
        let prepared = prepared.and_then(|prepared| check_suits_transaction(&prepared.statement).map(|()| prepared));
        all.push(prepared.map_err(|failure| of_statement(position, failure))?);
    }
    match are_mixed(all.iter()) {
        true => Err(Failure::validation(
            "ExecuteTransaction API does not support both read and write operations in the same request.",
        )),
        false => Ok(all),
    }
}

/// Returns the fault of one statement, as a transaction reports it.
fn of_statement(position: usize, mut failure: Failure) -> Failure {
    failure.message = format!(
        "Validation failed in TransactStatements[{position}]: {}",
        failure.message
    );
    failure
}

fn check_suits_transaction(statement: &Statement) -> Result<(), Failure> {
    let unsuited = match statement {
        Statement::Select(Select { index: Some(_), .. }) => "Reads on indices are not supported within transactions.",
        Statement::Exists(Select { index: Some(_), .. }) => "Operations on indices are not supported in transactions",
        Statement::Update { returned, .. } | Statement::Delete { returned, .. } if *returned != Returned::Nothing => {
            "RETURNING clause is not supported in ExecuteTransaction."
        }
        _ => return Ok(()),
    };
    Err(Failure::validation(unsuited))
}

/// Refuses an EXISTS that does not name one item and say more of it.
fn check_exists(select: &Select, table: &Table) -> Result<(), Failure> {
    match split_key(table, select.condition.as_ref()) {
        Ok((_, remaining)) if !remaining.is_empty() => Ok(()),
        _ => Err(Failure::validation(
            "EXISTS() must contain a single item read with additional condition",
        )),
    }
}

/// Reads, then charges for all of it, so that the first statements do not throttle the last.
fn execute_reads(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[PreparedStatement],
) -> Result<Vec<Answer>, Failure> {
    let named: Vec<Vec<u8>> = all
        .iter()
        .filter_map(|prepared| prepared.item_key(layer, transaction))
        .collect();
    refuse_repeated(named.into_iter())?;
    let mut pages = Vec::new();
    let mut reasons = Vec::new();
    for (position, prepared) in all.iter().enumerate() {
        let Statement::Select(select) = &prepared.statement else {
            return Err(misplaced_exists());
        };
        if !select.names_item(&*layer.table(transaction, &select.table)?)? {
            let text = "Select statements within ExecuteTransaction must specify the primary key in the where clause.";
            return Err(of_statement(position, Failure::validation(text)));
        }
        match select.read_uncharged(layer, transaction) {
            Ok(page) => {
                pages.push(page);
                reasons.push(None);
            }
            Err(throttled) if throttled.is_throttling() => reasons.push(Some(throttled)),
            Err(failure) => return Err(failure),
        }
    }
    refuse_if_any(reasons)?;
    check_bytes(pages.iter().map(|(_, page)| page.bytes()))?;
    for (search, page) in &pages {
        let consumed = || page.consumed(search.consistent).in_transaction();
        layer.charge(transaction, &page.table, Use::Read, consumed);
    }
    Ok(pages
        .into_iter()
        .map(|(search, page)| Answer::Page(search, page))
        .collect())
}

fn execute_writes(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[PreparedStatement],
    writes: &crate::operations::transact::Writes,
) -> Result<Transacted, Failure> {
    if let Some(replayed) = writes.replay(transaction)? {
        return Ok(Transacted {
            shown: Vec::new(),
            consumed: replayed.consumed,
            kind: Kind::Read,
        });
    }
    let mut keys = Vec::new();
    for write in &writes.writes {
        keys.push(write.check(layer, transaction)?.item_key(write.action.key()));
    }
    refuse_repeated(keys.into_iter())?;
    let mut answers = Vec::new();
    let mut reasons = Vec::new();
    let mut charges = Vec::new();
    let mut replay_units = Vec::new();
    let mut written_bytes = 0;
    for prepared in all {
        match execute_write(layer, transaction, prepared) {
            Ok((written, returned, paths)) => {
                written_bytes += written.new.as_deref().map_or(0, item_size);
                check_bytes(std::iter::once(written_bytes))?;
                charges.push((written.table.clone(), written.consumed.clone().in_transaction()));
                replay_units.push(written.replay_units());
                let attributes = returned.attributes(&written, &paths);
                answers.push(Answer::Written(Box::new(written), attributes));
                reasons.push(None);
            }
            Err(failure) => reasons.push(Some(failure)),
        }
    }
    charge_unless_throttled(layer, transaction, &reasons, charges);
    refuse_if_any(reasons)?;
    writes.remember(transaction, &replay_units);
    Ok(Transacted {
        consumed: consumed_together(all.iter().zip(&answers)),
        shown: Vec::new(),
        kind: Kind::Write,
    })
}
