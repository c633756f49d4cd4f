"""Runs the program's signal handlers while its main thread waits for other ranks.

Python runs handlers only between the main thread's instructions, and a waiting evaluation is one instruction.
So ``signal.signal`` is wrapped: while the main thread waits, a thread of this module (the runner) runs the
handler within a second. If the handler returns, the wait continues; if it raises, the wait ends, and the main
thread raises the exception. Each signal runs its handler once.

Python allows ``signal.signal`` only on the main thread. If a handler in the runner calls it, the next signal
runs the new handler, and Python's own table is updated when the main thread continues.
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
_MAIN_SECONDS = 0.2  # The main thread gets this long to run the handler itself.
_POLL_SECONDS = 0.05

_set, _get = signal.signal, signal.getsignal
_handlers = {}  # Signal to the program's handler; Python's own table has _on_main.
_handled = {}   # Signal to how many had arrived when its handler last ran.
_skipped = set()  # Signals whose handler the runner ran, and which the main thread must skip.
_raised = {}    # Signal to the exception that its handler raised in the runner.
_deferred = []  # Arguments of signal.signal calls in the runner.
_claim = threading.RLock()  # Reentrant: one handler may interrupt another's claim.
_runner = None


def install():
    """Wraps signal.signal, signal.getsignal and the current handlers, once, on the main thread."""
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
    if handler is _on_main:  # Read from Python's table by a program that restores it.
        handler = _handlers.get(signalnum, signal.SIG_DFL)
    if signalnum not in _WATCHED:
        _set(signalnum, handler)
        return before
    if not callable(handler) or handler is signal.default_int_handler:
        _set(signalnum, handler)
        _handlers.pop(signalnum, None)
        _mlxcomm.watch(signalnum, False)  # Interrupts waits immediately (KeyboardInterrupt).
        return before
    _set(signalnum, _on_main)  # Raises on other threads, before anything changes.
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
        # Signals that arrived since the runner's turn must still run, even if Python merged several.
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
        _mlxcomm.interrupt()  # Ends the waits of other threads.
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
        time.sleep(_POLL_SECONDS)
        with _claim:
            arrived = _mlxcomm.arrived(number)
            if _handled.get(number, 0) >= arrived or _get(number) is not _on_main:
                return  # The main thread ran it.
            waits = _mlxcomm.is_waiting() and time.monotonic() - begun >= _MAIN_SECONDS
            if waits:
                _handled[number] = arrived
                _skipped.add(number)
        if waits:
            break
    try:
        _run(number, sys._current_frames().get(threading.main_thread().ident))
    except BaseException as error:
        # The main thread raises it as soon as it runs again.
        with _claim:
            _raised[number] = error
            _skipped.add(number)
        _mlxcomm.interrupt()
        _thread.interrupt_main(number)
