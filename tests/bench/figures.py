"""The figures of a run (bench.json, README.md), as tables and as the picture of one node."""

import io
import re
import statistics

from bench.systems import COLORS, LIMITS, MLX, PEERS

DRAWN = "one daemon, 2 ranks"
TICKS = [8, 1 << 10, 1 << 16, 1 << 20, 1 << 27]
# Text is black and the background is transparent, because a reader's page may be dark.
INK = ("svg { color: #1f2328; fill: currentColor } "
       "@media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }")


def of_bytes(size):
    for unit, of_unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= of_unit:
            return f"{size / of_unit:g} {unit}"
    return f"{size} B"


def of_time(microseconds):
    """More than three digits differ between rounds."""
    for unit, of_unit in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= of_unit:
            return f"{microseconds / of_unit:.3g} {unit}"
    return f"{microseconds:.3g} us"


def times_as_fast(figures, ours, column):
    """Returns our speed relative to the best peer: the median of the rounds' ratios, because a disturbance of
    the machine affects both. None: no peer was measured."""
    peers = [figures[peer][column] for peer in PEERS[ours] if column in figures.get(peer, {})]
    if not peers:
        return None
    # A system that failed only has the first rounds.
    return statistics.median(a / b for a, b in zip(min(peers, key=statistics.median), figures[ours][column]))


def table(figures):
    """A row for each system; ours shows its speed relative to the best peer."""
    columns = list(dict.fromkeys(column for found in figures.values() for column in found
                                 if ", " not in column))
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


def details(figures):
    """What a step of a program costs: its p90, CPU time of all ranks and of the daemons, and how often a rank
    slept."""
    columns = list(dict.fromkeys(column.removesuffix(", p90") for found in figures.values()
                                 for column in found if column.endswith(", p90")))
    if not columns:
        return ""
    rows = [["p90; CPU of ranks + daemons; sleeps of a rank", *columns], ["---"] * (1 + len(columns))]
    for system, found in figures.items():
        cells = []
        for column in columns:
            p90, ranks, daemons, sleeps = (statistics.median(found.get(f"{column}, {what}", [0]))
                                           for what in ("p90", "CPU", "daemons", "sleeps"))
            cells.append(f"{of_time(p90)}; {of_time(ranks)} + {of_time(daemons)}; {sleeps:.3g}")
        rows.append([system, *(cells if found else ["-"] * len(columns))])
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def tables(result):
    """The whole text of a run."""
    machine = result["machine"]
    text = (f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, load before it "
            f"{machine['load']}; commit {machine['commit']}, {machine['date']}; medians of "
            f"{result['rounds']} rounds: `{result['command']}`. In brackets: the speed relative to the "
            "best peer.\n")
    for part in result["parts"]:
        if any(part["figures"].values()):
            text += f"\n**{part['part'].replace('_', ' ')}: {part['place']}**\n\n{table(part['figures'])}"
            text += details(part["figures"])
    if result["left_out"]:
        text += "\nLeft out:\n\n" + "".join(f"- {reason}\n" for reason in result["left_out"])
    return text


def draw(result, path):
    """Time against size. Each system is a curve with its name at the end; the background is transparent."""
    figures = next((part["figures"] for part in result["parts"] if part["place"] == DRAWN and
                    part["part"] == "one_node"), {})
    if not any(figures.values()):
        return
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mlxcomm", "font.size": 14,
                                "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]})
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, axes = pyplot.subplots(figsize=(8, 5.6), dpi=72)  # A point of text is one pixel of the axes.
    axes.set_position([0.13, 0.08, 0.62, 0.72])
    ends = []
    for system, found in figures.items():
        sizes = sorted(map(int, found))
        rounds = [found[str(size)] for size in sizes]
        middle = list(map(statistics.median, rounds))
        axes.plot(sizes, middle, color=COLORS[system], linestyle=":" if system in LIMITS else "-",
                  marker="o", markersize=4, linewidth=4 if system == MLX.name else 1.8, clip_on=False)
        axes.fill_between(sizes, list(map(min, rounds)), list(map(max, rounds)),
                          color=COLORS[system], alpha=0.15, linewidth=0)
        ends += [(middle[-1], sizes[-1], system)] if sizes else []
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(TICKS, [of_bytes(size) for size in TICKS])
    axes.set_xlim(right=max(size for _, size, _ in ends))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: of_time(value).replace("us", "µs")))
    axes.minorticks_off()  # Eight in each decade; grid lines are enough.
    axes.grid(True, which="major", color="black", alpha=0.15, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    name_curves(axes, sorted(ends, reverse=True))
    figure.text(0.02, 0.94, f"Time of an all_reduce, {DRAWN}", fontsize=16, weight="bold")
    figure.text(0.02, 0.885, "thick: MLX programs with mlxcomm; dotted: limits; shaded: all rounds",
                fontsize=13)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
    pyplot.close(figure)
    path.write_text(compact(drawn.getvalue()))


def name_curves(axes, ends):
    """Beside the axes, in the order of the curves' ends and lines apart; below a curve that ends early."""
    last = axes.get_xlim()[1]
    names = []
    for us, size, system in ends:
        height = axes.transData.transform((size, us))[1]
        if size == last:
            names.append((system, us, height, min([height, *(name[3] - 19 for name in names[-1:])])))
        else:
            axes.annotate(system, (size, us), (0, -8), textcoords="offset points", ha="right", va="top")
    up = statistics.mean(height - place for _, _, height, place in names)
    for system, us, height, place in names:
        axes.annotate(system, (last, us), (20, place + up - height), textcoords="offset points", va="center",
                      weight="bold" if system == MLX.name else "normal", annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": COLORS[system], "relpos": (0, 0.5),
                                  "shrinkA": 1, "shrinkB": 3})


def compact(drawn):
    """With the reader's ink, half of the bytes and a fifth of the lines: each new run adds a picture to the
    history."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|(?<=\d)pt(?=\")", "", drawn, flags=re.DOTALL)
    text = text.replace("#000000", "currentColor").replace("</style>", f"\n{INK}</style>")
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", text)
    return re.sub(r" (?=<(?:path|text)[ >])", "\n", " ".join(text.split())) + "\n"
