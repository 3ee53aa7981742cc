"""Errors planted in the source of the engine, one in each of its files: ``derive`` refuses them.

A planted module is compiled from its changed text; the rest of the package is imported anew on
top of it, so that every formula that rests on the changed one is wrong too.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deepnet_theory

ROOT = Path(deepnet_theory.__file__).parent
PACKAGE = "deepnet_theory."


@dataclass(frozen=True)
class Planted(MetaPathFinder, Loader):
    """Imports one module from a changed source."""

    module: str
    source: str

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self.module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, f"<planted {self.module}>", "exec"), module.__dict__)


@contextmanager
def planted(file: str, right: str, wrong: str) -> Iterator[Any]:
    """The package's ``spec`` and ``symbolic`` with one change in one file; then as before."""
    source = (ROOT / file).read_text(encoding="utf-8")
    assert source.count(right) == 1, f"{right!r} is not once in {file}"
    module = PACKAGE + file.removesuffix(".py").replace("/", ".")
    finder = Planted(module, source.replace(right, wrong))
    before = {n: m for n, m in sys.modules.items() if n.startswith(PACKAGE)}
    names = dict(vars(deepnet_theory))  # the package knows its modules as attributes, too
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module("deepnet_theory.symbolic.derive")
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.startswith(PACKAGE)]:
            del sys.modules[name]
        sys.modules.update(before)
        vars(deepnet_theory).update(names)


def refused(derive: ModuleType, **select: Any) -> bool:
    """Whether a derivation fails: by a refuted step, or because it cannot be put together."""
    selection = sys.modules["deepnet_theory.spec.selection"].Selection(**select)
    try:
        return str(derive.derive(selection).verdict) == "REFUTED"
    except Exception as wrong:
        # the engine's own refusals: an error that leaves the planted code broken proves nothing
        return type(wrong).__name__ in ("Refusal", "ValueError", "TypeError")


SGD = {"optimizer": "sgd"}
LAMB = {"optimizer": "lamb"}
LEMMA = {"optimizer": "sgd", "method": "lemma"}
MOMENTS = {"optimizer": "sgd", "method": "moments"}
TWO = {"optimizer": "sgd", "stack": "encoder-decoder"}
ADAM = {"optimizer": "adam"}
COMPLETE = {"optimizer": "adam", "placement": "pre-ln", "closure": "complete"}
BOTH_WAYS = {**TWO, "amplification": "worst-case", "closure": "unit-init"}

