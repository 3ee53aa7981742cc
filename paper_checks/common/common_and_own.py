from typing import TYPE_CHECKING

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Tensor, np, numeric, once, torch
from paper_checks.shared.engine import derive
from paper_checks.shared.record import SUPPORTED

if TYPE_CHECKING:
    from deepnet_theory.laboratory.trial import Case

CLAIM = Claim(
    name="common-and-own",
    source="this package, deepnet_theory.laboratory.one_sublayer",
    statement="""‖ΔF‖² = A + B/N: what the layers' steps have in common adds as N², what each does
        by itself as N. So where ‖ΔF‖ is derived to be constant in N it is so up to B/N.""",
    conditions="""Adam's rule under the closure `complete`, encoders of 4, 8, 16, 32 layers of width
        32 on text, 8 seeds; one step, and running Adam over 8 steps on fresh data, in full also
        over 32 on fresh and on repeated data; η so small that F is linear""",
    finding="""The layers' own part is 4.3, 2.1, 1.0 and 0.5 % of ‖ΔF‖² at 4, 8, 16 and 32 layers
        after one step and 3.1, 1.4, 0.7 and 0.3 % after eight on fresh data: as 1/N. The squares of
        single layers are 28, 14, 7.2 and 3.6 %, but 1/N of ‖ΔF‖² is theirs where all layers are
        alike, too. It makes 8 layers move 1 % further than 32. Single sublayers predict that 32
        layers move 0.98 of what 8 do; measured are 0.99 [0.97, 1.01] after one step and 0.99 [0.97,
        1.00] after eight. A ratio of 0.95 lies outside of both; one seed scatters by 0.02.""",
    seconds=(30, 120),
)
LAYERS = (4, 8, 16, 32)
ETA = 2.0**-14


@CLAIM.stated("the part that each layer has for itself falls as 1/N beside the other", SUPPORTED)
def own(lab: Lab) -> Finding:
    odds = {name: lab.power(LAYERS, of / (1 - of)) for name, (of, _, _) in found(lab).items()}
    half = 0.25  # of the distance to the next power of 1/√N
    return lab.within(odds, -1 - half, -1 + half, "exponent in N of (B/N)/A", of=told(lab))


@CLAIM.ours("it is less than 1/10 at 4 layers, most of whose squares are in common", SUPPORTED)
def least(lab: Lab) -> Finding:
    shares = {name: lab.mean(of[:, 0]) for name, (of, _, _) in found(lab).items()}
    return lab.within(shares, 0.01, 0.1, "B/N over ‖ΔF‖² at 4 layers")


@CLAIM.ours("32 layers move as much less than 8 as single sublayers predict", SUPPORTED)
def less(lab: Lab) -> Finding:
    at = LAYERS[1], LAYERS[-1]
    sizes = [numeric.predict_depth(case(lab, n))["all"].mean for n in at]
    of = {name: lab.power(at, size[:, [1, -1]]) for name, (*_, size) in found(lab).items()}
    return lab.exponent(of, lab.slope(at, sizes), what="exponent of ‖ΔF‖", sizes=sizes)


def told(lab: Lab) -> dict[str, dict[str, object]]:
    """Shares by depth, those of single layers' squares, and ‖ΔF‖ at 32 layers over that at 8."""
    return {
        name: {
            "own": own.mean(0).tolist(),
            "squares": squares.mean(0).tolist(),
            "32 over 8": lab.numbers(lab.mean(size[:, -1] / size[:, 1])),
        }
        for name, (own, squares, size) in found(lab).items()
    }


@once
def found(lab: Lab) -> dict[str, tuple[Array, Array, Array]]:
    """Of each condition the share B/N of ‖ΔF‖², that of single layers' squares, and ‖ΔF‖."""
    conditions = {"one step": (1, True), "8 steps, fresh data": (8, True)}
    if lab.full:
        conditions |= {"32 steps, fresh data": (32, True), "32 steps, repeated": (32, False)}
    measured = {}
    for name, (steps, fresh) in conditions.items():
        depths = [parts(case(lab, n), steps, fresh) for n in LAYERS]
        share, squares, size = (lab.columns(of) for of in zip(*depths, strict=True))
        measured[name] = share, squares, size
    return measured


def case(lab: Lab, layers: int) -> "Case":
    derived = derive(optimizer="adam", closure="complete")
    settings = lab.small(dtype="float64")
    return numeric.Case(derived.selection, derived.rule, {"N": layers}, settings)


def parts(of: "Case", steps: int, fresh: bool) -> tuple[Array, Array, Array]:
    """B/N and Σ‖ΔF_l‖² over ‖ΔF‖², and ‖ΔF‖/η, after steps of Adam: (seeds,) each."""
    trial, layers = numeric.Trial(of), dict[object, list[numeric.Direction]]()
    own, first = trial.parameters(), trial.batch
    start = [p.detach().clone() for p, _ in own]
    rates = [{"params": [p], "lr": ETA * trial.rate(p)} for p, _ in own]
    optimizer = torch.optim.Adam(rates, eps=1e-20)
    for step in range(steps):
        with numeric.only(trial.model, [p for p, _ in own]):
            trial.loss(trial.output()).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if fresh:
            trial.see(numeric.draw_batch(of.settings, trial.seeds, 1, 1000 + step))
    trial.see(first)
    for (p, d), old in zip(own, start, strict=True):
        layers.setdefault(d.layer, []).append((p, d, (p.detach() - old) / ETA))
        p.copy_(old)
    each = torch.stack([numeric.change_along(trial, step) for step in layers.values()])
    whole = each.sum(0).square().sum(-1).flatten(1).mean(1)
    squares = each.square().sum((0, -1)).flatten(1).mean(1)
    own_part = apart(squares, whole, len(each)) / whole
    return np.asarray(own_part), np.asarray(squares / whole), np.asarray(whole.sqrt())


def apart(squares: Tensor, whole: Tensor, layers: int) -> Tensor:
    """B/N: the squares of single layers less N⟨ΔF_l, ΔF_m⟩, what is in common of them."""
    return squares - (whole - squares) / (layers - 1)
