// What a LineChart draws, and what the pointer and the keys do with it.
function drawLines(chart) {
  const { svg, panel, spec, hidden } = chart;
  const width = Math.max(280, Math.floor(chart.host.clientWidth || 640));
  const height = spec.square ? Math.min(width, 440) : Math.round(Math.min(380, Math.max(240, width * 0.42)));
  const [low, high] = chart.range(), [least, most] = chart.limits(low, high);
  const yTicks = numberTicks(least, most, Math.floor((height - 80) / 44));
  if (spec.y.percent) yTicks.forEach((tick) => { tick.label = `${number(tick.at)} %`; });
  const left = 28 + 7 * Math.max(...yTicks.map((tick) => tick.label.length), 2);
  const box = { left, right: width - 12, top: 10, bottom: height - (panel.axis.label ? 52 : 38) };
  const x = (value) => box.left + ((value - low) / (high - low || 1)) * (box.right - box.left);
  const y = (value) => box.bottom - ((value - least) / (most - least || 1)) * (box.bottom - box.top);
  chart.geometry = { box, low, high, x };
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  drawAxes(svg, chart, { box, x, y, yTicks, width, height });
  const inside = make("clipPath", { id: `${chart.host.id}-clip` }, svg);
  make("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, inside);
  const group = make("g", { "clip-path": `url(#${chart.host.id}-clip)` }, svg);
  if (panel.mark !== undefined) make("path", { d: `M${x(panel.mark).toFixed(1)} ${box.top}V${box.bottom}`, class: "mark" }, group);
  const places = (values) => values.map((value, i) => (value === null ? null : [x(panel.xs[i]), y(value)]));
  panel.bands.forEach((band, i) => {
    if (!hidden.has(`b${i}`)) shade(places(band[0]), places(band[1]), group, spec.bands[i].style);
  });
  panel.lines.forEach((line, i) => {
    if (line && !hidden.has(`l${i}`)) trace(places(line), group, spec.lines[i].style, spec.lines[i].points);
  });
  chart.cursor = make("path", { d: "", class: "mark" }, group);
  chart.selection = make("rect", { x: 0, y: box.top, width: 0, height: box.bottom - box.top, class: "selection" }, svg);
}

function drawAxes(svg, chart, { box, x, y, yTicks, width, height }) {
  const [low, high] = chart.range(), { panel } = chart;
  for (const tick of yTicks) {
    const at = y(tick.at).toFixed(1);
    make("path", { d: `M${box.left} ${at}H${box.right}`, class: tick.at === 0 ? "grid zero" : "grid" }, svg);
    make("text", { x: box.left - 6, y: at, dy: "0.32em", "text-anchor": "end" }, svg, tick.label);
  }
  let end = -Infinity, below = -Infinity;
  for (const tick of ticksOf(panel.axis, low, high, Math.floor((box.right - box.left) / (panel.axis.kind === "time" ? 76 : 64)))) {
    const at = x(tick.at), half = tick.label.length * 3.6;
    if (at - half < end + 6) continue; // no two labels on one another
    end = at + half;
    make("path", { d: `M${at.toFixed(1)} ${box.top}V${box.bottom}`, class: "grid" }, svg);
    const anchor = at + half > width ? "end" : "middle", place = { "text-anchor": anchor, x: Math.min(at, width - 2).toFixed(1) };
    make("text", { ...place, y: box.bottom + 16 }, svg, tick.label);
    if (tick.second && at - tick.second.length * 3.6 > below + 6) {
      below = at + tick.second.length * 3.6;
      make("text", { ...place, y: box.bottom + 30, class: "second" }, svg, tick.second);
    }
  }
  make("path", { d: `M${box.left} ${box.top}V${box.bottom}H${box.right}`, class: "axis" }, svg);
  const middle = (box.top + box.bottom) / 2;
  make("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})`, class: "name" }, svg, panel.label);
  const centre = (box.left + box.right) / 2;
  if (panel.axis.label) make("text", { x: centre, y: height - 5, "text-anchor": "middle", class: "name" }, svg, panel.axis.label);
}

// The nearest point to a place on the screen.
function nearest(chart, place) {
  const { box, low, high } = chart.geometry, { xs } = chart.panel;
  const at = low + ((place - box.left) / (box.right - box.left)) * (high - low);
  const apart = chart.spec.lines.some((line) => line.points); // whose ends are empty places
  let best = apart ? 1 : 0;
  for (let i = best + 1; i < xs.length - apart; i += 1) if (Math.abs(xs[i] - at) < Math.abs(xs[best] - at)) best = i;
  return best;
}

function readOut(chart, i) {
  const { spec, panel, hidden } = chart, { box, x } = chart.geometry;
  const at = panel.xs[i], unit = spec.y.percent ? " %" : "";
  const words = [panel.axis.kind === "time" ? moment(at) : `${panel.axis.label || ""} ${number(at)}`.trim()];
  panel.lines.forEach((line, k) => {
    if (line && line[i] !== null && !hidden.has(`l${k}`)) words.push(`${spec.lines[k].name} ${number(line[i])}${unit}`);
  });
  panel.bands.forEach((band, k) => {
    if (band[0][i] !== null && !hidden.has(`b${k}`)) words.push(`${spec.bands[k].name} ${number(band[0][i])} to ${number(band[1][i])}`);
  });
  chart.readout.textContent = words.join(" · ");
  chart.cursor.setAttribute("d", `M${x(at).toFixed(1)} ${box.top}V${box.bottom}`);
}

function addPointer(chart) {
  const { svg } = chart;
  let start = null;
  const placeOf = (event) => {
    const seen = svg.getBoundingClientRect(), { box } = chart.geometry;
    const width = Number(svg.getAttribute("viewBox").split(" ")[2]);
    return Math.min(box.right, Math.max(box.left, ((event.clientX - seen.left) * width) / seen.width));
  };
  svg.addEventListener("pointerdown", (event) => {
    start = placeOf(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    const now = placeOf(event);
    readOut(chart, nearest(chart, now));
    if (start === null) return;
    chart.selection.setAttribute("x", Math.min(start, now));
    chart.selection.setAttribute("width", Math.abs(now - start));
  });
  svg.addEventListener("pointerup", (event) => {
    const { box, low, high } = chart.geometry, now = placeOf(event), from = start;
    start = null;
    chart.selection.setAttribute("width", 0);
    if (from === null || Math.abs(now - from) < 8) return;
    const value = (place) => low + ((place - box.left) / (box.right - box.left)) * (high - low);
    chart.setZoom([value(Math.min(from, now)), value(Math.max(from, now))]);
  });
  svg.addEventListener("pointercancel", () => { start = null; chart.selection.setAttribute("width", 0); });
  svg.addEventListener("pointerleave", () => {
    chart.readout.textContent = "";
    chart.cursor.setAttribute("d", "");
  });
  svg.addEventListener("dblclick", () => chart.setZoom(null));
  svg.addEventListener("keydown", (event) => {
    const [low, high] = chart.range(), step = (high - low) / 4;
    const keys = { "+": () => chart.scale(0.5), "-": () => chart.scale(2), Escape: () => chart.setZoom(null) };
    keys.ArrowLeft = () => chart.zoom && chart.setZoom([low - step, high - step]);
    keys.ArrowRight = () => chart.zoom && chart.setZoom([low + step, high + step]);
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}
