// Pieces that every view uses.

import { html, useCallback, useEffect, useRef, useState } from "./html.js";

/** Runs `load` when one of `inputs` changes. What came late for older inputs is dropped. */
export function useLoaded(load, inputs) {
  const [state, set] = useState({ loading: true });
  const [turn, again] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    set((old) => ({ ...old, loading: true }));
    Promise.resolve()
      .then(load)
      .then(
        (value) => isCurrent && set({ value, loading: false }),
        (error) => isCurrent && set({ error, loading: false }),
      );
    return () => void (isCurrent = false);
  }, [...inputs, turn]);
  const reload = useCallback(() => again((turn) => turn + 1), []);
  return { ...state, reload };
}

/** Runs what somebody has asked for, and keeps what went wrong with it. */
export function useAct() {
  const [state, set] = useState({ busy: false, error: null });
  const act = useCallback(async (work) => {
    set({ busy: true, error: null });
    try {
      const done = await work();
      set({ busy: false, error: null });
      return done;
    } catch (error) {
      set({ busy: false, error });
      return undefined;
    }
  }, []);
  return [act, state];
}

export function Problem({ error }) {
  if (!error) return null;
  return html`<p class="problem" role="alert">${error.message ?? String(error)}</p>`;
}

export const Busy = ({ when = true }) => (when ? html`<span class="busy" role="status" aria-label="loading"></span>` : null);

/** Asks before something is done. `ask` is null, or `{title, text, word, action, act}`; with a `word`, it has to be typed. */
export function Confirm({ ask, onEnd }) {
  const dialog = useRef();
  const [typed, type] = useState("");
  const [act, { busy, error }] = useAct();
  useEffect(() => {
    if (!ask) return;
    type("");
    dialog.current.showModal();
    return () => dialog.current?.close();
  }, [ask]);
  if (!ask) return null;
  const run = async (event) => {
    event.preventDefault();
    const done = await act(async () => {
      await ask.act();
      return true;
    });
    if (done) onEnd();
  };
  return html`<dialog ref=${dialog} onCancel=${onEnd} aria-labelledby="ask-title">
    <form onSubmit=${run}>
      <h2 id="ask-title">${ask.title}</h2>
      <p>${ask.text}</p>
      ${ask.word &&
      html`<label>Type <code>${ask.word}</code> to go on
        <input value=${typed} onInput=${(event) => type(event.target.value)} autocomplete="off" spellcheck=${false} />
      </label>`}
      <${Problem} error=${error} />
      <div class="row end">
        <button type="button" onClick=${onEnd}>Cancel</button>
        <button class="danger" id="confirm" disabled=${busy || (ask.word && typed !== ask.word)}>${ask.action}</button>
      </div>
    </form>
  </dialog>`;
}

/** A text that is edited in a larger field; Ctrl+Enter saves. */
export function Text({ value, onInput, onSave, rows = 8, label, readOnly = false, id }) {
  const saves = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSave?.();
    }
  };
  return html`<textarea id=${id} rows=${rows} aria-label=${label} spellcheck=${false} autocomplete="off" autocapitalize="off"
    value=${value} readOnly=${readOnly} onInput=${(event) => onInput?.(event.target.value)} onKeyDown=${saves}></textarea>`;
}

/** Saves a text, or a blob, as a file of the person's. */
export function download(name, content, kind = "application/json") {
  const link = document.createElement("a");
  const address = URL.createObjectURL(new Blob([content], { type: kind }));
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function Copy({ text, label = "Copy" }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

export function Tabs({ names, chosen, onChoose, label }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(chosen) + step + names.length) % names.length];
    onChoose(next);
    event.currentTarget.querySelector(`[data-name="${next}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${names.map(
      (name) => html`<button key=${name} type="button" role="tab" data-name=${name} aria-selected=${name === chosen} tabindex=${name === chosen ? 0 : -1} onClick=${() => onChoose(name)}>${name}</button>`,
    )}
  </div>`;
}

/** An address within the page. */
export const link = (...parts) => "#/" + parts.map((part) => encodeURIComponent(part)).join("/");

export const go = (...parts) => void (location.hash = link(...parts));

const CHANGED = "quartet-changed";

/** Says that what the tree shows may have changed. */
export const noteChange = () => void dispatchEvent(new Event(CHANGED));

/** Calls `act` a little after something has changed. */
export function useChanges(act) {
  useEffect(() => {
    let waiting;
    const heard = () => {
      clearTimeout(waiting);
      waiting = setTimeout(act, 300);
    };
    addEventListener(CHANGED, heard);
    return () => {
      clearTimeout(waiting);
      removeEventListener(CHANGED, heard);
    };
  }, [act]);
}

/**
 * Runs one statement after the other and answers `[{text, isError}]`. A refusal is told of with its place, and ends the run: what follows
 * may rest on it. `place` says where a statement is, `act` answers its text, `more` what else there is to say of a refusal.
 */
export async function oneByOne(list, place, act, more = () => "") {
  const parts = [];
  for (const [index, each] of list.entries()) {
    try {
      parts.push({ text: await act(each) });
    } catch (error) {
      const left = list.length - index - 1;
      const rest = left > 0 ? `\n(${left} more not run)` : "";
      parts.push({ text: (list.length > 1 ? `${place(each, index)}: ` : "") + error.message + more(error) + rest, isError: true });
      break;
    }
  }
  return parts;
}

/** What `act` makes of a line; what goes wrong names the line. */
export function atLine(line, act) {
  try {
    return act();
  } catch (error) {
    throw new Error(`line ${line}: ${error.message}`);
  }
}
