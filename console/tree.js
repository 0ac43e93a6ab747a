// The tree: databases, and in each what its layers hold. A branch is read when it is opened.

import { html, useEffect, useState } from "./html.js";
import * as api from "./api.js";
import { shown } from "./bytes.js";
import { Busy, Problem, link, useChanges, useLoaded } from "./ui.js";
import * as dynamodb from "./dynamodb.js";
import * as fauna from "./fauna.js";
import * as keyvalue from "./keyvalue.js";
import * as search from "./search.js";
import { toHex } from "./tuples.js";

/** Keys below a prefix that tell what its level consists of. */
const SAMPLE = 2000;
/** Rounds of SCAN for a level: few keys may have the prefix, and all are visited. */
const ROUNDS_MAX = 20;
const CHILDREN_MAX = 200;
const SEPARATOR = /[:/|]/;

function Branch({ title, href, isOpen = false, isCurrent, badge, children }) {
  const [open, set] = useState(isOpen);
  useEffect(() => void (isOpen && set(true)), [isOpen]);
  return html`<li>
    <div class="node">
      ${children
        ? html`<button class="twist" aria-expanded=${open} aria-label=${(open ? "Close " : "Open ") + title} onClick=${() => set(!open)}>${open ? "▾" : "▸"}</button>`
        : html`<span class="twist"></span>`}
      ${href ? html`<a href=${href} aria-current=${isCurrent ? "page" : undefined} title=${title}>${title}</a>` : html`<button class="title" onClick=${() => set(!open)}>${title}</button>`}
      ${badge && html`<span class="badge">${badge}</span>`}
    </div>
    ${open && children && html`<ul>${children()}</ul>`}
  </li>`;
}

/** Loads a level and shows what it consists of. */
function Level({ load, inputs, show, empty }) {
  const { value, error, loading, reload } = useLoaded(load, inputs);
  useChanges(reload);
  if (loading && !value) return html`<li><${Busy} /></li>`;
  if (error) return html`<li><${Problem} error=${error} /></li>`;
  if (value.length === 0) return html`<li class="dim">${empty}</li>`;
  const more = value.length > CHILDREN_MAX ? html`<li class="dim">and ${value.length - CHILDREN_MAX} more</li>` : null;
  return html`${value.slice(0, CHILDREN_MAX).map(show)}${more}`;
}

const escaped = (text) => text.replace(/[*?[\]\\]/g, "\\$&");

/** The next parts of the names that begin with `prefix`, as far as a sample shows. */
async function prefixes(database, prefix) {
  const counts = new Map();
  let cursor = "0";
  let seen = 0;
  let rounds = 0;
  do {
    const [next, keys] = await api.redis(database, "SCAN", cursor, "MATCH", escaped(prefix) + "*", "COUNT", "2000");
    for (const key of keys) {
      const name = shown(key).slice(prefix.length);
      const cut = name.search(SEPARATOR);
      if (cut >= 0) {
        const part = prefix + name.slice(0, cut + 1);
        counts.set(part, (counts.get(part) ?? 0) + 1);
      }
    }
    seen += keys.length;
    rounds++;
    cursor = next;
  } while (cursor !== "0" && seen < SAMPLE && rounds < ROUNDS_MAX);
  const isWhole = cursor === "0";
  const found = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return found.map(([part, number]) => ({ part, badge: `${number}${isWhole ? "" : "+"}` }));
}

function Prefixes({ database, prefix, parts }) {
  const show = ({ part, badge }) => html`<${Branch} key=${part} title=${part.slice(prefix.length)} badge=${badge} href=${link("redis", database, escaped(part) + "*")}
    isCurrent=${parts[0] === "redis" && parts[1] === database && parts[2] === escaped(part) + "*"}
    children=${() => html`<${Prefixes} database=${database} prefix=${part} parts=${parts} />`} />`;
  return html`<${Level} load=${() => prefixes(database, prefix)} inputs=${[database, prefix]} show=${show} empty="no prefixes" />`;
}

const FAUNA_KINDS = { collection: "Collections", index: "Indexes", function: "Functions", role: "Roles" };

function FaunaBelow({ database, path, parts }) {
  const is = (...wanted) => parts[0] === "fauna" && parts[1] === database && (parts[2] ?? "") === path && wanted.every((part, index) => parts[3 + index] === part);
  const names = (kind) => () => fauna.names(database, path, kind);
  const entry = (kind) => (name) => {
    const address = kind === "collection" || kind === "index" ? [kind, name] : ["schema", kind, name];
    return html`<${Branch} key=${name} title=${name} href=${link("fauna", database, path, ...address)} isCurrent=${is(...address)} />`;
  };
  const below = (name) => {
    const inner = [path, name].filter(Boolean).join("/");
    return html`<${Branch} key=${name} title=${name} href=${link("fauna", database, path, "schema", "database", name)} isCurrent=${is("schema", "database", name)}
      children=${() => html`<${FaunaBelow} database=${database} path=${inner} parts=${parts} />`} />`;
  };
  return html`${Object.entries(FAUNA_KINDS).map(([kind, title]) => html`<${Branch} key=${kind} title=${title}
      children=${() => html`<${Level} load=${names(kind)} inputs=${[database, path, kind]} show=${entry(kind)} empty="none" />`} />`)}
    <${Branch} title="Databases" children=${() => html`<${Level} load=${names("database")} inputs=${[database, path]} show=${below} empty="none" />`} />`;
}

