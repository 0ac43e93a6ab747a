// FQL as people type it: the driver's functions in JavaScript's notation. It is read by a parser of its own and never run as
// JavaScript. What comes out is the JSON that goes over the wire.

import { Digits, number } from "./exact.js";

/** Functions by name: the names of their arguments on the wire, in order. `?` may be left out, `*` takes all that are left. */
const TABLE = `
Abort abort|Abs abs|AccessProvider access_provider|AccessProviders access_providers?|Acos acos|Add add*|All all|And and*|Any any|Append append collection|Asin asin|At at expr|Atan atan
BitAnd bitand*|BitNot bitnot|BitOr bitor*|BitXor bitxor*|Call call arguments*|Casefold casefold normalizer?|Ceil ceil|Class class scope?|Classes classes?|Collection collection scope?|Collections collections?
Concat concat separator?|Contains contains in|ContainsField contains_field in|ContainsPath contains_path in|ContainsStr containsstr search|ContainsStrRegex containsstrregex pattern|ContainsValue contains_value in|Cos cos|Cosh cosh|Count count
Create create params?|CreateAccessProvider create_access_provider|CreateClass create_class|CreateCollection create_collection|CreateDatabase create_database|CreateFunction create_function|CreateIndex create_index|CreateKey create_key|CreateRole create_role|Credentials credentials?
CurrentIdentity current_identity?|CurrentToken current_token?|Database database scope?|Databases databases?|Date date|DayOfMonth day_of_month|DayOfWeek day_of_week|DayOfYear day_of_year|Degrees degrees|Delete delete|Difference difference*|Distinct distinct|Divide divide*|Documents documents|Drop drop collection
EndsWith endswith search|Epoch epoch unit|Equals equals*|Events events|Exists exists ts?|Exp exp|Filter ,filter collection|FindStr findstr find start?|FindStrRegex findstrregex pattern start? num_results?|Floor floor|Foreach ,foreach collection|Format format values*|Function function scope?|Functions functions?
Get get ts?|GT gt*|GTE gte*|HasCurrentIdentity has_current_identity?|HasCurrentToken has_current_token?|HasIdentity has_identity?|Hour hour|Hypot hypot b?|Identify identify password|Identity identity?|If if then else|Index index scope?|Indexes indexes?|Insert insert ts action params|Intersection intersection*
IsArray is_array|IsBoolean is_boolean|IsBytes is_bytes|IsCollection is_collection|IsCredentials is_credentials|IsDatabase is_database|IsDate is_date|IsDoc is_doc|IsDouble is_double|IsEmpty is_empty|IsFunction is_function|IsIndex is_index|IsInteger is_integer|IsKey is_key|IsLambda is_lambda|IsNonEmpty is_nonempty|IsNull is_null|IsNumber is_number|IsObject is_object|IsRef is_ref|IsRole is_role|IsSet is_set|IsString is_string|IsTimestamp is_timestamp|IsToken is_token
Join join with|KeyFromSecret key_from_secret|Keys keys?|Length length|Ln ln|Log log|Login login params|Logout logout|LowerCase lowercase|LT lt*|LTE lte*|LTrim ltrim|Map ,map collection|Match match terms*|Max max*|Mean mean|Merge merge with lambda?|Min min*|Minute minute|Modulo modulo*|Month month|MoveDatabase move_database to|Multiply multiply*
NewId new_id?|NextId next_id?|NGram ngram min? max?|Not not|Now now?|Or or*|Pow pow exp?|Prepend prepend collection|Query query|Radians radians|Range range from to|Reduce reduce initial collection|RegexEscape regexescape|Remove remove ts action|Repeat repeat number?|Replace replace params|ReplaceStr replacestr find replace|ReplaceStrRegex replacestrregex pattern replace first?|Reverse reverse|Role role scope?|Roles roles?|Round round precision?|RTrim rtrim
Second second|Select select from default?|SelectAll select_all from|Sign sign|Sin sin|Singleton singleton|Sinh sinh|Space space|Sqrt sqrt|StartsWith startswith search|SubString substring start? length?|Subtract subtract*|Sum sum|Take take collection|Tan tan|Tanh tanh|Time time|TimeAdd time_add offset unit|TimeDiff time_diff other unit|TimeSubtract time_subtract offset unit|TitleCase titlecase
ToArray to_array|ToDate to_date|ToDouble to_double|ToInteger to_integer|Token token|Tokens tokens?|ToMicros to_micros|ToMillis to_millis|ToNumber to_number|ToObject to_object|ToSeconds to_seconds|ToString to_string|ToTime to_time|Trim trim|Trunc trunc precision?|Union union*|Update update params|UpperCase uppercase|Var var|Year year`;

