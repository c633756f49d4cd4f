"""Finds mlx-c's sources, which this tree does not contain. Rust's crate mlx-sys has them, and cargo
fetches it once, from the registry that it is configured for."""

import json
import os
import pathlib
import shutil
import subprocess

CRATE, VERSION = "mlx-sys", "0.7.0"  # mlx-c 0.7.0, for MLX 0.32.2


class NotToBeHad(Exception):
    """Why there are no sources."""


def find_sources(work):
    """The folder with mlx-c's CMakeLists.txt. `work` is the place for a Rust package that depends on it."""
    named = os.environ.get("MLXCOMM_MLX_C_SOURCE")
    if named:
        return pathlib.Path(named)
    cargo = shutil.which("cargo") or shutil.which("cargo", path=pathlib.Path.home() / ".cargo" / "bin")
    if cargo is None:
        raise NotToBeHad("no cargo, which fetches mlx-c's sources, and no MLXCOMM_MLX_C_SOURCE that names "
                         "them")
    (work / "src").mkdir(parents=True, exist_ok=True)
    (work / "src" / "lib.rs").write_text("")
    (work / "Cargo.toml").write_text(
        '[package]\nname = "wants-mlx-c"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{CRATE} = "={VERSION}"\n[workspace]\n')
    said = ""
    for way in (["--offline"], []):  # The network is not used for what is already present.
        done = subprocess.run([cargo, "metadata", "--format-version", "1", *way], cwd=work,
                              capture_output=True, text=True)
        if done.returncode == 0:
            crate = next(one for one in json.loads(done.stdout)["packages"] if one["name"] == CRATE)
            return pathlib.Path(crate["manifest_path"]).parent / "src" / "mlx-c"
        said = done.stderr.strip()
    raise NotToBeHad(f"cargo cannot fetch {CRATE} {VERSION}, which has mlx-c's sources: {said[-500:]}")
