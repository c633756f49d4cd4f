"""bash 3.2, which macOS has, from GNU's source. tests/run fetches it before pytest's workers begin,
because their network has no way out. Without it, tests that need it are skipped with a reason."""

import pathlib
import urllib.request

BUILD = pathlib.Path(__file__).parents[2] / "build"
SOURCE = "https://ftp.gnu.org/gnu/bash/bash-3.2.57.tar.gz"
SHA256 = "3fa9daf85ebf35068f090ce51283ddeeb3c75eb5bc70b1a4a7cb05868bfe06a4"
TARBALL = BUILD / "bash-3.2.57.tar.gz"


def fetch():
    """Why it is not available; empty if it is. An existing one from any source is used."""
    if TARBALL.exists():
        return ""
    try:
        with urllib.request.urlopen(SOURCE, timeout=20) as answer:
            content = answer.read()
    except OSError as error:
        return f"bash 3.2 is not available: {SOURCE}: {error}"
    TARBALL.write_bytes(content)
    return ""


if __name__ == "__main__":
    print(fetch() or TARBALL)  # Tests that need it report that it is missing.
