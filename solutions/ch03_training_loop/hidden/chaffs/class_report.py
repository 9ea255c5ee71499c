# %% accuracy-twice
# misconception: accuracy is balanced as long as the data set is large
# fails: test_a_class_that_is_never_predicted, test_a_class_without_samples_has_no_recall, test_a_rare_class_counts_as_much_as_any, test_balanced_accuracy_where_classes_are_rare
# says: The balanced accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    accuracy = (hits.sum() / confusion.sum()).item()
    return {
        "confusion": confusion,
        "recall": hits / confusion.sum(1),
        "f1": f1,
        "accuracy": accuracy,
        "balanced_accuracy": accuracy,
        "macro_f1": f1.nanmean().item(),
    }


# %% precision-for-recall
# misconception: the share of a class's predictions that are right is its recall
# fails: test_a_class_that_is_never_predicted, test_a_class_without_samples_has_no_recall, test_a_rare_class_counts_as_much_as_any, test_balanced_accuracy_where_classes_are_rare, test_recall_for_many_classes, test_recall_of_each_class
# says: The balanced accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(0)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% columns-for-rows
# misconception: a confusion matrix may as well have predictions in its rows, so long as recall is right
# fails: test_a_class_that_is_never_predicted, test_confusion_and_f1_for_many_classes, test_confusion_has_a_row_for_each_true_class, test_report_leaves_strided_inputs_alone
# says: The confusion matrix
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(predictions * n_classes + labels, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(0)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% zero-for-absent
# misconception: a class without samples has recall 0
# fails: test_a_class_without_samples_has_no_recall, test_balanced_accuracy_where_classes_are_rare, test_confusion_and_f1_for_many_classes
# says: A class that does not occur has recall nan and is left out of the mean; so is an f1 that i
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(1).clamp(min=1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0)).clamp(min=1)
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.mean().item(),
        "macro_f1": f1.mean().item(),
    }


# %% weighted-by-support
# misconception: a mean over classes weighs each class by its samples
# fails: test_a_class_that_is_never_predicted, test_a_class_without_samples_has_no_recall, test_a_rare_class_counts_as_much_as_any, test_balanced_accuracy_where_classes_are_rare, test_confusion_and_f1_for_many_classes, test_f1_is_between_recall_and_precision
# says: The balanced accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits, support = confusion.diag(), confusion.sum(1)
    recall = hits / support
    f1 = 2 * hits / (support + confusion.sum(0))
    share = support / support.sum()
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / support.sum()).item(),
        "balanced_accuracy": (recall * share).nansum().item(),
        "macro_f1": (f1 * share).nansum().item(),
    }


# %% nan-in-the-mean
# misconception: a mean leaves nan out by itself
# fails: test_a_class_without_samples_has_no_recall, test_balanced_accuracy_where_classes_are_rare, test_confusion_and_f1_for_many_classes
# says: The balanced accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.mean().item(),
        "macro_f1": f1.mean().item(),
    }


# %% dead-classes-left-out
# misconception: a class that is never predicted has no recall
# fails: test_a_class_that_is_never_predicted, test_a_rare_class_counts_as_much_as_any, test_recall_of_each_class
# says: The balanced accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits, called = confusion.diag(), confusion.sum(0)
    recall = torch.where(called > 0, hits / confusion.sum(1), torch.nan)
    f1 = 2 * hits / (confusion.sum(1) + called)
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% as-many-classes-as-occur
# misconception: the largest label says how many classes there are
# fails: test_confusion_and_f1_for_many_classes
# says: Counts, f1, accuracy and the mean f1 are right for two classes and for many, for one sampl
def class_report(predictions, labels, n_classes):
    n = int(torch.maximum(labels.max(), predictions.max())) + 1
    confusion = torch.bincount(labels * n + predictions, minlength=n**2).reshape(n, n)
    hits = confusion.diag()
    recall = hits / confusion.sum(1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% each-pair-counted-once
# misconception: indexing with += adds up where an index comes several times
# fails: test_a_class_that_is_never_predicted, test_a_class_without_samples_has_no_recall, test_balanced_accuracy_where_classes_are_rare, test_confusion_and_f1_for_many_classes, test_confusion_has_a_row_for_each_true_class, test_f1_is_between_recall_and_precision, test_recall_for_many_classes, test_report_leaves_strided_inputs_alone
# says: The confusion matrix
def class_report(predictions, labels, n_classes):
    confusion = torch.zeros(n_classes, n_classes, dtype=torch.long)
    confusion[labels, predictions] += 1
    hits = confusion.diag()
    recall = hits / confusion.sum(1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (predictions == labels).float().mean().item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% in-percent
# misconception: an accuracy is a percentage
# fails: test_a_class_that_is_never_predicted, test_accuracy_is_a_share_of_all_samples, test_confusion_and_f1_for_many_classes
# says: The accuracy differs from what was expected
def class_report(predictions, labels, n_classes):
    confusion = torch.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": 100 * (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }


# %% labels-used-up
# misconception: in-place arithmetic saves memory, and nobody needs the labels afterwards
# fails: test_class_report_leaves_its_inputs_alone, test_report_leaves_strided_inputs_alone
# says: After the call of `class_report`, its second argument
def class_report(predictions, labels, n_classes):
    labels *= n_classes
    labels += predictions
    confusion = torch.bincount(labels, minlength=n_classes**2).reshape(n_classes, n_classes)
    hits = confusion.diag()
    recall = hits / confusion.sum(1)
    f1 = 2 * hits / (confusion.sum(1) + confusion.sum(0))
    return {
        "confusion": confusion,
        "recall": recall,
        "f1": f1,
        "accuracy": (hits.sum() / confusion.sum()).item(),
        "balanced_accuracy": recall.nanmean().item(),
        "macro_f1": f1.nanmean().item(),
    }
