"""mlxcommctl launch over ssh: ranks of one job on several hosts, as one program."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import find_program
from ground.ssh_hosts import SshHosts
from ground.wiring import pair, switch

ALL = ("--hosts", "node-[0-2]")


@pytest.fixture
def hosts(lab):
    return SshHosts(lab(switch(3)))


def sh(script):
    return ("--", "sh", "-c", script)


def test_ranks_get_their_place_on_every_host(hosts):
    done = hosts.run(*ALL, "-n", "2", *sh('echo "$LAB_HOST: $MLX_RANK of $MLX_WORLD_SIZE in $MLXCOMM_JOB"'))
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split(" in ")[0] for line in lines] == [
        f"[{rank}] node-{rank // 2}: {rank} of 6" for rank in range(6)]
    assert len({line.split(" in ")[1] for line in lines}) == 1


def test_nodes_of_the_cluster_train_together(hosts, tmp_path):
    """`--nodes all`: names and states come from the daemon, this node needs no ssh."""
    (tmp_path / "stop").touch()
    train = __file__.replace("test_ssh_launch", "train")
    done = hosts.run("--nodes", "all", "--", sys.executable, "-u", train, tmp_path / "stop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum("the same bits on all ranks" in line for line in done.stdout.splitlines()) == 3


def test_bench_measures_the_cables_in_one_command(hosts):
    small = ("-b", "64K", "-e", "64K", "-i", "3", "-w", "1")
    done = hosts.call([find_program("mlxcommctl"), "bench", "--nodes", "all", *small])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("all_reduce sum, 3 ranks on node-0, node-1, node-2, 3 iterations")
    assert "\nlinks, at 64 KiB\n" in done.stdout and "\n  node-0 to node-1  " in done.stdout
    done = hosts.call([find_program("mlxcommctl"), "bench", "-n", "2", *small])
    assert "2 ranks on node-0, " in done.stdout and "mlxcommctl bench --nodes all" in done.stdout


def test_a_missing_node_is_reported(hosts):
    done = hosts.run("--nodes", "node-0,node-7", *sh("true"))
    assert done.returncode == 2 and "cluster lab has no node node-7" in done.stderr


def test_both_streams_stay_apart_and_every_byte_comes(hosts):
    script = 'seq 20000; echo "oops $MLX_RANK" >&2; printf "no end"'
    done = hosts.run(*ALL, *sh(script))
    assert done.returncode == 0
    for rank in range(3):
        mine = [line[4:] for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert mine == [str(i) for i in range(1, 20001)] + ["no end"]
    # The startup output of the machine's shells gets the prefix [node-N].
    said_by_ranks = [line for line in done.stderr.splitlines() if not line.startswith("[node-")]
    assert sorted(said_by_ranks) == [f"[{rank}] oops {rank}" for rank in range(3)]


def waiting_ranks(hosts, *options, trap="", rank_1=""):
    """A launch whose ranks have printed their process numbers (in the lab) and wait."""
    script = (f'{trap} sh -c "sleep 3600" & echo "pid $$ child $!"; '
              f'if [ "$MLX_RANK" = 1 ]; then read go < {hosts.folder}/go; {rank_1} fi; wait; wait')
    subprocess.run(["mkfifo", hosts.folder / "go"], check=True)
    process = hosts.launch(*ALL, *options, *sh(script))
    pids = {}
    while len(pids) < 3:
        words = process.wait_for("pid").split()
        pids[int(words[0].strip("[]"))] = (int(words[2]), int(words[4]))
    return process, pids


def go(hosts):
    (hosts.folder / "go").write_text("go\n")


def all_gone(hosts, pids):
    for rank in pids:
        for pid in pids[rank]:
            hosts.wait_gone(pid)


@pytest.mark.parametrize("how, code, said", [
    ("exit 7;", 7, "ended with exit code 7; the others have 5.0 s to end"),
    ("kill -9 $$;", 137, "was killed by SIGKILL; the others have 5.0 s to end"),
])
def test_first_failure_ends_all_with_what_they_started(hosts, how, code, said):
    process, pids = waiting_ranks(hosts, rank_1=how)
    go(hosts)
    assert process.finish() == code
    assert any(said in line for line in process.lines), process.lines
    all_gone(hosts, pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_ranks_on_every_host(hosts, number):
    name = signal.Signals(number).name[3:]
    process, pids = waiting_ranks(hosts, trap=f"trap 'echo told; exit 0' {name};",
                                  rank_1="exit 3;")
    process.signal(number)
    assert process.finish() == 128 + number
    assert sum("told" in line for line in process.lines) >= 2, process.lines
    all_gone(hosts, pids)


# Why: an abandoned rank would hold a GPU and its place in the job forever.
def test_ranks_end_when_launch_is_killed(hosts):
    process, pids = waiting_ranks(hosts)
    process.signal(signal.SIGKILL)
    all_gone(hosts, pids)


def test_a_broken_connection_is_reported_and_ends_all_ranks(hosts):
    process, pids = waiting_ranks(hosts)
    found = hosts.cluster.namespaces.call(["pgrep", "-f", "ssh -F .* node-2 exec"]).split()
    hosts.cluster.namespaces.call(["kill", "-9", found[0]])
    assert process.finish() == 1
    lost = "host node-2: the connection is lost (ssh ended by signal 9 (Killed)), and so rank 2"
    assert any(lost in line for line in process.lines), process.lines
    all_gone(hosts, pids)


@pytest.mark.parametrize("other, said", [
    ("node-9", "Could not resolve hostname node-9"),
    ("10.0.0.250", "10.0.0.250"),
])
def test_an_unreachable_host_does_not_disturb_the_others(hosts, other, said):
    done = hosts.run("--hosts", f"node-1,{other}", *sh(f"touch {hosts.folder}/started"))
    assert done.returncode == 1
    assert f"[{other}] ssh: " in done.stderr and said in done.stderr, done.stderr
    assert f"host {other}: ssh ended with exit code 255: check " in done.stderr
    assert done.stderr.endswith("; nothing was started\n")
    assert not (hosts.folder / "started").exists()


# How: the messages of the real OpenSSH lead to the remedies.
def test_launch_reports_what_to_do_about_a_host_that_ssh_does_not_reach(hosts):
    def reported(host, config=None):
        done = hosts.run("--hosts", host, *sh("true"), config=config)
        assert done.returncode == 1, done.stderr
        return done.stderr

    one_known = hosts.client_config("knows_one", known=["node-1"])
    assert hosts.run("--hosts", "node-1", *sh("true"), config=one_known).returncode == 0
    accept = f"compare the fingerprint and accept it (ssh -F {one_known} node-2 true)"
    assert accept in reported("node-2", one_known)
    changed = hosts.client_config("changed", known=[])
    (hosts.folder / "changed_hosts").write_text(
        "node-2 " + " ".join((hosts.folder / "user_key.pub").read_text().split()[:2]) + "\n")
    assert "forget its old key (ssh-keygen -R node-2)" in reported("node-2", changed)
    (hosts.folder / "authorized").write_text("")
    assert "(ssh-copy-id node-1, with the same options as --ssh; none yet" in reported("node-1")
    assert "check the name" in reported("no-such-node")
    hosts.servers[1].signal(signal.SIGTERM)
    hosts.servers[1].finish()
    assert "let it accept ssh" in reported("node-1")


def test_environment_comes_as_it_is(hosts):
    value = "two words 'single' \"double\" $HOME `id` \\ back!slash * \n second line"
    done = hosts.run("--hosts", "node-1", "--env", f"ODD={value}", "--env", "EMPTY=",
                     *sh('printf "%s|%s|" "$ODD" "${EMPTY-unset}"'))
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace("\n[0] ", "\n") == f"[0] {value}||\n"


def test_arguments_come_as_they_are(hosts):
    words = ["a b", "it's", '"', "$x", "\\", "", "*"]
    done = hosts.run("--hosts", "node-1", "--", sys.executable, "-c",
                     "import json, sys; print(json.dumps(sys.argv[1:]))", *words)
    assert json.loads(done.stdout[len("[0] "):]) == words, done.stderr


def test_directory_is_the_one_asked_for(hosts):
    there = hosts.folder / "a place"
    there.mkdir()
    assert hosts.run("--hosts", "node-1", "--cwd", there, "--", "pwd").stdout == f"[0] {there}\n"
    # Without --cwd it is the current folder, if the host has it.
    assert hosts.run("--hosts", "node-1", "--", "pwd").stdout == f"[0] {hosts.cluster.folder}\n"
    done = hosts.run("--hosts", "node-1", "--cwd", "/no/such", "--", "pwd")
    assert done.returncode == 127 and "host node-1: no folder /no/such; nothing was started" in done.stderr


def test_python_is_that_of_the_environment_with_mlxcomm(hosts):
    done = hosts.run("--hosts", "node-1", "--", "python", "-c", "import sys; print(sys.prefix)")
    assert done.stdout == f"[0] {sys.prefix}\n", done.stderr


@pytest.mark.parametrize("stdin, counts", [("all", ["3000000", "3000000"]), ("0", ["3000000", "0"])])
def test_ranks_on_other_hosts_read_launchs_input(hosts, stdin, counts):
    text = "x" * 3_000_000
    done = hosts.run("--hosts", "node-1,node-2", "--stdin", stdin, "--", "sh", "-c", "wc -c", input=text)
    assert sorted(line.split() for line in done.stdout.splitlines()) == [
        ["[0]", counts[0]], ["[1]", counts[1]]], done.stderr
    # It does not disturb a rank that reads nothing, either.
    done = hosts.run("--hosts", "node-1", "--", "true", input=text)
    assert done.returncode == 0, done.stderr


# Why: Each rank printed Python's own message, without the host's name.
def test_a_script_that_is_on_no_other_host_is_reported_before_anything_starts(hosts, tmp_path):
    done = hosts.run("--hosts", "node-1", "--cwd", tmp_path, "--", "python3", "nothere.py")
    assert done.returncode == 127
    assert done.stderr.splitlines()[-1] == (
        f"mlxcommctl: host node-1: nothere.py is not in {tmp_path}; nothing was started")


# Why: half of all .bashrc print something.
def test_what_the_users_shell_prints_is_not_taken_for_frames(lab):
    hosts = SshHosts(lab(pair()), forced_command={
        1: "echo welcome; echo careful >&2; printf 'no end'; eval \"$SSH_ORIGINAL_COMMAND\""})
    done = hosts.run("--hosts", "node-1", *sh("echo hello"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0] hello\n"
    assert sorted(done.stderr.splitlines()) == ["[node-1] careful", "[node-1] no end",
                                                "[node-1] welcome"]


RANK = str(pathlib.Path(__file__).parents[1] / "faults" / "launched_rank.py")


def said(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(line[line.index("rank"):].strip() for line in done.stdout.splitlines()
                  if " of 3 in " in line)


# Why: the launch's name must be the same on hosts where mpirun itself does not run.
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed (openmpi-bin)")
def test_mpirun_over_hosts_makes_one_job(hosts):
    done = hosts.call(["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", "ssh", "--host",
                       "node-0,node-1,node-2", sys.executable, "-u", RANK])
    lines = said(done)
    assert [line.split(" in ")[0] for line in lines] == [f"rank {r} of 3" for r in range(3)], done.stderr
    assert len({line.split(" in ")[1] for line in lines}) == 1 and " in mpirun-" in lines[0]


def test_mlx_launch_over_hosts_makes_one_job(hosts):
    file = hosts.folder / "mlx.json"
    file.write_text(json.dumps([{"ssh": name, "ips": [hosts.address(i)]}
                                for i, name in enumerate(hosts.names)]))
    done = hosts.call([find_program("mlx.launch"), "--backend", "ring", "--hostfile", str(file), "--",
                       sys.executable, "-u", RANK], input="")
    lines = said(done)
    assert [line.split(" in ")[0] for line in lines] == [f"rank {r} of 3" for r in range(3)], done.stderr
    assert len({line.split(" in ")[1] for line in lines}) == 1 and " in mlx-" in lines[0]
