"""What a warm process imports before it forks anything: what the tests of papers import, and what that loads at first use."""

from rcb_agent.environments.base import Runtime

# What PyTorch loads when a gradient is asked for, an optimizer steps, a tensor is shown: up to seconds.
TORCH_AT_FIRST_USE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.utils._device",
    "torch.func",
)
# What is imported for a package of a runtime: itself and what it would load at first use.
IMPORTS = {
    "numpy": ("numpy", "numpy.random", "numpy.linalg", "numpy.testing"),
    "scipy": ("scipy", "scipy.linalg", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.sparse"),
    "torch": ("torch", "torch.nn.functional", "torch.optim", "torch.utils.data", *TORCH_AT_FIRST_USE),
    "jax": ("jax", "jax.numpy"),
    "flax": ("flax", "flax.linen"),
    "matplotlib": ("matplotlib.pyplot",),
    "pandas": ("pandas", "pandas.io.parquet"),
    "pyarrow": ("pyarrow", "pyarrow.parquet", "pyarrow.dataset"),
    "hydra-core": ("hydra",),
    "omegaconf": ("omegaconf",),
    "tensordict": ("tensordict",),
    "torchrl": ("torchrl.envs", "torchrl.envs.libs.meltingpot"),
    "mmcv": ("mmcv", "mmcv.runner", "mmcv.cnn", "mmcv.parallel"),
    "mmgen": ("mmgen.models",),
    "diffusers": (
        "diffusers",
        "diffusers.models",
        "diffusers.models.autoencoders.vae",
        "diffusers.models.unets.unet_2d_condition",
        "diffusers.models.transformers.dit_transformer_2d",
        "diffusers.schedulers",
    ),
    "einops": ("einops",),
    "timm": ("timm", "timm.layers"),
    "torchvision": ("torchvision", "torchvision.utils"),
    "h5py": ("h5py",),
    "requests": ("requests",),
    "transformers": ("transformers",),
}
STANDARD = ("unittest", "unittest.mock", "json", "random", "math", "importlib.util", "inspect", "traceback", "typing")


def imports_of(runtime: Runtime) -> list[str]:
    """Return the modules that a zygote of a runtime imports."""
    names = {package.partition("==")[0].lower() for package in runtime.packages}
    return [*STANDARD, *(module for name, modules in IMPORTS.items() if name in names for module in modules)]
