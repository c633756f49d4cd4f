// Draws nodes and cables. Nodes stand on an ellipse, sorted by name, and move only when a new node appears. Elements
// are updated in place to keep the focus. A unit is a pixel, so that texts are readable on a phone.
import {byId, byName, bytes, element, keep, milliseconds, nanoseconds, plural, rate, rateNow, toneOf, write,
  writeLine} from "./words.js";

const BOX_HEIGHT = 40;
const GAP = 6; // Between boxes.
const BEND = 36; // Between cables of the same two nodes.
const LABELS_MAX = 12;
const places = []; // Ids in order on the ellipse.
const known = new Map(); // Cables by their ends, including those that the daemon no longer reports.
let size = {width: 0, height: 0, box: 0};
let chosen = null;

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(made, attributes);
  made.append(...children);
  return made;
}

function set(of, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (of.getAttribute(name) !== String(value)) of.setAttribute(name, value);
  }
}

/** Shortens a text to fit, but keeps its end, where names differ. */
function fit(of, text, room) {
  if (of.dataset.text === `${text} ${room}`) return;
  of.dataset.text = `${text} ${room}`;
  of.textContent = text;
  for (let kept = text.length - 1; kept > 1 && of.getComputedTextLength() > room; --kept) {
    of.textContent = `${text.slice(0, Math.floor(kept / 3))}…${text.slice(text.length - Math.ceil(2 * kept / 3))}`;
  }
}

const inOrder = (topology) => [...topology.nodes]
  .sort((a, b) => byName(a.name, b.name) || (a.id < b.id ? -1 : 1)).map((node) => node.id);

function placeOf(id, {width, height, box} = size) {
  const count = places.length;
  if (count === 1) return {x: width / 2, y: height / 2};
  const turn = 2 * Math.PI * places.indexOf(id) / count - (count === 2 ? Math.PI / 2 : 0);
  return {x: width / 2 + (width - box - 4) / 2 * Math.sin(turn),
    y: height / 2 - (height - BOX_HEIGHT - 4) / 2 * Math.cos(turn)};
}

/** Returns whether neighbours on the ellipse would overlap. */
function isTooWide(tried) {
  const points = places.map((id) => placeOf(id, tried));
  return points.slice(1).some((a, i) =>
    Math.abs(a.x - points[i].x) < tried.box + GAP && Math.abs(a.y - points[i].y) < BOX_HEIGHT + GAP);
}

function chooseSize(abreast, hasSwitch) {
  const width = Math.max(240, byId("picture").clientWidth);
  const count = places.length;
  const pair = 96 + BEND * Math.max(abreast - 1, hasSwitch ? 2 : 0);
  const height = count === 1 ? 56 : count === 2 ? pair : count <= 8 ? 320 : width < 480 ? 560 : 420;
  let box = Math.min(150, Math.floor(width / 2.8));
  while (box > 40 && isTooWide({width, height, box})) box -= 2;
  size = {width, height, box};
  set(byId("picture"), {viewBox: `0 0 ${width} ${height}`, height});
  if (!byId("picture").firstChild) byId("picture").append(svg("g"), svg("g"), svg("g"));
}

function makeNode(id, choose) {
  const made = svg("g", {class: "vertex", role: "button", tabindex: 0, "aria-pressed": false},
    svg("title"), svg("rect", {class: "box", height: BOX_HEIGHT, y: -BOX_HEIGHT / 2, rx: 7}),
    svg("text", {class: "name", y: -3}), svg("text", {class: "condition", y: 13}));
  const toggle = () => {
    chosen = chosen === id ? null : id;
    for (const one of byId("picture").querySelectorAll(".vertex")) {
      set(one, {"aria-pressed": one === made && chosen === id});
    }
    choose();
  };
  made.addEventListener("click", toggle);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  return made;
}

function drawNode(drawn, node, topology) {
  const own = node.name === topology.node;
  const silent = !own && node.state === "up" && !node.answered;
  const state = silent ? "no answer" : node.state;
  const tone = toneOf(silent ? "lost" : node.state);
  const {x, y} = placeOf(node.id);
  const [title, box, name, condition] = drawn.children;
  set(drawn, {transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    class: `vertex${own ? " own" : ""}${node.state !== "up" || silent ? " broken" : ""}`});
  write(title, `${node.name}: ${state}${own ? ", this node" : ""}`);
  set(box, {width: size.box, x: -size.box / 2});
  set(name, {class: size.box < 70 ? "name small" : "name"});
  fit(name, node.name, size.box - 8);
  fit(condition, own && size.box > 100 ? `${state}, this node` : state, size.box - 8);
  if (condition.dataset.tone !== tone) condition.dataset.tone = tone;
}

const endsOf = (cable) => [`${cable.from_node} ${cable.from_interface}`, `${cable.to_node} ${cable.to_interface}`];
const isOf = (pair) => (cable) => cable.from_node === pair[0] && cable.to_node === pair[1];

