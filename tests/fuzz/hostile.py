"""How much hostile input each law of this folder tries, and the one thing asked of it: an end.

``make fuzz`` tries many times as much. Hypothesis prints the example that failed.
"""

import os
import signal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import DeepNetTheoryError

TIMES = int(os.environ.get("DEEPNET_THEORY_FUZZ", "1"))
RANDOM = st.randoms(use_true_random=True)  # a generator with a seed of its own


def tried(count):
    """The settings of a law that is tried so often, times the factor; the same in every run."""
    own = HealthCheck.function_scoped_fixture, HealthCheck.too_slow
    count, same = count * TIMES, TIMES == 1
    return settings(max_examples=count, derandomize=same, deadline=None, suppress_health_check=own)


def ended(call, seconds=5):
    """What ``call`` returns, or the package's own error; fails for anything else."""

    def late(*_):
        raise TimeoutError(f"no end in {seconds} seconds")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of this process, however busy the machine is
    try:
        return call()
    except DeepNetTheoryError as told:
        assert 0 < len(str(told)) < 5000 and "\n" not in str(told)
        return told
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
