from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once
from paper_checks.shared.engine import across
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="width-embedding-vocab",
    source="""Hayou and Liu, 'Optimal Embedding Learning Rate in LLMs: The Effect of Vocabulary
        Size', arXiv 2506.15025, abstract""",
    statement="""With a large vocabulary 'the optimal embedding LR to hidden LR ratio should
        roughly scale as Θ(√width)', 'different from the Θ(width) ratio predicted by μP'.""",
    conditions="""one step of signSGD of a matrix that reads embeddings; a batch that holds each of
        V tokens once, or as often as Zipf's law has it; the change of the outputs at these tokens;
        widths 64 to 512 (1,024 in the full run)""",
    finding="""Right for tokens that are equally frequent, and the number of tokens over the width
        decides. A row of the embedding changes by the rate itself, whatever V and d. The outputs
        of the matrix change as d times its rate for a few tokens. For 4d tokens, whose embeddings
        are independent, they change as √d: so the ratio is d, or √d. The package derives both, at
        alignment full and none. Under Zipf's law a few tokens hold most of the gradient, and the
        outputs change faster than √d at V = 4d too.""",
    counterexample="""Token t as frequent as 1/t, V = 4d: over its occurrences an output changes by
        a power of d above 0.7.""",
    corrected="""√width where the batch holds many more equally frequent tokens than the width;
        between √width and width under Zipf's law.""",
    seconds=3,
)


@CLAIM.stated("V = 4d equally frequent tokens: the matrix changes its outputs as √d", SUPPORTED)
def large(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "large"), 0.5, (("d", 1.0), ("flat", 0.0)))


@CLAIM.stated("V = 2 tokens: it changes them as d, so that μP's ratio is d", SUPPORTED)
def small(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "small"), 1.0, (("√d", 0.5), ("flat", 0.0)))


@CLAIM.stated("V = 4d tokens as frequent as Zipf's law has them: as √d", REFUTED)
def zipf(lab: Lab) -> Finding:
    return lab.exponent(moved(lab, "zipf"), 0.5, (("d", 1.0),))


@CLAIM.correction("there as a power between 0.6 and 1: a few tokens hold the gradient", SUPPORTED)
def between(lab: Lab) -> Finding:
    return lab.within(moved(lab, "zipf"), 0.6, 1.0, "power of d")


@CLAIM.ours("the package derives a ratio of d at alignment full, and of √d at none", PROVED)
def derived(lab: Lab) -> Finding:
    found = {}
    for alignment in ("full", "none"):
        rates = {r["role"]: r["rate"] for r in across("width", "adam", alignment=alignment)}
        found[alignment] = rates["token-embedding"], rates["fc1"]
    asked = {"full": ("1", "1/d"), "none": ("1", "d**(-1/2)")}
    return lab.proved(found == asked, f"rates of embedding and fc1: {found}")


def moved(lab: Lab, tokens: str) -> Interval:
    """The power of the width in the change of outputs, per unit of rate."""
    widths = lab.pick((64, 128, 256, 512), (64, 128, 256, 512, 1024))
    return lab.power(widths, changes(lab)[tokens])


@once
def changes(lab: Lab) -> dict[str, Array]:
    """By kind of batch, the root mean square change of outputs: (seeds, widths)."""
    draw = np.random.default_rng(lab.seed)
    found: dict[str, list[Array]] = {"small": [], "large": [], "zipf": []}
    for width in lab.pick((64, 128, 256, 512), (64, 128, 256, 512, 1024)):
        for kind, of_width in found.items():
            count = 2 if kind == "small" else 4 * width
            share = 1 / np.arange(1, count + 1) if kind == "zipf" else np.ones(count)
            share = share / share.sum()
            seeds = np.zeros((8, 16 if kind == "small" else 1))
            for at in np.ndindex(seeds.shape):
                x, back = draw.standard_normal((count, width)), draw.standard_normal((count, 8))
                step = np.sign((back * share[:, None]).T @ x)
                seeds[at] = (share[:, None] * (x @ step.T) ** 2).sum(0).mean()
            of_width.append(np.sqrt(seeds.mean(1)))
    return {kind: np.stack(values, axis=1) for kind, values in found.items()}
