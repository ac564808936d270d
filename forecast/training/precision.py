"""Says where a precision that should be quicker is slower: a processor without such products emulates each of them."""

import time

import torch

DTYPES = {"bf16": torch.bfloat16, "16": torch.float16}
SIZE, TIMES = 192, 3  # rows of the matrices that are multiplied; the quickest of so many products counts
SLOW = 3.0  # times float32, from where on it is said: a busy machine makes a product twice as slow by chance


def slow_precision(precision: str, device: torch.device) -> str:
    """A sentence on trainer.precision, with what to set instead; "" where its products are no slower than float32's."""
    dtype = DTYPES.get(precision.partition("-")[0])
    if dtype is None or device.type != "cpu":
        return ""
    slower = product_seconds(dtype) / product_seconds(torch.float32)
    if slower < SLOW:
        return ""
    return (
        f"trainer.precision={precision}: this processor has no products of {str(dtype).removeprefix('torch.')} numbers "
        f"and takes {slower:.0f} times as long for one as in float32. Train with trainer.precision=32-true"
    )


def product_seconds(dtype: torch.dtype) -> float:
    """Seconds of a product of two matrices of SIZE x SIZE."""
    matrix, seconds = torch.ones(SIZE, SIZE, dtype=dtype), []
    for _ in range(TIMES + 1):  # the first one prepares what the others use
        begin = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])
