//! SEARCH.QUERY, SEARCH.COUNT and SEARCH.AGGREGATE.

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome, StreamId};
use quartet_search::hits::{Found, Hit};
use quartet_search::upstash::{
    self, Aggregation, Clause, FieldScore, Highlighter, Modifier, Operation, Order, Page, Schema, ScoreFunction,
    TypedField,
};
use quartet_wire_resp::Arguments;

use super::contents::{Contents, replace_texts, selected, shown};
use super::lookup::{clock, failed, find, rows, wait};
use super::reply;
use crate::commands::search::content;
use crate::indexes::{KeyIndex, Words};

const LIMIT: usize = 10;
const LIMIT_MAX: usize = 1000;
const OFFSET_MAX: usize = 10_000;

/// The name of a whole document.
const DOCUMENT: &str = "$";

/// The arguments of SEARCH.QUERY after the filter.
struct QueryArguments {
    page: Page,
    no_content: bool,
    selected: Option<Vec<String>>,
    /// Numbers of fields.
    highlighted: Option<Vec<u16>>,
    tags: (String, String),
}

pub fn query(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let Some(index) = find(context, arguments, &arguments[1], false)? else {
        context.reply.null();
        return Ok(Outcome::Done);
    };
    let schema = &index.definition.schema;
    let clause = clause(schema, &arguments[2])?;
    let words: Vec<&[u8]> = arguments.iter().skip(3).collect();
    let request = QueryArguments::read(schema, &mut Words::new(&words))?;
    if let Some(outcome) = wait(context, &index)? {
        return Ok(outcome);
    }
    let is_over = clock(context);
    let answer = {
        let mut rows = rows(context, &index, &is_over)?;
        upstash::search(&mut rows, schema, &clause, &request.page, &is_over).map_err(failed)?
    };
    Answer {
        index: &index,
        clause: &clause,
        asked: &request,
    }
    .write(context, &answer)?;
    Ok(Outcome::Done)
}

pub fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let Some(index) = find(context, arguments, &arguments[1], false)? else {
        context.reply.integer(-1);
        return Ok(Outcome::Done);
    };
    let clause = clause(&index.definition.schema, &arguments[2])?;
    if let Some(outcome) = wait(context, &index)? {
        return Ok(outcome);
    }
    let is_over = clock(context);
    let total = {
        let mut rows = rows(context, &index, &is_over)?;
        upstash::count(&mut rows, &clause, &is_over).map_err(failed)?
    };
    context.reply.integer(total as i64);
    Ok(Outcome::Done)
}

pub fn aggregate(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let Some(index) = find(context, arguments, &arguments[1], false)? else {
        context.reply.null();
        return Ok(Outcome::Done);
    };
    let schema = &index.definition.schema;
    let clause = clause(schema, &arguments[2])?;
    let aggregations = Aggregation::parse(schema, &arguments[3]).map_err(|reason| format!("ERR {reason}"))?;
    if let Some(outcome) = wait(context, &index)? {
        return Ok(outcome);
    }
    let is_over = clock(context);
    let figure = {
        let mut rows = rows(context, &index, &is_over)?;
        upstash::aggregate(&mut rows, schema, &clause, &aggregations, &is_over).map_err(failed)?
    };
    reply::figure(&mut context.reply, &figure);
    Ok(Outcome::Done)
}

fn clause(schema: &Schema, filter: &[u8]) -> Result<Clause, ErrorReply> {
    upstash::parse(schema, filter).map_err(|reason| format!("ERR {reason}").into())
}

