"""Checks arguments. The error message names the argument, what was expected and what was passed; without
these checks it would be a C++ signature. A wrong type is a TypeError, a wrong value a ValueError.
"""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AnySet
from numbers import Real
from typing import Any, Literal, Optional, get_args

import mlx.core as mx

_STREAMS = tuple(getattr(mx, name) for name in ("Stream", "Device", "DeviceType", "ThreadLocalStream")
                 if hasattr(mx, name))
_SHOWN_MOST = 40  # Characters of a value.
Backend = Literal["any", "ring", "jaccl", "mpi", "nccl"]
BACKENDS = get_args(Backend)


def wrong(name: str, expected: str, value: Any, kind: type[Exception] = TypeError) -> Exception:
    shown = _shown(value)
    if kind is TypeError and shown != type(value).__name__ and value is not None:
        shown += f" ({type(value).__name__})"
    return kind(f"{name}: expected {expected}, got {shown}")


def _shown(value):
    """Returns a short number or text in full, the shape of an array, or the type of anything else."""
    if isinstance(value, mx.array):
        return f"shape {tuple(value.shape)}, {value.dtype}"
    if value is None or isinstance(value, (str, int, float, complex, bytes)):
        text = repr(value)
        return text if len(text) <= _SHOWN_MOST else text[:_SHOWN_MOST] + "..."
    return type(value).__name__


def array(name: str, value: Any, expected: str = "an mx.array") -> mx.array:
    if not isinstance(value, mx.array):
        raise wrong(name, expected, value)
    return value


def arrays(name: str, values: Iterable[Any]) -> list[mx.array]:
    return [array(f"{name}[{place}]", value) for place, value in enumerate(values)]


def group(value: Any) -> Optional[mx.distributed.Group]:
    if value is not None and not isinstance(value, mx.distributed.Group):
        raise wrong("group", "a group from mlxcomm.init() or split()", value)
    return value


def stream(value: Any, name: str = "stream") -> Any:
    if value is not None and not isinstance(value, _STREAMS):
        raise wrong(name, "an mx.Stream or mx.Device", value)
    device = getattr(value, "device", value)
    if device is not None and getattr(device, "type", device) == mx.gpu:
        raise ValueError(f"{name}: expected a CPU stream, on which communication runs, got {value}")
    return value


def backends(take: Any) -> set[str]:
    """Returns the backends that `install` replaces; by default all, but not MLX's own "nccl"."""
    if take is None:
        return set(BACKENDS) - ({"nccl"} if mx.distributed.is_available("nccl") else set())
    expected = f"some of {', '.join(BACKENDS)}"
    if not isinstance(take, Iterable):
        raise wrong("take", expected, take)
    names = [take] if isinstance(take, str) else list(take)
    for name in names:
        if name not in BACKENDS:
            raise wrong("take", expected, name, ValueError)
    return set(names)


def whole(name: str, value: Any, expected: str, least: int, below: int) -> int:
    """Returns `value` as an int if least <= value < below; `expected` is for the message."""
    try:
        number = operator.index(None if isinstance(value, bool) else value)
    except (TypeError, ValueError):  # ValueError: an array with several elements.
        raise wrong(name, expected, value) from None
    if not least <= number < below:
        raise wrong(name, expected, number, ValueError)
    return number


def rank(name: str, value: Any) -> int:
    """The extension checks that the group has this rank."""
    return whole(name, value, "a rank of the group", 0, 2**32)


def counts(name: str, values: Any) -> list[int]:
    return [whole(f"{name}[{place}]", value, "a number of rows", 0, 2**31)
            for place, value in enumerate(_sequence(name, values, "the number of rows of each rank"))]


def shape(values: Any) -> list[int]:
    """The extension refuses negative lengths."""
    return [whole(f"shape[{place}]", value, "a length", -2**31, 2**31)
            for place, value in enumerate(_sequence("shape", values, "the lengths of all axes"))]


def _sequence(name, values, expected):
    try:
        return list(None if isinstance(values, (Mapping, AnySet)) else values)
    except (TypeError, ValueError):
        raise wrong(name, f"{expected}, as a list or tuple", values) from None


def text(name: str, value: Any, expected: str, bytes_max: Optional[int] = None) -> str:
    """Returns "" for None. With bytes_max, the text is a name that other users see."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(name, expected, value)
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise wrong(name, f"{expected}, in UTF-8", value, ValueError) from None
    if bytes_max is None and "\0" in value:
        raise wrong(name, f"{expected}, without NUL", value, ValueError)
    if bytes_max is not None and (length > bytes_max or re.search("[\0-\x1f\x7f-\x9f]", value)):
        expected += f", 1 to {bytes_max} bytes without control characters"
        raise wrong(name, expected, value, ValueError)
    return value


def nanoseconds(timeout: Any, name: str = "timeout") -> int:
    """Returns 0, which means the default, for None."""
    if timeout is None:
        return 0
    expected = "seconds, more than 0"
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        raise wrong(name, expected, timeout)
    if not 0 < timeout < math.inf:
        raise wrong(name, expected, timeout, ValueError)
    return max(1, int(min(timeout * 1e9, 2.0**63)))  # The product may be infinite.
