from deepnet_theory.trainers.trainer import Trainer

# re.match in the order of groups; a name without a pattern takes the config's own numbers
FAIRSEQ2 = Trainer(
    version="fairseq2 0.8.1",
    optimizers={"adamw": "AdamW"},
    imports=("from fairseq2.recipe.config import AdamWConfig, AdamWGroupConfig",),
    group="""        AdamWGroupConfig(  # $role
            params=$names,
            lr=$lr,
            weight_decay=$weight_decay,
            $more
        ),""",
    whole="""optimizer = AdamWConfig(
    groups=[
$groups
    ],
)""",
)
