"""Settings restate the first bad value."""

import math

import pytest
import torch

from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.errors import InputError


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("width", 0), ("width", 65), ("width", 64.0), ("width", True), ("heads", 3), ("heads", -1),
        ("tokens", 0), ("batch", 0), ("seeds", 1), ("seeds", None), ("activation", "tanh"),
        ("step", "vectors"), ("data", "images"), ("data", "gaussian"), ("data", "gaussian:"),
        ("data", "gaussian:1.5"), ("data", "gaussian:-0.1"), ("data", "gaussian:nan"),
        ("device", "tpu"), ("dtype", "bfloat16"), ("draws", 0), ("seed", -1), ("seed", 1.5),
        ("ffn_ratio", 0), ("ffn_ratio", math.nan), ("ffn_ratio", math.inf), ("ffn_ratio", 0.001),
    ],
)  # fmt: skip
def test_bad_values_are_restated(field, bad):
    with pytest.raises(InputError) as caught:
        Settings(**{field: bad})
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none():
    with pytest.raises(InputError, match="cuda") as caught:
        Settings(device="cuda")
    assert caught.value.exit_code == 2


def test_defaults_and_data():
    assert Settings().correlation is None
    assert Settings(data="gaussian:0.25").correlation == 0.25
    assert Settings().torch_device.type in ("cpu", "cuda")
    assert Settings(dtype="float64").torch_dtype is torch.float64
    assert Settings(**Settings(width=32).to_dict()) == Settings(width=32)
