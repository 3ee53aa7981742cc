"""Groups of several optimizers: each role steps by its own one's rule, at the sizes that it has."""

import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from written_models import GPT, HEADS, VOCAB, Llama, train

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models.step import polar, update
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


def knobs(of, by=id):
    """What every parameter steps with."""
    names = ("lr", "eps", "weight_decay", "lr_scale", "optimizer", "role", "decay")
    return {by(p): tuple(g.get(name) for name in names) for g in of for p in g["params"]}


OWN = {
    "tied GPT-2": (partial(GPT, bias=True, tied=True, std=0.02), {}),
    "nanoGPT": (GPT, {}),
    "Llama": (Llama, {"norm": "rms", "layer": "attention,ffn:swiglu"}),
}


# ------------------------------------------------------------------ each role by its own rule


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


def sizes(c):
    return [(s.alpha, s.beta) for p in c.parts for s in p.sublayers]


def steps(c):
    own = [q for p in c.parts for s in p.sublayers for q in s.parameters.values()]
    return [(c.eta * q.rate, q.epsilon, q.weight_decay) for q in own]


# ------------------------------------------------------------------ measured


def moved(model, optimizers, ids):
    """How far one step moves the logits."""
    logits = model(ids)
    F.cross_entropy(logits.flatten(0, 1), ids.roll(-1).flatten()).backward()
    for one in optimizers:
        one.step()
    with torch.no_grad():
        return float((model(ids) - logits.detach()).square().mean().sqrt())


SETTING = {"muon": None, "muon-moonlight": "match_rms_adamw"}


@pytest.mark.parametrize(("name", "setting"), SETTING.items())
def test_a_step_of_torchs_muon_is_that_of_the_file_that_stands_for_it(name, setting):
    torch.manual_seed(0)
    lr, model = {name: 0.02, "adamw": 3e-4}, build(export("adamw", base=16))
    of = parameter_groups(model, lr, optimizers={"hidden": name, "*": "adamw"})
    muon = [g for g in of if g["optimizer"] == name]
    assert {g["role"] for g in muon} == HIDDEN - {"gate"}
    rest = torch.optim.AdamW([g for g in of if g["optimizer"] == "adamw"], weight_decay=0.0)
    own = torch.optim.Muon(muon, nesterov=False, adjust_lr_fn=setting)
    before = [(g, p, p.detach().clone()) for g in muon for p in g["params"]]
    ids = torch.randint(VOCAB, (8, 32))
    assert moved(model, (own, rest), ids) > 0
    ratios: dict[str, list[float]] = {key: [] for key in SETTING}
    for g, p, old in before:
        for key, found in ratios.items():
            wanted = update(optimizer(key).expression, g["lr"], p.grad[None], old[None])[0]
            found.append(float((p.detach() - old).norm() / wanted.norm()))
    right = ratios.pop(name)  # Newton-Schulz takes singular values to 0.7 to 1.2
    assert 0.7 < min(right) < max(right) < 1.2, right
    (wrong,) = ratios.values()
    assert not 0.7 < min(wrong) < max(wrong) < 1.2, "the other setting's factor of the shape"


# ------------------------------------------------------------------ your own model


@pytest.mark.parametrize("name", OWN)
def test_ones_own_model_under_muon_and_adamw_relative_to_a_base(name):
    torch.manual_seed(0)
    make, select = OWN[name]
    model, c = make(), export(**select)
    apply_(model, c, inputs=IDS)
    lr = {"muon": 0.02, "adamw": 3e-3}
    with pytest.warns(UserWarning) as caught:
        of = parameter_groups(model, lr, weight_decay=0.1, optimizers=HYBRID, base=(16, 2))
    said = str(caught[0].message)
    assert "have not this base" in said and "exported with it" in said
    assert sorted(knobs(of)) == sorted(map(id, model.parameters()))
    built = build(export(**select, base=(16, 2)))
    wanted = {
        g["role"]: g for g in parameter_groups(built, lr, weight_decay=0.1, optimizers=HYBRID)
    }
    for g in of:
        role = wanted[g["role"]]
        assert g["optimizer"] == role["optimizer"], g["name"]
        if g["role"] != "token-embedding":  # which has a multiplier there
            same = pytest.approx([role[k] for k in ("lr", "eps", "weight_decay")], rel=1e-12)
            assert [g[k] for k in ("lr", "eps", "weight_decay")] == same, g["name"]
    muon = [g for g in of if g["optimizer"] == "muon"]
    both = torch.optim.Muon(muon), torch.optim.AdamW([g for g in of if g["optimizer"] == "adamw"])
    losses = train(model, both, [IDS] * 12)
    assert losses[-1] < losses[0] - 0.3


# ------------------------------------------------------------------ what is refused


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


# ------------------------------------------------------------------ one factor of several matrices


def factor(g):
    return polar(g[None].double())[0]


def rms(x):
    return float(x.square().mean().sqrt())


@pytest.mark.parametrize(
    ("optimizer", "make", "query"),
    [
        ("muon", GPT, lambda gain: 3**0.5 / (2 + gain**-2) ** 0.5),
        ("lars", GPT, lambda gain: ((2 + gain**2) / (2 + gain**-2)) ** 0.5),
        ("adamw", GPT, None),
        ("muon", Llama, None),
    ],
)
def test_a_packed_matrix_is_warned_of_where_it_steps_otherwise(optimizer, make, query):
    own = export() if make is GPT else export(norm="rms", layer="attention,ffn:swiglu")
    gain = own.parts[0].sublayers[0].gain("value")
    model = make(3)
    apply_(model, own, inputs=IDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parameter_groups(model, 0.1, optimizers={"hidden": optimizer, "*": "adamw"})
    said = [str(w.message) for w in caught if "are one matrix" in str(w.message)]
    assert len(said) == bool(query)
    assert all(f"query+key+value are one matrix, and {optimizer} takes" in one for one in said)
    assert all(f"of its own step: query {query(gain):.2g}," in one for one in said)
