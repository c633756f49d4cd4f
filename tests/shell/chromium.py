"""A Chromium for the tests of mlxcommctl web's page: the system's, otherwise the one that playwright fetches.

tests/run --extra browser calls it before pytest's workers begin, because their network has no way out.
Debian's package is installed if none exists and this user may install it; elsewhere (Ubuntu's is a snap,
macOS) playwright fetches its own into build/. Without either, tests that need it are skipped with a reason.
"""

import os
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(__file__).parents[2] / "build"
FETCHED = BUILD / "browsers"
PATIENCE = 300  # Seconds for each way to get one.


def find(play=None):
    """Its path, or that of playwright's own, even if that does not exist."""
    for name in ("chromium", "google-chrome"):
        if found := shutil.which(name):
            return found
    os.environ["PLAYWRIGHT_BROWSERS_PATH"] = str(FETCHED)
    return play.chromium.executable_path if play else None


def launched():
    """For a fixture: yields a browser; skips its tests if none starts."""
    import pytest

    sync = pytest.importorskip("playwright.sync_api",
                               reason="there is no playwright (tests/shell/requirements-browser.txt)")
    with sync.sync_playwright() as play:
        try:
            # Root has no sandbox.
            browser = play.chromium.launch(args=["--no-sandbox"], executable_path=find(play))
        except sync.Error as error:
            pytest.skip(f"there is no Chromium that starts (tests/shell/chromium.py): {error}")
        yield browser
        browser.close()


def is_there():
    return find() is not None or any(FETCHED.glob("chromium*/INSTALLATION_COMPLETE"))


def is_well(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                              env={**os.environ, "DEBIAN_FRONTEND": "noninteractive",
                                   "PLAYWRIGHT_BROWSERS_PATH": str(FETCHED)})
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)
        return False
    return done.returncode == 0


def fetch():
    is_debian = "ID=debian" in pathlib.Path("/etc/os-release").read_text(encoding="utf-8").split() \
        if os.path.exists("/etc/os-release") else False
    if is_debian and os.geteuid() == 0:
        is_well("apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y", "-qq", "--no-install-recommends",
                "chromium")
    if not is_there():
        is_well(sys.executable, "-m", "playwright", "install", "chromium")


if __name__ == "__main__":
    if not is_there():
        fetch()
    print("Chromium is there" if is_there() else "Chromium is not available: tests of the page are skipped")
