from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, Tensor, np, once
from paper_checks.shared.record import NOTE, REFUTED, SUPPORTED
from paper_checks.shared.stacks import Net, residual_sums

CLAIM = Claim(
    name="norms-width",
    source=f"{NOTE}, §1, 'Reason', second displayed equation; Su Jianlin, kexue.fm/archives/9009",
    statement="""For large t, F_t(Norm(x_t)) + F_{t+1}(Norm(x_{t+1})) ≈ F_t(Norm(x_t)) +
        F_t(Norm(x_t)): two layers in a row are one wider layer; Pre-Norm adds width, not depth.""",
    conditions="""built Pre-LN and plain Post-LN encoders at initialisation, 96 and 192 layers,
        text, independent Gaussian tokens, one token""",
    finding="""Two consecutive Pre-LN sublayers may be put side by side at a relative error that
        falls as t^{−1/2}: 30 % at the 16th sublayer, 16 % at the 64th, 7 % on average from there to
        the 384th, on text. In plain Post-LN the error does not fall and stays at 60 % on average.
        So the statement is right in kind and weaker than the 1/t the note argues with. As written,
        with F_t in place of F_{t+1}, it is wrong: the two branches have independent weights and
        differ by √2 of their size; the wider layer consists of two different halves.""",
    counterexample="Layers t and t + 1 with V and −V as last matrices: F_{t+1}(u) = −F_t(u).",
    corrected="""F_t(Norm(x_t)) + F_{t+1}(Norm(x_{t+1})) ≈ (F_t ⊕ F_{t+1})(Norm(x_t)), two different
        branches side by side, with a relative error of order t^{−1/2}.""",
    seconds=4.5,
)
RIVALS = (("1/t", -1.0), ("none", 0.0))


@CLAIM.stated(
    "Pre-LN: F_{t+1}(Norm(x_{t+1})) ≈ F_{t+1}(Norm(x_t)), the error falling as t^{−1/2} or faster",
    SUPPORTED,
)
def side_by_side(lab: Lab) -> Finding:
    found, levels = errors(lab, "pre-ln", "shifted")
    what = "exponent of the error in t + t_0, x_0 counting as t_0 terms"
    t_0 = {data: start for data, (_, start) in neighbours(lab)["pre-ln"].items()}
    return lab.at_most(found, -0.5, what, levels=levels, t_0=t_0)


@CLAIM.ours("for single tokens as t^{−1/2}, not as 1/t", SUPPORTED)
def single(lab: Lab) -> Finding:
    one = errors(lab, "pre-ln", "shifted")[0]["one token"]
    return lab.exponent(one, -0.5, RIVALS, what="exponent of the error in t + t_0")


@CLAIM.stated(
    "as written: F_{t+1}(Norm(x_{t+1})) ≈ F_t(Norm(x_t)), the error falling with t", REFUTED
)
def as_written(lab: Lab) -> Finding:
    found, levels = errors(lab, "pre-ln", "replaced")
    what = "exponent in t of ‖F_{t+2}(·) − F_t(·)‖/‖F_t(·)‖, one kind of sublayer"
    return lab.at_most(found, -0.5, what, levels=levels)


@CLAIM.ours("plain Post-LN: layers side by side, the error does not fall as t^{−1/2}", SUPPORTED)
def post_norm(lab: Lab) -> Finding:
    found, levels = errors(lab, "post-ln", "shifted")
    return lab.at_least(found, -0.5, "exponent of the error in t, Post-LN", levels=levels)


@CLAIM.correction(
    "single tokens: F_t(Norm(x_t)) + F_{t+1}(Norm(x_t)) replaces both at an error ~ t^{−1/2}",
    SUPPORTED,
)
def both_replaced(lab: Lab) -> Finding:
    one = errors(lab, "pre-ln", "together")[0]["one token"]
    what = "exponent in t of the error of both branches together"
    return lab.exponent(one, -0.5, RIVALS, what=what)


def errors(
    lab: Lab, placement: str, which: str
) -> tuple[dict[str, Interval], dict[str, dict[str, float]]]:
    """By data, an error's exponent in t + t_0 and its mean at some heights."""
    found, levels = {}, {}
    for data, (of, start) in neighbours(lab)[placement].items():
        error = of[which]
        # where the input is a small part of the stream; two sublayers of a layer at a time, so
        # that both kinds count equally
        at = np.arange(32, len(error) - 2, 2)
        both = np.sqrt((error[at] ** 2 + error[at + 1] ** 2) / 2)
        found[data] = lab.power(at + start, both.T)
        levels[data] = {f"t = {t}": float(error[t].mean()) for t in (16, 64)}
        levels[data]["mean from t = 64"] = float(error[64:].mean())
    return found, levels


@once
def neighbours(lab: Lab) -> dict[str, dict[str, tuple[dict[str, Array], float]]]:
    """The stacks of both placements under each kind of data."""
    kinds = ("text", "gaussian:0", "one token")
    return {p: {data: measured(lab, p, data) for data in kinds} for p in ("pre-ln", "post-ln")}


def measured(lab: Lab, placement: str, data: str) -> tuple[dict[str, Array], float]:
    """How far consecutive sublayers of a stack may stand for each other, (sublayers, seeds).

    Each branch at its own input and at that of the sublayer below it: "shifted", the error of
    F_{t+1} at the input of F_t over F_{t+1}; "together", the same over F_t + F_{t+1}; "replaced",
    the next sublayer of the kind of t in its place. And t_0, as how many terms x_0 counts.
    """
    tokens, data = (1, "gaussian:0") if data == "one token" else (16, data)
    chosen = lab.small(data=data, tokens=tokens, batch=16 // tokens, seeds=lab.pick(64, 96))
    trial = Net(placement=placement).trial(lab.pick(96, 192), chosen)
    sums, residuals = residual_sums(trial), list(trial.model.residuals())
    rows = []
    for (_, below, lower), (_, _, out), (_, _, upper), residual in zip(
        sums, sums[1:], sums[2:], residuals[1:], strict=False
    ):
        read = residual.norms[0](below) if placement == "pre-ln" else below
        change = residual.branch(read) - out
        rows.append([size(change, out), size(change, lower + out), size(upper - lower, lower)])
    terms = sum(float(out.square().mean()) for _, _, out in sums) / len(sums)
    start = float(sums[0][1].square().mean()) / terms if placement == "pre-ln" else 0.0
    by_name = zip(
        ("shifted", "together", "replaced"), np.array(rows).transpose(1, 0, 2), strict=True
    )
    return dict(by_name), start


def size(change: Tensor, of: Tensor) -> Array:
    """‖change‖/‖of‖, the mean over tokens: (seeds,)."""
    return np.asarray((change.norm(dim=-1) / of.norm(dim=-1)).flatten(1).mean(1))
