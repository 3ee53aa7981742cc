"""Settings of all tests."""

import compileall
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# a result must not depend on the machine: no test sees a GPU, but those of `make test-gpu`
if not os.environ.get("GPU_TESTS"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

# small tensors: a second OpenMP thread stalls more than it helps; set before torch is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

# wall-clock deadlines fail on a busy machine and say nothing of the code; the examples of a law are
# the same in every run, so that a statistical one cannot fail by a draw: `make fuzz` draws others
SAME = os.environ.get("DEEPNET_THEORY_FUZZ", "1") == "1"
settings.register_profile("project", deadline=None, print_blob=True, derandomize=SAME)
settings.load_profile("project")

# whoever runs the tests in the background, or under nohup, lets children ignore these signals
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# nothing comes from what the user has kept, nor from an earlier test: a test names its folder
os.environ["DEEPNET_THEORY_CACHE"] = ""

# jsonschema would compile 39 grammars, two seconds, for formats that no schema here asks for
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# every full collection walks through torch, SymPy and thousands of tests: an eighth of the time
gc.set_threshold(50_000, 20, 50)


def pytest_configure(config):
    """Claims, and what tests start, read compiled modules, also where Python is to write none."""
    if not hasattr(config, "workerinput"):
        for folder in ("deepnet_theory", "paper_checks"):
            compileall.compile_dir(Path(__file__).parents[1] / folder, quiet=2)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and os.environ.get("GPU_TESTS") != "cpu":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no GPU is visible; `make test-gpu` shows it to the tests")


def pytest_collection_finish():
    """What stands when the first test begins stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def afresh():
    """What forgets all that was derived or measured; it is called before the test and behind it."""
    from deepnet_theory.proof import derivation, explicit, stack, witness

    def forget():
        for cached in (derivation.derive, explicit.see, stack._places, witness.sizes):
            cached.cache_clear()

    forget()
    yield forget
    forget()


@pytest.fixture
def unmeasured(monkeypatch):
    """Audits leave the steps of the model and of a fixed copy out."""
    monkeypatch.setattr("deepnet_theory.models.effect.MOST", 0)


@pytest.fixture(autouse=True)
def no_module_stays(tmp_path_factory):
    """A module that a test has written does not stay loaded: other code may have read it."""
    before = set(sys.modules)
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.startswith(written):
            del sys.modules[name]
