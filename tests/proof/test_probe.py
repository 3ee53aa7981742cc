"""The probe route: which probe tells the size of a gradient."""

import derivations
import pytest


@pytest.mark.parametrize(
    ("name", "matrix", "probe"),
    [
        ("sgd post-ln", "ffn-fc1", "radial"),
        ("adam res-post-ln", "ffn-fc1", "transverse"),  # the norm hides its magnitude
        ("norms inside post-ln", "ffn-sub-ln-fc2", "radial"),
    ],
)
def test_a_gradient_rests_on_the_probe_that_tells(name, matrix, probe):
    names = {step.name: step for step in derivations.derivation(name).steps}
    sublayer = matrix.rpartition("-")[0]
    assert f"{probe}-{matrix}" in names[f"gradient-{sublayer}"].uses
    other = {"radial": "transverse", "transverse": "radial"}[probe]
    assert f"{other}-{matrix}" not in names
