"""Chroots of Debian suites, in which a script builds and tests the tree; and steps that log to a file.

debootstrap makes a chroot once, and packages are installed once for a list, so versions do not change between
runs. Inside, the tree is /mlxcomm, read-only, with the caller's build/. Each command runs as root in its own
mount and process namespaces, so that no mount and no process is left.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN_LINES = 200  # Bytes of a failed step's log to show.
DEFAULT_MIRROR = "http://deb.debian.org/debian"
DEBOOTSTRAP_SCRIPT = "/usr/share/debootstrap/scripts/sid"  # New suites have none of their own.

# $1 root, $2 tree, $3 its build folder, $4 ccache's folder, $5 a Python environment for build/venv, or
# nothing; then the command. The namespaces end with it.
ENTER = r"""
root=$1 tree=$2 build=$3 cache=$4 venv=$5
shift 5
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/mlxcomm" "$root/ccache"
mount --bind "$tree" "$root/mlxcomm"
mount -o remount,bind,ro "$root/mlxcomm"
mount --bind "$build" "$root/mlxcomm/build"
if [ -n "$venv" ]; then
  mkdir -p "$build/venv"
  mount --bind "$venv" "$root/mlxcomm/build/venv"
fi
mount --bind "$cache" "$root/ccache"
exec chroot "$root" /bin/sh -c 'cd /mlxcomm && exec "$@"' sh "$@"
"""


def call(command, log, **options):
    print("$", *command, file=log, flush=True)
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                          stderr=subprocess.STDOUT, check=False, **options).returncode == 0


def mirror():
    """Returns the mirror of this machine's Debian."""
    folder = pathlib.Path("/etc/apt")
    release = pathlib.Path("/etc/os-release")
    text = release.read_text(encoding="utf-8") if release.exists() else ""
    codename = re.search(r"^VERSION_CODENAME=(\S+)", text, re.MULTILINE)
    if "ID=debian" not in text.split() or codename is None:
        return DEFAULT_MIRROR  # Another distribution's mirror does not hold Debian's suites.
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        for stanza in re.split(r"\n\s*\n", file.read_text(encoding="utf-8")):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if codename[1] in fields.get("Suites", "").split() and fields.get("URIs"):
                return fields["URIs"].split()[0].rstrip("/")
            line = re.search(rf"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+{codename[1]}\s+.*\bmain\b", stanza,
                             re.MULTILINE)
            if line:
                return line[1].rstrip("/")
    return DEFAULT_MIRROR


