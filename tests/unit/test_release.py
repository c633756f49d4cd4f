"""config/release: which version a commit has, which wheel pip takes, and how macOS's
package is put together. Nothing is compiled; the programs of macOS are stand-ins."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "config"))

import macos_package  # noqa: E402
import release_version  # noqa: E402
from release_version import Refused, Version  # noqa: E402


class Repository:
    """A few commits of the files from which a version is read."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.commit("0.1.0", "## Not released\n")

    def git(self, *words):
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, check=True,
            capture_output=True, text=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
        return done.stdout.strip()

    def commit(self, version, changes):
        self.folder.joinpath(".github").mkdir(exist_ok=True)
        self.folder.joinpath(".github/CHANGELOG.md").write_text(changes)
        self.folder.joinpath("CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(mlxcomm VERSION {version} LANGUAGES C CXX)\n")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "-")
        return self.git("rev-parse", "HEAD")

    def version(self):
        return release_version.of_commit(self.folder)


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "repository").mkdir()
    return Repository(tmp_path / "repository")


def test_a_commit_without_a_tag_has_a_version_of_its_own(repository):
    first = repository.version()
    commit = repository.commit("0.1.0", "## Not released\n")
    second = repository.version()
    assert first.full != second.full == f"0.1.0.dev2+g{commit[:8]}"
    assert second.debian == f"0.1.0~dev2.g{commit[:8]}"
    assert second.for_mlx("0.32.4") == f"0.1.0.dev2+g{commit[:8]}.mlx.0.32.4"


def test_a_tagged_commit_is_that_release(repository):
    repository.commit("0.1.0", "# Changes\n\n## 0.1.0 (2026-12-01)\n")
    repository.git("tag", "v0.1.0")
    repository.git("tag", "venv")  # Not a version.
    version = repository.version()
    assert (version.full, version.debian, version.for_mlx("1.2.3")) == ("0.1.0", "0.1.0", "0.1.0+mlx.1.2.3")


def test_a_tag_of_another_version_is_refused(repository):
    repository.commit("0.1.0", "## 0.1.0\n")
    repository.git("tag", "v0.1.1")
    with pytest.raises(Refused, match=r"the tag v0.1.1, but CMakeLists.txt has project\(VERSION 0.1.0\)"):
        repository.version()


def test_a_release_without_its_changes_is_refused(repository):
    repository.commit("0.1.0", "## Not released\n\n## 0.1.0.1\n")
    repository.git("tag", "v0.1.0")
    with pytest.raises(Refused, match=r'change the heading "## Not released" to "## 0\.1\.0"'):
        repository.version()


# Why: 0.1.0.dev7 comes before 0.1.0, so it would not be an upgrade.
def test_a_commit_after_a_release_needs_a_higher_version(repository):
    repository.commit("0.1.0", "## 0.1.0\n")
    repository.git("tag", "v0.1.0")
    repository.commit("0.1.0", "## 0.1.0\n")
    with pytest.raises(Refused, match=r"v0\.1\.0 has been released"):
        repository.version()
    repository.commit("0.1.1", "## 0.1.0\n")
    assert repository.version().full.startswith("0.1.1.dev4+g")


def test_versions_are_in_the_order_of_commits_for_debian():
    if shutil.which("dpkg") is None:
        pytest.skip("no dpkg")
    rising = [Version("0.1.0", ".dev99+gffffffff", ""), Version("0.1.0", ".dev862+g0fffffff", ""),
              Version("0.1.0", "", ""), Version("0.1.1", ".dev900+g00000000", "")]
    for one, next_one in zip(rising, rising[1:]):
        subprocess.run(["dpkg", "--compare-versions", one.debian, "lt", next_one.debian], check=True)


