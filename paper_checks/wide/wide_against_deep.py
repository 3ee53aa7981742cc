from paper_checks.shared.bench import Claim, Finding, Lab, sp, torch
from paper_checks.shared.record import PROVED, REFUTED, SU

CLAIM = Claim(
    name="wide-against-deep",
    source=f"{SU}, first paragraph, and its retellings",
    statement="""A wide and shallow model does not need much less compute than a narrow and deep
        one, so compute is not what keeps Transformers from being deep.""",
    conditions="""forward pass of a decoder-only stack without embedding and head, hidden width 4d,
        the same number of parameters 12d²N in both; operations counted by torch""",
    finding="""At GPT-3's size the sentence is right: four times as many layers of half the width
        need 2.7 % more operations for a context of 2,048 tokens, and sixteen times as many layers
        of a quarter of the width need 8.1 % more. The reason is that the context is short beside
        the width. The products with matrices cost the same in both models. The products of
        attention, tokens with tokens, grow as Nd, which is k times as much at 1/k of the width.
        Where a context T is as long as 6d the two parts are equal. A model of width 1,024 and 24
        layers needs 75 % more operations at the same context once it is 256 wide and 384 deep.""",
    counterexample="""Width 1,024, 24 layers, 2,048 tokens, against width 256 and 384 layers: the
        same 302 million parameters, 1.75 times as many operations.""",
    corrected="""At equal parameters a stack of 1/k of the width and k² times the depth needs
        (1 + kT/(6d))/(1 + T/(6d)) times as many operations: hardly more where kT ≪ 6d.""",
    seconds=4.0,
)
GPT3 = (12288, 96)  # width and layers
SMALL = (1024, 24)
CONTEXT = 2048
NEAR = 0.1  # what we take "not much less" for


@CLAIM.stated("at GPT-3's width: within 10 % down to a quarter of the width", PROVED)
def at_its_size(lab: Lab) -> Finding:
    found = {k: ratio(*GPT3, k) for k in (2, 4)}
    holds = all(1 <= r <= 1 + NEAR for r in found.values())
    return lab.proved(holds, "operations of the deep model by those of the wide one", ratios=found)


@CLAIM.stated("at any width: within 10 % at a quarter of the width", REFUTED)
def at_any_size(lab: Lab) -> Finding:
    found = ratio(*SMALL, 4)
    return lab.proved(found <= 1 + NEAR, f"{found:.2f} times as many operations")


@CLAIM.correction("(1 + kT/(6d))/(1 + T/(6d)) times as many operations", PROVED)
def law(lab: Lab) -> Finding:
    d, k, t, n = sp.symbols("d k T N", positive=True)

    def cost(width: sp.Expr, layers: sp.Expr) -> sp.Expr:
        matrices, mixing = 12 * width**2, 2 * t * width  # scores, and the values' sum
        return layers * (matrices + mixing)

    claimed = (1 + k * t / (6 * d)) / (1 + t / (6 * d))
    formula = sp.simplify(cost(d / k, k**2 * n) / cost(d, n) - claimed) == 0
    errors = [
        abs(ratio(*size, times) / claimed.subs({d: size[0], k: times, t: CONTEXT}) - 1)
        for size in (GPT3, SMALL)
        for times in (2, 4)
    ]
    return lab.proved(formula and max(errors) < 1e-9, f"largest error {float(max(errors)):.1e}")


def ratio(width: int, layers: int, k: int) -> float:
    """Operations of k² times the layers of 1/k of the width, by those of the stack itself."""
    return operations(width // k) * k**2 / operations(width)


def operations(width: int) -> float:
    """What torch counts in a forward pass of one layer; layers are alike."""
    from torch.utils.flop_counter import FlopCounterMode  # no part of torch until it is asked for

    layer = torch.nn.TransformerEncoderLayer(
        width, 4, 4 * width, dropout=0.0, batch_first=True, device="meta"
    )
    x = torch.empty(1, CONTEXT, width, device="meta")
    math = torch.nn.attention.SDPBackend.MATH
    with (
        FlopCounterMode(display=False) as counter,
        torch.nn.attention.sdpa_kernel(math),
    ):
        layer(x)
    return float(counter.get_total_flops())
