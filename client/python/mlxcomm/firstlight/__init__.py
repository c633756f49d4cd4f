"""python -m mlxcomm firstlight: checks on this machine everything that mlxcomm assumes about Macs, and writes
one report. This process never imports MLX: separate ranks do (gpu.py).

    assumptions ─▶ steps ─▶ notes ─▶ the report, without names, and its summary
"""

import argparse
import contextlib
import os
import pwd
import shutil
import socket
import sys
import time

from . import steps
from .notes import NOT_ASKED, Notes, Pseudonyms, shown
from .steps import LeftOut, Run

BUDGET_SECONDS = 20 * 60
# In order of execution, with the time limit of each in seconds.
STEPS = {steps.system: 90, steps.platform: 120, steps.gpu: 180, steps.loopback: 120, steps.rdma: 240,
         steps.neighbour: 60, steps.cable: 120, steps.pull: 240, steps.sleep: 180, steps.power: 30}
NAMES = ",".join(step.__name__ for step in STEPS)


def size(text):
    unit = text[-1:].upper()
    value = float(text[:-1]) * 1024 ** "BKMG".index(unit) if unit in "BKMG" else float(text)
    if not 1 <= value < 2 ** 63:
        raise ValueError
    return int(value)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="python -m mlxcomm firstlight",
        description="Checks what mlxcomm assumes about Macs, and writes a report.",
        epilog="It takes at most 20 minutes and changes nothing on the machine. It asks you to pull a cable, "
        "to plug it in, and to put the machine to sleep. The steps neighbour and cable need a run on both "
        "Macs at the same time. The report contains no keys, names or addresses.")
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", default=time.strftime("mlxcomm-firstlight-%Y%m%d-%H%M%S.json"),
        help="file to write (mlxcomm-firstlight-TIME.json)")
    add("--steps", metavar="A,B", default=NAMES, help=f"run only these steps ({NAMES})")
    add("--yes", action="store_true", help="ask nothing, and skip what a person would have to do")
    add("--prompt-command", metavar="COMMAND",
        help="run this instead of asking a person to pull, plug or sleep")
    add("--large", metavar="SIZE", type=size, default="1G", help="size of the largest operation (1G)")
    add("--names", action="store_true", help="keep names and addresses in the report")
    add("--socket", metavar="PATH", help="the daemon's Unix socket")
    add("--config", metavar="FILE", help="the daemon's configuration, if no daemon is running")
    options = parser.parse_args(words)
    for name in options.steps.split(","):
        if name not in NAMES.split(","):
            parser.error(f'unknown step "{name}"; expected some of {NAMES}')
    return options


def known_names(run, replaces):
    """Returns the names that would identify the machine or its user."""
    names, host = Pseudonyms(replaces), socket.gethostname()
    if host != "localhost":
        names.know(host.partition(".")[0], "mac")
        names.know(host, "mac", "mac-1")
    with contextlib.suppress(KeyError):  # This user has no account.
        user = pwd.getpwuid(os.getuid())
        if user.pw_name != "root":
            names.know(user.pw_dir, "user", "~")
            names.know(user.pw_name, "user")
    status = {}
    with contextlib.suppress(Exception):  # Without a daemon there are fewer names.
        status = run.ask("status")[0]
    for reported, kind in ((lambda: (node["name"] for node in status["nodes"]), "mac"),
                       (lambda: (one["name"] for node in status["nodes"]
                                 for one in node.get("discovery", {}).get("neighbours", ())), "mac"),
                       (lambda: (link["peer"] for node in status["nodes"] for link in node["links"]
                                 if ":" not in link["peer"]), "mac"),
                       (lambda: (job["name"] for job in status["jobs"]), "job"),
                       (lambda: [status["cluster"]], "cluster")):
        with contextlib.suppress(Exception):  # An unexpected form must not hide the other names.
            for name in reported():
                names.know(name, kind)
    return names


def run_step(run, step, end):
    """Returns why the step was skipped; "" if it ran."""
    run.deadline = min(end, time.monotonic() + STEPS[step])
    try:
        if run.left() <= 0:
            raise LeftOut("the 20 minutes were used up")
        step(run)
    except LeftOut as why:
        return str(why)
    except Exception as error:  # A failing step does not stop the others.
        return f"{type(error).__name__}: {error}"
    return ""


def carry_out(options):
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"
    for program in ("mlxcommctl", "mlxcommd"):
        if not shutil.which(program):
            raise LeftOut(f"{program} is neither beside {sys.executable} nor in PATH")
    try:  # Before the long run. Only this user can read the file, and it never replaces another.
        file = open(os.open(options.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except FileExistsError:
        raise LeftOut(f"{options.output} already exists: name another file with -o") from None
    except OSError as error:
        raise LeftOut(f"cannot write {options.output}: {error.strerror}") from None
    try:
        with file:
            run = Run(options, Notes())
            file.write(carry_out_steps(run, options))
    except BaseException:
        os.unlink(options.output)
        raise
    print(f"{run.notes.summary()}\n{options.output}")


def carry_out_steps(run, options):
    """Runs the steps and returns the report."""
    names = known_names(run, not options.names)
    print("At most 20 minutes. Nothing is changed on this machine; steps can be skipped.", file=sys.stderr)
    begin = time.monotonic()
    for number, step in enumerate(STEPS, 1):
        began, name, why = time.monotonic(), step.__name__, NOT_ASKED
        if name in options.steps.split(","):
            print(f"[{number}/{len(STEPS)}] {name}: {step.__doc__}", file=sys.stderr)
            why = run_step(run, step, begin + BUDGET_SECONDS)
            print(f"    skipped: {shown(why)}" if why else "    done", file=sys.stderr)
        run.notes.file["steps"].append({
            "name": name, "outcome": "left out" if why else "done", "why": why,
            "began_ms": int(1000 * (began - begin)), "took_ms": int(1000 * (time.monotonic() - began))})
    run.notes.file["took_ms"] = int(1000 * (time.monotonic() - begin))
    return run.notes.document(names)


def main(words):
    try:
        carry_out(parse(words))
    except LeftOut as why:
        print(f"python -m mlxcomm firstlight: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
