"""First light over soft-RoCE: a real driver's devices, a port that goes down under both kinds of rails."""

import json
import sys

from firstlight.recording import happened, read
from firstlight.test_replay import FIRSTLIGHT, REPLAY

from conftest import completed

HANDS = """case "$1" in
  pull) ip link set "$2" down ;;
  plug) ip link set "$2" up ;;
  *) exit 1 ;;
esac
"""


def test_a_port_goes_down_and_comes_back_and_it_replays(soft_roce, tmp_path):
    c = soft_roce("APPLE")
    hands = tmp_path / "hands.sh"
    hands.write_text(HANDS)
    output = tmp_path / "file.json"
    done = completed([*FIRSTLIGHT, "--socket", c.socket(0), "-o", output, "--steps", "rdma,neighbour,pull",
                      "--prompt-command", f"sh {hands}"])
    assert done.returncode == 0, done.stderr
    document = read(output)
    reported = {one["id"]: one["verdict"] for one in document["assumptions"]}
    # The speed depends on this machine; that it is measured does not. Both ends are on this machine, so a
    # connection returns while the port is down.
    measured = [one["name"] for one in document["measurements"]]
    assert "rails back after the interface" in measured, document["events"]
    for name in ("rdma-uc", "rdma-message", "neighbour-rdma", "pull-daemon"):
        assert reported[name] == "confirmed", (name, done.stdout)
    assert {rail["transport"] for rail in document["rails"]} == {"tcp", "rdma"}
    # A real driver behaves differently from the fake in trials; the cables are the simulator's.
    document["rdma"]["devices"] = []
    events = happened([e for e in document["events"] if e["source"] == "daemon"])
    assert all(events[rail["rail"]] == ["rail_down", "rail_up"] for rail in document["rails"]), events

    output.write_text(json.dumps(document), encoding="utf-8")
    replayed = completed([sys.executable, REPLAY, output])
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
