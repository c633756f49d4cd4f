"""Pictures are small, show the findings, and go where they are not part of the tree."""

import json
import pathlib
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bench import plots
from conftest import PATIENCE

BENCH = pathlib.Path(__file__).parent
DRAWN = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 79.25 33"
     xmlns="http://www.w3.org/2000/svg">
 <metadata><made by="something"/></metadata>
 <g id="axes_1">
  <g id="line_1">
   <defs><path id="m1" d="M 0 2.251234
C 0.004 -0.04 1.56 1 1.59099 L 3 3 " style="stroke-width: 0.75"/></defs>
   <g clip-path="url(#p1)">
    <use xlink:href="#m1" x="85.611328" y="258" style="fill: #c0392b"/>
    <use xlink:href="#m1" x="122.15" y="-96.4721" style="fill: #c0392b"/>
   </g>
  </g>
  <g id="text_1"><text x="1" y="2" transform="rotate(-0 1 2)">8 B</text></g>
  <g id="text_2"><text transform="rotate(-90 1 2)">median &lt; 2.25</text></g>
 </g>
 <defs><clipPath id="p1"><rect x="71.002344"/></clipPath></defs>
</svg>
"""


def test_a_picture_keeps_what_is_seen_alone():
    assert plots.compact(DRAWN).splitlines() == [
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'viewBox="0 0 79.2 33">',
        '<defs>',
        '<path id="m1" d="M 0 2.3 C 0 0 1.6 1 1.6 L 3 3" style="stroke-width: 0.75" /></defs>',
        '<g clip-path="url(#p1)" style="fill: #c0392b">'
        '<use xlink:href="#m1" x="85.6" y="258" /><use xlink:href="#m1" x="122.2" y="-96.5" /></g>',
        '<text x="1" y="2">8 B</text>',
        '<text transform="rotate(-90 1 2)">median &lt; 2.25</text>',
        '<defs><clipPath id="p1"><rect x="71" /></clipPath></defs></svg>']


def test_styles_that_differ_stay_where_they_are():
    one = '<g xmlns="{}"><g style="a: 1"><b style="c: {}" /><b style="c: 2" /></g></g>'
    for first in 1, 2:  # They are equal, but their group has a style of its own.
        text = plots.compact(one.format(plots.SVG, first))
        assert re.findall(r'style="([^"]*)"', text) == ["a: 1", f"c: {first}", "c: 2"]


def result(places):
    """A run's JSON with all sizes and systems."""
    curves = [{"kind": "curve", "part": part, "place": place, "ranks": 2, "system": system,
               "median_us": {str(8 << 2 * step): [1 + 7.3 ** step, 2 + 7.3 ** step, 3 + 7.3 ** step]
                             for step in range(10)}}
              for part, place in places
              for system in ("mlxcomm, C++", "Open MPI, shared memory", "plain loop",
                             "mlxcomm, MLX", "MLX ring", "Gloo, TCP", "MLX alone")]
    machine = {"cores": 2, "processor": "a", "system": "b", "commit": "c", "date": "d"}
    return {"schema": 1, "machine": machine, "busy_percent": [], "rounds": 3, "seconds": 60,
            "command": "tests/bench/run", "left_out": [], "found": curves, "targets": []}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(the folder of the JSON, the folder named by --keep, the output)"""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    folder = tmp_path_factory.mktemp("figures")
    figures, keep = folder / "bench.json", folder / "kept"
    figures.write_text(json.dumps(result([("one_node", "one daemon, 2 ranks"),
                                          ("two_nodes", "two daemons, loopback")])))
    done = subprocess.run([sys.executable, BENCH, "--show", "--json", figures, "--keep", keep],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert "no pictures" not in done.stderr and done.returncode == 0, done.stderr
    return folder, keep, done.stderr


def test_the_readmes_picture_alone_is_kept_beside_the_text(kept):
    folder, keep, said = kept
    assert {path.name for path in keep.iterdir()} == {"results.md", plots.SHOWN}
    assert {path.name for path in (folder / "bench").iterdir()} == {"loopback.svg", plots.SHOWN}
    for path in keep / "results.md", keep / plots.SHOWN, folder / "bench/loopback.svg":
        assert str(path) in said
    text = (keep / "results.md").read_text()
    assert re.findall(r"!\[.*\]\((.*)\)", text) == [plots.SHOWN]
    assert "draws more pictures into `bench/`" in text and "`loopback.svg`" in text


def test_a_picture_is_small_and_has_all_systems(kept):
    _, keep, _ = kept
    text = (keep / plots.SHOWN).read_text()
    ElementTree.fromstring(text)
    assert text.count("MLX alone") == 1 and len(text) < 30 << 10 and text.count("\n") < 200
    assert all(system in text for system in ("mlxcomm, C++", "MLX ring", "Gloo, TCP", "plain loop"))
