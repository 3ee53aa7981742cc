"""Groups of several optimizers, each role by its own rule, and what loops do with them."""

import copy
import warnings
from functools import cache, partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from generated import Model, sentence, tokens
from torch import nn
from torch.optim import lr_scheduler as schedules
from written_models import GPT, HEADS, VOCAB, Llama

import deepnet_theory as dt
from deepnet_theory import apply_, guard, parameter_groups
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models.step import update
from deepnet_theory.runtime import build

HYBRID = {"hidden": "muon", "*": "adamw"}
HIDDEN = {"query", "key", "value", "output", "fc1", "fc2", "gate"}
D, IDS = 32, torch.arange(18).view(2, 9)
BASES = ((16, 2), None, 16)
BY_RULE = ("adamw", "lamb", "sgd", "muon")  # one size for all of them in pre-LN


def export(name="adamw", depth=3, placement="pre-ln", stack="decoder", **given):
    select = {k: given.pop(k) for k in ("norm", "layer", "closure") if k in given}
    rule = {"placement": placement, "stack": stack, "closure": "complete", **select}
    sizes = {"width": D, "heads": HEADS, "vocab": VOCAB, **given}
    return dt.export(dt.Selection(optimizer=name, **rule), depth, **sizes)


def knobs(of):
    """What every parameter steps with."""
    names = ("lr", "eps", "weight_decay", "lr_scale", "optimizer", "role", "decay")
    return {id(p): tuple(g.get(name) for name in names) for g in of for p in g["params"]}


@pytest.mark.parametrize(("made_for", "base"), [*zip(BY_RULE, (*BASES, (16, 2)), strict=True)])
def test_each_role_takes_what_its_own_optimizer_exports_where_sizes_agree(made_for, base):
    """Whichever optimizer the constants were made for, with a base there or asked for here."""
    model, lr = build(export(made_for, base=base)), {"muon": 0.02, "adamw": 3e-4}
    own = {
        name: knobs(
            parameter_groups(model, rate, weight_decay=0.1, constants=export(name, base=base))
        )
        for name, rate in lr.items()
    }
    found = knobs(parameter_groups(model, lr, weight_decay=0.1, optimizers=HYBRID))
    assert found.keys() == own["muon"].keys() and len(found) == len(list(model.parameters()))
    for p, values in found.items():
        assert values[:4] == pytest.approx(own[values[4]][p][:4], rel=1e-12), values
        matrix = not HIDDEN.isdisjoint(values[5].split("+"))
        assert values[4] == ("muon" if matrix else "adamw")
    assert len({values[3] for values in found.values()}) > 1
    if base is None:
        return
    with warnings.catch_warnings(action="ignore"):  # of what the head needs
        later = build(export(made_for))
        asked = parameter_groups(later, lr, weight_decay=0.1, optimizers=HYBRID, base=base)
    for values, same in zip(knobs(asked).values(), found.values(), strict=True):
        assert values[:4] == pytest.approx(same[:4], rel=1e-12) and values[4:] == same[4:]


SETTING = {"muon": None, "muon-moonlight": "match_rms_adamw"}


@pytest.mark.parametrize("name", SETTING)
def test_a_step_of_torchs_muon_is_that_of_the_file_that_stands_for_it(name):
    torch.manual_seed(0)
    ratios: dict[str, list[float]] = {key: [] for key in SETTING}
    for shape in ((D, D), (4 * D, D), (D, 4 * D)):
        p = nn.Parameter(old := torch.randn(shape))
        old, p.grad = old.clone(), torch.randn(shape)
        given = {"lr": 0.02, "weight_decay": 0.0, "adjust_lr_fn": SETTING[name]}
        torch.optim.Muon([p], nesterov=False, **given).step()
        for key, found in ratios.items():
            wanted = update(optimizer(key).expression, 0.02, p.grad[None], old[None])[0]
            found.append(float((p.detach() - old).norm() / wanted.norm()))
    right = ratios.pop(name)  # Newton-Schulz takes singular values to 0.7 to 1.2
    assert 0.7 < min(right) < max(right) < 1.2, right
    (wrong,) = ratios.values()
    assert not 0.7 < min(wrong) < max(wrong) < 1.2, "the other setting's factor of the shape"


def test_what_no_optimizer_can_step_is_said():
    model = GPT()
    apply_(model, export(), inputs=IDS)
    for by, said in (
        ({"*": "muon"}, "norm-gain is no matrix"),
        ({"hidden": "adamw", "token-embedding": "muon-spectral", "*": "adamw"}, "a table of vec"),
        ({"hidden": "muon"}, "has no optimizer; add '\\*'"),
        ({"query": "muon", "*": "adamw"}, r"query\+key\+value are one parameter of two"),
        ({"hidden": "muno", "*": "adamw"}, "'muno'"),
        ({}, "optimizers is empty"),
        ({"hiden": "muon", "*": "adamw"}, "role 'hiden'"),
        ({"gate": "muon", "*": "adamw"}, "role 'gate'"),
    ):
        with pytest.raises(InputError, match=said):
            parameter_groups(model, 1.0, optimizers=by)


