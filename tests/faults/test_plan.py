"""mlxcommctl plan: its output, its refusals, and their messages."""

import itertools
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import PATIENCE, find_program, wait_until


def ask(socket, *arguments):
    return subprocess.run([find_program("mlxcommctl"), "plan", "--socket", str(socket), *arguments],
                          capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def socket(cluster):
    return cluster(1).socket(0)


# As much of Graphviz's language as mlxcommctl writes.
STRING = r'"(?:[^"\\\n]|\\.)*"'
VALUE = rf"(?:{STRING}|[\w.]+)"
ATTRIBUTES = rf"\[{VALUE}={VALUE}(?:, {VALUE}={VALUE})*\]"
STATEMENT = re.compile(rf"{VALUE}={VALUE};|{VALUE}(?: -> {VALUE})? {ATTRIBUTES};|subgraph \w+ {{|}}")


def assert_is_graph(text, folder):
    lines = text.splitlines()
    assert lines[0] == "digraph plan {"
    for line in lines[1:]:
        assert STATEMENT.fullmatch(line.strip()), line
    assert sum(line.endswith("{") for line in lines) == sum(line.strip() == "}" for line in lines)
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True,
                               timeout=PATIENCE, cwd=folder)
        assert drawn.returncode == 0 and "</svg>" in drawn.stdout
        assert drawn.stderr == "", "Graphviz has nothing to complain of"


def test_reads_like_a_summary(socket):
    done = ask(socket, "--nodes", "8", "--ranks-per-node", "2", "--bytes", "64M", "--op", "all_reduce")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "all_reduce sum float32[16777216]: 8 nodes, 2 ranks on each, 64 MiB a rank"
    assert re.fullmatch(r"ranks of a node in shared memory, then ring in both directions "
                        r"between 8 nodes; predicted [\d.]+ ms; [\d.]+ GB/s bus bandwidth", lines[1])
    assert any(re.fullmatch(r"ring +[\d.]+ ms  chosen", line) for line in lines)
    assert re.fullmatch(r"\d+ steps, \d+ messages, at most .* of the daemon's memory a node", lines[-1])


def planned():
    """The operations that `plan --help` names."""
    shown = subprocess.run([find_program("mlxcommctl"), "plan", "--help"], capture_output=True, text=True,
                           timeout=PATIENCE).stdout
    return re.search(r"--op \{([\w,]+)\}", shown).group(1).split(",")


