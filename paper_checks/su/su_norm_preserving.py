from __future__ import annotations

from typing import Any

from paper_checks.shared.bench import Claim, Finding, Lab, judge, numeric, once, torch
from paper_checks.shared.record import MARGIN, REFUTED, RETOLD, SUPPORTED
from paper_checks.shared.stacks import Net, norms

CLAIM = Claim(
    name="su-norm-preserving",
    source=f"{RETOLD}, §2 Magnitude analysis, grey box",
    statement="‖xW‖ = λ‖xU‖ ≈ λ‖x‖: W changes the length of a vector by the factor λ.",
    conditions="""all six matrices of post-LN stacks at initialisation, 8 to 128 layers, text and
        Gaussian tokens""",
    finding="""At initialisation every matrix of a stack multiplies the length of its input by
        gain·√(2m/(d+m)), within 2 % on average at any depth, kind and data. That is the gain for
        square matrices, 1.26 times the gain for d → 4d and 0.63 times for 4d → d. This is a
        statement about inputs that do not depend on W; for others the factor runs from 0 to 2 gain.
        So the sentence holds with λ the gain, for square matrices; the argmin's λ(W), the
        definition of λ, overstates it by √2.""",
    counterexample="d = m = 2, W = diag(2, 0): λ(W) = 2, but ‖xW‖ = 0 for x = (0, 1).",
    corrected="""For an x that does not depend on W ∈ R^{d×m} (Xavier, gain λ): E‖xW‖² =
        λ²·2m/(d+m)·‖x‖²; the factor is λ for square matrices, and the argmin's λ(W) is √2 times too
        large.""",
)

SQUARE = ("query", "key", "value", "output")


@judge
def over(lab: Lab, which: int, what: str, names: tuple[str, ...], wanted: float = 1.0) -> Finding:
    """The factor over the argmin's λ (0) or over the law (1), of the matrices called so."""
    found = {
        f"{name}, {label}": lab.mean(factors[name][:, which].numpy())
        for label, (_, factors) in measured(lab).items()
        for name in names
    }
    what = f"‖xW‖/‖x‖ over {what}, mean over layers and seeds"
    return lab.within(found, wanted * (1 - MARGIN), wanted * (1 + MARGIN), what)


CLAIM.stated("with λ the argmin", REFUTED)(over(0, "λ(W)", SQUARE))
CLAIM.stated("with λ the gain, square matrices and the x that a stack presents", SUPPORTED)(
    over(1, "the gain", SQUARE)
)


@CLAIM.ours("for every x", REFUTED)
def every(lab: Lab) -> Finding:
    stretches = [stretch for stretch, _ in measured(lab).values()]
    most, least = (float(f(torch.stack(stretches))) for f in (torch.max, torch.min))
    return lab.seen(
        least > 1 - MARGIN and most < 1 + MARGIN,
        f"along its first singular vector ‖xW‖ is {most:.2f} gain·‖x‖, along its last {least:.1g}",
    )


CLAIM.correction(
    "with gain·√(2m/(d+m)) in place of λ, for the x that a stack presents at initialisation",
    SUPPORTED,
)(over(1, "the law", (*SQUARE, "fc1", "fc2")))
CLAIM.correction("the factor of a square matrix is the argmin's λ(W) over √2", SUPPORTED)(
    over(0, "λ(W)", SQUARE, 0.5**0.5)
)


@once
def measured(lab: Lab) -> dict[str, tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """Of stacks by condition: the least and largest stretch over the gain, and the factors."""
    conditions: dict[str, dict[str, Any]] = {"text": {}, "independent": {"data": "gaussian:0"}}
    if lab.full:
        conditions["text, width 128"] = {"width": 128, "seeds": 4}
    nets, found = (Net(), Net("(2*N)**(1/4)", "(2*N)**(-1/4)")), {}
    for depth in lab.pick((8, 32), (8, 32, 128)):
        for label, other in conditions.items():
            for net in nets:
                trial = net.trial(depth, lab.settings(**{"width": 64, "seeds": 16, **other}))
                value, d = next(one for one in trial.parameters() if one[1].name == "value")
                stretch = torch.linalg.svdvals(value.detach() / d.gain)
                ends = torch.stack([stretch.min(), stretch.max()])
                found[f"{depth} layers, {label}, beta = {net.beta}"] = ends, factors_of(trial)
    return found


def factors_of(trial: numeric.Trial) -> dict[str, torch.Tensor]:
    """By matrix the rms of ‖xW‖/‖x‖ over the argmin's λ and the law, of every layer and seed."""
    found: dict[str, list[torch.Tensor]] = {}

    def see(module: Any, given: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        w, d = module.weight, module.descriptions["weight"]  # w is (k, m, d)
        argmin = norms(w @ w.mT) / norms(w)
        law = d.gain * (2 * d.fan_out / (d.fan_in + d.fan_out)) ** 0.5
        factor = (out.norm(dim=-1) / given[0].norm(dim=-1)).square().flatten(1).mean(1).sqrt()
        found.setdefault(d.name, []).append(torch.stack([factor / argmin, factor / law], dim=1))

    linear = [m for m in trial.model.parts.modules() if isinstance(m, numeric.Linear)]
    handles = [m.register_forward_hook(see) for m in linear]
    trial.output()
    for handle in handles:
        handle.remove()
    return {name: torch.cat(rows) for name, rows in found.items()}
