"""Negative controls: the opposite is planted in a claim's file, and its verdict turns."""

import math
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
import torch

from deepnet_theory.cli.claims import importable, location
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import placements
from deepnet_theory.definitions.scheme import Scheme
from deepnet_theory.laboratory import trial

importable(location())  # the claims' own ``paper_checks``
from paper_checks.shared import stacks  # noqa: E402
from paper_checks.shared.check import claims, run  # noqa: E402
from paper_checks.shared.claim import Context  # noqa: E402
from paper_checks.shared.engine import derive  # noqa: E402
from paper_checks.shared.fitting import mean  # noqa: E402
from paper_checks.shared.stacks import Net  # noqa: E402
from paper_checks.shared.training import descend, model_constants  # noqa: E402

REFUTED, SUPPORTED, PROVED = Verdict.REFUTED, Verdict.SUPPORTED, Verdict.PROVED


def scalar_products(lab, d):
    """Products that do decay with r² = 0.09, by the scalar formula."""
    g = torch.Generator().manual_seed(d)
    noise = 0.01 * torch.randn(1000, generator=g, dtype=torch.float64)
    return lab.pick(20, 40) / 2 * math.log((1 - 0.09) / (1 + 0.09)) + noise


def summed(_, tokens, data, seeds, *__):
    """Changes of tokens that do not fall with their number."""
    g = np.random.default_rng(tokens)
    return np.exp(0.01 * g.standard_normal((seeds, tokens)))


def aligned(trial):
    """Branches that all point one way."""
    x = trial.inputs[0].double()
    return [(r.site, (t + 1) * x, x) for t, r in enumerate(trial.model.residuals())]


def growing(trial):
    """Branches of which each is larger than the one before it."""
    x = trial.inputs[0].double()
    return [(r.site, x, (t + 1) * x) for t, r in enumerate(trial.model.residuals())]


def constant(net, at, conditions):
    """The exponents of updates that do not depend on the depth."""
    noise = 1e-3 * np.random.default_rng(0).standard_normal(8)
    return dict.fromkeys(conditions, mean(noise))


def tight(lab):
    """Gradients that grow faster than the parameters, as if every entry's grew."""
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal((8, 3)))
    widths = np.array(lab.pick((2, 8, 32), ()), dtype=float)
    return {"text": {"whole": noise * widths**1.2, "entry": noise * widths**0.1}}


def magnitudes(growth):
    """Runs at α = 1 in which the magnitude of one matrix grows by so much."""
    noise = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    seen = SimpleNamespace(growth={10: growth * (1e-3 * noise).exp()})
    return lambda lab: {("alpha = 1", 10.0, n): seen for n in (8, 24, 72)}


def longer(trial):
    """Branches that are not the stream's."""
    return [(s, x, 1.001 * out) for s, x, out in stacks.residual_sums(trial)]


def pre_norm(layer, x):
    """A layer of another placement than the note's."""
    u = layer.norm1(x)
    x = x + layer.self_attn(u, u, u, need_weights=False)[0]
    return x + layer.linear2(layer.linear1(layer.norm2(x)).relu())


def trained_to(nats):
    """A training of which every loss is so much."""

    def train(net, steps, rate, seeds, **_):
        noise = 1e-3 * torch.randn(steps, seeds, generator=torch.Generator().manual_seed(0))
        return nats + noise, None

    return train


def engine(**other):
    """The engine with something else derived than was asked."""
    return lambda **chosen: derive(**{**chosen, **other})


def by_the_sentence(**chosen):
    """An engine in which m maps give N^(−1/m) under SGD."""
    return derive(optimizer="adam", layer=chosen["layer"], closure="symmetric")


def around(*means: float) -> np.ndarray:
    """Eight seeds that differ by little from each mean: (seeds, means), (seeds,) of one."""
    noise = 1e-3 * np.random.default_rng(0).standard_normal((8, len(means)))
    return (np.array(means) + noise).squeeze(1) if len(means) == 1 else np.array(means) + noise


def powers(exponent: float, *at: float) -> np.ndarray:
    return np.exp(around(*(exponent * np.log(at))))


def moved(**exponents):
    return lambda lab: {n: powers(e, 4, 16, 64, 256) for n, e in exponents.items()}


def apart(lab):
    return {"text": around(1.0), "gaussian:0": around(0.7)}


