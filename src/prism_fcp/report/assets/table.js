// The table of all clients: sorted, searched, a hundred at a time; and the downloads.

const PAGE = 100;
const listing = { column: "verdict", down: false, first: 0 };
const SEVERITY = { "left out": 0, "refused": 1, "down-weighted": 2, "kept": 3 };

function columns() {
  const at = page.level, level = levelName(at), radius = value(page.body.levels[at].radius);
  const tested = page.clients.some((client) => client.test[at]);
  return [
    { key: "client", head: "Client", of: (client) => client.name },
    { key: "verdict", head: "Verdict", of: (client) => client.status, rank: (client) => SEVERITY[client.status] },
    { key: "score", head: "Score", of: (client) => client.score, show: (x) => number(x, 3) },
    { key: "size", head: "Scores", of: (client) => client.size, show: number },
    { key: "counted", head: "Count for", of: (client) => client.counted, show: number },
    { key: "within", head: `Within radius, ${level}`, of: (client) => client.within[at] ?? NaN, show: percent },
    { key: "without", head: `Radius without it, ${level}`, of: (client) => client.without[at] ?? NaN, show: (x) => changed(x, radius) },
    { key: "own", head: `Own radius, ${level}`, of: (client) => client.own[at] ?? NaN, show: number },
    ...(tested ? [{ key: "test", head: `Test coverage, ${level}`, of: (client) => value(client.test[at]?.coverage), show: percent }] : []),
    { key: "reason", head: "Reason", of: (client) => client.reason, show: sentence },
  ];
}

function sortedClients(all) {
  const column = all.find((one) => one.key === listing.column) || all[0];
  const rank = column.rank || column.of, sign = listing.down ? -1 : 1;
  const missing = (x) => Number.isNaN(x);
  return page.clients.filter((client) => page.shown[client.place]).sort((a, b) => {
    const x = rank(a), y = rank(b);
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a.place - b.place; // no number: last, both ways round
    if (typeof x === "string") return sign * x.localeCompare(y, "en", { numeric: true }) || a.place - b.place;
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a.place - b.place;
  });
}

function drawTable() {
  const all = columns(), rows = sortedClients(all);
  listing.first = Math.min(listing.first, Math.max(0, PAGE * Math.floor((rows.length - 1) / PAGE)));
  const shown = rows.slice(listing.first, listing.first + PAGE);
  const head = el("tr", {}, all.map((column) => {
    const button = el("button", { type: "button" }, [column.head, listing.column === column.key ? (listing.down ? " ▾" : " ▴") : ""]);
    button.addEventListener("click", () => {
      listing.down = listing.column === column.key ? !listing.down : ["score", "size", "counted"].includes(column.key);
      Object.assign(listing, { column: column.key, first: 0 });
      drawTable();
      byId("client-table").querySelector("[aria-sort] button")?.focus();
    });
    const sort = listing.column === column.key ? (listing.down ? "descending" : "ascending") : null;
    return el("th", { scope: "col", "aria-sort": sort }, button);
  }));
  const lines = shown.map((client) => el("tr", {}, all.map((column) => {
    const found = column.of(client);
    if (column.key === "client") {
      const button = el("button", { type: "button", "data-client": client.place }, client.name);
      button.addEventListener("click", () => openDetails(client, "table"));
      return el("th", { scope: "row" }, button);
    }
    if (column.key === "verdict") return el("td", {}, el("span", { class: "status" }, [icon(client.status), client.status]));
    return el("td", {}, client.status === "refused" && Number.isNaN(found) ? "" : column.show(found));
  })));
  byId("client-table").replaceChildren(el("thead", {}, head), el("tbody", {}, lines));
  byId("table-note").textContent = rows.length ? "" : page.clients.length ? "No client matches the search." : "No client sent anything.";
  byId("pager").hidden = rows.length <= PAGE;
  byId("page-place").textContent = `${listing.first + 1} to ${listing.first + shown.length} of ${rows.length.toLocaleString("en")}`;
  byId("page-back").disabled = listing.first === 0;
  byId("page-on").disabled = listing.first + PAGE >= rows.length;
}

function search(query) {
  page.query = query.trim().toLowerCase();
  const words = page.query.split(/\s+/).filter(Boolean);
  page.clients.forEach((client) => { page.shown[client.place] = words.every((word) => client.words.includes(word)); });
  const found = page.shown.filter(Boolean).length;
  for (const place of document.querySelectorAll("[data-found]")) {
    place.textContent = page.query ? `${found.toLocaleString("en")} of ${counted(page.clients.length, "client")}` : "";
  }
  listing.first = 0;
  highlight();
  drawTable();
}

// A cell that a spreadsheet would take for a formula gets a quote before it: names come from outside.
function csvCell(raw) {
  const text = typeof raw === "number" ? (Number.isNaN(raw) ? "" : String(raw)) : String(raw);
  const safe = typeof raw === "number" || !/^[=+\-@\t\r]/.test(text) ? text : `'${text}`;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvText() {
  const levels = page.body.levels.map((_, place) => String(page.body.levels[place].confidence_level));
  const heads = ["client", "verdict", "score", "threshold", "size", "weight", "counted"];
  for (const what of ["within", "radius_without_it", "own_radius", "test_coverage"]) heads.push(...levels.map((level) => `${what}_${level}`));
  const lines = sortedClients(columns()).map((client) => [
    client.name, client.status, client.score, value(client.raw.threshold), client.size, client.weight, client.counted,
    ...[client.within, client.without, client.own, client.test.map((one) => value(one?.coverage))].flatMap((list) => levels.map((_, place) => list[place] ?? NaN)),
    client.reason,
  ]);
  return [[...heads, "reason"], ...lines].map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function download(name, kind, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
