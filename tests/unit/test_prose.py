"""The texts that tests/prose.py reads, and the phrases that it finds in them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import prose


def found_in(name, text):
    """Each finding's line and the phrase, or the whole text."""
    return [fault.removeprefix(f"{name}:").split("':")[0] for fault in prose.faults_of(name, text)]


# Why: a finding of what is no English would be edited around; a fault that passes is only seen by readers.
def test_prose_is_read_and_code_is_not():
    assert found_in("README.md", "# A\n\nOne. The daemon is\ntold of it.\n") == ["3: 'is told"]
    assert found_in("README.md", "So many came that some waited. He told it. Who waits?\n") == []
    text = "# Whoever\n\n```\nwhoever\n```\n\n`whoever` and [a link](whoever/is/told.md).\n"
    assert found_in("README.md", text + "[whoever](a.md)\n") == ["8: 'whoever"]
    text = 'auto a = R"(whoever " // anew)" "whoever // is told"; int whoever = 1\'000;\n'
    assert found_in("a.cc", text + "/* whoever\n * calls */ f();  // anew\n") == ["2: 'whoever", "3: 'anew"]
    setting = 'bool a = 1 [(setting) = {\n  help: "It goes on "\n  "by itself." }];  // Anew.\n'
    assert found_in("a.proto", setting) == ["2: 'goes on", "3: 'Anew", "3: 'by itself"]
    text = 'return absl::StrCat("nobody at ", path);\n'
    assert found_in("client/ctl/a.cc", text) == ["1: 'nobody"]
    assert found_in("daemon/a.cc", text) == [], "other programs' strings have other readers"
    words = f"{'word ' * 39}word.\n"
    assert found_in("README.md", words) == []
    assert found_in("README.md", f"A {words}") == ["1: a sentence of 41 words, and 40 are allowed"]
