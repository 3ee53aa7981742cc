from paper_checks.shared.bench import Claim, Finding, Lab, torch
from paper_checks.shared.record import DEEPNET, PROVED

CLAIM = Claim(
    name="deepnet-sublayers",
    source=f"{DEEPNET}, abstract and §6",
    statement="1,000 layers, i.e. 2,500 attention and feed-forward sublayers.",
    conditions="torch's own Transformer: encoder layers of 2, decoder layers of 3 sublayers",
    finding="""2,500 is right for the paper's own 1,000 layers, 500 in the encoder and 500 in the
        decoder, whose layers have two and three residual sublayers. A decoder-only model of 1,000
        layers has 2,000, and other splits have 2N + 3M. Count sublayers before you carry the
        constants over: 2N, 2M and 3M are what the rules hold.""",
    corrected="2N + 3M for N encoder and M decoder layers, 2M for a decoder-only stack.",
    seconds=3.0,
)


@CLAIM.stated("500 encoder and 500 decoder layers", PROVED)
def half_and_half(lab: Lab) -> Finding:
    counted = sublayers(500, 500)
    return lab.proved(counted == 2500, f"counted {counted}")


@CLAIM.ours("1,000 layers of a decoder-only stack are another number, 2,000", PROVED)
def decoder_only(lab: Lab) -> Finding:
    counted = sublayers(1000, 0)  # torch builds it of encoder layers under a causal mask
    return lab.proved(counted == 2000, f"counted {counted}")


@CLAIM.ours("N encoder and M decoder layers are 2N + 3M sublayers", PROVED)
def any_split(lab: Lab) -> Finding:
    splits = ((500, 500), (9, 1), (1, 9), (3, 7))
    as_said = all(sublayers(n, m) == 2 * n + 3 * m for n, m in splits)
    return lab.proved(as_said, f"counted for {splits}")


def sublayers(encoder: int, decoder: int) -> int:
    """The norms that follow a sum, one a residual sublayer, of torch's own Transformer.

    The norm after the last layer of a stack is another one; no weights are drawn.
    """
    model = torch.nn.Transformer(8, 1, encoder, decoder, 8, batch_first=True, device="meta")
    layers = [*model.encoder.layers, *model.decoder.layers]
    return sum(isinstance(m, torch.nn.LayerNorm) for layer in layers for m in layer.modules())
