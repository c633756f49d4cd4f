"""The findings, by part, place and system: tables, pictures and verdicts all read them in this way.
`found` is the list of the JSON (README.md)."""

# The one of ours that a peer is compared with; else the C++ client.
PARTNERS = {"MLX ring": "mlxcomm, MLX", "MLX alone": "mlxcomm, MLX"}
FIGURES = {"curve": "median_us", "stream": "bits_per_second", "step": "step_seconds",
           "start": "world_ms", "cost": "cpu_seconds_per_gib", "idle": "daemon_bytes"}
OURS = ("mlxcomm, C++", "mlxcomm, MLX")


class Findings:
    def __init__(self, found):
        self.found = found

    def of_kind(self, kind, part=None):
        return [entry for entry in self.found
                if entry["kind"] == kind and part in (None, entry["part"])]

    def places(self, part):
        """All places that were to be measured, in that order."""
        return list(dict.fromkeys(entry["place"] for entry in self.found if entry["part"] == part))

    def measured_places(self, part):
        """Those that have any figures."""
        return [place for place in self.places(part)
                if any(has_figures(entry) for entry in self.found
                       if (entry["part"], entry["place"]) == (part, place))]

    def entry(self, kind, part, place, system):
        return next((entry for entry in self.of_kind(kind, part)
                     if (entry["place"], entry["system"]) == (place, system)), None)

    def curve(self, part, place, system):
        """{bytes: [microseconds of each round]}; empty where it was not measured."""
        entry = self.entry("curve", part, place, system) or {"median_us": {}}
        return {int(size): times for size, times in entry["median_us"].items() if times}

    def sizes(self, part, place):
        """All sizes that were to be measured, by any system."""
        return sorted({int(size) for entry in self.of_kind("curve", part)
                       if entry["place"] == place for size in entry["median_us"]})

    def curves(self, part, place):
        """{system: curve}, of those that have figures."""
        curves = {entry["system"]: self.curve(part, place, entry["system"])
                  for entry in self.of_kind("curve", part) if entry["place"] == place}
        return {system: curve for system, curve in curves.items() if curve}

    def models(self):
        return list(dict.fromkeys(entry["model"] for entry in self.of_kind("step")))

    def steps(self, model):
        """{system: [seconds of each round]} of a training step, of those that have figures."""
        return {entry["system"]: entry["step_seconds"] for entry in self.of_kind("step")
                if entry["model"] == model and entry["step_seconds"]}

    def crossings(self):
        """{model: {how gradients are averaged: arrays handed from stream to stream in a step}}"""
        return {entry["model"]: entry["crossings"] for entry in self.of_kind("step")
                if entry.get("crossings")}

    def reason(self, part, places, systems, model=None):
        """Why there are no figures for one of these systems at one of these places."""
        for entry in self.found:
            if (entry["part"] == part and entry["place"] in places and entry["system"] in systems
                    and entry.get("model") == model and why_missing(entry)):
                return f"{entry['system']}: {why_missing(entry)}"
        return "there are no figures"

    def ranks(self, part, place):
        return next(entry["ranks"] for entry in self.found
                    if (entry["part"], entry["place"]) == (part, place))

    def stream(self, part, place):
        """[bits per second of each round]"""
        entry = self.entry("stream", part, place, "iperf3")
        return entry["bits_per_second"] if entry else []


def has_figures(entry):
    figures = entry[FIGURES[entry["kind"]]]
    return any(figures.values()) if isinstance(figures, dict) else bool(figures)


def why_missing(entry):
    return entry.get("lost") or entry.get("left_out") or ""


def ours_lost(found):
    """Where ours failed; what a machine does not allow is no failure."""
    return [entry for entry in found if "mlxcomm" in entry["system"] and entry.get("lost")]


def partner(system):
    return PARTNERS.get(system, "mlxcomm, C++")


def where(part, place):
    """For people: a place where two parts are measured has two names."""
    return f"{place}, after a pause" if part == "paused" else place
