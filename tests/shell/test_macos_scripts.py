"""The scripts, from install to uninstall, on a machine that looks like a Mac to them.

Why: no Mac is available; a Mac has bash 3.2, a BSD userland, and launchd as service manager.
How: a root folder of folders (mount namespaces), where PATH leads to stand-ins for macOS's own
programs and to this system's userland without GNU-only features (macos_userland/), and to a
bash: this system's, and 3.2, built from GNU's source. mlxcommd is this system's; the data that macOS's linker
reads is appended to it.
"""

import fcntl
import hashlib
import os
import pathlib
import plistlib
import shutil
import subprocess
import sys
import tarfile

import pytest

from conftest import PATIENCE, find_program
from shell import old_bash
from shell.macos_userland.programs import read, write

ROOT = pathlib.Path(__file__).parents[2]
STAND_INS = pathlib.Path(__file__).parent / "macos_userland"
OF_MACOS = ("otool", "install_name_tool", "codesign", "launchctl", "newsyslog")
USERLAND = ("brew", "uname", "xcode-select", "cat", "chmod", "cp", "date", "grep", "head", "install", "ln",
            "mkdir", "mktemp", "mv", "rm", "sed", "sleep", "sort", "stat", "tail", "tr")
PLAIN = ("id", "dirname", "basename", "env", "tee", "true")

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="mount namespaces")


def build_bash():
    """bash 3.2 in build/; a tarball beside it replaces the download."""
    with open(ROOT / "build" / "bash.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # One worker builds it, the others wait.
        return build_only_bash()


def build_only_bash():
    folder = ROOT / "build" / "bash-3.2.57"
    program = folder / "bash"
    if program.exists():
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        assert "version 3.2." in said, f"{program}: expected bash 3.2, found {said!r}: remove it"
        return program
    why_not = old_bash.fetch()
    if why_not:
        pytest.skip(why_not)
    found = hashlib.sha256(old_bash.TARBALL.read_bytes()).hexdigest()
    assert found == old_bash.SHA256, f"{old_bash.TARBALL}: expected SHA-256 {old_bash.SHA256}, found {found}"
    with tarfile.open(old_bash.TARBALL) as archive:
        archive.extractall(ROOT / "build")
    for command in (["./configure", "--without-bash-malloc", "CFLAGS=-O1 -std=gnu89 -w"], ["make", "bash"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return program


@pytest.fixture(params=["bash of this system", "bash 3.2"])
def shell(request):
    return pathlib.Path("/bin/bash") if request.param == "bash of this system" else build_bash()


SYSTEM = r"""
set -e
root=$MAC_SCRATCH/root
mkdir -p "$root"
mount -t tmpfs none "$root"
for one in /*; do
  if [ -L "$one" ]; then ln -s "$(readlink "$one")" "$root$one"
  elif [ -d "$one" ]; then mkdir "$root$one"; mount --rbind "$one" "$root$one"; fi
done
mkdir -p "$root/Library"
for one in Library etc opt run usr/local usr/libexec var; do
  mkdir -p "$MAC_SCRATCH/disk/$one"; mount --bind "$MAC_SCRATCH/disk/$one" "$root/$one"
done
[ -e "$root/var/run" ] || ln -s /run "$root/var/run"
mkdir -p "$root/var/log" "$root/var/lib" "$root/usr/local/bin"
exec chroot "$root" "$MAC_SCRATCH/tools/env" PATH="$MAC_SCRATCH/tools:/usr/local/bin" bash -euc "$MAC_SCRIPT"
"""


class Mac:
    """A machine whose own folders survive from one `run` to the next; its processes end with it."""

    def __init__(self, folder, shell):
        self.disk = folder / "disk"
        self.state = folder / "state"
        self.folder = folder
        tools = folder / "tools"
        for one in (tools, self.state, self.disk / "opt/homebrew/lib"):
            one.mkdir(parents=True)
        own = f"#!{sys.executable} -IS\n" + (STAND_INS / "programs.py").read_text(encoding="utf-8")
        for name in OF_MACOS:
            (tools / name).write_text(own, encoding="utf-8")
            (tools / name).chmod(0o755)
        for name in USERLAND:
            shutil.copy(STAND_INS / "userland.sh", tools / name)
            (tools / name).chmod(0o755)
        for name in PLAIN:
            (tools / name).symlink_to(shutil.which(name))
        (tools / "bash").symlink_to(shell)

    def object_file(self, path, body, loads=(), **reported):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, body, {"loads": list(loads), "rpaths": [], "signed": True, **reported})
        path.chmod(0o755)

    def run(self, script, code=0):
        done = subprocess.run(
            ["unshare", "-rmp", "--fork", "--kill-child", "--mount-proc", "/bin/bash", "-c", SYSTEM],
            capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "MAC_SCRATCH": str(self.folder), "MAC_SCRIPT": script,
                 "MAC_STATE": str(self.state), "FOLDER": str(ROOT), "HOME": "/"})
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def has_ended(self):
        """Includes what its launchd keeps."""
        for name in ("keeper", "pid"):
            (self.state / name).unlink(missing_ok=True)

    def launchctl(self):
        return (self.state / "launchctl").read_text().splitlines()


@pytest.fixture
def mac(tmp_path, shell):
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"],
                      capture_output=True).returncode != 0:
        pytest.skip("this machine allows no mount namespaces")
    return Mac(tmp_path, shell)


