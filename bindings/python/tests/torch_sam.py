"""`ascend` and `descend` of gradstep.torch against the loop of the paper: `./dev test python-torch` runs it."""

from __future__ import annotations

import math
import unittest

import torch

import gradstep.torch

SAM = {"rho": 0.5}
ASAM = {"rho": 2.0, "adaptive": True, "eta": 0.25}


def start(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in ((300, 70), (7,), ())]


def loss_of(parameters: list[torch.Tensor]) -> torch.Tensor:
    return sum((k + 1) * p.square().sum() + p.sin().sum() for k, p in enumerate(parameters))


def backward(parameters: list[torch.Tensor]) -> torch.Tensor:
    for p in parameters:
        p.grad = None
    loss = loss_of(parameters)
    loss.backward()
    return loss


class Sam(unittest.TestCase):
    def test_two_halves_are_the_loop_of_the_papers(self) -> None:
        for options in (SAM, ASAM):
            ours, theirs = start(torch.float64), start(torch.float64)
            optimizer = gradstep.torch.SGD(ours, lr=0.01, momentum=0.9)
            of_torch = torch.optim.SGD(theirs, lr=0.01, momentum=0.9)
            for _ in range(5):
                backward(ours)
                norm = optimizer.ascend(**options)
                optimizer.descend(lambda: backward(ours))

                backward(theirs)
                with torch.no_grad():
                    a = [p.abs() + options["eta"] if "eta" in options else torch.ones_like(p) for p in theirs]
                    expected = math.sqrt(sum(float((f * p.grad).square().sum()) for f, p in zip(a, theirs)))
                    moves = [options["rho"] / (expected + 1e-12) * f * f * p.grad for f, p in zip(a, theirs)]
                    before = [p.clone() for p in theirs]
                    for p, move in zip(theirs, moves):
                        p.add_(move)
                backward(theirs)
                with torch.no_grad():
                    for p, old in zip(theirs, before):
                        p.copy_(old)
                of_torch.step()
                # 21008 squares, each sum in float64 with another order: below 1e-12 relatively.
                self.assertLess(abs(norm / expected - 1), 1e-12)
            for p, q in zip(ours, theirs):
                self.assertLess(float((p - q).detach().abs().max()), 1e-10)

    def test_parameters_come_back_bit_for_bit_in_every_dtype(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            parameters = start(dtype)
            before = [p.detach().clone() for p in parameters]
            optimizer = gradstep.torch.Adam(parameters, lr=0.0)
            backward(parameters)
            optimizer.ascend()
            self.assertFalse(all(torch.equal(p, old) for p, old in zip(parameters, before)))
            optimizer.restore()
            for p, old in zip(parameters, before):
                self.assertTrue(torch.equal(p, old))

    def test_the_norm_does_not_depend_on_threads(self) -> None:
        parameters, norms, threads = start(), set(), torch.get_num_threads()
        big = torch.linspace(-1, 1, 1_000_001).requires_grad_()
        big.grad = torch.linspace(2, 3, 1_000_001)
        backward(parameters)
        optimizer = gradstep.torch.Adam([*parameters, big])
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            norms.add(optimizer.ascend())
            optimizer.restore()
        torch.set_num_threads(threads)
        self.assertEqual(len(norms), 1)

    def test_maximize_moves_the_other_way(self) -> None:
        moved = []
        for maximize in (False, True):
            p = torch.zeros(2, dtype=torch.float64, requires_grad=True)
            p.grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
            gradstep.torch.SGD([p], maximize=maximize).ascend(rho=5, epsilon=0)
            moved.append(p.tolist())
        self.assertEqual(moved, [[3, 4], [-3, -4]])

    def test_another_order_is_refused(self) -> None:
        parameters = start()
        optimizer = gradstep.torch.Adam(parameters)
        backward(parameters)
        for call in (optimizer.descend, optimizer.restore):
            with self.assertRaisesRegex(gradstep.SequenceError, "the weights have not been moved; expected ascend"):
                call()
        optimizer.ascend()
        for call in (optimizer.ascend, optimizer.step, optimizer.state_dict):
            with self.assertRaisesRegex(gradstep.SequenceError, "ascend.* has moved the weights; expected descend"):
                call()
        optimizer.restore()
        optimizer.step()
        optimizer.state_dict()

    def test_what_cannot_be_measured_is_refused_before_anything_moves(self) -> None:
        parameters = start()
        before = [p.detach().clone() for p in parameters]
        optimizer = gradstep.torch.Adam(parameters)
        backward(parameters)
        for options, said in (({"rho": -1}, "rho: -1"), ({"eta": math.inf}, "eta: inf"), ({"epsilon": math.nan}, "epsilon: nan")):
            with self.assertRaisesRegex(gradstep.InvalidError, f"ascend: {said}; expected a number >= 0"):
                optimizer.ascend(**options)
        parameters[1].grad[3] = math.nan
        with self.assertRaisesRegex(gradstep.InvalidError, "the norm of the gradients is nan; expected finite"):
            optimizer.ascend()
        parameters[1].grad = torch.eye(7)[0].to_sparse()
        with self.assertRaisesRegex(gradstep.InvalidError, "a gradient is sparse; expected dense"):
            optimizer.ascend()
        for p, old in zip(parameters, before):
            self.assertTrue(torch.equal(p, old))
        with self.assertRaises(gradstep.SequenceError):
            optimizer.restore()


if __name__ == "__main__":
    unittest.main()
