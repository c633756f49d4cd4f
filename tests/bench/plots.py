"""Latency and bus bandwidth against size, as SVG: one file for each part, one colour for each
system."""

import io
import re
import statistics
from xml.etree import ElementTree

from bench.comparison import bus_bandwidth
from bench.findings import Findings, where
from bench.sizes import of_bytes
from bench.systems import ALL, MLX_ALONE

FILES = {"one_node": {"one daemon, 2 ranks": "one-node", "one daemon, 4 ranks": "one-node-4-ranks"},
         "two_nodes": {"two daemons, loopback": "loopback", "two daemons, veth pair": "veth"},
         "paused": {"one daemon, 2 ranks": "one-node-after-a-pause",
                    "two daemons, loopback": "loopback-after-a-pause"}}
SHOWN = "one-node.svg"  # The README at the top shows it; the tree keeps no other.
COLORS = {system.name: system.color for system in ALL}
LIMITS = {system.name for system in ALL if system.is_limit}
MARKERS = {"mlxcomm, C++": "o", "mlxcomm, MLX": "o"}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def draw(found, folder):
    """Pictures for every place that has curves; the files it wrote."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mlxcomm",
                                "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
                                "font.size": 10})
    f = Findings(found)
    written = []
    for part, files in FILES.items():
        for place, name in files.items():
            if f.curves(part, place):
                path = folder / f"{name}.svg"
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
        if system == MLX_ALONE.name:
            continue  # It carries nothing.
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
        axes.minorticks_off()  # Eight in each decade; the grid's lines are enough.
        axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"all_reduce of float32: {where(part, place)} (median of rounds; shaded: all "
                    "rounds)", fontsize=11)
    figure.legend(*latency.get_legend_handles_labels(), loc="lower center", ncols=7, frameon=False,
                  fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    path.write_text(compact(drawn.getvalue()))


def compact(drawn):
    """The same picture in two thirds of the bytes and an eighth of the lines: each new run adds
    the kept one to the history. Places are rounded to a tenth of a point; the name of the
    drawing program, and unused definitions, are left out."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(drawn)
    _simplify(root, set(re.findall(r"#([\w.-]+)", drawn)))
    text = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r"(?=<(?:g|path|text|defs)[ >])", "\n", text) + "\n"


def _simplify(element, asked_for):
    for name, value in list(element.attrib.items()):
        if (name == "id" and value not in asked_for) or value.startswith("rotate(-0 "):
            del element.attrib[name]
        elif name != "style":  # There, numbers are widths and shades.
            element.set(name, re.sub(r"-?\d+\.\d+", _rounded, " ".join(value.split())))
    element.text = (element.text or "").strip()
    element.tail = (element.tail or "").strip()
    children = []
    for child in element:
        if child.tag != f"{{{SVG}}}metadata":
            _simplify(child, asked_for)
            is_mere_group = child.tag == f"{{{SVG}}}g" and not child.attrib
            children += list(child) if is_mere_group else [child]
    element[:] = children
    styles = {child.get("style") for child in children}
    are_alike = len(children) > 1 and len(styles) == 1 and None not in styles
    if element.tag == f"{{{SVG}}}g" and are_alike and "style" not in element.attrib:
        element.set("style", styles.pop())  # For example that of a curve's points: defined once.
        for child in children:
            del child.attrib["style"]


def _rounded(number):
    return f"{round(float(number[0]), 1) + 0:g}"  # + 0: no -0.
