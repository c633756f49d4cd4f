"""The tree's own rules: layout, sizes, headers, and which folder may include which."""

import itertools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
FILES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                       check=True).stdout.split()
CODE = [f for f in FILES if f.endswith((".h", ".hpp", ".cc"))]

# Folder -> what its files may include of the project, longest prefix first.
EVERYTHING = ("",)
ALLOWED = {
    "proto/": ("proto/", "mlxcomm/v1/"),
    "daemon/platform/": ("proto/", "daemon/platform/"),
    "daemon/reduce/": ("proto/types/", "daemon/reduce/"),
    "daemon/collective/": ("proto/types/", "proto/wire/frame.h", "daemon/reduce/kernels.h",
                           "daemon/collective/", "mlxcomm/v1/"),
    "daemon/rail/": ("proto/", "daemon/platform/", "daemon/rail/", "mlxcomm/v1/"),
    "daemon/link/": ("proto/", "daemon/platform/", "daemon/rail/", "daemon/link/", "mlxcomm/v1/"),
    "daemon/fabric/": ("proto/", "daemon/platform/", "daemon/rail/", "daemon/link/", "daemon/fabric/",
                       "mlxcomm/v1/"),
    "daemon/rdma/": ("proto/", "daemon/platform/", "daemon/rail/", "daemon/link/", "daemon/fabric/",
                     "daemon/rdma/", "mlxcomm/v1/"),
    "daemon/discovery/": ("proto/", "daemon/platform/interfaces.h", "daemon/platform/token_bucket.h",
                          "daemon/rail/text_field.h", "daemon/link/fabric_listener.h",
                          "daemon/fabric/authentication.h", "daemon/discovery/", "mlxcomm/v1/"),
    "daemon/jobs/": ("proto/", "daemon/collective/", "daemon/record/event_log.h",
                     "daemon/record/operation_recorder.h", "daemon/link/fabric_listener.h",
                     "daemon/fabric/links.h", "daemon/intake/processes.h", "daemon/jobs/", "mlxcomm/v1/"),
    "daemon/intake/": ("proto/", "daemon/platform/", "daemon/collective/call.h", "daemon/intake/"),
    "daemon/process/": ("proto/", "daemon/", "mlxcomm/v1/"),
    "daemon/work/": ("proto/", "daemon/platform/", "daemon/reduce/", "daemon/collective/",
                     "daemon/record/", "daemon/rail/spsc_ring.h", "daemon/work/"),
    "daemon/record/": ("proto/", "daemon/collective/", "daemon/rail/", "daemon/link/fabric_listener.h",
                       "daemon/platform/mapping.h", "daemon/record/"),
    # Without I/O, clock and threads: nothing from daemon/platform/, and no workers.
    "daemon/node/": ("proto/", "daemon/reduce/", "daemon/collective/", "daemon/record/",
                     "daemon/work/work_pieces.h", "daemon/link/fabric_listener.h", "daemon/fabric/links.h",
                     "daemon/discovery/", "daemon/intake/processes.h", "daemon/jobs/", "daemon/node/",
                     "mlxcomm/v1/"),
    # Checks what a process sends before gRPC and the node see it, and without them.
    "daemon/intake/guard/": ("proto/", "daemon/platform/", "daemon/intake/guard/"),
    "daemon/services/": ("proto/", "daemon/intake/guard/", "daemon/intake/session.h",
                         "daemon/intake/user_directory.h", "daemon/node/", "daemon/platform/",
                         "daemon/record/", "daemon/services/", "mlxcomm/v1/"),
    "daemon/metrics/": ("proto/", "daemon/intake/guard/end_reason.h", "daemon/node/node.h",
                        "daemon/node/answer.h", "daemon/record/operation_counts.h", "daemon/metrics/"),
    # Ranks that meet combine with the daemon's kernels, to get the same bits.
    "client/lib/": ("proto/", "daemon/reduce/kernels.h", "client/lib/", "mlxcomm/v1/"),
    "client/bench/": ("proto/types/", "client/lib/mlxcomm", "client/bench/"),
    "client/ctl/": ("proto/", "client/ctl/", "client/lib/find_place.h", "mlxcomm/v1/"),
    "client/ctl/rdma/": ("proto/", "client/ctl/cli/", "client/ctl/daemon/", "client/ctl/doctor/",
                         "client/ctl/rdma/", "client/ctl/status/", "mlxcomm/v1/"),
    "client/mpi/": ("client/lib/mlxcomm", "client/lib/interrupt.h", "client/lib/pending_sends.h",
                    "client/mpi/"),
    "client/mlx/": ("proto/types/", "client/lib/mlxcomm", "client/lib/interrupt.h",
                    "client/lib/pending_sends.h", "client/mlx/"),
    "client/mlx_c/": ("client/lib/mlxcomm", "client/mlx/", "client/mlx_c/"),
    "client/python/": ("client/lib/mlxcomm", "client/lib/interrupt.h", "client/mlx/", "client/python/"),
    "client/examples/": ("client/lib/mlxcomm",),
}
# Headers that contain these name their owner, thread and memory.
SHARED = re.compile(r"\bstd::(jthread|thread|mutex|shared_mutex|condition_variable|atomic)\b|\babsl::Mutex\b|"
                    r"\bMap(ped|ping)\w*")
