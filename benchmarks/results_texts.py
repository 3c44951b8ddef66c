"""What recipes/RESULTS.md says beside its tables, for `results_page.py`."""

INTRODUCTION = """# Results

What each method reaches on feature data, on each data set with equal means: as many trials of search on validation (on
delicious none; some methods have them in `delicious_searched`, some more in those called `long`, and in `finals` the
best trials by three seeds), seeds from 1 to as many as its row says, the same five decoders. Written by
`python benchmarks/results_page.py` from the raw runs under `results/`. Under each table stand the commands that it is
made by. They run what is not in `runs/compare/NAME` yet: `python benchmarks/results_store.py unpack NAME` writes the
runs of a table there before, and `pack runs/compare/NAME` takes those that are new into `results/`.

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


SEARCHES = """On seq_fun the loss-net that validation chooses of eight trials gains by more than chance over test
rows: NCE with a falling λ1, +0.69 tuned and +0.48 calibrated (p < 0.001 each; over seeds 0.14 and 0.27). With
spo_fun's root SEAL's margin loss gains +0.39 tuned (p = 0.017 over rows and over seeds) and nothing calibrated.
Elsewhere the loss-net that validation chooses is hardly surer than a baseline with as many trials: on delicious
+0.07 tuned by SEAL-static without a search (p = 0.004 over rows, 0.07 over two seeds), +0.17 calibrated with one (p
= 0.007 over rows, 0.048 over seeds). What gains on seq_fun over seeds too is λ1 by gradient norms
(`energy_weight_balance`): +0.75 (p = 0.029) at 5.5 times the time of an epoch, +0.42 [0.02, 0.82] (over seeds p =
0.14) at 2.6 times in a cheap form (`nce_balanced_cheap`). SEAL-static on a margin energy (`static_margin`) gains
+0.44 [0.25, 0.63] (over seeds p = 0.2) there at 1.6 times, after the energy network's own training at 6.5 times. The
gain does not come from dependencies between labels: the local term of the energy alone (`--global_size 0`, no
dependencies between labels) gains +0.83 [0.44, 1.22] there (over seeds p = 0.043).

If you want one method for every data set, take that cheap form and search its λ1: `--energy_weight_balance true
--energy_weight 0.5 --num_samples 5 --global_size 50 --loss_net_every 2` (`nce_balanced_cheap`) is 0.18 points above
cross-entropy at a tuned threshold on the mean of all six data sets (from -0.15 on delicious to +0.47 on bibtex) and
0.17 under the calibrated decoder (from -0.05 to +0.33), at 2.3 times the time of an epoch (picked by these test
figures; on validation `nce_balanced` is ahead, at 3.1 times). A share of 0.1 on five data sets, without a search,
gains nothing certain; 0.5, where the search begins, was kept on bibtex and seq_fun; elsewhere it went to 0.03 to
0.11. On delicious 0.5 costs dearly (31.68 ± 0.34 against 37.60 ± 0.02, seeds 1 and 2), and a tenth of it nothing:
37.69 ± 0.04, by `python benchmarks/run_recipes.py recipes/mlc/delicious_nce.yaml --data_dir PATH --seeds 1 2
--suffix _balanced_cheap --extra --energy_weight_balance true --energy_weight 0.05 --num_samples 5 --global_size 50
--loss_net_every 2`.

How far a search goes, and by what, matters as much. With the recipes as they are, whose λ1 (3 on bibtex, 2 on
seq_fun) was found by hand on validation, NCE is 1.04 points above cross-entropy on bibtex and 0.99 on seq_fun at a
tuned threshold (README, "Measured"; p = 0.0045 and 0.0008 over ten seeds). The comparison starts every search of λ1
at 0.3, where five and eight trials stayed, and gains +0.36 [-0.05, 0.76] and +0.23 [-0.07, 0.54]; on bibtex most of
what is less is the baseline, whose settings are those of the recipe: 46.03 over seeds 1 to 5 here, 45.29 there,
where random streams differ (over ten seeds 45.73 and 45.44). Rows of `nce_balanced` and its cheap form under
"bibtex" and "seq_fun" are a few tenths below what the same settings and seeds give in "bibtex_finals" and beside a
tuned model: of earlier code, presumably. Twenty trials (`bibtex_long`, `seq_fun_long`) find a λ1 of 5.0 and 5.8; NCE
is then +0.67 [0.07, 1.28] above the best baseline on bibtex and +0.43 [-0.07, 0.94] on seq_fun (over seeds p = 0.053
and 0.27), while λ1 by gradient norms gains +0.98 [0.62, 1.34] on seq_fun (`nce_balanced`; over seeds p = 0.023).
More trials are not the whole answer: all of them are scored on validation by one seed, and what they find suits that
seed. `--finalists 5` runs the best five by two more seeds and takes the best mean (`bibtex_finals`,
`seq_fun_finals`). Baselines gain from it too: cross-entropy 0.76 on bibtex (45.27 to 46.03, p = 0.025) and 0.34 on
seq_fun (31.12 to 31.46, p = 0.083) over the same twenty trials and seeds 1 to 5; of that on bibtex, 45.73 is left
over ten seeds. What is left for λ1 by gradient norms, both searched so: +0.68 [0.23, 1.10] on bibtex and +0.43
[-0.01, 0.89] on seq_fun (over seeds p = 0.058 and 0.0029), and under the calibrated decoder +0.65 [0.23, 1.07]
(48.98 ± 0.36, over seeds p = 0.075) and -0.06. A fixed λ1 (`nce`) has +0.26 [-0.38, 0.89] and +0.34 there. On cal500
and genbase the same search gives no difference beyond chance, and on spo_fun the loss-net is behind: -0.45 [-0.74,
-0.16]. Equal trials favour methods of few settings: twenty trials hold two of cross-entropy, and four of a loss-net,
whose search may end at a worse plain model.

