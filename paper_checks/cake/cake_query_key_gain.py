from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, judge, np, torch
from paper_checks.shared.changes import scaled
from paper_checks.shared.engine import derive
from paper_checks.shared.record import CAKE, DEEPNET, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, model_updates, residual_sums

CLAIM = Claim(
    name="cake-query-key-gain",
    source=f"{CAKE}, §4, before the lemma of §4.1; {DEEPNET}, §4.1",
    statement="""W_Q and W_K do not affect the magnitude of attention's output, so they need no
        scaling and take gain 1.""",
    conditions="""gains 0.1, 1, 4 of query and key on built attention; share of query and key in
        ‖ΔF‖ for SGD, Adam, LAMB under their rules, 64 to 512 layers, text, correlated tokens, one
        head""",
    finding="""The lemma bounds the branch at any gain of query and key, but the gain does matter
        for its size: with 32 independent tokens gain 4 gives a branch 5.4 times that of equal
        scores, since concentrated scores do not average. For the update the lemma says nothing.
        Measured on text at 256 layers, query and key change the output by 0.12 % as much as the
        other matrices under DeepNorm and SGD, and by 0.44 % under Adam's rule. Both shares fall as
        N^{−1/2}. Under LAMB's rule the share is constant, 12 %, since its step ignores the
        gradient's size.""",
    counterexample="""Two orthogonal tokens: equal scores give an average of length √(d/2), scores
        far apart give √d.""",
    corrected="""With independent tokens the branch grows with the gain of query and key, from 1/√n
        of a token's size to all. Their share of the update falls as N^{−1/2} under the rules
        of SGD and Adam; under LAMB's it stays constant, of a tenth.""",
    seconds=(18.0, 59),
)
RULES = {
    "sgd": DEEPNORM,
    "adam": Net("(2*N)**(1/2)", "(2*N)**(-1/2)", "adam"),
    "lamb": Net("1", "(2*N)**(-1/2)", "lamb"),
}
TOKENS = 32


@CLAIM.stated("the branch stays bounded at any gain of query and key", SUPPORTED)
def bounded(lab: Lab) -> Finding:
    ratios = {
        f"{data}, gain {gain}": lab.mean(over_single(lab, gain, data))
        for data in ("gaussian:0", "gaussian:0.5", "text")
        for gain in (0.1, 1.0, 4.0)
    }
    return lab.at_most(ratios, 1.0, "‖Attn‖ over ‖xW_VW_O‖")


@CLAIM.stated("the branch's magnitude does not depend on that gain, independent tokens", REFUTED)
def unaffected(lab: Lab) -> Finding:
    what = f"branch at gain 4 over branch at gain 0, independent tokens, n = {TOKENS}"
    return lab.ratio(lab.mean(over_single(lab, 4.0) / over_single(lab, 0.0)), what)


@CLAIM.correction(
    "independent tokens: the branch has 1/√n of a token's size at gain 0, all at a large one",
    SUPPORTED,
)
def both_ends(lab: Lab) -> Finding:
    ends = {
        "gain 0, times √n": lab.mean(over_single(lab, 0.0) * TOKENS**0.5),
        "gain 64": lab.mean(over_single(lab, 64.0)),
    }
    return lab.ratio(ends, "size over a token's")


@judge
def falls(lab: Lab, optimizer: str) -> Finding:
    return lab.at_most(shares(lab, optimizer), derived(optimizer), "exponent of their share")


CLAIM.stated(
    "SGD under DeepNorm: the share of query and key in ‖ΔF‖ falls at least as derived, N^{−1/2}",
    SUPPORTED,
)(falls("sgd"))
CLAIM.ours("Adam under its rule: likewise", SUPPORTED)(falls("adam"))


@CLAIM.ours("LAMB under its rule: their share is constant in depth", SUPPORTED)
def under_lamb(lab: Lab) -> Finding:
    what = "LAMB: exponent of the share of query and key"
    return lab.exponent(shares(lab, "lamb"), derived("lamb"), (("vanishing", -0.5),), what=what)


def derived(optimizer: str) -> float:
    """The exponent of query's and key's share that the engine derives."""
    found = derive(optimizer=optimizer).parameters
    return float(max(s.exponent for s in found if s.place.parameter in ("query", "key")))


def shares(lab: Lab, optimizer: str) -> dict[str, Interval]:
    """The exponent in N of query's and key's ‖ΔF‖ over that of the scaled matrices."""
    conditions: dict[str, dict[str, Any]] = {"text": {}}
    if lab.full:
        conditions |= {"correlated tokens": {"data": "gaussian:0.5"}, "one head": {"heads": 1}}
    depths = (128, 512) if lab.full and optimizer == "lamb" else (64, 128, 256)  # settled
    net, seeds, found = RULES[optimizer], 8 if optimizer == "adam" else 16, {}
    for label, changed in conditions.items():
        s = lab.small(seeds=seeds, **changed)
        own = model_updates(net, depths, s, lambda d: d.name in ("query", "key"))
        found[label] = lab.power(depths, own / model_updates(net, depths, s, scaled))
    return found


def over_single(lab: Lab, gain: float, data: str = "gaussian:0") -> Array:
    """‖Attn‖ over ‖xW_VW_O‖, root mean squares over tokens of length √d, per seed."""
    s = lab.small(data=data, tokens=TOKENS, seeds=64, batch=4)
    trial = PLAIN.trial(1, s, lambda d: gain if d.name in ("query", "key") else 1.0)
    normalise = torch.nn.functional.layer_norm
    trial.inputs = [normalise(x, x.shape[-1:]) for x in trial.inputs]
    branch: Any = next(trial.model.residuals()).branch
    _, x, out = residual_sums(trial)[0]
    single = branch.output(branch.value(x))
    size, token = (y.double().square().sum(-1).flatten(1).mean(1).sqrt() for y in (out, single))
    return np.asarray(size / token)
