"""What has been measured so far: the content of a result, whole or partial."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from deepnet_theory.numeric.measuring.model_update import ModelUpdate
from deepnet_theory.numeric.measuring.one_sublayer import Key, PredictedUpdate
from deepnet_theory.numeric.measuring.shares import Shares
from deepnet_theory.numeric.stacks.depths import by_depth
from deepnet_theory.numeric.stepping.reference import RealStep
from deepnet_theory.spec.rule import Rule


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """A rule as plain data."""
    return {
        "name": rule.name,
        "entries": [asdict(entry) for entry in rule.entries],
        "eta": rule.eta,
        "meaning": rule.meaning,
    }


@dataclass
class Record:
    """Model updates by depth, and samples by quantity and depth, one value a seed.

    ``kinds`` has what each kind of parameter moves at the deepest depth, measured and predicted.
    """

    updates: dict[str, ModelUpdate] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    references: dict[str, RealStep] = field(default_factory=dict)
    kinds: list[tuple[Shares, dict[Key, PredictedUpdate]]] = field(default_factory=list)

    def checks(self) -> dict[str, Any]:
        """The record as plain data, within a verification's ``checks``.

        By depth and by name, whatever came first from several processes.
        """
        return {
            "steps": [u.to_dict() for u in by_depth(self.updates).values()],
            "reference": list(by_depth(self.references).values()),
            "samples": {name: by_depth(self.samples[name]) for name in sorted(self.samples)},
        }
