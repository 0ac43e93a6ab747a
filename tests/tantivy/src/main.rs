//! Reads lines of JSON and writes what Tantivy answers, a line each.
//!
//! `{"documents": [...]}` makes an index of one segment, of the fields `t` and `b` (English text), `k`
//! (a keyword), `n` (whole numbers) and `f` (numbers). `{"filter": ...}` is answered by the positions and
//! scores of all documents that match, `{"filter": ..., "aggs": ...}` by Tantivy's own aggregation.

use std::error::Error;
use std::io::{BufRead, Write};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Map, Value as Json, json};
use tantivy::aggregation::AggregationCollector;
use tantivy::aggregation::agg_req::Aggregations;
use tantivy::collector::TopDocs;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, EmptyQuery, FuzzyTermQuery, Occur, PhrasePrefixQuery, PhraseQuery, Query,
    RangeQuery, RegexQuery, TermQuery,
};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Type};
use tantivy::schema::{STRING, Value};
use tantivy::tokenizer::{Language, LowerCaser, RemoveLongFilter, SimpleTokenizer, Stemmer, TextAnalyzer};
use tantivy::{Index, Searcher, TantivyDocument, Term};

type Found<T> = Result<T, Box<dyn Error>>;

/// Memory of the writer, in bytes: all documents of an index fit into one segment.
const WRITER_BYTES: usize = 50_000_000;
const HITS_MAX: usize = 10_000;
/// More than there are words: all that begin as the last of a phrase are taken.
const EXPANSIONS_MAX: u32 = 10_000;

struct Answers {
    searcher: Searcher,
    schema: Schema,
    analyzer: TextAnalyzer,
}

fn schema() -> Schema {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("text")
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let text = TextOptions::default().set_indexing_options(indexing);
    schema.add_text_field("t", text.clone());
    schema.add_text_field("b", text);
    schema.add_text_field("k", STRING | FAST);
    schema.add_i64_field("n", INDEXED | FAST);
    schema.add_f64_field("f", INDEXED | FAST);
    schema.add_u64_field("position", STORED);
    schema.build()
}

fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(40))
        .filter(LowerCaser)
        .filter(Stemmer::new(Language::English))
        .build()
}

