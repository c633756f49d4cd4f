"""Daemons that count operations, because a program that bypasses mlxcomm may compute right values, too."""

import urllib.request
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from conftest import PATIENCE, Cluster, find_program, free_port, wait_until

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class CountedCluster(Cluster):
    """Each daemon has a port for its metrics."""

    def __init__(self, folder, count, **settings):
        super().__init__(folder, count, **settings)
        self.metrics_ports = [free_port() for _ in range(count)]

    def write_config(self, node):
        path = super().write_config(node)
        with open(path, "a", encoding="ascii") as file:
            file.write(f'metrics {{ listen: "127.0.0.1:{self.metrics_ports[node]}" }}\n')
        return path

    def samples(self, node, name):
        url = f"http://127.0.0.1:{self.metrics_ports[node]}/metrics"
        with OPENER.open(url, timeout=PATIENCE) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return [sample for family in families for sample in family.samples if sample.name == name]

    def done(self, node=0):
        """Returns a node's finished operations by kind, and messages at both ends; none may have failed."""
        assert not [one for one in self.samples(node, "mlxcomm_operations_failed_total") if one.value]
        counts = Counter()
        for sample in self.samples(node, "mlxcomm_operations_done_total"):
            counts[sample.labels["operation"]] += int(sample.value)
        return counts

    def all_done(self):
        """The counts of every node once no rank is attached: those of jobs that have ended."""
        for node in range(self.count):
            wait_until(lambda: not any(one.value for one in self.samples(node, "mlxcomm_clients")),
                       "all ranks have left")
        return [self.done(node) for node in range(self.count)]

    def all_done_on_one_node(self):
        """Counts a send or a recv of one node as one message."""
        [counts] = self.all_done()
        counts["message"] = counts.pop("send", 0) + counts.pop("recv", 0)
        return +counts

    def launched(self, ranks, *command, options=()):
        """Starts an unchanged program by mlxcommctl launch on node 0."""
        return [find_program("mlxcommctl"), "launch", "-n", str(ranks), "--socket", self.socket(0),
                *options, "--", *map(str, command)]


def lines_of(launched, rank=0):
    mark = f"[{rank}] "
    return [line[len(mark):] for line in launched.splitlines() if line.startswith(mark)]
