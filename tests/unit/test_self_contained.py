"""MLXCOMM_SELF_CONTAINED: the link lines name no shared library except our own.

How: the project is configured with empty files for the libraries that Debian only has as shared libraries;
nothing is built. tests/release checks the built files.
"""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LACKING = ["spdlog", "fmt", "hwy", "isal", "prometheus-cpp-core", "prometheus-cpp-pull", "civetweb",
           "civetweb-cpp"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="on macOS delocate does it")


def configure(folder, *options):
    return subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DMLXCOMM_SELF_CONTAINED=ON",
                           *options], capture_output=True, text=True, check=False)


def test_only_our_own_libraries_are_shared(tmp_path):
    for name in LACKING:
        (tmp_path / f"lib{name}.a").touch()
    done = configure(tmp_path / "build", f"-DMLXCOMM_STATIC_LIBRARIES={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(["ninja", "-C", tmp_path / "build", "-t", "commands", "all"], check=True,
                            capture_output=True, text=True).stdout
    links = [line for line in listed.splitlines() if re.search(r"-o client/\S+|-o daemon/mlxcommd", line)]
    shared = {pathlib.Path(word).name for line in links for word in line.split()
              if not word.startswith("-") and re.search(r"\.so(\.[0-9.]+)?$", word)}
    assert shared == {"libmlxcomm.so", "libmlxcomm_attach.so", "libmlxcomm_mpi.so"}
    attach = next(line for line in links if " -o client/lib/libmlxcomm_attach.so" in line)
    assert "-Wl,--exclude-libs,ALL" in attach  # A Python may have a different protobuf.
    assert "libprotobuf-lite.a" in attach


def test_what_has_no_static_library_is_named(tmp_path):
    done = configure(tmp_path / "build")
    if done.returncode == 0:
        pytest.skip("this machine has a static library of each")
    assert "no static library for" in done.stderr
    assert "config/static-libraries" in done.stderr


def test_it_is_refused_where_it_cannot_be(tmp_path):
    done = configure(tmp_path / "build", "-DMLXCOMM_SANITIZE=address")
    assert done.returncode != 0
    assert "MLXCOMM_SELF_CONTAINED works on Linux without sanitizers" in done.stderr.replace("\n", " ")
