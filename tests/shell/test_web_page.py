"""The page of `mlxcommctl web` in headless Chromium: what it shows, how soon, and whether all can use it.

It needs playwright (pip) and a Chromium, playwright's or the system's; axe-core (npm) where
MLXCOMM_AXE names its axe.min.js. What is missing is named by the test that is skipped.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from conftest import PATIENCE, find_program, wait_until
from lab.cluster import PATIENT
from lab.wiring import ring
from shell.test_web import Web


def chromium_of(play, failed):
    found = shutil.which("chromium") or shutil.which("google-chrome")
    options = {"executable_path": found} if found else {}
    try:
        return play.chromium.launch(args=["--no-sandbox"], **options)  # Root has no sandbox.
    except failed as error:
        pytest.skip(f"no Chromium (apt-get install chromium, or playwright install chromium): {error}")


@pytest.fixture
def browser():
    sync = pytest.importorskip("playwright.sync_api",
                               reason="there is no playwright (pip install playwright)")
    with sync.sync_playwright() as play:
        browser = chromium_of(play, sync.Error)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """opened(socket, **options) gives a Web and its page, once it has shown a status."""
    made = []

    def make(socket, **options):
        web = Web(socket)
        made.append(web)
        page = browser.new_page(**options)
        page.trouble = []
        page.on("console", lambda said: page.trouble.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(f"http://127.0.0.1:{web.port}/")
                else page.trouble.append(request.url))
        page.goto(web.url)
        page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
        page.wait_for_selector("#examined:not(:empty)", state="attached", timeout=PATIENCE * 1000)
        return web, page

    yield make
    for web in made:
        web.end()


def keep_picture(page, name):
    """For people: where MLXCOMM_SCREENSHOTS names a folder."""
    if folder := os.environ.get("MLXCOMM_SCREENSHOTS"):
        page.screenshot(path=str(pathlib.Path(folder) / f"{name}.png"), full_page=True)


def until(page, condition):
    """The library's own way evaluates text, which the page's policy forbids."""
    wait_until(lambda: page.evaluate(f"Boolean({condition})"), condition)


def places(page):
    return page.eval_on_selector_all(
        "#picture .vertex", "all => Object.fromEntries(all.map(one => [one.children[1].textContent, "
        "one.getAttribute('transform')]))")


def test_the_page_shows_what_there_is(cluster, opened):
    c = cluster(3)
    subprocess.run([find_program("mlxcommctl"), "bench", "-n", "2", "--to", "4K", "-i", "2", "-w", "1",
                    "--socket", c.socket(0)], check=True, capture_output=True, timeout=PATIENCE)
    _, page = opened(c.socket(0))
    assert set(places(page)) == {"node-0", "node-1", "node-2"}
    assert "token" not in page.url
    until(page, "document.querySelectorAll('#links tbody tr').length === 3")
    until(page, "document.querySelectorAll('#record tbody tr').length > 0")
    until(page, "document.getElementById('health-text').textContent === 'all is well'")
    keep_picture(page, "light")
    page.reload()
    page.wait_for_selector("#picture .vertex", timeout=PATIENCE * 1000)
    assert page.trouble == []


def test_the_page_says_that_the_daemon_is_gone(cluster, opened):
    c = cluster(1)
    web, page = opened(c.socket(0))
    c.daemons[0].end()
    until(page, "document.getElementById('trouble').textContent.includes('The daemon is gone')")
    keep_picture(page, "gone")
    c.start_daemon(0)
    until(page, "document.getElementById('trouble').hidden")
    until(page, "document.getElementById('health-text').textContent.startsWith('all is well on this node')")
    web.process.end()
    until(page, "document.getElementById('trouble').textContent.includes('does not answer')")


# Why: names come from others; one that is read as markup would be a program in this page.
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


def test_a_node_is_chosen_by_keyboard_and_stays_so(cluster, opened):
    _, page = opened(cluster(2).socket(0))
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('vertex')"):
            break
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#node h3')")
    chosen = page.inner_text("#node h3")
    before = page.evaluate("document.querySelector('#node').textContent")
    until(page, f"document.querySelector('#node').textContent !== {json.dumps(before)}")
    assert page.inner_text("#node h3") == chosen
    assert page.evaluate("document.activeElement.classList.contains('vertex')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_and_keyboard_are_as_axe_wants_them(cluster, opened, theme):
    axe = os.environ.get("MLXCOMM_AXE")
    if not axe:
        pytest.skip("MLXCOMM_AXE names no axe.min.js (npm pack axe-core)")
    c = cluster(3)
    _, page = opened(c.socket(0), color_scheme=theme)
    c.daemons[2].end()
    until(page, "document.getElementById('health-text').className === 'bad'")
    # Not as a script element, which the page's policy forbids.
    page.evaluate(pathlib.Path(axe).read_text())
    found = page.evaluate("axe.run()")
    keep_picture(page, f"broken-{theme}")
    told = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found["violations"]]
    assert told == [], told
    assert any(one["id"] == "color-contrast" for one in found["passes"])


def test_a_pulled_cable_shows_within_a_second_and_no_node_moves(lab, opened, capsys):
    c = lab(ring(4), peer_settings=PATIENT)
    _, page = opened(c.socket(0))
    until(page, "document.querySelectorAll('#picture .cable').length === 4")
    keep_picture(page, "ring")
    before = places(page)
    page.evaluate("""() => new MutationObserver((_, all) => {
      if (document.querySelector('#picture .cut') === null) return;
      window.seenAt = Date.now();
      all.disconnect();
    }).observe(document.getElementById('picture'), {subtree: true, attributes: true, childList: true})""")
    cut_at = time.time() * 1000
    c.cut(c.wiring.cables[0].name)
    until(page, "window.seenAt !== undefined")
    took = page.evaluate("window.seenAt") - cut_at
    with capsys.disabled():
        print(f"\na pulled cable is on the page after {took:.0f} ms")
    keep_picture(page, "pulled")
    assert places(page) == before
    assert page.trouble == []
    c.restore(c.wiring.cables[0].name)
    until(page, "document.querySelector('#picture .cut') === null")
    with contextlib.suppress(KeyError):
        assert float(os.environ["MLXCOMM_WITHIN_MS"]) >= took
