// Every client a mark on the axis of the filter's score. Few clients get a line each, with their names; many a swarm.

const ROWS = 20; // clients, up to which each has a line of its own
let marks = []; // { client, x, y, r, node } by score, the refused last: the order in which the arrow keys walk
let current = 0; // the mark that Tab reaches

function scoreScale(scores, threshold, from, to) {
  const finite = [...scores, threshold].filter((x) => Number.isFinite(x));
  const positive = finite.filter((x) => x > 0);
  const low = Math.min(...positive), high = Math.max(...finite, 0) || 1;
  const beyond = scores.some((x) => x === Infinity) ? 40 : 0;
  if (!positive.length || high / low <= 30 || finite.some((x) => x < 0)) {
    const scale = linear(Math.min(0, ...finite), 1.04 * high, from, to - beyond);
    return { scale, at: (x) => (x === Infinity ? to : scale(x)), from, to: to - beyond, words: "straight" };
  }
  const zeros = scores.some((x) => x === 0) ? 40 : 0;
  const scale = logarithmic(low / 1.15, high * 1.15, from + zeros, to - beyond);
  const at = (x) => (x === Infinity ? to : x > 0 ? scale(x) : from + 6);
  return { scale, at, from: from + zeros, to: to - beyond, zeros, words: "logarithmic" };
}

function radiusOf(client, many) {
  const r = many <= ROWS ? 7 : many <= 150 ? 6 : many <= 600 ? 4.2 : many <= 3000 ? 2.8 : 2;
  return client.status === "kept" ? r : Math.max(r, 4.2);
}

// Put marks of equal or near scores above and below the middle line, as near to it as the others leave room.
function swarm(placed, middle, half) {
  const gap = 2 * placed[0].r + 1, columns = new Map();
  for (const mark of placed) {
    const column = Math.round(mark.x / gap);
    if (!columns.has(column)) columns.set(column, []);
    columns.get(column).push(mark);
    mark.x = column * gap;
  }
  const tallest = Math.max(...[...columns.values()].map((column) => column.length));
  const step = Math.min(gap, (2 * half) / Math.max(tallest - 1, 1));
  for (const column of columns.values()) {
    column.forEach((mark, k) => { mark.y = middle + (k % 2 ? 1 : -1) * Math.ceil(k / 2) * step; });
  }
}

function drawVerdicts() {
  const clients = page.clients, filter = page.body.filter, threshold = value(filter.threshold);
  const judged = clients.filter((client) => !Number.isNaN(client.score)).sort((a, b) => a.score - b.score);
  const refused = clients.filter((client) => client.status === "refused");
  const inRows = clients.length <= ROWS;
  const names = document.documentElement.clientWidth < 560 ? 12 : 24;
  const gutter = inRows ? Math.min(Math.max(...clients.map((client) => client.name.length), 4), names) * 7.2 + 14 : 6;
  const listed = inRows ? [...judged].reverse().concat(refused) : [];
  const middleHeight = inRows ? 26 * listed.length : clients.length <= 150 ? 150 : 230;
  const top = 30, bottom = top + middleHeight + 6;
  const perRow = Math.max(1, Math.floor((byId("verdict-plot").clientWidth - 100) / 11));
  const lane = !inRows && refused.length ? 26 + 11 * Math.ceil(Math.min(refused.length, 600) / perRow) : 0;
  const { drawing, width, plot } = canvas("verdict-plot", bottom + 44 + lane, verdictWords(judged, refused, threshold), {
    // Chromium lets Tab stop at a drawing that listens for focus; the marks are what should be reached.
    role: "group", tabindex: -1, "aria-describedby": "verdict-caption verdict-keys",
  });
  const { scale, at, from, to, zeros, words } = scoreScale(judged.map((client) => client.score), threshold, gutter + 8, width - 12);

  if (Number.isFinite(threshold)) {
    const x = at(threshold), right = x > width / 2;
    drawing.append(
      svg("rect", { class: "zone", x, y: top - 6, width: Math.max(width - x, 0), height: bottom - top + 6 }),
      svg("path", { class: "limit", d: `M${x} ${top - 12}V${bottom}` }),
      label(x + (right ? -6 : 6), top - 14, `threshold ${number(threshold, 3)}`, { "text-anchor": right ? "end" : "start" }),
    );
  }
  if (judged.length) bottomAxis(drawing, scale, bottom, from, to, `score of the filter “${short(filter.name, 24)}”`, (to - from) / 70, (x) => number(x, 3));
  if (zeros) drawing.append(svg("path", { class: "axis", d: `M${gutter + 4} ${bottom}h20` }), label(gutter + 14, bottom + 18, "0", { "text-anchor": "middle", class: "quiet" }));

  marks = judged.map((client) => ({ client, x: at(client.score), y: 0, r: radiusOf(client, clients.length) }));
  if (inRows) {
    listed.forEach((client, row) => {
      const y = top + 13 + 26 * row;
      drawing.append(
        svg("path", { class: "grid", d: `M${gutter} ${y}H${width}` }),
        label(gutter - 8, y + 4, short(client.name, names), { "text-anchor": "end" }),
      );
      const mark = marks.find((one) => one.client === client);
      if (mark) mark.y = y;
      else {
        marks.push({ client, x: gutter + 16, y, r: 6 });
        drawing.append(label(gutter + 30, y + 4, "refused, not compared", { class: "quiet halo" }));
      }
    });
  } else {
    if (marks.length) swarm(marks, (top + bottom) / 2, middleHeight / 2 - 8);
    if (refused.length) drawing.append(label(0, bottom + 62, "refused:", { class: "quiet" }));
    refused.slice(0, 600).forEach((client, k) => {
      marks.push({ client, x: 66 + 11 * (k % perRow), y: bottom + 58 + 11 * Math.floor(k / perRow), r: 4.2 });
    });
  }
  const layer = svg("g"), order = marks.map((_, k) => k).sort((a, b) => (marks[a].client.status === "kept" ? 0 : 1) - (marks[b].client.status === "kept" ? 0 : 1));
  current = Math.min(Math.max(marks.findIndex((mark) => mark.client.place === page.chosen), 0), Math.max(marks.length - 1, 0));
  for (const k of order) {
    const mark = marks[k];
    mark.node = svg("path", {
      d: shape(mark.client.status, mark.r), transform: `translate(${mark.x.toFixed(1)} ${mark.y.toFixed(1)})`,
      class: `mark ${CLASSES[mark.client.status]}${clients.length > 600 ? " small" : ""}`, role: "button",
      tabindex: k === current ? 0 : -1, "data-mark": k, "aria-label": markWords(mark.client).join(", "),
    });
    layer.append(mark.node);
  }
  drawing.append(layer, svg("circle", { class: "ring", r: 0 }));
  const counts = Object.keys(CLASSES).map((status) => [status, clients.filter((client) => client.status === status).length]);
  legend("verdict-legend", counts.filter(([, n]) => n).map(([status, n]) => [icon(status), `${status}: ${n.toLocaleString("en")}`]));
  const unplaced = clients.length - marks.length;
  byId("verdict-caption").textContent = [
    `Score: ${sentence(filter.measure.replace(/[,;\s]+$/, ""))}`, `The axis is ${words}.`,
    Number.isFinite(threshold) ? "A client right of the dashed line is not trusted in full." : "This filter has no threshold.",
    unplaced ? `${counted(unplaced, "client")} without a mark: see the table.` : "",
  ].filter(Boolean).join(" ");
  highlight();
  listenToMarks(plot, drawing);
}

