"""The EncoderLayer given in the note equals the builder's plain post-LN layer."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

EQUAL, TORCH, DROPOUT, INNER = (
    "the same weights give the same output, evaluation mode",
    "torch.nn.TransformerEncoderLayer agrees as well",
    "dropout leaves the branch's mean over masks, within 5 %",
    "dropout acts on the output of attention and of the feed-forward, never on the identity",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The note's class transcribed, a built layer, and torch's own, on one set of weights."""
    import torch
    from torch import nn

    from deepnet_theory.runtime import (
        Architecture,
        Constants,
        PartConstants,
        SublayerConstants,
        build,
    )
    from paper_checks.shared.verdicts import MARGIN, seen

    def constants(dropout: float) -> Constants:
        kinds = tuple(SublayerConstants(k, 1.0, 1.0) for k in ("attention", "ffn"))
        return Constants(
            stack="encoder", placement="post-ln", norm="layer",
            parts=(PartConstants("encoder", 1, False, kinds),),
            architecture=Architecture(width=16, heads=4, vocab=11, dropout=dropout),
        )  # fmt: skip

    class NoteLayer(nn.Module):
        """attention → dropout → add → norm, feed-forward → dropout → add → norm."""

        def __init__(self, d: int, hidden: int, heads: int, p: float) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(d, heads, batch_first=True)
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.dropout1, self.dropout2 = nn.Dropout(p), nn.Dropout(p)
            self.ffn = nn.Sequential(
                nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(p), nn.Linear(hidden, d)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = x
            x = self.attention(x, x, x, need_weights=False)[0]
            x = self.dropout1(x)
            x = self.norm1(x + kept)
            kept = x
            x = self.ffn(x)
            x = self.dropout2(x)
            return self.norm2(x + kept)

    worst = {"note": 0.0, "torch": 0.0}
    for seed in range(context.pick(2, 8)):
        for length in context.pick((5,), (1, 5, 40)):
            g = torch.Generator().manual_seed(97 * context.seed + seed)
            model = build(constants(0.0), generator=g, dtype=torch.float64).eval()
            attention, ffn = model.residuals()
            with torch.no_grad():
                for p in model.parameters():  # gains and biases away from 1 and 0
                    if p.dim() == 1:
                        p.add_(0.3 * torch.randn(p.shape, generator=g, dtype=p.dtype))
            note = NoteLayer(16, 64, 4, 0.1).double().eval()
            reference = nn.TransformerEncoderLayer(
                16, 4, 64, 0.1, batch_first=True, dtype=torch.float64
            ).eval()
            with torch.no_grad():
                for layer, linear1, linear2, own in (
                    (note, note.ffn[0], note.ffn[3], note.attention),
                    (reference, reference.linear1, reference.linear2, reference.self_attn),
                ):
                    b = attention.branch
                    own.in_proj_weight.copy_(
                        torch.cat([b.query.weight, b.key.weight, b.value.weight])
                    )
                    own.in_proj_bias.copy_(torch.cat([b.query.bias, b.key.bias, b.value.bias]))
                    (
                        own.out_proj.weight.copy_(b.output.weight),
                        own.out_proj.bias.copy_(b.output.bias),
                    )
                    (
                        linear1.weight.copy_(ffn.branch.fc1.weight),
                        linear1.bias.copy_(ffn.branch.fc1.bias),
                    )
                    (
                        linear2.weight.copy_(ffn.branch.fc2.weight),
                        linear2.bias.copy_(ffn.branch.fc2.bias),
                    )
                    for target, source in (
                        (layer.norm1, attention.norms[0]),
                        (layer.norm2, ffn.norms[0]),
                    ):
                        target.weight.copy_(source.gain), target.bias.copy_(source.bias)
                x = torch.randn(3, length, 16, generator=g, dtype=torch.float64)
                built = model.body(x)
                worst["note"] = max(worst["note"], float((note(x) - built).abs().max()))
                worst["torch"] = max(worst["torch"], float((reference(x) - built).abs().max()))
    # all dropped, the layer is norm(norm(x)); without its identity it would be constant
    dropped = build(
        constants(0.999999), generator=torch.Generator().manual_seed(3), dtype=torch.float64
    ).train()
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    identity = torch.nn.functional.layer_norm(torch.nn.functional.layer_norm(x, (16,)), (16,))
    with torch.no_grad():
        rest = float((dropped.body(x) - identity).abs().max())
        note = NoteLayer(16, 64, 4, 0.999999).double().train()
        noted = float((note(x) - identity).abs().max())
    half = build(
        constants(0.5), generator=torch.Generator().manual_seed(3), dtype=torch.float64
    ).train()
    with torch.no_grad():
        torch.manual_seed(context.seed)
        residual = next(half.residuals())
        branch = residual.branch.eval()(x)
        draws = torch.stack(
            [residual.dropout(branch) for _ in range(context.pick(4000, 40000))]
        ).mean(0)
        bias = float((draws - branch).norm() / branch.norm())
    return (
        seen(EQUAL, worst["note"] < 1e-12, f"largest difference {worst['note']:.1e} in float64"),
        seen(TORCH, worst["torch"] < 1e-12, f"largest difference {worst['torch']:.1e} in float64"),
        seen(
            DROPOUT,
            bias < MARGIN,
            f"mean over masks differs from the branch by {bias:.3f} of its length",
        ),
        seen(
            INNER,
            max(rest, noted) < 1e-4,
            "with all of the dropped path gone the output is LayerNorm(LayerNorm(x)) to "
            f"{rest:.1e}, that of the note's class in training mode to {noted:.1e}",
        ),
    )


CLAIM = Claim(
    name="norms-encoder-layer",
    source="Pre/Post norm note, §'Implementation in transformer' (class EncoderLayer)",
    statement=(
        "The class EncoderLayer — attention, dropout, add, norm; feed-forward, dropout, add, "
        "norm — is the plain Post-LN layer; 'dropout on the main branch, then post-norm'."
    ),
    conditions=(
        "float64, same weights with random gains and biases; class transcribed with torch's "
        "attention"
    ),
    recorded=(
        Ruling(EQUAL, Verdict.SUPPORTED),
        Ruling(TORCH, Verdict.SUPPORTED),
        Ruling(DROPOUT, Verdict.SUPPORTED),
        Ruling(INNER, Verdict.SUPPORTED),
    ),
    finding=(
        "The class is the plain Post-LN layer: with the same weights, and gains and biases "
        "drawn at random, its output equals the builder's and torch's own "
        "TransformerEncoderLayer to 10⁻¹⁵ in float64. The 'main branch' that is dropped is the "
        "output of attention and of the feed-forward, before the sum, and its mean over masks "
        "is unchanged; the identity is never dropped: with everything dropped the layer is "
        "LayerNorm(LayerNorm(x))."
    ),
    check=check,
    seconds=3.0,
)
