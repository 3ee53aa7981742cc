"""Laws of reading and applying, over models that are written at random from a grammar."""

import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from generated import GRAMMAR, OTHER_EPSILON, Model, expected, sentence, tokens, vectors
from hypothesis import example, given, settings
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.subject import as_asked, differences, rows_of
from deepnet_theory.models import read
from deepnet_theory.runtime.linear import described

SEEDS = st.integers(0, 71)
MORE = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 72)]
WORDS = "placement", "attention", "feed", "packing", "matrix"
# each choice of these words in a row, with whatever else the seed says
PINNED = [
    *({word: GRAMMAR[word][i % len(GRAMMAR[word])] for word in WORDS}
      for i in range(max(len(GRAMMAR[word]) for word in WORDS))),
    {"stack": "encoder-decoder", "packing": "apart", "shared keys": True}, {"stack": "decoder"},
    {"feed": "ffn@2/4", "experts": "stacked", "sum": "buffers"},
    *({"feed": "ffn@2/4", "placement": placed, "experts": "apart"}
      for placed in ("res-post-ln", "sandwich-ln")),
    {"attention": "attention-gated", "placement": "res-post-ln", "stack": "decoder",
     "beside": True, "matrix": "left", "sum": "flat"},
    {"placement": "sandwich-ln", "norm": "layer", "normed": "std"},  # an ε beside what it divides
    {"feed": "ffn@2/4", "stack": "decoder", "attention": "attention", "sum": "rsub"},  # no router
]  # fmt: skip


def said_by(row):
    """The sentence of a seed, or of the words of a row: of one layer, and of two now and then."""
    if isinstance(row, int):
        return sentence(row)
    at = PINNED.index(row)
    return sentence(100 + at, 1 + (at % 4 == 0), **row)


def named(row):
    return "-".join(map(str, row.values())) if isinstance(row, dict) else str(row)


def numbered(matrices):
    return [(*where, pytest.approx(times, rel=1e-4)) for *where, times in matrices]


@settings(max_examples=4)
@given(SEEDS)
def test_any_model_is_read_as_it_was_written(seed):
    is_read_as_written(Model(s := sentence(seed)), s)


def is_read_as_written(model, s):
    reading = read(model, tokens())
    assert reading.understood and reading.select == s.select
    assert list(reading.layers.items()) == [(part.name, part.layers) for part in s.constants.parts]
    outside = ("e.weight",), ("e.weight" if s["tied"] else "z.weight",)
    assert (reading.embeddings, reading.head) == outside
    ends = {f"parts.{i}.f.w" for i, part in enumerate(model.parts) if part.f is not None}
    assert {n.gain for n in reading.norms} == ends
    for found, e in zip(reading.sublayers, expected(model, s), strict=True):
        assert (found.stack, found.layer) == e["where"]
        assert found.kind == e["kind"].replace("attention-qk-norm", "attention")
        numbers = found.stream, found.branch, found.scores
        assert numbers == pytest.approx(e["numbers"], rel=1e-5)
        norms = sorted((n.where, n.gain or "", n.bias or "") for n in found.norms)
        assert (found.learnt, norms) == (None, e["norms"])
        assert all(n.centred == (s["norm"] == "layer") for n in found.placed_norms)
        own = sorted((m.role, m.name, m.outputs, m.axis, m.bias or "", m.times)
                     for m in found.matrices)  # fmt: skip
        assert [[*m] for m in own] == [[*m] for m in numbered(e["matrices"])]
        assert found.activation == (s["activation"] if found.kind == "ffn" else found.activation)


def differing(model, s, *chances):
    """What is off, at each chance of being off without a fault."""
    reading = as_asked(read(model, tokens()), s.constants)
    rows = rows_of(reading, s.constants)
    return [{d.item for d in differences(reading, rows, 1e-3, chance)} for chance in chances]


