"""The numbers of threads and of processes that suit the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deepnet_theory.numeric.stacks.depths import Depth
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.processes import cores, require_processes
from deepnet_theory.runtime import machine
from deepnet_theory.spec.errors import InputError

LONG = 2**27  # activations times layers; below it a process takes longer to start than to help


@contextmanager
def fitting_threads(settings: Settings) -> Iterator[int]:
    """As many threads as suit the settings, whatever else runs: results depend on their number.

    A GPU is made repeatable.
    """
    count = machine.fitting_threads(_activations(settings))
    with machine.threads(count), machine.repeatable(settings.torch_device):
        yield count


def fitting_processes(processes: int | None, depths: Sequence[Depth], settings: Settings) -> int:
    """``processes`` as asked for; for None as many as fill the cores where the work is long.

    Raises :class:`InputError` for less than one process, or for several on a GPU.
    """
    if processes is not None:
        require_processes(processes)
    if settings.torch_device.type != "cpu":
        if processes is not None and processes > 1:
            raise InputError(f"processes {processes} is for the CPU; a GPU is given all at once")
        return 1
    if processes is not None:
        return processes
    layers = sum(sum(depth.values()) for depth in depths)
    if layers * settings.draws * _activations(settings) < LONG:
        return 1
    return max(1, cores() // machine.fitting_threads(_activations(settings)))


def _activations(settings: Settings) -> int:
    return settings.seeds * settings.batch * settings.tokens * settings.width
