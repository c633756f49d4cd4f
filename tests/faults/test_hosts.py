"""launch with host files, and with hosts over a stand-in for ssh."""

import json
import os
import shutil
import stat
import sys

import pytest

from conftest import completed, find_program
from conftest import mlxcommctl as ctl


def ssh(folder, script='exec sh -c "$command"\n'):
    """Makes a stand-in for ssh; `$host` and `$command` are its arguments."""
    path = folder / "ssh"
    path.write_text('#!/bin/sh\nfor word; do host=$command; command=$word; done\n' + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def launch(ssh_path, *words, hosts="far"):
    return ctl("launch", "--ssh", ssh_path, "--hosts", hosts, *words)


# Why: people forget the copy on the other machine.
@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_copy_brings_the_script_and_its_folder_to_the_other_host(tmp_path):
    here, there = tmp_path / "my scripts", tmp_path / "there"
    (here / ".git").mkdir(parents=True)
    (here / "train.py").write_text("import data\n")
    (here / "data.py").write_text("print('copied')\n")
    # The other host has another folder at that path. Like ssh it joins the words of the command.
    stand_in = ssh(tmp_path, f"""while [ "$1" != far ]; do shift; done; shift
exec sh -c "$(printf %s "$*" | sed "s,'[^']*my scripts',{there},g")"\n""")
    done = launch(stand_in, "--copy", "--cwd", here, "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0] copied\n"
    assert f"mlxcommctl: copying {here} to far" in done.stderr
    assert sorted(file.name for file in there.iterdir()) == ["data.py", "train.py"]


def test_copy_refuses_the_home_folder_and_reports_a_failed_copy(tmp_path):
    (tmp_path / "train.py").write_text("")
    stand_in = ssh(tmp_path, "echo 'ada@far: Permission denied (publickey).' >&2; exit 255\n")
    copy = ["launch", "--ssh", stand_in, "--hosts", "far", "--copy", "--cwd", tmp_path, "--",
            "python", "train.py"]
    done = ctl(*copy, env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 2
    assert f"--copy: it would copy all of {tmp_path}: put the script into a folder of its own" in done.stderr
    done = ctl(*copy)
    assert done.returncode == 1 and "cannot copy to far: rsync ended with exit code" in done.stderr
    assert "; give it this user's key (ssh-copy-id far" in done.stderr


# Why: the advice was to install rsync.
@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_a_folder_that_cannot_be_made_on_the_other_host_is_reported(tmp_path):
    (tmp_path / "train.py").write_text("")
    stand_in = ssh(tmp_path, f"""while [ "$1" != far ]; do shift; done; shift
exec sh -c "$(printf %s "$*" | sed "s,{tmp_path},/dev/null/there,g")"\n""")
    done = launch(stand_in, "--copy", "--cwd", tmp_path, "--", "python", "train.py")
    assert done.returncode == 1 and "cannot copy to far: rsync ended with exit code" in done.stderr
    assert "mkdir: " in done.stderr and "; rsync error: " in done.stderr, done.stderr
    assert done.stderr.endswith(f"; check that {tmp_path} can be made and written there, and that its disk "
                                f"has room ({stand_in} far)\n")


# Why: only local ranks inherited it.
def test_the_socket_of_the_environment_is_that_of_all_hosts(tmp_path):
    stand_in = ssh(tmp_path, 'unset MLXCOMM_SOCKET; exec sh -c "$command"\n')
    done = ctl("launch", "--ssh", stand_in, "--hosts", "localhost,far", "--",
               "sh", "-c", "echo $MLXCOMM_SOCKET",
               env={**os.environ, "MLXCOMM_SOCKET": "/run/mine"})
    assert sorted(done.stdout.splitlines()) == ["[0] /run/mine", "[1] /run/mine"], done.stderr


# Why: they were made for mlx.launch; launch must need no change of them.
def test_mlxs_host_file_starts_ranks_on_its_hosts(tmp_path):
    hosts = [{"ssh": "far", "ips": ["127.0.0.1"], "rdma": [None, "rdma_en2"]},
             {"ssh": "localhost", "ips": ["127.0.0.2"], "rdma": ["rdma_en2", None]}]
    (tmp_path / "hosts.json").write_text(json.dumps({"backend": "jaccl", "envs": ["A=1"], "hosts": hosts}))
    done = ctl("launch", "--ssh", ssh(tmp_path), "--hostfile", tmp_path / "hosts.json", "--",
               "sh", "-c", "echo $MLX_RANK of $MLX_WORLD_SIZE, $A")
    assert sorted(done.stdout.splitlines()) == ["[0] 0 of 2, 1", "[1] 1 of 2, 1"], done.stderr


def test_a_host_file_with_several_ranks_on_a_host_warns_of_the_shared_gpu(tmp_path):
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    done = ctl("launch", "--hostfile", tmp_path / "hosts", "--", "true")
    assert done.stderr == "mlxcommctl: the host file puts 2 ranks on localhost, which share its GPU\n"


@pytest.mark.parametrize("words, ranks", [(["-N", "3"], 3), (["-n", "2", "-N", "3"], 3), (["-n", "2"], 4)])
def test_ranks_in_all_are_spread_over_the_hosts(tmp_path, words, ranks):
    done = launch(ssh(tmp_path), *words, "--", "sh", "-c", "echo $MLX_WORLD_SIZE", hosts="far,further")
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {ranks}" for rank in range(ranks)], done.stderr


def test_another_release_is_refused_before_anything_starts(tmp_path):
    # A hello of release 9.9: field 1 of LaunchFrame with field 1 of LaunchHello.
    stand_in = ssh(tmp_path, "echo 'mlxcommctl launch, frames 1'; printf '\\000\\000\\000\\007\\012\\005"
                             "\\012\\0039.9'; exec sleep 60\n")
    done = launch(stand_in, "--", "touch", tmp_path / "started")
    assert done.returncode == 1 and not (tmp_path / "started").exists()
    assert "host far: mlxcommctl there is release 9.9, here" in done.stderr
    assert "install the same on both; nothing was started" in done.stderr


def test_a_host_without_mlxcomm_is_reported(tmp_path):
    stand_in = ssh(tmp_path, 'command=$(printf %s "$command" | sed s,/mlxcommctl,/no-such-program,g);'
                             ' PATH=/usr/bin:/bin; exec sh -c "$command"\n')
    done = launch(stand_in, "--", "true")
    assert done.returncode == 1, done.stdout
    assert "[far] mlxcommctl is neither at" in done.stderr
    assert "host far: ssh ended with exit code 127: install the same release there" in done.stderr
    assert done.stderr.endswith("; nothing was started\n")


def test_every_unavailable_host_is_reported(tmp_path):
    stand_in = ssh(tmp_path, 'case $host in far) exec sh -c "$command" ;; *) exit 255 ;; esac\n')
    done = launch(stand_in, "--", "touch", tmp_path / "started", hosts="far,away[1-2]")
    assert done.returncode == 1 and not (tmp_path / "started").exists()
    assert sorted(done.stderr.splitlines()) == [
        f"mlxcommctl: host away{i}: ssh ended with exit code 255: "
        f"try it by hand ({stand_in} -v away{i} true); nothing was started" for i in (1, 2)]


# Why: a program that knows only MLX's MPI backend must use the daemon unchanged.
def test_mpi_shim_beside_mlxcommctl_is_named_to_ranks(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    own = shutil.copy(find_program("mlxcommctl"), tmp_path / "bin")
    library = tmp_path / "lib" / f"libmlxcomm_mpi.{'dylib' if sys.platform == 'darwin' else 'so'}"
    environment = {k: v for k, v in os.environ.items() if k != "MLX_MPI_LIBNAME"}
    stand_in = ssh(tmp_path)

    def shown(*words, **more):
        command = [own, "launch", "--ssh", stand_in, *words, "--", "sh", "-c", "echo $MLX_MPI_LIBNAME"]
        return completed(command, env={**environment, **more}).stdout

    assert shown() == "[0] \n", "there is none"
    library.touch()
    assert shown() == shown("--hosts", "far") == f"[0] {library}\n"
    assert shown("--env", "MLX_MPI_LIBNAME=mine") == "[0] mine\n"
    assert shown(MLX_MPI_LIBNAME="mine") == "[0] mine\n"


# Why: `exec > >(tee log)` in a script prints after the script's own process has ended.
@pytest.mark.parametrize("hosts", ["far", "localhost"])
def test_what_prints_after_its_rank_has_ended_is_shown(tmp_path, hosts):
    done = launch(ssh(tmp_path), "--", "sh", "-c",
                  "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo late) & echo first", hosts=hosts)
    assert (done.returncode, done.stdout) == (0, "[0] first\n[0] late\n"), done.stderr


def test_long_lines_of_a_host_are_complete(tmp_path):
    done = launch(ssh(tmp_path, "seq -s, 1 9000 >&2; exit 255\n"), "--", "true")
    reported = "".join(line[len("[far] "):] for line in done.stderr.splitlines() if line.startswith("[far] "))
    assert reported == ",".join(str(i) for i in range(1, 9001))


# Why: with the variable a stock program uses MLX's ring and that file's ranks.
def test_hostfile_of_another_launch_is_not_the_ranks(tmp_path):
    stand_in = ssh(tmp_path)
    for hosts in ("far", "localhost"):
        for words, shown in (((), "unset"), (("--env", "MLX_HOSTFILE=mine"), "mine")):
            done = ctl("launch", "--ssh", stand_in, "--hosts", hosts, *words, "--", "sh", "-c",
                       "echo ${MLX_HOSTFILE-unset}", env={**os.environ, "MLX_HOSTFILE": "/yesterdays"})
            assert done.stdout == f"[0] {shown}\n", done.stderr


def test_an_environment_that_is_too_large_is_refused(tmp_path):
    stand_in = ssh(tmp_path)
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps({"envs": ["A=" + "x" * (1 << 20)], "hosts": [{"ssh": "far"}]}))
    done = ctl("launch", "--ssh", stand_in, "--hostfile", file, "--", "touch", tmp_path / "started")
    assert done.returncode == 1 and not (tmp_path / "started").exists()
    assert "host far: the ranks' command and variables have 10" in done.stderr, done.stderr


def test_garbage_from_a_host_ends_the_launch(tmp_path):
    done = launch(ssh(tmp_path, "echo 'mlxcommctl launch, frames 1'; exec cat /dev/zero\n"), "--", "true")
    assert done.returncode == 1 and "unexpected reply: is mlxcommctl there the same release?" in done.stderr


def test_a_missing_ssh_is_reported():
    done = launch("no-such-ssh", "--", "true")
    assert done.returncode == 1 and "cannot start no-such-ssh" in done.stderr
    assert "(openssh-client), or name the command (mlxcommctl launch --ssh)" in done.stderr


@pytest.mark.parametrize("words", [
    ("--hosts", "a", "--hostfile", "b"), ("--hosts", "a", "--nodes", "all"), ("--env", "1A=b"),
    ("--hosts", "-oProxyCommand=x"), ("--hosts", "ada@-oProxyCommand=x"), ("--hosts", "mac-1;id"),
    ("--hosts", "$(id)"), ("--hosts", "`id`"), ("--hosts", "a|b"), ("--hosts", "@mac-1"), ("--ssh", " "),
    ("--hosts", "a,,b"), ("-n", "0")])
def test_wrong_usage_is_exit_code_2(words):
    assert ctl("launch", *words, "--", "true").returncode == 2
