"""Pictures drawn from figures are not sources: the tree keeps one small picture of a run, and
no text shows a picture that a clone does not have. Others are drawn into build/."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
FILES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                       check=True).stdout.split()
OF_THE_README = "tests/bench/one-node.svg"


def shown_by(path):
    """The files that a Markdown text shows, by their paths from the root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    targets = re.findall(r'!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<img[^>]*\bsrc="([^"]+)"', text)
    return [os.path.normpath(os.path.join(os.path.dirname(path), marked or tagged))
            for marked, tagged in targets]


def test_one_small_picture_of_a_run_is_tracked():
    """Why: each run added 15,000 lines of pictures, and the history kept every one."""
    pictures = [f for f in FILES if f.endswith((".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"))]
    assert [f for f in pictures if f.startswith("tests/")] == [OF_THE_README]
    assert not [f for f in pictures if (ROOT / f).stat().st_size >= 60 << 10]


def test_texts_show_tracked_pictures_only():
    shown = {path: shown_by(path) for path in FILES if path.endswith(".md")}
    assert not [one for each in shown.values() for one in each if one not in FILES]
    assert shown["README.md"] in ([], [OF_THE_README])
