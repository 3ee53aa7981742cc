"""Laws of reading and applying, over models that are written at random from a grammar."""

import pytest
import torch
from generated import Model, expected, sentence, tokens, vectors

import deepnet_theory as dt
from deepnet_theory.definitions.subject import as_asked, differences, rows_of
from deepnet_theory.models import read
from deepnet_theory.runtime.linear import described

SEEDS = range(32)


def read_as(model):
    for s in read(model, tokens()).sublayers:
        matrices = {m.role: (m.name, m.outputs, m.axis, m.bias, m.times) for m in s.matrices}
        assert len(matrices) == len(s.matrices)
        norms = sorted((n.where, n.gain or "", n.bias or "") for n in s.norms)
        yield (s.layer, s.kind, norms, s.learnt), (s.stream, s.branch, s.scores), matrices


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_read_is_what_was_written(seed):
    s = sentence(seed)
    model = Model(s)
    reading = read(model, tokens())
    assert reading.understood and list(reading.layers.items()) == [(s.stack, s["layers"])]
    assert (reading.embeddings, reading.head) == (("e.weight",), ("z.weight",))
    assert {n.gain for n in reading.norms} == (set() if model.f is None else {"f.w"})
    for (same, numbers, matrices), e in zip(read_as(model), expected(model, s), strict=True):
        norms = sorted((place, gain or "", bias or "") for place, gain, bias in e.norms)
        assert same == (e.layer, e.kind, norms, e.learnt)
        assert numbers == pytest.approx((*e.coefficients, e.scores), rel=1e-5)
        assert matrices.keys() == e.matrices.keys()
        for role, (*where, times) in e.matrices.items():
            assert [*matrices[role][:-1]] == where
            assert matrices[role][-1] == pytest.approx(times)
    for one in reading.sublayers:
        assert all(n.centred == (s["norm"] == "layer") for n in one.placed_norms)
        assert one.activation == (s["activation"] if one.kind == "ffn" else one.activation)


def differing(model, s):
    reading = as_asked(read(model, tokens()), s.constants)
    return [d.item for d in differences(reading, rows_of(reading, s.constants), 1e-3, 1e-6)]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_apply_nothing_differs_and_the_model_computes_what_is_built(seed):
    s = sentence(seed)
    model, built = Model(s), dt.build(s.constants)
    assert differing(model, s)
    dt.apply_(model, s.constants, inputs=tokens())
    assert differing(model, s) == []
    assert dt.apply_(model, s.constants, inputs=tokens()).changes == ()
    places = {(d.layer, d.kind, d.name): p for p, d in described(built) if d.layer is not None}
    with torch.no_grad():
        for e in expected(model, s):
            kind = s["attention"] if e.kind.startswith("attention") else e.kind
            for role, (name, runs, axis, _, times) in e.matrices.items():
                p = model.get_parameter(name)
                w = p.T if axis else p.flatten(1)
                rows = torch.cat([w[start:end] for start, end in runs])
                places[e.layer, kind, role].copy_(times * rows)
        x = vectors(generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(model.body(x), built.body(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_block_that_is_off_is_named(seed):
    s = sentence(seed)
    model = Model(s)
    dt.apply_(model, s.constants, inputs=tokens())
    blocks = [(role, one) for e in expected(model, s) for role, one in e.matrices.items()]
    role, (name, runs, axis, *_) = blocks[seed % len(blocks)]
    with torch.no_grad():
        for start, end in runs:
            model.get_parameter(name).narrow(axis, start, end - start).mul_(1.5)
    assert differing(model, s) == [role]
    one = model.h[-1][seed % 2]
    with torch.no_grad():
        if one.scale is None:
            one.coefficients = one.coefficients[0], one.coefficients[1] / 2
        else:
            one.scale.mul_(0.5)
    assert sorted(differing(model, s)) == sorted([role, "alpha"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("seed", range(6))
def test_a_model_in_another_type_is_read_alike(seed, dtype):
    model, other = Model(sentence(seed)), Model(sentence(seed)).to(dtype)
    for (same, _, matrices), (said, _, others) in zip(read_as(model), read_as(other), strict=True):
        assert said == same and others == matrices
