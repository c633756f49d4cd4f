"""config/install-deps, in a mount namespace of its own with stand-ins for Debian's programs."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest

INSTALL = pathlib.Path(__file__).parents[2] / "config" / "install-deps"
POLICY = "/usr/sbin/policy-rc.d"
PROGRAMS = {
    "dpkg-query": 'for last; do :; done; case " $MISSING " in *" $last "*) exit 1 ;; esac; printf installed',
    "apt-get": f'allowed=yes; [ ! -x {POLICY} ] || {POLICY} ssh start || allowed=no; '
               'echo "apt-get $* (services: $allowed)" >> "$LOG"; '
               'case " $* " in *" $FAILS_ON "*) exit 7 ;; esac',
    "systemctl": 'echo "systemctl $*" >> "$LOG"',
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="apt and namespaces")


def namespace():
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]


def install(folder, missing, before="true", fails_on="nothing", code=0):
    """The commands that were called, in order; they do not affect the machine."""
    if subprocess.run([*namespace(), "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces here")
    for name, script in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    script = (f"mount -t tmpfs none /usr/sbin && {before} && {INSTALL} --tests; code=$?; "
              f'[ ! -e {POLICY} ] || echo "left: $(cat {POLICY})" >> "$LOG"; exit $code')
    done = subprocess.run(
        [*namespace(), "sh", "-c", script], capture_output=True, text=True, timeout=300,
        env={"PATH": f"{folder}:/usr/bin:/bin", "LOG": str(folder / "log"), "MISSING": missing,
             "FAILS_ON": fails_on})
    assert done.returncode == code, done.stderr
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


QUIETLY = "apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends"


def test_nothing_is_done_where_all_is_there(tmp_path):
    assert install(tmp_path, "") == []


# Why: a user who runs the tests has not asked for a machine that accepts ssh.
def test_sshd_is_installed_and_neither_started_nor_enabled(tmp_path):
    log = install(tmp_path, "openssh-server mandoc")
    assert log[:3] == ["apt-get update -qq (services: yes)",
                       f"{QUIETLY} openssh-server (services: no)",
                       "systemctl --quiet disable ssh.service ssh.socket"]
    assert log[-1] == f"{QUIETLY} openssh-server mandoc (services: yes)"


# Why: a machine that accepts ssh must not lose it.
def test_an_installed_sshd_is_not_touched(tmp_path):
    assert install(tmp_path, "mandoc") == ["apt-get update -qq (services: yes)",
                                           f"{QUIETLY} mandoc (services: yes)"]


def test_policy_of_the_machine_stays(tmp_path):
    log = install(tmp_path, "openssh-server", before=f"echo ours > {POLICY}")
    assert log[-1] == "left: ours"


def test_policy_goes_also_where_installing_fails(tmp_path):
    log = install(tmp_path, "openssh-server", fails_on="openssh-server", code=7)
    assert log[-1] == f"{QUIETLY} openssh-server (services: no)"
