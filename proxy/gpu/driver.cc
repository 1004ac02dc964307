#include "proxy/gpu/driver.h"

#include <dlfcn.h>

#include <system_error>
#include <vector>

#include "proxy/gpu/loaded_library.h"

namespace cuspan::proxy {
namespace {

// Most names are macros of cuda.h for versioned names; this yields the versioned name.
#define CUSPAN_SYMBOL_TEXT(name) #name
#define CUSPAN_SYMBOL(name) CUSPAN_SYMBOL_TEXT(name)

void* FindSymbol(void* library, const std::string& symbol) {
  if (void* found = ::dlsym(library, symbol.c_str())) return found;
  // Drivers before 12.8 have only the first version; it takes the same arguments.
  if (symbol == "cuEventElapsedTime_v2") return ::dlsym(library, "cuEventElapsedTime");
  return nullptr;
}

Status FillTable(void* library, const std::string& path, Driver& driver) {
  std::string missing;
  int count = 0;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(FindSymbol(library, symbol));
    if (function != nullptr) return;
    ++count;
    if (count <= 5) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define CUSPAN_DRIVER_FUNCTION(name) find(driver.name, CUSPAN_SYMBOL(name));
#define CUSPAN_VENDOR_FUNCTION(name) \
  driver.name = reinterpret_cast<decltype(driver.name)>(FindSymbol(library, CUSPAN_SYMBOL(name)));
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_VENDOR_FUNCTION
#undef CUSPAN_DRIVER_FUNCTION
  if (count == 0) return Status::Ok();
  return Status::Unsupported(
      "{} lacks {} driver functions ({}{}): a driver for CUDA 12.4 or newer is needed", path, count,
      missing, count > 5 ? ", …" : "");
}

bool SameFile(const std::string& path, const std::filesystem::path& other) {
  std::error_code error;
  return std::filesystem::equivalent(path, other, error) && !error;
}

}  // namespace

std::string Driver::Describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName != nullptr) cuGetErrorName(result, &name);
  if (cuGetErrorString != nullptr) cuGetErrorString(result, &text);
  return Format("{} ({}, {})", name == nullptr ? "CUresult" : name, static_cast<int>(result),
                text == nullptr ? "unknown" : text);
}

std::filesystem::path SoftwareDriverPath() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path() / "soft" / "libcuda.so.1";
}

Result<LoadedDriver> OpenDriver(const std::string& name) {
  if (name.empty())
    return Status::Invalid("no driver was named: name 'cuda', 'soft' or the path of a library");
  const bool vendor = name == "cuda";
  const std::string file = vendor           ? "libcuda.so.1"
                           : name == "soft" ? SoftwareDriverPath().string()
                                            : name;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    if (vendor)
      return Status::NotFound("no usable GPU: {}; install NVIDIA's driver, or use --device soft",
                              reason == nullptr ? "libcuda.so.1 not found" : reason);
    return Status::NotFound("the driver library cannot be loaded: {}",
                            reason == nullptr ? file : reason);
  }
  LoadedDriver loaded;
  loaded.path = PathOfLibrary(library, "cuInit", file);
  loaded.functions.software = name == "soft" || SameFile(loaded.path, SoftwareDriverPath());
  // The version is checked first: an old driver lacks functions, and its age is the better
  // explanation.
  const auto get_version =
      reinterpret_cast<decltype(&::cuDriverGetVersion)>(::dlsym(library, "cuDriverGetVersion"));
  if (get_version == nullptr || get_version(&loaded.version) != CUDA_SUCCESS)
    return Status::Unsupported("{} does not report a version: it is not a CUDA driver",
                               loaded.path);
  if (loaded.version < kOldestDriver)
    return Status::Unsupported(
        "the driver {} is for CUDA {}.{}; 12.4 or newer is needed: update it, or use --device soft",
        loaded.path, loaded.version / 1000, loaded.version % 1000 / 10);
  CUSPAN_RETURN_IF_ERROR(FillTable(library, loaded.path, loaded.functions));
  loaded.functions.place_variable =
      reinterpret_cast<softgpu::PlaceVariable>(::dlsym(library, softgpu::kPlaceVariable));
  loaded.set_log_identity =
      reinterpret_cast<softgpu::SetLogIdentity>(::dlsym(library, softgpu::kSetLogIdentity));
  loaded.watch_compilations =
      reinterpret_cast<softgpu::WatchCompilations>(::dlsym(library, softgpu::kWatchCompilations));
  return loaded;
}

Status InitDriver(const LoadedDriver& driver, const std::string& name) {
  const CUresult result = driver.functions.cuInit(0);
  if (result == CUDA_SUCCESS) return Status::Ok();
  return Status(CodeOfStart(result),
                Format("no usable GPU: cuInit of {} returns {}{}", driver.path,
                       driver.functions.Describe(result),
                       name == "cuda" ? ": check nvidia-smi and CUDA_VISIBLE_DEVICES on its host, "
                                        "name other hosts with --hosts, or use --device soft"
                                      : ""));
}

Result<LoadedDriver> LoadDriver(const std::string& name) {
  CUSPAN_ASSIGN_OR_RETURN(LoadedDriver driver, OpenDriver(name));
  CUSPAN_RETURN_IF_ERROR(InitDriver(driver, name));
  return driver;
}

}  // namespace cuspan::proxy
