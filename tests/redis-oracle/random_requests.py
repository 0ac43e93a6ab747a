"""Indexes with documents, and requests about them, at random by a seed."""

from __future__ import annotations

import json
import random
import re
import struct
from dataclasses import dataclass, field

from record import WORDS, random_circle, random_place, random_query, random_text, random_word
from replies import Command

SCORERS = ["TFIDF", "TFIDF.DOCNORM", "BM25", "BM25STD", "DISMAX", "DOCSCORE"]
TAGS = ["red", "Red", "light blue", "blue", "green", "red,blue", "x"]
REDUCERS = ["COUNT 0", "SUM 1 @n", "MIN 1 @n", "MAX 1 @n", "AVG 1 @n", "AVG 1 @m", "COUNT_DISTINCT 1 @s", "COUNT_DISTINCTISH 1 @n", "STDDEV 1 @n",
            "TOLIST 1 @s", "FIRST_VALUE 3 @s BY @n", "FIRST_VALUE 4 @s BY @n DESC", "FIRST_VALUE 4 @n BY @s ASC", "SUM 1 @m", "MAX 1 @m",
            "QUANTILE 2 @n 0.5", "QUANTILE 2 @n 0.9", "COUNT_DISTINCT 1 @m", "TOLIST 1 @n", "MIN 1 @s", "STDDEV 1 @m"]  # fmt: skip
DIMENSIONS = 4
# What people write and paste into search boxes.
HUMAN_TEXT = ["O'Neil", "doesn't", "dogs' bone", "L'Oréal", "'tis", "d'or", "rock 'n' roll", "it's the dog's", "o''neil", "'", "say \"hello\"", "\"", "5\" disk",
              "naïve café", "東京 タワー", "привет, мир", "hello 😀", "👩‍👩‍👧", "😀", "https://example.com/a?b=c&d=1#e", "www.example.com/hello", "me@example.com",
              "hello.world@b", "C++", "C#", "AT&T", "R&D 50%", "(hello", "hello)", "hello!", "what? hello", "a/b", "hello-world", "hello - world", "snake_case",
              "#hello", "$5.00", "50% off", "1,000", "3.14", "-5", "+49 30 123456", "12:30", "[1]", "{x}", "<b>hello</b>", "a=b", "a|b", "a\\b", "~/hello", "*", "**",
              "hel*lo", "...", "hello,world", "hello;world", "", " ", "\t", "x" * 300, "hello " * 40, "a" * 2000, "«hello»", "“hello”", "‘hello’", "don’t", "№5"]  # fmt: skip
# The types of vectors that version 2.10 of the original has, and how Python packs their components.
VECTOR_TYPES = {"FLOAT32": "f", "FLOAT64": "d", "FLOAT16": "e"}


@dataclass
class Index:
    """What classes of differences and requests depend on."""

    is_json: bool
    # The type of the components of field `v`, or none if there is no such field.
    vectors: str | None
    keys: list[str]
    has_several_values: bool = False
    has_shapes: bool = False
    is_spherical: bool = False
    has_missing: bool = False
    # Whether vectors have a graph, over which the original finds nearly all of a range.
    has_graph: bool = False
    # Whether a field has WITHSUFFIXTRIE: there 2.10 takes patterns from that field's words alone.
    has_suffixes: bool = False
    # Whether documents have gone or changed since they were written.
    has_changed: bool = False
    # The shapes of documents, by key.
    shapes: dict[str, str] = field(default_factory=dict)


# ---- Definitions


def vector(choice: random.Random, component: str) -> bytes:
    return struct.pack(f"<{DIMENSIONS}{VECTOR_TYPES[component]}", *(choice.uniform(-1, 1) for _ in range(DIMENSIONS)))


def random_words(choice: random.Random, has_sounds: bool) -> str:
    """With a word that counts: the score of a document without one is infinite at 2.10. Where words have sounds, none is so short
    that it has that of the word before it, as it has there."""
    text = ""
    while not set(re.findall(r"\w+", text)) - {"the", "of", "foo"}:
        text = random_text(choice)
    return re.sub(r"\b\w{1,2}\b", "words", text) if has_sounds else text


