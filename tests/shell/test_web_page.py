"""The page of `mlxcommctl web` in headless Chromium, of real daemons and ranks.

It needs what requirements-browser.txt has and a Chromium (chromium.py); skipped tests name what is missing.
Pictures of the page are kept for people, in build/web-page.
"""

import json
import math
import pathlib
import re
import signal
import sys
import time

import pytest

from conftest import PATIENCE, Process, wait_until
from ground.cluster import PATIENT
from ground.wiring import crossed
from shell import chromium
from shell.test_web import Web, state  # noqa: F401, a fixture

# One worker: starting a browser takes longer than most of these tests.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("web page")]

PICTURES = chromium.BUILD / "web-page"
WIDE = {"width": 1280, "height": 720}
# All call all_sum until the file exists; the last rank stops calling then.
RANK = """
import pathlib, sys, time, mlx.core as mx, mlxcomm
world = mlxcomm.init(timeout=300)
try:
    while world.rank() + 1 < world.size() or not pathlib.Path(sys.argv[1]).exists():
        mx.eval(mx.distributed.all_sum(mx.ones(250_000), group=world))
except RuntimeError:
    pass
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def browser():
    yield from chromium.launched()


@pytest.fixture
def opened(browser):
    """opened(socket, **options) gives a Web and its page, once it has shown a status."""
    made = []

    def make(socket, **options):
        web = Web(socket, **options)
        page = browser.new_page(viewport=WIDE)
        made.append((web, page))
        page.trouble = []
        page.on("console", lambda said: page.trouble.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(f"http://127.0.0.1:{web.port}/")
                else page.trouble.append(request.url))
        page.goto(web.url, timeout=PATIENCE * 1000)
        page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
        return web, page

    yield make
    for web, page in made:
        page.close()
        web.end()


def keep_picture(page, name):
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=True, timeout=PATIENCE * 1000)


def until(page, condition):
    """Replaces playwright's wait, which evaluates text against the page's policy."""
    wait_until(lambda: page.evaluate(f"Boolean({condition})"), condition)


def until_shown(page, selector, text):
    """Some element contains what the pattern matches."""
    wanted = re.compile(text)
    return wait_until(lambda: [one for one in page.locator(selector).all_inner_texts() if wanted.search(one)],
                      f"{selector} shows {text}")


def places(page):
    return page.eval_on_selector_all(
        "#picture .vertex", "all => Object.fromEntries(all.map("
        "one => [one.querySelector('.name').textContent, one.getAttribute('transform')]))")


def clockwise(points):
    """Names in their order around the middle of all, from the top; y grows downwards."""
    x, y = (sum(axis) / len(points) for axis in zip(*points.values(), strict=True))
    # A node at the top may be a hair to its left.
    return sorted(points, key=lambda name: round(math.atan2(points[name][0] - x, y - points[name][1]), 3)
                  % (2 * math.pi))


def test_the_page_shows_what_there_is(cluster, opened, tmp_path):
    c = cluster(3)
    pause = tmp_path / "pause"
    ranks = [Process([sys.executable, "-c", RANK, str(pause)],
                     {"MLX_RANK": str(rank), "MLX_WORLD_SIZE": "3", "MLXCOMM_JOB": "train",
                      "MLXCOMM_SOCKET": c.socket(rank)}) for rank in range(3)]
    c.ranks += ranks
    _, page = opened(c.socket(0))
    assert set(places(page)) == {"node-0", "node-1", "node-2"}
    assert "token" not in page.url
    until(page, "document.querySelectorAll('#links tbody tr').length === 3")
    until_shown(page, ".job .title", r"^train\s+3 ranks.*\s+running$")
    until(page, "document.querySelectorAll('#jobs tbody tr').length === 3")
    until_shown(page, "#links tbody tr", r"^node-\d - node-\d\s+up\ttcp\t[0-9.]+ [MG]B/s\t")
    until_shown(page, "#traffic .big", r"^[0-9.]+ [MG]B/s$")
    page.click("#operations summary")
    until_shown(page, "#record tbody tr", r"\ttrain\t\d+ all_reduce sum float32\[250000\]\t977 KiB\tdone\t")
    keep_picture(page, "running")
    pause.touch()
    said = until_shown(page, ".job .news", "waited")
    assert re.fullmatch(r"ranks 0, 1 have waited [0-9.]+ s for rank 2 in all_reduce sum float32\[250000\], "
                        r"operation \d+", said[0]), said
    until_shown(page, ".job tbody tr", "^2\t.*others have waited .*; not in the operation")
    ago = [scaled(cell) for cell in page.locator("#record tbody td:first-child").all_inner_texts()]
    assert ago == sorted(ago), ago
    keep_picture(page, "waiting")
    ranks[2].signal(signal.SIGKILL)
    until_shown(page, ".job .state", "^failed$")
    until_shown(page, ".job .news", "rank 2")
    until_shown(page, "#record tbody tr", "RANK_LOST")
    keep_picture(page, "failed")
    page.reload()
    page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
    assert page.trouble == []


# Why: it had units and a rounding of its own, so the page and the terminal seemed to contradict each other.
def test_the_page_shows_figures_as_mlxcommctl_does(cluster, opened):
    _, page = opened(cluster(1).socket(0))
    table = pathlib.Path(__file__).parents[1] / "unit/client/ctl/cli/shown_quantities.def"
    row = r'^MLXCOMM_SHOWN\((\w+), ([0-9.]+), "(.*)"\)$'
    rows = re.findall(row, table.read_text(encoding="utf-8"), re.MULTILINE)
    names = {"rate_now": "rateNow"}
    asked = [[names.get(kind, kind), float(figure)] for kind, figure, _ in rows] + [["duration", 5400e9]]
    said = page.evaluate("""async (asked) => {
      const words = await import(new URL("words.js", location.href).href);
      return asked.map(([kind, figure]) => words[kind](figure));
    }""", asked)
    assert len(rows) > 50 and said.pop() == "1 h 30 min"
    assert [(*row[:2], shown.replace("µs", "us")) for row, shown in zip(rows, said, strict=True)] == rows


def scaled(text):
    figure, unit = text.split()
    return float(figure) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]


# Why: a file is a different site from the server, so the page itself must set its cookie.
def test_the_bookmark_leads_to_the_page_and_to_the_next_one(solo, browser):
    first = Web(solo.socket(0))
    page = browser.new_page()
    try:
        page.goto(first.report["bookmark"], timeout=PATIENCE * 1000)
        page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
        assert page.url == f"http://127.0.0.1:{first.port}{first.path}"
        first.process.signal(signal.SIGINT)
        assert first.process.finish() == 0
        page.goto(first.report["bookmark"], timeout=PATIENCE * 1000)
        assert "mlxcommctl web is not running" in page.inner_text("body")
        second = Web(solo.socket(0))
        page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
        assert page.url == f"http://127.0.0.1:{second.port}{second.path}"
        second.end()
    finally:
        page.close()
        first.end()


# Why: names come from others; a name that is parsed as markup would run as a program in this page.
def test_a_name_is_never_read_as_markup(cluster, opened):
    evil = "<img src=x onerror=alert(1)>"
    c = cluster(1, start=False)
    path = c.write_config(0)
    c.write_config = lambda node: path
    path.write_text(path.read_text().replace('cluster: "test"', f'cluster: {json.dumps(evil)}'))
    c.start_daemon(0)
    _, page = opened(c.socket(0))
    until(page, "document.getElementById('cluster').textContent !== ''")
    if page.inner_text("#cluster") != evil:
        pytest.skip("the daemon refuses such a name")
    assert page.query_selector("img") is None and page.trouble == []


# Why: no poll happens during the test, so only events cause the change. The ring's order is not that of the
# names.
def test_a_pulled_cable_is_shown_by_the_event_and_no_node_moves(lab, opened, record_property):
    c = lab(crossed(), peer_settings=PATIENT)
    _, page = opened(c.socket(0), interval=f"{2 * PATIENCE}s")
    until(page, "document.querySelectorAll('#picture .cable').length === 4")
    keep_picture(page, "ring")
    before = places(page)
    on_page = {name: tuple(map(float, re.findall(r"[-.0-9e]+", place)[-2:]))
               for name, place in before.items()}
    assert clockwise(on_page) == [f"node-{number}" for number in range(4)], on_page
    page.evaluate("""() => new MutationObserver((_, all) => {
      if (document.querySelector('#picture .cut') === null) return;
      window.seenAt = Date.now();
      all.disconnect();
    }).observe(document.getElementById('picture'), {subtree: true, attributes: true, childList: true})""")
    cut_at = time.time() * 1000
    c.cut(c.wiring.cables[0].name)
    until(page, "window.seenAt !== undefined")
    took = page.evaluate("window.seenAt") - cut_at
    print(f"a pulled cable is on the page after {took:.0f} ms")
    record_property("pulled_cable_shown_after_ms", took)
    keep_picture(page, "pulled")
    assert places(page) == before
    page.reload()
    page.wait_for_selector("#picture .cut", timeout=PATIENCE * 1000)
    assert places(page) == before
    assert page.trouble == []
    c.restore(c.wiring.cables[0].name)
    until(page, "document.querySelector('#picture .cut') === null")