impl Answers {
    fn new(documents: &[Json]) -> Found<Answers> {
        let (schema, analyzer) = (schema(), analyzer());
        let index = Index::create_in_ram(schema.clone());
        index.tokenizers().register("text", analyzer.clone());
        let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, WRITER_BYTES)?;
        for (position, document) in documents.iter().enumerate() {
            let mut document = document.as_object().ok_or("a document is an object")?.clone();
            document.insert("position".into(), json!(position));
            writer.add_document(TantivyDocument::parse_json(
                &schema,
                &Json::Object(document).to_string(),
            )?)?;
        }
        writer.commit()?;
        let searcher = index.reader()?.searcher();
        Ok(Answers {
            searcher,
            schema,
            analyzer,
        })
    }

    fn answer(&mut self, line: &Json) -> Found<Json> {
        let query = self.clause(&line["filter"])?;
        if let Some(aggs) = line.get("aggs") {
            let aggs: Aggregations = serde_json::from_value(aggs.clone())?;
            let collector = AggregationCollector::from_aggs(aggs, Default::default());
            return Ok(serde_json::to_value(self.searcher.search(&query, &collector)?)?);
        }
        let hits = self
            .searcher
            .search(&query, &TopDocs::with_limit(HITS_MAX).order_by_score())?;
        let position = self.schema.get_field("position")?;
        let mut out = Vec::new();
        for (score, address) in hits {
            let document: TantivyDocument = self.searcher.doc(address)?;
            let position = document.get_first(position).and_then(|value| value.as_u64());
            out.push(json!([position, score]));
        }
        Ok(Json::Array(out))
    }

    fn clause(&mut self, filter: &Json) -> Found<Box<dyn Query>> {
        let filter = filter.as_object().ok_or("a filter is an object")?;
        if filter.is_empty() {
            return Ok(Box::new(AllQuery));
        }
        let mut clauses = Vec::new();
        let mut boost = None;
        for (name, value) in filter {
            let occur = match name.as_str() {
                "$must" => Occur::Must,
                "$should" => Occur::Should,
                "$mustNot" => Occur::MustNot,
                "$boost" => {
                    boost = value.as_f64();
                    continue;
                }
                name => {
                    clauses.push((Occur::Must, self.field(name, value)?));
                    continue;
                }
            };
            for part in value.as_array().ok_or("clauses are an array")? {
                clauses.push((occur, self.clause(part)?));
            }
        }
        let clause: Box<dyn Query> = match &clauses[..] {
            [(Occur::Must | Occur::Should, _)] => clauses.remove(0).1,
            _ => Box::new(BooleanQuery::new(clauses)),
        };
        Ok(boosted(clause, boost))
    }

    fn field(&mut self, name: &str, value: &Json) -> Found<Box<dyn Query>> {
        let field = self.schema.get_field(name)?;
        let Some(operators) = value.as_object() else {
            return Err("a field has operators".into());
        };
        let (mut from, mut to, mut is_range) = (Bound::Unbounded, Bound::Unbounded, false);
        let (mut clauses, mut boost) = (Vec::new(), None);
        for (operator, value) in operators {
            match operator.as_str() {
                "$boost" => boost = value.as_f64(),
                "$eq" => clauses.push(self.equal(field, value)?),
                "$in" => {
                    let values = value.as_array().ok_or("$in has an array")?;
                    let values: Found<Vec<_>> = values
                        .iter()
                        .map(|value| Ok((Occur::Should, self.equal(field, value)?)))
                        .collect();
                    clauses.push(Box::new(BooleanQuery::new(values?)) as Box<dyn Query>);
                }
                "$gt" => from = Bound::Excluded(self.term(field, value)?),
                "$gte" => from = Bound::Included(self.term(field, value)?),
                "$lt" => to = Bound::Excluded(self.term(field, value)?),
                "$lte" => to = Bound::Included(self.term(field, value)?),
                "$phrase" => clauses.push(self.phrase(field, value)?),
                "$fuzzy" => clauses.push(self.fuzzy(field, value)?),
                "$regex" => {
                    let pattern = value.as_str().ok_or("$regex is text")?;
                    clauses.push(Box::new(RegexQuery::from_pattern(pattern, field)?));
                }
                unknown => return Err(format!("unknown operator {unknown}").into()),
            }
            is_range |= matches!(operator.as_str(), "$gt" | "$gte" | "$lt" | "$lte");
        }
        if is_range {
            clauses.push(Box::new(RangeQuery::new(from, to)));
        }
        let clause = match clauses.len() {
            1 => clauses.remove(0),
            _ => Box::new(BooleanQuery::intersection(clauses)),
        };
        Ok(boosted(clause, boost))
    }

    fn words(&mut self, field: Field, text: &str) -> Vec<(usize, Term)> {
        let mut words = Vec::new();
        self.analyzer.token_stream(text).process(&mut |token| {
            words.push((token.position, Term::from_field_text(field, &token.text)));
        });
        words
    }

    fn is_text(&self, field: Field) -> bool {
        let name = self.schema.get_field_name(field);
        name == "t" || name == "b"
    }

    fn term(&self, field: Field, value: &Json) -> Found<Term> {
        let kind = self.schema.get_field_entry(field).field_type().value_type();
        Ok(match kind {
            Type::I64 => Term::from_field_i64(field, value.as_i64().ok_or("a whole number")?),
            Type::F64 => Term::from_field_f64(field, value.as_f64().ok_or("a number")?),
            _ => Term::from_field_text(field, value.as_str().ok_or("text")?),
        })
    }

    fn equal(&mut self, field: Field, value: &Json) -> Found<Box<dyn Query>> {
        if !self.is_text(field) {
            let term = self.term(field, value)?;
            return Ok(Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)));
        }
        let words = self.words(field, value.as_str().ok_or("text")?);
        Ok(phrase(words, 0))
    }

    fn phrase(&mut self, field: Field, value: &Json) -> Found<Box<dyn Query>> {
        let none = Map::new();
        let options = value.as_object().unwrap_or(&none);
        let text = options.get("value").unwrap_or(value).as_str().ok_or("text")?;
        let slop = options.get("slop").and_then(Json::as_u64).unwrap_or(0) as u32;
        let words = self.words(field, text);
        Ok(match options.get("prefix").and_then(Json::as_bool) {
            Some(true) => {
                let mut query = PhrasePrefixQuery::new_with_offset(words);
                query.set_max_expansions(EXPANSIONS_MAX);
                Box::new(query)
            }
            _ => phrase(words, slop),
        })
    }

    fn fuzzy(&mut self, field: Field, value: &Json) -> Found<Box<dyn Query>> {
        let none = Map::new();
        let options = value.as_object().unwrap_or(&none);
        let text = options.get("value").unwrap_or(value).as_str().ok_or("text")?;
        let distance = options.get("distance").and_then(Json::as_u64).unwrap_or(1) as u8;
        let swaps = options
            .get("transpositionCostOne")
            .and_then(Json::as_bool)
            .unwrap_or(true);
        let prefix = options.get("prefix").and_then(Json::as_bool).unwrap_or(false);
        let words = self.words(field, text).into_iter().map(|(_, term)| match prefix {
            true => FuzzyTermQuery::new_prefix(term, distance, swaps),
            false => FuzzyTermQuery::new(term, distance, swaps),
        });
        let mut words: Vec<Box<dyn Query>> = words.map(|query| Box::new(query) as Box<dyn Query>).collect();
        Ok(match words.len() {
            0 => Box::new(EmptyQuery),
            1 => words.remove(0),
            _ => Box::new(BooleanQuery::intersection(words)),
        })
    }
}

fn phrase(mut words: Vec<(usize, Term)>, slop: u32) -> Box<dyn Query> {
    match words.len() {
        0 => Box::new(EmptyQuery),
        1 => Box::new(TermQuery::new(words.remove(0).1, IndexRecordOption::WithFreqs)),
        _ => Box::new(PhraseQuery::new_with_offset_and_slop(words, slop)),
    }
}

fn boosted(clause: Box<dyn Query>, boost: Option<f64>) -> Box<dyn Query> {
    match boost {
        Some(boost) => Box::new(BoostQuery::new(clause, boost as f32)),
        None => clause,
    }
}

fn main() -> Found<()> {
    let mut answers = None;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line: Json = serde_json::from_str(&line?)?;
        if let Some(documents) = line["documents"].as_array() {
            answers = Some(Answers::new(documents)?);
            continue;
        }
        let answers = answers.as_mut().ok_or("documents come first")?;
        // Some of Tantivy's own assertions do not hold, in builds that have them.
        let answered = catch_unwind(AssertUnwindSafe(|| answers.answer(&line)));
        let answer = match answered {
            Ok(answer) => answer.unwrap_or_else(|error| json!({"error": error.to_string()})),
            Err(_) => json!({"error": "panic"}),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
