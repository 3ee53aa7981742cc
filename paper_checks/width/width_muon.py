from collections.abc import Callable

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, Tensor, judge, np, once
from paper_checks.shared.record import REFUTED, SUPPORTED
from paper_checks.shared.wide import (
    EMBEDDING,
    HEAD,
    HIDDEN,
    MUP_WEIGHTS,
    SYMBOLS,
    moves,
    polar,
    widths,
)

CLAIM = Claim(
    name="width-muon",
    source="""Jordan, github.com/KellerJordan/Muon, pull request 16 (2025-03-07); the factors of
        torch.optim.Muon and Emerging-Optimizers""",
    statement="""With the factor √max(1, rows/columns) on the orthogonalised gradient the best
        learning rate of Muon is constant as a function of scale.""",
    conditions="""first steps along the polar factor of the gradient (rank at most 16) in an
        explicit network of an embedding, two hidden maps and a head that starts at 1/n, widths 128
        to 1,024 (2,048 in the full run)""",
    finding="""Right for hidden maps, where Muon is meant to be used: a step moves their outputs
        alike at every width. So does it without a factor, and with √(rows/columns). With √max(rows,
        columns), which torch calls match_rms_adamw, it moves them as √n: a rate must fall as
        n^{−1/2}. An embedding of n rows is served too by √max(1, rows/columns); a head is not: its
        few rows leave the factor at 1, and the logits move as √n. √(rows/columns) alone of the four
        fits all three roles at one rate.""",
    counterexample="""The head under √max(1, rows/columns): from width 128 to 1,024 the move of the
        logits grows by 2.8.""",
    corrected="""One rate works for the hidden maps and the embedding under √max(1, rows/columns),
        all roles under √(rows/columns); under √max(rows, columns) the hidden rate is n^{−1/2}.""",
    seconds=(4, 20),
)
FACTORS: dict[
    str, Callable[[int, int], float]
] = {  # of rows and columns, as n_out and n_in of the map
    "none": lambda rows, columns: 1.0,
    "sqrt(max(1, rows/columns))": lambda rows, columns: max(1.0, rows / columns) ** 0.5,
    "sqrt(rows/columns)": lambda rows, columns: (rows / columns) ** 0.5,
    "sqrt(max(rows, columns))": lambda rows, columns: max(rows, columns) ** 0.5,
}
JORDAN, SQUARE = "sqrt(max(1, rows/columns))", ("none", "sqrt(rows/columns)")
RIVALS = (("√n", 0.5), ("1/√n", -0.5), ("n", 1.0))
SHAPES = {EMBEDDING: (1, 0), HIDDEN: (1, 1), HEAD: (0, 1)}  # rows and columns that grow


@judge
def moved(lab: Lab, role: str, *factors: str, predicted: float = 0.0) -> Finding:
    found = {factor: of(lab, role, factor) for factor in factors}
    return lab.exponent(found, predicted, tuple(r for r in RIVALS if r[1] != predicted))


CLAIM.stated("hidden maps move alike at every width", SUPPORTED)(moved(HIDDEN, JORDAN))
CLAIM.stated("and the embedding, a matrix of n rows", SUPPORTED)(moved(EMBEDDING, JORDAN))
CLAIM.stated("and the head", REFUTED)(moved(HEAD, JORDAN))
CLAIM.correction("the head's move grows as √n", SUPPORTED)(moved(HEAD, JORDAN, predicted=0.5))
CLAIM.ours("no factor and √(rows/columns) serve hidden maps as well", SUPPORTED)(
    moved(HIDDEN, *SQUARE)
)
CLAIM.ours("√max(rows, columns) moves hidden maps as √n", SUPPORTED)(
    moved(HIDDEN, "sqrt(max(rows, columns))", predicted=0.5)
)


@CLAIM.correction("√(rows/columns) fits all roles", SUPPORTED)
def all_roles(lab: Lab) -> Finding:
    found = {role: of(lab, role, "sqrt(rows/columns)") for role in SHAPES}
    return lab.exponent(found, 0.0, RIVALS)


def of(lab: Lab, role: str, factor: str) -> Interval:
    """The exponent of a role's move under a factor of its shape."""
    at = widths(lab)
    sides = [[n if grows else SYMBOLS for grows in SHAPES[role]] for n in at]
    return lab.power(at, plain(lab)[role] * np.array([FACTORS[factor](*s) for s in sides]))


@once
def plain(lab: Lab) -> dict[str, Array]:
    """What the polar factor alone moves; an embedding is stepped as the map that it is, n rows."""
    return moves(lab, MUP_WEIGHTS, step, tuple(SHAPES))


def step(theta: Tensor, g: Tensor) -> Tensor:
    return -polar(g)
