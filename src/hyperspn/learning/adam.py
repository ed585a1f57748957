"""Adam, as torch has it, without torch's compiler."""

from __future__ import annotations

from inspect import unwrap

import torch


class Adam(torch.optim.Adam):
    """`torch.optim.Adam`, whose own methods would import torch's compiler to tell it that it is not for them.

    That takes as long as importing torch, and nothing here needs it.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