def random_shape(choice: random.Random, is_spherical: bool) -> str:
    """A point or a rectangle, of which some share corners and sides."""
    scale = 0.01 if is_spherical else 1
    x, y, width, height = (round(choice.randrange(low, high) * scale, 2) for low, high in ((-8, 8), (-8, 8), (1, 9), (1, 9)))
    if choice.random() < 0.3:
        return f"POINT({x} {y})"
    right, top = round(x + width, 2), round(y + height, 2)
    return f"POLYGON(({x} {y}, {x} {top}, {right} {top}, {right} {y}, {x} {y}))"


def definition(choice: random.Random) -> tuple[Index, list[Command]]:
    """An index, and the requests that make it and its documents."""
    is_json, has_vectors = choice.random() < 0.3, choice.random() < 0.5
    component = choice.choice(list(VECTOR_TYPES)[: 2 if is_json else 3]) if has_vectors else None
    several = is_json and choice.random() < 0.3
    has_missing, has_shapes, is_spherical = choice.random() < 0.4, choice.random() < 0.4, choice.random() < 0.3
    missing = ["INDEXMISSING"] if has_missing else []
    sortable = choice.choice([[], ["SORTABLE"], ["SORTABLE", "UNF"]])
    declared = {
        "t": ["TEXT", *choice.choice([[], ["WEIGHT", "2"], ["PHONETIC", "dm:en"], ["WITHSUFFIXTRIE"]])],
        "b": ["TEXT", *choice.choice([[], ["WEIGHT", "3"]])],
        "s": ["TAG", *([] if is_json else sortable)],
        "g": ["TAG", *choice.choice([[], ["SEPARATOR", ";"]]), *choice.choice([[], ["CASESENSITIVE"], ["WITHSUFFIXTRIE"]])],
        "n": ["NUMERIC", "SORTABLE"],
        "m": ["NUMERIC", *missing, *choice.choice([[], ["SORTABLE"]])],
        "l": ["GEO"],
    }
    if is_json and "SEPARATOR" in declared["g"]:
        declared["g"] = ["TAG"]
    has_graph = False
    if component:
        algorithm, extra = choice.choice([("FLAT", []), ("FLAT", []), ("HNSW", ["M", "16", "EF_RUNTIME", "200"])])
        words = ["TYPE", component, "DIM", str(DIMENSIONS), "DISTANCE_METRIC", choice.choice(["L2", "COSINE", "IP"]), *extra]
        has_graph = algorithm == "HNSW"
        declared["v"] = ["VECTOR", algorithm, str(len(words)), *words]
    if has_shapes:
        declared["p"] = ["GEOSHAPE", "SPHERICAL" if is_spherical else "FLAT"]
    path = {"g": "$.g[*]"} if several else {}
    schema = [word for name, words in declared.items() for word in [*([path.get(name, f"$.{name}"), "AS", name] if is_json else [name]), *words]]
    options = choice.choice([[], ["STOPWORDS", "1", "foo"], ["SCORE", "0.5"], ["FILTER", "@n>1"], ["SCORE_FIELD", "$.w" if is_json else "w"]])
    commands: list[Command] = [["FLUSHALL"], ["FT.CREATE", "i", "ON", "JSON" if is_json else "HASH", "PREFIX", "1", "d:", *options, "SCHEMA", *schema]]
    if choice.random() < 0.3:
        commands.append(["FT.SYNUPDATE", "i", "g1", *choice.sample([word for word in WORDS if word.isascii()], 3)])
    if choice.random() < 0.3:
        commands += [["FT.DICTADD", "known", "hellx", "worlx"], ["FT.DICTADD", "unknown", "hello", "bar"]]
    # A word of two letters has the sound of the one before it at the original.
    has_sounds = "PHONETIC" in declared["t"]
    keys = [f"d:{number:03}" for number in range(choice.choice([5, 30, 80]))]
    index = Index(is_json, component, keys, several, has_shapes, is_spherical, has_missing, has_graph, "WITHSUFFIXTRIE" in declared["t"])
    for key in keys:
        commands.append(document(choice, index, key, has_sounds))
    if choice.random() < 0.2:
        index.has_changed = True
        there = set(keys)
        for _ in range(10):
            commands.append(change(choice, index, choice.choice(sorted(there)), has_sounds))
            if commands[-1][0] == "DEL" and len(there) > 1:
                there.remove(commands[-1][1])
    index.shapes = shapes_of(commands)
    return index, commands


