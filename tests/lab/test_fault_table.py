"""The faults of the table in daemon/README, with doctor on every node: it finds the fault and nothing else,
and after its remedy nothing.

A row is a generator: it makes the fault, yields the codes that each node must report (others none), gets the
findings, and follows the remedy. It returns options with which doctor must find nothing then. `readme`: the
faults of that table that the row makes (tests/unit/test_fault_rows.py)."""

import os
import pathlib
import re
import signal
import sys

import pytest

from conftest import SIGKILL, find_program, wait_until
from ground import flood, stranger
from ground.client_hello import say_hello, spoil_queue
from ground.cluster import PATIENT, PORT, QUICK
from ground.outcomes import all_fine, at_work, heard, until_looping
from ground.wiring import pair, ring, switch
from lab.doctor import Doctor, any_of, only
from lab.test_mtu import in_packets, set_mtu

STRANGER, FLOOD = stranger.__file__, flood.__file__
FAULTY = pathlib.Path(__file__).with_name("faulty.py")
# Refusals are reported for ten minutes unless --recent is shorter.
OF_JUST_NOW = ("--recent", "500ms")
ROWS = []
TRIED = {}  # Faults of the README's table, and the rows that make them.


def row(wiring, readme=(), **settings):
    def add(steps):
        ROWS.append(pytest.param(wiring, settings, steps, id=steps.__name__))
        for fault in [readme] if isinstance(readme, str) else readme:
            TRIED.setdefault(fault, []).append(steps.__name__)
        return steps
    return add


@row(pair(), peer_settings=PATIENT, readme="a rank, its machine or that machine's daemon dies")
def a_rank_dies(c, doctor):
    """Why: ranks that have ended are not a fault of the cluster."""
    ranks = c.ranks([0, 1], "loop:8:100000:never")
    until_looping(ranks)
    ranks[1].signal(SIGKILL)
    assert "RANK_LOST" in heard(ranks[0])[1]
    yield {}


@row(pair(), peer_settings=PATIENT)
def a_rank_is_missing(c, doctor):
    ranks = [c.rank(0, 2, 0, "sum:8")]
    reported = yield {0: {"MC517"}, 1: {"MC517"}}
    assert only(reported[1], "MC517")["found"] == "waits for rank 1"
    assert "health: 1 job is still forming" in doctor.ctl(0, "status")[1]
    reported = yield {0: {"MC510"}, 1: {"MC517"}}
    assert only(reported[0], "MC510")["remedy"].startswith("start the missing ranks")
    all_fine([*ranks, c.rank(1, 2, 1, "sum:8")])


@row(pair(), peer_settings=PATIENT, readme="a rank does not call")
def a_rank_does_not_call(c, doctor):
    with at_work(c, [0, 1], 100_000) as ranks:
        ranks[1].signal(19)
        reported = yield {0: {"MC510"}, 1: {"MC510"}}
        for node in (0, 1):
            assert only(reported[node], "MC510")["found"].endswith(" on node-1 lets it continue")
            assert only(reported[node], "MC510")["remedy"].startswith("let that process continue")
        ranks[1].signal(18)


@row(switch(2, switches=2), peer_settings=PATIENT, readme="one of several cables is pulled")
def one_of_several_cables_is_pulled(c, doctor):
    c.cut("0-s0")
    reported = yield {0: {"MC305"}, 1: {"MC305"}}
    assert "plugged in at both ends" in only(reported[1], "MC305")["remedy"]
    c.restore("0-s0")


@row(switch(2), peer_settings=QUICK, readme="the last cable is pulled")
def the_last_cable_is_pulled(c, doctor):
    c.cut("0-s0")
    reported = yield {0: {"MC501", "MC502"}, 1: {"MC501", "MC502"}}
    for node in (0, 1):
        assert "check the cable" in only(reported[node], "MC502")["remedy"]
    c.restore("0-s0")


@row(ring(3), peer_settings=PATIENT)
def an_interface_of_a_ring_is_switched_off(c, doctor):
    """Why: the others asked whether the cable was in, and wanted another one beside it (MC508)."""
    c.cut("0-1", at=0)
    reported = yield {node: {"MC202"} for node in range(3)}
    assert only(reported[0], "MC202")["object"] == "interface to-1"
    for node in (1, 2):
        assert only(reported[node], "MC202")["object"] == "node node-0, interface to-1"
    assert doctor.run_remedy(only(reported[1], "MC202")) == 0
    c.restore("0-1")  # A system would create a link-local address.


