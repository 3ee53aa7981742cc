"""Hostile input: how much of it each fuzz tries, and the one thing that is asked of it, an end.

A few hundred by default, many by ``make fuzz``. A case of :class:`Fuzz` is a seed, so that a
failure names what to run again: ``DEEPNET_THEORY_FUZZ_CASE=1234 pytest tests/fuzz -k name``.
"""

import os
import random
import signal

import pytest

from deepnet_theory.definitions.outcome import DeepNetTheoryError

TIMES = "DEEPNET_THEORY_FUZZ"  # how many times the ordinary number
SEED = "DEEPNET_THEORY_FUZZ_SEED"
CASE = "DEEPNET_THEORY_FUZZ_CASE"


class Fuzz:
    """``cases`` of a test, each with a generator of its own, and what becomes of one."""

    def __init__(self, name):
        self.name, self.times = name, int(os.environ.get(TIMES, "1"))
        self.seed, self.only = os.environ.get(SEED, "0"), os.environ.get(CASE)

    def cases(self, count):
        """``count`` cases, times the factor, each with its generator."""
        for case in range(count * self.times) if self.only is None else [int(self.only)]:
            yield case, random.Random(f"{self.name} {self.seed} {case}")

    def ends(self, case, given, call, seconds=5):
        """What ``call`` returns, or the package's own error; fails for anything else."""

        def late(*_):
            raise TimeoutError(f"no end in {seconds} seconds")

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return call()
        except DeepNetTheoryError as told:
            assert 0 < len(str(told)) < 5000 and "\n" not in str(told)
            return told
        except BaseException as error:
            raise AssertionError(f"case {case}: {given!r} ends in {error!r}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fuzz(request):
    """The cases of the test that asks for it."""
    return Fuzz(request.node.name)
