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


class MatrixMap(sp.Function):  # type: ignore[misc]
    """A map of matrices; ``degree`` is its degree of homogeneity, None if it has none."""

    is_commutative = False
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

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.label}({printer._print(self.args[0])})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        shown = rf"{self.latex_label}\left({printer._print(self.args[0])}\right)"
        return shown if exp is None else f"{shown}^{{{exp}}}"

    def _mathml_presentation(self, printer: Printer) -> Element:
        return _mathml_row(printer, f"{self.label}(", self.args[0], ")")


class Activation(MatrixMap):
    """φ, positively homogeneous of degree 1 (ReLU exactly; GELU and SiLU approximately)."""

    degree = 1
    label = "phi"
    latex_label = r"\phi"


class Softmax(MatrixMap):
    """σ, softmax over the last axis: not homogeneous, its differential is bounded."""

    label = "softmax"
    latex_label = r"\sigma"


class Normalise(MatrixMap):
    """LN or RMSNorm without gain and bias: homogeneous of degree 0."""

    degree = 0
    label = "norm"
    latex_label = r"\mathrm{LN}"


class Branch(MatrixMap):
    """The residual branch with its gains taken out, an unspecified map of order one."""

    label = "B"
    latex_label = "B"


class Loss(MatrixMap):
    """The loss as a function of a sublayer's output; its differential is ⟨∂L/∂x, ·⟩."""

    label = "L"
    latex_label = r"\mathcal{L}"


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

    def _sympystr(self, printer: Printer) -> str:
        return f"{printer._print(self.args[0])}.T"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        return rf"{printer._print(self.args[0])}^{{\top}}"

    def _mathml_presentation(self, printer: Printer) -> Element:
        return mathml(printer, "msup", self.args[0], mathml(printer, "mo", "⊤"))


ONES = sp.Symbol("1", commutative=False)  # the column of ones that repeats a bias for each token


class Hadamard(sp.Function):  # type: ignore[misc]
    """The entrywise product, linear in either factor."""

    is_commutative = False

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

    def _sympystr(self, printer: Printer) -> str:
        x, y = (printer._print(a) for a in self.args)
        return f"hadamard({x}, {y})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        x, y = (printer._print(a) for a in self.args)
        return rf"\left({x} \odot {y}\right)"

    def _mathml_presentation(self, printer: Printer) -> Element:
        return _mathml_row(printer, "(", self.args[0], "⊙", self.args[1], ")")


class Joined(sp.Function):  # type: ignore[misc]
    """Two matrices as one: side by side, or one above the other."""

    is_commutative = False
    mark: ClassVar[str] = ","
    latex_mark: ClassVar[str] = r"\ "

    def _sympystr(self, printer: Printer) -> str:
        first, second = (printer._print(a) for a in self.args)
        return f"[{first}{self.mark} {second}]"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        first, second = (printer._print(a) for a in self.args)
        return (
            rf"\left[\begin{{smallmatrix}}{first}{self.latex_mark}{second}"
            rf"\end{{smallmatrix}}\right]"
        )

    def _mathml_presentation(self, printer: Printer) -> Element:
        return _mathml_row(printer, "[", self.args[0], self.mark, self.args[1], "]")


class Beside(Joined):
    """[A B]: the columns of both."""

    latex_mark = "&"


class Above(Joined):
    """[A; B]: the rows of both."""

    mark = ";"
    latex_mark = r"\\"


class Label(sp.Atom):  # type: ignore[misc]
    """A map as a value, so that a differential can say whose it is."""

    is_commutative = False

    def __new__(cls, function: type[MatrixMap]) -> Label:
        """Wrap the class of a map."""
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


class DirectionalDifferential(sp.Function):  # type: ignore[misc]
    r"""``D[f](A)[H]``, :math:`\frac{d}{dt} f(A + tH)|_{t=0}`: linear in H.

    Where f is homogeneous of degree k, :math:`Df(cA)[H] = c^{k-1} Df(A)[H]`.
    """

    is_commutative = False

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

    def _sympystr(self, printer: Printer) -> str:
        f, point, direction = (printer._print(a) for a in self.args)
        return f"D[{f}]({point})[{direction}]"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        f, point, direction = (printer._print(a) for a in self.args)
        return rf"\mathrm{{D}}{f}\left({point}\right)\left[{direction}\right]"

    def _mathml_presentation(self, printer: Printer) -> Element:
        label = self.args[0].function.label
        return _mathml_row(printer, f"D{label}(", self.args[1], ")[", self.args[2], "]")


def _mathml_row(printer: Printer, *items: str | sp.Expr) -> Element:
    """Marks and formulas one after the other."""
    row = (
        mathml(printer, "mo" if len(item) == 1 else "mi", item) if isinstance(item, str) else item
        for item in items
    )
    return mathml(printer, "mrow", *row)


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
