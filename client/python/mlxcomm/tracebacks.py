"""Tracebacks that end at the caller's line: what lies below it in this package helps nobody to fix it.

Errors of an evaluation (``mx.eval``, ``.item()``) come out of MLX's extension and have no such frames
anyway. So it is with NumPy, whose checks are in C; JAX takes frames out in the same way as here.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from . import Error

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]


def ends_at_caller(function: _Function) -> _Function:
    """For the functions that programs call.

    Takes the frames away of an `Error`, of what is raised for an argument that is wrong, and of Ctrl-C.
    Other exceptions are mistakes of this package, and keep theirs; so do those that went through a function
    of the program's own. Before Python 3.11 all keep them: there a raise puts the old traceback back.
    """

    @functools.wraps(function)
    def outermost(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (Error, TypeError, ValueError, KeyboardInterrupt) as error:
            if _is_in_package(error.__traceback__):
                error.__traceback__ = None  # Raising it again, without its name, adds no frame.
            raise

    return outermost


def _is_in_package(traceback):
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            return False
        traceback = traceback.tb_next
    return True
