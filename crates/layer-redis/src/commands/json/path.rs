//! Paths: the selection of a document's values for a command.
//!
//! Two dialects, as in RedisJSON 2: a path with a leading `$` is JSONPath and selects every
//! matching value; any other is a legacy path, `.a.b[0]` or `a.b[0]`, and selects one. Filters
//! support `== != < <= > >=`, `&& || !`, parentheses, and whether a path matches at all; regular
//! expressions (`=~`) are refused. A path within a filter has a value if it matches exactly one;
//! a path without a value is unequal to everything, and no other comparison holds.
//!
//! Follows <https://redis.io/docs/latest/develop/data-types/json/path/>. Nesting of filters and the
//! number of matches are bounded.

use super::document::{Json, Location};
use crate::command::error_reply::ErrorReply;
use crate::handler::command_memory::{ELEMENT_BYTES, Workspace};

#[derive(Debug, PartialEq)]
pub struct Path {
    steps: Vec<Step>,
    pub is_legacy: bool,
    /// As JSONPath, for texts of errors.
    pub text: String,
}

#[derive(Debug, PartialEq)]
struct Step {
    /// `..`: the values below count as well, however deep.
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug, PartialEq)]
enum Selector {
    Name(String),
    /// Negative: from the end.
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: usize,
    },
    All,
    Filter(Condition),
}

#[derive(Debug, PartialEq)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Exists(Operand),
    Compares(Operand, Comparison, Operand),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, PartialEq)]
enum Operand {
    Literal(Json),
    /// Relative to the filtered value.
    Here(Vec<Step>),
    Root(Vec<Step>),
}

/// Deepest nesting of filters and parentheses.
const DEPTH_MAX: usize = 16;
/// Most values that a path may match, including those between its steps. A deeply nested value, or
/// one among many members, counts for more, because its location takes more memory, or finding it
/// more time.
const MATCHES_MAX: usize = 1_000_000;
const TOO_MANY: &str = "ERR the path matches too many values";
/// Levels of depth, or members, for which a value counts once more.
const DEPTH_FREE: usize = 8;
const MEMBERS_FREE: usize = 64;

impl Path {
    pub fn parse(given: &[u8]) -> Result<Path, ErrorReply> {
        let given = std::str::from_utf8(given).map_err(|_| "ERR a path must be UTF-8")?;
        let is_legacy = !given.starts_with('$');
        let text = match given.as_bytes().first() {
            None => return Err("ERR empty path".into()),
            Some(b'$') => given.to_owned(),
            Some(b'.') if given == "." => "$".to_owned(),
            Some(b'.' | b'[') => format!("${given}"),
            Some(_) => format!("$.{given}"),
        };
        let mut parser = Parser {
            text: &text,
            position: 1,
            depth: 0,
        };
        let steps = parser.steps()?;
        if parser.position < text.len() {
            return Err(parser.wrong());
        }
        Ok(Path { steps, is_legacy, text })
    }

    /// The path of a command that was given none.
    pub fn root() -> Path {
        Path {
            steps: Vec::new(),
            is_legacy: true,
            text: "$".into(),
        }
    }

    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// The locations of the values that the path selects, in document order of its steps. A value
    /// may occur more than once.
    pub fn select(&self, root: &Json, workspace: &mut Workspace<'_>) -> Result<Vec<Location>, ErrorReply> {
        select(&self.steps, root, root, &mut Budget::new(workspace))
    }

    /// The steps of a path that means one value at most.
    pub fn static_steps(&self) -> Option<Vec<StaticStep<'_>>> {
        self.steps.iter().map(Step::as_static).collect()
    }

    /// The steps up to the first that may mean several values; then the locations below the value
    /// there, in document order of the other steps. `None` if these need the root.
    pub fn scope(&self) -> Option<(Vec<StaticStep<'_>>, Selection<'_>)> {
        let steps: Vec<StaticStep<'_>> = self.steps.iter().map_while(Step::as_static).collect();
        let further = &self.steps[steps.len()..];
        let is_apart = !further.iter().any(Step::refers_to_root);
        is_apart.then_some((steps, Selection(further)))
    }

    /// For a path that selects nothing yet: the name of the member that is missing. The other steps
    /// of the path lead to one value at most, which may be the object that receives it.
    pub fn missing_member(&self) -> Result<&str, ErrorReply> {
        let last = self.steps.last().ok_or("ERR wrong static path")?;
        let is_static = self.steps.iter().all(|step| step.as_static().is_some());
        match last.selectors.as_slice() {
            [Selector::Name(name)] if is_static => Ok(name),
            [Selector::Index(_)] if is_static => Err("ERR array index out of range".into()),
            _ => Err("ERR wrong static path".into()),
        }
    }

    /// The same with the locations of the objects that receive the member.
    pub fn to_be_created(
        &self,
        root: &Json,
        workspace: &mut Workspace<'_>,
    ) -> Result<(Vec<Location>, &str), ErrorReply> {
        let name = self.missing_member()?;
        let prefix = &self.steps[..self.steps.len() - 1];
        Ok((select(prefix, root, root, &mut Budget::new(workspace))?, name))
    }
}

