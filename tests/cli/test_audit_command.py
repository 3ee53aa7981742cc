"""``audit`` on the command line."""

from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.usefixtures("unmeasured")
SOURCE = """
import torch
from torch import nn
N = 4
class Block(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        nn.init.xavier_normal_(self.up.weight, gain)
        nn.init.xavier_normal_(self.down.weight, gain)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
class Odd(Block):
    def forward(self, x):
        return x + self.down(torch.fft.fft(self.up(self.norm(x))).real.cumsum(-1) @ self.up.weight
                             @ self.up.weight.T)
def make(gain, block=Block):
    torch.manual_seed(0)
    return nn.Sequential(*(block(gain) for _ in range(N))), torch.randn(2, 8, 64)
def faithful(): return make(N ** -0.5)
def faulty(): return make(2.0)
def shared():
    module, inputs = make(N ** -0.5)
    return nn.Sequential(*(module[0] for _ in range(N))), inputs
def odd(): return make(N ** -0.5, Odd)
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("faithful --optimizer lamb", 0, "The model: pre-ln, 4 encoder layers"),
        ("shared --optimizer lamb", 3, "several sublayers share 0.up.weight"),
        ("odd --optimizer lamb", 3, "The role of 0.up.weight"),
        ("faithful --scheme t-fixup", 3, "for the stack 'encoder-decoder'"),
    ],
)
def test_the_verdict_is_the_exit_code(cli, mine, name, code, says):
    told = cli("audit", *f"{mine}:{name}".split())
    assert told.code == code and says in " ".join(told.out.split())
    assert {0: "SUPPORTED", 3: "UNDECIDED"}[code] in told.out


def test_findings_fit_a_screen_and_a_page_is_written(cli, mine, tmp_path):
    page = tmp_path / "audit.html"
    told = cli("audit", f"{mine}:faulty", "--optimizer", "lamb", "--page", str(page))
    assert told.code == 1 and f"wrote {page}" in told.err
    screen = told.out.splitlines()[:24]
    assert max(map(len, screen)) <= 80
    first = " ".join(" ".join(screen).split())
    assert "REFUTED" in first and "times too large" in first and "fc2: 0.down.weight" in first
    assert 'model.get_parameter("0.down.weight").data *= 0.2' in first


@pytest.mark.parametrize("given", ["faulty", "shared"])
def test_continuous_integration_gets_the_same_verdict(cli, mine, given):
    asked = "audit", f"{mine}:{given}", "--optimizer", "lamb"
    code = cli(*asked).code
    junit, github = (cli(*asked, "--format", form) for form in ("junit", "github"))
    assert junit.code == github.code == code
    outcomes = [case[0].tag for case in ElementTree.fromstring(junit.out)]
    levels = [line.split()[0].strip(":") for line in github.out.splitlines()]
    names = {"system-out": "notice", "failure": "error", "error": "warning"}
    assert [names[outcome] for outcome in outcomes] == levels
    assert levels[0] == {1: "error", 3: "warning"}[code]
    if code == 1:  # the line of the model's own forward pass
        number = 1 + SOURCE.splitlines().index(
            "        return x + self.down(torch.relu(self.up(self.norm(x))))"
        )
        assert f"file={mine},line={number}::gain" in github.out
