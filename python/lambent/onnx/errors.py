"""What goes wrong while a model is imported."""


class ModelError(ValueError):
    """The model cannot become a kernel graph; says why, with the place in the model."""


class NotCovered(ModelError):
    """The model is a good one, but something in it has no kernels: another engine can serve it."""