def two_placements():
    """With a norm on the sum and without."""
    return {name: placements()[name] for name in ("post-ln", "pre-ln")}


class Shallow(Net):
    """A third of the layers, with few seeds."""

    def trial(self, layers, s):
        return super().trial(layers // 3, replace(s, seeds=8))


def briefly(optimizer, parameters, rate, batches, *more):
    """A training of few steps."""
    return descend(optimizer, parameters, rate, islice(batches, 4), *more)


def shallow(lab):
    """Stacks of fewer layers and seeds."""
    return [(16, lab.small(data=data, seeds=8)) for data in ("text", "gaussian:0")]


HALVED = Scheme("keel", "norm(x/2 + branch(norm(x)))", False, "adamw")  # the stream


NEVER = {"holds": lambda *_: False}  # a step of the engine that fails
ENCODER = ("3**(-1/4)*(N**4*M)**(1/16)", "3**(1/4)*2**(-1/2)*(N**4*M)**(-1/16)")
ONE_AXIS = dict.fromkeys(("layer", "rms", "batch", "instance"), (-1,))
ADAMS = Net("(2*N)**(1/2)", "(2*N)**(-1/2)", "adam")


@pytest.mark.parametrize(
    ("claim", "planted", "expected"),
    [
        ("common-mode", {"own_part": lambda where, _, r, __: 1 / math.hypot(1, r),
          "placements": two_placements, "LAYERS": 6},
         {"built stacks": REFUTED, "and the gradient": REFUTED}),
        ("common-mode", {"divided": lambda _, r: math.exp(r)}, {"Euler": REFUTED}),
        ("cake-notation-slips", {"attention": lambda y, v, w: v * w * w * y}, {"without": REFUTED}),
        ("cake-notation-slips", NEVER, {"Σ_{i=1}": REFUTED}),
        ("cake-norm-sqrt-d", NEVER, {"‖x‖ = √d": REFUTED}),
        ("cake-index-ranges", NEVER, {"entries is the": REFUTED}),
        ("cake-ffn-input", NEVER, {"the true ReLU mask": REFUTED}),
        ("cake-parameter-norm", {"over_printed": lambda: {"I = 1": 2}}, {"leading": REFUTED}),
        ("cake-ln-jacobian", {"top_of": lambda _: 1}, {"no ε": REFUTED}),
        ("cake-ln-jacobian", {"torch_gap": lambda _: 1e-3, "POINTS": ((1, -3, 2),)},
         {"with ε": REFUTED}),
        ("cake-ffn-jacobian", {"gaps": lambda _: {"first-matrix": 1e-3}}, {"∂z_i/∂w_jk": REFUTED}),
        ("cake-xavier-forward", {"entry_square": lambda variance: variance}, {"2/(n_in": REFUTED}),
        ("cake-relu-mask", {"masked": lambda _: 1}, {"second moments": REFUTED}),
        ("cake-relu-mask", NEVER, {"second moments": REFUTED}),
        ("cake-beta-squared", {"squared": lambda: 0}, {"bounds the parameter": REFUTED}),
        ("cake-constants", {"balance": lambda *_: 2}, {"closure": REFUTED}),
        ("cake-small-parameters", {"size": lambda: 1 + 0 * sympy.Symbol("N")}, {"≪ 1": REFUTED}),
        ("cake-random-sign", {"log_product": scalar_products},
         {"magnitude of a product": SUPPORTED, "exp(−K r²/d)": REFUTED}),
        ("cake-sequence-length", {"token_changes": summed},
         {"grows with n": SUPPORTED, "exponent −1/2": REFUTED}),
        ("norms-growth", {"residual_sums": aligned, "Net": Shallow},
         {"grows as √t": REFUTED, "scales as t^{−1/2}": REFUTED}),
        ("norms-encoder-layer", {"note": pre_norm},
         {"the same weights": REFUTED, "dropout acts": REFUTED}),
        ("norms-growth", {"residual_sums": growing, "Net": Shallow},
         {"one order of magnitude": REFUTED}),
        ("norms-unroll", {"residual_sums": longer}, {"built Pre-LN": REFUTED}),
        ("norms-other-norms", {"CENTRED": ONE_AXIS, "SCALED": ONE_AXIS},
         {"RMSNorm and LayerNorm": REFUTED}),
        ("deepnet-encoder-decoder", {"ENCODER": ENCODER}, {"encoder:": REFUTED, "0.81": REFUTED}),
        ("deepnet-encoder-decoder", {"derive": engine(optimizer="adam")},
         {"decoder:": REFUTED, "encoder:": REFUTED}),
        ("deepnet-constant-update", {"ADAM": ADAMS, "TRAINED": (2, 4), "descend": briefly},
         {"DeepNorm under Adam, a short training": SUPPORTED}),
        ("deepnet-adam", {"train_model": trained_to(3.3)}, {"a short training": REFUTED}),
        ("deepnet-trains", {"train_model": trained_to(3.3)}, {"DeepNorm of 24": REFUTED}),
        ("deepnet-trains", {"train_model": trained_to(2.5)}, {"Post-LN of 24": REFUTED}),
        ("deepnet-trains", {"first_step": lambda n, _: (3.0, n**0.5)}, {"moves the": REFUTED}),
        ("deepnet-trains", {"first_step": lambda *_: (math.nan, 1.0)}, {"finite": REFUTED}),
        ("retold-k-parameters", {"wider": tight},
         {"no faster than": REFUTED, "does not grow with": REFUTED}),
        ("su-escape", {"runs": magnitudes(1.1)}, {"it may": REFUTED}),
        ("su-escape", {"runs": magnitudes(50.0)}, {"it may": SUPPORTED}),
        ("su-root-cause", {"update_exponents": constant}, {"perturbs the output": REFUTED}),
        ("retold-notation", {"HERE": (1, 1, 3)}, {"with the ind": PROVED}),
        ("retold-roles",
         {"net": lambda point, optimizer="sgd": Net("32", repr(point[0]), optimizer)},
         {"α scales": REFUTED}),
        ("schemes-quartic", {}, {"m scaled maps": PROVED}),
        ("schemes-quartic", {"SCALED": {"ffn": 4}}, {"m scaled maps": REFUTED}),
        ("schemes-quartic", {"derive": engine(layer="ffn:swiglu")},
         {"without attention's": PROVED, "the same": REFUTED}),
        ("schemes-quartic", {"derive": by_the_sentence}, {"m maps": PROVED}),
        ("schemes-keel-vanishing", {"fall": lambda trial: around(1.0), "stacks": shallow},
         {"halves the gradient": SUPPORTED, "a fifth": REFUTED, "does not fall": REFUTED}),
        ("schemes-keel-vanishing", {"KEEL": HALVED, "stacks": shallow},
         {"keeps": REFUTED}),
        ("schemes-keel-vanishing", {"above": lambda *_: around(-0.4)}, {"vanish P": SUPPORTED}),
        ("schemes-keel-vanishing", {"above": lambda *_: around(0.03)}, {"what trains": REFUTED}),
        ("schemes-sp-appears", {"best_rates": lambda lab: powers(0.0, 4, 16)},
         {"is the same": SUPPORTED, "falls": REFUTED}),
        ("schemes-sp-appears", {"steps": moved(normalised=0.0, plain=0.0)},
         {"alike": SUPPORTED, "grows": REFUTED}),
        ("schemes-sp-appears", {"steps": moved(normalised=0.0, plain=0.5)},
         {"do not change": REFUTED}),
        ("schemes-data-exponent", {"balanced": apart}, {"holds Adam": SUPPORTED}),
        ("schemes-data-exponent",
         {"Net": lambda _, *other: Net("N**(1/2)", *other), "DATA": ("text",), "DEPTHS": (4, 8)},
         {"is constant": REFUTED}),
        ("schemes-data-exponent",
         {"trained": lambda lab: (around(2.6, 2.5, 2.4), around(2.1, 2.2, 2.3))},
         {"the better of": SUPPORTED, "a of 1": REFUTED}),
        ("schemes-decay-carries", {"relative": lambda lab, *_: powers(0.0, 32, 64, 128, 256)},
         {"in proportion": SUPPORTED, "alone": REFUTED, "matter": SUPPORTED, "grows": REFUTED}),
        ("schemes-decay-carries", {"relative": lambda lab, *_: powers(0.5, 32, 64, 128, 256)},
         {"in proportion": REFUTED}),
        pytest.param(
            "deepnet-vector-parameters", {"scaled_updates": stacks.model_updates},
            {"divided by N": REFUTED}, marks=pytest.mark.slow),
        pytest.param(
            "norms-tradeoff",
            {"model_constants": lambda *given: model_constants(*given[:-1], "post-ln")},
            {"Pre-LN's perplexity": REFUTED}, marks=pytest.mark.slow),
        # λ/α = 1/(2N) balances Adam in post-LN too, so that row rightly stands
        pytest.param(
            "su-res-post-norm", {"PLACE": "post-ln"},
            {"λ does not change the branch": REFUTED, "keep Adam's update": SUPPORTED},
            marks=pytest.mark.slow),
        # λ/α = 1/(2N), Adam's balance
        pytest.param(
            "su-implicit-warmup", {"OTHERS": {"lambda = 1": Net("2*N", "1")}},
            {"falls with depth": SUPPORTED}, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)  # fmt: skip
def test_a_planted_opposite_turns_the_verdict(plant, claim, planted, expected):
    judge = plant(claim, **planted)
    assert {words: judge(words) for words in expected} == expected


@pytest.mark.slow
def test_constants_that_do_not_train(plant):
    judge = plant("deepnet-adam", deepnorm=lambda layers: model_constants(layers, 1.0, 1.0))
    assert judge("a short training") is not SUPPORTED


def test_a_decoder_without_cross_attention(plant, own):
    sublayers = own("deepnet-sublayers")["sublayers"]

    def fewer(encoder, decoder):
        return sublayers(encoder, decoder) - decoder

    assert plant("deepnet-sublayers", sublayers=fewer)("500") is REFUTED


def test_gradients_that_do_decay_exponentially_are_seen(plant, own):
    both = own("cake-exponential-decay")["Signals"]

    def signals(trial):
        g = np.random.default_rng(0)
        layers, rule = trial.depth["N"], trial.case.rule
        alpha, beta = rule.entry("encoder", "*").at(N=layers)
        r = beta**2 / alpha if beta < alpha else 0.3
        noise = np.exp(0.01 * g.standard_normal((2 * layers, trial.seeds)))
        rate = math.log((1 + r * r) / (1 - r * r)) / 2
        decay = np.exp(-rate * np.arange(2 * layers)[::-1, None]) * noise
        return both(decay, decay)

    judge = plant("cake-exponential-decay", signals=signals, LAYERS=8)
    assert judge("at a fixed r") is judge("all the way down") is SUPPORTED
    assert judge("sublayers alone") is REFUTED


def test_a_planted_derivative_and_exchanged_index_ranges_are_caught(own):
    distance = own("cake-scalar-derivatives")["distance"]
    x, v, w, a = sympy.symbols("x v w alpha", positive=True)
    f = (a + v * w) / sympy.sqrt(a**2 + v**2 * w**2) * x
    right = sympy.diff(f, v)
    assert distance(f, right, v) < 1e-20
    assert distance(f, right.subs(a - v * w, a + v * w), v) > 0.01 or distance(f, -right, v) > 1
    assert distance(f, w * x / a, v) > 0.01  # the leading order is not the derivative
    agrees = own("cake-index-ranges")["agrees"]
    assert agrees(2, 3, rows=2, columns=3) and not agrees(2, 3, rows=3, columns=2)
    assert not agrees(2, 3, rows=2, columns=2) and agrees(3, 3, rows=3, columns=3)


# ---- what the claims share, and the engine ----------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("su-table", "the six constants"),
        ("su-prenorm", "α = 1 gives λ"),
        ("su-adafactor", "degrees (0, 1)"),
    ],
)
def test_an_engine_that_takes_adam_and_lamb_for_sgd_is_not_its_own_witness(
    monkeypatch, shared, plant, claim, words
):
    right = shared("symbolic").derive
    monkeypatch.setattr(
        shared("symbolic"), "derive", lambda chosen: right(replace(chosen, optimizer="sgd"))
    )
    assert plant(claim)(words) is REFUTED


def test_an_engine_with_another_relative_update_is_seen(monkeypatch, shared, plant):
    compare = shared("symbolic").compare_closures

    def planted(selection):
        found = compare(selection)
        swapped = {**found.consequences, "symmetric": found.consequences["unit-init"]}
        return replace(found, consequences=swapped)

    monkeypatch.setattr(shared("symbolic"), "compare_closures", planted)
    assert plant("su-alternatives")("derived powers of N") is REFUTED


def test_a_wrong_closed_form_of_the_magnitude(monkeypatch, shared, plant):
    steps = shared("symbolic").closed_form()
    planted = tuple(replace(s, rhs=s.rhs * 2) if s.name == "magnitude" else s for s in steps)
    monkeypatch.setattr(shared("symbolic"), "closed_form", lambda: planted)
    assert plant("su-lambda-argmin")("unique, with a closed form") is REFUTED


def wide(self, mean, std, **rest):
    return NORMAL(self, mean, 1.1 * std, **rest)


def orthogonal(self, mean, std, generator):
    gain = std * ((self.shape[-1] + self.shape[-2]) / 2) ** 0.5
    tall = torch.randn(*sorted(self.shape[-2:], reverse=True), dtype=self.dtype)
    q = torch.linalg.qr(tall)[0]
    return self.copy_(gain * (q if q.shape == self.shape[-2:] else q.mT))


NORMAL = torch.Tensor.normal_


@pytest.mark.parametrize(
    ("drawn", "words", "verdict"),
    [
        (wide, "drawn: ", REFUTED),
        (orthogonal, "a square Xavier matrix is close", SUPPORTED),  # they would have passed
    ],
)
def test_matrices_of_another_law_are_told_from_xaviers(monkeypatch, plant, drawn, words, verdict):
    monkeypatch.setattr(torch.Tensor, "normal_", drawn)
    assert plant("su-xavier-orthogonal")(words) is verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("published", "claim", "refuted"),
    [
        ({"sgd": "adam", "adam": "sgd"}, "su-table",
         ("the six constants", "each optimizer's update")),
        ({"lamb": ("1", "1")}, "su-identity", ("the branch weight",)),  # a stack without a rule
    ],
)  # fmt: skip
def test_other_published_rules_fail(
    monkeypatch, shared, plant, published,
    claim, refuted,
):  # fmt: skip
    right = dict(shared("rules").PUBLISHED)
    for name, other in published.items():
        monkeypatch.setitem(shared("rules").PUBLISHED, name, right.get(other, other))
    judge = plant(claim)
    assert {judge(words) for words in refuted} == {REFUTED}


