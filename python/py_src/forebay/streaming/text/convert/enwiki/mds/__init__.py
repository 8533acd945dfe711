"""Conversion of documents (one sentence per line, empty lines between documents) to `StreamingEnWiki`'s columns.

`create_pretraining_data` writes a data set of some files, `make_train_parallel` one data set for each group of many
files, `merge_shard_groups` merges these data sets, and `pick_eval_samples` takes some samples of a data set.
"""
