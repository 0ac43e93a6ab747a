// What the pad makes of typed FQL is what FaunaDB's own driver makes of the same text.
import assert from "node:assert/strict";
import { test } from "node:test";
import faunadb from "faunadb";
import { readFileSync } from "node:fs";

// Beside the page's modules no package says that they are modules, so they are given to Node by their text.
const address = (text) => "data:text/javascript," + encodeURIComponent(text);
const source = (name) => readFileSync(new URL("../../../console/" + name, import.meta.url), "utf8");
const exact = address(source("exact.js"));
const { functionNames, shownExpression, shownValue, toWire } = await import(address(source("fql.js").replace("./exact.js", exact)));
const q = faunadb.query;
const names = Object.keys(q).filter((name) => /^[A-Z]/.test(name));
const plain = (value) => JSON.parse(JSON.stringify(value));

/** The driver's reading: its functions are called with what JavaScript makes of the text. */
const byDriver = (text) => plain(q.wrap(new Function("q", ...names, `return ${text}`)(q, ...names.map((name) => q[name]))));

const TEXTS = String.raw`
Create(Collection("spells"), { data: { name: "Fire", cost: -3, on: true, none: null } })
Map(Paginate(Documents(Collection("spells")), { size: 5, after: [Ref(Collection("spells"), "1")] }), Lambda("x", Get(Var("x"))))
q.Map([1,2,3], x => q.Add(x, 1))
Map([[1,2]], (a, b) => Multiply(a, b))
Let({ a: 1, b: Add(Var("a"), 1) }, [Var("a"), Var("b")])
Let([{ a: 1 }, { b: 2 }], Var("b"))
If(Exists(Ref(Collection("c"), "1")), "yes", "no")
Do(Now(), 1)
Do(1)
Match(Index("i"))
Match(Index("i"), "a")
Match(Index("i"), "a", 2)
Union(Match(Index("i"), 1), Match(Index("i"), 2))
Union([1,2])
Call(Function("f"), 1, 2)
Call(Function("f"))
Select(["data", "x"], Get(Ref(Collection("c"), "1")), "none")
Reduce((acc, x) => Add(acc, x), 0, [1,2])
Filter([1,2], function (x) { return GT(x, 1); })
At(Time("2020-01-01T00:00:00Z"), Paginate(Collections()))
Merge({ a: 1 }, { b: 2 })
Range(Match(Index("i")), 1, [])
Collection("c", Database("d"))
CreateFunction({ name: "f", body: Query(Lambda("x", Var("x"))) })
Format("%s", "a")
Identity()
NewId()
CreateKey({ database: Database("d"), role: "admin" })
Equals(1, 1, 1)
Not(true)
Concat(["a","b"], "-")
TimeAdd(Now(), 1, "day")
Insert(Ref(Collection("c"), "1"), Now(), "create", { data: {} })
Update(Ref(Collection("c"), "1"), { data: { a: null } })
Join(Match(Index("a")), Index("b"))
Join(Match(Index("a")), x => Match(Index("b"), x))
Bytes("AQI=")
Count(Documents(Collection("c")))
Abort("x")
Take(2,[1,2,3])
NGram("abc", 1, 2)
Round(1.234, 2)
Lambda((a,b)=>[b,a])
Date("2020-01-01")
Databases()
Keys()
ToString(1)
Trunc(1.5)
Pow(2,3)
`.trim().split("\n");

test("the parser knows every function of the driver", () => {
  assert.deepEqual(names.filter((name) => !functionNames.includes(name)), []);
});

for (const text of TEXTS) {
  test(text, () => {
    const [wire] = toWire(text);
    assert.deepEqual(plain(wire), byDriver(text));
    assert.deepEqual(toWire(shownExpression(plain(wire))), [plain(wire)]);
  });
}

test("several statements, remarks and commas at the end", () => {
  assert.deepEqual(toWire("// one\nNow()\n/* two */ Add(1, 2,); 'three'"), [{ now: null }, { add: [1, 2] }, "three"]);
});

test("the wire's own JSON is taken as it is", () => {
  assert.deepEqual(toWire('{"add": [1, 2]}'), [{ add: [1, 2] }]);
});

test("what is no FQL is refused with its place, and nothing is run", () => {
  for (const [text, error] of [
    ["Foo(1)", /line 1, column 1: there is no function Foo/],
    ["Create(", /missing at the end/],
    ["Add(1 2)", /column 7: expected ","/],
    ["Add(1,\n  x)", /line 2, column 3: nothing is called x/],
    ["window.alert(1)", /expected the end/],
    ["Get(constructor)", /nothing is called constructor/],
    ["toString()", /there is no function toString/],
    ["Map([1], x => { alert(1) })", /expected "return"/],
    ["`${1}`", /template/],
    ["Get()", /takes 1 to 2 arguments, not 0/],
    ["(".repeat(5000), /nested too deeply/],
  ])
    assert.throws(() => toWire(text), error, text);
});

test("numbers that JavaScript would not keep are shown and written with their digits", () => {
  const shown = toWire("[9007199254740993, 1.0, -2.50, 1e3]", true)[0].map(String);
  assert.deepEqual(shown, ["9007199254740993", "1.0", "-2.5", "1e3"]);
  assert.deepEqual(toWire("[9007199254740993, 1.0]")[0].map(String), ["9007199254740993", "1"]);
  assert.equal(shownValue(toWire("{ a: -9007199254740993 }", true)[0].object), "{\n  a: -9007199254740993\n}");
});

test("values are shown as the shell shows them", () => {
  const ref = { "@ref": { id: "1", collection: { "@ref": { id: "spells", collection: { "@ref": { id: "collections" } } } } } };
  assert.equal(shownValue({ ref, ts: { "@ts": "2020-01-01T00:00:00Z" }, "odd name": [] }), '{\n  ref: Ref(Collection("spells"), "1"),\n  ts: Time("2020-01-01T00:00:00Z"),\n  "odd name": []\n}');
});
