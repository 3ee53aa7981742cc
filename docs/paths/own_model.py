"""A decoder of your own, 100 layers under AdamW: measure it, put the rule in, check.

    python docs/paths/own_model.py

The model is in my_decoder.py. ``deepnet-theory audit docs/paths/my_decoder.py:make --optimizer
adamw`` shows what it is and ends with the derive command for the model.
"""

import torch
from my_decoder import Decoder, make
from torch import Tensor

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups

torch.manual_seed(0)

# Without the rule, one AdamW step changes the output more in a deeper model.
plain = dt.measure(make, [6, 12, 24], optimizer="adamw", seeds=2)
print(plain)
assert plain.verdict is dt.Verdict.REFUTED and plain.exponents[0].low > 0.5

# The recommended rule for this layer: its constants in the model, its rates in the optimizer.
layers = {"placement": "pre-ln", "norm": "rms", "stack": "decoder", "layer": "attention,ffn:swiglu"}
rule = dt.derive("adamw", **layers, closure="complete")
constants = dt.export(rule, depth=100)
model, ids = make(100)
print(apply_(model, constants, inputs=ids))  # what it changed, and what it left
optimizer = torch.optim.AdamW(parameter_groups(model, lr=1e-3))
assert len(optimizer.param_groups) > 1

# Does the model follow the rule? Every gain, and every group's rate, epsilon and decay are read.
audit = dt.audit(model, ids, optimizer=optimizer, constants=constants)
print(audit)
assert audit.verdict is dt.Verdict.SUPPORTED and not audit.findings
gains = {matrix["role"]: matrix["gain"] for matrix in audit.sublayers[0]["matrices"]}
beta = rule.rule.entries[0].at(M=100)[1]
assert abs(gains["value"] / beta - 1) < 0.05  # of 4,096 entries, to 1 %
assert abs(gains["query"] - 1) < 0.05


# Does one step now change the output equally at every depth?
def ruled(depth: int) -> tuple[Decoder, Tensor]:
    """The model with the rule of its depth; one generator draws embedding and head alike."""
    model, ids = make(depth)
    generator = torch.Generator().manual_seed(torch.initial_seed())
    apply_(model, dt.export(rule, depth), inputs=ids, generator=generator)
    return model, ids


def adamw(model: Decoder) -> torch.optim.AdamW:
    """AdamW at the rule's rates."""
    return torch.optim.AdamW(parameter_groups(model, lr=1e-3))


# The change grew as N^1.3 or more. Now it is constant to within N^(1/8); more seeds narrow this.
found = dt.measure(ruled, [6, 12, 24], optimizer=adamw, seeds=3)
print(found)
assert found.exponents[0].low > -1 / 8 and found.exponents[0].high < 1 / 8
