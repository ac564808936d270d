// A chart of lines and bands in SVG, with a choice of panels, zoom, and the values under the pointer.
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const key of Object.keys(attributes || {})) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function element(name, className, parent, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

// The places of a panel's points: a list, or {start, step, count}.
function placesOf(x) {
  return Array.isArray(x) ? x : Array.from({ length: x.count }, (_, i) => x.start + i * x.step);
}

// An array of one value a place, null where a line has none: a list ends early, {from, values} begins later.
function valuesOf(line, count) {
  const found = Array.isArray(line) ? { from: 0, values: line } : line, values = new Array(count).fill(null);
  found.values.forEach((value, i) => { values[found.from + i] = value; });
  return values;
}

function panelOf(spec, raw) {
  const xs = placesOf(raw.x);
  const lines = raw.lines.map((line) => (line === null ? null : valuesOf(line, xs.length)));
  const bands = (raw.bands || []).map((band) => band.map((end) => valuesOf(end, xs.length)));
  return { xs, lines, bands, mark: raw.mark, axis: spec.x, label: raw.label || spec.y.label };
}

// "M x y L x y ..." with a new beginning after each hole; single points get a circle each. apart: all points do.
function trace(points, group, className, apart) {
  let path = "", before = false;
  points.forEach((point, i) => {
    if (point === null || apart) {
      if (point) make("circle", { cx: point[0].toFixed(1), cy: point[1].toFixed(1), r: 4, class: `dot ${className}` }, group);
      before = false;
      return;
    }
    path += `${before ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    if (!before && (i + 1 >= points.length || points[i + 1] === null)) {
      make("circle", { cx: point[0].toFixed(1), cy: point[1].toFixed(1), r: 3, class: `dot ${className}` }, group);
    }
    before = true;
  });
  make("path", { d: path || "M0 0", class: `line ${className}`, "data-line": className }, group);
}

// The area between two traces, hole by hole.
function shade(low, high, group, className) {
  let run = [];
  const close = () => {
    if (run.length === 1) run.push([run[0][0] + 3, run[0][1], run[0][2]]); // an area at one point is invisible
    if (run.length > 1) {
      const up = run.map(([x, , y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
      const down = run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).reverse();
      make("path", { d: `M${up.concat(down).join("L")}Z`, class: `band ${className}` }, group);
    }
    run = [];
  };
  low.forEach((point, i) => {
    if (point === null || high[i] === null) close();
    else run.push([point[0], point[1], high[i][1]]);
  });
  close();
}

// A chart of which one panel is seen at a time, by what is chosen from its lists; `choose` draws it.
class Picked {
  constructor(host, spec) {
    this.host = host;
    this.spec = spec;
    this.choice = (spec.picks || []).map((pick) => pick.first || 0);
    this.controls = element("div", "controls", host);
  }

  panelNumber() {
    const [row, column] = [this.choice[0] || 0, this.choice[1] || 0];
    return row * (this.choice.length > 1 ? this.spec.picks[1].names.length : 1) + column;
  }

  addPicks() {
    (this.spec.picks || []).forEach((pick, i) => {
      if (pick.names.length < 2) return;
      const label = element("label", "", this.controls, `${pick.label} `);
      const select = element("select", "", label);
      pick.names.forEach((name, k) => { element("option", "", select, name).value = String(k); });
      select.selectedIndex = this.choice[i];
      const go = (step) => {
        select.selectedIndex = (select.selectedIndex + step + pick.names.length) % pick.names.length;
        select.dispatchEvent(new Event("change"));
      };
      this.button("‹", `previous: ${pick.label}`, () => go(-1), label);
      this.button("›", `next: ${pick.label}`, () => go(1), label);
      select.addEventListener("change", () => {
        this.choice[i] = Number(select.value);
        this.choose();
      });
    });
  }

  button(text, title, action, parent) {
    const node = element("button", "", parent, text);
    node.type = "button";
    node.title = title;
    node.setAttribute("aria-label", title);
    node.addEventListener("click", (event) => { event.preventDefault(); action(); });
    return node;
  }
}

class LineChart extends Picked {
  constructor(host, spec) {
    super(host, spec);
    this.hidden = new Set(spec.lines.flatMap((line, i) => (line.far ? [`l${i}`] : [])));
    this.zoom = null;
    this.legend = element("div", "legend", host);
    this.svg = make("svg", { role: "img", tabindex: "0", "aria-label": spec.title }, null);
    host.appendChild(this.svg);
    this.readout = element("p", "readout", host, "");
    this.addPicks();
    this.addZoom();
    this.addLegend();
    addPointer(this);
    this.choose();
  }

  addZoom() {
    this.button("+", "zoom in", () => this.scale(0.5), this.controls);
    this.button("−", "zoom out", () => this.scale(2), this.controls);
    this.button("all", "the whole range", () => this.setZoom(null), this.controls);
  }

  addLegend() {
    const entry = (key, name, draw) => {
      const node = this.button("", `show or hide: ${name}`, () => {
        if (this.hidden.has(key)) this.hidden.delete(key); else this.hidden.add(key);
        node.setAttribute("aria-pressed", String(!this.hidden.has(key)));
        this.draw();
      }, this.legend);
      node.setAttribute("aria-pressed", String(!this.hidden.has(key)));
      const swatch = make("svg", { width: 26, height: 12, "aria-hidden": "true" }, node);
      draw(swatch);
      element("span", "", node, name);
    };
    (this.spec.bands || []).forEach((band, i) => entry(`b${i}`, band.name, (swatch) => {
      make("rect", { x: 0, y: 1, width: 26, height: 10, class: `band ${band.style}` }, swatch);
    }));
    this.spec.lines.forEach((line, i) => entry(`l${i}`, line.name, (swatch) => {
      if (line.points) make("circle", { cx: 13, cy: 6, r: 4, class: `dot ${line.style}` }, swatch);
      else make("path", { d: "M0 6H26", class: `line ${line.style}` }, swatch);
    }));
  }

  choose() {
    this.panel = panelOf(this.spec, this.spec.panels[this.panelNumber()]);
    this.setZoom(null);
  }

  whole() { return [this.panel.xs[0], this.panel.xs[this.panel.xs.length - 1]]; }

  range() { return this.zoom || this.whole(); }

  scale(times) {
    const [low, high] = this.range(), centre = (low + high) / 2, half = ((high - low) / 2) * times;
    this.setZoom([centre - half, centre + half]);
  }

  setZoom(range) {
    const [low, high] = this.whole();
    if (range) {
      range = [Math.max(low, range[0]), Math.min(high, range[1])];
      const span = range[1] - range[0], least = (high - low) / Math.max(1, this.panel.xs.length - 1);
      if (span < least) range = this.zoom; // less than a step
      else if (span >= high - low) range = null;
    }
    this.zoom = range;
    this.draw();
  }

  // The least and the largest value that is seen.
  limits(low, high) {
    if (this.spec.y.range) return this.spec.y.range;
    let [least, most] = [Infinity, -Infinity];
    const look = (values) => values.forEach((value, i) => {
      const x = this.panel.xs[i];
      if (value === null || x < low || x > high) return;
      least = Math.min(least, value);
      most = Math.max(most, value);
    });
    this.panel.lines.forEach((line, i) => { if (line && !this.hidden.has(`l${i}`)) look(line); });
    this.panel.bands.forEach((band, i) => { if (!this.hidden.has(`b${i}`)) band.forEach(look); });
    if (this.spec.y.zero) [least, most] = [Math.min(least, 0), Math.max(most, 0)];
    if (!(least <= most)) return [0, 1];
    const pad = (most - least) * 0.05 || Math.abs(most) * 0.05 || 1;
    return [this.spec.y.zero && least === 0 ? 0 : least - pad, most + pad];
  }

  draw() { drawLines(this); }
}
