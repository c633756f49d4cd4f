// The picture of nodes and cables. Nodes stand on a circle by name, as `mlxcommctl topology --svg` has them,
// whatever becomes of cables and ring. Their places are chosen anew only when a node comes that was not there
// before, never because one went. Elements are changed, not made again, so that the focus stays.
import {byId, byName, nanoseconds, rateNow, say} from "./words.js";

const WIDTH = 640;
const HEIGHT = 440;
const BOX = {width: 124, height: 44};
const MARGIN = 40; // Above and below the nodes.

const places = []; // Ids in their order on the circle.
const shown = new Map(); // What is drawn, by what it stands for.
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

function write(of, text) {
  if (of.textContent !== text) of.textContent = text;
}

const short = (text) => (text.length <= 16 ? text : `${text.slice(0, 14)}..`);

const inOrder = (topology) => [...topology.nodes]
  .sort((a, b) => byName(a.name, b.name) || (a.id < b.id ? -1 : 1)).map((node) => node.id);

function choosePlaces(topology) {
  if (topology.nodes.every((node) => places.includes(node.id))) return;
  places.splice(0, places.length, ...inOrder(topology));
  const heights = places.map((id) => placeOf(id).y);
  const top = Math.min(...heights, HEIGHT / 4 + MARGIN) - MARGIN; // A switch may stand there.
  set(byId("picture"), {viewBox: `0 ${top} ${WIDTH} ${Math.max(...heights) + MARGIN - top}`});
}

function placeOf(id) {
  const count = places.length;
  if (count === 1) return {x: WIDTH / 2, y: HEIGHT / 2};
  const turn = 2 * Math.PI * places.indexOf(id) / count - (count === 2 ? Math.PI / 2 : 0);
  return {x: WIDTH / 2 + 235 * Math.sin(turn), y: HEIGHT / 2 - 175 * Math.cos(turn)};
}

function keep(key, used, make, before) {
  used.add(key);
  if (!shown.has(key)) {
    const made = make();
    shown.set(key, made);
    const picture = byId("picture");
    if (before) picture.prepend(made);
    else picture.append(made);
  }
  return shown.get(key);
}

// --- nodes --------------------------------------------------------------------------

function makeNode(id, choose) {
  const made = svg("g", {class: "vertex", role: "button", tabindex: 0, "aria-pressed": false},
    svg("rect", {class: "box", ...BOX, x: -BOX.width / 2, y: -BOX.height / 2, rx: 8}),
    svg("text", {y: -4}), svg("text", {y: 14, class: "small state"}));
  const toggle = () => {
    chosen = chosen === id ? null : id;
    for (const one of byId("picture").querySelectorAll(".vertex")) {
      set(one, {"aria-pressed": one === made && chosen === id});
    }
    choose(chosen);
  };
  made.addEventListener("click", toggle);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  return made;
}

function drawNode(topology, node, used, choose) {
  const drawn = keep(`node ${node.id}`, used, () => makeNode(node.id, choose));
  const own = node.name === topology.node;
  const silent = !own && node.state === "up" && !node.answered;
  const state = silent ? "does not answer" : node.state + (own ? ", this node" : "");
  const {x, y} = placeOf(node.id);
  const broken = node.state !== "up" || silent;
  set(drawn, {transform: `translate(${x} ${y})`,
    class: `vertex${own ? " own" : ""}${broken ? " broken" : ""}`});
  write(drawn.children[1], short(node.name));
  write(drawn.children[2], ` ${state}`); // A blank, for what reads both.
}

// --- cables -------------------------------------------------------------------------

/** What a cable's rails carry now, in both directions, as its first end tells. */
function trafficOn(cable, status) {
  const node = status?.nodes.find((one) => one.id === cable.from_node);
  let sum = 0;
  for (const link of node?.links ?? []) {
    if (link.peer_id !== cable.to_node) continue;
    for (const rail of link.rails) {
      if (rail.state === "up" && rail.local_interface === cable.from_interface &&
          rail.remote_interface === cable.to_interface) {
        sum += rail.sent_bytes_per_second + rail.received_bytes_per_second;
      }
    }
  }
  return sum;
}

function labelOf(cable, status) {
  if (cable.state !== "up") return "down";
  const now = trafficOn(cable, status);
  if (rateNow(now) !== "idle" || Number(cable.round_trip_ns) === 0) return rateNow(now);
  return `idle, ${nanoseconds(cable.round_trip_ns)}`;
}

