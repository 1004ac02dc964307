#include "launcher/agent/ucx/ucp_worker.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "launcher/agent/ucx/ucx_transports.h"

namespace cuspan {
namespace {

// True if UCX is installed with its CUDA module.
bool HasCuda() {
  Dl_info ucp{};
  if (::dladdr(reinterpret_cast<void*>(&ucp_worker_progress), &ucp) == 0) return false;
  std::error_code ignored;
  const std::filesystem::path modules = std::filesystem::path(ucp.dli_fname).parent_path() / "ucx";
  return std::filesystem::exists(modules / "libuct_cuda.so.0", ignored);
}

// Shared memory used by a worker, measured with UCX 1.13.
constexpr std::uint64_t kSharedBytes = 8 << 20;

// Hint for the user if a lack of shared memory may be the cause; else empty.
std::string LackOfSharedMemory() {
  struct statvfs folder {};
  if (::statvfs("/dev/shm", &folder) != 0)
    return Format("/dev/shm cannot be used ({}): mount a tmpfs there; ", std::strerror(errno));
  const std::uint64_t free = std::uint64_t{folder.f_bavail} * folder.f_frsize;
  if (free >= kSharedBytes) return "";
  return Format("/dev/shm has {} KiB free, and UCX needs {} MiB: free some space there; ",
                free >> 10, kSharedBytes >> 20);
}

Status Failed(const char* what, ucs_status_t status) {
  return Status::Unavailable(
      "UCX cannot be used on this host: {}: {}; {}see UCX_TLS and UCX_NET_DEVICES, or use "
      "--relay mpi",
      what, Describe(status), LackOfSharedMemory());
}

}  // namespace

UcpWorker::~UcpWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Status UcpWorker::Open() {
  // Excludes CUDA: an agent has no GPU memory and must not open a GPU. If the module is missing,
  // UCX would warn about its exclusion. setenv is safe: no other thread runs yet.
  const char* const transports = std::getenv("UCX_TLS");
  if (HasCuda() && (transports == nullptr || transports == UcxTransports(std::nullopt)))
    ::setenv("UCX_TLS", (UcxTransports(std::nullopt) + ",cuda").c_str(), 1);
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return Failed("reading its configuration", status);
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.name = "cuspan";
  const ucs_status_t made = ucp_init(&parameters, config, &context_);
  ucp_config_release(config);
  if (made != UCS_OK) return Failed("its initialization", made);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const ucs_status_t status = ucp_worker_create(context_, &worker, &worker_); status != UCS_OK)
    return Failed("creating a worker", status);
  if (const ucs_status_t status = ucp_worker_get_efd(worker_, &fd_); status != UCS_OK)
    return Failed("the event descriptor", status);
  return Status::Ok();
}

Result<Meeting::Address> UcpWorker::address() const {
  const auto query = [this](std::uint32_t flags, Meeting::Blob& blob) {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = flags;
    const ucs_status_t status = ucp_worker_query(worker_, &attributes);
    if (status != UCS_OK) return Failed("the worker's address", status);
    const auto* const bytes = reinterpret_cast<const std::byte*>(attributes.address);
    blob.assign(bytes, bytes + attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
    return Status::Ok();
  };
  Meeting::Address address;
  CUSPAN_RETURN_IF_ERROR(query(0, address.near));
  CUSPAN_RETURN_IF_ERROR(query(UCP_WORKER_ADDRESS_FLAG_NET_ONLY, address.far));
  return address;
}

std::string UcxRelease() { return Format("UCX {}", ucp_get_version_string()); }

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create() {
  auto worker = std::make_unique<UcpWorker>();
  CUSPAN_RETURN_IF_ERROR(worker->Open());
  return std::unique_ptr<UcxWorker>(std::move(worker));
}

}  // namespace cuspan
