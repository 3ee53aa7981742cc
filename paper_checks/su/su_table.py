from paper_checks.shared.bench import Claim, Finding, Fit, Lab, once, symbolic
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import PROVED, SU, SUPPORTED
from paper_checks.shared.rules import CONDITIONS, PUBLISHED, balanced
from paper_checks.shared.stacks import Net, model_updates

CLAIM = Claim(
    name="su-table",
    source=f"{SU}, §Multiple optimizers, table",
    statement="SGD (2N)^{1/4}, (2N)^{−1/4}; Adam (2N)^{1/2}, (2N)^{−1/2}; LAMB 1, (2N)^{−1/2}.",
    conditions="""post-LN encoder, branch matrices stepped, 12 to 144 layers (SGD under its own
        rule: 32 to 512), text""",
    finding="""All six constants follow from balance and closure, and each of the three rules keeps
        its own optimizer's update constant in depth. No rule fits another optimizer by accident
        except one: LAMB's serves SGD, being on SGD's balanced curve. Under Adam, SGD's and LAMB's
        rules let the update grow as N^{1/2}; Adam's rule starves SGD (N^{−1}) and LAMB (N^{−1/2});
        SGD's under LAMB grows as N^{1/4}.""",
    seconds=(6, 46),
)


@CLAIM.stated("the six constants follow from balance and closure", PROVED)
def constants(lab: Lab) -> Finding:
    agree, verdicts = {}, {}
    for name, printed in PUBLISHED.items():
        derivation = derive(optimizer=name)
        entry, verdicts[name] = derivation.rule.entries[0], derivation.verdict
        # Su's conditions, solved without the engine
        own, derived = balanced(*CONDITIONS[name]), (entry.alpha, entry.beta)
        agree[name] = [
            all(equal(formula(text), one) for text in texts)
            for one, *texts in zip(own, printed, derived, strict=True)
        ]
    holds = all(map(all, agree.values())) and set(verdicts.values()) == {PROVED}
    solved = "Su's balance and closure solved for both exponents"
    because = f"{solved}; the derivation agrees, and so does what is printed"
    return lab.proved(holds, because, agree=agree, derivations=verdicts)


@CLAIM.stated("each optimizer's update is constant in depth under its own rule", SUPPORTED)
def own(lab: Lab) -> Finding:
    found = {optimizer: fit for (rule, optimizer), fit in table(lab).items() if rule == optimizer}
    return lab.exponent(found, 0.0)


@CLAIM.ours("under another optimizer's rule the exponent is the derived one, not 0", SUPPORTED)
def other(lab: Lab) -> Finding:
    cells = symbolic.cross_table(PUBLISHED)
    judged, shown = [], {}
    for (rule, optimizer), fit in table(lab).items():
        if rule != optimizer:
            predicted = float(cells[rule, optimizer])
            shown[f"{optimizer} under the rule of {rule}"] = f"predicted {predicted:+.2f}, {fit}"
            rivals = (("constant", 0.0),) if predicted else ()
            judged.append(lab.exponent(fit, predicted, rivals, table=shown))
    return lab.worst(*judged)


@once
def table(lab: Lab) -> dict[tuple[str, str], Fit]:
    """The exponent of ‖ΔF‖/η under every rule and optimizer."""
    found = {}
    for optimizer in PUBLISHED:
        s = lab.settings(seeds=16 if optimizer == "sgd" else 8)
        for rule, texts in PUBLISHED.items():
            at = lab.deep() if optimizer == rule == "sgd" else lab.depths()
            found[rule, optimizer] = lab.settled(at, model_updates(Net(*texts, optimizer), at, s))
    return found
