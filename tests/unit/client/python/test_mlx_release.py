"""The choice of MLX's release (client/python/mlx_release.py), and its documentation."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[4]
PACKAGE = ROOT / "client" / "python"
sys.path.append(str(PACKAGE))

import mlx_release  # noqa: E402

from conftest import completed  # noqa: E402


def test_the_variable_overrides_the_installed_release(monkeypatch):
    monkeypatch.setenv("MLXCOMM_MLX", "1.2.3")
    assert mlx_release.chosen() == "1.2.3"
    needed = mlx_release.dynamic_metadata({}, {})["dependencies"]
    assert needed[1] == "mlx==1.2.3; platform_system == 'Darwin'"


def test_without_mlx_it_is_the_newest_tested_release(monkeypatch):
    monkeypatch.delenv("MLXCOMM_MLX", raising=False)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: [])
    assert mlx_release.chosen() == mlx_release.TESTED[-1]


# Why: the nanobind of an untested release would be a guess.
@pytest.mark.parametrize("release", ["0.29.0", "0.32.2", "0.33.0.dev20270101"])
def test_an_untested_release_is_refused_in_one_sentence(monkeypatch, release):
    monkeypatch.delenv("MLXCOMM_MLX", raising=False)
    monkeypatch.setattr(mlx_release, "installed", lambda: release)
    with pytest.raises(SystemExit, match=rf"MLX {release} is installed.*or MLXCOMM_MLX={release} to try"):
        mlx_release.dynamic_metadata({}, {})
    monkeypatch.setenv("MLXCOMM_MLX", release)
    assert mlx_release.chosen() == release


# Why: a virtual environment does not see the user's packages by default.
@pytest.mark.parametrize(("options", "found"), [([], "None"), (["--system-site-packages"], "9.9.9")])
def test_the_users_own_mlx_counts_if_the_environment_sees_it(tmp_path, options, found):
    venv, of_user = tmp_path / "venv", {"PYTHONUSERBASE": str(tmp_path), "PYTHONPATH": str(PACKAGE)}
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", *options, venv], check=True)
    ask = [venv / "bin/python", "-c", "import site; print(site.getusersitepackages()); import mlx_release; "
                               "print(mlx_release.installed())"]
    folder = subprocess.run(ask, capture_output=True, text=True, env=of_user).stdout.split()[0]
    info = pathlib.Path(folder) / "mlx-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlx\nVersion: 9.9.9\n")
    done = subprocess.run(ask, capture_output=True, text=True, env={**of_user, "PYTHONNOUSERSITE": "1"})
    assert done.stdout.split()[-1] == found, done.stderr


# How: pip runs the environment's interpreter, but removes its packages from the path.
def test_the_installed_release_is_found_during_pips_build(tmp_path, monkeypatch):
    monkeypatch.delenv("MLXCOMM_MLX", raising=False)
    installed = pytest.importorskip("mlx.core").__version__
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [path for path in sys.path if 'packages' not in path]\n")
    done = completed([sys.executable, "-c", "import mlx_release; print(mlx_release.installed())\nimport mlx"],
                     env={"PYTHONPATH": f"{tmp_path}:{PACKAGE}"})
    assert done.stdout.strip() == installed.partition("+")[0], done.stderr
    assert "ModuleNotFoundError" in done.stderr  # Otherwise the test proves nothing.


@pytest.mark.parametrize(("release", "nanobind"), [
    ("0.30.6", "2.12.0"), ("0.31.2", "2.12.0"), ("0.32.1", "2.13.0"), ("0.32.2", "2.15.0"),
    ("0.32.4", "3.1.0"), ("0.33.0.dev20270101", "3.1.0"), ("1.0.0", "3.1.0")])
def test_each_release_gets_the_nanobind_of_its_abi(release, nanobind):
    assert mlx_release.build_requirements(release)[-1] == f"nanobind=={nanobind}"


def test_readme_names_the_tested_releases_and_the_tests_build_for_the_newest():
    readme = re.sub(r"\s+", " ", (PACKAGE / "README.md").read_text())
    *others, newest = mlx_release.TESTED
    assert f"unless it is {', '.join(others)} or {newest}, the tested releases" in readme
    build = (ROOT / "tests" / "requirements-build.txt").read_text().replace('"', "'")
    assert all(one in build.splitlines() for one in mlx_release.build_requirements(newest))
