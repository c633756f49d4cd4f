"""mlxcomm.pc: an installed libmlxcomm can be used with what pkg-config says, wherever it lies."""

import os
import shutil
import subprocess

import pytest

PROGRAM = """
#include <client/lib/mlxcomm.h>
#include <stdio.h>
// The functions of operations are inline, so this compiles all of them as C.
int main(void) {
  return puts(mlxcomm_version()) < 0 || mlxcomm_barrier(NULL, 0, NULL, NULL) == MLXCOMM_OK;
}
"""


def output(*command, **environment):
    return subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_builds_with_pkg_configs_flags(tmp_path):
    build = os.environ.get("MLXCOMM_BUILD")
    assert build, "set MLXCOMM_BUILD to a build folder (tests/run does)"
    there = tmp_path / "there"
    output("cmake", "--install", build, "--component", "system", "--prefix", str(there))
    prefix = tmp_path / "moved"
    there.rename(prefix)
    (found,) = prefix.rglob("mlxcomm.pc")
    flags = {kind: output("pkg-config", kind, "mlxcomm", PKG_CONFIG_PATH=str(found.parent)).split()
             for kind in ("--cflags", "--libs", "--modversion")}
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM, encoding="utf-8")
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    output("cc", *warnings, *flags["--cflags"], str(source), "-o", str(program),
           *flags["--libs"], f"-Wl,-rpath,{found.parent.parent}")
    assert [output(str(program))] == flags["--modversion"]
