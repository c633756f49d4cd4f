"""Reads a file of `python -m mlxcomm firstlight`, which may come from anyone, and checks its size, shape (see
mlxcomm/firstlight/notes.py) and values; makes scripts for the simulator and the fake verbs."""

import json
import re

BYTES_MAX = 8 << 20
LIST_MAX = 8192
# A word of a control file or a script, so that a name cannot inject anything else.
WORD = re.compile(r"[A-Za-z0-9_.:-]{1,63}")
DAY_US = 24 * 3600 * 1_000_000
# What the fake does in a trial by default, as tests/operations/test_rdma_shown.py has it, and which call of
# verbs it can be told to fail, hang or crash in for another outcome.
CALL_OF = {"channel": "ibv_create_comp_channel", "depth": "ibv_query_qp", "describe": "ibv_query_device",
           "message": "ibv_post_send", "message-frame": "ibv_post_send"}
WORD_OF = {"refused": "fail", "hung": "hang", "crashed": "crash"}

# A set means one of these words. "?" means that it may be missing; "*": any name.
SHAPE = {
    "format": {"mlxcomm-firstlight"}, "version": int, "about": [str], "names_replaced": bool,
    "system": {"*": str}, "took_ms": int, "summary": {"confirmed": int, "refuted": int, "not_tried": int},
    "assumptions": [{"id": str, "assumed": str, "source": str, "step": str,
                     "verdict": {"confirmed", "refuted", "not tried"}, "seen": str}],
    "steps": [{"name": str, "outcome": {"done", "left out"}, "why": str, "began_ms": int, "took_ms": int}],
    "measurements": [{"name": str, "value": float, "unit": str}],
    "interfaces": [{"name": str, "hardware": str, "running": bool, "thunderbolt": bool, "mtu": int,
                    "bridge": str, "has_link_local": bool}],
    "findings": [str],
    "rdma": {"limits": [{"name": str, "value": str, "source": str}], "trouble": str,
             "devices": [{"name": str, "active": bool, "state": str, "gids": [str], "held?": bool,
                          "trials": [{"name": str, "verdict": {"worked", "refused", "hung", "crashed"},
                                      "text": str, "tries?": str}]}]},
    "rails": [{"rail": str, "transport": {"tcp", "rdma"}, "interface": str}],
    "events": [{"at_us": int, "source": {"person", "interface", "daemon"}, "rail": str, "text": str,
                "kind": {"pull", "plug", "sleep", "wake", "interface_down", "interface_up", "rail_down",
                         "rail_up", "link_waits", "node_lost", "node_up"}}],
    "events_left_out": int,
}


class BadFile(Exception):
    """Returns what is wrong with the file, for people."""


def need(holds, what):
    if not holds:
        raise BadFile(what)


def read(path):
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise BadFile(str(error)) from None
    need(len(data) <= BYTES_MAX, f"{path}: larger than {BYTES_MAX} bytes; no file of first light is")
    try:
        document = json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BadFile(f"{path}: no JSON: {error}") from None
    fits(document, SHAPE, "")
    check(document)
    return document


def fits(value, shape, where):
    kind = shape if isinstance(shape, type) else str if isinstance(shape, set) else type(shape)
    need(type(value) is kind or (kind is float and type(value) is int), f"{where}: expected {kind.__name__}")
    if isinstance(shape, set):
        need(value in shape, f"{where}: {value[:99]!r} is not one of {sorted(shape)}")
    elif isinstance(shape, list):
        for number, one in enumerate(value):
            fits(one, shape[0], f"{where}/{number}")
    elif isinstance(shape, dict):
        missing = [name for name in shape if name[-1] not in "?*" and name not in value]
        need(not missing, f"{where}: without {missing}")
        for name, one in value.items():
            of = shape.get(name, shape.get(name + "?", shape.get("*")))
            need(of is not None, f"{where}: there is no {name[:99]!r}")
            fits(one, of, f"{where}/{name}".lstrip("/"))


