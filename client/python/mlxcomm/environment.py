"""Rank, size and job from the environment that a launcher makes.

The library reads it (client/lib/find_place.h lists the variables and their order), so that programs
in C, in Python and mlxcommctl agree.
"""

from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import _mlxcomm, arguments

_JOB_BYTES_MAX = 200  # mlxcomm.h


class Place(NamedTuple):
    job: str
    rank: int
    size: int
    launched: bool = False  # A launcher's variable named the rank.


def find_place(
    job: Optional[str] = None,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Place:
    """The caller's place; arguments win over the environment, which is the process's by default.

    Where nothing names a rank, it is the only one: rank 0 of size 1.
    Raises ValueError, naming the variable or argument that is wrong.
    """
    given = [None if value is None else arguments.whole(name, value, "a whole number, 0 or more", 0, 2**32)
             for name, value in (("rank", rank), ("size", size))]
    return Place(*_mlxcomm.find_place(
        arguments.text("job", job, "the job's name", _JOB_BYTES_MAX), *given,
        None if environment is None else dict(environment)))
