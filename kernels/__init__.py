"""Numeric kernels. They know tensors and shapes; nothing of models, requests or time."""
