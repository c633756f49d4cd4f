"""python -m mlxcomm.check_results: whether MLX computes with the daemon's shared memory, as it is.

Prints "shared", or "copied: " and why, after having MLX's default device read what lies there. It is
what `mlxcommctl doctor` runs. It joins a job of its own, so a daemon has to be there, or can be started.
"""

import os
import sys

from . import _mlxcomm
from .errors import make_error

_ARENA_BYTES = 1024 * 1024
_TIMEOUT_NS = 10 * 10**9


def main():
    group, failure = _mlxcomm.join(
        f"check-results-{os.getpid()}", 0, 1, "", _TIMEOUT_NS, _ARENA_BYTES)
    if failure is not None:
        print(make_error(failure), file=sys.stderr)
        return 1
    why = _mlxcomm.why_results_are_copied(group, True)
    print(f"copied: {why}" if why else "shared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
