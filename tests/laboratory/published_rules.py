"""Small stacks under the published rules, typed here from their sources and nowhere else."""

from fractions import Fraction

from deepnet_theory.definitions.measurement import Predictions, prediction
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.laboratory.settings import Settings

# Su Jianlin, "What difficulties does training a 1,000-layer Transformer have?", the table of
# section "Multiple optimizers": post-LN, N layers are 2N sublayers.
EXPONENTS = {
    "sgd": (Fraction(1, 4), Fraction(-1, 4)),
    "adam": (Fraction(1, 2), Fraction(-1, 2)),
    "lamb": (Fraction(0), Fraction(-1, 2)),
}
SU = {name: tuple(f"(2*N)**({power})" for power in own) for name, own in EXPONENTS.items()}
DEGREES = {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}  # (p, q), same section


def rule(name):
    return own_rule(("encoder",), *SU[name])


def predicted(optimizer, rule_name):
    """The exponent of S((P/β)/α)^{1+p} β^q with P = β², S ~ N."""
    p, q = DEGREES[optimizer]
    a, b = EXPONENTS[rule_name]
    return 1 + (1 + p) * (b - a) + q * b


def predictions(optimizer, rule_name, assumptions=()):
    rivals = tuple((n, predicted(optimizer, n)) for n in SU if n != optimizer)
    row = prediction("N", "all", predicted(optimizer, rule_name), rivals)
    return Predictions((row,), tuple(assumptions))


def depths(*numbers):
    return [{"N": n} for n in numbers]


SMALL = Settings(width=16, heads=2, tokens=8, seeds=3, draws=2)
