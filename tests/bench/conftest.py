import pytest

from tests.bench.made import CpuCard


@pytest.fixture
def card() -> CpuCard:
    return CpuCard()
