//! FT.INFO. Names, order and forms follow the observed answers of search 2.10; figures without a
//! counterpart here are left out. Sizes are approximate, of stored rows: offsets of words are in
//! the postings and values of SORTABLE fields in the documents, so they have none of their own, and
//! there is no collector.

use quartet_layer_redis::module_api::{Context, ErrorReply, Kind};
use quartet_search::index::schema::{Field, FieldKind};
use quartet_search::index::vector_kind::Graph;
use quartet_search::index::{self, RecordCounts, State};
use quartet_wire_resp::{Arguments, Protocol};

use super::lookup::{find, words};
use crate::indexes::{Algorithm, Failure, Failures, Index, StoredIndex, TransactionRows, figures, usage};
use crate::state::SearchGroups;

/// Most rows of one tag in a sample of lengths.
const SAMPLE_OF_TAG: u64 = 64;

const BYTES_OF_MB: f64 = (1 << 20) as f64;

/// Most cursors of an index.
const CURSORS_MAX: i64 = 128;

pub fn info(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 1)?;
    let index = find(context, arguments, words[0], false)?;
    let failures = Failures::read(context.tx, &index.head.number);
    let progress = index.progress(context.tx);
    let stored_bytes = context.groups.indexes().sizes.of(context.tx, index.as_ref());
    let mut rows = TransactionRows {
        tx: context.tx,
        prefix: index.rows_prefix(),
    };
    let (state, terms) = (State::read(&mut rows), index::term_count(&mut rows));
    let records = index::record_counts(&mut rows, figures::SAMPLE);
    let parts = [
        index::INVERTED_TAGS,
        index::VECTOR_TAGS,
        index::DOCUMENT_TAGS,
        index::KEY_TAGS,
        index::SHAPE_TAGS,
    ];
    let bytes = parts.map(|tags| figures::bytes_of(context.tx, index.as_ref(), tags, SAMPLE_OF_TAG));
    let uses = context.groups.indexes().usage.note_other(&index.head.number);
    let mark = context.reply.mark();
    let mut info = Info { context, pairs: 0 };
    info.text("index_name", &index.head.name);
    info.key("index_options");
    options(info.context, &index);
    info.key("index_definition");
    definition(info.context, &index);
    info.key("attributes");
    info.context.reply.array(index.definition.schema.fields().count());
    for (_, field) in index.definition.schema.fields() {
        attribute(info.context, &index, field);
    }
    info.number("num_docs", state.documents);
    info.number("max_doc_id", state.last_id);
    info.number("num_terms", terms);
    sizes(&mut info, &state, &records, bytes, stored_bytes);
    info.number("hash_indexing_failures", failures.of_all().count);
    info.number("indexing", progress.is_some().into());
    info.key("percent_indexed");
    let share = progress.map_or(1.0, |progress| progress.share());
    info.context.reply.double(share);
    info.number("number_of_uses", uses.queries);
    info.number("number_of_admin_ops", uses.others);
    info.number("cleaning", 0);
    info.key("gc_stats");
    collector(info.context);
    info.key("cursor_stats");
    cursors(info.context, &index);
    info.key("dialect_stats");
    dialects(info.context, &uses);
    if index.definition.names_stop_words {
        info.key("stopwords_list");
        let stop_words = &index.definition.schema.stop_words;
        info.context.reply.array(stop_words.iter().count());
        stop_words.iter().for_each(|word| info.context.reply.bulk(word));
    }
    info.key("Index Errors");
    errors(info.context, &failures.of_all());
    info.key("field statistics");
    fields(info.context, &index, &failures);
    let pairs = info.pairs;
    context.reply.map_since(mark, pairs);
    Ok(())
}

/// The options of an index, as FT.CREATE was given them.
fn options(context: &mut Context<'_, '_>, index: &Index) {
    let option_names = index.definition.options.iter().map(|option| option.0);
    let is_given = |name: &str| option_names.clone().any(|option| option == name);
    // Without offsets nothing can be highlighted.
    let implied = (is_given("NOOFFSETS") && !is_given("NOHL")).then_some("NOHL");
    let many_texts = is_given("MAXTEXTFIELDS").then_some("MAXTEXTFIELDS");
    let options: Vec<&str> = option_names
        .clone()
        .filter(|option| *option != "MAXTEXTFIELDS")
        .chain(implied)
        .chain(many_texts)
        .chain(index.definition.skips_initial_scan.then_some("SKIPINITIALSCAN"))
        .collect();
    context.reply.array(options.len());
    options.iter().for_each(|option| context.reply.simple(option));
}

