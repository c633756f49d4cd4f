// Links, jobs, findings, operations and events, from the same JSON that the verbs' --json prints.
import {byId, byName, bytes, element, milliseconds, nanoseconds, plural, ranks, rate, rateNow,
  stateClass} from "./words.js";

const LONG_WAIT_MS = 1000; // Ranks always wait for each other for a moment.

/** columns: {title, of: row -> text or element, className} */
function table(caption, columns, rows) {
  const head = element("tr", "", ...columns.map(({title, className}) => {
    const cell = element("th", className === "figure" ? "figure" : "", title);
    cell.scope = "col";
    return cell;
  }));
  const body = rows.map((row) => element("tr", "", ...columns.map(({of, className, classOf}) =>
    element("td", classOf ? classOf(row) : className, of(row)))));
  const made = element("table", "", element("thead", "", head), element("tbody", "", ...body));
  made.setAttribute("aria-label", caption);
  return made;
}

function fill(id, content) {
  const place = byId(id);
  const {scrollTop, scrollLeft} = place;
  place.replaceChildren(content);
  place.scrollTop = scrollTop;
  place.scrollLeft = scrollLeft;
}

// --- links --------------------------------------------------------------------------

function kindsOf(link) {
  const up = new Map();
  for (const rail of link.rails) {
    if (rail.state === "up") up.set(rail.transport, (up.get(rail.transport) ?? 0) + 1);
  }
  return [...up].sort().map(([kind, count]) => (count > 1 ? `${count} ${kind}` : kind)).join(", ");
}

function figuresOf(link) {
  const figures = {now: 0, best: 0, roundTrip: 0};
  for (const rail of link.rails) {
    if (rail.state !== "up") continue;
    figures.now += rail.sent_bytes_per_second + rail.received_bytes_per_second;
    figures.best += rail.delivery_bytes_per_second_best;
    const trip = Number(rail.round_trip_ns);
    if (trip > 0) figures.roundTrip = figures.roundTrip === 0 ? trip : Math.min(figures.roundTrip, trip);
  }
  return figures;
}

function faultsOf(link) {
  const faults = [];
  if (link.detail) faults.push(link.detail);
  if (link.large_lost) faults.push(`small frames pass, large ones do not ${link.large_lost_on}`);
  if (Number(link.changed_frames) > 0) {
    faults.push(`bytes were changed on the way, ${plural(Number(link.changed_frames), "time")}, ` +
      `and sent again, last on ${link.changed_on}`);
  }
  for (const rail of link.rails) {
    if (rail.state === "up" || rail.transport === "rdma") continue; // Of RDMA, doctor tells.
    const ends = `${rail.local_interface || rail.local_address} - ` +
      `${rail.remote_interface || rail.remote_address}`;
    faults.push(`${rail.transport} ${ends} ${rail.state}: ${rail.detail}`);
  }
  return faults;
}

/** A pair of nodes as its two sides see the link, as `mlxcommctl status` has it. */
export function linksOf(status) {
  const ids = new Set(status.nodes.map((node) => node.id));
  const key = (id, name) => (id && ids.has(id) ? `id ${id}` : `name ${name}`);
  const pairs = new Map();
  const own = (node) => node.name === status.node;
  const nodes = [...status.nodes].sort((a, b) => own(b) - own(a) || byName(a.name, b.name));
  for (const node of nodes) {
    for (const link of [...node.links].sort((a, b) => byName(a.peer, b.peer))) {
      const ends = [key(node.id, node.name), key(link.peer_id, link.peer)].sort().join(" - ");
      const pair = pairs.get(ends) ??
        {names: `${node.name} - ${link.peer}`, state: link.state, over: "", faults: [],
          now: 0, best: 0, roundTrip: 0};
      pairs.set(ends, pair);
      if (pair.state === "up") pair.state = link.state;
      if (!pair.over) Object.assign(pair, figuresOf(link), {over: kindsOf(link)});
      if (pair.faults.length === 0) pair.faults = faultsOf(link); // Both sides tell; one is enough.
    }
  }
  return [...pairs.values()];
}

