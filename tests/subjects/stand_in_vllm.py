"""A stand-in for an installed vLLM: the modules that the adapter asks for, and no more.

It is written to a folder, so that it is found, versioned and imported as the real one.
"""

from pathlib import Path

PARAMETERS = (
    "device, attn_groups_iter, kernel_block_sizes, static_forward_context, "
    "num_blocks, runner_only_attn_layers=None"
)
ZEROER = f"""
class KVBlockZeroer:
    def __init__(self, {PARAMETERS}):
        self._meta = None

    def zero_block_ids(self, block_ids): ...

    def warmup(self, num_kv_blocks): ...
"""
UTILS = f"""
import os

visible_devices = os.environ.get("CUDA_VISIBLE_DEVICES")

class AttentionGroup: ...
{ZEROER}
"""


def write_stand_in(
    folder: Path, version: str = "0.33.0", *, triton: bool = True, utils: str = UTILS
) -> None:
    """Write the package and its metadata.

    Args:
        folder: Goes on ``sys.path``.
        version: What the metadata say.
        triton: Whether it found Triton.
        utils: Source of ``vllm.v1.worker.utils``.
    """
    modules = {
        "vllm/__init__.py": "",
        "vllm/platforms/__init__.py": "",
        "vllm/platforms/interface.py": "class UnspecifiedPlatform: ...",
        "vllm/triton_utils/__init__.py": f"HAS_TRITON = {triton}",
        "vllm/utils/__init__.py": "",
        "vllm/utils/torch_utils.py": "PIN_MEMORY = True",
        "vllm/v1/__init__.py": "",
        "vllm/v1/attention/__init__.py": "",
        "vllm/v1/attention/backend.py": "class AttentionBackend: ...",
        "vllm/v1/kv_cache_interface.py": "class FullAttentionSpec: ...",
        "vllm/v1/worker/__init__.py": "",
        "vllm/v1/worker/utils.py": utils,
        f"vllm-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
            f"Requires-Dist: torch==0.0.1\n"
        ),
    }
    for name, text in modules.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
