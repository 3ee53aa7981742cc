"""‖ΔF‖/η of your own models: closed forms, a Jacobian, planted faults, what is kept, followed."""

import json
import math
import os
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from small_constants import make_constants
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from written_models import GPT, Stack, Sum

from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import Stepped, common_mode, first_step
from deepnet_theory.laboratory.runs import watching
from deepnet_theory.models import factory
from deepnet_theory.models.factory import made
from deepnet_theory.models.step import FinalState
from deepnet_theory.processes.keep import Cache
from deepnet_theory.runtime import build

D, V = 16, 32
ETA = 2.0**-10


class Decoder(GPT):
    """A pre-LN decoder; its loss is its own where it is given targets."""

    def __init__(self, layers=3, **options):
        super().__init__(layers, d=D, vocab=V, **options)

    def forward(self, ids, targets=None):
        logits = super().forward(ids)
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, -2), targets.flatten())


class Body(nn.Module):
    """What enters a decoder's head."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, ids):
        return Stack.forward(self.m, self.m.first(ids))


IDS = torch.randint(V, (4, 12), generator=torch.Generator().manual_seed(1))


def stepped(model, step, inputs=IDS):
    return Stepped(made(model, inputs), step, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("power", "verdict"), [(0.0, "REFUTED"), (1.0, "SUPPORTED")])
def test_a_sum_of_maps_grows_and_its_mean_does_not(power, verdict):
    found = measure(lambda n: (Sum(n, n**-power), IDS), [2, 4, 8], update="-eta*sign(g)", seeds=3)
    assert found.verdict.value == verdict and found.exit_code == (0 if power else 1)
    assert math.isclose(found.exponents[0].estimate, 1 - power, abs_tol=1e-3)
    assert ("GROWS" if not power else "CONSTANT") in found.trend
    # each entry of ΔF is ±Σ|xᵢ| where the rows of the gradient's sign agree with a token
    (share,) = found.shares
    assert share.at == {"name": "maps.*.weight"} and math.isclose(share.mean, found.points[-1].mean)


def test_the_size_is_the_jacobians_and_the_weights_are_left_alone():
    torch.manual_seed(0)
    model = Decoder(3).double()
    before = {n: p.clone() for n, p in model.named_parameters()}
    one = stepped(model, first_step("adamw"))
    share, bend = one.linear_rate()
    start = {n: p.detach() for n, p in before.items() if n != "lm_head.weight"}
    along = {n: c for n, _, c in one.changes if n in start}

    def at(weights):
        named = {f"m.{n}": p for n, p in weights.items()}
        return torch.func.functional_call(Body(model), named, IDS)

    with sdpa_kernel(SDPBackend.MATH):  # which has this derivative
        _, exact = torch.func.jvp(at, (start,), (along,))
    expected = exact.norm(dim=-1).mean().item() / one.rate
    assert math.isclose(one.size_of(share) / share / one.rate, expected, rel_tol=3e-3)
    assert bend < 0.01
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    # planted error: half of the parameters left out is seen
    less = one.size_of(2**-6, "h.*.mlp.c_fc.weight") / (ETA * 2**-6)
    assert not math.isclose(less, expected, rel_tol=3e-3)


def found_in(model, inputs=IDS):
    whole = made(model.eval(), inputs)
    state = FinalState(whole, torch.Generator())
    return state, state()


class Capped(Decoder):
    """Its head is a call by keywords, whose logits are softcapped."""

    def forward(self, ids):
        logits = F.linear(weight=self.lm_head.weight, input=Body(self)(ids))
        return 30 * torch.tanh(logits / 30)


@pytest.mark.parametrize("make", [Decoder, partial(Decoder, tied=True), partial(Capped, tied=True)])
def test_f_is_what_enters_the_head(make):
    model = make()
    assert torch.equal(found_in(model)[1], Body(model)(IDS))


def test_the_loss_is_the_models_own_or_that_of_the_next_token():
    model = Decoder(2)
    targets = torch.randint(V, IDS.shape)
    own = found_in(model, (IDS, targets))[0].with_loss()[1]
    assert torch.equal(own, model(IDS, targets)[1])
    following = found_in(model)[0].with_loss()[1]
    logits = model(IDS)[:, :-1]
    assert torch.allclose(following, F.cross_entropy(logits.flatten(0, 1), IDS[:, 1:].flatten()))
    assert not torch.allclose(own, following)


def test_every_way_to_name_an_optimizer_is_one_step():
    plain = {"weight_decay": 0.0, "lr": ETA}

    def size(step, change=lambda model: model):
        torch.manual_seed(0)
        one = stepped(change(Decoder(3)), step)
        assert one.rate == ETA or step is decayed
        return one.size_of(2**-6)

    decayed, adamw = first_step(torch.optim.AdamW), size(first_step("adamw"))
    for way in (
        first_step(partial(torch.optim.AdamW, weight_decay=0.0)),
        first_step(lambda model: torch.optim.AdamW(model.parameters(), **plain)),
    ):
        assert size(way) == adamw
    assert math.isclose(size(first_step(None, "-eta*sign(g)")), adamw, rel_tol=1e-3)
    assert not math.isclose(size(decayed), adamw, rel_tol=1e-6)  # torch's own decay is 0.01
    half = size(first_step("adamw"), lambda model: model.bfloat16())  # measured in single
    assert math.isclose(half, adamw, rel_tol=0.05)


def other(forward):
    """A factory of sums with another forward pass."""
    return lambda depth: (type("Other", (Sum,), {"forward": forward})(depth), IDS)


def noisy(model, ids):
    return model.head(model.embedding(ids) + 0.01 * torch.randn(D) + model.maps[0].weight.sum())


def zero(model, ids):
    return model.head(0 * model.embedding(ids) * model.maps[0].weight.sum())


def infinite(model, ids):
    return model.head(model.maps[0](model.embedding(ids)) * math.inf)


BAD = {
    "are not a list": lambda: measure(Sum, 6, optimizer="adamw"),
    "two or more": lambda: measure(Sum, [6], optimizer="adamw"),
    "exactly one of optimizer and update": lambda: measure(Sum, [2, 4]),
    "unknown optimizer 'adamv'": lambda: measure(Sum, [2, 4], optimizer="adamv"),
    "unknown keyword 'device'; valid are: processes": lambda: measure(Sum, [2, 4], device="cpu"),
    "is no optimizer": lambda: measure(Sum, [2, 4], optimizer=3),
    "in place of a model's optimizer": lambda: measure(Sum, [2, 4], optimizer=lambda m: m),
    "no step of one gradient": lambda: measure(Sum, [2, 4], optimizer=torch.optim.LBFGS),
    "F is zero": lambda: measure(other(zero), [2, 4], optimizer="sgd"),
    "has no learning rate above 0": lambda: measure(
        Sum, [2, 4], optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.0)
    ),
    "makes no models": lambda: measure(3, [2, 4], optimizer="adamw"),
    "not a whole number from 1": lambda: measure(Sum, [2, 4], optimizer="adamw", seeds=0),
    "does it use the depth": lambda: measure(lambda n: Sum(3), [2, 4], optimizer="adamw", seeds=2),
    "differ by": lambda: measure(
        other(noisy), [2, 4], optimizer="adamw", seeds=2
    ),
    "frozen": lambda: measure(
        lambda n: Sum(n).requires_grad_(False), [2, 4], optimizer="adamw", seeds=2
    ),
    "give depths, such as 6,12,24, or widths": lambda: measure(Sum, optimizer="adam"),
    "give no exponent: 3 or more are needed": lambda: measure(
        Sum, widths=[64, 128], optimizer="adam"
    ),
    "the widths 'a' cannot be read": lambda: measure(Sum, widths="a", optimizer="adam"),
    "takes no width": lambda: measure(lambda depth: Sum(depth), widths=[2, 4, 8], optimizer="adam"),
    "gives the same parameters at 16 and at 32: does it use the width": lambda: measure(
        lambda depth, width: (Sum(depth), IDS), widths=[16, 32, 64], optimizer="adam", seeds=2
    ),
    "holds no floating-point tensor": lambda: measure(
        other(lambda model, ids: "done"), [2, 4], optimizer="sgd"
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as error:
        BAD[sentence]()
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_factory_that_sets_its_own_seed_and_what_is_not_finite_are_not_decided():
    def seeded(depth):
        torch.manual_seed(0)
        return Sum(depth, 1 / depth), IDS

    found = measure(seeded, [2, 4], update="-eta*sign(g)", seeds=3)
    assert (
        "same model at all 3 seeds (does it set a seed itself, or take none?)"
        in found.provenance.warnings[0]
    )
    # no interval of a width that no seed has given, and one verdict
    intervals = [*found.points, *found.exponents, *found.shares]
    assert all(math.isinf(one.high - one.low) for one in intervals) and len(intervals) > 3
    assert {e.verdict.value for e in found.exponents} == {found.verdict.value} == {"UNDECIDED"}
    assert {len(p.values) for p in found.points} == {1}
    assert "UNDECIDED" in repr(found) and "REFUTED" not in repr(found)

    found = measure(other(infinite), [2, 4], optimizer="sgd", seeds=2)
    assert found.verdict.value == "UNDECIDED"
    assert "at depth 2 F or its change is not finite" in found.provenance.warnings


OWN = """
import torch
from written_models import Sum
def make(depth):
    print('made')
    return Sum(depth, 1.0, 8)
