//! The tree of a query.

use std::collections::BTreeMap;

use crate::error::SearchError;
use crate::index::schema::{ALL_FIELDS, FieldMask, Schema};
use crate::text::analysis::{STEM_PREFIX, Stemmer, phonetics};
use crate::text::geo::Circle;
use crate::text::shapes::{Relation, Shape};

/// A whole query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The condition on documents.
    pub root: Node,
    /// Limits the matches to the vectors nearest to a vector.
    pub nearest: Option<Nearest>,
}

/// `=>[KNN count @field $vector]`: the documents whose vectors are nearest.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// The number of documents.
    pub count: usize,
    /// The field's position in the schema.
    pub field: u16,
    /// The query's vector as the client sent it.
    pub vector: Vec<u8>,
    /// The name of the parameter that held it.
    pub parameter: String,
    /// The name under which the distance is given.
    pub distance_name: String,
    /// How it is looked for.
    pub options: NearestOptions,
}

/// Options of a nearest-vector search. Answers depend only on the candidates of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NearestOptions {
    /// The number of candidates that a graph keeps (EF_RUNTIME).
    pub candidates: Option<usize>,
    /// How a filter and nearness are brought together.
    pub policy: Option<HybridPolicy>,
    /// The number of the nearest that the filter gets at a time.
    pub batch_size: Option<usize>,
}

/// How a filter and nearness are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HybridPolicy {
    /// Every vector that the filter lets pass is compared.
    AdHoc,
    /// The filter gets the nearest, some at a time.
    Batches,
}

impl HybridPolicy {
    /// Its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            HybridPolicy::AdHoc => "ADHOC_BF",
            HybridPolicy::Batches => "BATCHES",
        }
    }
}

/// `@field:[VECTOR_RANGE radius $vector]`: the documents whose vectors are at most so far.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRange {
    /// The field's position in the schema.
    pub field: u16,
    /// The greatest distance.
    pub radius: f64,
    /// The query's vector as the client sent it.
    pub vector: Vec<u8>,
    /// The name of the parameter that held it.
    pub parameter: String,
    /// The name under which the distance is given, if it is.
    pub distance_name: Option<String>,
    /// The additional distance in which a search of a graph looks, as a share of the radius.
    pub epsilon: Option<f64>,
}

/// One condition, and the options that were set on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The condition.
    pub kind: NodeKind,
    /// Its options.
    pub options: Options,
}

/// The settings of a node: its attributes and the fields before `:`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The factor of the score.
    pub weight: f64,
    /// The most other words between the words of an intersection.
    pub slop: Option<u32>,
    /// Words of an intersection must be in order.
    pub in_order: bool,
    /// The query sets either of these two, even to its default.
    pub names_order: bool,
    /// The TEXT fields that are looked at.
    pub fields: FieldMask,
    /// Words mean themselves, without their stems.
    pub verbatim: bool,
    /// Whether a word is also looked for by how it sounds; nothing if its fields say it.
    pub sounds: Option<bool>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            weight: 1.0,
            slop: None,
            in_order: false,
            names_order: false,
            fields: ALL_FIELDS,
            verbatim: false,
            sounds: None,
        }
    }
}

impl Options {
    pub(crate) fn is_plain(&self) -> bool {
        *self == Options::default()
    }
}

/// A pattern that several terms may match.
#[derive(Clone, Debug, PartialEq)]
pub enum Affix {
    /// `text*`
    Prefix(Vec<u8>),
    /// `*text`
    Suffix(Vec<u8>),
    /// `*text*`
    Infix(Vec<u8>),
    /// `w'a?b*'`: `?` is one character, `*` any number of them.
    Wildcard(Vec<u8>),
    /// `%text%`: at most this many characters are inserted, removed or replaced.
    Fuzzy(Vec<u8>, usize),
}

/// A condition on the relation of a document's shape to another shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeCondition {
    /// The field's position in the schema.
    pub field: u16,
    /// The required relation.
    pub relation: Relation,
    /// The other shape.
    pub shape: Shape,
    /// That shape as the client sent it.
    pub text: String,
}

/// Numbers from one to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRange {
    /// The field's position in the schema.
    pub field: u16,
    /// The lowest.
    pub from: f64,
    /// Whether the lowest is one of them.
    pub from_included: bool,
    /// The highest.
    pub to: f64,
    /// Whether the highest is one of them.
    pub to_included: bool,
}