def shapes_of(commands: list[Command]) -> dict[str, str]:
    """The shapes that documents have after these requests."""
    shapes: dict[str, str] = {}
    for name, key, *given in (command for command in commands if len(command) > 1):
        fields = dict(zip(given[::2], given[1::2])) if name == "HSET" else json.loads(given[1]) if name == "JSON.SET" and given[0] == "$" else {}
        if name in ("DEL", "JSON.SET") and given[:1] in ([], ["$"]):
            shapes.pop(key, None)
        if "p" in fields:
            shapes[key] = fields["p"]
    return shapes


def document(choice: random.Random, index: Index, key: str, has_sounds: bool) -> Command:
    said = choice.choice(HUMAN_TEXT) if choice.random() < 0.2 and not has_sounds else random_text(choice)
    fields: dict[str, object] = {"t": random_words(choice, has_sounds), "b": said, "s": choice.choice(WORDS), "g": choice.choice(TAGS)}
    if index.has_several_values:
        fields["g"] = choice.sample(TAGS[:-2], choice.randrange(1, 4))
    fields["n"] = choice.choice([1, 2.5, 3, 7, 9])
    fields["l"] = ",".join(map(str, random_place(choice)))
    fields["w"] = choice.choice([0.25, 0.5, 1])
    if choice.random() < 0.5:
        fields["m"] = choice.randrange(5)
    if index.has_shapes and choice.random() < 0.8:
        fields["p"] = random_shape(choice, index.is_spherical)
    if index.vectors and choice.random() < 0.9:
        blob = vector(choice, index.vectors)
        # With few digits, as version 2.8 of the original's JSON reads more of them as another number.
        numbers = struct.unpack(f"<{DIMENSIONS}{VECTOR_TYPES[index.vectors]}", blob)
        fields["v"] = [round(number, 3) for number in numbers] if index.is_json else blob
    if index.is_json:
        return ["JSON.SET", key, "$", json.dumps(fields)]
    return ["HSET", key, *(value if isinstance(value, bytes) else str(value) for pair in fields.items() for value in pair)]


def change(choice: random.Random, index: Index, key: str, has_sounds: bool) -> Command:
    if choice.random() < 0.5:
        return document(choice, index, key, has_sounds)
    if choice.random() < 0.4:
        return ["DEL", key]
    if index.is_json:
        return choice.choice([["JSON.NUMINCRBY", key, "$.n", "1"], ["JSON.DEL", key, "$.m"], ["JSON.SET", key, "$.t", '"zebra hello"', "XX"]])
    return choice.choice([["HINCRBYFLOAT", key, "n", "1"], ["HDEL", key, "m"], ["HSET", key, "t", "zebra hello", "n", "4"]])


# ---- Expressions


def random_number_of(choice: random.Random, depth: int) -> str:
    if depth == 0:
        return choice.choice(["@n", "@n", "@m", "2", "3", "0.5", "10", "@d", "@n", "2", choice.choice(["-inf", "+inf", "- 5", "-0.5", "NULL"])])
    inner = lambda: random_number_of(choice, depth - 1)  # noqa: E731
    kind = choice.randrange(9)
    if kind < 4:
        return f"({inner()}{choice.choice('+-*/%^')}{inner()})"
    if kind == 4:
        return f"{choice.choice(['abs', 'floor', 'ceil', 'sqrt', 'log', 'log2', 'exp'])}({inner()})"
    if kind == 5:
        return f"strlen({random_text_of(choice, depth - 1)})"
    if kind == 6:
        moment = choice.choice(["minute", "hour", "day", "month", "monthofyear", "year", "dayofmonth", "dayofweek", "dayofyear"])
        return f"{moment}(@n*{choice.choice(['100', '12345', '1000000', '86400', '100000000'])})"
    if kind == 7:
        return choice.choice(["geodistance(@l,\"13.4,52.5\")", "geodistance(@l,13.4,52.5)", "geodistance(\"1,2\",@l)"])
    return f"to_number({choice.choice(['@n', chr(34) + '12' + chr(34), '@m'])})"


