from dataclasses import replace

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once, sp, torch
from paper_checks.shared.changes import sgd_move
from paper_checks.shared.record import CAKE, MARGIN, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM

CLAIM = Claim(
    name="cake-sequence-length",
    source=f"{CAKE}, §5, first displayed equation, and §5.3, last paragraph",
    statement="""‖ΔF‖_F ≤ Σ_{p=1}^{n} ‖Δx_{2N+1,p}‖₂, so the bound depends on the sequence length n,
        which the paper omits.""",
    conditions="""DeepNorm encoders under SGD on the mean loss over tokens, n = 32 to 256; text,
        Gaussian tokens of correlation 0 and 0.5""",
    finding="""The inequality is right, and its right-hand side grows with n. In real steps it is
        loose by √n, because all tokens move by about the same amount; ‖ΔF‖_F ≤ √n max‖Δx_p‖ is the
        sharp form. With a loss averaged over tokens one token's change never grows with n, so the
        paper may leave n out if F is a token's output. From 32 to 256 tokens it falls as n^{−0.69}
        for independent tokens, n^{−0.50} for tokens of correlation ½ with random targets and
        n^{−0.16} for text, and ‖ΔF‖_F scales as n^{−0.19}, n^{0.00} and n^{0.34}. It falls only as
        long as the tokens' gradients average out: what they share, as where all targets are equal
        (exponent −0.01), is independent of n, and then ‖ΔF‖_F grows as √n.""",
    counterexample="""n = 2 equal tokens: Σ‖Δx_p‖ = 2‖Δx‖, ‖ΔF‖_F = √2‖Δx‖; two equal tokens whose
        gradients are opposite: ΔF = 0, while one token alone moves.""",
    corrected="""‖ΔF‖_F ≤ √n max_p ‖Δx_p‖, and with the loss averaged over tokens ‖Δx_p‖ does not
        grow with n: it falls as n^{−1/2} where the tokens' gradients average out, ‖ΔF‖_F then being
        constant, and is constant where they are alike, ‖ΔF‖_F scaling as √n.""",
    seconds=(7.0, 39),
)
LENGTHS = (32, 64, 128, 256)
DATA = ("gaussian:0", "gaussian:0.5", "text")


@CLAIM.stated("the inequality", PROVED)
def inequality(lab: Lab) -> Finding:
    s = sp.symbols("s_1:4", nonnegative=True)
    gap = sp.expand(sum(s) ** 2 - sum(e**2 for e in s))
    positive = all(c > 0 for c in sp.Poly(gap, *s).coeffs())
    return lab.proved(positive, f"(Σs)² − Σs² = {gap} ≥ 0")


@CLAIM.stated("its right-hand side depends on n: in real steps it grows", SUPPORTED)
def depends(lab: Lab) -> Finding:
    slopes = {data: lab.power(LENGTHS, token(s) * LENGTHS) for data, s in changes(lab).items()}
    return lab.within(slopes, MARGIN, 1 + MARGIN, "exponent of Σ_p ‖Δx_p‖ in n")


@CLAIM.ours("it depends on n as ‖ΔF‖_F does: their ratio has exponent 0", REFUTED)
def tight(lab: Lab) -> Finding:
    return lab.exponent(looseness(lab), 0.0, what="exponent in n of Σ_p ‖Δx_p‖ over ‖ΔF‖_F")


@CLAIM.correction("in real steps the sum is looser than ‖ΔF‖_F by √n", SUPPORTED)
def loose(lab: Lab) -> Finding:
    rivals = (("as large", 0.0), ("n times", 1.0))
    what = "exponent in n of Σ_p ‖Δx_p‖ over ‖ΔF‖_F"
    return lab.exponent(looseness(lab), 0.5, rivals, what=what)


