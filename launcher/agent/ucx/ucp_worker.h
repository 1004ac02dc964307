// UCX's context and worker, of which an agent has one.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "launcher/agent/ucx/ucx_transport.h"

namespace cuspan {

inline std::string Describe(ucs_status_t status) { return ucs_status_string(status); }

// One thread.
class UcpWorker final : public UcxWorker {
 public:
  // Open comes first.
  UcpWorker() = default;
  ~UcpWorker() override;
  Status Open();
  // All that UCX has for it, threads and descriptors too, stays until the process ends.
  void Abandon() { worker_ = nullptr, context_ = nullptr; }

  Result<Meeting::Address> address() const override;
  ucp_worker_h get() const { return worker_; }
  // Readable when there is something for ucp_worker_progress, after ucp_worker_arm.
  int fd() const { return fd_; }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
};

}  // namespace cuspan
