from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, Tensor, np, once, torch
from paper_checks.shared.record import SUPPORTED, TPV
from paper_checks.shared.wide import size, widths

CLAIM = Claim(
    name="width-attention",
    source=f"{TPV}, Definition 4.1 and Table 8's caption; README of the package mup",
    statement="""Attention scores are to be q·k/k and not q·k/√k for heads of size k: query and key
        become correlated as they learn, and their product then grows as k.""",
    conditions="""one head of size k = n between 128 and 1,024 (2,048 in the full run), 6 tokens;
        random upstream gradients of the scores; one step of sign descent at rate 1/n of query and
        key; heads of size 32 and n/32 of them beside it""",
    finding="""Right where the head grows with the width. Before the step q·k/√k is flat and q·k/k
        falls as k^{−1/2}, so that only noise remains; the step moves the scores by √k under
        1/√k and by 1 under 1/k. Where the heads' number grows and their size does not, both are the
        same up to a constant.""",
    seconds=(5, 20),
)


@CLAIM.stated("one step moves q·k/k alike at every k", SUPPORTED)
def moves(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "move", -1.0), 0.0, (("√k", 0.5), ("1/√k", -0.5)))


@CLAIM.stated("and q·k/√k by √k", SUPPORTED)
def moves_more(lab: Lab) -> Finding:
    return lab.exponent(power(lab, "move", -0.5), 0.5, (("flat", 0.0), ("k", 1.0)))


@CLAIM.ours("before it q·k/√k is flat and q·k/k falls as k^{−1/2}", SUPPORTED)
def start(lab: Lab) -> Finding:
    found = {"1/√k": power(lab, "start", -0.5), "1/k": power(lab, "start", -1.0)}
    return lab.exponent(found, {"1/√k": 0.0, "1/k": -0.5}, (("√k", 0.5),))


@CLAIM.ours("heads of a fixed size: a step moves their scores alike, whatever the scale", SUPPORTED)
def fixed(lab: Lab) -> Finding:
    found = lab.power(widths(lab), scores(lab)["fixed"])
    return lab.exponent(found, 0.0, (("√n", 0.5),))


def power(lab: Lab, what: str, scale: float) -> Interval:
    """The exponent of scores, or their move, under n^scale in front of q·k."""
    at = widths(lab)
    return lab.power(at, scores(lab)[what] * np.array(at, dtype=float) ** scale)


@once
def scores(lab: Lab) -> dict[str, Array]:
    """q·k at the start and its move in a step: of one head of size n, and of one of size 32."""
    found: dict[str, list[Tensor]] = {"start": [], "move": [], "fixed": []}
    for n in widths(lab):
        for size_of_head in (n, 32):
            start, move = one_step(lab, n, size_of_head)
            if size_of_head == n:
                found["start"].append(start)
                found["move"].append(move)
            else:
                found["fixed"].append(move)
    return {name: lab.columns(values) for name, values in found.items()}


def one_step(lab: Lab, n: int, head: int) -> tuple[Tensor, Tensor]:
    """|q·k| of a head before a step, and how far sign descent of Wq and Wk at 1/n moves it."""
    source = lab.generator(n)
    x = torch.randn(48, 6, n, generator=source)
    query, key = (torch.randn(48, head, n, generator=source) / n**0.5 for _ in range(2))
    upstream = torch.randn(48, 6, 6, generator=source)  # ∂L/∂(q·k)
    q, k = x @ query.mT, x @ key.mT
    steps = ((upstream @ k).mT @ x).sign() / n, ((upstream.mT @ q).mT @ x).sign() / n
    moved = (x @ steps[0].mT) @ k.mT + q @ (x @ steps[1].mT).mT
    return size(q @ k.mT), size(moved)
