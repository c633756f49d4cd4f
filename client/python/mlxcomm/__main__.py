"""python -m mlxcomm [-m MODULE | SCRIPT] [ARGUMENT...]: runs it unmodified, through the daemon."""

import os
import runpy
import sys

USAGE = "usage: python -m mlxcomm [-m MODULE | SCRIPT] [ARGUMENT...]"


def main():
    arguments = sys.argv[1:]
    as_module = arguments[:1] == ["-m"]
    if as_module:
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    import mlxcomm

    mlxcomm.install()
    sys.argv = arguments
    if as_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