/// The last steps of a path.
pub struct Selection<'p>(&'p [Step]);

impl Selection<'_> {
    /// As [`Path::select`], below a value that the steps before these lead to.
    pub fn select(&self, value: &Json, workspace: &mut Workspace<'_>) -> Result<Vec<Location>, ErrorReply> {
        select(self.0, value, value, &mut Budget::new(workspace))
    }
}

/// A step that means one value at most.
#[derive(Clone, Copy)]
pub enum StaticStep<'p> {
    Name(&'p str),
    /// Negative: from the end.
    Index(i64),
}

impl Step {
    fn as_static(&self) -> Option<StaticStep<'_>> {
        match self.selectors.as_slice() {
            [Selector::Name(name)] if !self.descends => Some(StaticStep::Name(name)),
            [Selector::Index(index)] if !self.descends => Some(StaticStep::Index(*index)),
            _ => None,
        }
    }

    fn refers_to_root(&self) -> bool {
        self.selectors.iter().any(|selector| match selector {
            Selector::Filter(condition) => condition.refers_to_root(),
            _ => false,
        })
    }
}

/// Remaining number of values that may be visited, and the memory for their locations.
struct Budget<'w, 'm> {
    visits: usize,
    workspace: &'w mut Workspace<'m>,
}

impl<'w, 'm> Budget<'w, 'm> {
    fn new(workspace: &'w mut Workspace<'m>) -> Budget<'w, 'm> {
        Budget {
            visits: MATCHES_MAX,
            workspace,
        }
    }

    fn spend(&mut self, count: usize) -> Result<(), ErrorReply> {
        self.visits = self.visits.checked_sub(count).ok_or(TOO_MANY)?;
        Ok(())
    }

    /// The positions of children, before they are visited.
    fn gather(&mut self, positions: impl ExactSizeIterator<Item = usize>) -> Result<Vec<usize>, ErrorReply> {
        if positions.len() > self.visits {
            return Err(TOO_MANY.into());
        }
        self.workspace.take(positions.len() * size_of::<usize>())?;
        Ok(positions.collect())
    }

    /// A location is kept: in a list that grows, with an allocation of its own.
    fn keep(&mut self, levels: usize) -> Result<(), ErrorReply> {
        self.workspace.take(ELEMENT_BYTES + levels * size_of::<usize>())
    }
}

fn select(steps: &[Step], from: &Json, root: &Json, budget: &mut Budget<'_, '_>) -> Result<Vec<Location>, ErrorReply> {
    let mut locations: Vec<Location> = vec![Location::new()];
    for step in steps {
        let mut next = Vec::new();
        for location in locations {
            let value = from.at(&location).expect("a location that was found");
            step.apply(value, &location, root, budget, &mut next)?;
        }
        locations = next;
    }
    Ok(locations)
}

impl Step {
    fn apply(
        &self,
        value: &Json,
        location: &[usize],
        root: &Json,
        budget: &mut Budget<'_, '_>,
        out: &mut Vec<Location>,
    ) -> Result<(), ErrorReply> {
        let cost = 1 + location.len() / DEPTH_FREE;
        budget.spend(cost)?;
        for selector in &self.selectors {
            for index in selector.children_of(value, root, budget)? {
                budget.spend(cost)?;
                budget.keep(location.len() + 1)?;
                out.push([location, &[index]].concat());
            }
        }
        if self.descends {
            for (index, child) in value.children().enumerate() {
                self.apply(child, &[location, &[index]].concat(), root, budget, out)?;
            }
        }
        Ok(())
    }
}

