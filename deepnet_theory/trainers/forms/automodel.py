from deepnet_theory.trainers.trainer import Trainer

# re.search in the order of param_group_overrides, which its Dion family (Muon) ignores
AUTOMODEL = Trainer(
    version="nemo-automodel 0.7.0",
    optimizers={"adamw": "adamw", "adam": "adam", "sgd": "torch.optim.SGD"},
    group="""            dict(  # $role
                pattern=$names,
                lr_mult=$lr_scale,
                wd_mult=$decay_scale,
            ),""",
    whole="""optimizer = (
    "$optimizer",
    dict(
        lr=$lr,
        weight_decay=$weight_decay,
        $more
        param_group_overrides=[
$groups
        ],
    ),
)""",
)
