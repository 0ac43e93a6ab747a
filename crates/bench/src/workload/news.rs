//! The news benchmark (2021): the ten most viewed articles of a section, while their view counts
//! keep changing.
//!
//! 7,001 articles, as in a month of a newspaper's archive, are in one ordered collection per
//! section. A request reads the ten best of "World" and parses them (timed); afterwards the ten get
//! new random scores (not timed). The articles are generated: the archive itself is not ours to
//! ship.

use async_trait::async_trait;

use crate::byte_strings::ByteStrings;
use crate::measure::Worker;
use crate::random::Random;
use crate::targets::{Connection, OperationError, Target};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

pub const ARTICLES: u64 = 7_001;

/// The section that is read, and the largest.
pub const READ_SECTION: &str = "World";

pub const TOP: usize = 10;

/// Scores are random in `0..SCORES`.
const SCORES: u64 = 1_000;

/// An article as its stored member, field by field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Article<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub section: Cow<'a, str>,
    #[serde(borrow)]
    pub headline: Cow<'a, str>,
    #[serde(borrow, rename = "abstract")]
    pub summary: Cow<'a, str>,
    pub view_count: u64,
    #[serde(borrow)]
    pub url: Cow<'a, str>,
    #[serde(borrow)]
    pub image: Cow<'a, str>,
}

/// All articles in loading order.
pub fn articles(seed: u64) -> impl Iterator<Item = Article<'static>> {
    let mut random = Random::new(seed, &[LOAD_STREAM]);
    (0..ARTICLES).map(move |index| article(index, &mut random))
}

fn article(index: u64, random: &mut Random) -> Article<'static> {
    let section = section(random);
    let subject = random.choose(SUBJECTS);
    let (high, low) = (random.next(), random.next());
    let slug = format!("{}-{index}", subject.to_lowercase().replace(' ', "-"));
    let folder = section.to_lowercase().replace([' ', '.'], "");
    Article {
        id: format!("article/{:08x}-{:04x}-{:016x}", high >> 32, high & 0xffff, low).into(),
        section: section.into(),
        headline: format!("{subject} {} {}", random.choose(VERBS), random.choose(OBJECTS)).into(),
        summary: format!("{} {}", random.choose(OPENINGS), random.choose(CLOSINGS)).into(),
        view_count: random.below(SCORES),
        url: format!(
            "https://news.example/2021/01/{:02}/{folder}/{slug}.html",
            1 + index * 31 / ARTICLES
        )
        .into(),
        image: format!(
            "https://images.news.example/2021/01/{:02}/{slug}-large.jpg",
            1 + index * 31 / ARTICLES
        )
        .into(),
    }
}

fn section(random: &mut Random) -> &'static str {
    let total: u64 = SECTIONS.iter().map(|(_, weight)| weight).sum();
    let mut remaining = random.below(total);
    for (name, weight) in SECTIONS {
        if remaining < *weight {
            return name;
        }
        remaining -= weight;
    }
    unreachable!("the weights sum to the total")
}

/// Puts every article into its section under its view count.
pub async fn load(connection: &mut dyn Connection, seed: u64) -> anyhow::Result<()> {
    for article in articles(seed) {
        let member = serde_json::to_vec(&article)?;
        connection
            .add_article(&article.section, article.view_count, &member)
            .await?;
    }
    Ok(())
}

/// One closed loop of page requests.
pub struct NewsWorker {
    connection: Box<dyn Connection>,
    /// The target to connect to before each request; `None`: the connection is kept.
    reconnects_to: Option<Arc<dyn Target>>,
    changes_scores: bool,
    random: Random,
    members: ByteStrings,
}

impl NewsWorker {
    pub fn new(
        connection: Box<dyn Connection>,
        changes_scores: bool,
        seed: u64,
        index: u64,
        workers: u64,
    ) -> NewsWorker {
        let random = Random::new(seed, &[WORKER_STREAM, workers, index]);
        NewsWorker {
            connection,
            reconnects_to: None,
            changes_scores,
            random,
            members: ByteStrings::default(),
        }
    }

