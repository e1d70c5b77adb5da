"""Few requests to a device: steps recorded and replayed.

A step of a few hundred samples is some forty kernels of microseconds each, which a
device finishes sooner than Python can ask for them. As a CUDA graph they are one
request. Elsewhere, and where a step must visit the CPU, they are asked for one by one.
"""

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

Carried = dict[str, Tensor]
# What was recorded for a fit, as long as its steps live.
_recorded: WeakKeyDictionary = WeakKeyDictionary()


def run_batches(
    descent: Any, state: dict, units: dict, batches: list
) -> tuple[dict, float, np.ndarray]:
    """As `prototypes.optimizer.run_batches`; steps are recorded where they can be."""
    if descent not in _recorded:
        made = Replayed(descent.step, descent.device, descent.recordable)
        _recorded[descent] = made
    wins = np.zeros(len(state["prototypes"]), dtype=np.int64)
    given = {f"{name}_unit": unit for name, unit in units.items()}
    now = {**state, **given, "loss": 0.0, "wins": wins}
    now = _recorded[descent].run(now, batches)
    return {key: now[key] for key in state}, now["loss"], now["wins"]


class Replayed:
    """Steps over batches of consecutive rows, each the same function of tensors.

    Parameters
    ----------
    step : callable
        ``step(carried, rows, rate)`` returns what it changes of the tensors carried
        from batch to batch, in shapes that stay. `rows` are numbers of samples, `rate`
        is one number, a tensor.
    device : torch.device
    recorded : bool
        Whether the step never looks at a value on the CPU, so that it can be replayed.
    """

    def __init__(
        self,
        step: Callable[[Carried, Tensor, Tensor], Carried],
        device: torch.device,
        recorded: bool,
    ) -> None:
        self._step, self._device = step, device
        self._recorded = recorded and device.type == "cuda"
        self._carried: Carried = {}
        self._starts = torch.empty(0, dtype=torch.long, device=device)
        self._rates = torch.empty(0, dtype=torch.float64, device=device)
        self._at = torch.zeros(1, dtype=torch.long, device=device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(
        self, values: dict[str, Any], batches: Iterable[tuple[slice, float]]
    ) -> dict[str, Any]:
        """Step from `values` through batches of rows, each at its rate.

        Values are NumPy arrays or numbers, before and after.
        """
        pieces, rates = zip(*batches, strict=True)
        starts = torch.tensor([piece.start for piece in pieces])
        self._keep(
            starts.to(self._device),
            torch.tensor(rates, dtype=torch.float64, device=self._device),
            {name: torch.as_tensor(v).to(self._device) for name, v in values.items()},
        )
        self._at.zero_()
        for piece in pieces:
            self._one(piece.stop - piece.start)
        found = {name: value.cpu().numpy() for name, value in self._carried.items()}
        return {
            name: value if np.ndim(values[name]) else value.item()
            for name, value in found.items()
        }

    def _keep(self, starts: Tensor, rates: Tensor, values: Carried) -> None:
        """Put all where recorded steps read it; without such a place, make one."""
        same = len(starts) == len(self._starts) and all(
            name in self._carried and self._carried[name].shape == value.shape
            for name, value in values.items()
        )
        if not same:
            self._starts, self._rates, self._graphs = starts, rates, {}
            self._carried = {name: value.clone() for name, value in values.items()}
            return
        self._starts.copy_(starts)
        self._rates.copy_(rates)
        for name, value in values.items():
            self._carried[name].copy_(value)

    def _work(self, length: int) -> None:
        rows = self._starts[self._at] + torch.arange(length, device=self._device)
        rate = self._rates[self._at].squeeze(0)
        for name, value in self._step(self._carried, rows, rate).items():
            self._carried[name].copy_(value)
        self._at.add_(1)

    def _one(self, length: int) -> None:
        if not self._recorded:
            self._work(length)
            return
        if length not in self._graphs:
            self._graphs[length] = self._record(length)
        self._graphs[length].replay()

    def _record(self, length: int) -> torch.cuda.CUDAGraph:
        kept = {name: value.clone() for name, value in self._carried.items()}
        at = self._at.clone()
        aside = torch.cuda.Stream(self._device)
        aside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(aside):
            # Libraries prepare themselves in a first call, which must not be recorded.
            self._work(length)
        torch.cuda.current_stream(self._device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._work(length)
        for name, value in kept.items():
            self._carried[name].copy_(value)
        self._at.copy_(at)
        return graph
