"""F_t(u) + F_t(u) = (F_t ⊕ F_t)(F_t(u))?"""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

PRINTED, CORRECTED, FFN, HEADS = (
    "F(u) + F(u) = (F ⊕ F)(F(u)), as printed",
    "F(u) + G(u) = (F ⊕ G)(u), one layer of both hidden layers side by side",
    "for feed-forward branches, with G ≠ F: twice the hidden width",
    "for attention branches, with G ≠ F: twice the heads",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Two branches beside each other as one of twice the hidden width, or twice the heads."""
    import sympy as sp
    import torch

    from paper_checks.shared.verdicts import proved

    u, a, b, c, d = sp.symbols("u a b c d", real=True)
    relu = sp.Function("relu")
    double = sp.expand(2 * (2 * u) - 2 * (2 * (2 * u)))  # F(u) = 2u, (F ⊕ F)(w) = 2F(w), w = F(u)
    wide = (sp.Matrix([[c, d]]) * sp.Matrix([relu(a * u), relu(b * u)]))[0]
    side = c * relu(a * u) + d * relu(b * u) - wide
    g = torch.Generator().manual_seed(context.seed)
    x, W1, W2, V1, V2 = (
        torch.randn(*s, generator=g, dtype=torch.float64)
        for s in ((5, 8), (8, 16), (8, 16), (16, 8), (16, 8))
    )
    two = torch.relu(x @ W1) @ V1 + torch.relu(x @ W2) @ V2
    one = torch.relu(x @ torch.cat([W1, W2], 1)) @ torch.cat([V1, V2], 0)
    # Q, K, V (8, 8) and O (8, 8) of two attentions of two heads each; heads lie side by side
    F, G = torch.randn(2, 4, 8, 8, generator=g, dtype=torch.float64)
    both = [torch.cat([a, b], 1) for a, b in zip(F[:3], G[:3], strict=True)]
    wider = _attention(x, *both, torch.cat([F[3], G[3]], 0), heads=4)
    heads = _attention(x, *F, heads=2) + _attention(x, *G, heads=2) - wider
    return (
        proved(PRINTED, double == 0, f"F(u) = 2u: left minus right is {double}"),
        proved(CORRECTED, sp.expand(side) == 0, "one hidden unit each, undefined activation"),
        proved(
            FFN,
            float((two - one).abs().max()) < 1e-12,
            f"largest difference {float((two - one).abs().max()):.1e}",
        ),
        proved(
            HEADS,
            float(heads.abs().max()) < 1e-12,
            f"largest difference {float(heads.abs().max()):.1e}",
        ),
    )


def _attention(x, Q, K, V, O, heads):  # type: ignore[no-untyped-def]  # noqa: E741
    """Softmax attention of (tokens, d) with heads of width 4."""
    q, k, v = ((x @ m).unflatten(1, (heads, 4)).transpose(0, 1) for m in (Q, K, V))
    mixed = (q @ k.mT / 2).softmax(-1) @ v
    return mixed.transpose(0, 1).flatten(1) @ O


CLAIM = Claim(
    name="norms-direct-sum",
    source="Pre/Post norm note, §1, 'Reason', second displayed equation, last line",
    statement="F_t(Norm(x_t)) + F_t(Norm(x_t)) = (F_t ⊕ F_t)(F_t(Norm(x_t))).",
    conditions="any branch; feed-forward with ReLU and softmax attention for the wide layer",
    recorded=(
        Ruling(PRINTED, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
        Ruling(FFN, Verdict.PROVED),
        Ruling(HEADS, Verdict.PROVED),
    ),
    finding=(
        "The last line applies F_t twice: its argument should be Norm(x_t), not "
        "F_t(Norm(x_t)). With that corrected it is exact, and "
        "for different branches too: two feed-forward branches that read the same input "
        "are one of twice the hidden width, two attention branches one of twice the heads."
    ),
    counterexample="F(u) = 2u, u = 1: the left side is 4, the right side 8.",
    corrected="F_t(Norm(x_t)) + F_{t+1}(Norm(x_t)) = (F_t ⊕ F_{t+1})(Norm(x_t)).",
    check=check,
    seconds=0.3,
)
