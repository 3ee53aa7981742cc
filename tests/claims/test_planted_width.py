"""Negative controls of the claims on width: a wrong law is planted, and its verdict turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from deepnet_theory.cli.claims import importable, location
from deepnet_theory.definitions.outcome import Verdict

importable(location())  # the claims' own ``paper_checks``
from paper_checks.shared import wide  # noqa: E402
from paper_checks.shared.bench import Lab  # noqa: E402
from paper_checks.shared.wide import (  # noqa: E402
    MUP,
    STEPPED,
    Network,
    Powers,
    adam,
    polar,
    sgd,
    size,
)

REFUTED, SUPPORTED = Verdict.REFUTED, Verdict.SUPPORTED
Plant = Callable[..., Callable[[str], Verdict]]
Own = Callable[[str], dict[str, Any]]


@pytest.fixture
def at_two(plant: Plant, own: Own, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """``plant`` at two widths, where each law that is planted against holds."""

    def planted(claim: str, **values: Any) -> Callable[[str], Verdict]:
        least = 128 if claim in ("width-mup-sgd", "width-attention") else 64

        def widths(lab: Lab) -> tuple[int, ...]:
            return (least, 512)

        monkeypatch.setattr(wide, "widths", widths)
        return plant(claim, **values, **({"widths": widths} if "widths" in own(claim) else {}))

    return planted


def orthogonal(theta: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """A step of a spectral norm that does not depend on the width."""
    return -polar(g)


def rational(rows: int, columns: int) -> float:
    return (rows / columns) ** 0.5


class Unaligned(Network):
    """A network whose steps have nothing to do with what they meet."""

    def loss(self, symbols: torch.Tensor | None = None) -> torch.Tensor:
        source = torch.Generator().manual_seed(self.width)
        every = self.parameters.values()
        draws = [torch.randn(theta.shape, generator=source) for theta in every]
        terms = (theta * draw for theta, draw in zip(every, draws, strict=True))
        return torch.stack([term.flatten(1).sum(1) for term in terms]).sum(0)


@pytest.mark.parametrize(
    ("claim", "planted", "expected"),
    [
        ("width-mup-adam", {"adam": sgd}, {"a step of each role": REFUTED}),
        ("width-mup-sgd", {"sgd": adam}, {"Table 8:": REFUTED}),
        ("width-lamb", {"lamb": orthogonal}, {"at one rate": SUPPORTED, "as √n": REFUTED}),
        (
            "width-nonadam",
            {"RATES": MUP.rates(hidden=-0.5)},
            {"by the sign": REFUTED, "1/n for what steps by the matrix's": SUPPORTED},
        ),
        (
            "width-muon",
            {"FACTORS": {"sqrt(max(1, rows/columns))": rational}},
            {"and the head": SUPPORTED, "grows as √n": REFUTED},
        ),
        ("width-spectral", {"WANTED": dict.fromkeys(("E", "W2", "H"), 0)}, {"SGD": REFUTED}),
        ("width-alignment", {"Network": Unaligned}, {"in the first step it is full": REFUTED}),
        (
            "width-coordinate-check",
            {"POWERS": dict.fromkeys(("right", "frozen"), MUP.rates(hidden=-1))},
            {"stepped alone": REFUTED},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_a_planted_law_turns_the_verdict(
    at_two: Plant, claim: str, planted: dict[str, Any], expected: dict[str, Verdict]
) -> None:
    judge = at_two(claim, **planted)
    assert {words: judge(words) for words in expected} == expected


def test_scores_that_move_at_random_are_seen(at_two: Plant, own: Own) -> None:
    right = own("width-attention")["one_step"]

    def at_random(lab: Lab, n: int, head: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (right(lab, n, n if head == n else 1)[0],) * 2  # heads of a fixed size are not asked

    judge = at_two("width-attention", one_step=at_random)
    assert judge("q·k/k alike") is judge("and q·k/√k by √k") is REFUTED


def test_gradients_without_the_depth_are_seen(at_two: Plant, own: Own) -> None:
    right = own("width-completep")["of_one"]
    judge = at_two("width-completep", of_one=lambda lab, n, layers: right(lab, n, 8))
    assert judge("hidden gradients") is REFUTED and judge("embedding and head") is SUPPORTED


@pytest.mark.parametrize("role", STEPPED)
def test_the_derivative_along_a_step_is_a_difference_of_outputs(role: str) -> None:
    powers = Powers({"hidden": -0.3, "head": 0.2}, {"embedding": 0.2, "hidden": -0.1, "head": -0.4})
    net = Network(powers, 32, 4, Lab().generator())
    steps = {name: s for name, s in net.steps(adam).items() if name in STEPPED[role][0]}
    found, symbols = net.moved(steps), net.symbols.double()
    start = {name: theta.detach().double() for name, theta in net.parameters.items()}
    ends = [
        net.forward({n: t + eta * steps[n] if n in steps else t for n, t in start.items()}, symbols)
        for eta in (1e-6, -1e-6)
    ]
    for name, moved in found.items():
        difference = size(ends[0][name] - ends[1][name]).float() / 2e-6
        torch.testing.assert_close(moved, difference, rtol=1e-4, atol=0.0)
    assert STEPPED[role][1] in found
