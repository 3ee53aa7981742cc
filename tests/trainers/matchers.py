"""How trainers match names, restated from the source of the version that each form names.

Each rule takes a model and what the exported text defines, and gives by parameter name the
optimizer, learning rate, epsilon, weight decay and betas that the trainer would step it with.
`OWN` asks the trainers' own code, where it is installed.
"""

import itertools
import json
import math
import re
import sys
from fnmatch import fnmatch
from types import ModuleType, SimpleNamespace

import pytest
from torch import distributed

CONFIG = SimpleNamespace(lr=1e-3, min_lr=1e-4, weight_decay=0.1)


class Keyed(SimpleNamespace):
    """A frozen dataclass that is a key, as Megatron's ParamKey."""

    __hash__ = object.__hash__


def stub(*names):
    """Classes of a library that keep what they are given."""
    kinds = {name: type(name, (Keyed,), {}) for name in names}
    return kinds | {"ParamGroupOverride": dict} if "ParamGroupOverride" in names else kinds


LIBRARIES = {
    "torchtitan.components.optimizer": stub("OptimizersContainer", "ParamGroupConfig"),
    "fairseq2.recipe.config": stub("AdamWConfig", "AdamWGroupConfig"),
    "olmo_core.optim": stub("AdamWConfig", "LionConfig", "OptimGroupOverride"),
    "megatron.core.optimizer": stub("ParamGroupOverride"),
    "megatron.core.optimizer.optimizer_config": stub("ParamKey", "ParamWithNamePredicate"),
}
LIBRARIES["torchtitan.components.optimizer"]["OptimizersContainer"].Config = Keyed
LIBRARIES["torchtitan.config"] = {"override": lambda target: lambda factory: factory}


def executed(text, monkeypatch):
    """What an exported module defines, its trainer's classes replaced by records."""
    for name, kinds in LIBRARIES.items():
        words = name.split(".")
        for i in range(1, len(words) + 1):
            part = ".".join(words[:i])
            if getattr(sys.modules.get(part), "stub", False):
                continue
            module = ModuleType(part)
            module.stub = True
            monkeypatch.setitem(sys.modules, part, module)
            if i > 1:
                setattr(sys.modules[".".join(words[: i - 1])], words[i - 1], module)
        vars(sys.modules[name]).update(kinds)
    found = {}
    exec(compile(text, "rule.py", "exec"), found)
    return SimpleNamespace(**found)


def numbers(optimizer, of):
    betas = of.get("betas")
    return optimizer, of["lr"], of.get("eps"), of["weight_decay"], betas and tuple(betas)


def torch(model, text, patch):
    made = executed(text, patch)
    names = {p: name for name, p in model.named_parameters()}
    return {
        names[p]: numbers(group["optimizer"], group)
        for group in made.parameter_groups(model)
        for p in group["params"]
    }


def torchtitan(model, text, patch):
    """0.3.0, OptimizersContainer: search, the first pattern wins, all patterns and names needed."""
    kinds, found = {"AdamW": "adamw", "Adam": "adam"}, {}
    made = executed(text, patch)
    config = made.deepnet_theory(Keyed(implementation="foreach"))
    assert config.implementation == "foreach"
    for group in config.param_groups:
        own = [
            name
            for name, p in model.named_parameters()
            if p.requires_grad and name not in found and re.search(group.pattern, name)
        ]
        assert own, f"{group.pattern} matched no parameters"
        kind = kinds[group.optimizer_name]
        found |= dict.fromkeys(own, numbers(kind, group.optimizer_kwargs))
    return found


def fairseq2(model, text, patch):
    """0.8.1, prepare_parameter_groups: match from the start, the first group wins."""
    found, groups = {}, executed(text, patch).optimizer.groups
    for name, _ in model.named_parameters():
        for group in groups:
            if name == group.params or re.match(group.params, name):
                found[name] = numbers("adamw", vars(group))
                break
    return found


def olmo_core(model, text, patch):
    """3.0.0, OptimConfig.build_groups: shell patterns; torch refuses a parameter in two groups."""
    made, found = executed(text, patch).optimizer, {}
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    kind = {"AdamWConfig": "adamw", "LionConfig": "lion"}[type(made).__name__]
    for group in made.group_overrides:
        for pattern in group.params:
            own = [name for name in names if fnmatch(name, pattern)]
            assert own, f"{pattern} does not match any parameters"
            assert not found.keys() & own, f"{pattern} matches {own} again"
            found |= dict.fromkeys(own, numbers(kind, group.opts))
    return found


