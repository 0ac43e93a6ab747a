// The pad: something typed, run in the language of a layer, and what came of it.

import { html, useCallback, useEffect, useRef, useState } from "./html.js";
import { Completion, useCompletion } from "./completion.js";
import { Copy, Problem, Tabs, Text, noteChange, useAct } from "./ui.js";
import * as dynamodb from "./pad_dynamodb.js";
import * as fauna from "./pad_fauna.js";
import * as keyvalue from "./pad_keyvalue.js";
import * as redis from "./pad_redis.js";
import { code } from "./code.js";

const LANGUAGES = {
  Redis: { layer: "redis", run: redis.run, names: redis.names, first: "PING", wordBefore: /(?:^|\n)\s*([A-Za-z.]+)$/ },
  FQL: { layer: "fauna", run: fauna.run, names: fauna.names, first: "Paginate(Collections())", wordBefore: /([A-Za-z]+)$/, takesRole: true },
  DynamoDB: { layer: "dynamodb", run: dynamodb.run, names: dynamodb.names, first: "ListTables {}", wordBefore: /^\s*([A-Za-z]+)$/ },
  PartiQL: { layer: "dynamodb", run: dynamodb.runPartiql, names: dynamodb.wordsOfPartiql, first: 'SELECT * FROM "things"', wordBefore: /([A-Za-z_]+)$/ },
  "Key-value": { layer: "keyvalue", run: keyvalue.run, names: keyvalue.names, first: 'getrange "" \\xff', wordBefore: /(?:^|\n|;)\s*([a-z]+)$/ },
};

const HISTORY = "quartet-history";
const HISTORY_MAX = 200;

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(HISTORY)) ?? [];
  } catch {
    return [];
  }
}

function remember(entry) {
  const rest = remembered().filter((old) => old.text !== entry.text || old.language !== entry.language);
  localStorage.setItem(HISTORY, JSON.stringify([entry, ...rest].slice(0, HISTORY_MAX)));
}

function Code({ language, database, session, text, role }) {
  const made = code(language, { database, session, text, role });
  const [chosen, choose] = useState(Object.keys(made)[0]);
  const name = chosen in made ? chosen : Object.keys(made)[0];
  return html`<details><summary>The same as code</summary>
    <${Tabs} label="Language of the code" names=${Object.keys(made)} chosen=${name} onChoose=${choose} />
    <pre id="code">${made[name]}</pre><${Copy} text=${made[name]} />
  </details>`;
}

export function Pad({ database, session, parts }) {
  const here = session.databases.find(({ name }) => name === database) ?? {};
  const languages = Object.keys(LANGUAGES).filter((name) => here[LANGUAGES[name].layer]);
  const [wanted, setName] = useState(parts[0]);
  const name = languages.includes(wanted) ? wanted : languages[0];
  const [text, setText] = useState(parts[1] ?? "");
  const [role, setRole] = useState(parts[2] ?? "");
  const [outcome, setOutcome] = useState(null);
  const [history, setHistory] = useState(remembered);
  const [act, { busy, error }] = useAct();
  const box = useRef();
  useEffect(() => {
    if (parts[0]) setName(parts[0]);
    if (parts[1]) setText(parts[1]);
    setRole(parts[2] ?? "");
  }, [parts[0], parts[1], parts[2]]);
  const language = LANGUAGES[name];
  const field = () => box.current.querySelector("textarea");
  const { place, complete, keys } = useCompletion({ text, setText, box, field });
  const load = useCallback(() => language?.names(database) ?? [], [database, language]);
  if (!language) return html`<p>This session has no credential for <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;

  const run = () =>
    act(async () => {
      setOutcome(null);
      const given = text.trim() === "" ? language.first : text;
      if (given !== text) setText(given);
      remember({ language: name, text: given });
      setHistory(remembered());
      setOutcome(await language.run({ database, text: given, role }));
      noteChange();
    });
  const gap = outcome?.gap ?? "\n";
  return html`<section ref=${box}>
    <${Tabs} label="Language" names=${languages} chosen=${name} onChoose=${setName} />
    <div onKeyDown=${keys} onKeyUp=${keys} onInput=${keys} onClick=${keys}>
      <${Text} id="pad" label=${name} rows=${8} value=${text} onInput=${setText} onSave=${run} />
    </div>
    <${Completion} load=${load} wordBefore=${language.wordBefore} text=${text} place=${place} onChoose=${complete} />
    <div class="row">
      <button class="main" id="run" disabled=${busy} onClick=${run}>Run</button>
      <span class="dim">Ctrl+Enter · Tab completes · e.g. <code>${language.first}</code></span>
      ${language.takesRole &&
      html`<label class="line">run as <input id="role" class="mono" size="18" placeholder="myself, or server, child:admin, @role/x" value=${role} onInput=${(event) => setRole(event.target.value)} /></label>`}
    </div>
    <${Problem} error=${error} />
    ${outcome &&
    html`<div aria-live="polite">
      <p class="dim" id="cost">${Object.entries(outcome.cost).map(([what, number]) => `${number} ${what}`).join(" · ")}</p>
      <pre id="result">${outcome.parts.map(({ text, isError }, index) => html`${index > 0 && gap}<span class=${isError ? "wrong" : ""}>${text}</span>`)}</pre>
      <${Copy} text=${outcome.parts.map(({ text }) => text).join(gap)} />
    </div>`}
    ${text.trim() !== "" && html`<${Code} language=${name} database=${database} session=${session} text=${text} role=${role} />`}
    <details open=${history.length > 0 && !outcome}><summary>History</summary>
      <div class="history">${history.map(
        (entry, index) => html`<button key=${index} onClick=${() => { if (languages.includes(entry.language)) setName(entry.language); setText(entry.text); field().focus(); }}><span class="dim">${entry.language}</span> ${entry.text}</button>`,
      )}</div>
    </details>
  </section>`;
}
