//! PartiQL: statements that become the reads and writes that the other operations use.
//!
//! A SELECT whose condition fixes the partition key is a Query, one that lists partition keys is a Query of each, any other a
//! Scan; its whole condition is the filter of each. UPDATE and DELETE need the full key by equality; what else the condition says must hold of the item.

mod lexer;
mod parser;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::Transaction;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::capacity::{Consumed, Kind, Report, write_list};
use crate::expression::condition::{Comparison, Operand, order};
use crate::expression::{Condition, KeyTerm, KeyTest, Path};
use crate::failure::{Exception, Failure};
use crate::items::{Action, Returned, Write, Written, check_item_size};
use crate::json::{Json, Writer};
use crate::key::KeyPart;
use crate::search::{Match, Page, Search};
use crate::table::{Table, has_type, is_empty};
use crate::throughput::Use;
use crate::transact::{charge_unless_throttled, check_bytes, fingerprint, refuse_if_any, refuse_repeated};
use crate::value::{Item, Value, check_nesting, item_json, item_size, write_item};
use crate::{DynamoDb, Outcome};
use parser::{Select, Statement};

fn malformed(detail: &str) -> Failure {
    Failure::validation(format!("Statement wasn't well formed, can't be processed: {detail}"))
}

/// A statement of a request.
struct Asked {
    statement: Statement,
    show_failed: bool,
    consistent: bool,
}

fn parameters(json: &Json<'_>) -> Result<Vec<Value>, Failure> {
    let given = json.get("Parameters").map_or(&[][..], Json::elements);
    given.iter().map(Value::parse).collect()
}

impl Asked {
    fn parse(json: &Json<'_>) -> Result<Asked, Failure> {
        Asked::parse_with(json, parameters(json)?)
    }

    fn parse_with(json: &Json<'_>, parameters: Vec<Value>) -> Result<Asked, Failure> {
        let text = |name| json.get(name).and_then(Json::text);
        Ok(Asked {
            statement: parser::parse(text("Statement").unwrap_or_default(), parameters)?,
            show_failed: text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD"),
            consistent: json.get("ConsistentRead").and_then(Json::boolean).unwrap_or(false),
        })
    }
}

