"""python -m mlxcomm [-v] [-u] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT...]: runs it unmodified, through
the daemon. -v says what is taken over; -u writes output at once, as Python's own -u does."""

import io
import logging
import os
import runpy
import sys

USAGE = ("usage: python -m mlxcomm [-v] [-u] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT...]\n"
         "       python -m mlxcomm firstlight [OPTION...]")


def wrong(text):
    print(f"python -m mlxcomm: {text}\n{USAGE}", file=sys.stderr)
    return 2


def write_at_once():
    if sys.stdout is not None:
        old = sys.stdout
        sys.stdout = io.TextIOWrapper(open(old.fileno(), "wb", 0, closefd=False), encoding=old.encoding,
                                      errors=old.errors, write_through=True)


def begin_traceback_at_program():
    """Without the frames of this file and of runpy, which stand before the program's first line."""
    hook = sys.excepthook  # The program's own, if it has set one.

    def shown(kind, error, traceback):
        while traceback is not None and (traceback.tb_frame.f_globals is globals() or
                                         traceback.tb_frame.f_globals.get("__name__") == "runpy"):
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = shown


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["firstlight"]:
        from . import firstlight

        return firstlight.main(arguments[1:])
    way = None  # Of what is run: -m, -c or a script.
    while arguments and arguments[0].startswith("-") and way is None:
        option = arguments.pop(0)
        if option in ("-h", "--help"):
            print(USAGE)
            return 0
        if option == "-v":
            logging.basicConfig(format="%(name)s: %(message)s")
            logging.getLogger("mlxcomm").setLevel(logging.INFO)
        elif option == "-u":
            write_at_once()
        elif option in ("-m", "-c"):
            way = option
        else:
            return wrong(f"no such option: {option} (Python's own stand before -m mlxcomm)")
    if not arguments:
        return wrong("nothing to run")
    if way is None and not os.path.exists(arguments[0]):
        return wrong(f"no such file: {arguments[0]}")
    import mlxcomm

    mlxcomm.install()
    os.environ.setdefault("MLXCOMM_INSTALL", "all")  # For processes that the program starts.
    what, *_ = sys.argv = arguments
    try:
        if way == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        elif way == "-c":
            sys.argv[0] = "-c"
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(what))
            runpy.run_path(what, run_name="__main__")
    except BaseException:
        begin_traceback_at_program()
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
