#include "bench/share/mps.h"

#include <utility>
#include <vector>

#include "bench/common/child.h"
#include "common/format.h"

namespace cuspan::bench::share {
namespace {

constexpr const char* kPipeFolder = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLogFolder = "CUDA_MPS_LOG_DIRECTORY";

std::vector<std::string> InShell(const std::string& folder, const std::string& command) {
  return {"/bin/sh", "-c",
          Format("{}={} {}={} {}", kPipeFolder, folder, kLogFolder, folder, command)};
}

}  // namespace

Result<std::unique_ptr<MpsDaemon>> MpsDaemon::Start(Environment& environment) {
  CUSPAN_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Create("/tmp"));
  const std::string path = folder.path();
  std::unique_ptr<MpsDaemon> daemon(new MpsDaemon(std::move(folder)));
  CUSPAN_RETURN_IF_ERROR(Capture(InShell(path, "nvidia-cuda-mps-control -d")).status());
  environment.Set(kPipeFolder, path);
  environment.Set(kLogFolder, path);
  return daemon;
}

MpsDaemon::~MpsDaemon() {
  // It replies after its server has ended.
  static_cast<void>(
      Capture(InShell(folder_.path(), "sh -c 'echo quit | nvidia-cuda-mps-control'")));
}

}  // namespace cuspan::bench::share