def slower(model):
    return torch.optim.SGD(model.maps.parameters(), lr=1 / len(model.maps))
"""


def test_the_command(tmp_path, capsys):
    file, out = tmp_path / "own.py", tmp_path / "m.json"
    file.write_text(OWN)
    words = ["measure", f"{file}:make", "--depths", "2,4,8", "--seeds", "3"]
    assert main([*words, "--update", "-eta*sign(g)", "-o", str(out)]) == 1
    shown = capsys.readouterr().out
    assert "GROWS" in shown and "REFUTED" in shown and "made" not in shown
    data = json.loads(out.read_text())
    assert data["schema"] == "deepnet-theory/model/1" and data["verdict"] == "REFUTED"
    assert [p["depth"] for p in data["points"]] == [{"N": 2}, {"N": 4}, {"N": 8}]
    assert {e["share"] for e in data["exponents"]} == {"all"}
    assert {s["name"] for s in data["shares"]} >= {"maps.*.weight"}
    assert main([*words, "--optimizer", f"{file}:slower", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "SUPPORTED"
    assert main([*words, "--optimizer", "adamv"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


CHANGED = {"update": "-eta*g", "seeds": 3, "seed": 1, "inputs": IDS, "depths": (1, 3)}
EDITS = [("own.py", "1.0", "3.0"), ("sizes.py", "8", "6")]


def test_what_is_changed_in_settings_or_files_is_measured_anew(tmp_path, monkeypatch):
    """The width is in a file beside the model's."""

    def write(name, text):
        """A file whose time tells nothing of an edit, as a fresh process reads it."""
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1e9, 1e9))
        monkeypatch.delitem(factory.sys.modules, "sizes", raising=False)

    def kept(depths=(1, 2), **more):
        more = {"update": "-eta*sign(g)", "seeds": 2, "cache": Cache(tmp_path / "kept")} | more
        result = measure(f"{tmp_path / 'own.py'}:make", depths, **more)
        return {k: v for k, v in result.to_dict().items() if k != "seconds"}

    write("own.py", "from sizes import WIDTH\n" + OWN.replace("8", "WIDTH"))
    write("sizes.py", "WIDTH = 8\n")
    results = [kept()]
    for more in (*({name: value} for name, value in CHANGED.items()), {"inputs": IDS.flip(0)}):
        results.append(kept(**more))
        assert results[-1] not in results[:-1]
        if more.keys() & {"seeds", "depths"}:  # which take a part of what is kept
            assert results[-1] == kept(**more, cache=None)
    assert kept() == results[0]
    for name, old, new in EDITS:
        text = (tmp_path / name).read_text()
        assert text.count(old) == 1
        write(name, text.replace(old, new))
        results.append(kept())
        assert results[-1] not in results[:-1], name


