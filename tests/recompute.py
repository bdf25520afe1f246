"""Every number of a report again, from the stored predictions alone.

`python tests/recompute.py RUN [REPORT]` (default RUN/report) reads the report's CSV files and the
run's predictions.parquet, computes each AUROC, difference, standard error, degrees of freedom,
interval and p with numpy, scipy and scikit-learn, and prints how far the printed ones are. It
imports nothing of ecgbench: docs/explanation/intervals.md is its specification. It holds for runs
whose intervals come from placements (`--set scoring.bootstrap=none`) of the AUROC.
"""

import json
import sys
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import owens_t
from scipy.stats import norm, t
from sklearn.metrics import roc_auc_score

GRID = np.unique(np.concatenate([np.linspace(0.0005, 0.9995, 1999), 1 - np.geomspace(1e-5, 5e-4)]))


def binormal(a):
    a = np.clip(a, 1e-6, 1 - 1e-6)
    return a - a**2 - 2 * owens_t(norm.ppf(a), 1 / np.sqrt(3))


class Cell:
    """AUROCs and placements of one table of predictions."""

    fold, overlap = "official", 0.0

    def __init__(self, table):
        table = table.sort_values("record")
        names = [c.split(":", 1)[1] for c in table if c.startswith("target:")]
        y = table[[f"target:{n}" for n in names]].to_numpy()
        x = table[[f"probability:{n}" for n in names]].to_numpy()
        self.records, self.patients = tuple(table["record"]), table["patient"].to_numpy()
        # -1: not known
        self.labels = [n for n, k in zip(names, y.T) if {0, 1} <= set(k)]
        kept = [names.index(n) for n in self.labels]
        self.y, x = y[:, kept], x[:, kept]
        self.auroc = np.array([roc_auc_score(a[a >= 0], b[a >= 0]) for a, b in zip(self.y.T, x.T)])
        alike = defaultdict(list)
        for column, value in zip(self.y.T, self.auroc):
            alike[column.tobytes()].append(value)
        self.distinct = np.mean([np.mean(values) for values in alike.values()])
        self.v = np.zeros(self.y.shape)
        for k in range(len(kept)):
            one, zero = self.y[:, k] == 1, self.y[:, k] == 0
            gap = x[one, k][:, None] - x[zero, k][None]
            won = (gap > 0) + 0.5 * (gap == 0)
            self.v[one, k], self.v[zero, k] = won.mean(axis=1), won.mean(axis=0)


