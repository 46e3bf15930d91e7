// Shares of scores over the cells as step lines; and who sent them, pooled.

// The cells' places on the axis. The first and the last may reach to 0 and to infinity: they get a zone of their own.
function cellAxis(edges, from, to, bottom, drawing) {
  const inner = edges.filter((edge) => edge > 0 && Number.isFinite(edge));
  const steps = inner.slice(1).map((edge, k) => edge - inner[k]);
  const even = Number.isFinite(edges.at(-1)) && edges[0] === 0 && steps.every((step) => Math.abs(step - steps[0]) < 1e-6 * edges.at(-1));
  if (even || inner.length < 2) {
    const high = inner.length ? inner.at(-1) : 1;
    const straight = linear(0, high, from, Number.isFinite(edges.at(-1)) ? to : to - 60);
    bottomAxis(drawing, straight, bottom, from, to, "score", (to - from) / 80);
    return { at: (x) => (Number.isFinite(x) ? straight(Math.min(x, high)) : to), words: "" };
  }
  const wide = Math.min(70, (to - from) / 6);
  const under = edges[0] === 0, over = edges.at(-1) === Infinity;
  const left = under ? from + wide : from, right = over ? to - wide : to;
  const [low, high] = shownRange(inner);
  const scale = logarithmic(low, high, left, right);
  for (const [is, x] of [[under, from], [over, right]]) {
    if (is) drawing.append(svg("rect", { class: "zone", x, y: 14, width: wide, height: bottom - 14 }));
  }
  bottomAxis(drawing, scale, bottom, left, right, "score", (right - left) / 70);
  if (under) drawing.append(label(from + 2, bottom + 36, `◂ below ${number(inner[0], 2)}`, { class: "quiet" }));
  drawing.append(svg("path", { class: "axis", d: `M${from} ${bottom}H${to}` }));
  const at = (x) => {
    if (x < inner[0]) return under ? from + (wide * x) / inner[0] : from;
    if (x > inner.at(-1)) return Number.isFinite(x) ? right + wide / 2 : to;
    return scale(Math.min(Math.max(x, low), high));
  };
  const ends = [
    low > inner[0] ? `the cell that begins at ${number(low, 2)} here reaches down to ${number(inner[0], 3)}` : "",
    high < inner.at(-1) ? `the one that ends at ${number(high, 2)} reaches up to ${number(inner.at(-1), 3)}` : "",
    under ? `the leftmost cell holds all scores below ${number(inner[0], 3)}` : "",
    over ? `the rightmost all scores above ${number(inner.at(-1), 3)}` : "",
  ];
  return { at, words: ends.filter(Boolean).join(", ") };
}

// The outermost of the inner cells may span many powers of ten, with hardly a score in them: of these a part is drawn.
function shownRange(inner) {
  const radii = page.body.levels.map((level) => value(level.radius)).filter((radius) => radius > 0 && Number.isFinite(radius));
  if (inner.length < 4) return [inner[0], inner.at(-1)];
  return [
    Math.max(inner[0], Math.min(inner[1], ...radii) / 3),
    Math.min(inner.at(-1), Math.max(inner.at(-2), ...radii) * 3),
  ];
}

// Draw series of shares, one number a cell, in place `id`; `sums` adds them up from the left.
function stepFigure(id, name, series, sums) {
  const edges = page.body.cells.edges.map(value);
  const height = 300, bottom = height - 44;
  const { drawing, width } = canvas(id, height, name);
  const from = 48, to = width - 8;
  const lines = series.map((one) => {
    let total = 0;
    return sums ? one.shares.map((share) => (total += share)) : one.shares;
  });
  const most = sums ? 1 : Math.min(1, 1.1 * Math.max(0.01, ...lines.flat()));
  const y = linear(0, most, bottom, 24);
  const axis = cellAxis(edges, from, to, bottom, drawing);
  leftAxis(drawing, y, from, to, 5, (tick) => percent(tick));
  page.body.levels.forEach((level, place) => {
    const radius = value(level.radius);
    if (!Number.isFinite(radius)) return;
    const x = axis.at(radius), row = page.body.levels.length - 1 - place, right = x > (from + to) / 2;
    drawing.append(
      svg("path", { class: "limit", d: `M${x} 14V${bottom}` }),
      label(x + (right ? -5 : 5), 24 + 16 * (row % 6), `radius at ${levelName(place)}: ${number(radius)}`, { class: "halo", "text-anchor": right ? "end" : "start" }),
    );
  });
  lines.forEach((shares, k) => {
    let d = `M${axis.at(edges[0])} ${bottom}`;
    shares.forEach((share, h) => { d += `L${axis.at(edges[h])} ${y(share).toFixed(1)}H${axis.at(edges[h + 1]).toFixed(1)}`; });
    drawing.append(svg("path", { class: `curve ${series[k].cls}`, d: sums ? d : `${d}V${bottom}` }));
  });
  return axis.words;
}

// Shares of all scores of some clients together, each score counting for `weight(client)`.
function pooled(clients, weight) {
  const sums = page.body.cells.typical.map(() => 0);
  let total = 0;
  for (const client of clients) {
    const part = weight(client);
    client.raw.cells.forEach((count, h) => { sums[h] += part * count; total += part * count; });
  }
  return total > 0 ? sums.map((sum) => sum / total) : null;
}

const typical = () => ({ cls: "line-typical", name: "typical client", shares: page.body.cells.typical.map((share) => value(share) || 0) });

function drawScores() {
  const judged = page.clients.filter((client) => client.status !== "refused");
  const kept = pooled(judged.filter((client) => client.weight > 0 && client.status !== "left out"), (client) => client.weight);
  const out = pooled(judged.filter((client) => client.status === "left out"), () => 1);
  if (!page.body.cells.typical.length || !judged.length) {
    byId("score-plot").replaceChildren(el("p", { class: "hint" }, "No client was compared, so there is nothing to draw."));
    return;
  }
  const series = [
    kept && { cls: "line-kept", name: "clients that count, together", shares: kept },
    out && { cls: "line-out", name: "clients left out, together", shares: out },
    typical(),
  ].filter(Boolean);
  const sums = document.querySelector("input[name=score-view]:checked").value === "sums";
  const words = series.map((one) => {
    const peak = one.shares.indexOf(Math.max(...one.shares));
    return `${one.name}: the fullest cell, ${range(value(page.body.cells.edges[peak]), value(page.body.cells.edges[peak + 1]))}, holds ${percent(one.shares[peak])}`;
  });
  const ends = stepFigure("score-plot", `Step lines of score distributions. ${words.join(". ")}.`, series, sums);
  legend("score-legend", series.map((one) => [swatch(one.cls), one.name]));
  byId("score-caption").textContent = sentence([
    sums ? "share of the scores at or below each edge; where the line of the clients that count crosses a radius, it stands at that radius' level"
      : "share of the scores in each of the cells on which the filter compares clients; they are not equally wide",
    ends,
    out ? "" : "no client was left out",
  ].filter(Boolean).join("; "));
}

function range(low, high) {
  if (!Number.isFinite(high)) return `above ${number(low, 3)}`;
  return low <= 0 ? `below ${number(high, 3)}` : `${number(low, 3)} to ${number(high, 3)}`;
}