function Tables({ database, parts }) {
  const is = (table, index) => parts[0] === "dynamodb" && parts[1] === database && parts[2] === table && (parts[3] || undefined) === index;
  const index = (table) => ({ IndexName }) => html`<${Branch} key=${IndexName} title=${IndexName} href=${link("dynamodb", database, table, IndexName)} isCurrent=${is(table, IndexName)} />`;
  const load = (table) => async () => dynamodb.indexesOf(await dynamodb.describe(database, table));
  const show = (table) => html`<${Branch} key=${table} title=${table} href=${link("dynamodb", database, table)} isCurrent=${is(table)}
    children=${() => html`<${Level} load=${load(table)} inputs=${[database, table]} show=${index(table)} empty="no indexes" />`} />`;
  return html`<${Level} load=${() => dynamodb.tables(database)} inputs=${[database]} show=${show} empty="no tables" />`;
}

function Directories({ database, prefix, parts }) {
  const show = (directory) => {
    const hex = toHex(directory.prefix);
    return html`<${Branch} key=${hex} title=${directory.name} href=${link("keyvalue", database, hex)} isCurrent=${parts[0] === "keyvalue" && parts[1] === database && parts[2] === hex}
      children=${() => html`<${Directories} database=${database} prefix=${directory.prefix} parts=${parts} />`} />`;
  };
  return html`<${Level} load=${() => keyvalue.directories(database, prefix)} inputs=${[database, toHex(prefix)]} show=${show} empty="no directories" />`;
}

function Indexes({ database, parts }) {
  const show = (name) => html`<${Branch} key=${shown(name)} title=${shown(name)} href=${link("search", database, shown(name))}
    isCurrent=${parts[0] === "search" && parts[1] === database && parts[2] === shown(name)} />`;
  return html`<${Level} load=${() => search.names(database)} inputs=${[database]} show=${show} empty="no indexes" />`;
}

function Database({ database, parts }) {
  const { name } = database;
  return html`
    ${database.redis && html`<${Branch} title="Redis" isOpen=${parts[1] === name} href=${link("redis", name)} isCurrent=${parts[0] === "redis" && parts[1] === name && !parts[2]}
      children=${() => html`<${Prefixes} database=${name} prefix="" parts=${parts} />`} />`}
    ${database.redis && html`<${Branch} title="Search" href=${link("search", name)} isCurrent=${parts[0] === "search" && parts[1] === name && !parts[2]}
      children=${() => html`<${Indexes} database=${name} parts=${parts} />`} />`}
    ${database.fauna && html`<${Branch} title="FaunaDB" isOpen=${parts[0] === "fauna" && parts[1] === name} href=${link("fauna", name)} isCurrent=${parts[0] === "fauna" && parts[1] === name && !parts[2]}
      children=${() => html`<${FaunaBelow} database=${name} path="" parts=${parts} />`} />`}
    ${database.dynamodb && html`<${Branch} title="DynamoDB" isOpen=${parts[0] === "dynamodb" && parts[1] === name} href=${link("dynamodb", name)} isCurrent=${parts[0] === "dynamodb" && parts[1] === name && !parts[2]}
      children=${() => html`<${Tables} database=${name} parts=${parts} />`} />`}
    ${database.keyvalue && html`<${Branch} title="Key-value" isOpen=${parts[0] === "keyvalue" && parts[1] === name} href=${link("keyvalue", name)} isCurrent=${parts[0] === "keyvalue" && parts[1] === name && !parts[2]}
      children=${() => html`<${Directories} database=${name} prefix=${new Uint8Array()} parts=${parts} />`} />`}
    ${!database.redis && !database.fauna && !database.dynamodb && !database.keyvalue && html`<li class="dim">needs <a href="#/login">its credential</a></li>`}
  `;
}

export function Tree({ session, parts }) {
  return html`<nav aria-label="Databases" class="tree">
    <ul>
      ${session.databases.map((database) => html`<${Branch} key=${database.name} title=${database.name} isOpen=${database.name === parts[1]}
        children=${() => html`<${Database} database=${database} parts=${parts} />`} />`)}
    </ul>
    ${!session.development && html`<a class="add" href="#/login">+ another credential</a>`}
  </nav>`;
}