def listed_packages():
    lines = (ROOT / "config" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return [words[0] for words in (line.partition("#")[0].split() for line in lines) if words]


def what_is_missing(script):
    if sys.platform != "linux":
        return "it makes chroots of Debian, which only Linux runs"
    if os.geteuid() != 0:
        return f"it needs root, for chroots and mounts: sudo {script}"
    for program, package in (("debootstrap", "debootstrap"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no {program}: apt-get install {package}"
    if not os.path.exists(DEBOOTSTRAP_SCRIPT):
        return f"there is no {DEBOOTSTRAP_SCRIPT}: apt-get install debootstrap"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, text=True)
    if probe.returncode != 0:
        return f"nothing can be mounted here, as in some containers: {probe.stderr.strip()}"
    return None


class Chroot:
    """A suite in a folder: root/ is the chroot, beside it are files about it."""

    def __init__(self, suite, folder, cache, packages):
        self.name = suite
        self.folder = folder
        self.cache = cache  # ccache's, which chroots may share.
        self.packages = packages
        self.root = folder / "root"
        self.made = folder / "made"  # Exists once debootstrap has succeeded.

    def make(self, log):
        if self.made.exists():
            print("is there", file=log)
            return True
        if self.root.exists():
            shutil.rmtree(self.root)
        (self.folder / "installed").unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        well = call(["debootstrap", "--variant=minbase", "--include=ca-certificates", self.name,
                     self.root, mirror(), DEBOOTSTRAP_SCRIPT], log)
        if well:
            self.made.touch()
        return well

    def write(self, path, text):
        (self.root / path).write_text(text, encoding="utf-8")

    # --- packages ---------------------------------------------------------------------

    def sources(self):
        return [f"deb {mirror()} {self.name} main"]

    def more_packages(self, log):
        """Returns packages that depend on the suite's lists."""
        return []

    def wanted(self):
        """Returns a text that changes when packages must be installed again."""
        return "\n".join(self.packages)

    def install(self, log):
        # Done once for a list of packages: looking for newer ones at each run would rebuild everything.
        wanted = self.wanted()
        installed = self.folder / "installed"
        if installed.exists() and installed.read_text(encoding="utf-8") == wanted:
            print("all of them are there; --fresh looks for newer ones", file=log)
            return True
        self.write("etc/apt/sources.list", "\n".join(self.sources()) + "\n")
        # A suite that is frozen, or a mirror that lags, reports that its list is out of date.
        self.write("etc/apt/apt.conf.d/90mlxcomm", 'Acquire::Check-Valid-Until "false";\n'
                   'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n')
        for file in ("resolv.conf", "hosts"):
            if pathlib.Path("/etc", file).exists():
                shutil.copy(pathlib.Path("/etc", file), self.root / "etc" / file)
        # The machine's own proxy may sign for others.
        certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        if certificates.exists():
            shutil.copy(certificates, self.root / "etc/ssl/certs/ca-certificates.crt")
        build = self.folder / "packages"
        if not (self.enter(["apt-get", "update", "-q"], log, build) and
                self.enter(["apt-get", "install", "-q", "-y", *self.more_packages(log), *self.packages],
                           log, build) and
                self.enter(["apt-get", "clean"], log, build)):
            return False
        installed.write_text(wanted, encoding="utf-8")
        return True

    def versions(self, packages):
        reported = self.output(["dpkg-query", "-W", "-f=${Package} ${Version}\\n", *packages])
        return dict(line.split(" ", 1) for line in reported.splitlines())

    # --- commands in it ---------------------------------------------------------------

    def enter_command(self, command, build, venv=None):
        for folder in (build, self.cache, venv):
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
        return ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--",
                "sh", "-eu", "-c", ENTER, "sh", self.root, ROOT, build, self.cache, venv or "", *command]

    def environment(self, **more):
        passed = {name: value for name, value in os.environ.items()
                  if name.startswith("PIP_") or name.lower().endswith("_proxy")}
        return {**passed, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                "CCACHE_DIR": "/ccache", "CC": "gcc", "CXX": "g++", "PYTHONDONTWRITEBYTECODE": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", **more}

    def enter(self, command, log, build, venv=None, **environment):
        return call(self.enter_command(command, build, venv), log, env=self.environment(**environment))

    def output(self, command):
        done = subprocess.run([str(word) for word in self.enter_command(command, self.folder / "packages")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, text=True,
                              env=self.environment())
        return done.stdout


class Step:
    """A task, its log, and the steps that it needs."""

    def __init__(self, name, work, logs, after=()):
        self.name = name
        self.work = work  # Gets the log; returns whether it succeeded.
        self.after = after
        self.state = "waiting"
        self.seconds = 0.0
        self.log = logs / (re.sub(r"[^a-z0-9+]+", "-", name.lower()).strip("-") + ".log")


def carry_out(steps):
    """Runs all steps whose prerequisites succeeded, and shows the logs of failed ones."""
    done = {step.name: step for step in steps}
    for step in steps:
        if any(done[name].state != "fine" for name in step.after):
            step.state = "not run"
            print(f"not run  {step.name}", flush=True)
            continue
        print(f"begins   {step.name}", flush=True)
        begin = time.monotonic()
        step.log.parent.mkdir(parents=True, exist_ok=True)
        with open(step.log, "w", encoding="utf-8") as log:
            step.state = "fine" if step.work(log) else "FAILED"
        step.seconds = time.monotonic() - begin
        print(f"{step.state:8} {step.name}, {step.seconds:.0f} s", flush=True)
        if step.state == "FAILED":
            lines = step.log.read_text(encoding="utf-8", errors="replace").splitlines()
            kept = [line for line in lines if not re.match(r"\[\d+/\d+\] (?!.*FAILED)", line)]
            print(f"--- {step.log.relative_to(ROOT)}", *kept[-SHOWN_LINES:], "---", sep="\n", flush=True)


def report(steps):
    """Shows a table, and returns whether all steps succeeded."""
    print("\n  seconds  step")
    for step in steps:
        mark = "" if step.state == "fine" else f"  {step.state}"
        print(f"  {step.seconds:7.0f}  {step.name}{mark}")
    return all(step.state == "fine" for step in steps)
