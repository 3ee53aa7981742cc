"""On a GPU: the same verdict as on the CPU, by one process or by several."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_card_gives_the_verdict_of_the_cpu(processes):
    words = f"verify --optimizer adam --depths 8,16,32 --seeds 4 --no-cache --processes {processes}"
    found = {}
    for device in ("cpu", "cuda"):
        program = [sys.executable, "-m", "deepnet_theory", *words.split()]
        wanted = ["--device", device, "--format", "json"]
        done = subprocess.run([*program, *wanted], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found[device] = json.loads(done.stdout)
    assert found["cuda"]["device"] != found["cpu"]["device"]
    assert found["cuda"]["verdict"] == found["cpu"]["verdict"] == "SUPPORTED"
