#include "launcher/agent/ucx/ucp_worker.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace cuspan {
namespace {

// Whether UCX has been installed with what it needs for GPUs.
bool HasCuda() {
  Dl_info ucp{};
  if (::dladdr(reinterpret_cast<void*>(&ucp_worker_progress), &ucp) == 0) return false;
  std::error_code ignored;
  const std::filesystem::path modules = std::filesystem::path(ucp.dli_fname).parent_path() / "ucx";
  return std::filesystem::exists(modules / "libuct_cuda.so.0", ignored);
}

Status Failed(const char* what, ucs_status_t status) {
  return Status::Unavailable(
      "UCX cannot be used on this host: {}: {}; see UCX_TLS and UCX_NET_DEVICES, or use "
      "--relay mpi",
      what, Describe(status));
}

}  // namespace

UcpWorker::~UcpWorker() {
  if (address_ != nullptr) ucp_worker_release_address(worker_, address_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Status UcpWorker::Open() {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return Failed("its configuration", status);
  // An agent has no memory of GPUs, and shall not open one. To name what is not there is a
  // warning.
  if (std::getenv("UCX_TLS") == nullptr && HasCuda()) ucp_config_modify(config, "TLS", "^cuda");
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.name = "cuspan";
  const ucs_status_t made = ucp_init(&parameters, config, &context_);
  ucp_config_release(config);
  if (made != UCS_OK) return Failed("its start", made);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const ucs_status_t status = ucp_worker_create(context_, &worker, &worker_); status != UCS_OK)
    return Failed("a worker", status);
  if (const ucs_status_t status = ucp_worker_get_efd(worker_, &fd_); status != UCS_OK)
    return Failed("waking up", status);
  if (const ucs_status_t status = ucp_worker_get_address(worker_, &address_, &address_bytes_);
      status != UCS_OK)
    return Failed("an address", status);
  return Status::Ok();
}

std::string UcxRelease() { return Format("UCX {}", ucp_get_version_string()); }

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create() {
  auto worker = std::make_unique<UcpWorker>();
  CUSPAN_RETURN_IF_ERROR(worker->Open());
  return std::unique_ptr<UcxWorker>(std::move(worker));
}

}  // namespace cuspan
