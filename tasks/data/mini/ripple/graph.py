"""Small weighted graphs as dense matrices: reading edge lists and looking at neighbourhoods."""

import numpy as np


def weight_matrix(edges, size):
    """Return the symmetric weight matrix of ``(i, j, weight)`` triples.

    Loops are ignored. An edge that is listed several times, in either direction, has the largest of its weights.
    """
    matrix = np.zeros((size, size))
    for first, second, weight in edges:
        first, second = int(first), int(second)
        if not (0 <= first < size and 0 <= second < size):
            raise ValueError(f"edge {first}-{second} leaves a graph of {size} nodes")
        if not weight > 0:
            raise ValueError(f"edge {first}-{second} has weight {weight}; weights are positive")
        if first != second:
            heavier = max(matrix[first, second], float(weight))
            matrix[first, second] = matrix[second, first] = heavier
    return matrix


def neighbour_counts(matrix):
    """Return the number of neighbours of every node, loops not counted."""
    linked = matrix > 0
    np.fill_diagonal(linked, False)
    return np.count_nonzero(linked, axis=1)