/** Name to `{parameters: [{name, isOptional, isRest}], isTurned}`; turned: the second argument stands first on the wire. */
const FUNCTIONS = new Map(
  TABLE.trim()
    .split(/[|\n]/)
    .map((entry) => {
      const [name, ...words] = entry.split(" ");
      const isTurned = words[0].startsWith(",");
      const parameters = words.map((word) => ({ name: word.replace(/[,?*]/g, ""), isOptional: /\?$/.test(word), isRest: /\*$/.test(word) }));
      return [name, { parameters, isTurned }];
    }),
);

const SPECIAL = ["Bytes", "Do", "Lambda", "Let", "Object", "Paginate", "Ref", "SetRef"];

export const functionNames = [...FUNCTIONS.keys(), ...SPECIAL].sort();

const DEPTH_MAX = 400;

/** Where and why a text is no FQL. */
export class Unreadable extends Error {
  constructor(message, text, at) {
    const before = text.slice(0, at).split("\n");
    super(`line ${before.length}, column ${before.at(-1).length + 1}: ${message}`);
  }
}

// ---- from text to a tree

const TOKEN = /\s+|\/\/[^\n]*|\/\*[^]*?\*\/|(?<number>(?:0x[\da-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))|(?<name>[A-Za-z_$][\w$]*)|(?<string>"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|`(?:[^`\\]|\\[^])*`)|(?<sign>=>|\.\.\.|[()[\]{},:;.+-])/y;

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new Unreadable(`unexpected ${JSON.stringify(text[at])}`, text, at);
    const [kind, value] = Object.entries(match.groups).find(([, value]) => value !== undefined) ?? [];
    if (kind) found.push({ kind, value, at, isFirstOfLine: /\n/.test(text.slice(found.length ? found.at(-1).at + found.at(-1).value.length : 0, at)) });
  }
  found.push({ kind: "end", value: "the end", at: text.length, isFirstOfLine: true });
  return found;
}

