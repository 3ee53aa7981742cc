"""‖ΔF‖/η of one's own models: against closed forms, a Jacobian, and planted faults."""

import json
import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.laboratory.measuring import measure
from deepnet_theory.laboratory.model_steps import Stepped, first_step
from deepnet_theory.models.factory import made
from deepnet_theory.models.step import FinalState

D, V = 16, 32
ETA = 2.0**-10


class Sum(nn.Module):
    """F = x + scale·Σ xWᵢ: one sign step of all Wᵢ, whose gradients agree, moves it by scale·N."""

    def __init__(self, depth, scale=1.0):
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        self.head = nn.Linear(D, V)  # before the maps: the same at all depths
        self.maps = nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(depth))
        for m in self.maps:
            nn.init.zeros_(m.weight)
        self.scale = scale
        for p in (*self.embedding.parameters(), *self.head.parameters()):
            p.requires_grad_(False)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + self.scale * sum(m(x) for m in self.maps))


class PreLN(nn.Module):
    """A pre-LN decoder of feed-forward layers; its loss is its own where it is given targets."""

    def __init__(self, depth, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.maps = nn.ModuleList(nn.Linear(D, D) for _ in range(depth))
        self.last = nn.LayerNorm(D)
        self.head = None if tied else nn.Linear(D, V, bias=False)

    def forward(self, ids, targets=None):
        x = self.embedding(ids)
        for norm, m in zip(self.norms, self.maps, strict=True):
            x = x + F.gelu(m(norm(x)))
        x = self.last(x)
        if self.head is None:  # softcapped, as some do
            return 30 * torch.tanh(F.linear(x, self.embedding.weight) / 30)
        logits = self.head(x)
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, -2), targets.flatten())


IDS = torch.randint(V, (2, 8), generator=torch.Generator().manual_seed(1))


def stepped(model, step, inputs=IDS, final_state=None):
    return Stepped(made(model, inputs), step, final_state, torch.Generator().manual_seed(0))


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
    model = PreLN(6).double()
    before = {n: p.clone() for n, p in model.named_parameters()}
    one = stepped(model, first_step("adamw"))
    share, bend = one.linear_rate()
    parameters = {n: p for n, p in model.named_parameters() if n != "head.weight"}
    changes = {n: c for n, _, c in one.changes}
    _, exact = torch.func.jvp(
        lambda w: torch.func.functional_call(
            _Body(model), {f"m.{n}": p for n, p in w.items()}, IDS
        ),
        ({n: p.detach() for n, p in parameters.items()},),
        ({n: changes[n] for n in parameters},),
    )
    expected = exact.norm(dim=-1).mean().item() / one.rate
    assert math.isclose(one.size_of(share) / share / one.rate, expected, rel_tol=3e-3)
    assert bend < 0.01
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    # planted error: half of the parameters left out is seen
    less = one.size_of(2**-6, "maps.*.weight") / (ETA * 2**-6)
    assert not math.isclose(less, expected, rel_tol=3e-3)


class _Body(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, ids):
        x = self.m.embedding(ids)
        for norm, m in zip(self.m.norms, self.m.maps, strict=True):
            x = x + F.gelu(m(norm(x)))
        return self.m.last(x)


def test_a_pattern_for_all_layers_takes_no_deeper_name():
    class Two(PreLN):
        def __init__(self, depth):
            super().__init__(depth)
            self.maps = nn.ModuleList(nn.Sequential(nn.Linear(D, D)) for _ in range(depth))
            for m in self.maps:
                m.register_parameter("weight", nn.Parameter(torch.ones(())))

        def forward(self, ids):
            return super().forward(ids) * self.maps[0].weight

    one = stepped(Two(3), first_step("adamw"))
    assert one.moving("maps.*.weight") == ["maps.0.weight"]
    assert len(one.moving("maps.*.*.weight")) == 3


# ------------------------------------------------------------------------- F, and the loss


def found_in(model, inputs=IDS, name=None):
    whole = made(model.eval(), inputs)
    state = FinalState(whole, name, torch.Generator())
    return state, state()


