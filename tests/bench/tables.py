"""The findings, as Markdown."""

import pathlib
import re
import statistics

from bench.comparison import bus_bandwidth, ratio, spread
from bench.findings import OURS, Findings, has_figures, partner, where
from bench.sizes import microseconds, of_bytes, times
from bench.targets import of_stream, summary

CROSSING_MS_MAX = 0.18  # Of MLX's event between a Mac's GPU and CPU.


def table(head, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def paired(theirs, ours):
    """Both, up to the number of rounds that both have."""
    count = min(len(theirs), len(ours))
    return ratio(theirs[:count], ours[:count])


def curves(f, part, place):
    """Microseconds; beside a peer's, how many times as fast ours was."""
    found = f.curves(part, place)
    head = ["bytes", *found, *(["bytes to touch"] if part == "one_node" else [])]
    rows = []
    for size in sorted({size for curve in found.values() for size in curve}):
        cells = [of_bytes(size)]
        for system, curve in found.items():
            cell = microseconds(statistics.median(curve[size])) if size in curve else "-"
            ours = found.get(partner(system), {}).get(size)
            if system not in OURS and ours and size in curve:
                cell += f" ({times(paired(curve[size], ours))})"
            cells.append(cell)
        if part == "one_node":
            cells.append(of_bytes(touched(size, f.ranks(part, place))))
        rows.append(cells)
    text = f"**{place}** (us; in brackets how many times as fast ours is)\n\n" + table(head, rows)
    counted = f.entry("curve", part, place, OURS[0]) or {}
    if part == "one_node" and "read_and_written_of_payload" in counted:
        read, written = counted["read_and_written_of_payload"]
        text += (f"\nCounted by the daemon: every byte of a rank's input was read {read:.2f} times, every "
                 f"byte of a rank's output written {written:.2f} times.\n")
    return text


def touched(size, ranks):
    """The minimum: read once for each rank, written once to each."""
    return 2 * ranks * size


SHORT = [("one_node", "one daemon, 2 ranks", "mlxcomm, C++", "Open MPI, shared memory"),
         ("one_node", "one daemon, 2 ranks", "mlxcomm, MLX", "MLX ring"),
         ("one_node", "one daemon, 4 ranks", "mlxcomm, C++", "Open MPI, shared memory"),
         ("one_node", "one daemon, 4 ranks", "mlxcomm, MLX", "MLX ring"),
         ("two_nodes", "two daemons, loopback", "mlxcomm, C++", "Open MPI, TCP"),
         ("two_nodes", "two daemons, loopback", "mlxcomm, MLX", "MLX ring"),
         ("two_nodes", "two daemons, veth pair", "mlxcomm, C++", "Open MPI, TCP"),
         ("two_nodes", "two daemons, veth pair", "mlxcomm, MLX", "MLX ring"),
         ("paused", "one daemon, 2 ranks", "mlxcomm, MLX", "MLX ring"),
         ("paused", "two daemons, loopback", "mlxcomm, MLX", "MLX ring")]


def short(f):
    """Ours beside its best known peer at a few sizes."""
    sizes = [8, 1 << 16, 1 << 20, 1 << 24, 1 << 27]
    rows = []
    for part, place, ours, peer in SHORT:
        mine, theirs = f.curve(part, place, ours), f.curve(part, place, peer)
        if mine and theirs:
            rows.append([where(part, place), f"{ours} (beside {peer})",
                         *[f"{microseconds(statistics.median(mine[size]))} us "
                           f"({paired(theirs[size], mine[size]).value:.2g}x)"
                           if size in mine and size in theirs else "-" for size in sizes]])
    return table(["where", "what", *map(of_bytes, sizes)], rows) if rows else ""


def streams(f, part, place):
    values = f.stream(part, place)
    return f"One iperf3 stream there: {statistics.median(values) / 1e9:.1f} Gb/s.\n" if values else ""


def shaped(f):
    places = f.measured_places("shaped")
    systems = list(dict.fromkeys(entry["system"] for entry in f.of_kind("curve", "shaped")))
    rows = []
    for place in places:
        stream = f.stream("shaped", place)
        for size in f.sizes("shaped", place):
            cells = [place, of_bytes(size),
                     f"{statistics.median(stream) / 1e6:.0f}" if stream else "-"]
            for system in systems:
                cells.append(shaped_cell(f, place, system, size, stream))
            rows.append(cells)
    return ("Bus bandwidth in MB/s, and as a part of what one iperf3 stream carries over one "
            "cable.\n\n" + table(["cables", "bytes", "iperf3, Mb/s", *systems], rows))


def shaped_cell(f, place, system, size, stream):
    rounds = f.curve("shaped", place, system).get(size)
    if not rounds:
        return "-"
    bandwidth = bus_bandwidth(size, f.ranks("shaped", place), statistics.median(rounds))
    part = f" ({100 * statistics.median(of_stream(f, place, system, size)):.0f} %)" if stream else ""
    return f"{bandwidth / 1e6:.0f}{part}"


def overlap(f):
    rows = []
    for model in f.models():
        steps = f.steps(model)
        for system, seconds in steps.items():
            # Within rounds: a slow moment of the machine affects both steps.
            lost = [1e3 * (with_it - without) for with_it, without in
                    zip(seconds, steps.get("none", []))]
            found = spread(lost) if lost and system != "none" else None
            rows.append([model, system, f"{1e3 * statistics.median(seconds):.1f}",
                         f"{found.value:.1f}, {found.low:.1f} to {found.high:.1f}"
                         if found else "-"])
    text = table(["model", "communication", "step, ms", "lost to it, ms"], rows)
    crossings = f.crossings()
    if crossings:
        rows = [[model, how, count, f"{CROSSING_MS_MAX * count:.2f}"]
                for model, counts in crossings.items() for how, count in counts.items()]
        text += ("\nArrays handed between the model's stream and the operations' in a step. Between a Mac's "
                 "GPU and CPU each takes up to 180 us; here both streams are the CPU's, which is not "
                 "measured:\n\n" +
                 table(["model", "gradients", "crossings", "on a Mac's GPU up to, ms"], rows))
    return text


def start(f):
    rows = [[entry["place"], entry["system"],
             f"{statistics.median(entry['attach_ms']):.1f}" if entry["attach_ms"] else "-",
             f"{statistics.median(entry['world_ms']):.1f}"]
            for entry in f.of_kind("start") if has_figures(entry)]
    return table(["place", "system", "attach, ms", "joined after all have asked, ms"], rows)


def cost(f):
    rows = [[entry["place"], entry["system"],
             f"{statistics.median(entry['cpu_seconds_per_gib']):.2f}",
             f"{max(entry['rank_bytes_max']) >> 20} MiB"]
            for entry in f.of_kind("cost") if has_figures(entry)]
    text = table(["place", "system", "CPU s per GiB reduced", "a rank's memory, highest"], rows)
    for entry in f.of_kind("idle"):
        if not has_figures(entry):
            continue
        used = {who: statistics.median(seconds) for who, seconds in entry["cpu_seconds"].items()}
        memory = ", ".join(f"{daemon['own'] / 2**20:.1f} MiB ({daemon['shared'] / 2**20:.1f} MiB "
                           "of arenas beside it)" for daemon in entry["daemon_bytes"])
        text += (f"\nIdle, {entry['place']}, with ranks attached: {1e3 * used['ranks']:.2f} ms of CPU "
                 f"in {entry['seconds']} s for the ranks, {1e3 * used['daemons']:.2f} ms for the "
                 f"daemons. Memory of a daemon: {memory}.\n")
    return text


def in_short(reason):
    """Why something was left out, without the folders of programs and sockets."""
    return re.sub(r"(?<![\w.])/\S*/(?=[^/\s])", "", reason)


def in_repository(command):
    """Paths relative to the repository's root, where the command is shown; for others the last
    name."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return in_short(command.replace(f"{root}/", ""))


def figures(target):
    if target["value"] is None:
        return "-", "-"
    return f"{target['value']:.3g}", f"{target['low']:.3g} to {target['high']:.3g}"


def because(target):
    """Why it was not measured; the full reasons are below."""
    reason = in_short(target.get("reason", "")).replace("|", "/").replace("\n", " ")
    return f" ({reason[:80]}{'...' if len(reason) > 80 else ''})" if reason else ""


def targets(verdicts):
    rows = [[one["name"], f"{'<=' if one['at_most'] else '>='} {one['goal']:g} {one['unit']}",
             *figures(one), one["verdict"] + because(one)] for one in verdicts]
    return f"{summary(verdicts)}\n\n" + table(["target", "goal", "median", "spread", "verdict"], rows)


def others(busy):
    """Other systems that were measured."""
    known = [percent for percent in busy if percent is not None]
    if not known:
        return ""
    return (f"Before the {len(known)} places were measured, others took {min(known)} to {max(known)} % of "
            f"the cores, {statistics.median(known):.0f} % in the middle.")


def everything(result):
    """The whole text of a run."""
    f = Findings(result["found"])
    machine = result["machine"]
    text = [f"{machine['cores']} cores ({machine['processor']}), {machine['system']}; commit "
            f"{machine['commit']}, {machine['date']}; {result['rounds']} rounds "
            f"in {result['seconds'] / 60:.1f} minutes: `{in_repository(result['command'])}`. "
            f"{others(result['busy_percent'])}\n"]
    if short(f):
        text += ["Time, and how many times as fast as the peer:\n", short(f)]
    titles = {"one_node": "One node", "two_nodes": "Two daemons, unshaped",
              "paused": "After a pause"}
    for part, title in titles.items():
        if f.measured_places(part):
            text.append(f"## {title}\n")
        for place in f.measured_places(part):
            text += [curves(f, part, place), streams(f, part, place)]
    for part, title, make in (("shaped", "Shaped cables", shaped),
                              ("overlap", "A training step", overlap), ("start", "Start", start),
                              ("cost", "Cost", cost)):
        if f.measured_places(part):
            text += [f"## {title}\n", make(f)]
    text += ["## What is to be reached\n", targets(result["targets"])]
    if result["left_out"]:
        text += ["Left out:\n", *[f"- {in_short(reason)}" for reason in result["left_out"]]]
    return "\n".join(text).rstrip() + "\n"


def pictures(here, elsewhere):
    """Those beside the text; others by their own path, because they are not kept with it."""
    text = "".join(f"\n![{path.stem}]({path.name})\n" for path in here)
    if elsewhere:
        names = ", ".join(f"`{path.name}`" for path in elsewhere)
        there = in_repository(str(elsewhere[0].parent))
        text += (f"\n`tests/bench/run` draws more pictures into `{there}/`, and "
                 f"`tests/bench/run --show` draws them again: {names}.\n")
    return text