@row(ring(3), peer_settings=PATIENT, discovery=True)
def an_interface_is_switched_off_and_doctor_fixes_it(c, doctor):
    c.cut("0-1", at=0)
    reported = yield {node: {"MC202"} for node in range(3)}
    assert only(reported[0], "MC202")["safe"]
    _, said = doctor.ctl(0, "doctor", "--fix", "--yes", codes=(0, 4))
    assert "ip link set dev to-1 up\n  done" in said
    c.restore("0-1")


@row(pair(), peer_settings=QUICK)
def the_last_interface_is_switched_off(c, doctor):
    c.cut("0-1", at=0)
    reported = yield {0: {"MC202", "MC502"}, 1: {"MC501", "MC502"}}
    assert only(reported[0], "MC502")["found"] == "interface to-1 of node-0 is switched off"
    assert "the interface is up" in only(reported[1], "MC502")["remedy"]
    assert doctor.run_remedy(only(reported[0], "MC502")) == 0
    c.restore("0-1")


@row(pair(), peer_settings=QUICK, discovery=True)
def the_last_interface_of_discovery_is_switched_off(c, doctor):
    c.cut("0-1", at=0)
    reported = yield {0: {"MC202", "MC502"}, 1: {"MC212", "MC501", "MC502"}}
    doctor.run_command(0, only(reported[0], "MC202"))
    c.restore("0-1")


def change_key(c, node):
    c.keys[node] = 9
    c.key(9).write_text(os.urandom(32).hex() + "\n")
    c.key(9).chmod(0o600)
    c.restart(node)


@row(ring(3), peer_settings=QUICK, readme="a stranger or a machine with another key connects")
def a_node_that_dials_has_another_key(c, doctor):
    """Why: the others asked whether its machine was awake, and then whether its cable was in."""
    change_key(c, 2)
    reported = yield {0: {"MC502", "MC509"}, 1: {"MC502", "MC509"}, 2: {"MC209"}}
    for node in (0, 1):
        remedy = any_of(reported[node], "MC502")["remedy"]
        assert re.search("if they are from node-2, it has another key: run .* --take there, with the "
                         "code that .* key show prints on", remedy), reported[node]
    assert "so change node-2" in any_of(reported[2], "MC209")["remedy"]
    doctor.take_key(2, 0)
    return OF_JUST_NOW


@row(ring(3), peer_settings=QUICK)
def a_node_that_is_dialed_has_another_key(c, doctor):
    """Why: as above; and the node itself only reported refused strangers."""
    change_key(c, 0)
    reported = yield {0: {"MC211", "MC509"}, 1: {"MC209"}, 2: {"MC209"}}
    for node in (1, 2):
        assert "so change node-0: run" in any_of(reported[node], "MC209")["remedy"]
    assert "--take here" in only(reported[0], "MC211")["remedy"]
    doctor.take_key(0, 1)
    return OF_JUST_NOW


@row(ring(3), peer_settings=QUICK, discovery=True)
def a_discovered_node_has_another_key(c, doctor):
    change_key(c, 2)
    for node in (0, 1):
        wait_until(lambda node=node: receives_only_foreign_hellos(c, node, "to-2"), "its hellos are foreign")
    # The node with the smaller id dials and knows the reason; the other one counts strangers.
    either = [{"MC209"}, {"MC502"}, {"MC209", "MC502"}, {"MC502", "MC509"}, {"MC209", "MC502", "MC509"}]
    reported = yield {0: either, 1: either, 2: [{"MC211"}, {"MC211", "MC509"}]}
    for found in [one for one in reported[0] + reported[1] if one["code"] != "MC509"]:
        said = f"{found['found']} {found['remedy']}"
        assert re.search("so change node-2: run |arrive on to-2, where it was .*"
                         "if they are from node-2, it has another key: run ", said), found
    assert "--take here" in only(reported[2], "MC211")["remedy"]
    doctor.take_key(2, 0)
    return OF_JUST_NOW


def receives_only_foreign_hellos(c, node, interface):
    reported = c.own_part(node)["discovery"]
    lost = [one["state"] == "lost" for one in reported["neighbours"] if one["local_interface"] == interface]
    return lost and all(lost) and any("foreign_ms_ago" in one for one in reported["interfaces"]
                                      if one["name"] == interface)


