"""Row-wise AdamW against torch's AdamW of single rows, and the norm of row-sparse gradients against dense ones."""

import pytest
import torch

from seal_hf.loss_net.learner import ROWS_AT_ONCE, RowAdamW, clip_grad_norm

L = 12


def row_gradient(rows, width=3, seed=0):
    values = torch.randn(len(rows), width, generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, (L, width), check_invariants=True)


def test_a_row_moves_as_under_adamw_in_its_own_steps():
    """Row 1 has a gradient in every step, row 2 in some; 2 is an AdamW of these steps alone, the others never move."""
    start = torch.randn(L, 3, generator=torch.Generator().manual_seed(0))
    table = torch.nn.Parameter(start.clone())
    alone = {row: torch.nn.Parameter(start[row].clone()) for row in (1, 2)}
    options = dict(lr=0.1, weight_decay=0.3, fused=True)
    optimizers = {row: torch.optim.AdamW([p], **options) for row, p in alone.items()}
    optimizer = RowAdamW([table], **options)
    for step in range(8):
        rows = [1, 2, 1] if step in (3, 4, 7) else [1]
        table.grad = row_gradient(rows, seed=step)
        dense = table.grad.to_dense()
        optimizer.step()
        for row in set(rows):
            alone[row].grad = dense[row]
            optimizers[row].step()
    for row, p in alone.items():
        torch.testing.assert_close(table[row], p)
    others = [row for row in range(L) if row not in alone]
    assert torch.equal(table[others], start[others])


def test_the_norm_of_row_sparse_gradients_is_that_of_dense_ones():
    nets = [[torch.nn.Parameter(torch.zeros(L, 3)), torch.nn.Parameter(torch.zeros(4))] for _ in range(2)]
    for (table, vector), dense in zip(nets, (False, True), strict=True):
        gradient = row_gradient([5, 2, 5])
        table.grad, vector.grad = gradient.to_dense() if dense else gradient, torch.arange(4.0)
    norms = [clip_grad_norm(parameters, 0.7) for parameters in nets]
    torch.testing.assert_close(*norms)
    torch.testing.assert_close(nets[0][0].grad.to_dense(), nets[1][0].grad)
    torch.testing.assert_close(nets[0][1].grad, nets[1][1].grad)


@pytest.mark.parametrize("overflow", [False, True])
def test_an_overflow_in_fp16_skips_dense_and_sparse_alike(overflow):
    table, vector = torch.nn.Parameter(torch.ones(L, 3)), torch.nn.Parameter(torch.ones(4))
    optimizer, scaler = RowAdamW([table, vector], lr=0.1, fused=True), torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.zeros(()))  # makes the scale
    table.grad, vector.grad = row_gradient([5]) * 8, torch.ones(4)
    if overflow:
        table.grad._values()[0, 1] = float("inf")
    scaler.unscale_(optimizer)
    torch.testing.assert_close(table.grad.to_dense()[5, 0], row_gradient([5]).to_dense()[5, 0])
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(table.detach(), torch.ones(L, 3)) == torch.equal(vector.detach(), torch.ones(4)) == overflow
    assert (scaler.get_scale() < 8) == overflow


def test_a_table_may_change_between_sparse_and_dense_gradients():
    """As a run does that is resumed on another launcher. Every row has a gradient: AdamW all along."""
    start = torch.randn(L, 3, generator=torch.Generator().manual_seed(0))
    row_wise, stock = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizers = RowAdamW([row_wise], lr=0.1, fused=True), torch.optim.AdamW([stock], lr=0.1, fused=True)
    for step in range(6):
        gradient = row_gradient(list(range(L)), seed=step)
        row_wise.grad, stock.grad = gradient if step // 2 % 2 else gradient.to_dense(), gradient.to_dense()
        if step == 3:  # through a checkpoint
            optimizers[0].load_state_dict(optimizers[0].state_dict())
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(row_wise, stock)


def test_many_rows_move_as_under_adamw():
    rows = torch.arange(0, 4 * ROWS_AT_ONCE, 2)  # twice as many as are updated at once, in a table of twice as many
    start = torch.randn(4 * ROWS_AT_ONCE, 3, generator=torch.Generator().manual_seed(0))
    table, alone = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start[rows].clone())
    optimizers = [RowAdamW([table], lr=0.1, weight_decay=0.3), torch.optim.AdamW([alone], lr=0.1, weight_decay=0.3)]
    for step in range(3):
        alone.grad = torch.randn(alone.shape, generator=torch.Generator().manual_seed(step))
        table.grad = torch.sparse_coo_tensor(rows.unsqueeze(0), alone.grad, table.shape, check_invariants=True)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(table[rows], alone)
    assert torch.equal(table[rows + 1], start[rows + 1])
