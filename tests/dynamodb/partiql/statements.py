"""Random PartiQL statements over two small tables: by the published grammar, with faults strewn in.

`plain` has the hash key `pk` (S); `sorted` has `pk` (S) and the range key `sk` (N), and the global index `by_g` on `g` (S).
Both hold items that `items` makes, so most of what a statement names is there.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

PARTITIONS = ("a", "b", "c")
POSITIONS = (0, 1, 2)
TABLES = {"plain": False, "sorted": True}
# Attributes of the items by type.
ATTRIBUTES = {"n": "N", "k": "N", "s": "S", "u": "S", "t": "BOOL", "z": "NULL", "m": "M", "l": "L", "ss": "SS", "ns": "NS", "b": "B"}


@dataclass
class Statement:
    text: str
    parameters: list[dict] = field(default_factory=list)

    @property
    def table(self) -> str:
        return "sorted" if re.search(r'\bsorted\b|"sorted"', self.text) else "plain"

    @property
    def is_ordered(self) -> bool:
        return bool(re.search(r"\border\s+by\b", self.text, re.I))


def items(random_: random.Random, range_key: bool) -> list[dict]:
    """Items for a table: most keys that statements name, each with most attributes."""
    made = []
    for pk in PARTITIONS:
        for sk in POSITIONS if range_key else (None,):
            if random_.random() < 0.25:
                continue
            item = {"pk": {"S": pk}} | ({} if sk is None else {"sk": {"N": str(sk)}, "g": {"S": random_.choice("xy")}})
            everything = {
                "n": {"N": random_.choice(["0", "1", "5", "-2.5"])},
                "k": {"N": random_.choice(["1", "2"])},
                "s": {"S": random_.choice(["a", "str", ""])},
                "u": {"S": random_.choice(["a", "b"])},
                "t": {"BOOL": random_.random() < 0.5},
                "z": {"NULL": True},
                "m": {"M": {"x": {"N": "1"}, "y": {"M": {"w": {"S": "q"}}}}},
                "l": {"L": [{"N": "1"}, {"S": "two"}, {"M": {"k": {"N": "3"}}}]},
                "ss": {"SS": ["a", "b"]},
                "ns": {"NS": ["1", "2"]},
                "b": {"B": b"xy"},
            }
            made.append(item | {name: value for name, value in everything.items() if random_.random() < 0.85})
    return made


class Maker:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.parameters: list[dict] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices):
        return self.random.choice(choices)

    def weighted(self, **makers):
        names = list(makers)
        return getattr(self, self.random.choices(names, weights=[makers[name] for name in names])[0])()

    def statement(self) -> Statement:
        self.parameters = []
        text = self.weighted(select=35, update=35, insert=12, delete=12, bare=1)
        if self.chance(0.06):
            text = self.damaged(text)
        return Statement(text, self.parameters)

    # ---- statements

    def table_name(self) -> str:
        name = self.pick("plain", "sorted", "sorted")
        self.is_sorted = name == "sorted"
        return self.pick(name, f'"{name}"')

    def select(self) -> str:
        table = self.table_name()
        index = self.is_sorted and self.chance(0.12)
        if index:
            table += self.pick(".by_g", '."by_g"')
        alias = self.pick(" AS x", " x") if self.chance(0.01) else ""
        columns = self.columns()
        where = self.where(index)
        order = ""
        if self.chance(0.12):
            order = " ORDER BY " + ", ".join(self.pick("pk", "sk", "sk", "g", "n") + self.pick("", " DESC", " ASC") for _ in range(self.pick(1, 1, 2)))
        more = self.pick(" LIMIT 1", " GROUP BY pk", " HAVING pk = 'a'", " foo", ";") if self.chance(0.02) else ""
        return f"SELECT {columns} FROM {table}{alias}{where}{order}{more}"

    def columns(self) -> str:
        if self.chance(0.3):
            return "*"
        columns = [self.path() for _ in range(self.pick(1, 1, 2, 3))]
        if self.chance(0.04):
            columns.append(self.pick("m.*", "n + 1", "'n'", "1", "size(s)", "(n)", "*", "n AS x", "COUNT(*)", "?"))
            self.parameters += [{"S": "x"}] * columns.count("?")
        if self.chance(0.5):
            columns.insert(0, "pk")
        return ", ".join(columns)

    def update(self) -> str:
        table = self.table_name()
        if self.chance(0.01):
            table += self.pick(" x", ".by_g")
        # Parameters stand in the order of their question marks.
        if self.chance(0.06):
            return f"FROM {table}{self.where()} {self.changes()}{self.returning()}"
        return f"UPDATE {table} {self.changes()}{self.where()}{self.returning()}"

    def changes(self) -> str:
        return " ".join(self.change() for _ in range(self.pick(1, 1, 1, 2, 2, 3)))

    def change(self) -> str:
        if self.chance(0.25):
            return f"REMOVE {self.target()}" + (", n" if self.chance(0.02) else "")
        return "SET " + ", ".join(self.assignment() for _ in range(self.pick(1, 1, 1, 2)))

    def assignment(self) -> str:
        if self.chance(0.18):
            target = self.pick("ss", "ns", "nope", "s", "m.c")
            function = self.pick("set_add", "set_delete", "SET_ADD")
            first = target if self.chance(0.93) else self.path()
            arguments = [first, self.weighted(bag=10, value=1)]
            if self.chance(0.03):
                arguments = arguments[:1]
            return f"{target} = {function}({', '.join(arguments)})"
        return f"{self.target()} = {self.term()}"

    def target(self) -> str:
        if self.chance(0.02):
            return self.pick("pk", "sk", "count", "'n'", "a-b", "n + 1", "m.*")
        return self.pick("n", "n", "s", "new_one", "q", "m", "m.x", "m.q", "m.y.w", "m['x']", "l", "l[0]", "l[1]", "l[7]", "l[2].k", "nope.x", "s.x", "t", '"n"', "k", "u")

    def term(self, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.55):
            return self.value(0.02)
        return self.pick(
            lambda: self.path(),
            lambda: f"{self.number_path()} {self.pick('+', '-')} {self.term(depth + 1)}",
            lambda: f"{self.number_path()}{self.pick('+', '-')}{self.pick('1', '2', 'k', '(1)')}",
            lambda: f"({self.term(depth + 1)})",
            lambda: f"list_append({self.pick('l', 'nope', '[1]')}, {self.pick('l', '[2]', self.term(depth + 1))})",
            lambda: f"if_not_exists({self.path()}, {self.term(depth + 1)})",
            lambda: self.pick("n * 2", "-n", "size(s)", "foo(n)", "n = 1", "n < 1", "NOT t", "n IS NULL", "MISSING", "set_add(ss, ss)") if self.chance(0.3) else self.path(),
        )()

    def number_path(self) -> str:
        return self.pick("n", "n", "k", "m.x", "l[0]", "nope") if self.chance(0.9) else self.path()

    def insert(self) -> str:
        table = self.table_name()
        members = []
        if self.chance(0.97):
            members.append(f"'pk': {self.key_value()}")
        if self.is_sorted and self.chance(0.97):
            members.append(f"'sk': {self.position()}")
        for _ in range(self.pick(0, 1, 1, 2, 3)):
            name = self.pick("'n'", "'s'", "'q'", "'new_one'", "'m'", "'ss'", "'l'", "'k'") if self.chance(0.97) else self.pick("n", '"n"', "1", "''", "'g'")
            members.append(f"{name}: {self.value(0.06)}")
        more = self.pick(" RETURNING ALL OLD *", " foo", " AT 1", " WHERE pk = 'a'") if self.chance(0.02) else ""
        return f"INSERT INTO {table} VALUE {{{', '.join(members)}}}{more}"

    def delete(self) -> str:
        table = self.table_name()
        returning = self.pick(" RETURNING ALL OLD *", " RETURNING ALL OLD *", " RETURNING ALL NEW *", " RETURNING MODIFIED OLD *") if self.chance(0.25) else ""
        return f"DELETE FROM {table}{self.where()}{returning}"

    def bare(self) -> str:
        return self.pick("1 + 1", "pk", "true", "SELECT", "DROP TABLE plain", "EXISTS(SELECT * FROM plain WHERE pk = 'a' AND n = 1)", "n IS NULL", "")

    def returning(self) -> str:
        if not self.chance(0.25):
            return ""
        return f" RETURNING {self.pick('ALL', 'MODIFIED')} {self.pick('OLD', 'NEW')} {'*' if self.chance(0.97) else 'n'}"

    # ---- clauses

    def where(self, index: bool = False) -> str:
        if self.chance(0.03):
            return ""
        terms = []
        if self.chance(0.9):
            hash_ = "g" if index else "pk"
            value = self.pick("'x'", "'y'") if index else self.key_value()
            terms.append(f"{hash_} = {value}" if self.chance(0.92) else self.pick(f"{value} = {hash_}", f"{hash_} IN [{value}, 'b']", f"{hash_} > {value}", f"({hash_} = {value} OR {hash_} = 'b')"))
        if self.is_sorted and self.chance(0.85):
            position = self.position()
            terms.append(f"sk = {position}" if self.chance(0.8) else self.pick(f"sk > {position}", f"{position} < sk", f"sk BETWEEN 0 AND {position}", f"sk <> {position}", f"sk IN ({position}, 1)", f"NOT sk = {position}", "sk = n"))
        terms += [self.condition() for _ in range(self.pick(0, 0, 0, 1, 1, 2))]
        return f" WHERE {self.pick(' AND ', ' and ').join(terms)}" if terms else ""

    def key_value(self) -> str:
        value = self.pick(*PARTITIONS, "d")
        if self.chance(0.08):
            self.parameters.append({"S": value})
            return "?"
        return f"'{value}'" if self.chance(0.97) else self.pick("''", "5", "null", "n", "['a']")

    def position(self) -> str:
        return str(self.pick(*POSITIONS, 3)) if self.chance(0.97) else self.pick("'x'", "null", "-1", "1.0")

    def condition(self, depth: int = 0) -> str:
        if depth < 2 and self.chance(0.3):
            return self.pick(
                lambda: f"({self.condition(depth + 1)} OR {self.condition(depth + 1)})",
                lambda: f"NOT {self.condition(depth + 1)}",
                lambda: f"({self.condition(depth + 1)})",
                lambda: f"({self.condition(depth + 1)} AND {self.condition(depth + 1)})",
                lambda: f"{self.condition(depth + 1)} OR {self.condition(depth + 1)}",
                lambda: f"({self.condition(depth + 1)}) = {self.pick('true', 'false', 't')}",
            )()
        return self.weighted(comparison=8, between=3, among=3, function=6, is_type=4, odd_condition=1)

    def comparison(self) -> str:
        operator = self.pick("=", "=", "<>", "!=", "<", "<=", ">", ">=")
        space = self.pick(" ", " ", "")
        return f"{self.operand()}{space}{operator}{space}{self.operand()}"

    def between(self) -> str:
        bounds = self.pick("0 AND 5", "1 AND 2", "'a' AND 'c'", "5 AND 1", "1 AND 'x'", f"{self.operand()} AND {self.operand()}")
        return f"{self.operand()}{self.pick('', ' NOT')} BETWEEN {bounds}"

    def among(self) -> str:
        members = ", ".join(self.operand() if self.chance(0.2) else self.value(0.01) for _ in range(self.pick(0, 1, 2, 2, 3)))
        return f"{self.path()}{self.pick('', ' NOT')} IN {self.pick(f'[{members}]', f'({members})', f'<<{members}>>')}"

    def function(self) -> str:
        path = self.path() if self.chance(0.93) else self.value(0.05)
        return self.pick(
            f"attribute_exists({path})",
            f"ATTRIBUTE_NOT_EXISTS({path})",
            f"attribute_type({path}, {self.pick(*[repr(kind) for kind in ('S', 'N', 'BOOL', 'M', 'L', 'NULL', 'SS')], repr('X'), '5')})",
            f"begins_with({path}, {self.pick(repr('a'), repr('st'), 's', '5')})",
            f"contains({path}, {self.pick(repr('a'), '1', 's', 'n')})",
            f"size({path}) {self.pick('=', '>', '<>')} {self.pick('1', '2', 'n')}",
        )

    def is_type(self) -> str:
        kind = self.pick("NULL", "MISSING", "BOOL", "BOOLEAN", "STRING", "NUMERIC", "LIST", "STRUCT", "TUPLE", "BLOB") if self.chance(0.93) else self.pick("INT", "BAG", "FOO", "DECIMAL")
        return f"{self.path()} IS {self.pick('', 'NOT ')}{kind}"

    def odd_condition(self) -> str:
        return self.pick("t", "true", "n", "size(s)", "n + 1 = 2", "n-1 = 0", "foo(n)", "s LIKE 'a%'", "-n = 1", "n = MISSING", "EXISTS(n)", "if_not_exists(n, 1) = 1", "(1, 2)", "n = n", "count = 1", "m.inner = 1", "n > n")

    # ---- operands

    def operand(self) -> str:
        if self.chance(0.5):
            return self.path()
        return f"size({self.path()})" if self.chance(0.08) else self.value(0.02)

    def path(self) -> str:
        if self.chance(0.01):
            return self.pick("count", "a-b", "m.value", "l[-1]", "l[1.5]", "m[n]", "@n")
        if self.chance(0.25):
            return self.pick("m.x", "m.y", "m.y.w", "m['x']", 'm["x"]', "l[0]", "l[1]", "l[9]", "m.nope", "nope.x", "s.x", "l[2]")
        if self.chance(0.04):
            return self.pick("pk", "sk", "g", "l[2].k")
        name = self.pick(*ATTRIBUTES, "nope")
        return name if self.chance(0.9) else f'"{name}"'

    def value(self, faulty: float = 0.0) -> str:
        if self.chance(faulty):
            return self.pick("MISSING", "[n]", "{'a': 1, 'a': 2}", "{a: 1}", "<<>>", "<<1, 'a'>>", "<<1, 1.0>>", "<<'a', 'a'>>", "<<true>>", "1 + 1", "`1`", "[?]", "1e126", "12345678901234567890123456789012345678901", "n")
        if self.chance(0.08):
            self.parameters.append(self.pick({"S": "a"}, {"N": "1"}, {"BOOL": True}, {"L": [{"N": "1"}]}, {"SS": ["a"]}, {"M": {"x": {"N": "1"}}}))
            return "?"
        return self.weighted(text=6, number=8, flag=2, list_=2, tuple_=2, bag=1)

    def text(self) -> str:
        return self.pick("'a'", "'b'", "'str'", "'q'", "''", "'it''s'", "'two'")

    def number(self) -> str:
        return self.pick("0", "1", "2", "5", "-1", "- 1", "1.5", ".5", "1e2", "1.50", "-2.5", "+1", "2.")

    def flag(self) -> str:
        return self.pick("true", "FALSE", "null", "NULL")

    def list_(self) -> str:
        return f"[{', '.join(self.pick(self.text(), self.number()) for _ in range(self.pick(0, 1, 2)))}]"

    def tuple_(self) -> str:
        names = self.random.sample(["x", "y", "w"], self.pick(0, 1, 2))
        members = ", ".join(f"'{name}': {self.pick(self.text(), self.number())}" for name in names)
        return f"{{{members}}}"

    def bag(self) -> str:
        return "<<" + ", ".join(self.random.sample(["'a'", "'b'", "'c'"] if self.chance(0.5) else ["1", "2", "3"], self.pick(1, 2))) + ">>"

    # ---- faults

    def damaged(self, text: str) -> str:
        """The statement with a token left out, twice, in another place, or one more."""
        tokens = re.findall(r"'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_$][\w$]*|\d[\w.]*|<<|>>|<>|[<>!]=|\S", text)
        if not tokens:
            return text
        place = self.random.randrange(len(tokens))
        kind = self.random.randrange(4)
        if kind == 0:
            del tokens[place]
        elif kind == 1:
            tokens.insert(place, tokens[place])
        elif kind == 2:
            tokens[place], tokens[place - 1] = tokens[place - 1], tokens[place]
        else:
            tokens.insert(place, self.pick("(", ")", ",", "NOT", "AND", "=", "-", "n", "'a'", "1", "[", "WHERE", "#", "value"))
        return " ".join(tokens)
