from paper_checks.shared.bench import Claim, Finding, Lab, sp
from paper_checks.shared.engine import across_batch
from paper_checks.shared.record import PROVED, REFUTED

CLAIM = Claim(
    name="batch-timescale",
    source="""Bergsma et al., 'Power Lines', arXiv 2505.13738, abstract and §3, after Wang and
        Aitchison, arXiv 2405.13698""",
    statement="""The AdamW timescale B/(ηλD) should stay constant: at fixed N and D the best λ goes
        linearly with B.""",
    conditions="""algebra of the timescale over D samples; the package's rows in B""",
    finding="""At a rate that is held fixed the constant timescale is λ ∝ B. At the rate that the
        batch asks for, η ∝ √B, it is λ ∝ √B: the same timescale, and what the package derives.
        So 'linear in B' is about a rate that is not moved, and taken together with √B for the
        rate it would shorten the memory with the batch.""",
    counterexample="η ∝ √B and λ ∝ B: the timescale falls as B^{−1/2}.",
    corrected="ηλ ∝ B: λ ∝ B at a fixed rate, λ ∝ √B at η ∝ √B.",
    seconds=1,
)


@CLAIM.stated("at a fixed rate a constant timescale is λ ∝ B", PROVED)
def fixed(lab: Lab) -> Finding:
    batch, rate, decay, samples = sp.symbols("B eta lambda D", positive=True)
    time = batch / (rate * decay * samples)
    found = sp.solve(sp.Eq(time, sp.Symbol("tau", positive=True)), decay)[0]
    return lab.proved(sp.diff(found / batch, batch) == 0, f"λ = {found}")


@CLAIM.ours("the best λ goes linearly with B at the rate that the batch asks for, too", REFUTED)
def moved(lab: Lab) -> Finding:
    return lab.proved(time_at("B") == 1, f"B/(ηλ) goes as {time_at('B')}")


@CLAIM.correction("there it goes as √B, as the package derives", PROVED)
def derived(lab: Lab) -> Finding:
    rows = across_batch("adamw")
    decays = {row["decay"] for row in rows if row["decay"] is not None}
    holds = len(decays) == 1 and time_at(*decays) == 1
    return lab.proved(holds, f"decay {sorted(decays)}: B/(ηλ) stays")


def time_at(decay: str) -> sp.Expr:
    """B/(ηλ) up to a constant at the package's rate and this decay."""
    batch = sp.Symbol("B", positive=True)
    (rate,) = {row["rate"] for row in across_batch("adamw")}
    eta, lam = (sp.sympify(text, locals={"B": batch}) for text in (rate, decay))
    return sp.simplify(batch / (eta * lam))
