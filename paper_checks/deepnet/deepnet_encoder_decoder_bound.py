import math

from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.bench import Claim, Finding, Interval, Lab, Settings, numeric, once, torch
from paper_checks.shared.changes import directions, moved, scaled, sublayer_norms
from paper_checks.shared.engine import derive_selection
from paper_checks.shared.record import DEEPNET, REFUTED, SUPPORTED

CLAIM = Claim(
    name="deepnet-encoder-decoder-bound",
    source=f"{DEEPNET}, Theorem 4.3 and the goal of §4.3",
    statement="""‖ΔF‖ ≤ (Σ_{j≤M} v_d w_d/α_d) Σ_{i≤2N} √(v_e² + w_e²)/α_e ‖Δθ_{e,i}‖ + Σ_{j≤3M}
        √(v_d² + w_d²)/α_d ‖Δθ_{d,j}‖; with the published constants ‖ΔF‖ = Θ(η).""",
    conditions="""built encoder–decoder stacks, one depth varied from 16 to 144 and the other fixed,
        the bound at depths 1 to 8; text and Gaussian tokens, SGD on the matrices""",
    finding="""With the published constants the update is constant in both depths under SGD. But the
        encoder contributes little: its step alone changes the output by a thirteenth of the
        decoder's change (N = 16, M = 6). Its share falls with M with exponents −0.74 and −0.75.
        Independent directions, counted forward and back, give −3/4. Counting the amplification once
        and in the worst case, as the theorem does, keeps the encoder needlessly quiet. As an
        inequality for SGD steps the theorem fails by factors of 3.4 to 4.6 at width 32, like
        Theorem 4.2.""",
    counterexample="""N = M = 1, width 32, one SGD step: ‖ΔF‖ is 4.6 times the right side. One
        feed-forward sublayer with ΔV along hᵀ exceeds it already (see cake-update-bound).""",
    corrected="""‖ΔF‖ = Θ(η) in N and M under SGD; the encoder's own share is O(ηM^{−3/4}) at the
        published constants, since cross-attentions add up in independent directions, √M of them,
        forward and backward.""",
    seconds=(15.0, 34),
)

SELECTION = Selection("sgd", stack="encoder-decoder", method="lemma", closure="published")
RIVALS = (("no rule", 1.0), ("Adam's rule", -0.5))
DEPTHS = ((16, 48, 144), (16, 32, 64, 128))  # of the part that is varied
ALONE = "encoder stepped alone: exponent in M"


@CLAIM.stated("SGD at its constants: ‖ΔF‖/η does not grow with N", SUPPORTED)
def in_n(lab: Lab) -> Finding:
    cases = [{"N": n, "M": lab.pick(6, 12)} for n in lab.pick(*DEPTHS)]
    return lab.exponent(slopes(lab, cases), 0.0, RIVALS, what="exponent in N, M fixed")


@CLAIM.stated("SGD at its constants: ‖ΔF‖/η does not grow with M", SUPPORTED)
def in_m(lab: Lab) -> Finding:
    cases = [{"N": lab.pick(6, 12), "M": m} for m in lab.pick(*DEPTHS)]
    return lab.exponent(slopes(lab, cases), 0.0, RIVALS, what="exponent in M, N fixed")


@CLAIM.ours("the encoder's own share is Θ(η) in M, as its amplification is counted", REFUTED)
def share(lab: Lab) -> Finding:
    return lab.exponent(of_the_encoder(lab), 0.0, what=ALONE)


@CLAIM.stated("the bound itself, SGD steps", REFUTED)
def bound(lab: Lab) -> Finding:
    depths = ((1, 1), (4, 4), (8, 2), (2, 8))
    ratios = {f"N = {n}, M = {m}": over_the_bound(lab, {"N": n, "M": m}) for n, m in depths}
    largest = max(ratios.values())
    what = f"largest ‖ΔF‖ over the bound of Theorem 4.3: {largest:.2f}"
    return lab.seen(largest <= 1, what, ratios=ratios)


@CLAIM.correction(
    "the encoder's share falls no slower than M^{−3/4}: independent directions, there and back",
    SUPPORTED,
)
def independent(lab: Lab) -> Finding:
    sizes, depth = lab.small(seeds=32), {"N": 16, "M": 6}
    encoder, decoder = (sum(updates(sizes, depth, part)) for part in ("encoder", "decoder"))
    return lab.at_most(of_the_encoder(lab), -0.75, ALONE, over_decoder=encoder / decoder)


def slopes(
    lab: Lab, depths: list[dict[str, int]], part: str = "", seeds: int = 0, draws: int = 1
) -> dict[str, Interval]:
    """The exponent of ‖ΔF‖/η in the depth that is varied, by data."""
    found = {}
    for data in lab.pick(("text",), ("text", "gaussian:0.3")):
        s = lab.small(data=data, seeds=seeds or lab.pick(24, 32))
        values = lab.columns(updates(s, depth, part, draws) for depth in depths)
        found[data] = lab.power(lab.pick(*DEPTHS), values)
    return found


@once
def of_the_encoder(lab: Lab) -> dict[str, Interval]:
    """The exponent of the encoder's share in M.

    It varies more between seeds than the whole. A deep encoder, whose own branch weight,
    α_e ~ (N⁴M)^{1/16}, hardly bends the line.
    """
    return slopes(lab, [{"N": 24, "M": m} for m in lab.pick(*DEPTHS)], "encoder", seeds=48, draws=2)


def updates(s: Settings, depth: dict[str, int], part: str, draws: int = 1) -> tuple[float, ...]:
    """‖ΔF‖/η of every seed, all parts stepped or one alone."""
    chosen = (lambda d: d.part == part) if part else None
    case = numeric.Case(SELECTION, derive_selection(SELECTION).rule, depth, s)
    return numeric.measure_model_update(case, chosen=chosen, draws=draws)


def over_the_bound(lab: Lab, depth: dict[str, int]) -> float:
    """‖ΔF‖ of an SGD step over (Mv_dw_d/α_d) Σ_e + Σ_d, the worst token of all seeds."""
    rule = derive_selection(SELECTION).rule
    trial = numeric.Trial(numeric.Case(SELECTION, rule, depth, lab.small(dtype="float64")))
    changes, group = directions(trial, "gradient", 1e-5, scaled)
    delta = moved(trial, changes, [p for p, _ in group])
    decoder_alpha, decoder_beta = rule.entry("decoder", "*").at(**depth)
    limit = torch.zeros(())
    for part in ("encoder", "decoder"):
        alpha, beta = rule.entry(part, "*").at(**depth)
        amplified = depth["M"] * decoder_beta**2 / decoder_alpha if part == "encoder" else 1.0
        sizes = sublayer_norms(changes, [(p, d) for p, d in group if d.part == part])
        limit = limit + amplified * math.sqrt(2) * beta / alpha * sizes.sum(0)
    return float((delta.norm(dim=-1).flatten(1).amax(1) / limit).max())
