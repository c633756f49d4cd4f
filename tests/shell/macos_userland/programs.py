#!/usr/bin/env python3
"""Stand-ins for macOS's own programs, chosen by the name under which this is called. State lies in
$MAC_STATE.

A program or library of macOS is one of this system with appended lines, which contain what a Mach-O
file contains: its own name, what it loads, where it looks, whether it is signed.
"""

import contextlib
import json
import os
import pathlib
import plistlib
import signal
import subprocess
import sys
import time

MARK = b"\n%mach-o\n"
STATE = pathlib.Path(os.environ.get("MAC_STATE", "/nowhere"))

def read(path):
    whole = pathlib.Path(path).read_bytes()
    body, mark, reported = whole.rpartition(MARK)
    if not mark:
        sys.exit(f"{path}: is not an object file")
    return body, json.loads(reported)


def write(path, body, reported):
    with open(path, "wb") as file:
        file.write(body + MARK + json.dumps(reported).encode())


def otool(option, path):
    _, reported = read(path)
    if option == "-l":
        for rpath in reported["rpaths"]:
            print(f"          cmd LC_RPATH\n      cmdsize 48\n         path {rpath} (offset 12)")
        return 0
    print(f"{path}:")
    for name in [*([reported["id"]] if "id" in reported else []), *reported["loads"]]:
        print(f"\t{name} (compatibility version 1.0.0, current version 1.0.0)")
    return 0


def install_name_tool(*words):
    path = words[-1]
    body, reported = read(path)
    if words[0] == "-id":
        reported["id"] = words[1]
    else:
        assert words[0] == "-change", words
        reported["loads"] = [words[2] if name == words[1] else name for name in reported["loads"]]
    reported["signed"] = False  # After a change the signature is wrong.
    write(path, body, reported)
    return 0


def codesign(*words):
    assert words[:-1] == ("--force", "--sign", "-"), words
    body, reported = read(words[-1])
    reported["signed"] = True
    write(words[-1], body, reported)
    return 0


def load(path, seen):
    """What macOS does before a program runs; a sentence if it kills the program."""
    if path in seen or path.startswith(("/usr/lib/", "/System/")):
        return None
    seen.add(path)
    if not os.path.exists(path):
        return f"dyld: Library not loaded: {path}"
    _, reported = read(path)
    if not reported["signed"]:
        return f"{path}: Killed: 9"
    folder = os.path.dirname(path)
    for name in reported["loads"]:
        trouble = load(os.path.normpath(name.replace("@loader_path", folder)), seen)
        if trouble:
            return trouble
    return None


def keep(plist):
    """launchd's part: the service runs, is restarted where KeepAlive says so, and stays known
    until it is booted out. Each start and each end is logged."""
    says_again = plist["KeepAlive"] == {"SuccessfulExit": False}
    with open(plist["StandardErrorPath"], "a", encoding="utf-8") as log:
        while not (STATE / "leaves").exists():
            child = subprocess.Popen(plist["ProgramArguments"], stderr=log, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL)
            (STATE / "pid").write_text(str(child.pid))
            code = child.wait()
            again = says_again and code != 0 and not (STATE / "leaves").exists()
            with open(STATE / "ends", "a", encoding="utf-8") as ends:
                print(code, "started again" if again else "not started again", file=ends)
            if not again:
                break
            time.sleep(0.1)  # launchd's ten seconds.
    (STATE / "pid").unlink()


def launchctl(verb, *words):
    with open(STATE / "launchctl", "a", encoding="utf-8") as log:
        print(verb, *words, file=log)
    pid, keeper, leaves = STATE / "pid", STATE / "keeper", STATE / "leaves"
    if verb == "print":
        if not keeper.exists():
            return 113
        state = "running" if pid.exists() else "not running"
        print(f"{words[0]} = {{\n\tactive count = 1\n\tstate = {state}\n}}")
        return 0
    if verb == "print-disabled":
        said = "disabled" if (STATE / "disabled").exists() else "enabled"
        print(f'\tdisabled services = {{\n\t\t"com.mlxcomm.mlxcommd" => {said}\n\t}}')
        return 0
    if verb == "kill":
        assert words == ("SIGUSR2", "system/com.mlxcomm.mlxcommd"), words
        os.kill(int(pid.read_text()), signal.SIGUSR2)
        return 0
    if verb == "enable":
        (STATE / "disabled").unlink(missing_ok=True)
        return 0
    if verb == "bootout":
        if not keeper.exists():
            return 3
        leaves.touch()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGTERM)
        subprocess.run(["/usr/bin/tail", "-f", "/dev/null", f"--pid={keeper.read_text()}"], check=True)
        keeper.unlink()
        leaves.unlink()
        print("Boot-out failed: 36: Operation now in progress", file=sys.stderr)
        return 36
    assert (verb, words[0]) == ("bootstrap", "system"), (verb, words)
    if (STATE / "disabled").exists():
        print("Bootstrap failed: 5: Input/output error", file=sys.stderr)
        return 5
    with open(words[1], "rb") as file:
        plist = plistlib.load(file)
    seen = set()
    trouble = load(plist["ProgramArguments"][0], seen)
    if trouble:
        print(trouble, file=sys.stderr)
        return 1
    (STATE / "loaded").write_text("\n".join(sorted(seen)))
    child = os.fork()
    if child > 0:
        keeper.write_text(str(child))
        return 0
    os.setsid()
    for stream in (0, 1, 2):  # Otherwise the reader of the script's output waits for this as well.
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    keep(plist)
    os._exit(0)


def newsyslog(option):
    """-F: rotates the files that its configuration names, whatever their size."""
    assert option == "-F", option
    for file in pathlib.Path("/etc/newsyslog.d").iterdir():
        for line in file.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            log, mode, _, _, _, flags, *reported = line.split()
            if not os.path.exists(log):
                continue
            os.rename(log, log + ".0")
            os.close(os.open(log, os.O_CREAT | os.O_WRONLY, int(mode, 8)))
            if "N" not in flags:
                os.kill(int(pathlib.Path(reported[0]).read_text()), int(reported[1]))
    return 0


def main():
    name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    own = {"otool": otool, "install_name_tool": install_name_tool, "codesign": codesign,
           "launchctl": launchctl, "newsyslog": newsyslog}
    return own[name](*words)


if __name__ == "__main__":
    sys.exit(main())
