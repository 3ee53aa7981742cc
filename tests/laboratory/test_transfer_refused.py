"""A transfer that cannot be measured as asked: one sentence, before any model is trained."""

import pytest
import torch
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError, Refusal

PAIR = dt.Selection(optimizer="adam", stack="encoder-decoder")


def tiny(depth, width):
    return GPT(depth, d=width)


def of_two_stacks(depth, width):
    return torch.nn.Transformer(width, 2, depth, depth, 4 * width, 0.0)


def own_loop(depth, lr):
    return (lambda: None), (lambda: lr)


RIVALS = {"rivals": True}
OWN = {**RIVALS, "widths": [8, 128], "optimizer": "adamw"}
STEPS, WIDTHS = {"steps": "2,3"}, {"widths": [8, 16, 32]}
REFUSED = [
    ("shampoo", {"progress": None}, "first step alone"),
    (PAIR, {"depths": None}, "one part"),
    ("adam", {"optimizer": "adam"}, "optimizer is given twice"),
    ("adam", {"closures": ["nonsense"]}, "closure"),
    ("adam", {"data": "gaussian:0.5"}, "nothing to learn"),
    ("adam", {"draws": 2}, "draws"),
    ("adam", {"updates": 2}, "updates"),
    ("adam", {"steps": 0}, "steps"),
    ("adam", {"steps": "2,x"}, "the steps '2,x' cannot be read: valid are whole numbers from 1"),
    ("adam", {**STEPS, **RIVALS}, "rivals was given with several steps, over which no"),
    ("adam", {**STEPS, "batches": "2,4"}, "batches was given with several steps"),
    *(
        ("adam", {"rates": rates}, rf"{shown}\W+ can decide nothing.* give 3 or more")
        for rates, shown in (
            ("1e-3", "1e-3"), ("1e-3:1e-2:2", "1e-2:2"), ([1e-3, 1e-3, 1e-2], "0.01"),
        )
    ),
    ("adam", {"widths": [8, 16]}, "give no exponent: 3 or more are needed"),
    ("adam", {"widths": [8, 16, 31], "heads": 2}, "width 31 is not a multiple of heads 2"),
    ("adam", {**WIDTHS, "rules": ["mup"]}, "unknown rule 'mup'; valid are: rule, sp"),
    ("adam", {**WIDTHS, "closures": ["complete"]}, "closures was given with widths"),
    ("adam", {**WIDTHS, "width": 8}, "width was given with widths"),
    ("adam", {"rules": ["sp"]}, "rules was given without widths"),
    ("adam", {"plan": True}, "plan was given without rivals"),
    ("adam", {**RIVALS, "plan": True}, "one size, where all rules are"),
    ("adam", {**RIVALS, "closures": ["complete"]}, "closures was given with rivals"),
    ("adam", {**RIVALS, **WIDTHS, "rules": ["sp"]}, "rules was given with rivals"),
    (own_loop, RIVALS, "and no optimizer by its name"),
    (tiny, {**OWN, "optimizer": torch.optim.AdamW}, "a factory of models and an optimizer, such"),
    (tiny, {**OWN, "rivals": False, "plan": True}, "plan was given without rivals"),
    (tiny, {**OWN, "widths": [8]}, "given for one size, where all rules are one"),
    (of_two_stacks, OWN, "is of encoder and decoder: rivals take one stack"),
    *(
        (own_loop, {name: value}, f"{name} was given with .*, which has its own")
        for name, value in (
            ("closures", ["complete"]), ("text", "t"), ("width", 64), ("dtype", "x"),
        )
    ),
    (own_loop, {"depths": None}, "give depths, such as 6,12,24, or widths"),
    (own_loop, {"seeds": 0}, "seeds 0"),
    (own_loop, {"steps": 0}, "steps '0'"),
    (own_loop, {"rates": "1"}, "give 3 or more"),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "given", "said"), REFUSED)
def test_what_is_wrong_is_said_before_any_work(subject, given, said):
    def working(*_):
        raise AssertionError("a model was trained")

    asked = {"depths": [2], "rates": [1e-3, 2e-3, 4e-3], "progress": working, **given}
    with pytest.raises(Refusal if subject == "shampoo" else InputError, match=said) as refused:
        dt.transfer(subject, **asked)
    assert refused.value.exit_code == (4 if subject == "shampoo" else 2)
    assert "\n" not in str(refused.value)
