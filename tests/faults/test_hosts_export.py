"""mlxcommctl hosts export: MLX's host file of a real cluster, accepted by all programs that read
it."""

import json
import os
import stat
import sys

import jsonschema
import pytest

from conftest import mlxcommctl as ctl

# Names of this machine that need no ssh, one for each node.
HERE = ["127.0.0.1", "::1", "localhost"]


def export(cluster, *words):
    return ctl("hosts", "export", "--socket", cluster.socket(0), *words)


def here(count):
    return [word for i in range(count) for word in ("--ssh-name", f"node-{i}={HERE[i]}")]


def test_an_export_imports_unchanged(cluster, tmp_path):
    c = cluster(3)
    done = export(c)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    hosts = json.loads(done.stdout)
    assert hosts == {"backend": "ring", "envs": [], "hosts": [
        {"ssh": f"node-{i}", "ips": ["127.0.0.1"], "rdma": []} for i in range(3)]}
    file = tmp_path / "hosts.json"
    file.write_text(done.stdout)
    assert ctl("hosts", "import", file).stdout == done.stdout


def test_launch_starts_ranks_on_its_hosts(cluster, tmp_path):
    c = cluster(3)
    file = tmp_path / "hosts.json"
    assert export(c, "-o", file, *here(3)).returncode == 0
    done = ctl("launch", "--hostfile", file, "--socket", c.socket(0), "--", sys.executable, "-c",
               "import os; print(os.environ['MLX_RANK'], os.environ['MLX_WORLD_SIZE'])")
    assert sorted(done.stdout.splitlines()) == [f"[{r}] {r} 3" for r in range(3)], done.stderr


# Why: one word too many must not overwrite a host file that a user has edited.
def test_a_file_that_is_there_is_kept_unless_forced(solo, tmp_path):
    file = tmp_path / "hosts.json"
    file.write_text("mine")
    done = export(solo, "-o", file)
    assert done.returncode == 1 and f"{file} already exists" in done.stderr and "--force" in done.stderr
    assert file.read_text() == "mine" and done.stdout == ""
    assert export(solo, "-o", file, "--force").returncode == 0
    assert json.loads(file.read_text())["hosts"][0]["ssh"] == "node-0"
    assert os.listdir(tmp_path).count("hosts.json") == 1 and not list(tmp_path.glob("hosts.json.*"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = export(solo, "-o", tmp_path / "no" / "such" / "folder")
    assert done.returncode == 1 and "cannot write" in done.stderr
    assert json.loads(export(solo, "-o", "-").stdout)["hosts"]


def test_json_has_all_fields_of_the_schema(cluster, tmp_path):
    c = cluster(3)
    file = tmp_path / "hosts.json"
    done = export(c, "--json", "-o", file, *here(3))
    reported = json.loads(done.stdout)
    jsonschema.validate(reported, json.loads(ctl("schema", "hosts", "export").stdout))
    assert reported["nodes"] == ["node-0", "node-1", "node-2"]
    assert [host["ssh"] for host in reported["hosts"]] == HERE
    assert reported["neighbours_share_cables"] and reported["notes"] == []
    assert json.loads(file.read_text()) == {key: reported[key] for key in ("backend", "envs", "hosts")}


@pytest.mark.parametrize("words", [
    ["--nodes", "a", "--rank-order", "a"], ["--nodes", "-x"], ["--backend", "mpi"], ["--ssh-name", "a"],
    ["--ssh-name", "=a"], ["--ssh-name", "a="], ["extra"]])
def test_wrong_usage_is_exit_code_2(words):
    assert ctl("hosts", "export", "--socket", "/nowhere", *words).returncode == 2
