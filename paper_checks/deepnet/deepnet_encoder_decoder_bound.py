"""Theorem 4.3: the bound for encoder–decoder stacks, and ‖ΔF‖ = Θ(η) in N and in M."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

IN_N, IN_M, ENCODER, STEP, LEVEL = (
    "SGD at its constants: ‖ΔF‖/η does not grow with N",
    "SGD at its constants: ‖ΔF‖/η does not grow with M",
    "the encoder's own share is Θ(η) in M, as its amplification is counted",
    "the bound itself, SGD steps",
    "the encoder's share falls no slower than M^{−3/4}: independent directions, there and back",
)


def check(context: Context) -> tuple[Finding, ...]:
    """SGD steps of built encoder–decoder stacks, the parts stepped together and alone."""
    from dataclasses import replace

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from paper_checks.shared.laboratory import Case, measure_model_update
    from paper_checks.shared.streams import np, power, settings
    from paper_checks.shared.verdicts import at_most, exponent, numbers, seen

    selection = Selection(optimizer="sgd", stack="encoder-decoder", method="lemma")
    rule = derive(selection).rule
    sizes = context.pick((16, 48, 144), (16, 32, 64, 128))
    fixed = context.pick(6, 12)

    def measured(depth, given, share, draws=1):  # type: ignore[no-untyped-def]
        chosen = None if share == "all" else (lambda d: d.part == share)
        return measure_model_update(
            Case(selection, rule, depth, given), chosen=chosen, draws=draws
        ).values

    slopes, levels = {}, {}
    for data in context.pick(("text",), ("text", "gaussian:0.3")):
        given = settings(context, data=data, seeds=context.pick(24, 32))
        tables = {
            ("all", "N"): [measured({"N": n, "M": fixed}, given, "all") for n in sizes],
            ("all", "M"): [measured({"N": fixed, "M": m}, given, "all") for m in sizes],
            # The encoder's share varies more between seeds than the whole. A deep encoder,
            # whose own branch weight, α_e ~ (N⁴M)^{1/16}, hardly bends the line.
            ("encoder", "M"): [
                measured({"N": 24, "M": m}, replace(given, seeds=48), "encoder", 2) for m in sizes
            ],
        }
        for (share, variable), table in tables.items():
            slopes[share, variable, data] = power(sizes, np.array(table).T)
            levels[f"{share} in {variable}, {data}"] = [float(np.mean(row)) for row in table]
    ratios = _bound(context, selection, rule)
    given = settings(context, seeds=32)
    alone = [
        float(np.mean(measured({"N": 16, "M": 6}, given, share)))
        for share in ("encoder", "decoder")
    ]
    part = alone[0] / alone[1]
    shown = {f"{s} in {v}, {d}": numbers(i) for (s, v, d), i in slopes.items()}

    def by_data(share, variable):  # type: ignore[no-untyped-def]
        return {d: i for (s, v, d), i in slopes.items() if (s, v) == (share, variable)}

    return (
        exponent(
            IN_N,
            by_data("all", "N"),
            0.0,
            (("no rule", 1.0), ("Adam's rule", -0.5)),
            what="exponent in N, M fixed",
            slopes=shown,
            levels=levels,
            sizes=list(sizes),
        ),
        exponent(
            IN_M,
            by_data("all", "M"),
            0.0,
            (("no rule", 1.0), ("Adam's rule", -0.5)),
            what="exponent in M, N fixed",
        ),
        exponent(
            ENCODER, by_data("encoder", "M"), 0.0, what="encoder stepped alone: exponent in M"
        ),
        seen(
            STEP,
            max(ratios.values()) <= 1,
            f"largest ‖ΔF‖ over the bound of Theorem 4.3: {max(ratios.values()):.2f}",
            **{"by depth": ratios},
        ),
        at_most(
            LEVEL,
            by_data("encoder", "M"),
            -0.75,
            "encoder stepped alone: exponent in M",
            over_decoder=part,
        ),
    )


def _bound(context: Context, selection, rule) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """‖ΔF‖ of an SGD step over (Mv_dw_d/α_d) Σ_e + Σ_d, the worst token of all seeds."""
    import math

    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import directions, moved, settings, sublayer_norms

    worst = {}
    for depth in ({"N": 1, "M": 1}, {"N": 4, "M": 4}, {"N": 8, "M": 2}, {"N": 2, "M": 8}):
        trial = Trial(Case(selection, rule, depth, settings(context, dtype="float64")))
        changes, group = directions(trial, "gradient", 1e-5, lambda d: d.role.value == "scaled")
        delta = moved(trial, changes, [p for p, _ in group])
        total = 0.0
        alpha_d, beta_d = rule.entry("decoder", "*").at(**depth)
        for part in ("encoder", "decoder"):
            alpha, beta = rule.entry(part, "*").at(**depth)
            own = [(p, d) for p, d in group if d.part == part]
            factor = depth["M"] * beta_d**2 / alpha_d if part == "encoder" else 1.0
            total = total + factor * math.sqrt(2) * beta / alpha * sublayer_norms(changes, own).sum(
                0
            )
        label = ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
        worst[label] = float((delta.norm(dim=-1).flatten(1).amax(1) / total).max())
    return worst


CLAIM = Claim(
    name="deepnet-encoder-decoder-bound",
    source="DeepNet, arXiv 2203.00555, Theorem 4.3 and the goal of §4.3",
    statement=(
        "‖ΔF‖ ≤ (Σ_{j≤M} v_d w_d/α_d) Σ_{i≤2N} √(v_e² + w_e²)/α_e ‖Δθ_{e,i}‖ + Σ_{j≤3M} "
        "√(v_d² + w_d²)/α_d ‖Δθ_{d,j}‖; with the published constants ‖ΔF‖ = Θ(η)."
    ),
    conditions=(
        "built encoder–decoder stacks, one depth varied from 16 to 144 and the other fixed, the "
        "bound at depths 1 to 8; text and Gaussian tokens, SGD on the matrices"
    ),
    recorded=(
        Ruling(IN_N, Verdict.SUPPORTED),
        Ruling(IN_M, Verdict.SUPPORTED),
        Ruling(ENCODER, Verdict.REFUTED),
        Ruling(STEP, Verdict.REFUTED),
        Ruling(LEVEL, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "With the published constants the update is constant in both depths under SGD. But the "
        "encoder plays a small part in it: stepped alone it moves the output by a thirteenth of "
        "what the decoder does (N = 16, M = 6), and its share falls with M with exponents −0.74 "
        "and −0.75, no slower than the −3/4 of independent directions counted on the way forward "
        "and back. Counting the amplification once and in the worst case, as the theorem does, "
        "keeps the encoder needlessly quiet. As an inequality for SGD steps the theorem fails by "
        "factors of 3.4 to 4.6 at width 32, like Theorem 4.2."
    ),
    counterexample=(
        "N = M = 1, width 32, one SGD step: ‖ΔF‖ is 4.6 times the right side. One feed-forward "
        "sublayer with ΔV along hᵀ exceeds it already (see cake-update-bound)."
    ),
    corrected=(
        "‖ΔF‖ = Θ(η) in N and M under SGD; the encoder's own share is O(ηM^{−3/4}) at the "
        "published constants, since cross-attentions add up in independent directions, √M of "
        "them, forward and backward."
    ),
    check=check,
    seconds=15.0,
    full_seconds=34,
)
