import math

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.expression import Algebra, fold
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from paper_checks.shared.bench import Claim, Expr, Finding, Lab, Tensor, judge, numeric, sp, torch
from paper_checks.shared.record import PROVED, SUPPORTED

CLAIM = Claim(
    name="common-mode",
    source="this package, deepnet_theory.laboratory.runs",
    statement="""A direction that all branches share, of weight R beside the stream, divides what is
        a token's own by cosh R where a norm takes every sum and by √(1 + R²) where only the final
        norm does.""",
    conditions="""every placement; branches that are one vector for all tokens, R = Σ r over S
        sublayers; tokens without a common part at the start; S → ∞ where a norm takes the sum""",
    finding="""With a norm on the sum the ratio t of common to own part takes a step r√(1 + t²) in
        each sublayer: Euler's rule for sinh R, so that S sublayers divide by less than cosh R, 42.6
        at 16 and 73.4 at 1,024 for 74.2 at R = 5. Without one the stream is R m̂ + z at every S.
        Built stacks with a planted direction do the same in all placements, forward, and backward
        to what enters; either law is refuted for the other kind.""",
    seconds=(2, 4),
)


def own_part(placement: Placement, sublayers: int, weight: float, alpha: float = 1.0) -> float:
    """The share of an output of size 1 that is a token's own, R = ``weight`` in all.

    R counts branches behind their own norm where they have one, which bounds it by S/α. The real
    part of a value is common to all tokens, the imaginary part is a token's own.
    """
    multiplied, of_branch = placement.coefficients(alpha)
    branch = complex(weight / sublayers * multiplied / of_branch)

    def norm(of: complex) -> complex:
        return of if of is branch else of / abs(of)  # its weight is that behind its own norm

    x = 1j
    for _ in range(sublayers):
        equation = Algebra({"x": x, "alpha": alpha}, {"branch": lambda _: branch, "norm": norm})
        x = fold(placement.expression.root, equation)
    return abs(x.imag) / abs(x)


def limit(placement: Placement, weight: float) -> float:
    """The share of an output of size 1 that is a token's own in a deep stack, at one R."""
    return 1 / (math.cosh(weight) if placement.normalises_sum else math.hypot(1, weight))


def carried(width: int, head_std: float) -> float:
    r"""The logits, in nats, that a wholly common stream draws from a head as it starts.

    .. math:: \sqrt{2/\pi}\,d\,\sigma_H, \qquad \text{the head's multiplier in } \sigma_H

    The stack moves along the signs of :math:`W_H^\top u`, u the error of the token frequencies.
    """
    return math.sqrt(2 / math.pi) * width * head_std


def sublayer() -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """The parts behind norm(αx + αr m̂) for x = a m̂ + z of size 1, and the symbols a, z, r, α."""
    a, z, r, alpha = symbols = sp.symbols("a z r alpha", positive=True)
    common, own = alpha * a + alpha * r, alpha * z
    size = sp.sqrt(common**2 + own**2)
    return common / size, own / size, symbols


@CLAIM.stated("one small sublayer behind a norm: da/dR = 1 − a², dz/dR = −az, without α", PROVED)
def equations(lab: Lab) -> Finding:
    *parts, (a, z, r, alpha) = sublayer()
    unit = {a: sp.sqrt(1 - z**2)}
    slopes = [sp.simplify(sp.diff(part, r).subs(r, 0).subs(unit)) for part in parts]
    expected = [(1 - a**2).subs(unit), (-a * z).subs(unit)]
    holds = all(sp.simplify(s - e) == 0 for s, e in zip(slopes, expected, strict=True))
    free = all(alpha not in sp.simplify(part).free_symbols for part in parts)
    return lab.proved(holds and free, f"derivatives in r at 0: {slopes}, z for own, a² = 1 − z²")


@CLAIM.stated("they are solved by a = tanh R, z = z₀/cosh R", PROVED)
def solution(lab: Lab) -> Finding:
    r = sp.Symbol("R", positive=True)
    a, z = sp.tanh(r), 1 / sp.cosh(r)
    left = sp.diff(a, r) - (1 - a**2), sp.diff(z, r) + a * z, a**2 + z**2 - 1
    starts = a.subs(r, 0) == 0 and z.subs(r, 0) == 1
    holds = starts and all(sp.simplify(e.rewrite(sp.exp)) == 0 for e in left)
    return lab.proved(holds, "put into the equations, and at R = 0")


