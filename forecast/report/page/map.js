// A heat map of which one panel is seen at a time: a row a query, a column a key, marks beside the rows.
const SHADES = 24; // of a cell; one path each

class MapChart extends Picked {
  constructor(host, spec) {
    super(host, spec);
    this.legend = element("div", "legend", host);
    this.svg = make("svg", { role: "img", tabindex: "0", "aria-label": spec.title }, null);
    host.appendChild(this.svg);
    this.readout = element("p", "readout", host, "");
    this.addPicks();
    this.svg.addEventListener("pointermove", (event) => this.point(this.cellAt(event)));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (!Object.hasOwn(moves, event.key) || !this.cells) return;
      event.preventDefault();
      const [row, column] = this.cell || [0, 0], [down, right] = moves[event.key];
      this.point([row + down, column + right]);
    });
    this.choose();
  }

  choose() {
    const layer = this.spec.layers[this.choice[0]];
    this.panel = this.spec.panels[this.panelNumber()];
    [this.rows, this.columns] = [this.spec.axes[layer.queries], this.spec.axes[layer.keys]];
    this.cells = this.panel && Uint8Array.from(atob(this.panel.cells), (letter) => letter.charCodeAt(0));
    this.draw();
  }

  // Shares of the root scale: what is drawn, whose square times the largest weight is the weight.
  share(row, column) { return this.cells[row * this.columns.names.length + column] / 255; }

  draw() {
    this.svg.replaceChildren();
    this.legend.replaceChildren();
    this.point(null);
    if (!this.panel) {
      this.svg.setAttribute("height", 0);
      this.readout.textContent = "This layer has fewer heads.";
      return;
    }
    const [high, wide] = [this.rows.names.length, this.columns.names.length];
    const width = Math.max(280, Math.floor(this.host.clientWidth || 640));
    const left = 34 + Math.min(width / 3, 6.6 * Math.max(...this.rows.names.map((name) => name.length)));
    const box = { left, right: width - 30, top: 10 };
    box.bottom = box.top + Math.min(560, Math.max(120, ((box.right - box.left) * high) / wide));
    this.box = box;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${box.bottom + 54}`);
    this.svg.setAttribute("height", box.bottom + 54);
    this.drawCells(box, high, wide);
    this.drawNames(box, high, wide);
    this.cursor = make("rect", { class: "cursor", width: 0, height: 0 }, this.svg);
    const scale = make("svg", { width: 120, height: 12, "aria-hidden": "true" }, null);
    for (let i = 0; i < SHADES; i += 1) make("rect", { x: i * 5, y: 0, width: 5, height: 12, class: "cell", "fill-opacity": i / (SHADES - 1) }, scale);
    element("span", "note", this.legend, "weight 0");
    this.legend.appendChild(scale);
    element("span", "note", this.legend, number(this.panel.most));
  }

  drawCells(box, high, wide) {
    const [x, y] = [(i) => (box.left + ((box.right - box.left) * i) / wide).toFixed(2), (i) => (box.top + ((box.bottom - box.top) * i) / high).toFixed(2)];
    const paths = Array.from({ length: SHADES }, () => "");
    const shade = (row, column) => Math.round(this.share(row, column) * (SHADES - 1));
    for (let row = 0; row < high; row += 1) {
      for (let from = 0, to = 1; from < wide; from = to, to += 1) {
        const level = shade(row, from);
        while (to < wide && shade(row, to) === level) to += 1; // a run of one shade is one rectangle
        if (level > 0) paths[level] += `M${x(from)} ${y(row)}H${x(to)}V${y(row + 1)}H${x(from)}Z`;
      }
    }
    paths.forEach((d, level) => { if (d) make("path", { d, class: "cell", "fill-opacity": level / (SHADES - 1) }, this.svg); });
    make("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, class: "axis" }, this.svg);
    (this.panel.active || []).forEach((share, row) => {
      const place = { x: box.right + 4, y: y(row), width: 10, height: Math.max(1, (box.bottom - box.top) / high) };
      if (share > 0) make("rect", { ...place, class: "active", "fill-opacity": share }, this.svg);
    });
  }

  // Names of every few cells: of rows at the left, of columns below, the day of a time in a line of its own.
  drawNames(box, high, wide) {
    const rows = Math.ceil(high / ((box.bottom - box.top) / 18)), columns = Math.ceil(wide / ((box.right - box.left) / 84));
    for (let row = 0; row < high; row += rows) {
      const y = box.top + ((box.bottom - box.top) * (row + 0.5)) / high, longest = Math.floor((box.left - 34) / 6.2);
      make("text", { x: box.left - 6, y, dy: "0.32em", "text-anchor": "end" }, this.svg, this.rows.names[row].slice(0, longest));
    }
    for (let column = 0; column < wide; column += columns) {
      const x = box.left + ((box.right - box.left) * (column + 0.5)) / wide;
      make("path", { d: `M${x.toFixed(1)} ${box.bottom}v4`, class: "axis" }, this.svg);
      const name = this.columns.names[column], [day, clock] = name.split(" ");
      const lines = /^\d+-\d\d-\d\d \d/.test(name) ? [clock, day] : [name.slice(0, 12)];
      lines.forEach((line, i) => make("text", { x, y: box.bottom + 17 + 14 * i, "text-anchor": "middle", class: i ? "second" : "" }, this.svg, line));
    }
    const [middle, centre] = [(box.top + box.bottom) / 2, (box.left + box.right) / 2];
    make("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})`, class: "name" }, this.svg, "query");
    make("text", { x: centre, y: box.bottom + 48, "text-anchor": "middle", class: "name" }, this.svg, "key");
  }

  cellAt(event) {
    const seen = this.svg.getBoundingClientRect(), { box } = this;
    if (!this.panel) return null;
    const width = Number(this.svg.getAttribute("viewBox").split(" ")[2]), times = width / seen.width;
    const across = ((event.clientX - seen.left) * times - box.left) / (box.right - box.left);
    const down = ((event.clientY - seen.top) * times - box.top) / (box.bottom - box.top);
    return [Math.floor(down * this.rows.names.length), Math.floor(across * this.columns.names.length)];
  }

  // Says what a cell is; null: none.
  point(cell) {
    const names = (axis, i) => (axis.until && axis.until[i] !== axis.names[i] ? `${axis.names[i]} to ${axis.until[i]}` : axis.names[i]);
    const inside = cell && this.cells && cell.every((at, i) => at >= 0 && at < [this.rows, this.columns][i].names.length);
    this.cell = inside ? cell : null;
    this.readout.textContent = "";
    if (this.cursor) this.cursor.setAttribute("width", 0);
    if (!inside) return;
    const [row, column] = cell, { box, panel } = this;
    const words = [`query ${names(this.rows, row)}`, `key ${names(this.columns, column)}`];
    words.push(`weight ${number(Number((panel.most * this.share(row, column) ** 2).toPrecision(2)))}`);
    if (panel.active) {
      words.push(panel.active[row] === 1 ? "active" : panel.active[row] === 0 ? "not active" : `active ${number(100 * panel.active[row])} %`);
      if (panel.measures[row] !== null) words.push(`M ${number(panel.measures[row])}`);
    }
    this.readout.textContent = words.join(" · ");
    const [high, wide] = [(box.bottom - box.top) / this.rows.names.length, (box.right - box.left) / this.columns.names.length];
    const place = { x: box.left + column * wide, y: box.top + row * high, width: wide, height: high };
    for (const key of Object.keys(place)) this.cursor.setAttribute(key, place[key]);
  }
}
