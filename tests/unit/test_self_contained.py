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


def test_only_our_own_libraries_are_shared(tmp_path):
    for name in LACKING:
        (tmp_path / f"lib{name}.a").touch()
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja",
                           "-DMLXCOMM_SELF_CONTAINED=ON", f"-DMLXCOMM_STATIC_LIBRARIES={tmp_path}"],
                          capture_output=True, text=True, check=False)
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