class Rows:
    """Rows of a table on the same records, each a list of cells. A label counts in each fold by
    itself; a fold in which no label has both values counts for nothing. Variances over J folds grow
    by 1 + J n_test / n_train; not where `alone`, a cell by itself.
    """

    def __init__(self, rows, alone=False):
        rows = [[c for c in r if c.labels] for r in rows]
        folds = {c.fold: c for c in reversed(rows[0])}
        columns = sum(len(c.labels) for c in folds.values())
        shape = sum(len(c.y) for c in folds.values()), columns
        one, zero = np.zeros(shape), np.zeros(shape)
        v, self.a = np.zeros((len(rows), *shape)), np.zeros((len(rows), columns))
        self.rows, self.labels, self.wt, patients, i, k = rows, [], [], [], 0, 0
        overlap = []
        for fold, first in folds.items():
            mine = [[c for c in r if c.fold == fold] for r in rows]
            assert {c.records for r in mine for c in r} == {first.records}, "other records"
            at, to = slice(i, i + len(first.y)), slice(k, k + len(first.labels))
            one[at, to], zero[at, to] = first.y == 1, first.y == 0
            v[:, at, to] = [np.mean([c.v for c in r], axis=0) for r in mine]
            self.a[:, to] = [np.mean([c.auroc for c in r], axis=0) for r in mine]
            self.labels += first.labels
            self.wt += [1 / len(first.labels) / len(folds)] * len(first.labels)
            overlap += [0.0 if alone else first.overlap] * len(first.labels)
            patients.append(first.patients)
            i, k = at.stop, to.stop
        self.wt, folds_of = np.array(self.wt), Counter(self.labels)
        self.growth = 1 + np.array([folds_of[n] for n in self.labels]) * overlap
        people, codes = np.unique(np.concatenate(patients), return_inverse=True)
        self.g, self.k, self.n1 = len(people), columns, one.sum(axis=0)
        of = np.equal.outer(np.arange(self.g), codes).astype(float)
        centred = v - self.a[:, None]
        self.p = of @ (centred * one / self.n1)
        self.q = of @ (centred * zero / zero.sum(axis=0))
        self.w, self.u = of @ (one / self.n1), of @ (zero / zero.sum(axis=0))
        self.m = 1 / (self.w**2).sum(axis=0)
        self.s = np.einsum("agk,bgk->kab", self.p, self.p) * (self.m**2)[:, None, None]
        prior = []
        for a, s in zip(self.a, np.einsum("kaa->ak", self.s)):
            b = binormal((self.n1 * a + 10 * (a @ self.wt)) / (self.n1 + 10))
            prior.append(b * (s.sum() + 5 * b.mean()) / ((b * (self.m - 1)).sum() + 5 * b.mean()))
        root, total = np.sqrt(prior), self.s.sum(axis=0)
        size = np.sqrt(np.diag(total))
        both = np.outer(size, size)
        alike = np.where(both > 0, total / np.where(both > 0, both, 1), np.eye(len(rows)))
        np.fill_diagonal(alike, 1)
        spread = np.einsum("ak,bk,ab->kab", root, root, alike)
        self.sigma = (self.s + 3 * spread) / (self.m + 2)[:, None, None]

    def contrast(self, c):
        """Value, variance, degrees of freedom, and largest share of a label."""
        c, k, g, m = np.asarray(c, float), self.k, self.g, self.m
        wt = self.wt * np.sqrt(self.growth)
        weights = np.outer(wt, wt)
        psi_k = np.einsum("a,agk->gk", c, self.p + self.q) * wt
        psi = psi_k.sum(axis=1)
        v0 = g / (g - 1) * (psi**2).sum()
        s, sigma2 = (np.einsum("kab,a,b->k", x, c, c) for x in (self.s, self.sigma))
        sigma = np.sqrt(np.maximum(sigma2, 0))
        first = np.maximum(0, sigma2 / m - s / m**2) * wt**2
        p = np.einsum("a,agk->gk", c, self.p)
        x = self.w.T @ self.w
        cubic = (self.w**2).T @ self.w
        e, off = x - cubic - cubic.T + x**2, ~np.eye(k, dtype=bool)
        pair = np.outer(sigma, sigma)
        expected = (e * pair)[off].sum()
        rho = np.clip((p.T @ p)[off].sum() / expected, 0, 1) if expected > 0 else 0
        across = np.where(off, rho * (x - e) * pair, 0) * weights
        second = max(0, across.sum())
        variance = v0 + first.sum() + second
        value = c @ self.a @ self.wt
        own = (np.einsum("kaa,a->k", self.sigma, c**2) / m * wt**2).sum()
        if not variance > 1e-12 * own:
            return value if abs(value) > 1e-12 else 0.0, 0.0, np.inf, np.nan
        matrix = np.where(off, rho * x * pair, np.diag(sigma2 / m)) * weights
        tied = (matrix**2 / np.sqrt(np.outer(m + 2, m + 2))).sum()
        one = (tied + max(0, variance - matrix.sum()) ** 2 / g) / variance**2
        two = ((psi**4).sum() - v0**2 / g) / (2 * v0**2) if v0 > 0 else 0
        share = g / (g - 1) * psi @ psi_k + first + (across.sum(axis=0) if second else 0)
        of_label = [share[np.array(self.labels) == n].sum() for n in set(self.labels)]
        return value, variance, 1 / (one + max(two, 0)), max(of_label) / variance

    def fitted(self, c):
        """The contrast with the spread between fits."""
        value, variance, df, share = self.contrast(c)
        of_fit = defaultdict(float)
        for weight, row in zip(c, self.rows):
            seeds = {cell.fit for cell in row}
            for seed in seeds if weight else ():
                mine = [cell.auroc.mean() for cell in row if cell.fit == seed]
                of_fit[seed] += weight * np.mean(mine)
        if len(of_fit) > 1:
            f = len(of_fit)
            between = np.var(list(of_fit.values()), ddof=1) / f
            whole = variance + between
            df = whole**2 / (variance**2 / df + between**2 / (f - 1))
            share, variance = share * variance / whole, whole
        return value, variance, df, share

    def row(self, a):
        """Value, low, high, standard error, degrees of freedom, share."""
        value, variance, df, share = self.fitted(np.eye(len(self.rows))[a])
        se, one_fit = np.sqrt(variance), len({c.fit for c in self.rows[a]}) == 1
        if self.names == 1 and one_fit:
            return value, *self.label(a, self.labels[0]), se, df, np.nan
        low = high = np.nan
        if 0 < value < 1:
            logit, half = np.log(value / (1 - value)), t.ppf(0.975, df) * se / (value - value**2)
            low, high = (1 / (1 + np.exp(-x)) for x in (logit - half, logit + half))
        return value, low, high, se, df, share if self.names > 2 else np.nan

    def difference(self, a, b):
        """Difference, low, high, standard error, degrees of freedom, share, p."""
        one = np.eye(len(self.rows))
        value, variance, df, share = self.fitted(one[a] - one[b])
        se = np.sqrt(variance)
        half = t.ppf(0.975, df) * se if se else 0.0
        p = 2 * t.sf(abs(value) / se, df) if se else 1.0
        share = share if self.names > 2 else np.nan
        return value, value - half, value + half, se, df, share, p

    @property
    def names(self):
        """Labels, whatever the number of their folds."""
        return len(set(self.labels))

    def label(self, a, name):
        """Interval of one label: the variances of its folds add."""
        own = other = few = many = shared = value = positives = 0.0
        mine = [k for k, label in enumerate(self.labels) if label == name]
        for k in mine:
            p, q, m = self.p[a, :, k], self.q[a, :, k], self.m[k]
            count, crowd = self.growth[k] / len(mine) ** 2, (self.u[:, k] ** 2).sum()
            own += count * ((p**2).sum() * m / (m - 1) if m > 1 else 0)
            other += count * ((q**2).sum() / (1 - crowd) if crowd < 1 else 0)
            few, many = few + count / m, many + count * crowd
            shared += count * max(0, 2 * (p * q).sum())
            value, positives = value + self.a[a, k] / len(mine), positives + m
        prior = binormal(GRID)
        variance = np.maximum(own, 1.25 * prior * few) + np.maximum(other, prior * many) + shared
        far = t.ppf(0.975, 2 * positives + 4) * np.sqrt(variance)
        inside = GRID[np.abs(value - GRID) <= far]
        low = 0 if inside[0] == GRID[0] else inside[0]
        high = 1 if inside[-1] == GRID[-1] else inside[-1]
        return min(low, value), max(high, value)


