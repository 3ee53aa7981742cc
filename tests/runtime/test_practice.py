"""What people train with: compile, autocast, several processes, few imports."""

import os
import socket
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

from deepnet_theory import apply_, parameter_groups
from deepnet_theory.runtime import build
from deepnet_theory.runtime.machine import repeatable

BLOCKED = """
import builtins, sys
usual = builtins.__import__
absent = {"scipy", "click", "transformers", "matplotlib"}
heavy = {"sympy", "numpy", *absent}  # torch has imported those two
for name in [n for n in sys.modules if n.split(".")[0] in {*absent, "deepnet_theory"}]:
    del sys.modules[name]
def blocked(name, of=None, *given):
    if name.split(".")[0] in heavy and (of or {}).get("__name__", "").startswith("deepnet_theory"):
        raise ImportError("blocked: " + name)
    return usual(name, of, *given)
builtins.__import__ = blocked
from deepnet_theory import apply_, guard, parameter_groups
from deepnet_theory.runtime import *
c = Constants("decoder", "post-ln", "layer", (PartConstants("decoder", 2, True,
    (SublayerConstants("attention", 2.0, 0.5), SublayerConstants("ffn", 2.0, 0.5))),),
    Architecture(width=8, heads=2))
import torch
model = build(c)
model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
own = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 32), 2,
    enable_nested_tensor=False)
apply_(own, c)
for one in (model, own):
    optimizer = torch.optim.AdamW(parameter_groups(one, 1e-3, weight_decay=0.1))
    guard(optimizer)
    optimizer.step()
loaded = {m.split(".")[0] for m in sys.modules}
assert not absent & loaded, loaded
rooms = {m.split(".")[1] for m in sys.modules if m.startswith("deepnet_theory.")}
assert rooms <= {"runtime", "definitions", "models", "processes", "sizes", "_discovered"}, rooms
builtins.__import__ = usual
from deepnet_theory import predict_update
predict_update("adam", [2], seeds=2, width=8, heads=1, tokens=4)
assert "matplotlib" not in sys.modules  # a measurement draws nothing
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="works in a copy of this process")
def test_the_runtime_works_where_everything_else_is_blocked():
    process = mp.get_context("fork").Process(target=exec, args=(BLOCKED, {"__name__": "blocked"}))
    process.start()
    process.join(120)
    process.kill()  # what has ended stays so
    assert process.exitcode == 0


STEPS, WORLD = 4, 2


def _data():
    generator = torch.Generator().manual_seed(7)
    return torch.randint(50, (STEPS, 4, 8), generator=generator)


def _train(model, batches, reduce):
    optimizer = torch.optim.SGD(parameter_groups(model, 0.1))
    losses = []
    for tokens in batches:
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(reduce(loss.detach()))
    return losses


def _mean(loss):
    dist.all_reduce(loss)
    return (loss / WORLD).item()


def _model(constants, foreign):
    generator = torch.Generator().manual_seed(0)
    if not foreign:
        return build(constants, dtype=torch.float64, generator=generator)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 64, 0.0, batch_first=True)
    stack = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(50, 16), stack, nn.Linear(16, 50)).double()
    apply_(model, constants, generator=generator)
    return model


def _worker(rank, foreign, constants, rendezvous, queue, both_done):
    torch.set_num_threads(1)
    if "lo" in (name for _, name in socket.if_nameindex()):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine's own name resolves to
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    try:
        mine = _data().chunk(WORLD, dim=1)[rank]
        losses = [_train(_model(constants, foreign), mine, _mean)]  # that share no gradients
        model = torch.nn.parallel.DistributedDataParallel(_model(constants, foreign))
        losses.append(_train(model, mine, _mean))
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh, model = init_device_mesh("cpu", (WORLD,)), _model(constants, foreign)
        stacks = [model[1]] if foreign else model.parts.values()
        for layer in (layer for stack in stacks for layer in stack.layers):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        losses.append(_train(model, mine, _mean))
        if rank == 0:
            queue.put(losses)
        both_done.wait(timeout=60)  # one that leaves early closes the other's connection
    finally:
        dist.destroy_process_group()


@pytest.mark.timeout(120)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="works in copies of this process")
@pytest.mark.parametrize(
    "foreign", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["built", "applied"]
)
def test_two_processes_get_the_losses_of_one(constants, foreign, tmp_path):
    c = constants("encoder" if foreign else "decoder", multipliers={"norm-gain": 0.5})
    alone = _train(_model(c, foreign), _data(), lambda loss: loss.item())
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    meet = str(tmp_path / "meet")
    given = (foreign, c, meet, queue, context.Barrier(WORLD))
    mp.start_processes(_worker, given, nprocs=WORLD, start_method="fork")
    apart, ddp, fsdp2 = queue.get()
    assert ddp == pytest.approx(alone, rel=1e-10)
    assert fsdp2 == pytest.approx(alone, rel=1e-10)
    # planted error: processes that do not share their gradients go elsewhere
    assert apart[0] == pytest.approx(alone[0], rel=1e-10)
    assert apart[-1] != pytest.approx(alone[-1], rel=1e-6)


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    torch.use_deterministic_algorithms(False)


def unrepeatable():
    """An operation that torch has in one kind alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
    return [str(w.message) for w in caught]


def test_a_gpu_takes_what_is_repeatable_and_torch_warns_of_the_rest():
    q = torch.randn(2, 3, 8, 4, generator=torch.Generator().manual_seed(0))
    with sdpa_kernel(SDPBackend.MATH):
        products = attention(q, q, q)
    assert not unrepeatable()
    with repeatable(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert "does not have a deterministic implementation" in unrepeatable()[0]
        assert torch.equal(attention(q, q, q), products)
    assert not torch.are_deterministic_algorithms_enabled() and not unrepeatable()
