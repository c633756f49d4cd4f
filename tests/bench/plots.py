"""Latency and bus bandwidth against size, as SVG: one file for each part, one colour for each
system."""

import statistics

from bench.comparison import bus_bandwidth
from bench.findings import Findings, where
from bench.sizes import of_bytes
from bench.systems import ALL

FILES = {"one_node": {"one daemon, 2 ranks": "one-node", "one daemon, 4 ranks": "one-node-4-ranks"},
         "two_nodes": {"two daemons, loopback": "loopback", "two daemons, veth pair": "veth"},
         "paused": {"one daemon, 2 ranks": "one-node-after-a-pause",
                    "two daemons, loopback": "loopback-after-a-pause"}}
COLORS = {system.name: system.color for system in ALL}
LIMITS = {system.name for system in ALL if system.is_limit}
MARKERS = {"mlxcomm, C++": "o", "mlxcomm, MLX": "o"}


def draw(found, folder, suffix="svg"):
    """Pictures for every place that has curves; the files it wrote."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mlxcomm",
                                "font.family": "sans-serif", "font.size": 10})
    f = Findings(found)
    written = []
    for part, files in FILES.items():
        for place, name in files.items():
            if f.curves(part, place):
                path = folder / f"{name}.{suffix}"
                picture(f, part, place, path)
                written.append(path)
    return written


def picture(f, part, place, path):
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(11, 4.6))
    ranks = f.ranks(part, place)
    for system, curve in f.curves(part, place).items():
        sizes = sorted(curve)
        middle = [statistics.median(curve[size]) for size in sizes]
        style = {"color": COLORS[system], "label": system, "marker": MARKERS.get(system, "."),
                 "linewidth": 2.2 if system in MARKERS else 1.4,
                 "linestyle": ":" if system in LIMITS else "-", "markersize": 4.5}
        latency.plot(sizes, middle, **style)
        latency.fill_between(sizes, [min(curve[size]) for size in sizes],
                             [max(curve[size]) for size in sizes], color=COLORS[system], alpha=0.12,
                             linewidth=0)
        bandwidth.plot(sizes, [bus_bandwidth(size, ranks, us) / 1e9
                               for size, us in zip(sizes, middle)], **style)
    latency.set_ylabel("microseconds")
    bandwidth.set_ylabel("bus bandwidth, GB/s")
    ticks = [8, 1 << 10, 1 << 16, 1 << 20, 1 << 24]
    for axes in (latency, bandwidth):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ticks, [of_bytes(size) for size in ticks])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"all_reduce of float32: {where(part, place)} (median of rounds; shaded: all "
                    "rounds)", fontsize=11)
    figure.legend(*latency.get_legend_handles_labels(), loc="lower center", ncols=6, frameon=False,
                  fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    pyplot.close(figure)
