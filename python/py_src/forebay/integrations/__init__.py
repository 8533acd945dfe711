"""Adapters for libraries that take more than an iterable of batches. Each module imports its own library only.

Most trainers take a `forebay.Loader` itself: it is iterated and has a length, `state_dict`, `load_state_dict`, `set_epoch`
and `batch_size`. These modules are for the rest:

* `torch.DataLoader`: a `torch.utils.data.DataLoader`, for Composer and Lightning Fabric;
* `accelerate.DataLoader`: one that Accelerate has in its checkpoints and does not shard again;
* `transformers.Trainer`: Hugging Face's Trainer, with loaders as data sets;
* `lightning.CheckpointIO`: Lightning's checkpoints on every store;
* `composer.CheckpointSaver` and `composer.ObjectStore`: Composer's;
* `tensorflow`: a loader as `tf.data.Dataset`;
* `keras.Batches`: a loader for `fit` of Keras 3.
"""
