"""How layers are divided over the chunks of a pipeline."""

from __future__ import annotations


def chunk_sizes(layers: int, chunks: int) -> list[int]:
    """Layers of each model chunk: equal, or the extra ones in the middle.

    The first chunk also holds the embedding and the last the head, so these two are the last to get an extra layer.
    """
    base, extra = divmod(layers, chunks)
    order = [*range(1, chunks - 1), 0, chunks - 1]
    larger = set(order[:extra])
    return [base + (chunk in larger) for chunk in range(chunks)]