# file, what stands there, what is planted, a selection that rests on it
ERRORS = [
    # N sublayers for 2N
    ("symbolic/rule/kinds.py", "return len(part.layer) * DEPTHS[part.depth]",
     "return DEPTHS[part.depth]", SGD),
    # 3M cross-attentions for M
    ("symbolic/rule/amplification.py", "later.part.crossings * later.depth",
     "3 * later.depth", TWO),
    # A left out of the encoder's balance
    ("symbolic/rule/balance.py", "every = times * factor * own_rates[kind.name]",
     "every = times * own_rates[kind.name]", TWO),
    # another closure than the one that is named
    ("symbolic/rule/closures.py", "in_sympy(side, names)",
     "in_sympy(side, names, {'sqrt': lambda inner: inner})", LEMMA),
    ("symbolic/rule/solution.py", "present(solution.values[symbol])",
     "present(1 / solution.values[symbol])", SGD),
    ("symbolic/rule/self_consistency.py", "balanced.sublayers * kind.weight**power",
     "balanced.sublayers * kind.weight", SGD),
    ("symbolic/rule/solved_rule.py", "for value in (*values, *multiplied))",
     "for value in (*values[::-1], *multiplied))", SGD),
    # kappa left out of rho; an order of one matrix less; a failing rate of one matrix more
    ("symbolic/rule/balanced.py", "times = self.rate * self.rate_of(kind) * self.backward",
     "times = self.rate * self.backward", COMPLETE),
    ("symbolic/implications/orders.py", "balanced.relative_update(kind) ** order)",
     "balanced.relative_update(kind) ** (order - 1))", ADAM),
    ("symbolic/implications/orders.py", "sp.Rational(1, matrices) - 1",
     "sp.Rational(1, matrices + 1) - 1", ADAM),
    ("symbolic/implications/beyond/every_order.py", "rho**order)", "rho ** (order + 1))", ADAM),
    ("symbolic/implications/beyond/aligned_steps.py", "sp.exp(aligned) * (", "(", COMPLETE),
    # the power of the matrix in rho
    ("symbolic/laws/parameters.py", "return scaled.update(degrees) / scaled.size",
     "return scaled.update(degrees)", ADAM),
    # the decoder's part of the gradient left out
    ("symbolic/rule/amplification.py", "backward=simplified(steps[1].rhs ** times)",
     "backward=sp.Integer(1)", BOTH_WAYS),
    ("symbolic/algebra/monomial.py", "sides.append({base: -power for base, power",
     "sides.append({base: power for base, power", SGD),
    ("symbolic/algebra/nodes.py", "return scalar**cls.degree * cls(rest)",
     "return scalar * cls(rest)", {"optimizer": "adam", "placement": "res-post-ln"}),
    # the factor of LAMB's norm lost
    ("symbolic/laws/optimizer.py", "return Degrees(rational(degree.g), rational(degree.theta)",
     "return Degrees(rational(degree.g), sp.Integer(0)", LAMB),
    ("symbolic/laws/branch.py", "gain(name) * direction(name)",
     "gain(name) ** 2 * direction(name)", SGD),
    ("symbolic/laws/placement.py", "sp.expand_mul(scalar * x)) / scalar)",
     "sp.expand_mul(scalar * x)) / scalar**2)", SGD),
    ("symbolic/routes/probe/increment.py", "sp.powsimp(eta * size ** (1 + p) * beta**q)",
     "sp.powsimp(eta * size ** (1 + p))", LAMB),
    # the sublayers of another part, and of one kind
    ("symbolic/routes/two_parts.py", "return part.crossings * DEPTHS[part.depth]",
     "return part.sublayers_per_layer * DEPTHS[part.depth]",
     {"optimizer": "sgd", "stack": "encoder-decoder", "method": "lemma"}),
    ("symbolic/routes/lemma/increment.py", "(weight / gain) ** 2 for",
     "(weight / gain) for", LEMMA),
    ("symbolic/routes/lemma/placement.py", "self.branch**2 + self.change**2",
     "self.change**2", LEMMA),
    ("symbolic/routes/lemma/scalar.py", "weight / alpha,", "alpha / weight,", LEMMA),
    ("symbolic/routes/moments/sublayer.py", "(v**2 + w**2) * (norm_dv**2 + norm_dw**2),",
     "(v**2 + w**2) * (norm_dv**2 + norm_dw**2) / 2,", MOMENTS),
    ("symbolic/routes/moments/recursion.py", "at_rest(d * first.own / first.path)",
     "at_rest(d * first.own / first.size)", MOMENTS),
    ("symbolic/routes/moments/route.py", "parameter_size = sp.sqrt(v**2 + w**2)",
     "parameter_size = sp.sqrt(v * w)", {"optimizer": "lamb", "method": "moments"}),
    ("symbolic/routes/moments/recursion.py", "sp.sqrt(d) / norm_pz,", "d / norm_pz,", MOMENTS),
    ("symbolic/expectation.py", "square / 2", "square / 3", MOMENTS),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e[0])
def test_an_error_in_the_source_is_refused_by_the_derivation(error):
    file, right, wrong, selection = error
    with planted(file, right, right) as derive:
        assert not refused(derive, **selection)
    with planted(file, right, wrong) as derive:
        assert refused(derive, **selection)