@CLAIM.ours("S sublayers are Euler's rule for sinh R: t → t + r√(1 + t²), z = 1/√(1 + t²)", PROVED)
def euler(lab: Lab) -> Finding:
    common, own, (a, z, r, _) = sublayer()
    t = sp.Symbol("t", positive=True)
    unit = {a: t / sp.sqrt(1 + t**2), z: 1 / sp.sqrt(1 + t**2)}
    step = sp.simplify((common / own).subs(unit) - (t + r * sp.sqrt(1 + t**2))) == 0
    x = sp.Symbol("R", positive=True)
    convex = sp.diff(sp.sinh(x), x, 2) == sp.sinh(x)  # so that Euler's rule stays below
    found = {s: round(divided(s, 5.0), 1) for s in (16, 64, 1024)}
    below = all(value < math.cosh(5) for value in found.values())
    return lab.proved(step and convex and below, f"at R = 5 by S: {found}, cosh 5 = 74.2")


@CLAIM.stated("without a norm on the sum the final one divides by √(1 + R²), at every S", PROVED)
def without(lab: Lab) -> Finding:
    s = sp.Symbol("S", positive=True, integer=True)
    weight, k = sp.Symbol("R", positive=True), sp.Symbol("k", integer=True)
    common = sp.summation(weight / s, (k, 1, s))  # z₀ of size 1 is left as it was
    own = 1 / sp.sqrt(common**2 + 1)
    holds = sp.simplify(own - 1 / sp.sqrt(1 + weight**2)) == 0
    return lab.proved(holds, f"own part {sp.simplify(own)}")


@judge
def planted(lab: Lab, backward: bool) -> Finding:
    """Measured division over that of the residual equation, the worst placement."""
    off, rivals = 0.0, []
    for where in PLACEMENTS.values():
        for weight in (1.0, 2.0, 5.0):
            found = divisions(lab, where, weight)[backward]
            equation = 1 / own_part(where, 2 * LAYERS, weight, ALPHA)
            other = (1 + weight**2) ** 0.5 if where.normalises_sum else math.cosh(weight)
            off = max(off, abs(found / equation - 1))
            rivals.append(abs(found / other - 1))
    return lab.seen(
        off < 0.01 < min(rivals),
        f"within {off:.1e} of the equation in {len(PLACEMENTS)} placements, the other kind's "
        f"law off by {min(rivals):.2f} at least",
    )


CLAIM.stated("built stacks of every placement divide the tokens' own part so", SUPPORTED)(
    planted(False)
)
CLAIM.ours("and the gradient of what enters them", SUPPORTED)(planted(True))

LAYERS, WIDTH, ALPHA = 24, 64, 3.0


def divided(sublayers: int, weight: float) -> float:
    """What S sublayers divide by, by Euler's rule."""
    t = 0.0
    for _ in range(sublayers):
        t += weight / sublayers * (1 + t**2) ** 0.5
    return float((1 + t**2) ** 0.5)


def divisions(lab: Lab, where: Placement, weight: float) -> tuple[float, float]:
    """The forward and the backward division of a built stack whose branches are one vector."""
    alpha, sublayers = (ALPHA if "alpha" in where.expression.names else 1.0), 2 * LAYERS
    stream, times = where.coefficients(alpha)
    size = weight / sublayers * stream / times
    if "output" in where.norms:  # behind its own norm a branch has one size, and α sets its weight
        alpha, size = sublayers / weight, 1.0
    layer = tuple(SublayerConstants(kind, alpha, 1.0) for kind in ("attention", "ffn"))
    part = PartConstants("encoder", LAYERS, False, layer)
    sizes = Architecture(width=WIDTH, heads=1)
    model = numeric.build(
        Constants("encoder", where.name, "rms", (part,), sizes),
        dtype=torch.float64, trainable_vectors=False,
    )  # fmt: skip
    generator = lab.generator()
    x, back = lab.normal(generator, 1, 6, WIDTH), lab.normal(generator, 1, 6, WIDTH)
    direction = unit(lab.normal(generator, WIDTH))
    for residual in model.residuals():
        residual.branch.forward = lambda y, *_: size * WIDTH**0.5 * direction.expand_as(y)
    x = (unit(across(x, direction)) * WIDTH**0.5).requires_grad_()
    output = model.body(x)
    own = across(output.detach(), direction)
    back = across(across(back, direction), unit(own))  # of neither the common part nor the size
    (gradient,) = torch.autograd.grad((output * back).sum(), x)
    forward = output.detach().norm() / own.norm()
    return float(forward), float(back.norm() / gradient.norm())


def unit(x: Tensor) -> Tensor:
    """Each vector at length 1."""
    found: Tensor = torch.nn.functional.normalize(x, dim=-1)
    return found


def across(x: Tensor, direction: Tensor) -> Tensor:
    """Each vector less its part along a direction of length 1."""
    return x - (x * direction).sum(-1, keepdim=True) * direction
