"""What a soak has found: a table, JSON, JUnit's XML with a test case for each rule, and a picture."""

import io
import json
import statistics
from xml.etree import ElementTree

from soak import resources
from soak.rules import RULES

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
KINDS = {
    "kill-rank": "rank",
    "stop-rank": "rank",
    "kill-daemon": "daemon",
    "stop-daemon": "daemon",
    "drain": "daemon",
    "reload": "daemon",
    "cut": "cable",
    "isolate": "cable",
    "rate": "cable",
}
LANES = ("rank", "daemon", "cable", "hostile")


def as_json(soak, seconds):
    return {
        "seed": soak.seed,
        "world": vars(soak.world),
        "seconds": round(seconds, 1),
        "jobs": soak.jobs,
        "operations": soak.operations,
        "bytes": soak.bytes,
        "faults": dict(sorted(soak.faults_done.items())),
        "errors": dict(sorted(soak.errors.items())),
        "questions": {
            "answered": soak.asking.answered,
            "refused": soak.asking.refused,
            "longest_s": round(soak.asking.longest, 3),
        },
        "latest_s": round(soak.lateness.worst, 3),
        "delays_s": {
            rule: {
                "count": len(delays),
                "median": round(statistics.median(delays), 3),
                "longest": round(max(delays), 3),
            }
            for rule, delays in sorted(soak.delays.items())
        },
        "rules": {
            rule: {
                "checked": soak.checked[rule],
                "failures": [
                    {"at_s": round(one.at - soak.began, 3), "text": one.text}
                    for one in soak.complaints
                    if one.rule == rule
                ],
            }
            for rule in RULES
        },
        "resources": [
            {
                "node": trend.node,
                "life": trend.life,
                "slope_hours": round(trend.hours, 3),
                "slope_mb_per_hour": round(trend.slope_mb, 2),
                "bound_mb_per_hour": round(trend.bound_mb, 2),
                "before": vars(trend.first),
                "after": vars(trend.last),
            }
            for trend in resources.trends(soak.samples)
        ],
    }


def table(found):
    """Lines for people."""
    world = found["world"]
    yield (
        f"seed {found['seed']}: {world['shape']} of {world['nodes']}"
        f"{', by discovery' if world['discovery'] else ''}, {found['seconds'] / 60:.1f} min, "
        f"{found['jobs']} jobs, "
        f"{found['operations']} operations, {found['bytes'] / 1e9:.2f} GB of results checked"
    )
    yield "faults: " + (", ".join(f"{count} {kind}" for kind, count in found["faults"].items()) or "none")
    yield "told:   " + (", ".join(f"{count} {code}" for code, count in found["errors"].items()) or "no error")
    asked = found["questions"]
    yield (
        f"asked:  {asked['answered']} answers, {asked['refused']} refused where no daemon ran, the slowest "
        f"{asked['longest_s']:.1f} s; the machine let this program wait {found['latest_s']:.2f} s "
        "at the worst"
    )
    yield "\n  checked  failed  rule"
    for rule, of_rule in found["rules"].items():
        told = found["delays_s"].get(rule)
        after = f"  (median {told['median']:.2f} s, longest {told['longest']:.2f} s)" if told else ""
        yield f"  {of_rule['checked']:7d} {len(of_rule['failures']):7d}  {rule}{after}"
    if found["resources"]:
        yield "\n  node  run   hours   MB  then   MB/h  bound  descriptors   threads      mappings   core"
    for one in found["resources"]:
        a, b = one["before"], one["after"]
        seconds = b["at"] - a["at"]
        yield (
            f"  {one['node']:4d} {one['life'] + 1:4d} {seconds / 3600:7.2f} "
            f"{a['rss_mb']:5.0f} {b['rss_mb']:5.0f} "
            f"{one['slope_mb_per_hour']:6.1f} {one['bound_mb_per_hour']:6.1f} "
            + "".join(f"{a[what]:6d} ->{b[what]:4d}" for what in ("descriptors", "threads", "mappings"))
            + f" {(b['cpu_s'] - a['cpu_s']) / seconds:6.3f}"
        )


def write_junit(found, path):
    suite = ElementTree.Element("testsuite", name="soak", tests=str(len(RULES)), time=str(found["seconds"]))
    for rule, what in RULES.items():
        case = ElementTree.SubElement(suite, "testcase", classname="soak", name=rule, time="0")
        failures = found["rules"][rule]["failures"]
        if failures:
            failure = ElementTree.SubElement(
                case, "failure", message=f"seed {found['seed']}: {failures[0]['text']}"
            )
            failure.text = f"expected: {what}\n" + "\n".join(
                f"{one['at_s']} s: {one['text']}" for one in failures
            )
        elif not found["rules"][rule]["checked"]:
            ElementTree.SubElement(
                case, "skipped", message=f"nothing of seed {found['seed']} came under this rule"
            )
    suite.set("failures", str(sum(bool(found["rules"][rule]["failures"]) for rule in RULES)))
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_json(found, path):
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def draw_life(plot, samples, what, colour, label):
    if what == "cores":
        pairs = [(a, b) for a, b in zip(samples, samples[1:]) if b.at > a.at + 1]
        points = [(b.at / 60, (b.cpu_s - a.cpu_s) / (b.at - a.at)) for a, b in pairs]
    else:
        points = [(one.at / 60, getattr(one, what)) for one in samples]
        quiet = [(one.at / 60, getattr(one, what)) for one in samples if one.quiet]
        plot.plot([x for x, _ in quiet], [y for _, y in quiet], "o", color=colour, markersize=3)
    plot.plot(
        [x for x, _ in points], [y for _, y in points], color=colour, linewidth=0.8, alpha=0.6, label=label
    )


def draw(soak, path):
    """Resources of every daemon, and the faults above them, over time."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "mlxcomm",
            "font.size": 9,
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
        }
    )
    from matplotlib import pyplot

    shown = (
        ("rss_mb", "resident MB"),
        ("descriptors", "descriptors"),
        ("threads", "threads"),
        ("mappings", "mappings"),
        ("cores", "cores"),
    )
    figure, axes = pyplot.subplots(len(shown) + 1, 1, figsize=(11, 10), sharex=True)
    for lane, name in enumerate(LANES):
        times = [at / 60 for at, kind in soak.fault_times if KINDS.get(kind, "hostile") == name]
        axes[0].plot(times, [lane] * len(times), "|", color="black", markersize=9)
    for complaint in soak.complaints:
        axes[0].axvline((complaint.at - soak.began) / 60, color="red")
    axes[0].set_yticks(range(len(LANES)), LANES)
    axes[0].set_ylim(-0.6, len(LANES) - 0.4)
    for plot, (what, label) in zip(axes[1:], shown):
        for node in range(soak.world.nodes):
            for life in range(soak.lives[node] + 1):
                mine = [one for one in soak.samples if one.node == node and one.life == life]
                draw_life(
                    plot, mine, what, COLOURS[node % len(COLOURS)], f"node-{node}" if life == 0 else None
                )
        plot.set_ylabel(label)
        plot.set_ylim(bottom=0)
    for plot in axes:
        plot.grid(True, color="#dddddd", linewidth=0.7)
        plot.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("minutes")
    axes[1].legend(loc="lower left", ncols=4, frameon=False)
    figure.suptitle(
        f"soak, seed {soak.seed}: faults, and what each daemon uses (dots: quiet moments; red: failures)"
    )
    figure.tight_layout()
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    path.write_text(drawn.getvalue(), encoding="utf-8")
