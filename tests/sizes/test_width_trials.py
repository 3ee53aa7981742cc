"""What the published tables of width are held against, cell by cell, and which are one class."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
import torch

from deepnet_theory.definitions.optimizer import custom_optimizer, optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.parametrisation import parametrisation, parametrisations
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes import parametrisations as trials
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.parametrisations import (
    alike,
    cells,
    column_of,
    derived,
    judge_parametrisation,
    optimizer_classes,
    size,
    trial,
)
from deepnet_theory.sizes.width import width_table

HALF = Fraction(1, 2)
MUP = ("mup", "mup-table-3", "mup-table-9", "mup-package", "megatron-depth-mup", "completep")

PAGE = (Path(__file__).parents[2] / "docs" / "width.md").read_text(encoding="utf-8")


@cache
def cells_of(name):
    return cells(parametrisation(name))


@pytest.mark.parametrize("name", parametrisations())
def test_every_published_cell_is_the_derived_one_up_to_the_gauge(name):
    """But for those that docs/width.md has, which says why."""
    section = PAGE.split("## Published cells that differ")[1].split("\n## ")[0]
    rows = [[text.strip() for text in line.split("|")[1:-1]] for line in section.splitlines()]
    differing = [
        [name, c.optimizer, c.alignment, c.of, c.quantity, c.published, c.derived or "-", c.why]
        for c in cells_of(name)
        if not c.agrees
    ]
    written = [
        [text.replace("**", "^").replace("*init", "·init") for text in row] for row in differing
    ]
    assert written == [row for row in rows if row[:1] == [name]]


def test_the_tables_are_not_empty_of_cells():
    """Two columns of σ·c and rates in Table 8; σ·c, rates, ε and decay in CompleteP's."""
    count = {name: len(cells_of(name)) for name in parametrisations()}
    assert count["mup"] == 14
    assert count["completep"] == 3 + 6 + 6 + 1
    assert count["megatron-depth-mup"] == 3 + 5 + 6 + 3
    assert count["everett-standard"] == 5 * (3 + 3)
    assert sum(count.values()) > 300


@pytest.mark.parametrize(
    "quantity",
    [
        "multiplier*init",
        "rate",
        *(pytest.param(q, marks=pytest.mark.slow) for q in ("epsilon", "decay")),
    ],
)
@pytest.mark.parametrize("name", parametrisations())
def test_a_wrong_cell_is_caught(name, quantity):
    """Every cell that agrees, times the root of the width."""
    wrong = parametrisation(name)
    right = [c for c in cells_of(name) if c.agrees and c.quantity == quantity]
    for cell in right if quantity != "multiplier*init" else {c.of: c for c in right}.values():
        wrong = _with(wrong, cell, "sqrt(d)")
    found = {_key(c): c.agrees for c in cells(wrong)}
    assert not any(found[_key(cell)] for cell in right)


def test_a_wrong_power_of_the_depth_is_caught():
    """CompleteP's branch is 1/N, so that its ε is compared in N too; u-μP's is another."""
    given = parametrisation("completep")
    cell = next(c for c in cells_of("completep") if (c.of, c.quantity) == ("hidden", "epsilon"))
    assert cell.agrees and size(cell.published).exponent("N") == -1
    (again,) = [c for c in cells(_with(given, cell, "N")) if _key(c) == _key(cell)]
    assert not again.agrees
    hidden = next(c for c in cells_of("u-mup") if (c.of, c.quantity) == ("hidden", "rate"))
    assert hidden.agrees and size(hidden.published).exponent("N") == -HALF


def _key(cell):
    return cell.optimizer, cell.alignment, cell.of, cell.quantity


def _with(given, cell, factor):
    """The facts with one cell multiplied."""
    if cell.quantity == "multiplier*init":
        return replace(given, init={**given.init, cell.of: f"({given.init[cell.of]})*{factor}"})
    columns = []
    for column in given.columns:
        if (column.optimizer, column.alignment) == (cell.optimizer, cell.alignment):
            texts = getattr(column, cell.quantity)
            texts = {**texts, cell.of: f"({texts[cell.of]})*{factor}"}
            column = replace(column, **{cell.quantity: texts})
        columns.append(column)
    return replace(given, columns=tuple(columns))


# ---- Everett et al.: rates from their own conditions ----

# c·W with entries of d^(-b) at a multiplier d^(-a): embedding, hidden, head
EVERETT = {
    "everett-standard": ((0, 0), (0, HALF), (0, HALF)),
    "everett-ntk": ((0, 0), (HALF, 0), (HALF, 0)),
    "everett-mup": ((-HALF, HALF), (0, HALF), (HALF, HALF)),
    "everett-mean-field": ((0, 0), (HALF, 0), (1, 0)),
}


