"use strict";
// What is so now, as the dashboard says it by server-sent events, put in place of what was, as long as somebody looks.
(() => {
  const one = (what) => document.querySelector(what);
  const title = document.title;
  const all = (what, root = document) => [...root.querySelectorAll(what)];

  // Ages count on by themselves.
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const aged = (seconds, lasts) => {
    if (seconds < 1) return lasts ? "just begun" : "now";
    const [size, unit] = units.find(([size]) => seconds >= size);
    const words = `${Math.floor(seconds / size)} ${unit}`;
    return lasts ? `for ${words}` : `${words} ago`;
  };
  const age = () => all("time[datetime]").forEach((time) => {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) return;
    time.title ||= time.textContent;
    const words = aged((Date.now() - at) / 1000, "lasts" in time.dataset);
    if (time.textContent !== words) time.textContent = words;
  });

  // Rows that hold what is typed.
  const box = document.createElement("input");
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    all("[data-row]").forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    });
  };
  if (one("[data-row]") || location.pathname === "/") {
    const value = location.hash.startsWith("#find=") ? decodeURIComponent(location.hash.slice(6)) : "";
    Object.assign(box, { type: "search", id: "filter", placeholder: "filter", value });
    box.setAttribute("aria-label", "Show only rows that hold these words");
    box.addEventListener("input", () => {
      history.replaceState(null, "", box.value ? `#find=${encodeURIComponent(box.value)}` : location.pathname);
      filter();
    });
    one("header nav").after(box);
  }

  // What was opened, where the focus is, and what is kept survive that the rest is put in place.
  const place = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const [old, now] = [one("main"), page.querySelector("main")];
    if (!now) return;
    const name = (details) => details.querySelector("[id]")?.id ?? details.textContent.slice(0, 80);
    const open = new Set(all("details", old).filter((details) => details.open).map(name));
    all("details", now).forEach((details) => { details.open = open.has(name(details)); });
    all("[data-keep]", now).forEach((kept) => document.getElementById(kept.id) && kept.replaceWith(document.getElementById(kept.id)));
    const focus = document.activeElement?.getAttribute("href");
    old.replaceChildren(...now.childNodes);
    document.title = page.title;
    age();
    filter();
    if (focus) [...document.links].find((link) => link.getAttribute("href") === focus)?.focus();
  };

  // Charts answer to the pointer: values below, a part by drawing over it, all of it by a double click.
  const kinds = [
    { title: "candidates a minute, of each 15 s", lines: [["all", "candidates", "--first"], ["failed", "failed", "--second"]] },
    { title: "messages that wait", lines: [["to be compiled", "to_compile", "--first"], ["to be evaluated", "to_evaluate", "--third"]] },
    { title: "eval workers with a job, %", lines: [["busy", "busy", "--first"]], range: [0, 100] },
  ];
  let charts = [];
  let points = [];
  const columns = (kind) => [points.map((point) => point.at), ...kind.lines.map(([, key]) => points.map((point) => point[key]))];
  const known = () => kinds.filter((kind) => kind.lines.some(([, key]) => points.some((point) => point[key] !== null)));
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const build = () => {
    const root = document.getElementById("charts");
    if (!root || typeof uPlot === "undefined" || !known().length) return;
    charts.forEach(({ plot }) => plot.destroy());
    root.replaceChildren();
    const clock = (at) => new Date(at * 1000).toTimeString().slice(0, 8);
    const ticked = (_, ticks) => ticks.map((at) => clock(at).slice(0, ticks.every((tick) => tick % 60 === 0) ? 5 : 8));
    // A minute at least, so that no two ticks read the same.
    const reach = (plot, from, to) => {
      const end = plot.data[0].length === 1 ? plot.data[0][0] : to;
      return end === null ? [from, to] : [Math.min(from, end - 60), end];
    };
    charts = known().map((kind) => {
      const figure = root.appendChild(document.createElement("figure"));
      figure.appendChild(document.createElement("figcaption")).textContent = kind.title;
      const rule = { stroke: color("--rule"), width: 1 };
      const axis = { stroke: color("--faint"), grid: rule, ticks: rule, font: "12px system-ui, sans-serif" };
      const range = kind.range ? () => kind.range : (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.05];
      const rounded = (value) => (typeof value === "number" ? Math.round(value * 10) / 10 : value);
      // Where no pointer is, it is said how things are now.
      const told = (plot, value, series, at) => rounded((at === null ? plot.data[series].at(-1) : value) ?? "–");
      const series = kind.lines.map(([label, , name]) => ({ label, stroke: color(name), width: 2, value: told, points: { show: (plot) => plot.data[0].length === 1 } }));
      const plot = new uPlot({
        width: Math.max(figure.clientWidth, 240), height: 180, scales: { x: { range: reach }, y: { range } },
        axes: [{ ...axis, space: 64, values: ticked }, { ...axis, size: 44 }],
        series: [{ label: "at", value: (...all) => clock(told(...all)) }, ...series], cursor: { y: false },
      }, columns(kind), figure);
      all("th", figure).forEach((head) => { head.scope = "col"; });
      return { kind, plot, figure, zoomed: () => plot.scales.x.min > points[0]?.at || plot.scales.x.max < points.at(-1)?.at };
    });
  };
  const draw = (now) => {
    const was = charts.map((chart) => chart.zoomed());
    points = now;
    if (known().length !== charts.length) build();
    charts.forEach(({ kind, plot, figure }, at) => {
      plot.setData(columns(kind), was[at] !== true);
      const last = points.at(-1);
      const told = kind.lines.map(([label, key]) => `${label} ${last?.[key] ?? "unknown"}`).join(", ");
      figure.setAttribute("role", "img");
      figure.setAttribute("aria-label", `${kind.title} over the last hour, now: ${told}`);
    });
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  new ResizeObserver(() => charts.forEach(({ plot, figure }) => {
    const width = Math.max(figure.clientWidth, 240);
    if (width !== plot.width) plot.setSize({ width, height: 180 });
  })).observe(one("main"));

  // A page of a session is asked for when something happened to it.
  let tag = null;
  const ask = async () => {
    const answer = await fetch(location.pathname, { headers: tag ? { "If-None-Match": tag } : {} }).catch(() => null);
    if (answer?.status !== 200) return;
    tag = answer.headers.get("ETag");
    place(await answer.text());
  };
  let source = null;
  const listen = () => {
    source = new EventSource(location.pathname === "/" ? "/events" : `${location.pathname}/events`);
    source.addEventListener("page", (event) => place(JSON.parse(event.data)));
    source.addEventListener("points", (event) => draw(JSON.parse(event.data)));
    source.addEventListener("changed", ask);
    source.addEventListener("open", () => { document.title = title; });
    source.addEventListener("error", () => { document.title = "away: bluefin"; });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) { listen(); }
  });
  age();
  filter();
  setInterval(age, 1000);
  if (!document.hidden) listen();
})();
