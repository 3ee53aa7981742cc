"""Matrix-valued SymPy nodes: maps that know their degree, and their directional differential.

Matrices are non-commutative symbols, rows are tokens. Positive scalars are pulled out of a
map by its degree of homogeneity, so differentiating in a scalar probe needs no chain rule by
hand; where a map is not linear its derivative is the node ``D[f](A)[H]``, the differential of f
at A in the direction H.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

import sympy as sp
from sympy.printing.printer import Printer

if TYPE_CHECKING:
    from xml.dom.minidom import Element


def split(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """An expression as (commutative scalar, the rest)."""
    if not expression.is_Mul:
        return (
            (expression, sp.Integer(1))
            if expression.is_commutative
            else (sp.Integer(1), expression)
        )
    scalars, matrices = expression.args_cnc()
    return sp.Mul(*scalars), sp.Mul(*matrices)


Form = tuple[str | int, ...]  # marks, and the places of the arguments between them


class Printed(sp.Function):  # type: ignore[misc]
    """A node that its forms print, as text, as LaTeX and as presentation MathML."""

    is_commutative = False

    def forms(self) -> tuple[Form, Form, Form]:
        """Text, LaTeX and MathML."""
        raise NotImplementedError

    def _sympystr(self, printer: Printer) -> str:
        return self._joined(self.forms()[0], printer)

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        shown = self._joined(self.forms()[1], printer)
        return shown if exp is None else f"{shown}^{{{exp}}}"

    def _joined(self, form: Form, printer: Printer) -> str:
        return "".join(
            part if isinstance(part, str) else printer._print(self.args[part]) for part in form
        )

    def _mathml_presentation(self, printer: Printer) -> Element:
        row = (
            mathml(printer, "mo" if len(part) == 1 else "mi", part)
            if isinstance(part, str)
            else self.args[part]
            for part in self.forms()[2]
        )
        return mathml(printer, "mrow", *row)


class MatrixMap(Printed):
    """A map of matrices; ``degree`` is its degree of homogeneity, None if it has none."""

    degree: ClassVar[int | None] = None
    linear: ClassVar[bool] = False
    label: ClassVar[str] = "f"
    latex_label: ClassVar[str] = "f"

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr:
        """Pull positive scalars out; linear maps distribute over sums."""
        if argument.is_zero and (cls.linear or cls.degree == 1):
            return sp.Integer(0)
        if cls.linear and argument.is_Add:
            return sp.Add(*(cls(term) for term in argument.args))
        if cls.degree is None:
            return None
        scalar, rest = split(argument)
        if scalar != 1 and (scalar.is_positive or cls.linear):
            return scalar**cls.degree * cls(rest)
        return None

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        direction = self.args[0].diff(symbol)
        if direction == 0:
            return sp.Integer(0)
        if self.linear:
            return self.func(direction)
        return DirectionalDifferential(Label(self.func), self.args[0], direction)

    def forms(self) -> tuple[Form, Form, Form]:
        """The label before its argument."""
        shown = (f"{self.label}(", 0, ")")
        return shown, (rf"{self.latex_label}\left(", 0, r"\right)"), shown


class Activation(MatrixMap):
    """φ, positively homogeneous of degree 1 (ReLU exactly; GELU and SiLU approximately)."""

    degree = 1
    label = "phi"
    latex_label = r"\phi"


class Softmax(MatrixMap):
    """Softmax over the last axis: not homogeneous, its differential is bounded."""

    label = "softmax"
    latex_label = r"\mathrm{softmax}"


class Normalise(MatrixMap):
    """LN or RMSNorm without gain and bias: homogeneous of degree 0."""

    degree = 0
    label = "norm"
    latex_label = r"\mathrm{LN}"


class Branch(MatrixMap):
    """The residual branch with its gains taken out, an unspecified map of order one."""

    label = "B"
    latex_label = "B"


class Transpose(MatrixMap):
    """Aᵀ: linear, and reverses products."""

    degree = 1
    linear = True
    label = "T"

    @classmethod
    def eval(cls, argument: sp.Expr) -> sp.Expr:
        """Pull scalars out, distribute over sums, reverse products, undo itself."""
        if isinstance(argument, Transpose):
            return argument.args[0]
        scalar, rest = split(argument)
        if rest.is_Mul:
            return scalar * sp.Mul(*(cls(factor) for factor in reversed(rest.args)))
        return super().eval(argument)

    def forms(self) -> tuple[Form, Form, Form]:
        """Its mark behind the argument."""
        return (0, ".T"), (0, r"^{\top}"), (0, "⊤")

    def _mathml_presentation(self, printer: Printer) -> Element:
        return mathml(printer, "msup", self.args[0], mathml(printer, "mo", "⊤"))


ONES = sp.Symbol("1", commutative=False)  # the column of ones that repeats a bias for each token


class Hadamard(Printed):
    """The entrywise product, linear in either factor."""

    @classmethod
    def eval(cls, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        """Pull scalars out of both factors."""
        a, x = split(left)
        b, y = split(right)
        if a * b != 1:
            return a * b * cls(x, y) if a * b != 0 else sp.Integer(0)
        return None

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        x, y = self.args
        return Hadamard(x.diff(symbol), y) + Hadamard(x, y.diff(symbol))

    def forms(self) -> tuple[Form, Form, Form]:
        """The mark between the factors, a word in text."""
        latex = (r"\left(", 0, r" \odot ", 1, r"\right)")
        return ("hadamard(", 0, ", ", 1, ")"), latex, ("(", 0, "⊙", 1, ")")


class Label(sp.Atom):  # type: ignore[misc]
    """A map as a value, so that a differential can say whose it is."""

    is_commutative = False

    def __new__(cls, function: type[MatrixMap]) -> Label:
        instance: Label = super().__new__(cls)
        instance.function = function
        return instance

    function: type[MatrixMap]

    def _hashable_content(self) -> tuple[Hashable, ...]:
        return (self.function.__name__,)

    def _sympystr(self, printer: Printer) -> str:
        return self.function.label

    def _latex(self, printer: Printer) -> str:
        return self.function.latex_label


class DirectionalDifferential(Printed):
    r"""``D[f](A)[H]``, :math:`\frac{d}{dt} f(A + tH)|_{t=0}`: linear in H.

    Where f is homogeneous of degree k, :math:`Df(cA)[H] = c^{k-1} Df(A)[H]`.
    """

    @classmethod
    def eval(cls, label: Label, point: sp.Expr, direction: sp.Expr) -> sp.Expr:
        """Linear in the direction; a scaled point is reduced by the map's degree."""
        if direction == 0:
            return sp.Integer(0)
        if label.function is Softmax and split(direction)[1].args[-1:] == (Transpose(ONES),):
            return sp.Integer(0)  # softmax does not change when a whole row is shifted
        if direction.is_Add:
            return sp.Add(*(cls(label, point, term) for term in direction.args))
        degree = label.function.degree
        scalar, rest = split(direction)
        c, reduced = split(point)
        if degree is None or not c.is_positive:
            c, reduced = sp.Integer(1), point
        outer = scalar if degree is None else scalar * c ** (degree - 1)
        if outer != 1 or reduced != point:
            return outer * cls(label, reduced, rest)
        return None

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise NotImplementedError("second differentials of a matrix map have no law here")

    def forms(self) -> tuple[Form, Form, Form]:
        """The map, the point, and the direction in brackets."""
        label, latex = self.args[0].function.label, self.args[0].function.latex_label
        return (
            ("D[", label, "](", 1, ")[", 2, "]"),
            (r"\mathrm{D}", latex, r"\left(", 1, r"\right)\left[", 2, r"\right]"),
            (f"D{label}(", 1, ")[", 2, "]"),
        )


def mathml(printer: Printer, tag: str, *content: Element | sp.Expr | str) -> Element:
    """An element of presentation MathML around text, formulas and other elements."""
    element: Element = printer.dom.createElement(tag)
    for item in content:
        inner = printer._print(item) if isinstance(item, sp.Basic) else item
        text = printer.dom.createTextNode
        element.appendChild(text(inner) if isinstance(inner, str) else inner)
    return element


def coefficient(expression: sp.Expr) -> sp.Expr:
    """The scalar in front of a matrix expression; of a sum, the scalar all terms share.

    Raises ``ValueError`` where the terms have different scalars.
    """
    if expression == 0:
        return sp.Integer(0)
    scalars = {split(term)[0] for term in sp.Add.make_args(sp.expand_mul(expression))}
    if len(scalars) != 1:
        raise ValueError(f"the terms of {expression} have different scalars")
    return scalars.pop()