@CLAIM.correction("‖ΔF‖_F ≤ √n · max_p ‖Δx_p‖", PROVED)
def sharper(lab: Lab) -> Finding:
    largest, slack = sp.Symbol("M", positive=True), sp.symbols("t_1:4", nonnegative=True)
    gap = sp.expand(3 * largest**2 - sum(largest**2 - t for t in slack))  # s_p² = M² − t_p
    because = f"n·M² − Σ s_p² = {gap} ≥ 0 with s_p² = M² − t_p"
    return lab.proved(all(c > 0 for c in sp.Poly(gap, largest, *slack).coeffs()), because)


@CLAIM.ours(
    "‖ΔF‖_F of an SGD step on the mean loss grows with n, whatever the data, n ≤ 256", REFUTED
)
def grows(lab: Lab) -> Finding:
    slopes = {data: lab.power(LENGTHS, whole(s)) for data, s in changes(lab).items()}
    return lab.within(slopes, MARGIN, 1.0, "exponent of ‖ΔF‖_F in n")


@CLAIM.correction("one token's change does not grow with n", SUPPORTED)
def of_one_token(lab: Lab) -> Finding:
    slopes = {data: lab.power(LENGTHS, token(s)) for data, s in changes(lab).items()}
    return lab.at_most(slopes, 0.0, "exponent of ‖Δx_p‖ in n")


@CLAIM.correction(
    "one token's change: exponent −1/2 in n for correlated tokens with random targets, n ≤ 256",
    SUPPORTED,
)
def averaging_out(lab: Lab) -> Finding:
    found = lab.power(LENGTHS, token(changes(lab)["gaussian:0.5"]))
    what = "exponent of ‖Δx_p‖ in n, tokens of correlation 0.5"
    return lab.exponent(found, -0.5, (("a token's own loss alone", -1.0), ("none", 0.0)), what=what)


@CLAIM.correction(
    "one token's change: exponent 0 in n where all targets are equal, so ‖ΔF‖_F scales as √n",
    SUPPORTED,
)
def alike(lab: Lab) -> Finding:
    changes = [token_changes(lab, n, "gaussian:0.5", 32, one_target=True) for n in LENGTHS]
    found, rivals = lab.power(LENGTHS, token(changes)), (("random targets", -0.5),)
    what = "exponent of ‖Δx_p‖ in n, tokens of correlation 0.5, one target"
    return lab.exponent(found, 0.0, rivals, what=what)


def token(found: list[Array]) -> Array:
    """The mean token's change: (seeds, lengths)."""
    return Lab.columns(sizes.mean(1) for sizes in found)


def whole(found: list[Array]) -> Array:
    """‖ΔF‖_F: (seeds, lengths)."""
    return Lab.columns(np.linalg.norm(sizes, axis=1) for sizes in found)


def looseness(lab: Lab) -> dict[str, Interval]:
    """The exponent in n of Σ_p ‖Δx_p‖ over ‖ΔF‖_F."""
    every = changes(lab).items()
    return {data: lab.power(LENGTHS, token(s) * LENGTHS / whole(s)) for data, s in every}


@once
def changes(lab: Lab) -> dict[str, list[Array]]:
    """‖Δx_p‖/η of every token at each length: (seeds, batch·tokens)."""
    return {
        data: [token_changes(lab, n, data, 96 if data == "gaussian:0.5" else 32) for n in LENGTHS]
        for data in DATA
    }


def token_changes(lab: Lab, tokens: int, data: str, seeds: int, one_target: bool = False) -> Array:
    """‖Δx_p‖/η of every token to first order of one SGD step, (seeds, batch·tokens)."""
    found = []
    # sixteen seeds at a time: attention's scores of all of them need not be held at once
    for lot in range(seeds // 16):
        seed = 100 * lab.seed + lot
        s = lab.small(tokens=tokens, data=data, dtype="float64", seeds=16, seed=seed)
        trial = DEEPNORM.trial(lab.pick(2, 16), s)
        if one_target:
            trial.batch = replace(trial.batch, targets=torch.zeros_like(trial.batch.targets))
        found.append(sgd_move(trial, 1e-6).norm(dim=-1).flatten(1).numpy())
    return np.concatenate(found)
