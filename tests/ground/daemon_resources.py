"""The resources of a daemon, which must not leak:

    with given_back(daemon.child.pid):
        ...  # The attack, with all that it leaves behind.

The exit waits until resources are as they were at the entry, because a daemon may still be ending sessions;
otherwise it shows all figures.
"""

import contextlib
import dataclasses
import os
import re
import sys

from conftest import wait_until

MIB = 1 << 20
# A daemon keeps buffers and gRPC threads that it once needed; attacks are more numerous.
MARGINS = {"memory": 24 * MIB, "descriptors": 0, "threads": 4, "mappings": 24}


@dataclasses.dataclass(frozen=True)
class Resources:
    memory: int  # Resident bytes that belong only to it.
    descriptors: int
    threads: int
    mappings: int

    @classmethod
    def of(cls, pid):
        """From Linux's proc(5)."""
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            status = file.read()
        with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as file:
            mappings = sum(1 for _ in file)
        return cls(int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024,
                   len(os.listdir(f"/proc/{pid}/fd")),
                   int(re.search(r"Threads:\s+(\d+)", status).group(1)), mappings)

    def exceeds(self, before, margins):
        return [name for name, margin in margins.items()
                if getattr(self, name) > getattr(before, name) + margin]


def table(before, now, margins):
    rows = [("", "before", "now", "allowed more")]
    rows += [(name, getattr(before, name), getattr(now, name), margin) for name, margin in margins.items()]
    return "\n".join("".join(f"{cell:>14}" for cell in row) for row in rows)


def expect_given_back(pid, before, margins):
    """margins: what may stay of each kind; of others any number may."""
    try:
        wait_until(lambda: not Resources.of(pid).exceeds(before, margins), "all of it is given back")
    except AssertionError as late:
        raise AssertionError(f"{late}:\n{table(before, Resources.of(pid), margins)}") from None


@contextlib.contextmanager
def given_back(pid, **margins):
    """margins: what may stay of each kind, in place of MARGINS."""
    if sys.platform != "linux":
        yield  # No other system reports this for another process.
        return
    before = Resources.of(pid)
    yield
    expect_given_back(pid, before, {**MARGINS, **margins})
