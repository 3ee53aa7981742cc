from deepnet_theory.trainers.trainer import Trainer

# fnmatch of all overrides; a name in two, or a pattern without a name, is an error
OLMO_CORE = Trainer(
    version="ai2-olmo-core 3.0.0",
    optimizers={"adamw": "AdamWConfig", "lion": "LionConfig"},
    imports=("import olmo_core.optim as optim",),
    group="""        optim.OptimGroupOverride(  # $role
            params=[
                $globs
            ],
            opts=dict(
                lr=$lr,
                weight_decay=$weight_decay,
                $more
            ),
        ),""",
    whole="""optimizer = optim.$optimizer(
    group_overrides=[
$groups
    ],
)""",
)
