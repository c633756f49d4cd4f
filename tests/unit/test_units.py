"""The service files work with the daemon, and are installed and removed correctly."""

import os
import pathlib
import plistlib
import shutil
import subprocess

import pytest

from conftest import PATIENCE, completed, find_program, mlxcommctl

FOLDER = pathlib.Path(__file__).parents[2] / "systemd-launchd"


def test_launch_daemon_starts_the_daemon_in_the_foreground():
    with open(FOLDER / "com.mlxcomm.mlxcommd.plist", "rb") as file:
        plist = plistlib.load(file)
    assert plist["Label"] == "com.mlxcomm.mlxcommd"
    assert plist["ProgramArguments"][1:] == ["--config", "/etc/mlxcommd/mlxcommd.textproto", "--launchd"]
    assert plist["KeepAlive"] and plist["RunAtLoad"]


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (FOLDER / "mlxcommd.service").read_text()
    assert "--config /etc/mlxcommd/mlxcommd.textproto" in unit
    # verify needs a program that exists.
    copy = tmp_path / "mlxcommd.service"
    copy.write_text(unit.replace("/usr/local/bin/mlxcommd", shutil.which("true")))
    done = completed(["systemd-analyze", "verify", "--man=no", copy])
    assert done.returncode == 0, done.stderr
    assert "mlxcommd.service" not in done.stderr, done.stderr


