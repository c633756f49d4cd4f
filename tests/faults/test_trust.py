"""The cluster's key: how mlxcommctl makes, passes on and changes it, encryption, and refused nodes."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

import pytest
from listening_relay import Listener

from conftest import PATIENCE, RANK, Process, find_program, free_port, mlxcommctl, wait_until
from ground.outcomes import all_fine, at_work, ranks_on


def ctl(*words, text=None, ok=True):
    done = mlxcommctl(*words, input=text)
    assert (done.returncode == 0) is ok, done
    return done


def cluster_ctl(c, node, *words, **rest):
    return ctl("cluster", *words, "--key-file", c.key_of(node), "--socket", c.socket(node), **rest)


@pytest.fixture
def own_keys(cluster):
    """A cluster in which each node has its own key file."""
    def make(count, **settings):
        c = cluster(count, start=False, **settings)
        c.own_keys()
        return c.start()
    return make


def rails_of(c, node=0):
    status = c.status(node)
    own = status["nodes"][0] if status else {"links": []}
    return [rail for link in own["links"] for rail in link["rails"] if rail["transport"] == "tcp"]


def ranks(c, *words, job="job"):
    return ranks_on(c, range(c.count), *words, job=job)


def test_create_show_join(tmp_path):
    """As with two machines: the code goes through a pipe, never on the command line."""
    one, other = tmp_path / "one" / "key", tmp_path / "other" / "key"
    made = ctl("cluster", "create", "--name", "studio", "--key-file", one)
    code = made.stdout.strip()
    assert re.fullmatch(r"studio:([0-9A-HJKMNP-TV-Z]{4}-){13}[0-9A-HJKMNP-TV-Z]{4}", code), made
    assert one.stat().st_mode & 0o777 == 0o600 and one.parent.stat().st_mode & 0o777 == 0o700
    assert "mlxcommctl cluster join" in made.stderr and code not in made.stderr
    assert ctl("cluster", "key", "show", "--key-file", one).stdout.strip() == code
    joined = ctl("cluster", "join", "--key-file", other, text=code.replace("-", " "))
    assert one.read_text() == other.read_text() and "studio" in joined.stderr
    assert other.stat().st_mode & 0o777 == 0o600
    third = tmp_path / "third"
    ctl("cluster", "join", "--key-file", third, "--from", one)
    assert third.read_text() == one.read_text()
    shown = ctl("cluster", "key", "show", "--id", "--key-file", one)
    assert shown.stdout == "" and code not in shown.stderr


# Why: people type the code after the verb, where `ps` shows it to other users.
def test_a_code_on_the_command_line_is_refused(tmp_path):
    key = tmp_path / "key"
    for verb in (("create",), ("join",), ("key", "show"), ("key", "rotate", "--take")):
        done = ctl("cluster", *verb, "--key-file", key, "studio:KQ1P", "0000", ok=False)
        assert done.returncode == 2 and "do not pass the code" in done.stderr
        assert "KQ1P" not in done.stderr and not key.exists()
    assert "CODE" not in ctl("cluster", "join", "--help").stdout.split("Options:")[0]


# Why: it always used the key in /etc.
def test_the_key_is_that_of_the_daemon_that_is_named(own_keys):
    c = own_keys(2)
    for node in range(2):
        shown = ctl("cluster", "key", "show", "--id", "--socket", c.socket(node))
        assert str(c.key_of(node)) in shown.stderr


def test_a_key_that_is_there_stays(tmp_path):
    key = tmp_path / "key"
    ctl("cluster", "create", "--key-file", key)
    before = key.read_text()
    assert "already belongs to a cluster" in ctl("cluster", "create", "--key-file", key, ok=False).stderr
    other = ctl("cluster", "create", "--key-file", tmp_path / "other").stdout
    refused = ctl("cluster", "join", "--key-file", key, text=other, ok=False).stderr
    assert "another key" in refused and "rotate --take" in refused
    ctl("cluster", "join", "--key-file", key, text=ctl("cluster", "key", "show", "--key-file", key).stdout)
    assert key.read_text() == before


def test_a_typed_code_is_not_echoed_and_the_terminal_is_restored(tmp_path):
    """How: Ctrl-C at the prompt; a program that just exits would leave the echo off."""
    code = ctl("cluster", "create", "--key-file", tmp_path / "key").stdout
    for typed in (code.encode(), b"\x03"):
        near, far = pty.openpty()
        child = subprocess.Popen([find_program("mlxcommctl"), "cluster", "join", "--key-file",
                                  str(tmp_path / "new")], stdin=far, stdout=far, stderr=far,
                                 start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        shown = b""
        while b": " not in shown:
            shown += os.read(near, 4096)
        wait_until(lambda: not termios.tcgetattr(far)[3] & termios.ECHO, "nothing is shown")
        os.write(near, typed)
        assert child.wait(PATIENCE) == (0 if typed != b"\x03" else -signal.SIGINT)
        assert termios.tcgetattr(far)[3] & termios.ECHO
        os.set_blocking(near, False)
        with contextlib.suppress(BlockingIOError):
            shown += os.read(near, 65536)
        assert code.strip().encode() not in shown
        os.close(near)
        os.close(far)


def test_finish_needs_to_know_that_every_node_has_the_new_key(tmp_path):
    """How: no daemon runs, so it is unknown which nodes have the new key."""
    key, nobody = tmp_path / "key", ("--socket", tmp_path / "none")
    ctl("cluster", "create", "--key-file", key)
    ctl("cluster", "key", "rotate", "--key-file", key, *nobody)
    before = key.read_text()
    refused = ctl("cluster", "key", "rotate", "--finish", "--key-file", key, *nobody, ok=False).stderr
    assert "cannot check" in refused and "--force" in refused and key.read_text() == before
    ctl("cluster", "key", "rotate", "--finish", "--force", "--key-file", key, *nobody)
    assert key.read_text() == "\n".join(before.splitlines()[:1]) + "\n"


@pytest.mark.parametrize("asked, found", [("TLS", "tls"), ("PLAIN", "plain"), ("AUTO", "plain")])
def test_status_shows_whether_a_rail_is_encrypted(cluster, asked, found):
    """AUTO: plain here, because loopback never leaves the machine."""
    c = cluster(2, peer_settings=f"security: {asked}")
    assert {rail["security"] for node in (0, 1) for rail in rails_of(c, node)} == {found}
    text = ctl("status", "-v", "--socket", c.socket(0)).stdout
    assert ("TLS" if found == "tls" else "plain") in text
    all_fine(ranks(c, "sum:8", "sum:1000000"))


@pytest.mark.parametrize("security", ["TLS", "PLAIN"])
def test_an_eavesdropper_cannot_read_encrypted_payload(cluster, security):
    """A rank's input and its result consist of many equal numbers in a row."""
    c = cluster(2, start=False, peer_settings=f"security: {security}")
    listener = Listener(c.ports[0])
    c.dials = lambda node, dialed: listener.own_port
    c.start()
    all_fine([c.rank(rank, 2, RANK, node=rank, arguments=["sum:float32:1000000"]) for rank in (0, 1)])
    heard = bytes(listener.dialers_said + listener.daemon_said)
    assert len(heard) > 4_000_000
    payload = [struct.pack("<f", value) * 16 for value in (1, 2, 3)]
    assert any(values in heard for values in payload) is (security == "PLAIN")


