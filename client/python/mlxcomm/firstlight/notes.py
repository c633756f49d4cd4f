"""The results of a run and its report, one JSON object:

    format, version   "mlxcomm-firstlight", 1
    about             [text]: for people
    names_replaced    whether names and addresses are pseudonyms
    system            {name: text}: the machine, without its name
    took_ms           for all steps
    summary           {confirmed, refuted, not_tried}: counts of assumptions
    assumptions       [{id, assumed, source, step, verdict, seen}]: the verdict is "confirmed", "refuted" or
                      "not tried", with the reason in `seen`
    steps             [{name, outcome, why, began_ms, took_ms}]: the outcome is "done" or "left out"
    measurements      [{name, value, unit}]
    interfaces        [{name, hardware, running, thunderbolt, mtu, bridge, has_link_local}]
    findings          [text]: doctor's: code, object, what was found
    rdma              {limits: [{name, value, source}], devices: [{name, active, state, gids, trials, held}],
                      trouble}: RdmaTrials of proto/mlxcomm/v1/ctl.proto
    rails             [{rail, transport, interface}]: before a cable was pulled
    events            [{at_us, source, kind, rail, text}], sorted by time: the source is "person", "interface"
                      or "daemon"; the rail may be an interface, or "" for the whole link
    events_left_out   how many events were dropped

tests/firstlight/recording.py checks files against this.
"""

import collections
import ipaddress
import json
import re

from .assumptions import ASSUMPTIONS

CONFIRMED, REFUTED, NOT_TRIED = "confirmed", "refuted", "not tried"
NOT_ASKED = "not requested"
EVENTS_MAX = TEXT_MAX = 4096
ABOUT = [
    "Results of python -m mlxcomm firstlight on one machine, for mlxcomm's developers.",
    "assumptions: what mlxcomm assumes about Macs; confirmed, refuted, or not tried and why.",
    "Also: steps, measurements, interfaces, doctor's findings, rdma (results for each device), events.",
    "Not included: keys, names of machines and users, MAC addresses, your programs and data.",
    "Names are replaced by mac-1, mac-2, ..., and each address by one of the same kind.",
    "Read it before you share it. tests/firstlight/replay reads it.",
]
# The texts of these fields come from a fixed set.
WORDS = {"format", "about", "id", "assumed", "source", "step", "verdict", "outcome", "kind", "transport"}
# Text that looks like a key: 64 hexadecimal digits, perhaps with separators; base64; the code of
# `mlxcommctl cluster key show`.
KEY = re.compile(r"(?<![\w+/-])(?:[0-9A-Fa-f]{2}(?:[: -]?[0-9A-Fa-f]{2}){31,}[0-9A-Fa-f]?"
                 r"|[\w+/-]{43}(?:=|(?![\w+/-]))"
                 r"|(?=.{0,68}\d)[A-Za-z0-9]{4}([- ])(?:[A-Za-z0-9]{4}\1){12}[A-Za-z0-9]{4}(?![\w+/-]))")
# Networks and the prefix of their pseudonyms; "": such addresses identify nobody.
KINDS = [(ipaddress.ip_network(network), instead) for network, instead in (
    ("127.0.0.0/8", ""), ("0.0.0.0/16", ""), ("169.254.0.0/16", "169.254.0."), ("10.0.0.0/8", "10.0.0."),
    ("0.0.0.0/0", "192.0.2."), ("ff00::/8", ""), ("::/120", ""), ("fe80::/10", "fe80::"),
    ("::/0", "2001:db8::"))]