@pytest.mark.parametrize("tied", [False, True])
def test_f_is_what_enters_the_head(tied):
    model = PreLN(3, tied)
    expected = _Body(model)(IDS)
    assert torch.equal(found_in(model)[1], expected)
    named = found_in(model, name="last")[1]
    assert torch.equal(named, expected)
    assert not torch.equal(found_in(model, name="norms.0")[1], expected)

    class Keywords(PreLN):
        def forward(self, ids):
            return F.linear(weight=self.head.weight, input=_Body(self)(ids))

    called = Keywords(2)
    assert torch.equal(found_in(called)[1], _Body(called)(IDS))


def test_without_a_head_the_output_is_f():
    body = _Body(PreLN(3))
    state, f = found_in(body)
    assert torch.equal(f, body(IDS)) and state.head is None
    _, loss = state.with_loss()
    assert math.isclose(loss.item(), math.log(256), rel_tol=0.3)
    layer = nn.TransformerEncoderLayer(D, 2, 32, 0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D), enable_nested_tensor=False)
    x = torch.randn(2, 5, D)
    torch.testing.assert_close(found_in(encoder, x)[1], encoder(x))
    encoder.layers, encoder.norm = encoder.layers[:1], None
    state, f = found_in(encoder, x)  # x + branch(x) is no product, though x has no gradient
    torch.testing.assert_close(f, encoder(x))
    assert state.head is None


def test_the_loss_is_the_models_own_or_that_of_the_next_token():
    model = PreLN(2)
    targets = torch.randint(V, IDS.shape)
    own = found_in(model, (IDS, targets))[0].with_loss()[1]
    assert torch.equal(own, model(IDS, targets)[1])
    following = found_in(model)[0].with_loss()[1]
    logits = model(IDS)[:, :-1]
    assert torch.allclose(following, F.cross_entropy(logits.flatten(0, 1), IDS[:, 1:].flatten()))
    assert not torch.allclose(own, following)


SIZES = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32}  # fmt: skip
IMAGES = torch.randn(2, 3, 8, 8)


def t5(m):
    seen = m.encoder(IDS).last_hidden_state
    decoded = m.decoder(IDS, encoder_hidden_states=seen).last_hidden_state
    return decoded * D**-0.5  # as T5 does where embedding and head are one


