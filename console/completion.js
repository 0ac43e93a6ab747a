// Names that go on as the word before the cursor begins.

import { html, useEffect, useRef, useState } from "./html.js";

const SHOWN = 12;

/** `wordBefore` finds the word in the text before the cursor; `load` gives all names, or promises them. */
export function Completion({ load, wordBefore, text, place, onChoose }) {
  const [all, setAll] = useState([]);
  useEffect(() => {
    let isCurrent = true;
    Promise.resolve(load()).then((names) => isCurrent && setAll(names));
    return () => void (isCurrent = false);
  }, [load]);
  const word = wordBefore.exec(text.slice(0, place))?.[1] ?? "";
  const fit = word === "" ? [] : all.filter((name) => name.toLowerCase().startsWith(word.toLowerCase()) && name !== word).slice(0, SHOWN);
  return html`<ul class="complete" aria-label="Completion">${fit.map(
    (name, index) => html`<li key=${name}><button type="button" class="small" data-first=${index === 0 ? "" : undefined} onClick=${() => onChoose(word, name)}>${name}</button></li>`,
  )}</ul>`;
}

/** What a field with completion needs, which `field` finds: `place` in its text, what to do with `keys`, and to `complete` a word. */
export function useCompletion({ text, setText, box, field }) {
  const [place, setPlace] = useState(0);
  const complete = (word, chosen) => {
    setText(text.slice(0, place - word.length) + chosen + text.slice(place));
    const at = place - word.length + chosen.length;
    requestAnimationFrame(() => {
      field().focus();
      field().setSelectionRange(at, at);
      setPlace(at);
    });
  };
  const keys = (event) => {
    if (event.target.selectionStart === undefined) return;
    setPlace(event.target.selectionStart);
    if (event.key === "Tab" && !event.shiftKey && event.type === "keydown") {
      const first = box.current.querySelector("[data-first]");
      if (first) {
        event.preventDefault();
        first.click();
      }
    }
  };
  return { place, complete, keys };
}

/** A line with completion. */
export function CompletedLine({ id, label, placeholder, value, onInput, load, wordBefore }) {
  const box = useRef();
  const { place, complete, keys } = useCompletion({ text: value, setText: onInput, box, field: () => box.current.querySelector("input") });
  return html`<div ref=${box} onKeyDown=${keys} onKeyUp=${keys} onInput=${keys} onClick=${keys}>
    <label>${label} <input id=${id} class="mono" spellcheck=${false} autocomplete="off" placeholder=${placeholder} value=${value} onInput=${(event) => onInput(event.target.value)} /></label>
    <${Completion} load=${load} wordBefore=${wordBefore} text=${value} place=${place} onChoose=${complete} />
  </div>`;
}
