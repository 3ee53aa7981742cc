from paper_checks.shared.bench import (
    Array,
    Claim,
    Finding,
    Interval,
    Lab,
    Tensor,
    judge,
    once,
    torch,
)
from paper_checks.shared.record import PROVED, SUPPORTED
from paper_checks.shared.wide import SYMBOLS, size

CLAIM = Claim(
    name="width-completep",
    source="""Dey et al., 'Don't be lazy: CompleteP', arXiv 2505.01618, equation 40 as the README of
        their code has it""",
    statement="""Under AdamW with branches divided by the depth L: ε of hidden matrices scales as
        1/(n·L), that of embeddings and the head as 1/n; hidden learning rates as 1/n and their
        weight decay as n.""",
    conditions="""an explicit residual network, x + W₂ tanh(W₁ x)/L, between an embedding and a head
        behind 1/n; gradients at the start, widths 64 to 512, 4 to 32 layers, 16 tokens""",
    finding="""Right. The entries of a hidden matrix's gradient fall as 1/(n·L), those of the
        embedding and of the head as 1/n at every depth, and ε must follow them. One ε for all,
        which the code first had, is too small by L for the outer ones; ε scaled in the blocks
        alone, as Table 1 states it, is too large by n there. Rate times decay is the same at every
        width, and so is the share that decay takes of a matrix in a step; with a constant decay it
        falls as 1/n.""",
    seconds=(3, 10),
)
POINTS = [(64, 8), (128, 8), (256, 8), (512, 8), (128, 4), (128, 16), (128, 32)]


@judge
def falls(lab: Lab, in_depth: float, *names: str) -> Finding:
    found: dict[str, Interval] = {}
    for name in names:
        width, depth = lab.powers(POINTS, gradients(lab)[name])
        found |= {f"{name} in n": width, f"{name} in L": depth}
    wanted = {label: -1.0 if label.endswith("n") else in_depth for label in found}
    rivals = tuple((words, p) for words, p in (("flat", 0.0), ("1/√", -0.5)) if p != in_depth)
    return lab.exponent(found, wanted, rivals)


CLAIM.stated("hidden gradients fall as 1/(n·L)", SUPPORTED)(falls(-1.0, "W1", "W2"))
CLAIM.stated("those of embedding and head as 1/n", SUPPORTED)(falls(0.0, "E", "H"))


@CLAIM.stated("rate 1/n and decay n: decay takes the same share at every width", PROVED)
def decay(lab: Lab) -> Finding:
    shares = {n: share(rate=0.1 / n, decay=0.01 * n) for n in (1, 64, 4096)}
    same = max(shares.values()) - min(shares.values()) < 1e-15
    return lab.proved(same, "a step of torch's AdamW without a gradient", shares=shares)


@CLAIM.ours("at a constant decay the share falls as 1/n", PROVED)
def constant_decay(lab: Lab) -> Finding:
    one, other = share(rate=0.1, decay=0.01), share(rate=0.1 / 64, decay=0.01)
    return lab.proved(abs(one / other - 64) < 1e-9, f"shares {one:.3g} and {other:.3g}")


def share(rate: float, decay: float) -> float:
    """What decay takes of a parameter in one step of torch's AdamW that has no gradient."""
    theta = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    theta.grad = torch.zeros_like(theta)
    torch.optim.AdamW([theta], lr=rate, weight_decay=decay).step()
    return 1.0 - float(theta.detach())


@once
def gradients(lab: Lab) -> dict[str, Array]:
    """The sizes of gradients' entries at all points, (seeds, points), by parameter."""
    found: dict[str, list[Tensor]] = {name: [] for name in ("E", "W1", "W2", "H")}
    for n, layers in POINTS:
        for name, g in of_one(lab, n, layers).items():
            found[name].append(size(g))
    return {name: lab.columns(values) for name, values in found.items()}


def of_one(lab: Lab, n: int, layers: int, seeds: int = 24) -> dict[str, Tensor]:
    """Gradients of the mean cross-entropy in the outer maps and in the branch in the middle."""
    source = lab.generator(n)

    def draw(*shape: int, size: float = 1.0) -> Tensor:
        return torch.randn(seeds, *shape, generator=source) * size

    ends = {"E": draw(SYMBOLS, n), "H": draw(SYMBOLS, n)}
    maps = [{name: draw(n, n, size=n**-0.5) for name in ("W1", "W2")} for _ in range(layers)]
    watched = {**ends, **maps[layers // 2]}
    for theta in watched.values():
        theta.requires_grad_()
    x = ends["E"]  # every symbol, a row each, and itself to follow
    for of in maps:
        x = x + (x @ of["W1"].mT).tanh() @ of["W2"].mT / layers
    logits = x @ ends["H"].mT / n
    loss = -logits.log_softmax(-1).diagonal(dim1=1, dim2=2).mean(1).sum()
    return dict(zip(watched, torch.autograd.grad(loss, list(watched.values())), strict=True))
