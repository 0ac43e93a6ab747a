// DynamoDB in the console: tables, their items by scan or query, and an editor of items.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { count, percentEncoded, size } from "./bytes.js";
import { Digits, parsed } from "./exact.js";
import { Busy, Copy, Problem, Text, go, link, useAct, useLoaded } from "./ui.js";
import { Grid } from "./grid.js";
import { History } from "./history.js";

const PAGE = 50;
const EXPORT_PAGE = 1000;

/** Names of all tables, up to a thousand. */
export async function tables(database) {
  const names = [];
  let start;
  do {
    const answer = await api.dynamodb(database, "ListTables", start ? { ExclusiveStartTableName: start } : {});
    names.push(...answer.TableNames);
    start = answer.LastEvaluatedTableName;
  } while (start && names.length < 1000);
  return names;
}

export const describe = async (database, table) => (await api.dynamodb(database, "DescribeTable", { TableName: table })).Table;

export const indexesOf = (table) => [...(table.GlobalSecondaryIndexes ?? []), ...(table.LocalSecondaryIndexes ?? [])];

/** An attribute as plain JSON; undefined if that would lose something (a set, bytes, a long number). */
function plainOf(attribute) {
  const [kind, value] = Object.entries(attribute)[0];
  if (kind === "S" || kind === "BOOL") return value;
  if (kind === "NULL") return null;
  if (kind === "N") return String(Number(value)) === value ? Number(value) : undefined;
  if (kind === "L") {
    const list = value.map(plainOf);
    return list.includes(undefined) ? undefined : list;
  }
  if (kind !== "M") return undefined;
  const fields = plainItem(value);
  return fields ?? undefined;
}

function plainItem(item) {
  const entries = Object.entries(item).map(([name, attribute]) => [name, plainOf(attribute)]);
  return entries.some(([, value]) => value === undefined) ? null : Object.fromEntries(entries);
}

function attributeOf(value) {
  if (value === null) return { NULL: true };
  if (typeof value === "string") return { S: value };
  if (typeof value === "number" || value instanceof Digits) return { N: String(value) };
  if (typeof value === "boolean") return { BOOL: value };
  if (Array.isArray(value)) return { L: value.map(attributeOf) };
  return { M: Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, attributeOf(inner)])) };
}

const itemOf = (plain) => Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, attributeOf(value)]));

/** One attribute for a cell. */
function shownAttribute(attribute) {
  if (attribute === undefined) return "";
  const [kind, value] = Object.entries(attribute)[0];
  if (kind === "S" || kind === "N") return value;
  const plain = plainOf(attribute);
  return JSON.stringify(plain === undefined ? value : plain).slice(0, 200);
}

const keyNames = (keySchema) => keySchema.map(({ AttributeName }) => AttributeName);
const keyOf = (item, names) => Object.fromEntries(names.map((name) => [name, item[name]]));

function typedKey(table, name, text) {
  const kind = table.AttributeDefinitions.find(({ AttributeName }) => AttributeName === name)?.AttributeType ?? "S";
  return { [kind]: text };
}

function Item({ database, table, item, names, onChanged }) {
  const isNew = item === null;
  const plain = isNew ? Object.fromEntries(names.map((name) => [name, ""])) : plainItem(item);
  const [isTyped, setTyped] = useState(plain === null);
  const written = isTyped ? (isNew ? itemOf(plain) : item) : plain;
  const [edited, edit] = useState(null);
  const [act, { busy, error }] = useAct();
  const text = edited ?? JSON.stringify(written, null, 2);
  const save = () =>
    act(async () => {
      const given = parsed(text);
      const next = isTyped ? given : itemOf(given);
      if (!isNew && JSON.stringify(keyOf(next, names)) !== JSON.stringify(keyOf(item, names))) throw new Error("the key of an item cannot change: make a new item");
      // A new item must not take the place of one that is there.
      const condition = isNew ? { ConditionExpression: "attribute_not_exists(#k)", ExpressionAttributeNames: { "#k": names[0] } } : {};
      await api.dynamodb(database, "PutItem", { TableName: table, Item: next, ...condition });
      edit(null);
      onChanged(next);
    });
  return html`<h2>${isNew ? "New item" : names.map((name) => shownAttribute(item[name])).join(" / ")}</h2>
    <label class="line"><input type="checkbox" checked=${isTyped} disabled=${plain === null || edited !== null} onChange=${(event) => setTyped(event.target.checked)} /> with DynamoDB's types</label>
    <${Text} id="item" label="Item" rows=${16} value=${text} onInput=${edit} onSave=${save} />
    <div class="row"><button class="main" id="save" disabled=${busy || (!isNew && edited === null)} onClick=${save}>${isNew ? "Create" : "Save"}</button><${Copy} text=${text} /></div>
    <${Problem} error=${error} />`;
}

