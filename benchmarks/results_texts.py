"""What recipes/RESULTS.md says beside its tables, for `results_page.py`."""

INTRODUCTION = """# Results

What each method reaches on feature data, on each data set with equal means: as many trials of search on validation (on
delicious none; some methods have them in `delicious_searched`, some more in those called `long`, and in `finals` the
best trials by three seeds), seeds from 1 to as many as its row says, the same five decoders. Written by
`python benchmarks/results_page.py` from the raw runs under `results/compare/`. Under each table stand the commands that
it is made by; started again, they run what is not there yet.

*Published* are the figures of Lee et al. 2022 at 0.5 (`ranking`: of their draft), on their own folds, so they stand
beside ours, not under them. On genbase they had the identifier as a feature: `genbase_id` here. On spo_fun they had 500
labels, with the root of the class hierarchy, which is on for every row, and alone scores 23.02 on test: `spo_fun_root`
here; plain `spo_fun`, and `seq_fun`, have no root. The column *seeds* says how many runs a row has; data sets and
methods that are not here were not run yet.
"""


SUMMARY = """The best method of each group is the one that is best on validation under the same decoder, of equal
ones the cheapest; methods of one seed stand aside. The difference is that of the SEAL method to the baseline that is
best on test, which may be another than the one shown, over the seeds that both have. The mean is over data sets:
genbase with and without its identifier, spo_fun with and without its root, delicious with and without a search, and
bibtex and seq_fun with three, count once, as the most thorough search."""


WITHOUT_SEARCH = """No search: every method has the settings of the data set's recipes, which were once searched for
cross-entropy and NCE, and of its own those that a search would begin with."""


ONE_FOR_ALL = """What a method would give who takes it everywhere: its test example F1 less that of cross-entropy with
the same seeds, in points, mean over the data sets that it was searched on, and in brackets the least of them. Methods
with runs on four data sets or more; the median of their time per epoch, over cross-entropy's.
No test of significance is made here."""


AT_HALF = """As the papers, which have no other threshold: trials and epochs chosen by example F1 at 0.5 on validation,
and compared there. Figures under other decoders are those of the nets so chosen."""


BESIDE_TUNED = """Learning rate and dropout are those that twenty trials and five finalists found for cross-entropy,
and of a method with a loss-net only its own settings are searched: what a loss-net adds to a model that is tuned
already."""


THIRTY = """Whether cross-entropy gains by the trials that a loss-net beside a tuned model has more."""


ONE_SHARE = """One λ1 for all data sets, without a search: the runs of the recipes beside `nce_balanced_cheap` with a
share of 0.1, `python benchmarks/run_recipes.py recipes/mlc/NAME_nce.yaml --data_dir PATH --suffix _share01 --extra
--energy_weight_balance true --energy_weight 0.1 --num_samples 5 --global_size 50 --loss_net_every 2`. Test example F1
at the threshold tuned on validation, in percent; p by a paired t-test over the seeds of both to cross-entropy."""


LIGHT = """The recipes of NCE with fewer samples, a smaller global term and a loss-net that is trained on every other
batch, but their own λ1: `python benchmarks/run_recipes.py recipes/mlc/NAME_nce.yaml --data_dir PATH --suffix _light
--extra --num_samples 5 --global_size 50 --loss_net_every 2`. An epoch takes the time of `nce_cheap` in the tables
below. Test example F1 as above."""


RECIPES = """Test figures in percent, mean ± deviation over seeds, of
`python benchmarks/run_recipes.py recipes/{kind}/NAME.yaml --data_dir PATH`; the settings stand in the recipes. A name
with more behind it is `--suffix` and what follows `--extra`; `model` is the folder of MiniLM's weights."""


IMPLICIT = """The same runs without and with the hypergradient (recipes `*_contrastive_divergence` and `*_implicit`), in
percent; p by a paired t-test over the seeds."""


MASKS = """IoU at 0.5 in half precision, less that of the same seed with cross-entropy alone, and with cross-entropy
and soft IoU, which need no loss-net; p by a paired t-test over the seeds."""


DEPENDENCIES = """NCE with an energy that knows no dependencies between labels, its local term alone, beside the runs of
the recipes: `python benchmarks/run_recipes.py recipes/mlc/NAME_nce.yaml --data_dir PATH --suffix _local --extra
--global_size 0`; and with one of pairs of labels, `--suffix _pairwise --extra --energy pairwise`. Test example F1 at
the threshold tuned on validation, in percent; p by a paired t-test over the seeds that both NCE rows have. Where
`local` gains as much as `nce`, the gain is not what the energy has learned of label sets."""


GLOBAL_TERMS = """The same in the comparisons above, each with its own search: `nce` beside `nce_local`, `nce_balanced`
beside `nce_balanced_local`, over the seeds that both have."""
