//! Definitions as the original saves them in its files.

use quartet_engine::Transaction;
use quartet_layer_redis::module_api::{Kind, Path};
use quartet_search::index::schema::{Field, FieldKind};
use quartet_search::index::vector_kind::VectorKind;
use quartet_search::text::shapes::System;
use quartet_wire_rdb::search_index::{self, SearchField, SearchFieldKind, SearchIndex, Vector};

use crate::indexes::{Algorithm, Catalogue, Definition, Index};

/// All indexes that are not keys, with their aliases.
pub fn indexes(tx: &mut Transaction<'_>) -> Vec<SearchIndex> {
    let catalogue = Catalogue::of_rows(tx);
    let of = |index: &Index| saved_index(index, catalogue.aliases_of(&index.head.name).cloned().collect());
    catalogue.indexes().map(|index| of(index)).collect()
}

fn saved_index(index: &Index, aliases: Vec<Vec<u8>>) -> SearchIndex {
    let definition = &index.definition;
    let schema = &definition.schema;
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
    let language = search_index::language(schema.language.name());
    let stop_words = schema.stop_words.iter().map(<[u8]>::to_vec);
    let synonyms = schema.synonyms.iter();
    SearchIndex {
        name: index.head.name.clone(),
        on_json: definition.on == Kind::Json,
        prefixes: definition.prefixes.clone(),
        filter: definition
            .filter
            .as_ref()
            .map(|(written, _)| written.clone().into_bytes()),
        language: language.filter(|_| definition.names_language),
        language_field: bytes(&definition.language_field),
        score: definition.score,
        score_field: bytes(&definition.score_field),
        payload_field: bytes(&definition.payload_field),
        options: definition.options.iter().map(|option| option.0).collect(),
        skips_initial_scan: definition.skips_initial_scan,
        indexes_all: false,
        idle_ms: definition.idle_ms,
        stop_words: definition.names_stop_words.then(|| stop_words.collect()),
        synonyms: synonyms
            .map(|(word, groups)| (word.to_vec(), groups.to_vec()))
            .collect(),
        aliases,
        fields: schema
            .fields()
            .map(|(_, field)| saved_field(definition, field))
            .collect(),
    }
}

fn saved_field(definition: &Definition, field: &Field) -> SearchField {
    let kind = match &field.kind {
        FieldKind::Text { weight, no_stem } => SearchFieldKind::Text {
            weight: *weight,
            no_stem: *no_stem,
            sounds: field.phonetics.is_some(),
        },
        FieldKind::Tag {
            separator,
            case_sensitive,
        } => SearchFieldKind::Tag {
            separator: separator.unwrap_or_default(),
            case_sensitive: *case_sensitive,
        },
        FieldKind::Numeric => SearchFieldKind::Numeric,
        FieldKind::Geo => SearchFieldKind::Geo,
        FieldKind::Shape(system) => SearchFieldKind::Shape {
            is_spherical: *system == System::Spherical,
        },
        FieldKind::Vector(kind) => SearchFieldKind::Vector(vector(definition, field, kind)),
    };
    SearchField {
        name: field.name.clone().into_bytes(),
        path: field.path.clone().into_bytes(),
        kind,
        sortable: field.sortable,
        keeps_case: field.keeps_case,
        no_index: field.no_index,
        index_missing: field.index_missing,
        index_empty: field.index_empty,
        with_suffixes: definition.with_suffixes.contains(&field.name),
    }
}

fn vector(definition: &Definition, field: &Field, kind: &VectorKind) -> Vector {
    let graph = kind.graph().cloned().unwrap_or_default();
    let (links, build, search) = (
        graph.links as u64,
        graph.build_candidates as u64,
        graph.search_candidates as u64,
    );
    let algorithm = match definition.algorithm(&field.name) {
        Algorithm::Flat => search_index::Algorithm::Flat,
        Algorithm::Hnsw => search_index::Algorithm::Hnsw {
            links,
            build,
            search,
            epsilon: graph.epsilon,
        },
        Algorithm::SvsVamana(compression) => search_index::Algorithm::SvsVamana {
            codes: compression.codes.and_then(search_index::codes),
            training_threshold: compression.training_threshold.unwrap_or_default(),
            reduced: compression.dimensions.unwrap_or_default(),
            links,
            build,
            search,
            epsilon: graph.epsilon,
        },
    };
    let path = Path::parse(field.path.as_bytes()).ok();
    let is_single = path.is_none_or(|path| path.static_steps().is_some());
    Vector {
        algorithm,
        component: search_index::component(kind.component().name()).expect("a component that the original has"),
        dimensions: kind.dimensions() as u64,
        metric: search_index::metric(kind.metric().name()).expect("a distance that the original has"),
        has_several: definition.on == Kind::Json && !is_single,
    }
}
