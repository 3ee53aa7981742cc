"""The laboratory against what a user would write, against mup, and against its own floor.

    python benchmarks/laboratory.py [--layers 8,16,32] [--times 3] [--deep 200]
    python benchmarks/laboratory.py --parts 64

Width 64, 8 seeds, 32 tokens, 8 to 256 layers, Adam; every ratio from interleaved runs on one
machine. The first table gives one thread to each and compares CPU time, one depth at a time, in
medians of five. The second gives all cores to each, as a user would have it: the whole sweep by
``verify`` with its four draws, in one process a core, against as many runs of the plain loop with
one torch thread a core, in wall time. Both go to standard output and to
``benchmarks/results/laboratory.md``. ``--parts`` prints where the time of one depth goes.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from arguments import whole, wholes
from torch import nn

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.model_update import measure_model_update
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.stepping import backward, only
from deepnet_theory.laboratory.trial import Case, Trial
from deepnet_theory.laboratory.verify import verify

ADAM = Selection(optimizer="adam")
RULE = own_rule(("encoder",), "(2*N)**(1/2)", "(2*N)**(-1/2)")  # Su's rule, for realistic sizes
SETTINGS = Settings(width=64, heads=4, tokens=32, seeds=8)
ETA = 2.0**-16
RESULTS = Path(__file__).parent / "results" / "laboratory.md"


def laboratory(layers: int) -> None:
    """All seeds in one stack, and the derivative of its output along the step."""
    found = measure_model_update(Case(ADAM, RULE, {"N": layers}, SETTINGS))
    assert min(found) > 0, found


def encoder(layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    stack = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    for p in stack.parameters():
        if p.dim() == 2:
            nn.init.xavier_normal_(p)
    return stack


def sweep(layers: Sequence[int], processes: int) -> None:
    """The same at every depth, four draws each, by the call that a user makes."""
    found = verify(
        ADAM, RULE, Predictions((), ()), [{"N": n} for n in layers], SETTINGS, processes=processes
    )
    assert len(found.points) == len(layers), found


def plain_loop(layers: int, runs: int = SETTINGS.seeds) -> None:
    """What a user would write: one seed after another with torch's own parts."""
    for seed in range(runs):
        torch.manual_seed(seed)
        embedding, head = nn.Embedding(256, 64), nn.Linear(64, 256, bias=False)
        tokens, targets = torch.randint(256, (2, 1, 32))
        stack = encoder(layers)
        optimizer = torch.optim.Adam(stack.parameters(), lr=ETA)
        x = embedding(tokens).detach()
        before = stack(x)
        loss = nn.functional.cross_entropy(head(before).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            _ = (stack(x) - before).norm(dim=-1).mean() / ETA


def floor(layers: int) -> None:
    """The bare matrix products of a measurement, and drawing its weights once.

    The derivative of a product xW along a step has three: xW, x'W and xW'.
    """
    k, n, d, h = 8, 32, 64, 256
    generator = torch.Generator().manual_seed(0)
    weights = [
        [torch.empty(k, *s).normal_(0, 0.1, generator=generator) for s in shapes]
        for shapes in [((d, d), (d, d), (d, d), (d, d), (d, h), (h, d))] * layers
    ]
    x, y = torch.ones(k, n, d), torch.ones(k, n, h)
    q, s = torch.ones(k * 4, n, d // 4), torch.ones(k * 4, n, n)
    for repeat in range(4):  # the forward pass, and the three products of its derivative
        for q_, k_, v_, o_, a_, b_ in weights:
            for w in (q_, k_, v_, o_, a_):
                torch.bmm(x, w)
            torch.bmm(y, b_)
            torch.bmm(q, q.mT)
            torch.bmm(s, q)
            if repeat:
                continue
            for w in (q_, k_, v_, o_):  # the backward pass: two products for each one
                torch.bmm(x, w.mT)
                torch.bmm(x.mT, x)
            torch.bmm(y, a_.mT), torch.bmm(x.mT, y)
            torch.bmm(x, b_.mT), torch.bmm(y.mT, x)
            torch.bmm(s, q), torch.bmm(s.mT, q), torch.bmm(q, q.mT), torch.bmm(s.mT, q)


def mup_check() -> Callable[[int], None] | None:
    """mup's own coordinate check of the same stacks, where mup is installed."""
    try:
        coord_check = importlib.import_module("mup.coord_check")
    except ImportError:
        return None

    class Net(nn.Module):
        def __init__(self, layers: int) -> None:
            super().__init__()
            self.embedding, self.stack = nn.Embedding(256, 64), encoder(layers)
            self.head = nn.Linear(64, 256, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.stack(self.embedding(tokens)))
            return logits.flatten(0, 1)

    tokens, targets = torch.randint(256, (2, 1, 32))

    def run(layers: int) -> None:
        coord_check.get_coord_data(
            {layers: lambda: Net(layers)}, [(tokens, targets.flatten())], optimizer="adam",
            lr=ETA, mup=False, nsteps=2, nseeds=8, cuda=False, show_progress=False,
            filter_module_by_name=lambda name: not name.endswith("self_attn"),  # returns a pair
        )  # fmt: skip

    return run


def seconds(work: Callable[[int], None], layers: int) -> float:
    began = time.process_time()  # with one thread the time spent, whatever else runs
    work(layers)
    return time.process_time() - began


def wall(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def sweeps(layers: Sequence[int], times: int) -> list[str]:
    """The table of whole sweeps with every core: medians of wall time, interleaved."""
    cores = os.cpu_count() or 1
    runs = SETTINGS.seeds * SETTINGS.draws

    def loop() -> None:
        for n in layers:
            plain_loop(n, runs)

    works: dict[str, Callable[[], None]] = {
        f"laboratory, {cores} processes": lambda: sweep(layers, cores),
        f"plain loop, {cores} threads": loop,
    }
    torch.set_num_threads(cores)
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            taken[name].append(wall(work))
            print(f"{name}: {taken[name][-1]:.1f} s", file=sys.stderr, flush=True)
    torch.set_num_threads(1)
    first = statistics.median(next(iter(taken.values())))
    return [
        f"The sweep {', '.join(map(str, layers))} with {runs} runs a depth "
        f"({SETTINGS.seeds} seeds, {SETTINGS.draws} draws), all {cores} cores for each, "
        f"wall seconds, medians of {times}:",
        "",
        "| | seconds | ratio |",
        "|---|---|---|",
        *(
            f"| {name} | {statistics.median(seen):.1f} | {statistics.median(seen) / first:.1f} |"
            for name, seen in taken.items()
        ),
    ]


def medians(works: dict[str, Callable[[int], None]], layers: int, times: int) -> dict[str, float]:
    """The median time of each work, runs interleaved so that disturbances hit all alike."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            taken[name].append(seconds(work, layers))
    return {name: statistics.median(values) for name, values in taken.items()}


def memory(layers: int) -> tuple[float, float]:
    """Peak memory of one measurement over parameters + activations, in a fresh process."""
    code = f"import laboratory; laboratory.report_memory({layers})"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parent, env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout  # fmt: skip
    peak, needed = map(float, out.split()[-2:])
    return peak, needed


def report_memory(layers: int) -> None:
    """Print the growth of peak memory in one step, and the bytes of parameters + activations."""
    laboratory(2)  # libraries, threads and buffers are there before the counting starts
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    laboratory(layers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    trial = Trial(Case(ADAM, RULE, {"N": 4}, SETTINGS))
    parameters = {p.untyped_storage().data_ptr(): p for p, _ in trial.parameters()}
    for p in parameters.values():
        p.requires_grad_(True)
    saved: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        output = trial.output()
    del output
    each = sum(p.nbytes for p in parameters.values()) + sum(saved.values())
    print(peak, each / 4 * layers)


def parts(layers: int, times: int) -> list[str]:
    """Where the processor time of one measurement goes, the least of several runs."""
    trial = Trial(Case(ADAM, RULE, {"N": layers}, SETTINGS))
    own = [p for p, _ in trial.parameters()]
    drawn = sum(p.numel() for p in own) * SETTINGS.seeds // trial.seeds
    buffer, generator = torch.empty(drawn), torch.Generator().manual_seed(0)
    array, numpys = np.empty(drawn, np.float32), np.random.Generator(np.random.SFC64(0))

    def forward() -> None:
        with torch.no_grad():
            trial.output()

    def backward_of(step: bool) -> None:
        if step:
            trial.changes(own)
            return
        with only(trial.model, own):
            backward(trial.loss(trial.output()))

    numpy = "(NumPy's, of SFC64)"
    works: dict[str, Callable[[], object]] = {
        "the measurement": lambda: laboratory(layers),
        "making and drawing the stacks": lambda: Trial(trial.case),
        "of it normal numbers": lambda: buffer.normal_(generator=generator),
        numpy: lambda: numpys.standard_normal(out=array, dtype=np.float32),
        "a forward pass": forward,
        "forward and backward pass": lambda: backward_of(False),
        "the same, with the step": lambda: backward_of(True),
        "the floor": lambda: floor(layers),
    }
    taken = {name: [] for name in works}  # type: dict[str, list[float]]
    for _ in range(times):
        for name, work in works.items():
            began = time.process_time()
            work()
            taken[name].append(time.process_time() - began)
    return [
        f"{layers} layers, processor milliseconds, the least of {times}:", "", "| part | ms |",
        "|---|---|",
        *(f"| {name} | {1000 * min(seen):.0f} |" for name, seen in taken.items()),
        "",
        f"A normal number takes torch {1e9 * min(taken['of it normal numbers']) / drawn:.1f} ns "
        f"and NumPy {1e9 * min(taken[numpy]) / drawn:.1f} ns.",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=wholes, default="8,16,32,64,128,256")
    parser.add_argument("--times", type=whole(), default=5)
    parser.add_argument("--sweeps", type=whole(), default=3, help="repeats of the whole sweep")
    parser.add_argument("--deep", type=whole(), default=1000, help="depth of the single deep run")
    parser.add_argument("--parts", type=whole(), help="print where the time goes, and no more")
    asked = parser.parse_args()
    if asked.parts:
        torch.set_num_threads(1)
        print("\n".join(parts(asked.parts, asked.times)))
        return
    if asked.deep <= asked.layers[-1]:
        parser.error(f"--deep {asked.deep} is not deeper than the last of --layers")
    torch.set_num_threads(1)
    works: dict[str, Callable[[int], None]] = {
        "laboratory": laboratory, "plain loop": plain_loop, "floor": floor
    }  # fmt: skip
    mup = mup_check()
    if mup is not None:
        works["mup"] = mup
    for work in works.values():
        work(2)
    load = os.getloadavg()[0]
    lines = [
        "# The laboratory's speed", "",
        "The time that the laboratory takes to measure ‖ΔF‖, compared with a plain loop over "
        "seeds, with a floor (the matrix products alone), and with mup's coord check. A ratio "
        "above 1 means that the laboratory is faster. Times are seconds of CPU time.", "",
        f"Set-up: width 64, 8 seeds, 32 tokens, Adam; medians of {asked.times}, interleaved; "
        f"{platform.machine()}, {os.cpu_count()} cores under a load of {load:.0f}, 1 thread, torch "
        f"{torch.__version__}. Made by `python benchmarks/laboratory.py "
        f"{' '.join(sys.argv[1:])}`.", "",
        "| layers | laboratory (s) | plain loop (s) | loop / laboratory | floor (s) "
        "| laboratory / floor | mup (s) | mup / laboratory |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    depths = asked.layers
    for layers in depths:
        t = medians(works, layers, asked.times)
        lab = t["laboratory"]
        other = f"{t['mup']:.3f} | {t['mup'] / lab:.1f}" if "mup" in t else "not installed | –"
        lines.append(
            f"| {layers} | {lab:.3f} | {t['plain loop']:.3f} | {t['plain loop'] / lab:.1f} | "
            f"{t['floor']:.3f} | {lab / t['floor']:.1f} | {other} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    once = {
        "laboratory": seconds(laboratory, asked.deep),
        "plain loop": seconds(plain_loop, asked.deep),
    }
    lines.append(
        f"| {asked.deep} (once) | {once['laboratory']:.2f} | {once['plain loop']:.2f} | "
        f"{once['plain loop'] / once['laboratory']:.1f} | | | | |"
    )
    growth = math.log(once["laboratory"] / lab) / math.log(asked.deep / layers)
    peak, needed = memory(asked.deep)
    lines += [
        "",
        f"The laboratory's cost grows as layers^{growth:.2f} from {layers} to {asked.deep} layers.",
        "",
        f"Peak memory at {asked.deep} layers: {peak / 2**20:.0f} MiB, "
        f"{peak / needed:.2f} × (parameters + activations = {needed / 2**20:.0f} MiB).",
    ]
    lines += ["", *sweeps(depths, asked.sweeps)]
    text = "\n".join(lines) + "\n"
    print(text)
    write_text(RESULTS, text)


if __name__ == "__main__":
    main()
