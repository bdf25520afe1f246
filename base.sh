. /tmp/pr1env.sh
cd /tmp/pr1/base
T=tests/stats
python /tmp/pr1/mut.py run /tmp/pr1/spec.stats.json /tmp/pr1/before.stats.json /tmp/pr1/base $T > /tmp/pr1/before.stats.log 2>&1
python /tmp/pr1/mut.py run /tmp/pr1/spec.policies.json /tmp/pr1/before.policies.json /tmp/pr1/base tests/policies > /tmp/pr1/before.policies.log 2>&1
R=tests/results
python /tmp/pr1/mut.py run /tmp/pr1/spec.results.json /tmp/pr1/before.results.json /tmp/pr1/base $R/test_score.py $R/test_over_folds.py $R/test_joint.py $R/test_verdicts.py $R/test_common_records.py $R/test_by_label.py $R/test_study.py > /tmp/pr1/before.results.log 2>&1
V=tests/evaluate
python /tmp/pr1/mut.py run /tmp/pr1/spec.evaluate.json /tmp/pr1/before.evaluate.json /tmp/pr1/base $V/test_linear.py $V/test_probe.py $V/test_encode.py $V/test_finetune.py $V/test_batches.py $V/test_finetune_modern.py $V/test_shipped.py > /tmp/pr1/before.evaluate.log 2>&1
S=tests/study
python /tmp/pr1/mut.py run /tmp/pr1/spec.study.json /tmp/pr1/before.study.json /tmp/pr1/base $S/test_cell.py $S/test_plan.py $S/test_store.py $S/test_merge.py tests/cards $S/test_controls.py $S/test_work.py $S/test_run.py > /tmp/pr1/before.study.log 2>&1
