"""What plants an opposite in a claim's own file and judges its parts with it."""

import sys
from inspect import unwrap

import pytest

from deepnet_theory.cli.claims import importable, location, runner

importable(location())  # the claims' own ``paper_checks``


def of_claims():
    return {name for name in sys.modules if name.partition(".")[0] == "paper_checks"}


@pytest.fixture(autouse=True)
def the_claims_own_modules_come_back():
    """A folder of a test takes the place of theirs, whose classes others have by name."""
    kept = {name: sys.modules[name] for name in of_claims()}
    yield
    for name in of_claims():
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.fixture
def plant(monkeypatch):
    """``plant(claim, name=value, …)`` gives the verdict on the part whose label has the words."""

    def planted(name, **values):
        from paper_checks.shared.bench import Lab

        claim, lab = runner().load(location(), name), Lab()
        names = unwrap(claim.parts[0].check).__globals__
        for key, value in values.items():
            assert key in names
            monkeypatch.setitem(names, key, value)

        def judge(words):
            exact = [p for p in claim.parts if p.about == words]
            (part,) = exact or [p for p in claim.parts if words in p.about]
            return part.check(lab).verdict

        return judge

    return planted