OURS = ("proto/", "daemon/", "client/", "tests/", "mlxcomm/v1/")


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def for_each(paths):
    """Makes one test that names all files which break its rule; a test for each file would be slow."""
    def over_all(check):
        def test():
            wrong = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    wrong.append(f"{path}: {error}")
            assert not wrong, "\n".join(wrong)
        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test
    return over_all


def test_top_level_is_what_it_should_be():
    top = {f.split("/")[0] for f in FILES}
    assert {t for t in top if not t.startswith(".")} == {
        "CMakeLists.txt", "README.md", "client", "config", "daemon", "proto",
        "systemd-launchd", "tests"}


# Why: a test that is in no program never runs.
@for_each([f for f in FILES if f.startswith("tests/unit/") and f.endswith("_test.cc")])
def test_every_unit_test_is_in_a_program(path):
    name = path.removeprefix("tests/unit/")
    folder = name.rpartition("/")[0]
    programs = re.sub(r"#.*", "", text_of("tests/unit/CMakeLists.txt"))
    is_named = re.search(rf"\s({re.escape(folder)}|{re.escape(name)})\s", programs)
    assert is_named or re.fullmatch(r"client/ctl/\w+", folder)  # Those are found by a pattern.


SEARCHED = re.compile(
    # detail().find("key"), detail() == "loopback"
    r"(?:detail|why_not|last_end)\(\)\s*"
    r"(?:\.\s*(?:find|rfind|starts_with|ends_with|contains|compare|substr)\b|[!=]=)|"
    # StrContains(rail.detail(), "key")
    r"(?:Contains|StartsWith|EndsWith|ConsumePrefix|regex_\w+)\([^;]*\b(?:detail|why_not|last_end)\b")


# Why: doctor searched a detail for the word "key", and a node called "monkey" was reported as a wrong key.
@for_each([f for f in CODE if f.startswith("client/ctl/")])
def test_no_code_searches_the_text_of_details(path):
    code = "\n".join(line.partition("//")[0] for line in text_of(path).splitlines())
    assert not SEARCHED.findall(code)
    if re.match(r"client/ctl/doctor/(check|finding)\w*\.cc", path):
        assert not re.search(r"absl::(StrContains|StartsWith|EndsWith)|std::regex", code)


@for_each(CODE)
def test_includes_obey_the_layers(path):
    folder = max((f for f in ALLOWED if path.startswith(f)), key=len, default=None)
    allowed = ALLOWED.get(folder, EVERYTHING)
    for included in re.findall(r'#include "([^"]+)"', text_of(path)):
        if included.startswith(OURS):
            assert included.startswith(allowed), f"{path} may not include {included}"


# Why: the next transport should need a folder here and there, and a row in a few files.
def test_few_files_outside_its_folders_name_rdma():
    folders = ("daemon/rdma/", "client/ctl/rdma/")
    named = [f for f in FILES
             if f.startswith(("daemon/", "client/", "proto/", "config/", "systemd-launchd/",
                              "CMakeLists.txt", "README.md"))
             and not f.startswith(folders) and "rdma" in text_of(f).lower()]
    assert len(named) <= 20, "\n".join(named)


