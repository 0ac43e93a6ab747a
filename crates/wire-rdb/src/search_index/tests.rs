use super::*;
use crate::file::{Found, Record, Scanner, Writer};

/// The data of RediSearch 2.10.5 in Redis 8.2.3 without keys: two indexes with most of the options,
/// and one with only a field.
const RECORDED: &[u8] = include_bytes!("recorded.rdb");

fn indexes(file: &[u8]) -> Vec<SearchIndex> {
    let (mut scanner, mut start) = (Scanner::new(), 0);
    loop {
        match scanner.read(&file[start..]).unwrap() {
            Found::Bytes {
                record: Some(Record::SearchIndexes(mut indexes)),
                ..
            } => {
                indexes.sort_by(|a, b| a.name.cmp(&b.name));
                return indexes;
            }
            Found::Bytes { consumed, record } => {
                assert!(!matches!(record, Some(Record::BesideKeys { .. })));
                start += consumed;
            }
            Found::Nothing { .. } => panic!("a file without indexes"),
        }
    }
}

fn requests(index: &SearchIndex) -> Vec<String> {
    let text = |words: &Vec<Vec<u8>>| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
    index.requests().iter().map(text).collect()
}

fn written(indexes: &[SearchIndex]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::begin(false, &mut out);
    writer.search_indexes(indexes, &mut out);
    writer.end(&mut out);
    out
}

#[test]
fn indexes_of_the_original_are_made_by_their_requests() {
    let indexes = indexes(RECORDED);
    let requests: Vec<String> = indexes.iter().flat_map(requests).collect();
    let expected = [
        "FT.CREATE i1 ON HASH PREFIX 2 a: b: FILTER @n>1 LANGUAGE french SCORE 0.5 STOPWORDS 2 la le SCHEMA \
         t TEXT WEIGHT 2.5 NOSTEM PHONETIC dm:en SORTABLE \
         g TAG SEPARATOR | CASESENSITIVE WITHSUFFIXTRIE n AS num NUMERIC SORTABLE UNF NOINDEX p GEO \
         v VECTOR HNSW 12 TYPE FLOAT32 DIM 4 DISTANCE_METRIC COSINE M 20 EF_CONSTRUCTION 100 EF_RUNTIME 30",
        "FT.SYNUPDATE i1 g2 kid child",
        "FT.SYNUPDATE i1 g1 child boy",
        "FT.ALIASADD al i1",
        "FT.ALIASADD al2 i1",
        "FT.CREATE i2 ON JSON PREFIX 1  SCHEMA $.a[*] AS a TAG INDEXMISSING $.s AS s GEOSHAPE FLAT \
         $.f AS f VECTOR FLAT 6 TYPE FLOAT64 DIM 2 DISTANCE_METRIC L2",
        "FT.CREATE i3 ON HASH PREFIX 1  LANGUAGE_FIELD lf SCORE_FIELD sf PAYLOAD_FIELD pf \
         NOFREQS NOFIELDS NOOFFSETS MAXTEXTFIELDS TEMPORARY 300 SCHEMA t TEXT",
        "FT.CREATE i4 ON HASH PREFIX 1  STOPWORDS 0 SCHEMA t TEXT WITHSUFFIXTRIE INDEXEMPTY INDEXMISSING \
         u TEXT SORTABLE UNF",
    ];
    assert_eq!(requests, expected);
}

#[test]
fn indexes_are_written_as_the_original_writes_them() {
    let recorded = indexes(RECORDED);
    assert_eq!(indexes(&written(&recorded)), recorded);
    // The original writes them in the order of a hash table, so one of them is compared byte for
    // byte.
    let i1 = |file: &[u8]| {
        let start = file.windows(5).position(|bytes| bytes == b"\x05\x03i1\0").unwrap();
        let end = file.windows(6).position(|bytes| bytes == b"\x05\x04al2\0").unwrap();
        file[start..end].to_vec()
    };
    assert_eq!(i1(&written(&recorded)), i1(RECORDED));
}

/// An index that RediSearch 2.10 cannot represent.
fn newer() -> Vec<SearchIndex> {
    let mut index = indexes(RECORDED).remove(1);
    let vector = |algorithm, component| {
        SearchFieldKind::Vector(Vector {
            algorithm,
            component,
            dimensions: 8,
            metric: "IP",
            has_several: true,
        })
    };
    let kinds = [
        vector(Algorithm::Flat, "UINT8"),
        vector(
            Algorithm::Hnsw {
                links: 16,
                build: 200,
                search: 10,
                epsilon: 0.5,
            },
            "FLOAT32",
        ),
        vector(
            Algorithm::SvsVamana {
                codes: Some("LeanVec4x8"),
                training_threshold: 10_240,
                reduced: 4,
                links: 32,
                build: 200,
                search: 0,
                epsilon: 0.01,
            },
            "FLOAT16",
        ),
        SearchFieldKind::Shape { is_spherical: true },
    ];
    let field = index.fields[0].clone();
    index.indexes_all = true;
    index.fields = kinds.map(|kind| SearchField { kind, ..field.clone() }).to_vec();
    vec![index]
}

