"""The room of metrics: how good predictions are, one number per label.

`value(target, score)` takes what is true, (record, label) int8, and what is predicted, (record,
label) probabilities, and gives (label,) float64: NaN where a label has no value, for example
because nobody has it. `influence(target, score)` gives (record, label): how much each record moves
the value, as `value(weights) ~ value + mean(weights * influence)` for weights of mean 1; or None,
and intervals come from drawing patients with replacement. A metric may also define
`replicates(target, score, weights)` -> (draw, label): its values under each row of weights (draw,
record). A metric that is the mean over the positives of the share of negatives below each may
define `wins(target, score)` (record, label), twice the comparisons that a record wins; its
intervals are then made from placements (docs/explanation/intervals.md).

A metric with `together=True` on its CARD reads all labels of a record at once. It takes what they
are called as the last argument, `value(target, score, labels)`: their SNOMED CT codes where the
task has them (`a|b`: either of two), else their names; BadSetting for labels that it does not know.
It gives (1 + label,), the macro first, which then is no mean, and NaN for labels without a value of
their own; `influence` and `replicates` likewise. A task with unknown labels is refused.

A metric meets 0 and 1 only. Where labels of a task may be unknown of a record (-1), the labels are
taken in groups that are known of the same records, and each call gets those labels and records
alone: study/scores.py does it, and a label must not depend on those beside it.
"""

from ecgbench.contracts import Metric
from ecgbench.core.registry import Room

ROOM = Room("ecgbench.metrics", "metric", Metric)
names, get, resolve, card = ROOM.names, ROOM.get, ROOM.resolve, ROOM.card
