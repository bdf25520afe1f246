"""The training of protocol `finetune-modern`: `tuning` with timm's layer decay, schedule and
average of the weights.
"""

from typing import Any

import torch

from ecgbench.evaluate import gates
from ecgbench.evaluate.tuning import Groups, Tuner
from ecgbench.layers.torchvision_operators import import_timm


class Modern(Tuner):
    """One fit whose rates depend on layer and step; averaged weights are validated and kept."""

    def _recipe(self, groups: Groups) -> tuple[Groups, torch.optim.Optimizer]:
        """A group for each layer, from the input to the head."""
        timm, training, numbers = import_timm(), self.training, self._layers(groups)
        module: Any = self.module
        module.group_matcher = lambda coarse: numbers.__getitem__
        unspared: set[str] = getattr(module.encoder, "no_weight_decay", set)()
        parts = timm.optim.param_groups_layer_decay(
            module,
            training.weight_decay,
            {f"encoder.{name}" for name in unspared},
            layer_decay=training.layer_decay,
        )
        names = {parameter: name for name, parameter in self.module.named_parameters()}
        layers: Groups = {}
        for part in parts:
            number = numbers[names[part["params"][0]]]
            part["name"] = "head" if number == max(numbers.values()) else f"layer {number}"
            part["lr"] = training.lr * part.pop("lr_scale")
            layers.setdefault(part["name"], {}).update({names[p]: p for p in part["params"]})
        optimiser = torch.optim.AdamW(parts)
        steps = training.epochs * (self.feed.per_epoch // min(training.batch, self.feed.per_epoch))
        # one more, or the rate of the last step would be 0
        self.schedule = timm.scheduler.CosineLRScheduler(
            optimiser, steps + 1, warmup_t=round(training.warmup * steps), t_in_epochs=False
        )
        self.schedule.step_update(1)
        self.average = timm.utils.ModelEmaV3(self.module, training.ema, use_warmup=True)
        self.kept = self.average.module
        optimiser.register_step_post_hook(self._stepped)
        return layers, optimiser

    def _layers(self, groups: Groups) -> dict[str, int]:
        """Parameter -> number of its layer, the head's the largest; FitError for one layer alone,
        whose rate no decay would change.
        """
        encoder = self.module.encoder
        if matcher := getattr(encoder, "group_matcher", None):
            found = import_timm().models.group_parameters(
                encoder, matcher(coarse=False), False, True
            )
        else:
            of_card = [named for group, named in groups.items() if group != "head"]
            found = {n.removeprefix("encoder."): i for i, of in enumerate(of_card) for n in of}
        if len(set(found.values())) < 2:
            raise gates.FitError(
                f"{self.name}: all its parameters are one layer, so layer decay would do nothing; "
                f"give the network a group_matcher, or choose --protocol finetune"
            )
        head = max(found.values()) + 1
        every = (name for name, _ in self.module.named_parameters())
        return {name: found.get(name.removeprefix("encoder."), head) for name in every}

    def _stepped(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        step = max(int(state["step"]) for state in optimiser.state.values())
        self.average.update(self.module, step)
        self.schedule.step_update(step + 1)
