"""Faulty models: every fault is named in its place and with its size; faithful ones have none."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from written_models import GPT, MLP, Stack, pre

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.reading import UNKNOWN
from deepnet_theory.models.audit import _together
from deepnet_theory.report.audit import document
from deepnet_theory.report.text import text
from deepnet_theory.runtime import build

pytestmark = pytest.mark.usefixtures("unmeasured")

N, WIDTH = 3, 64
ALPHA, BETA = (2 * N) ** 0.25, (8 * N) ** -0.25  # DeepNorm, arXiv 2203.00555, Figure 2


def net(line, gains, draw=nn.init.xavier_normal_, model=Stack, final=False, layers=N, **options):
    """A stack whose residual line is given, and whose matrices are drawn at given gains."""
    torch.manual_seed(0)
    net = model(layers, line, WIDTH, final=final, **options)
    with torch.no_grad():
        for block in net.h:
            for role, w in matrices(block).items():
                draw(w, gains.get(role, 1.0))
    return net


def matrices(block):
    own = dict(zip(("query", "key", "value"), block.attn.c_attn.weight.chunk(3), strict=True))
    ffn = {"fc1": block.mlp.c_fc.weight, "fc2": block.mlp.c_proj.weight}
    return own | {"output": block.attn.c_proj.weight} | ffn


def post(x, branch, norm):
    return norm(ALPHA * x + branch(x))


SCALED = dict.fromkeys(("value", "output", "fc1", "fc2"), BETA)
X = torch.randn(2, 8, WIDTH, generator=torch.Generator().manual_seed(1))


def small(w, gain):
    nn.init.normal_(w, std=0.02 * gain)


ROLES = ("query", "key", "value", "output", "fc1", "fc2")


def faulty(stream, branch, times):
    """DeepNorm with other numbers on stream and branch, and matrices some times as large."""
    gains = {role: SCALED.get(role, 1.0) * times.get(role, 1.0) for role in ROLES}
    return net(lambda x, f, norm: norm(stream * x + branch * f(x)), gains)


def found(audit):
    """What an audit names, as found over wanted by its own words."""
    named = {}
    for f in audit.findings:
        item = f.where.split(": ")[-1 if f.where.endswith("alpha") else 0].split(", ")[-1]
        kind = "attention" if "attention" in f.where else "ffn"
        key = (kind, item) if item == "alpha" else item
        named[key] = f.size if "too large" in f.what else 1 / f.size
        assert f"all {N} layers" in f.where
    return named


UNPACKED = {"value": 1 / BETA}
PACKED = dict.fromkeys(("query", "key"), BETA * 2**-0.5) | {"value": 2**-0.5}
OF_ANOTHER_STD = dict.fromkeys(ROLES[:4], 0.16) | dict.fromkeys(ROLES[4:], 0.253)
TIMES = st.sampled_from((0.2, 0.5, 0.8, 1.0, 1.25, 3.0))


@settings(max_examples=12)
@example(1 / ALPHA, ALPHA, {}, None)  # alpha on the branch
@example(1 / ALPHA, 1, {}, None)  # alpha not used
@example(1 / ALPHA, 1 / ALPHA, {}, None)  # none: the branch is divided
@example(1, 1, UNPACKED, None)  # a packed matrix not scaled
@example(1, 1, PACKED, None)  # a packed matrix drawn and scaled as one
@example(1, 1, OF_ANOTHER_STD, None)  # beta on another standard deviation
@given(TIMES, TIMES, st.dictionaries(st.sampled_from(ROLES), TIMES), st.just("deepnorm"))
def test_a_fault_is_named_in_its_place_and_with_its_size(stream, branch, times, scheme):
    """And the plan mends the matrices; well-known faults are named without the scheme."""
    model = faulty(stream * ALPHA, branch, times)
    audit = dt.audit(model, X, scheme=scheme, optimizer="adamw")
    wanted = {role: by for role, by in times.items() if by != 1}
    if not math.isclose(alpha := stream / branch, 1, rel_tol=1e-6):
        wanted |= {(kind, "alpha"): alpha for kind in ("attention", "ffn")}
    assert found(audit) == {key: pytest.approx(by, rel=0.03) for key, by in wanted.items()}
    assert (audit.against, audit.follows) == ("deepnorm", None if wanted else "deepnorm")
    with torch.no_grad():
        for c in audit.plan:
            for start, end in c.outputs:
                model.get_parameter(c.parameter).narrow(c.axis, start, end - start).mul_(c.factor)
    left = {f.where.split(": ")[-1] for f in dt.audit(model, X, scheme="deepnorm").findings}
    assert left == ({"alpha"} if ("ffn", "alpha") in wanted else set())


def adam_post_ln():
    torch.manual_seed(0)
    return build(dt.export("adam", depth=N, width=WIDTH, vocab=61))


FAITHFUL = {
    "Adam's rule, by our own builder": (lambda: (adam_post_ln(), None), "adam", "adam"),
    "CompleteP": (lambda: (net(lambda x, f, n: x + f(n(x)) / N, {}), X), None, "completep"),
    "LAMB's pre-LN rule": (
        lambda: (net(pre, dict.fromkeys(SCALED, (2 * N) ** -0.5)), X), "lamb", "lamb"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_model_has_no_finding(name):
    make, optimizer, follows = FAITHFUL[name]
    audit = dt.audit(*make(), optimizer=optimizer)
    assert (audit.verdict, audit.findings, audit.follows) == ("SUPPORTED", (), follows)
    assert not audit.plan


def told(audit):
    """What a command prints."""
    return " ".join(text(document(audit)).replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("placement", "line"), [("pre-ln", pre), ("res-post-ln", lambda x, f, n: x + n(f(x)))]
)
def test_a_model_as_torch_makes_it_is_held_against_a_rule_of_its_own_placement(placement, line):
    audit = dt.audit(net(line, {}, lambda w, gain: None, final=True), X, optimizer="adamw")
    assert (audit.placement, audit.against) == (placement, "adamw")
    assert all("norms" not in f.where for f in audit.findings)


def test_an_optimizer_is_a_question_about_it():
    gpt_2 = net(pre, dict.fromkeys(("output", "fc2"), (2 * N) ** -0.5), small, final=True)
    asked = dt.audit(gpt_2, X, optimizer="adamw")
    said = "Implemented as published (gpt-2). Under adamw one update grows as N^1: not"
    assert asked.exit_code == 1 and said in told(asked)
    assert dt.audit(gpt_2, X).exit_code == 0
    faithful = net(post, SCALED)
    assert dt.audit(faithful, X, optimizer="sgd").exit_code == 0
    asked = dt.audit(faithful, X, optimizer="adam")
    said = "Implemented as published (deepnorm). Under adam one update grows"
    assert asked.exit_code == 1 and said in told(asked)


def test_constants_of_another_depth_are_named_with_it():
    of_sublayers = dict.fromkeys(SCALED, (32 * N) ** -0.25)
    line = lambda x, f, n: n((8 * N) ** 0.25 * x + f(x))  # noqa: E731
    audit = dt.audit(net(line, of_sublayers, layers=2 * N), X)
    (finding,) = audit.findings
    assert (audit.against, finding.size) == ("deepnorm", 2)
    assert f"the constants of deepnorm for {4 * N} layers" in finding.what
    assert "N counts layers, not sublayers" in finding.what


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("fc1", "item"), [(BETA, "reads"), (BETA / ALPHA, "rate of fc1")])
def test_a_branch_that_reads_alpha_x_is_told_to_read_x(fc1, item, optimizer):
    """And where the weights are divided by alpha, the rate is left."""
    line = lambda x, f, n: n(ALPHA * x + f(ALPHA * x if isinstance(f, MLP) else x))  # noqa: E731
    audit = dt.audit(net(line, SCALED | {"fc1": fc1}), X, optimizer=optimizer)
    where = {f.where.split(": ")[1] for f in audit.differences if "ffn" in f.where}
    assert where == {item} and len(audit.differences) == 1
    if item == "reads":
        assert audit.differences[0].size == pytest.approx(ALPHA) and audit.plan == ()
        assert "the branch reads alpha*x" in audit.differences[0].what


def copied(model):
    for block in model.h[1:]:
        block.load_state_dict(model.h[0].state_dict())


def loud(model):
    nn.init.normal_(model.lm_head.weight)


def beta_outside(model):
    for p in (model.wte.weight, model.wpe.weight, model.lm_head.weight):
        nn.init.xavier_normal_(p, BETA)


@pytest.mark.parametrize(
    ("change", "wheres", "what"),
    [(copied, {f"decoder, all {N} layers"}, "the layers start as copies of one"),
     (loud, {"head: lm_head.weight"}, "the loss starts at"),
     (beta_outside, {f"{n}.weight: gain" for n in ("wte", "wpe", "lm_head")},
      "times Xavier's")],
)  # fmt: skip
def test_what_starts_wrong_beside_the_rule_is_a_finding(change, wheres, what):
    model = net(post, SCALED, model=GPT)
    change(model)
    audit = dt.audit(model, torch.arange(24).view(2, 12), scheme="deepnorm")
    assert (audit.exit_code, {f.where for f in audit.findings}) == (1, wheres)
    assert all(what in f.what for f in audit.findings)
    if change is beta_outside:
        assert all(f.size == pytest.approx(1 / BETA, rel=0.05) for f in audit.findings)


def test_a_wrong_alpha_has_its_module_and_line():
    def strayed(x, f, norm):
        return norm(1.5 * ALPHA * x + f(x))

    audit = dt.audit(net(strayed, SCALED), X, scheme="deepnorm")
    alphas = [f for f in audit.findings if f.where.endswith("alpha")]
    line = f" at test_audit.py:{strayed.__code__.co_firstlineno + 1}"
    assert audit.exit_code == 1 and alphas and all(line in f.what for f in alphas)


def test_the_json_is_the_public_one():
    audit = dt.audit(faulty(ALPHA, 1.0, UNPACKED), X, optimizer="adamw")
    data = json.loads(audit.to_json())
    assert data["schema"] == "deepnet-theory/audit/1"
    assert (data["placement"], data["layers"], data["follows"]) == ("post-ln", N, None)
    first = data["sublayers"][0]
    assert (first["stack"], first["layer"], first["kind"]) == ("decoder", 0, "attention")
    assert (first["alpha_on"], first["alpha"]) == ("stream", pytest.approx(ALPHA))
    assert first["alpha_wanted"] == pytest.approx(ALPHA)
    value = first["matrices"][2]
    assert (value["name"], value["rows"]) == ("h.0.attn.c_attn.weight", [128, 192])
    assert value["low"] < 1 < value["high"]
    assert [m["verdict"] for m in first["matrices"]] == ["follows", "follows", "differs", "follows"]
    assert str(audit.plan[0]).startswith("h.0.attn.c_attn.weight[128:192] *= ")
    assert set(data["findings"][0]) >= {"where", "what", "size", "mend"}
    assert audit.exit_code == 1


def test_constants_are_held_against_the_model_and_those_of_another_depth_are_the_finding():
    model, constants = adam_post_ln(), dt.export("adam", depth=N, width=WIDTH, vocab=61)
    assert dt.audit(model, constants=constants).verdict == "SUPPORTED"
    other = dt.audit(model, constants=dt.export("sgd", depth=N, width=WIDTH, vocab=61))
    assert other.verdict == "REFUTED"
    assert other.effect is None or other.effect > 0
    ffn = dt.Selection("adam", layer="ffn")
    with pytest.raises(InputError, match="encoder is attention, ffn, the constants are for ffn"):
        dt.audit(model, constants=dt.export(ffn, N, width=WIDTH, vocab=61))
    # twice as many layers as the model has: nothing is to be mended by their numbers
    constants = dt.export("adam", depth=2 * N, width=WIDTH, vocab=61)
    audit = dt.audit(model, constants=constants)
    assert (audit.verdict, audit.plan, len(audit.findings)) == ("REFUTED", (), 1)
    (finding,) = audit.findings
    assert (finding.where, finding.size) == ("encoder: depth", 2.0)
    assert f"are for {2 * N} layers of the encoder, the model has {N}; its" in finding.what
    assert "are not those of the constants" in finding.what
    # their numbers in a model of half the depth are seen as that
    part = replace(constants.parts[0], layers=N)
    torch.manual_seed(0)
    cut = dt.audit(build(replace(constants, parts=(part,))), constants=constants)
    assert "gains are those of the constants" in cut.findings[0].what


def stepped(kind="", knob="lr", times=1.0, of=slice(None), rule="adamw"):
    """An audit of our own groups, or of some, under AdamW with a value planted in one kind."""
    torch.manual_seed(0)
    model = build(constants := dt.export(rule, depth=N, width=WIDTH, vocab=61))
    groups = parameter_groups(model, 1e-3, weight_decay=0.1)
    assert any(kind in g["name"] for g in groups)
    for group in groups:
        if kind in group["name"]:
            group[knob] = group[knob] * times if group[knob] else times
    return dt.audit(model, optimizer=torch.optim.AdamW(groups[of], lr=1e-3), constants=constants)


def test_our_own_groups_are_faithful_and_rates_that_nobody_knows_are_a_remark():
    """`complete` multiplies the scaled matrices' learning rates; an optimizer's groups show it."""
    rule = dt.Selection("adamw", placement="pre-ln", closure="complete")
    constants = dt.export(rule, depth=N, width=WIDTH, vocab=61)
    (remark,) = dt.audit(build(constants), constants=constants).remarks
    assert "multiples of the learning rate" in remark and "value" in remark
    for faithful in (stepped(), stepped(rule=rule)):
        assert (faithful.remarks, faithful.findings) == ((), ())
    assert "in no group of the optimizer, such as" in " ".join(stepped(of=slice(1, None)).remarks)


@pytest.mark.parametrize(
    ("kind", "knob", "times", "where", "what"),
    [
        ("norm-gain", "lr", 6.0, "norm gain", "learns at 0.001, expected 0.000167"),
        ("output-bias", "lr", 3.0, "_bias", "learns at 0.003, expected 0.001"),
        ("norm-gain", "eps", 5.0, "norm gain", "has epsilon 5e-08, expected 1e-08"),
        ("norm-gain", "weight_decay", 0.1, "norm gain", "decays by 0.1, expected 0"),
        ("unscaled", "weight_decay", 2.0, "", "decays by 0.2, expected 0.1"),
    ],
)
def test_what_steps_otherwise_than_its_kind_is_named(kind, knob, times, where, what):
    audit = stepped(kind, knob, times)
    (finding,) = audit.findings  # of all layers and kinds of sublayers
    size = math.inf if times < 1 else times
    assert (audit.verdict, finding.size) == ("REFUTED", pytest.approx(size))
    assert where in finding.where and f"all {N} layers" in finding.where
    assert what in finding.what and f'"{knob}": ' in finding.mend


@pytest.mark.usefixtures("measured")
def test_matrices_of_zeros_have_no_ratio_and_are_no_rule():
    model = net(post, SCALED)
    with torch.no_grad():
        for block in model.h:
            block.mlp.c_proj.weight.zero_()
    audit = dt.audit(model, X, optimizer="adamw")
    (finding,) = audit.findings
    assert finding.size == math.inf and audit.effect < 0.9
    assert finding.what == f"gain 0, expected {BETA:.3g} (entries of rms 0)"
    assert "normal_(" in finding.mend and json.loads(audit.to_json())["findings"]


def test_a_norm_left_out_in_one_layer_is_named_there():
    model, ids = GPT(N), torch.arange(24).view(2, 12)
    select = dt.Selection("adam", placement="pre-ln", stack="decoder", closure="complete")
    constants = dt.export(select, N, width=32, heads=4, vocab=61)
    apply_(model, constants, inputs=ids)
    model.h[1].line = lambda x, branch, norm: x + branch(x)
    differ = dt.audit(model, ids, constants=constants).findings
    places = {f.where.split(":")[0] for f in differ if f.where.endswith("norms")}
    assert places == {f"decoder, layer 1, {kind}" for kind in ("attention", "ffn")}
    alone = dt.audit(model, ids, optimizer="adam")
    assert alone.verdict == "UNDECIDED"
    assert "layer 1 of the decoder: x + branch(x)" in alone.refusal


def test_matrices_of_a_role_are_held_against_the_rule_together():
    """More finely than each alone; without a role, at 0, or left by the rule, it is not held."""
    gains = {"fc1": 1.0, "key": None, UNKNOWN: 1.0}

    def together(off, *others):
        matrices = [
            SimpleNamespace(role=role, size=size, xavier=1.0, error=0.01)
            for role, size in (*[("fc1", off)] * 100, *others)
        ]
        sublayer = SimpleNamespace(stack="encoder", kind="ffn", matrices=matrices)
        wanted = SimpleNamespace(gain=lambda matrix: gains[matrix.role])
        return _together(*(SimpleNamespace(sublayers=[one]) for one in (sublayer, wanted)))

    for others in ((), ((UNKNOWN, 9.0), ("fc1", 0.0), ("key", 9.0))):
        assert together(1.0, *others) and not together(1.02, *others)


def test_a_layer_that_is_the_exception_is_drawn_and_equal_layers_are_not():
    model = net(post, SCALED)
    assert "<svg" not in dt.audit(model, X)._repr_html_()
    with torch.no_grad():
        model.h[2].mlp.c_proj.weight *= 3
    shown = dt.audit(model, X)._repr_html_()
    assert shown.count("<svg") == 1 and 'aria-label="decoder ffn, fc2: gain against layer"' in shown


@pytest.mark.parametrize("classes", [None, 2])
def test_the_small_head_of_a_language_model_alone_is_to_start_at_the_token_counts(classes):
    class Headed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.body = nn.Embedding(61, WIDTH), net(post, SCALED)
            self.head = nn.Linear(WIDTH, classes or 61)
            nn.init.normal_(self.head.weight, std=0.002)

        def forward(self, ids):
            x = self.body(self.embedding(ids))
            return self.head(x.mean(1) if classes else x)

    rule = {"method": "lemma", "closure": "parameter-norm", "stack": "decoder"}
    constants = dt.export("sgd", depth=N, width=WIDTH, vocab=61, heads=4, **rule)
    ids = torch.arange(16).view(2, 8)
    lines = apply_(Headed(), constants, inputs=ids, outer=False).lines
    assert any("start_head_" in line for line in lines) is (classes is None)
    assert "head" not in told(dt.audit(Headed(), ids, constants=constants))


def test_a_multiplier_of_the_base_that_the_forward_pass_lacks_is_a_finding():
    ids = torch.arange(24).reshape(2, 12) % 61
    of = {"placement": "pre-ln", "stack": "decoder", "depth": 2, "vocab": 61, "heads": 4}
    constants = dt.export("adamw", **of, width=64, base=(16, 2))
    torch.manual_seed(0)
    model, base = GPT(2, d=64), GPT(2, d=16)
    applied = apply_(model, constants, inputs=ids)
    assert applied.lines[0] == "logits = logits * 0.25  # before the loss, as the base asks"
    found = dt.audit(model, ids, constants=constants)
    assert [f.mend for f in found.findings if f.where == "logits"] == [applied.lines[0]]
    assert found.verdict == "REFUTED"
    model.end = constants.head_multiplier
    assert apply_(model, constants, inputs=ids).lines == ()
    left = dt.audit(model, ids, constants=constants).findings
    assert all(f.where != "logits" for f in left)
    # the base's head is as large, and an embedding has no multiplier but that of its rows' size
    apply_(base, dt.export("adamw", **of, width=16), inputs=ids)
    sizes = [m.lm_head.weight.std().item() for m in (model, base)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.1)
    rates = {g["role"]: g["lr"] for g in parameter_groups(model, 1.0, base=(16, 2))}
    assert rates["token-embedding"] == rates["head"] == 1.0 and rates["fc1"] == 0.25

    constants = dt.export("adamw", **of, width=64, base=(16, 2), base_heads=4)
    apply_(model, constants, inputs=ids)
    assert constants.scores == 0.5, "a head is 4 times as wide"
    wheres = [f.where for f in dt.audit(model, ids, constants=constants).findings]
    assert "scores" in wheres and "logits" not in wheres