def random_text_of(choice: random.Random, depth: int) -> str:
    if depth == 0:
        return choice.choice(["@s", "@s", "@g", "\"abc\"", "\"a b\"", "@t"])
    inner = lambda: random_text_of(choice, depth - 1)  # noqa: E731
    return choice.choice([
        f"upper({inner()})", f"lower({inner()})", f"substr({inner()},{choice.randrange(-4, 5)},{choice.randrange(-3, 6)})",
        f"format(\"%s-%s\",{inner()},{random_number_of(choice, 0)})", f"to_str({random_number_of(choice, depth - 1)})",
        f"timefmt(@n*{choice.choice(['100000', '86400', '31536000'])})", "timefmt(@n*86400,\"%Y/%m/%d %H:%M\")",
        inner(),
    ])  # fmt: skip


def random_truth(choice: random.Random, depth: int) -> str:
    if depth > 0:
        first, second = random_truth(choice, depth - 1), random_truth(choice, depth - 1)
        return choice.choice([f"({first}&&{second})", f"({first}||{second})", f"!({first})"])
    return choice.choice([
        f"@n{choice.choice(['==', '!=', '<', '<=', '>', '>='])}{choice.randrange(9)}", f"@s{choice.choice(['==', '!=', '<', '>'])}\"help\"",
        "exists(@m)", "!exists(@m)", "startswith(@s,\"ze\")", "contains(@s,\"a\")", "@n==@m", "@n>@m", "@s==@g", "@n", "!@n",
    ])  # fmt: skip


def random_expression(choice: random.Random) -> str:
    make = choice.choice([random_number_of, random_number_of, random_text_of, random_truth])
    expression = make(choice, choice.randrange(3))
    return choice.choice([expression, expression, "split(@s,\"a\")", "split(\"a,b;c\",\",;\")", "parsetime(\"2020-01-02\",\"%Y-%m-%d\")"])


# ---- Requests


def random_simple(choice: random.Random) -> str:
    return choice.choice([
        random_word(choice), "@t:" + random_word(choice), f"@n:[{choice.randrange(5)} {choice.randrange(4, 12)}]", "*",
        f"@n{choice.choice(['==', '!=', '<', '<=', '>', '>='])}{choice.choice(['3', '2.5', '7'])}", "@g:{red}", "@g:{re*|green}", "@s:{hel*}", "@s:{w'h*l?'}",
    ])  # fmt: skip


def random_pattern(choice: random.Random) -> str:
    """Patterns of words and of TAG values, and attributes."""
    word = random_word(choice)
    return choice.choice([
        f"w'{word[0]}*{word[-1]}'", f"w'{word[:2]}?*'", f"@t:w'*{word[1:3]}*'", f"@s:{{*{word[-2:]}}}", f"@s:{{*{word[1:3]}*}}", f"%%%{word}%%%",
        f"@t:({word[:3]}*)", f"@s:{{{word}}}=>{{$weight:3}} {random_word(choice)}", f"-{word[:2]}*", f"@t|b:({word[:3]}* | {random_word(choice)})",
        f"({word} {random_word(choice)})=>{{$slop:3;$inorder:{choice.choice(['true', 'false'])}}}", f"{word}=>{{$phonetic:false}}",
        f"\"{word} {random_word(choice)}\"=>{{$weight:2}}", f"@g:{{{word}|red}} @n:[(1 +inf]", f"@n:[-inf (7] | @m:[2 2]", f"'{word}'", f"@s:{{\"{word}\"}}",
    ])  # fmt: skip