impl QueryArguments {
    fn read(schema: &Schema, words: &mut Words<'_>) -> Result<QueryArguments, ErrorReply> {
        let mut request = QueryArguments {
            page: Page {
                offset: 0,
                count: LIMIT,
                order: Order::Score,
            },
            no_content: false,
            selected: None,
            highlighted: None,
            tags: ("<em>".into(), "</em>".into()),
        };
        let mut has_order = false;
        while words.left() > 0 {
            if words.take("LIMIT") {
                let limit = number(words).filter(|limit| (1..=LIMIT_MAX).contains(limit));
                request.page.count = limit.ok_or("ERR limit should be a positive number less than 1000")?;
            } else if words.take("OFFSET") {
                let offset = number(words).filter(|offset| *offset <= OFFSET_MAX);
                request.page.offset =
                    offset.ok_or_else(|| format!("ERR offset should be a number up to {OFFSET_MAX}"))?;
            } else if words.take("NOCONTENT") {
                request.no_content = true;
            } else if words.take("SELECT") {
                request.selected = Some(names(words, "SELECT")?);
            } else if words.take("HIGHLIGHT") {
                request.highlight(schema, words)?;
            } else if words.take("ORDERBY") {
                if std::mem::replace(&mut has_order, true) {
                    return Err("ERR ORDERBY cannot be combined with SCOREFUNC or another ORDERBY".into());
                }
                request.page.order = order(schema, words)?;
            } else if words.take("SCOREFUNC") {
                if std::mem::replace(&mut has_order, true) {
                    return Err("ERR SCOREFUNC cannot be combined with ORDERBY or another SCOREFUNC".into());
                }
                request.page.order = Order::Function(score_function(schema, words)?);
            } else {
                let word = String::from_utf8_lossy(words.peek().unwrap_or_default()).into_owned();
                return Err(format!("ERR Unknown argument: {word}").into());
            }
        }
        match request.no_content && (request.selected.is_some() || request.highlighted.is_some()) {
            true => Err("ERR NOCONTENT cannot be combined with SELECT or HIGHLIGHT".into()),
            false => Ok(request),
        }
    }

    fn highlight(&mut self, schema: &Schema, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        if !words.take("FIELDS") {
            return Err("ERR HIGHLIGHT takes FIELDS".into());
        }
        let fields = names(words, "FIELDS")?;
        let numbers = fields.iter().map(|name| Ok(field(schema, name)?.0));
        self.highlighted = Some(numbers.collect::<Result<_, ErrorReply>>()?);
        if words.take("TAGS") {
            self.tags = (name(words, "TAGS")?, name(words, "TAGS")?);
        }
        Ok(())
    }
}

fn number(words: &mut Words<'_>) -> Option<usize> {
    std::str::from_utf8(words.next()?).ok()?.parse().ok()
}

fn name(words: &mut Words<'_>, option: &str) -> Result<String, ErrorReply> {
    let word = words
        .next()
        .ok_or_else(|| format!("ERR {option} has too few arguments"))?;
    String::from_utf8(word.to_vec()).map_err(|_| format!("ERR The arguments of {option} are no UTF-8").into())
}

fn names(words: &mut Words<'_>, option: &str) -> Result<Vec<String>, ErrorReply> {
    let count = number(words).filter(|count| *count <= words.left());
    let count = count.ok_or_else(|| format!("ERR {option} takes a number of fields, and as many names"))?;
    (0..count).map(|_| name(words, option)).collect()
}

fn field<'s>(schema: &'s Schema, name: &str) -> Result<(u16, &'s TypedField), ErrorReply> {
    schema
        .find(name)
        .ok_or_else(|| format!("ERR Unknown field: {name}").into())
}

fn order(schema: &Schema, words: &mut Words<'_>) -> Result<Order, ErrorReply> {
    let name = name(words, "ORDERBY")?;
    let (number, field) = field(schema, &name)?;
    let ascends = words.take("ASC");
    if !ascends {
        words.take("DESC");
    }
    match field.fast {
        true => Ok(Order::Field { field: number, ascends }),
        false => Err(format!("ERR ORDERBY requires field '{name}' to be FAST").into()),
    }
}

fn score_function(schema: &Schema, words: &mut Words<'_>) -> Result<ScoreFunction, ErrorReply> {
    let mut function = ScoreFunction::default();
    let wrong = |option: &str, word: &str| ErrorReply::from(format!("ERR Unknown {option}: {word}"));
    loop {
        if words.take("COMBINEMODE") {
            let word = name(words, "COMBINEMODE")?;
            let operation = Operation::of_name(&word).filter(|operation| *operation != Operation::Replace);
            function.combine = operation.ok_or_else(|| wrong("COMBINEMODE", &word))?;
        } else if words.take("SCOREMODE") {
            let word = name(words, "SCOREMODE")?;
            function.mode = Operation::of_name(&word).ok_or_else(|| wrong("SCOREMODE", &word))?;
        } else if words.take("FIELDVALUE") {
            function.fields.push(field_score(schema, words)?);
        } else {
            break;
        }
    }
    match function.fields.is_empty() {
        true => Err("ERR SCOREFUNC takes FIELDVALUE".into()),
        false => Ok(function),
    }
}