def as_built(model, s):
    """The model that is built from the constants, with the matrices of this one."""
    built = dt.build(s.constants)
    places = {(d.part, d.layer, d.kind, d.name): p for p, d in described(built) if d.is_matrix}
    with torch.no_grad():
        for e in expected(model, s):
            part, layer = e["where"]
            for role, name, runs, axis, _, times in e["matrices"]:
                p = model.get_parameter(name)
                w = p.flatten(1).T if axis else p.flatten(1)
                rows = w if axis == 2 else torch.cat([w[start:end] for start, end in runs])
                places[part, layer, e["kind"], role].copy_(times * rows)
    return built


def rates(groups):
    """Of each role the learning rates of its parameters."""
    return {role: {g["lr"] for g in groups if role in g["role"].split("+")}
            for one in groups for role in one["role"].split("+")}  # fmt: skip


@pytest.mark.parametrize("row", [*MORE, *PINNED], ids=named)
def test_it_is_read_as_written_after_apply_nothing_differs_and_what_is_off_is_named(row):
    s = said_by(row)
    model = Model(s)
    is_read_as_written(model, s)
    options = {"inputs": tokens(), "outer": not s["tied"]}
    changes = dt.apply_(model, s.constants, **options).changes
    assert changes and len(changes) == len(set(changes))
    assert dt.apply_(model, s.constants, **options).changes == ()
    with warnings.catch_warnings(action="ignore"):  # of packed matrices
        groups = dt.parameter_groups(model, 1e-3)
    listed = [id(p) for g in groups for p in g["params"]]
    assert sorted(listed) == sorted(map(id, model.parameters()))  # each once
    if s["feed"] != "ffn@2/4":  # which the builder has not
        plain = (s["packing"], s["enters"], s["inner"]) == ("apart", 1.0, 1.0)
        if plain and s["mixing"] != "not divided":
            own, built = rates(groups), rates(dt.parameter_groups(dt.build(s.constants), 1e-3))
            both = own.keys() & built.keys()  # not all have biases
            if s["attention"] == "attention-qk-norm":  # the builder gives none to this kind
                both = {role for role in both if not role.endswith("bias")}
            assert {"query", "output"} <= both
            assert {role: own[role] for role in both} == {role: built[role] for role in both}
        g = torch.Generator().manual_seed(s.seed)
        inputs = [vectors(generator=g) for _ in model.parts]
        ours, theirs = model.body(*inputs), as_built(model, s).body(*inputs)
        near = 1e-2 if s["normed"] in OTHER_EPSILON else 1e-3
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near / 10)
    blocks = [(e["where"], row) for e in expected(model, s) for row in e["matrices"]]
    _, (role, name, runs, axis, *_) = blocks[s.seed % len(blocks)]
    with torch.no_grad():
        for start, end in runs:
            model.get_parameter(name).narrow(axis, start, end - start).mul_(2)
    # the audit's own chance: a router's 64 entries do not tell twice the size from none at 1e-6
    sure, likely = differing(model, s, 1e-6, 0.05)
    assert sure <= {role} <= likely


PLAIN = {
    "stack": "decoder", "norm": "layer", "normed": "library", "attention": "attention",
    "feed": "ffn", "beside": False, "packing": "parts", "mixing": "one operation",
    "tied": False, "shared keys": False, "sum": "plain", "activation": "gelu",
}  # fmt: skip


KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.AdamW}
ATTENTION = st.sampled_from(("attention", "attention-gated", "attention-sub-ln"))
FEED = st.sampled_from(("ffn", "ffn-swiglu", "ffn-relu2"))


