// What every figure needs: the data, elements made without ever parsing a foreign text, and numbers in words.

const ROOT = document.documentElement;
const byId = (id) => document.getElementById(id);
const SPACE = byId("seed").namespaceURI;
const CLASSES = { "kept": "kept", "down-weighted": "less", "left out": "out", "refused": "refused" };
const GAP = "\u00a0";

// Everything the page is about. `level` is the place of the chosen confidence level, `shown` which clients match.
const page = { body: null, evaluation: null, clients: [], level: 0, query: "", shown: [], chosen: -1 };

// A node: attributes are set as text, children are nodes or texts; nothing is ever read as markup.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const child of [children ?? []].flat()) node.append(child instanceof Node ? child : String(child));
  return node;
}
const el = (name, attributes, children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, children) => fill(document.createElementNS(SPACE, name), attributes, children);

async function readData() {
  const holder = byId("data");
  if (!holder.dataset.packed) return JSON.parse(holder.textContent);
  const packed = Uint8Array.from(atob(holder.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Our files write an infinite number as "inf" and one that does not exist as null.
const value = (raw) => (raw === "inf" ? Infinity : raw === null || raw === undefined ? NaN : Number(raw));

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (power) => String(power).replace("-", "⁻").replace(/\d/g, (digit) => RAISED[digit]);

function number(x, digits = 4) {
  if (Number.isNaN(x)) return "none";
  if (!Number.isFinite(x)) return "infinite";
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return x.toLocaleString("en");
  const size = Math.abs(x);
  if (size >= 1e-3 && size < 1e6) {
    if (size >= 10 ** digits) return Math.round(x).toLocaleString("en");
    return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 10 });
  }
  const [mantissa, power] = x.toExponential(digits - 1).split("e");
  return `${Number(mantissa)}${GAP}×${GAP}10${raised(Number(power))}`;
}

function percent(share, digits = 1) {
  if (!Number.isFinite(share)) return number(share);
  return `${Number((100 * share).toFixed(digits))}${GAP}%`;
}

const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const sentence = (words) => (words ? words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".") : "");
const bare = (reason) => reason.replace(/^(left out|refused|down-weighted|kept): /, "");
const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const levelName = (place) => percent(value(page.body.levels[place].confidence_level), 4);

// One row a client, refused ones last, numbers read; `test` is its outcome at each level where there is one.
function gather(data) {
  page.body = data.calibration;
  page.evaluation = data.evaluation;
  const tests = new Map();
  const levels = page.body.levels.map((level) => value(level.confidence_level));
  for (const level of page.evaluation ? page.evaluation.levels : []) {
    const place = levels.indexOf(value(level.confidence_level));
    for (const one of place < 0 ? [] : level.clients) {
      const name = String(one.name);
      if (!tests.has(name)) tests.set(name, []);
      tests.get(name)[place] = one;
    }
  }
  const accepted = page.body.clients.map((raw) => ({
    raw,
    name: String(raw.client),
    status: raw.status,
    reason: bare(raw.reason),
    score: value(raw.score),
    size: value(raw.size),
    weight: value(raw.weight),
    counted: value(raw.counted),
    within: raw.within.map(value),
    without: raw.without.map(value),
    own: raw.own_radii.map(value),
    test: tests.get(String(raw.client)) || [],
  }));
  const refused = page.body.refused.map((raw) => ({
    raw, name: String(raw.client), status: "refused", reason: bare(raw.reason),
    score: NaN, size: NaN, weight: NaN, counted: NaN, within: [], without: [], own: [], test: [],
  }));
  page.clients = [...accepted, ...refused];
  page.clients.forEach((client, place) => {
    client.place = place;
    client.words = `${client.name}\n${client.status}\n${client.reason}`.toLowerCase();
  });
  page.shown = page.clients.map(() => true);
}

// The shape of each status around x, y, all of about the same area: not colour alone.
function shape(status, r, x = 0, y = 0) {
  if (status === "down-weighted") return `M${x - 0.9 * r} ${y - 0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`;
  if (status === "left out") return `M${x} ${y - 1.25 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`;
  if (status === "refused") {
    const a = 0.38 * r, b = 0.67 * r;
    return `M${x - a - b} ${y - b}l${a} ${-a}l${b} ${b}l${b} ${-b}l${a} ${a}l${-b} ${b}l${b} ${b}l${-a} ${a}l${-b} ${-b}l${-b} ${b}l${-a} ${-a}l${b} ${-b}z`;
  }
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function icon(status) {
  const mark = svg("path", { d: shape(status, 5), class: CLASSES[status] });
  return svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, mark);
}

function swatch(cls) {
  const line = svg("path", { d: "M0 6H22", class: `curve ${cls}` });
  return svg("svg", { width: 22, height: 12, viewBox: "0 0 22 12", "aria-hidden": "true" }, line);
}

const legend = (id, items) => byId(id).replaceChildren(...items.map(([sign, words]) => el("li", {}, [sign, words])));

// A note beside the pointer or the focused mark. The same words are the mark's label, so it is hidden from readers.
function tip(plot, x, y, title, lines) {
  untip(plot);
  const note = el("div", { class: "tip", "aria-hidden": "true" }, [el("b", {}, title), ...lines.flatMap((line) => [line, el("br")])]);
  plot.append(note);
  const scale = plot.clientWidth / plot.firstChild.viewBox.baseVal.width;
  const left = Math.min(Math.max(x * scale - note.offsetWidth / 2, 0), plot.clientWidth - note.offsetWidth);
  const above = y * scale - note.offsetHeight - 12;
  note.style.left = `${left}px`;
  note.style.top = `${above > -40 ? above : y * scale + 16}px`;
}
function untip(plot) {
  for (const note of plot.querySelectorAll(".tip")) note.remove();
}
