"""The attention sublayer obeys the same bound; heads do not matter."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LINEAR, INPUT, RANDOM, HEADS, HEADS_STEP, STEP, SCORES, LAW, OPERATOR = (
    "linear branch of h heads, Δθ independent: E‖·‖² ≤ (v² + w²)E‖Δθ‖²",
    "linear branch of h heads, Δx independent: E‖∂z/∂x Δx‖² = (α² + v²w²)‖Δx‖²",
    "real attention, Δθ in random directions: the mean token within the bound",
    "real attention: the change does not depend on the number of heads, random directions",
    "real attention: the change does not depend on the number of heads, SGD step",
    "real attention, Δθ an SGD step: within the bound",
    "the softmax's own derivative may be dropped: ∂Attn/∂x Δx is that of the fixed average",
    "SGD step of one sublayer and one token: the change exceeds the bound in proportion to √d",
    "SGD step of one sublayer: within ‖∂LN/∂z‖(‖hW‖‖ΔW_O‖₂ + ‖W_O‖₂‖ΔhW‖), h the head averages",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exact contraction for the linear branch; built attention sublayers stepped alone."""
    from deepnet_theory.spec.rule import own_rule
    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.streams import (
        DEEPNORM,
        ENCODER,
        bound_ratio,
        mean,
        np,
        power,
        settings,
    )
    from paper_checks.shared.verdicts import at_most, exponent, numbers, proved, seen, within

    bound, image, linear = _contracted()

    def attention(given):  # type: ignore[no-untyped-def]
        return given.role.value == "scaled" and given.kind == "attention"

    sgd, alone = Selection(optimizer="sgd"), Selection(optimizer="sgd", layer="attention")
    single = own_rule(ENCODER, "32**(1/4)", "128**(-1/4)")  # one sublayer of 16 DeepNorm layers
    heads = (1, 2, 4, 8)
    table, levels, random = {}, {}, {}
    for kind in ("random", "gradient"):
        for data in context.pick(("text", "gaussian:0"), ("text", "gaussian:0", "gaussian:0.5")):
            runs = [
                bound_ratio(
                    sgd,
                    DEEPNORM,
                    context.pick(4, 16),
                    settings(
                        context, dtype="float64", heads=h, data=data, seeds=context.pick(16, 32)
                    ),
                    kind,
                    attention,
                )
                for h in heads
            ]
            levels[kind, data] = power(heads, np.array([r[0] for r in runs]).T)
            table[kind, data, "stack"] = max(float(r[1].max()) for r in runs)
            given = settings(context, dtype="float64", data=data, seeds=context.pick(16, 64))
            lone = bound_ratio(alone, single, 1, given, kind)
            table[kind, data, "one sublayer"] = float(lone[1].max())
            if kind == "random":
                random[f"{data}, one sublayer"] = mean(lone[0])
                random[f"{data}, stack"] = mean(runs[-1][0])

    def in_width(tokens: int, data: str, widths: tuple[int, ...], seeds: int):  # type: ignore[no-untyped-def]
        """The exponent in d of the mean token's change over the bound, one sublayer stepped."""
        rows = []
        for d in widths:
            given = settings(
                context, dtype="float64", width=d, seeds=seeds, data=data, tokens=tokens
            )
            rows.append(bound_ratio(alone, single, 1, given, "gradient")[0])
        return power(widths, np.array(rows).T)

    wide = {
        f"{data}, 1 token": in_width(1, data, (64, 128, 256), 48) for data in ("text", "gaussian:0")
    }
    many = {
        f"{data}, {tokens} tokens": in_width(tokens, data, (32, 64, 128), 48)
        for data, tokens in context.pick(
            (), (("text", 16), ("text", 64), ("gaussian:0", 16), ("gaussian:0", 64))
        )
    }
    operator = {
        data: _operator(context, alone, single, data)
        for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5"))
    }
    scores = {
        (data, moved): _scores(context, alone, data, moved)
        for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5"))
        for moved in ("independently", "together")
    }

    def by_data(kind):  # type: ignore[no-untyped-def]
        return {data: s for (k, data), s in levels.items() if k == kind}

    def largest(kind):  # type: ignore[no-untyped-def]
        return max(s for (k, *_), s in table.items() if k == kind)

    return (
        proved(LINEAR, bound, f"E‖·‖² = {linear}; the heads' W_V side by side are one matrix"),
        proved(INPUT, image, "contraction over heads of width d_k = d/h"),
        at_most(
            RANDOM,
            random,
            1.0,
            "the mean token's change over the bound",
            tolerance=0.0,
            largest_of_any_token={", ".join(k): s for k, s in table.items()},
        ),
        exponent(
            HEADS, by_data("random"), 0.0, what="exponent in the number of heads, random directions"
        ),
        exponent(
            HEADS_STEP, by_data("gradient"), 0.0, what="exponent in the number of heads, SGD step"
        ),
        seen(
            STEP,
            largest("gradient") <= 1,
            f"largest over the bound, any token of any draw: {largest('gradient'):.2f}",
        ),
        within(
            SCORES,
            {f"{data}, tokens moved {moved}": i for (data, moved), i in scores.items()},
            0.0,
            0.05,
            "what the moving scores add to ‖ΔAttn‖, relative",
        ),
        exponent(
            LAW,
            wide,
            0.5,
            (("none", 0.0), ("d", 1.0)),
            what="SGD step: exponent of change over bound in width",
many_tokens={k: numbers(i) for k, i in many.items()},
        ),
        seen(
            OPERATOR,
            max(float(r.max()) for r in operator.values()) <= 1,
            "largest over that bound, any token of any draw: "
            f"{max(float(r.max()) for r in operator.values()):.2f}, mean "
            f"{max(float(r.mean()) for r in operator.values()):.2f}",
            mean={k: float(r.mean()) for k, r in operator.items()},
        ),
    )  # fmt: skip