def test_the_header_has_the_projects_version():
    number = re.search(r"project\(mlxcomm VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    header = (ROOT / "client" / "lib" / "mlxcomm.h").read_text()
    assert ".".join(re.findall(r"#define MLXCOMM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)) == number


def make_wheel(folder, name, version, requires=""):
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" +
                       (f"Requires-Dist: {requires}\n" if requires else ""))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Two releases of MLX, and a release and a later commit of mlxcomm for each of them."""
    folder = tmp_path_factory.mktemp("wheels")
    for mlx in ("0.9.1", "0.32.4"):
        make_wheel(folder, "mlx", mlx)
        for version in (Version("0.1.0", "", ""), Version("0.1.1", ".dev9+gabcdef01", "")):
            make_wheel(folder, "mlxcomm", version.for_mlx(mlx), f"mlx=={mlx}")
    assert len(list(folder.iterdir())) == 6
    return folder


@pytest.mark.parametrize(("asked", "taken"), [
    (["mlxcomm"], "0.1.0+mlx.0.32.4"),  # The newest MLX; unreleased commits only on request.
    (["mlxcomm", "mlx==0.9.1"], "0.1.0+mlx.0.9.1"),
    (["mlxcomm==0.1.0", "mlx==0.32.4"], "0.1.0+mlx.0.32.4"),
    (["mlxcomm==0.1.0", "mlx<0.10"], "0.1.0+mlx.0.9.1"),
    (["--pre", "mlxcomm", "mlx==0.9.1"], "0.1.1.dev9+gabcdef01.mlx.0.9.1"),
    (["mlxcomm", "mlx==0.33.0"], None),
])
def test_pip_takes_the_wheel_that_fits_mlx(wheels, tmp_path, asked, taken):
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-index",
         "--find-links", wheels, "--report", report, *asked], capture_output=True, text=True,
        env={**os.environ, "PIP_FIND_LINKS": ""})
    if "no such option: --report" in done.stderr:
        pytest.skip("pip is older than 22.2")
    assert (done.returncode == 0) == (taken is not None), done.stderr
    if taken is not None:
        made = {one["metadata"]["name"]: one["metadata"]["version"]
                for one in json.loads(report.read_text())["install"]}
        assert made["mlxcomm"] == taken and taken.endswith("mlx." + made["mlx"])


CMAKE = """#!/bin/sh
bin=$DESTDIR/usr/local/mlxcomm/bin
case "$1" in --install) mkdir -p "$bin" && touch "$bin/mlxcommd" ;; esac
"""
TOOL = """#!/bin/sh
for last; do :; done
case $last in *.pkg) touch "$last" ;; esac
"""


@pytest.mark.parametrize("identity", ["", "Developer ID Installer: A (B)"])
def test_macos_package_has_programs_a_path_and_the_services_command(tmp_path, monkeypatch, identity):
    programs, tree, made = tmp_path / "programs", tmp_path / "tree", tmp_path / "made"
    for folder in (programs, tree, made):
        folder.mkdir()
    for name in ("cmake", "pkgbuild", "productbuild", "delocate-path"):
        (programs / name).write_text(CMAKE if name == "cmake" else TOOL)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MLXCOMM_INSTALLER_IDENTITY", identity)
    commands = []

    def call(*command, **options):
        commands.append([str(word) for word in command])
        subprocess.run(commands[-1], check=True, **options)

    version = Version("0.1.0", ".dev9+gabcdef01", "")
    macos_package.build(call, tree, made, version, programs / "delocate-path", "15.0")
    assert [file.name for file in made.iterdir()] == ["mlxcomm-0.1.0.dev9+gabcdef01-macos-arm64.pkg"]
    root = tree / "build" / "pkg-root"
    assert (root / "usr/local/mlxcomm/bin/mlxcommd").exists()
    assert (root / "etc/paths.d/mlxcomm").read_text() == "/usr/local/mlxcomm/bin\n"
    called = {pathlib.Path(words[0]).name: words for words in commands}
    assert "-DMLXCOMM_VERSION_SUFFIX=.dev9+gabcdef01" in commands[0]
    assert called["delocate-path"][1:] == ["-v", "-L", "lib", str(root / "usr/local/mlxcomm")]
    pkgbuild = called["pkgbuild"]
    assert pkgbuild[pkgbuild.index("--root") + 1] == str(root)
    assert pkgbuild[pkgbuild.index("--ownership") + 1] == "recommended"  # Owned by root, whoever builds it.
    productbuild = called["productbuild"]
    assert ("--sign" in productbuild) == bool(identity) and (identity in productbuild) == bool(identity)
    reported = xml.etree.ElementTree.parse(productbuild[productbuild.index("--distribution") + 1]).getroot()
    shown = pathlib.Path(productbuild[productbuild.index("--resources") + 1])
    said = (shown / reported.find("conclusion").get("file")).read_text()
    assert "sudo /usr/local/mlxcomm/bin/mlxcommctl service install\n" in said
    component = pathlib.Path(pkgbuild[-1])
    assert component.parent == pathlib.Path(productbuild[productbuild.index("--package-path") + 1])
    (reference,) = [one for one in reported.iter("pkg-ref") if one.get("version")]
    assert (reference.get("id"), reference.get("version"), reference.text) == (
        pkgbuild[pkgbuild.index("--identifier") + 1], version.full, component.name)
    assert next(reported.iter("os-version")).get("min") == "15.0"
    assert reported.find("options").get("hostArchitectures") == "arm64"


@pytest.mark.skipif(shutil.which("ruby") is None, reason="no ruby")
def test_the_formula_parses():
    done = subprocess.run(["ruby", "-wc", ROOT / "config" / "homebrew" / "mlxcomm.rb"], capture_output=True,
                          text=True)
    assert done.stdout.strip() == "Syntax OK" and done.stderr == ""
