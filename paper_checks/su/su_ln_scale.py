from itertools import product

from paper_checks.shared.bench import Claim, Finding, Lab, numeric, once, sp, torch
from paper_checks.shared.record import PROVED, SU

CLAIM = Claim(
    name="su-ln-scale",
    source=f"{SU}, §Feed-forward gradient, first equation",
    statement="LN(αx + F(x)) = LN(x + F(x)/α) for every α > 0.",
    conditions="any x, F, α > 0; LayerNorm with and without its ε = 10⁻⁵ inside the root",
    finding="""Exact for the normalisation of the formula, and so is everything derived from it.
        LayerNorm as built adds ε = 10⁻⁵ to the variance and is not scale-invariant: the two sides
        differ by 5·10⁻⁶ of the output at entries of size one, and altogether at entries of size
        10⁻³. DeepNorm's αx + G with α = 7 or 45 is the safer side. The identity is restored by
        scaling ε as a variance.""",
    counterexample="""x = (1, −1), F = 0, α = 2, ε > 0: 2/√(4 + ε) on the left, 1/√(1 + ε) on the
        right.""",
)


@CLAIM.stated("for the exact normalisation", PROVED)
def exact(lab: Lab) -> Finding:
    return lab.proved(same_root(0, 0), "the factor α leaves mean and standard deviation together")


@CLAIM.ours("LayerNorm as built departs from it, through its ε", PROVED)
def with_epsilon(lab: Lab) -> Finding:
    worst = max(rows(lab), key=lambda row: row["difference"])
    rounding = max(row["restored"] for row in rows(lab))
    where = f"(α = {worst['alpha']:g}, entries of size {worst['scale']:g})"
    because = f"the two sides differ by up to {worst['difference']:.2g} of the output {where}"
    apart = not same_root(EPSILON, EPSILON) and worst["difference"] > rounding
    return lab.proved(apart, because, measured=rows(lab))


@CLAIM.ours("exact again with α² times the ε on the left", PROVED)
def fixed(lab: Lab) -> Finding:
    rounding = max(row["restored"] for row in rows(lab))
    because = f"ε scales as a variance; torch's LayerNorm agrees within {rounding:.0e}"
    return lab.proved(same_root("alpha**2*epsilon", EPSILON) and rounding < 1e-12, because)


EPSILON = "epsilon"


def same_root(on_the_left: object, on_the_right: object) -> bool:
    """Whether LN(αx + F) = LN(x + F/α) where so much is added under the two roots.

    LN(z) = c/√(v + ε) with c = z − mean, v = |c|²/3, on rows of 3 entries. For α > 0 it is enough
    that c scales by α and the square under the root by α²: no symbolic root has to be simplified.
    """
    names = {name: sp.Symbol(name, positive=True) for name in ("alpha", EPSILON)}
    alpha = names["alpha"]
    x, f = (sp.Matrix(sp.symbols(f"{name}_1:4", real=True)) for name in "xF")
    left, right = (z - sp.ones(3, 1) * (sum(z) / 3) for z in (alpha * x + f, x + f / alpha))
    ours, theirs = (sp.sympify(added, locals=names) for added in (on_the_left, on_the_right))
    roots = left.dot(left) / 3 + ours - alpha**2 * (right.dot(right) / 3 + theirs)
    direction = (left - alpha * right).applyfunc(sp.expand) == sp.zeros(3, 1)
    return bool(direction and sp.expand(roots) == 0)


@once
def rows(lab: Lab) -> list[dict[str, float]]:
    """How far the two sides of torch's LayerNorm are apart, as built and with ε scaled."""
    norm, g, found = torch.nn.functional.layer_norm, lab.generator(), []
    for width in lab.pick((64,), (8, 64, 1024)):
        x, f = lab.normal(g, 2, 256, width)
        for alpha, scale in product((0.1, 1.0, 6.7, 44.7), (1e-3, 1.0)):
            both, reduced = scale * (alpha * x + f), scale * (x + f / alpha)
            left, right = norm(both, (width,)), norm(reduced, (width,))
            restored = norm(both, (width,), eps=alpha**2 * numeric.NORM_EPS)
            off, rounding = (float((y - right).norm() / right.norm()) for y in (left, restored))
            row = {"width": width, "alpha": alpha, "scale": scale}
            found.append({**row, "difference": off, "restored": rounding})
    return found