impl NumberRange {
    /// Returns true if the number is in the range.
    pub fn contains(&self, number: f64) -> bool {
        let is_above = number > self.from || self.from_included && number == self.from;
        let is_below = number < self.to || self.to_included && number == self.to;
        is_above && is_below
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing matches.
    Empty,
    /// Everything matches.
    All,
    /// A word, or a stem that a word was expanded to.
    Word {
        /// The term.
        term: Vec<u8>,
        /// It was added by expansion of the query's word.
        expanded: bool,
    },
    /// Terms that match a pattern.
    Affix(Affix),
    /// All children match. `exact`: as consecutive words.
    Every {
        /// The children.
        children: Vec<Node>,
        /// In quotes.
        exact: bool,
    },
    /// Some child matches.
    Any(Vec<Node>),
    /// The child does not match.
    Not(Box<Node>),
    /// Everything matches; the child adds to the score.
    Optional(Box<Node>),
    /// A number is in a range.
    Numeric(NumberRange),
    /// A place is in a circle.
    Geo {
        /// The field's position in the schema.
        field: u16,
        /// The circle.
        circle: Circle,
    },
    /// A shape's relation to another shape.
    Shape(Box<ShapeCondition>),
    /// A vector within a distance.
    VectorRange(Box<VectorRange>),
    /// A TAG field has one of the values: words, affixes, or several words that are one value.
    Tag {
        /// The field's position in the schema.
        field: u16,
        /// The values.
        values: Vec<Node>,
    },
    /// The document lacks the field.
    Missing(u16),
}

impl Query {
    /// The names under which distances are given.
    pub fn distance_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.distance_names(&mut names);
        names.extend(self.nearest.as_ref().map(|nearest| nearest.distance_name.as_str()));
        names
    }
}

impl Node {
    /// A node with no options.
    pub fn of(kind: NodeKind) -> Node {
        Node {
            kind,
            options: Options::default(),
        }
    }

    /// A word of the query.
    pub fn word(term: Vec<u8>) -> Node {
        Node::of(NodeKind::Word { term, expanded: false })
    }

    fn distance_names<'n>(&'n self, names: &mut Vec<&'n str>) {
        match &self.kind {
            NodeKind::Every { children, .. } | NodeKind::Any(children) => {
                children.iter().for_each(|child| child.distance_names(names));
            }
            NodeKind::Not(child) | NodeKind::Optional(child) => child.distance_names(names),
            NodeKind::VectorRange(range) => names.extend(range.distance_name.as_deref()),
            _ => {}
        }
    }

    /// Returns true if the node needs distances of vectors.
    pub fn measures_distance(&self) -> bool {
        matches!(self.kind, NodeKind::VectorRange(_)) || self.children().any(Node::measures_distance)
    }

    /// Returns true if a condition has a factor of its own.
    pub fn has_weight(&self) -> bool {
        self.options.weight != 1.0 || self.children().any(Node::has_weight)
    }

    /// The TEXT fields whose words are sought in an order or within a distance: those of all
    /// conditions, or only of conditions that set it.
    pub fn ordered_fields(&self, orders_all: bool) -> FieldMask {
        let is_ordered = orders_all || self.options.names_order;
        let own = match &self.kind {
            NodeKind::Every { children, .. } if is_ordered && children.len() > 1 => self.options.fields,
            _ => 0,
        };
        self.children()
            .fold(own, |mask, child| mask | child.ordered_fields(orders_all))
    }

    /// Lets the words of this node that are looked for in a field be in any.
    pub fn forget_fields(&mut self) {
        if self.options.fields != 0 {
            self.options.fields = ALL_FIELDS;
        }
        self.children_mut().for_each(Node::forget_fields);
    }

    fn children(&self) -> impl Iterator<Item = &Node> {
        let (many, single) = match &self.kind {
            NodeKind::Every { children, .. } | NodeKind::Any(children) => (Some(children), None),
            NodeKind::Not(child) | NodeKind::Optional(child) => (None, Some(child.as_ref())),
            _ => (None, None),
        };
        many.into_iter().flatten().chain(single)
    }

    /// Restricts the words of this node to some fields.
    pub fn restrict(&mut self, fields: FieldMask) {
        self.options.fields &= fields;
        self.children_mut().for_each(|child| child.restrict(fields));
    }

    fn children_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        let (many, single) = match &mut self.kind {
            NodeKind::Every { children, .. } | NodeKind::Any(children) => (Some(children), None),
            NodeKind::Not(child) | NodeKind::Optional(child) => (None, Some(child.as_mut())),
            _ => (None, None),
        };
        many.into_iter().flatten().chain(single)
    }

    /// Puts beside each word what else it may be written as. Words in quotes, below a negation and
    /// below `~` mean themselves, as at the original.
    pub(crate) fn expand(&mut self, expansion: &Expansion<'_>) -> Result<(), SearchError> {
        if self.options.verbatim {
            return Ok(());
        }
        match &mut self.kind {
            NodeKind::Word { term, .. } if !term.is_empty() => *self = expansion.of_word(self)?,
            NodeKind::Every { children, exact: false } | NodeKind::Any(children) => {
                children.iter_mut().try_for_each(|child| child.expand(expansion))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the values of TAG fields out of scores.
    pub fn leave_tags_unscored(&mut self) {
        match &mut self.kind {
            NodeKind::Tag { .. } => self.options.weight = 0.0,
            NodeKind::Every { children, .. } | NodeKind::Any(children) => {
                children.iter_mut().for_each(Node::leave_tags_unscored);
            }
            NodeKind::Not(child) | NodeKind::Optional(child) => child.leave_tags_unscored(),
            _ => {}
        }
    }

    /// Returns true if empty text is looked for in fields that do not index it. It may be looked
    /// for in all fields together.
    pub(crate) fn lacks_empty(&self, schema: &Schema) -> bool {
        let lacks = |children: &[Node]| children.iter().any(|child| child.lacks_empty(schema));
        match &self.kind {
            NodeKind::Word { term, .. } if term.is_empty() && self.options.fields != ALL_FIELDS => {
                let mut fields = schema
                    .texts()
                    .filter(|(bit, _)| bit & self.options.fields != 0)
                    .peekable();
                fields.peek().is_some() && !fields.any(|(_, field)| field.index_empty)
            }
            NodeKind::Tag { field, values } => {
                let is_empty = |value: &Node| matches!(&value.kind, NodeKind::Word { term, .. } if term.is_empty());
                !schema.field(*field).index_empty && values.iter().any(is_empty)
            }
            NodeKind::Every { children, .. } | NodeKind::Any(children) => lacks(children),
            NodeKind::Not(child) | NodeKind::Optional(child) => child.lacks_empty(schema),
            _ => false,
        }
    }

    /// The number of conditions with a lookup.
    pub(crate) fn leaves(&self) -> usize {
        match &self.kind {
            NodeKind::Every { children, .. } | NodeKind::Any(children) | NodeKind::Tag { values: children, .. } => {
                children.iter().map(Node::leaves).sum()
            }
            NodeKind::Not(child) | NodeKind::Optional(child) => child.leaves(),
            _ => 1,
        }
    }
}

/// The expansions of a query's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expander {
    /// Its synonyms, its sound and its stem.
    #[default]
    All,
    /// Its stem.
    Stems,
    /// Its synonyms.
    Synonyms,
    /// Its sound.
    Phonetics,
    /// Nothing.
    Nothing,
}

impl Expander {
    /// The expander of this name. An unknown expander expands nothing, as in the original.
    pub fn of_name(name: &str) -> Expander {
        match name.to_ascii_uppercase().as_str() {
            "DEFAULT" => Expander::All,
            "SBSTEM" => Expander::Stems,
            "SYNONYM" => Expander::Synonyms,
            "PHONETIC" => Expander::Phonetics,
            _ => Expander::Nothing,
        }
    }

    fn is(self, other: Expander) -> bool {
        self == Expander::All || self == other
    }
}

/// Expands the words of one query.
pub(crate) struct Expansion<'e> {
    pub schema: &'e Schema,
    pub stemmer: Stemmer,
    pub expander: Expander,
}

