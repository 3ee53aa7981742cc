"""Several streams: the one that they come to, against stacks multiplied out, and refusals."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from deepnet_theory.definitions.outcome import InputError, Refusal
from deepnet_theory.definitions.placement import Placement, placement
from deepnet_theory.definitions.scheme import scheme, schemes

READ = "branch(norm(x + y))"


def made(equation, output="x + y", final_norm=True):
    return Placement("mine", equation, final_norm, output=output)


def mixed(rows, written, end=""):
    names = ("x", "y", "z", "w")[: len(rows)]
    own = (
        " + ".join(f"{entry}*{name}" for entry, name in zip(row, names, strict=True))
        for row in rows
    )
    return made(
        "; ".join(f"{of} + {w}*{READ}" for of, w in zip(own, written, strict=True)),
        end or " + ".join(names),
    )


@pytest.mark.parametrize(
    ("name", "comes_to"),
    [
        ("hyper-connections", "x + branch(norm(x))"),
        ("residual-dual", "norm(x + branch(x)/alpha)"),
        ("pre-ln", "x + branch(norm(x))"),
    ],
)
def test_what_streams_come_to(name, comes_to):
    assert placement(name).of_one_stream.equation == comes_to


def test_a_doubly_stochastic_mix_keeps_the_sum_and_no_other_does():
    """A sum of permutations: the output moves by the mean of what is written."""
    draw = random.Random(0)
    for streams in (2, 3, 4):
        shares = [draw.randint(1, 9) for _ in range(3)]
        rows = [[Fraction(0)] * streams for _ in range(streams)]
        for share in shares:
            for row, at in zip(rows, draw.sample(range(streams), streams), strict=True):
                row[at] += Fraction(share, sum(shares))
        written = [draw.randint(1, 5) for _ in range(streams)]
        several = mixed(rows, written).streams
        assert several.written == (Fraction(sum(written), streams), 0) and several.grown == (1,)
        rows[0][0] += Fraction(1, 7)
        with pytest.raises(Refusal, match="the law of several streams is missing"):
            _ = mixed(rows, written).of_one_stream


def test_what_is_left_of_x0_is_the_stack_multiplied_out():
    """Two skips: z is the embedding, y grows by a fifth of it and x by half of y."""
    rows = [[1, Fraction(1, 2), 0], [0, 1, Fraction(1, 5)], [0, 0, 1]]
    several = mixed(rows, (1, 0, 0), "x").streams
    state = [Fraction(1)] * 3
    for sublayers in range(8):
        u = several.grown[0] + several.grown[1] * sublayers
        u += several.grown[2] * sublayers * (sublayers - 1) / 2
        assert u == state[0]
        state = [sum(m * s for m, s in zip(row, state, strict=True)) for row in rows]
    skips = "x + y/2 + branch(norm(x)); y + z/5; z"
    (part,) = (two := replace(scheme("x0-skip"), equation=skips).of_one_stream).parts
    assert two.value(part.alpha, N=4) == pytest.approx(float(state[0]))
    own = replace(scheme("x0-skip"), equation="x + y/3 + branch(norm(x)); y").of_one_stream
    assert own.equation == "x + branch(norm(x))/alpha"
    assert own.value(own.parts[0].alpha, N=5) == pytest.approx(1 + 10 / 3)


REFUSED = {
    # a stream that forgets its branches, and one whose output forgets x_0
    f"x/2 + y/2 + {READ}; y": "depends on how many sublayers follow",
    f"2*x + {READ}; 2*y": "depends on how many sublayers follow",
    "x + branch(norm(x)); y + branch(norm(y))": "several branches, or none",
    "x; y": "no positive power of alpha",
    f"x - {READ}; y": "no positive power of alpha",
    f"alpha*x + {READ}; y": "depends on how many sublayers follow",
    "x + branch(x); y": "reads a stream that no norm keeps",
    "x*y + branch(norm(x)); y": "no sum of streams and branches",
    "x + norm(branch(norm(x))); y": "no sum of streams and branches",
    f"norm(x + y + {READ}); y + x/2": "law of several streams is missing",
}


@pytest.mark.parametrize("equation", REFUSED)
def test_a_refusal_names_the_law(equation):
    with pytest.raises(Refusal, match=REFUSED[equation]):
        _ = made(equation, "x").of_one_stream


def test_streams_without_an_output_or_with_too_many_names_are_bad_input():
    for equation, output in (("x; y", ""), (5 * "x;" + "x", "x"), ("x; y", "alpha*x")):
        with pytest.raises(InputError, match=r"streams need an output|output of a stack"):
            _ = made(equation, output)


@pytest.mark.parametrize("equation", ["x + branch(2)", "x + norm(3)*branch(x)"])
def test_norms_and_branches_take_no_number(equation):
    with pytest.raises(TypeError, match="a number where a value stands"):
        _ = Placement("odd", equation, True).places


def test_only_what_has_no_equation_counts_its_streams():
    assert {s.name: s.carried for s in schemes().values() if s.carried > 1} == {
        "b2t": 2, "hyper-connections": 2, "mhc": 4, "residual": 2, "x0-skip": 2,
    }  # fmt: skip
    assert scheme("b2t").placement.streams is None