@row(pair(), peer_settings=QUICK, discovery=True)
def a_node_has_no_key(c, doctor):
    """Why: status reported that all is well."""
    with_key = c.write_config
    c.write_config = lambda node: config_without_key(c, node)
    c.restart(1)
    reported = yield {0: {"MC501", "MC502"}, 1: {"MC104"}}
    assert "this node is alone: it has no key" in doctor.ctl(1, "status")[1]
    assert "mlxcommctl cluster join" in only(reported[1], "MC104")["remedy"]
    c.keys[1] = 9
    _, code = doctor.ctl(0, "cluster", "key", "show", "--key-file", str(c.key(0)))
    doctor.ctl(1, "cluster", "join", "--key-file", str(c.key(9)), text=code)
    c.write_config = with_key
    c.restart(1)


def config_without_key(c, node):
    path = c.folder / "alone.textproto"
    path.write_text(f'cluster: "lab" node_name: "node-{node}" state_directory: "{c.folder}/{node}"\n'
                    f'socket_path: "{c.socket(node)}"\n')
    return path


@row(pair(), peer_settings=PATIENT)
def others_can_read_a_key(c, doctor):
    c.keys[1] = 1
    c.key(1).write_text(c.key(0).read_text())
    c.key(1).chmod(0o600)
    c.restart(1)
    c.wait_linked()
    c.key(1).chmod(0o644)
    reported = yield {1: {"MC102", "MC103"}}  # Both name the same command.
    assert f"chmod 600 {c.key(1)}" in only(reported[1], "MC102")["found"]
    assert only(reported[1], "MC103")["command"] == f"chmod 600 {c.key(1)}"
    doctor.run_command(1, only(reported[1], "MC103"))


@row(ring(3), peer_settings=QUICK,
     readme=("a rank, its machine or that machine's daemon dies", "this machine's daemon dies"))
def a_daemon_is_killed(c, doctor):
    c.kill(1)
    reported = yield {0: {"MC501", "MC502"}, 1: {"MC101"}, 2: {"MC501", "MC502"}}
    assert "start it" in only(reported[1], "MC101")["remedy"]
    for node in (0, 2):
        assert "mlxcommd runs there" in any_of(reported[node], "MC502")["remedy"]
    c.start_daemon(1)


@row(ring(3), peer_settings=QUICK, readme="this machine's daemon hangs")
def a_daemon_stands_still(c, doctor):
    c.stop(1)
    reported = yield {0: {"MC501", "MC502"}, 1: {"MC101"}, 2: {"MC501", "MC502"}}
    assert only(reported[1], "MC101")["remedy"].startswith("it runs but does not answer"), reported[1]
    for node in (0, 2):
        assert "check that the machine is awake" in only(reported[node], "MC501")["remedy"]
    c.resume(1)
    return OF_JUST_NOW  # It refuses connections that ended while it was stopped.


@row(pair(), peer_settings=QUICK)
def a_neighbour_was_never_there(c, doctor):
    c.kill(0)
    c.restart(1)
    reported = yield {0: {"MC101"}, 1: {"MC206"}}
    assert "mlxcommd runs there" in only(reported[1], "MC206")["remedy"]
    c.start_daemon(0)


@row(pair(), peer_settings=PATIENT, readme="the daemon gets SIGTERM")
def a_daemon_drains(c, doctor):
    with at_work(c, [0, 1], 100_000):
        c.daemons[1].signal(15)
        reported = yield {0: {"MC516"}, 1: {"MC516"}}
        assert "wait for them or end them" in only(reported[0], "MC516")["remedy"]
    assert c.daemons[1].finish() == 0
    c.start_daemon(1)


@row(pair(), peer_settings=PATIENT)
def the_ends_of_a_cable_have_different_mtus(c, doctor):
    c.namespaces.ip("node-1", "link set dev to-0 mtu 1400")
    reported = yield {0: {"MC505"}, 1: {"MC505"}}
    assert doctor.run_remedy(only(reported[0], "MC505")) == 1


@row(switch(2), peer_settings=QUICK, readme="an MTU becomes too small")
def an_mtu_on_the_last_route_becomes_too_small(c, doctor):
    in_packets(c)
    ranks = c.ranks([0, 1], "loop:8:1000000:never")
    until_looping(ranks)
    set_mtu(c, 1000)
    assert all("RANK_LOST" in heard(rank)[1] for rank in ranks)
    reported = yield {0: {"MC515"}, 1: {"MC515"}}
    assert "all switches" in any_of(reported[0], "MC515")["remedy"]
    set_mtu(c, 1500)


