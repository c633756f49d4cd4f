"""What a daemon uses, read from /proc in quiet moments, and whether that grows.

A life is one daemon's time from its start to its end. Its first quiet moments are the warm-up: arenas of
malloc and gRPC's threads come with the first jobs. From then on descriptors, threads and mappings have to
come back. The flight recorder's tracks go on filling for some minutes, up to a bound. After these minutes
resident memory (without pages of programs and libraries) is judged, by the slope of a line through all its
quiet moments (least squares). A step counts, whether memory stays there or not. In a shorter life only the
growth is judged, against what may fill.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys

WARM_UP = 2  # Quiet moments.
FILLING_S = 600  # From then on, after the warm-up, what has a bound is full.
FILLING_MB = 12.0  # What it may grow by meanwhile: the flight recorder alone by 9 at the most.
SLOPE_MOMENTS = 20  # So many are needed after that for a slope.
SLOPE_MAX = 1.0  # MB an hour, where the time is long enough for that to be seen.
NOISE_MB = 2.0  # Its line moves by that without a leak, for a quiet moment's memory does by more: +-2 MB.
REST_S = 2.0  # Longer than a daemon keeps for the next job what the last one had needed.
REST_MB = 0.1
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
    files_mb: float = 0.0  # Resident pages of programs and libraries; not part of rss_mb. Linux alone tells.


def read(pid, at, node, life, quiet):
    """None: the process is gone."""
    try:
        if sys.platform != "linux":
            done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
            return Sample(at, node, life, quiet, int(done.stdout) / 1024) if done.stdout.strip() else None
        folder = pathlib.Path("/proc") / str(pid)
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        # Pages of programs and libraries are the system's: it maps them when code runs, and takes them away.
        file_kb = int(status["RssFile"].split()[0])
        times = (folder / "stat").read_text().rpartition(")")[2].split()
        with open(folder / "maps", encoding="utf-8", errors="replace") as maps:
            mappings = sum(1 for _ in maps)
        return Sample(
            at,
            node,
            life,
            quiet,
            (int(status["VmRSS"].split()[0]) - file_kb) / 1024,
            len(os.listdir(folder / "fd")),
            int(status["Threads"]),
            mappings,
            (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
            file_kb / 1024,
        )
    except (FileNotFoundError, ProcessLookupError, KeyError, ValueError):
        return None


class Rest:
    """Whether memory has stayed as it is for long enough."""

    def __init__(self, at):
        self.since, self.seen = at, []

    def has_come(self, at, megabytes):
        """One figure for each daemon, None where there is none."""
        same = len(self.seen) == len(megabytes) and all(
            (a is None) == (b is None) and (a is None or abs(a - b) <= REST_MB)
            for a, b in zip(self.seen, megabytes)
        )
        if not same:
            self.since, self.seen = at, megabytes
        return at >= self.since + REST_S


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
        later = [one for one in quiet if one.at >= quiet[0].at + FILLING_S]
        if len(later) >= SLOPE_MOMENTS:
            hours = (later[-1].at - later[0].at) / 3600
            gained, bound = slope([(one.at / 3600, one.rss_mb) for one in later]), slope_bound(hours)
        else:
            hours = (quiet[-1].at - quiet[0].at) / 3600
            gained, bound = (quiet[-1].rss_mb - quiet[0].rss_mb) / hours, FILLING_MB / hours
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
