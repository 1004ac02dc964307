#include "proxy/nccl/library.h"

#include <dlfcn.h>

#include <string_view>
#include <system_error>

#include "common/settings.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/loaded_library.h"

namespace cuspan::proxy {
namespace {

constexpr int kOldestVersion = nccl::VersionCode(2, 18, 0);

// Fills in `functions`. Returns the names of missing functions present in every supported release.
std::string FindFunctions(void* library, NcclFunctions& functions) {
  std::string missing;
  const auto find = [&]<typename Function>(Function& function, const char* name, bool needed) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr && needed) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define CUSPAN_FIND(name) find(functions.name, #name, true)
#define CUSPAN_FIND_IF_THERE(name) find(functions.name, #name, false)
  CUSPAN_FIND(ncclGetVersion);
  CUSPAN_FIND(ncclGetErrorString);
  CUSPAN_FIND(ncclGetLastError);
  CUSPAN_FIND(ncclGetUniqueId);
  CUSPAN_FIND(ncclCommInitRankConfig);
  CUSPAN_FIND_IF_THERE(ncclCommInitRankScalable);
  CUSPAN_FIND(ncclCommSplit);
  CUSPAN_FIND_IF_THERE(ncclCommShrink);
  CUSPAN_FIND(ncclCommFinalize);
  CUSPAN_FIND(ncclCommDestroy);
  CUSPAN_FIND(ncclCommAbort);
  CUSPAN_FIND_IF_THERE(ncclCommRevoke);
  CUSPAN_FIND(ncclCommGetAsyncError);
  CUSPAN_FIND(ncclCommCount);
  CUSPAN_FIND(ncclCommUserRank);
  CUSPAN_FIND(ncclRedOpCreatePreMulSum);
  CUSPAN_FIND(ncclRedOpDestroy);
  CUSPAN_FIND(ncclAllReduce);
  CUSPAN_FIND(ncclReduce);
  CUSPAN_FIND(ncclBroadcast);
  CUSPAN_FIND(ncclAllGather);
  CUSPAN_FIND(ncclReduceScatter);
  CUSPAN_FIND_IF_THERE(ncclAlltoAll);
  CUSPAN_FIND_IF_THERE(ncclGather);
  CUSPAN_FIND_IF_THERE(ncclScatter);
  CUSPAN_FIND(ncclSend);
  CUSPAN_FIND(ncclRecv);
  CUSPAN_FIND(ncclGroupStart);
  CUSPAN_FIND(ncclGroupEnd);
#undef CUSPAN_FIND_IF_THERE
#undef CUSPAN_FIND
  return missing;
}

std::string Choose(const std::string& programs, bool software) {
  const std::string_view chosen = SettingText(settings::kNccl);
  if (chosen != "auto") return std::string(chosen);
  if (software) return SoftwareDriverPath().parent_path() / "libnccl.so.2";
  std::error_code error;
  if (!programs.empty() && std::filesystem::is_regular_file(programs, error)) return programs;
  return "libnccl.so.2";
}

}  // namespace

Result<std::unique_ptr<NcclLibrary>> NcclLibrary::Load(const std::string& programs, bool software) {
  const std::string name = Choose(programs, software);
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Status::Unavailable(
        "the node of the GPU has no NCCL ({}): install it there, or set CUSPAN_NCCL to the path of "
        "a libnccl.so.2",
        why != nullptr ? why : name.c_str());
  }
  std::unique_ptr<NcclLibrary> library(new NcclLibrary);
  library->path_ = PathOfLibrary(handle, "ncclGetVersion", name);
  if (const std::string missing = FindFunctions(handle, library->functions_); !missing.empty())
    return Status::Unsupported("{} has no {}: NCCL 2.18 or newer is needed", library->path_,
                               missing);
  if (library->functions_.ncclGetVersion(&library->version_) != nccl::kSuccess ||
      library->version_ < kOldestVersion)
    return Status::Unsupported("{} reports version {}: NCCL 2.18 or newer is needed",
                               library->path_, library->version_);
  return library;
}

}  // namespace cuspan::proxy