def test_install_deps_installs_what_brew_does_not_have(mac):
    (mac.state / "brew").write_text("cmake\nninja\n")
    said = mac.run('"$FOLDER/config/install-deps" --tests; "$FOLDER/config/install-deps"')
    assert said.count("install-deps: brew install ") == 1  # Everything exists the second time.
    have = (mac.state / "brew").read_text().split()
    assert {"grpc", "abseil", "asio", "shellcheck"} <= set(have)
    assert have.count("cmake") == 1
    mac.run('"$FOLDER/config/install-deps" --nonsense', code=2)


GRPC = "/opt/homebrew/opt/grpc/lib/libgrpc.44.dylib"
ABSL = "/opt/homebrew/opt/abseil/lib/libabsl_base.2508.0.0.dylib"


def build(mac):
    """mlxcommd and mlxcommctl as a build on a Mac would have left them, over Homebrew's
    libraries. Returns how mlxcommctl installs the service there."""
    for name in ("mlxcommd", "mlxcommctl"):
        body = pathlib.Path(find_program(name)).read_bytes()
        mac.object_file(mac.folder / "built" / name, body,
                        [GRPC, "@rpath/libfmt.12.dylib", "/usr/lib/libSystem.B.dylib"],
                        rpaths=["/opt/homebrew/lib"])
    below = [(GRPC, [ABSL, "@loader_path/libgpr.44.dylib"]), (ABSL, []),
             (os.path.dirname(GRPC) + "/libgpr.44.dylib", [ABSL]),
             ("/opt/homebrew/lib/libfmt.12.dylib", ["/System/Library/Frameworks/X.framework/X"])]
    for path, loads in below:
        mac.object_file(mac.disk / path[1:], b"library", loads, id=path)
    return f'"{mac.folder}/built/mlxcommctl" service install'


SHOWN = """
n=0
until mlxcommctl status 2>/dev/null | grep -q 'health: all is well'; do
  n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.1
done
"""


def test_the_service_comes_outlives_an_upgrade_of_homebrew_and_goes(mac):
    """Why: the daemon's libraries come from Homebrew, in one version, in a user's folders."""
    program = build(mac)
    (mac.state / "disabled").write_text("")  # By an earlier `launchctl disable`.
    said = mac.run(f"""
{program}
{SHOWN}
rm -rf /opt/homebrew
mv /usr/local/bin/mlxcommctl /usr/local/bin/kept; cp /usr/local/bin/kept /usr/local/bin/mlxcommctl
launchctl bootout system/com.mlxcomm.mlxcommd || true
launchctl bootstrap system /Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist
{SHOWN}
echo 'drain_timeout_ms: 20001' > /etc/mlxcommd/mlxcommd.textproto
mlxcommctl service install
{SHOWN}
mlxcommctl service install --force
{SHOWN}
mlxcommctl service status
echo 'clients {{ clients_max: 0 }}' > /etc/mlxcommd/mlxcommd.textproto
if mlxcommctl service install; then exit 10; fi
mlxcommctl status
""")
    assert "clients_max: expected 1 to 4096" in said
    assert "service        installed, enabled, running (launchd)" in said
    calls = mac.launchctl()
    assert calls.count("kill SIGUSR2 system/com.mlxcomm.mlxcommd") == 1
    assert calls.count("enable system/com.mlxcomm.mlxcommd") == 2
    bootstraps = [n for n, call in enumerate(calls) if call.startswith("bootstrap")]
    assert len(bootstraps) == 3 and calls.index("enable system/com.mlxcomm.mlxcommd") < bootstraps[0]
    loaded = (mac.state / "loaded").read_text().split()
    assert loaded == ["/usr/local/bin/mlxcommd",
                      *(f"/usr/local/lib/mlxcomm/{name}" for name in (
                          "libabsl_base.2508.0.0.dylib", "libfmt.12.dylib", "libgpr.44.dylib",
                          "libgrpc.44.dylib"))]
    for path in (mac.disk / "usr/local/lib/mlxcomm").iterdir():
        _, reported = read(path)  # None of Homebrew's names is left in it.
        assert "homebrew" not in str(reported) and reported["signed"], (path, reported)
        assert path.stat().st_mode & 0o022 == 0
    with open(mac.disk / "Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist", "rb") as file:
        plist = plistlib.load(file)
    assert plist["ExitTimeOut"] == 31
    mac.has_ended()
    mac.run('for _ in 1 2; do /usr/local/bin/kept service uninstall; done')
    left = sorted(str(one.relative_to(mac.disk)) for folder in ("usr/local", "Library", "etc")
                  for one in (mac.disk / folder).rglob("*") if not one.is_dir())
    assert left == ["etc/mlxcommd/mlxcommd.textproto", "usr/local/bin/kept"]


