"""Theorem 4.3: the bound for encoder–decoder stacks, and ‖ΔF‖ = Θ(η) in N and in M."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

IN_N, IN_M, ENCODER, STEP, LEVEL = (
    "SGD at its constants: ‖ΔF‖/η does not grow with N",
    "SGD at its constants: ‖ΔF‖/η does not grow with M",
    "the encoder's own share is Θ(η) in M, as its amplification is counted",
    "the bound itself, SGD steps",
    "the encoder's share falls as M^{−3/4}: independent directions, forward and backward",
)


def check(context: Context) -> tuple[Finding, ...]:
    """SGD steps of built encoder–decoder stacks, the parts stepped together and alone."""
    from deepnet_theory.numeric.model_update import measure_model_update
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from paper_checks._cake_measure import np, power, settings
    from paper_checks._verdicts import exponent, seen

    selection = Selection(optimizer="sgd", stack="encoder-decoder", method="lemma")
    rule = derive(selection).rule
    sizes = context.pick((16, 48, 144), (16, 32, 64, 128))
    fixed = context.pick(6, 12)
    slopes, levels = {}, {}
    for data in context.pick(("text",), ("text", "gaussian:0.3")):
        # the encoder's share varies more between seeds than the whole
        for share in ("all", "encoder", "decoder"):
            given = settings(context, data=data, seeds=48 if share == "encoder" else 32)
            chosen = None if share == "all" else (lambda d, s=share: d.part == s)
            for variable in ("N", "M"):
                table = []
                for size in sizes:
                    depth = {"N": size, "M": fixed} if variable == "N" else {"N": fixed, "M": size}
                    draws = 4 if (share, variable) == ("encoder", "M") else 1
                    found = measure_model_update(
                        selection, rule, depth, given, chosen=chosen, draws=draws
                    )
                    table.append(found.values)
                slopes[share, variable, data] = power(sizes, np.array(table).T)
                levels[f"{share} in {variable}, {data}"] = [float(np.mean(t)) for t in table]
    ratio = _bound(context, selection, rule)
    part = levels["encoder in N, text"][0] / levels["decoder in N, text"][0]
    shown = {f"{s} in {v}, {d}": [i.estimate, i.low, i.high] for (s, v, d), i in slopes.items()}

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
        seen(STEP, ratio <= 1, f"largest ‖ΔF‖ over the bound of Theorem 4.3: {ratio:.2f}"),
        exponent(
            LEVEL,
            by_data("encoder", "M"),
            -0.75,
            (("published", 0.0), ("worst case", 0.25)),
            what="encoder stepped alone: exponent in M",
            over_decoder=part,
        ),
    )


def _bound(context: Context, selection, rule) -> float:  # type: ignore[no-untyped-def]
    """‖ΔF‖ of an SGD step over (Mv_dw_d/α_d) Σ_e + Σ_d, the worst token of all seeds."""
    import math

    from deepnet_theory.numeric.trial import Trial
    from paper_checks._cake_measure import directions, moved, settings, sublayer_norms

    worst = 0.0
    for depth in ({"N": 4, "M": 4}, {"N": 8, "M": 2}, {"N": 2, "M": 8}):
        trial = Trial(selection, rule, depth, settings(context, dtype="float64"))
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
        worst = max(worst, float((delta.norm(dim=-1).flatten(1).amax(1) / total).max()))
    return worst


CLAIM = Claim(
    name="deepnet-encoder-decoder-bound",
    source="DeepNet, arXiv 2203.00555, Theorem 4.3 and §4.2",
    statement=(
        "‖ΔF‖ ≤ (Σ_{j≤M} v_d w_d/α_d) Σ_{i≤2N} √(v_e² + w_e²)/α_e ‖Δθ_{e,i}‖ + Σ_{j≤3M} "
        "√(v_d² + w_d²)/α_d ‖Δθ_{d,j}‖; with the published constants ‖ΔF‖ = Θ(η)."
    ),
    conditions=(
        "built encoder–decoder stacks, one depth varied from 4 to 128 and the other fixed, "
        "text and Gaussian tokens, SGD on the matrices"
    ),
    recorded=(
        Ruling(IN_N, Verdict.SUPPORTED),
        Ruling(IN_M, Verdict.SUPPORTED),
        Ruling(ENCODER, Verdict.REFUTED),
        Ruling(STEP, Verdict.REFUTED),
        Ruling(LEVEL, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "With the published constants the update is constant in both depths under SGD. But "
        "the encoder plays a small part in it: stepped alone it moves the output by a "
        "twelfth of what the decoder does, and its share falls with M with exponent −3/4. "
        "That is what independent directions counted on the way forward and back give; "
        "counting the amplification once and in the worst case, as the theorem does, keeps "
        "the encoder needlessly quiet. As an inequality for SGD steps the theorem fails by a "
        "factor of four at width 32, like Theorem 4.2."
    ),
    counterexample=(
        "N = M = 4, width 32, one SGD step: ‖ΔF‖ is several times the right side. One "
        "feed-forward sublayer with ΔV along hᵀ exceeds it already (see cake-update-bound)."
    ),
    corrected=(
        "‖ΔF‖ = Θ(η) in N and M under SGD; the encoder's own share is Θ(ηM^{−3/4}) at the "
        "published constants, since cross-attentions add up in independent directions, √M of "
        "them, forward and backward."
    ),
    check=check,
    seconds=8.0,
)