@pytest.mark.usefixtures("unmeasured")
@settings(max_examples=1)
@example(1, "adam", "attention", "ffn", False)  # the bias of its query
@example(3, "sgd", "attention-gated", "ffn", True)  # and of its gate
@given(SEEDS, st.sampled_from(("sgd", "adam")), ATTENTION, FEED, st.booleans())
def test_a_number_in_the_code_changes_no_step_of_a_model_with_its_groups(
    seed, optimizer, attention, feed, divided
):
    """It multiplies what a matrix reads or gives: the entries and their steps make up for it."""
    words = {"attention": attention, "feed": feed, "optimizer": optimizer, "packing": "apart"}
    plain = {"enters": 1.0, "inner": 1.0, "mixing": "one operation"}
    other = {"enters": 3.0, "inner": 0.25, "mixing": "written out" if divided else "not divided"}
    found = []
    for way in (plain, other):
        s = sentence(seed, 1, **words | way, bias=True)
        model = Model(s).double()
        dt.apply_(model, s.constants, inputs=tokens(), outer=False,
                  generator=torch.Generator().manual_seed(seed))  # fmt: skip
        steps = KINDS[optimizer](dt.parameter_groups(model, 0.01), lr=0.01, weight_decay=0.0)
        for given_too in ({"constants": s.constants}, {}):
            audit = dt.audit(model, tokens(), optimizer=steps, **given_too)
            assert not [f for f in audit.differences if "lr" in f.mend], audit
        before = model(tokens())
        F.cross_entropy(before.flatten(0, 1), tokens().flatten()).backward()
        steps.step()
        found.append((before.detach(), model(tokens()).detach()))
    (before, after), (same, again) = found
    torch.testing.assert_close(same, before, rtol=0, atol=1e-9)
    torch.testing.assert_close(again, after, rtol=0, atol=1e-9)
    assert not torch.allclose(after, before, rtol=0, atol=1e-4)
    asked = dt.audit(model, tokens(), optimizer=optimizer).differences
    sizes = [f.size for f in asked if "rate of" in f.where and "ffn" in f.where]
    assert any(size == pytest.approx(9 if optimizer == "sgd" else 3) for size in sizes)


@pytest.mark.parametrize("experts", GRAMMAR["experts"])
def test_a_router_without_gradients_and_an_expert_that_no_token_chose_are_said(experts):
    words = PLAIN | {"placement": "pre-ln", "feed": "ffn@2/4", "experts": experts}
    model = Model(sentence(layers=1, **words))
    if experts == "apart":
        (note,) = read(model, tokens()[:1, :1]).notes
        assert "of 4 experts were chosen in the forward pass: give it more tokens" in note
    router = model.parts[0].h[0][1].branches[0].router
    router.forward = torch.no_grad()(router.forward)
    feed = read(model, tokens()).sublayers[1]
    assert feed.kind == "unknown"
    assert feed.why == "a router chooses experts, and no gradient reaches its matrix"


def test_a_gated_attention_that_a_feed_forward_follows_in_its_branch_has_no_law():
    words = {"placement": "pre-ln", "attention": "attention-gated"}
    model = Model(sentence(**PLAIN | words))
    for attention, _ in model.parts[0].h:
        (of,) = attention.branches
        more = torch.nn.Sequential(
            torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 16)
        )
        attention.branches[0] = torch.nn.Sequential(of, more)
    reading = read(model, tokens())
    assert not reading.understood
    assert "enter its output matrix beside those that attention mixes" in reading.sublayers[0].why


def test_an_epsilon_that_is_to_be_smaller_is_set_and_one_that_is_small_stays():
    words = {"placement": "res-post-ln", "optimizer": "sgd"}
    s = sentence(layers=4, **PLAIN | words)
    model = Model(s)
    norms = [residual.norms["output"] for layer in model.parts[0].h for residual in layer]
    (times,) = {row.norm_epsilon["output"] for row in s.constants.parts[0].sublayers}
    norms[0].eps = 1e-12
    told = str(dt.apply_(model, s.constants, inputs=tokens()))
    assert [n.eps for n in norms[:2]] == [1e-12, pytest.approx(times * 1e-5)] and times < 0.5
    assert "was set in the norms that need it" in told
    assert model.parts[0].f.eps == 1e-5  # no rule speaks of it


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("seed", range(2))
def test_a_model_in_another_type_is_read_alike(seed, dtype):
    s = sentence(seed, feed="ffn-swiglu")  # where rounding chooses no other expert
    model, other = Model(s), Model(s).to(dtype)
    one, same = (read(m, tokens()).sublayers for m in (model, other))
    for a, b in zip(one, same, strict=True):
        assert a.kind == b.kind
        where = [[(m.role, m.name, m.outputs, m.bias) for m in s.matrices] for s in (a, b)]
        assert where[0] == where[1]