def holm(p):
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(
        1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)) if len(p) else []
    )
    return out


def recompute(run, report):  # noqa: C901  # one walk through a report
    """Column of a table -> (numbers compared, largest difference)."""
    tables = {n: pd.read_csv(report / f"{n}.csv") for n in ("main_table", "cells", "comparisons")}
    labels = pd.read_csv(report / "labels.csv")
    found = defaultdict(lambda: [0, 0.0])

    def note(table, row, **computed):
        for column, value in computed.items():
            printed = getattr(row, column)
            both = pd.isna(printed) and pd.isna(value)
            same = both or float(printed) == float(value)
            apart = 0.0 if same else abs(float(printed) - float(value))
            count = found[f"{table}.{column}"]
            count[0] += 1
            count[1] = np.nanmax([count[1], np.inf if np.isnan(apart) else apart])

    of_setting = defaultdict(lambda: defaultdict(list))
    names = ["task", "model", "setting", "fit_seed", "fold", "policy", "metric"]
    rows_of_label = labels.set_index(names)
    for row in tables["cells"].itertuples():
        if row.status != "ok" or row.metric != "auroc":
            continue
        cell = Cell(pd.read_parquet(run / row.path / "predictions.parquet"))
        cell.fit, cell.fold = row.fit_seed, row.fold
        if cell.fold != "official":
            of_fit = json.loads((run / row.path / "cell.json").read_text())["fit"]
            learned = json.loads((run / of_fit / "fit.json").read_text())["records"]
            cell.overlap = len(cell.records) / learned
        of_setting[row.task, str(row.leads)][row.model, row.policy].append(cell)
        if not cell.labels:
            note("cells", row, value=np.nan, low=np.nan, high=np.nan)
            continue
        alone = Rows([[cell]], alone=True)
        numbers = dict(zip(("value", "low", "high"), alone.row(0)))
        note("cells", row, **numbers, value_distinct=cell.distinct)
        where = tuple(getattr(row, name) for name in names)
        for one in rows_of_label.loc[[where]].itertuples():
            if one.label in alone.labels:
                low, high = alone.label(0, one.label)
                auroc = cell.auroc[alone.labels.index(one.label)]
                note("labels", one, value=auroc, low=low, high=high)
            else:
                note("labels", one, value=np.nan, low=np.nan, high=np.nan)

    main = tables["main_table"]
    main = main[main["metric"] == "auroc"]
    of_group, reported = {}, []
    for (task, leads), columns in of_setting.items():
        mine = main[(main["task"] == task) & (main["leads"].astype(str) == leads)]
        whole = {(r.model, r.policy): r for r in mine.itertuples() if r.status == "ok"}
        names = list(whole)
        rows = Rows([columns[n] for n in names])
        for a, name in enumerate(names):
            numbers = dict(zip(("value", "low", "high", "se", "df", "share"), rows.row(a)))
            distinct = np.mean([cell.distinct for cell in columns[name]])
            note("main_table", whole[name], **numbers, value_distinct=distinct)
        trained = [a for a, n in enumerate(names) if "untrained" not in str(whole[n].note)]
        planned = [r for r in mine.itertuples() if r.status != "skipped"]
        planned = [r for r in planned if "untrained" not in str(r.note)]
        if not trained:
            continue
        best = max(trained, key=lambda a: rows.row(a)[0])
        pairs = {}
        for a, b in combinations(range(len(names)), 2):
            first, second = (a, b) if a == best else (b, a)
            got = rows.difference(first, second)
            tested = got[4] >= 6 and not got[5] > 0.5 and rows.g >= 30
            if a in trained and b in trained:
                pairs[a, b] = got[6] if tested else 1.0
            if best in (a, b):
                reported.append((task, leads, names[second], got, tested, (a, b)))
        size = len(planned) * (len(planned) - 1) // 2
        padded = list(pairs.values()) + [1.0] * (size - len(pairs))
        of_group |= {((task, leads), pair): p for pair, p in zip(pairs, holm(padded))}
    compared = tables["comparisons"]
    compared = compared[compared["metric"] == "auroc"]
    printed = {(r.task, str(r.leads), (r.model, r.policy)): r for r in compared.itertuples()}
    assert len(printed) == len(reported), f"{len(printed)} comparisons, {len(reported)} expected"
    for task, leads, name, got, tested, pair in reported:
        row = printed[task, leads, name]
        numbers = dict(zip(("difference", "low", "high", "se", "df", "share"), got))
        where = ((task, leads), pair)
        tested = tested and where in of_group
        p, p_holm = (got[6], of_group[where]) if tested else (np.nan, np.nan)
        note("comparisons", row, **numbers, p=p, p_holm=p_holm)
    return {column: tuple(count) for column, count in found.items()}


def main():
    """Print the differences; exit with 1 where one is above 1e-9."""
    run = Path(sys.argv[1])
    found = recompute(run, Path(sys.argv[2]) if len(sys.argv) > 2 else run / "report")
    for column, (count, apart) in found.items():
        print(f"{column:<24} {count:>6} numbers, largest difference {apart:.1e}")
    sys.exit(any(apart > 1e-9 for _, apart in found.values()))


if __name__ == "__main__":
    main()
