// Shows jobs as cards: which rank waits for which, a row for each rank, and ended jobs.
import {brief, byId, element, keep, milliseconds, plural, ranks, toneOf, write, writeLine} from "./words.js";
import {table} from "./tables.js";

const LONG_WAIT_MS = 1000; // Short waits are normal.
const UNFOLDED_MAX = 4; // With more jobs, only those that need attention are unfolded.

/** Returns the waits, longest first, merged if they are for the same ranks and operation. */
export function waitsOf(job) {
  const together = new Map();
  for (const {name, waits} of [{name: "", waits: job.waits}, ...job.groups]) {
    for (const wait of waits) {
      const age = Number(wait.age_ms);
      if (age < LONG_WAIT_MS) continue;
      const key = JSON.stringify([name, wait.operation, wait.awaited]);
      const known = together.get(key) ?? {...wait, group: name, waiting: [], age: 0};
      together.set(key, {...known, waiting: known.waiting.concat(wait.waiting), age: Math.max(known.age, age)});
    }
  }
  return [...together.values()].sort((a, b) => b.age - a.age);
}

export const sayWait = (wait) => `${ranks(wait.waiting)} ${wait.waiting.length === 1 ? "has" : "have"} waited ` +
  `${milliseconds(wait.age)} for ${ranks(wait.awaited)}`;

/** Returns {text, tone} for the line below a job's name. */
function summaryOf(job) {
  const group = job.groups.find((one) => one.state === "failed");
  if (job.state === "failed") return {text: job.detail, tone: "bad"};
  if (group) return {text: `group ${group.name} failed: ${group.detail}`, tone: "bad"};
  const [first, ...others] = waitsOf(job);
  if (!first) return {text: job.detail || "no rank is waiting", tone: job.detail ? toneOf(job.state) : "quiet"};
  return {text: `${sayWait(first)} in ${first.operation}${first.group ? ` of group ${first.group}` : ""}` +
    (others.length > 0 ? `, and ${plural(others.length, "more wait")}` : ""), tone: "warn"};
}

function activityOf(rank, awaited) {
  // The time comes first, because the end may be cut.
  const inside = rank.operation ? `${milliseconds(rank.operation_age_ms)} in ${rank.operation}` : "";
  const wait = awaited.get(rank.rank);
  // A rank in the same operation only moves its data.
  if (wait !== undefined && wait.operation !== rank.operation) {
    return {text: `others have waited ${milliseconds(wait.age)}; ${inside || "not in the operation"}`, tone: "warn"};
  }
  return {text: inside || "no operation", tone: inside ? "" : "quiet"};
}

const RANK_COLUMNS = [
  {title: "rank", of: ({rank}) => rank.rank, className: "figure narrow"},
  {title: "node", of: ({rank}) => rank.node, most: 13, className: "wide-enough"},
  {title: "process", of: ({rank}) => `${rank.pid} ${rank.program}`, className: "wide-enough"},
  {title: "current operation", of: ({activity}) => activity.text, tone: ({activity}) => activity.tone,
    className: "whole"},
  {title: "done", of: ({rank}) => Number(rank.operations_done).toLocaleString("en-US"), className: "figure middling"},
];

function makeJob(isOpen) {
  const card = element("details", "job", element("summary", "", element("div", "title", element("h3", "line"),
    element("p", "facts quiet line"), element("span", "state")), element("p", "news lines")),
  element("div", "ranks scroll"));
  card.open = isOpen;
  card.lastChild.tabIndex = 0;
  card.lastChild.setAttribute("role", "group");
  return card;
}

function showJob(card, job) {
  const [{children: [title, news]}, rows] = card.children;
  writeLine(title.children[0], job.name, "", brief(job.name, 48));
  write(title.children[2], job.state, toneOf(job.state));
  const groups = job.groups.length + job.groups_left_out;
  writeLine(title.children[1], [
    job.ranks.length < job.size ? `${job.ranks.length} of ${plural(job.size, "rank")}` : plural(job.size, "rank"),
    job.shrinks > 0 ? `shrunk from ${job.size_at_start}` : "", groups > 0 ? plural(groups, "group") : "",
    job.user ? `user ${job.user}` : ""].filter(Boolean).join(", "));
  const {text, tone} = summaryOf(job);
  writeLine(news, text, tone);
  if (!card.open) return;
  const awaited = new Map();
  for (const wait of waitsOf({...job, groups: []})) {
    for (const rank of wait.awaited) if (!awaited.has(rank)) awaited.set(rank, wait);
  }
  rows.setAttribute("aria-label", `Ranks of ${job.name}`);
  table(rows, `Ranks of ${job.name}`, RANK_COLUMNS,
    job.ranks.map((rank) => ({rank, activity: activityOf(rank, awaited)})), ({rank}) => rank.rank);
}

/** Returns {name, age, detail, reason} of recently ended jobs, newest first. */
export const endedJobsOf = (status) => (status.ended_jobs ?? []).map((one) =>
  ({name: one.name, age: Number(one.ended_ms_ago), detail: one.detail ?? "",
    reason: one.code && one.code !== "CANCELLED" &&
    one.code + (one.node ? ` rank ${one.rank} (${one.node}, pid ${one.pid})` : "")}));

export const sayEnded = ({name, age, reason}, most) =>
  `${brief(name, most)} ${reason ? "failed" : "ended"} ${milliseconds(age)} ago${reason ? `: ${reason}` : ""}`;

export function showJobs(status) {
  const ended = endedJobsOf(status).map((one) => ({...one, kind: "ended"}));
  // Two jobs may have one name: a new run can form while the last one ends.
  const jobs = status.jobs.length > 0 ? status.jobs.map((one) => ({...one, kind: "job"})) : [{name: "", kind: "none"}];
  const others = status.jobs_of_others > 0;
  keep(byId("jobs"), [...jobs, ...ended], (one) => `${one.kind} ${one.name}`,
    (one) => (one.kind === "job" ? makeJob(jobs.length <= UNFOLDED_MAX || summaryOf(one).tone !== "quiet")
      : element("div", one.kind, element("p", "line"), element("p", "quiet lines"))),
    (card, one) => {
      if (one.kind === "job") return showJob(card, one);
      if (one.kind === "none") {
        return writeLine(card.firstChild,
          `${others ? "No job of yours is running." : "No jobs running."} Start one with mlxcommctl launch.`);
      }
      writeLine(card.firstChild, sayEnded(one, 1000), one.reason ? "bad" : "", sayEnded(one, 48));
      return writeLine(card.lastChild, one.detail);
    });
  write(byId("other-jobs"), others ? `${plural(status.jobs_of_others, "job")} of other users` : "");
}
