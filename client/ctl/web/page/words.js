// Formats figures as mlxcommctl does (client/ctl/cli/quantities.h), and makes elements. Texts from others never become
// markup: nothing on the page parses HTML.

const IDLE_BYTES_PER_SECOND = 10000; // The daemons' own traffic is below this.

/** Rounds like printf, halves to even; toFixed alone rounds them up. */
function fixed(value, digits) {
  const all = value.toFixed(60);
  const isHalf = /^50*$/.test(all.slice(digits - 60));
  const down = all.slice(0, digits - 60).replace(/\.$/, "");
  return isHalf && /[02468]$/.test(down) ? down : value.toFixed(digits);
}

function scaled(value, units) {
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${fixed(value, unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${units[unit]}`;
}

export const rate = (bytesPerSecond) =>
  scaled(Math.trunc(bytesPerSecond), ["B/s", "KB/s", "MB/s", "GB/s", "TB/s"]);
/** For one link, or several together. */
export const rateNow = (bytesPerSecond, links = 1) =>
  (bytesPerSecond < links * IDLE_BYTES_PER_SECOND ? "idle" : rate(bytesPerSecond));
export const nanoseconds = (ns) => scaled(Number(ns), ["ns", "µs", "ms", "s"]);

export function bytes(given) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let count = Number(given);
  let unit = 0;
  while (count >= (unit === 0 ? 1024 : 1023.5) && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${fixed(count, count < 9.95 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function milliseconds(given) {
  const ms = Number(given);
  const seconds = Math.floor(ms / 1000);
  if (ms < 1000) return `${ms} ms`;
  if (seconds < 60) return `${fixed(ms / 1000, 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

/** Formats nanoseconds of any size. */
export const duration = (ns) => (Number(ns) < 60e9 ? nanoseconds(ns) : milliseconds(Math.round(Number(ns) / 1e6)));

/** "rank 3", "ranks 0, 2", "ranks 0-62, 64" */
export function ranks(list) {
  const runs = [];
  for (const rank of [...list].sort((a, b) => a - b)) {
    if (runs.length > 0 && runs.at(-1).at(-1) + 1 === rank) runs.at(-1).push(rank);
    else runs.push([rank]);
  }
  const texts = runs.map((run) => (run.length > 2 ? `${run[0]}-${run.at(-1)}` : run.join(", ")));
  return `${list.length === 1 ? "rank" : "ranks"} ${texts.join(", ")}`;
}

/** A key that sorts "mac-10" after "mac-9" (client/ctl/cli/text.h). */
export const numbersPadded = (name) => name.replace(/[0-9]+/g, (digits) => digits.padStart(20, "0"));

/** Compares names for sort(). */
export function byName(a, b) {
  const [first, second] = [numbersPadded(a), numbersPadded(b)];
  return first < second ? -1 : first > second ? 1 : 0;
}

/** 18:27:52; on another day than `today` "Mar 4 18:27", which is as short. */
export function clock(at, today = new Date()) {
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((one) => String(one).padStart(2, "0")).join(":");
  if (at.toDateString() === today.toDateString()) return time;
  return `${at.toLocaleDateString("en-US", {month: "short", day: "numeric"})} ${time.slice(0, 5)}`;
}

/** Converts nanoseconds since 1970, a string in JSON. */
export const dateOf = (unixNs) => new Date(Number(BigInt(unixNs) / 1000000n));

/** Makes an element; children are elements or texts. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Changes only what differs, to keep the selection and screen readers undisturbed. */
export function write(of, text, tone = "") {
  if (of.textContent !== String(text)) of.textContent = text;
  if ((of.dataset.tone ?? "") !== tone) of.dataset.tone = tone;
}

/** Cuts a long text in the middle, because names differ at their ends. */
export const brief = (text, most) => (text.length <= most ? text
  : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(text.length - Math.floor(most / 2))}`);

/** Writes a text that may be cut off; the title has all of it. */
export function writeLine(of, text, tone, shown = text) {
  write(of, shown, tone);
  if (of.title !== String(text)) of.title = text;
}

/** Keeps one child of `place` for each item, in order. Children live as long as their items, and keep focus, selection
    and folding. Items may share a key. */
export function keep(place, items, keyOf, make, update) {
  const seen = new Map();
  const keys = items.map((item) => {
    const key = String(keyOf(item));
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return `${key} ${seen.get(key)}`;
  });
  for (const child of [...place.children]) if (!keys.includes(child.dataset.key)) child.remove();
  items.forEach((item, i) => {
    let child = [...place.children].find((one) => one.dataset.key === keys[i]);
    if (!child) {
      child = make(item);
      child.dataset.key = keys[i];
    }
    if (place.children[i] !== child) place.insertBefore(child, place.children[i] ?? null);
    update(child, item);
  });
}

/** The colour of a state, in addition to its word. */
export function toneOf(state) {
  if (["up", "running", "done"].includes(state)) return "good";
  if (["connecting", "grace", "draining", "forming", "warning"].includes(state)) return "warn";
  return ["lost", "down", "failed", "error"].includes(state) ? "bad" : "";
}
