// One client: its verdict, why, what it changes, and its scores beside the typical client's.

let opener = null; // what gets the focus back

function openDetails(client, from) {
  page.chosen = client.place;
  opener = from === "mark" ? () => marks[current]?.node : () => byId("client-table").querySelector(`[data-client="${client.place}"]`) || byId("search-table");
  const close = el("button", { type: "button" }, "Close");
  close.addEventListener("click", closeDetails);
  const title = el("h3", { id: "details-title", tabindex: "-1" }, client.name);
  const status = el("span", { class: "status term" }, [icon(client.status), client.status]);
  const parts = [el("div", { class: "head" }, [title, close]), el("p", {}, [status, ". ", sentence(client.reason)])];
  if (client.status !== "refused") parts.push(...judgement(client));
  const place = byId("details");
  place.replaceChildren(...parts);
  place.hidden = false;
  if (client.status !== "refused") drawOwn(client);
  title.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

function closeDetails() {
  byId("details").hidden = true;
  page.chosen = -1;
  opener?.()?.focus();
}

function judgement(client) {
  const raw = client.raw, threshold = value(raw.threshold), margin = value(raw.margin), left = client.status === "left out";
  const facts = [
    ["score of the filter", number(client.score, 3)],
    ["threshold", number(threshold, 3)],
    ["margin", Number.isFinite(margin) ? `${number(Math.abs(margin), 3)} ${margin > 0 ? "above" : "below"}` : number(margin)],
    ["scores sent", number(client.size)],
    ["counts for", number(client.counted)],
    ["each score counts", number(client.weight, 3)],
  ];
  const parts = [el("dl", { class: "facts" }, facts.map(([name, words]) => el("div", {}, [el("dt", {}, name), el("dd", {}, words)])))];
  const likeness = raw.likeness;
  if (likeness && typeof likeness.sentence === "string") {
    parts.push(el("h4", {}, "What the difference looks like"), el("p", {}, sentence(likeness.sentence)));
  }
  if (raw.drivers.length) {
    parts.push(el("h4", {}, client.status === "kept" ? "Where it differs most from the typical client" : "What drove the verdict"));
    parts.push(el("ul", {}, raw.drivers.map((driver) => el("li", {}, driverWords(driver)))));
  }
  const heads = ["Confidence level", "Radius of all", left ? "If it were taken back" : "Without it", "Its own radius", "Within the radius of all"];
  const rows = page.body.levels.map((level, place) => [
    levelName(place), number(value(level.radius)), changed(client.without[place], value(level.radius)),
    number(client.own[place]), percent(client.within[place]),
  ]);
  parts.push(el("h4", {}, "What it changes"), scrolling(`Radii of ${client.name}`, plainTable(heads, rows)));
  parts.push(el("p", {}, ownWords(client)));
  parts.push(el("h4", {}, "Its scores beside the typical client's"), el("div", { class: "plot", id: "own-plot" }));
  return parts;
}

function driverWords(driver) {
  const where = range(value(driver.low), value(driver.high));
  const place = where.startsWith("below") || where.startsWith("above") ? where : `between ${where.replace(" to ", " and ")}`;
  return `${percent(value(driver.share))} of its scores lie ${place}; of a typical client's, ${percent(value(driver.typical))}. ` +
    `That is ${percent(value(driver.part), 0)} of the (squared) difference.`;
}

function changed(radius, all) {
  if (!Number.isFinite(radius) || !Number.isFinite(all) || all <= 0) return number(radius);
  const move = radius / all - 1;
  return Math.abs(move) < 5e-5 ? "unchanged" : `${number(radius)} (${move > 0 ? "+" : "−"}${percent(Math.abs(move), 2)})`;
}

function ownWords(client) {
  const level = page.body.levels[0], share = client.within[0], target = value(level.confidence_level);
  const [low, high] = wilson(share, client.size);
  const fits = target < low ? "more than the level asks for" : target > high ? "less than the level asks for" : "what the level asks for, within chance";
  const promise = client.status === "left out" ? " It was left out, so the radius of all promises nothing for it; its own radius is all that can be said." : "";
  if (!Number.isFinite(share)) return promise.trim();
  return `The radius of all at ${levelName(0)} holds ${percent(share)} of its scores: ${fits}.${promise}`;
}

function drawOwn(client) {
  const total = client.raw.cells.reduce((sum, count) => sum + count, 0);
  if (!total) return;
  const cls = { "kept": "line-kept", "down-weighted": "line-less", "left out": "line-out" }[client.status];
  const series = [{ cls, name: client.name, shares: client.raw.cells.map((count) => count / total) }, typical()];
  stepFigure("own-plot", `Step lines: shares of the scores of ${client.name} and of the typical client in each cell`, series, false);
  byId("own-plot").prepend(el("ul", { class: "legend" }, series.map((one) => el("li", {}, [swatch(one.cls), short(one.name, 40)]))));
}

const scrolling = (name, inner) => el("div", { class: "scroll", role: "region", "aria-label": name, tabindex: "0" }, inner);

// A table of texts: the first cell of a row names it.
function plainTable(heads, rows, caption) {
  const head = el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name))));
  const lines = rows.map(([first, ...cells]) => el("tr", {}, [el("th", { scope: "row" }, first), ...cells.map((cell) => el("td", {}, cell))]));
  return el("table", {}, [...(caption ? [el("caption", {}, caption)] : []), head, el("tbody", {}, lines)]);
}
