"""The page of `mlxcommctl web` with made-up states (web_states.py), without a daemon: its layout and its
colours."""

import importlib.resources

import pytest

from conftest import PATIENCE, wait_until
from shell import chromium, web_states
from shell.canned_page import CannedPage
from shell.web_states import LONG_NAME, SEEN, STATES, State

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("web page")]

WIDE, PHONE = 1440, 390
WIDTHS = [WIDE, 1024, 768, PHONE]
COLOURS = {"light": {"good": "rgb(20, 112, 47)"}, "dark": {"good": "rgb(98, 200, 131)"}}


@pytest.fixture(scope="module")
def browser():
    yield from chromium.launched()


@pytest.fixture
def shown(browser):
    """shown(state, width, theme) gives a page that shows it; its `say` shows another."""
    made = []

    def make(state, width=WIDE, theme="light"):
        server = CannedPage()
        server.say(state)
        context = browser.new_context(viewport={"width": width, "height": 900 if width == WIDE else 844},
                                      color_scheme=theme, timezone_id="UTC", locale="en-US")
        made.append((server, context))
        page = context.new_page()
        page.server, page.trouble = server, []
        page.on("console", lambda said: page.trouble.append(said.text) if said.type != "log" else None)
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.clock.set_fixed_time(SEEN / 1e9 + 60)
        page.goto(server.url, timeout=PATIENCE * 1000)
        page.wait_for_selector("#feed[data-tone]", timeout=PATIENCE * 1000)
        wait_until(lambda: page.inner_text("#cluster") == state.cluster, "the page shows the state")
        assert page.trouble == []
        return page

    yield make
    for server, context in made:
        context.close()
        server.close()


def say(page, state, cluster="studio"):
    """Shows another state; its cluster has a different name, which identifies it."""
    state.cluster = cluster
    page.server.say(state)
    wait_until(lambda: page.inner_text("#cluster") == cluster, "the page shows the state")


def resize(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    wait_until(lambda: page.evaluate("""() => {
      const picture = document.getElementById("picture");
      return !picture.checkVisibility() || picture.viewBox.baseVal.width === picture.clientWidth;
    }"""), "the picture has the window's size")


BOXES = """selector => {
  const all = [...document.querySelectorAll(selector)].filter(one => one.checkVisibility());
  return all.map(one => {
    const {x, y, width, height} = one.getBoundingClientRect();
    return [one.tagName, one.id || one.className.baseVal || one.className, x, y, width, height].join(" ");
  });
}"""
# Texts below 11 px, texts that are cut completely, by part of a line, or without a title, and elements wider
# than their panel.
FAULTS = """() => [...document.body.querySelectorAll("*")].flatMap(one => {
  const text = [...one.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  if (!one.checkVisibility() || one.closest("thead") || one.closest("title")) return [];
  const style = getComputedStyle(one);
  const scale = one.getScreenCTM && text ? one.getScreenCTM().a : 1;
  const what = `${one.tagName} ${one.id} ${one.textContent.slice(0, 40)}`;
  const faults = [];
  if (text && parseFloat(style.fontSize) * scale < 10.9) faults.push(`small: ${what}`);
  const isCut = one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
  if (text && style.overflow === "hidden" && isCut && !one.title) faults.push(`cut: ${what}`);
  if (text && style.overflow === "hidden" && isCut && one.clientWidth < 60) faults.push(`narrow: ${what}`);
  const isSliced = style.webkitLineClamp !== "none" && one.clientHeight % parseFloat(style.lineHeight) > 1;
  if (isSliced) faults.push(`sliced: ${what}`);
  const {right} = one.getBoundingClientRect();
  const panel = (one.closest("section") ?? document.documentElement).getBoundingClientRect();
  if (right > panel.right + 1 && !one.closest(".line, td")) faults.push(`wide: ${what}`);
  return faults;
})"""


@pytest.mark.parametrize("name", STATES)
def test_every_text_can_be_read(shown, name):
    page = shown(STATES[name]())
    page.evaluate("document.getElementById('operations').open = true")
    if name != "no-daemon":
        page.wait_for_selector("#record *")
    for width in WIDTHS:
        resize(page, width)
        assert page.evaluate(FAULTS) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("theme", COLOURS)
@pytest.mark.parametrize("name", ["no-daemon", "alone-busy", "pair-waiting", "four-pulled", "four-gone",
                                  "long-names"])
def test_all_can_use_it(shown, name, theme):
    axe = pytest.importorskip("axe_playwright_python", reason="there is no axe-core "
                              "(axe-playwright-python, in tests/shell/requirements-browser.txt)")
    page = shown(STATES[name](), theme=theme)
    # Not as a script element, which the page's policy forbids.
    page.evaluate(importlib.resources.files(axe).joinpath("axe.min.js").read_text(encoding="utf-8"))
    for width in (WIDE, PHONE):
        resize(page, width)
        for details in page.locator("details").all():
            details.evaluate("one => { one.open = true; }")
        found = page.evaluate("axe.run()")
        reported = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found["violations"]]
        assert reported == []
        assert any(one["id"] == "color-contrast" for one in found["passes"])


