"""Rank, size and job from the environment that a launcher makes.

The first of these that names a rank counts: MLX's own variables, Open MPI, PMI, Slurm,
torchrun. Where no job is named it follows from the launcher's variables, so that all
ranks of one launch say the same. mlx.launch gives each rank a file of its own with the
same content, so of files the content counts, not the path.
"""

import hashlib
import json
import os
from typing import Mapping, NamedTuple, Optional


class Place(NamedTuple):
    job: str
    rank: int
    size: int


# (rank, size, variables that are the same on all ranks of one launch and on no other)
_LAUNCHERS = (
    ("MLX_RANK", "MLX_WORLD_SIZE",
     ("MLX_HOSTFILE", "MLX_JACCL_COORDINATOR", "MLX_IBV_DEVICES", "NCCL_HOST_IP", "NCCL_PORT")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")),
    ("PMI_RANK", "PMI_SIZE", ("PMI_JOBID",)),
    ("SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")),
)
# Files with one entry for each rank, by the variable that names them.
_RANK_FILES = ("MLX_HOSTFILE", "MLX_IBV_DEVICES")


def _number(environment, name):
    text = environment[name]
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{name}={text!r}: expected a whole number that is not negative")
    return value


def _entries(environment, name):
    """The entries of a rank file: a JSON list, or an object with `hosts`.

    An empty file stands for one rank: mlx.launch writes that for a single host.
    """
    path = environment[name]
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        hosts = json.loads(text) if text.strip() else [None]
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}={path!r}: {error}") from None
    if isinstance(hosts, dict):
        hosts = hosts.get("hosts")
    if not isinstance(hosts, list) or not hosts:
        raise ValueError(f"{name}={path!r}: expected a list with one entry for each rank")
    return hosts


def _size_of_files(environment):
    for name in _RANK_FILES:
        if name in environment:
            return len(_entries(environment, name))
    return None


def _job_of(environment, names):
    given = [
        f"{name}={json.dumps(_entries(environment, name))}" if name in _RANK_FILES
        else f"{name}={environment[name]}"
        for name in names if name in environment
    ]
    if not given:
        return "default"
    return "job-" + hashlib.sha256("\n".join(given).encode()).hexdigest()[:16]


def find_place(
    job: Optional[str] = None,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    environment: Mapping[str, str] = os.environ,
) -> Place:
    """The caller's place; arguments win over the environment.

    Without any word of a rank it is the only one: rank 0 of size 1.
    Raises ValueError, naming the variable or argument that is wrong.
    """
    found_rank, found_size, names = None, None, ()
    for rank_name, size_name, launch_names in _LAUNCHERS:
        if rank_name not in environment:
            continue
        found_rank = _number(environment, rank_name)
        names = launch_names
        if size_name in environment:
            found_size = _number(environment, size_name)
        elif rank_name == "MLX_RANK":
            found_size = _size_of_files(environment)
        if found_size is None and size is None:
            raise ValueError(f"{rank_name} is set but {size_name} is not: set both")
        break
    rank = found_rank if rank is None else rank
    size = found_size if size is None else size
    if rank is None and size is None:
        rank, size = 0, 1
    if rank is None or size is None:
        raise ValueError(
            f"rank and size: expected both or neither, got rank={rank} and size={size}")
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"rank {rank} of size {size}: expected 0 <= rank < size")
    job = job or environment.get("MLXCOMM_JOB") or _job_of(environment, names)
    return Place(job, rank, size)