def _contracted():  # type: ignore[no-untyped-def]
    """Whether both terms of h linear heads, Σ_s xW_V^s W_O^s, are as claimed, and the first."""
    import sympy as sp

    from deepnet_theory.symbolic.expectation import Gaussian, Index, Known, Tensor, expect

    a, v, w, p, q, norm = sp.symbols("alpha v w p q X", positive=True)
    h, width = sp.symbols("h d_k", integer=True, positive=True)
    d = h * width
    i, j, s, k = Index("i", d), Index("j", d), Index("s", h), Index("k", width)
    x, dx = Tensor("x", (d,), Gaussian(sp.Integer(1))), Tensor("Dx", (d,))
    Wv = Tensor("Wv", (d, h, width), Gaussian(v**2 / d))
    Wo = Tensor("Wo", (h, width, d), Gaussian(w**2 / d))
    dv, do = Tensor("Dv", (d, h, width), Gaussian(p)), Tensor("Do", (h, width, d), Gaussian(q))
    moved = (x[j] * dv[j, s, k] * Wo[s, k, i]).sum(j, s, k) + (
        x[j] * Wv[j, s, k] * do[s, k, i]
    ).sum(j, s, k)
    square = sp.expand(expect((moved * moved).sum(i)))
    gap = sp.expand((v**2 + w**2) * (p + q) * d**2 - square)
    bound = all(c > 0 for c in sp.Poly(gap, v, w, p, q, h, width).coeffs())
    z = a * dx[i] + (dx[j] * Wv[j, s, k] * Wo[s, k, i]).sum(j, s, k)
    known = (Known(norm, (dx[i] * dx[i]).sum(i), 2),)
    image = sp.expand(expect((z * z).sum(i), known) - (a**2 + v**2 * w**2) * norm**2)
    return bound, image == 0, sp.factor(square)


def _scores(context: Context, alone, data: str, moved: str):  # type: ignore[no-untyped-def]
    """‖ΔAttn − (fixed softmax) Δ(xW_V)W_O‖/‖ΔAttn‖ for a random change of the tokens."""
    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import PLAIN, mean, norms, settings, torch

    given = settings(context, dtype="float64", seeds=16, data=data)
    trial = Trial(Case(alone, PLAIN, {"N": 1}, given))
    branch, x = next(trial.model.residuals()).branch, trial.inputs[0]
    g = torch.Generator().manual_seed(context.seed)
    count = 1 if moved == "together" else x.shape[-2]
    dx = 1e-5 * torch.randn(*x.shape[:-2], count, x.shape[-1], generator=g, dtype=x.dtype)
    dx = dx.expand(x.shape)
    with torch.no_grad():
        whole = (branch(x + dx) - branch(x - dx)) / 2
        fixed = branch.output(_average(branch, x, branch.value(dx)))
    return mean((norms(whole - fixed) / norms(whole)).numpy())


