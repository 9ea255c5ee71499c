# %% one-hot-product
def class_report(predictions, labels, n_classes):
    true = torch.nn.functional.one_hot(labels, n_classes)
    guessed = torch.nn.functional.one_hot(predictions, n_classes)
    confusion = true.T @ guessed
    hits = confusion.diagonal().float()
    recall = hits / true.sum(0)
    precision_and_recall = true.sum(0) + guessed.sum(0)
    f1 = 2 * hits / precision_and_recall
    return dict(
        confusion=confusion,
        recall=recall,
        f1=f1,
        accuracy=float((predictions == labels).float().mean()),
        balanced_accuracy=float(torch.nanmean(recall)),
        macro_f1=float(torch.nanmean(f1)),
    )

# %% scattered-counts
def class_report(predictions, labels, n_classes):
    confusion = torch.zeros(n_classes, n_classes, dtype=torch.long)
    confusion.index_put_((labels, predictions), torch.ones_like(labels), accumulate=True)
    hits, support, called = confusion.diag(), confusion.sum(dim=1), confusion.sum(dim=0)
    nan = torch.tensor(float("nan"))
    recall = torch.where(support > 0, hits / support.clamp(min=1), nan)
    f1 = torch.where(support + called > 0, 2 * hits / (support + called).clamp(min=1), nan)
    occurs = support > 0
    counted = ~f1.isnan()
    print("classes that occur:", int(occurs.sum()))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": hits.sum().item() / labels.numel(),
        "balanced_accuracy": recall[occurs].mean().item(),
        "macro_f1": f1[counted].mean().item(),
    }

# %% a-loop-over-samples
import math


def mean_of(values):
    kept = [value for value in values if not math.isnan(value)]
    return sum(kept) / len(kept)


def class_report(predictions, labels, n_classes):
    """Plain Python all the way."""
    table = [[0] * n_classes for _ in range(n_classes)]
    for guess, truth in zip(predictions.tolist(), labels.tolist()):
        table[truth][guess] += 1
    recall, f1 = [], []
    for c in range(n_classes):
        row, column = sum(table[c]), sum(line[c] for line in table)
        recall.append(table[c][c] / row if row else math.nan)
        f1.append(2 * table[c][c] / (row + column) if row + column else math.nan)
    return {
        "confusion": torch.tensor(table),
        "recall": torch.tensor(recall),
        "f1": torch.tensor(f1),
        "accuracy": sum(table[c][c] for c in range(n_classes)) / len(labels),
        "balanced_accuracy": mean_of(recall),
        "macro_f1": mean_of(f1),
    }

# %% scikit-learn
import warnings

import numpy
from sklearn import metrics


def class_report(predictions, labels, n_classes):
    truth, guess = labels.numpy(), predictions.numpy()
    classes = list(range(n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        confusion = metrics.confusion_matrix(truth, guess, labels=classes)
        recall = metrics.recall_score(truth, guess, labels=classes, average=None, zero_division=numpy.nan)
        f1 = metrics.f1_score(truth, guess, labels=classes, average=None, zero_division=numpy.nan)
        balanced = metrics.balanced_accuracy_score(truth, guess)
        macro = metrics.f1_score(truth, guess, average="macro")
    return {
        "confusion": torch.from_numpy(confusion).long(),
        "recall": torch.from_numpy(recall).float(),
        "f1": torch.from_numpy(f1).float(),
        "accuracy": float(metrics.accuracy_score(truth, guess)),
        "balanced_accuracy": float(balanced),
        "macro_f1": float(macro),
    }

# %% f1-from-precision-and-recall
def class_report(predictions, labels, n_classes):
    confusion = torch.stack(
        [torch.bincount(predictions[labels == c], minlength=n_classes) for c in range(n_classes)]
    )
    hits = confusion.diag().double()
    recall = hits / confusion.sum(1)
    precision = hits / confusion.sum(0)
    # the harmonic mean is 0 where one of the two is missing or both are 0, unless both are missing
    f1 = (2 * precision * recall / (precision + recall)).nan_to_num(0.0)
    f1[recall.isnan() & precision.isnan()] = torch.nan
    return {
        "confusion": confusion,
        "recall": recall.float(),
        "f1": f1.float(),
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }
