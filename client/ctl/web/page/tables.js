// Tables of links, findings, operations and events, whose rows stay in place while values change. In a narrow window
// page.css turns each row into a card.
import {curveOfLink, drawCurve, makeCurve, peakOf} from "./curves.js";
import {brief, byId, byName, bytes, clock, dateOf, duration, element, keep, nanoseconds, plural, rate, rateNow,
  toneOf, write, writeLine} from "./words.js";

/** columns: {title, className, of: row -> text, most: max characters, tone: row -> tone, or fill: (cell, row)} */
export function table(place, caption, columns, rows, keyOf) {
  if (!place.querySelector("table")) {
    const head = columns.map(({title, className}) => {
      const cell = element("th", className, title);
      cell.scope = "col";
      return cell;
    });
    place.replaceChildren(element("table", "", element("thead", "", element("tr", "", ...head)), element("tbody")));
  }
  place.firstChild.setAttribute("aria-label", caption);
  keep(place.firstChild.tBodies[0], rows, keyOf,
    () => element("tr", "", ...columns.map(({title, className}) => {
      const cell = element("td", className);
      cell.dataset.title = title;
      return cell;
    })),
    (row, one) => columns.forEach(({of, most, tone, fill}, i) => (fill ? fill(row.cells[i], one)
      : writeLine(row.cells[i], of(one), tone?.(one), most ? brief(of(one), most) : undefined))));
}

function none(id, text) {
  byId(id).replaceChildren(element("p", "quiet", text));
}

function kindsOf(link) {
  const up = new Map();
  for (const rail of link.rails) {
    if (rail.state === "up") up.set(rail.transport, (up.get(rail.transport) ?? 0) + 1);
  }
  return [...up].sort().map(([kind, count]) => (count > 1 ? `${count} ${kind}` : kind)).join(", ");
}

/** Sums the fastest rail of each cable, because its rails share it. */
function bestOf(link) {
  const cables = new Map();
  for (const rail of link.rails.filter((one) => one.state === "up")) {
    const ends = `${rail.local_interface} ${rail.remote_interface}`;
    cables.set(ends, Math.max(cables.get(ends) ?? 0, rail.delivery_bytes_per_second_best));
  }
  return [...cables.values()].reduce((sum, best) => sum + best, 0);
}

const slower = (one, other) => (one > 0 && other > 0 ? Math.min(one, other) : Math.max(one, other)); // 0: unknown.

function figuresOf(link) {
  const figures = {now: 0, direct: 0, roundTrip: 0};
  for (const rail of link.rails) {
    if (rail.state !== "up") continue;
    const now = rail.sent_bytes_per_second + rail.received_bytes_per_second;
    figures.now += now;
    if (rail.transport !== "route") figures.direct += now; // Routes count on the other nodes' cables.
    const trip = Number(rail.round_trip_ns);
    if (trip > 0) figures.roundTrip = figures.roundTrip === 0 ? trip : Math.min(figures.roundTrip, trip);
  }
  return figures;
}

const REPORTED = ["tcp", "route"]; // doctor reports rails beside a connection.

function faultsOf(link) {
  const faults = [];
  if (link.detail) faults.push(link.detail);
  if (link.large_lost) faults.push(`small frames pass, large ones do not ${link.large_lost_on}`);
  if (Number(link.changed_frames) > 0) {
    faults.push(`bytes were changed or lost on the way, ${plural(Number(link.changed_frames), "time")}, ` +
      `and sent again, last on ${link.changed_on}`);
  }
  for (const rail of link.rails) {
    if (rail.state === "up" || !REPORTED.includes(rail.transport)) continue;
    const ends = `${rail.local_interface || rail.local_address} - ` +
      `${rail.remote_interface || rail.remote_address}`;
    faults.push(`${rail.transport} ${ends} ${rail.state}: ${rail.detail}`);
  }
  return faults;
}

/** Merges both sides' views of each link, as `mlxcommctl status` does. */
export function linksOf(status) {
  const key = (id, name) => id || `name ${name}`; // A lost node is not in status.nodes.
  const pairs = new Map();
  const own = (node) => node.name === status.node;
  const nodes = [...status.nodes].sort((a, b) => own(b) - own(a) || byName(a.name, b.name));
  for (const node of nodes) {
    for (const link of [...node.links].sort((a, b) => byName(a.peer, b.peer))) {
      const ends = [key(node.id, node.name), key(link.peer_id, link.peer)].sort().join(" ");
      const pair = pairs.get(ends) ??
        {ends, names: [node.name, link.peer], state: link.state, over: "", faults: [],
          now: 0, direct: 0, best: 0, roundTrip: 0};
      pairs.set(ends, pair);
      if (pair.state === "up") pair.state = link.state;
      if (!pair.over) Object.assign(pair, figuresOf(link), {over: kindsOf(link)});
      pair.best = slower(pair.best, bestOf(link));
      if (pair.faults.length === 0) pair.faults = faultsOf(link); // One side's report is enough.
    }
  }
  return [...pairs.values()];
}

const LINK_COLUMNS = [
  {title: "link", className: "name", fill: (cell, link) => {
    if (!cell.firstChild) cell.append(element("div", "lines"), element("div", "faults"));
    writeLine(cell.children[0], link.names.join(" - "), "", link.names.map((name) => brief(name, 24)).join(" - "));
    write(cell.children[1], link.faults.join("; "), link.state === "up" ? "" : "bad");
  }},
  {title: "state", of: (link) => link.state, tone: (link) => toneOf(link.state), className: "middling"},
  {title: "over", of: (link) => link.over || "-", className: "middling"},
  {title: "now", of: (link) => (link.over ? rateNow(link.now) : "-"), className: "figure middling"},
  {title: "last 5 minutes", className: "drawn", fill: (cell, link) => {
    if (!cell.firstChild) cell.append(makeCurve());
    drawCurve(cell.firstChild, link.curve, link.top, `at most ${rateNow(peakOf(link.curve))} in the last 5 minutes`);
  }},
  {title: "peak", of: (link) => (link.best > 0 ? rate(link.best) : "-"), className: "figure middling"},
  {title: "round trip", of: (link) => (link.roundTrip > 0 ? nanoseconds(link.roundTrip) : "-"),
    className: "figure middling"},
];

export function showLinks(status) {
  const links = linksOf(status).map((link) => ({...link, curve: curveOfLink(link.ends)}));
  byId("links-panel").hidden = links.length === 0;
  const isWell = (link) => link.state === "up" && link.faults.length === 0;
  links.sort((a, b) => isWell(a) - isWell(b)); // Faults first.
  const top = Math.max(...links.map((link) => peakOf(link.curve))); // One scale, to compare links.
  table(byId("links"), "Links", LINK_COLUMNS, links.map((link) => ({...link, top})), (link) => link.ends);
}

function makeFinding() {
  return element("li", "", element("details", "", element("summary", "line"), element("div")));
}

function showFinding(made, finding) {
  const [summary, more] = made.firstChild.children;
  const text = `${finding.severity} ${finding.code} ${finding.object}: ${finding.title}`;
  if (summary.title !== text) {
    summary.title = text;
    const severity = element("strong", "", finding.severity);
    severity.dataset.tone = toneOf(finding.severity);
    summary.replaceChildren(severity, text.slice(finding.severity.length));
  }
  const lines = [["found", finding.found], ["expected", finding.expected], ["remedy", finding.remedy],
    ["command", finding.command]].filter(([, what]) => what);
  keep(more, lines, ([name]) => name,
    ([name]) => element("p", "", element("span", "quiet", `${name} `), element(name === "command" ? "code" : "span")),
    (line, [, what]) => write(line.lastChild, what));
}

/** Shows one line for each finding, worst first; details unfold. */
export function showFindings(report) {
  const bad = (report?.findings ?? []).filter((finding) => finding.severity !== "ok");
  keep(byId("findings"), bad, (one) => `${one.code} ${one.object}`, makeFinding, showFinding);
}

const between = (begin, end) => duration(end > begin ? end - begin : 0n);

function calledAt(operation) {
  const times = operation.called.map((rank) => BigInt(rank.at_ns)).filter((at) => at > 0n);
  return times.reduce((a, b) => (b < a ? b : a), times[0] ?? BigInt(operation.matched_ns));
}

const OPERATION_COLUMNS = [
  {title: "ago", of: (one) => between(one.began, one.now), className: "figure middling"},
  {title: "group", of: (one) => one.group_name || one.group, most: 22, className: "wider"},
  {title: "operation", className: "name", of: (one) => `${one.number} ${one.operation}` + (one.point_to_point ?
    ` ${one.source_rank}>${one.destination_rank} tag ${one.tag}` : "")},
  {title: "bytes", of: (one) => bytes(one.bytes), className: "figure middling"},
  {title: "state", of: (one) => one.failure || one.state, className: "wider",
    tone: (one) => (one.failure ? "bad" : one.state === "done" ? "" : toneOf(one.state))},
  {title: "total", className: "figure middling",
    of: (one) => between(one.began, one.ended_ns === "0" ? one.now : BigInt(one.ended_ns))},
  {title: "last to arrive", of: (one) => one.last || "-", className: "wider"},
];

export function showRecord(record) {
  if (!record || !byId("operations").open) return;
  if (record.operations.length === 0) return none("record", "No operation is recorded.");
  const now = BigInt(record.taken_ns);
  // The record is sorted by end, the table by beginning.
  const rows = record.operations.map((one) => ({...one, now, began: calledAt(one)}))
    .sort((a, b) => (a.began < b.began ? 1 : a.began > b.began ? -1 : Number(b.number) - Number(a.number)));
  table(byId("record"), "Last operations", OPERATION_COLUMNS, rows, () => "");
}

const EVENT_COLUMNS = [
  {title: "at", of: (one) => (Number(one.lost) > 0 ? "" : clock(dateOf(one.unix_ns))), className: "middling"},
  {title: "severity", of: (one) => one.severity, tone: (one) => toneOf(one.severity), className: "middling"},
  {title: "about", of: (one) => one.object, most: 22, className: "wider"},
  {title: "what", className: "name", fill: (cell, one) => {
    if (!cell.firstChild) cell.append(element("div", "lines"));
    writeLine(cell.firstChild, Number(one.lost) > 0 ? `${plural(Number(one.lost), "event")} no longer known` : one.text);
  }},
];

export function showEvents(events) {
  if (!events || events.length === 0) return none("events", "Nothing yet.");
  table(byId("events"), "Events", EVENT_COLUMNS, [...events].reverse(), (one) => `${one.number} ${one.lost}`);
}
