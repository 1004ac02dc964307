// Uses a device, runs itself as an MPI job by system(), with ranks using devices too, and uses its
// device once more.
//
//   runs_mpirun [rank]

#include <cstdio>
#include <cstdlib>
#include <string>

#include "use_cuda.h"

int main(int argc, char** argv) {
  if (argc > 1) {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    std::printf("rank %s of %s: %s\n", rank == nullptr ? "?" : rank,
                std::getenv("OMPI_COMM_WORLD_SIZE"), DeviceWorks() ? "PASS" : "FAIL");
    return 0;
  }
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) {
    std::printf("this program is no rank, and is told that it is\n");
    return 1;
  }
  const bool before = DeviceWorks();
  std::printf("before: %s\n", before ? "PASS" : "FAIL");
  std::fflush(stdout);
  const std::string line = "mpirun --oversubscribe -np 2 '" + std::string(argv[0]) + "' rank";
  const int status = std::system(line.c_str());
  const bool after = DeviceWorks();
  std::printf("mpirun: %d, after: %s\n", status, after ? "PASS" : "FAIL");
  return before && after && status == 0 ? 0 : 1;
}
