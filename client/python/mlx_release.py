"""Chooses the release of MLX to build for, because MLX's C++ interface changes with each release:
$MLXCOMM_MLX, or the installed release (which must be in TESTED), or the newest in TESTED. scikit-build-core
(pyproject.toml) and config/release call this module."""

import importlib.metadata
import os
import site
import sys

TESTED = ("0.31.2", "0.32.0", "0.32.4")  # The package's tests pass with these.
# Maps an MLX release to the nanobind used from it on. Extensions share types only with the same nanobind ABI.
NANOBIND = {"0.31.2": "2.12.0", "0.32.0": "2.13.0", "0.32.2": "2.15.0", "0.32.3": "3.1.0"}


def numbers(release):
    return [int(part) for part in release.split(".") if part.isdigit()]


def installed():
    # pip hides the target environment from the build, but runs its interpreter. The user's own packages come
    # first outside of a virtual environment, and in one that can see system packages.
    own = [] if sys.prefix == sys.base_prefix else site.getsitepackages([sys.prefix])
    of_user = [site.getusersitepackages()] if sys.base_prefix in site.PREFIXES else []
    folders = [*sys.path, *own, *of_user, *site.getsitepackages()]
    for found in importlib.metadata.distributions(name="mlx", path=folders):
        return found.version.partition("+")[0]
    return None


def chosen():
    if named := os.environ.get("MLXCOMM_MLX"):
        return named
    found = installed()
    if found not in (None, *TESTED):  # Its nanobind would be a guess.
        sys.exit(f"MLX {found} is installed, but mlxcomm was tested only with {', '.join(TESTED)}: set "
                 f"MLXCOMM_MLX={TESTED[-1]} to install that release, or MLXCOMM_MLX={found} to try this one")
    return found or TESTED[-1]


def mlx(release):
    return [f"mlx[cpu]=={release}; platform_system == 'Linux'",
            f"mlx=={release}; platform_system == 'Darwin'"]


def build_requirements(release):
    since = [one for one in NANOBIND if numbers(one) <= numbers(release)] or list(NANOBIND)[:1]
    return [*mlx(release), f"nanobind=={NANOBIND[since[-1]]}"]


def get_requires_for_dynamic_metadata(_settings):
    return build_requirements(chosen())


def dynamic_metadata(_settings, _project):
    return {"dependencies": mlx(chosen())}


def dynamic_wheel(_settings):
    return {"dependencies": True}  # They depend on the build machine, so a source archive must not fix them.