def check(document):
    """Checks what a shape cannot express."""
    need(document["version"] == 1, "version: expected 1, the only one so far")
    for name, value in document.items():
        need(not isinstance(value, list) or len(value) <= LIST_MAX, f"{name}: more than {LIST_MAX} entries")
    ids = [one["id"] for one in document["assumptions"]]
    need(len(ids) == len(set(ids)), "assumptions: two of one id")
    for device in document["rdma"]["devices"]:
        need(WORD.fullmatch(device["name"]), f"rdma/devices: {device['name']!r} is not the name of a device")
        for gid in device["gids"]:
            need(WORD.fullmatch(gid), f"rdma/devices: {gid!r} is not a GID")
    rails = [rail["rail"] for rail in document["rails"]]
    need(len(rails) <= 16 and len(rails) == len(set(rails)), "rails: at most 16, each once")
    last = 0
    held = None
    for event in document["events"]:
        need(last <= event["at_us"] <= DAY_US, "events: not in order of time, or later than a day")
        last = event["at_us"]
        if event["kind"].startswith("rail_"):
            need(event["rail"] in rails, f"events: there is no rail {event['rail']!r}")
        if event["kind"] == "pull":
            need(held is None, "events: a cable is pulled while another is out")
            held = event["rail"]
        if event["kind"] == "plug":
            need(held == event["rail"], "events: a cable is plugged in that was not pulled")
            held = None


def happened(events):
    """By rail ("" means the link): the kinds in order; a repeated kind counts once."""
    order = {}
    for event in events:
        kinds = order.setdefault(event["rail"], [])
        if not kinds or kinds[-1] != event["kind"]:
            kinds.append(event["kind"])
    return order


def pulls(document):
    """[(interface, at_us, for_us)] of cables that were plugged in again."""
    found = []
    for event in document["events"]:
        if event["kind"] == "pull":
            out = event
        elif event["kind"] == "plug":
            found.append((event["rail"], out["at_us"], event["at_us"] - out["at_us"]))
    return found


def daemon_events(document):
    """The events from the first pull on, if the file has a cable that was plugged in again."""
    begin = pulls(document)[0][1]
    return [event for event in document["events"] if event["source"] == "daemon" and event["at_us"] >= begin]


def script(document):
    """Returns a script for `mlxcomm_simulator --script`: the same rails on cables of two hosts, pulled for
    the same time. The grace period is derived from whether the neighbour was lost."""
    done = pulls(document)
    waits = [e["at_us"] for e in daemon_events(document) if e["kind"] == "link_waits"]
    lost = [e["at_us"] for e in daemon_events(document) if e["kind"] == "node_lost"]
    longest = max(for_us for _, _, for_us in done)
    grace_us = max(1000, lost[0] - waits[0]) if lost and waits else 2 * longest + 1_000_000
    seen = any(event["kind"] == "interface_down" for event in document["events"])
    lines = [f"grace_us {grace_us}"]
    lines += [f"cable {rail['transport']} {'reported' if seen else 'silent'}" for rail in document["rails"]]
    begin = done[0][1]
    for interface, at_us, for_us in done:
        for number, rail in enumerate(document["rails"]):
            if rail["interface"] == interface:
                lines.append(f"pull {number} {at_us - begin} {max(1, for_us)}")
    return "\n".join(lines) + "\n"


def control(document):
    """For tests/fake_verbs: the recorded devices and, as far as the fake can imitate it, what they
    refused."""
    lines = []
    for device in document["rdma"]["devices"]:
        lines.append(f"device {device['name']} {','.join(device['gids'])}")
        if not device["active"]:
            lines.append(f"down {device['name']}")
        for trial in device["trials"]:
            name, verdict = trial["name"], trial["verdict"]
            if name == "pair-rc" and verdict == "worked":
                lines.append("unreliable_only 0")
            if name in CALL_OF and verdict in WORD_OF:
                lines.append(f"{WORD_OF[verdict]} {CALL_OF[name]}")
            count = re.match(r"\d{1,3}(?= at once)", trial["text"])
            if name == "regions" and verdict == "worked" and count:
                lines.append(f"regions {count.group()}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def limits(document):
    """The kind that the recording daemon assumed for the devices, and whether it waits for completions:
    the end of rdma { limits: ... }."""
    values = {limit["name"]: limit["value"] for limit in document["rdma"]["limits"]}
    kind = "LINUX" if values.get("equal_frame_bytes") == "0" else "APPLE"
    return kind + (" completion_events: false" if values.get("completion_events") == "false" else "")


def verdicts(document):
    """By device and trial."""
    return {(device["name"], trial["name"]): trial["verdict"]
            for device in document["rdma"]["devices"] for trial in device["trials"]}