def test_key_is_changed_while_a_job_runs(own_keys):
    """Afterwards the old key is refused, and a node that returns is accepted with the new one."""
    c = own_keys(3, peer_settings="security: TLS")
    with at_work(c, range(c.count), 100_000):
        old = ctl("cluster", "key", "show", "--key-file", c.key_of(0)).stdout
        code = cluster_ctl(c, 0, "key", "rotate").stdout
        assert "in progress" in cluster_ctl(c, 0, "key", "rotate", ok=False).stderr
        refused = cluster_ctl(c, 0, "key", "rotate", "--finish", ok=False).stderr
        assert "node-1" in refused and "node-2" in refused and "--take" in refused
        for node in (1, 2):
            taken = cluster_ctl(c, node, "key", "rotate", "--take", text=code).stderr
            assert "has read the key" in taken
        assert len({tuple(node["cluster_keys"]) for node in c.status()["nodes"]}) == 1
        for node in range(3):
            cluster_ctl(c, node, "key", "rotate", "--finish")
        assert [len(node["cluster_keys"]) for node in c.status()["nodes"]] == [1, 1, 1]
        new = c.status()["nodes"][0]["cluster_keys"][0]
        for node in range(3):
            wait_until(lambda: {rail.get("key_id") for rail in rails_of(c, node)} == {new},
                       "all rails are proved with the new key")
    c.daemons[2].end()
    c.start_daemon(2)
    c.wait_linked()
    all_fine(ranks(c, "sum:100000", job="later"))
    c.daemons[2].end()
    pathlib.Path(c.key_of(2)).unlink()
    cluster_ctl(c, 2, "join", text=old)
    c.start_daemon(2).wait_for("does not hold this cluster's key")


