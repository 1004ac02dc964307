// In place of the transport where cuspan was built without UCX.
#include "launcher/agent/ucx/ucx_transport.h"

namespace cuspan {

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create() {
  return Status::Unsupported(
      "cuspan was built without UCX on this host: install UCX's development files (libucx-dev) and "
      "build again, or use --relay mpi");
}

Result<std::unique_ptr<Transport>> UcxWorker::Join(std::unique_ptr<UcxWorker>, Meeting) {
  return Status::Unsupported("cuspan was built without UCX on this host");
}

}  // namespace cuspan