def request(choice: random.Random, index: Index) -> Command:
    command = asked(choice, index)
    dice = choice.random()
    if dice < 0.03:
        return mistaken_words(choice, command)
    if dice < 0.07 and command[0] in ("FT.SEARCH", "FT.AGGREGATE", "FT.EXPLAIN"):
        return [*command[:2], mistaken_text(choice, command[2]), *command[3:]]
    return command


def mistaken_words(choice: random.Random, command: Command) -> Command:
    """A word less, another one, or two that have changed places."""
    command = list(command)
    at = choice.randrange(3, len(command)) if len(command) > 3 else len(command) - 1
    kind = choice.randrange(4)
    if kind == 0 or at == 0:
        del command[at]
    elif kind == 1:
        command[at] = choice.choice(["x", "0", "-1", "3", "1.5", "@n", "*", "", "AS", "ASC", "nan", "99999999999999999999"])
    elif kind == 2:
        command.insert(at, choice.choice(["x", "0", "WITHSCORES", "@s", "LIMIT", "NOCONTENT", "VERBATIM"]))
    else:
        command[at], command[at - 1] = command[at - 1], command[at]
    return command


def mistaken_text(choice: random.Random, text: str) -> str:
    """A letter less or more."""
    at = choice.randrange(len(text) + 1)
    if choice.random() < 0.5:
        return text[:at] + text[at + 1 :]
    return text[:at] + choice.choice("()|{}[]\"-~@:*%$=>;' \\w0") + text[at:]


