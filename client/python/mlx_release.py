"""Which release of MLX the package is built for: MLX's C++ interface changes from release to release. It is
$MLXCOMM_MLX, else the release that is installed, which has to be TESTED, else the newest of those.
scikit-build-core asks this module (pyproject.toml); so does config/release."""

import importlib.metadata
import os
import site
import sys

TESTED = ("0.31.2", "0.32.0", "0.32.4")  # The package's tests have passed with these.
# The nanobind that MLX is built with from a release on: types are shared between extensions of one ABI.
NANOBIND = {"0.31.2": "2.12.0", "0.32.0": "2.13.0", "0.32.2": "2.15.0", "0.32.3": "3.1.0"}


def numbers(release):
    return [int(part) for part in release.split(".") if part.isdigit()]


def installed():
    # pip hides the environment that it installs to from the build, but runs that one's interpreter. Outside
    # of a virtual environment, and in one that sees what is outside, the user's own packages come first.
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
    if found not in (None, *TESTED):  # Its nanobind would be a guess, and an index may not have it.
        sys.exit(f"mlxcomm was not tested with MLX {found}, which is installed here, but with "
                 f"{', '.join(TESTED)}: set MLXCOMM_MLX={TESTED[-1]} to install that one, or "
                 f"MLXCOMM_MLX={found} to try this one")
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
    return {"dependencies": True}  # Those of the sources are not those of a wheel.
