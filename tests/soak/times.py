"""The clock of a soak, and how late the machine is."""

import threading
import time

TICK_S = 0.05
BURNT_S = 0.0005
LATE_S = 0.25  # A thread that wanted to sleep for a tick and slept so much longer: the machine is busy.


def now():
    """Seconds, on the clock that soak_rank prints."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _use_core(seconds):
    """Who only sleeps is woken early on a machine that leaves nobody the time to do anything."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Lateness(threading.Thread):
    """Notes in the ledger when the machine lets nobody run."""

    def __init__(self, ledger):
        super().__init__(daemon=True)
        self.ledger = ledger
        self.over = threading.Event()
        self.worst = 0.0

    def run(self):
        before = now()
        while not self.over.wait(TICK_S):
            _use_core(BURNT_S)
            at = now()
            late = at - before - TICK_S - BURNT_S
            self.worst = max(self.worst, late)
            if late > LATE_S:
                self.ledger.add("late", before, at)
            before = at
