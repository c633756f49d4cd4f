"""What mlxcommctl says about real daemons: topology, ping, events, doctor, a watched status, and a
report without keys."""

import base64
import html
import json
import os
import pathlib
import re
import shutil
import signal
import tarfile

import pytest

from conftest import SIGKILL, Process, completed, find_program, mlxcommctl, wait_until

RANK = pathlib.Path(__file__).parents[1] / "ground" / "rank.py"
# doctor: nothing, errors, warnings. Its findings about this machine are not the tests' subject.
DOCTOR_CODES = (0, 1, 4)


def events(cluster, node=0):
    return [json.loads(line) for line in cluster.ctl("events", "--json", "-n", "1000",
                                             node=node).splitlines()]


def findings(cluster, *words, node=0):
    report = json.loads(cluster.ctl("doctor", "--json", *words, node=node, codes=DOCTOR_CODES))
    return {finding["code"]: finding for finding in report["findings"]}


def test_topology_has_three_formats(cluster):
    c = cluster(2)
    assert "cluster test, 2 nodes: pair" in c.ctl("topology")
    report = json.loads(c.ctl("topology", "--json"))
    assert [node["name"] for node in report["nodes"]] == ["node-0", "node-1"]
    assert len(report["cables"]) == 1 and report["cables"][0]["state"] == "up"
    assert c.ctl("topology", "--dot").startswith("graph topology {")
    c.ctl("topology", "--svg", "--dot", codes=(2,))


def test_topology_svg_needs_graphviz_and_names_the_package(cluster, tmp_path):
    c = cluster(2)
    command = [find_program("mlxcommctl"), "topology", "--svg", "--socket", c.socket(0)]
    done = completed(command, env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 1 and "brew install graphviz" in done.stderr and not done.stdout
    if shutil.which("dot") is None:
        pytest.skip("graphviz is not installed (config/install-deps --tests installs it)")
    drawn = html.unescape(c.ctl("topology", "--svg"))
    assert "<svg " in drawn and ">node-0<" in drawn and ">node-1<" in drawn
    assert "<style>@media (prefers-color-scheme: dark)" in drawn


def test_a_ping_comes_back_and_a_stopped_node_loses_it(cluster):
    c = cluster(2)
    text = c.ctl("ping", "node-1", "-c", "3", "-i", "1ms", "-s", "64K")
    assert "node-1: 3 of 3 came back, 0% lost" in text and "\n  tcp 127.0.0.1" in text, text
    report = json.loads(c.ctl("ping", "node-1", "-c", "2", "-i", "1ms", "--json"))
    assert report["came_back"] == 2
    assert 0 < report["round_trip_ns_min"] <= report["round_trip_ns_mean"] <= report["round_trip_ns_max"]
    done = mlxcommctl("ping", "nobody", "--socket", c.socket(0))
    assert done.returncode == 1 and done.stderr.endswith("from node-0; it reaches node-1\n"), done
    done = mlxcommctl("ping", "node-0", "--socket", c.socket(0))
    assert "node-0 is this node: ping needs another one; it reaches node-1" in done.stderr, done
    c.daemons[1].signal(signal.SIGSTOP)
    try:
        text = c.ctl("ping", "node-1", "-c", "1", "-W", "50ms", codes=(1,))
    finally:
        c.daemons[1].signal(signal.SIGCONT)
    assert "lost: it has not answered in time" in text and "0 of 1 came back, 100% lost" in text


def test_events_report_nodes_jobs_and_strangers(cluster):
    c = cluster(2)
    ranks = [c.rank(r, 2, RANK, node=r, arguments=["sum:float32:8"]) for r in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0]
    wait_until(lambda: "job_ended" in {e["kind"] for e in events(c)}, "the job has ended")
    report = events(c)
    kinds = [event["kind"] for event in report]
    assert [k for k in kinds if k.startswith("job_")] == ["job_formed", "job_ended"], kinds
    assert {"node_up", "rail_up"} <= set(kinds) and "rank_gone" not in kinds, "they left in order"
    assert [int(e["number"]) for e in report] == list(range(1, len(report) + 1))
    survivor = c.rank(0, 2, RANK, node=0, job="second", arguments=["loop"])
    victim = c.rank(1, 2, RANK, node=1, job="second", arguments=["loop"])
    survivor.wait_for("looping")
    victim.signal(SIGKILL)
    survivor.wait_for("raised")
    failed = wait_until(lambda: [e for e in events(c) if e["kind"] == "job_failed"], "it failed")
    assert failed[0]["object"] == "job second" and "RANK_LOST" in failed[0]["text"]
    gone = wait_until(lambda: [e for e in events(c, 1) if e["kind"] == "rank_gone"], "its node says so, too")
    assert (gone[0]["object"], gone[0]["text"]) == (
        "job second", f"rank 1 (pid {victim.child.pid}) has left: its process ended")
    with pytest.raises(OSError):
        import socket
        with socket.create_connection(("127.0.0.1", c.ports[0])) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 20)
            while stranger.recv(4096):
                pass
            raise OSError
    wait_until(lambda: any(e["kind"] == "stranger_refused" for e in events(c)), "it was refused")