PLACEMENTS = ("post-ln", "pre-ln", "branch-multiplier", "res-post-ln", "sandwich-ln")


def built(placement, layers=3, alpha=3.0, seed=0):
    sizes = {"width": D, "heads": 2, "vocab": 2 * V}
    constants = make_constants("decoder", placement, "rms", layers, alpha, beta=1.0, **sizes)
    return build(constants, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_recorded_pass_has_the_common_mode_that_hooks_take(placement):
    model = built(placement)
    for p in model.parameters():  # gains and all: nothing is at its start
        p.data += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
    states = []
    handle = model.head.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    with watching(model) as seen:
        model(IDS)
    handle.remove()
    (expected,) = seen
    found = common_mode(made(model, IDS), states[0].detach())
    assert found.normed is expected.normed is (placement == "post-ln")
    assert found.weight == pytest.approx(expected.weight, rel=1e-3)
    assert found.cosine == pytest.approx(expected.cosine, abs=1e-5)


def post_ln(depth):
    return built("post-ln", depth, alpha=1.0, seed=int(torch.randint(99, ())))


def test_a_model_that_drowns_is_warned_of_in_one_sentence():
    asked = {"optimizer": "adamw", "seeds": 1, "updates": 9}
    told = measure(post_ln, [1, 3], **asked, eta=0.05)
    data = json.loads(told.to_json())
    assert [row["depth"] for row in data["runs"]] == [{"N": 1}, {"N": 3}]
    for row in data["runs"]:
        assert row["common_mode_steps"] == [0, 1, 2, 4, 8, 9] and len(row["losses"]) == 10
        assert row["token_cosine"][-1] > 0.9 > row["token_cosine"][0]
    (sentence,) = [w for w in told.provenance.warnings if "one direction" in w]
    assert sentence.startswith("at N = 1; N = 3: at step") and "start_head_" in sentence
    assert "cosh(R)" in sentence
    calm = measure(post_ln, [1, 3], **asked, eta=1e-5)
    assert not any("one direction" in w for w in calm.provenance.warnings)
    assert calm.points == told.points  # what is followed changes nothing that is measured
    page = told._repr_html_()
    assert "Losses, from the first step" in page and page.count("<svg") == 1  # the points alone


def test_each_update_takes_its_own_batch():
    asked = []

    def batches(step):
        asked.append(step)
        return IDS.roll(step)

    told = measure(post_ln, [2, 4], optimizer="sgd", inputs=batches, seeds=1, updates=3)
    assert sorted(set(asked)) == [0, 1, 2, 3]
    first, second = (row.losses for row in told.runs)
    assert len(set(first)) == len(first) == len(second) == 4
    with pytest.raises(InputError, match="batch 2 failed: ZeroDivisionError"):
        failing = lambda step: IDS if step < 2 else 1 // 0  # noqa: E731
        measure(post_ln, [2, 4], optimizer="sgd", inputs=failing, seeds=1, updates=3)


@pytest.mark.parametrize("power", [0.5, 1])
def test_without_a_number_of_seeds_it_measures_until_the_exponent_is_decided(power):
    given = lambda n: (Sum(n, n**-power), IDS), [2, 4, 8]
    found = measure(*given, update="-eta*sign(g)")
    taken, verdict = found.settings["seeds"], found.exponents[0].verdict
    assert taken in (3, 5, 8) and (taken == 8 or verdict.value != "UNDECIDED")
    assert found.because.startswith(f"{taken} of up to 8 seeds at 3 of 3 depths were measured")
    fixed = measure(*given, update="-eta*sign(g)", seeds=taken)
    assert [p.values for p in fixed.points] == [p.values for p in found.points]
    assert not fixed.because and all(
        one.low <= same.low and same.high <= one.high
        for one, same in zip(found.points, fixed.points, strict=True)
    )
