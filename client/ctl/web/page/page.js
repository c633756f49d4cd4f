// Reads the feed of mlxcommctl web and shows its parts. Without a feed or a daemon, the page shows
// since when, with the last data in grey.
import {addHistory, curveOf, drawCurve, makeCurve, peakOf} from "./curves.js";
import {endedJobsOf, sayEnded, sayWait, showJobs, waitsOf} from "./jobs.js";
import {linksOf, showEvents, showFindings, showLinks, showRecord} from "./tables.js";
import {showNode, showTopology} from "./topology.js";
import {brief, byId, clock, dateOf, element, plural, rateNow, toneOf, write, writeLine} from "./words.js";

// The cookie has the token now, so remove it from the address and the browser's history.
history.replaceState(null, "", location.pathname);

const SILENCE_MS = 15000; // A feed sends something every 2 s.
const RETRY_MS = 10000; // After a refusal.

const latest = {}; // The last data of each part.
let feedTrouble = "";
let receivedAt = performance.now();

/** Returns the time of the last successful poll as "18:27:52"; "" if there was none. */
function asOf() {
  const seen = latest.daemon?.seen_unix_ns ?? "0";
  return seen === "0" ? "" : clock(dateOf(seen));
}

/** Returns {title, text} that say why the page is not live; "" if it is. */
function troubleNow() {
  const since = asOf() ? ` since ${asOf()}` : "";
  if (feedTrouble) return {title: `not connected${since}`, text: feedTrouble};
  if (latest.daemon?.error) {
    return {title: since ? `daemon gone${since}` : "no daemon", text: `${latest.daemon.error.message}.`};
  }
  return {title: "", text: ""};
}

function tile(id, big, note, tone = "") {
  const [, figure, line] = byId(id).children;
  writeLine(figure, big, tone);
  writeLine(line, note);
}

/** The topology also has lost nodes, until they are forgotten. */
const nodesOf = ({topology, status}) => topology?.nodes ?? status?.nodes ?? [];

function showNodes(nodes, own) {
  const conditionOf = (node) => (node.answered || node.state !== "up" || node.name === own ? node.state : "no answer");
  const counts = new Map();
  for (const node of nodes) counts.set(conditionOf(node), (counts.get(conditionOf(node)) ?? 0) + 1);
  const up = counts.get("up") ?? 0;
  const others = [...counts].filter(([state]) => state !== "up").map(([state, count]) => `${count} ${state}`);
  tile("nodes", up === nodes.length ? `${up} up` : `${up} of ${nodes.length} up`,
    [...others, `as ${brief(own, 20)} sees it`].join(", "));
  byId("nodes").lastElementChild.replaceChildren(...nodes.map((node) => {
    const dot = element("span", "dot");
    dot.dataset.tone = toneOf(conditionOf(node)) || "bad";
    dot.title = `${node.name}: ${conditionOf(node)}`;
    return dot;
  }));
}

/** Ranks on one node use no cables, so there operations are shown instead. */
function showTraffic(status) {
  const links = linksOf(status);
  const what = links.length > 0 ? "bytes" : "operations";
  const say = (value) => (what === "bytes" ? rateNow(value, links.length)
    : value < 0.5 ? "idle" : `${Math.round(value).toLocaleString("en-US")}/s`);
  const points = curveOf(what);
  const now = what === "bytes" ? links.reduce((sum, link) => sum + link.direct, 0) : points.at(-1)?.value ?? 0;
  const most = Math.max(now, peakOf(points));
  const title = what === "bytes" ? "Traffic" : "Operations";
  write(byId("traffic").firstElementChild, title);
  tile("traffic", say(now), say(most) === "idle" ? "idle for 5 minutes" : `5 min peak ${say(most)}`);
  if (!byId("traffic").querySelector("svg")) byId("traffic").append(makeCurve());
  drawCurve(byId("traffic").lastElementChild, points, Math.max(most, what === "bytes" ? 1e6 : 10),
    `${title} of the last 5 minutes`);
}

/** Returns {text, tone} for the most important fact about all jobs. */
function summaryOfJobs(status) {
  const failed = status.jobs.find((job) => job.state === "failed");
  if (failed) return {text: `${brief(failed.name, 24)} failed`, tone: "bad"};
  const [waiting] = status.jobs.flatMap((job) => waitsOf(job).map((wait) => ({...wait, job: job.name})))
    .sort((a, b) => b.age - a.age);
  if (waiting) return {text: `${brief(waiting.job, 16)}: ${sayWait(waiting)}`, tone: "warn"};
  const forming = status.jobs.filter((job) => job.state === "forming").length;
  if (forming > 0) return {text: `${plural(forming, "job")} forming`, tone: "warn"};
  const [ended] = endedJobsOf(status);
  const isOver = (name) => status.jobs.every((job) => job.name !== name); // Otherwise it was restarted.
  if (ended && (status.jobs.length === 0 || (ended.reason && isOver(ended.name)))) {
    return {text: sayEnded(ended, 16), tone: ended.reason ? "bad" : ""};
  }
  const jobs = status.jobs.map((job) => `${brief(job.name, 24)} (${plural(job.size, "rank")})`);
  if (status.jobs_of_others > 0) jobs.push(`${status.jobs_of_others} of other users`);
  return {text: jobs.join(", "), tone: ""};
}