def megatron(model, text, patch):
    """Core 0.16.1, _get_param_groups: overrides of all keys that match are merged."""
    found = {}
    overrides = executed(text, patch).config_overrides(CONFIG)
    for name, p in model.named_parameters():
        merged = {}
        for key, override in overrides.items():
            if p.requires_grad and key.with_name_predicate.fn(p, name):
                assert all(merged.get(k, v) == v for k, v in override.items()), "conflict"
                merged |= override
        if merged:
            assert math.isclose(merged["min_lr"] / merged["max_lr"], CONFIG.min_lr / CONFIG.lr)
            own = {"lr": merged["max_lr"], "weight_decay": CONFIG.weight_decay * merged["wd_mult"]}
            found[name] = numbers("adamw", merged | own)
    return found


def automodel(model, text, patch):
    """0.7.0, _build_param_groups: search in the name without checkpoint wrappers, first wins."""
    (kind, of), found = executed(text, patch).optimizer, {}
    kind = {"torch.optim.SGD": "sgd"}.get(kind, kind)
    for raw, p in model.named_parameters():
        name = raw.replace("_checkpoint_wrapped_module.", "")
        for group in of["param_group_overrides"]:
            if p.requires_grad and re.search(group["pattern"], name):
                scaled = {
                    "lr": of["lr"] * group["lr_mult"],
                    "weight_decay": of["weight_decay"] * group["wd_mult"],
                }
                found[raw] = numbers(kind, of | scaled)
                break
    return found


def optax(model, text, patch):
    """0.2.8: labels of partition, here by the names themselves."""
    groups, found = json.loads(text)["groups"], {}
    for name, p in model.named_parameters():
        own = [g for g in groups if re.search(g["names"], name)]
        if p.requires_grad and own:
            found[name] = numbers(own[0]["optimizer"], own[0])
    return found


RULES = {
    "torch": torch, "torchtitan": torchtitan, "fairseq2": fairseq2, "olmo-core": olmo_core,
    "megatron": megatron, "automodel": automodel, "optax": optax,
}  # fmt: skip


# ---- the trainers' own code, where it is installed ----


COUNT = itertools.count()


def defined(text):
    """What an exported module defines, under a name that no other has: an override is of one."""
    found = {"__name__": f"rule_{next(COUNT)}"}
    exec(compile(text, "rule.py", "exec"), found)
    return SimpleNamespace(**found)


def stepped(model, *optimizers):
    """The numbers that the library's optimizers step each parameter with."""
    kinds = {"SGD": "sgd", "Lion": "lion", "Adam": "adam"}
    called = {p: name for name, p in model.named_parameters()}
    return {
        called[p]: numbers(kinds.get(type(one).__name__, "adamw"), group)
        for one in optimizers
        for group in one.param_groups
        for p in group["params"]
    }


def own_torchtitan(optimizer, model, text):
    plain = optimizer.OptimizersContainer.Config(implementation="for-loop")
    config = defined(text).deepnet_theory(plain)
    return stepped(model, *config.build(model_parts=[model]).optimizers)


def own_fairseq2(optim, model, text):
    return stepped(model, optim._AdamWFactory(model).create(defined(text).optimizer))


def own_olmo_core(_, model, text):
    return stepped(model, defined(text).optimizer.build(model))


def own_megatron(core, model, text):
    """Its groups, and the rate and decay that its scheduler gives them after a warm-up."""
    scheduler = pytest.importorskip("megatron.core.optimizer_param_scheduler")
    overrides = defined(text).config_overrides(CONFIG)
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        groups = core._get_param_groups([model], CONFIG, overrides)
    finally:
        distributed.destroy_process_group()
    made = SimpleNamespace(param_groups=groups)
    scheduler.OptimizerParamScheduler(
        made, 0.0, CONFIG.lr, CONFIG.min_lr, 10, 100, "cosine",
        CONFIG.weight_decay, CONFIG.weight_decay, 0, "constant",
    ).step(10)  # fmt: skip
    assert all("max_lr" in group for group in groups)
    return stepped(model, made)


def own_automodel(own, model, text):
    """Its optimizer, and the rate and decay that its scheduler gives the groups."""
    made = defined(text).optimizer
    (optimizer,) = own.build_optimizer(model, made)
    lr, decay = made[1]["lr"], made[1]["weight_decay"]
    own.OptimizerParamScheduler(
        optimizer, 0.0, lr, 0.0, 10, 100, "cosine", decay, decay, 0, "constant"
    ).step(10)
    return stepped(model, optimizer)


OWN = {  # the module that has it, and how it is asked
    "torchtitan": ("torchtitan.components.optimizer", own_torchtitan),
    "fairseq2": ("fairseq2.recipe.internal.optim", own_fairseq2),
    "olmo-core": ("olmo_core.optim", own_olmo_core),
    "megatron": ("megatron.core.optimizer", own_megatron),
    "automodel": ("nemo_automodel.components.optim.optimizer", own_automodel),
}
