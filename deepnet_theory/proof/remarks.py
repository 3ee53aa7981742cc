r"""The sentences of an answer: the words that decide and the numbers in them, found again.

A sentence is read for what it claims, and each claim is held against the explicit sublayers. What
must be remarked is found there too, so that a remark that is missing is seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from deepnet_theory.proof.explicit import regimes_of
from deepnet_theory.proof.seen import (
    AtRule,
    Leaf,
    Parameter,
    Shown,
    Shows,
    grows,
)
from deepnet_theory.proof.stack import Place

WIDTH, HIDDEN = 64, 256  # where a formula holds d and m
Path_ = tuple[str, ...]


def remarked(at_rule: AtRule, epsilons: Mapping[Path_, Shown]) -> Iterator[tuple[Path_, Shown]]:
    """What is shown of the state in depth and of every remark."""
    yield from _Sentences(at_rule, epsilons).sentences()


class _Sentences:
    def __init__(self, at_rule: AtRule, epsilons: Mapping[Path_, Shown]) -> None:
        self.at, self.epsilons = at_rule, epsilons
        self.selection, self.stack = at_rule.selection, at_rule.stack

    def sentences(self) -> Iterator[tuple[Path_, Shown]]:
        """The state in depth; every remark is wanted, and every wanted one is made."""
        yield ("in_depth",), Shown(self.tells_the_state, "the orders at two depths", self.at.whole)
        wanted = list(self.wanted())
        for index, remark in enumerate(self.at.data["remarks"]):
            told = " or ".join(words for words, tells in wanted if tells(remark))
            yield (
                ("remarks", str(index)),
                Shown(
                    lambda stated: any(tells(stated) for _, tells in wanted), "found again", told
                ),
            )
        for words, tells in wanted:
            if not any(map(tells, self.at.data["remarks"])):
                yield ("remarks", words), Shown(lambda _: False, "measured, and not said", words)

    def tells_the_state(self, stated: Leaf) -> bool:
        """Its first word, every power in it, the closure and the condition that it recommends."""
        kinds = [(part, members[0]) for part, _, members in self.at.kinds()
                 if self.at.state(part, members[0]) == self.at.whole]  # fmt: skip
        rhos = {self.at.power_of(*kind, lambda place: place.rho) for kind in kinds}
        rates = {self.failing(*kind) for kind in kinds if self.at.whole == "unstable"}
        condition, closed = self.at.data.get("training_condition"), self.at.data["training_closure"]
        trained = self.at.data["training"]
        same = trained == self.at.data["rule"]
        return (
            stated.lower().startswith(f"{self.at.whole} in depth")
            and set(re.findall(r"rho scales as ([^,; ]+)", stated))
            == rhos - ({"1"} if self.at.whole == "stable" else set())
            and set(re.findall(r"learning rate scales as ([^,;. ]+)", stated)) == rates
            and ("no longer learn together" in stated) == (self.at.whole == "lazy")
            and ("One learning rate serves every depth" in stated) == bool(trained and same)
            and (f"take the closure {closed}." in stated) == bool(trained and not same)
            and ("No closure is complete here" in stated) == (not trained)
            and (not condition or condition in stated)
            and self.tells_the_epsilons(stated, self.epsilons)
        )

    def failing(self, part: str, name: str) -> str:
        """How the largest stable rate scales: aligned steps move a branch by as much as itself."""
        rises = grows(*(place.rho for place in self.at.ends(part, name)))
        inverse = 1 / self.at.places(part, name)[0].degree - 1 if rises else 0.0
        return self.at.power_of(part, name, lambda place: place.rho**inverse)

    def tells_the_epsilons(self, stated: str, shown: Mapping[Path_, Shown]) -> bool:
        factors = re.findall(r"multiply its epsilon by (\S+?)(?: = [-+.e\d]+)?\.(?: |$)", stated)
        wanted = [seen for path, seen in shown.items() if path[-1] == "epsilon"]
        return len(factors) == len(wanted) and all(
            any(seen.agrees(f) for seen in wanted) for f in factors
        )

    def wanted(self) -> Iterator[tuple[str, Shows]]:
        """What must be remarked, in words and as a test of a remark."""
        optimizer = self.selection.the_optimizer
        regimes = regimes_of(optimizer)
        if regimes:
            words = f"holds where {' and '.join(f'{a} > {b}' for a, b in regimes)}"
            yield words, lambda said: said == words
        if optimizer.mind:
            yield optimizer.name, lambda said: said == f"{optimizer.name}: {optimizer.mind}"
        for part, _, members in self.at.kinds():
            name, depths = members[0], self.selection.the_stack.depths
            if any(grows(*(p.independent for p in self.at.ends(part, name, d))) for d in depths):
                yield "near-identity", partial(self.warns, part, name)
        rows = [Parameter(self.at, *row) for row in self.at.every_parameter()]
        dominant = [row for row in rows if row.dominant]
        for row in dominant:
            yield f"{row.role.value}s of the {row.part}", partial(self.multiplies, row, dominant)

    def warns(self, part: str, name: str, said: str) -> bool:
        """Whether it names the part, the depths that S·r² grows in, and its powers."""
        independent: Callable[[Place], float] = lambda place: place.independent  # noqa: E731
        depths = self.selection.the_stack.depths
        rising = [d for d in depths if grows(*map(independent, self.at.ends(part, name, d)))]
        powers = set(self.at.power_of(part, name, independent).split("*"))
        whose = f"the {part}'s {self.at.places(part, name)[0].part.squares}"
        found = re.fullmatch(
            r"(.+) grows as (\S+) in (.+) \((.+)\): the near-identity assumption fails, .+", said
        )
        return bool(
            found
            and found[1] == whose
            and set(found[2].split("*")) == powers
            and found[3].split(" and ") == rising
            and name in (found[4], self.stack.part(part).layer[0].name)
        )

    def multiplies(self, row: Parameter, dominant: Sequence[Parameter], said: str) -> bool:
        """Whether it names the parameter with others that change the output by as much."""
        found = re.fullmatch(
            r"stepped at the same learning rate, the (.+) parameters of the (\w+) move the output "
            r"by (.+) in units of eta, .* give them the multiplier (.+)", said,
        )  # fmt: skip
        if not found:
            return False
        roles, part, share, multiplier = found[1].split(", "), found[2], found[3], found[4]

        def as_much(one: Parameter) -> bool:
            inverse = self.at.sized([1 / s for s in one.shares], "")
            return self.at.sized(one.shares, "").agrees(share) and inverse.agrees(multiplier)

        alike = {one.role.value for one in dominant if one.part == part and as_much(one)}
        return row.part == part and row.role.value in roles and as_much(row) and set(roles) <= alike