/** Returns {big, tone, note} from status and doctor together; the worse one decides. */
function verdictOn({good, text}, doctor) {
  const {errors = 0, warnings = 0, notes = 0} = doctor ?? {};
  const isBroken = !good && (latest.status?.jobs.some((job) => job.state === "failed") ||
    nodesOf(latest).some((node) => node.state === "lost"));
  if (isBroken && errors === 0) return {big: "trouble", tone: "bad", note: text};
  if (errors + warnings > 0) {
    const worst = doctor.findings.find((one) => ["error", "warning"].includes(one.severity));
    const counts = [errors && plural(errors, "error"), warnings && plural(warnings, "warning")];
    return {big: counts.filter(Boolean).join(", "),
      tone: errors > 0 ? "bad" : "warn", note: good ? `${worst.object}: ${worst.title}` : text};
  }
  if (!good) return {big: "attention", tone: "warn", note: text};
  return {big: "all is well", tone: "good",
    note: text === "all is well" ? `doctor: ${notes > 0 ? plural(notes, "note") : "nothing found"}` : text};
}

function showHealth(health, doctor, isStale) {
  const {big, tone, note} = verdictOn(health, doctor);
  if (isStale) tile("health", "not known", `${asOf()}: ${health.text}`);
  else tile("health", big, note, tone);
  byId("attention").hidden = byId("findings").childElementCount === 0;
}

let isPlanned = false;

function show() {
  isPlanned = false;
  const {status, topology, health, doctor, following} = latest;
  const trouble = troubleNow();
  const isStale = trouble.title !== "";
  const date = isStale && asOf() ? `as of ${asOf()}` : "";
  document.body.classList.toggle("stale", isStale);
  for (const title of document.querySelectorAll("h2")) title.dataset.asOf = date;
  if (isStale) writeLine(byId("feed"), trouble.title, "bad");
  else if (latest.daemon) writeLine(byId("feed"), "live", "good");
  byId("trouble").hidden = !isStale;
  write(byId("trouble"), trouble.text);
  byId("events-trouble").hidden = !following?.error;
  write(byId("events-trouble"), following?.error ? `The daemon sends no events: ${following.error.message}. ` +
    "Changes are shown with a delay." : "", "bad");
  showFindings(doctor);
  showEvents(latest.events);
  showRecord(latest.record);
  if (health) showHealth(health, doctor, isStale);
  if (!status) return;
  document.body.classList.remove("unknown");
  writeLine(byId("cluster"), status.cluster);
  document.title = `${isStale || !health?.good || doctor?.errors > 0 ? "! " : ""}${status.cluster} - mlxcomm`;
  showNodes(nodesOf(latest), status.node);
  showTraffic(status);
  const {text, tone} = summaryOfJobs(status);
  const none = status.jobs_of_others > 0 ? "none of yours" : "none";
  tile("work", status.jobs.length === 0 ? none : plural(status.jobs.length, "job"), text, tone);
  showJobs(status);
  showLinks(status);
  if (topology) showTopology(topology, status, () => showNode(latest));
  showNode(latest);
}

/** Draws once for several messages. */
function plan() {
  if (!isPlanned) setTimeout(show);
  isPlanned = true;
}

function markAlive() {
  receivedAt = performance.now();
  feedTrouble = "";
  plan();
}

/** Returns why the server refuses the feed, which EventSource does not report; null if it does not. */
async function refusal() {
  try {
    const answer = await fetch("feed", {signal: AbortSignal.timeout(2000)});
    if (!answer.ok) return (await answer.text()).trim();
    await answer.body.cancel(); // Frees its place.
    return null;
  } catch {
    return ""; // The server is gone.
  }
}

let feed = null;
let retry = 0;

/** A hidden page has no feed, because a browser's tabs share six connections to a server. */
function follow() {
  clearTimeout(retry);
  feed?.close();
  feed = document.hidden ? null : new EventSource("feed");
  if (!feed) return;
  receivedAt = performance.now();
  for (const name of ["daemon", "following", "health", "status", "topology", "record", "events", "doctor"]) {
    feed.addEventListener(name, (message) => {
      latest[name] = JSON.parse(message.data);
      markAlive();
    });
  }
  feed.addEventListener("history", (message) => {
    addHistory(JSON.parse(message.data));
    markAlive();
  });
  feed.addEventListener("alive", markAlive);
  feed.addEventListener("error", async ({target}) => {
    feedTrouble = "mlxcommctl web does not answer. If it has ended, restart it with mlxcommctl web --open.";
    if (target.readyState === EventSource.CLOSED) {
      retry = setTimeout(follow, RETRY_MS);
      const refused = await refusal();
      if (target !== feed) return;
      if (refused === null) return follow();
      const why = refused || "If it was restarted, open its bookmark or the URL that it printed.";
      feedTrouble = `mlxcommctl web refused the connection. ${why}`;
    }
    plan();
  });
}

document.addEventListener("visibilitychange", follow);
follow();
setInterval(() => {
  if (!feed || feedTrouble || performance.now() - receivedAt < SILENCE_MS) return;
  feedTrouble = "No data from mlxcommctl web: check the connection to its machine.";
  plan();
}, 1000);
new ResizeObserver(plan).observe(byId("picture"));
// Folded parts are not drawn, so draw them when they unfold.
for (const id of ["operations", "jobs"]) byId(id).addEventListener("toggle", plan, true);