# Why: a name that help shows must be accepted. How: every kind on several shapes, each plan that is
# offered, small enough to be eager and large enough not to be.
def test_json_holds_choice_and_links(socket):
    assert len(planned()) >= 11
    shapes = ((2, 1), (3, 2), (8, 2))
    for operation, (nodes, ranks), size in itertools.product(planned(), shapes, ("1K", "3M")):
        arguments = ["--json", "--op", operation, "--nodes", str(nodes), "--ranks-per-node", str(ranks)]
        if operation != "barrier":
            arguments += ["--bytes", size]
        done = ask(socket, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        plan = json.loads(done.stdout)
        assert plan["estimates"][0]["plan"] == plan["plan"], "the cheapest"
        assert int(plan["predicted_ns"]) > 0
        assert plan["links"], "something goes from node to node"
        assert sum(int(link["messages"]) for link in plan["links"]) == int(plan["messages"])
        for estimate in plan["estimates"]:
            assert ask(socket, *arguments, "--plan", estimate["plan"]).returncode == 0


def test_steps_are_those_of_all_nodes(socket):
    arguments = ("--op", "all_reduce", "--nodes", "3", "--ranks-per-node", "2", "--bytes", "1M")
    plan = json.loads(ask(socket, *arguments, "--steps", "--json").stdout)
    listed = [len(node["steps"]) for node in plan["node_plans"]]
    assert sum(listed) == int(plan["steps"]) and len(listed) == 3
    text = ask(socket, *arguments, "--steps").stdout
    assert [line for line in text.splitlines() if line.startswith("node ")] == [
        "node 0, 2 ranks from rank 0", "node 1, 2 ranks from rank 2", "node 2, 2 ranks from rank 4"]
    assert len(re.findall(r"^ +\d+  (?:send|receive|reduce|combine|copy) ", text, re.M)) == sum(listed)
    assert "node_plans" in plan and "node 0," not in ask(socket, *arguments).stdout


@pytest.mark.parametrize("arguments", [
    # With 64M a picture has ten times the lines, of the same kinds, and Graphviz takes a minute for it.
    ("--op", "all_reduce", "--nodes", "8", "--ranks-per-node", "2", "--bytes", "8M"),
    ("--op", "all_to_all", "--nodes", "4", "--ranks-per-node", "16", "--bytes", "4K"),
    ("--op", "broadcast", "--nodes", "5", "--bytes", "1M", "--root", "3", "--plan", "tree"),
    ("--op", "reduce", "--nodes", "1", "--ranks-per-node", "3", "--bytes", "1M"),
    ("--op", "barrier", "--nodes", "2"),
])
def test_dot_is_a_picture(socket, arguments, tmp_path):
    picture = ask(socket, *arguments, "--dot")
    assert picture.returncode == 0, picture.stderr
    assert_is_graph(picture.stdout, tmp_path)
    steps = ask(socket, *arguments, "--dot", "--steps")
    assert steps.returncode == 0, steps.stderr
    assert_is_graph(steps.stdout, tmp_path)


@pytest.mark.parametrize("arguments, reason", [
    (("--op", "all_reduce", "--bytes", "1M"), "--nodes is required"),
    (("--op", "all_reduce", "--nodes", "2"), "--bytes is needed"),
    (("--op", "all_reduce", "--nodes", "2", "--bytes", "64MB"), '"64MB" is not of the form 64M or 1.5G'),
    (("--op", "all_reduce", "--nodes", "2", "--bytes", "1M", "--latency", "30"), "not of the form 30us"),
    (("--op", "all_reduce", "--nodes", "2", "--bytes", "1M", "--json", "--dot"), "excludes"),
    (("--op", "all_reduce", "--nodes", "33", "--bytes", "1M"), "nodes must be 1 to 32, not 33"),
    (("--op", "all_reduce", "--nodes", "-1", "--bytes", "1M"), "--nodes"),
    (("--op", "all_reduce", "--nodes", "2", "--bytes", "3"), "bytes must be a multiple of 4"),
    (("--op", "all_together", "--nodes", "2", "--bytes", "1M"), "no such operation"),
    (("--op", "gather", "--nodes", "2", "--bytes", "1M", "--root", "2"), "root must be 0 to 1, not 2"),
    (("--op", "all_to_all", "--nodes", "2", "--bytes", "1M", "--plan", "tree"),
     "all_to_all cannot go by tree on 2 nodes; it can by exchange"),
    (("--op", "all_to_all", "--nodes", "32", "--ranks-per-node", "8", "--bytes", "1K"),
     "more than 32768 steps"),
])
def test_wrong_arguments_are_told_and_exit_with_2(socket, arguments, reason):
    done = ask(socket, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stdout == ""


def test_says_what_to_do_where_there_is_no_daemon(tmp_path):
    done = ask(tmp_path / "none.sock", "--op", "all_reduce", "--nodes", "2", "--bytes", "1M")
    assert done.returncode == 3
    assert "Start it (mlxcommd" in done.stderr
    wrong = ask(tmp_path / "none.sock", "--op", "all_reduce", "--nodes", "0", "--bytes", "1M")
    assert wrong.returncode == 2 and "--nodes must be 1 to 32, not 0" in wrong.stderr


# Why: a user who thinks about buying cables has no daemon yet.
def test_needs_no_daemon_where_none_is_named_or_all_is_given(tmp_path):
    question = ("--op", "all_reduce", "--nodes", "2", "--bytes", "1M")
    nowhere = {**{name: value for name, value in os.environ.items() if name != "MLXCOMM_SOCKET"},
               "XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    words = [find_program("mlxcommctl"), "plan", *question]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=nowhere)
    assert done.returncode == 0, done.stderr
    assert "4.00 GB/s each way (default)" in done.stdout
    assert "no daemon tells" in done.stderr
    given = ask(tmp_path / "none.sock", *question, "--latency", "5us", "--bandwidth", "5G", "--links", "1")
    assert given.returncode == 0 and given.stderr == ""
    assert "a link: 5.00 us (given), 5.00 GB/s each way (given); 1 at once a node (given)" in given.stdout


# Why: a plan is useful because it knows these cables. How: two daemons that have exchanged
# heartbeats; then given figures instead.
def test_figures_are_this_nodes_unless_given(cluster):
    nodes = cluster(2, peer_settings="heartbeat_interval_ms: 20")
    arguments = ("--op", "all_reduce", "--nodes", "4", "--bytes", "1M", "--json")

    def measured():
        plan = json.loads(ask(nodes.socket(0), *arguments).stdout)
        return plan if plan["latency_source"] == "this node" else None

    plan = wait_until(measured, "the latency has been measured")
    assert plan["links_per_node_source"] == "this node"
    given = json.loads(ask(nodes.socket(0), *arguments, "--latency", "2ms", "--bandwidth", "500M",
                           "--links", "1").stdout)
    assert given["costs"] == {"latency_ns": "2000000", "bytes_per_second": "500000000",
                              "links_per_node": 1}
    assert int(given["predicted_ns"]) > int(plan["predicted_ns"])
    assert given["latency_source"] == given["bytes_per_second_source"] == "given"
