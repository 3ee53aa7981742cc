"""Loading somebody's model: every way to fail is one sentence."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models.factory import load_factory, load_known_factory, made

SOURCE = """
import torch
from torch import nn
print("noise")
WIDTH = 8
def stack(depth):
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, depth)
def fixed():
    return stack(3), torch.ones(1, 4, WIDTH)
def named(depth=2):
    return nn.Sequential(nn.Embedding(11, WIDTH), stack(depth))
def fails(depth):
    raise RuntimeError("no such corpus")
def leaves():
    raise SystemExit("please set DATA")
def nothing():
    return {"layers": 3}
def asks(depth, width):
    return stack(depth)
def on_meta():
    with torch.device("meta"):
        return stack(2)
def quantised():
    m = nn.Module(); m.w = nn.Parameter(torch.ones(4, 4, dtype=torch.int8), requires_grad=False)
    return m
class Configured(nn.Module):
    def __init__(self, config): super().__init__(); self.w = nn.Linear(config.width, 8)
class Sized(nn.Module):
    def __init__(self, vocab, width): super().__init__()
class Chosen(nn.Module):
    def __init__(self, vocab=9, n=2): super().__init__()
def odd():
    class Odd(nn.Module):
        def __init__(self): super().__init__(); self.w = nn.Linear(8, 8)
        def forward(self, graph): return self.w(graph["nodes"])
    return Odd()
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_a_factory_makes_a_module_and_its_inputs(file, capsys):
    factory = load_factory(f"{file}:stack")
    whole = factory.make(5)
    assert len(whole.module.layers) == 5
    assert whole().shape == whole.inputs[0].shape
    assert len(factory.make().module.layers) == 12
    assert torch.equal(load_factory(f"{file}:fixed").make().inputs[0], torch.ones(1, 4, 8))
    assert not load_factory(f"{file}:named").make().inputs[0].is_floating_point()
    assert not capsys.readouterr().out  # what the file prints is no data of ours


def test_a_factory_that_travels_knows_its_code(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    by_file, installed = load_known_factory(f"{file.name}:stack"), "torch.nn:Transformer"
    assert by_file.text == f"{file.resolve()}:stack" and by_file.code
    known = load_known_factory(installed)
    assert known.text == installed and known.code
    (file.parent / "ourpackage").mkdir()
    file.with_name("ourpackage").joinpath("net.py").write_text(SOURCE, encoding="utf-8")
    assert len(load_factory("ourpackage.net:stack").make(2).module.layers) == 2
    wanted = by_file.depends_on("step", torch.float32)
    assert wanted == by_file.depends_on("step", torch.float32) and by_file.code in wanted
    unknown = replace(by_file, code=None)
    assert unknown.depends_on("step", torch.float32) is None
    assert by_file.depends_on("step", torch.float32, unknown) is None


FAILS = {
    "{file}:stak": "has no 'stak'; did you mean 'stack'",
    "{file}:WIDTH": "is no function but of type int",
    "{file}:fails": "failed: RuntimeError: no such corpus",
    "{file}:leaves": "failed: SystemExit: please set DATA",
    "{file}:nothing": ": give a torch.nn.Module, or a factory",
    "{file}:asks": "asks for depth, width; a factory takes the depth alone",
    "{file}:Configured": "Configured is a class, and a factory takes a depth: def make(depth): ",
    "{file}:Sized": "is a class that asks for vocab, width; a factory takes a depth: def make",
    "{file}:Chosen": "takes vocab first, and a factory takes a depth: def make(depth)",
    "{file}:on_meta": "is on meta",
    "{file}:quantised": "is quantised",
    "{file}:odd": "takes neither token ids nor vectors of its width",
    "{file}": "is not of the form FILE.py:FACTORY",
    "{folder}/absent.py:stack": "there is no file",
    "{folder}/broken.py:stack": "cannot be imported: ModuleNotFoundError",
    "no.such.package:stack": "no.such.package cannot be imported",
}


@pytest.mark.parametrize("text", FAILS)
def test_each_failure_is_one_sentence(file, text):
    file.with_name("broken.py").write_text("import nosuchpackage\n", encoding="utf-8")
    with pytest.raises(InputError) as told:
        load_factory(text.format(file=file, folder=file.parent)).make()
    assert FAILS[text] in str(told.value)
    assert "\n" not in str(told.value)


def test_a_depth_is_a_number_that_the_factory_takes(file):
    with pytest.raises(InputError, match="takes no depth"):
        load_factory(f"{file}:fixed").make(4)
    with pytest.raises(InputError, match="depth 0 is not a whole number of layers from 1"):
        load_factory(f"{file}:stack").make(0)


def test_given_inputs_are_tried_and_those_of_our_own_have_the_width_of_a_matrix_or_a_vector():
    module = nn.Linear(4, 4).train()
    assert made(module, {"input": torch.ones(2, 4)})().shape == (2, 4)
    assert module.training
    with pytest.raises(InputError, match="fails on the inputs given"):
        made(module, torch.ones(2, 5))
    with pytest.raises(InputError, match="give a tensor, a tuple"):
        made(module, "text")
    for module, width in ((nn.Linear(8, 4, bias=False), 8), (nn.LayerNorm(6), 6)):
        assert [x.shape[-1] for x in made(module).inputs] == [width]
