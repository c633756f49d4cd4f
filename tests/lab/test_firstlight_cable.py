"""First light in the lab: a command instead of a person pulls a cable, and the resulting file
replays."""

import subprocess
import sys

import pytest
from firstlight.recording import happened, read
from firstlight.test_replay import FIRSTLIGHT, REPLAY

from conftest import PATIENCE
from ground.cluster import PATIENT
from ground.wiring import pair

# As with a person, but without the delays.
HANDS = """case "$1" in
  pull) ip link set "$2" down ;;
  plug) ip link set "$2" up && {then} ;;
  *) exit 1 ;;
esac
"""


def first_light(c, node, folder, steps, then="true"):
    hands = folder / "hands.sh"
    hands.write_text(HANDS.format(then=then))
    output = folder / f"{node}.json"
    process = c.run(node, [*FIRSTLIGHT, "--steps", steps, "-o", output, "--large", "256K", "--prompt-command",
                           f"sh {hands}"])
    return process, output


def verdicts(document):
    return {one["id"]: (one["verdict"], one["seen"]) for one in document["assumptions"]}


@pytest.mark.parametrize("cables", [1, 2])
def test_a_cable_is_pulled_and_plugged_in_and_it_replays(lab, tmp_path, cables):
    c = lab(pair(cables=cables), peer_settings=PATIENT)
    end = c.wiring.cables[0].end_at("node-0")
    c.wait_rails(0, 1, cables)
    # The system has removed the address; nothing restores it for two cables, which is noticed.
    then = f"ip addr replace {end.ipv6}/64 dev {end.interface} nodad" if cables == 1 else "true"
    process, output = first_light(c, 0, tmp_path, "system,platform,neighbour,pull,sleep", then)
    assert process.finish() == 0, process.lines
    document = read(output)
    found = verdicts(document)
    # Verdicts about times depend on this machine; their existence does not.
    for name in ("pull-seen", "pull-rails", "plug-rails", "neighbour-answers"):
        assert found[name][0] != "not tried", (name, found[name], process.lines)
    assert found["pull-daemon"][0] == "confirmed", (found["pull-daemon"], process.lines)
    seen = [event["kind"] for event in document["events"] if event["source"] == "interface"]
    assert seen[0] == "interface_down" and "interface_up" in seen, document["events"]
    assert found["plug-addresses"][0] == ("confirmed" if cables == 1 else "refuted"), found["plug-addresses"]
    assert found["sleep-clock"] == ("not tried", 'the prompt command for "sleep" failed')
    assert found["cable-values"][0] == "not tried"
    rails = {rail["rail"]: rail["interface"] for rail in document["rails"]}
    assert len(rails) == cables
    interface, = {event["rail"] for event in document["events"] if event["source"] == "person"}
    of_rails = happened([e for e in document["events"] if e["source"] == "daemon"])
    pulled, = [rail for rail, on in rails.items() if on == interface]
    assert of_rails[pulled] == ["rail_down", "rail_up"]
    assert of_rails.get("", []) == (["link_waits"] if cables == 1 else [])
    assert "node-1" not in output.read_text() and "lab" not in document["system"].values()
    done = subprocess.run([sys.executable, REPLAY, output], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ranks_of_two_machines_meet_where_both_run_it(lab, tmp_path):
    c = lab(pair(), peer_settings=PATIENT)
    runs = [first_light(c, node, tmp_path, "cable") for node in range(2)]
    for process, _ in runs:
        assert process.finish() == 0, process.lines
    documents = [read(output) for _, output in runs]
    assert [verdicts(d)["cable-values"][0] for d in documents] == ["confirmed", "confirmed"], documents
    assert any("bus bandwidth" in one["name"] for one in documents[0]["measurements"])
