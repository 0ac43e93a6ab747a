//! Reads statements by the published grammar of PartiQL (partiql-lang-kotlin, `PartiQL.g4`), in the
//! subset whose refusal depends on more than its first token. Operators bind, from loosest to
//! tightest:
//!
//! ```text
//! OR   AND   NOT   = <> IS IN   < <= > >= BETWEEN LIKE   + - ||   * / %   signs, paths
//! ```
//!
//! Error texts equal those of the grammar's reference implementation, which the service uses.

use super::lexer::{At, Token, malformed, tokens};
use super::syntax::{Change, Kind, Node, Returning, Select, Statement, Step};
use crate::wire::failure::Failure;

/// Levels of parentheses, values and operators.
const DEPTH_MAX: usize = 64;
/// As in the expressions of the other operations.
const OPERATORS_MAX: usize = 300;

/// Keywords that are functions, where a parenthesis follows.
const FUNCTION_KEYWORDS: [&str; 15] = [
    "avg",
    "bag",
    "bit_length",
    "char_length",
    "character_length",
    "count",
    "exists",
    "list",
    "lower",
    "max",
    "min",
    "octet_length",
    "size",
    "sum",
    "upper",
];

/// Keywords of expressions that DynamoDB has no use for.
const UNSUPPORTED_EXPRESSIONS: [&str; 11] = [
    "can_cast",
    "can_lossless_cast",
    "case",
    "cast",
    "coalesce",
    "date_add",
    "date_diff",
    "extract",
    "nullif",
    "substring",
    "trim",
];

/// Types that IS may name, under all their names.
const TYPES: [(&str, &str); 36] = [
    ("any", "any"),
    ("bag", "bag"),
    ("bigint", "integer8"),
    ("blob", "blob"),
    ("bool", "boolean"),
    ("boolean", "boolean"),
    ("char", "character"),
    ("character", "character"),
    ("clob", "clob"),
    ("date", "date"),
    ("dec", "decimal"),
    ("decimal", "decimal"),
    ("double", "double_precision"),
    ("float", "float"),
    ("int", "integer"),
    ("int2", "smallint"),
    ("int4", "integer4"),
    ("int8", "integer8"),
    ("integer", "integer"),
    ("integer2", "smallint"),
    ("integer4", "integer4"),
    ("integer8", "integer8"),
    ("list", "list"),
    ("missing", "missing"),
    ("null", "null"),
    ("numeric", "numeric"),
    ("real", "real"),
    ("sexp", "sexp"),
    ("smallint", "smallint"),
    ("string", "string"),
    ("struct", "struct"),
    ("symbol", "symbol"),
    ("time", "time"),
    ("timestamp", "timestamp"),
    ("tuple", "tuple"),
    ("varchar", "character_varying"),
];

/// Beginnings of a join.
const JOINS: [&str; 7] = ["cross", "full", "inner", "join", "left", "outer", "right"];

pub struct Parser {
    tokens: Vec<(Token, At)>,
    next: usize,
    parameters: usize,
    depth: usize,
    operators: usize,
}

/// Reads a whole statement.
pub fn parse(text: &str) -> Result<Statement, Failure> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        parameters: 0,
        depth: 0,
        operators: 0,
    };
    let statement = parser.statement()?;
    parser.take(";");
    match parser.peek() {
        Token::End => Ok(statement),
        _ => Err(malformed("Unexpected token after expression")),
    }
}