def test_an_invalid_key_file_changes_nothing(own_keys):
    c = own_keys(2)
    before = c.status()["nodes"][0]["cluster_keys"]
    pathlib.Path(c.key_of(0)).write_text("no key")
    c.daemons[0].signal(1)
    c.daemons[0].wait_for("keeping the present keys")
    assert c.status()["nodes"][0]["cluster_keys"] == before
    assert ("reload_failed", "cluster key") in [(e["kind"], e["object"]) for e in c.events()]


def test_a_key_of_another_cluster_is_named_on_both_sides_and_costs_no_job(own_keys):
    c = own_keys(2, peer_settings="security: TLS")
    with at_work(c, range(c.count), 100_000):
        key = pathlib.Path(c.key_of(1))
        right = key.read_text(encoding="ascii")
        key.write_text(os.urandom(32).hex() + "\n", encoding="ascii")
        c.daemons[1].signal(1)
        for daemon in c.daemons:
            daemon.wait_for("does not hold this cluster's key")
        key.write_text(right, encoding="ascii")
        c.daemons[1].signal(1)
        c.wait_linked()


# Why: an operator would notice a mistake only at the next restart.
def test_settings_that_sighup_cannot_change_are_logged(own_keys):
    c = own_keys(2)
    config = c.write_config(0)  # Unchanged.
    text = config.read_text()

    def signalled(kind):
        c.daemons[0].signal(1)
        wait_until(lambda: any(e["kind"] == kind for e in c.events()), kind)
        return [e["text"] for e in c.events() if e["kind"] == kind][-1]

    signalled("reloaded")
    assert not any(e["kind"] == "restart_needed" for e in c.events()), "nothing has changed"
    config.write_text(text + "drain_timeout_ms: 77\n")
    assert "restart it to apply the change" in signalled("restart_needed")
    config.write_text(text + "speed: 1\n")
    assert "the next start will fail" in signalled("reload_failed")


def test_copied_machine_is_refused_and_named_on_every_node(duo, tmp_path):
    """Why: a copied disk has the same node id. The original keeps its link and its job."""
    shutil.copytree(tmp_path / "1", tmp_path / "copy")
    text = duo.write_config(1).read_text()
    for old, new in ((f"{tmp_path}/1", f"{tmp_path}/copy"), (str(duo.ports[1]), str(free_port()))):
        text = text.replace(old, new)
    config = tmp_path / "copy.textproto"
    config.write_text(text)
    with at_work(duo, range(2), 1000), Process([find_program("mlxcommd"), "--config", str(config)]) as copy:
        copy.wait_for("another machine that has the same node id")
        duo.daemons[0].wait_for("two machines have this node id, the other one at 127.0.0.1")
        duo.daemons[1].wait_for("another machine, at 127.0.0.1, has this node's id")
        for node in range(2):
            assert "also has the node id of node-1" in duo.ctl("status", node=node)
            assert "MC213" in duo.findings(node=node)
            assert any(one["kind"] == "same_id" for one in duo.events(node))
    assert not any(one["kind"] == "node_lost" for one in duo.events())