impl Asked {
    /// The row of the item that the statement names, if it names one of a table that is there.
    fn item_key(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Option<Vec<u8>> {
        let table = layer.table(transaction, self.statement.table()).ok()?;
        let write = write_of(&self.statement, &table, false).ok()?;
        let key = write.action.key();
        table.holds_keys(key).then(|| table.item_key(key))
    }
}

/// The terms that a condition needs all of.
fn conjuncts(condition: Option<&Condition>) -> Vec<&Condition> {
    match condition {
        None => Vec::new(),
        Some(Condition::And(terms)) => terms.iter().flat_map(|term| conjuncts(Some(term))).collect(),
        Some(other) => vec![other],
    }
}

/// The test of a top-level attribute, if the condition is one that a key can be searched by.
fn key_term(condition: &Condition) -> Option<KeyTerm> {
    let name = |operand: &Operand| match operand {
        Operand::Path(path) if path.steps.is_empty() => Some(path.root.clone()),
        _ => None,
    };
    let (attribute, test) = match condition {
        Condition::Compare(Comparison::NotEqual, ..) => return None,
        Condition::Compare(comparison, left, Operand::Value(value)) => {
            (name(left)?, KeyTest::Compare(*comparison, value.clone()))
        }
        Condition::Compare(comparison, Operand::Value(value), right) => {
            (name(right)?, KeyTest::Compare(comparison.mirrored(), value.clone()))
        }
        Condition::Between(operand, Operand::Value(low), Operand::Value(high)) => {
            (name(operand)?, KeyTest::Between(low.clone(), high.clone()))
        }
        Condition::BeginsWith(operand, Operand::Value(start)) => (name(operand)?, KeyTest::BeginsWith(start.clone())),
        _ => return None,
    };
    Some(KeyTerm { attribute, test })
}

/// Values that a condition allows for an attribute, if it lists them: `IN`, or equalities joined by `OR`.
fn listed_values(condition: &Condition, attribute: &str) -> Option<Vec<Value>> {
    let is_meant = |operand: &Operand| matches!(operand, Operand::Path(path) if *path == Path::top(attribute));
    match condition {
        Condition::In(operand, list) if is_meant(operand) => list.iter().map(literal).collect(),
        Condition::Compare(Comparison::Equal, left, right) if is_meant(left) => Some(vec![literal(right)?]),
        Condition::Or(alternatives) => {
            let listed = alternatives.iter().map(|one| listed_values(one, attribute));
            Some(listed.collect::<Option<Vec<_>>>()?.concat())
        }
        _ => None,
    }
}

fn literal(operand: &Operand) -> Option<Value> {
    match operand {
        Operand::Value(value) => Some(value.clone()),
        _ => None,
    }
}

impl Select {
    /// The search that answers it.
    fn search(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>, consistent: bool) -> Result<Search, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let mut search = Search::of(self.table.clone(), self.index.clone());
        search.consistent = consistent;
        search.projection = self.projection.clone();
        search.leaves_shown = Some(self.times_shown);
        search.filter = self.condition.clone();
        let (hash, range) = match &self.index {
            Some(name) => {
                let absent = || Failure::validation("The table does not have the specified index");
                let index = table.index(name).ok_or_else(absent)?;
                (index.hash.as_slice(), index.range.as_slice())
            }
            None => (std::slice::from_ref(&table.hash), table.range.as_slice()),
        };
        let conjuncts = conjuncts(self.condition.as_ref());
        let terms: Vec<KeyTerm> = conjuncts.iter().filter_map(|condition| key_term(condition)).collect();
        let find = |name: &str| terms.iter().find(|term| term.attribute == name);
        let fixed = hash
            .iter()
            .map(|part| find(&part.name).filter(|term| term.test.equal_to().is_some()).cloned());
        search.keys = fixed.collect::<Option<Vec<KeyTerm>>>();
        if let ([part], None) = (hash, &search.keys) {
            search.partitions = listed_partitions(&conjuncts, part);
            search.keys = (!search.partitions.is_empty()).then(Vec::new);
        }
        if let Some(keys) = &mut search.keys {
            // A range attribute beyond the first one that is not fixed cannot narrow the search.
            for part in range {
                let Some(term) = find(&part.name) else { break };
                keys.push(term.clone());
                if term.test.equal_to().is_none() {
                    break;
                }
            }
        }
        self.sort(&mut search, hash, range)?;
        Ok(search)
    }

    /// Puts partitions, and what is in each, in the order that is asked for.
    fn sort(&self, search: &mut Search, hash: &[KeyPart], range: &[KeyPart]) -> Result<(), Failure> {
        if self.order.is_empty() {
            return Ok(());
        }
        if search.keys.is_none() {
            return Err(Failure::validation(
                "Must have WHERE clause in the statement when using ORDER BY clause.",
            ));
        }
        let mut sorts_partitions = search.partitions.len() < 2;
        for (attribute, ascending) in &self.order {
            if hash.iter().any(|part| part.name == *attribute) {
                sorts_partitions = true;
                if !ascending {
                    search.partitions.reverse();
                }
            } else if !range.iter().any(|part| part.name == *attribute) {
                return Err(Failure::validation(format!(
                    "Variable reference {attribute} in ORDER BY clause must be part of the primary key"
                )));
            } else if !sorts_partitions {
                return Err(Failure::validation(
                    "Must order by the partition key first when the WHERE clause names several partitions.",
                ));
            } else {
                search.forward = *ascending;
            }
        }
        Ok(())
    }
}

/// The partitions that a condition lists, sorted, each once; none if it says more, or less, of the partition key.
fn listed_partitions(conjuncts: &[&Condition], part: &KeyPart) -> Vec<Value> {
    let mut listed = conjuncts
        .iter()
        .filter_map(|condition| listed_values(condition, &part.name));
    let mut values = listed.next().unwrap_or_default();
    if !values
        .iter()
        .all(|value| has_type(value, part.kind) && !is_empty(value))
    {
        return Vec::new();
    }
    values.sort_by(|one, other| order(one, other).expect("scalars of one type have an order"));
    values.dedup();
    values
}

impl Select {
    /// In a batch or a transaction it must name one item.
    fn check_names_item(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let table = layer.table(transaction, &self.table)?;
        if self.index.is_some() || split_key(&table, self.condition.as_ref()).is_err() {
            return Err(Failure::validation(
                "Select statements within BatchExecuteStatement must specify the primary key in the where clause.",
            ));
        }
        Ok(())
    }

