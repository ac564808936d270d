// Numbers, times and their places on an axis. Times are milliseconds since 1970 on a clock without a zone, read as UTC.
const MINUTE = 6e4, HOUR = 36e5, DAY = 864e5;
const CLOCK_STEPS = [1, 10, 100, 1e3, 5e3, 15e3, 3e4, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
  3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
const MONTH_STEPS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

function two(number) { return String(number).padStart(2, "0"); }

function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(3);
  return String(Number(value.toPrecision(size >= 1e4 ? 6 : 4)));
}

function dateOf(time) {
  const at = new Date(time);
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
}

function clockOf(time, seconds) {
  const at = new Date(time), minutes = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  if (!seconds) return minutes;
  const rest = at.getUTCMilliseconds();
  return `${minutes}:${two(at.getUTCSeconds())}${rest ? "." + String(rest).padStart(3, "0") : ""}`;
}

function moment(time) {
  if (time % DAY === 0) return dateOf(time);
  return `${dateOf(time)} ${clockOf(time, time % MINUTE !== 0)}`;
}

// Places of about `most` ticks between two numbers.
function numberTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.7);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(i * step);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const plain = largest < 1e7 && decimals < 7;
  const text = (tick) => (plain ? tick.toFixed(decimals) : tick === 0 ? "0" : tick.toExponential(2));
  return ticks.map((tick) => ({ at: tick, label: text(tick).replace(/^-(?=0(\.0*)?$)/, "") }));
}

// The same of two times: clock, days, months or years, whatever fits; `second` is a line below, where it changes.
function timeTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const step = CLOCK_STEPS.find((one) => one >= rough);
  const ticks = [];
  if (step !== undefined) {
    const origin = step >= 7 * DAY ? 4 * DAY : 0; // a Monday
    for (let at = origin + Math.ceil((low - origin) / step) * step; at <= high; at += step) ticks.push(at);
    let before = null;
    return ticks.map((at) => {
      const date = dateOf(at), second = step < DAY ? date : date.slice(0, 4);
      const label = step < DAY ? clockOf(at, step < MINUTE) : date.slice(5);
      const changed = second !== before;
      before = second;
      return { at, label, second: changed ? second : "" };
    });
  }
  const months = MONTH_STEPS.find((one) => one * 30.4 * DAY >= rough) || MONTH_STEPS[MONTH_STEPS.length - 1];
  const first = new Date(low);
  let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
  for (; ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > high) break;
    if (at >= low) ticks.push({ at, label: months >= 12 ? dateOf(at).slice(0, 4) : dateOf(at).slice(0, 7), second: "" });
  }
  return ticks;
}

// Numbers along x are steps, folds, series or per cent: nothing lies between two of them.
function ticksOf(axis, low, high, most) {
  if (axis.kind === "time") return timeTicks(low, high, most);
  return numberTicks(low, high, Math.min(most, Math.max(1, high - low)));
}
