"""The options that CMake passes to compiler and linker, where one system hides a mistake that another
reveals.

How: the project is configured again in a folder of its own, and the commands are read; nothing is
built.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="about Linux's folders and linker")


def configure(folder, *options):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DMLXCOMM_TESTS=ON", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def as_with_homebrew(tmp_path_factory):
    """OpenSSL is requested from a separate folder, and /usr/include, which has a version of it
    as well, is passed to the compiler like any other folder, as /opt/homebrew/include is."""
    folder = tmp_path_factory.mktemp("homebrew")
    (folder / "openssl@4" / "include").mkdir(parents=True)
    (folder / "openssl@4" / "include" / "openssl").symlink_to("/usr/include/openssl")
    project = folder / "project.cmake"
    project.write_text('set(CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "")\n', encoding="ascii")
    configure(folder / "build", f"-DOPENSSL_INCLUDE_DIR={folder}/openssl@4/include",
              f"-DCMAKE_PROJECT_INCLUDE={project}")
    return folder / "build"


def test_openssls_headers_are_those_of_the_library_that_is_linked(as_with_homebrew):
    """Why: Homebrew's common folder has the headers of the version that was linked last, and
    nearly every library adds that folder."""
    checked = 0
    for entry in json.loads((as_with_homebrew / "compile_commands.json").read_text(encoding="utf-8")):
        folders = re.findall(r"-(?:isystem |I)(\S+)", entry["command"])
        common = [place for place, folder in enumerate(folders) if folder == "/usr/include"]
        own = [place for place, folder in enumerate(folders) if folder.endswith("openssl@4/include")]
        if own and common:
            checked += 1
            assert own[0] < common[0], entry["command"]
    assert checked > 50


def test_a_symbol_that_no_library_has_is_an_error_of_the_link(as_with_homebrew):
    """Why: on macOS it is an error; here the build would make a library that cannot be loaded."""
    listed = subprocess.run(["ninja", "-C", as_with_homebrew, "-t", "commands", "all"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    lines = [line for line in listed if re.search(r" -shared .*-o \S+", line)]
    linked = {re.search(r" -o (\S+)", line).group(1): "-Wl,-z,defs" in line for line in lines}
    assert {pathlib.Path(name).name for name in linked} >= {"libmlxcomm.so", "libmlxcomm_attach.so",
                                                            "libmlxcomm_mpi.so", "libfake_verbs.so"}
    assert all(linked.values()), linked
