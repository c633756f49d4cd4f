"""Ends tracebacks at the caller's line, because the package's own frames do not help to fix a program's
error."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from . import Error

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]


def ends_at_caller(function: _Function) -> _Function:
    """Decorates public functions: removes the package's frames from an `Error`, TypeError, ValueError or
    Ctrl-C.

    Other exceptions are bugs of this package and keep their frames, as do exceptions that went through the
    program's functions. Before Python 3.11 all keep them, because `raise` restores the traceback.
    """

    @functools.wraps(function)
    def outermost(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (Error, TypeError, ValueError, KeyboardInterrupt) as error:
            if _is_in_package(error.__traceback__):
                error.__traceback__ = None  # A bare raise adds no frame.
            raise

    return outermost


def _is_in_package(traceback):
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            return False
        traceback = traceback.tb_next
    return True
