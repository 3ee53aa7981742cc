"""Every printed number, and every word that decides, has one fact; an error in it is REFUTED."""

from functools import cache

import derivations
import pytest

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof.facts import leaves
from deepnet_theory.proof.seen import facts, formulas
from deepnet_theory.sizes.answer import Answer

# every placement, role and kind of update; a part that another amplifies; a rate of its own
PRINTED = (
    "sgd post-ln", "adam post-ln", "lamb pre-ln", "lamb both", "adam res-post-ln",
    "muon swiglu", "adafactor", "falling",
    "complete post-ln", "complete res-post-ln", "learning-rate", "sgd both", "experts sgd",
    "parallel post-ln", "norms inside", "adam both", "lemma",
    "latent", "adam recommended post-ln", "adamw recommended pre-ln", "sgd both recommended",
)  # fmt: skip
RULE = ("rule", "published", "eta")  # what the explicit sublayers are built with
WORDS = (("unstable", "stable"), ("lazy", "stable"), ("stable", "lazy"), ("dominant", "equal"),
         ("negligible", "equal"), ("equal", "dominant"))  # fmt: skip


@cache
def answer(name):
    return Answer(derivations.selection(name), (("N", 24), ("M", 24)))


def with_leaves(data, planted):
    """The same data with other leaves at these paths."""

    def walk(node, at):
        if at in planted:
            return planted[at]
        if isinstance(node, dict):
            return {key: walk(below, (*at, str(key))) for key, below in node.items()}
        if isinstance(node, list | tuple):
            return [walk(below, (*at, named(place, below))) for place, below in enumerate(node)]
        return node

    return walk(data, ())


def named(place, below):
    """An entry of a list, as the paths of facts name it."""
    held = leaves([below]) if isinstance(below, dict) else {}
    return next(iter(held), (str(place),))[0]


def errors(path, leaf):
    """What no leaf may be without being refuted."""
    if isinstance(leaf, bool):
        yield not leaf
    elif isinstance(leaf, int | float):
        yield 1.01 * leaf + 1e-3
    elif path[0] in ("remarks", "in_depth"):
        yield from sentences(leaf)
    elif path[-1] in ("remark", "state"):
        yield "unstable" if leaf != "unstable" else "stable"
    else:
        symbol = "M" if path[-1] != "M" and "decoder" in str(path) else "N"
        yield f"({leaf})*{symbol}**(1/16)" if leaf != "0" else "1"
        yield "-1"
        yield f"2*({leaf})" if leaf != "0" else "2"


def sentences(text):
    """The first word that decides, and every formula."""
    for one, other in WORDS:
        if text.lower().startswith(one):
            yield other + text[len(one) :]
            break
    for formula in formulas(text):
        if formula not in ("N", "M"):
            yield text.replace(formula, f"{formula}*N**(1/16)")


@pytest.fixture(scope="session", params=PRINTED)
def printed(request):
    one = answer(request.param)
    return one.selection, one.to_dict()


def test_every_leaf_has_one_fact_and_holds(printed):
    selection, data = printed
    found = facts(selection, data)
    assert [fact.of for fact in found] == ["/".join(path) for path in leaves(data)]
    assert {fact.verdict for fact in found} == {Verdict.MEASURED}


def verdicts(selection, data):
    return {fact.of: fact.verdict for fact in facts(selection, data)}


def test_an_error_in_any_leaf_beside_the_rule_is_refuted(printed):
    """All of one kind at once, each by its own fact; sentences apart, which quote the others."""
    selection, data = printed
    right = verdicts(selection, data)
    wrong = {}
    for path, leaf in leaves(data).items():
        if path[0] not in RULE and right["/".join(path)] is Verdict.MEASURED:
            for index, error in enumerate(errors(path, leaf)):
                wrong.setdefault((index, path[0] == "remarks"), {})[path] = error
    unseen = []
    for planted in wrong.values():
        seen = verdicts(selection, with_leaves(data, planted))
        unseen += [path for path in planted if seen["/".join(path)] is not Verdict.REFUTED]
    assert wrong and unseen == []


@pytest.mark.parametrize(
    "name", ["sgd post-ln", "adamw recommended pre-ln", "complete res-post-ln", "learning-rate"]
)
def test_an_error_in_the_rule_is_refuted(name):
    selection, data = answer(name).selection, answer(name).to_dict()
    unseen = []
    for path, leaf in leaves(data).items():
        if path[0] in RULE:
            for error in errors(path, leaf):
                seen = verdicts(selection, with_leaves(data, {path: error}))
                if Verdict.REFUTED not in seen.values():
                    unseen.append((path, error))
    assert unseen == []


@pytest.mark.parametrize("name", ["adafactor", "adam post-ln"])
def test_a_row_that_is_missing_or_not_there_is_refuted(name):
    selection, right = answer(name).selection, answer(name).to_dict()
    for index in range(len(right["parameters"])):
        data = {
            **right,
            "parameters": [*right["parameters"][:index], *right["parameters"][index + 1 :]],
        }
        assert Verdict.REFUTED in verdicts(selection, data).values(), index
    twice = {**right["parameters"][0], "name": "no such parameter"}
    data = {**right, "parameters": [*right["parameters"], twice]}
    assert Verdict.REFUTED in verdicts(selection, data).values()


def test_a_remark_of_the_identity_and_a_condition_stand_where_they_hold_and_nowhere_else():
    far, near = (answer(name) for name in ("learning-rate", "adam recommended post-ln"))
    remark = next(said for said in far.remarks if "S*r^2" in said)
    wrong = (
        (far, "remarks", []),
        (near, "remarks", [remark]),
        (near, "in_depth", near.in_depth.replace(near.condition, "")),
    )
    for of, key, planted in wrong:
        data = {**of.to_dict(), key: planted}
        assert Verdict.REFUTED in verdicts(of.selection, data).values()