/** Returns the last cables of links that are down and have none; they may have gone before the page was loaded. */
function cablesOfLostLinks(topology, status) {
  return (status?.nodes ?? []).flatMap((node) => node.links.flatMap((link) => {
    const [from, to] = [[node.id, link.last_local_interface], [link.peer_id, link.last_remote_interface]].sort();
    if (link.state === "up" || [...topology.cables, ...known.values()].some(isOf([from[0], to[0]]))) return [];
    return [{from_node: from[0], from_interface: from[1], to_node: to[0], to_interface: to[1], detail: link.detail,
      switch_number: 0, round_trip_ns: "0"}];
  }));
}

/** Returns whether the two have a rail that is up and not a route. */
const areJoined = (pair, status) => (status?.nodes ?? []).some((node) => pair.includes(node.id) && node.links.some(
  (link) => pair.includes(link.peer_id) &&
    link.rails.some((rail) => rail.state === "up" && rail.transport !== "route")));

/** Forgets a cable when one of its nodes is gone, one of its ports has another cable, or the daemon no longer reports
    it while its nodes have another one. */
function remember(topology, status) {
  const ids = new Set(topology.nodes.map((node) => node.id));
  const reported = new Map(topology.cables.map((cable) => [endsOf(cable).join(" "), cable]));
  for (const cable of cablesOfLostLinks(topology, status)) known.set(endsOf(cable).join(" "), cable);
  for (const [key, cable] of reported) {
    const isReplaced = ([old, one]) => !reported.has(old) && endsOf(one).some((end) => endsOf(cable).includes(end));
    if (!known.has(key)) [...known].filter(isReplaced).forEach(([old]) => known.delete(old));
    known.set(key, cable);
  }
  for (const [key, cable] of known) {
    if (reported.has(key)) continue;
    const pair = [cable.from_node, cable.to_node];
    if (!pair.every((id) => ids.has(id)) || areJoined(pair, status)) known.delete(key);
    else known.set(key, {...cable, state: "down", detail: cable.detail || "no longer reported"});
  }
}

/** Returns the current rate of a cable's rails in both directions, as its first end reports it. */
function trafficOn(cable, status) {
  const links = status.nodes.find((one) => one.id === cable.from_node)?.links ?? [];
  return links.filter((link) => link.peer_id === cable.to_node).flatMap((link) => link.rails)
    .filter((rail) => rail.state === "up" && rail.local_interface === cable.from_interface &&
      rail.remote_interface === cable.to_interface)
    .reduce((sum, rail) => sum + rail.sent_bytes_per_second + rail.received_bytes_per_second, 0);
}

const widthOf = (label) => (label ? label.length * 6.8 + 10 : 0);

/** Returns the path between two places, bent aside if several cables join them. The label avoids the picture's middle,
    where lines cross, and is dropped if there is no room between the boxes. */
function curve(a, b, bend, label) {
  const [x, y] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(x, y) || 1;
  const at = (part, aside) =>
    ({x: a.x + x * part - aside * bend * y / length, y: a.y + y * part + aside * bend * x / length});
  const [from, over, to] = [a, at(0.5, 2), b].map((one) => `${one.x.toFixed(1)} ${one.y.toFixed(1)}`);
  const middle = at(0.5, 1);
  const isCrossed = places.length > 2 && Math.hypot(middle.x - size.width / 2, middle.y - size.height / 2) < 40;
  const needed = (Math.abs(x) * widthOf(label) + Math.abs(y) * 18) / length;
  const free = length - Math.min(size.box / Math.abs(x), BOX_HEIGHT / Math.abs(y)) * length;
  return {path: `M${from}Q${over} ${to}`, label: free > (isCrossed ? 2 * needed + 20 : needed) ? label : "",
    text: isCrossed ? at(0.5 - (needed / 2 + 10) / length, 1) : middle};
}

const makeCable = () => svg("g", {class: "cable", role: "img"}, svg("title"), svg("path"),
  svg("rect", {class: "back", height: 18, rx: 4}), svg("text"));

function drawCable(drawn, {line: {path, label, text}, look, title}) {
  set(drawn, {class: `cable${look}`, "aria-label": title});
  write(drawn.children[0], title);
  set(drawn.children[1], {d: path});
  const width = widthOf(label);
  set(drawn.children[2], {x: (text.x - width / 2).toFixed(1), y: (text.y - 9).toFixed(1), width});
  set(drawn.children[3], {x: text.x.toFixed(1), y: (text.y + 4).toFixed(1)});
  write(drawn.children[3], label);
}

const makeSwitch = () => svg("g", {class: "hub", role: "img"},
  svg("rect", {x: -38, y: -13, width: 76, height: 26, rx: 4}), svg("text", {y: 4}));

const switchPlace = (number, count) => ({x: size.width / 2 + (number - 1 - (count - 1) / 2) * 100,
  y: places.length <= 2 ? 20 : size.height / 2});

function drawSwitch(drawn, number, count) {
  const {x, y} = switchPlace(number, count);
  set(drawn, {transform: `translate(${x} ${y})`, "aria-label": `switch ${number}`});
  write(drawn.children[1], `switch ${number}`);
}