    /// Reads the one item as transactions read, strongly; the caller charges for it.
    fn read_uncharged(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
    ) -> Result<(Box<Search>, Box<Page>), Failure> {
        let table = layer.table(transaction, &self.table)?;
        split_key(&table, self.condition.as_ref())?;
        let search = self.search(layer, transaction, true)?;
        let page = search.execute_uncharged(layer, transaction)?;
        Ok((Box::new(search), Box::new(page)))
    }
}

/// The write that a statement stands for.
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
            check_item_size(item)?;
            check_nesting(item)?;
            (Action::Put(Arc::new(item.clone())), Some(exists(false)))
        }
        Statement::Update { update, condition, .. } => {
            let (key, mut rest) = split_key(table, condition.as_ref())?;
            rest.insert(0, exists(true));
            let update = update.clone();
            (Action::Update { key, update }, joined(rest))
        }
        Statement::Delete { condition, .. } => {
            let (key, rest) = split_key(table, condition.as_ref())?;
            (Action::Delete(key), joined(rest))
        }
        Statement::Select(select) | Statement::Exists(select) => {
            let (key, mut rest) = split_key(table, select.condition.as_ref())?;
            rest.insert(0, exists(true));
            (Action::Check(key), joined(rest))
        }
    };
    Ok(Write {
        table: statement.table().to_owned(),
        action,
        condition,
        show_failed,
    })
}

/// The key that a condition fixes by equality, and what else it says.
fn split_key(table: &Table, condition: Option<&Condition>) -> Result<(Item, Vec<Condition>), Failure> {
    let mut key = Item::new();
    let mut rest = Vec::new();
    for condition in conjuncts(condition) {
        let term =
            key_term(condition).filter(|term| table.is_key(&term.attribute) && !key.contains_key(&term.attribute));
        match term
            .as_ref()
            .and_then(|term| Some((term.attribute.clone(), term.test.equal_to()?.clone())))
        {
            Some((attribute, value)) => drop(key.insert(attribute, value)),
            None => rest.push(condition.clone()),
        }
    }
    if key.len() != table.keys().count() {
        return Err(Failure::validation(
            "Where clause does not contain a mandatory equality on all key attributes",
        ));
    }
    Ok((key, rest))
}

fn execute_write(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    asked: &Asked,
) -> Result<(Written, Returned, Vec<Path>), Failure> {
    let table = layer.table(transaction, asked.statement.table())?;
    let write = write_of(&asked.statement, &table, asked.show_failed)?;
    let table = write.check(layer, transaction)?;
    let written = write.execute_uncharged(layer, transaction, table);
    let written = written.map_err(|failure| match (&asked.statement, failure.exception) {
        (Statement::Insert { .. }, Exception::ConditionalCheckFailed) => {
            let mut duplicate = Failure::new(Exception::DuplicateItem, "Duplicate primary key exists in table");
            duplicate.extra = failure.extra;
            duplicate
        }
        _ => failure,
    })?;
    let returned = match &asked.statement {
        Statement::Update { returned, .. } | Statement::Delete { returned, .. } => *returned,
        _ => Returned::Nothing,
    };
    let paths = match &asked.statement {
        Statement::Update { update, .. } => update.written().into_iter().cloned().collect(),
        _ => Vec::new(),
    };
    Ok((written, returned, paths))
}

/// What one statement answers.
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

fn answer(layer: &DynamoDb, transaction: &mut Transaction<'_>, asked: &Asked) -> Result<Answer, Failure> {
    match &asked.statement {
        Statement::Select(select) => {
            let search = select.search(layer, transaction, asked.consistent)?;
            let page = search.execute(layer, transaction)?;
            Ok(Answer::Page(Box::new(search), Box::new(page)))
        }
        Statement::Exists(_) => Err(malformed("EXISTS can only be used in a transaction")),
        _ => {
            let (written, returned, paths) = execute_write(layer, transaction, asked)?;
            layer.charge(transaction, &written.table, Use::Write, || written.consumed.clone());
            let attributes = returned.attributes(&written, &paths);
            Ok(Answer::Written(Box::new(written), attributes))
        }
    }
}

