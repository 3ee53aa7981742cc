"""Steps of models as people write them: what an audit measures, and what a factor in the code asks.

A matrix whose input or output the code multiplies by c steps c times as far, whatever its size.
"""

import pytest
import torch
from written_models import GPT, VOCAB

import deepnet_theory as dt
from deepnet_theory.models import effect

IDS = torch.randint(VOCAB, (2, 16), generator=torch.Generator().manual_seed(0))


class Counted(GPT):
    """A GPT as torch makes it, that counts the forward passes of all its copies."""

    def __init__(self, layers, passes):
        super().__init__(layers)
        self.passes = passes

    def forward(self, ids):
        self.passes.append(ids.shape)
        return super().forward(ids)

    def __deepcopy__(self, memo):
        copy = Counted(len(self.h), self.passes)
        copy.load_state_dict(self.state_dict())
        return copy


class Alone(GPT):
    """A GPT that cannot be copied, as one that holds a lock or a file cannot."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle '_thread.lock' object")


def test_an_audit_passes_forward_a_few_times_however_much_differs():
    passes = []
    found = dt.audit(Counted(3, passes), IDS, optimizer="adamw")
    assert len(found.differences) >= 4 and found.effect_low < found.effect < found.effect_high
    assert len(passes) <= 40


def test_a_model_that_cannot_be_copied_is_judged_without_a_number():
    found = dt.audit(Alone(3), IDS, optimizer="adamw")
    assert found.verdict == "REFUTED" and found.differences and found.effect is None


def test_an_error_of_ours_in_a_measured_step_is_no_missing_number(monkeypatch):
    def fails(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(effect, "update_of", fails)
    with pytest.raises(RuntimeError, match="ours"):
        dt.audit(GPT(3), IDS, optimizer="adamw")