impl Expansion<'_> {
    fn of_word(&self, word: &Node) -> Result<Node, SearchError> {
        let NodeKind::Word { term, .. } = &word.kind else {
            unreachable!("words are expanded");
        };
        let word_fields = word.options.fields;
        let expanded = |term, fields| Node {
            kind: NodeKind::Word { term, expanded: true },
            options: Options {
                fields,
                ..Options::default()
            },
        };
        let mut children = vec![word.clone()];
        if self.expander.is(Expander::Synonyms) {
            children.extend(self.schema.synonyms.of(term).map(|term| expanded(term, word_fields)));
        }
        if self.sounds(word)? {
            children.extend(phonetics(term).map(|term| expanded(term, word_fields)));
        }
        if self.expander.is(Expander::Stems) {
            let stem = self.stemmer.stem(term);
            let fields = match word_fields {
                ALL_FIELDS => ALL_FIELDS,
                fields => fields & self.schema.stemmed(),
            };
            children.push(expanded([&[STEM_PREFIX], &stem[..]].concat(), fields));
            if stem != *term {
                children.push(expanded(stem, fields));
            }
        }
        if children.len() == 1 {
            return Ok(children.remove(0));
        }
        let mut union = Node::of(NodeKind::Any(children));
        union.options.fields = word_fields;
        Ok(union)
    }

    fn sounds(&self, word: &Node) -> Result<bool, SearchError> {
        let has_fields = word.options.fields & self.schema.phonetic() != 0;
        match word.options.sounds {
            Some(_) if !has_fields => Err(SearchError::Attribute("field does not support phonetics".into())),
            Some(false) => Ok(false),
            _ => Ok(has_fields && self.expander.is(Expander::Phonetics)),
        }
    }
}

/// Values of `$name` in a query.
pub type Parameters = BTreeMap<String, Vec<u8>>;
