"""A rule as texts: its values at a depth, by part and kind, in words and as plain data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.rule import Rule, RuleEntry, numbers, own_rule

ENTRY = RuleEntry(
    "encoder", "*", "(2*N)**(1/2)", "1/(2*N)", "2/N", "N",
    gains={"query": "3/N", "key": "1"}, norm_epsilon={"output": "1/N**2"},
)  # fmt: skip
RULE = Rule("adam", (ENTRY,), eta="4/N")


def of(*names):
    """A rule of these parts and kinds, each with another alpha."""
    entries = (RuleEntry(*name.split("/"), f"{i + 2}", "1") for i, name in enumerate(names))
    return Rule("own", tuple(entries))


def test_an_entry_has_its_numbers_at_a_depth():
    assert ENTRY.at(N=8) == (4.0, 1 / 16)
    assert numbers(ENTRY.gains, N=8) == {"query": 3 / 8, "key": 1}
    bare = {"stack": "encoder", "sublayer": "*", "alpha": "1", "beta": "1", "rate": "1"}
    assert RuleEntry("encoder", "*", "1", "1").to_dict() == bare
    texts = bare | {
        "alpha": ENTRY.alpha, "beta": ENTRY.beta, "rate": "2/N", "rho": "N",
        "gains": {"query": "3/N", "key": "1"}, "norm_epsilon": {"output": "1/N**2"},
    }  # fmt: skip
    assert ENTRY.to_dict() == texts
    assert ENTRY.to_dict(N=8) == texts | {
        "alpha_value": 4.0, "beta_value": 1 / 16, "rate_value": 1 / 4,
        "norm_epsilon_value": {"output": 1 / 64},
    }  # fmt: skip


@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from([1, -1]))
def test_what_is_not_positive_is_refused_with_its_depth(depth, zero, order):
    alpha, beta = (f"N-{zero}", "2")[::order]
    entry = RuleEntry("encoder", "*", alpha, beta)
    if depth > zero:
        assert entry.at(N=depth) == (depth - zero, 2)[::order]
        return
    with pytest.raises(InputError, match=rf"must be positive at N = {depth}$"):
        entry.at(N=depth)


def test_a_sublayers_own_entry_goes_before_that_of_all_kinds():
    rule = of("encoder/*", "decoder/*", "decoder/ffn")
    assert [rule.entry("decoder", kind).alpha for kind in ("ffn", "attention")] == ["4", "3"]
    assert rule.entry("encoder", "ffn").alpha == "2"
    with pytest.raises(InputError, match="the rule 'own' says nothing of 'cross' in the decoder"):
        of("decoder/ffn").entry("decoder", "cross")


def test_values_are_keyed_by_what_differs():
    assert RULE.alpha_at(8) == 4 and RULE.beta_at(N=8) == 1 / 16 and RULE.eta_at(8) == 1 / 2
    assert of("decoder/*").depth_of(6, {}) == {"M": 6} and RULE.depth_of(6, {}) == {"N": 6}
    assert of("encoder/attention", "encoder/ffn").alpha_at(8) == {"attention": 2, "ffn": 3}
    both = of("encoder/*", "decoder/attention", "decoder/*")
    assert both.alpha_at(N=1, M=1) == {"encoder": 2, "decoder/attention": 3, "decoder": 4}
    for layers, depth in ((8, {"N": 8}), (8, {})):
        with pytest.raises(InputError, match="name the depth of every stack"):
            (RULE if depth else both).depth_of(layers, depth)


def test_a_row_says_the_rule_in_one_line():
    assert RULE.told() == (
        "encoder alpha = (2*N)**(1/2), beta = 1/(2*N), kappa = 2/N, eta times = 4/N, query 3/N, "
        "epsilon of its output norm times 1/N**2"
    )
    assert of("encoder/*", "decoder/ffn").told(N=8, M=8) == (
        "encoder alpha = 2 = 2, beta = 1; decoder, ffn alpha = 3 = 3, beta = 1"
    )


def test_ones_own_rule_takes_the_decoders_constants_where_they_are_given():
    entries = own_rule(("encoder", "decoder"), "2", "1/2", "3").entries
    assert [(e.part, e.sublayer, e.alpha, e.beta) for e in entries] == [
        ("encoder", "*", "2", "1/2"), ("decoder", "*", "3", "1/2"),
    ]  # fmt: skip
    assert own_rule(("encoder", "decoder"), "2", "1", None, "5").entries[1].beta == "5"
    with pytest.raises(InputError, match="is not an expression in the depth"):
        own_rule(("encoder",), "eta", "1")
