"""From a job to its model on its dataset."""

from ecgbench.benchmark.evaluation import Evaluation
from ecgbench.benchmark.job import Compute
from ecgbench.benchmark.reporter import Reporter
from ecgbench.inference import network
from ecgbench.prepared.prepare import prepare
from ecgbench.prepared.subset import Selection
from ecgbench.results.store import Store
from ecgbench.weights import released


def open_evaluation(job: Compute, reporter: Reporter) -> Evaluation:
    """The model on the dataset of the job."""
    precision = job.plan.training.of_the_encoder
    built = network.build(job.model, job.weights, job.device)
    contract = built.card.contract(job.plan.fits[0].contract)
    built = built.in_precision(precision, contract)
    for layout in built.licensed:
        released.show_terms(job.model, layout, reporter.note)
    if built.precision != precision:
        reporter.note(
            f"{built.card.title}: features in {precision} are off by more than 1 %; it "
            f"computes in {built.precision}"
        )
    folders, limit = job.folders, job.plan.limit
    prepared = prepare(
        job.dataset,
        folders.data,
        folders.prepared,
        limit=limit,
        fix=job.plan.fix,
        division=job.plan.division,
    )
    selection = Selection(prepared, limit, job.plan.exclude)
    store = Store(job.folders.out)
    return Evaluation(built, contract, selection, store, reporter, job.keep_views)