/// The dialects of the queries so far.
fn dialects(context: &mut Context<'_, '_>, uses: &usage::Uses) {
    context.reply.map(usage::DIALECTS.count());
    for dialect in usage::DIALECTS {
        context.reply.simple(&format!("dialect_{dialect}"));
        context.reply.integer(uses.had_dialect(dialect).into());
    }
}

/// The failures of each field.
fn fields(context: &mut Context<'_, '_>, index: &Index, failures: &Failures) {
    context.reply.array(index.definition.schema.fields().count());
    for (at, field) in index.definition.schema.fields() {
        let mark = context.reply.mark();
        let mut field_info = Info {
            context: &mut *context,
            pairs: 0,
        };
        field_info.text("identifier", field.path.as_bytes());
        field_info.text("attribute", field.name.as_bytes());
        field_info.key("Index Errors");
        errors(field_info.context, &failures.of(at));
        let pairs = field_info.pairs;
        context.reply.map_since(mark, pairs);
    }
}

fn sizes(info: &mut Info<'_, '_, '_>, state: &State, records: &RecordCounts, bytes: [u64; 5], stored_bytes: u64) {
    let count = records.of_terms + records.of_values;
    let [inverted, vectors, documents, keys, shapes] = bytes.map(|bytes| bytes as f64 / BYTES_OF_MB);
    info.number("num_records", count);
    // Zero divided by zero is no number, as at the original.
    let per_record = |sum: f64| sum / count as f64;
    for (name, figure) in [
        ("inverted_sz_mb", inverted),
        ("vector_index_sz_mb", vectors),
        ("offset_vectors_sz_mb", 0.0),
        ("doc_table_size_mb", documents),
        ("sortable_values_size_mb", 0.0),
        ("key_table_size_mb", keys),
        ("tag_overhead_sz_mb", 0.0),
        ("text_overhead_sz_mb", 0.0),
        ("total_index_memory_sz_mb", stored_bytes as f64 / BYTES_OF_MB),
        ("geoshapes_sz_mb", shapes),
        ("records_per_doc_avg", count as f64 / state.documents as f64),
        ("bytes_per_record_avg", per_record(inverted * BYTES_OF_MB)),
        ("offsets_per_term_avg", state.tokens as f64 / records.of_terms as f64),
        ("offset_bits_per_record_avg", per_record(0.0)),
    ] {
        info.key(name);
        info.context.reply.double(figure);
    }
}

/// Figures of the original's collector of its own memory. There is none here.
fn collector(context: &mut Context<'_, '_>) {
    let figures = [
        ("bytes_collected", 0.0),
        ("total_ms_run", 0.0),
        ("total_cycles", 0.0),
        ("average_cycle_time_ms", f64::NAN),
        ("last_run_time_ms", 0.0),
        ("gc_numeric_trees_missed", 0.0),
        ("gc_blocks_denied", 0.0),
    ];
    context.reply.map(figures.len());
    for (name, figure) in figures {
        context.reply.simple(name);
        context.reply.double(figure);
    }
}

/// A map of unknown length: it is counted as it is written.
struct Info<'i, 'c, 't> {
    context: &'i mut Context<'c, 't>,
    pairs: usize,
}

impl Info<'_, '_, '_> {
    fn key(&mut self, name: &str) {
        self.pairs += 1;
        self.context.reply.simple(name);
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        self.key(name);
        self.context.reply.bulk(value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.key(name);
        self.context.reply.integer(value as i64);
    }

    fn graph(&mut self, algorithm: &Algorithm, graph: &Graph) {
        let (links, candidates) = (graph.links as u64, graph.build_candidates as u64);
        let Algorithm::SvsVamana(compression) = algorithm else {
            self.number("M", links);
            return self.number("ef_construction", candidates);
        };
        self.number("graph_max_degree", links);
        self.number("construction_window_size", candidates);
        let codes = compression.codes.unwrap_or("NO_COMPRESSION");
        self.text("compression", codes.as_bytes());
        for (name, number) in [
            ("training_threshold", compression.training_threshold),
            ("reduced_dim", compression.dimensions),
        ] {
            if let Some(number) = number {
                self.number(name, number);
            }
        }
    }
}