function Items({ database, table, index, openKey }) {
  const name = table.TableName;
  const [partition, setPartition] = useState("");
  const [sort, setSort] = useState("");
  const [found, setFound] = useState({ items: [], next: null });
  const [cost, setCost] = useState(null);
  const [act, { busy, error }] = useAct();
  const turn = useRef(0);
  const schema = index ? indexesOf(table).find(({ IndexName }) => IndexName === index).KeySchema : table.KeySchema;
  const [hash, range] = keyNames(schema);
  const names = keyNames(table.KeySchema);
  const base = { TableName: name, ...(index ? { IndexName: index } : {}), Limit: PAGE, ReturnConsumedCapacity: "TOTAL" };

  const query = () => {
    const values = { ":p": typedKey(table, hash, partition) };
    let condition = "#p = :p";
    const own = { "#p": hash };
    if (range && sort !== "") {
      own["#s"] = range;
      values[":s"] = typedKey(table, range, sort);
      condition += "S" in values[":s"] ? " AND begins_with(#s, :s)" : " AND #s >= :s";
    }
    return { ...base, KeyConditionExpression: condition, ExpressionAttributeNames: own, ExpressionAttributeValues: values };
  };
  const load = (start, before) => {
    const mine = ++turn.current;
    return act(async () => {
      const [operation, input] = partition === "" ? ["Scan", base] : ["Query", query()];
      const answer = await api.dynamodb(database, operation, start ? { ...input, ExclusiveStartKey: start } : input);
      if (mine !== turn.current) return;
      setFound({ items: [...before, ...answer.Items], next: answer.LastEvaluatedKey ?? null });
      setCost(`${operation}: ${answer.ConsumedCapacity?.CapacityUnits ?? 0} capacity units`);
    });
  };
  const reload = () => load(null, []);
  useEffect(() => void reload(), [database, name, index]);

  const removeRows = async (rows) => {
    for (let index = 0; index < rows.length; index += 25) {
      let requests = { [name]: rows.slice(index, index + 25).map((row) => ({ DeleteRequest: { Key: keyOf(row.item, names) } })) };
      while (Object.keys(requests).length > 0) requests = (await api.dynamodb(database, "BatchWriteItem", { RequestItems: requests })).UnprocessedItems ?? {};
    }
  };
  const pages = async (input, each) => {
    let start;
    do {
      const answer = await api.dynamodb(database, "Scan", { TableName: name, ...input, ...(start ? { ExclusiveStartKey: start } : {}) });
      if ((await each(answer)) === false) return;
      start = answer.LastEvaluatedKey;
    } while (start);
  };
  const countAll = async () => {
    let number = 0;
    await pages({ Select: "COUNT" }, (answer) => void (number += answer.Count));
    return number;
  };
  const removeAll = async (tell, isOver) => {
    let deleted = 0;
    const own = Object.fromEntries(names.map((key, index) => [`#k${index}`, key]));
    await pages({ Limit: 100, ProjectionExpression: Object.keys(own).join(", "), ExpressionAttributeNames: own }, async (answer) => {
      await removeRows(answer.Items.map((item) => ({ item })));
      tell((deleted += answer.Items.length));
      return !isOver();
    });
  };
  /** What the table holds, or what the query finds. */
  const exportAll = async (each) => {
    let start;
    do {
      const input = { ...(partition === "" ? base : query()), Limit: EXPORT_PAGE, ...(start ? { ExclusiveStartKey: start } : {}) };
      const answer = await api.dynamodb(database, partition === "" ? "Scan" : "Query", input);
      if (each(answer.Items.map((item) => plainItem(item) ?? item)) === false) return;
      start = answer.LastEvaluatedKey;
    } while (start);
  };
  const others = [...new Set(found.items.flatMap((item) => Object.keys(item)))].filter((key) => !names.includes(key)).slice(0, 5);
  const idOf = (item) => JSON.stringify(keyOf(item, names));
  const rows = found.items.map((item) => ({
    id: idOf(item),
    item,
    value: plainItem(item) ?? item,
    href: link("dynamodb", database, name, index ?? "", idOf(item)),
    cells: [...names, ...others].map((key) => shownAttribute(item[key])),
  }));
  /** What a change made of the open item. */
  const changeOf = (change) => {
    const own = change.item ?? change.key;
    if (change.table !== name || !own || idOf(own) !== openKey) return change.op === "clear" && change.table === name ? "(deleted)" : null;
    return change.item ? JSON.stringify(plainItem(change.item) ?? change.item, null, 2) : "(deleted)";
  };
  const opened = openKey === undefined || openKey === "new" ? null : found.items.find((item) => idOf(item) === openKey);
  const fetched = useLoaded(async () => (openKey && openKey !== "new" ? ((await api.dynamodb(database, "GetItem", { TableName: name, Key: JSON.parse(openKey), ConsistentRead: true })).Item ?? null) : undefined), [database, name, openKey]);
  const item = fetched.value ?? opened;
  const changed = (next) => {
    reload();
    fetched.reload();
    go("dynamodb", database, name, index ?? "", JSON.stringify(keyOf(next, names)));
  };
  return html`<div class=${openKey ? "split" : "split alone"}>
    <section aria-label="Items">
      <h2>${name}${index && ` / ${index}`}</h2>
      <p class="dim">${count(table.ItemCount ?? 0)} items · ${size(table.TableSizeBytes ?? 0)} · ${table.TableStatus}</p>
      <form class="row" role="search" onSubmit=${(event) => { event.preventDefault(); reload(); }}>
        <input class="grow mono" id="partition" aria-label=${hash} placeholder=${`${hash} = … (empty: scan)`} value=${partition} onInput=${(event) => setPartition(event.target.value)} />
        ${range && html`<input class="grow mono" id="sort" aria-label=${range} placeholder=${`${range} from …`} value=${sort} onInput=${(event) => setSort(event.target.value)} />`}
        <button class="main" disabled=${busy}>${partition === "" ? "Scan" : "Query"}</button>
        <a class="button" id="new-item" href=${link("dynamodb", database, name, index ?? "", "new")}>New item</a>
        <a class="button" href=${link("dynamodb", database, name, "?definition")}>Definition</a>
        <a class="button" href=${link("tail", database, "dynamodb", name)}>Watch</a>
      </form>
      ${cost && html`<p class="dim" id="cost">${cost}</p>`}
      <${Grid} id="items" columns=${[...names, ...others]} rows=${rows} openId=${openKey} hasMore=${found.next !== null} busy=${busy} error=${error} onMore=${() => load(found.next, found.items)}
        what="items" exportName=${name} exportAll=${exportAll} removeRows=${removeRows} countAll=${countAll} removeAll=${removeAll} onRemoved=${reload} />
    </section>
    ${openKey &&
    html`<section class="panel" aria-label="Item">${openKey === "new"
        ? html`<${Item} key="new" database=${database} table=${name} item=${null} names=${names} onChanged=${changed} />`
        : item
          ? html`<${Item} key=${JSON.stringify(item)} database=${database} table=${name} item=${item} names=${names} onChanged=${changed} />`
          : fetched.loading
            ? html`<${Busy} />`
            : html`<p>There is no such item.</p>`}<${Problem} error=${fetched.error} />
      ${openKey !== "new" && html`<${History} key=${openKey} database=${database} layer="dynamodb" prefix=${percentEncoded(name)} read=${changeOf} />`}</section>`}
  </div>`;
}

