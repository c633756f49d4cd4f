// Reads the feed of mlxcommctl web and shows each of its parts. Without a feed, or without a daemon, the page
// says so above what was last known.
import {showEvents, showFindings, showJobs, showLinks, showNode, showRecord} from "./tables.js";
import {chosenNode, showTopology} from "./topology.js";
import {byId, plural, say} from "./words.js";

// The token has become a cookie: it need not stand in the address, nor in the browser's history.
history.replaceState(null, "", location.pathname);

const latest = {};

const choose = (id) => showNode(latest.status, id);

function showStatus(status) {
  const answering = status.nodes.filter((node) => node.answered).length;
  say("cluster", status.cluster);
  say("summary", `${plural(status.nodes.length, "node")}` +
    (answering < status.nodes.length ? ` (${answering} answering)` : "") +
    `, ${plural(status.jobs.length, "job")}, as ${status.node} sees it`);
  document.title = `${status.cluster} - mlxcomm`;
  showJobs(status);
  showLinks(status);
  if (latest.topology) showTopology(latest.topology, status, choose);
  if (chosenNode()) choose(chosenNode());
}

/** When all was as the page shows it: the time of the look, not that of its arrival. */
function asOf() {
  const milliseconds = Number(BigInt(latest.daemon?.seen_unix_ns ?? 0) / 1000000n);
  if (milliseconds === 0) return "";
  const at = new Date(milliseconds);
  const isToday = at.toDateString() === new Date().toDateString();
  return ` Showing the state as of ${isToday ? at.toLocaleTimeString() : at.toLocaleString()}.`;
}

function trouble(text) {
  byId("trouble").hidden = text === "";
  say("trouble", text === "" ? "" : text + asOf());
}

function showDaemon({error}) {
  trouble(error ? `The daemon is gone: ${error.message}.` : "");
  if (error) say("health-text", "not known: the daemon is gone", "bad");
  else if (latest.health) parts.health(latest.health); // It may be as it was before, and not be told again.
}

function showFollowing({error}) {
  say("events-trouble", error ? `The daemon refuses to tell events: ${error.message}. ` +
    "Changes are shown later than they happen." : "");
  byId("events-trouble").hidden = !error;
}

const parts = {
  daemon: showDaemon,
  following: showFollowing,
  health: ({good, text}) => say("health-text", text, good ? "good" : "bad"),
  status: showStatus,
  topology: (topology) => showTopology(topology, latest.status, choose),
  doctor: showFindings,
  record: showRecord,
  events: showEvents,
};

const feed = new EventSource("feed");
for (const [name, show] of Object.entries(parts)) {
  feed.addEventListener(name, (message) => {
    latest[name] = JSON.parse(message.data);
    show(latest[name]);
  });
}
feed.addEventListener("open", () => {
  say("feed", "live", "good"); // Whether there is trouble, the part of the daemon tells, which comes with it.
});
feed.addEventListener("error", () => {
  say("feed", "not connected", "bad");
  trouble(feed.readyState === EventSource.CLOSED
    ? "mlxcommctl web has refused the connection. Was it restarted? Open the URL that it has printed."
    : "mlxcommctl web does not answer. Has it ended?");
});