@row(pair(), peer_settings=PATIENT, readme="a stranger or a machine with another key connects")
def strangers_connect(c, doctor):
    """Why: doctor reported them until the daemon was restarted."""
    stranger = c.run(1, [sys.executable, STRANGER, f"10.1.0.1:{PORT}", "garbage", 3])
    assert stranger.finish() == 0, stranger.lines
    reported = yield {0: {"MC509"}, 1: {"MC509"}}
    assert only(reported[1], "MC509")["object"] == "node node-0"
    assert only(reported[1], "MC509")["found"].startswith("3 connections without proof of the key")
    assert "not an mlxcommd" in doctor.ctl(0, "events", "-n", "100")[1]
    return OF_JUST_NOW


def faulty(c, what):
    """Two ranks of a program with a fault, and the file that ends them."""
    stop = c.folder / "stop"
    ranks = [c.python_rank(FAULTY, rank, 2, rank, arguments=(what, stop)) for rank in (0, 1)]
    until_looping(ranks)
    return ranks, stop


@row(pair(), peer_settings=PATIENT, readme="a rank's program ends with an exception")
def a_program_ends_with_an_exception(c, doctor):
    ranks, stop = faulty(c, "exception")
    said = ranks[0].wait_for("raised")
    assert "RANK_LOST" in said and "no such token" in said, said
    assert ranks[1].finish() == 1
    reported = yield {0: {"MC510"}, 1: {"MC510"}}
    for node in (0, 1):
        assert "no such token" in only(reported[node], "MC510")["found"]
        assert "forgets it once its ranks have ended" in only(reported[node], "MC510")["remedy"]
    stop.touch()
    assert ranks[0].finish() == 0


@row(pair(), peer_settings=PATIENT, readme="ranks call different operations")
def ranks_call_different_things(c, doctor):
    ranks, stop = faulty(c, "mismatch")
    for rank in ranks:
        assert "MISMATCH" in rank.wait_for("raised")
    reported = yield {0: {"MC510"}, 1: {"MC510"}}
    for node in (0, 1):
        found = only(reported[node], "MC510")["found"]
        assert "float32[8]" in found and "float32[9]" in found, found
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0, 0]


@row(pair(), peer_settings=PATIENT, readme="an argument is wrong")
def an_argument_is_wrong(c, doctor):
    ranks, stop = faulty(c, "argument")
    for rank in ranks:
        assert "INVALID_ARGUMENT" in rank.wait_for("raised")
        rank.wait_for("fine")
    yield {}
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0, 0]


@row(pair(), peer_settings=PATIENT, client_settings="arena_bytes_max: 1048576",
     readme="a user reaches a limit")
def a_user_reaches_a_limit(c, doctor):
    for rank in c.ranks([0, 1], "sum:8000000"):
        said = heard(rank)[1]
        assert "RESOURCE_EXHAUSTED" in said and "arena_bytes_max" in said, said
    yield {}


