"""python -m mlxcomm.check_results: checks whether MLX can compute on the daemon's shared memory. Prints

    shared           results stay in shared memory
    copied: WHY      MLX does not accept that memory, or MLXCOMM_RESULTS=copy is set
    wrong: WHAT      MLX accepts it, but its default device reads wrong bytes there (exit code 1)

`mlxcommctl doctor` reads the last such line. The check joins a job of its own, and may start a daemon.
"""

import os
import sys

from . import Error, _mlxcomm

_ARENA_BYTES = 1024 * 1024
_TIMEOUT_NS = 10 * 10**9


def main():
    try:
        group = _mlxcomm.join(f"check-results-{os.getpid()}", 0, 1, "", _TIMEOUT_NS, _ARENA_BYTES)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    if why := _mlxcomm.why_results_are_copied(group, False):
        print(f"copied: {why}")
        return 0
    why = _mlxcomm.why_results_are_copied(group, True)  # Reads on the device.
    print(f"wrong: {why}" if why else "shared")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
