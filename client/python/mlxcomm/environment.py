"""Finds rank, size and job in a launcher's environment variables. libmlxcomm does it for all languages;
client/lib/find_place.h lists the variables and their order."""

from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import _mlxcomm, arguments

_JOB_BYTES_MAX = 200  # mlxcomm.h


class Place(NamedTuple):
    job: str
    rank: int
    size: int
    launched: bool = False  # A launcher set the rank.


def find_place(
    job: Optional[str] = None,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Place:
    """Returns the caller's place: from the arguments, then from the environment (by default this process's),
    otherwise rank 0 of 1. Raises ValueError, which names the wrong variable or argument."""
    given = [None if value is None else arguments.whole(name, value, "a whole number, 0 or more", 0, 2**32)
             for name, value in (("rank", rank), ("size", size))]
    return Place(*_mlxcomm.find_place(
        arguments.text("job", job, "the job's name", _JOB_BYTES_MAX), *given,
        None if environment is None else dict(environment)))
