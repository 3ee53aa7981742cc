"""The guide's commands and code run, and the libraries that it names keep the groups' rates."""

import contextlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from matchers import executed

from deepnet_theory.cli import main
from deepnet_theory.trainers.trainer import trainers

GUIDE = Path(__file__).parents[2] / "docs" / "trainers.md"
MODEL = """
import sys
sys.path.insert(0, {tests!r})
import torch
from written_models import GPT, Llama
def make(depth, width):
    return Llama(depth, d=width), torch.arange(16)[None]
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)


LINES = [line.strip() for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """What each command of the guide writes, and the folder that has the model."""
    folder = tmp_path_factory.mktemp("guide")
    text = MODEL.format(tests=str(Path(__file__).parents[1]))
    (folder / "model.py").write_text(text, encoding="utf-8")
    found = {"folder": folder}
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for line in LINES:
            assert main([*line.split()[1:], "--quiet"]) == 0, line
            found[line] = Path(line.split()[-1]).read_text("utf-8")
    return found


@pytest.fixture
def write(texts, monkeypatch):
    """Puts the file that a command of the guide writes into the folder of the model."""
    monkeypatch.chdir(texts["folder"])
    monkeypatch.syspath_prepend(str(texts["folder"]))
    return lambda line: Path(line.split()[-1]).write_text(texts[line], "utf-8")


def test_every_command_of_the_guide_runs(texts):
    assert {re.search(r"--for (\S+)", line)[1] for line in LINES} == set(trainers())
    assert all(len(texts[line]) > 1000 for line in LINES)


def test_the_guide_has_every_trainer_with_its_version():
    for name, one in trainers().items():
        row = re.search(rf"^\| \[`{name}`\]\(#{name}\) \| (.*?) \|", GUIDE.read_text("utf-8"), re.M)
        assert row and one.version.endswith(row[1].split()[-1]), name


def exported(write, monkeypatch):
    """The text for torch, and a model with the names that it is of."""
    write(LINES[0])
    import model

    return executed(Path("rule.py").read_text("utf-8"), monkeypatch), model.make(8, 64)[0]


def test_the_script_of_the_guide_trains(write, monkeypatch, capsys):
    write(LINES[0])
    (code,) = (block for block in blocks("python") if block.startswith("# train.py"))
    for own in ("model", "rule"):
        monkeypatch.delitem(sys.modules, own, raising=False)
    exec(code, {})
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 10 and losses[-1] < losses[0]


def test_a_hybrid_gives_muon_the_matrices_and_adamw_the_rest(write, monkeypatch):
    write(next(line for line in LINES if "--optimizers" in line))
    import model

    whole, ids = model.make(8, 64)
    made = executed(Path("rule.py").read_text("utf-8"), monkeypatch)
    found = {"torch": torch, "model": whole, "rule": made}
    exec(next(block for block in blocks("python") if "optim.Muon" in block), found)
    whole(ids).square().mean().backward()
    left = {p: name for name, p in whole.named_parameters()}
    for kind, lr in ("muon", 0.02), ("adamw", 0.001):
        for group in found[kind].param_groups:
            assert group["lr"] == lr * group["lr_scale"]
            for p in group["params"]:
                assert (left.pop(p).startswith("h.") and p.dim() == 2) == (kind == "muon")
        found[kind].step()
    assert not left, "every parameter has one optimizer"


def rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_of_hugging_face_keeps_the_groups(write, monkeypatch):
    """get_decay_parameter_names regroups the parameters of an optimizer that it makes itself."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    rule, model = exported(write, monkeypatch)
    rule.initialise(model)
    optimizer = torch.optim.AdamW(rule.parameter_groups(model))
    before = rates(optimizer)
    arguments = transformers.TrainingArguments("out", report_to=[], use_cpu=True, max_steps=4)
    given = transformers.Trainer(model, arguments, optimizers=(optimizer, None))
    given.create_optimizer_and_scheduler(4)
    assert rates(given.optimizer) == before and len(set(before)) > 2
    given.lr_scheduler.step()
    assert [now / was for now, was in zip(rates(given.optimizer), before, strict=True)] == (
        pytest.approx([0.75] * len(before))
    )
    own = transformers.Trainer(model, arguments)
    own.create_optimizer()
    assert len(set(rates(own.optimizer))) == 1, "without them every parameter takes one rate"


def test_the_lines_for_lightning_nanogpt_and_nanochat_keep_the_ratios(write, monkeypatch):
    rule, model = exported(write, monkeypatch)
    (body,) = (block for block in blocks("python") if "configure_optimizers" in block)
    found = {"torch": torch, "rule": rule}
    exec(body, found)
    (optimizer,), (schedule,) = found["configure_optimizers"](SimpleNamespace(model=model, steps=4))
    before = rates(optimizer)
    optimizer.step()
    schedule.step()
    after = rates(optimizer)
    assert after[0] < before[0]
    assert [a / b for a, b in zip(after, before, strict=True)] == pytest.approx(
        [after[0] / before[0]] * len(before)
    )
    # nanoGPT's loop sets every rate; the patched line is the one that keeps them apart
    (line,) = re.findall(r"^\+ +(param_group\['lr'\] = .*)", GUIDE.read_text("utf-8"), re.M)
    for param_group in optimizer.param_groups:
        exec(line, {"param_group": param_group, "lr": 1e-3})
    assert rates(optimizer) == pytest.approx(before)
    # nanochat's loop sets every group's lr to initial_lr times the schedule's multiplier
    (patch,) = (block for block in blocks("diff") if "initial_lr" in block)
    found = {"torch": torch, "rule": rule, "model": model}
    exec(re.sub(r"^\+ {4}", "", patch, flags=re.M), found)
    before = rates(found["optimizer"])
    for group in found["optimizer"].param_groups:
        group["lr"] = group["initial_lr"] * 0.25
    assert rates(found["optimizer"]) == [0.25 * rate for rate in before]


def flax_names(model):
    """A tree as flax's Llama has it: kernels, scales and embeddings."""
    tree = {}
    for name, p in model.named_parameters():
        *owners, leaf = name.split(".")
        kind = "embedding" if "wte" in name else "scale" if p.dim() == 1 else "kernel"
        at = tree
        for owner in owners:
            at = at.setdefault(owner, {})
        at[kind if leaf == "weight" else leaf] = p.detach().numpy()
    return tree


def test_optax_steps_each_leaf_with_its_own_numbers(write, monkeypatch):
    """One step of optax's partition on flax's names: Adam's first, of each leaf's rate and ε."""
    pytest.importorskip("optax")
    jax = pytest.importorskip("jax")
    _, model = exported(write, monkeypatch)
    write(next(line for line in LINES if "--for optax" in line))
    (code,) = (block for block in blocks("python") if "optax" in block)
    found = {}
    exec(code, found)
    tree, g = flax_names(model), 1e-8
    by_name = json.loads(Path("rule.json").read_text("utf-8"))["groups"]
    gradients = jax.tree_util.tree_map(lambda leaf: g + 0 * leaf, tree)
    updates, _ = found["optimizer"].update(gradients, found["optimizer"].init(tree), tree)
    steps = set()
    for name, _ in model.named_parameters():
        leaf = updates
        for key in name.split(".")[:-1]:
            leaf = leaf[key]
        (values,) = leaf.values()
        (own,) = (row for row in by_name if re.search(row["names"], name))
        wanted = -own["lr"] * g / (g + own["eps"])
        assert float(values.min()) == pytest.approx(wanted, rel=1e-4), name
        steps.add(wanted)
    assert len(steps) == len(by_name) > 3