export function showLinks(status) {
  const links = linksOf(status);
  if (links.length === 0) return fill("links", element("p", "quiet", "No other nodes."));
  const isWell = (link) => link.state === "up" && link.faults.length === 0;
  links.sort((a, b) => isWell(a) - isWell(b)); // What is wrong comes first.
  return fill("links", table("Links", [
    {title: "link", of: (link) => link.names, className: "name"},
    {title: "state", of: (link) => link.state, classOf: (link) => stateClass(link.state)},
    {title: "over", of: (link) => link.over, className: "name"},
    {title: "now", className: "figure",
      of: (link) => (link.over ? rateNow(link.now) : "")},
    {title: "at best", of: (link) => (link.best > 0 ? rate(link.best) : ""), className: "figure"},
    {title: "round trip", of: (link) => (link.roundTrip > 0 ? nanoseconds(link.roundTrip) : ""),
      className: "figure"},
    {title: "notes", of: (link) => element("span", link.state === "up" ? "" : "bad", link.faults.join("; "))},
  ], links));
}

// --- jobs ---------------------------------------------------------------------------

/** Ranks that wait for the same in the same operation share one line. */
function waitsOf(waits) {
  const together = new Map();
  for (const wait of waits) {
    if (Number(wait.age_ms) < LONG_WAIT_MS) continue;
    const key = JSON.stringify([wait.operation, wait.awaited]);
    const known = together.get(key);
    if (known) {
      known.waiting = known.waiting.concat(wait.waiting);
      known.age = Math.max(known.age, Number(wait.age_ms));
    } else {
      together.set(key, {...wait, age: Number(wait.age_ms)});
    }
  }
  return [...together.values()].map((wait) => element("p", "waits",
    `${ranks(wait.waiting)} ${wait.waiting.length === 1 ? "waits" : "wait"} for ${ranks(wait.awaited)} in ` +
    `${wait.operation} for ${milliseconds(wait.age)}`));
}

function showRanks(job) {
  return table(`Ranks of ${job.name}`, [
    {title: "rank", of: (rank) => rank.rank, className: "figure"},
    {title: "node", of: (rank) => rank.node, className: "name"},
    {title: "pid", of: (rank) => `${rank.pid} ${rank.program}`, className: "name"},
    {title: "done", of: (rank) => rank.operations_done, className: "figure"},
    {title: "by the ranks themselves", of: (rank) => Number(rank.operations_met) || "", className: "figure"},
    {title: "now in", of: (rank) => (rank.operation ?
      `${rank.operation} for ${milliseconds(rank.operation_age_ms)}` : "")},
  ], job.ranks);
}

function showJob(job) {
  const count = job.ranks.length < job.size ? `${job.ranks.length} of ${plural(job.size, "rank")}`
    : plural(job.size, "rank");
  const parts = [count, job.user ? `user ${job.user}` : "", job.detail].filter(Boolean).join(", ");
  const groups = job.groups.filter((group) => group.detail || waitsOf(group.waits).length > 0);
  const scroll = element("div", "scroll", showRanks(job));
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", `Ranks of ${job.name}`);
  return element("div", "",
    element("h3", "", `${job.name} `, element("span", stateClass(job.state), job.state)),
    element("p", job.state === "failed" ? "bad" : "quiet", parts), ...waitsOf(job.waits),
    ...groups.flatMap((group) => [
      element("p", stateClass(group.state), `group ${group.name} ${group.state} ${group.detail}`),
      ...waitsOf(group.waits)]),
    scroll);
}

export function showJobs(status) {
  const place = byId("jobs");
  // A job's table that is being read by keyboard keeps the focus.
  const focused = [...place.querySelectorAll(".scroll")].indexOf(document.activeElement);
  const shown = status.jobs.map(showJob);
  if (status.jobs_of_others > 0) {
    shown.push(element("p", "quiet", `${plural(status.jobs_of_others, "job")} of other users`));
  }
  if (shown.length === 0) shown.push(element("p", "quiet", "No jobs."));
  place.replaceChildren(...shown);
  if (focused >= 0) place.querySelectorAll(".scroll")[focused]?.focus({preventScroll: true});
}

// --- a node -------------------------------------------------------------------------

