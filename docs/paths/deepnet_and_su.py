"""DeepNet and Su Jianlin's analysis: derived, compared, and measured.

    python docs/paths/deepnet_and_su.py

``deepnet-theory derive --optimizer sgd --method lemma --steps`` shows every step on a page.
"""

import deepnet_theory as dt

# DeepNet's route bounds the model update, sublayer by sublayer. Every step is checked as it is
# made, and says which steps and which assumptions it rests on.
deepnet = dt.derive("sgd", method="lemma", closure="published")
print(deepnet)
assert deepnet.verdict is dt.Verdict.PROVED  # given its assumptions
alpha, beta = deepnet.rule.alpha_at(N=100), deepnet.rule.beta_at(N=100)
assert abs(alpha / 200 ** (1 / 4) - 1) < 1e-9  # DeepNet, arXiv 2203.00555, Figure 2: (2N)^(1/4),
assert abs(beta / 800 ** (-1 / 4) - 1) < 1e-9  # and (8N)^(-1/4)

# Su's route takes one scalar of each matrix as a probe of its gradient. It gives the same powers of
# N. The constants differ by the terms that a route counts, and by a convention.
su = dt.derive("sgd", closure="published")
ratios = {N: deepnet.rule.beta_at(N=N) / su.rule.beta_at(N=N) for N in (10, 1000)}
assert abs(ratios[10] / ratios[1000] - 1) < 1e-9

# The assumptions of both routes, and those of one route alone.
assumed = {d.selection.method: {a.name for a in d.assumptions} for d in (deepnet, su)}
print("both:", *sorted(assumed["lemma"] & assumed["probe"]))
print("lemma alone:", *sorted(assumed["lemma"] - assumed["probe"]))
assert "near-identity" in assumed["lemma"] & assumed["probe"]

# Measured on real stacks: the exponent of the update in depth, and every assumption.
small = {"depths": [4, 8, 16], "width": 32, "tokens": 16, "seeds": 4}
measured = dt.verify(deepnet, **small)
print(measured)
exponent = measured.exponents[0]
assert measured.verdict is dt.Verdict.SUPPORTED and exponent.low <= 0 <= exponent.high

# The same constants under Adam, whose update does not depend on the gradient's size: Su's point.
adam = dt.derive("adam")  # the recommended rule, and the published one below it
elsewhere = dt.verify(adam, rule=deepnet.rule, **small)
print(elsewhere)
exponent = elsewhere.exponents[0]
assert elsewhere.verdict is dt.Verdict.SUPPORTED and not exponent.constant
assert exponent.predicted == 1 / 2 and exponent.low <= 1 / 2 <= exponent.high
for row in adam.rows:
    print(f"Adam, {row.named}: α = {row.rule.entries[0].alpha}, β = {row.rule.entries[0].beta}")
assert abs(adam.published.alpha_at(N=100) / 200 ** (1 / 2) - 1) < 1e-9
