#include "bench/share/mps.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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
  std::string folder = "/tmp/cuspan-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr)
    return Status::Unavailable("{}: {}", folder, std::strerror(errno));
  std::unique_ptr<MpsDaemon> daemon(new MpsDaemon(folder));
  CUSPAN_RETURN_IF_ERROR(Capture(InShell(folder, "nvidia-cuda-mps-control -d")).status());
  environment.Set(kPipeFolder, folder);
  environment.Set(kLogFolder, folder);
  return daemon;
}

MpsDaemon::~MpsDaemon() {
  // It answers when its server has ended.
  static_cast<void>(Capture(InShell(folder_, "sh -c 'echo quit | nvidia-cuda-mps-control'")));
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace cuspan::bench::share