/// An operator between two operands.
#[derive(Clone, Copy, PartialEq)]
enum Infix {
    Binary(&'static str),
    In { negated: bool },
    Between { negated: bool },
    Like { negated: bool },
    Is,
}

impl Infix {
    fn precedence(self) -> u8 {
        match self {
            Infix::Binary("or") => 10,
            Infix::Binary("and") => AND,
            Infix::Binary("=" | "<>") | Infix::In { .. } | Infix::Is => 40,
            Infix::Binary("+" | "-" | "||") => 60,
            Infix::Binary("*" | "/" | "%") => 70,
            Infix::Binary(_) | Infix::Between { .. } | Infix::Like { .. } => 50,
        }
    }
}

const LOWEST: u8 = 0;
const AND: u8 = 20;
const NOT: u8 = 30;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn peek_after(&self, count: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + count).min(last)].0
    }

    fn at(&self) -> At {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn is_word(&self, keyword: &str) -> bool {
        matches!(self.peek(), Token::Keyword(word) if *word == keyword)
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let is_next = self.is_word(keyword);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(next) if *next == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_next = self.is_symbol(symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Failure> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(malformed("Unexpected token")),
        }
    }

    fn expect_word(&mut self, keyword: &str) -> Result<(), Failure> {
        match self.take_word(keyword) {
            true => Ok(()),
            false => Err(malformed("Expected keyword")),
        }
    }

    fn take_identifier(&mut self) -> Option<String> {
        match self.peek() {
            Token::Name(_) | Token::Quoted(_) => match self.advance() {
                Token::Name(name) | Token::Quoted(name) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Result<T, Failure>) -> Result<T, Failure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(malformed("The statement is nested too deeply"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn count_operator(&mut self) -> Result<(), Failure> {
        self.operators += 1;
        match self.operators > OPERATORS_MAX {
            true => Err(Failure::validation(format!(
                "The expression contains too many operators; operator count: {}",
                self.operators
            ))),
            false => Ok(()),
        }
    }

    // ---- statements

    fn statement(&mut self) -> Result<Statement, Failure> {
        let Token::Keyword(word) = *self.peek() else {
            return self.expression(LOWEST).map(Statement::Bare);
        };
        match (word, self.peek_after(1)) {
            ("select", _) => self.select().map(Statement::Select),
            ("insert", Token::Keyword("into")) => self.insert(),
            ("update", _) => self.update(),
            ("delete", _) => self.delete(),
            ("from", _) => self.update_after_from(),
            ("set" | "remove", _) => self.changes().map(|_| Statement::Other("DML")),
            ("create" | "drop", Token::Keyword("table")) => {
                self.next += 2;
                self.take_identifier().ok_or_else(|| malformed("Expected identifier"))?;
                Ok(Statement::Other(if word == "create" {
                    "CreateTable"
                } else {
                    "DropTable"
                }))
            }
            ("exec", Token::Name(_) | Token::Quoted(_)) => {
                self.next += 2;
                Ok(Statement::Other("Exec"))
            }
            _ => self.expression(LOWEST).map(Statement::Bare),
        }
    }

    fn select(&mut self) -> Result<Select, Failure> {
        self.expect_word("select")?;
        let mut unsupported = None;
        if self.take_word("distinct") {
            unsupported = Some("Unsupported token in expression: DISTINCT".to_owned());
        } else {
            self.take_word("all");
        }
        if self.take_word("value") {
            unsupported.get_or_insert_with(|| "Select projection doesn't support value or pivot keywords".into());
        }
        let items = self.select_items(&mut unsupported)?;
        if !self.take_word("from") {
            return Err(malformed("Expected FROM after SELECT list"));
        }
        let from = self.expression(LOWEST)?;
        self.aliases(&mut unsupported)?;
        if self.is_symbol(",") || matches!(self.peek(), Token::Keyword(word) if JOINS.contains(word)) {
            return Err(Failure::validation(
                "Only select from a single table or index is supported.",
            ));
        }
        let condition = self.condition()?;
        for (clause, title) in [("group", "GROUP BY"), ("having", "HAVING")] {
            if self.is_word(clause) {
                return Err(Failure::validation(format!("Unsupported clause: {title}")));
            }
        }
        let order = match self.take_word("order") {
            true => self.order()?,
            false => Vec::new(),
        };
        for (clause, title) in [("limit", "LIMIT"), ("offset", "OFFSET")] {
            if self.is_word(clause) {
                return Err(Failure::validation(format!("Unsupported clause: {title}")));
            }
        }
        Ok(Select {
            items,
            from,
            condition,
            order,
            unsupported,
        })
    }

    fn select_items(&mut self, unsupported: &mut Option<String>) -> Result<Option<Vec<Node>>, Failure> {
        if self.take("*") {
            let text = "Other expressions may not be present in the select list when '*' is used without dot notation.";
            return match self.is_symbol(",") {
                true => Err(malformed(text)),
                false => Ok(None),
            };
        }
        let mut items = Vec::new();
        loop {
            items.push(self.expression(LOWEST)?);
            if self.take_alias("as")? {
                unsupported.get_or_insert_with(|| ALIASING.into());
            }
            if !self.take(",") {
                return Ok(Some(items));
            }
        }
    }

    fn aliases(&mut self, unsupported: &mut Option<String>) -> Result<(), Failure> {
        for word in ["as", "at", "by"] {
            if self.take_alias(word)? {
                unsupported.get_or_insert_with(|| ALIASING.into());
            }
        }
        Ok(())
    }

    /// Takes an alias, which may be a bare identifier only after AS.
    fn take_alias(&mut self, word: &str) -> Result<bool, Failure> {
        if !self.take_word(word) {
            return Ok(word == "as" && self.take_identifier().is_some());
        }
        match self.take_identifier() {
            Some(_) => Ok(true),
            None => Err(malformed(&format!(
                "Expected identifier for {}-alias",
                word.to_uppercase()
            ))),
        }
    }

    fn condition(&mut self) -> Result<Option<Node>, Failure> {
        match self.take_word("where") {
            true => self.expression(LOWEST).map(Some),
            false => Ok(None),
        }
    }

    fn order(&mut self) -> Result<Vec<(Node, bool)>, Failure> {
        self.expect_word("by")?;
        let mut order = Vec::new();
        loop {
            let by = self.expression(LOWEST)?;
            let descending = self.take_word("desc");
            if !descending {
                self.take_word("asc");
            }
            order.push((by, !descending));
            if !self.take(",") {
                return Ok(order);
            }
        }
    }

    fn insert(&mut self) -> Result<Statement, Failure> {
        self.next += 2;
        let target = self.simple_path()?;
        let mut unsupported = None;
        if !self.take_word("value") {
            let value = self.expression(LOWEST)?;
            unsupported = Some("Unsupported operation: InsertOp".to_owned());
            return Ok(Statement::Insert {
                target,
                value,
                unsupported,
            });
        }
        let value = self.expression(LOWEST)?;
        if self.take_word("at") {
            self.expression(LOWEST)?;
            unsupported = Some("AT is not supported in insert statements.".to_owned());
        }
        if self.take_word("on") {
            for word in ["conflict", "where"] {
                self.expect_word(word)?;
            }
            self.expression(LOWEST)?;
            for word in ["do", "nothing"] {
                self.expect_word(word)?;
            }
            unsupported.get_or_insert_with(|| "Unsupported clause: ON CONFLICT".into());
        }
        if self.returning()?.is_some() {
            unsupported.get_or_insert_with(|| "RETURNING is not supported in INSERT".into());
        }
        Ok(Statement::Insert {
            target,
            value,
            unsupported,
        })
    }

    fn update(&mut self) -> Result<Statement, Failure> {
        self.expect_word("update")?;
        let mut unsupported = None;
        let target = self.simple_path()?;
        self.aliases(&mut unsupported)?;
        Ok(Statement::Update {
            target,
            changes: self.changes()?,
            condition: self.condition()?,
            returning: self.returning()?,
            unsupported,
        })
    }

    /// The form of UPDATE that starts with FROM and has its WHERE before its changes.
    fn update_after_from(&mut self) -> Result<Statement, Failure> {
        self.expect_word("from")?;
        let mut unsupported = None;
        let target = self.expression(LOWEST)?;
        self.aliases(&mut unsupported)?;
        let condition = self.condition()?;
        Ok(Statement::Update {
            target,
            changes: self.changes()?,
            condition,
            returning: self.returning()?,
            unsupported,
        })
    }

    fn delete(&mut self) -> Result<Statement, Failure> {
        self.expect_word("delete")?;
        if !self.take_word("from") {
            return Err(malformed("Expected FROM after DELETE"));
        }
        let mut unsupported = None;
        let target = self.simple_path()?;
        self.aliases(&mut unsupported)?;
        Ok(Statement::Delete {
            target,
            condition: self.condition()?,
            returning: self.returning()?,
            unsupported,
        })
    }

    fn changes(&mut self) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        loop {
            if self.take_word("set") {
                loop {
                    let target = self.simple_path()?;
                    if !self.take("=") {
                        return Err(malformed("Expected '='"));
                    }
                    changes.push(Change::Set(target, self.expression(LOWEST)?));
                    if !self.take(",") {
                        break;
                    }
                }
            } else if self.take_word("remove") {
                changes.push(Change::Remove(self.simple_path()?));
            } else if self.is_word("insert") {
                self.insert()?;
                changes.push(Change::Insert);
            } else if changes.is_empty() {
                return Err(malformed("Expected data manipulation"));
            } else {
                return Ok(changes);
            }
        }
    }

    fn returning(&mut self) -> Result<Option<Returning>, Failure> {
        if !self.take_word("returning") {
            return Ok(None);
        }
        let returning = self.returned()?;
        if !self.take("*") {
            self.expression(LOWEST)?;
            let text = "Expected '*' after ( MODIFIED | ALL ) ( NEW | OLD ) in RETURNING clause";
            return Err(Failure::validation(text));
        }
        if self.take(",") {
            self.returned()?;
            let text = "Invalid syntax with multiple returning elements in RETURNING clause";
            return Err(Failure::validation(text));
        }
        Ok(Some(returning))
    }

    fn returned(&mut self) -> Result<Returning, Failure> {
        let unexpected = || malformed("Expected ( MODIFIED | ALL ) ( NEW | OLD ) in the returning clause.");
        let all = self.take_word("all");
        if !all && !self.take_word("modified") {
            return Err(unexpected());
        }
        let old = self.take_word("old");
        if !old && !self.take_word("new") {
            return Err(unexpected());
        }
        Ok(Returning { all, old })
    }

    // ---- expressions

    /// An expression of operators that bind tighter than `precedence`.
    fn expression(&mut self, precedence: u8) -> Result<Node, Failure> {
        self.deeper(|parser| {
            let mut left = parser.signed()?;
            while let Some((infix, tokens)) = parser.infix().filter(|(infix, _)| infix.precedence() > precedence) {
                let at = parser.at();
                parser.count_operator()?;
                parser.next += tokens;
                left = parser.right(at, infix, left)?;
            }
            Ok(left)
        })
    }

    /// The next operator, and its number of tokens.
    fn infix(&self) -> Option<(Infix, usize)> {
        let negated = self.is_word("not");
        let word = match (self.peek(), self.peek_after(1)) {
            (Token::Symbol(symbol), _) => {
                let is_operator = matches!(
                    *symbol,
                    "=" | "<>" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/" | "%" | "||"
                );
                return is_operator.then_some((Infix::Binary(symbol), 1));
            }
            (Token::Keyword("not"), Token::Keyword(word)) => *word,
            (Token::Keyword(word), _) => *word,
            _ => return None,
        };
        let tokens = 1 + usize::from(negated);
        match word {
            "in" => Some((Infix::In { negated }, tokens)),
            "between" => Some((Infix::Between { negated }, tokens)),
            "like" => Some((Infix::Like { negated }, tokens)),
            "and" | "or" if !negated => Some((Infix::Binary(word), 1)),
            "is" if !negated => Some((Infix::Is, 1)),
            _ => None,
        }
    }

    /// The rest of an operation after its operator.
    fn right(&mut self, at: At, infix: Infix, left: Node) -> Result<Node, Failure> {
        let left = Box::new(left);
        let node = |kind| Node { at, kind };
        let negate = |negated, operation: Node| match negated {
            true => node(Kind::Not(Box::new(operation))),
            false => operation,
        };
        Ok(match infix {
            Infix::Is => {
                let negated = self.take_word("not");
                let kind = self.type_name()?;
                negate(negated, node(Kind::Is(left, kind)))
            }
            Infix::In { negated } => {
                let list = Box::new(self.in_list(infix)?);
                negate(negated, node(Kind::In(left, list)))
            }
            Infix::Between { negated } => {
                let low = Box::new(self.operand(infix)?);
                self.expect_word("and")?;
                if *self.peek() == Token::End {
                    return Err(malformed("Expected expression after AND"));
                }
                let high = Box::new(self.expression(infix.precedence())?);
                negate(negated, node(Kind::Between(left, low, high)))
            }
            Infix::Like { negated } => {
                let pattern = Box::new(self.operand(infix)?);
                if self.take_word("escape") {
                    self.expression(infix.precedence())?;
                }
                negate(negated, node(Kind::Binary("like", left, pattern)))
            }
            Infix::Binary(operator) => node(Kind::Binary(operator, left, Box::new(self.operand(infix)?))),
        })
    }

    fn operand(&mut self, infix: Infix) -> Result<Node, Failure> {
        match self.peek() {
            Token::End => Err(malformed("Missing right-hand side expression of infix operator")),
            _ => self.expression(infix.precedence()),
        }
    }

    /// After IN even one expression in parentheses is a list.
    fn in_list(&mut self, infix: Infix) -> Result<Node, Failure> {
        let at = self.at();
        if !self.is_symbol("(") || matches!(self.peek_after(1), Token::Keyword("select" | "values")) {
            return self.operand(infix);
        }
        self.advance();
        if self.is_symbol(")") {
            return Err(malformed("Unexpected term"));
        }
        let kind = Kind::List(self.list(")")?);
        Ok(Node { at, kind })
    }

    fn type_name(&mut self) -> Result<String, Failure> {
        let expected = || malformed("Expected type name");
        let Token::Keyword(word) = *self.peek() else {
            return Err(expected());
        };
        let (_, mut name) = *TYPES
            .iter()
            .find(|(keyword, _)| *keyword == word)
            .ok_or_else(expected)?;
        self.advance();
        match name {
            "double_precision" if !self.take_word("precision") => return Err(expected()),
            "character" if self.take_word("varying") => name = "character_varying",
            _ => {}
        }
        if self.take("(") {
            self.list(")")?;
        }
        Ok(name.to_owned())
    }

    fn signed(&mut self) -> Result<Node, Failure> {
        let at = self.at();
        if self.take_word("not") {
            let operand = Box::new(self.expression(NOT)?);
            return Ok(Node {
                at,
                kind: Kind::Not(operand),
            });
        }
        let sign = match self.peek() {
            Token::Symbol(sign @ ("+" | "-")) => *sign,
            _ => return self.path_term(),
        };
        self.advance();
        let mut operand = self.deeper(Parser::signed)?;
        if let Kind::Number(digits) = &mut operand.kind {
            if sign == "-" {
                *digits = match digits.strip_prefix('-') {
                    Some(positive) => positive.to_owned(),
                    None => format!("-{digits}"),
                };
            }
            return Ok(operand);
        }
        Ok(Node {
            at,
            kind: Kind::Sign(sign, Box::new(operand)),
        })
    }

    fn path_term(&mut self) -> Result<Node, Failure> {
        let root = self.term()?;
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                steps.push(match self.take("*") {
                    true => Step::All,
                    false => Step::Member(self.dot_component()?),
                });
            } else if self.take("[") {
                if self.is_symbol("*") {
                    return Err(malformed("Invalid use of * in select list"));
                }
                steps.push(Step::Element(self.expression(LOWEST)?));
                self.expect("]")?;
            } else {
                return Ok(path(root, steps));
            }
        }
    }

    fn dot_component(&mut self) -> Result<String, Failure> {
        self.take_identifier()
            .ok_or_else(|| malformed("Invalid path dot component"))
    }

    /// A path of a target, whose steps are names and literals.
    fn simple_path(&mut self) -> Result<Node, Failure> {
        let at = self.at();
        let name = self.take_identifier();
        let name = name.ok_or_else(|| malformed("Expected identifier for simple path"))?;
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                if self.is_symbol("*") {
                    return Err(malformed("Invalid path dot component for simple path"));
                }
                steps.push(Step::Member(self.dot_component()?));
            } else if self.take("[") {
                let element = self.expression(LOWEST)?;
                self.expect("]")?;
                match element.kind {
                    Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Ion | Kind::Name(_) => {}
                    _ => return Err(malformed("Invalid path component for simple path")),
                }
                steps.push(Step::Element(element));
            } else {
                let kind = Kind::Name(name);
                return Ok(path(Node { at, kind }, steps));
            }
        }
    }

    fn term(&mut self) -> Result<Node, Failure> {
        let at = self.at();
        let node = |kind| Ok(Node { at, kind });
        match self.peek() {
            Token::Keyword(word) => return self.keyword_term(at, word),
            Token::Name(_) | Token::Quoted(_) => {
                let name = self.take_identifier().unwrap_or_default();
                return match self.is_symbol("(") {
                    true => self.call(at, &name),
                    false => node(Kind::Name(name)),
                };
            }
            Token::Symbol("=" | "<>" | "<" | "<=" | ">" | ">=" | "*" | "/" | "%" | "||" | "~" | "^") => {
                return Err(malformed("Unexpected operator"));
            }
            _ => {}
        }
        match self.advance() {
            Token::Text(text) => node(Kind::Text(text)),
            Token::Number(digits) => node(Kind::Number(digits)),
            Token::Ion(_) => node(Kind::Ion),
            Token::Symbol("@") => match self.take_identifier() {
                Some(name) => node(Kind::Name(name)),
                None => Err(malformed("Identifier must follow @-operator")),
            },
            Token::Symbol("?") => {
                self.parameters += 1;
                node(Kind::Parameter(self.parameters - 1))
            }
            Token::Symbol("(") => {
                let mut group = self.list(")")?;
                match group.len() {
                    0 => Err(malformed("Unexpected term")),
                    1 => Ok(group.remove(0)),
                    _ => node(Kind::List(group)),
                }
            }
            Token::Symbol("[") => node(Kind::List(self.list("]")?)),
            Token::Symbol("<<") => node(Kind::Bag(self.list(">>")?)),
            Token::Symbol("{") => node(Kind::Tuple(self.members()?)),
            _ => Err(malformed("Unexpected term")),
        }
    }

    fn keyword_term(&mut self, at: At, word: &'static str) -> Result<Node, Failure> {
        let node = |kind| Ok(Node { at, kind });
        match word {
            "select" => return node(Kind::Select(Box::new(self.deeper(Parser::select)?))),
            "and" | "or" | "in" | "is" | "like" | "between" => return Err(malformed("Unexpected operator")),
            _ => {}
        }
        let is_call = *self.peek_after(1) == Token::Symbol("(");
        match word {
            "null" | "missing" | "true" | "false" => {
                self.advance();
                node(match word {
                    "null" => Kind::Null,
                    "missing" => Kind::Missing,
                    word => Kind::Bool(word == "true"),
                })
            }
            word if FUNCTION_KEYWORDS.contains(&word) && is_call => {
                self.advance();
                self.call(at, word)
            }
            word if UNSUPPORTED_EXPRESSIONS.contains(&word) => Err(Failure::validation(format!(
                "Unsupported token in expression: {} {at}",
                word.to_uppercase()
            ))),
            _ => Err(malformed("Unexpected keyword")),
        }
    }

    /// The arguments of a function from their parenthesis on. LIST and BAG make values of theirs.
    fn call(&mut self, at: At, name: &str) -> Result<Node, Failure> {
        self.advance();
        let name = name.to_ascii_lowercase();
        let arguments = match self.take("*") {
            true if name == "count" => {
                self.expect(")")?;
                Vec::new()
            }
            true => return Err(malformed("Unexpected operator")),
            false => self.list(")")?,
        };
        let kind = match name.as_str() {
            "list" => Kind::List(arguments),
            "bag" => Kind::Bag(arguments),
            _ => Kind::Call(name, arguments),
        };
        Ok(Node { at, kind })
    }

    /// Expressions between commas, and the symbol that closes them.
    fn list(&mut self, close: &str) -> Result<Vec<Node>, Failure> {
        let mut nodes = Vec::new();
        if self.take(close) {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.expression(LOWEST)?);
            if self.take(close) {
                return Ok(nodes);
            }
            self.expect(",")?;
        }
    }

    fn members(&mut self) -> Result<Vec<(Node, Node)>, Failure> {
        let mut members = Vec::new();
        if self.take("}") {
            return Ok(members);
        }
        loop {
            let name = self.expression(LOWEST)?;
            self.expect(":")?;
            members.push((name, self.expression(LOWEST)?));
            if self.take("}") {
                return Ok(members);
            }
            self.expect(",")?;
        }
    }
}

const ALIASING: &str = "Aliasing is not supported";

fn path(root: Node, steps: Vec<Step>) -> Node {
    match steps.is_empty() {
        true => root,
        false => Node {
            at: root.at,
            kind: Kind::Path(Box::new(root), steps),
        },
    }
}
