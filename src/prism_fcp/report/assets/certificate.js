// What is left of the coverage if clients that count are liars, what a guard against them costs, and the paper's bounds.

function drawCertificate() {
  const chosen = value(page.body.levels[page.level].confidence_level), all = page.body.certificate;
  const found = all.levels.find((level) => value(level.confidence_level) === chosen) || { rows: [], guards: [] };
  const who = (row) => {
    const liars = value(row.liars);
    return Number.isNaN(liars) ? `liars with ${percent(value(row.fraction))} of what counts` : counted(liars, "liar");
  };
  certificateFigure(found.rows, chosen, who);
  byId("certificate-caption").textContent = found.rows.length
    ? `Bars reach from the least to the most coverage, each with ${percent(value(all.confidence))} confidence. A hatched bar says nothing: every coverage lies within it. The small line is the least coverage on average over repetitions, if the honest clients that count are alike.`
    : "The file holds no certificate for this level.";
  const words = ([low, high]) => (value(low) <= 0 && value(high) >= 1 ? "vacuous: anything" : `${cut(value(low), Math.floor)} to ${cut(value(high), Math.ceil)}`);
  const table = plainTable(
    ["Undetected liars", "Share of what counts", "Honest clients that count", "All honest clients", "On average at least", "In words"],
    found.rows.map((row) => [who(row), percent(value(row.fraction)), words(row.kept), words(row.everyone), percent(value(row.expected)), sentence(row.sentence)]),
  );
  byId("certificate-table").replaceChildren(...table.childNodes);
  const guards = plainTable(["Lies, of the scores that count", "Radius", "Interval width", "Price"], found.guards.map((guard) => {
    const radius = value(guard.radius), price = value(guard.price);
    const cost = !Number.isFinite(radius) ? "no radius is large enough" : !Number.isFinite(price) ? "not known" : price === 1 ? "none" : `intervals ${percent(price - 1)} wider`;
    return [percent(value(guard.fraction)), number(radius), number(2 * radius), cost];
  }));
  byId("guard-table").replaceChildren(...guards.childNodes);
  const paper = [
    ["Coverage (the paper's corollary on coverage after filtering)", all.paper.coverage],
    ["Detection (the paper's theorem on exact filtering)", all.paper.detection],
  ].filter(([, text]) => typeof text === "string");
  byId("paper-part").replaceChildren(...(paper.length
    ? paper.map(([name, text]) => el("p", {}, [el("b", {}, name), ": ", sentence(text)]))
    : [el("p", {}, "The file holds none: they do not apply where half of the clients or more were left out.")]));
}

// Towards the side that promises less.
const cut = (share, round) => percent(Math.min(Math.max(round(1000 * share + (round === Math.floor ? 1e-9 : -1e-9)) / 1000, 0), 1));

function certificateFigure(rows, target, who) {
  if (!rows.length) {
    byId("certificate-plot").replaceChildren(el("p", { class: "hint" }, "No certificate."));
    return;
  }
  const words = rows.map((row) => row.sentence).join(". ");
  const { drawing, width } = canvas("certificate-plot", 316, `Bars of least and most coverage. ${words}`);
  const lows = rows.flatMap((row) => [value(row.kept[0]), value(row.everyone[0])]).filter((low) => low > 0);
  const lowest = rows.some((row) => value(row.kept[0]) <= 0 || value(row.everyone[0]) <= 0) ? 0 : Math.min(...lows, target);
  const bottom = 266, from = 48, to = width - 6, y = linear(lowest > 0.5 ? Math.floor(20 * lowest) / 20 : 0, 1, bottom, 20);
  leftAxis(drawing, y, from, to, 5, (tick) => percent(tick));
  drawing.append(svg("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("path", { class: "hatch-line", d: "M0 0V6" }))));
  const slot = (to - from) / rows.length, thick = Math.max(Math.min(slot * 0.26, 22), 4);
  rows.forEach((row, k) => {
    const middle = from + slot * (k + 0.5);
    for (const [bounds, shift, cls] of [[row.kept, -0.6, "kept"], [row.everyone, 0.6, "test"]]) {
      const low = Math.max(value(bounds[0]) || 0, 0), high = Number.isNaN(value(bounds[1])) ? 1 : Math.min(value(bounds[1]), 1);
      const top = y(high), tall = Math.max(y(low) - top, 2);
      drawing.append(svg("rect", { class: low <= 0 && high >= 1 ? "hatch" : cls, x: middle + shift * thick - thick / 2, y: top, width: thick, height: tall }));
    }
    const expected = value(row.expected);
    if (Number.isFinite(expected) && expected > 0) drawing.append(svg("path", { class: "axis", "stroke-width": 2, d: `M${middle - 1.3 * thick} ${y(expected)}H${middle + 1.3 * thick}` }));
    const liars = value(row.liars);
    drawing.append(label(middle, bottom + 18, Number.isNaN(liars) ? percent(value(row.fraction)) : number(liars), { "text-anchor": "middle", class: "quiet" }));
  });
  targetLine(drawing, `M${from} ${y(target)}H${to}`, to, y(target) - 6, target, true);
  drawing.append(svg("path", { class: "axis", d: `M${from} ${bottom}H${to}` }), label(to, bottom + 38, "undetected liars among the clients that count", { "text-anchor": "end", class: "quiet" }));
  const square = (cls) => svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { class: cls, width: 12, height: 12 }));
  legend("certificate-legend", [[square("kept"), "left bar: honest clients that count"], [square("test"), "right bar: all honest clients, those left out included"]]);
}
