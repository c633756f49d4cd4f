"""The hosts and the cables between them: pure data, built by ring(), chain(), pair(), mesh(),
switch(), detour() and crossed().

Cables are named after what they join: "0-1" lies between node-0 and node-1; "0-1a" and "0-1b" if
there are two; "0-s0" goes from node-0 to switch-0.
"""

import dataclasses
import string


@dataclasses.dataclass(frozen=True)
class End:
    """One end of a cable. A switch's end has no address."""

    place: str       # "node-2", "switch-0"
    interface: str   # "to-1a": at node-2, the cable 1-2a
    ipv4: str = ""
    ipv6: str = ""   # Link-local, so it has a meaning only together with the interface.


@dataclasses.dataclass(frozen=True)
class Cable:
    name: str
    ends: tuple
    rate: str = ""   # tc's form, "1gbit"; empty: as fast as the machine.

    def end_at(self, place):
        return next(end for end in self.ends if end.place == place)


@dataclasses.dataclass
class Wiring:
    """The hosts and cables of a description."""

    description: str
    nodes: int
    switches: int = 0
    cables: list = dataclasses.field(default_factory=list)

    @property
    def places(self):
        return ([f"node-{n}" for n in range(self.nodes)] +
                [f"switch-{s}" for s in range(self.switches)])

    def cable(self, name):
        for cable in self.cables:
            if cable.name == name:
                return cable
        raise KeyError(f"no cable {name}; there are {', '.join(c.name for c in self.cables)}")

    def cables_of(self, node):
        """[(its own end, the cable)]"""
        place = f"node-{node}"
        return [(end, cable) for cable in self.cables for end in cable.ends if end.place == place]

    def ends_seen_from(self, node):
        """[(own interface, the end at the other node)] for every path without forwarding."""
        seen = []
        for own, cable in self.cables_of(node):
            other = cable.ends[1] if cable.ends[0] is own else cable.ends[0]
            if other.place.startswith("node-"):
                seen.append((own.interface, other))
                continue
            for behind in self.cables:
                far = behind.ends[0]
                if behind.ends[1].place == other.place and far.place != own.place:
                    seen.append((own.interface, far))
        return seen

    def neighbours(self, node):
        return {int(end.place.split("-")[1]) for _, end in self.ends_seen_from(node)}

    def _join(self, a, b, count, rates):
        for k in range(count):
            letter = string.ascii_lowercase[k] if count > 1 else ""
            high, low = divmod(len(self.cables), 250)
            net, net6 = f"10.{1 + high}.{low}", f"fe80::c{len(self.cables):x}"
            self.cables.append(Cable(f"{a}-{b}{letter}", (
                End(f"node-{a}", f"to-{b}{letter}", f"{net}.1", f"{net6}:1"),
                End(f"node-{b}", f"to-{a}{letter}", f"{net}.2", f"{net6}:2")), rates[k]))


def _rates(rate, count):
    """One for each cable of a pair, from one text for all or a list."""
    rates = [rate] * count if isinstance(rate, str) else list(rate)
    if len(rates) != count:
        raise ValueError(f"{count} cables, but {len(rates)} rates")
    return rates


def _described(name, *arguments, **settings):
    """The call that makes it, without default arguments."""
    named = [f"{word}={value!r}" for word, value in settings.items() if value not in ("", 1)]
    return f"{name}({', '.join([*map(str, arguments), *named])})"


def chain(nodes, cables_per_pair=1, rate=""):
    made = Wiring(_described("chain", nodes, cables_per_pair=cables_per_pair, rate=rate), nodes)
    for a in range(nodes - 1):
        made._join(a, a + 1, cables_per_pair, _rates(rate, cables_per_pair))
    return made


def ring(nodes, cables_per_pair=1, rate=""):
    if nodes < 3:
        raise ValueError("a ring has at least 3 nodes; pair(cables=2) is two cables side by side")
    made = chain(nodes, cables_per_pair, rate)
    made.description = _described("ring", nodes, cables_per_pair=cables_per_pair, rate=rate)
    made._join(0, nodes - 1, cables_per_pair, _rates(rate, cables_per_pair))
    return made


def pair(cables=1, rate=""):
    made = chain(2, cables, rate)
    made.description = _described("pair", cables=cables, rate=rate)
    return made


def mesh(nodes, rate=""):
    made = Wiring(_described("mesh", nodes, rate=rate), nodes)
    for a in range(nodes):
        for b in range(a + 1, nodes):
            made._join(a, b, 1, [rate])
    return made


def switch(nodes, switches=1, rate=""):
    """Every node has a cable to every switch."""
    made = Wiring(_described("switch", nodes, switches=switches, rate=rate), nodes, switches)
    for s in range(switches):
        for n in range(nodes):
            made.cables.append(Cable(f"{n}-s{s}", (
                End(f"node-{n}", f"lan-{s}", f"10.{200 + s}.0.{n + 1}", f"fe80::f{s:x}:{n + 1:x}"),
                End(f"switch-{s}", f"port-{n}")), _rates(rate, switches)[s]))
    return made


def detour(rate=""):
    """Two nodes with a cable to a switch, and a third one with a cable to each of them."""
    made = switch(2, rate=rate)
    made.description, made.nodes = _described("detour", rate=rate), 3
    made._join(0, 2, 1, [rate])
    made._join(1, 2, 1, [rate])
    return made


def crossed(rate=""):
    """A ring of four in which the order is not that of names: 0, 2, 1, 3."""
    made = Wiring(_described("crossed", rate=rate), 4)
    for a, b in ((0, 2), (1, 2), (1, 3), (0, 3)):
        made._join(a, b, 1, [rate])
    return made
