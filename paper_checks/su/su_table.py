"""The six constants, and each rule under each optimizer."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import proved, worst

CONSTANTS, OWN, OTHER = (
    "the six constants follow from balance and closure",
    "each optimizer's update is constant in depth under its own rule",
    "under another optimizer's rule the exponent is the derived one, not 0",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The derived rules beside the printed ones; a 3 × 3 table of exponents measured."""
    from dataclasses import replace

    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from deepnet_theory.symbolic.implications.cross_table import cross_table
    from paper_checks.shared.rules import PUBLISHED
    from paper_checks.shared.stacks import (
        Net,
        deep,
        depths,
        exponent,
        model_updates,
        on_the_exponent,
        settings,
    )

    N = sp.Symbol("N", positive=True)
    same, steps = {}, {}
    for name, printed in PUBLISHED.items():
        derivation = derive(Selection(optimizer=name))
        entry = derivation.rule.entries[0]
        same[name] = [
            sp.simplify(sp.sympify(a, {"N": N}) / sp.sympify(b, {"N": N})) == 1
            for a, b in zip((entry.alpha, entry.beta), printed, strict=True)
        ]
        steps[name] = derivation.verdict.value
    table = cross_table(tuple(PUBLISHED))
    own, other, text = [], [], {}
    for optimizer in PUBLISHED:
        for rule, (alpha, beta) in PUBLISHED.items():
            net = Net(alpha, beta, optimizer)
            predicted = float(table.cell(rule, optimizer).exponents["N"])
            label = f"{optimizer} under the rule of {rule}"
            at = deep(context) if optimizer == rule == "sgd" else depths(context)
            found = exponent(
                label,
                at,
                model_updates(net, at, settings(context, seeds=16 if optimizer == "sgd" else 8)),
            )
            judged = on_the_exponent(
                OWN if rule == optimizer else OTHER,
                [found],
                predicted,
                [("constant", 0.0)] if predicted else [],
            )
            (own if rule == optimizer else other).append(judged)
            text[label] = f"predicted {predicted:+.2f}, measured {found}"
    shown = {"table": text, "layers": depths(context), "SGD under its own rule": deep(context)}

    return (
        proved(
            CONSTANTS,
            all(all(s) for s in same.values()) and all(v == "PROVED" for v in steps.values()),
            "derived from the update expressions and compared with the printed ones",
            **{"agree": same, "derivations": steps},
        ),
        replace(worst(own), evidence=shown),
        replace(worst(other), evidence=shown),
    )


CLAIM = Claim(
    name="su-table",
    source=f"{SU}, §Multiple optimizers, table",
    statement="SGD (2N)^{1/4}, (2N)^{−1/4}; Adam (2N)^{1/2}, (2N)^{−1/2}; LAMB 1, (2N)^{−1/2}.",
    conditions="post-LN encoder, branch matrices stepped, 12 to 144 layers (SGD under its own "
    "rule: 32 to 512), text",
    recorded=(
        Ruling(CONSTANTS, Verdict.PROVED),
        Ruling(OWN, Verdict.SUPPORTED),
        Ruling(OTHER, Verdict.SUPPORTED),
    ),
    finding=(
        "All six constants follow from balance and closure, and each of the three rules keeps "
        "its own optimizer's update constant in depth. No rule serves another optimizer by "
        "accident except one: LAMB's serves SGD, being on SGD's balanced curve. Under Adam, "
        "SGD's and LAMB's rules let the update grow as N^{1/2}; Adam's rule starves SGD "
        "(N^{−1}) and LAMB (N^{−1/2}); SGD's under LAMB grows as N^{1/4}."
    ),
    check=check,
    seconds=6,
    full_seconds=46,
)
