"""The file that a training is taken up from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import read_bytes, require_writable, write_bytes
from deepnet_theory.training.runner import Runner

MOST_BYTES = 2**36  # of a state


class State:
    """The file that a training is taken up from: what every seed has reached, by its number."""

    def __init__(self, file: Path, conditions: dict[str, Any]) -> None:
        self.file, self.conditions = file, conditions
        self.seeds: dict[int, dict[str, Any]] = {}
        require_writable(file)  # before the work that it is to hold
        if not file.exists():
            return
        content = io.BytesIO(read_bytes(file, MOST_BYTES))
        try:
            saved = torch.load(content, map_location="cpu", weights_only=True)
            before, seeds = dict(saved["conditions"]), dict(saved["seeds"])
        except Exception:  # a damaged file fails in as many ways as it can be damaged
            raise self._damaged() from None
        # more steps are the purpose of taking it up
        wrong = [k for k in conditions if k != "steps" and before.get(k) != conditions[k]]
        if wrong:
            raise InputError(f"{str(file)!r} is of another run: its {wrong[0]} differs")
        self.seeds = seeds

    def save(self, seed: int, runners: list[Runner], done: int) -> None:
        """Keep what this seed has reached."""
        models = [
            {
                "model": r.model.state_dict(),
                "optimizer": r.optimizer.state_dict()["state"],
                "losses": r.losses,
                "finding": r.finding,
            }
            for r in runners
        ]
        self.seeds[seed] = {"done": done, "runners": models}
        content = io.BytesIO()
        torch.save({"conditions": self.conditions, "seeds": self.seeds}, content)
        write_bytes(self.file, content.getvalue())

    def take_up(self, seed: int, runners: list[Runner]) -> int:
        """Bring the runners to where this seed is; returns the number of steps done."""
        if seed not in self.seeds:
            return 0
        try:
            done = self.seeds[seed]["done"]
            for r, s in zip(runners, self.seeds[seed]["runners"], strict=True):
                r.take_up(s, done)
        except Exception:
            raise self._damaged() from None
        if done > self.conditions["steps"]:
            raise InputError(f"{str(self.file)!r} is further on, at step {done}")
        return int(done)

    def _damaged(self) -> InputError:
        return InputError(
            f"{str(self.file)!r} is not the state of a training run (damaged or truncated?)"
        )