pub fn statement(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    let limit = request.get("Limit").and_then(Json::integer).map(|limit| limit as usize);
    let parse = || {
        Ok((
            Asked::parse(request)?,
            request.get("NextToken").map(parse_token).transpose()?,
        ))
    };
    let execute = |transaction: &mut Transaction<'_>, (asked, start): &(Asked, Option<Item>)| {
        let Statement::Select(select) = &asked.statement else {
            return answer(layer, transaction, asked);
        };
        let mut search = select.search(layer, transaction, asked.consistent)?;
        (search.limit, search.start) = (limit, start.clone());
        let page = search.execute(layer, transaction)?;
        Ok(Answer::Page(Box::new(search), Box::new(page)))
    };
    layer.respond(parse(), execute, |(asked, _), answer| {
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
            answer.consumed().write_member(writer, asked.statement.table(), report);
        })
    })
}

/// A token holds the key to go on after as JSON, which is checked like any other start key.
fn parse_token(token: &Json<'_>) -> Result<Item, Failure> {
    let invalid = || Failure::validation("Invalid NextToken");
    let bytes = STANDARD
        .decode(token.text().unwrap_or_default())
        .map_err(|_| invalid())?;
    let json = Json::parse(&bytes).map_err(|_| invalid())?;
    crate::value::parse_item(&json).map_err(|_| invalid())
}

fn statements<'j, 'a>(request: &'j Json<'a>, member: &str) -> &'j [Json<'a>] {
    request.get(member).map_or(&[], Json::elements)
}

/// True for statements of which some read and some write.
fn are_mixed<'s>(statements: impl Iterator<Item = &'s Asked> + Clone) -> bool {
    let mut kinds = statements.map(|asked| asked.statement.is_read());
    kinds.next().is_some_and(|first| kinds.any(|kind| kind != first))
}

/// The statements of a batch; one that is not well formed, or has a wrong number of parameters, is refused by itself.
fn parse_batch(request: &Json<'_>) -> Result<Vec<Result<Asked, Failure>>, Failure> {
    let parse = |json| Ok(Asked::parse_with(json, parameters(json)?));
    let all: Vec<Result<Asked, Failure>> = statements(request, "Statements")
        .iter()
        .map(parse)
        .collect::<Result<_, Failure>>()?;
    match are_mixed(all.iter().flatten()) {
        true => Err(Failure::validation(
            "Read and write requests together in the same batch is not supported.",
        )),
        false => Ok(all),
    }
}

/// What became of one statement of a batch.
struct OfBatch {
    answer: Result<Answer, Failure>,
    /// The table that the statement names, unless it was refused before it ran.
    table: Option<String>,
}

pub fn batch(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    layer.respond(
        parse_batch(request),
        |transaction, all| execute_batch(layer, transaction, all),
        |_, answers| {
            let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
            Writer::object(|writer| {
                writer.list("Responses", &answers, |writer, of_batch| {
                    writer.open(b'{');
                    match &of_batch.answer {
                        Ok(answer) => {
                            write_first(writer, answer);
                            let table = of_batch.table.clone().unwrap_or_default();
                            consumed.entry(table).or_default().add(&answer.consumed());
                        }
                        Err(failure) => write_error(writer, failure),
                    }
                    if let Some(table) = &of_batch.table {
                        writer.member("TableName", table);
                    }
                    writer.close(b'}');
                });
                write_list(writer, &consumed, report, Kind::Plain);
            })
        },
    )
}

fn execute_batch(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[Result<Asked, Failure>],
) -> Result<Vec<OfBatch>, Failure> {
    let mut named = BTreeSet::new();
    for asked in all.iter().flatten() {
        if let Some(key) = asked.item_key(layer, transaction)
            && !named.insert(key)
        {
            return Err(Failure::validation("Provided list of item keys contains duplicates"));
        }
    }
    let answers = all.iter().map(|asked| match asked {
        Ok(asked) => one_of_batch(layer, transaction, asked),
        Err(failure) => OfBatch {
            answer: Err(failure.clone()),
            table: None,
        },
    });
    Ok(answers.collect())
}

