"""python -m mlxcomm [-v] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT...]: runs an unmodified program
through the daemon."""

import importlib.machinery
import logging
import os
import runpy
import sys
import types
import zipfile

USAGE = ("usage: python -m mlxcomm [-v] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT...]\n"
         "       python -m mlxcomm firstlight [OPTION...]")
HELP = """
Runs an unmodified program; its mx.distributed uses the daemon.

  -v         log which backends are replaced
  -m MODULE  run a module or package
  -c CODE    run this code
  SCRIPT     run a file, or a folder or zip file with a __main__.py

firstlight checks what mlxcomm assumes about Macs and writes a report; see its --help."""


def wrong(text):
    print(f"python -m mlxcomm: {text}\n{USAGE}", file=sys.stderr)
    return 2


def begin_traceback_at_program():
    """Hides the frames of this file and of runpy from tracebacks."""
    hook = sys.excepthook  # The program's own, if it has set one.

    def shown(kind, error, traceback):
        while traceback is not None and (traceback.tb_frame.f_globals is globals() or
                                         traceback.tb_frame.f_globals.get("__name__") == "runpy"):
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = shown


def run(way, what):
    """Runs the program as Python does. Its module stays __main__ until the process exits, because pickle and
    others look up names there at the end."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if way == "-m":
        return runpy._run_module_as_main(what)
    path = what if way else os.path.join(os.getcwd(), what)
    is_folder = way is None and (os.path.isdir(path) or zipfile.is_zipfile(path))
    is_safe = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    if not is_safe:
        del sys.path[0]  # The working directory, for -m.
    if is_folder or not is_safe:
        sys.path.insert(0, path if is_folder else "" if way else os.path.dirname(os.path.realpath(path)))
    if is_folder:
        return runpy._run_module_as_main("__main__", alter_argv=False)
    if way == "-c":
        sys.argv[0], code = way, compile(what, "<string>", "exec")
    else:
        main.__file__, main.__loader__ = path, importlib.machinery.SourceFileLoader("__main__", path)
        code = compile(main.__loader__.get_data(path), path, "exec")
    exec(code, vars(main))


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["firstlight"]:
        from . import firstlight

        return firstlight.main(arguments[1:])
    way = None  # "-m", "-c", or None for a script.
    while arguments and arguments[0].startswith("-") and way is None:
        option = arguments.pop(0)
        if option in ("-h", "--help"):
            print(USAGE + "\n" + HELP)
            return 0
        if option == "-v":
            logging.basicConfig(format="%(name)s: %(message)s")
            logging.getLogger("mlxcomm").setLevel(logging.INFO)
        elif option in ("-m", "-c"):
            way = option
        else:
            return wrong(f"unknown option {option} (put Python's own options before -m mlxcomm)")
    if not arguments:
        return wrong("expected a script, -m MODULE or -c CODE")
    if way is None and not os.path.exists(arguments[0]):
        return wrong(f"no such file: {arguments[0]}")
    import mlxcomm

    mlxcomm.install()
    os.environ.setdefault("MLXCOMM_INSTALL", "all")  # Inherited by child processes.
    what, *_ = sys.argv = arguments
    try:
        run(way, what)
    except BaseException:
        begin_traceback_at_program()
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