export function showNode(status, id) {
  const node = status?.nodes.find((one) => one.id === id);
  if (!node) return byId("node").replaceChildren();
  const facts = node.answered ? [
    `mlxcommd ${node.version}, pid ${node.pid}, up for ${milliseconds(node.uptime_ms)}`,
    `${plural(Number(node.clients), "client")}, ${bytes(node.memory_bytes)} of memory`,
  ] : ["It does not answer."];
  const rails = node.links.flatMap((link) => link.rails.map((rail) =>
    `to ${link.peer}: ${rail.transport} ${rail.local_interface || rail.local_address} ${rail.state}` +
    (rail.state === "up" ?
      `, out ${rate(rail.sent_bytes_per_second)}, in ${rate(rail.received_bytes_per_second)}` : ` ${rail.detail}`)));
  return byId("node").replaceChildren(
    element("h3", "", `${node.name} `, element("span", stateClass(node.state), node.state)),
    element("ul", "", ...facts.concat(rails).map((fact) => element("li", "", fact))));
}

// --- findings -----------------------------------------------------------------------

export function showFindings(report) {
  const bad = report.findings.filter((finding) => finding.severity !== "ok");
  byId("examined").textContent = `mlxcommctl doctor: ${plural(report.errors, "error")}, ` +
    `${plural(report.warnings, "warning")}, ${plural(report.notes, "note")}`;
  byId("findings").replaceChildren(...bad.map((finding) => {
    const shown = element("li", "",
      element("p", "", element("strong", stateClass(finding.severity), finding.severity),
        ` ${finding.code} ${finding.object}: ${finding.title}`));
    if (finding.found) shown.append(element("p", "", `found: ${finding.found}`));
    if (finding.expected) shown.append(element("p", "quiet", `expected: ${finding.expected}`));
    if (finding.remedy) shown.append(element("p", "", `remedy: ${finding.remedy}`));
    if (finding.command) shown.append(element("p", "", element("code", "", finding.command)));
    return shown;
  }));
}

// --- operations and events ----------------------------------------------------------

const between = (begin, end) => nanoseconds(end > begin ? end - begin : 0n);

function calledAt(operation) {
  const times = operation.called.map((rank) => BigInt(rank.at_ns)).filter((at) => at > 0n);
  return times.reduce((a, b) => (b < a ? b : a), times[0] ?? BigInt(operation.matched_ns));
}

export function showRecord(record) {
  if (record.operations.length === 0) {
    return fill("record", element("p", "quiet", "No operation is recorded."));
  }
  const now = BigInt(record.taken_ns);
  // They are told in the order of their ends, which is not that of their beginnings.
  const rows = record.operations.map((one) => ({...one, began: calledAt(one)}))
    .sort((a, b) => (a.began < b.began ? 1 : a.began > b.began ? -1 : Number(b.number) - Number(a.number)));
  return fill("record", table("Last operations", [
    {title: "ago", of: (one) => between(one.began, now), className: "figure"},
    {title: "group", of: (one) => one.group_name || one.group, className: "name"},
    {title: "operation", of: (one) => `${one.number} ${one.operation}` + (one.point_to_point ?
      ` ${one.source_rank}>${one.destination_rank} tag ${one.tag}` : "")},
    {title: "bytes", of: (one) => bytes(one.bytes), className: "figure"},
    {title: "state", of: (one) => one.failure || one.state,
      classOf: (one) => (one.failure ? "bad" : stateClass(one.state))},
    {title: "total", className: "figure",
      of: (one) => between(one.began, one.ended_ns === "0" ? now : BigInt(one.ended_ns))},
    {title: "came last", of: (one) => one.last || "-", className: "name"},
  ], rows));
}

export function showEvents(events) {
  if (events.length === 0) return fill("events", element("p", "quiet", "Nothing yet."));
  return fill("events", table("Events", [
    {title: "at", className: "name", of: (one) => (Number(one.lost) > 0 ? "" :
      new Date(Number(BigInt(one.unix_ns) / 1000000n)).toLocaleTimeString())},
    {title: "severity", of: (one) => one.severity, classOf: (one) => stateClass(one.severity)},
    {title: "of", of: (one) => one.object, className: "name"},
    {title: "what", of: (one) => (Number(one.lost) > 0 ?
      `${plural(Number(one.lost), "event")} no longer known` : one.text)},
  ], [...events].reverse()));
}
