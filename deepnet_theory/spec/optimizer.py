"""An optimizer is the expression of its first update; how it goes on is one more expression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepnet_theory.spec.discovery import builtin, choose
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.expression import PRACTICE, RUNNING, UPDATE, Expression, Name, Operation
from deepnet_theory.spec.sign import refuse_unless_real


@dataclass(frozen=True)
class Reference:
    """A library's own optimizer, against whose first step the expression is checked.

    ``target`` is ``"module:Class"``, ``options`` its keyword arguments without ``lr``,
    ``requires`` the extra that installs it where torch alone does not.
    """

    target: str
    options: tuple[tuple[str, object], ...] = ()
    requires: str | None = None


@dataclass(frozen=True)
class Running:
    r"""How an optimizer goes on after its first step, from running means of the gradient.

    ``update`` is written in the grammar of :data:`~deepnet_theory.spec.expression.RUNNING`: as
    the first update, in m, v and epsilon beside g, where

    .. math:: m_t = \frac{\sum_{s\le t} a^{t-s} g_s}{\sum_{s\le t} a^{t-s}}, \qquad
              v_t = \frac{\sum_{s\le t} b^{t-s} g_s^2}{\sum_{s\le t} b^{t-s}}

    with a = ``first`` and b = ``second``; ``summed`` leaves m the sum alone. At the first step
    m = g and v = g², and the two updates must agree, up to an epsilon.
    """

    update: str
    first: float = 0.0
    second: float = 0.0
    summed: bool = False

    @cached_property
    def expression(self) -> Expression:
        return RUNNING.parse(self.update)


@dataclass(frozen=True)
class Optimizer:
    r"""A first-step update rule :math:`\Delta\theta = u(\eta, g, \theta)`, weight decay 0.

    ``update`` is written in the grammar of :data:`~deepnet_theory.spec.expression.UPDATE`.
    Where the expression adds or compares terms of different degrees, ``regime`` states which
    side is the larger, as pairs ``(larger, smaller)`` of expressions in the same grammar.
    ``running`` says how it goes on; one without it has only a first step.

    ``practice`` is the first step as its library takes it, in ``epsilon`` and ``decay`` (the
    weight decay) too; ``epsilon`` is the library's default, None where there is none that one
    number could set. Without them there is no epsilon, and the weight decay is decoupled.
    ``at_zero`` is the first update that a library takes for a parameter of zeros, where the
    expression would leave it there.
    """

    name: str
    update: str
    regime: tuple[tuple[str, str], ...] = ()
    summary: str = ""
    mind: str = ""
    source: str = ""
    reference: Reference | None = None
    running: Running | None = None
    practice: str = ""
    epsilon: float | None = None
    at_zero: str = ""

    def __post_init__(self) -> None:
        missing = {"eta"} - self.expression.names
        if missing:
            raise InputError(
                f"the update {shown(self.update)} does not contain eta, the learning rate"
            )
        refuse_unless_real(self.expression)
        for pair in self.regime:
            for side in pair:
                refuse_unless_real(UPDATE.parse(side))
        if self.running is not None:
            _ = self.running.expression
        _ = self.practised, self.from_zero

    @cached_property
    def expression(self) -> Expression:
        return UPDATE.parse(self.update)

    @cached_property
    def from_zero(self) -> Expression:
        """The first update of a parameter that is 0."""
        return UPDATE.parse(self.at_zero) if self.at_zero else self.expression

    @cached_property
    def practised(self) -> Expression:
        """The first update with epsilon and weight decay."""
        if self.practice:
            return PRACTICE.parse(self.practice)
        shrink = Operation("*", Operation("*", Name("eta"), Name("decay")), Name("theta"))
        update = Operation("-", self.expression.root, shrink)
        return Expression(f"{self.update} - eta*decay*theta", update, PRACTICE)


def optimizers() -> dict[str, Optimizer]:
    return builtin("optimizers", Optimizer)


def optimizer(name: str) -> Optimizer:
    return choose("optimizer", name, optimizers())


def custom_optimizer(update: str, regime: tuple[tuple[str, str], ...] = ()) -> Optimizer:
    """A user's own update rule, on the same path as the built-in ones; it keeps no memory."""
    return Optimizer(
        name="custom",
        update=update,
        regime=regime,
        summary="the user's own update",
        running=Running(update),
    )
