//! PartiQL: statements that become the reads and writes that the other operations use.
//!
//! A SELECT whose condition fixes the partition key is a Query, any other a Scan; its whole condition is the filter of
//! either. UPDATE and DELETE need the full key by equality; what else the condition says must hold of the item.

mod lexer;
mod parser;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::Transaction;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::capacity::{Consumed, Kind, Report, write_list};
use crate::expression::condition::{Comparison, Operand};
use crate::expression::{Condition, KeyTerm, KeyTest, Path};
use crate::failure::{Exception, Failure};
use crate::items::{Action, Returned, Write, Written, check_item_size};
use crate::json::{Json, Writer};
use crate::search::{Match, Page, Search};
use crate::table::Table;
use crate::throughput::Use;
use crate::transact::{charge_unless_throttled, fingerprint, refuse_if_any, refuse_repeated};
use crate::value::{Item, Value, check_nesting, item_json, write_item};
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

impl Asked {
    fn parse(json: &Json<'_>) -> Result<Asked, Failure> {
        let text = |name| json.get(name).and_then(Json::text);
        let parameters = json.get("Parameters").map_or(&[][..], Json::elements);
        let parameters = parameters.iter().map(Value::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Asked {
            statement: parser::parse(text("Statement").unwrap_or_default(), parameters)?,
            show_failed: text("ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD"),
            consistent: json.get("ConsistentRead").and_then(Json::boolean).unwrap_or(false),
        })
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

impl Select {
    /// The search that answers it.
    fn search(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>, consistent: bool) -> Result<Search, Failure> {
        let table = layer.table(transaction, &self.table)?;
        let mut search = Search::of(self.table.clone(), self.index.clone());
        search.consistent = consistent;
        search.projection = self.projection.clone();
        search.filter = self.condition.clone();
        let index = self.index.as_ref().and_then(|name| table.index(name));
        let (hash, range) = match index {
            Some(index) => (index.hash.as_slice(), index.range.as_slice()),
            None => (std::slice::from_ref(&table.hash), table.range.as_slice()),
        };
        let terms: Vec<KeyTerm> = conjuncts(self.condition.as_ref())
            .into_iter()
            .filter_map(key_term)
            .collect();
        let find = |name: &str| terms.iter().find(|term| term.attribute == name);
        let fixed = hash
            .iter()
            .map(|part| find(&part.name).filter(|term| term.test.equal_to().is_some()).cloned());
        if let Some(mut keys) = fixed.collect::<Option<Vec<KeyTerm>>>() {
            // A range attribute beyond the first one that is not fixed cannot narrow the search.
            for part in range {
                let Some(term) = find(&part.name) else { break };
                keys.push(term.clone());
                if term.test.equal_to().is_none() {
                    break;
                }
            }
            search.keys = Some(keys);
        }
        if let Some((attribute, ascending)) = &self.order {
            if search.keys.is_none() {
                return Err(Failure::validation(
                    "Must have WHERE clause in the statement when using ORDER BY clause.",
                ));
            }
            let is_key = hash.iter().chain(range).any(|part| part.name == *attribute);
            if !is_key {
                return Err(Failure::validation(format!(
                    "Variable reference {attribute} in ORDER BY clause must be part of the primary key"
                )));
            }
            search.forward = *ascending;
        }
        Ok(search)
    }
}

impl Select {
    /// In a batch or a transaction it must name one item.
    fn check_names_item(&self, layer: &DynamoDb, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let table = layer.table(transaction, &self.table)?;
        if self.index.is_some() {
            return Err(Failure::validation(
                "Select statements within a batch cannot use an index",
            ));
        }
        split_key(&table, self.condition.as_ref()).map(drop)
    }

    /// Reads the one item as transactions read, strongly; the caller charges for it.
    fn read_uncharged(
        &self,
        layer: &DynamoDb,
        transaction: &mut Transaction<'_>,
    ) -> Result<(Box<Search>, Box<Page>), Failure> {
        self.check_names_item(layer, transaction)?;
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
        (Statement::Insert { .. }, Exception::ConditionalCheckFailed) => Failure {
            exception: Exception::DuplicateItem,
            message: "Duplicate primary key exists in table".into(),
            ..failure
        },
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

fn parse_all(request: &Json<'_>, member: &str) -> Result<Vec<Asked>, Failure> {
    let statements = request.get(member).map_or(&[][..], Json::elements);
    let asked = statements.iter().map(Asked::parse).collect::<Result<Vec<_>, _>>()?;
    let reads = asked.iter().filter(|asked| asked.statement.is_read()).count();
    if reads > 0 && reads < asked.len() {
        return Err(Failure::validation(
            "Reads and writes cannot be mixed in one batch or transaction of statements",
        ));
    }
    Ok(asked)
}

pub fn batch(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let report = Report::read(request);
    layer.respond(
        parse_all(request, "Statements"),
        |transaction, all| {
            let answers = all.iter().map(|asked| one_of_batch(layer, transaction, asked));
            Ok(answers.collect::<Vec<_>>())
        },
        |all, answers| {
            let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
            Writer::object(|writer| {
                writer.list("Responses", all.iter().zip(&answers), |writer, (asked, answer)| {
                    writer.open(b'{');
                    match answer {
                        Ok(answer) => {
                            write_first(writer, answer);
                            let total = consumed.entry(asked.statement.table().to_owned()).or_default();
                            total.add(&answer.consumed());
                        }
                        Err(failure) => write_error(writer, failure),
                    }
                    writer.member("TableName", asked.statement.table());
                    writer.close(b'}');
                });
                write_list(writer, &consumed, report, Kind::Plain);
            })
        },
    )
}

fn one_of_batch(layer: &DynamoDb, transaction: &mut Transaction<'_>, asked: &Asked) -> Result<Answer, Failure> {
    if let Statement::Select(select) = &asked.statement {
        select.check_names_item(layer, transaction)?;
    }
    answer(layer, transaction, asked)
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
    let token = token.map(|token| (token.to_owned(), fingerprint(request)));
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
    layer.respond(
        parse_all(request, "TransactStatements"),
        execute,
        |all, (answers, kind)| {
            let mut consumed: BTreeMap<String, Consumed> = BTreeMap::new();
            Writer::object(|writer| {
                // A transaction that was done before answers with nothing for each statement.
                let answers = answers.iter().map(Some).chain(std::iter::repeat(None));
                writer.list("Responses", all.iter().zip(answers), |writer, (asked, answer)| {
                    writer.open(b'{');
                    answer.inspect(|answer| write_first(writer, answer));
                    writer.close(b'}');
                    let Some(answer) = answer else { return };
                    let total = consumed.entry(asked.statement.table().to_owned()).or_default();
                    total.add(&answer.consumed().doubled());
                });
                write_list(writer, &consumed, report, kind);
            })
        },
    )
}

/// Reads, then charges for all of it, so that the first statements do not throttle the last.
fn execute_reads(layer: &DynamoDb, transaction: &mut Transaction<'_>, all: &[Asked]) -> Result<Vec<Answer>, Failure> {
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
    for (search, page) in &found {
        let consumed = || page.consumed(search.consistent).doubled();
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
    if writes.replay(layer, transaction)?.is_some() {
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
    for asked in all {
        match execute_write(layer, transaction, asked) {
            Ok((written, returned, paths)) => {
                charges.push((written.table.clone(), written.consumed.clone().doubled()));
                let attributes = returned.attributes(&written, &paths);
                answers.push(Answer::Written(Box::new(written), attributes));
                reasons.push(None);
            }
            Err(failure) => reasons.push(Some(failure)),
        }
    }
    charge_unless_throttled(layer, transaction, &reasons, charges);
    refuse_if_any(reasons)?;
    writes.remember(transaction);
    Ok(answers)
}
