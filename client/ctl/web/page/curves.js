// Draws the last five minutes as curves. mlxcommctl web takes samples even without viewers, and sends new ones.
import {dateOf, write} from "./words.js";

const WINDOW_MS = 300000;
const STEP_MS = 2000; // Minimum between samples; several missing ones leave a gap in the curve.
const SIZE = {width: 300, height: 40}; // One unit of width is a second.
const SVG = "http://www.w3.org/2000/svg";

let links = []; // Ends of each link, in the order of the rates in samples.
let samples = [];

export function addHistory(history) {
  const added = history.samples.map((one) => ({at: dateOf(one.unix_ns).getTime(), bytes: one.bytes_per_second,
    operations: one.operations_per_second, links: one.link_bytes_per_second}));
  // A reopened feed repeats known samples.
  samples = samples.filter((one) => one.at < added[0].at).concat(added);
  samples = samples.filter((one) => one.at >= samples.at(-1).at - WINDOW_MS);
  links = history.links;
}

/** Returns [{at, value}] of "bytes" or "operations" per second. */
export const curveOf = (what) => samples.map((one) => ({at: one.at, value: one[what]}));

export function curveOfLink(ends) {
  const place = links.indexOf(ends);
  return place < 0 ? [] : samples.map((one) => ({at: one.at, value: one.links[place] ?? 0}));
}

export const peakOf = (points) => points.reduce((most, one) => Math.max(most, one.value), 0);

export function makeCurve() {
  const made = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({class: "curve", role: "img", preserveAspectRatio: "none",
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`})) made.setAttribute(name, value);
  for (const name of ["title", "path", "path"]) made.append(document.createElementNS(SVG, name));
  made.children[1].setAttribute("class", "area");
  return made;
}

/** `top`: the value at the upper edge. */
export function drawCurve(made, points, top, label) {
  const end = samples.at(-1)?.at ?? 0;
  const spacing = Math.max(STEP_MS, (end - (samples[0]?.at ?? 0)) / Math.max(1, samples.length - 1));
  let line = "";
  let area = "";
  points.forEach(({at, value}, i) => {
    const x = (SIZE.width - (end - at) / 1000).toFixed(1);
    const y = (SIZE.height - 1 - (SIZE.height - 3) * value / (top || 1)).toFixed(1);
    const begins = i === 0 || at - points[i - 1].at > 3 * spacing;
    const ends = i + 1 === points.length || points[i + 1].at - at > 3 * spacing;
    line += `${begins ? "M" : "L"}${x} ${y}`;
    area += `${begins ? `M${x} ${SIZE.height}` : ""}L${x} ${y}${ends ? `L${x} ${SIZE.height}Z` : ""}`;
  });
  write(made.children[0], label);
  made.children[1].setAttribute("d", area);
  made.children[2].setAttribute("d", line);
}
