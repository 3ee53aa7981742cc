"""For an accelerator that it has not started, torch keeps the stack of every call of a seed."""

import torch

for kind in (torch.cuda, torch.xpu, torch.mtia):
    if not kind.is_available():
        kind.manual_seed_all = lambda seed: None
