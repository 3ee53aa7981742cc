"""What people ask an audit at the command line: the first line and the exit code answer it."""

import json
import sys

import pytest

from deepnet_theory.cli import main

MODEL = """
import math, torch
from torch import nn
import torch.nn.functional as F

W, H, V = 32, 4, 64

class Att(nn.Module):
    twice = False
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(W, W, bias=False) for _ in range(4))
    def forward(self, x):
        b, t, _ = x.shape
        q, k = self.q(x), self.k(x)
        q, k, v = (z.view(b, t, H, -1).transpose(1, 2) for z in (q, k, self.v(x)))
        q = q / math.sqrt(W // H) if self.twice else q
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
                      .reshape(b, t, W))

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(W, 4 * W, bias=False), nn.Linear(4 * W, W, bias=False)
    def forward(self, x):
        return self.down(F.gelu(self.up(x)))

class Net(nn.Module):
    def __init__(self, n, rule, std, final):
        super().__init__()
        torch.manual_seed(0)
        self.emb, self.head = nn.Embedding(V, W), nn.Linear(W, V, bias=False)
        self.branches = nn.ModuleList(kind() for _ in range(n) for kind in (Att, Mlp))
        self.norms = nn.ModuleList(nn.LayerNorm(W) for _ in self.branches)
        self.final, self.rule = nn.LayerNorm(W) if final else nn.Identity(), rule
        for name, p in self.branches.named_parameters():
            nn.init.normal_(p, std=std(name.split(".")[1], p.shape))
        nn.init.normal_(self.head.weight, std=math.sqrt(2 / (W + V)))
    def forward(self, ids):
        x = self.emb(ids)
        for branch, norm in zip(self.branches, self.norms):
            x = self.rule(x, branch, norm)
        return self.head(self.final(x))

IDS = (torch.arange(24).view(2, 12),)
SCALED = ("v", "o", "up", "down")

def xavier(shape):
    return math.sqrt(2 / sum(shape))

def deepnorm(n, of=None, rule=None):
    a, b = (2 * (of or n)) ** 0.25, (8 * (of or n)) ** -0.25
    rule = rule or (lambda x, f, m: m(a * x + f(x)))
    return Net(n, rule, lambda role, s: xavier(s) * (b if role in SCALED else 1), False)

def faithful(n): return deepnorm(n), IDS
def of_sublayers(n): return deepnorm(n, 2 * n), IDS

def gpt_2(n):
    std = lambda role, s: 0.02 / math.sqrt(2 * n) if role in ("o", "down") else 0.02
    return Net(n, lambda x, f, m: x + f(m(x)), std, True), IDS

def alias(n, weights=1.0):
    a = (2 * n) ** 0.25
    net = deepnorm(n, rule=lambda x, f, m: m(a * x + f(a * x)) if isinstance(f, Mlp)
                   else m(a * x + f(x)))
    for f in net.branches:
        if isinstance(f, Mlp):
            f.up.weight.data *= weights
    return net, IDS

def strayed(n):
    a = 1.5 * (2 * n) ** 0.25
    return deepnorm(n, rule=lambda x, f, m: m(a * x + f(x))), IDS

def alias_divided(n): return alias(n, (2 * n) ** -0.25)

def res_post(n):
    return Net(n, lambda x, f, m: x + m(f(x)), lambda role, s: 0.02, True), IDS

def twice(n):
    net, ids = gpt_2(n)
    for f in net.branches[::2]:
        f.twice = True
    return net, ids

def copies(n):
    net = deepnorm(n)
    for i, f in enumerate(net.branches):
        f.load_state_dict(net.branches[i % 2].state_dict())
    return net, IDS

def loud_head(n):
    net = deepnorm(n)
    nn.init.normal_(net.head.weight, std=1.0)
    return net, IDS

def small_outside(n):
    net, b = deepnorm(n), (8 * n) ** -0.25
    for p in (net.emb.weight, net.head.weight):
        nn.init.normal_(p, std=b * math.sqrt(2 / (W + V)))
    return net, IDS
"""
N = 8
ALPHA = (2 * N) ** 0.25


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """What a command about one of the models prints and ends with: text, or JSON."""
    (tmp_path / "own.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def asked(name, *options):
        command = ["audit", f"own.py:{name}", "--depth", str(N), *options]
        monkeypatch.setattr(sys, "argv", ["deepnet-theory", *command])
        code, told = main(), capsys.readouterr().out
        return code, json.loads(told) if "json" in options else " ".join(told.split())

    return asked


def of(answer):
    return {f["where"].split(": ")[0].rpartition(", ")[2] + ": " + f["where"].split(": ")[1]
            for f in answer["findings"] if f["severity"] == "difference"}  # fmt: skip


def test_an_optimizer_is_a_question_about_it(ask):
    code, told = ask("gpt_2", "--optimizer", "adamw")
    assert code == 1
    assert "Implemented as published (gpt-2). Under adamw one update grows as N^1: not" in told
    assert ask("gpt_2")[0] == 0 and ask("faithful", "--optimizer", "sgd")[0] == 0
    code, told = ask("faithful", "--optimizer", "adam")
    assert code == 1 and "Implemented as published (deepnorm). Under adam one update grows" in told


def test_constants_of_another_depth_are_named_with_it(ask):
    code, told = ask("of_sublayers", "--format", "json")
    assert (code, told["against"]) == (1, "deepnorm")
    (finding,) = told["findings"]
    assert "the constants of deepnorm for 16 layers" in finding["what"]
    assert "N counts layers, not sublayers" in finding["what"] and finding["size"] == 2


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_branch_that_reads_alpha_x_is_told_to_read_x(ask, optimizer):
    code, told = ask("alias", "--optimizer", optimizer, "--format", "json")
    assert (code, of(told)) == (1, {"ffn: reads"})
    assert told["findings"][0]["size"] == pytest.approx(ALPHA)
    assert "the branch reads alpha*x" in told["findings"][0]["what"] and told["plan"] == []
    # to divide the weights leaves the rate
    code, told = ask("alias_divided", "--optimizer", optimizer, "--format", "json")
    assert (code, of(told)) == (1, {"ffn: rate of fc1"})


def test_the_nearest_rule_is_of_the_models_own_placement(ask):
    _, told = ask("res_post", "--optimizer", "adamw", "--format", "json")
    assert (told["placement"], told["against"]) == ("res-post-ln", "adamw")
    assert not any("norms" in f["where"] for f in told["findings"])


def test_what_starts_wrong_beside_the_rule_is_a_finding(ask):
    told = ask("twice", "--scheme", "gpt-2")[1]
    assert "attention, query" in told and "its scores are divided by sqrt(8) twice" in told
    code, told = ask("copies")
    assert code == 1 and "the layers start as copies of one" in told
    code, told = ask("loud_head")
    assert code == 1 and "head: head.weight: the loss starts at" in told
    code, told = ask("small_outside", "--scheme", "deepnorm", "--format", "json")
    assert code == 1
    assert {f["where"] for f in told["findings"]} == {"emb.weight: gain", "head.weight: gain"}
    assert all(f["size"] == pytest.approx((8 * N) ** 0.25) for f in told["findings"])
    assert ask("faithful", "--scheme", "deepnorm")[0] == 0


def test_a_wrong_alpha_has_its_module_and_line(ask):
    code, told = ask("strayed", "--scheme", "deepnorm", "--format", "json")
    alphas = [f for f in told["findings"] if f["where"].endswith("alpha")]
    rule = "    return deepnorm(n, rule=lambda x, f, m: m(a * x + f(x))), IDS"
    line = 1 + MODEL.splitlines().index(rule)
    assert code == 1 and alphas and all(f" at own.py:{line}" in f["what"] for f in alphas)
