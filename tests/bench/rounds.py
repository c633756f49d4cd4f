"""Turns in rounds: every system once, then every system again, so that a noisy moment of the
machine hits all of them alike. Says what it does and how long is left."""

import dataclasses
import sys
import time
import typing


@dataclasses.dataclass
class Turn:
    """One measurement, taken once a round. What `run` gives is appended to `into`; when it raises
    Failed twice in a row, there are no further turns of this name, and why is said. So the first of
    `into` are of the first rounds, whatever failed later."""

    name: str
    run: typing.Callable
    into: list
    seconds: float = 3.0  # What one is expected to take; learnt from those before.


class Failed(Exception):
    """Why a system gave no figures."""


class Clock:
    """What is done, what is left, and how long that takes, over all parts."""

    def __init__(self, out=sys.stderr):
        self.out = out
        self.begin = time.monotonic()
        self.planned = 0.0  # Seconds of all that is left.

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


def run_once_or_twice(clock, title, turn):
    try:
        return turn.run()
    except Failed as error:
        clock.say(f"{title}, {turn.name} failed and is tried once more: {error}")
        return turn.run()


def take(clock, title, turns, rounds, failures):
    """All rounds of some turns. The clock has been told of them by expected(turns, rounds)."""
    turns = list(turns)
    for number in range(rounds):
        for turn in list(turns):
            clock.say(f"{title}: round {number + 1} of {rounds}: {turn.name}")
            begin = time.monotonic()
            try:
                turn.into.append(run_once_or_twice(clock, title, turn))
            except Failed as error:
                failures.append(f"{title}, {turn.name}, from round {number + 1} on: {error}")
                clock.say(f"{title}, {turn.name} FAILED twice and is left out from here on: {error}")
                turns.remove(turn)
                clock.done(turn.seconds * (rounds - number))
                continue
            took = time.monotonic() - begin
            # What is left of this one is corrected by what it took.
            clock.done(turn.seconds * (rounds - number) - took * (rounds - number - 1))
            turn.seconds = took


def expected(turns, rounds):
    return sum(turn.seconds for turn in turns) * rounds
