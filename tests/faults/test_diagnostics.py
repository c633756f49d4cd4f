"""mlxcommctl with real daemons: topology, ping, events, doctor, and a report without keys."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import tarfile

from conftest import RANK, SIGKILL, Process, completed, find_program, mlxcommctl, wait_until


def config_with_open_key(folder):
    """Returns a configuration and its key file, which others can read."""
    key = folder / "open-key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o644)
    config = folder / "bad.textproto"
    config.write_text(f'peers {{ key_file: "{key}" listen: "127.0.0.1:0" }}\n')
    return str(config), key


def report_of(c, *words, node=0):
    """Makes a report and returns its files: {name: bytes}."""
    output = c.folder / "report.tar.gz"
    output.unlink(missing_ok=True)
    c.ctl("bugreport", "-o", str(output), *words, node=node, cwd=c.folder)
    return files_of(output)


def files_of(archive_path):
    with tarfile.open(archive_path) as archive:
        return {pathlib.Path(member.name).name: archive.extractfile(member).read()
                for member in archive.getmembers() if member.isfile()}


def test_topology_is_text_or_json(duo):
    assert "cluster test, 2 nodes: pair" in duo.ctl("topology")
    report = json.loads(duo.ctl("topology", "--json"))
    assert [node["name"] for node in report["nodes"]] == ["node-0", "node-1"]
    assert len(report["cables"]) == 1 and report["cables"][0]["state"] == "up"


def test_a_ping_comes_back_and_a_stopped_node_loses_it(duo):
    text = duo.ctl("ping", "node-1", "-c", "3", "-i", "1ms", "-s", "64K")
    assert "node-1: 3 of 3 came back, 0% lost" in text and "\n  tcp 127.0.0.1" in text, text
    report = json.loads(duo.ctl("ping", "node-1", "-c", "2", "-i", "1ms", "--json"))
    assert report["came_back"] == 2
    assert 0 < report["round_trip_ns_min"] <= report["round_trip_ns_mean"] <= report["round_trip_ns_max"]
    done = mlxcommctl("ping", "nobody", "--socket", duo.socket(0))
    assert done.returncode == 1 and done.stderr.endswith("from node-0; it reaches node-1\n"), done
    done = mlxcommctl("ping", "node-0", "--socket", duo.socket(0))
    assert "node-0 is this node: ping needs another one; it reaches node-1" in done.stderr, done
    duo.daemons[1].signal(signal.SIGSTOP)
    try:
        text = duo.ctl("ping", "node-1", "-c", "1", "-W", "50ms", codes=(1,))
    finally:
        duo.daemons[1].signal(signal.SIGCONT)
    assert "lost: it has not answered in time" in text and "0 of 1 came back, 100% lost" in text


def test_events_report_nodes_jobs_and_strangers(duo):
    ranks = [duo.rank(r, 2, RANK, node=r, arguments=["sum:float32:8"]) for r in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0]
    wait_until(lambda: "job_ended" in {e["kind"] for e in duo.events()}, "the job has ended")
    report = duo.events()
    kinds = [event["kind"] for event in report]
    assert [k for k in kinds if k.startswith("job_")] == ["job_formed", "job_ended"], kinds
    assert {"node_up", "rail_up"} <= set(kinds) and "rank_gone" not in kinds, "they left in order"
    assert [int(e["number"]) for e in report] == list(range(1, len(report) + 1))
    survivor = duo.rank(0, 2, RANK, node=0, job="second", arguments=["loop"])
    victim = duo.rank(1, 2, RANK, node=1, job="second", arguments=["loop"])
    survivor.wait_for("looping")
    victim.signal(SIGKILL)
    survivor.wait_for("raised")
    failed = wait_until(lambda: [e for e in duo.events() if e["kind"] == "job_failed"], "it failed")
    assert failed[0]["object"] == "job second" and "RANK_LOST" in failed[0]["text"]
    gone = wait_until(lambda: [e for e in duo.events(1) if e["kind"] == "rank_gone"], "its node reports it")
    assert (gone[0]["object"], gone[0]["text"]) == (
        "job second", f"rank 1 (pid {victim.child.pid}) has left: its process ended")
    with socket.create_connection(("127.0.0.1", duo.ports[0])) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 20)
        wait_until(lambda: any(e["kind"] == "stranger_refused" for e in duo.events()), "it was refused")


def test_followed_events_come_as_they_happen_and_end_well(duo):
    with Process([find_program("mlxcommctl"), "events", "-n", "0", "--follow",
                  "--socket", duo.socket(0)]) as follower:
        # When it begins to follow is not known, so a node goes twice.
        duo.daemons[1].end()
        duo.start_daemon(1)
        duo.wait_linked()
        duo.daemons[1].end()
        follower.wait_for("node node-1  is lost")
        follower.signal(signal.SIGINT)
        assert follower.finish() == 0


def test_many_followed_streams_hold_no_daemon_up(solo):
    """It also makes a node that follows nothing, because the start of following is not known."""
    words = [find_program("mlxcommctl"), "events", "-f", "-n", "1000", "--socket", solo.socket(0)]
    followers = [Process(words) for _ in range(32)]
    try:
        ranks = [solo.rank(r, 2, RANK, arguments=["sum:float32:8"]) for r in (0, 1)]
        assert [rank.finish() for rank in ranks] == [0, 0]
        for follower in followers:
            follower.wait_for("is formed")
        refused = completed(words)
        assert refused.returncode == 1 and "end one of them" in refused.stderr, refused
        for follower in followers[:4]:
            follower.signal(SIGKILL)
        for follower in followers[4:8]:
            follower.signal(signal.SIGSTOP)
        wait_until(lambda: solo.ctl("events", "-n", "1", codes=(0, 1)), "there is room again")
        solo.daemons[0].signal(signal.SIGTERM)
        assert solo.daemons[0].finish() == 0
        for follower in followers[4:8]:
            follower.signal(signal.SIGCONT)
        assert {follower.finish() for follower in followers[4:]} <= {1, 3}
    finally:
        for follower in followers:
            follower.signal(signal.SIGCONT)
            follower.end()


# Why: doctor searched its own folder for the file.
def test_doctor_finds_the_configuration_that_the_daemon_was_given_by_a_relative_path(cluster, tmp_path):
    c = cluster(1, start=False)
    config = c.write_config(0)
    c.daemons[0] = Process([find_program("mlxcommd"), "--config", config.name], cwd=tmp_path)
    c.wait_linked()
    assert "MC102" not in c.findings()


def test_doctor_works_without_a_daemon_and_names_the_faults(solo, tmp_path):
    assert "MC106" in solo.findings()
    solo.daemons[0].end()
    config, key = config_with_open_key(tmp_path)
    report = solo.findings("--config", config)
    assert "no daemon" in report["MC101"]["title"] and "mlxcommd" in report["MC101"]["found"]
    assert report["MC103"]["command"] == f"chmod 600 {key}" and report["MC103"]["safe"]
    solo.ctl("doctor", "--config", config, codes=(1,))
    # It shows what it would do, and does it on demand.
    said = solo.ctl("doctor", "--config", config, "--fix", codes=(1,))
    assert f"chmod 600 {key}\n  mlxcommctl doctor --fix --yes runs this" in said
    assert key.stat().st_mode & 0o777 == 0o644


def test_doctor_fixes_only_what_it_may(solo, tmp_path, monkeypatch):
    """How: PATH has the project's programs, and stand-ins for programs that would change this machine."""
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
    config, key = config_with_open_key(tmp_path)
    said = solo.ctl("doctor", "--config", config, "--fix", "--yes", codes=(0, 1, 4))
    assert f"chmod 600 {key}\n  done" in said, said
    assert key.stat().st_mode & 0o777 == 0o600
    calls = tmp_path / "calls"
    assert not calls.exists() or "start mlxcommd" not in calls.read_text()