    /// Each request starts with a new connection, as in a function that just started.
    pub fn reconnecting(mut self, target: Arc<dyn Target>) -> NewsWorker {
        self.reconnects_to = Some(target);
        self
    }
}

#[async_trait(?Send)]
impl Worker for NewsWorker {
    async fn operate(&mut self) -> Result<(), OperationError> {
        if let Some(target) = &self.reconnects_to {
            let opened = target.connect_cold().await;
            self.connection = opened.map_err(|error| OperationError::Lost(format!("cannot connect: {error:#}")))?;
        }
        self.connection.top(READ_SECTION, TOP, &mut self.members).await?;
        if self.members.len() != TOP {
            return Err(OperationError::Refused(format!(
                "{} members instead of ten",
                self.members.len()
            )));
        }
        for member in self.members.iter() {
            let article: Article = serde_json::from_slice(member)
                .map_err(|error| OperationError::Refused(format!("a member is not an article: {error}")))?;
            if article.section != READ_SECTION {
                return Err(OperationError::Refused(format!(
                    "an article of section {}",
                    article.section
                )));
            }
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), OperationError> {
        for member in self.members.iter().filter(|_| self.changes_scores) {
            self.connection
                .rescore(READ_SECTION, self.random.below(SCORES), member)
                .await?;
        }
        Ok(())
    }
}

const LOAD_STREAM: u64 = 1;
const WORKER_STREAM: u64 = 2;

const SECTIONS: &[(&str, u64)] = &[
    ("World", 22),
    ("U.S.", 18),
    ("Opinion", 12),
    ("Arts", 11),
    ("Business", 10),
    ("New York", 7),
    ("Sports", 6),
    ("Style", 5),
    ("Books", 4),
    ("Technology", 3),
    ("Health", 2),
];
const SUBJECTS: &[&str] = &[
    "Parliament",
    "A Small Harbour Town",
    "The Central Bank",
    "Researchers",
    "Striking Drivers",
    "The Coalition",
    "An Island Nation",
    "City Council",
];
const VERBS: &[&str] = &[
    "Weighs",
    "Rejects",
    "Prepares for",
    "Looks Beyond",
    "Finally Agrees on",
    "Questions",
];
const OBJECTS: &[&str] = &[
    "a New Water Treaty",
    "the Budget",
    "“Quiet” Reforms",
    "a Long Winter",
    "Its Oldest Bridge",
    "the Night Trains",
];
const OPENINGS: &[&str] = &[
    "After months of talks behind closed doors, the proposal returned to the floor on Tuesday,",
    "What began as a local dispute has drawn in ministers from three countries,",
    "Few expected the vote to matter as much as it did,",
];
const CLOSINGS: &[&str] = &[
    "and officials now say that the hardest decisions are still ahead.",
    "leaving residents to wonder who will pay for the repairs.",
    "with both sides claiming to have been \"heard at last\".",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn the_same_seed_gives_the_same_articles() {
        assert!(articles(3).eq(articles(3)));
        assert!(!articles(3).eq(articles(4)));
    }

    #[test]
    fn world_is_the_largest_of_the_sections_and_no_member_repeats() {
        let mut sections: HashMap<String, usize> = HashMap::new();
        let mut members = HashSet::new();
        for article in articles(1) {
            *sections.entry(article.section.to_string()).or_default() += 1;
            assert!(article.view_count < SCORES);
            let member = serde_json::to_string(&article).unwrap();
            assert_eq!(serde_json::from_str::<Article>(&member).unwrap(), article);
            assert!(members.insert(member));
        }
        assert_eq!(members.len(), ARTICLES as usize);
        assert_eq!(sections.len(), SECTIONS.len());
        assert_eq!(sections.values().max(), sections.get(READ_SECTION));
    }
}