impl Selector {
    /// Positions of the children that are meant.
    fn children_of(&self, value: &Json, root: &Json, budget: &mut Budget<'_, '_>) -> Result<Vec<usize>, ErrorReply> {
        let length = match value {
            Json::Array(elements) => elements.len(),
            _ => 0,
        };
        Ok(match self {
            Selector::Name(name) => {
                if let Json::Object(members) = value {
                    budget.spend(members.len() / MEMBERS_FREE)?;
                }
                value.member(name).into_iter().collect()
            }
            Selector::Index(index) => from_end(*index, length)
                .filter(|index| *index < length)
                .into_iter()
                .collect(),
            Selector::Slice { start, end, step } => {
                let bound = |bound_index: i64| from_end(bound_index, length).unwrap_or(0).min(length);
                let (start, end) = (start.map_or(0, bound), end.map_or(length, bound));
                budget.gather((start..end).step_by(*step))?
            }
            Selector::All => budget.gather(0..value.children().count())?,
            Selector::Filter(condition) => {
                let mut indexes = Vec::new();
                for (index, child) in value.children().enumerate() {
                    if condition.holds(child, root, budget)? {
                        budget.workspace.take(2 * size_of::<usize>())?;
                        indexes.push(index);
                    }
                }
                indexes
            }
        })
    }
}

/// A position, counted from the end if negative; `None` if that is before the start.
fn from_end(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 {
        index.saturating_add(length as i64)
    } else {
        index
    };
    usize::try_from(index).ok()
}

impl Condition {
    fn refers_to_root(&self) -> bool {
        match self {
            Condition::Any(parts) | Condition::All(parts) => parts.iter().any(Condition::refers_to_root),
            Condition::Not(part) => part.refers_to_root(),
            Condition::Exists(operand) => operand.refers_to_root(),
            Condition::Compares(left, _, right) => left.refers_to_root() || right.refers_to_root(),
        }
    }

