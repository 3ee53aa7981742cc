from deepnet_theory.trainers.trainer import Trainer

# the overrides of all keys that match are merged; a name without one takes the config's numbers
MEGATRON = Trainer(
    version="megatron-core 0.16.1",
    optimizers={"adamw": "adam, decoupled_weight_decay=True", "adam": "adam"},
    imports=(
        "from megatron.core.optimizer import ParamGroupOverride",
        "from megatron.core.optimizer.optimizer_config import ParamKey, ParamWithNamePredicate",
    ),
    group="""        key(  # $role
            $names
        ): ParamGroupOverride(
            max_lr=$lr,
            min_lr=$lr * floor,
            wd_mult=$decay_scale,
            $more
        ),""",
    whole='''def key(pattern):
    found = ParamWithNamePredicate(name=pattern, fn=lambda _, name: re.search(pattern, name))
    return ParamKey(with_name_predicate=found)


def config_overrides(config):
    """For get_megatron_optimizer: optimizer=$optimizer; a schedule's init_lr has to be 0."""
    floor = (config.min_lr or 0.0) / config.lr
    return {
$groups
    }''',
)
