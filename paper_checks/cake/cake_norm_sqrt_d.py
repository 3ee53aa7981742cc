from paper_checks.shared.bench import Claim, Finding, Lab, sp, torch
from paper_checks.shared.record import CAKE, DEEPNET, PROVED

CLAIM = Claim(
    name="cake-norm-sqrt-d",
    source=f"{CAKE}, §4.1, proof of the lemma; {DEEPNET}, Lemma 4.1",
    statement="""mean(x) = 0 and var(x) = 1 over d entries give ‖x‖ = √d; the paper's ‖x‖ = d lacks
        the root.""",
    conditions="""variance over d entries (population), as LayerNorm takes it; d from 2 to 1024,
        with and without ε""",
    finding="""The length of a normalised token is exactly √d, since ‖x‖² = d·var + d·mean². The
        layer cake is right that the paper's d lacks the root: x = (1, −1) has length √2. It is a
        slip without consequences, because only the ratio of two token lengths enters the lemma. As
        built, LayerNorm's ε makes it √(d·var/(var + ε)), which is felt where the input's variance
        falls to 10⁻⁵.""",
)


@CLAIM.stated("‖x‖ = √d", PROVED)
def root(lab: Lab) -> Finding:
    exact = []
    for d in lab.pick((2, 3, 5), (2, 3, 5, 8, 12)):
        x = sp.symbols(f"x_1:{d + 1}", real=True)
        mean = sp.Add(*x) / d
        variance = sp.Add(*((e - mean) ** 2 for e in x)) / d
        square = sp.Add(*(e**2 for e in x))
        exact.append(sp.expand(square - d * variance - d * mean**2) == 0)
    because = "‖x‖² = d·var(x) + d·mean(x)² identically, so ‖x‖² = d"
    return lab.proved(all(exact), because)


@CLAIM.stated("the paper's ‖x‖ = d lacks the root", PROVED)
def paper(lab: Lab) -> Finding:
    length = sp.Matrix([1, -1]).norm()
    return lab.proved(length != 2, f"x = (1, −1) has mean 0, variance 1 and length {length}, not 2")


@CLAIM.ours("√(d·var/(var + ε)) with LayerNorm's ε, √(d − 1) for a variance over d − 1", PROVED)
def built(lab: Lab) -> Finding:
    g, eps, gaps = lab.generator(), 1e-5, []
    for d in lab.pick((4, 64), (2, 4, 16, 64, 1024)):
        for scale in (1.0, 1e-2):
            z = scale * lab.normal(g, 64, d)
            variance = z.var(-1, unbiased=False)
            length = torch.nn.functional.layer_norm(z, (d,), eps=eps).norm(dim=-1)
            sample = ((z - z.mean(-1, keepdim=True)) / z.std(-1, keepdim=True)).norm(dim=-1)
            gaps.append((length - (d * variance / (variance + eps)).sqrt()).abs().max())
            gaps.append((sample - (d - 1) ** 0.5).abs().max())
    gap = float(max(gaps))
    return lab.proved(gap < 1e-9, f"torch's LayerNorm and std agree within {gap:.0e}")
