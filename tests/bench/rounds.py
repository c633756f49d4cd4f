"""Turns in rounds: every system once, then every system again, so that a noisy moment of the
machine affects all of them alike. Reports progress and the time that is left."""

import dataclasses
import sys
import time
import typing

FAILED_SECONDS_MAX = 60  # For the run: once failed turns have taken more, none is tried again.


@dataclasses.dataclass
class Turn:
    """One measurement, taken once in each round. The result of `run` is appended to `into`; when
    it fails twice in a row, there are no further turns of this name, and the reason is reported.
    So the entries of `into` come from the first rounds, whatever failed later."""

    name: str
    run: typing.Callable
    into: list
    seconds: float = 3.0  # The expected time of one; learnt from earlier ones.
    lost: str = ""        # Why rounds are missing: it failed.
    left_out: str = ""    # Why it could not even be tried here.


class Failed(Exception):
    """Why a system gave no figures."""


class Clock:
    """The work that is done and left, and its time, over all parts."""

    def __init__(self, out=sys.stderr):
        self.out = out
        self.begin = time.monotonic()
        self.planned = 0.0  # Seconds of all that is left.
        self.failed = 0.0   # Seconds that failed turns have taken.

    def plan(self, seconds):
        self.planned += seconds

    def done(self, seconds):
        self.planned = max(0.0, self.planned - seconds)

    def say(self, what):
        passed = time.monotonic() - self.begin
        print(f"[{minutes(passed)}, about {minutes(self.planned)} left] {what}", file=self.out,
              flush=True)


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def reason_of(error):
    """The text of an expected failure is enough; for others the kind is part of it."""
    return str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


def run_once_or_twice(clock, title, turn):
    """(its result, the seconds that it took). Raises Failed for any exception: the others still
    have their turns."""
    for is_last in (False, True):
        begin = time.monotonic()
        try:
            return turn.run(), time.monotonic() - begin
        except Exception as error:
            clock.failed += time.monotonic() - begin
            if is_last or clock.failed > FAILED_SECONDS_MAX:
                raise Failed(reason_of(error)) from error
            clock.say(f"{title}, {turn.name} failed and is tried once more: {reason_of(error)}")


def in_order(turns, number):
    """Each round begins with another one, so that none always follows the same neighbour."""
    first = number % max(1, len(turns))
    return turns[first:] + turns[:first]


def take(clock, title, turns, rounds, failures):
    """All rounds of some turns. The clock knows them by expected(turns, rounds)."""
    for number in range(rounds):
        for turn in in_order(turns, number):
            if turn.lost or turn.left_out:
                continue
            clock.say(f"{title}: round {number + 1} of {rounds}: {turn.name}")
            try:
                figure, took = run_once_or_twice(clock, title, turn)
            except Failed as error:
                turn.lost = str(error)
                failures.append(f"{title}, {turn.name}, from round {number + 1} on: {error}")
                clock.say(f"{title}, {turn.name} FAILED and is left out from here on: {error}")
                clock.done(turn.seconds * (rounds - number))
                continue
            turn.into.append(figure)
            # The estimate of the rest is corrected by the time that this took.
            clock.done(turn.seconds * (rounds - number) - took * (rounds - number - 1))
            turn.seconds = took


def expected(turns, rounds):
    return sum(turn.seconds * (rounds - len(turn.into)) for turn in turns
               if not turn.lost and not turn.left_out)