FAMILIES = {  # the class, its configuration, what it is given besides, and its final state
    "GPT2": ("GPT2LMHeadModel", {"vocab_size": V, "n_embd": D, "n_layer": 2, "n_head": 2}, {},
             lambda m: m.transformer(IDS).last_hidden_state),
    "Bert": ("BertForMaskedLM", SIZES, {},
             lambda m: m.cls.predictions.transform(m.bert(IDS).last_hidden_state)),
    "Llama": ("LlamaForCausalLM", {**SIZES, "num_key_value_heads": 1}, {"labels": IDS},
              lambda m: m.model(IDS).last_hidden_state),
    "T5": ("T5ForConditionalGeneration",
           {"vocab_size": V, "d_model": D, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2},
           {"decoder_input_ids": IDS}, t5),
    "ViT": ("ViTForImageClassification",
            {**{k: v for k, v in SIZES.items() if k != "vocab_size"}, "image_size": 8,
             "patch_size": 4, "num_labels": 3}, {},
            lambda m: m.vit(IMAGES).last_hidden_state[:, 0]),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_f_of_families_of_transformers(family):
    t = pytest.importorskip("transformers")
    kind, sizes, more, final = FAMILIES[family]
    model = getattr(t, kind)(getattr(t, f"{family}Config")(**sizes)).eval()
    given = {"pixel_values": IMAGES} if family == "ViT" else {"input_ids": IDS, **more}
    state, f = found_in(model, given)
    torch.testing.assert_close(f, final(model))
    assert state.with_loss()[1].requires_grad


# --------------------------------------------------------------------------- optimizers


def test_every_way_to_name_an_optimizer_is_one_step():
    plain = {"weight_decay": 0.0, "lr": ETA}
    own = torch.optim.AdamW(nn.Linear(2, 2).parameters(), **plain)

    def size(step, change=lambda model: model):
        torch.manual_seed(0)
        one = stepped(change(PreLN(3)), step)
        assert one.rate == ETA or step is decayed
        return one.size_of(2**-6)

    decayed, adamw = first_step(torch.optim.AdamW), size(first_step("adamw"))
    for way in (
        first_step(partial(torch.optim.AdamW, weight_decay=0.0)),
        first_step(own),
        first_step(lambda model: torch.optim.AdamW(model.parameters(), **plain)),
    ):
        assert size(way) == adamw
    assert math.isclose(size(first_step(None, "-eta*sign(g)")), adamw, rel_tol=1e-3)
    assert not math.isclose(size(decayed), adamw, rel_tol=1e-4)  # torch's own decay is 0.01
    half = size(first_step("adamw"), lambda model: model.bfloat16())  # measured in single
    assert math.isclose(half, adamw, rel_tol=0.05)


def test_a_rate_that_falls_with_depth_counts():
    def slower(model):
        return torch.optim.SGD(model.parameters(), lr=0.1 / len(model.maps))

    found = measure(lambda n: (Sum(n), IDS), [2, 4, 8], optimizer=slower, seeds=3)
    alike = measure(lambda n: (Sum(n), IDS), [2, 4, 8], optimizer=torch.optim.SGD, seeds=3)
    assert math.isclose(alike.exponents[0].estimate, 1, abs_tol=0.01)
    assert math.isclose(found.exponents[0].estimate, 0, abs_tol=0.01)
    # the unit is the first depth's rate, so that the first point is that of the plain optimizer
    assert math.isclose(found.points[0].mean, alike.points[0].mean, rel_tol=1e-2)


def test_matrices_of_a_convolution_and_a_parameter_without_axes_are_interpreted():
    model = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), nn.Linear(8, 4))
    one = stepped(model, first_step(None, "-eta*polar(g)"), torch.randn(2, 8, 8))
    change = {n: c for n, _, c in one.changes}["0.weight"]
    assert change.shape == (8, 8, 3)
    singular = torch.linalg.svdvals(change.flatten(1) / ETA)
    assert torch.allclose(singular[singular > 0.5], torch.ones(()), atol=1e-4)

    class Scaled(Sum):
        def forward(self, ids):
            return self.times * super().forward(ids)

    scaled = Scaled(2)
    scaled.times = nn.Parameter(torch.tensor(2.0))
    one = stepped(scaled, first_step(None, "-eta*sign(g)"))
    (change,) = (c for n, _, c in one.changes if n == "times")
    assert change.shape == () and abs(float(change)) == ETA


# ------------------------------------------------------------------------------ bad input


class Silent(Sum):
    def forward(self, ids):
        super().forward(ids)
        return "done"


class Zero(Sum):
    def forward(self, ids):
        return self.head(0 * self.embedding(ids) * self.maps[0].weight.sum())


class Noisy(Sum):
    def forward(self, ids):
        return self.head(self.embedding(ids) + 0.01 * torch.randn(D) + self.maps[0].weight.sum())


def frozen(depth):
    return Sum(depth).requires_grad_(False)


