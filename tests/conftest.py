import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """For small circuits, and for numbers that must be the same to the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