# Why: the simulator runs these folders in virtual time, on one thread.
@for_each([f for f in CODE if f.startswith(("daemon/node/", "daemon/collective/"))])
def test_the_node_has_no_threads(path):
    assert not re.search(r"#include <(thread|mutex|shared_mutex|atomic|condition_variable|future|asio)",
                         text_of(path))


@for_each([f for f in CODE if f.endswith((".h", ".hpp"))])
def test_header_opens_with_its_idea(path):
    text = text_of(path)
    assert text.startswith(("//", "/*")), "a header opens with a comment"
    assert "#pragma once" in text or "#ifndef" in text or "HWY_TARGET_TOGGLE" in text
    assert "Owner: none" not in text, "what nobody owns needs no word of it"
    if not path.endswith("mlxcomm.h") and SHARED.search(text):
        for word in ("Owner", "Thread", "Memory"):
            assert word in text, f"a thread, lock or mapping, and the opening comment says nothing of {word}"


def opening_comment(text):
    """The lines of a file's opening comment."""
    lines = text.splitlines()
    if text.startswith("/*"):
        return lines[:next(n for n, line in enumerate(lines) if "*/" in line) + 1]
    return list(itertools.takewhile(lambda line: line.startswith("//"), lines))


# Rules, proofs and protocols belong in the folder's README.
@for_each([f for f in CODE if f.endswith((".h", ".hpp"))])
def test_header_opens_in_few_lines(path):
    assert len(opening_comment(text_of(path))) <= 15, "longer text belongs in the folder's README"


@for_each([f for f in FILES if f.endswith((".h", ".hpp", ".cc", ".py", ".swift"))])
def test_files_and_functions_are_short(path):
    lines = text_of(path).splitlines()
    assert len(lines) <= 660
    assert not any(len(line) > 110 for line in lines), "long lines"
    if path.endswith((".py", ".swift")):
        return
    comments = [line for line in lines if line.lstrip().startswith(("//", "/*", "* "))]
    assert not any(len(line) > 100 for line in comments), "comments over the 100 columns of the code"
    start = None
    for number, line in enumerate(lines):
        if "std::to_array" in line:
            start = None  # A table.
        elif re.match(r"^\S.*\{$", line) and not line.startswith(("namespace", "class", "struct",
                                                                  "enum", "extern", "}", "//")):
            start = number
        elif line.startswith("}") and start is not None:
            assert number - start <= 80, f"function at line {start + 1} is too long"
            start = None


def test_file_names_describe_their_content():
    banned = re.compile(r"(^|/|_)(util|utils|common|misc|manager|helper|helpers)(\.|_|/|$)")
    assert not [f for f in FILES if banned.search(f)]


# Why: each run added 15,000 lines of plots, and the history keeps every one. Others are drawn into build/.
def test_one_small_picture_of_a_run_is_tracked():
    pictures = [f for f in FILES if f.endswith((".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"))]
    assert [f for f in pictures if f.startswith("tests/")] == ["tests/bench/one-node.svg"]
    assert not [f for f in pictures if (ROOT / f).stat().st_size >= 60 << 10]


# Why: pytest puts each test's folder first on the module path.
def test_python_modules_of_tests_hide_no_folder_and_no_other_module():
    modules = [pathlib.Path(f).stem for f in FILES if f.startswith("tests/") and f.endswith(".py")]
    folders = {pathlib.Path(f).parts[1] for f in FILES if f.startswith("tests/")}
    assert not [m for m in modules if m in folders or (modules.count(m) > 1 and m != "__main__")]


@for_each([f for f in FILES if "test_tidy" not in f and "/corpus/" not in f and not f.endswith(".png")])
def test_text_has_no_leftovers_and_no_paths_of_one_machine(path):
    text = text_of(path)
    assert not re.search("FIX" + "ME", text)
    assert not re.search(r"(?<![\w.-])/(home|Users|root|work)/[a-z]", text), "a path of one machine"