    fn holds(&self, value: &Json, root: &Json, budget: &mut Budget<'_, '_>) -> Result<bool, ErrorReply> {
        budget.spend(1)?;
        Ok(match self {
            Condition::Any(parts) => {
                for part in parts {
                    if part.holds(value, root, budget)? {
                        return Ok(true);
                    }
                }
                false
            }
            Condition::All(parts) => {
                for part in parts {
                    if !part.holds(value, root, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            Condition::Not(part) => !part.holds(value, root, budget)?,
            Condition::Exists(operand) => operand.value(value, root, budget)?.is_some(),
            Condition::Compares(left, comparison, right) => {
                let left = left.value(value, root, budget)?;
                let right = right.value(value, root, budget)?;
                match (left, right) {
                    (Some(left), Some(right)) => comparison.holds(left, right),
                    _ => comparison == &Comparison::Unequal,
                }
            }
        })
    }
}

impl Operand {
    fn refers_to_root(&self) -> bool {
        match self {
            Operand::Literal(_) => false,
            Operand::Here(steps) => steps.iter().any(Step::refers_to_root),
            Operand::Root(_) => true,
        }
    }

    /// The value of the path, if it is a single value: as in the original, a path to several values
    /// cannot be compared.
    fn value<'j>(
        &'j self,
        current: &'j Json,
        root: &'j Json,
        budget: &mut Budget<'_, '_>,
    ) -> Result<Option<&'j Json>, ErrorReply> {
        let (steps, from) = match self {
            Operand::Literal(value) => return Ok(Some(value)),
            Operand::Here(steps) => (steps, current),
            Operand::Root(steps) => (steps, root),
        };
        let selected = select(steps, from, root, budget)?;
        match selected.as_slice() {
            [location] => Ok(from.at(location)),
            _ => Ok(None),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Json, right: &Json) -> bool {
        let order = match (left, right) {
            (Json::Integer(left), Json::Integer(right)) => Some(left.cmp(right)),
            (Json::Text(left), Json::Text(right)) => Some(left.cmp(right)),
            _ => match (left.number(), right.number()) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => None,
            },
        };
        let is_equal = order.map_or(left == right, |order| order.is_eq());
        match self {
            Comparison::Equal => is_equal,
            Comparison::Unequal => !is_equal,
            Comparison::Less => order.is_some_and(|order| order.is_lt()),
            Comparison::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Comparison::Greater => order.is_some_and(|order| order.is_gt()),
            Comparison::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}

struct Parser<'p> {
    text: &'p str,
    position: usize,
    depth: usize,
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        &self.text[self.position..]
    }

    fn wrong(&self) -> ErrorReply {
        format!(
            "ERR Error occurred on position {}, in path '{}'",
            self.position, self.text
        )
        .into()
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.rest().starts_with(word);
        if is_next {
            self.position += word.len();
        }
        is_next
    }

    fn skip_blanks(&mut self) {
        let remaining = self.rest();
        self.position += remaining.len() - remaining.trim_start().len();
    }

    fn expect(&mut self, word: &str) -> Result<(), ErrorReply> {
        self.skip_blanks();
        match self.takes(word) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Parses steps up to the first other character.
    fn steps(&mut self) -> Result<Vec<Step>, ErrorReply> {
        let mut steps = Vec::new();
        loop {
            let descends = self.takes("..");
            let is_dotted = descends || self.takes(".");
            let selectors = if self.takes("[") {
                self.bracket()?
            } else if !is_dotted {
                return Ok(steps);
            } else if self.takes("*") {
                vec![Selector::All]
            } else {
                vec![Selector::Name(self.name()?)]
            };
            steps.push(Step { descends, selectors });
        }
    }

    fn name(&mut self) -> Result<String, ErrorReply> {
        let remaining = self.rest();
        let ends = |letter: char| letter.is_whitespace() || ".[]()<>=!&|,'\"*?".contains(letter);
        let name = &remaining[..remaining.find(ends).unwrap_or(remaining.len())];
        if name.is_empty() {
            return Err(self.wrong());
        }
        self.position += name.len();
        Ok(name.to_owned())
    }

    /// The part after an opening bracket, the closing one included.
    fn bracket(&mut self) -> Result<Vec<Selector>, ErrorReply> {
        let mut selectors = Vec::new();
        loop {
            self.skip_blanks();
            selectors.push(self.selector()?);
            self.skip_blanks();
            if self.takes("]") {
                return Ok(selectors);
            }
            self.expect(",")?;
        }
    }

    fn selector(&mut self) -> Result<Selector, ErrorReply> {
        if self.takes("*") {
            return Ok(Selector::All);
        }
        if self.takes("?") {
            self.skip_blanks();
            return Ok(Selector::Filter(self.any()?));
        }
        if self.rest().starts_with(['"', '\'']) {
            return Ok(Selector::Name(self.quoted()?));
        }
        let start = self.integer();
        self.skip_blanks();
        if !self.takes(":") {
            return start.map(Selector::Index).ok_or_else(|| self.wrong());
        }
        self.skip_blanks();
        let end = self.integer();
        self.skip_blanks();
        let step = if self.takes(":") { self.integer() } else { None };
        let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0);
        Ok(Selector::Slice {
            start,
            end,
            step: step.ok_or_else(|| self.wrong())?,
        })
    }

    fn integer(&mut self) -> Option<i64> {
        let remaining = self.rest();
        let is_part = |(index, letter): (usize, char)| letter.is_ascii_digit() || index == 0 && letter == '-';
        let length = remaining.char_indices().take_while(|part| is_part(*part)).count();
        let number = remaining[..length].parse().ok()?;
        self.position += length;
        Some(number)
    }

    /// A text in either kind of quotes; a backslash takes the next letter as it is, and knows
    /// JSON's escapes of blanks.
    fn quoted(&mut self) -> Result<String, ErrorReply> {
        let mut letters = self.rest().char_indices();
        let quote = letters.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((index, letter)) = letters.next() {
            if Some(letter) == quote {
                self.position += index + 1;
                return Ok(text);
            }
            text.push(match letter {
                '\\' => match letters.next().map(|(_, escaped)| escaped) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(other) => other,
                    None => break,
                },
                _ => letter,
            });
        }
        Err(self.wrong())
    }

    fn any(&mut self) -> Result<Condition, ErrorReply> {
        self.list("||", Parser::all, Condition::Any)
    }

    fn all(&mut self) -> Result<Condition, ErrorReply> {
        self.list("&&", Parser::single, Condition::All)
    }

