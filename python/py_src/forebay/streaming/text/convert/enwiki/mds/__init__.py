"""From documents, a sentence a line with empty lines between documents, to `StreamingEnWiki`'s columns.

`create_pretraining_data` writes a data set of some files, `make_train_parallel` one of each group of many, `merge_shard_groups`
makes one of those, and `pick_eval_samples` takes some samples of a data set.
"""
