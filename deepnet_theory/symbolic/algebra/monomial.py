"""The symbols of the papers, once, with their assumptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import gcd, lcm

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.polys.fields import FracElement, FracField
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement

from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH, Expression, OperatorAlgebra, fold
from deepnet_theory.spec.sublayer import letters

N, M = sp.symbols("N M", positive=True)
DEPTHS = {"N": N, "M": M}
alpha, beta, eta = sp.symbols("alpha beta eta", positive=True)
S = sp.Symbol("S", positive=True)  # residual sublayers of one part


def part_symbol(name: str, part: str, parts: int, sublayer: str = "*") -> sp.Symbol:
    """``alpha`` of a stack with one part, ``alpha_e`` or ``alpha_d`` of one with two.

    Where the kinds of sublayers take their own, the kind is appended.
    """
    suffix = "" if parts == 1 else f"_{part[0]}"
    kind = "" if sublayer == "*" else "_" + letters(sublayer)
    return sp.Symbol(f"{name}{suffix}{kind}", positive=True)


v, w = sp.symbols("v w", positive=True)  # the magnitudes of a branch's two scaled matrices
r = sp.Symbol("r", positive=True)  # the branch's weight against the identity path
i, j, k, l = sp.symbols("i j n l", integer=True, positive=True)  # noqa: E741  counters

_GAINS = {1: (w,), 2: (v, w)}


def gains(count: int) -> tuple[sp.Symbol, ...]:
    """The magnitudes of the ``count`` scaled matrices of a branch: v and w where there are two."""
    return _GAINS.get(count) or tuple(
        sp.Symbol(f"b_{index}", positive=True) for index in range(1, count + 1)
    )


# ---- Positive monomials: exact exponents, linear solving in logarithms, and a readable form ----


Exponents = dict[sp.Expr, sp.Rational]  # a prime or a symbol → its exponent


@cache
def _primes(number: sp.Rational) -> tuple[tuple[sp.Integer, sp.Integer], ...]:
    return tuple((sp.Integer(prime), sp.Integer(n)) for prime, n in sp.factorrat(number).items())


def exponents(expression: sp.Expr) -> Exponents:
    """The exponents of a positive monomial, its coefficient factored into primes.

    Raises ``ValueError`` where ``expression`` is a sum, negative, or has another power.
    """
    result: Exponents = {}

    def walk(node: sp.Expr, times: sp.Rational) -> None:
        if node.is_Symbol:
            result[node] = result.get(node, sp.S.Zero) + times
        elif node.is_Rational and node > 0:
            for prime, power in _primes(node):
                result[prime] = result.get(prime, sp.S.Zero) + power * times
        elif node.is_Mul:
            for factor in node.args:
                walk(factor, times)
        elif node.is_Pow and node.exp.is_Rational:
            walk(node.base, times * node.exp)
        else:
            raise ValueError(f"{node} is not a positive monomial")

    walk(sp.sympify(expression), sp.S.One)
    return {base: exponent for base, exponent in result.items() if exponent}


def monomial(powers: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    return sp.Mul(*(base**exponent for base, exponent in powers.items()))


def simplified(expression: sp.Expr) -> sp.Expr:
    """A monomial with its powers gathered; anything else with nested powers undone."""
    try:
        return monomial(exponents(expression))
    except ValueError:
        return sp.powdenest(expression, force=True)


def solve(
    equations: Sequence[tuple[sp.Expr, sp.Expr]], unknowns: Sequence[sp.Symbol]
) -> dict[sp.Symbol, sp.Expr] | None:
    """Solve ``left = right`` for positive unknowns, all sides monomials; None: contradiction.

    Taking logarithms makes the system linear, so Gauss elimination over the rationals decides
    existence and uniqueness exactly. Unknowns that are not determined have no value.
    """
    powers = [exponents(sp.sympify(left) / sp.sympify(right)) for left, right in equations]
    bases = sorted({base for row in powers for base in row} - {*unknowns}, key=str)
    system = sp.Matrix(
        [
            [row.get(u, sp.S.Zero) for u in unknowns] + [-row.get(b, sp.S.Zero) for b in bases]
            for row in powers
        ]
    )
    reduced, pivots = system.rref()
    k = len(unknowns)
    if any(pivot >= k for pivot in pivots):
        return None
    return {
        unknowns[pivot]: monomial({b: reduced[row, k + n] for n, b in enumerate(bases)})
        for row, pivot in enumerate(pivots)
        if all(reduced[row, c] == 0 for c in range(k) if c != pivot)
    }


def exponent_in(expression: sp.Expr, variable: sp.Symbol) -> sp.Rational:
    r"""The growth exponent :math:`\lim_{N\to\infty}\log f(N)/\log N`; exact for monomials."""
    try:
        return exponents(expression).get(variable, sp.Integer(0))
    except ValueError:
        limit = sp.limit(sp.log(expression) / sp.log(variable), variable, sp.oo)
        if not limit.is_Rational:
            raise ValueError(f"{expression} has no growth exponent in {variable}") from None
        return limit


def present(expression: sp.Expr) -> sp.Expr:
    """The same monomial with one outer root, such as ``(2*N)**(1/4)``, left unevaluated."""
    powers = exponents(expression)
    if not powers:
        return sp.Integer(1)
    outer = sp.Rational(
        gcd(*(int(p.p) for p in powers.values())), lcm(*(int(p.q) for p in powers.values()))
    )
    symbols = sorted((b for b in powers if b.is_Symbol), key=_depth_order)
    lead = symbols[0] if symbols else next(iter(powers))
    outer = -outer if powers[lead] < 0 else outer
    base = monomial({b: power / outer for b, power in powers.items()})
    return base if outer == 1 else sp.Pow(base, outer, evaluate=False)


def _depth_order(symbol: sp.Symbol) -> tuple[int, str]:
    return ({"N": 0, "M": 1}.get(symbol.name, 2), symbol.name)


def plain(expression: sp.Expr) -> Monomial:
    """The same monomial by the names of its bases, as texts are written."""
    powers = exponents(expression)
    return Monomial.from_powers({str(b): Fraction(int(p.p), int(p.q)) for b, p in powers.items()})


def from_plain(of: Monomial, values: Mapping[str, sp.Expr]) -> sp.Expr:
    """A monomial of the algebra of sizes as SymPy has it, with values in place of its symbols."""
    powers = {(values[b] if b in values else sp.Integer(b)): rational(p) for b, p in of.items}
    return monomial(powers)


# ---- Formulas of the grammar as SymPy expressions; those in N and M among them ----

Functions = Mapping[str, Callable[..., sp.Expr]]
FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def rational(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


@dataclass(frozen=True)
class _Sympy(OperatorAlgebra[sp.Expr]):
    names: Mapping[str, sp.Expr]
    functions: Functions

    def number(self, value: Fraction) -> sp.Expr:
        return rational(value)

    def name(self, name: str) -> sp.Expr:
        return self.names[name]

    def power(self, base: sp.Expr, exponent: Fraction) -> sp.Expr:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
        return self.functions[function](*arguments)


def in_sympy(
    expression: Expression, names: Mapping[str, sp.Expr], functions: Functions = FUNCTIONS
) -> sp.Expr:
    """A formula with its names and functions read as given, its numbers exact."""
    return fold(expression.root, _Sympy(names, functions))


def depth_expression(source: str | Expression) -> sp.Expr:
    """The SymPy form of an expression in N and M.

    Raises :class:`InputError` where it is not finite, as for ``1/0``.
    """
    expression = DEPTH.parse(source) if isinstance(source, str) else source
    value = in_sympy(expression, DEPTHS)
    if value.has(sp.zoo, sp.nan, sp.oo):
        raise InputError(f"{expression.text!r} divides by zero")
    return value


# ---- Whether an expression is zero, or nowhere negative, by its numerator and denominator ----


class NotRationalError(ValueError):
    """The expression holds a power that is not a whole number, or a known function."""


def vanishes(expression: sp.Expr) -> bool:
    """Whether an expression is zero by expanding its numerator; False where that is not seen."""
    try:
        return not fraction(expression)
    except ZeroDivisionError:
        return False
    except NotRationalError:
        return bool(sp.expand(sp.numer(sp.together(expression))) == 0)


def is_nonnegative(expression: sp.Expr) -> bool:
    """Whether numerator and denominator are sums of non-negative terms."""
    try:
        value = fraction(expression)
        if has_no_negative_term(value.numer) and has_no_negative_term(value.denom):
            return True
    except ZeroDivisionError:
        return False
    except NotRationalError:
        pass
    numerator, denominator = sp.fraction(sp.together(expression))
    return bool(
        expression.is_nonnegative
        or (
            sp.expand(numerator).is_nonnegative
            and (denominator.is_positive or sp.expand(denominator).is_positive)
        )
    )


def fraction(expression: sp.Expr) -> FracElement:
    """A quotient of polynomials, in lowest terms.

    Raises :class:`NotRationalError` where it is none, ``ZeroDivisionError`` where it is nowhere
    defined.
    """
    atoms = expression.free_symbols | expression.atoms(AppliedUndef)
    field = FracField(sorted(atoms, key=str) or [sp.Symbol("_")], sp.QQ, lex)
    try:
        return field.from_expr(expression)
    except (ValueError, TypeError) as error:
        raise NotRationalError(str(expression)) from error


def has_no_negative_term(polynomial: PolyElement) -> bool:
    """Whether every term is non-negative: its coefficient, and its generators' odd powers."""
    signed = [not generator.is_nonnegative for generator in polynomial.ring.symbols]
    return all(
        coefficient >= 0
        and not any(power % 2 and odd for power, odd in zip(powers, signed, strict=True))
        for powers, coefficient in polynomial.terms()
    )