def test_followed_events_come_as_they_happen_and_end_well(cluster):
    c = cluster(2)
    with Process([find_program("mlxcommctl"), "events", "-n", "0", "--follow",
                  "--socket", c.socket(0)]) as follower:
        # It follows from some moment on: nodes go and come until it has report one.
        c.daemons[1].end()
        c.start_daemon(1)
        c.wait_linked()
        c.daemons[1].end()
        follower.wait_for("node node-1  is lost")
        follower.signal(signal.SIGINT)
        assert follower.finish() == 0


def test_many_followed_streams_hold_no_daemon_up(cluster):
    """How: as many readers as allowed, some of which no longer read (stopped), some killed while
    they follow; then the daemon is stopped while ranks come and go."""
    c = cluster(1)
    words = [find_program("mlxcommctl"), "events", "-f", "-n", "1000", "--socket", c.socket(0)]
    followers = [Process(words) for _ in range(32)]
    try:
        ranks = [c.rank(r, 2, RANK, arguments=["sum:float32:8"]) for r in (0, 1)]
        assert [rank.finish() for rank in ranks] == [0, 0]
        for follower in followers:
            follower.wait_for("is formed")
        refused = completed(words)
        assert refused.returncode == 1 and "end one of them" in refused.stderr, refused
        for follower in followers[:4]:
            follower.signal(SIGKILL)
        for follower in followers[4:8]:
            follower.signal(signal.SIGSTOP)
        # The dead ones make room.
        wait_until(lambda: c.ctl("events", "-n", "1", codes=(0, 1)), "there is room again")
        c.daemons[0].signal(signal.SIGTERM)
        assert c.daemons[0].finish() == 0
        for follower in followers[4:8]:
            follower.signal(signal.SIGCONT)
        assert {follower.finish() for follower in followers[4:]} <= {1, 3}
    finally:
        for follower in followers:
            follower.signal(signal.SIGCONT)
            follower.end()


# Why: doctor looked for the file in its own folder, and called it a mistake in the configuration.
def test_doctor_finds_the_configuration_that_the_daemon_was_given_by_a_relative_path(cluster, tmp_path):
    c = cluster(1, start=False)
    config = c.write_config(0)
    c.daemons[0] = Process([find_program("mlxcommd"), "--config", config.name], cwd=tmp_path)
    c.wait_linked()
    assert "MC102" not in findings(c)


