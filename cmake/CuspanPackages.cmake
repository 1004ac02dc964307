# Debian packages of a build: `cpack -G DEB` (deploy/package.sh does that and more). Benchmarks are
# not packaged: their CUDA programs contain NVIDIA's runtime, linked statically by nvcc.
set(CUSPAN_PACKAGE_CONTACT "cuspan maintainers <maintainers@cuspan.invalid>" CACHE STRING
    "Name and address for the maintainer's field of packages; .invalid is reserved for addresses of nobody (RFC 2606)")

set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "")
set(CPACK_PACKAGE_CONTACT ${CUSPAN_PACKAGE_CONTACT})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # Packages have their own summaries.
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL cuspan software-gpu)
if(NOT CUSPAN_SOFTGPU)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL software-gpu)
endif()
if(TARGET cuspan-spank)
  list(APPEND CPACK_COMPONENTS_ALL slurm)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

# Agents are linked to MPI and to UCX; dpkg-shlibdeps finds both. One node needs nothing else. For
# other nodes, agents are started by mpirun or ssh.
set(CPACK_DEBIAN_CUSPAN_PACKAGE_NAME cuspan)
set(CPACK_DEBIAN_CUSPAN_PACKAGE_RECOMMENDS "openmpi-bin, openssh-client")
if(CUSPAN_MPICH)
  set(CPACK_DEBIAN_CUSPAN_PACKAGE_RECOMMENDS "mpich, openssh-client")
endif()
set(CPACK_DEBIAN_CUSPAN_PACKAGE_SUGGESTS "cuspan-software-gpu, cuspan-slurm, nvidia-cuda-mps")
set(CPACK_DEBIAN_CUSPAN_DESCRIPTION
"CUDA programs on the GPUs of a whole cluster
cuspan runs unmodified CUDA programs on the GPUs of a cluster. A program that
was compiled without cuspan in mind starts on a node that may have no GPU,
sees devices 0 to N-1, and runs as if they were local. A library inside the
program takes its CUDA calls, and processes on the nodes with the GPUs make
them there.

This package has the command, what serves the GPUs of a node to it (which
needs NVIDIA's driver), and what both need in a job of Slurm.")

set(CPACK_DEBIAN_SOFTWARE-GPU_PACKAGE_NAME cuspan-software-gpu)
set(CPACK_DEBIAN_SOFTWARE-GPU_PACKAGE_DEPENDS "cuspan (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SOFTWARE-GPU_DESCRIPTION
"software GPU for cuspan
The software GPU is the CUDA driver library implemented on the CPU: cuspan
runs CUDA programs on it where no node has a GPU, to try them or to find
their faults. It compiles their PTX with LLVM.")

set(CPACK_DEBIAN_SLURM_PACKAGE_NAME cuspan-slurm)
set(CPACK_DEBIAN_SLURM_PACKAGE_DEPENDS "cuspan (= ${PROJECT_VERSION})")
# Slurm only loads plugins of its own version. Users of another Slurm than Debian's build the plugin
# with its headers.
set(CPACK_DEBIAN_SLURM_PACKAGE_RECOMMENDS "slurm-client | slurmd")
set(CPACK_DEBIAN_SLURM_DESCRIPTION
"plugin for Slurm that runs jobs' programs with cuspan
With this plugin in its plugstack.conf, Slurm's srun has an option by which
the programs of a job step see the job's GPUs on all of its nodes, as
\"cuspan run\" shows them.")

# The script adds Debian's own files, for example the changelog, to the installed ones.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/CuspanPackageFiles.cmake)
set(CPACK_CUSPAN_SOURCES ${CMAKE_SOURCE_DIR})
set(CPACK_CUSPAN_DATE ${CUSPAN_SOURCE_DATE})
include(CPack)
