"""Loading somebody's model: every way to fail is one sentence."""

import math
import pickle
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.models.factory import (
    Factory,
    Made,
    factory_of,
    load_factory,
    load_known_factory,
    made,
    tensors,
)

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
    "{file}:Configured": "Configured is a class, and a factory takes a depth: def make(depth): ",
    "{file}:Sized": "is a class that asks for vocab, width; a factory takes a depth: def make",
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


def one(depth): ...
def optional(depth=3): ...
def none(): ...
def both(depth, width): ...
def wide(width): ...
def further(depth, more=1, *rest, named=2): ...
def vocabulary(vocab): ...
def chosen(vocab=9): ...
def three(a, b, c): ...


NO_DEPTH = "takes no depth, so that its depth cannot be varied"
NO_WIDTH = "takes no width: def make"
CALLS = [  # a function, depth and width, and what it is called with or why not
    (one, None, None, (12,)),
    (one, 1, None, (1,)),
    (one, 0, None, "from 1"),
    (one, None, 8, NO_WIDTH),
    (one, 2, 8, NO_WIDTH),
    (optional, None, None, ()),
    (optional, 5, None, (5,)),
    (none, None, None, ()),
    (none, 5, None, NO_DEPTH),
    (none, None, 8, NO_WIDTH),
    (both, None, None, "asks for depth, width; a factory takes the depth alone, or nothing"),
    (both, None, 8, (2, 8)),
    (both, 3, 8, (3, 8)),
    (both, 0, 8, "from 1"),
    (wide, None, 8, (8,)),
    (wide, 3, 8, NO_WIDTH),
    (wide, None, None, (12,)),
    (further, 4, None, (4,)),
    (further, 4, 8, (4, 8)),
    (vocabulary, None, None, (12,)),
    (chosen, None, None, "takes vocab first"),
    (three, None, None, "asks for a, b, c"),
    (three, 1, 8, (1, 8)),
    (type, None, None, ()),  # whose signature is not known
]


@pytest.mark.parametrize(("function", "depth", "width", "called"), CALLS)
def test_a_factory_is_called_with_a_depth_a_width_or_neither(function, depth, width, called):
    factory = Factory("mine", function)
    if isinstance(called, str):
        with pytest.raises(InputError, match=called):
            factory.make(depth, width=width)
    else:
        assert factory._sizes(depth, width, "") == called


class Looks(nn.Module):
    """Embeddings of given sizes, all of whose ids are looked up, and what was given."""

    def __init__(self, *sizes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 4) for size in sizes)

    def forward(self, *ids):
        return sum(table(each) for table, each in zip(self.tables, ids, strict=True))


def test_ids_of_our_own_are_of_every_table_and_few_enough_to_be_drawn_again():
    for sizes, most in (((7,), 6), ((1000,), 99), ((50, 50), 49)):
        whole = made(Looks(*sizes), seed=1)
        assert [x.shape for x in whole.inputs] == [(2, 16)] * len(sizes) and whole.drawn
        ids = torch.stack(whole.inputs)
        assert not ids.is_floating_point() and ids.min() >= 0 and most * 0.8 < ids.max() <= most
        again, other = made(Looks(*sizes), seed=1), made(Looks(*sizes), seed=2)
        assert torch.equal(ids, torch.stack(again.inputs))
        assert not torch.equal(ids, torch.stack(other.inputs))
    given = made(Looks(7), torch.zeros(3, 5, dtype=torch.long))
    assert not given.drawn and given.sequences == 3
    (alone,) = given.sequence(2).inputs
    assert alone.shape == (1, 5)


def test_a_pair_is_a_module_with_its_inputs_and_what_is_given_goes_before():
    module, own = nn.Linear(4, 4), torch.zeros(2, 4)
    pair = Factory("mine", lambda: (module, own))
    assert pair.make().inputs[0] is own
    assert pair.make(inputs=[torch.ones(3, 4)]).inputs[0].shape == (3, 4)
    for given in ((module,), (module, own, 1)):
        with pytest.raises(InputError, match=r"give a torch\.nn\.Module"):
            Factory("mine", lambda given=given: given).make()


def test_each_update_has_its_batch_and_a_batch_that_fails_is_named():
    batches = {0: torch.ones(2, 4), 1: {"input": torch.zeros(5, 4)}, 2: "words"}
    whole = made(nn.Linear(4, 4), batches.__getitem__)
    assert whole.sequences == 2 and not whole.drawn and whole.at(1).sequences == 5
    assert whole.at(1).at(0).sequences == 2  # it keeps the function
    for step, why in ((3, "batch 3 failed: KeyError: 3"), (2, "the inputs of batch 2 are 'words'")):
        with pytest.raises(InputError, match=why):
            whole.at(step)
    plain = made(nn.Linear(4, 4), torch.ones(2, 4))
    assert plain.at(7) is plain


def test_tensors_are_found_however_they_are_nested():
    a, b, c = torch.ones(1), torch.ones(2), torch.ones(3)
    record = SimpleNamespace(logits=c, name="x")
    assert [len(t) for t in tensors({"a": [a, (b,)], "b": record, "c": 3})] == [1, 2, 3]
    assert Made(nn.Identity(), (torch.tensor(1.0), b)).sequences == 2
    assert Made(nn.Identity(), (torch.tensor(1.0),)).sequences == 0


def test_the_same_seed_makes_the_same_and_leaves_torchs_generator_as_it_was():
    factory = Factory("mine", lambda depth: nn.Linear(4, depth))
    before = torch.get_rng_state()
    one, same, other = (factory.seeded(seed, 3).module.weight for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_factory_travels_by_its_text_or_with_its_function():
    known = load_known_factory("torch.nn:Linear")
    again = pickle.loads(pickle.dumps(known))
    assert (again.text, again.code, again.name) == (known.text, known.code, known.name)
    changed = pickle.loads(pickle.dumps(replace(known, code="another")))
    with pytest.raises(InputError, match="has changed since it was first loaded"):
        changed()
    with pytest.raises(pickle.PicklingError, match=r"the code of torch\.nn:Linear is not known"):
        pickle.dumps(replace(known, code=None))
    inner = Factory("mine", math.sqrt, "", "a digest")
    assert pickle.loads(pickle.dumps(inner)) == inner and inner(4.0) == 2.0
    assert factory_of(math.sqrt) == Factory("sqrt", math.sqrt)
    assert factory_of(partial(math.sqrt)).name == "the factory"
    with pytest.raises(InputError, match="3 makes no models"):
        factory_of(3)


def test_only_what_was_training_trains_again():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    module[1].eval()
    made(module)
    assert module.training and module[0].training and not module[1].training
