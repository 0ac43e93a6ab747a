// The page: who is logged in, the tree on the left, and the view that the address names.

import { html, render, useEffect, useLayoutEffect, useState } from "./html.js";
import * as api from "./api.js";
import { Problem, link, useAct } from "./ui.js";
import { Tree } from "./tree.js";
import { Backups } from "./backups.js";
import { Connect } from "./connect.js";
import { Databases } from "./databases.js";
import { DynamoDb } from "./dynamodb.js";
import { Fauna } from "./fauna.js";
import { KeyValue } from "./keyvalue.js";
import { Keys } from "./redis.js";
import { Operations } from "./operations.js";
import { Pad } from "./pad.js";
import { Search } from "./search.js";
import { Tail } from "./tail.js";

const VIEWS = {
  redis: Keys,
  fauna: Fauna,
  dynamodb: DynamoDb,
  keyvalue: KeyValue,
  search: Search,
  pad: Pad,
  tail: Tail,
  operations: Operations,
  backups: Backups,
  connect: Connect,
  databases: Databases,
};

/** The parts of the address behind the `#`. */
function useAddress() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [parts, set] = useState(read);
  useLayoutEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parts;
}

function Login({ onDone, isMore }) {
  const [credential, setCredential] = useState("");
  const [user, setUser] = useState("");
  const [act, { busy, error }] = useAct();
  const submit = async (event) => {
    event.preventDefault();
    const done = await act(async () => {
      await api.login(credential, user);
      return true;
    });
    if (done) onDone();
  };
  return html`<main class="login">
    <form onSubmit=${submit}>
      <h1><img src="/console/icon.svg" alt="" width="24" height="24" /> Quartet</h1>
      <p>${isMore ? "One more credential for this session" : "Log in"} with the root key, or with what opens one database: its token, its read-only token, its Fauna key or
        a secret made there, or <code>ACCESS_KEY_ID:SECRET</code>. The JSON that a new database's credentials came in is taken whole.</p>
      <label>Key, token or secret
        <input id="credential" type="password" autocomplete="current-password" required autofocus value=${credential} onInput=${(event) => setCredential(event.target.value)} />
      </label>
      <label>Redis user <span class="dim">(only for a user's password; of another database, <code>DATABASE/USER</code>)</span>
        <input id="user" autocomplete="username" value=${user} onInput=${(event) => setUser(event.target.value)} />
      </label>
      <${Problem} error=${error} />
      <div class="row end">
        ${isMore && html`<a class="button" href="#/">Back</a>`}
        <button class="main" disabled=${busy}>Log in</button>
      </div>
    </form>
  </main>`;
}

function Shell({ session, reload, onLogout }) {
  const parts = useAddress();
  const [isTreeOpen, openTree] = useState(false);
  const fallback = session.databases[0]?.name ?? "default";
  const name = parts[0] || "redis";
  const database = parts[1] || fallback;
  useEffect(() => openTree(false), [location.hash]);
  useEffect(() => {
    const shown = [name, ...parts.slice(1)].filter(Boolean).join(" / ");
    document.title = `${shown} · Quartet`;
  }, [parts]);
  if (name === "login") {
    return html`<${Login} isMore onDone=${() => { reload(); location.hash = "#/"; }} />`;
  }
  const View = VIEWS[name] ?? VIEWS.redis;
  const places = [["pad", "Pad"], ["tail", "Tail"], ["operations", "Operations"], ["backups", "Backups"], ["connect", "Connect"], ...(session.operator ? [["databases", "Databases"]] : [])];
  const views = places.map(([place, title]) => html`<a key=${place} href=${link(place, database)} aria-current=${place === name ? "page" : undefined}>${title}</a>`);
  return html`<div class="shell">
    <a class="skip" href="#view" onClick=${(event) => { event.preventDefault(); document.getElementById("view").focus(); }}>To the content</a>
    <header>
      <button class="menu" aria-label="Menu" aria-expanded=${isTreeOpen} onClick=${() => openTree(!isTreeOpen)}>☰</button>
      <a class="brand" href="#/"><img src="/console/icon.svg" alt="" width="18" height="18" /> Quartet</a>
      <nav aria-label="Views">${views}</nav>
      <span class="who">${session.development ? "development" : session.operator ? "operator" : "guest"}
        ${!session.development && html` <button class="small" id="logout" onClick=${onLogout}>Log out</button>`}</span>
    </header>
    <aside class=${isTreeOpen ? "open" : ""}><nav class="views" aria-label="Views">${views}</nav><${Tree} session=${session} parts=${[name, database, ...parts.slice(2)]} /></aside>
    <main id="view" tabindex="-1"><${View} key=${name + "/" + database} session=${session} database=${database} parts=${parts.slice(2)} reloadSession=${reload} /></main>
  </div>`;
}

function App() {
  const [session, set] = useState(undefined);
  const [problem, tell] = useState(null);
  const load = async () => {
    const found = await api.session();
    if (found) return set(found);
    // A server for development opens without a credential.
    const { development } = await api.start();
    if (!development) return set(null);
    await api.login("");
    set(await api.session());
  };
  useEffect(() => {
    api.onSessionOver(() => set((old) => (old ? null : old)));
    load().catch(tell);
  }, []);
  if (problem) return html`<main class="login"><${Problem} error=${problem} /></main>`;
  if (session === undefined) return html`<main class="login"><p class="dim">Quartet</p></main>`;
  if (session === null) return html`<${Login} onDone=${load} />`;
  const logout = async () => {
    await api.logout();
    set(null);
  };
  return html`<${Shell} session=${session} reload=${load} onLogout=${logout} />`;
}

// What the page shows before there is a script: it would stay above everything else.
document.body.replaceChildren();
render(html`<${App} />`, document.body);