def test_a_step_of_twice_the_size_is_seen(plant, own):
    step = own("su-increment-sgd")["step"]
    judge = plant("su-increment-sgd", step=lambda name, g, eta: step(name, g, 2 * eta))
    assert judge("−η‖∇L‖² for SGD") is judge("−η‖∇L‖₁ for Adam") is REFUTED


@pytest.mark.slow
def test_a_probe_that_forgets_a_factor_is_seen(monkeypatch, shared, plant):
    gradient = shared("stacks").Gradient
    right = gradient.probe
    monkeypatch.setattr(gradient, "probe", lambda self: 2 * right(self))
    assert plant("su-probe")("a central difference in λ") is REFUTED


def test_tokens_that_are_secretly_correlated_are_seen(monkeypatch, plant):
    draw = trial.gaussian_tokens
    monkeypatch.setattr(trial, "gaussian_tokens", lambda shape, rho, g: draw(shape, 0.5, g))
    judge = plant("su-averaging", lots=lambda s, count: stacks.lots(s, count)[:2])
    assert judge("(1−ρ)²/d") is REFUTED


# ---- the ledger -------------------------------------------------------------------------------


def test_every_claim_is_there_with_a_finding_of_its_own():
    known = claims()
    folders = [name.split("-")[0] for name in known]
    counts = {"cake": 29, "common": 1, "su": 32, "norms": 10, "deepnet": 9, "retold": 3,
              "schemes": 6, "width": 10, "wide": 1}  # fmt: skip
    assert {folder: folders.count(folder) for folder in folders} == counts
    texts = [claim.finding for claim in known.values()]
    assert len(set(texts)) == len(texts) and all(len(text.split()) >= 20 for text in texts)
    assumed = [name for name, claim in known.items() if claim.verdict() is Verdict.ASSUMED]
    assert assumed == ["deepnet-200-48"]
    for name in ("cake-constants", "cake-norm-sqrt-d", "norms-direct-sum", "norms-unroll"):
        assert run(known[name], Context()).as_recorded