def stable(under, points, aligned):
    """The largest stable rates d^(-c) of arXiv 2407.05872, its conditions on r ≥ 0 and c solved.

    Under SGD the gradient is d^(-g), g = a + b of the head and the layer's a, as long as the head's
    update is no larger than the head, 2a + c ≥ a + b.
    """
    (a1, _), (a2, _), (a3, b3) = points
    n = 1 if aligned else HALF
    if under == "adam":
        return -a1, n - a2, n - a3
    if under == "adafactor":
        return 0, max(n - HALF, 0), max(n - (a3 + b3), 0)
    back = a3 + b3
    return -back - 2 * a1, n - back - 2 * a2, max(n - 2 * a3, b3 - a3)


@pytest.mark.parametrize("alignment", ["full", "none"])
@pytest.mark.parametrize("under", ["sgd", "adam", "adafactor"])
@pytest.mark.parametrize("name", EVERETT)
def test_everett_s_conditions_give_the_derived_rates(name, under, alignment):
    """At no alignment a head of 1/d is capped: SGD's update at its size, Adafactor's rate at 1."""
    given = parametrisation(name)
    column = column_of(given, optimizer("adam"), alignment)[0]
    own = replace(given, columns=(replace(column, optimizer=under),))
    found = {c.of: -size(c.derived).exponent("d") for c in cells(own) if c.quantity == "rate"}
    rates = stable(under, EVERETT[name], alignment == "full")
    asked = dict(zip(("embedding", "hidden", "head"), rates, strict=True))
    small_head = name in ("everett-mup", "everett-mean-field")
    if small_head and alignment == "none" and under != "adam":
        assert asked.pop("head") - found.pop("head") == HALF
    assert found == asked


# ---- one class ----


@pytest.mark.parametrize("under", ["adam", "sgd"])
def test_the_three_tables_of_mup_are_one_class_with_the_derived_rule(under):
    found = set(alike(parametrisation("mup"), optimizer(under)))
    assert {"derived", "mup-table-3", "mup-table-9", "mup-package"} <= found
    assert not found & {"sp", "ntp", "u-mup", "nanochat", "everett-standard"}


def test_the_spectral_condition_is_mup_under_sgd():
    found = alike(parametrisation("spectral-condition"), optimizer("sgd"))
    assert {"derived", "mup", "everett-mean-field"} <= set(found)


def test_standard_and_ntk_with_their_own_rates_are_one_class():
    for alignment in ("full", "none"):
        found = alike(parametrisation("everett-standard"), optimizer("adam"), alignment)
        assert "everett-ntk" in found
        assert ("derived" in found) == (alignment == "none")


def test_a_gauge_changes_no_class_and_a_rate_does():
    given = parametrisation("mup")
    (adam, sgd) = given.columns
    gauged = replace(
        given,
        multiplier={"head": "d**(-2/3)"},
        init={**given.init, "head": "d**(-1/3)"},
        columns=(replace(adam, rate={**adam.rate, "head": "d**(-1/3)"}), sgd),
    )
    assert "derived" in alike(gauged, optimizer("adam"))
    assert "derived" not in alike(gauged, optimizer("sgd"))  # SGD's rate goes by the square
    squared = replace(sgd, rate={**sgd.rate, "head": "d**(1/3)"})
    assert "derived" in alike(replace(gauged, columns=(adam, squared)), optimizer("sgd"))


@pytest.mark.parametrize("alignment", ["full", "none"])
@pytest.mark.parametrize("names", optimizer_classes())
def test_the_derived_rule_passes_its_own_trial(names, alignment):
    given = derived(optimizer(names[0]), alignment)
    found = trial(given, optimizer(names[0]), alignment)
    assert found.regime == "features" and found.near_identity
    assert {t.output for t in found.roles} == {"0"}
    assert all(t.logits == "0" for t in found.roles)
    assert all(cell.agrees for cell in cells(given))


# ---- what they do ----


@pytest.mark.parametrize(
    "name, under, regime",
    [
        *((name, "adam", "features") for name in MUP),
        ("mup", "sgd", "features"),
        ("sp", "adam", "unstable"),
        ("sp", "sgd", "unstable"),
        ("ntp", "sgd", "lazy"),
        ("ntp", "adam", "unstable"),
        ("mup", "lamb", "lazy"),
        ("gpt-2", "adam", "unstable"),
    ],
)
def test_what_features_do(name, under, regime):
    assert trial(parametrisation(name), optimizer(under)).regime == regime


def test_the_neural_tangent_moves_logits_and_no_features():
    """Jacot et al.: under gradient flow the kernel stays; logits move by order one."""
    found = {t.role: t for t in trial(parametrisation("ntp"), optimizer("sgd")).roles}
    assert found["fc1"].output == "-1/2"
    assert found["fc1"].logits == "0"
    assert found["head"].start == "0"


