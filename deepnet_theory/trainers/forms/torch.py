from deepnet_theory.trainers.trainer import Trainer

TORCH = Trainer(
    version="torch 2.13",
    group="""    (  # $role
        $names,
        dict(
            lr=$lr,
            weight_decay=$weight_decay,
            $more
            lr_scale=$lr_scale,
            optimizer="$optimizer",
        ),
    ),""",
    whole='''PATTERNS = [
$groups
]


def parameter_groups(model):
    """Groups for torch's optimizers: the first pattern found in a name gives it its numbers."""
    groups = [dict(numbers, params=[]) for _, numbers in PATTERNS]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found = [g for g, (p, _) in zip(groups, PATTERNS) if re.search(p, name)]
            if not found:
                raise ValueError(f"no pattern matches {name}")
            found[0]["params"].append(parameter)
    for group, (pattern, _) in zip(groups, PATTERNS):
        if not group["params"]:
            raise ValueError(f"{pattern} matches no parameter")
    return groups''',
)