fn field_score(schema: &Schema, words: &mut Words<'_>) -> Result<FieldScore, ErrorReply> {
    let name = name(words, "FIELDVALUE")?;
    let (number, field) = field(schema, &name)?;
    if !(field.fast && field.kind.is_numeric()) {
        return Err(format!("ERR SCOREFUNC requires field '{name}' to be FAST and a number").into());
    }
    let mut score = FieldScore {
        field: number,
        modifier: Modifier::None,
        factor: 1.0,
        missing: 0.0,
    };
    loop {
        if words.take("MODIFIER") {
            let word = self::name(words, "MODIFIER")?;
            let unknown = || format!("ERR Unknown MODIFIER: {word}");
            score.modifier = Modifier::of_name(&word).ok_or_else(unknown)?;
        } else if words.take("FACTOR") {
            score.factor = decimal(words, "FACTOR")?;
        } else if words.take("MISSING") {
            score.missing = decimal(words, "MISSING")?;
        } else {
            return Ok(score);
        }
    }
}

fn decimal(words: &mut Words<'_>, option: &str) -> Result<f64, ErrorReply> {
    let word = name(words, option)?;
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("ERR {option} takes a number").into())
}

/// Writes what was found.
struct Answer<'a> {
    index: &'a KeyIndex,
    clause: &'a Clause,
    asked: &'a QueryArguments,
}

impl Answer<'_> {
    fn write(&self, context: &mut Context<'_, '_>, answer: &Found) -> Result<(), ErrorReply> {
        context.reply.array(answer.hits.len());
        for hit in &answer.hits {
            context.reply.array(if self.asked.no_content { 2 } else { 3 });
            match self.index.is_on_stream() {
                true => context.reply.bulk(StreamId::from_bytes(&hit.key).text().as_bytes()),
                false => context.reply.bulk(&hit.key),
            }
            match self.asked.page.order {
                Order::Score => reply::score(&mut context.reply, hit.score as f32),
                _ => reply::number(&mut context.reply, hit.score),
            }
            if !self.asked.no_content {
                self.content(context, hit)?;
            }
        }
        Ok(())
    }

    fn content(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<(), ErrorReply> {
        let workspace = context.groups.workspace();
        let paths = self.asked.selected.as_ref();
        let paths = paths.map(|paths| paths.iter().map(String::as_str));
        let mut contents = Contents::find(&mut context.keys_of(0), self.index, &hit.key, paths, workspace);
        content::check_memory(context)?;
        let mut keys = context.keys_of(0);
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        match &mut contents {
            None => {}
            Some(Contents::Document(document)) => {
                self.each_highlighted(&mut |highlighter, number, field| {
                    let mut mark = |text: &str| highlighter.marked(number, text);
                    replace_texts(document, field.source(), &mut mark);
                });
                match &self.asked.selected {
                    None => pairs.push((DOCUMENT.to_owned(), document.text())),
                    Some(names) => pairs.extend(names.iter().filter_map(|name| {
                        let value = shown(&selected(document, name))?;
                        Some((name.clone(), value))
                    })),
                }
            }
            Some(contents @ (Contents::Hash(_) | Contents::Entry(_))) => {
                pairs = contents.pairs(&mut keys, self.asked.selected.as_deref());
                self.each_highlighted(&mut |highlighter, number, field| {
                    let values = pairs.iter_mut().filter(|(name, _)| name == field.source());
                    for (_, value) in values {
                        let marked = std::str::from_utf8(value).ok();
                        let marked = marked.and_then(|text| highlighter.marked(number, text));
                        *value = marked.map_or(std::mem::take(value), String::into_bytes);
                    }
                });
            }
        }
        context.reply.array(pairs.len());
        for (name, value) in pairs {
            context.reply.array(2);
            context.reply.bulk(name.as_bytes());
            context.reply.bulk(&value);
        }
        Ok(())
    }

    fn each_highlighted(&self, visit: &mut dyn FnMut(&Highlighter<'_>, u16, &TypedField)) {
        let Some(fields) = &self.asked.highlighted else {
            return;
        };
        let schema = &self.index.definition.schema;
        let (before, after) = &self.asked.tags;
        let highlighter = Highlighter::new(schema, self.clause, before, after);
        for number in fields {
            visit(&highlighter, *number, schema.field(*number));
        }
    }
}
