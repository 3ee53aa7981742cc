"""What one update moves across the width: exact to first order, the same in every gauge, judged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch.nn import functional

from deepnet_theory.cli import experiments
from deepnet_theory.definitions.measurement import Exponent, Result, Scaling
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.width import (
    LOSS,
    Roles,
    Wide,
    judge_moves,
    measure_moves,
    predictions,
    verdict_on,
    verify_width,
)
from deepnet_theory.models.groups import role_of
from deepnet_theory.sizes.moves import scalings
from deepnet_theory.sizes.table import table, texts

SMALL = {"tokens": 2, "seeds": 3, "draws": 2, "device": "cpu", "processes": 1}


def wide(
    optimizer: str = "adam", name: str = "rule", width: int = 32, form: str = "forward"
) -> Wide:
    selection = Selection(optimizer=optimizer)
    settings = Settings(width=width, tokens=4, seeds=2, draws=1, step="all", device="cpu",
                        dtype="float64")  # fmt: skip
    return Wide(
        selection, texts(table(selection).rule), {"N": 2}, settings,
        scalings=scalings(selection, name, form=form), base=16,
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb", "muon"])
def test_the_gauge_moves_nothing(optimizer: str) -> None:
    forward, weights = (measure_moves(wide(optimizer, form=f)) for f in ("forward", "weights"))
    assert forward.keys() == weights.keys()
    for name, values in forward.items():
        assert values == pytest.approx(weights[name], rel=1e-6), name


@pytest.mark.parametrize("role", ["token-embedding", "query", "norm-gain", "fc1-bias", "head"])
def test_the_loss_moves_by_a_small_step_as_measured(role: str) -> None:
    case = wide("sgd", "sp")
    roles = Roles(case)
    model, batch = roles.trial.model, roles.trial.batch

    def loss() -> torch.Tensor:
        logits = model(batch.inputs[0])
        return functional.cross_entropy(logits.flatten(0, -2), batch.targets.flatten())

    own = [(p, d) for p, d in roles.parameters if role_of(d) == role]
    for p, _ in own:
        p.requires_grad_(True)
    before = loss()
    gradients = torch.autograd.grad(before, [p for p, _ in own])
    step = 1e-6
    with torch.no_grad():
        for (p, d), g in zip(own, gradients, strict=True):
            p.add_(step * roles.change(p, d, g))
        slope = (loss() - before).item() / step
    assert slope < 0
    assert -slope == pytest.approx(measure_moves(case)[LOSS.format(role)][0], rel=1e-3)


def test_the_output_of_a_role_moves_as_its_map_does() -> None:
    case = replace(wide("adam", "sp"), depth={"N": 1})
    roles = Roles(case)
    model, batch = roles.trial.model, roles.trial.batch
    outputs: list[torch.Tensor] = []
    (residual, _) = model.residuals()
    residual.branch.query.register_forward_hook(lambda m, given, y: outputs.append(y.detach()))
    for p, _ in roles.parameters:
        p.requires_grad_(True)
    logits = model(batch.inputs[0])
    functional.cross_entropy(logits.flatten(0, -2), batch.targets.flatten()).backward()
    ((query, d),) = [(p, d) for p, d in roles.parameters if role_of(d) == "query"]
    with torch.no_grad():
        query.add_(roles.change(query, d, query.grad))
        model(batch.inputs[0])
    moved = (outputs[1] - outputs[0]).square().mean().sqrt().item()
    assert moved == pytest.approx(measure_moves(case)["query"][0], rel=1e-9)


def verified(**given: object) -> Result:
    given = {"widths": [16, 32, 64], **SMALL, **given}
    return experiments.verify("adam", **{"across": "width", **given})  # type: ignore[arg-type]


ROWS = scalings(Selection(optimizer="adam"))
PLACES = [{"N": 2, "d": width} for width in (16, 32, 64)]


def of_role(exponents: Iterable[Exponent], role: str) -> Exponent:
    return next(e for e in exponents if e.share == role)


def wrong(rows: Iterable[Scaling], role: str, **powers: Fraction) -> tuple[Scaling, ...]:
    return tuple(replace(s, **powers) if s.role == role else s for s in rows)


@pytest.mark.parametrize(
    ("power", "tokens", "verdict"),
    [
        (Fraction(1, 2), 2, Verdict.REFUTED),
        (Fraction(1, 2), 16, Verdict.UNDECIDED),  # they may be why
        (Fraction(1), 16, Verdict.REFUTED),  # no alignment explains a whole power
        (Fraction(0), 16, Verdict.SUPPORTED),
    ],
)
def test_a_planted_exponent_is_refuted_and_many_tokens_leave_it_open(
    power: Fraction, tokens: int, verdict: Verdict
) -> None:
    rows = wrong(ROWS, "head", output=power)
    moves = [{p.share: [1.0, 1.0, 1.0] for p in predictions(ROWS, PLACES)} for _ in PLACES]
    exponents = judge_moves(rows, PLACES, moves, tokens)
    head = of_role(exponents, "head")
    assert head.verdict is verdict
    open_ = verdict is Verdict.UNDECIDED
    assert ("by no more than 16 tokens can make it" in head.because) == open_
    assert ("not more seeds" in head.would_decide) == open_ and "beyond" not in head.because * open_
    others = [e.verdict for e in exponents if not e.share.endswith("on the loss")]
    worst = Verdict.REFUTED if Verdict.REFUTED in others else Verdict.UNDECIDED
    assert verdict_on(exponents) in (worst, Verdict.SUPPORTED)


def test_a_rate_that_is_wrong_by_a_half_is_refuted() -> None:
    selection = Selection(optimizer="sgd")
    rows = scalings(selection)
    rate = next(s for s in rows if s.role == "norm-bias").rate + Fraction(1, 2)
    settings = Settings(tokens=2, seeds=4, draws=2, device="cpu")
    case = Case(selection, texts(table(selection).rule), {"N": 2}, settings)
    found = verify_width("rule", wrong(rows, "norm-bias", rate=rate), case, PLACES)
    bias = of_role(found.exponents, "norm-bias")
    assert bias.verdict is found.verdict is Verdict.REFUTED
    assert bias.low - 0.1 < 0.5 < bias.high + 0.1


def test_several_powers_are_held_against_their_sum() -> None:
    """Of standard parametrisation, measured beside the rule; its JSON has a row a role."""
    found = verified(rules=("rule", "sp"))
    data = json.loads(found.to_json())
    assert data["schema"] == "deepnet-theory/verification/1"
    assert [p["depth"] for p in data["points"]] == PLACES
    shares = {e["share"]: e for e in data["exponents"]}
    assert data["exponent"] == shares["all"] == data["exponents"][0]
    assert {e["in"] for e in data["exponents"]} == {"d"}
    assert shares["fc1"]["predicted"] == 0 and "key-bias" not in shares
    (sp,) = found.others
    assert of_role(sp.exponents, "fc1").predicted == 1
    # sign(g) of a bias, exactly
    assert of_role(sp.exponents, "norm-bias").estimate == pytest.approx(0, abs=0.01)
    whole = sp.exponents[0]
    assert whole.predicted == 1.5
    # by the interval over seeds: a draw's own digits depend on the machine
    assert whole.here is not None and whole.low - 0.1 < whole.here < whole.high + 0.1
    assert whole.here < 1.45


def test_the_alignment_that_does_not_hold_is_refuted() -> None:
    found = verified(alignment="none")
    fc1 = of_role(found.exponents, "fc1")
    assert found.verdict is fc1.verdict is Verdict.REFUTED
    assert fc1.low - 0.1 < 0.5 < fc1.high + 0.1  # sums of aligned terms, for all that


def test_width_and_depth_at_once() -> None:
    first, second = verified(across="both", depths=[1, 2, 4]).exponents[:2]
    assert (first.variable, first.share, first.predicted) == ("d", "all", 0)
    assert (second.variable, second.share, second.predicted) == ("N", "all", 0)
    assert second.low - 0.1 < 0 < second.high + 0.1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"widths": [16, 32]}, "give no exponent: 3 or more are needed"),
        ({"heads": 3}, "width 16 is not a multiple of heads 3"),
        ({"widths": "16,x"}, "the widths '16,x' cannot be read"),
        ({"widths": []}, "cannot be read"),
        ({"data": "gaussian:0"}, "have no embedding"),
        ({"width": 64}, "width was given"),
        ({"rules": ["mupp"]}, "unknown rule 'mupp'; valid are: rule, "),
        ({"alignment": "half"}, "unknown alignment 'half'"),
        ({"across": "both", "depths": [2, 4]}, "2 depths give no exponent"),
    ],
)
def test_bad_input_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        verified(**given)
