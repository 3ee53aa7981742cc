from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, once, sp, torch
from paper_checks.shared.fitting import columns
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED
from paper_checks.shared.wide import (
    EMBEDDING,
    HEAD,
    HIDDEN,
    MUP,
    exponents,
    lamb,
    widths,
)

CLAIM = Claim(
    name="width-lamb",
    source="""Gupta, Ngom, Foreman and Vishwanath, 'Extending μP: Spectral Conditions for Feature
        Learning Across Optimizers', arXiv 2602.20937, its hidden learning rates, as reported""",
    statement="""The learning rate of a hidden matrix scales as 1/n for AdamW, ADOPT and Sophia, and
        as 1 for LAMB: LAMB's needs no change with the width.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head, first steps at
        widths 128 to 1,024 (2,048 in the full run), 4 tokens; single gradients of up to 8n
        independent tokens""",
    finding="""Wrong for a batch of few tokens. LAMB's trust ratio is of Frobenius norms: the update
        is as long as the matrix, √n, and where the gradient is of low rank all of that length is
        one spectral direction. A step then moves a hidden output by √n at a common rate, and the
        rate must scale as n^{−1/2}. With spectral norms in the ratio the sentence would hold,
        exactly. It holds too where the sign of the gradient is a matrix of full rank, for tokens
        that are independent and many more than n: alignment decides. Embedding and head do need no
        change.""",
    counterexample="W of n × n with entries of size n^{−1/2}, g = u vᵀ: ΔW v = n^{1/2}·η·sign(u).",
    corrected="""Hidden rates n^{−1/2} for LAMB at full alignment, 1 at none; for the embedding and
        for the head behind a multiplier 1/n, 1.""",
    seconds=(5, 30),
)


@CLAIM.stated("LAMB at one rate moves a hidden output alike at every width", REFUTED)
def hidden(lab: Lab) -> Finding:
    return lab.exponent(moved(lab)[HIDDEN], 0.0)


@CLAIM.correction("it moves it as √n", SUPPORTED)
def corrected(lab: Lab) -> Finding:
    return lab.exponent(moved(lab)[HIDDEN], 0.5, (("flat", 0.0), ("Adam's n", 1.0)))


@CLAIM.correction("embedding and head need no change", SUPPORTED)
def others(lab: Lab) -> Finding:
    found = {role: moved(lab)[role] for role in (EMBEDDING, HEAD)}
    return lab.exponent(found, 0.0, (("√n", 0.5),))


@CLAIM.ours("exactly, at rank one: ‖ΔW‖₂ = ‖ΔW‖_F = ‖W‖_F", PROVED)
def rank_one(lab: Lab) -> Finding:
    # sign(u vᵀ) = s tᵀ with entries ±1, so that LAMB's step is ‖W‖_F s tᵀ/√(mn)
    held = []
    for signs in ((1, 1), (1, -1)), ((1, -1, 1), (-1, -1)), ((1,), (1, -1, -1)):
        s, t = (sp.Matrix(one) for one in signs)
        step = s * t.T / sp.sqrt(len(s) * len(t))
        values = {sp.sqrt(value) for value in (step * step.T).eigenvals()}
        held.append(values <= {0, 1} and step.norm() == 1)
    return lab.proved(all(held), "the only singular value of the step is its Frobenius norm")


@CLAIM.ours("with 8n independent tokens in the batch it moves as 1", SUPPORTED)
def many_tokens(lab: Lab) -> Finding:
    found = lab.power(batch_widths(lab), acting(lab, 8))
    return lab.exponent(found, 0.0, (("√n", 0.5),))


def acting(lab: Lab, times: int) -> Array:
    """‖ΔW‖₂/‖W‖₂ of LAMB's step on a gradient of ``times``·n tokens: (seeds, widths)."""
    found = []
    for n in batch_widths(lab):
        source = lab.generator(n)
        w, delta, x = (torch.randn(16, n, c, generator=source) for c in (n, times * n, times * n))
        step = lamb(w / n**0.5, delta @ x.mT)
        top, of = (torch.linalg.matrix_norm(one, 2) for one in (step, w / n**0.5))
        found.append(top / of)
    return columns(found)


def batch_widths(lab: Lab) -> tuple[int, ...]:
    return tuple(n // 2 for n in widths(lab)[:-1])


@once
def moved(lab: Lab) -> dict[str, Interval]:
    return exponents(lab, MUP, lamb)