fn one_of_batch(layer: &DynamoDb, transaction: &mut Transaction<'_>, asked: &Asked) -> OfBatch {
    let named = match &asked.statement {
        Statement::Select(select) => select.check_names_item(layer, transaction),
        _ => Ok(()),
    };
    let answer = named.and_then(|()| answer(layer, transaction, asked));
    let was_refused = matches!(&answer, Err(failure) if failure.exception == Exception::Validation);
    OfBatch {
        answer,
        table: (!was_refused).then(|| asked.statement.table().to_owned()),
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
    let execute = |transaction: &mut Transaction<'_>, all: &Vec<Asked>| {
        if all.iter().all(|asked| asked.statement.is_read()) {
            return Ok((execute_reads(layer, transaction, all)?, Kind::Read));
        }
        let mut writes = crate::transact::Writes {
            writes: Vec::new(),
            token: token.clone(),
        };
        for asked in all {
            let table = layer.table(transaction, asked.statement.table())?;
            writes
                .writes
                .push(write_of(&asked.statement, &table, asked.show_failed)?);
        }
        execute_writes(layer, transaction, all, &writes).map(|answers| (answers, Kind::Write))
    };
    layer.respond(parse_transaction(request), execute, |all, (answers, kind)| {
        let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
        for (asked, answer) in all.iter().zip(&answers) {
            let total = consumed.entry(asked.statement.table().to_owned()).or_default();
            total.add(&answer.consumed().in_transaction());
        }
        // Writes answer with no item.
        let shown = if kind == Kind::Read { answers.as_slice() } else { &[] };
        Writer::object(|writer| {
            writer.list("Responses", shown, |writer, answer| {
                writer.open(b'{');
                write_first(writer, answer);
                writer.close(b'}');
            });
            write_list(writer, &consumed, report, kind);
        })
    })
}

/// The statements of a transaction, all of which must be such as transactions take.
fn parse_transaction(request: &Json<'_>) -> Result<Vec<Asked>, Failure> {
    let all = statements(request, "TransactStatements").iter().map(Asked::parse);
    let all = all.collect::<Result<Vec<_>, _>>()?;
    for (position, asked) in all.iter().enumerate() {
        let unsuited = match &asked.statement {
            Statement::Select(Select { index: Some(_), .. }) => {
                "Reads on indices are not supported within transactions."
            }
            Statement::Update { returned, .. } | Statement::Delete { returned, .. }
                if *returned != Returned::Nothing =>
            {
                "RETURNING clause is not supported in ExecuteTransaction."
            }
            _ => continue,
        };
        let text = format!("Validation failed in TransactStatements[{position}]: {unsuited}");
        return Err(Failure::validation(text));
    }
    match are_mixed(all.iter()) {
        true => Err(Failure::validation(
            "ExecuteTransaction API does not support both read and write operations in the same request.",
        )),
        false => Ok(all),
    }
}

/// Reads, then charges for all of it, so that the first statements do not throttle the last.
fn execute_reads(layer: &DynamoDb, transaction: &mut Transaction<'_>, all: &[Asked]) -> Result<Vec<Answer>, Failure> {
    let named: Vec<Vec<u8>> = all
        .iter()
        .filter_map(|asked| asked.item_key(layer, transaction))
        .collect();
    refuse_repeated(named.into_iter())?;
    let mut found = Vec::new();
    let mut reasons = Vec::new();
    for asked in all {
        let Statement::Select(select) = &asked.statement else {
            return Err(malformed("EXISTS can only be used in a transaction of writes"));
        };
        match select.read_uncharged(layer, transaction) {
            Ok(page) => {
                found.push(page);
                reasons.push(None);
            }
            Err(throttled) if throttled.is_throttling() => reasons.push(Some(throttled)),
            Err(failure) => return Err(failure),
        }
    }
    refuse_if_any(reasons)?;
    check_bytes(found.iter().map(|(_, page)| page.bytes()))?;
    for (search, page) in &found {
        let consumed = || page.consumed(search.consistent).in_transaction();
        layer.charge(transaction, &page.table, Use::Read, consumed);
    }
    Ok(found
        .into_iter()
        .map(|(search, page)| Answer::Page(search, page))
        .collect())
}

fn execute_writes(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    all: &[Asked],
    writes: &crate::transact::Writes,
) -> Result<Vec<Answer>, Failure> {
    if writes.replay(transaction)?.is_some() {
        return Ok(Vec::new());
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
    for asked in all {
        match execute_write(layer, transaction, asked) {
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
    Ok(answers)
}
