// What grids of documents and of items share: choosing rows, deleting them, saving them as a file.

import { html, useRef, useState } from "./html.js";
import { count } from "./bytes.js";
import { Busy, Confirm, Problem, download, useAct } from "./ui.js";

/**
 * `rows` are `{id, cells, href, value}`; `removeRows(rows)` deletes some, `removeAll(tell, isOver)` all, after `countAll`. `exportAll(each)` gives `each` the values of
 * all, page by page, until that answers `false`.
 */
export function Grid({ id, columns, rows, openId, hasMore, busy, error, onMore, what, exportName, removeRows, countAll, removeAll, exportAll, onRemoved }) {
  const [chosen, choose] = useState(new Set());
  const [ask, setAsk] = useState(null);
  const [progress, tell] = useState(null);
  const [act, { busy: counting, error: problem }] = useAct();
  const isOver = useRef(false);
  const picked = rows.filter((row) => chosen.has(row.id));
  const toggle = (row) => {
    const next = new Set(chosen);
    if (!next.delete(row.id)) next.add(row.id);
    choose(next);
  };
  const done = () => {
    choose(new Set());
    onRemoved();
  };
  const askForChosen = () =>
    setAsk({ title: `Delete ${count(picked.length)} ${what}?`, text: "They are gone at once.", action: "Delete", act: () => removeRows(picked).then(done) });
  const askForAll = () =>
    act(async () => {
      const number = await countAll();
      isOver.current = false;
      setAsk({
        title: `Delete all ${count(number)} ${what}?`,
        text: `Counted now: ${count(number)}. Entries added meanwhile are deleted too.`,
        word: String(number),
        action: `Delete ${count(number)} ${what}`,
        act: () => removeAll((deleted) => tell(`${count(deleted)} deleted`), () => isOver.current).finally(() => tell(null)).then(done),
      });
    });
  const lines = (values) => values.map((value) => JSON.stringify(value) + "\n").join("");
  const save = () => download(`${exportName}.jsonl`, lines(rows.map((row) => row.value)));
  const saveAll = () =>
    act(async () => {
      // The browser keeps what a file is made of outside of the page's memory.
      const pieces = [];
      let number = 0;
      isOver.current = false;
      try {
        await exportAll((values) => {
          pieces.push(new Blob([lines(values)]));
          tell(`${count((number += values.length))} read`);
          return !isOver.current;
        });
      } finally {
        tell(null);
      }
      if (!isOver.current) download(`${exportName}.jsonl`, new Blob(pieces));
    });
  return html`<div class="row">
      <span class="dim" id="shown-count" role="status">${count(rows.length)} shown${hasMore ? ", more to come" : ""}</span>
      ${removeRows && (picked.length > 0
        ? html`<button class="danger" onClick=${askForChosen}>Delete ${count(picked.length)} chosen</button>`
        : countAll && html`<button class="danger" id="delete-matching" disabled=${counting} onClick=${askForAll}>Delete all…</button>`)}
      <button disabled=${rows.length === 0} onClick=${save}>Export shown</button>
      ${exportAll && html`<button id="export-all" disabled=${counting || rows.length === 0} onClick=${saveAll}>Export all</button>`}
      ${progress && html`<span role="status">${progress} <button class="small" onClick=${() => (isOver.current = true)}>Stop</button></span>`}
    </div>
    <${Problem} error=${error ?? problem} />
    <div class="scroll"><table id=${id}>
      <thead><tr>${removeRows && html`<th></th>`}${columns.map((column) => html`<th key=${column}>${column}</th>`)}</tr></thead>
      <tbody>${rows.map(
        (row) => html`<tr key=${row.id} class=${row.id === openId ? "chosen" : ""}>
          ${removeRows && html`<td><input type="checkbox" aria-label=${"Choose " + row.cells[0]} checked=${chosen.has(row.id)} onChange=${() => toggle(row)} /></td>`}
          ${row.cells.map((cell, index) => html`<td key=${index} class="mono cut">${index === 0 && row.href ? html`<a class="key" href=${row.href}>${cell}</a>` : cell}</td>`)}
        </tr>`,
      )}</tbody>
    </table></div>
    ${hasMore && html`<div class="row"><button id="more" disabled=${busy} onClick=${onMore}>More</button></div>`}
    ${busy && html`<${Busy} />`}
    ${!busy && rows.length === 0 && !error && html`<p class="dim">Nothing here.</p>`}
    <${Confirm} ask=${ask} onEnd=${() => { isOver.current = true; setAsk(null); }} />`;
}
