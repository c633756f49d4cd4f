"""What was found, by part, place and system: the one way in which tables, pictures and verdicts
read it. `found` is the list of the JSON (README.md)."""

PARTNERS = {"MLX ring": "mlxcomm, MLX"}  # Whom of ours a peer is compared with; else the C++ client.
OURS = ("mlxcomm, C++", "mlxcomm, MLX")


class Findings:
    def __init__(self, found):
        self.found = found

    def of_kind(self, kind, part=None):
        return [entry for entry in self.found
                if entry["kind"] == kind and part in (None, entry["part"])]

    def places(self, part):
        """In the order in which they were measured."""
        return list(dict.fromkeys(entry["place"] for entry in self.found if entry["part"] == part))

    def entry(self, kind, part, place, system):
        return next((entry for entry in self.of_kind(kind, part)
                     if (entry["place"], entry["system"]) == (place, system)), None)

    def curve(self, part, place, system):
        """{bytes: [microseconds of each round]}; empty where it was not measured."""
        entry = self.entry("curve", part, place, system)
        return {int(size): times for size, times in entry["median_us"].items()} if entry else {}

    def curves(self, part, place):
        """{system: curve}"""
        return {entry["system"]: self.curve(part, place, entry["system"])
                for entry in self.of_kind("curve", part) if entry["place"] == place}

    def ranks(self, part, place):
        return next(entry["ranks"] for entry in self.found
                    if (entry["part"], entry["place"]) == (part, place))

    def stream(self, part, place):
        """[bits per second of each round]"""
        entry = self.entry("stream", part, place, "iperf3")
        return entry["bits_per_second"] if entry else []


def partner(system):
    return PARTNERS.get(system, "mlxcomm, C++")
