"""python -m mlxcomm.check_results: whether MLX computes with the daemon's shared memory, as it is.

    shared               results lie there
    copied: and why      MLX does not accept that memory, or MLXCOMM_RESULTS=copy asks for it
    wrong: and what      MLX accepts it, and its default device reads wrong bytes there (exit code 1)

`mlxcommctl doctor` runs it and reads the last line of this form. It joins a job of its own, so a
daemon has to be there, or one is started.
"""

import os
import sys

from . import Error, _mlxcomm

_ARENA_BYTES = 1024 * 1024
_TIMEOUT_NS = 10 * 10**9


def judge(why_results_are_copied):
    """The line and the exit code. The function returns why results are copied, with a device read or not."""
    why = why_results_are_copied(False)
    if why:
        return f"copied: {why}", 0
    why = why_results_are_copied(True)
    return (f"wrong: {why}", 1) if why else ("shared", 0)


def main():
    try:
        group = _mlxcomm.join(f"check-results-{os.getpid()}", 0, 1, "", _TIMEOUT_NS, _ARENA_BYTES)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    line, code = judge(lambda reads: _mlxcomm.why_results_are_copied(group, reads))
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
