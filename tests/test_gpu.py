"""What runs on a GPU agrees with the CPU: `make test-gpu`, one process on one card."""

import json
import multiprocessing as mp
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from written_models import GPT

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError

pytestmark = pytest.mark.gpu

CARD = "cpu" if os.environ.get("GPU_TESTS") == "cpu" else "cuda"  # cpu: a rehearsal without one
SINGLE, HALF = 1e-4, 0.03  # relative: float32 products in another order; bfloat16 has 8 bits
EXPONENT = 0.05  # of N: the draws of one device are not those of another


@pytest.fixture(autouse=True)
def full_products():
    """Products of float32 keep their 24 bits: a card may round them to 11 where one lets it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def apart(ours, theirs):
    """The distance of two tensors, relative to the second."""
    ours, theirs = ours.detach().double().cpu(), theirs.detach().double().cpu()
    return float((ours - theirs).norm() / theirs.norm())


def generator():
    return torch.Generator().manual_seed(0)


def built(placement="post-ln", depth=6, device="cpu", **given):
    constants = dt.export(dt.Selection(optimizer="adam", placement=placement, **given), depth,
                          width=64, heads=4, vocab=256)  # fmt: skip
    return constants, dt.build(constants, generator=generator()).to(device)


TOKENS = torch.randint(256, (4, 32), generator=generator())


def stepped(model, constants, device, lr=1e-3, precision=None):
    """The logits and the loss before, and after three steps of AdamW."""
    groups = dt.parameter_groups(model, lr, constants=constants)
    optimizer = torch.optim.AdamW(groups, lr=lr)
    seen, tokens = [], TOKENS.to(device)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast(device, precision, enabled=precision is not None):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                               tokens[:, 1:].flatten())  # fmt: skip
        loss.backward()
        optimizer.step()
        seen.append((logits.detach(), loss.detach()))
    return seen


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln", "res-post-ln"])
def test_the_builders_model_trains_there_as_on_the_cpu(placement):
    stack = {"stack": "decoder", "placement": placement}
    here, there = (built(device=device, **stack) for device in ("cpu", CARD))
    pairs = zip(stepped(here[1], here[0], "cpu"), stepped(there[1], there[0], CARD), strict=True)
    for (logits, loss), (theirs, their_loss) in pairs:
        assert apart(theirs, logits) < SINGLE
        assert float(their_loss) == pytest.approx(float(loss), rel=SINGLE)
    # all as one vector: a key's bias has a gradient of rounding alone, and Adam magnifies it
    ours, theirs = (torch.cat([p.flatten() for p in m.parameters()]) for _, m in (here, there))
    assert apart(theirs, ours) < SINGLE
    planted = stepped(built(device=CARD, **stack)[1], there[0], CARD, lr=2e-3)
    assert apart(planted[-1][0], stepped(built(**stack)[1], here[0], "cpu")[-1][0]) > 10 * SINGLE


def test_bfloat16_autocast_keeps_the_first_step():
    stack = {"stack": "decoder", "placement": "pre-ln"}
    (constants, full), (_, half) = built(device=CARD, **stack), built(device=CARD, **stack)
    [(logits, loss), *_] = stepped(full, constants, CARD)
    [(rounded, their_loss), *_] = stepped(half, constants, CARD, precision=torch.bfloat16)
    assert rounded.dtype == torch.bfloat16 and 0 < apart(rounded, logits) < HALF
    assert float(their_loss) == pytest.approx(float(loss), rel=HALF)


def answered(words):
    program = [sys.executable, "-m", "deepnet_theory", *words.split(), "--format", "json"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_verify_gives_the_verdict_and_the_exponent_of_the_cpu():
    words = "verify --optimizer adam --depths 8,16,32 --seeds 4 --no-cache"
    here, there = (answered(f"{words} --device {device}") for device in ("cpu", CARD))
    assert there["device"] != here["device"] or CARD == "cpu"
    assert there["verdict"] == here["verdict"] == "SUPPORTED"
    for ours, theirs in zip(here["exponents"], there["exponents"], strict=True):
        assert theirs["estimate"] == pytest.approx(ours["estimate"], abs=EXPONENT), there


@pytest.mark.skipif(CARD == "cpu", reason="only a card is given whole")
def test_one_process_owns_the_card():
    with pytest.raises(InputError, match="processes 2 is for the CPU"):
        dt.verify("adam", [8, 16], seeds=2, device=CARD, cache=None, processes=2)


def test_a_rule_that_grows_is_seen_to_grow():
    words = "--alpha 2*N --beta N**(1/2) --depths 8,16,32 --seeds 4 --no-cache"
    found = answered(f"verify --optimizer adam {words} --device {CARD}")
    assert found["exponents"][0]["low"] > EXPONENT


def test_it_is_repeatable_bit_for_bit():
    words = f"verify --optimizer sgd --depths 8,16 --seeds 2 --no-cache --device {CARD}"
    first, second = answered(words), answered(words)
    for result in (first, second):
        result.pop("seconds")
    assert first == second


def test_a_thousand_layers_fit():
    found = answered(
        f"verify --optimizer lamb --width 64 --depths 500,1000 --seeds 2 --no-cache --device {CARD}"
    )
    assert found["verdict"] in ("SUPPORTED", "UNDECIDED")
    assert [point["depth"]["N"] for point in found["points"]] == [500, 1000]


def gpt(layers, width=64, device="cpu"):
    torch.manual_seed(0)
    return GPT(layers, d=width).to(device)


def on(device):
    return lambda layers: gpt(layers, device=device)


def test_a_model_is_read_applied_and_measured_where_it_is():
    constants = dt.export(dt.Selection(optimizer="adam", stack="decoder", placement="pre-ln"), 4,
                          width=64, heads=4)  # fmt: skip
    found = {}
    for device in {"cpu", CARD}:
        model = gpt(4, device=device)
        audit = dt.audit(model, optimizer="adam")
        dt.apply_(model, constants, generator=torch.Generator(device).manual_seed(0))
        again = dt.audit(model, constants=constants)
        assert {p.device.type for p in model.parameters()} == {device}
        assert not again.findings, again.findings
        rms = {
            name: float(p.detach().square().mean().sqrt()) for name, p in model.named_parameters()
        }
        groups = [(len(g["params"]), g["lr"]) for g in dt.parameter_groups(model, 1e-3)]
        found[device] = (
            audit.verdict,
            [(one.where, one.what) for one in audit.findings],
            rms,
            groups,
        )
    here, there = found["cpu"], found[CARD]
    assert there[0] == here[0] and there[1] == here[1] and there[3] == here[3]
    assert there[2] == pytest.approx(here[2], rel=0.05)  # of matrices of 4,096 entries and more


def test_measure_finds_the_same_growth():
    here, there = (
        dt.measure(on(device), [2, 4, 8], optimizer="adamw", seeds=4, cache=None)
        for device in ("cpu", CARD)
    )
    assert there.verdict == here.verdict
    for ours, theirs in zip(here.exponents, there.exponents, strict=True):
        assert theirs.estimate == pytest.approx(ours.estimate, abs=EXPONENT)


def test_transfer_trains_there():
    words = "transfer --optimizer adam --depths 2,4 --rates 1e-3,3e-3,1e-2 --steps 5 --seeds 2 "
    words += "--width 32 --tokens 16 --no-cache"
    here, there = (
        answered(f"{words} --device {d}")["closures"][0]["curves"] for d in ("cpu", CARD)
    )
    for ours, theirs in zip(here, there, strict=True):
        assert theirs["losses"] == pytest.approx(ours["losses"], rel=HALF)


def _child(queue):
    try:
        dt.verify("adam", [8, 16], seeds=2, device=CARD, cache=None)
        queue.put("done")
    except InputError as error:
        queue.put(str(error))


@pytest.mark.skipif(CARD == "cpu", reason="only a card refuses a forked process")
def test_a_forked_child_gets_one_sentence():
    torch.zeros(1, device=CARD)
    context = mp.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    said = queue.get(timeout=60)
    child.join()
    assert "fork" in said and "\n" not in said