fn definition(context: &mut Context<'_, '_>, index: &Index) {
    let definition = &index.definition;
    let mark = context.reply.mark();
    let mut info = Info { context, pairs: 0 };
    let key_type: &[u8] = match definition.on {
        Kind::Json => b"JSON",
        _ => b"HASH",
    };
    info.text("key_type", key_type);
    info.key("prefixes");
    info.context.reply.array(definition.prefixes.len());
    definition
        .prefixes
        .iter()
        .for_each(|prefix| info.context.reply.bulk(prefix));
    if let Some((filter, _)) = &definition.filter {
        info.text("filter", filter.as_bytes());
    }
    if definition.names_language {
        info.text("default_language", definition.schema.language.name().as_bytes());
    }
    if let Some(field) = &definition.language_field {
        info.text("language_field", field.as_bytes());
    }
    info.key("default_score");
    info.context.reply.double(definition.score);
    if let Some(field) = &definition.score_field {
        info.text("score_field", field.as_bytes());
    }
    if let Some(field) = &definition.payload_field {
        info.text("payload_field", field.as_bytes());
    }
    info.text("indexes_all", if definition.indexes_all { b"true" } else { b"false" });
    let pairs = info.pairs;
    context.reply.map_since(mark, pairs);
}

/// In RESP2 one list, the flags at its end; in RESP3 a map with a list of flags.
fn attribute(context: &mut Context<'_, '_>, index: &Index, field: &Field) {
    let is_map = context.reply.protocol() == Protocol::Resp3;
    let mark = context.reply.mark();
    let mut info = Info { context, pairs: 0 };
    info.text("identifier", field.path.as_bytes());
    info.text("attribute", field.name.as_bytes());
    info.text("type", field.kind.name().as_bytes());
    match &field.kind {
        FieldKind::Text { weight, .. } => {
            info.key("WEIGHT");
            info.context.reply.double(*weight);
        }
        FieldKind::Tag { separator, .. } => info.text("SEPARATOR", separator.as_slice()),
        FieldKind::Numeric | FieldKind::Geo => {}
        FieldKind::Shape(system) => info.text("coord_system", system.name().as_bytes()),
        FieldKind::Vector(kind) => {
            let algorithm = index.definition.algorithm(&field.name);
            info.text("algorithm", algorithm.name().as_bytes());
            info.text("data_type", kind.component().name().as_bytes());
            info.number("dim", kind.dimensions() as u64);
            info.text("distance_metric", kind.metric().name().as_bytes());
            if let Some(graph) = kind.graph() {
                info.graph(algorithm, graph);
            }
        }
    }
    let flags = flags(index, field);
    let pairs = info.pairs;
    if is_map {
        context.reply.simple("flags");
        context.reply.array(flags.len());
    }
    flags.iter().for_each(|flag| context.reply.simple(flag));
    match is_map {
        true => context.reply.map_since(mark, pairs + 1),
        false => context.reply.array_since(mark, 2 * pairs + flags.len()),
    }
}

fn flags(index: &Index, field: &Field) -> Vec<&'static str> {
    let keeps_case = field.sortable && (field.keeps_case || field.kind == FieldKind::Numeric);
    let case_sensitive = matches!(
        field.kind,
        FieldKind::Tag {
            case_sensitive: true,
            ..
        }
    );
    let no_stem = matches!(field.kind, FieldKind::Text { no_stem: true, .. });
    let with_suffixes = index.definition.with_suffixes.contains(&field.name);
    let flags = [
        ("CASESENSITIVE", case_sensitive),
        ("SORTABLE", field.sortable),
        ("UNF", keeps_case),
        ("NOSTEM", no_stem),
        ("NOINDEX", field.no_index),
        ("WITHSUFFIXTRIE", with_suffixes),
        ("INDEXEMPTY", field.index_empty),
        ("INDEXMISSING", field.index_missing),
    ];
    flags
        .iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| *name)
        .collect()
}

fn cursors(context: &mut Context<'_, '_>, index: &Index) {
    let (all, open) = context.cursors().counts(&index.head.number);
    let figures = [
        ("global_idle", all as i64),
        ("global_total", all as i64),
        ("index_capacity", CURSORS_MAX),
        ("index_total", open as i64),
    ];
    context.reply.map(figures.len());
    for (name, figure) in figures {
        context.reply.simple(name);
        context.reply.integer(figure);
    }
}

fn errors(context: &mut Context<'_, '_>, failure: &Failure) {
    let or_none = |text: &[u8]| {
        if text.is_empty() {
            b"N/A".to_vec()
        } else {
            text.to_vec()
        }
    };
    context.reply.map(3);
    context.reply.simple("indexing failures");
    context.reply.integer(failure.count as i64);
    context.reply.simple("last indexing error");
    context.reply.bulk(&or_none(&failure.reason));
    context.reply.simple("last indexing error key");
    context.reply.bulk(&or_none(&failure.key));
}
