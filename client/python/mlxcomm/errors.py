"""Turns failures that the extension reports into exceptions."""

import signal
import threading
from typing import Optional

import mlxcomm

from . import Error

# Only the package's classes: a program may have its own subclasses of Error.
_BY_CODE = {kind.code: kind for kind in map(mlxcomm.__dict__.get, mlxcomm.__all__)
            if isinstance(kind, type) and issubclass(kind, Error)}


def make_error(failure: tuple[int, str, int, str, str, int, str]) -> Error:
    _, code, rank, message, node, pid, group = failure
    return _BY_CODE.get(code, Error)(
        f"{code}: {message}", None if rank < 0 else rank, node or None, pid or None, group or None)


def to_raise(failure: tuple[int, str, int, str, str, int, str], thread: int,
             was_interrupted: bool) -> Optional[type[Error]]:
    """Returns a class whose instance is the exception, as PyThreadState_SetAsyncExc wants; None if a Ctrl-C
    is about to raise KeyboardInterrupt in that thread."""
    handler = signal.getsignal(signal.SIGINT)
    if was_interrupted and thread == threading.main_thread().ident and handler is signal.default_int_handler:
        return None
    error = make_error(failure)
    return type(type(error).__name__, (type(error),), {"__new__": lambda cls: error})
