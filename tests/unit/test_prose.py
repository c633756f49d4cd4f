"""tests/prose.py: which text it takes for prose, and its findings."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import prose


def found_in(name, text):
    return [fault.removeprefix(f"{name}:") for fault in prose.faults_of(name, text)]


def phrases(name, text):
    """The quoted part of each finding."""
    return [re.search(r"'(.*?)'", fault)[1] for fault in found_in(name, text)]


@pytest.mark.parametrize("said", [
    "Whoever", "is told", "were taken of", "so many", "can be had", "of late", "anew", "Owner: none"])
def test_a_phrase_is_found_in_readmes_and_in_comments(said):
    assert phrases("a/README.md", f"This {said} ends.\n") == [said]
    assert phrases("a/b.h", f"int a;\n// This {said} ends.\n") == [said]


@pytest.mark.parametrize("text", [
    "So many came that some had to wait.", "An owner: none of them.", "He told it.",
    "Retold stories.", "Ask who waits. Who waits?"])
def test_other_uses_of_such_words_are_let_pass(text):
    assert found_in("README.md", text + "\n") == []


# Why: a line number must be right even when the phrase is broken between two lines.
def test_a_phrase_over_two_lines_is_found_where_it_begins():
    assert found_in("README.md", "# A\n\nOne. The daemon is\ntold of it.\n")[0].startswith("3: 'is told'")
    assert found_in("b.cc", "int a;  // A daemon is\n        // told of it.\n")[0].startswith("1: 'is told'")


def test_of_markdown_only_prose_is_read():
    text = """# Whoever reads headings

```
whoever quotes output
```

`whoever` and [a link](whoever/is/told.md) <!-- whoever -->.
"""
    assert found_in("README.md", text) == []
    assert phrases("README.md", "[whoever](a.md)\n") == ["whoever"]


def test_of_code_only_comments_are_read():
    assert found_in("a.cc", 'const char* a = "whoever // is told";\nint whoever = 1\'000;\n') == []
    assert found_in("a.cc", 'auto a = R"(whoever " // anew)"; char b = \'"\'; int c;\n') == []
    assert phrases("a.cc", 'f("a"); /* whoever\n * calls */ g("b");  // anew\n') == ["whoever", "anew"]


def test_what_is_said_of_readmes_alone_is_let_pass_in_comments():
    text = "The engine mends ways through others.\n"
    assert phrases("README.md", text) == ["The engine", "mends", "ways through others"]
    assert found_in("a.h", f"// {text}") == []


@pytest.mark.parametrize("text", ["Who waits looks first.", "Whose a job is stands behind it.",
                                  "What goes over the connection and lies in the queue is in proto."])
def test_a_sentence_without_a_subject_is_found(text):
    assert len(found_in("README.md", f"It begins. {text}\n")) == 1
    assert found_in("README.md", f"| a | {text} |\n") == [], "cells hold fragments"


def test_long_sentences_are_counted_by_words():
    word, rest = "word ", "word " * (prose.WORDS_MAX - 1)
    assert found_in("README.md", f"A {rest.strip()}.\n") == []
    assert found_in("README.md", f"One. {word}{word}\n{rest.strip()}.\n") == [
        f"1: a sentence of {prose.WORDS_MAX + 1} words, and {prose.WORDS_MAX} may be"]


def test_items_cells_and_code_end_or_shorten_a_sentence():
    half = "word " * (prose.WORDS_MAX - 1)
    assert found_in("README.md", f"A list:\n\n- {half}\n- {half}\n1. {half}\n") == []
    assert found_in("README.md", f"| {half} | {half} |\n|---|---|\n| {half}; {half} | |\n") == []
    assert found_in("README.md", f"{half} `{half}`.\n") == []
    assert len(found_in("README.md", f"- {half}\n  {half}\n")) == 1
