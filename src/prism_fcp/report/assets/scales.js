// Axes: numbers to places and back, on a straight or a logarithmic scale, and where to put ticks.

function linear(low, high, from, to) {
  const span = high - low || 1;
  const scale = (x) => from + ((x - low) / span) * (to - from);
  scale.ticks = (most) => {
    const raw = span / most, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((part) => part * size).find((part) => part >= raw);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k += 1) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  };
  return scale;
}

function logarithmic(low, high, from, to) {
  const a = Math.log(low), span = Math.log(high) - a || 1;
  const scale = (x) => from + ((Math.log(x) - a) / span) * (to - from);
  scale.ticks = (most) => {
    const decades = span / Math.LN10;
    const parts = decades * 3 <= most ? [1, 2, 5] : [1];
    const skip = parts.length > 1 ? 1 : Math.max(1, Math.ceil(decades / most));
    const ticks = [];
    for (let power = Math.floor(a / Math.LN10) - 1; power <= Math.ceil((a + span) / Math.LN10); power += 1) {
      if (((power % skip) + skip) % skip !== 0) continue;
      for (const part of parts) {
        const x = Number(`${part}e${power}`);
        if (x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9)) ticks.push(x);
      }
    }
    return ticks;
  };
  return scale;
}

// A drawing as wide as its place is now, so that letters keep their size on a phone.
function canvas(id, height, label, attributes) {
  const plot = byId(id);
  const width = Math.max(Math.round(plot.clientWidth || 720), 280);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, ...attributes });
  plot.replaceChildren(drawing);
  return { plot, drawing, width, height };
}

function label(x, y, words, attributes) {
  return svg("text", { x, y, ...attributes }, words);
}

function bottomAxis(drawing, scale, y, from, to, title, most, format = number) {
  drawing.append(svg("path", { class: "axis", d: `M${from} ${y}H${to}` }));
  let last = -Infinity;
  for (const tick of scale.ticks(most)) {
    const x = scale(tick), words = format(tick);
    if (x < from - 1 || x > to + 1 || x - last < 6 * words.length + 10) continue;
    last = x;
    drawing.append(svg("path", { class: "axis", d: `M${x} ${y}v5` }), label(x, y + 18, words, { "text-anchor": "middle", class: "quiet" }));
  }
  if (title) drawing.append(label(to, y + 36, title, { "text-anchor": "end", class: "quiet" }));
}

function leftAxis(drawing, scale, x, to, most, format) {
  for (const tick of scale.ticks(most)) {
    const y = scale(tick);
    drawing.append(svg("path", { class: "grid", d: `M${x} ${y}H${to}` }), label(x - 7, y + 4, format(tick), { "text-anchor": "end", class: "quiet" }));
  }
}
