import math
from collections.abc import Mapping

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, Tensor, once, sp, torch
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED, UNDECIDED
from paper_checks.shared.wide import HIDDEN, MUP, ROLE_OF, SYMBOLS, Network, size

CLAIM = Claim(
    name="schemes-decay-carries",
    source="""Kosson, Welborn, Liu, Jaggi and Chen, 'Weight Decay may matter more than muP for
        Learning Rate Transfer in Practice', arXiv 2510.19093""",
    statement="""After the start of training it is weight decay, and not μP, that holds the update
        of internal representations alike at every width, and so carries the transfer of the
        learning rate; μP needs the independent weight decay, λ in proportion to n where its rate is
        1/n.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head behind 1/n, widths
        32 to 256, AdamW on symbols drawn anew from a fixed table, 500 steps: five times 1/(ηλ); the
        upper hidden map's ‖ΔWx‖/‖Wx‖ over the last steps, 8 seeds""",
    finding="""Half is seen. After five times 1/(ηλ) the features' relative update is level in
        the width at μP's rates if λ is proportional to n, and falls as n^{−0.35} at one λ: the
        independent weight decay is what μP needs, as the source says. But decay does not do it
        without μP's rates: at the same ηλ and one rate for every width the update grows as
        n^{0.49}. √(2ηλ), which knows nothing of the rate, is that of steps without a common
        direction; steps that agree make W longer than that. The transfer of the best rate was not
        measured.""",
    counterexample="""ηλ = 1/100, η = 3·10⁻³ at widths 32 and 256, 500 steps: the relative update of
        the features is larger by 2.8 in the wider network.""",
    corrected="""At rates 1/n with λ in proportion to n the late update is level in the width; at
        one rate and the same ηλ it grows faster than n^{1/4}.""",
    would_decide="""The best rate over four widths and more of language models, each trained for
        several times 1/(ηλ), in all four arms of (rate 1 or 1/n) and (λ fixed or in proportion to
        n), warm-up alike: it stays in both arms of ηλ fixed and moves in the others, or not. Would
        not: sizes of updates alone, trainings shorter than 1/(ηλ), or one arm.""",
    seconds=40,
)
WIDTHS = (32, 64, 128, 256)
STEPS, LAST = 500, 5
RATE, SHARE = 3e-3, 1e-2  # at the least width: η, and ηλ, what one step takes of a hidden matrix
# the powers of the width in the hidden rate and in ηλ
INDEPENDENT, FIXED, ONE_RATE = (-1, 0), (-1, -1), (0, 0)
FLAT = 1 / 8


@CLAIM.stated("steps that know nothing of W hold ‖ΔW‖/‖W‖ at √(2ηλ − η²λ²)", PROVED)
def balance(lab: Lab) -> Finding:
    eta, decay, w, u = sp.symbols("eta lambda w u", positive=True)
    # E‖(1 − ηλ)W + ηU‖² = ‖W‖² with E⟨W, U⟩ = 0
    (squared,) = sp.solve(sp.Eq((1 - eta * decay) ** 2 * w + eta**2 * u**2, w), w)
    held = sp.simplify(eta**2 * u**2 / squared - (2 * eta * decay - eta**2 * decay**2)) == 0
    return lab.proved(held, "neither the first size of W nor the size of a step is left in it")


@CLAIM.stated("late, at rates 1/n, λ in proportion to n holds the update alike", SUPPORTED)
def independent(lab: Lab) -> Finding:
    return lab.within(late(lab)["independent"], -FLAT, FLAT, WHAT)


@CLAIM.stated("late, at rates 1/n, μP alone does not: at one λ the update falls", SUPPORTED)
def alone(lab: Lab) -> Finding:
    return lab.at_most(late(lab)["fixed"], -FLAT, WHAT, 0.0)


@CLAIM.stated("late, at one ηλ, the rates 1/n do not matter", REFUTED)
def rates(lab: Lab) -> Finding:
    return lab.within(late(lab)["one rate"], -FLAT, FLAT, WHAT)


@CLAIM.stated("and so weight decay carries the transfer of the best rate", UNDECIDED)
def transfer(lab: Lab) -> Finding:
    usual: Mapping[str, float] = torch.optim.AdamW([torch.zeros(1)]).defaults
    needed = math.ceil(STEPS * SHARE / (usual["lr"] * usual["weight_decay"]))
    return lab.undecided(
        f"no best rate was measured: at AdamW's usual {usual['lr']:g} and {usual['weight_decay']:g}"
        f" as many times 1/(ηλ) as here are {needed:,} steps, of every width, rate and arm",
        steps=needed,
    )


@CLAIM.correction("late, at one ηλ and one rate, the update grows faster than n^{1/4}", SUPPORTED)
def grows(lab: Lab) -> Finding:
    return lab.at_least(late(lab)["one rate"], 0.25, WHAT)


WHAT = "exponent in n of ‖ΔWx‖/‖Wx‖"


@once
def late(lab: Lab) -> dict[str, Interval]:
    """The exponents in the width of the relative update of the features, by arm."""
    arms = {"independent": INDEPENDENT, "fixed": FIXED, "one rate": ONE_RATE}
    return {name: lab.power(WIDTHS, relative(lab, *powers)) for name, powers in arms.items()}


def relative(lab: Lab, rate: float, share: float) -> Array:
    """The mean over the last steps of ‖ΔWx‖/‖Wx‖: (seeds, widths)."""
    seeds, found = 8, []
    for n in WIDTHS:
        times = n / WIDTHS[0]
        eta, taken = RATE * times**rate, SHARE * times**share
        net = Network(MUP, n, seeds, lab.generator(n), tokens=SYMBOLS)
        table = torch.randn(SYMBOLS, SYMBOLS, generator=lab.generator()).mul(2).softmax(-1)
        optimizer = torch.optim.AdamW(groups(net, eta, taken), betas=(0.9, 0.95), eps=1e-20)
        moved = []
        for step in range(STEPS):
            net.symbols = drawn(net, table, seeds)
            if step >= STEPS - LAST:
                moved.append(stepped(net, optimizer))
            else:
                net.train(optimizer)
        found.append(torch.stack(moved).mean(0))
    return lab.columns(found)


def groups(net: Network, eta: float, taken: float) -> list[dict[str, object]]:
    """AdamW's groups: hidden maps at η with the share ηλ, the others at one rate without decay."""
    hidden = {"lr": eta, "weight_decay": taken / eta}
    other = {"lr": RATE, "weight_decay": 0.0}
    return [
        {"params": [theta], **(hidden if ROLE_OF[name] == HIDDEN else other)}
        for name, theta in net.parameters.items()
    ]


def drawn(net: Network, table: Tensor, seeds: int) -> Tensor:
    """Symbols, and what follows each by the table, one-hot: (k, T, 2, V)."""
    first = torch.randint(SYMBOLS, (seeds, SYMBOLS), generator=net.source)
    after = torch.multinomial(table[first.flatten()], 1, generator=net.source)
    both = torch.stack([first, after.view_as(first)], dim=2)
    found: Tensor = torch.nn.functional.one_hot(both, SYMBOLS).float()
    return found


def stepped(net: Network, optimizer: "torch.optim.Optimizer") -> Tensor:
    """One step, and what it moves of the upper hidden map's output, over its size: (k,)."""
    with torch.no_grad():
        made = net.forward(net.parameters)
    x, old = made["first"].tanh(), net.parameters["W2"].detach().clone()
    net.train(optimizer)
    change = net.parameters["W2"].detach() - old
    return size(x @ change.mT) / size(made["y"])