def test_the_log_of_a_daemon_that_runs_is_turned(mac):
    """Why: launchd's descriptor stays with the rotated file, which then grows without limit."""
    mac.run(f"""
{build(mac)}
{SHOWN}
newsyslog -F
n=0
until grep -q 'log reopened' /var/log/mlxcommd/mlxcommd.log; do
  n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.1
done
mlxcommctl status
""")
    log = mac.disk / "var/log/mlxcommd"
    assert "is ready" in (log / "mlxcommd.log.0").read_text()
    assert "log reopened" not in (log / "mlxcommd.log.0").read_text()
    # A user's existing configuration is kept, and so is launchd's log.
    lines = [line.split() for line in (mac.disk / "etc/newsyslog.d/mlxcommd.conf").read_text().splitlines()
             if not line.startswith("#")]
    with open(mac.disk / "Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist", "rb") as file:
        plist = plistlib.load(file)
    assert [len(line) for line in lines] == [8, 6]
    assert lines[1][0] == plist["StandardErrorPath"] and lines[1][5] == "N"


def test_a_wrong_configuration_is_not_tried_again_and_a_crash_is(mac):
    """Why: launchd restarts, every ten seconds, each program that did not exit with 0."""
    mac.run(f"""
{build(mac)}
{SHOWN}
kill -KILL "$(cat "$MAC_STATE/pid")"
until grep -q '^-9 started again' "$MAC_STATE/ends"; do sleep 0.1; done
{SHOWN}
launchctl bootout system/com.mlxcomm.mlxcommd || true
grep -q '^0 not started again' "$MAC_STATE/ends"
: > "$MAC_STATE/ends"
echo 'clients {{ clients_max: 0 }}' > /etc/mlxcommd/mlxcommd.textproto
launchctl bootstrap system /Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist
until grep -q started "$MAC_STATE/ends"; do sleep 0.1; done
grep -q '^0 not started again' "$MAC_STATE/ends"
grep -q 'clients_max: expected 1 to 4096' /var/log/mlxcommd.log
echo 'clients {{ clients_max: 1 }}' > /etc/mlxcommd/mlxcommd.textproto
mlxcommctl service install
{SHOWN}
""")


def test_a_missing_library_leaves_the_installation_unchanged(mac):
    program = build(mac)
    mac.run(program)
    mac.has_ended()
    before = sorted(mac.disk.joinpath("usr/local").rglob("*.dylib"))
    (mac.disk / ABSL[1:]).unlink()
    said = mac.run(program, code=1)
    assert f"loads {ABSL}, which is missing" in said
    kept = [one for one in mac.disk.joinpath("usr/local").rglob("*.dylib") if ".new" not in str(one)]
    assert sorted(kept) == before


def test_an_otool_that_fails_is_not_one_that_names_no_libraries(mac):
    """Why: without the developer tools a daemon without its libraries was installed, and did not start."""
    program = build(mac)
    for otool in ("echo 'no developer tools were found' >&2; exit 69", None):
        (mac.folder / "tools/otool").unlink()
        if otool:
            (mac.folder / "tools/otool").write_text(f"#!/bin/sh\n{otool}\n", encoding="ascii")
            (mac.folder / "tools/otool").chmod(0o755)
        said = mac.run(program, code=1)
        assert "xcode-select --install" in said and "nothing was changed" in said, said
        assert ("no developer tools were found" if otool else "otool: no such program") in said, said
    assert not list((mac.disk / "usr/local").rglob("*.dylib"))


def test_a_service_that_is_loaded_but_not_running_is_reported(mac):
    """Why: launchd knows it, too, and restarts it every ten seconds."""
    said = mac.run(f"""
{build(mac)}
{SHOWN}
mv "$MAC_STATE/pid" "$MAC_STATE/hidden"
kill -STOP "$(cat "$MAC_STATE/hidden")"
if mlxcommctl service status; then exit 10; fi
kill -CONT "$(cat "$MAC_STATE/hidden")"; mv "$MAC_STATE/hidden" "$MAC_STATE/pid"
: > "$MAC_STATE/disabled"
mlxcommctl service status
""")
    assert "installed, enabled, not running (launchd)" in said
    assert "installed, not enabled, running (launchd)" in said