def test_a_branch_that_outgrows_the_stream_is_said_to():
    assert not trial(parametrisation("gpt-2"), optimizer("adam")).near_identity
    assert trial(parametrisation("sp"), optimizer("adam")).near_identity


def test_a_hybrid_steps_each_role_by_its_own_optimizer():
    judged = judge_parametrisation(parametrisation("nanochat"))
    found = {t.role: t for t in judged.judged.roles}
    assert judged.optimizer == "muon, adamw"
    assert found["value"].output == "0" and found["head"].output == "1/2"
    assert found["output"].start is None


@pytest.mark.parametrize(
    ("name", "under", "optimizers"),
    [
        ("nanochat", None, ("muon", "adamw")),
        ("nanochat", "sgd", ("sgd",)),
        ("mup", None, ("adam",)),
        ("mup", "sgd", ("sgd",)),
    ],
)
def test_only_a_hybrid_by_itself_steps_by_several_optimizers(name, under, optimizers):
    found = trial(parametrisation(name), under and optimizer(under))
    assert found.optimizers == optimizers


def test_an_update_of_one_s_own_takes_the_column_of_those_that_act_alike():
    given = parametrisation("mup")
    own = custom_optimizer("-2*eta*sign(g)")
    assert column_of(given, own, "full") == (given.columns[0], True)
    assert column_of(given, optimizer("lamb"), "full") == (given.columns[0], False)
    assert trial(given, own).regime == "features"


def test_no_rates_at_an_alignment_are_a_refusal():
    with pytest.raises(Refusal, match="'mup' has no rates at alignment none"):
        judge_parametrisation(parametrisation("mup"), alignment="none")


# ---- where sources disagree ----


def test_lamb_is_unchanged_in_the_width_at_no_alignment_alone():
    """2602.20937 keeps LAMB's hidden rate; the conditions do so only where nothing is aligned."""
    rates = {
        alignment: width_table(Selection(optimizer="lamb"), alignment=alignment).row("query").rate
        for alignment in ("full", "none")
    }
    assert rates == {"full": Monomial.of("d") ** -HALF, "none": Monomial()}


@cache
def gradients(width, depth, seed):
    """Gradients of an explicit pre-LN stack, branches over N, a head of 1/d, by class."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape, times=1.0):
        drawn = torch.randn(*shape, generator=draw, dtype=torch.float64) * times
        return drawn.requires_grad_()

    def norm(x):
        return torch.nn.functional.layer_norm(x, (width,))

    tokens, targets = torch.randint(0, 32, (2, 16), generator=draw)
    embedding, head = normal(32, width), normal(32, width)
    final = torch.ones(width, dtype=torch.float64, requires_grad=True)
    blocks = [
        (
            torch.ones(width, dtype=torch.float64, requires_grad=True),
            normal(width, width, times=width**-0.5),
            normal(width, width, times=width**-0.5),
        )
        for _ in range(depth)
    ]
    x = embedding[tokens]
    for gain, fc1, fc2 in blocks:
        x = x + torch.relu(norm(x) * gain @ fc1) @ fc2 / depth
    logits = (norm(x) * final) @ head.T / width
    torch.nn.functional.cross_entropy(logits, targets).backward()
    gain, fc1, _ = blocks[0]
    of = {"embedding": embedding, "hidden": fc1, "gain": gain, "final-gain": final, "head": head}
    return {name: value.grad.norm().item() / value.numel() ** 0.5 for name, value in of.items()}


def test_an_explicit_stack_takes_the_algebra_s_side_on_epsilon():
    """ε must be as large as |g|; Megatron's recipe has all of it but the last norm's power of N."""

    def slope(name, small, large):
        ratio = [gradients(*large, seed)[name] / gradients(*small, seed)[name] for seed in range(4)]
        return math.log(sum(ratio) / 4) / math.log(8)

    published = cells_of("megatron-depth-mup")
    asked = {c.of: size(c.derived) for c in published if c.quantity == "epsilon"}
    for name in ("embedding", "hidden", "gain", "final-gain", "head"):
        in_width, in_depth = slope(name, (64, 4), (512, 4)), slope(name, (64, 4), (64, 32))
        assert in_width == pytest.approx(float(asked[name].exponent("d")), abs=0.1), name
        assert in_depth == pytest.approx(float(asked[name].exponent("N")), abs=0.1), name


# ---- classes of optimizers ----


def test_optimizers_of_one_class_ask_for_one_rate():
    assert sorted(n for names in optimizer_classes() for n in names) == sorted(trials.optimizers())
    for names in optimizer_classes():
        tables = [width_table(Selection(optimizer=name)) for name in names]
        for role in ("token-embedding", "query", "head"):
            assert len({table.row(role).rate for table in tables}) == 1
