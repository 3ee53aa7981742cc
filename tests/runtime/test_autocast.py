"""Under autocast: as many casts as torch's own layers, and the same equations."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from deepnet_theory.runtime import branches, build
from deepnet_theory.runtime.branches import KINDS, GatedFeedForward

LAYERS = 3


class Counted(TorchDispatchMode):
    """How often a type is cast, and how many numbers in all."""

    def __init__(self):
        super().__init__()
        self.casts = self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function.overloadpacket is torch.ops.aten._to_copy:
            self.casts += 1
            self.numbers += made.numel()
        return made


def counted(stack):
    """Casts and cast numbers of a stack, forward, and of both passes."""
    x = torch.randn(2, 5, 16, requires_grad=True)
    with Counted() as count:
        with torch.autocast("cpu", torch.bfloat16):
            y = stack(x)
        forward = count.casts, count.numbers
        y.float().square().mean().backward()
    return *forward, count.casts, count.numbers


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln"])
def test_no_more_is_cast_than_in_torchs_layers(constants, placement, monkeypatch):
    ours = build(constants(placement=placement, layers=LAYERS)).parts["encoder"]
    pre = placement == "pre-ln"
    layer = nn.TransformerEncoderLayer(16, 4, 64, 0.0, batch_first=True, norm_first=pre)
    last = nn.LayerNorm(16) if pre else None
    theirs = counted(nn.TransformerEncoder(layer, LAYERS, last, enable_nested_tensor=False))
    assert min(theirs) > 0
    assert all(a <= b for a, b in zip(counted(ours), theirs, strict=True))
    monkeypatch.setattr(branches, "through", lambda x, *maps: [m(x) for m in maps])
    assert all(a > b for a, b in zip(counted(ours), theirs, strict=True))  # the count sees it


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cross"])
def test_the_one_product_is_the_maps_own(constants, kind):
    """In float64, which autocast leaves as it is; keys and values are narrower than queries."""
    of = "attention" if kind.startswith("attention") else "ffn"
    width = {"kv_heads": 2} if of == "attention" else {}
    model = build(constants("encoder-decoder", **{of: kind}, **width), dtype=torch.float64)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    tokens, memory, called = torch.randint(50, (2, 7)), torch.randint(50, (2, 5)), []
    model.parts["encoder"].layers[0][0].branch.key.register_forward_hook(
        lambda *_: called.append(True)
    )
    expected = model(tokens, memory)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(tokens, memory)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert called == [True]  # not by the one product
    gated = isinstance(model.parts["encoder"].layers[0][1].branch, GatedFeedForward)
    assert gated is kind.startswith("ffn-swiglu")
