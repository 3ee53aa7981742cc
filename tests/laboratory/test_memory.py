"""What a measurement holds at once, in units of its parameters: the same at every depth."""

import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trace import measure_draws
from deepnet_theory.laboratory.trial import Case, Trial
from deepnet_theory.laboratory.verify import STACKED, AtDepth


class Held(TorchDispatchMode):
    """The bytes of the tensors that are alive, and their most."""

    def __init__(self):
        super().__init__()
        self.seen, self.now, self.most = weakref.WeakSet(), 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_iter(made):
            if isinstance(tensor, torch.Tensor):
                self._take(tensor.untyped_storage())
        return made

    def _take(self, storage):
        if storage not in self.seen:
            self.seen.add(storage)
            size = storage.nbytes()
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._free, size)

    def _free(self, size):
        self.now -= size


def held(layers, names):
    case = Case(
        Selection(optimizer="adam"),
        own_rule(("encoder",), "(2*N)**(1/2)", "(2*N)**(-1/2)"),
        {"N": layers},
        Settings(width=32, heads=2, tokens=4, seeds=2, device="cpu"),
    )
    parameters = sum(p.nbytes for p in Trial(case).model.parts.parameters())
    with Held() as memory:
        measure_draws(case, [0], names)
    return memory.most / parameters


NAMES = ("all", "query", "key", "value", "output", "fc1", "fc2")


@pytest.mark.parametrize("names", [("all",), NAMES], ids=["all", "each alone"])
def test_a_measurement_holds_weights_and_one_change(names):
    """Weights, their change, and of a part what is stepped alone: nothing a second time."""
    found = [held(layers, names) for layers in (4, 8)]
    assert found[1] < 1.05 * found[0] < 1.05 * 2.6
    assert found[0] > 1.9  # a change as large as the weights is there


@given(st.integers(1, 40), st.integers(2, 9), st.sampled_from([32, 64, 1024]), st.integers(1, 200))
def test_draws_share_a_stack_where_their_weights_are_few(draws, seeds, width, layers):
    settings = Settings(width=width, heads=2, draws=draws, seeds=seeds)
    at = AtDepth(
        Case(Selection(optimizer="adam"), own_rule(("encoder",), "1", "1"), {"N": layers}, settings)
    )
    stacks, one = at.stacks(), 12 * width**2 * layers * seeds
    assert [draw for stack in stacks for draw in stack] == [*range(draws)] and len(stacks[0]) == 1
    assert all(len(stack) == 1 or len(stack) * one <= STACKED for stack in stacks)
    assert all((len(stack) + 1) * one > STACKED for stack in stacks[1:-1])