    fn list(
        &mut self,
        separator: &str,
        part: fn(&mut Parser<'p>) -> Result<Condition, ErrorReply>,
        whole: fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, ErrorReply> {
        let mut parts = vec![part(self)?];
        loop {
            self.skip_blanks();
            if !self.takes(separator) {
                break;
            }
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => whole(parts),
        })
    }

    fn single(&mut self) -> Result<Condition, ErrorReply> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("ERR the path nests too deeply".into());
        }
        self.skip_blanks();
        let condition = if self.takes("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else if self.takes("!") {
            Condition::Not(Box::new(self.single()?))
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, ErrorReply> {
        let left = self.operand()?;
        self.skip_blanks();
        let operator = COMPARISONS.iter().find(|(word, _)| self.rest().starts_with(word));
        let Some((word, comparison)) = operator else {
            return match left {
                Operand::Literal(_) => Err(self.wrong()),
                path => Ok(Condition::Exists(path)),
            };
        };
        self.position += word.len();
        self.skip_blanks();
        Ok(Condition::Compares(left, *comparison, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, ErrorReply> {
        if self.takes("@") {
            return Ok(Operand::Here(self.steps()?));
        }
        if self.takes("$") {
            return Ok(Operand::Root(self.steps()?));
        }
        if self.rest().starts_with(['"', '\'']) {
            return Ok(Operand::Literal(Json::Text(self.quoted()?)));
        }
        let remaining = self.rest();
        let ends = |letter: char| letter.is_whitespace() || ")]&|<>=!,".contains(letter);
        let word = &remaining[..remaining.find(ends).unwrap_or(remaining.len())];
        let value = Json::parse(word.as_bytes()).map_err(|_| self.wrong())?;
        self.position += word.len();
        Ok(Operand::Literal(value))
    }
}

/// An operator precedes its own prefixes.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        r#"{"a":1,"b":{"a":[1,2,3,{"a":"x"}],"c d":true},"list":[{"n":5,"s":"p"},{"n":10.5},{"m":1}],"max":6}"#;

    /// The values that the path means, in an array.
    fn check(path: &str, expected: &str) {
        let document = Json::parse(DOCUMENT.as_bytes()).unwrap();
        let parsed = Path::parse(path.as_bytes())
            .unwrap()
            .select(&document, &mut Workspace::new(None))
            .unwrap();
        let values = parsed.iter().map(|location| document.at(location).unwrap().clone());
        let text = Json::Array(values.collect()).text();
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{path}");
    }

    #[test]
    fn paths_mean_values() {
        check("$.a", "[1]");
        check("a", "[1]");
        check(".b.a[0]", "[1]");
        check("$['b']['c d']", "[true]");
        check(r#"["b"].a[-1].a"#, r#"["x"]"#);
        check("$..a", r#"[1,[1,2,3,{"a":"x"}],"x"]"#);
        check("$.b.a[0,2]", "[1,3]");
        check("$.b.a[1:3]", "[2,3]");
        check("$.b.a[::2]", "[1,3]");
        check("$.b.a[-2:]", r#"[3,{"a":"x"}]"#);
        check("$.b.a[9]", "[]");
        check("$.list[*].n", "[5,10.5]");
        check("$.list[?(@.n>6)].n", "[10.5]");
        check("$.list[?(@.n<$.max && @.s=='p')].n", "[5]");
        check("$.list[?(!@.n || @.n==10.5)]", r#"[{"n":10.5},{"m":1}]"#);
        check("$.list[?@.m]", r#"[{"m":1}]"#);
        check("$.list[?(@.n!=5)]", r#"[{"n":10.5},{"m":1}]"#);
        check("$.list[?(@.x==@.x)]", "[]");
        check("$[?(@.a[*]==1)]", "[]");
        check("$[?(@.a[*]!=1)].max", "[]");
        check("$.b[?(@[*]<2)]", "[]");
        check("$.list[?(@.*==1)]", r#"[{"m":1}]"#);
        check("$.list[?(@.*=='p')]", "[]");
        check("$..[0]", r#"[1,{"n":5,"s":"p"}]"#);
        check("$.x", "[]");
        check("$.*.a", r#"[[1,2,3,{"a":"x"}]]"#);
    }

    #[test]
    fn a_malformed_path_is_refused() {
        for path in [
            "",
            "$.",
            "$[",
            "$[]",
            "$[?(",
            "$[?(@.a=~'x')]",
            "$.a b",
            "$['a",
            "$[1:2:0]",
            "$..",
            "$[?(1)]",
            "$[a]",
        ] {
            assert!(Path::parse(path.as_bytes()).is_err(), "{path}");
        }
        let nested = format!("$[?{}@.a{}]", "(".repeat(100_000), ")".repeat(100_000));
        assert!(Path::parse(nested.as_bytes()).is_err());
    }

    #[test]
    fn matches_are_bounded() {
        let document = Json::parse(format!("[{}]", vec!["[1,2,3]"; 300].join(",")).as_bytes()).unwrap();
        let path = Path::parse(b"$[?($..[?($..[?(@ == 7)])])]").unwrap();
        assert!(path.select(&document, &mut Workspace::new(None)).is_err());
    }
}