def test_doctor_works_without_a_daemon_and_names_the_faults(cluster, tmp_path):
    c = cluster(1)
    assert "MC106" in findings(c)
    c.daemons[0].end()
    key = tmp_path / "open-key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o644)
    config = tmp_path / "bad.textproto"
    config.write_text(f'peers {{ key_file: "{key}" listen: "127.0.0.1:0" }}\n')
    report = findings(c, "--config", str(config))
    assert "no daemon" in report["MC101"]["title"] and "mlxcommd" in report["MC101"]["found"]
    assert report["MC103"]["command"] == f"chmod 600 {key}" and report["MC103"]["safe"]
    c.ctl("doctor", "--config", str(config), codes=(1,))
    # It shows what it would do, and does it on demand.
    said = c.ctl("doctor", "--config", str(config), "--fix", codes=(1,))
    assert f"chmod 600 {key}\n  would be done" in said and key.stat().st_mode & 0o777 == 0o644


def test_doctor_fixes_only_what_it_may(cluster, tmp_path, monkeypatch):
    """How: programs that would change this machine, Linux or macOS, are replaced by ones that
    only report; and none other than the project's own are found."""
    c = cluster(1)
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name in ("ip", "systemctl", "timedatectl", "ifconfig", "launchctl", "networksetup", "pmset",
                 "systemsetup"):
        (fakes / name).write_text(f"#!/bin/sh\necho {name} \"$@\" >> {tmp_path}/calls\n")
        (fakes / name).chmod(0o755)
    (fakes / "chmod").symlink_to(shutil.which("chmod"))
    for name in ("mlxcommd", "mlxcommctl"):
        (fakes / name).symlink_to(find_program(name))
    monkeypatch.setenv("PATH", str(fakes))
    key = tmp_path / "open-key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o644)
    config = tmp_path / "bad.textproto"
    config.write_text(f'peers {{ key_file: "{key}" listen: "127.0.0.1:0" }}\n')
    said = c.ctl("doctor", "--config", str(config), "--fix", "--yes", codes=DOCTOR_CODES)
    assert f"chmod 600 {key}\n  done" in said, said
    assert key.stat().st_mode & 0o777 == 0o600
    calls = tmp_path / "calls"
    assert not calls.exists() or "start mlxcommd" not in calls.read_text()


def test_a_report_holds_no_key_in_any_form(cluster, tmp_path):
    """How: the log and the configuration contain the key, in every form; then the archive is
    searched for all of them."""
    log = tmp_path / "daemon.log"
    c = cluster(2, top_settings=f'log {{ file: "{log}" }}')
    digits = c.key.read_text().strip()
    raw = bytes.fromhex(digits)
    forms = [digits, digits.upper(), base64.b64encode(raw).decode(),
             base64.urlsafe_b64encode(raw).decode(), ":".join(re.findall("..", digits))]
    with open(log, "ab") as file:
        file.write(("\n".join(f"said {form} here" for form in forms) + "\n").encode())
        file.write(b"raw " + raw + b" end\n")
    with open(tmp_path / "0.textproto", "a", encoding="ascii") as file:
        file.write("# " + forms[0] + "\n")
    output = tmp_path / "report.tar.gz"
    said = c.ctl("bugreport", "-o", str(output), cwd=tmp_path)
    assert output.stat().st_mode & 0o777 == 0o600
    assert "names and addresses" in said and "status.json" in said
    with tarfile.open(output) as archive:
        texts = {pathlib.Path(m.name).name: archive.extractfile(m).read()
                 for m in archive.getmembers() if m.isfile()}
    for name, text in texts.items():
        for form in [raw] + [form.encode() for form in forms]:
            assert form not in text and form.rstrip(b"=") not in text, (name, form)
    assert b"(removed: a key)" in texts["log.txt"] and b"is ready: node node-0" in texts["log.txt"]
    assert json.loads(texts["status.json"])["cluster"] == "test"
    assert {"README.txt", "versions.txt", "topology.dot", "nodes.json", "doctor.json",
            "events.txt", "record.json", "config.textproto", "system.txt"} <= set(texts)
    assert b'cluster: "test"' in texts["config.textproto"]
    again = mlxcommctl("bugreport", "-o", output, "--socket", c.socket(0))
    assert again.returncode == 1 and "exists" in again.stderr  # It never overwrites a file.


