// 7,001 articles in ten sections, as in a month of a newspaper's archive. They are made up, and the same each time: the archive itself
// is not ours to ship.

export const ARTICLES = 7_001;
export const SECTIONS = ["World", "U.S.", "Opinion", "Arts", "Business", "New York", "Sports", "Style", "Books", "Technology"];

const SUBJECTS = ["Parliament", "A Small Harbour Town", "The Central Bank", "Researchers", "Striking Drivers", "The Coalition", "City Council"];
const VERBS = ["Weighs", "Rejects", "Prepares for", "Looks Beyond", "Finally Agrees on", "Questions"];
const OBJECTS = ["a New Water Treaty", "the Budget", "“Quiet” Reforms", "a Long Winter", "Its Oldest Bridge", "the Night Trains"];
const VIEWS = 1_000;

export function articles() {
  const next = numbers(1);
  const choose = (list) => list[next() % list.length];
  return Array.from({ length: ARTICLES }, (_, index) => {
    const section = choose(SECTIONS);
    return {
      id: String(index),
      section,
      headline: `${choose(SUBJECTS)} ${choose(VERBS)} ${choose(OBJECTS)}`,
      url: `https://news.example/2021/01/${String(1 + (index % 31)).padStart(2, "0")}/${index}.html`,
      view_count: next() % VIEWS,
    };
  });
}

export const randomViews = () => Math.floor(Math.random() * VIEWS);

/** Marsaglia's xorshift of 32 bits. */
function numbers(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}
