// Draws each <div data-chart> by the entry at its place in the page's JSON block. Names of others are text, never markup.
class BarChart {
  constructor(host, spec) {
    this.host = host;
    this.spec = spec;
    this.svg = make("svg", { role: "img", "aria-label": spec.title }, null);
    host.appendChild(this.svg);
    this.draw();
  }

  draw() {
    const { svg, spec } = this, width = Math.max(280, Math.floor(this.host.clientWidth || 640)), line = 36;
    const lowOf = (row) => row.low ?? row.value - (row.error || 0), highOf = (row) => row.high ?? row.value + (row.error || 0);
    const most = Math.max(0, ...spec.rows.map(highOf), spec.span, 1e-300), least = Math.min(0, ...spec.rows.map(lowOf));
    const edge = spec.points ? 8 : 2, x = (value) => edge + ((value - least) / (most - least)) * (width - 84 - edge);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${line * spec.rows.length + 6}`);
    svg.setAttribute("height", line * spec.rows.length + 6);
    spec.rows.forEach((row, i) => {
      const top = i * line, longest = Math.floor(width / 7.2), zero = x(0);
      const name = row.name.length > longest ? `${row.name.slice(0, longest - 1)}…` : row.name;
      make("text", { x: 2, y: top + 13 }, svg, name);
      const from = Math.min(zero, x(row.value)), bar = { x: from.toFixed(1), y: top + 18, height: 12 };
      const long = Math.max(1, Math.abs(x(row.value) - zero)).toFixed(1), [low, high] = [lowOf(row), highOf(row)].map(x);
      if (spec.points) make("path", { d: `M${zero.toFixed(1)} ${top}V${top + line}`, class: "mark" }, svg);
      else make("rect", { ...bar, width: long, class: `bar ${row.style || ""}` }, svg);
      if (high > low) {
        const [a, b] = [low.toFixed(1), high.toFixed(1)];
        make("path", { d: `M${a} ${top + 24}H${b}M${a} ${top + 20}v8M${b} ${top + 20}v8`, class: "whisker" }, svg);
      }
      if (spec.points) make("circle", { cx: x(row.value).toFixed(1), cy: top + 24, r: 5, class: row.sure ? "point sure" : "point" }, svg);
      const said = spec.points ? `${row.value > 0 ? "+" : ""}${number(row.value)} %` : number(row.value);
      make("text", { x: (Math.max(zero, high) + 8).toFixed(1), y: top + 28 }, svg, said);
    });
  }
}

function start() {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const charts = [];
  document.documentElement.classList.add("drawn"); // shows the places of the charts, whose width is measured
  document.querySelectorAll("[data-chart]").forEach((host, place) => {
    const spec = data.charts[place];
    host.id = `chart${place}`;
    charts.push(new ({ bars: BarChart, map: MapChart }[spec.kind] || LineChart)(host, spec));
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar changes the height alone
    width = window.innerWidth;
    charts.forEach((chart) => chart.draw());
  });
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((node) => { node.open = true; });
  });
}

start();
