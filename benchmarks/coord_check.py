"""`measure` compared with mup's coord check on the same models: what each says, and what it costs.

    python benchmarks/coord_check.py [--seeds 4] [--steps 4] [-o benchmarks/results/coord_check.md]

The coord check is written here as `mup.coord_check.get_coord_data` has it (Yang et al., arXiv
2203.03466, appendix D.1): every model is trained for a few steps on one batch, forward hooks
record the mean |x| of every module's output before each step, and a person looks whether the
curves over the size fan out. mup itself is not imported (it needs torchvision). The models are
those of notebook 8; two to four minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from arguments import output, whole
from torch import Tensor, nn

import deepnet_theory as dt

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))
import nano_gpt

DEPTHS = (6, 12, 24)
STREAM, FINAL = "the last layer's output", "the head's input"
HEAD = """\
# `measure` compared with mup's coord check

`measure` prints an exponent, an interval and a verdict. A coord check prints sizes of
activations, and leaves the judgement to the reader. Here both are run on one pre-LN decoder
(notebook 8), without the rule and with the rule.

The coord check mixes growth by the initialisation with growth by the update, at one learning
rate. Behind the final norm it shows nothing, because that tensor is normalised. `measure` takes
the update alone, in the limit where the output is linear in the update.

Set-up: AdamW at a learning rate of 10⁻³, {depths} layers, {seeds} seeds, {steps} steps of the
coord check. Made by `python benchmarks/coord_check.py`.

| model | coord check: mean \\|x\\| of {stream}, by depth, at steps 1 and {steps} | \
mean \\|x\\| of {final} | time (s) | \
`measure`: ‖ΔF‖/η by depth | \
exponent in depth (95 %) | verdict | time (s) |
|---|---|---|---|---|---|---|---|
"""

Coords = dict[tuple[str, int, int], list[float]]  # module, depth, step -> mean |x| by seed


def coord_check(make, optimizer, seeds: int, steps: int) -> Coords:  # type: ignore[no-untyped-def]
    """The mean |x| of every module's output before each of a few training steps."""
    found: Coords = defaultdict(list)
    for depth in DEPTHS:
        for seed in range(seeds):
            torch.manual_seed(seed)
            model, ids = make(depth)
            stepper = optimizer(model)
            for step in range(1, steps + 1):

                def record(
                    name: str,
                    _: nn.Module,
                    __: object,
                    out: Tensor,
                    at: tuple[int, int] = (depth, step),
                ) -> None:
                    found[name, *at].append(out.detach().abs().mean().item())

                handles = [
                    module.register_forward_hook(lambda *a, n=name: record(n, *a))
                    for name, module in model.named_modules()
                ]
                logits = model(ids)[:, :-1]
                for handle in handles:
                    handle.remove()
                stepper.zero_grad()
                F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
                stepper.step()
    return found


def fans(found: Coords, name: str, steps: int) -> str:
    """The means over seeds by depth, at the first and the last step."""

    def mean(depth: int, step: int) -> float:
        key = f"h.{depth - 1}" if name == STREAM else "ln_f"
        values = found[key, depth, step]
        return math.fsum(values) / len(values)

    rows = [", ".join(f"{mean(d, step):.3g}" for d in DEPTHS) for step in (1, steps)]
    return " → ".join(rows)


def row(name: str, make, optimizer, seeds: int, steps: int) -> str:  # type: ignore[no-untyped-def]
    """One model under both."""
    began = time.perf_counter()
    coords = coord_check(make, optimizer, seeds, steps)
    looked = time.perf_counter() - began
    m = dt.measure(make, DEPTHS, optimizer=optimizer, seeds=seeds)
    e = m.exponents[0]
    cells = (
        name, fans(coords, STREAM, steps), fans(coords, FINAL, steps), f"{looked:.0f}",
        ", ".join(f"{p.mean:.0f}" for p in m.points),
        f"{e.estimate:+.3f} ({e.low:+.3f} to {e.high:+.3f})", m.verdict.value,
        f"{m.provenance.seconds:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Both measurements of both models, as a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=whole(2), default=4)
    parser.add_argument("--steps", type=whole(2), default=4)
    parser.add_argument("-o", "--output", type=output)
    given = parser.parse_args()
    plain = lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)  # noqa: E731
    rows = [
        row("without the rule", nano_gpt.make, plain, given.seeds, given.steps),
        row(
            "with the rule, stream at rms 1",
            nano_gpt.ruled,
            nano_gpt.adamw,
            given.seeds,
            given.steps,
        ),
    ]
    head = HEAD.format(
        depths=", ".join(map(str, DEPTHS)), seeds=given.seeds, steps=given.steps, stream=STREAM,
        final=FINAL,
    )  # fmt: skip
    page = head + "\n".join(rows) + "\n"
    if given.output:
        given.output.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