def test_a_report_holds_no_key_of_a_file_with_a_name_and_two_keys(cluster, tmp_path):
    """Why: the file that `cluster create` and `key rotate` write is not one line of digits, and
    people paste the code that these show."""
    log = tmp_path / "daemon.log"
    c = cluster(2, top_settings=f'log {{ file: "{log}" }}')
    old, new = c.key.read_text().strip(), os.urandom(32).hex()
    c.key.write_text(f"cluster test\n{new}\n{old}\n")
    code = c.ctl("cluster", "key", "show", "--key-file", str(c.key)).strip().split(":")[-1]
    forms = [code, code.replace("-", ""), code.lower(), code.replace("-", " ")]
    for digits in (old, new):
        forms += [digits, base64.b64encode(bytes.fromhex(digits)).decode().rstrip("=")]
    with open(log, "ab") as file:
        file.write(("\n".join(f"said {form} here" for form in forms) + "\n").encode())
    output = tmp_path / "report.tar.gz"
    c.ctl("bugreport", "-o", str(output), cwd=tmp_path)
    with tarfile.open(output) as archive:
        texts = {m.name: archive.extractfile(m).read() for m in archive.getmembers() if m.isfile()}
    for name, text in texts.items():
        assert not [form for form in forms if form.encode() in text], name


def test_a_report_has_the_log_that_the_configuration_names(cluster, tmp_path):
    """Why: the shipped configuration names a file in a comment, and other blocks have files too."""
    log = tmp_path / "daemon.log"
    c = cluster(1, top_settings='log {\n  level: INFO  # file: "/nowhere"\n'
                                f'  file: "{log}"  # or journal\n}}')
    output = tmp_path / "report.tar.gz"
    c.ctl("bugreport", "-o", str(output), cwd=tmp_path)
    assert "is ready: node node-0" in log_in(output)
    config = tmp_path / "0.textproto"
    config.write_text(config.read_text().replace(f'file: "{log}"', f'# file: "{log}"'))
    output.unlink()
    c.ctl("bugreport", "-o", str(output), cwd=tmp_path)
    assert "is ready" not in log_in(output) and "/nowhere" not in log_in(output)


def log_in(archive_path):
    with tarfile.open(archive_path) as archive:
        name, = [name for name in archive.getnames() if name.endswith("log.txt")]
        return archive.extractfile(name).read().decode()


def test_a_daemon_that_does_not_answer_is_exit_code_3(cluster):
    """Why: the exit code tells programs whether to wait for it."""
    c = cluster(1)
    c.daemons[0].signal(signal.SIGSTOP)
    done = mlxcommctl("status", "--socket", c.socket(0))
    assert done.returncode == 3, done.stderr
    assert "does not answer" in done.stderr


def test_a_report_is_made_without_a_daemon(cluster, tmp_path):
    c = cluster(1)
    c.daemons[0].end()
    output = tmp_path / "report.tar.gz"
    c.ctl("bugreport", "-o", str(output), cwd=tmp_path)
    with tarfile.open(output) as archive:
        names = [pathlib.Path(m.name).name for m in archive.getmembers()]
    assert "doctor.txt" in names and "log.txt" in names


def test_a_report_lists_its_files_as_json(cluster, tmp_path):
    c = cluster(1)
    report = json.loads(c.ctl("bugreport", "--json", cwd=tmp_path))
    with tarfile.open(tmp_path / report["archive"]) as archive:
        names = {pathlib.Path(m.name).name for m in archive.getmembers() if m.isfile()}
    assert {file["name"] for file in report["files"]} == names
    assert all(file["what"] for file in report["files"])


def test_codes_and_json_exclude_each_other(cluster):
    c = cluster(1)
    c.ctl("doctor", "--codes", "--json", codes=(2,))
