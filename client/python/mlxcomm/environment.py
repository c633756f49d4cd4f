"""Rank, size and job from the environment that a launcher makes.

The library reads it (client/lib/find_place.h lists the variables and their order), so that programs
in C, in Python and mlxcommctl agree.
"""

import operator
from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import _mlxcomm


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
    for name, value in (("rank", rank), ("size", size)):
        if value is not None and operator.index(value) < 0:
            raise ValueError(f"{name}: expected a number that is not negative, got {value}")
    return Place(*_mlxcomm.find_place(
        job or "", rank, size, None if environment is None else dict(environment)))
