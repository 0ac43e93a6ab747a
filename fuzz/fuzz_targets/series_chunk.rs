//! Any stored chunk is samples or an error, and samples that were read are written and read again;
//! likewise any stored bucket of a rule.
//!
//! The first byte chooses the encoding, or an aggregator; a chunk is its first timestamp, its state
//! and its data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_redis_series::Encoding;
use quartet_redis_series::aggregation::{Accumulator, Aggregator};
use quartet_redis_series::chunk::{Chunk, State, check};
use quartet_redis_series::codec::Sample;

fn read(encoding: Encoding, data: &[u8]) -> Option<Vec<Sample>> {
    let (first, data) = data.split_first_chunk()?;
    let (state, data) = data.split_at_checked(State::BYTES)?;
    let state = State::from_bytes(state, u64::from_be_bytes(*first)).ok()?;
    // Two bits a sample at least: nothing is allocated by an announced count.
    let data = data.to_vec();
    check(encoding, &Chunk { state, data }).ok()
}

fn bits(samples: &[Sample]) -> Vec<(u64, u64)> {
    samples.iter().map(|sample| (sample.timestamp, sample.value.to_bits())).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    if let Some(aggregator) = Aggregator::numbered(u64::from(choice % 32)) {
        if let Ok(mut accumulator) = Accumulator::from_bytes(aggregator, data) {
            assert_eq!(accumulator.to_bytes().len(), data.len());
            accumulator.add(Sample { timestamp: 5, value: 1.5 });
            accumulator.result();
        }
        return;
    }
    let encoding = match choice % 2 {
        0 => Encoding::Compressed,
        _ => Encoding::Uncompressed,
    };
    if let Some(samples) = read(encoding, data) {
        let again = Chunk::of_samples(encoding, 64, &samples);
        let read = check(encoding, &again).expect("samples that rise");
        assert_eq!(bits(&read), bits(&samples));
        if samples.len() > 1 {
            let halves = again.split(encoding, &samples);
            let joined: Vec<Sample> = halves.iter().flat_map(|half| check(encoding, half).expect("half of them")).collect();
            assert_eq!(bits(&joined), bits(&samples));
        }
    }
});
