"""What Prometheus reads from a real daemon: with its own parser, and with promtool if available."""

import contextlib
import re
import shutil
import socket
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from conftest import PATIENCE, RANK, completed, find_program, free_port, wait_until
from ground.daemon_resources import given_back
from ground.outcomes import at_work

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def scrape(port, path="/metrics", accept="*/*"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with OPENER.open(request, timeout=PATIENCE) as answer:
        return answer.read().decode(), answer.headers


def samples(text):
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


@pytest.fixture
def measured(cluster):
    """Two daemons that have run a job of two ranks, and the first one's metrics."""
    port = free_port()
    c = cluster(2, start=False, top_settings=f'metrics {{ listen: "127.0.0.1:{port}" }}')
    c.start_daemon(0)
    c.settings = ("", "", "")
    c.start_daemon(1)
    c.wait_linked()
    ranks = [c.rank(rank, 2, RANK, node=rank, arguments=["sum:float32:300000", "gather:8"])
             for rank in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
    wait_until(lambda: samples(scrape(port)[0])[("mlxcomm_clients", ())] == 0, "all have left")
    return c, port, scrape(port)[0]


def test_a_job_is_seen_by_kind_type_bytes_and_time(measured):
    _, _, text = measured
    reported = samples(text)
    sums = (("dtype", "float32"), ("operation", "all_reduce"))
    assert reported[("mlxcomm_operations_done_total", sums)] >= 1
    assert reported[("mlxcomm_operation_bytes_total", sums)] >= 1_200_000
    assert reported[("mlxcomm_operations_failed_total", sums)] == 0
    count = reported[("mlxcomm_operation_duration_seconds_count", sums)]
    assert count == reported[("mlxcomm_operations_done_total", sums)]
    buckets = [value for (name, labels), value in reported.items()
               if name == "mlxcomm_operation_duration_seconds_bucket" and set(sums) < set(labels)]
    assert buckets == sorted(buckets) and buckets[-1] == count
    assert 0 < reported[("mlxcomm_operation_duration_seconds_sum", sums)] < PATIENCE
    rails = {labels: value for (name, labels), value in reported.items()
             if name == "mlxcomm_rail_sent_bytes_total"}
    assert [dict(labels)["peer"] for labels in rails] == ["node-1"]
    assert sum(rails.values()) > 1_200_000 / 2
    assert reported[("mlxcomm_link_up", (("peer", "node-1"),))] == 1
    assert reported[("mlxcomm_engine_wakeups_total", ())] > 0
    assert reported[("mlxcomm_engine_responsive", ())] == 1


def test_names_are_as_prometheus_wants_them(measured):
    """promtool's own verdict, where it is installed (Debian: prometheus)."""
    _, _, text = measured
    own = [family for family in text_string_to_metric_families(text)
           if not family.name.startswith("exposer_")]  # The library's.
    assert len(own) > 20
    for family in own:
        assert re.fullmatch(r"mlxcomm_[a-z_]+", family.name), family.name
        assert family.documentation and family.type in ("counter", "gauge", "histogram")
    if shutil.which("promtool") is None:
        return
    lines = [line for line in text.splitlines() if "exposer_" not in line]
    done = completed(["promtool", "check", "metrics"], input="\n".join(lines) + "\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Why: Prometheus asks for OpenMetrics first, and accepts the text format as well.
def test_a_client_that_prefers_openmetrics_gets_the_text_format(measured):
    _, port, text = measured
    reported, headers = scrape(port, accept="application/openmetrics-text;version=1.0.0,*/*;q=0.1")
    assert headers["Content-Type"].startswith("text/plain")
    assert {name for name, _ in samples(reported)} == {name for name, _ in samples(text)}


# Why: people look when the loop hangs, and a scrape must not hang with it.
def test_a_scrape_of_a_daemon_that_stops_ends(measured):
    c, port, _ = measured
    with pytest.raises(urllib.error.HTTPError) as error:
        scrape(port, "/etc/passwd")
    assert error.value.code == 404
    c.daemons[0].signal(15)
    assert c.daemons[0].finish() == 0, c.daemons[0].lines
    with pytest.raises(OSError):
        scrape(port)


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"


# Why: any process on the machine may connect there. A job continues in the meantime, and later requests get
# the page. While hundreds of connections are silent, other requests wait behind them.
@pytest.mark.skipif(sys.platform != "linux", reason="what a process uses is read from /proc")
@pytest.mark.parametrize("said, count", [
    (b"", 500), (GET, 500), (GET + b"x: y\r\n" * 20_000, 20), ((GET + b"\r\n") * 500, 20),
    (b"\x16\x03\x01\0", 20), (b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 1_000_000), 20)],
    ids=["silent", "slow", "endless", "unread", "garbage", "long"])
def test_abusive_connections_block_no_scrape_and_leak_nothing(measured, said, count):
    c, port, _ = measured
    with at_work(c, (0, 1), 100_000):
        with given_back(c.daemons[0].child.pid, threads=8), contextlib.ExitStack() as held:
            for _ in range(count):
                one = held.enter_context(socket.socket())
                one.setblocking(False)
                with contextlib.suppress(OSError):  # No more are accepted, or it has been ended.
                    one.connect_ex(("127.0.0.1", port))
                    one.sendall(said)
            if count < 100:
                assert samples(scrape(port)[0])
        assert samples(scrape(port)[0])


def start(tmp_path, metrics):
    config = tmp_path / "c"
    config.write_text(f'socket_path: "{tmp_path}/s" state_directory: "{tmp_path}/state"\n'
                      f"metrics {{ {metrics} }}\n")
    return completed([find_program("mlxcommd"), "--config", config])


def test_a_port_in_use_is_reported(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = start(tmp_path, f'listen: "127.0.0.1:{taken.getsockname()[1]}"')
    assert done.returncode == 1
    assert "metrics { listen:" in done.stderr and "another program may have that port" in done.stderr
