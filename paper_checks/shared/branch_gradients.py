"""What the feed-forward and the attention gradient share: one kind of branch, knob by knob."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_checks.shared.bench import Claim, Finding, Lab, once
from paper_checks.shared.fitting import mean, power, powers
from paper_checks.shared.later import Array, np, torch
from paper_checks.shared.record import MARGIN, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, backward

if TYPE_CHECKING:
    from paper_checks.shared.numeric import Interval, Settings

Point = tuple[float, float, float]  # λ of the first matrix, λ of the second, α
KNOBS = ("λ₁", "λ₂", "α")
POWERS = ((0.0, 1.0, -1.0), (1.0, 0.0, -1.0))  # of ∂L/∂λ₁ and ∂L/∂λ₂ in λ₁, λ₂ and α
SMALL = tuple(itertools.product((0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (16.0, 32.0, 64.0)))
GAINS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # branch weights from 1/64 to 64


@dataclass(frozen=True)
class Branch:
    """One kind of branch and the names of its two scaled matrices."""

    layer: str
    first: str
    second: str

    @property
    def names(self) -> tuple[str, str]:
        """Both matrices."""
        return self.first, self.second

    def gradients(self, points: Sequence[Point], depth: int, s: Settings) -> dict[str, Array]:
        """‖∂L/∂W‖ and |∂L/∂λ| of both matrices (rms over layers): (seeds, points) each."""
        columns: dict[str, list[Array]] = {}
        for one, two, alpha in points:
            gain = {self.first: one, self.second: two}
            p = self.backward(gain, alpha, depth, s)
            for name, lam in gain.items():
                sizes = torch.stack([g.norm() for g in p.of(name)]).double()
                probes = torch.stack([g.probe() for g in p.of(name)]).double() / lam
                columns.setdefault(f"gradient {name}", []).append(sizes.norm(dim=0).numpy())
                columns.setdefault(f"probe {name}", []).append(probes.norm(dim=0).numpy())
        return {key: np.stack(found, axis=1) for key, found in columns.items()}

    def backward(self, gain: dict[str, float], alpha: float, depth: int, s: Settings) -> Pass:
        """One pass with the matrices scaled by ``gain``."""
        net = Net(alpha=repr(alpha), layer=self.layer)
        return backward(net.trial(depth, s, lambda d: gain.get(d.name, 1.0)))

    def exponents(self, lab: Lab, conditions: Mapping[str, Settings]) -> dict[str, Fits]:
        """The exponents in λ₁, λ₂ and α where r = λ₁λ₂/α ≤ 1/16, of gradients and of probes."""
        fits: dict[str, Fits] = {"gradient": {}, "probe": {}}
        for label, s in conditions.items():
            found = self.gradients(SMALL, lab.pick(4, 16), s)
            for kind, kept in fits.items():
                for name in self.names:
                    keys = [f"{kind} of {name} in {knob}, {label}" for knob in KNOBS]
                    kept |= zip(keys, powers(SMALL, found[f"{kind} {name}"]), strict=True)
        return fits

    def predicted(self, fits: Fits) -> dict[str, float]:
        """The exponents of Su's relation, under the labels of ``fits``."""
        every = (p for powers in POWERS for p in powers)
        return dict(zip(fits, itertools.cycle(every), strict=False))

    def ratios(self, s: Settings) -> dict[str, Array]:
        """‖∂L/∂W‖·α/λ of one sublayer over that at the smallest weight: (seeds, gains)."""
        found = self.gradients([(lam, lam, 1.0) for lam in GAINS], 1, s)
        ratio = {name: found[f"gradient {name}"] / np.array(GAINS) for name in self.names}
        return {name: values / values[:, :1] for name, values in ratio.items()}

    def size(self, s: Settings) -> Array:
        """Each seed's rms of the branch with its gains taken out, beside an input of rms 1."""
        p = backward(Net(layer=self.layer).trial(1, s))
        return p.branches[0].pow(2).flatten(1).mean(dim=1).sqrt().numpy()


Fits = dict[str, "Interval"]


@dataclass(frozen=True)
class AnyWeight:
    """One sublayer at branch weights from 1/64 to 64.

    ``plain`` is ‖∂L/∂W‖·α/λ against its value at weight 1/64, ``fixed`` the same with
    √(α² + c²λ₁²λ₂²) in place of α, ``heavy`` its exponent in weights of 4 to 64.
    """

    plain: Fits
    fixed: Fits
    heavy: Fits


def at_any_weight(lab: Lab, branch: Branch) -> AnyWeight:
    """The law is one of wide networks: su-ffn-gradient measures its error by width."""
    s, lams = lab.settings(width=64, tokens=32, seeds=64), np.array(GAINS)
    ratio = branch.ratios(s)
    corrected = np.sqrt(1 + branch.size(s)[:, None] ** 2 * lams**4)

    def by_weight(factor: Array) -> Fits:
        return {
            f"{name}, branch weight {lam * lam:g}": mean(column)
            for name, values in ratio.items()
            for lam, column in zip(GAINS, (values * factor).T, strict=True)
        }

    heavy = {n: power(lams[lams > 1] ** 2, v[:, lams > 1]) for n, v in ratio.items()}
    return AnyWeight(by_weight(np.ones(len(GAINS))), by_weight(corrected), heavy)


def judge_branch(
    claim: Claim, branch: Branch, conditions: Callable[[Lab], Mapping[str, Settings]]
) -> None:
    """The parts of Su's relation that are the same for both kinds of branch."""
    what = "‖∂L/∂W‖·α/λ against its value at branch weight 1/64"

    @once
    def scanned(lab: Lab) -> dict[str, Fits]:
        return branch.exponents(lab, conditions(lab))

    @once
    def weighted(lab: Lab) -> AnyWeight:
        return at_any_weight(lab, branch)

    @claim.stated("order of ‖∂L/∂W‖ for a small branch weight", SUPPORTED)
    def order(lab: Lab) -> Finding:
        found = scanned(lab)["gradient"]
        return lab.exponent(found, branch.predicted(found))

    @claim.stated("order of |∂L/∂λ| for a small branch weight", SUPPORTED)
    def probe(lab: Lab) -> Finding:
        found = scanned(lab)["probe"]
        return lab.exponent(found, branch.predicted(found))

    @claim.stated("as a bound, at any branch weight", SUPPORTED)
    def bound(lab: Lab) -> Finding:
        return lab.at_most(weighted(lab).plain, 1.0, what)

    @claim.ours("as an order (Θ) it fails where the branch is not small", SUPPORTED)
    def exact(lab: Lab) -> Finding:
        exponent = "its exponent in branch weights of 4 to 64"
        return lab.at_most(weighted(lab).heavy, -MARGIN, exponent, 0.0)

    @claim.ours(
        "with √(α² + c²λ₁²λ₂²) in place of α, for one sublayer at any branch weight", SUPPORTED
    )
    def law(lab: Lab) -> Finding:
        return lab.within(weighted(lab).fixed, 1 - MARGIN, 1 + MARGIN, f"{what}, by the law")
