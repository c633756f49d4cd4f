"""Pictures drawn from figures are not sources: the tree keeps one small picture of a run, and
no text shows a picture that a clone does not have. Others are drawn into build/."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                       check=True).stdout.split()
PICTURES = [f for f in FILES
            if f.endswith((".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"))]
OF_THE_README = "tests/bench/one-node.svg"
OF_THE_PAGE = "tests/shell/pictures/"


def shown_by(path):
    """The files that a Markdown text shows, by their paths from the root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    targets = re.findall(r'!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<img[^>]*\bsrc="([^"]+)"', text)
    return [os.path.normpath(os.path.join(os.path.dirname(path), marked or tagged))
            for marked, tagged in targets]


def test_one_picture_of_a_run_is_tracked():
    """Why: each run added 15,000 lines of pictures, and the history kept every one."""
    kept = [f for f in PICTURES if f.startswith("tests/") and not f.startswith(OF_THE_PAGE)]
    assert kept == [OF_THE_README]


def test_pictures_that_the_page_is_compared_with_are_small_together():
    assert sum((ROOT / f).stat().st_size for f in PICTURES if f.startswith(OF_THE_PAGE)) < 400 << 10


@pytest.mark.parametrize("path", PICTURES)
def test_tracked_pictures_are_small(path):
    assert (ROOT / path).stat().st_size < 60 << 10


@pytest.mark.parametrize("path", [f for f in FILES if f.endswith(".md")])
def test_texts_show_tracked_pictures_only(path):
    assert not [shown for shown in shown_by(path) if shown not in FILES]


def test_the_readme_shows_one_picture_at_most():
    assert shown_by("README.md") in ([], [OF_THE_README])
