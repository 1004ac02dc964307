# Spack recipe for cuspan. It is in no Spack repository: see docs/install.md for its use.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Cuspan(CMakePackage):
    """Runs unmodified CUDA programs on the GPUs of a whole cluster."""

    license("Apache-2.0")

    version("0.1.0")

    variant("softgpu", default=True, description="Build the software GPU, which runs programs without any GPU")
    variant("ucx", default=True, description="Let agents use UCX, which needs no mpirun")
    variant("metrics", default=True, description="Give metrics to Prometheus")
    variant("slurm", default=False, description="Build the plugin for Slurm's srun")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    # Headers, and the compiler of the benchmarks. Programs run by cuspan contain their own runtime.
    depends_on("cuda@13.0:", type="build")

    # Used only as headers or archives.
    depends_on("cli11@2.1:", type="build")
    depends_on("fmt@9.1:9", type="build")
    depends_on("spdlog@1.10:1.12", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("xxhash@0.8:", type="build")

    depends_on("lz4")
    depends_on("zstd")
    depends_on("mpi@3:")
    depends_on("llvm@16 +llvm_dylib", when="+softgpu")
    with when("+ucx"):
        depends_on("openssl@3:")
        depends_on("protobuf@3.21 ~shared", type="build")
        depends_on("ucx@1.12:")
    depends_on("prometheus-cpp@1:", when="+metrics")
    depends_on("slurm", when="+slurm", type="build")

    requires("platform=linux target=x86_64:", msg="cuspan is for x86-64 Linux")

    generator("ninja")

    def cmake_args(self):
        arguments = [
            self.define_from_variant("CUSPAN_SOFTGPU", "softgpu"),
            self.define_from_variant("CUSPAN_UCX", "ucx"),
            self.define_from_variant("CUSPAN_METRICS", "metrics"),
            self.define("CUSPAN_NVCC", self.spec["cuda"].prefix.bin.nvcc),
            # The tests need the packages of deploy/install-dependencies.sh.
            self.define("CUSPAN_TESTS", False),
        ]
        if self.spec.satisfies("~slurm"):
            arguments.append(self.define("CUSPAN_SPANK_INCLUDE", False))
        return arguments