def asked(choice: random.Random, index: Index) -> Command:
    kind = choice.randrange(20)
    if kind >= 18 and not index.vectors or kind == 17 and not index.has_shapes:
        kind -= 11
    if choice.random() < 0.12:
        return random_human(choice)
    query = random_query(choice, 2) if choice.random() < 0.4 else random_pattern(choice) if choice.random() < 0.4 else random_simple(choice)
    dialect = ["DIALECT", choice.choice("22334412")]
    whole = ["LIMIT", "0", "1000", *dialect]
    if kind < 4:
        return ["FT.SEARCH", "i", query, "NOCONTENT", "WITHSCORES", "SCORER", choice.choice(SCORERS), *whole]
    if kind == 4:
        options = choice.choice([["VERBATIM"], ["INKEYS", "3", *choice.sample(index.keys, 3)], ["INFIELDS", "1", "t"], ["INFIELDS", "2", "t", "b"],
                                 ["FILTER", "n", "1", "(7"], ["FILTER", "n", "-inf", "3", "FILTER", "m", "1", "+inf"], ["SLOP", "1"], ["SLOP", "2", "INORDER"],
                                 ["INORDER"], ["NOSTOPWORDS"], ["EXPANDER", "SYNONYM"], ["LANGUAGE", "english"], ["RETURN", "0"]])  # fmt: skip
        return ["FT.SEARCH", "i", query, *(["NOCONTENT"] if "RETURN" not in options else []), *options, *whole]
    if kind == 5:
        shown = choice.choice([["HIGHLIGHT"], ["SUMMARIZE", "LEN", str(choice.randrange(8))], ["SUMMARIZE", "FRAGS", str(choice.randrange(4)), "LEN", "3", "HIGHLIGHT"],
                               ["HIGHLIGHT", "FIELDS", "1", "t", "TAGS", "<b>", "</b>"], ["SUMMARIZE", "SEPARATOR", " | ", "LEN", "4"]])  # fmt: skip
        return ["FT.SEARCH", "i", random_simple(choice), "RETURN", "1", choice.choice("tb"), *shown, *whole]
    if kind in (6, 7):
        return random_computation(choice, whole)
    if kind in (8, 9):
        return random_groups(choice, whole)
    if kind == 10:
        return ["FT.EXPLAIN", "i", query, *dialect]
    if kind == 11:
        return random_words_request(choice)
    if kind == 12:
        by = ["SORTBY", choice.choice("snm"), choice.choice(["ASC", "DESC"])]
        returned = choice.choice([[], ["RETURN", "2", "n", "s"], ["RETURN", "3", "n", "AS", "number"], ["NOCONTENT"], ["RETURN", "4", "t", "b", "g", "m"]])
        limit = choice.choice([whole, whole, ["LIMIT", str(choice.randrange(6)), str(choice.randrange(1, 12)), *dialect]])
        return ["FT.SEARCH", "i", random_simple(choice), *by, "WITHSORTKEYS", *returned, *limit]
    if kind == 13:
        scorer = choice.choice(SCORERS)
        if scorer == "BM25STD" and dialect[1] == "4":
            # The original does not answer pages of these.
            dialect = ["DIALECT", "3"]
        return ["FT.SEARCH", "i", query, "NOCONTENT", "WITHSCORES", "SCORER", scorer, "LIMIT", str(choice.randrange(6)), str(choice.randrange(1, 12)), *dialect]
    if kind in (14, 15):
        return choice.choice([
            ["FT.SEARCH", "i", random_circle(choice), "NOCONTENT", *whole],
            ["FT.SEARCH", "i", f"({random_circle(choice)}|{random_simple(choice)})", "NOCONTENT", *whole],
            ["FT.SEARCH", "i", f"-{random_circle(choice)} {random_simple(choice)}", "NOCONTENT", *whole],
            ["FT.SEARCH", "i", random_simple(choice), "NOCONTENT", "GEOFILTER", "l", *random_circle(choice)[4:-1].split(), *whole],
            ["FT.SEARCH", "i", query, "LIMIT", "0", "0", *dialect],
            ["FT.TAGVALS", "i", choice.choice("gsn")],
            ["FT.SEARCH", "i", random_simple(choice), *whole],
            ["FT.SEARCH", "i", choice.choice(["ismissing(@m)", "-ismissing(@m)", "ismissing(@m) @t:hello", "ismissing(@n)"]), "NOCONTENT", *whole],
        ])  # fmt: skip
    if kind == 16:
        by = ["SORTBY", "2", choice.choice(["@n", "@s", "@m"]), choice.choice(["ASC", "DESC"]), *choice.choice([[], ["MAX", "3"], ["MAX", "100"]])]
        page = choice.choice([[], ["LIMIT", "2", "5"], ["LIMIT", "0", "20"]])
        return ["FT.AGGREGATE", "i", random_simple(choice), "LOAD", "3", "@n", "@s", "@m", *by, *page, *dialect]
    if kind == 17:
        relation = choice.choice(["WITHIN", "CONTAINS", "INTERSECTS", "DISJOINT"])
        condition = f"@p:[{relation} $shape]"
        text = choice.choice([condition, f"{condition} {random_simple(choice)}" if choice.random() < 0.7 else f"-{condition}", f"({condition}|@n:[3 7])"])
        return ["FT.SEARCH", "i", text, "PARAMS", "2", "shape", random_shape(choice, index.is_spherical), "NOCONTENT", "LIMIT", "0", "1000", "DIALECT", choice.choice("34")]
    filtered = choice.choice(["*", random_simple(choice), f"({random_simple(choice)})", "(@g:{red})", f"({random_circle(choice)})"])
    text = choice.choice([
        f"{filtered}=>[KNN {choice.randrange(1, 7)} @v $q AS distance]",
        f"{filtered}=>[KNN $k @v $q]=>{{$YIELD_DISTANCE_AS: distance}}",
        f"@v:[VECTOR_RANGE {choice.choice(['0.5', '1', '3'])} $q]=>{{$YIELD_DISTANCE_AS: distance}}",
        f"@v:[VECTOR_RANGE {choice.choice(['0.5', '1', '3'])} $q]=>{{$YIELD_DISTANCE_AS: distance}} {random_simple(choice)}",
    ])  # fmt: skip
    parameters = ["PARAMS", "4", "q", vector(choice, index.vectors), "k", str(choice.randrange(1, 9))]
    if choice.random() < 0.15:
        return ["FT.AGGREGATE", "i", text, *parameters, "APPLY", "@distance*2", "AS", "twice", "SORTBY", "2", "@distance", "ASC", *whole]
    order = choice.choice([[], ["SORTBY", "distance", choice.choice(["ASC", "ASC", "DESC"]), "WITHSORTKEYS"]])
    return ["FT.SEARCH", "i", text, *parameters, "RETURN", "1", "distance", *order, *whole]