function verdictWords(judged, refused, threshold) {
  const count = (status) => judged.filter((client) => client.status === status).length;
  return `Marks of ${counted(judged.length, "client")} by score: ${count("kept")} kept, ${count("down-weighted")} down-weighted, ` +
    `${count("left out")} left out; ${refused.length} refused.` + (Number.isFinite(threshold) ? ` Threshold ${number(threshold, 3)}.` : "");
}

function markWords(client) {
  if (client.status === "refused") return [client.name, "refused"];
  return [client.name, client.status, `score ${number(client.score, 3)}`, counted(client.size, "score")];
}

function listenToMarks(plot, drawing) {
  const nearest = (event) => {
    const box = drawing.getBoundingClientRect(), scale = drawing.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = -1, least = event.pointerType === "touch" ? 24 ** 2 : 12 ** 2;
    marks.forEach((mark, k) => {
      const gap = (mark.x - x) ** 2 + (mark.y - y) ** 2 - mark.r ** 2 + (page.shown[mark.client.place] ? 0 : 60);
      if (gap < least) { least = gap; best = k; }
    });
    return best;
  };
  const show = (k) => {
    const mark = marks[k];
    ringAround(drawing, mark);
    tip(plot, mark.x, mark.y, short(mark.client.name, 80), [markWords(mark.client).slice(1).join(", "), short(sentence(mark.client.reason), 160)]);
  };
  const hide = () => { untip(plot); ringAround(drawing, null); };
  drawing.addEventListener("pointermove", (event) => {
    const k = nearest(event);
    drawing.style.cursor = k < 0 ? "" : "pointer";
    if (k >= 0) show(k); else hide();
  });
  drawing.addEventListener("pointerleave", hide);
  drawing.addEventListener("click", (event) => {
    const k = event.detail ? nearest(event) : Number(event.target.dataset.mark ?? -1);
    if (k >= 0) { moveTo(k, false); openDetails(marks[k].client, "mark"); }
  });
  drawing.addEventListener("focusin", (event) => show(Number(event.target.dataset.mark)));
  drawing.addEventListener("focusout", hide);
  drawing.addEventListener("keydown", (event) => {
    const visible = marks.map((_, k) => k).filter((k) => page.shown[marks[k].client.place]);
    const here = visible.indexOf(current), far = Math.max(1, Math.round(visible.length / 10));
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: far, PageUp: -far }[event.key];
    let next = null;
    if (event.key === "Home") next = 0;
    else if (event.key === "End") next = visible.length - 1;
    else if (step) next = Math.min(Math.max(here + step, 0), visible.length - 1);
    else if (event.key === "Enter" || event.key === " ") openDetails(marks[current].client, "mark");
    else return;
    event.preventDefault();
    if (next !== null && visible.length) moveTo(visible[next], true);
  });
}

function ringAround(drawing, mark) {
  fill(drawing.querySelector(".ring"), mark ? { r: mark.r + 4, cx: mark.x, cy: mark.y } : { r: 0 });
}

function moveTo(k, focus) {
  marks[current].node.setAttribute("tabindex", "-1");
  current = k;
  marks[k].node.setAttribute("tabindex", "0");
  if (focus) marks[k].node.focus({ preventScroll: true });
}

// Make the marks that do not match the search faint; Tab goes to one that does.
function highlight() {
  for (const mark of marks) mark.node.classList.toggle("faint", !page.shown[mark.client.place]);
  if (marks.length && !page.shown[marks[current].client.place]) {
    const first = marks.findIndex((mark) => page.shown[mark.client.place]);
    if (first >= 0) moveTo(first, false);
  }
}