# Why: rows grew from one line to six and back each second, and everything below them jumped.
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_nothing_moves_while_figures_change(shown, width):
    def state(rate, done, seconds):
        made = State(4, rate=rate).with_job(user="kim").with_job("eval", ranks=2)
        for job in made.jobs:
            for rank in job["ranks"]:
                rank["operations_done"] = str(done)
        return made.waiting(1, seconds) if seconds else made

    page = shown(state(0.3e9, 5, 0), width)
    selector = "section, .tile, h2, h3, p, .job, tr, td, svg, .vertex, summary, .scroll"
    before = page.evaluate(BOXES, selector)
    for i, figures in enumerate([(0, 5, 0), (1.234e12, 123456789, 1.2), (3, 123456790, 7384)]):
        say(page, state(*figures), f"studio {i}")
        assert page.evaluate(BOXES, selector) == before


# Why: everything below the banner was green, and the top right showed "live".
@pytest.mark.parametrize("theme", COLOURS)
def test_stale_data_is_grey_and_dated(shown, theme):
    page = shown(State(4, rate=1e9).with_job(), theme=theme)
    seen = """() => {
      const all = [...document.querySelectorAll("main *, header *")];
      const styles = all.flatMap(one => [getComputedStyle(one), getComputedStyle(one, "::before")]);
      return styles.flatMap((one) => [one.color, one.fill, one.stroke, one.backgroundColor]);
    }"""
    assert page.inner_text("#feed") == "live"
    assert COLOURS[theme]["good"] in page.evaluate(seen)
    say(page, State(4, rate=1e9).with_job().gone(), "gone")
    assert page.inner_text("#feed") == "daemon gone since 18:27:52"
    assert COLOURS[theme]["good"] not in page.evaluate(seen)
    assert "no mlxcommd at" in page.inner_text("#trouble")
    assert page.inner_text("#health .big") == "not known"
    dates = page.eval_on_selector_all(
        "section h2", "all => all.map(one => getComputedStyle(one, '::after').content)")
    assert set(dates) == {'"as of 18:27:52"'}
    say(page, State(4, rate=1e9).with_job(), "back")
    assert page.inner_text("#feed") == "live" and page.is_hidden("#trouble")
    page.clock.set_fixed_time(SEEN / 1e9 + 86400)
    say(page, State(4, rate=1e9).with_job().gone(), "a day on")
    assert page.inner_text("#feed") == "daemon gone since Mar 4 18:27"
    assert page.inner_text("#events tr:last-child td") == "Mar 4 18:26"
    for width in WIDTHS:
        resize(page, width)
        assert page.eval_on_selector_all("#feed, #events td:first-child",
                                         "all => all.every(one => one.scrollWidth <= one.clientWidth)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_shows_when_it_lost_its_connection(shown):
    page = shown(State(2))
    page.server.close()
    wait_until(lambda: page.inner_text("#feed") == "not connected since 18:27:52", "the page has noticed")
    assert "mlxcommctl web --open" in page.inner_text("#trouble")


# Why: the seventh tab got no connection, and a refused one showed that the program had been restarted.
def test_a_hidden_page_has_no_feed_and_a_refused_one_shows_the_reason(shown):
    page = shown(State(2))
    show = """isHidden => {
      Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(show, True)
    page.server.refusal = "Too many open pages: close one.\n"
    page.evaluate("window.real = setTimeout; setTimeout = (call, ms) => real(call, ms / 100);")
    page.evaluate(show, False)
    refused = f"mlxcommctl web refused the connection. {page.server.refusal.strip()}"
    wait_until(lambda: page.inner_text("#trouble") == refused, "the page says what the server says")
    page.server.refusal = ""
    wait_until(lambda: page.inner_text("#feed") == "live", "the page asks again")
    assert len(page.server.feeds) == 2


# Why: the cable of a node that was killed was no longer drawn, although the legend shows such cables.
def test_lost_nodes_stay_until_something_replaces_them(shown):
    def cables(page):
        return page.eval_on_selector_all(
            ".cable",
            "all => all.map(one => [one.classList.contains('cut'), one.getAttribute('aria-label')])")

    page = shown(State(3, rate=1e9))
    assert [is_cut for is_cut, _ in cables(page)] == [False] * 3
    places = "all => all.map(one => one.getAttribute('transform'))"
    before = page.eval_on_selector_all(".vertex", places)
    say(page, State(3, rate=1e9).node_lost(2), "lost")
    assert sorted(cables(page)) == [
        [False, "mac-1 en2 - en2 mac-2: 1.92 GB/s, round trip 48.2 µs"],
        [True, "mac-1 en3 - en2 mac-3: down, no longer reported"],
        [True, "mac-2 en3 - en3 mac-3: down, no longer reported"]]
    assert page.inner_text("#shape") == "pair, 2 of 3 cables down"
    assert page.eval_on_selector_all(".vertex", places) == before
    assert page.inner_text("#nodes .big") == "2 of 3 up"
    assert page.inner_text("#nodes .note") == "1 lost, as mac-1 sees it"
    assert page.eval_on_selector_all("#links .curve path:last-child",
                                     "all => all.every(one => one.getAttribute('d'))")
    page.focus(".vertex.broken")
    page.keyboard.press("Enter")
    assert page.inner_text("#node").split("\n")[:4] == [
        "mac-3", "lost: it does not answer", "mlxcommd 0.1.0",
        "link from mac-1 lost: nothing was heard for 5 s"]
    assert page.inner_text("#node [aria-live]") == "mac-3"  # Its figures would be read aloud each second.
    page.reload()  # The links show where they were.
    wait_until(lambda: page.inner_text("#cluster") == "lost", "the page shows the state")
    assert sorted(is_cut for is_cut, _ in cables(page)) == [False, True, True]
    say(page, State(3, [(0, 1), (1, 2)], rate=1e9), "plugged in elsewhere")
    assert [is_cut for is_cut, _ in cables(page)] == [False] * 2
    other = State(3, [(0, 1), (1, 2)], rate=1e9)
    other.port = lambda a, b: f"en{b + 7}"
    say(page, other, "at other ports of both")
    assert [is_cut for is_cut, _ in cables(page)] == [False] * 2


# Why: a green "all is well" stood above a warning of doctor.
def test_health_combines_status_and_doctor(shown):
    page = shown(State(1))
    assert page.inner_text("#health .big") == "all is well" and page.is_hidden("#attention")
    say(page, State(1).unsynchronised(), "warned")
    assert page.inner_text("#health .big") == "1 warning"
    assert page.get_attribute("#health .big", "data-tone") == "warn"
    assert "all is well" not in page.inner_text("body")
    say(page, State(1).found("note", "MC100", "mac-1", "nothing much"), "noted")
    assert page.inner_text("#health .big") == "all is well" and page.is_visible("#findings")
    say(page, STATES["pair-waiting"](), "waits")
    assert page.inner_text("#health .big") == "attention"
    assert "check pid 4201 on mac-2" in page.inner_text("#health")
    assert page.title() == "! waits - mlxcomm"


def test_a_finding_has_one_line_and_unfolds_by_keyboard(shown):
    page = shown(State(2).unsynchronised())
    line = page.locator("#findings summary")
    assert line.inner_text() == "warning MC403 mac-1: the clock is not synchronised"
    assert page.locator("#findings").bounding_box()["height"] < 32
    line.focus()
    page.keyboard.press("Enter")
    assert "sudo timedatectl set-ntp true" in page.inner_text("#findings")
    again = State(2).unsynchronised()
    again.findings[0]["found"] = "no NTP peer for 3 s"
    say(page, again, "later")
    assert "for 3 s" in page.inner_text("#findings")  # It is still unfolded.
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_job_card_shows_which_rank_waits_for_which(shown):
    page = shown(State(4).with_job().waiting(2, 12.4))
    assert page.inner_text(".job .news") == ("ranks 0, 1, 3 have waited 12.4 s for rank 2 in all_reduce sum "
                                             "float32[1048576], operation 1204")
    assert page.inner_text("#work .note") == "digits: ranks 0, 1, 3 have waited 12.4 s for rank 2"
    rows = [row.split("\t") for row in page.locator(".job tbody tr").all_inner_texts()]
    inside = "12.4 s in all_reduce sum float32[1048576], operation 1204"
    assert [row[3] for row in rows] == [
        inside, inside, "others have waited 12.4 s; not in the operation", inside]
    failed = STATES["four-killed"]()
    say(page, failed, "failed")
    assert page.inner_text(".job .state") == "failed" and page.inner_text("#work .note") == "digits failed"
    assert page.inner_text(".job .news") == web_states.FAILURE
    many = State(4).with_job("a").with_job("b").with_job("c").with_job("d").with_job("e").waiting(2, 12.4)
    say(page, many, "many")
    assert page.eval_on_selector_all(".job", "all => all.map(one => one.open)") == [False] * 4 + [True]
    page.click(".job summary")
    wait_until(lambda: page.locator(".job:first-child tbody tr").count() == 4, "its ranks are unfolded")


def test_jobs_that_have_ended_stay_for_a_while(shown):
    state = State(2)
    state.ended = [{"name": "digits", "ended_ms_ago": "12000", "code": "RANK_LOST", "rank": 1,
                    "node": "mac-2", "pid": "7", "detail": web_states.FAILURE},
                   {"name": "eval", "ended_ms_ago": "300000", "code": "", "node": "", "pid": "0"}]
    page = shown(state)
    failed = "digits failed 12.0 s ago: RANK_LOST rank 1 (mac-2, pid 7)"
    assert page.locator(".ended").all_inner_texts() == [
        f"{failed}\n\n{web_states.FAILURE}", "eval ended 5 min 0 s ago"]
    assert page.inner_text("#work .note") == failed
    assert page.inner_text("#jobs .none") == "No jobs running. Start one with mlxcommctl launch."
    say(page, state.with_job("train"), "another runs")
    assert page.inner_text("#work .note") == failed
    say(page, state.with_job("digits"), "started again")
    assert page.inner_text("#work .note") == "train (2 ranks), digits (2 ranks)"
    state.jobs, state.others = [], 2
    say(page, state, "of others")
    assert page.inner_text("#jobs .none").startswith("No job of yours is running.")


def test_a_long_name_is_cut_and_its_title_has_all(shown):
    page = shown(STATES["long-names"](), PHONE)
    assert page.get_attribute(".job h3", "title") == LONG_NAME
    assert page.locator(".job").first.bounding_box()["width"] <= PHONE


def test_curves_go_on_where_the_history_ends(shown):
    def right(page):
        return page.eval_on_selector("#traffic .curve path:last-child",
                                     "one => one.getAttribute('d').split(/[ML]/).length")

    state = State(2, rate=1e9).with_job()
    page = shown(state)
    assert right(page) == 151 and page.inner_text("#traffic .note") == "5 min peak 2.00 GB/s"
    state.history = lambda: {**State.history(state), "samples": [
        {"unix_ns": str(SEEN + 2_000_000_000), "bytes_per_second": 7e9, "operations_per_second": 1,
         "link_bytes_per_second": [7e9]}]}
    say(page, state, "later")
    assert right(page) == 152 and page.inner_text("#traffic .note") == "5 min peak 7.00 GB/s"
    state.history = lambda: State.history(state)  # The same as a reopened feed sends it.
    say(page, state, "again")
    assert right(page) == 151
    say(page, State(3, rate=4e3), "heartbeats")
    assert page.inner_text("#traffic .big") == "idle"  # The same as each of its links.


def test_everything_is_reached_by_keyboard_and_the_focus_is_seen(shown):
    page = shown(State(2, rate=1e9).with_job().unsynchronised())
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        kind, outline, stroke = page.evaluate("""() => {
          const one = document.activeElement;
          const box = one.querySelector(":scope > .box");
          const style = getComputedStyle(one);
          return [one.id || one.className.baseVal || one.className || one.tagName,
            style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
            box ? parseFloat(getComputedStyle(box).strokeWidth) : 0];
        }""")
        if kind != "BODY":
            assert outline >= 2 or stroke >= 3, kind
        reached.add(kind)
    assert {"line", "ranks scroll", "vertex own", "vertex", "events", "SUMMARY"} <= reached


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_no_node_covers_another(shown, width):
    page = shown(State(1), width)
    for count in (1, 2, 3, 4, 8, 16):
        say(page, State(count, names=[f"render-{one}" for one in range(count)]), f"{count} nodes")
        boxes = [list(map(float, one.split()[-4:])) for one in page.evaluate(BOXES, ".vertex .box")]
        assert len(boxes) == count
        for i, (x, y, wide, high) in enumerate(boxes):
            for other_x, other_y, *_ in boxes[:i]:
                assert abs(x - other_x) >= wide or abs(y - other_y) >= high, (boxes[i], other_x, other_y)
