"""The constants bound the update of the whole model, LayerNorm gains and biases included."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

MATRICES, ALL, GROWTH, ADAM, MENDED, KINDS = (
    "SGD on the matrices: exponent 0 in N",
    "SGD on all parameters: exponent 0 in N",
    "SGD on the norms' gains and biases alone: ‖ΔF‖ grows as N",
    "Adam at Adam's own rule, all parameters: the update grows too",
    (
        "SGD on all parameters, the norms' learning rate divided by N and that of biases as "
        "derived: exponent 0"
    ),
    "the derivation predicts every share: norms N, output biases N^{1/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Stacks stepped with all their parameters, with the vectors alone, and with multipliers."""
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from paper_checks._cake_measure import DEEPNORM, power, settings, updates
    from paper_checks._verdicts import exponent, seen

    sgd = Selection(optimizer="sgd", method="lemma")
    derivation = derive(sgd)
    depths = context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    given = settings(context, step="all", seeds=context.pick(8, 16))
    matrices = power(depths, updates(sgd, DEEPNORM, depths, settings(context, seeds=24)))
    everything = power(depths, updates(sgd, DEEPNORM, depths, given))
    norms = power(
        depths,
        updates(sgd, DEEPNORM, depths, given, lambda d: d.role.value in ("norm-gain", "norm-bias")),
    )
    biases = power(
        depths, updates(sgd, DEEPNORM, depths, given, lambda d: d.role.value == "output-bias")
    )
    predicted = {}
    for share in derivation.shares:
        predicted[share.role.value] = max(
            float(share.exponent), predicted.get(share.role.value, -9.0)
        )
    adam = Selection(optimizer="adam")
    adam_all = power(depths, updates(adam, derive(adam).rule, depths, given))
    mended = power(depths, _mended(context, derivation, depths, given))
    gaps = {
        "norms": (norms, max(predicted["norm-gain"], predicted["norm-bias"])),
        "output biases": (biases, predicted["output-bias"]),
    }
    return (
        exponent(MATRICES, matrices, 0.0, (("all parameters", 1.0),), what="exponent of ‖ΔF‖/η"),
        exponent(ALL, everything, 0.0, what="exponent of ‖ΔF‖/η", depths=list(depths)),
        exponent(GROWTH, norms, 1.0, (("balanced", 0.0), ("half", 0.5)), what="exponent of ‖ΔF‖/η"),
        seen(
            ADAM,
            adam_all.low > 0.3,
            f"exponent of ‖ΔF‖/η {adam_all.estimate:.2f} [{adam_all.low:.2f}, {adam_all.high:.2f}]",
        ),
        exponent(
            MENDED,
            mended,
            0.0,
            (("one rate", everything.estimate),),
            0.1,
            what="exponent of ‖ΔF‖/η with the derived multipliers",
        ),
        seen(
            KINDS,
            all(abs(i.estimate - p) < 0.1 for i, p in gaps.values()),
            (
                "measured and predicted: "
                f"{ ({k: (round(i.estimate, 3), p) for k, (i, p) in gaps.items()}) }"
            ),
        ),
    )


def _mended(context: Context, derivation, depths, given):  # type: ignore[no-untyped-def]
    """‖ΔF‖/η per token of one SGD step with the derivation's multiplier on every role."""
    from deepnet_theory.numeric.trial import Trial
    from paper_checks._cake_measure import DEEPNORM, moved, np, only, per_token

    columns = []
    for n in depths:
        factors = derivation.multipliers("encoder", N=n)
        trial = Trial(derivation.selection, DEEPNORM, {"N": n}, given)
        group = trial.parameters()
        parameters = [p for p, _ in group]
        with only(trial.model, parameters):
            trial.loss(trial.output()).sum().backward()
            changes = {id(p): -1e-4 * factors.get(d.role.value, 1.0) * p.grad for p, d in group}
        columns.append((per_token(moved(trial, changes, parameters)) / 1e-4).numpy())
    return np.array(columns).T


CLAIM = Claim(
    name="deepnet-vector-parameters",
    source="DeepNet, arXiv 2203.00555, §4 (definition of the model update ‖ΔF‖ over all of θ)",
    statement=(
        "With the constants ‖ΔF‖ = Θ(η) for the update of the whole model, whose LayerNorm "
        "gains and biases are trained too."
    ),
    conditions="built DeepNorm encoders of 8 to 128 layers, text; embeddings and head not stepped",
    recorded=(
        Ruling(MATRICES, Verdict.SUPPORTED),
        Ruling(ALL, Verdict.REFUTED),
        Ruling(GROWTH, Verdict.SUPPORTED, corrected=True),
        Ruling(ADAM, Verdict.SUPPORTED),
        Ruling(MENDED, Verdict.SUPPORTED, corrected=True),
        Ruling(KINDS, Verdict.SUPPORTED),
    ),
    finding=(
        "The constants balance the matrices and not the model. The gains and biases of the "
        "norms receive the output's gradient undiminished, so under SGD they alone move the "
        "output in proportion to N (exponent 1.00); all parameters together grow with "
        "exponent 0.87 from 8 to 128 layers, on the way to 1. Adam's rule has the same gap "
        "(0.75). The derived multipliers, the norms' rate divided by N and the output "
        "biases' by N^{1/2}, restore exponent 0."
    ),
    counterexample=(
        "The bias of the norm of each sublayer receives ∂L/∂F itself: 2N steps of size "
        "η‖∂L/∂F‖ in one direction, whatever α and β are."
    ),
    corrected=(
        "‖ΔF‖ = Θ(η) for the matrices; all parameters together give Θ(ηN) under SGD unless "
        "the norms' learning rate is divided by N (and the output biases' by N^{1/2})."
    ),
    check=check,
    seconds=8.0,
)