TABLES = {"unix": "AF_UNIX", "tcp": "AF_INET", "udp": "AF_INET", "tcp6": "AF_INET6",
          "udp6": "AF_INET6", "netlink": "AF_NETLINK"}


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="/proc")
def test_the_unit_lets_the_daemon_open_what_it_opens(cluster):
    """Why: without netlink it could not list its interfaces, and found no neighbour."""
    pid = cluster(2).daemons[0].child.pid
    ends = [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {end[len("socket:["):-1] for end in ends if end.startswith("socket:[")}
    opened = set()
    for table, family in TABLES.items():
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines():
            if inodes & set(line.split()):
                opened.add(family)
    unit = (FOLDER / "mlxcommd.service").read_text()
    allowed, = [line.split("=")[1].split() for line in unit.splitlines()
                if line.startswith("RestrictAddressFamilies=")]
    assert {"AF_UNIX", "AF_INET", "AF_NETLINK"} <= opened <= set(allowed), opened


# Why: it was 8.5, "exposed": a root service that keeps unused rights.
def test_the_unit_is_not_exposed():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    asked = ["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=39",
             str(FOLDER / "mlxcommd.service")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze reads no files (before systemd 250)")
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def files_below(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())


def staged(verb, root, *arguments):
    return mlxcommctl("service", verb, "--root", root, *arguments)


def test_install_and_uninstall_below_another_root(tmp_path):
    configuration = "etc/mlxcommd/mlxcommd.textproto"
    for _ in range(2):  # Both can be run again.
        done = staged("install", tmp_path, "--program", find_program("mlxcommd"))
        assert done.returncode == 0, done.stderr
    files = files_below(tmp_path)
    service = [f for f in files if f.endswith((".service", ".plist"))]
    rotation = [f for f in files if "logrotate" in f or "newsyslog" in f]
    assert len(service) == len(rotation) == 1
    assert set(files) - {*service, *rotation} == {
        configuration, "usr/local/bin/mlxcommd", "usr/local/bin/mlxcommctl"}
    (tmp_path / configuration).write_text('cluster: "mine"\n')
    assert staged("install", tmp_path, "--program", find_program("mlxcommd")).returncode == 0
    assert (tmp_path / configuration).read_text() == 'cluster: "mine"\n'
    # The system waits for the daemon to exit as long as jobs may take to finish.
    (tmp_path / configuration).write_text("# drain_timeout_ms: 1\ndrain_timeout_ms: 60001  # long\n")
    bin_folder = tmp_path / "usr/local/bin"
    bin_folder.chmod(0o2775)
    assert staged("install", tmp_path, "--program", find_program("mlxcommd")).returncode == 0
    assert any(word in (tmp_path / service[0]).read_text()
               for word in ("TimeoutStopSec=71\n", "<integer>71</integer>"))
    assert bin_folder.stat().st_mode & 0o7777 == 0o2775  # It already existed, and others use it.
    for _ in range(2):
        done = staged("uninstall", tmp_path)
        assert done.returncode == 0 and f"Kept: {tmp_path}/{configuration}." in done.stdout
        assert f"below {tmp_path}/." in done.stdout
        assert files_below(tmp_path) == [configuration]
    for _ in range(2):
        assert staged("uninstall", tmp_path, "--purge").returncode == 0
        assert files_below(tmp_path) == [] and not (tmp_path / "etc/mlxcommd").exists()


def test_install_refuses_a_file_that_is_not_a_program(tmp_path):
    for program in ("/nowhere/mlxcommd", str(tmp_path), str(FOLDER / "README.md"), shutil.which("false")):
        done = staged("install", tmp_path / "below", "--program", program)
        assert done.returncode == 1 and "is not mlxcommd (--version fails)" in done.stderr
        assert "nothing was changed" in done.stderr
    assert not (tmp_path / "below").exists()


def test_a_dry_run_changes_nothing(tmp_path):
    done = staged("install", tmp_path / "below", "--program", find_program("mlxcommd"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("It would:\n  create the folder ")
    assert f"  write {tmp_path}/below/etc/mlxcommd/mlxcommd.textproto\n" in done.stdout
    assert not (tmp_path / "below").exists()


# Why: with an empty prefix the paths were taken for the live system, which was then restarted.
@pytest.mark.parametrize("root, folder", [("/", "."), (".", "/"), ("..", "/"), ("//", ".")])
def test_the_root_of_all_folders_is_only_files_too(root, folder):
    for verb in ("install", "uninstall"):
        program = ["--program", find_program("mlxcommd")] if verb == "install" else []
        done = mlxcommctl("service", verb, "--root", root, "--dry-run", *program, cwd=folder)
        assert "systemctl" not in done.stdout + done.stderr, (done.stdout, done.stderr)
        assert "answers" not in done.stdout and "only root" not in done.stderr, done.stderr


def test_a_root_that_cannot_be_named_is_refused(tmp_path):
    """Why: in a deleted folder it became the live system."""
    gone = tmp_path / "gone"
    script = f'mkdir {gone}; cd {gone}; rmdir {gone}; exec "$0" service install --root below --dry-run'
    done = completed(["sh", "-c", script, find_program("mlxcommctl")])
    assert done.returncode == 1 and "mlxcommctl: --root below: No such file" in done.stderr, done.stderr


# A separate machine: nothing in it outlives the namespace. Its systemctl does what the scripts request, with
# the installed unit.
MACHINE = r"""
set -eu
for folder in /etc /usr/local/bin /run /var/lib /var/log; do mount -t tmpfs none $folder; done
[ -e /var/run/. ] || exit 77
export PATH="$SCRATCH/bin:$PATH"
say() { printf '== %s\n' "$*"; }
socket=/var/run/mlxcommd/mlxcommd.sock
shows() { /usr/local/bin/mlxcommctl status | grep -q 'health: all is well'; }
await() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.05; done; }
if "$CONTROL" service install; then exit 10; fi
find /usr/local/bin /etc -type f | grep . && exit 11
mkdir -p /run/systemd/system
"$CONTROL" service install
await shows; say serves "$(cat $SCRATCH/pid)"
"$CONTROL" service install
await shows; say serves again "$(cat $SCRATCH/pid)"
/usr/local/bin/mlxcommctl service restart
/usr/local/bin/mlxcommctl service status
echo 'clients { clients_max: 0 }' > /etc/mlxcommd/mlxcommd.textproto
if "$CONTROL" service install; then exit 12; fi
if "$CONTROL" service restart; then exit 13; fi
shows && say serves on
"$CONTROL" service uninstall
[ ! -e $socket ] && say gone
"$CONTROL" service uninstall
find /etc /usr/local/bin /var/lib -type f
"""
SYSTEMCTL = r"""#!/bin/sh
echo "$*" >> $SCRATCH/asked
stop() {
  [ -e $SCRATCH/pid ] || return 0
  kill $(cat $SCRATCH/pid)
  tail -f /dev/null --pid=$(cat $SCRATCH/pid)
  rm -f $SCRATCH/pid
}
case "$1" in
  restart) stop; $(sed -n 's/^ExecStart=//p' /etc/systemd/system/$2) > $SCRATCH/log 2>&1 < /dev/null &
           echo $! > $SCRATCH/pid ;;
  disable|stop) stop ;;
  kill) kill -USR2 $(cat $SCRATCH/pid) ;;
  is-active) [ -e $SCRATCH/pid ] || exit 3 ;;
esac
"""


def machine(tmp_path, script, systemctl=SYSTEMCTL):
    """Runs the script in a mount namespace with stand-ins for the system's folders."""
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/usr/local/bin"]
    if shutil.which("unshare") is None or completed(mount).returncode != 0:
        pytest.skip("this machine allows no mount namespaces")
    for folder in ("bin", "built"):
        (tmp_path / folder).mkdir()
    for name in ("mlxcommd", "mlxcommctl"):
        shutil.copy(find_program(name), tmp_path / "built" / name)
    stand_in = tmp_path / "bin/systemctl"
    stand_in.write_text(systemctl)
    stand_in.chmod(0o755)
    return subprocess.run(
        ["unshare", "-rmp", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script],
        capture_output=True, text=True,
        timeout=3 * PATIENCE, env={**os.environ, "SCRATCH": str(tmp_path),
                                   "CONTROL": str(tmp_path / "built/mlxcommctl")})


def test_service_comes_serves_and_goes_on_a_machine_of_its_own(tmp_path):
    done = machine(tmp_path, MACHINE)
    assert done.returncode == 0, (done.stdout, done.stderr)
    said = done.stdout.splitlines()
    reported = [line.split()[1:] for line in said if line.startswith("==")]
    first, second = reported[0].pop(), reported[1].pop()
    assert reported == [["serves"], ["serves", "again"], ["serves", "on"], ["gone"]], done.stdout
    assert first == second  # The process has become the newer program.
    assert "clients_max: expected 1 to 4096" in done.stderr
    assert "systemd is not running here" in done.stderr
    assert done.stderr.count("nothing was changed") == 3
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked.count("restart mlxcommd.service") == 1
    assert asked.count("kill --kill-who=main --signal=SIGUSR2 mlxcommd.service") == 2
    assert asked.count("disable --now mlxcommd.service") == 1
    assert "service        installed, enabled, running (systemd)" in said
    kept = [line for line in said if line.startswith("/")]
    assert kept == ["/etc/mlxcommd/mlxcommd.textproto", "/var/lib/mlxcommd/node-id"]


# The initial state of each of these machines: with a running service.
INSTALLED = MACHINE[:MACHINE.index("if \"$CONTROL\"")] + r"""
mkdir -p /run/systemd/system
"$CONTROL" service install
await shows
"""


@pytest.mark.parametrize("signal", ["INT", "TERM", "HUP"])
def test_a_service_that_starts_again_is_not_left_down(tmp_path, signal):
    """Why: Ctrl-C, or a closed terminal, between its end and its start left it down."""
    done = machine(tmp_path, INSTALLED + rf"""
rm $SCRATCH/stopped; touch $SCRATCH/slow
env --default-signal=INT "$CONTROL" service restart --force & control=$!
await test -e $SCRATCH/stopped
kill -{signal} $control; kill -{signal} $control
rm $SCRATCH/slow
wait $control
shows && say serves
""", SYSTEMCTL.replace("restart) stop;", """restart) stop; touch $SCRATCH/stopped
           while [ -e $SCRATCH/slow ]; do sleep 0.05; done;"""))
    assert done.returncode == 0 and "== serves" in done.stdout, (done.stdout, done.stderr)
    assert done.stderr.count("mlxcommctl: finishing") == 1, done.stderr


def test_the_wait_for_the_next_program_ends_with_ctrl_c(tmp_path):
    """Why: it may take days. mlxcommd here does not get the signal that requests it, so it never restarts."""
    done = machine(tmp_path, INSTALLED + r"""
env --default-signal=INT "$CONTROL" service restart & control=$!
await grep -q SIGUSR2 $SCRATCH/asked
sleep 0.5
kill -INT $control
code=0; wait $control || code=$?
[ $code -eq 130 ]
shows && say serves
""", SYSTEMCTL.replace("kill) kill", "kill) true"))
    assert done.returncode == 0 and "== serves" in done.stdout, (done.stdout, done.stderr)


def test_a_program_that_does_not_run_takes_no_place_and_one_that_does_not_serve_leaves_it(tmp_path):
    """Why: the service was down, and the working program was gone."""
    done = machine(tmp_path, INSTALLED + r"""
old=$(md5sum < /usr/local/bin/mlxcommd); unit=$(md5sum < /etc/systemd/system/mlxcommd.service)
# It says its version, but not where it is to lie.
printf '#!/bin/sh\ncase $0 in /usr/local/bin/*) echo broken >&2; exit 9;; esac\necho 9.9.9\n' \
  > $SCRATCH/built/mlxcommd
if "$CONTROL" service install --force; then exit 20; fi
[ "$(md5sum < /usr/local/bin/mlxcommd)" = "$old" ] || exit 21
shows && say serves
# It says its version anywhere, and serves nobody.
printf '#!/bin/sh\n[ "$1" = --version ] && echo 9.9.9\nexit 0\n' > $SCRATCH/built/mlxcommd
if "$CONTROL" service install --force; then exit 22; fi
[ "$(md5sum < /usr/local/bin/mlxcommd)" = "$old" ] || exit 23
[ "$(md5sum < /etc/systemd/system/mlxcommd.service)" = "$unit" ] || exit 24
shows && say serves again
find /usr/local/bin -name '.*' -type f
""")
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    said = done.stdout.splitlines()
    assert [line for line in said if line.startswith("==")] == ["== serves", "== serves again"]
    assert not [line for line in said if line.startswith("/usr/local/bin/.")], said
    assert "does not run: rebuild mlxcomm" in done.stderr and "broken" in done.stderr
    assert "the previous files are restored, and the daemon runs with them" in done.stderr


def test_an_installation_reports_what_it_keeps_and_folders_that_others_may_write(tmp_path):
    done = machine(tmp_path, INSTALLED + r"""
echo '# mine' >> /etc/systemd/system/mlxcommd.service
echo 'drain_timeout_ms: 60000' > /etc/mlxcommd/mlxcommd.textproto
/usr/local/bin/mlxcommctl service restart --force
grep -q '# mine' /etc/systemd/system/mlxcommd.service || exit 20
grep TimeoutStopSec=70 /etc/systemd/system/mlxcommd.service.d/timeout.conf
chmod 0777 /usr/local/bin
/usr/local/bin/mlxcommctl service install --force
[ ! -e /etc/systemd/system/mlxcommd.service.d ] || exit 22
ln -s /etc/victim /usr/local/bin/.mlxcommd.new
"$CONTROL" service install --force
[ ! -e /etc/victim ] && [ ! -L /usr/local/bin/mlxcommd ] || exit 21
rm /etc/systemd/system/mlxcommd.service
"$CONTROL" service uninstall
[ ! -e $socket ] && say gone
find /etc/systemd /usr/local/bin -type f
""")
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert "The programs in /usr/local/bin (0.1.0) were kept" in done.stdout
    assert "call the newer mlxcommctl by its path" in done.stdout
    assert "mlxcommd 0.1.0 is running as a service" in done.stdout and "0.1.0 is running;" in done.stdout
    assert "warning: /usr/local/bin is writable by other users" in done.stderr
    assert "mlxcommd is not installed as a service any longer.\n" in done.stdout
    last = done.stdout.splitlines()[done.stdout.splitlines().index("== gone"):]
    assert last == ["== gone"], last


def test_a_purge_of_the_package_takes_what_restart_has_written(tmp_path):
    script = FOLDER.parent / "config/debian/mlxcomm.postrm"
    done = machine(tmp_path, MACHINE[:MACHINE.index("export PATH")] + rf"""
mkdir -p /etc/systemd/system/mlxcommd.service.d /etc/mlxcommd
touch /etc/systemd/system/mlxcommd.service.d/timeout.conf /etc/mlxcommd/key
sh {script} remove
ls /etc/systemd/system/mlxcommd.service.d
sh {script} purge
find /etc/systemd/system /etc -mindepth 1 -name 'mlxcomm*'
""")
    assert (done.returncode, done.stdout) == (0, "timeout.conf\n"), (done.stdout, done.stderr)