const NEW_TABLE = `CreateTable {
  TableName: "things",
  AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
  KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
  BillingMode: "PAY_PER_REQUEST"
}`;

export function DynamoDb({ database, parts, session }) {
  const [name, index, key] = parts;
  const here = session.databases.find((each) => each.name === database);
  const isServed = here?.dynamodb;
  const { value: table, error, loading } = useLoaded(async () => (name && isServed ? describe(database, name) : null), [database, isServed, name]);
  if (!isServed) return html`<p>This session has no credential for DynamoDB in <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;
  if (!name) {
    return html`<section><h2>DynamoDB</h2><p>Choose a table in the tree, or <a class="button" href=${link("pad", database, "DynamoDB", NEW_TABLE)}>make one</a>.</p></section>`;
  }
  if (error) return html`<${Problem} error=${error} />`;
  if (loading || table?.TableName !== name) return html`<${Busy} />`;
  if (index === "?definition") {
    return html`<section><h2>${name}</h2><pre id="definition">${JSON.stringify(table, null, 2)}</pre>
      <a class="button" href=${link("pad", database, "DynamoDB", `DeleteTable { TableName: ${JSON.stringify(name)} }`)}>Delete the table…</a></section>`;
  }
  return html`<${Items} key=${name + "/" + index} database=${database} table=${table} index=${index || undefined} openKey=${key} />`;
}
