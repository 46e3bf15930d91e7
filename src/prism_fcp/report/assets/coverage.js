// The share of each client's own scores within the radius, with what chance leaves open.

const NAMED = 40; // clients, up to which each has a line with its name

// Wilson's interval of a share at 95 %: it stays within 0 and 1 and works for small n.
function wilson(share, n) {
  if (!(n > 0) || !Number.isFinite(share)) return [NaN, NaN];
  const z = 1.959964, square = (z * z) / n;
  const middle = (share + square / 2) / (1 + square);
  const half = (z / (1 + square)) * Math.sqrt((share * (1 - share)) / n + square / (4 * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

function drawCoverage() {
  const target = value(page.body.levels[page.level].confidence_level);
  const rows = page.clients.filter((client) => Number.isFinite(client.within[page.level])).map((client) => {
    const share = client.within[page.level], [low, high] = wilson(share, client.size);
    return { client, name: client.name, status: client.status, n: client.size, share, low, high };
  });
  const tests = page.evaluation && page.evaluation.levels.find((level) => value(level.confidence_level) === target);
  const known = new Map(page.clients.filter((client) => client.status !== "refused").map((client) => [client.name, client]));
  const tested = (tests ? tests.clients : []).map((one) => ({
    client: known.get(String(one.name)) || null, name: String(one.name), status: known.get(String(one.name))?.status || "kept",
    n: value(one.num_samples), share: value(one.coverage), low: value(one.low), high: value(one.high),
  })).filter((one) => Number.isFinite(one.share));
  const beside = rows.length <= NAMED && tested.length > 0;
  const statuses = ["kept", "down-weighted", "left out"].filter((status) => rows.some((row) => row.status === status));
  const items = statuses.map((status) => [icon(status), status]);
  if (beside) items.push([hollow(), "on its test data"]);
  legend("coverage-legend", items);
  drawShares("coverage-plot", "coverage-caption", rows, beside ? tested : [], target,
    "The whiskers are Wilson's 95 % interval for a share of so many scores.");
  byId("test-part").hidden = !tested.length;
  if (tested.length) {
    const sure = percent(value(page.evaluation.confidence));
    if (beside) byId("test-plot").replaceChildren();
    else drawShares("test-plot", "test-caption", tested, [], target, `The whiskers are Clopper and Pearson's ${sure} interval.`);
    byId("test-caption").textContent = beside
      ? `In the figure above the hollow squares are the test data; their whiskers are Clopper and Pearson's ${sure} interval.` : byId("test-caption").textContent;
    testTable(tests);
  }
}

const hollow = () => svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, svg("path", { d: shape("down-weighted", 4), class: "curve line-test" }));

function drawShares(id, caption, rows, tested, target, method) {
  if (!rows.length) {
    byId(id).replaceChildren(el("p", { class: "hint" }, "No client's scores to show."));
    return;
  }
  const sorted = [...rows].sort((a, b) => a.share - b.share);
  const under = rows.filter((row) => row.high < target).length, over = rows.filter((row) => row.low > target).length;
  const words = `${counted(rows.length, "client")}: lowest share ${percent(sorted[0].share)} (${sorted[0].name}), median ` +
    `${percent(sorted[Math.floor(sorted.length / 2)].share)}, highest ${percent(sorted.at(-1).share)} (${sorted.at(-1).name}). ` +
    `Whole interval below the level: ${under}; above it: ${over}.`;
  byId(caption).textContent = `${words} ${method}`;
  const lowest = Math.min(target, ...[...rows, ...tested].map((row) => row.low));
  const start = lowest > 0.5 ? Math.floor(20 * lowest) / 20 : lowest > 0.25 ? 0.25 : 0;
  if (rows.length <= NAMED) namedShares(id, sorted, tested, target, start, words);
  else crowdedShares(id, sorted, target, start, words);
}

function namedShares(id, rows, tested, target, start, words) {
  const high = tested.length ? 34 : 24, names = document.documentElement.clientWidth < 560 ? 12 : 24;
  const gutter = Math.min(Math.max(...rows.map((row) => row.name.length), 4), names) * 7.2 + 14;
  const top = 30, bottom = top + high * rows.length;
  const { drawing, width } = canvas(id, bottom + 40, words);
  const x = linear(start, 1, gutter + 8, width - 14);
  rows.forEach((row, k) => {
    const y = top + high * (k + 0.5), test = tested.find((one) => one.name === row.name), up = test ? y - 6 : y;
    const open = svg("g", { class: "mark" }, [
      svg("path", { class: `whisker line-${CLASSES[row.status]}`, d: `M${x(row.low)} ${up}H${x(row.high)}` }),
      svg("path", { class: CLASSES[row.status], d: shape(row.status, 5), transform: `translate(${x(row.share)} ${up})` }),
      svg("title", {}, `${row.name}: ${percent(row.share)} of ${counted(row.n, "score")}, ${percent(row.low)} to ${percent(row.high)}`),
    ]);
    if (test) {
      open.append(
        svg("path", { class: "whisker line-test", d: `M${x(test.low)} ${y + 7}H${x(test.high)}` }),
        svg("path", { class: "curve line-test", d: shape("down-weighted", 4), transform: `translate(${x(test.share)} ${y + 7})` }),
      );
    }
    if (row.client) open.addEventListener("click", () => openDetails(row.client, "table"));
    drawing.append(svg("path", { class: "grid", d: `M${gutter} ${y}H${width}` }), label(gutter - 8, y + 4, short(row.name, names), { "text-anchor": "end" }), open);
  });
  targetLine(drawing, `M${x(target)} ${top - 8}V${bottom}`, x(target), top - 14, target, x(target) > width / 2);
  bottomAxis(drawing, x, bottom, gutter + 8, width - 14, "", (width - gutter) / 80, (tick) => percent(tick));
}

function crowdedShares(id, rows, target, start, words) {
  const height = 300, bottom = height - 36;
  const { drawing, width, plot } = canvas(id, height, words);
  const from = 48, to = width - 8, y = linear(start, 1, bottom, 26), x = linear(-0.5, rows.length - 0.5, from + 4, to);
  leftAxis(drawing, y, from, to, 5, (tick) => percent(tick));
  const r = rows.length > 1500 ? 1.2 : rows.length > 300 ? 2 : 3;
  for (const status of ["kept", "down-weighted", "left out"]) {
    let whiskers = "", dots = "";
    rows.forEach((row, k) => {
      if (row.status !== status) return;
      const at = x(k), big = status === "kept" ? r : Math.max(r, 2.6);
      whiskers += `M${at.toFixed(1)} ${y(row.low).toFixed(1)}V${y(row.high).toFixed(1)}`;
      dots += shape(status, big, Number(at.toFixed(1)), Number(y(row.share).toFixed(1)));
    });
    drawing.append(
      svg("path", { class: `whisker line-${CLASSES[status]}${rows.length > 300 ? " thin" : ""}`, d: whiskers }),
      svg("path", { class: CLASSES[status], d: dots }),
    );
  }
  targetLine(drawing, `M${from} ${y(target)}H${to}`, from + 4, y(target) - 6, target, false);
  drawing.append(label(to, bottom + 22, "clients, by their share", { "text-anchor": "end", class: "quiet" }), svg("path", { class: "axis", d: `M${from} ${bottom}H${to}` }));
  const pick = (event) => {
    const box = drawing.getBoundingClientRect();
    const k = Math.round((((event.clientX - box.left) * width) / box.width - from - 4) / ((to - from - 4) / rows.length) - 0.5);
    return rows[Math.min(Math.max(k, 0), rows.length - 1)];
  };
  drawing.addEventListener("pointermove", (event) => {
    const row = pick(event);
    tip(plot, x(rows.indexOf(row)), y(row.share), short(row.name, 80), [`${row.status}, ${percent(row.share)} of ${counted(row.n, "score")}`, `interval ${percent(row.low)} to ${percent(row.high)}`]);
  });
  drawing.addEventListener("pointerleave", () => untip(plot));
  drawing.addEventListener("click", (event) => { if (pick(event).client) openDetails(pick(event).client, "table"); });
}

function targetLine(drawing, d, x, y, target, left) {
  drawing.append(svg("path", { class: "limit", d }), label(x, y, `level ${percent(target, 4)}`, { class: "halo", "text-anchor": left ? "end" : "start" }));
}

function testTable(level) {
  const line = (name, one) => [
    name, number(value(one.num_samples)), percent(value(one.coverage)), `${percent(value(one.low))} to ${percent(value(one.high))}`,
    number(value(one.width)), number(value(one.winkler)),
  ];
  const worst = level.clients.find((one) => one.name === level.worst);
  const rows = [line("all", level.overall), ...level.groups.map((one) => line(`group ${one.name}`, one))];
  if (worst) rows.push(line(`worst client: ${worst.name}`, worst));
  const table = plainTable(["On test data", "Cases", "Coverage", "Interval of the coverage", "Mean width", "Winkler score"], rows,
    `Clients under the level: ${percent(value(level.share_under))} (half of them, by chance alone); clearly under it, with their whole interval: ${percent(value(level.share_clearly_under))}. ` +
    "The Winkler score adds to the width a penalty for each case missed: smaller is better.");
  byId("test-table").replaceChildren(...table.childNodes);
}