@row(pair(), peer_settings=PATIENT, readme="a hello or queue holds garbage")
def a_hello_and_a_queue_hold_garbage(c, doctor):
    assert b"not an mlxcomm hello" in say_hello(c.socket(0), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")[1]
    spoil_queue(c.socket(0), 1)
    own = c.own_part(0)
    assert (own["clients_refused"], own["sessions_ended_for_garbage"]) == ("1", "1"), own
    yield {}


@row(pair(), peer_settings=PATIENT, readme="a process floods its control connection")
def a_process_floods_its_control_connection(c, doctor):
    flood = c.run(0, [sys.executable, FLOOD, os.getuid(), c.socket(0), "ping", 1])
    assert flood.finish() == 0, flood.lines
    assert [one["reason"] for one in c.own_part(0)["control_connections_ended"]] == ["pings"]
    yield {}


@row(pair(), peer_settings=PATIENT, readme="the disk that holds the daemon's log is full")
def the_disk_of_a_log_is_full(c, doctor):
    c.settings["top"] += ' log { file: "/dev/full" }'
    c.restart(1)
    c.wait_linked()
    yield {}


@row(pair(), peer_settings=PATIENT, readme="a cable or port corrupts data")
def a_cable_changes_bytes(c, doctor):
    """How: a process writes into a buffer while an operation uses it, which looks the same."""
    def is_found():
        codes = [rank.finish() for rank in c.ranks([0, 1], "scribble:16777216:8")]
        assert codes == [0, 0], codes
        return all(int(c.link(node, 1 - node).get("changed_frames", 0)) for node in (0, 1))

    wait_until(is_found, "a sum was wrong, and both know")
    reported = yield {0: {"MC514"}, 1: {"MC514"}}
    assert "last on to-" in any_of(reported[0], "MC514")["found"]
    assert "mlxcommctl doctor --recent 1m" in any_of(reported[0], "MC514")["remedy"]
    return OF_JUST_NOW


@row(switch(2, switches=2), peer_settings=PATIENT, readme="an MTU becomes too small")
def an_mtu_becomes_too_small_beside_other_routes(c, doctor):
    in_packets(c)
    with at_work(c, [0, 1], 1_000_000, least=100_000):
        set_mtu(c, 1000)
        reported = yield {0: {"MC515"}, 1: {"MC515"}}
        assert "all switches" in any_of(reported[0], "MC515")["remedy"]
        set_mtu(c, 1500)
        yield {}


def refuse_a_restart(c, node):
    """Asks for a restart with a wrong configuration; returns its file and the right text."""
    config = c.write_config(node)
    right = config.read_text()
    config.write_text(right + "no_such_setting: 1\n")
    c.daemons[node].signal(signal.SIGUSR2)
    return config, right


@row(pair(), peer_settings=PATIENT)
def a_restart_is_refused_and_asked_for_again(c, doctor):
    """Why: doctor had no finding, and status reported it forever without a remedy."""
    start = c.own_part(1)["start"]
    config, right = refuse_a_restart(c, 1)
    reported = yield {0: {"MC518"}, 1: {"MC102", "MC518"}}
    assert only(reported[0], "MC518")["object"] == "node node-1"
    assert "no_such_setting" in only(reported[0], "MC518")["found"]
    assert "then on node-1, as root: mlxcommctl service restart" in only(reported[0], "MC518")["remedy"]
    assert "fix that, then run mlxcommctl service restart" in doctor.ctl(0, "status")[1]
    config.write_text(right)
    c.daemons[1].signal(signal.SIGUSR2)  # As mlxcommctl service restart.
    wait_until(lambda: (c.own_part(1) or {"start": start})["start"] != start, "it has restarted")
    c.wait_linked()
    assert doctor.ctl(0, "status")[1].endswith("health: all is well\n")


@row(pair(), peer_settings=PATIENT)
def a_restart_is_refused_and_taken_back(c, doctor):
    start = c.own_part(1)["start"]
    config, right = refuse_a_restart(c, 1)
    reported = yield {0: {"MC518"}, 1: {"MC102", "MC518"}}
    assert "mlxcommctl service restart --cancel" in only(reported[1], "MC518")["remedy"]
    config.write_text(right)
    yield {0: {"MC518"}, 1: {"MC518"}}
    c.daemons[1].signal(signal.SIGUSR1)  # As mlxcommctl service restart --cancel.
    yield {}
    said = doctor.ctl(0, "status")[1]
    assert said.endswith("health: all is well\n") and "restart" not in said, said
    assert c.own_part(1)["start"] == start


@pytest.mark.parametrize("wiring, settings, steps", ROWS)
def test_doctor_finds_the_fault_and_its_remedy_fixes_it(lab, wiring, settings, steps):
    c = lab(wiring, top_settings="drain_timeout_ms: 600000", **settings)
    doctor = Doctor(c)
    doctor.everywhere({})
    making = steps(c, doctor)
    expected, words = next(making), ()
    while expected is not None:
        reported = doctor.everywhere(expected)
        try:
            expected = making.send(reported)
        except StopIteration as end:
            expected, words = None, end.value or ()
    c.wait_linked()
    doctor.everywhere({}, *words)


def test_a_light_job_shows_no_slow_link(lab):
    """Why: a link or direction that had carried little was called slow (MC506, MC507).
    How: one link of three has carried much; then all carry a little, many times."""
    c = lab(ring(3))
    doctor = Doctor(c)
    all_fine(c.ranks([0, 1], *["sum:33554432"] * 4, job="heavy"))
    all_fine(c.ranks(range(3), *["sum:8", "sum:600000", "sum:2000000"] * 30, job="light"))
    for node in range(3):
        doctor.says(node, set())


def test_a_private_daemon_is_not_a_fault(lab):
    """Why: doctor wanted neighbours for it (MC104)."""
    c = lab(pair())
    doctor = Doctor(c)
    c.kill(0)
    daemon = c.run(0, [find_program("mlxcommd"), "--private", "--socket", c.socket(0)])
    wait_until(lambda: c.status(0), "it answers")
    rank = c.rank(0, 1, 0, f"loop:8:1000:{c.folder}/stop")
    rank.wait_for("looping")
    doctor.says(0, set())
    assert doctor.ctl(0, "status")[1].endswith("health: all is well\n")
    (c.folder / "stop").touch()
    all_fine([rank])
    assert daemon.finish() == 0
