"""The program's own signal handlers, while its main thread waits for other ranks.

Python runs a handler between two of the main thread's instructions, and an evaluation that waits is one. So
``signal.signal`` is wrapped: while the main thread waits, a thread of this module runs the handler in its
place, within a second. If the handler returns, the wait goes on; what it raises ends the wait, and comes out
of it in the main thread. Each signal runs its handler once.

A handler that calls ``signal.signal`` itself, which Python allows on the main thread alone, changes what the
next signal runs; Python's own setting follows when the main thread goes on.
"""

import _thread
import functools
import os
import signal
import sys
import threading
import time

from . import _mlxcomm

_WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
            signal.SIGALRM}
_MAIN_HAS = 0.2  # Seconds that the main thread has to run the handler itself.
_LOOK = 0.05

_set, _get = signal.signal, signal.getsignal
_handlers = {}  # The program's, by signal; in Python's own table stands _on_main.
_handled = {}   # How many of a signal had arrived when its handler was last run.
_skipped = set()  # Signals whose handler the runner has run: the main thread's turn is still to come.
_raised = {}    # What a handler has raised in the runner, by signal.
_deferred = []  # Calls of signal.signal by handlers in the runner.
_claim = threading.RLock()  # Reentrant: one handler may interrupt another's claim.
_runner = None


def install():
    """Wraps signal.signal and signal.getsignal, once, and the present handlers. Only the main thread can."""
    if signal.signal is not _set or threading.current_thread() is not threading.main_thread():
        return
    signal.signal, signal.getsignal = _signal, _getsignal
    for number in _WATCHED:
        handler = _get(number)
        if callable(handler):
            _signal(number, handler)


@functools.wraps(_set)
def _signal(signalnum, handler):
    if _runner is not None and threading.current_thread() is _runner and signalnum in _WATCHED:
        before = _getsignal(signalnum)
        _deferred.append((signalnum, handler))
        _handlers[signalnum] = handler
        return before
    before = _getsignal(signalnum)
    if handler is _on_main:  # Read from C's table, and put back.
        handler = _handlers.get(signalnum, signal.SIG_DFL)
    if signalnum not in _WATCHED:
        _set(signalnum, handler)
        return before
    if not callable(handler) or handler is signal.default_int_handler:
        _set(signalnum, handler)
        _handlers.pop(signalnum, None)
        _mlxcomm.watch(signalnum, False)  # At once: KeyboardInterrupt.
        return before
    _set(signalnum, _on_main)  # Raises on another thread than the main one, before anything has changed.
    _handlers[signalnum] = handler
    _start_runner()
    _mlxcomm.watch(signalnum, True)
    return before


@functools.wraps(_get)
def _getsignal(signalnum):
    handler = _get(signalnum)
    return _handlers.get(signalnum, handler) if handler is _on_main else handler


def _on_main(number, frame):
    while _deferred:
        _signal(*_deferred.pop(0))
    with _claim:
        arrived = _mlxcomm.arrived(number)
        # What arrived since then has a turn of its own, even if Python has made one of several.
        has_run = number in _skipped and _handled.get(number, 0) >= arrived
        _skipped.discard(number)
        if not has_run:
            _handled[number] = arrived
    if number in _raised:
        raise _raised.pop(number)
    if has_run:
        return
    try:
        _run(number, frame)
    except (KeyboardInterrupt, SystemExit):
        _mlxcomm.interrupt()  # What other threads wait for.
        raise


def _run(number, frame):
    handler = _handlers.get(number)
    if callable(handler):
        handler(number, frame)
    elif handler == signal.SIG_DFL:  # Set by a handler in the runner.
        os._exit(128 + number)


def _start_runner():
    global _runner
    pipe = _mlxcomm.arrivals_pipe()
    if _runner is not None or pipe < 0:
        return
    _runner = threading.Thread(target=_run_arrivals, args=(pipe,), name="mlxcomm signals", daemon=True)
    _runner.start()


def _run_arrivals(pipe):
    while True:
        number = os.read(pipe, 1)
        if number:
            _run_if_main_waits(number[0])


def _run_if_main_waits(number):
    begun = time.monotonic()
    while True:
        time.sleep(_LOOK)
        with _claim:
            arrived = _mlxcomm.arrived(number)
            if _handled.get(number, 0) >= arrived or _get(number) is not _on_main:
                return  # The main thread has run it.
            waits = _mlxcomm.is_waiting() and time.monotonic() - begun >= _MAIN_HAS
            if waits:
                _handled[number] = arrived
                _skipped.add(number)
        if waits:
            break
    try:
        _run(number, sys._current_frames().get(threading.main_thread().ident))
    except BaseException as error:
        # The main thread raises it when its wait has ended; or at once, if it goes on already.
        with _claim:
            _raised[number] = error
            _skipped.add(number)
        _mlxcomm.interrupt()
        _thread.interrupt_main(number)