def test_rates_are_of_every_optimizer_or_it_is_said():
    model = build(export())
    with pytest.raises(InputError, match="lr says nothing of 'adamw'; it has muon"):
        parameter_groups(model, {"muon": 0.02}, optimizers=HYBRID)
    of = parameter_groups(
        model, 1.0, eps={"muon": 1e-7, "adamw": 1e-10}, weight_decay={"muon": 0.1, "adamw": 0.0},
        optimizers=HYBRID,
    )  # fmt: skip
    assert {g["eps"] for g in of if g["role"] == "head"} == {1e-10}
    assert {g["optimizer"] for g in of if g["weight_decay"]} == {"muon"}


def test_a_tied_head_that_muon_steps_or_not_has_one_rate_and_one_multiplier():
    """One matrix of few rows, as torch stores it: Muon's factor of the shape does not grow."""
    assert export("muon", tied_head=True, base=16).head_multiplier == pytest.approx(0.5**0.5)
    for made_for in ("adamw", "muon"):
        c = export(made_for, tied_head=True)
        with pytest.warns(UserWarning, match="constants have not this base"):
            of = parameter_groups(build(c), 1.0, optimizers=HYBRID, base=16)
        assert {g["role"]: g["optimizer"] for g in of}["token-embedding"] == "adamw"