BAD = {
    "are not a list": lambda: measure(Sum, 6, optimizer="adamw"),
    "two or more": lambda: measure(Sum, [6], optimizer="adamw"),
    "exactly one of optimizer and update": lambda: measure(Sum, [2, 4]),
    "unknown optimizer 'adamv'": lambda: measure(Sum, [2, 4], optimizer="adamv"),
    "is no optimizer": lambda: measure(Sum, [2, 4], optimizer=3),
    "in place of a model's optimizer": lambda: measure(Sum, [2, 4], optimizer=lambda m: m),
    "no step of one gradient": lambda: measure(Sum, [2, 4], optimizer=torch.optim.LBFGS),
    "F is zero": lambda: measure(Zero, [2, 4], optimizer="sgd"),
    "has no learning rate above 0": lambda: measure(
        Sum, [2, 4], optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.0)
    ),
    "makes no models": lambda: measure(3, [2, 4], optimizer="adamw"),
    "not a whole number from 1": lambda: measure(Sum, [2, 4], optimizer="adamw", seeds=0),
    "does it use the depth": lambda: measure(lambda n: Sum(3), [2, 4], optimizer="adamw", seeds=2),
    "differ by": lambda: measure(Noisy, [2, 4], optimizer="adamw", seeds=2),
    "frozen": lambda: measure(frozen, [2, 4], optimizer="adamw", seeds=2),
    "unknown module for the final state 'x'": lambda: measure(
        Sum, [2, 4], optimizer="sgd", final_state="x"
    ),
    "holds no floating-point tensor": lambda: measure(
        lambda n: (Silent(n), IDS), [2, 4], optimizer="sgd"
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
    assert "same model at all 3 seeds (does it set a seed itself?)" in found.provenance.warnings[0]
    # no interval of a width that no seed has given, and one verdict
    intervals = [*found.points, *found.exponents, *found.shares]
    assert all(math.isinf(one.high - one.low) for one in intervals) and len(intervals) > 3
    assert {e.verdict.value for e in found.exponents} == {found.verdict.value} == {"UNDECIDED"}
    assert {len(p.values) for p in found.points} == {1}
    assert "UNDECIDED" in repr(found) and "REFUTED" not in repr(found)

    class Broken(Sum):
        def forward(self, ids):
            return self.head(self.maps[0](self.embedding(ids)) * math.inf)

    found = measure(lambda n: (Broken(n), IDS), [2, 4], optimizer="sgd", seeds=2)
    assert found.verdict.value == "UNDECIDED"
    assert "at depth 2 F or its change is not finite" in found.provenance.warnings


def test_an_interrupt_keeps_what_was_measured():
    def impatient(done, total, what):
        if done >= total / 2:
            raise KeyboardInterrupt

    found = measure(
        lambda n: (Sum(n), IDS), [2, 4, 8], update="-eta*sign(g)", seeds=2, progress=impatient
    )
    assert found.exit_code == 130 and [p.at["N"] for p in found.points] == [2, 4]
    assert found.to_dict()["complete"] is False and found.verdict.value == "UNDECIDED"


class Encoder(nn.Module):
    """Read at every update, by a forward pass without torch's fast path."""

    def __init__(self, depth):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, 2, 32, 0.0, batch_first=True)
        self.embedding, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, ids):
        print("forward")
        return self.head(self.body(self.embedding(ids)))


def test_threads_take_turns_and_leave_the_process_as_it_was():
    def once(_=0):
        return measure(Encoder, [1, 2, 3], optimizer="adamw", seeds=2, updates=1)

    def state():
        fast, dtype = torch.backends.mha.get_fastpath_enabled(), torch.get_default_dtype()
        return sys.stdout, type(os.environ), fast, dtype, torch.get_rng_state().tolist()

    expected, before = once(), state()
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(once, range(8))]
    assert [m.points for m in found] == [expected.points] * 8
    assert [m.updates for m in found] == [expected.updates] * 8
    assert state() == before


# -------------------------------------------------------------------------- command line


OWN = """
import torch
from torch import nn
class Sum(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e = nn.Embedding(32, 8).requires_grad_(False)
        self.maps = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(n))
        [nn.init.zeros_(m.weight) for m in self.maps]
    def forward(self, ids):
        x = self.e(ids)
        return x + sum(m(x) for m in self.maps)
def make(depth):
    print('made')
    return Sum(depth)
def slower(model):
    return torch.optim.SGD(model.parameters(), lr=1 / len(model.maps))
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


def test_it_shows_itself():
    found = dt.measure(lambda n: (Sum(n), IDS), [2, 4], update="-eta*sign(g)", seeds=2)
    assert "svg" in dt.plot(found)._repr_svg_() and "GROWS" in found._repr_html_()
    assert len(repr(found).splitlines()) == 3