def shown(text):
    """Makes text from other machines and drivers safe for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Pseudonyms:
    """Replaces names and addresses. Equal ones get equal pseudonyms, and an address gets one of the same
    kind, because the kind matters, above all for a GID."""

    def __init__(self, replaces):
        self.replaces = replaces
        self.names, self.addresses, self.count = {}, {}, collections.Counter()

    def know(self, name, kind, instead=""):
        """From now on replaces the word `name` by "KIND-1", "KIND-2", ..., or `instead`."""
        if len(name) > 1 and name not in self.names:
            self.count[kind] += not instead
            self.names[name] = instead or f"{kind}-{self.count[kind]}"

    def replace(self, text):
        if not self.replaces:
            return text
        names = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True))
        if names:
            text = re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda match: self.names[match[0]], text)
        return re.sub(r"(?<![\w-])[0-9A-Fa-f:.]{2,64}(?![\w:.])", self._replace_address, text)

    def _replace_address(self, match):
        address = match[0]
        while address.endswith((".", ":")) and not address.endswith("::"):
            address = address[:-1]  # The end of a sentence.
        if 0 <= address.find(".") < address.find(":"):
            address = address[:address.find(":")]  # A port follows.
        return self._address(address) + match[0][len(address):]

    def _address(self, text):
        digits = ""
        if re.fullmatch(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", text):
            key, kind, digits = text, "02:00:00:00:00:", "02"
        else:
            try:
                key = ipaddress.ip_address(text)
            except ValueError:
                return text
            if key.version == 6 and key.ipv4_mapped:
                return "::ffff:" + self._address(str(key.ipv4_mapped))
            kind = next(instead for network, instead in KINDS if key in network)
            if kind == "fe80::" and key.packed[11:13] == b"\xff\xfe":
                kind = "fe80::200:ff:fe00:"  # Derived from a MAC address.
        if kind and key not in self.addresses:
            self.count[kind] = min(self.count[kind] + 1, 99)
            self.addresses[key] = f"{kind}{self.count[kind]:{digits}}"
        return self.addresses.get(key, text)


class Notes:
    def __init__(self):
        self.verdicts = {}  # Id to verdict and reason.
        self.file = {"format": "mlxcomm-firstlight", "version": 1, "about": ABOUT, "names_replaced": True,
                     "system": {}, "took_ms": 0, "summary": {}, "assumptions": [], "steps": [],
                     "measurements": [], "interfaces": [], "findings": [],
                     "rdma": {"limits": [], "devices": [], "trouble": ""}, "rails": [], "events": [],
                     "events_left_out": 0}

    def put(self, name, verdict, seen):
        """Adds a verdict. If an assumption has several (one for each device), a refutation wins, then a
        confirmation."""
        assert name in ASSUMPTIONS, name
        order = (NOT_TRIED, CONFIRMED, REFUTED)
        before, text = self.verdicts.get(name, (NOT_TRIED, ""))
        if order.index(verdict) >= order.index(before):
            text = f"{text}; {seen}" if text and verdict == before else seen
            self.verdicts[name] = verdict, text[:TEXT_MAX]

    def judge(self, holds, name, seen):
        self.put(name, CONFIRMED if holds else REFUTED, seen)

    def leave_out(self, name, why):
        self.put(name, NOT_TRIED, why)

    def measure(self, name, value, unit):
        self.file["measurements"].append({"name": name, "value": value, "unit": unit})

    def of(self, name):
        step = ASSUMPTIONS[name].step
        whys = [one["why"] for one in self.file["steps"] if one["name"] == step and one["why"]]
        return self.verdicts.get(name, (NOT_TRIED, *whys, f"step {step} reported nothing")[:2])

    def document(self, names):
        """Returns the report as JSON, with one line for each list entry."""
        def filtered(value, name=""):
            if isinstance(value, dict):
                return {name: filtered(one, name) for name, one in value.items()}
            if isinstance(value, list):
                return [filtered(one, name) for one in value]
            if isinstance(value, str) and name not in WORDS:
                return KEY.sub("(removed: a key)", names.replace(value[:TEXT_MAX]))
            return value

        verdicts = {name: self.of(name) for name in ASSUMPTIONS}
        count = collections.Counter(verdict for verdict, _ in verdicts.values())
        events, rdma = sorted(self.file["events"], key=lambda event: event["at_us"]), self.file["rdma"]
        limits = [one for one in rdma["limits"] if one["name"] not in ("library", "configuration")]  # Paths.
        document = filtered({
            **self.file, "names_replaced": names.replaces,
            "summary": {one.replace(" ", "_"): count[one] for one in (CONFIRMED, REFUTED, NOT_TRIED)},
            "assumptions": [{**one._asdict(), "verdict": verdicts[name][0], "seen": verdicts[name][1]}
                            for name, one in ASSUMPTIONS.items()],
            "rdma": {**rdma, "limits": limits}, "events": events[:EVENTS_MAX],
            "events_left_out": len(events[EVENTS_MAX:])})
        parts = []
        for name, value in document.items():
            rows = ",\n".join("    " + json.dumps(one) for one in value) if isinstance(value, list) else ""
            text = f"[\n{rows}\n  ]" if rows else json.dumps(value, indent=2).replace("\n", "\n  ")
            parts.append(f'  "{name}": {text}')
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def summary(self):
        """Returns a text for people. Assumptions whose step was not requested are only counted."""
        rows = {REFUTED: [], CONFIRMED: [], NOT_TRIED: []}
        for name, one in ASSUMPTIONS.items():
            verdict, seen = self.of(name)
            if seen != NOT_ASKED:
                rows[verdict].append(f"{verdict:11}{one.assumed}\n{'':11}{shown(seen)}\n")
        others = len(ASSUMPTIONS) - sum(map(len, rows.values()))
        counts = [f"{len(rows[verdict])} {verdict}" for verdict in (CONFIRMED, REFUTED, NOT_TRIED)]
        left = f"{others} others were not requested\n" if others else ""
        return "".join(map("".join, rows.values())) + ", ".join(counts) + "\n" + left