@pytest.mark.parametrize(
    ("optimizer", "make", "warned"),
    [("muon", GPT, True), ("lars", GPT, True), ("adamw", GPT, False), ("muon", Llama, False)],
)
def test_a_packed_matrix_is_warned_of_where_it_steps_otherwise(optimizer, make, warned):
    own = export() if make is GPT else export(norm="rms", layer="attention,ffn:swiglu")
    model = make(3)
    apply_(model, own, inputs=IDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parameter_groups(model, 0.1, optimizers={"hidden": optimizer, "*": "adamw"})
    said = [str(w.message) for w in caught if "are one matrix" in str(w.message)]
    assert len(said) == warned
    assert all(f"query+key+value are one matrix, and {optimizer} takes" in one for one in said)


# ------------------------------------------------------------------ in people's loops

LR, STEPS = {"muon": 0.02, "adamw": 3e-3}, 6
BATCHES = torch.randint(VOCAB, (STEPS, 2, 9), generator=torch.Generator().manual_seed(0))
FLATTENED = "the schedule has flattened the learning rates: decoder/"


@cache
def applied():
    torch.manual_seed(0)
    model = GPT(2, bias=True)
    apply_(model, export(depth=2, base=(16, 1)), inputs=IDS)
    return model


@pytest.fixture
def model():
    return copy.deepcopy(applied())


def groups(model):
    with warnings.catch_warnings(action="ignore"):  # packed queries, keys and values
        return parameter_groups(model, LR, weight_decay=0.1, optimizers=HYBRID)


def optimizers(model):
    found = groups(model)
    muon, adamw = ([g for g in found if g["optimizer"] == name] for name in LR)
    return torch.optim.Muon(muon), torch.optim.AdamW(adamw)


def train(model, both, batches, after=lambda: None):
    """One step of each optimizer a batch, on the loss of the next token."""
    for ids in batches:
        F.cross_entropy(model(ids).flatten(0, 1), ids.roll(-1).flatten()).backward()
        for one in both:
            one.step()
            one.zero_grad()
        after()


def scheduled(make):
    """A loop with a scheduler of each optimizer."""

    def of(both):
        ones = [make(one) for one in both]
        return lambda: [one.step() for one in ones]

    return of


def in_one_cycle(one, highest=None):
    highest = highest or [g["lr"] for g in one.param_groups]
    return schedules.OneCycleLR(one, highest, total_steps=STEPS + 1)


def flat(*names):
    """A loop that gives these optimizers' groups one rate, and the others theirs."""

    def after(both):
        for g in (g for one in both for g in one.param_groups):
            times = 1 if g["optimizer"] in names else g["lr_scale"]
            g["lr"] = 0.5 * LR[g["optimizer"]] * times

    return lambda both: partial(after, both)


cosine = partial(schedules.CosineAnnealingLR, T_max=STEPS)
SCHEDULES = {  # what a loop does behind each step, and whether that flattens the rates
    "lambda": (scheduled(lambda one: schedules.LambdaLR(one, lambda at: min(1, at / 6))), False),
    "cosine": (scheduled(cosine), False),
    "cosine to one rate": (scheduled(partial(cosine, eta_min=1e-3)), True),
    "one cycle": (scheduled(in_one_cycle), False),
    "one cycle to one rate": (scheduled(partial(in_one_cycle, highest=0.1)), True),
    **{"+".join(names) + ", by hand": (flat(*names), bool(names))
       for names in ((), ("muon",), ("adamw",), ("muon", "adamw"))},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_flattens_rates_is_warned_of_once_and_no_other_schedule(model, name):
    """The matrices that Muon steps all have one multiplier: beside AdamW's groups it is missed."""
    make, flattens = SCHEDULES[name]
    muon, _ = both = optimizers(model)
    assert len({g["lr_scale"] for g in muon.param_groups}) == 1 != muon.param_groups[0]["lr_scale"]
    handle, after = guard(*both), make(both)
    with warnings.catch_warnings(record=True, action="always") as caught:
        train(model, both, BATCHES, after)
    said = [w for w in caught if FLATTENED in str(w.message)]
    assert len(said) == flattens
    assert all('write g["lr"] = lr * g["lr_scale"]' in str(w.message) for w in said)
    assert "by hand" not in name or all(w.filename == __file__ for w in said)
    handle.remove()
    silent = optimizers(model)
    guard(*silent).remove()
    with warnings.catch_warnings(action="error"):
        train(model, silent, BATCHES[:2], flat("muon")(silent))


class LowRank(nn.Module):
    """LoRA: W x + B A x, W frozen, B zero at the start."""

    def __init__(self, of, rank=2):
        super().__init__()
        self.of = of.requires_grad_(False)
        self.a = nn.Linear(of.in_features, rank, bias=False)
        self.b = nn.Linear(rank, of.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.of(x) + self.b(self.a(x))


def test_adapters_are_other_and_what_is_frozen_stays(model):
    """Wrapped after apply_: the rule of what is still learnt is kept, and none is of adapters."""
    for block in model.h:
        block.mlp.c_fc = LowRank(block.mlp.c_fc)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    found = groups(model)
    (other,) = (g for g in found if g["role"] == "other")
    adapters = [p for block in model.h for p in (block.mlp.c_fc.a.weight, block.mlp.c_fc.b.weight)]
    assert sorted(map(id, other["params"])) == sorted(map(id, adapters))
    assert (other["optimizer"], other["lr"], other["lr_scale"]) == ("adamw", LR["adamw"], 1.0)
    train(model, optimizers(model), BATCHES[:2])
    still = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
    assert still == {f"h.{i}.mlp.c_fc.of.{of}" for i in range(2) for of in ("weight", "bias")}


def test_a_trainers_own_optimizer_after_apply_is_warned_of_at_its_first_step():
    """It makes one group of all parameters: the rule's multiples are lost."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 64, 0.0, batch_first=True)
    constants = dt.export(dt.Selection("adamw", closure="unit-init"), 6, width=16, heads=2)
    for groups, warned in ((None, True), (parameter_groups, False)):
        model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        apply_(model, constants, initialise=True)
        with warnings.catch_warnings(record=True, action="always"):
            given = model.parameters() if groups is None else groups(model, 1e-3)
        optimizer = torch.optim.AdamW(given, lr=1e-3)
        for first in (True, False):
            with warnings.catch_warnings(record=True, action="always") as told:
                model(torch.randn(1, 4, 16)).square().sum().backward()
                optimizer.step()
            lost = [w for w in told if "at one learning rate" in str(w.message)]
            assert bool(lost) is (warned and first)


@pytest.mark.parametrize(
    ("way", "hybrid"), [("apart", None), ("stacked", {"hidden": "lamb", "*": "adamw"})]
)
def test_experts_of_a_base_with_half_as_many_have_half_the_epsilon(way, hybrid):
    """In the groups of a model that took the constants, of one that is read, and of a hybrid."""
    said = sentence(3, feed="ffn@2/4", experts=way, placement="pre-ln", stack="decoder", tied=False)
    select = dt.Selection("adamw", **said.select)
    sizes = {"width": 16, "heads": 2, "vocab": 23, "bias": said["bias"], "tied_head": said["tied"]}
    plain, half = (
        dt.export(select, 2, base=(16, 2, shapes), **sizes)
        for shapes in ({"experts": 4}, {"experts": 2})
    )
    over = []
    for constants in (plain, half):
        model = Model(said)
        if hybrid is None:
            dt.apply_(model, constants, inputs=tokens())
        groups = parameter_groups(
            model, 1.0, eps=1.0, constants=constants, optimizers=hybrid, inputs=tokens()
        )
        over.append({(g["name"], g["optimizer"]): (g["lr"], g["eps"]) for g in groups})
    same, other = over
    assert same.keys() == other.keys()
    for (name, of), (rate, epsilon) in same.items():
        routed = name.split("/")[1].startswith(("fc", "router"))
        assert other[name, of] == pytest.approx((rate, epsilon / (1 + routed))), name
