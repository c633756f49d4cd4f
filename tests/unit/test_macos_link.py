"""tests/macos/link, with small sources: symbols that exist where a Mac has them link; each other
kind is refused with its name."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# For the first link zig compiles its runtime libraries, which takes a quarter of a minute.
pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(sys.platform != "linux", reason="a Mac's own linker does it there"),
              pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="no cross compiler")]
OTHERS = """#include <string>
namespace absl {
std::string Joined(const std::string& text) { return text; }
template <typename Type> Type Same(Type value) { return value; }
template std::string* Same(std::string*);
struct Stream { Stream& operator<<(const std::string&); };
Stream& Stream::operator<<(const std::string&) { return *this; }
}
extern "C" int SSL_number() { return 1; }
"""
DECLARED = """#include <string>
namespace absl {
std::string Joined(const std::string&);
template <typename Type> Type Same(Type value);
struct Stream { Stream& operator<<(const std::string&); };
int Unheard(const std::string&);
}
namespace mlxcomm { int Own(const std::string& text); }
extern "C" int SSL_number();
extern "C" int SSL_other();
extern "C" int accept4(int, void*, void*, int);
extern "C" int close(int);
"""


def zig():
    return pathlib.Path(importlib.util.find_spec("ziglang").submodule_search_locations[0]) / "zig"


class Tools:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "macos" / "zig"),
                            "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}

    def call(self, *words):
        return subprocess.run(list(map(str, words)), cwd=self.folder, env=self.environment, text=True,
                              capture_output=True, timeout=900)

    def must(self, *words):
        done = self.call(*words)
        assert done.returncode == 0, done.stderr

    def compile(self, name, body):
        (self.folder / f"{name}.cc").write_text(DECLARED + body)
        self.must(zig(), "c++", "-target", "aarch64-macos", "-std=c++20", "-c", f"{name}.cc", "-o",
                  f"{name}.o")
        return f"{name}.o"

    def archive(self, name, body):
        self.must(zig(), "ar", "rcs", f"lib{name}.a", self.compile(name, body))
        return f"lib{name}.a"

    def link(self, *words, out="out"):
        """None, or the names that are reported undefined."""
        # In C: libc++ takes a minute to compile, and nothing here needs more than its headers.
        done = self.call(sys.executable, ROOT / "tests" / "macos" / "link", zig(), "cc", "-target",
                         "aarch64-macos", "-o", out, *words)
        if done.returncode == 0:
            return None
        assert f"{out}: " in done.stderr, done.stderr
        return [line.strip().split("  ")[0] for line in done.stderr.splitlines() if line.startswith("  ")]


@pytest.fixture
def tools(tmp_path):
    return Tools(tmp_path)


@pytest.fixture
def others(tools):
    """A library of Linux, with libstdc++'s C++."""
    (tools.folder / "others.cc").write_text(OTHERS)
    tools.must("c++", "-shared", "-fPIC", "others.cc", "-o", "libothers.so")
    return tools.folder / "libothers.so"


OF_OTHERS = """int main() {
  std::string* text = nullptr;
  absl::Stream stream;
  stream << *absl::Same(text);
  return SSL_number() + close(0);
}
"""


def test_undefined_functions_and_linux_calls_are_refused_by_name_and_target(tools):
    used = tools.compile("used", "int main() { return mlxcomm::Own(*(std::string*)nullptr) + "
                                 "accept4(0, nullptr, nullptr, 0) + close(0); }")
    missing = tools.link(used, out="daemon")
    assert len(missing) == 2 and missing[1] == "accept4", missing
    assert missing[0].startswith("mlxcomm::Own(std::__1::basic_string<"), missing
    own = tools.archive("own", "int mlxcomm::Own(const std::string&) { return 1; }")
    assert tools.link(used, own) == ["accept4"]
    # In an archive that is linked, and in one of its sources that is not.
    other = tools.archive("unused", "int Other() { return accept4(0, nullptr, nullptr, 0); }")
    alone = tools.compile("alone", "int main() { return 0; }")
    assert tools.link(alone, other) is None
    assert tools.link(alone, f"-Wl,-force_load,{other}") == ["accept4"]


def test_what_a_library_of_the_line_has_is_found_and_without_it_is_refused(tools, others):
    used = tools.compile("used", OF_OTHERS)
    assert tools.link(used, others) is None
    assert tools.link(used, f"-L{others.parent}", "-lothers") is None
    missing = tools.link(used)
    assert [name.partition("(")[0] for name in missing if "absl" in name and "<<" in name] == [
        "absl::Stream::operator<<"], missing
    assert any("absl::Same<" in name for name in missing), missing
    assert "SSL_number" in missing and "close" not in missing


# Why: a library on the command line may not have the function.
def test_what_a_library_of_the_line_does_not_have_is_refused(tools, others):
    used = tools.compile("used", "int main() { return absl::Unheard(*(std::string*)nullptr) + "
                                 "SSL_other() + SSL_number(); }")
    missing = tools.link(used, others)
    assert len(missing) == 2 and missing[0].startswith("SSL_other"), missing
    assert missing[1].startswith("absl::Unheard("), missing


# Why: Linux's libc is an ELF library as well, and has accept4.
def test_systems_own_libraries_stand_for_nothing(tools):
    used = tools.compile("used", "int main() { return accept4(0, nullptr, nullptr, 0); }")
    (tools.folder / "libc.so.6").write_bytes(b"\x7fELF")
    (tools.folder / "librt.a").write_bytes(b"!<arch>\n")
    assert tools.link(used, tools.folder / "libc.so.6", "-lrt", "-ldl", f"-L{tools.folder}") == ["accept4"]


# Why: the cross compiler's linker accepts the list of visible symbols, and exports all of them.
def test_library_gives_others_only_what_its_list_exports(tools):
    (tools.folder / "exports.macos").write_text("_mlxcomm_*\n")
    (tools.folder / "inner.cc").write_text('extern "C" { int mlxcomm_seen() { return 1; } int inner() '
                                           '{ return 2; } }\n')
    exports = "-Wl,-exported_symbols_list,exports.macos"
    assert tools.link("-dynamiclib", exports, "inner.cc", out="libmlxcomm.dylib") is None
    user = 'extern "C" int mlxcomm_seen(); extern "C" int inner(); int main() { return mlxcomm_seen()'
    assert tools.link(tools.compile("good", f"{user}; }}"), "libmlxcomm.dylib") is None
    assert tools.link(tools.compile("bad", f"{user} + inner(); }}"), "libmlxcomm.dylib") == ["inner"]
    (tools.folder / "exports.macos").write_text("_mlxcomm_*\n_MPI_*\n")
    assert tools.link("-dynamiclib", exports, "inner.cc", out="libmlxcomm.dylib") == []


def test_a_module_may_leave_only_its_loaders_symbols_undefined(tools):
    (tools.folder / "loader.sym").write_text("-U _PyLoader_Call\n")
    module = tools.compile("module", 'extern "C" int PyLoader_Call(); extern "C" int PyOther(); '
                                     'int Begin() { return PyLoader_Call(); }')
    assert tools.link("-bundle", "-Wl,@loader.sym", module) is None
    assert tools.link("-bundle", module) == ["PyLoader_Call"]
