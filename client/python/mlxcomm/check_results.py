"""python -m mlxcomm.check_results: whether MLX computes with the daemon's shared memory, as it is.

    shared               results lie there
    copied: and why      MLX does not take that memory, or MLXCOMM_RESULTS=copy has it so
    wrong: and what      MLX takes it, and its default device reads other bytes than lie there (exit code 1)

It is what `mlxcommctl doctor` runs, and the last line of this form is what that goes by. It joins a job
of its own, so a daemon has to be there, or can be started.
"""

import os
import sys

from . import _mlxcomm
from .errors import make_error

_ARENA_BYTES = 1024 * 1024
_TIMEOUT_NS = 10 * 10**9


def judge(why_results_are_copied):
    """The line and the exit code, by a function that tells why, with the device reading or without."""
    why = why_results_are_copied(False)
    if why:
        return f"copied: {why}", 0
    why = why_results_are_copied(True)
    return (f"wrong: {why}", 1) if why else ("shared", 0)


def main():
    group, failure = _mlxcomm.join(
        f"check-results-{os.getpid()}", 0, 1, "", _TIMEOUT_NS, _ARENA_BYTES)
    if failure is not None:
        print(make_error(failure), file=sys.stderr)
        return 1
    line, code = judge(lambda reads: _mlxcomm.why_results_are_copied(group, reads))
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