def random_human(choice: random.Random) -> Command:
    """The text as it was written, alone, in a field, beside a word, or as a TAG value."""
    text = choice.choice(HUMAN_TEXT)
    query = choice.choice([text, text, text, f"@t:({text})", f"{text} {random_word(choice)}", f"{random_word(choice)} {text}", f"@s:{{{text}}}", f"-({text})", f"({text}|hello)"])
    dialect = ["DIALECT", choice.choice("1223")]
    if choice.random() < 0.3:
        return ["FT.EXPLAIN", "i", query, *dialect]
    return ["FT.SEARCH", "i", query, "NOCONTENT", "LIMIT", "0", "1000", *dialect]


def random_computation(choice: random.Random, whole: Command) -> Command:
    steps = ["APPLY", random_expression(choice), "AS", "r"]
    if choice.random() < 0.3:
        steps += ["FILTER", random_truth(choice, choice.randrange(2))]
    if choice.random() < 0.3:
        steps += ["APPLY", choice.choice(["@r", "exists(@r)", "format(\"%s\",@r)", "@r==@n", "@r>1"]), "AS", "q"]
    return ["FT.AGGREGATE", "i", random_simple(choice), "LOAD", "6", "@n", "@s", "@m", "@g", "@l", "@t", "APPLY", "@n*2", "AS", "d", *steps, *whole]


def random_groups(choice: random.Random, whole: Command) -> Command:
    by = choice.choice([["1", "@g"], ["1", "@s"], ["1", "@m"], ["2", "@g", "@n"], ["0"], ["1", "@half"]])
    before = ["LOAD", "2", "@n", "@m", "APPLY", "floor(@n/2)", "AS", "half"] if "@half" in by else []
    reducers = [word for number, reducer in enumerate(choice.sample(REDUCERS, 2)) for word in ["REDUCE", *reducer.split(), "AS", f"r{number}"]]
    is_plain = reducers[1] in ("COUNT", "SUM", "MIN", "MAX", "COUNT_DISTINCT", "STDDEV")
    after = [] if not is_plain else choice.choice([[], [], ["FILTER", "@r0>2"], ["APPLY", "@r0*2", "AS", "twice"], ["GROUPBY", "1", "@r0", "REDUCE", "COUNT", "0", "AS", "c"]])
    order = choice.choice([[], ["SORTBY", "2", "@r0", choice.choice(["ASC", "DESC"])]]) if is_plain and not after else []
    return ["FT.AGGREGATE", "i", random_simple(choice), *before, "GROUPBY", *by, *reducers, *after, *order, *whole]


def random_words_request(choice: random.Random) -> Command:
    word = random_word(choice)
    at = choice.randrange(len(word))
    wrong = word[:at] + choice.choice("aeq") + word[at + 1 :]
    return choice.choice([
        ["FT.SPELLCHECK", "i", wrong, "DISTANCE", choice.choice("12")],
        ["FT.SPELLCHECK", "i", f"{wrong} {word} @b:{word}", "DISTANCE", "1"],
        ["FT.SPELLCHECK", "i", wrong, "DISTANCE", "1", "TERMS", "INCLUDE", "known"],
        ["FT.SPELLCHECK", "i", wrong, "DISTANCE", "1", "TERMS", "EXCLUDE", "unknown"],
        ["FT.DICTDUMP", "known"],
        ["FT.SYNDUMP", "i"],
    ])  # fmt: skip
