"""Two users on real daemons: neither has access to the other's jobs, memory and records.

Only root can start processes as other users. The programs are copied to a folder that all users can read. The
users are numbers without accounts, unless a test is about names.
"""

import contextlib
import grp
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unicodedata

import pytest

from conftest import (
    PATIENCE,
    SIGKILL,
    Cluster,
    Process,
    clusters,
    find_program,
    find_test_program,
    wait_until,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start others' processes")
ANN, BOB = 61001, 61002


@contextlib.contextmanager
def as_user(uid):
    """Sets the effective user, which the other end of a socket gets with connect() and listen()."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Users(Cluster):
    """A cluster whose sockets all users can reach, and processes of theirs."""

    def __init__(self, folder, count, client_settings=""):
        super().__init__(folder, count, client_settings=f"unknown_users: true {client_settings}")
        self.public = pathlib.Path(tempfile.mkdtemp(prefix="mlxcomm-users-", dir="/tmp"))
        self.public.chmod(0o755)
        build = pathlib.Path(os.environ["MLXCOMM_BUILD"])
        for program in (find_program("mlxcommctl"), find_test_program("ground", "ground_rank"),
                        *(find_test_program("users", name) for name in ("users_trespasser", "users_vandal")),
                        *(build / "client" / "lib").glob("libmlxcomm*.so"),
                        *(build / "client" / "lib").glob("libmlxcomm*.dylib")):
            shutil.copy(program, self.public)

    def socket(self, node):
        return str(self.public / f"{node}.sock")

    def run_as(self, uid, program, *arguments, node=0, environment=None):
        process = Process([str(self.public / program), *map(str, arguments)],
                          {"MLXCOMM_SOCKET": self.socket(node), "HOME": "/", **(environment or {}),
                           "LD_LIBRARY_PATH": str(self.public), "DYLD_LIBRARY_PATH": str(self.public)},
                          user=uid, group=uid, extra_groups=[], cwd="/")
        self.ranks.append(process)
        return process

    def rank_as(self, uid, rank, size, *words, node=0, job="train"):
        return self.run_as(uid, "ground_rank", rank, size, job, *words, node=node)

    def ask_as(self, uid, *arguments, node=0, group=None):
        done = subprocess.run([str(self.public / "mlxcommctl"), *arguments, "--socket",
                               self.socket(node)], capture_output=True, text=True,
                              timeout=PATIENCE, user=uid, group=group or uid, extra_groups=[],
                              cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, uid, node=0):
        status = json.loads(self.ask_as(uid, "status", "--json", node=node))
        return [(job["user"], job["name"], job["state"]) for job in status["jobs"]], status

    def end(self):
        super().end()
        shutil.rmtree(self.public, ignore_errors=True)


@pytest.fixture
def users(tmp_path):
    yield from clusters(Users, tmp_path)


def job_of_two(cluster, uid, stop, nodes=(0, 0)):
    """Starts two ranks that sum once, and again when the file exists."""
    ranks = [cluster.rank_as(uid, rank, 2, "sum:64", f"await:{stop}", "sum:64", node=node)
             for rank, node in enumerate(nodes)]
    for rank in ranks:
        rank.wait_for("summed")
    return ranks


@pytest.mark.parametrize("nodes", [(0, 0), (0, 1)])
def test_two_users_jobs_of_one_name_go_on_side_by_side_unseen(users, tmp_path, nodes):
    c = users(len(set(nodes)))
    stop = c.public / "stop"
    ranks = job_of_two(c, ANN, stop, nodes) + job_of_two(c, BOB, stop, nodes)
    for uid, other, node in ((ANN, BOB, 0), (BOB, ANN, nodes[1])):
        jobs, status = c.jobs(uid, node)
        assert jobs == [(f"#{uid}", "train", "running")]
        assert status["jobs_of_others"] == 1
        assert f"#{other}" not in json.dumps(status)
        pids = {int(rank["pid"]) for rank in status["jobs"][0]["ranks"]}
        own = {r.child.pid for r in (ranks[:2] if uid == ANN else ranks[2:])}
        assert pids == own
        use = status["nodes"][0]["users"]
        assert [u["user"] for u in use] == [f"#{uid}"]
        assert int(use[0]["clients"]) == 3 - len(set(nodes))
        text = c.ask_as(uid, "status", "-v", node=node)
        assert "1 job of other users" in text and f"user #{uid}" in text
    assert [user for user, _, _ in c.jobs(0)[0]] == [f"#{ANN}", f"#{BOB}"], "root sees all"
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0] * 4, [rank.lines for rank in ranks]


def test_only_its_user_sees_what_a_job_did(users):
    c = users(1)
    for uid, size in ((ANN, 800), (BOB, 1600)):
        ranks = [c.rank_as(uid, rank, 2, f"sum:{size}") for rank in (0, 1)]
        assert [rank.finish() for rank in ranks] == [0, 0]
    for uid, own, other in ((ANN, "uint64[100]", "uint64[200]"),
                            (BOB, "uint64[200]", "uint64[100]")):
        for verb in (("record", "-n", "0"), ("trace",)):
            reported = c.ask_as(uid, *verb)
            assert own in reported and other not in reported, (verb, reported)
        hidden = json.loads(c.ask_as(uid, "record", "--json"))["operations_of_others"]
        assert int(hidden) > 0
        assert "of other users" in c.ask_as(uid, "record")
    everything = c.ask_as(0, "record", "-n", "0")
    assert "uint64[100]" in everything and "uint64[200]" in everything


# Why: group ids can be guessed, and an attacker does not use the library.
def test_a_user_cannot_use_another_users_group(users):
    c = users(1)
    stop = c.public / "stop"
    ranks = job_of_two(c, BOB, stop)
    record = json.loads(c.ask_as(0, "record", "--json", "-n", "1"))
    group = record["operations"][0]["group"]
    trespasser = c.run_as(ANN, "users_trespasser", c.socket(0), group)
    assert trespasser.finish() == 0, trespasser.lines
    reported = dict(line.split(": ", 1) for line in trespasser.lines)
    for call in ("split", "shrink", "release", "submit"):
        assert reported[call].startswith("INVALID_ARGUMENT"), trespasser.lines
        assert "train" not in reported[call], "it learns nothing of it"
    assert reported["cancel"].startswith("OK"), "as for an operation that has ended"
    # The same job name and a taken rank, as another user: it waits for its own job.
    waiting = c.rank_as(ANN, 0, 2, "sum:64")
    wait_until(lambda: c.jobs(ANN)[0] == [(f"#{ANN}", "train", "forming")], "it waits alone")
    waiting.signal(SIGKILL)
    waiting.finish()
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]


def test_a_limit_is_one_users_and_is_free_again_after_a_crash(users):
    c = users(1, client_settings="clients_per_user_max: 2")
    stop = c.public / "stop"
    ranks = job_of_two(c, ANN, stop)
    third = c.rank_as(ANN, 0, 1, "sum:64", job="other")
    assert third.finish() != 0
    refusal = "\n".join(third.lines)
    assert (f"user #{ANN} has 2 clients already" in refusal and
            "clients { clients_per_user_max }" in refusal), refusal
    assert c.rank_as(BOB, 0, 1, "sum:64").finish() == 0, "nobody else's business"
    ranks[0].signal(SIGKILL)
    assert ranks[0].finish() == -SIGKILL
    stop.touch()
    assert ranks[1].finish() == 3, ranks[1].lines
    wait_until(lambda: not c.jobs(0)[1]["nodes"][0]["users"], "nothing is left of the job")
    again = [c.rank_as(ANN, rank, 2, "sum:64") for rank in (0, 1)]
    assert [rank.finish() for rank in again] == [0, 0], [rank.lines for rank in again]


def test_the_operators_group_sees_all_and_accounts_have_names(users):
    account = pwd.getpwnam("daemon")  # Exists on every Debian and Mac, with its own group.
    group = grp.getgrgid(account.pw_gid).gr_name
    c = users(1, client_settings=f'operators_group: "{group}"')
    stop = c.public / "stop"
    ranks = job_of_two(c, BOB, stop)
    assert c.jobs(account.pw_uid)[0] == [(f"#{BOB}", "train", "running")], "an operator"
    assert c.jobs(ANN)[0] == []
    ranks += job_of_two(c, account.pw_uid, stop)
    assert c.jobs(0)[0] == [(f"#{BOB}", "train", "running"), ("daemon", "train", "running")]
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0] * 4


def test_a_rank_that_scribbles_over_its_page_harms_no_other_user(users):
    """As in tests/faults/test_meeting.py, with jobs of two users; verbs still print valid JSON."""
    c = users(1)
    process = Process([find_test_program("faults", "meeting_attack"), c.socket(0), "scribble", "7", str(ANN),
                       str(BOB)])
    c.ranks.append(process)
    while process.child.poll() is None:
        for verb in (("status", "--json"), ("record", "--json"), ("topology", "--json"), ("trace",)):
            assert json.loads(c.ask_as(0, *verb))
        assert all(map(json.loads, c.ask_as(0, "events", "--json").splitlines()))
    assert process.finish() == 0, process.lines
    assert "the other job was exact" in process.lines[-1]
    status = c.status()
    assert status["nodes"][0]["state"] == "up" and not status["jobs"], status


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_ranks_of_several_accounts_share_no_memory(users):
    """Why: any rank can write to the page on which ranks meet."""
    def has_page(rank):
        return "mlxcomm-page" in pathlib.Path(f"/proc/{rank.child.pid}/maps").read_text()
    c = users(1, client_settings="users: SHARED")
    stop = c.public / "stop"
    of_one = job_of_two(c, ANN, stop)
    of_two = [c.rank_as(uid, rank, 2, "sum:64", f"await:{stop}", "sum:64", job="mixed")
              for rank, uid in enumerate((ANN, BOB))]
    for rank in of_two:
        rank.wait_for("summed")
    assert [has_page(rank) for rank in of_one + of_two] == [True, True, False, False]
    stop.touch()
    assert [rank.finish() for rank in of_one + of_two] == [0] * 4


# Why: without XDG_RUNTIME_DIR and TMPDIR (cron, su, containers) a private daemon's socket is in /tmp, where
# any user can create one first and get every client's memory. How: Bob's socket is at the path of Ann's and
# root's private daemons. It must not get even a hello.
@pytest.mark.parametrize("alien", ["folder", "socket", "listener", "all of a namespace"])
@pytest.mark.parametrize("uid", [0, ANN])
def test_another_users_daemon_is_not_taken_for_ones_own(users, uid, alien):
    """In a user namespace without a mapping all users look the same."""
    before = ["unshare", "--user"] if alien == "all of a namespace" else []
    if before and subprocess.run([*before, "true"], user=ANN, group=ANN, check=False).returncode != 0:
        pytest.skip("this user may not make a user namespace")
    c = users(0)
    folder = c.public / f"mlxcommd-{65534 if before else uid}"  # Every user's number in the namespace.
    folder.mkdir()
    os.chown(folder, BOB, BOB)
    path = folder / "mlxcommd.sock"
    impostor = socket.socket(socket.AF_UNIX)
    with as_user(BOB):
        impostor.bind(str(path))
        impostor.listen()
    path.chmod(0o666)
    if alien != "folder":
        os.chown(folder, uid, uid)
    if alien in ("listener", "all of a namespace"):
        os.chown(path, uid, uid)
    here = {"XDG_RUNTIME_DIR": str(c.public), "HOME": "/", "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(c.public), "DYLD_LIBRARY_PATH": str(c.public)}
    said = {"folder": f"{folder}, mlxcommd's folder, belongs to user {BOB}, not to user {uid}:",
            "socket": f"{path}, mlxcommd's socket, belongs to user {BOB}, not to user {uid}:",
            "listener": f"mlxcommd at {path} is run by user {BOB}, not by user {uid}:",
            "all of a namespace": "In a user namespace, this uid stands for all users"}[alien]
    for program in (["mlxcommctl", "status"], ["ground_rank", "0", "1", "job", "sum:64"]):
        victim = subprocess.Popen([*before, str(c.public / program[0]), *program[1:]], env=here, cwd="/",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=uid,
                                  group=uid, extra_groups=[])
        reported = victim.communicate(timeout=PATIENCE)[0]
        assert victim.returncode != 0, reported
        assert said in reported and str(folder) + " removed" in reported
        impostor.setblocking(False)
        if alien == "listener":  # Its owner is known only once it exists.
            assert impostor.accept()[0].recv(4096) == b"", "it hears not a byte"
        else:
            with pytest.raises(BlockingIOError):
                impostor.accept()
    impostor.close()


# Why: it seems to serve all users, but processes of other users refuse it.
def test_a_daemon_of_an_ordinary_user_warns_that_it_serves_that_user_only(users):
    c = users(0)
    shutil.copy(find_program("mlxcommd"), c.public)
    config = c.public / "config"
    config.write_text(f'state_directory: "{c.public}/state" socket_path: "{c.public}/bob/socket"\n'
                      "clients { all_users: true }\n")
    for uid, said in ((0, ""), (BOB, f"will serve only user {BOB} and root")):
        checked = c.run_as(uid, "mlxcommd", "--config", config, "--check-config")
        assert checked.finish() == 0, checked.lines
        assert said in "\n".join(checked.lines) and bool(checked.lines) == bool(said), checked.lines
    (c.public / "bob").mkdir()
    (c.public / "state").mkdir()
    for folder in ("bob", "state"):
        os.chown(c.public / folder, BOB, BOB)
    daemon = c.run_as(BOB, "mlxcommd", "--config", config)
    daemon.wait_for(f"will serve only user {BOB} and root")
    daemon.wait_for("is ready")
    for program in (["mlxcommctl", "status"], ["ground_rank", "0", "1", "job", "sum:64"]):
        process = c.run_as(ANN, *program, environment={"MLXCOMM_SOCKET": str(c.public / "bob" / "socket")})
        assert process.finish() != 0
        refused = f"mlxcommd's folder, belongs to user {BOB}, not to user {ANN} or root"
        assert refused in "\n".join(process.lines), process.lines


EVIL = "job\x1b[2J", "two\nlines", "a\tb", "\u202eback", "bell\a", "'; rm -rf", "x" * 200, "y" * 201


def has_control(text):
    return any(unicodedata.category(character) == "Cc" for character in text)


# Why: these names are shown in terminals.
def test_names_that_processes_choose_are_refused_or_shown_without_control_characters(users):
    c = users(1)
    program = c.public / "e\x1b[2J\nvil\u202e"
    shutil.copy(c.public / "ground_rank", program)
    ranks = [c.run_as(BOB, program.name, 0, 2, name, "sum:8") for name in EVIL]
    wait_until(lambda: len(c.jobs(BOB)[0]) == 3, "ranks with valid names wait for their other rank")
    assert {rank.finish() for rank, name in zip(ranks, EVIL) if has_control(name) or len(name) > 200} == {3}
    shown = [c.ask_as(0, *verb) for verb in (
        ("status", "-v"), ("record", "-n", "0"), ("events", "--last", "99"), ("status", "--json"), ("jobs",))]
    doctor = c.run_as(BOB, "mlxcommctl", "doctor")
    doctor.finish()  # Its code reports the awaited ranks.
    assert all("rm -rf" in text for text in (shown[0], shown[3], "".join(doctor.lines)))
    for rank in ranks:
        rank.end()
    c.daemons[0].signal(signal.SIGTERM)
    assert c.daemons[0].finish() == 0
    for line in "\n".join(shown + doctor.lines + c.daemons[0].lines).split("\n"):
        assert not has_control(line), line


# Why: one account may use 65536 user ids without accounts, each with its own places.
def test_a_user_without_an_account_is_refused_unless_the_configuration_serves_it(tmp_path):
    c = Users(tmp_path, 1)
    c.settings = ("", *c.settings[1:])
    c.start()
    try:
        process = c.run_as(ANN, "mlxcommctl", "status")
        assert process.finish() != 0
        assert f"it does not serve user {ANN}, who has no account on this machine" in "".join(process.lines)
        assert "clients { unknown_users: true }" in "".join(process.lines)
    finally:
        c.end()