function isInRing({ring, ring_closed: isClosed}, pair) {
  const apart = Math.abs(ring.indexOf(pair[0]) - ring.indexOf(pair[1]));
  return pair.every((id) => ring.includes(id)) && (apart === 1 || (isClosed && apart === ring.length - 1));
}

/** Returns a cable's lines by key: two if it goes through a switch. */
function linesOf(cable, topology, status, switches) {
  const pair = [cable.from_node, cable.to_node];
  const [from, to] = pair.map((id) => topology.nodes.find((node) => node.id === id).name);
  const now = cable.state === "up" ? rateNow(trafficOn(cable, status)) : "down";
  const trip = Number(cable.round_trip_ns) > 0 ? `, round trip ${nanoseconds(cable.round_trip_ns)}` : "";
  const title = `${from} ${cable.from_interface} - ${cable.to_interface} ${to}: ` +
    (cable.state === "up" ? now + trip : `down, ${cable.detail}`);
  const look = cable.state !== "up" ? " cut" : now === "idle" ? "" : " busy";
  if (cable.switch_number > 0) {
    return [[pair[0], cable.from_interface], [pair[1], cable.to_interface]].map(([id, port]) => [`${id} ${port}`,
      {line: curve(placeOf(id), switchPlace(cable.switch_number, switches), 0, port.slice(0, 12)), look, title}]);
  }
  const abreast = [...known.values()].filter(isOf(pair));
  const bend = (abreast.indexOf(cable) - (abreast.length - 1) / 2) * BEND;
  const label = now === "idle" || known.size > LABELS_MAX ? "" : now;
  return [[endsOf(cable).join(" "), {line: curve(placeOf(pair[0]), placeOf(pair[1]), bend, label), title,
    look: look + (isInRing(topology, pair) ? " ring" : "")}]];
}

export function showTopology(topology, status, choose) {
  remember(topology, status);
  if (!topology.nodes.every((node) => places.includes(node.id))) places.splice(0, places.length, ...inOrder(topology));
  const cables = [...known.values()];
  const numbers = [...new Set(cables.map((cable) => cable.switch_number))].filter((number) => number > 0);
  const abreast = cables.map((cable) => cables.filter(isOf([cable.from_node, cable.to_node])).length);
  chooseSize(Math.max(1, ...abreast), numbers.length > 0);
  // Of several cables at a switch's port, the busiest one is drawn last.
  const use = (cable) => (cable.state !== "up" ? 0 : rateNow(trafficOn(cable, status)) === "idle" ? 1 : 2);
  cables.sort((a, b) => use(a) - use(b));
  const lines = new Map(cables.flatMap((cable) => linesOf(cable, topology, status, numbers.length)));
  const [below, middle, above] = byId("picture").children;
  keep(below, [...lines], ([key]) => key, makeCable, (drawn, [, line]) => drawCable(drawn, line));
  keep(middle, numbers, (number) => number, makeSwitch, (drawn, number) => drawSwitch(drawn, number, numbers.length));
  keep(above, topology.nodes, (node) => node.id, (node) => makeNode(node.id, choose),
    (drawn, node) => drawNode(drawn, node, topology));
  byId("legend").hidden = cables.length === 0;
  const down = cables.filter((cable) => cable.state !== "up").length;
  write(byId("shape"), topology.shape + (down > 0 ? `, ${down} of ${plural(cables.length, "cable")} down` : ""));
}

/** Describes a node that does not answer: its state, and its neighbours' reports of their links to it. */
const factsOfAbsent = (node, status) => [
  `${node.state}: it does not answer`, ...(node.version ? [`mlxcommd ${node.version}`] : []),
  ...(status?.nodes ?? []).flatMap((one) => one.links.filter((link) => link.peer_id === node.id && link.detail)
    .map((link) => `link from ${one.name} ${link.state}: ${link.detail}`))];

/** Shows the chosen node's details, with a line for each rail. */
export function showNode({status, topology}) {
  const reported = status?.nodes.find((one) => one.id === chosen);
  const node = reported ?? topology?.nodes.find((one) => one.id === chosen);
  const [title, list] = byId("node").children;
  keep(title, node ? [node] : [], (one) => one.id, () => element("h3", "line"),
    (heading, one) => writeLine(heading, one.name));
  if (!node) return list.replaceChildren();
  const facts = reported?.answered ? [
    `mlxcommd ${node.version}, pid ${node.pid}, up for ${milliseconds(node.uptime_ms)}`,
    `${plural(Number(node.clients), "client")}, ${bytes(node.memory_bytes)} of memory`,
  ] : factsOfAbsent(node, status);
  const rails = (reported?.links ?? []).flatMap((link) => link.rails.map((rail) =>
    `to ${link.peer}: ${rail.transport} ${rail.local_interface || rail.local_address} ${rail.state}` +
    (rail.state === "up" ?
      `, out ${rate(rail.sent_bytes_per_second)}, in ${rate(rail.received_bytes_per_second)}` : ` ${rail.detail}`)));
  return keep(list, facts.concat(rails), () => "", () => element("li", "line"), (item, fact) => writeLine(item, fact));
}
