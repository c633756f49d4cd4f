"""What a daemon uses, read from /proc in quiet moments, and whether that grows.

A life is one daemon's time from its start to its end. Its first quiet moments are the warm-up: pools,
arenas of malloc and gRPC's threads come with the first jobs. From then on descriptors, threads and mappings
have to come back. Pools go on growing for some minutes, to the most that was needed at once, and then stay.
So the resident memory's slope, by least squares, is judged in the later half of a life, once they are full;
in a shorter life only the growth is, against what pools may need.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys

WARM_UP = 2  # Quiet moments.
SLOPE_MOMENTS = 4  # So many are needed in the later half for a slope.
FILLING_S = 900  # From then on, after the warm-up, pools are full.
POOLS_MB = 32.0  # What they may grow by meanwhile.
SLOPE_MAX = 1.0  # MB an hour, where the time is long enough for that to be seen.
NOISE_MB = 4.0  # What resident memory moves by within minutes without a leak: bounds short runs.
THREADS_MORE = 4  # gRPC keeps some threads for a minute, and how many depends on what was asked.
MAPPINGS_MORE = 40  # malloc makes and keeps arenas. Ten minutes have 80 jobs: a leak of one each shows.


@dataclasses.dataclass(frozen=True)
class Sample:
    at: float
    node: int
    life: int
    quiet: bool
    rss_mb: float
    descriptors: int = 0
    threads: int = 0
    mappings: int = 0
    cpu_s: float = 0.0


def read(pid, at, node, life, quiet):
    """None: the process is gone."""
    try:
        if sys.platform != "linux":
            done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
            return Sample(at, node, life, quiet, int(done.stdout) / 1024) if done.stdout.strip() else None
        folder = pathlib.Path("/proc") / str(pid)
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        times = (folder / "stat").read_text().rpartition(")")[2].split()
        with open(folder / "maps", encoding="utf-8", errors="replace") as maps:
            mappings = sum(1 for _ in maps)
        return Sample(
            at,
            node,
            life,
            quiet,
            int(status["VmRSS"].split()[0]) / 1024,
            len(os.listdir(folder / "fd")),
            int(status["Threads"]),
            mappings,
            (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        )
    except (FileNotFoundError, ProcessLookupError, KeyError, ValueError):
        return None


def slope(points):
    """Least squares: what y gains in each unit of x."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / below if below else 0.0


def slope_bound(hours):
    """MB an hour. A shorter time shows a slope less exactly: noise of NOISE_MB in it is no leak."""
    return max(SLOPE_MAX, NOISE_MB / hours)


@dataclasses.dataclass(frozen=True)
class Trend:
    """Of one life: what it was after the warm-up, what it is in the end, and how it grew."""

    node: int
    life: int
    hours: float
    slope_mb: float
    bound_mb: float
    first: Sample
    last: Sample
    early: tuple[Sample, ...]  # The first half: a rail that is being dialed again has no descriptor.


def lives(samples):
    """The quiet samples of each life after its warm-up."""
    found = {}
    for one in samples:
        if one.quiet:
            found.setdefault((one.node, one.life), []).append(one)
    return {life: quiet[WARM_UP:] for life, quiet in sorted(found.items()) if len(quiet) > WARM_UP + 1}


def trends(samples):
    for (node, life), quiet in lives(samples).items():
        later = [one for one in quiet[len(quiet) // 2 :] if one.at >= quiet[0].at + FILLING_S]
        if len(later) >= SLOPE_MOMENTS:
            hours = (later[-1].at - later[0].at) / 3600
            gained, bound = slope([(one.at / 3600, one.rss_mb) for one in later]), slope_bound(hours)
        else:
            hours = (quiet[-1].at - quiet[0].at) / 3600
            gained, bound = (quiet[-1].rss_mb - quiet[0].rss_mb) / hours, POOLS_MB / hours
        early = tuple(quiet[: (len(quiet) + 1) // 2])
        yield Trend(node, life, hours, gained, bound, quiet[0], quiet[-1], early)


def complaints(samples):
    """(rule, time, text) of what grows."""
    for trend in trends(samples):
        who = f"mlxcommd of node-{trend.node} (its run {trend.life + 1})"
        if trend.slope_mb > trend.bound_mb:
            yield (
                "memory",
                trend.last.at,
                f"{who}: resident memory grows by {trend.slope_mb:.1f} MB an hour, from "
                f"{trend.first.rss_mb:.1f} to {trend.last.rss_mb:.1f} MB; expected at "
                f"most {trend.bound_mb:.1f} MB an hour",
            )
        for what, more in (("descriptors", 0), ("threads", THREADS_MORE), ("mappings", MAPPINGS_MORE)):
            before, now = max(getattr(one, what) for one in trend.early), getattr(trend.last, what)
            if now > before + more:
                yield (
                    what,
                    trend.last.at,
                    f"{who}: {now} {what} with no job left; in the first half of its life there were "
                    f"{before} at most",
                )
