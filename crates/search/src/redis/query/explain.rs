//! A query's tree as text, as FT.EXPLAIN shows it.

use std::fmt::Write;

use crate::index::schema::{ALL_FIELDS, Schema};
use crate::redis::aggregate::Value;
use crate::redis::query::tree::{Affix, Nearest, Node, NodeKind, NumberRange, Query, VectorRange};
use crate::text::geo::Place;
use crate::text::shapes::Relation;

impl Query {
    /// The tree as FT.EXPLAIN writes it, line by line.
    pub fn explain(&self, schema: &Schema) -> String {
        let mut explained = Explained {
            schema,
            is_in_tag: false,
            folds_case: false,
            out: String::new(),
        };
        match &self.nearest {
            None => explained.node(&self.root, 0),
            Some(nearest) => explained.nearest(nearest, &self.root),
        }
        explained.out
    }
}

struct Explained<'a> {
    schema: &'a Schema,
    /// Within the values of a TAG field. Several words of one value are shown in lower case
    /// (letters of ASCII), a single word, a prefix or a pattern as it is.
    is_in_tag: bool,
    folds_case: bool,
    out: String,
}

impl Explained<'_> {
    fn node(&mut self, node: &Node, depth: usize) {
        self.indent(depth);
        let has_fields = !matches!(node.kind, NodeKind::Numeric(_));
        if node.options.fields != ALL_FIELDS && has_fields {
            self.fields(node);
        }
        self.kind(node, depth);
        if !matches!(node.kind, NodeKind::Word { .. }) {
            self.options(node);
        }
        self.out.push('\n');
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    fn fields(&mut self, node: &Node) {
        let named = self.schema.texts().filter(|(bit, _)| node.options.fields & bit != 0);
        let names: Vec<_> = named.map(|(_, field)| field.name.as_str()).collect();
        match names.is_empty() {
            true => self.out.push_str("@NULL:"),
            false => self.write(format_args!("@{}:", names.join("|"))),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes everything");
    }

    fn kind(&mut self, node: &Node, depth: usize) {
        match &node.kind {
            NodeKind::Empty => self.out.push_str("<empty>"),
            NodeKind::All => self.out.push_str("<WILDCARD>"),
            NodeKind::Word { term, expanded } => self.word(node, term, *expanded),
            NodeKind::Affix(affix) => self.affix(affix),
            NodeKind::Every { children, exact } => {
                let name = if *exact { "EXACT {" } else { "INTERSECT {" };
                self.folds_case = self.is_in_tag;
                self.block(name, children, depth);
                self.folds_case = false;
            }
            NodeKind::Any(children) => self.block("UNION {", children, depth),
            NodeKind::Not(child) => self.block("NOT{", std::slice::from_ref(child), depth),
            NodeKind::Optional(child) => self.block("OPTIONAL{", std::slice::from_ref(child), depth),
            NodeKind::Numeric(range) => self.range(range),
            NodeKind::Tag { field, values } => {
                let name = format!("TAG:@{} {{", self.schema.field(*field).name);
                self.is_in_tag = true;
                self.block(&name, values, depth);
                self.is_in_tag = false;
            }
            NodeKind::Geo { field, circle } => {
                let (name, Place { longitude, latitude }) = (&self.schema.field(*field).name, circle.center);
                let (radius, unit) = (shown_number(circle.radius), circle.unit.name());
                self.write(format_args!(
                    "GEO {name}:{{{longitude:.6},{latitude:.6} --> {radius} {unit}}}"
                ));
            }
            NodeKind::Shape(condition) => {
                let relation = match condition.relation {
                    Relation::Contains => 1,
                    Relation::Within => 2,
                    Relation::Disjoint => 3,
                    Relation::Intersects => 4,
                };
                self.write(format_args!("GEOSHAPE{{{relation} {}}}", condition.text));
            }
            NodeKind::VectorRange(range) => self.vector_range(range),
            NodeKind::Missing(field) => {
                let name = &self.schema.field(*field).name;
                self.write(format_args!("ISMISSING{{{name}}}"));
            }
        }
    }

    fn word(&mut self, node: &Node, term: &[u8], expanded: bool) {
        match term.is_empty() {
            true => self.out.push_str("\"\""),
            false => {
                let mut word = String::from_utf8_lossy(term).into_owned();
                if self.folds_case {
                    word.make_ascii_lowercase();
                }
                self.out.push_str(&word);
            }
        }
        if expanded {
            self.out.push_str("(expanded)");
        }
        if node.options.weight != 1.0 {
            self.write(format_args!(" => {{$weight: {};}}", node.options.weight));
        }
    }

    fn affix(&mut self, affix: &Affix) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let affix_text = match affix {
            Affix::Prefix(prefix) => format!("PREFIX{{{}*}}", text(prefix)),
            Affix::Suffix(suffix) => format!("SUFFIX{{*{}}}", text(suffix)),
            Affix::Infix(infix) => format!("INFIX{{*{}*}}", text(infix)),
            Affix::Wildcard(pattern) => format!("WILDCARD{{{}}}", text(pattern)),
            Affix::Fuzzy(word, _) => format!("FUZZY{{{}}}", text(word)),
        };
        self.out.push_str(&affix_text);
    }

    fn block(&mut self, name: &str, children: &[Node], depth: usize) {
        self.out.push_str(name);
        self.out.push('\n');
        children.iter().for_each(|child| self.node(child, depth + 1));
        self.indent(depth);
        self.out.push('}');
    }

    fn range(&mut self, range: &NumberRange) {
        let sign = |included| if included { "<=" } else { "<" };
        let name = &self.schema.field(range.field).name;
        let (from, to) = (shown_number(range.from), shown_number(range.to));
        let (above, below) = (sign(range.from_included), sign(range.to_included));
        self.write(format_args!("NUMERIC {{{from} {above} @{name} {below} {to}}}"));
    }

    fn options(&mut self, node: &Node) {
        let options = &node.options;
        if options.weight == 1.0 && options.slop.is_none() && !options.in_order {
            return;
        }
        self.out.push_str(" => {");
        if options.weight != 1.0 {
            self.write(format_args!(" $weight: {};", options.weight));
        }
        if let Some(slop) = options.slop {
            self.write(format_args!(" $slop: {slop};"));
        }
        if options.in_order || options.slop.is_some() {
            self.write(format_args!(" $inorder: {};", options.in_order));
        }
        self.out.push_str(" }");
    }

    fn vector_range(&mut self, range: &VectorRange) {
        let (name, radius) = (&self.schema.field(range.field).name, Value::Number(range.radius));
        self.write(format_args!(
            "VECTOR {{Vectors that are within {radius} distance radius from `${}` in vector index associated with field \
             @{name}",
            range.parameter
        ));
        if let Some(epsilon) = range.epsilon {
            self.write(format_args!(", EPSILON = {epsilon}"));
        }
        if let Some(distance) = &range.distance_name {
            self.write(format_args!(", yields distance as `{distance}`"));
        }
        self.out.push('}');
    }

    fn nearest(&mut self, nearest: &Nearest, filter: &Node) {
        self.out.push_str("VECTOR {");
        if filter.kind != NodeKind::All {
            self.out.push('\n');
            self.node(filter, 1);
            self.out.push_str("} => {");
        }
        let field = &self.schema.field(nearest.field).name;
        let Nearest {
            count,
            parameter,
            distance_name,
            options,
            ..
        } = nearest;
        self.write(format_args!(
            "K={count} nearest vectors to `${parameter}` in vector index associated with field @{field}"
        ));
        if let Some(policy) = options.policy {
            self.write(format_args!(", HYBRID_POLICY = {}", policy.name()));
        }
        if let Some(size) = options.batch_size {
            self.write(format_args!(", BATCH_SIZE = {size}"));
        }
        if let Some(candidates) = options.candidates {
            self.write(format_args!(", EF_RUNTIME = {candidates}"));
        }
        self.write(format_args!(", yields distance as `{distance_name}`}}\n"));
    }
}

/// A number with six digits after the point, as C prints it.
fn shown_number(number: f64) -> String {
    match number {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        number => format!("{number:.6}"),
    }
}
