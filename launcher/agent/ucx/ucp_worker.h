// UCX context and worker. An agent has one, and one more for each lane.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "launcher/agent/ucx/ucx_transport.h"

namespace cuspan {

inline std::string Describe(ucs_status_t status) { return ucs_status_string(status); }

// Threads: one.
class UcpWorker final : public UcxWorker {
 public:
  // Open must be called first.
  UcpWorker() = default;
  ~UcpWorker() override;
  Status Open();
  // Leaks UCX's context and worker, with their threads and descriptors, until the process ends.
  void Abandon() { worker_ = nullptr, context_ = nullptr; }

  Result<Meeting::Address> address() const override;
  ucp_worker_h get() const { return worker_; }
  // Readable if ucp_worker_progress has work, after ucp_worker_arm.
  int fd() const { return fd_; }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
};

}  // namespace cuspan
