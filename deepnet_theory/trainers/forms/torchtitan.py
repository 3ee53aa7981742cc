from deepnet_theory.trainers.trainer import Trainer

# re.search in the order of param_groups; a name without a pattern, or the reverse, is an error
TORCHTITAN = Trainer(
    version="torchtitan 0.3.0",
    optimizers={"adamw": "AdamW", "adam": "Adam"},
    imports=(
        "from torchtitan.components.optimizer import OptimizersContainer, ParamGroupConfig",
        "from torchtitan.config import override",
    ),
    group="""        ParamGroupConfig(  # $role
            pattern=$names,
            optimizer_name="$optimizer",
            optimizer_kwargs=dict(
                lr=$lr,
                weight_decay=$weight_decay,
                $more
            ),
        ),""",
    whole="""optimizer = OptimizersContainer.Config(
    param_groups=[
$groups
    ],
)


# --override.imports rule.deepnet_theory, where this file is rule.py
@override(target=OptimizersContainer.Config)
def deepnet_theory(config):
    optimizer.implementation = config.implementation
    return optimizer""",
)
