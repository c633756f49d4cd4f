// Figures as mlxcommctl writes them (client/ctl/cli/quantities.h), and elements of the page. What others have
// written becomes text, never markup: nothing here, nor anywhere on the page, reads HTML.

const round = (value) => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);

function scaled(value, units, step) {
  let unit = 0;
  while (value >= step && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  return `${unit === 0 ? Math.round(value) : round(value)} ${units[unit]}`;
}

export const rate = (bytesPerSecond) => scaled(bytesPerSecond, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000);
export const bytes = (count) => scaled(Number(count), ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
export const nanoseconds = (ns) => scaled(Number(ns), ["ns", "us", "ms", "s"], 1000);
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function milliseconds(given) {
  const ms = Number(given);
  const seconds = Math.floor(ms / 1000);
  if (ms < 1000) return `${ms} ms`;
  if (seconds < 60) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

/** "rank 3", "ranks 0, 1, 2" */
export const ranks = (list) =>
  `${list.length === 1 ? "rank" : "ranks"} ${[...list].sort((a, b) => a - b).join(", ")}`;

/** An element; children are elements or texts. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Only if it is another: what is read aloud, or selected, stays. */
export function say(id, text, className) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
  if (className !== undefined && place.className !== className) place.className = className;
}

/** Where a state is not as it should be it has a colour; the word stands there in any case. */
export function stateClass(state) {
  if (["up", "running", "done"].includes(state)) return "good";
  if (["connecting", "grace", "draining", "forming", "warning"].includes(state)) return "warn";
  return ["lost", "down", "failed", "error"].includes(state) ? "bad" : "";
}
