"""Ways to iterate over a loader: each calls `visit()`, an empty step, for every batch of `epochs` epochs.

`outputs` are the names of the loader's outputs.
"""

import sys


def loop(loader, outputs, epochs, visit):
    """A loop over the loader."""
    for _ in range(epochs):
        for _ in loader:
            visit()


def tf_data(loader, outputs, epochs, visit):
    from forebay.integrations.tensorflow import dataset

    loop(dataset(loader), outputs, epochs, visit)


def keras(loader, outputs, epochs, visit):
    """The batches that `fit` asks for, without a model."""
    import keras
    from forebay.integrations.keras import Batches

    batches = Batches(loader, *outputs)
    if keras.backend.backend() == "tensorflow":
        return loop(batches.get_tf_dataset(), outputs, epochs, visit)
    for _ in range(epochs):
        for _ in batches.get_jax_iterator():
            visit()


def lightning(loader, outputs, epochs, visit):
    """`Trainer.fit`, where Lightning leaves the optimiser to the module."""
    import warnings

    import lightning as lightning_library

    warnings.filterwarnings("ignore", module="lightning")

    class Module(lightning_library.LightningModule):
        automatic_optimization = False

        def training_step(self, batch, index):
            visit()

        def configure_optimizers(self):
            return None

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    lightning_library.Trainer(max_epochs=epochs, accelerator="cpu", **quiet).fit(Module(), loader)


def accelerate(loader, outputs, epochs, visit):
    from accelerate import Accelerator
    from forebay.integrations.accelerate import DataLoader

    loop(Accelerator(cpu=True).prepare(DataLoader(loader)), outputs, epochs, visit)


def transformers(loader, outputs, epochs, visit):
    """`Trainer.train`, with an optimiser for one weight."""
    import torch
    from forebay.integrations.transformers import Trainer
    from transformers import TrainingArguments

    class Empty(Trainer):
        def training_step(self, model, inputs, num_items_in_batch=None):
            visit()
            return torch.zeros(())

    arguments = TrainingArguments(num_train_epochs=epochs, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True)
    # `forward` names the values that the Trainer passes on.
    Empty(torch.nn.Linear(1, 1), arguments, train_dataset=loader).train()


def composer(loader, outputs, epochs, visit):
    """`Trainer.fit`, with an optimiser for one weight."""
    import torch
    from composer import ComposerModel, Trainer
    from forebay.integrations.torch import DataLoader

    class Model(ComposerModel):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, batch):
            visit()
            return self.weight

        def loss(self, outputs, batch):
            return outputs

    Trainer(model=Model(), train_dataloader=DataLoader(loader), max_duration=f"{epochs}ep", device="cpu", progress_bar=False).fit()


VIEWS = {
    "torch": ("torch", loop),
    "numpy": ("numpy", loop),
    "JAX": ("jax", loop),
    "JAX, sharded over 4 CPU devices": ("jax", loop),
    "TensorFlow": ("tensorflow", loop),
    "tf.data.Dataset": ("tensorflow", tf_data),
    "Keras on JAX": ("jax", keras),
    "Keras on TensorFlow": ("tensorflow", keras),
    "Lightning": ("torch", lightning),
    "Accelerate": ("torch", accelerate),
    "Hugging Face Trainer": ("torch", transformers),
    "Composer": ("torch", composer),
}
"""Names of the ways to iterate, with the loader's framework."""


def release():
    """Makes JAX release its parts of a batch, which it does in its next call only."""
    if jax := sys.modules.get("jax"):
        jax.block_until_ready(jax.device_put(0))
