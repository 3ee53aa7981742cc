"""Is my DeepNorm right? Two models are audited, one with a mistake; the mistake is fixed.

    python docs/paths/deepnorm.py

``deepnet-theory audit docs/paths/my_deepnorm.py:faulty`` prints the same for 12 layers.
"""

import torch
from my_deepnorm import faithful, faulty

import deepnet_theory as dt

N = 24
torch.manual_seed(0)

# The faithful one: one forward pass shows alpha on the stream and every gain as published.
right = dt.audit(*faithful(N))
print(right)
assert right.verdict is dt.Verdict.SUPPORTED and right.follows == "deepnorm"
first = right.sublayers[0]
assert abs(first["alpha"] - (2 * N) ** (1 / 4)) < 1e-3
# Faithful is not balanced: the constants are SGD's, and under AdamW an update grows with depth.
under_adamw = dt.audit(*faithful(N), optimizer="adamw")
assert under_adamw.verdict is dt.Verdict.REFUTED and "N^(1/2)" in str(under_adamw)

# The other model: where, what, how many times, and the line that fixes it.
model, inputs = faulty(N)
audit = dt.audit(model, inputs)
for finding in audit.findings:
    print(finding.where, finding.what, finding.mend, sep="\n  ")
assert audit.verdict is dt.Verdict.REFUTED and audit.against == "deepnorm"
assert {change.role for change in audit.plan} == {"query", "key", "value"}
sizes = {finding.where.split(", ")[3].split(":")[0]: finding.size for finding in audit.findings}
beta = (8 * N) ** (-1 / 4)
assert abs(sizes["value"] / 2**0.5 - 1) < 0.05  # fans of three matrices in place of one
assert abs(sizes["query"] * beta / 2**0.5 - 1) < 0.05  # and scaled by beta on top

# The plan fixes every matrix. Afterwards the model is DeepNorm.
with torch.no_grad():
    for change in audit.plan:
        for start, end in change.outputs:
            rows = model.get_parameter(change.parameter).narrow(change.axis, start, end - start)
            rows.mul_(change.factor)
assert dt.audit(model, inputs).follows == "deepnorm"
