from itertools import product
from typing import Any

from paper_checks.shared.bench import Claim, Finding, Lab, Tensor, judge, numeric, once, torch
from paper_checks.shared.record import MARGIN, NOTE, SUPPORTED
from paper_checks.shared.training import model_constants

CLAIM = Claim(
    name="norms-encoder-layer",
    source=f"{NOTE}, §'Implementation in transformer' (class EncoderLayer)",
    statement="""The class EncoderLayer — attention, dropout, add, norm; feed-forward, dropout, add,
        norm — is the plain Post-LN layer; 'dropout on the main branch, then post-norm'.""",
    conditions="""float64, same weights with random gains and biases; class transcribed with torch's
        attention""",
    finding="""The class is the plain Post-LN layer: with the same weights, and gains and biases
        drawn at random, its output equals the builder's and torch's own TransformerEncoderLayer to
        10⁻¹⁵ in float64. The 'main branch' that is dropped is the output of attention and of the
        feed-forward, before the sum, and its mean over masks is unchanged; the identity is never
        dropped: with everything dropped the layer is LayerNorm(LayerNorm(x)).""",
    seconds=3.0,
)
ALL_DROPPED = 0.999999


@judge
def equal(lab: Lab, other: str) -> Finding:
    worst = differences(lab)[other]
    return lab.seen(worst < 1e-12, f"largest difference {worst:.1e} in float64")


CLAIM.stated("the same weights give the same output, evaluation mode", SUPPORTED)(
    equal("the note's class")
)
CLAIM.ours("torch.nn.TransformerEncoderLayer agrees as well", SUPPORTED)(equal("torch's own"))


@CLAIM.stated(
    "dropout acts on the output of attention and of the feed-forward, never on the identity",
    SUPPORTED,
)
def identity_stays(lab: Lab) -> Finding:
    # all dropped, the layer is norm(norm(x)); without its identity it would be constant
    model, x = built(lab, ALL_DROPPED), lab.normal(lab.generator(1), 2, 5, 16)
    norm = torch.nn.functional.layer_norm
    identity = norm(norm(x, (16,)), (16,))
    ours, noted = model.train().body(x), note(torch_layer(model, ALL_DROPPED).train(), x)
    rest, other = (float((y - identity).abs().max()) for y in (ours, noted))
    what = f"with all of the dropped path gone the output is LayerNorm(LayerNorm(x)) to {rest:.1e}"
    because = f"{what}, that of the note's class in training mode to {other:.1e}"
    return lab.seen(max(rest, other) < 1e-4, because)


@CLAIM.ours("dropout leaves the branch's mean over masks, within 5 %", SUPPORTED)
def mean_stays(lab: Lab) -> Finding:
    residual = next(built(lab, 0.5).train().residuals())
    branch = residual.branch.eval()(lab.normal(lab.generator(1), 2, 5, 16))
    torch.manual_seed(lab.seed)  # the masks are drawn from torch's own generator
    masked = [residual.dropout(branch) for _ in range(lab.pick(4000, 40000))]
    bias = float((torch.stack(masked).mean(0) - branch).norm() / branch.norm())
    because = f"mean over masks differs from the branch by {bias:.3f} of its length"
    return lab.seen(bias < MARGIN, because)


@once
def differences(lab: Lab) -> dict[str, float]:
    """The largest difference of the built layer from the note's class and from torch's own."""
    worst = {"the note's class": 0.0, "torch's own": 0.0}
    for draw, length in product(range(lab.pick(2, 8)), lab.pick((5,), (1, 5, 40))):
        g = lab.generator(10 * length + draw)
        model = built(lab, 0.0, draw).eval()
        for p in model.parameters():  # gains and biases away from 1 and 0
            if p.dim() == 1:
                p.add_(0.3 * lab.normal(g, *p.shape))
        layer = torch_layer(model, 0.1).eval()
        x = lab.normal(g, 3, length, 16)
        for name, y in {"the note's class": note(layer, x), "torch's own": layer(x)}.items():
            worst[name] = max(worst[name], float((y - model.body(x)).abs().max()))
    return worst


def note(layer: Any, x: Tensor) -> Tensor:
    """The note's ``forward``, transcribed: its modules bear the names of torch's layer."""
    kept = x
    x = layer.self_attn(x, x, x, need_weights=False)[0]
    x = layer.dropout1(x)
    x = layer.norm1(x + kept)
    kept = x
    x = layer.linear2(layer.dropout(torch.relu(layer.linear1(x))))
    x = layer.dropout2(x)
    normed: Tensor = layer.norm2(x + kept)
    return normed


def built(lab: Lab, dropout: float, draw: int = 0) -> Any:
    """The builder's plain post-LN encoder layer."""
    sizes: dict[str, Any] = {"vocab": 11, "dropout": dropout}
    constants = model_constants(1, 1.0, 1.0, 16, stack="encoder", causal=False, **sizes)
    model = numeric.build(constants, generator=lab.generator(100 + draw), dtype=torch.float64)
    return model.requires_grad_(False)


def torch_layer(model: Any, dropout: float) -> Any:
    """torch's layer with the weights of a built one."""
    attention, ffn = model.residuals()
    a, f = attention.branch, ffn.branch
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 64, dropout, batch_first=True, dtype=torch.float64
    ).requires_grad_(False)
    state = {
        "self_attn.in_proj_weight": torch.cat([m.weight for m in (a.query, a.key, a.value)]),
        "self_attn.in_proj_bias": torch.cat([m.bias for m in (a.query, a.key, a.value)]),
    }
    for name, ours in {"self_attn.out_proj": a.output, "linear1": f.fc1, "linear2": f.fc2}.items():
        state |= {f"{name}.weight": ours.weight, f"{name}.bias": ours.bias}
    for name, own in {"norm1": attention.norms[0], "norm2": ffn.norms[0]}.items():
        state |= {f"{name}.weight": own.gain, f"{name}.bias": own.bias}
    layer.load_state_dict(state)
    return layer
