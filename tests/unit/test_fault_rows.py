"""Each fault of the table in daemon/README is made by a row of tests/lab/test_fault_table.py, or listed
here with the reason."""

import pathlib
import re

from lab.test_fault_table import TRIED

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Faults that no row makes, and why.
EXEMPT = {}


def faults(of="daemon/README.md"):
    """One cell may hold several, with a semicolon between them."""
    readme = (ROOT / of).read_text(encoding="utf-8")
    section = readme.split("## When something breaks")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    assert cells[0] == "fault", cells
    return {fault for cell in cells[1:] for fault in cell.split("; ")}


def test_each_fault_of_the_readme_is_made_by_a_row_or_exempt():
    named = set(TRIED) | set(EXEMPT)
    assert faults() - named == set(), "rows without readme=..., or a fault that nobody makes"
    assert named - faults() == set(), "the README has no such fault"
    assert not set(TRIED) & set(EXEMPT), "it is made, so it needs no exemption"


def test_the_readmes_table_is_a_part_of_the_daemons():
    assert len(faults("README.md")) >= 6 and faults("README.md") <= faults()