def test_a_report_holds_no_key_in_any_form(cluster, tmp_path):
    """How: the log and the configuration contain the key in every form."""
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
    texts = files_of(output)
    for name, text in texts.items():
        for form in [raw] + [form.encode() for form in forms]:
            assert form not in text and form.rstrip(b"=") not in text, (name, form)
    assert b"(removed: a key)" in texts["log.txt"] and b"is ready: node node-0" in texts["log.txt"]
    assert json.loads(texts["status.json"])["cluster"] == "test"
    assert {"README.txt", "versions.txt", "nodes.json", "doctor.json",
            "events.txt", "record.json", "config.textproto", "system.txt"} <= set(texts)
    assert b'cluster: "test"' in texts["config.textproto"]
    again = mlxcommctl("bugreport", "-o", output, "--socket", c.socket(0))
    assert again.returncode == 1 and "exists" in again.stderr  # It never overwrites a file.


def test_a_report_has_the_log_that_the_configuration_names(cluster, tmp_path):
    """Why: the shipped configuration names a file in a comment, and other blocks have files too."""
    log = tmp_path / "daemon.log"
    c = cluster(1, top_settings='log {\n  level: INFO  # file: "/nowhere"\n'
                                f'  file: "{log}"  # or journal\n}}')
    assert b"is ready: node node-0" in report_of(c)["log.txt"]
    config = tmp_path / "0.textproto"
    config.write_text(config.read_text().replace(f'file: "{log}"', f'# file: "{log}"'))
    log = report_of(c)["log.txt"]
    assert b"is ready" not in log and b"/nowhere" not in log


def test_a_daemon_that_does_not_answer_is_exit_code_3(solo):
    """Why: the exit code tells programs whether to wait for it."""
    solo.daemons[0].signal(signal.SIGSTOP)
    done = mlxcommctl("status", "--socket", solo.socket(0))
    assert done.returncode == 3, done.stderr
    assert "does not answer" in done.stderr


def test_a_report_is_made_without_a_daemon(solo):
    solo.daemons[0].end()
    assert {"doctor.txt", "log.txt"} <= set(report_of(solo))


def test_a_report_lists_its_files_as_json(solo, tmp_path):
    report = json.loads(solo.ctl("bugreport", "--json", cwd=tmp_path))
    assert {file["name"] for file in report["files"]} == set(files_of(tmp_path / report["archive"]))
    assert all(file["what"] for file in report["files"])


def test_codes_and_json_exclude_each_other():
    assert mlxcommctl("doctor", "--codes", "--json").returncode == 2
