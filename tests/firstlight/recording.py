"""Reads a file of `python -m mlxcomm firstlight` (mlxcomm/firstlight/notes.py), which may come from anyone,
and makes scripts for the simulator and the fake verbs."""

import json
import re

BYTES_MAX = 8 << 20
# A word of a control file or a script, so that a name cannot inject anything else.
WORD = re.compile(r"[A-Za-z0-9_.:-]{1,63}")
# What the fake does in a trial by default, as tests/operations/test_rdma_shown.py has it, and which call of
# verbs it can be told to fail, hang or crash in for another outcome.
CALL_OF = {"channel": "ibv_create_comp_channel", "depth": "ibv_query_qp", "describe": "ibv_query_device",
           "message": "ibv_post_send", "message-frame": "ibv_post_send"}
WORD_OF = {"refused": "fail", "hung": "hang", "crashed": "crash"}


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
    check(document)
    return document


def check(document):
    """That it is such a file, and what would say something else in a control file or a script."""
    need(isinstance(document, dict) and document.get("format") == "mlxcomm-firstlight", "format: expected "
         "mlxcomm-firstlight")
    need(document.get("version") == 1, "version: expected 1, the only one so far")
    for device in document["rdma"]["devices"]:
        need(WORD.fullmatch(device["name"]), f"rdma/devices: {device['name']!r} is not the name of a device")
        for gid in device["gids"]:
            need(WORD.fullmatch(gid), f"rdma/devices: {gid!r} is not a GID")
    rails = [rail["rail"] for rail in document["rails"]]
    need(len(rails) == len(set(rails)), "rails: each once")
    for event in document["events"]:
        need(isinstance(event["at_us"], int), f"events: {event['at_us']!r} is no time")
        need(not event["kind"].startswith("rail_") or event["rail"] in rails,
             f"events: there is no rail {event['rail']!r}")


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
    found, out = [], None
    for event in document["events"]:
        if event["kind"] == "pull":
            out = event
        elif event["kind"] == "plug" and out is not None:
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