function stringValue(written) {
  const escapes = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f", v: "\v", 0: "\0", "\n": "" };
  return written.slice(1, -1).replace(/\\(?:u\{([\da-fA-F]{1,6})\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|([^]))/g, (_, wide, four, two, sign) => {
    const code = wide ?? four ?? two;
    return code ? String.fromCodePoint(parseInt(code, 16)) : (escapes[sign] ?? sign);
  });
}

class Parser {
  constructor(text) {
    this.text = text;
    this.tokens = tokens(text);
    this.index = 0;
    this.depth = 0;
  }

  get next() {
    return this.tokens[this.index];
  }

  fail(message, token = this.next) {
    throw new Unreadable(message, this.text, token.at);
  }

  is(value, ahead = 0) {
    const token = this.tokens[Math.min(this.index + ahead, this.tokens.length - 1)];
    return token.kind !== "string" && token.value === value;
  }

  take(value) {
    if (!this.is(value)) return false;
    this.index++;
    return true;
  }

  expect(value) {
    if (!this.take(value)) this.fail(`expected ${JSON.stringify(value)}, found ${this.next.kind === "end" ? "the end" : JSON.stringify(this.next.value)}`);
  }

  statements() {
    const list = [];
    while (this.next.kind !== "end") {
      if (this.take(";")) continue;
      if (list.length > 0 && !this.is(";", -1) && !this.next.isFirstOfLine) this.fail("expected the end of the statement");
      list.push(this.expression());
    }
    return list;
  }

  expression() {
    if (++this.depth > DEPTH_MAX) this.fail("nested too deeply");
    const parsed = this.isArrow() ? this.arrow() : this.is("function") ? this.oldFunction() : this.operand();
    this.depth--;
    return parsed;
  }

  isArrow() {
    if (this.next.kind === "name" && this.is("=>", 1)) return true;
    if (!this.is("(")) return false;
    let ahead = 1;
    while (!this.is(")", ahead)) {
      const token = this.tokens[this.index + ahead];
      if (!token || (token.kind !== "name" && token.value !== ",")) return false;
      ahead++;
    }
    return this.is("=>", ahead + 1);
  }

  parameters() {
    const names = [];
    this.expect("(");
    while (!this.take(")")) {
      if (this.next.kind !== "name") this.fail("expected a parameter's name");
      names.push(this.tokens[this.index++].value);
      if (!this.is(")")) this.expect(",");
    }
    return names;
  }

  arrow() {
    const at = this.next;
    const names = this.next.kind === "name" ? [this.tokens[this.index++].value] : this.parameters();
    this.expect("=>");
    if (!this.is("{")) return { kind: "function", names, body: this.expression(), at };
    return { kind: "function", names, body: this.block(), at };
  }

  oldFunction() {
    const at = this.next;
    this.index++;
    if (this.next.kind === "name") this.index++;
    const names = this.parameters();
    return { kind: "function", names, body: this.block(), at };
  }

  block() {
    this.expect("{");
    this.expect("return");
    const body = this.expression();
    this.take(";");
    this.expect("}");
    return body;
  }

  operand() {
    const token = this.tokens[this.index++];
    switch (token.kind) {
      case "number":
        return { kind: "value", value: Number(token.value), written: token.value, at: token };
      case "string":
        if (token.value[0] === "`" && token.value.includes("${")) this.fail("a template with ${…} is not FQL: use Concat or Format", token);
        return { kind: "value", value: stringValue(token.value), at: token };
      case "name":
        return this.named(token);
      case "end":
        return this.fail("something is missing at the end", token);
    }
    if (token.value === "(") {
      const inner = this.expression();
      this.expect(")");
      return inner;
    }
    if (token.value === "[") return { kind: "array", elements: this.list("]"), at: token };
    if (token.value === "{") return this.object(token);
    if ((token.value === "-" || token.value === "+") && this.next.kind === "number") {
      const operand = this.operand();
      return token.value === "-" ? { ...operand, value: -operand.value, written: "-" + operand.written, at: token } : operand;
    }
    return this.fail(`unexpected ${JSON.stringify(token.value)}`, token);
  }

  named(token) {
    const constants = { true: true, false: false, null: null, undefined: undefined };
    if (Object.hasOwn(constants, token.value)) return { kind: "value", value: constants[token.value], at: token };
    let name = token;
    // `q.Create` and `faunadb.query.Create` mean Create.
    while (this.is(".") && /^(q|query|faunadb|fauna|values)$/.test(name.value)) {
      this.index++;
      name = this.tokens[this.index++];
      if (name.kind !== "name") this.fail("expected a name", name);
    }
    if (this.is("(")) {
      this.index++;
      return { kind: "call", name: name.value, given: this.list(")"), at: name };
    }
    return { kind: "name", name: name.value, at: name };
  }

  list(end) {
    const elements = [];
    while (!this.take(end)) {
      elements.push(this.expression());
      if (!this.is(end)) this.expect(",");
    }
    return elements;
  }

  object(at) {
    const entries = [];
    while (!this.take("}")) {
      const token = this.tokens[this.index++];
      if (!["name", "string", "number"].includes(token.kind)) this.fail("expected the name of a field", token);
      const key = token.kind === "string" ? stringValue(token.value) : token.value;
      if (token.kind === "name" && (this.is(",") || this.is("}"))) entries.push([key, { kind: "name", name: key, at: token }]);
      else {
        this.expect(":");
        entries.push([key, this.expression()]);
      }
      if (!this.is("}")) this.expect(",");
    }
    return { kind: "object", entries, at };
  }
}

// ---- from the tree to the wire

class Writer {
  constructor(text, isExact) {
    this.text = text;
    this.isExact = isExact;
  }

  fail(message, node) {
    throw new Unreadable(message, this.text, node.at.at);
  }

  /** `scope` has the names of the functions around. */
  wire(node, scope = []) {
    switch (node.kind) {
      case "value":
        return this.value(node);
      case "array":
        return node.elements.map((element) => this.wire(element, scope));
      case "object":
        return { object: this.fields(node, scope) };
      case "function":
        return this.lambda(node, scope);
      case "name":
        if (!scope.includes(node.name)) this.fail(FUNCTIONS.has(node.name) ? `${node.name} is a function: ${node.name}(…)` : `nothing is called ${node.name}`, node);
        return { var: node.name };
      default:
        return this.call(node, scope);
    }
  }

  /** JavaScript knows one kind of number, so what is typed as `1.0` is the integer 1 unless it is to be exact. */
  value({ value, written }) {
    if (typeof value !== "number") return value ?? null;
    return this.isExact || Number.isInteger(value) && !Number.isSafeInteger(value) ? number(written, value) : value;
  }

  fields(node, scope) {
    const present = node.entries.filter(([, value]) => !(value.kind === "value" && value.value === undefined));
    return Object.fromEntries(present.map(([key, value]) => [key, this.wire(value, scope)]));
  }

  lambda({ names, body }, scope) {
    return { lambda: names.length === 1 ? names[0] : names, expr: this.wire(body, [...scope, ...names]) };
  }

  call(node, scope) {
    const { name, given } = node;
    if (SPECIAL.includes(name)) return this["write" + name](node, scope);
    const known = FUNCTIONS.get(name);
    if (!known) this.fail(`there is no function ${name}`, node);
    const { parameters, isTurned } = known;
    const values = given.map((argument) => this.wire(argument, scope));
    const least = parameters.filter((parameter) => !parameter.isOptional && !parameter.isRest).length;
    const most = parameters.at(-1).isRest ? Infinity : parameters.length;
    if (values.length < least || values.length > most) {
      const wanted = least === most ? least : most === Infinity ? `at least ${least}` : `${least} to ${most}`;
      this.fail(`${name} takes ${wanted} arguments, not ${values.length}`, node);
    }
    if (isTurned) values.reverse();
    const written = {};
    parameters.forEach((parameter, index) => {
      if (parameter.isRest) {
        const rest = values.slice(index);
        written[parameter.name] = rest.length === 1 ? rest[0] : rest;
      } else if (index < values.length) written[parameter.name] = values[index];
      else if (index === 0) written[parameter.name] = null;
    });
    return written;
  }

  count(node, least, most) {
    const number = node.given.length;
    if (number < least || number > most) this.fail(`${node.name} takes ${least === most ? least : `${least} to ${most}`} arguments, not ${number}`, node);
  }

  writeRef(node, scope) {
    this.count(node, 1, 2);
    const [first, second] = node.given.map((argument) => this.wire(argument, scope));
    return second === undefined ? { "@ref": first } : { ref: first, id: second };
  }

  writeSetRef(node, scope) {
    this.count(node, 1, 1);
    return { "@set": this.wire(node.given[0], scope) };
  }

  writeBytes(node, scope) {
    this.count(node, 1, 1);
    return { "@bytes": this.wire(node.given[0], scope) };
  }

  writeDo(node, scope) {
    this.count(node, 1, Infinity);
    return { do: node.given.map((argument) => this.wire(argument, scope)) };
  }

  writeObject(node, scope) {
    this.count(node, 1, 1);
    return this.wire(node.given[0], scope);
  }

  writeLambda(node, scope) {
    this.count(node, 1, 2);
    const [first, body] = node.given;
    if (body === undefined) {
      if (first.kind !== "function") this.fail("Lambda takes a function, or names and an expression", node);
      return this.lambda(first, scope);
    }
    const names = this.wire(first, scope);
    return { lambda: names, expr: this.wire(body, [...scope, ...[names].flat(Infinity)]) };
  }

  writeLet(node, scope) {
    this.count(node, 2, 2);
    const [given, body] = node.given;
    const objects = given.kind === "array" ? given.elements : [given];
    if (objects.some((object) => object.kind !== "object")) this.fail("Let takes an object of names, or several in an array", given);
    const bindings = objects.flatMap((object) => Object.entries(this.fields(object, scope)).map(([name, value]) => ({ [name]: value })));
    if (body.kind !== "function") return { let: bindings, in: this.wire(body, scope) };
    // The driver gives such a function the variables in their order.
    const own = bindings.map((binding) => Object.keys(binding)[0]);
    const renamed = Object.fromEntries(body.names.map((name, index) => [name, own[index] ?? name]));
    const inner = this.wire(body.body, [...scope, ...body.names]);
    return { let: bindings, in: renameVariables(inner, renamed) };
  }

  writePaginate(node, scope) {
    this.count(node, 1, 2);
    const [set, options] = node.given;
    if (options && options.kind !== "object") this.fail("the options of Paginate are an object", options);
    return { paginate: this.wire(set, scope), ...(options ? this.fields(options, scope) : {}) };
  }
}

function renameVariables(wire, names) {
  if (Array.isArray(wire)) return wire.map((element) => renameVariables(element, names));
  if (wire === null || typeof wire !== "object" || wire instanceof Digits) return wire;
  if (typeof wire.var === "string" && Object.keys(wire).length === 1) return { var: names[wire.var] ?? wire.var };
  return Object.fromEntries(Object.entries(wire).map(([key, value]) => [key, renameVariables(value, names)]));
}

/** The trees of a text's statements. */
export const parse = (text) => new Parser(text).statements();

/**
 * Each statement of a text as it goes over the wire. A text in the wire's own JSON is taken as it is. Where it is to be exact,
 * `1.0` is a double, as in what is shown of an answer.
 */
export function toWire(text, isExact = false) {
  const trimmed = text.trim();
  if (/^\{\s*"(?:[a-z_@]+)"\s*:/.test(trimmed)) {
    try {
      return [JSON.parse(trimmed)];
    } catch {
      // It is an object of FQL, then.
    }
  }
  const writer = new Writer(text, isExact);
  return parse(text).map((node) => writer.wire(node));
}

/** A text that is plain data in JavaScript's or JSON's notation, and nothing else. */
export function toData(text) {
  const statements = parse(text);
  if (statements.length !== 1) throw new Error("expected one value");
  const data = (node) => {
    if (node.kind === "value") return node.value;
    if (node.kind === "array") return node.elements.map(data);
    if (node.kind === "object") return Object.fromEntries(node.entries.map(([key, value]) => [key, data(value)]));
    throw new Unreadable("expected plain data", text, node.at.at);
  };
  return data(statements[0]);
}

// ---- values as Fauna's shell shows them

const NATIVE = { databases: "Database", collections: "Collection", classes: "Class", indexes: "Index", functions: "Function", roles: "Role", access_providers: "AccessProvider" };
const NATIVE_SETS = { databases: "Databases", collections: "Collections", indexes: "Indexes", functions: "Functions", roles: "Roles", keys: "Keys", tokens: "Tokens", credentials: "Credentials", access_providers: "AccessProviders" };

/** A reference as it is written. */
function shownRef(ref) {
  const { id, collection, database } = ref;
  if (!collection) return NATIVE_SETS[id] ? `${NATIVE_SETS[id]}()` : `Ref(${JSON.stringify(id)})`;
  const owner = collection["@ref"] ?? collection;
  const scope = database ? `, ${shownRef(database["@ref"] ?? database)}` : "";
  if (!owner.collection && NATIVE[owner.id]) return `${NATIVE[owner.id]}(${JSON.stringify(id)}${scope})`;
  return `Ref(${shownRef(owner)}, ${JSON.stringify(id)})`;
}

/** A value of an answer, as the shell shows it and the pad reads it. */
export function shownValue(value, indent = 0) {
  const pad = " ".repeat(indent);
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((element) => `${pad}  ${shownValue(element, indent + 2)}`).join(",\n")}\n${pad}]`;
  }
  if (value instanceof Digits) return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value);
  if (keys.length === 1) {
    const only = value[keys[0]];
    switch (keys[0]) {
      case "@ref":
        return shownRef(only);
      case "@ts":
        return `Time(${JSON.stringify(only)})`;
      case "@date":
        return `Date(${JSON.stringify(only)})`;
      case "@bytes":
        return `Bytes(${JSON.stringify(only)})`;
      case "@query":
        return `Query(${shownExpression(only)})`;
      case "@set":
        return shownExpression(only);
      case "@obj":
        return shownFields(only, indent);
    }
  }
  return shownFields(value, indent);
}

function shownFields(fields, indent) {
  const pad = " ".repeat(indent);
  const names = Object.keys(fields);
  if (names.length === 0) return "{}";
  const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
  return `{\n${names.map((name) => `${pad}  ${key(name)}: ${shownValue(fields[name], indent + 2)}`).join(",\n")}\n${pad}}`;
}

const BY_FIRST = new Map([...FUNCTIONS].map(([name, known]) => [known.parameters[0].name, { name, ...known }]));

/** An expression of the wire as FQL. */
export function shownExpression(wire) {
  if (Array.isArray(wire)) return `[${wire.map(shownExpression).join(", ")}]`;
  if (wire === null || typeof wire !== "object" || wire instanceof Digits) return shownValue(wire);
  const keys = Object.keys(wire);
  const all = (values) => values.map(shownExpression).join(", ");
  const options = (entries) => `{ ${entries.map(([key, value]) => `${/^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key)}: ${shownExpression(value)}`).join(", ")} }`;
  if (keys.length === 1 && keys[0].startsWith("@")) return shownValue(wire);
  if ("object" in wire) return Object.keys(wire.object).length ? options(Object.entries(wire.object)) : "{}";
  if ("lambda" in wire && "expr" in wire) return `Lambda(${all([wire.lambda, wire.expr])})`;
  if ("let" in wire) return `Let(${Array.isArray(wire.let) ? `[${wire.let.map((binding) => options(Object.entries(binding))).join(", ")}]` : options(Object.entries(wire.let))}, ${shownExpression(wire.in)})`;
  if ("ref" in wire) return `Ref(${all([wire.ref, wire.id])})`;
  if ("do" in wire) return `Do(${all(wire.do)})`;
  if ("paginate" in wire) {
    const { paginate, ...rest } = wire;
    return `Paginate(${shownExpression(paginate)}${Object.keys(rest).length ? ", " + options(Object.entries(rest)) : ""})`;
  }
  const known = keys.map((key) => BY_FIRST.get(key)).find((entry) => entry && keys.every((key) => entry.parameters.some(({ name }) => name === key)));
  if (!known) return shownValue(wire);
  const given = known.parameters.flatMap(({ name, isRest, isOptional }, index) => {
    if (!(name in wire) || (index === 0 && isOptional && wire[name] === null)) return [];
    return isRest && Array.isArray(wire[name]) ? wire[name] : [wire[name]];
  });
  if (known.isTurned) given.reverse();
  return `${known.name}(${all(given)})`;
}
