"""What holds of every model that was put right by its constants: shared by the tests of models."""

import warnings

import deepnet_theory as dt
from deepnet_theory import apply_, parameter_groups


def everything(model):
    """Weights and buffers with their bits, classes, attributes, and what these contain."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return (
        [(name, t.detach().numpy().tobytes()) for name, t in tensors],
        [(type(m), list(vars(m))) for m in model.modules()],
        [
            {k: list(v) for k, v in vars(m).items() if isinstance(v, dict | list | set)}
            for m in model.modules()
        ],
    )


def put_right(model, constants, inputs, **options):
    """The audit of a model that takes its constants: none differs, each parameter learns once."""
    changes = apply_(model, constants, inputs=inputs, **options).changes
    assert changes and len(changes) == len(set(changes))  # once however often a layer is used
    audit = dt.audit(model, inputs, constants=constants)
    assert (audit.verdict, audit.findings) == ("SUPPORTED", ()), audit
    assert apply_(model, constants, inputs=inputs, **options).changes == ()
    with warnings.catch_warnings(action="ignore"):  # packed matrices
        groups = parameter_groups(model, 1e-3)
    listed = [id(p) for g in groups for p in g["params"]]
    assert len(listed) == len(set(listed))
    assert len(listed) == sum(p.requires_grad for p in model.parameters())
    return audit
