import pytest

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.seed import require_seed


@pytest.mark.parametrize("good", [0, 1, 2**31 - 1])
def test_a_seed_is_a_whole_number_of_31_bits(good):
    require_seed(good)


@pytest.mark.parametrize("bad", [-1, 2**31, 1.0, True, "1", None])
def test_anything_else_is_refused_by_name(bad):
    with pytest.raises(InputError, match=f"seed {bad!r}"):
        require_seed(bad)
