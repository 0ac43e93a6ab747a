// Asks the server for a section's articles, and draws what the requests took.

const element = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

async function ask(path, options) {
  const response = await fetch(path, options);
  const told = await response.json();
  if (!response.ok) throw new Error(told.error);
  return told;
}

function request(path, more = {}) {
  const chosen = { driver: element("driver").value, section: element("section").value, cold: element("cold").checked, ...more };
  return ask(`${path}?${new URLSearchParams(chosen)}`, { method: "POST" });
}

function make(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

async function read() {
  const { articles, milliseconds } = await request("/api/top");
  element("took").textContent = `${milliseconds.toFixed(2)} ms`;
  element("articles").replaceChildren(
    ...articles.map((article) => {
      const item = make("li", article.headline + " ");
      item.append(make("span", `${article.view_count} views`));
      return item;
    }),
  );
  await draw();
}

async function draw() {
  const { drivers, bar, published, circumstances } = await ask("/api/histograms");
  const figures = Object.entries(drivers).flatMap(([driver, both]) =>
    ["warm", "cold"].filter((kind) => both[kind].count > 0).map((kind) => figure(driver, kind, both[kind], bar)),
  );
  element("histograms").replaceChildren(...figures);
  element("published").replaceChildren(
    ...published.map(({ system, p99, warm }) => {
      const row = document.createElement("tr");
      row.append(make("td", system), make("td", `about ${p99} ms`), make("td", warm === null ? "not told" : `about ${warm} ms`));
      return row;
    }),
  );
  element("circumstances").textContent = circumstances;
}

/** Bars from nothing to five milliseconds; what took longer is told in words. */
function figure(driver, kind, { count, bars, beyond, percentiles }, bar) {
  const drawn = document.createElement("figure");
  drawn.dataset.driver = driver;
  drawn.dataset.kind = kind;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${bars.length} 1`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${driver}, ${kind}: ${count} requests`);
  const most = Math.max(...bars, 1);
  bars.forEach((number, index) => {
    const rect = document.createElementNS(SVG, "rect");
    const height = number / most;
    for (const [key, value] of Object.entries({ x: index, y: 1 - height, width: 0.9, height, class: kind })) rect.setAttribute(key, value);
    svg.append(rect);
  });
  const told = percentiles.map(([percentile, milliseconds]) => `p${percentile} ${milliseconds.toFixed(2)}`).join(", ");
  const span = `0 to ${(bars.length * bar).toFixed(0)} ms${beyond ? `, ${beyond} beyond` : ""}`;
  drawn.append(make("figcaption", `${driver}, ${kind}: ${count} requests, ${span}; ${told} ms`), svg);
  return drawn;
}

async function begin() {
  const { sections, drivers } = await ask("/api/choices");
  element("driver").replaceChildren(...drivers.map((driver) => make("option", driver)));
  element("section").replaceChildren(...sections.map((section) => make("option", section)));
  element("choice").addEventListener("submit", (event) => {
    event.preventDefault();
    read();
  });
  element("many").addEventListener("click", async () => {
    await request("/api/run", { count: 100 });
    await read();
  });
  await read();
}

begin();