/** From one place to another, bent aside where several cables join the same two. */
function curve(a, b, bend) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const side = {x: -(b.y - a.y) / length * bend, y: (b.x - a.x) / length * bend};
  const middle = {x: (a.x + b.x) / 2 + side.x, y: (a.y + b.y) / 2 + side.y};
  return {path: `M${a.x} ${a.y}Q${middle.x + side.x} ${middle.y + side.y} ${b.x} ${b.y}`, middle};
}

function makeCable() {
  return svg("g", {class: "cable", role: "img"}, svg("title"), svg("path"),
    svg("rect", {class: "back", height: 18, rx: 3}), svg("text", {class: "small"}));
}

function drawLine(drawn, line, look, told, label) {
  set(drawn, {class: `cable${look}`, "aria-label": told});
  write(drawn.children[0], told);
  set(drawn.children[1], {d: line.path});
  const width = label ? label.length * 6.6 + 8 : 0;
  set(drawn.children[2], {x: line.middle.x - width / 2, y: line.middle.y - 9, width});
  set(drawn.children[3], {x: line.middle.x, y: line.middle.y + 4});
  write(drawn.children[3], label);
}

const switchPlace = (number, count) =>
  ({x: WIDTH / 2 + (number - 1 - (count - 1) / 2) * 130, y: places.length <= 2 ? HEIGHT / 4 : HEIGHT / 2});

function drawSwitches(cables, used) {
  const numbers = [...new Set(cables.map((cable) => cable.switch_number))].filter((number) => number > 0);
  for (const number of numbers) {
    const {x, y} = switchPlace(number, numbers.length);
    const drawn = keep(`switch ${number}`, used, () => svg("g", {class: "hub", role: "img"},
      svg("rect", {x: -45, y: -15, width: 90, height: 30}), svg("text", {y: 5})));
    set(drawn, {transform: `translate(${x} ${y})`, "aria-label": `switch ${number}`});
    write(drawn.children[1], `switch ${number}`);
  }
  return numbers.length;
}

function drawCables(topology, status, used) {
  const ring = new Set();
  topology.ring.forEach((id, i) => {
    const last = i + 1 === topology.ring.length;
    if (topology.ring.length > 1 && (!last || topology.ring_closed)) {
      ring.add([id, topology.ring[(i + 1) % topology.ring.length]].sort().join(" "));
    }
  });
  const switches = drawSwitches(topology.cables, used);
  const between = new Map();
  for (const cable of topology.cables) {
    const pair = [cable.from_node, cable.to_node].sort().join(" ");
    between.set(pair, [...(between.get(pair) ?? []), cable]);
  }
  const name = (id) => topology.nodes.find((node) => node.id === id)?.name ?? id;
  for (const [pair, cables] of between) {
    cables.forEach((cable, i) => {
      if (!places.includes(cable.from_node) || !places.includes(cable.to_node)) return;
      const look = (ring.has(pair) ? " ring" : "") + (cable.state === "up" ? "" : " cut");
      const label = labelOf(cable, status);
      const told = `${name(cable.from_node)} ${cable.from_interface} - ${cable.to_interface} ` +
        `${name(cable.to_node)}: ${cable.state}, ${cable.state === "up" ? label : cable.detail}`;
      const ends = [[cable.from_node, cable.from_interface], [cable.to_node, cable.to_interface]];
      if (cable.switch_number > 0) {
        for (const [id, port] of ends) {
          const drawn = keep(`port ${id} ${port}`, used, makeCable, true);
          drawLine(drawn, curve(placeOf(id), switchPlace(cable.switch_number, switches), 0),
            look.replace(" ring", ""), told, short(port));
        }
        return;
      }
      const drawn = keep(`cable ${ends.flat().join(" ")}`, used, makeCable, true);
      drawLine(drawn, curve(placeOf(cable.from_node), placeOf(cable.to_node),
        (i - (cables.length - 1) / 2) * 44), look, told, label);
    });
  }
}

// ------------------------------------------------------------------------------------

export function showTopology(topology, status, choose) {
  choosePlaces(topology);
  const used = new Set();
  drawCables(topology, status, used);
  for (const node of topology.nodes) drawNode(topology, node, used, choose);
  for (const [key, drawn] of shown) {
    if (used.has(key)) continue;
    drawn.remove();
    shown.delete(key);
  }
  const down = topology.cables.filter((cable) => cable.state !== "up").length;
  say("shape", topology.shape + (down > 0 ? `, ${down} of ${topology.cables.length} cables down` : ""));
}

export const chosenNode = () => chosen;
