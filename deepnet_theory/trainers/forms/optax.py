import json

from deepnet_theory.trainers.patterns import NUMBERS, Patterns, names
from deepnet_theory.trainers.trainer import Trainer


def write(patterns: Patterns) -> str:
    """JSON: each group's expression for a path whose keys are joined by dots, and its numbers."""
    groups = [
        {"names": names(*row.names), "roles": row.role}
        | {name: value for name in NUMBERS if (value := getattr(row, name)) is not None}
        for row in patterns.rows
    ]
    whole = {
        "schema": "deepnet-theory/optax/1",
        "of": f"{patterns.model}: {patterns.about}",
        "forward": patterns.lines,
        "notes": patterns.remarks,
        "groups": groups,
        "starts": [{"names": names(*own), "runs": r} for r, own in patterns.starts.items()],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


# labels of optax.partition, which each have a transformation of their own
OPTAX = Trainer(
    version="optax 0.2.8",
    optimizers={name: name for name in ("adamw", "sgd", "lion", "lamb")},
    write=write,
)
