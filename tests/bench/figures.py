"""The figures of a run (bench.json, README.md), as tables and as the picture of one node."""

import io
import re
import statistics

from bench.systems import ALONE, COLORS, LIMITS, PEERS

DRAWN = "one daemon, 2 ranks"
TICKS = [8, 1 << 10, 1 << 16, 1 << 20, 1 << 24]


def of_bytes(size):
    for unit, of_unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= of_unit:
            return f"{size / of_unit:g} {unit}"
    return f"{size} B"


def of_time(microseconds):
    """Three digits are more than rounds agree on."""
    for unit, of_unit in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= of_unit:
            return f"{microseconds / of_unit:.3g} {unit}"
    return f"{microseconds:.3g} us"


def times_as_fast(figures, ours, column):
    """How many times as fast as its best peer ours was: the median of the rounds' ratios, because what
    disturbs the machine for a while disturbs both. None: no peer was measured."""
    peers = [figures[peer][column] for peer in PEERS[ours] if column in figures.get(peer, {})]
    if not peers:
        return None
    # A system that failed has the first rounds alone.
    return statistics.median(a / b for a, b in zip(min(peers, key=statistics.median), figures[ours][column]))


def table(figures):
    """A row for each system; beside ours, how many times as fast it was as its best peer."""
    columns = list(dict.fromkeys(column for found in figures.values() for column in found))
    columns.sort(key=lambda column: int(column) if column.isdigit() else 0)
    rows = [["", *[of_bytes(int(name)) if name.isdigit() else name for name in columns]],
            ["---"] * (1 + len(columns))]
    for system, found in figures.items():
        if not found:
            continue
        row = [f"{system} (limit)" if system in LIMITS else system]
        for column in columns:
            cell = of_time(statistics.median(found[column])) if column in found else "-"
            if column in found and system in PEERS and (times := times_as_fast(figures, system, column)):
                cell += f" ({times:.2g}x)" if times < 100 else f" ({times:.0f}x)"
            row.append(cell)
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def tables(result):
    """The whole text of a run."""
    machine = result["machine"]
    text = (f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, load before it "
            f"{machine['load']}; commit {machine['commit']}, {machine['date']}; medians of "
            f"{result['rounds']} rounds: `{result['command']}`. In brackets: how many times as fast as the "
            "best peer.\n")
    for part in result["parts"]:
        if any(part["figures"].values()):
            text += f"\n**{part['part'].replace('_', ' ')}: {part['place']}**\n\n{table(part['figures'])}"
    if result["left_out"]:
        text += "\nLeft out:\n\n" + "".join(f"- {reason}\n" for reason in result["left_out"])
    return text


def draw(result, path):
    """Time and bus bandwidth against size, each system a curve. Of a pair, the bandwidth that an all_reduce's
    busiest link must carry is the size over the time (nccl-tests' PERFORMANCE.md)."""
    figures = next((part["figures"] for part in result["parts"] if part["place"] == DRAWN and
                    part["part"] == "one_node"), {})
    if not any(figures.values()):
        return
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mlxcomm", "font.size": 10,
                                "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]})
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(11, 4.6))
    for system, found in figures.items():
        sizes = sorted(map(int, found))
        rounds = [found[str(size)] for size in sizes]
        middle = list(map(statistics.median, rounds))
        style = {"color": COLORS[system], "label": system, "marker": "o" if system in PEERS else ".",
                 "linewidth": 2.2 if system in PEERS else 1.4, "markersize": 4.5,
                 "linestyle": ":" if system in LIMITS else "-"}
        latency.plot(sizes, middle, **style)
        latency.fill_between(sizes, list(map(min, rounds)), list(map(max, rounds)),
                             color=COLORS[system], alpha=0.12, linewidth=0)
        if system != ALONE.name:  # It carries nothing.
            bandwidth.plot(sizes, [size / us / 1e3 for size, us in zip(sizes, middle)], **style)
    latency.set_ylabel("microseconds")
    bandwidth.set_ylabel("bus bandwidth, GB/s")
    for axes in (latency, bandwidth):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(TICKS, [of_bytes(size) for size in TICKS])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()  # Eight in each decade; the grid's lines are enough.
        axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"all_reduce of float32: {DRAWN} (median of rounds; shaded: all rounds)", fontsize=11)
    figure.legend(*latency.get_legend_handles_labels(), loc="lower center", ncols=7, frameon=False,
                  fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    path.write_text(compact(drawn.getvalue()))


def compact(drawn):
    """Half of the bytes and a fifth of the lines: each new run adds a picture to the history."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", drawn, flags=re.DOTALL)
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", text)
    return re.sub(r" ?(?=<(?:path|text)[ >])", "\n", " ".join(text.split())) + "\n"
