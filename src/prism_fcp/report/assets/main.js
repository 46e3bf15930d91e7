// Put everything in its place, and listen.

const drawAll = () => { drawVerdicts(); drawScores(); drawCoverage(); drawCertificate(); };

function chooseLevel(place) {
  page.level = place;
  for (const input of document.querySelectorAll("[data-levels] input")) input.checked = Number(input.value) === place;
  drawCoverage();
  drawCertificate();
  drawTable();
}

function offerLevels() {
  document.querySelectorAll("[data-levels]").forEach((group, k) => {
    group.hidden = page.body.levels.length < 2;
    page.body.levels.forEach((_, place) => {
      const input = el("input", { type: "radio", name: `level-${k}`, value: place });
      input.checked = place === 0;
      input.addEventListener("change", () => chooseLevel(place));
      group.append(el("label", {}, [input, levelName(place)]));
    });
  });
}

function listen() {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.addEventListener("click", () => {
      const choice = button.dataset.themeChoice;
      if (choice) ROOT.dataset.theme = choice;
      else delete ROOT.dataset.theme;
      for (const other of document.querySelectorAll("[data-theme-choice]")) other.setAttribute("aria-pressed", String(other === button));
    });
  }
  let waiting = 0;
  for (const input of document.querySelectorAll("[data-search]")) {
    input.addEventListener("input", () => {
      for (const other of document.querySelectorAll("[data-search]")) other.value = input.value;
      clearTimeout(waiting);
      waiting = setTimeout(() => search(input.value), page.clients.length > 500 ? 150 : 0);
    });
  }
  for (const input of document.querySelectorAll("input[name=score-view]")) input.addEventListener("change", drawScores);
  byId("page-back").addEventListener("click", () => { listing.first -= PAGE; drawTable(); });
  byId("page-on").addEventListener("click", () => { listing.first += PAGE; drawTable(); });
  byId("download-csv").addEventListener("click", () => download("clients.csv", "text/csv;charset=utf-8", csvText()));
  byId("download-json").addEventListener("click", () => download("calibration.json", "application/json", JSON.stringify(page.body, null, 2) + "\n"));
  byId("download-evaluation").hidden = !page.evaluation;
  byId("download-evaluation").addEventListener("click", () => download("evaluation.json", "application/json", JSON.stringify(page.evaluation, null, 2) + "\n"));
  byId("details").addEventListener("keydown", (event) => { if (event.key === "Escape") closeDetails(); });
  let width = ROOT.clientWidth;
  window.addEventListener("resize", () => {
    if (ROOT.clientWidth === width) return; // a phone's address bar comes and goes
    width = ROOT.clientWidth;
    drawAll();
    const chosen = page.clients[page.chosen];
    if (chosen && chosen.status !== "refused" && !byId("details").hidden) drawOwn(chosen);
  });
}

readData().then((data) => {
  gather(data);
  ROOT.classList.add("ready");
  offerLevels();
  listen();
  drawAll();
  drawTable();
  ROOT.dataset.ready = String(Math.round(performance.now()));
}).catch((error) => {
  const place = byId("trouble");
  place.textContent = `The figures could not be drawn (${error.message}). The summary and the table still hold. A newer browser may help.`;
  place.hidden = false;
  console.error(error);
});
