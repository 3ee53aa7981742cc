"""The models of the sessions: right, wrong in one place, and written in other ways."""

from functools import wraps

import torch
from torch import nn
from written_models import GPT, VOCAB, Llama, Mixture, Normed, Parallel, with_inner_norms

from deepnet_theory.runtime import build

IDS = torch.randint(VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))


def drawn(make):
    """The model by a seed of its own, and what it reads."""

    @wraps(make)
    def made(depth):
        torch.manual_seed(0)
        return make(depth), IDS

    return made


def multiplied(alpha):
    return lambda x, branch, norm: norm(alpha * x + branch(x))


@drawn
def gpt(depth):
    return GPT(depth, std=0.02, tied=True)


@drawn
def llama(depth):
    return Llama(depth)


@drawn
def experts(depth):
    return GPT(depth, block=Mixture, shared=True)


@drawn
def parallel(depth):
    return GPT(depth, block=Parallel)


@drawn
def sub_ln(depth):
    return with_inner_norms(GPT(depth))


@drawn
def bert(depth):
    return Normed(depth, lambda x, branch, norm: norm(x + branch(x)))


@drawn
def multiplier(depth):
    """A branch that is divided by the depth, its feed-forward drawn too large."""
    model = GPT(depth, lambda x, branch, norm: x + branch(norm(x)) / depth)
    for block in model.h:
        nn.init.xavier_normal_(block.mlp.c_proj.weight, gain=2.0)
    return model


@drawn
def layer_scale(depth):
    """A learnt number of each branch, which starts at a tenth."""

    def line(x, branch, norm):
        return x + branch.scale * branch(norm(x))

    model = GPT(depth, line)
    for block in model.h:
        for branch in (block.attn, block.mlp):
            branch.scale = nn.Parameter(torch.tensor(0.1))
    return model


@drawn
def looped(depth):
    """One layer in all places."""
    model = GPT(depth)
    model.h = nn.ModuleList([model.h[0]] * depth)
    return model


@drawn
def mixed(depth):
    """Norms on the sum in the first half of the layers, on the branch in the second."""
    model = GPT(depth)
    for index, block in enumerate(model.h):
        if 2 * index < depth:
            block.line = lambda x, branch, norm: norm(x + branch(x))
    return model


@drawn
def graded(depth):
    """Outputs that grow with the layer."""
    model = GPT(depth)
    with torch.no_grad():
        for index, block in enumerate(model.h):
            block.mlp.c_proj.weight *= 1 + index
    return model


@drawn
def zero(depth):
    """Outputs at 0, as ReZero's kin start them."""
    model = GPT(depth)
    for block in model.h:
        nn.init.zeros_(block.attn.c_proj.weight)
        nn.init.zeros_(block.mlp.c_proj.weight)
    return model


@drawn
def upside_down(depth):
    """DeepNorm of the constants' depth, its gains as 1/beta and alpha on the branch."""
    model = GPT(depth, lambda x, branch, norm: norm(x + 2 * branch(x)), final=False)
    with torch.no_grad():
        for block in model.h:
            for w in (block.attn.c_proj.weight, block.mlp.c_proj.weight):
                nn.init.xavier_normal_(w, gain=2.0)
    return model


@drawn
def deepnorm(depth):
    """DeepNorm as people first write it: every matrix at one gain, packed or not."""
    model = GPT(depth, multiplied((2 * depth) ** 0.25), final=False)
    for block in model.h:
        for linear in (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj):
            nn.init.xavier_normal_(linear.weight, gain=(8 * depth) ** -0.25)
    return model


def built(depth):
    torch.manual_seed(0)
    return build("constants.json")


def misbuilt(depth):
    """A built model whose query and value are drawn too large, and a norm gained."""
    model = built(depth)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("query.weight", "value.weight")):
                p *= 3.0
    return model


def light(depth):
    """A built model whose queries alone are a little large: a gain that hardly moves anything."""
    model = built(depth)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("query.weight"):
                p *= 1.2
    return model