#[test]
fn the_newer_form_is_written_where_it_is_needed() {
    assert_eq!(version_for(&indexes(RECORDED)), VERSION);
    assert_eq!(version_for(&newer()), VERSION_OF_SVS);
    assert_eq!(indexes(&written(&newer())), newer());
    let request = requests(&newer()[0]).remove(0);
    let svs = "VECTOR SVS-VAMANA 16 TYPE FLOAT16 DIM 8 DISTANCE_METRIC IP GRAPH_MAX_DEGREE 32 \
               CONSTRUCTION_WINDOW_SIZE 200 COMPRESSION LeanVec4x8 TRAINING_THRESHOLD 10240 REDUCE 4";
    assert!(request.contains(svs), "{request}");
    assert!(request.contains("INDEXALL ENABLE"));
}

/// The forms of other versions, put together by hand as their source reads them.
#[test]
fn fields_of_other_versions_are_read() {
    let vector = |version, numbers: &[u64], epsilon: Option<f64>| {
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| write_number(*number, &mut bytes));
        if let Some(epsilon) = epsilon {
            write_double(epsilon, &mut bytes);
            if version >= VERSION_OF_RERANKING {
                write_number(1, &mut bytes);
            }
        }
        let mut reader = Reader::new(&bytes);
        let vector = read_vector(version, &mut reader).unwrap();
        assert!(reader.is_done(), "{version}");
        (vector.algorithm, vector.has_several)
    };
    let hnsw = |epsilon| Algorithm::Hnsw {
        links: 16,
        build: 200,
        search: 10,
        epsilon,
    };
    assert_eq!(vector(19, &[1, 0, 4, 2, 1024, 16, 200, 10], None), (hnsw(0.01), false));
    assert_eq!(
        vector(20, &[16, 0, 0, 4, 2, 1024, 1024], None),
        (Algorithm::Flat, false)
    );
    assert_eq!(
        vector(21, &[16, 1, 0, 4, 2, 1, 1024, 16, 200, 10], None),
        (hnsw(0.01), true)
    );
    assert_eq!(
        vector(24, &[16, 2, 1, 0, 0, 4, 2, 0, 1024, 16, 200, 10], None),
        (hnsw(0.01), false)
    );
    assert_eq!(
        vector(25, &[16, 2, 1, 0, 0, 4, 2, 0, 16, 200, 10], Some(0.2)),
        (hnsw(0.2), false)
    );
    assert_eq!(
        vector(27, &[16, 2, 1, 0, 0, 4, 2, 1, 16, 200, 10], Some(0.2)),
        (hnsw(0.2), true)
    );
    assert_eq!(vector(26, &[16, 0, 0, 4, 2, 1], None), (Algorithm::Flat, true));
}

/// FT.CREATE of the original takes SCORE nan and WEIGHT nan, so a file may hold them.
#[test]
fn a_score_without_order_is_kept() {
    let mut indexes = indexes(RECORDED);
    indexes[0].score = f64::NAN;
    let file = written(&indexes);
    let Some(Record::SearchIndexes(again)) = first(&file) else {
        panic!("no indexes");
    };
    assert!(again[0].score.is_nan());
    assert_eq!(written(&again), file);
}

/// A definition that is read is written and read alike.
#[test]
fn damaged_definitions_are_stable_or_refused() {
    let mut read = 0;
    for place in 9..RECORDED.len() - 9 {
        for bit in [0x01, 0x04, 0x20, 0x80] {
            let mut damaged = RECORDED.to_vec();
            damaged[place] ^= bit;
            let (mut scanner, mut start) = (Scanner::new(), 0);
            while let Ok(Found::Bytes { consumed, record }) = scanner.read(&damaged[start..]) {
                start += consumed;
                match record {
                    Some(Record::SearchIndexes(indexes)) => {
                        read += 1;
                        indexes.iter().for_each(|index| drop(index.requests()));
                        let file = written(&indexes);
                        let Some(Record::SearchIndexes(again)) = first(&file) else {
                            panic!("byte {place}: {indexes:?}");
                        };
                        assert_eq!(written(&again), file, "byte {place}");
                    }
                    Some(Record::End) => break,
                    _ => {}
                }
            }
        }
    }
    assert!(read > 500, "{read}");
}

/// The first record of a file.
fn first(file: &[u8]) -> Option<Record> {
    let (mut scanner, mut start) = (Scanner::new(), 0);
    loop {
        match scanner.read(&file[start..]) {
            Ok(Found::Bytes { record: None, consumed }) => start += consumed,
            Ok(Found::Bytes { record, .. }) => return record,
            _ => return None,
        }
    }
}

#[test]
fn cut_and_foreign_bytes_are_refused() {
    let mut parts = Vec::new();
    write(VERSION, &indexes(RECORDED), &mut parts);
    for length in 0..parts.len() {
        assert!(read(VERSION, &mut Reader::new(&parts[..length])).is_err(), "{length}");
    }
    for version in [16, 28] {
        assert!(read(version, &mut Reader::new(&parts)).is_err());
    }
    // A count is no promise.
    let many = [&b"\x02\x81"[..], &[0xff; 8]].concat();
    assert!(read(VERSION, &mut Reader::new(&many)).is_err());
}