def _average(branch, x, values):  # type: ignore[no-untyped-def]
    """The heads' averages of ``values`` with the softmax at ``x``, side by side."""
    q, k = branch.split(branch.query(x)), branch.split(branch.key(x))
    s = (q @ k.mT / branch.head_width**0.5).softmax(-1)
    return (s @ branch.split(values)).transpose(1, 2).reshape(x.shape)


def _operator(context: Context, alone, rule, data: str):  # type: ignore[no-untyped-def]
    """‖Δx_{l+1}‖ of every token over the bound with operator norms, (seeds, tokens)."""
    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import directions, moved, settings, torch

    given = settings(context, dtype="float64", seeds=context.pick(16, 64), data=data)
    trial = Trial(Case(alone, rule, {"N": 1}, given))
    changes, group = directions(
        trial, "gradient", 1e-5, lambda d: d.role.value == "scaled", given.seed
    )
    delta = moved(trial, changes, [p for p, _ in group]).norm(dim=-1)
    by_name = {d.name: (p, changes[id(p)]) for p, d in group}
    residual, x = next(trial.model.residuals()), trial.inputs[0]
    branch = residual.branch
    with torch.no_grad():
        heads = _average(branch, x, branch.value(x))
        moved_heads = _average(branch, x, x @ by_name["value"][1].mT.unsqueeze(1))
        z = residual.alpha * x + branch(x)
        slope = x.shape[-1] ** 0.5 / (z - z.mean(-1, keepdim=True)).norm(dim=-1)
        output, change = (torch.linalg.matrix_norm(y, 2).view(-1, 1, 1) for y in by_name["output"])
        bound = slope * (heads.norm(dim=-1) * change + output * moved_heads.norm(dim=-1))
    return (delta / bound).flatten(1)


CLAIM = Claim(
    name="cake-attention-bound",
    source="Transformer layer cake (AI推公式), §5.2",
    statement=(
        "‖Δx_{l+1}‖ ≤ ‖Δx_l‖ + √(v² + w²)/α ‖Δθ_l‖ for the attention sublayer too, with Attn "
        "= XW_VW_O; several heads are one W_V side by side."
    ),
    conditions=(
        "linear branch with variances v²/d, w²/d; built softmax attention with 1 to 8 heads, "
        "widths 32 to 256, text and Gaussian tokens, 1 to 64 of them; value and output matrices "
        "stepped"
    ),
    recorded=(
        Ruling(LINEAR, Verdict.PROVED),
        Ruling(INPUT, Verdict.PROVED),
        Ruling(RANDOM, Verdict.SUPPORTED),
        Ruling(HEADS, Verdict.SUPPORTED),
        Ruling(HEADS_STEP, Verdict.SUPPORTED),
        Ruling(STEP, Verdict.REFUTED),
        Ruling(SCORES, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(OPERATOR, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "For the linear branch xW_VW_O with independent Δθ and Δx both terms are proved, and the "
        "number of heads has no effect on real softmax attention at all (exponent 0 within "
        "0.02). For gradient steps the bound fails by up to a factor of seven at width 32; for one "
        "token the excess is proportional to √d, for many independent ones it grows more slowly. "
        "The substitution Attn = XW_VW_O loses something else: with query and key at gain 1 the "
        "scores' own response makes up 0.66 to 0.78 of the branch's change when tokens move "
        "independently, and 0.17 to 0.35 when they move together."
    ),
    counterexample=(
        "One token, d = 3, N = 1: x = (1, −2, 1)/√2, W_V = W_O = βI, a gradient step for a loss "
        "whose derivative at the output is along (1, 0, −1): ‖Δx_2‖ = √6 β/(α + β²) ‖Δθ‖ = "
        "0.94‖Δθ‖, above √2 β/α ‖Δθ‖ = 0.71‖Δθ‖ (α = 2^{1/4}, β = 8^{−1/4})."
    ),
    corrected=(
        "With operator norms, ‖∂LN/∂z‖(‖hW‖‖ΔW_O‖₂ + ‖W_O‖₂‖ΔhW‖), for the parameters; for Δx "
        "the scores' derivative has to be kept, since query and key have gain 1 and it is of "
        "the same order as the value path."
    ),
    check=check,
    seconds=4.0,
)