Under the calibrated decoder the recipes do not differ on bibtex (48.65 ± 0.24 and 48.50 ± 0.31, seeds 1 to 5). With
the settings of the recipes the local term alone does as well as the whole energy, over ten seeds: 46.64 and 46.78
against 46.48 and 46.95 on bibtex with a fixed λ1 and by gradient norms, 32.24 twice against 32.24 and 32.25 on
seq_fun ("What of a gain are dependencies"). Searched for itself by gradient norms it falls behind on bibtex, by 0.79
(five seeds, p = 0.09) and beside a tuned model by 0.75 (ten seeds, p = 0.0007): there its search ended at shares of
0.03 and 0.16 instead of 0.5, where the same energy does as well in the recipes: the search's doing, not the
energy's."""


WITHOUT_SEARCH = """No search: every method has the settings of the data set's recipes, which were once searched for
cross-entropy and NCE, and of its own those that a search would begin with."""


ONE_FOR_ALL = """What a method would give who takes it everywhere: its test example F1 less that of cross-entropy with
the same seeds, in points, mean over the data sets that it was searched on, and in brackets the least of them. Methods
with runs on four data sets or more; the median of their time per epoch, over cross-entropy's.
No test of significance is made here."""


AT_HALF = """As the papers, which have no other threshold: trials and epochs chosen by example F1 at 0.5 on validation,
and compared there. Figures under other decoders are those of the nets so chosen."""


BESIDE_TUNED = """Learning rate and dropout are those that twenty trials and five finalists found for cross-entropy (on
delicious five trials), and of a method with a loss-net only its own settings are searched: what a loss-net adds to a
model that is tuned already."""


ALL_BESIDE = """Difference to a tuned cross-entropy whose learning rate and dropout all methods have, while ten
trials and five finalists find the loss-net's own rate and λ1: in test example F1, over the seeds of both, with a 95
% interval over test rows, and every p by a paired t-test over seeds; *on validation* under the tuned threshold. In
bold what validation chooses there; where nothing is bold, it is cross-entropy, which counts as 0 in the mean. The
tables stand below, each under its data set's name."""


THIRTY = """Whether cross-entropy gains by the trials that a loss-net beside a tuned model has more."""


ONE_SHARE = """One λ1 for all data sets, without a search: the runs of the recipes beside `nce_balanced_cheap` with a
share of 0.1, `python benchmarks/run_recipes.py recipes/mlc/NAME_nce.yaml --data_dir PATH --suffix _share01 --extra
--energy_weight_balance true --energy_weight 0.1 --num_samples 5 --global_size 50 --loss_net_every 2`. Test example F1
at the threshold tuned on validation, in percent; p by a paired t-test over the seeds of both to cross-entropy."""


LIGHT = """The recipes of NCE with fewer samples, a smaller global term and a loss-net that is trained on every other
batch, but their own λ1: `python benchmarks/run_recipes.py recipes/mlc/NAME_nce.yaml --data_dir PATH --suffix _light
--extra --num_samples 5 --global_size 50 --loss_net_every 2`. An epoch takes the time of `nce_cheap` in the tables
below. Test example F1 as above."""


BALANCED = """The recipes of NCE with λ1 by gradient norms, of settings that the search beside a tuned model found: on
bibtex the task-net has those of the recipe of cross-entropy, on seq_fun another rate and dropout. And their cheap form,
at the seconds of `nce_balanced_cheap`. Test example F1 as above."""


RECIPES = """Test figures in percent, mean ± deviation over seeds, of
`python benchmarks/run_recipes.py recipes/{kind}/NAME.yaml --data_dir PATH`; the settings stand in the recipes. A name
with more behind it is `--suffix` and what follows `--extra`; `model` is the folder of MiniLM's weights."""


IMPLICIT = """The same runs without and with the hypergradient (recipes `*_contrastive_divergence` and `*_implicit`),
in percent; p by a paired t-test over the seeds. In the comparisons above both have equal trials: on genbase, cal500,
spo_fun and seq_fun the search ends at the same settings for both, λ1 at 0.03 to 0.08, and there the hypergradient,
damped by 1, moves no example F1 by 0.1, at 2.0 to 3.2 times the seconds of an epoch."""


MASKS = """IoU at 0.5 in half precision, less that of the same seed with cross-entropy alone, and with cross-entropy
and soft IoU, which need no loss-net; p by a paired t-test over the seeds."""


DEPENDENCIES = """NCE with an energy that knows no dependencies between labels, its local term alone, beside the runs
of the recipes: `python benchmarks/run_recipes.py recipes/mlc/RECIPE.yaml --data_dir PATH --suffix _local --extra
--global_size 0`, RECIPE as in the table; and with one of pairs of labels, `--suffix _pairwise --extra --energy
pairwise`. Test example F1 at the threshold tuned on validation, in percent; p by a paired t-test over seeds, of the
whole energy to the other. Where `local` gains as much as the whole energy, the gain is not what the energy has
learned of label sets: so it is in these recipes, where the two do not differ by more than chance."""


GLOBAL_TERMS = """The same in the comparisons above, each with its own search: `nce` beside `nce_local`, `nce_balanced`
beside `nce_balanced_local`, over the seeds that both have."""
