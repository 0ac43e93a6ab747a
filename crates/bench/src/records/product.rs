//! The records of the product benchmark.
//!
//! Field values are written as text into buffers that each worker reuses, before the clock of a
//! request starts: making data is the load generator's work and must not be taken for the
//! database's.

use std::io::Write;

use crate::byte_strings::ByteStrings;
use crate::random::Random;

/// The fields in the order of the published record.
pub const FIELD_NAMES: [&str; 12] = [
    "pid",
    "creation_time",
    "update_time",
    "name",
    "description",
    "category",
    "count",
    "price",
    "seller",
    "seller_id",
    "country",
    "city",
];

/// The fields that "update" changes.
pub const UPDATED_FIELD_NAMES: [&str; 3] = ["update_time", "count", "price"];

/// A record, or the changed part of one: the values as text, in the order of `FIELD_NAMES` or
/// `UPDATED_FIELD_NAMES`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Product {
    pid: u64,
    values: ByteStrings,
}

impl Product {
    pub fn pid(&self) -> u64 {
        self.pid
    }

    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter()
    }

    /// Becomes the record `pid` with all twelve fields drawn from `random`.
    pub fn fill(&mut self, pid: u64, random: &mut Random) {
        self.start(pid);
        let created_ms = FIRST_CREATION_TIME_MS + random.below(A_YEAR_MS);
        let (country, city) = random.choose(CITIES);
        self.number(pid);
        self.number(created_ms);
        self.number(created_ms + random.below(A_YEAR_MS));
        self.name(random);
        self.description(random);
        self.words(&[random.choose(CATEGORIES)]);
        self.number(random.below(10_000));
        self.price(random);
        self.words(&[random.choose(SELLER_FIRST_WORDS), random.choose(SELLER_LAST_WORDS)]);
        self.number(random.below(50_000));
        self.words(&[country]);
        self.words(&[city]);
        debug_assert_eq!(self.values.len(), FIELD_NAMES.len());
    }

    /// Becomes an update of the record `pid`: new values for `UPDATED_FIELD_NAMES`.
    pub fn fill_update(&mut self, pid: u64, random: &mut Random) {
        self.start(pid);
        self.number(FIRST_CREATION_TIME_MS + A_YEAR_MS + random.below(A_YEAR_MS));
        self.number(random.below(10_000));
        self.price(random);
        debug_assert_eq!(self.values.len(), UPDATED_FIELD_NAMES.len());
    }

    /// Becomes the record `pid` without values.
    pub fn start(&mut self, pid: u64) {
        self.pid = pid;
        self.values.clear();
    }

    fn number(&mut self, number: u64) {
        self.write(format_args!("{number}"));
        self.values.end_string();
    }

    fn price(&mut self, random: &mut Random) {
        let cents = 99 + random.below(200_000);
        self.write(format_args!("{}.{:02}", cents / 100, cents % 100));
        self.values.end_string();
    }

    fn name(&mut self, random: &mut Random) {
        self.words(&[
            random.choose(ADJECTIVES),
            random.choose(MATERIALS),
            random.choose(THINGS),
        ]);
    }

    fn words(&mut self, words: &[&str]) {
        for (index, word) in words.iter().enumerate() {
            let separator = if index > 0 { " " } else { "" };
            self.write(format_args!("{separator}{word}"));
        }
        self.values.end_string();
    }

    /// 100 to 200 bytes of words.
    fn description(&mut self, random: &mut Random) {
        let bytes_min = 100 + random.below(85) as usize;
        self.write(format_args!("A"));
        while self.values.open_bytes() < bytes_min {
            self.write(format_args!(" {}", random.choose(DESCRIPTION_WORDS)));
        }
        self.write(format_args!("."));
        self.values.end_string();
    }

    fn write(&mut self, text: std::fmt::Arguments) {
        self.values.write_fmt(text).expect("writing to memory");
    }
}

/// 2020-01-01 in milliseconds since the Unix epoch.
const FIRST_CREATION_TIME_MS: u64 = 1_577_836_800_000;
const A_YEAR_MS: u64 = 366 * 24 * 3600 * 1000;

const ADJECTIVES: &[&str] = &[
    "Compact",
    "Ergonomic",
    "Rustic",
    "Modern",
    "Vintage",
    "Refined",
    "Sturdy",
    "Elegant",
];
const MATERIALS: &[&str] = &[
    "Cotton", "Wooden", "Steel", "Ceramic", "Leather", "Bamboo", "Granite", "Glass",
];
const THINGS: &[&str] = &[
    "Lamp", "Chair", "Kettle", "Backpack", "Desk", "Wallet", "Teapot", "Shelf", "Mirror", "Clock",
];
const CATEGORIES: &[&str] = &[
    "Home & Kitchen",
    "Electronics",
    "Garden",
    "Toys & Games",
    "Sports",
    "Books",
    "Clothing",
    "Office",
    "Automotive",
];
const SELLER_FIRST_WORDS: &[&str] = &[
    "Northern",
    "Harbour",
    "Golden",
    "Riverside",
    "Blue Door",
    "Maple",
    "Corner",
];
const SELLER_LAST_WORDS: &[&str] = &[
    "Trading",
    "Supplies",
    "Goods",
    "Outfitters",
    "& Sons",
    "Imports",
    "Market",
];
const CITIES: &[(&str, &str)] = &[
    ("United States", "Portland"),
    ("United States", "Chicago"),
    ("Germany", "Hamburg"),
    ("France", "Lyon"),
    ("Italy", "Torino"),
    ("Turkey", "Izmir"),
    ("Japan", "Osaka"),
    ("Brazil", "Recife"),
    ("India", "Pune"),
    ("Kenya", "Mombasa"),
];
const DESCRIPTION_WORDS: &[&str] = &[
    "durable",
    "lightweight",
    "piece",
    "for",
    "everyday",
    "use",
    "with",
    "a",
    "hand-finished",
    "surface",
    "and",
    "two-year",
    "guarantee",
    "made",
    "from",
    "recycled",
    "materials",
    "easy",
    "to",
    "clean",
    "fits",
    "most",
    "rooms",
    "ships",
    "flat",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(seed: u64, count: u64) -> Vec<Product> {
        let mut random = Random::new(seed, &[]);
        let mut product = Product::default();
        (0..count)
            .map(|pid| {
                product.fill(pid, &mut random);
                product.clone()
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_records() {
        assert_eq!(generate(1, 50), generate(1, 50));
        assert_ne!(generate(1, 50), generate(2, 50));
    }

    #[test]
    fn records_have_the_published_fields_in_realistic_lengths() {
        for product in generate(1, 500) {
            let values: Vec<&str> = product
                .values()
                .map(|value| std::str::from_utf8(value).unwrap())
                .collect();
            assert_eq!(values.len(), FIELD_NAMES.len());
            assert_eq!(values[0], product.pid().to_string());
            assert!(values[1].parse::<i64>().unwrap() <= values[2].parse::<i64>().unwrap());
            assert!((12..=30).contains(&values[3].len()), "{}", values[3]);
            assert!((100..=200).contains(&values[4].len()), "{}", values[4]);
            values[7].parse::<f64>().unwrap();
            assert!(values.iter().all(|value| !value.is_empty()));
        }
    }

    #[test]
    fn an_update_has_three_fields() {
        let mut product = Product::default();
        product.fill_update(5, &mut Random::new(1, &[]));
        assert_eq!(
            (product.pid(), product.values().count()),
            (5, UPDATED_FIELD_NAMES.len())
        );
    }
}
