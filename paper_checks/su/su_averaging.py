import math
from dataclasses import replace
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Settings, Tensor, once, sp, torch
from paper_checks.shared.record import PROVED, REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import PLAIN, lots

CLAIM = Claim(
    name="su-averaging",
    source=f"{SU}, §Self-attention, below the third equation",
    statement="The softmax average of the tokens usually has the tokens' order of magnitude.",
    conditions="""the runtime's attention at initialisation, 8 to 2048 tokens, independent,
        correlated, and text bytes; the law at widths 64 and 128 with 4 heads""",
    finding="""The softmax average never exceeds the largest token. For n tokens of correlation ρ
        its rms is √(ρ + (1−ρ)²/d + (1−ρ)e^{1−ρ}/n) of a token's: the shared part, a floor that the
        alignment of scores with keys keeps up, and an unweighted mean of n/e^{1−ρ} effective
        tokens. So it is of the tokens' order where they share something, as on real text (0.65 at 8
        bytes, 0.40 at 2048), and shrinks without end in n and d where they do not.""",
    counterexample="""512 independent tokens of width 64: the average has 0.14 of a token's norm;
        two orthogonal tokens of norm 1 with equal weights average to 1/√2.""",
    corrected="""The rms of ‖softmax(q)X‖/‖x‖ is √(ρ + (1−ρ)²/d + (1−ρ)e^{1−ρ}/n) for n Gaussian
        tokens of correlation ρ: a constant in depth, not in n and d where ρ = 0.""",
    seconds=(2, 22),
)

LENGTHS = ((8, 32, 128, 512), (8, 32, 128, 512, 2048))


@CLAIM.stated("as a bound: ‖softmax(q)X‖ ≤ max‖x_i‖", PROVED)
def bound(lab: Lab) -> Finding:
    # two tokens in the plane; the general case follows by adding one token at a time
    p = sp.Symbol("p")
    x, y = (sp.Matrix(sp.symbols(f"{name}1:3", real=True)) for name in "xy")
    average = p * x + (1 - p) * y
    gap = p * x.dot(x) + (1 - p) * y.dot(y) - average.dot(average)
    return lab.proved(
        sp.expand(gap - p * (1 - p) * (x - y).dot(x - y)) == 0,
        "p‖x‖² + (1−p)‖y‖² − ‖px + (1−p)y‖² = p(1−p)‖x−y‖²",
        largest_ratio_seen=averages(lab)["largest"].max(),
    )


@CLAIM.ours("in order, for independent tokens", REFUTED)
def independent(lab: Lab) -> Finding:
    # from where the length is large against the number of tokens attended to
    found = lab.settled(lab.pick(*LENGTHS)[1:], averages(lab)["gaussian:0"][:, 1:])
    return lab.exponent(found, 0.0)


@CLAIM.correction(
    "for n tokens of correlation ρ the rms ratio is √(ρ + (1−ρ)²/d + (1−ρ)e^{1−ρ}/n)", SUPPORTED
)
def law(lab: Lab) -> Finding:
    found = {}
    for d in (64, 128):
        for n in lab.pick((128, 512), (128, 512, 2048)):
            for rho in (0.0, 0.3, 0.9):
                s = lab.settings(batch=1, width=d, tokens=n, seeds=32, data=f"gaussian:{rho}")
                # a few seeds at a time: scores are n × n
                squares = [ratios(lot)[0].square().mean((0, 2)) for lot in lots(s, 8)]
                expected = (rho + (1 - rho) ** 2 / d + (1 - rho) * math.exp(1 - rho) / n) ** 0.5
                size = torch.cat(squares).sqrt().double().numpy()
                found[f"d {d}, n {n}, rho {rho}"] = lab.mean(size / expected)
    return lab.ratio(found, "ratio over the law")


@CLAIM.stated("in order, for tokens of correlation 0.3 and 0.9: constant in n", SUPPORTED)
def correlated(lab: Lab) -> Finding:
    data = ("gaussian:0.3", "gaussian:0.9")
    found = {name: lab.settled(lab.pick(*LENGTHS)[1:], averages(lab)[name][:, 1:]) for name in data}
    by_length = {name: values.mean(0) for name, values in averages(lab).items()}
    return lab.exponent(found, 0.0, (("independent", -0.5),), ratio_by_length=by_length)


@CLAIM.stated("of the same order of magnitude, within √10, for real text", SUPPORTED)
def text(lab: Lab) -> Finding:
    columns = zip(lab.pick(*LENGTHS), averages(lab)["text"].T, strict=True)
    found = {f"{n} bytes": lab.mean(column) for n, column in columns}
    return lab.within(found, 10**-0.5, 10**0.5, "ratio")


@once
def averages(lab: Lab) -> dict[str, Array]:
    """‖σx‖/‖x_i‖ by data, (seeds, lengths), and the largest ‖σx‖/max‖x_i‖ of all."""
    base, found, tops = lab.settings(batch=1, seeds=8), {}, []
    for data in ("gaussian:0", "gaussian:0.3", "gaussian:0.9", "text"):
        pairs = [ratios(replace(base, tokens=n, data=data)) for n in lab.pick(*LENGTHS)]
        found[data] = lab.columns(ratio.mean((0, 2)) for ratio, _ in pairs)
        tops += [top.max() for _, top in pairs]
    return {**found, "largest": torch.stack(tops)[None].numpy()}


def ratios(s: Settings) -> tuple[Tensor, Tensor]:
    """‖σx‖/‖x_i‖ of every head, seed and token, and the largest ‖σx‖/max‖x_i‖ of every seed."""
    trial = PLAIN.trial(1, s)
    block: Any = next(trial.model.residuals()).branch
    tokens = trial.inputs[-1][:, 0]  # (k, n, d)
    q, key = block.query(tokens), block.key(tokens)
    average = []
    for start in range(0, tokens.shape[-1], block.head_width):
        part = slice(start, start + block.head_width)
        weights = (q[..., part] @ key[..., part].mT / block.head_width**0.5).softmax(-1)
        average.append((weights @ tokens).norm(dim=-1))
    sizes, length = torch.stack(average), tokens.norm(dim=-1)  # (heads, k, n), (k, n)
    return sizes / length, sizes.amax((0, 2)) / length.amax(1)
