// Raw UCX between ranks, for comparison: tagged messages of ucp, with one worker per rank. MPI only
// starts the ranks and exchanges the addresses of their workers.
#include <mpi.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "bench/raw/link.h"

namespace cuspan::bench {
namespace {

void Check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "raw_ucx: %s: %s\n", what, ucs_status_string(status));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

class UcxLink final : public RawLink {
 public:
  UcxLink() {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_TAG;
    Check(ucp_init(&parameters, nullptr, &context_), "ucp_init");
    ucp_worker_params_t of_worker{};
    of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    of_worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    Check(ucp_worker_create(context_, &of_worker, &worker_), "ucp_worker_create");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  }
  ~UcxLink() override {
    if (endpoint_ != nullptr) {
      ucp_request_param_t parameters{};
      ucs_status_ptr_t closing = ucp_ep_close_nbx(endpoint_, &parameters);
      while (!Done(closing)) {
      }
    }
    AwaitAll(*this);
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  UcxLink(const UcxLink&) = delete;

  void Prepare(std::size_t slots) override {
    if (endpoint_ == nullptr) Connect();
    sends_.assign(slots, nullptr);
    receives_.assign(slots, nullptr);
  }
  void Send(int, std::size_t slot, const char* data, std::size_t bytes) override {
    ucp_request_param_t parameters{};
    sends_[slot] =
        ucp_tag_send_nbx(endpoint_, data, bytes, static_cast<ucp_tag_t>(rank_), &parameters);
  }
  void Receive(int peer, std::size_t slot, char* data, std::size_t bytes) override {
    ucp_request_param_t parameters{};
    receives_[slot] = ucp_tag_recv_nbx(worker_, data, bytes, static_cast<ucp_tag_t>(peer),
                                       ~ucp_tag_t{0}, &parameters);
  }
  bool SendDone(std::size_t slot) override { return Done(sends_[slot]); }
  bool ReceiveDone(std::size_t slot) override { return Done(receives_[slot]); }
  void Progress() override { ucp_worker_progress(worker_); }

 private:
  // A rank communicates only with its pair.
  void Connect() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ucp_address_t* own = nullptr;
    std::size_t own_bytes = 0;
    Check(ucp_worker_get_address(worker_, &own, &own_bytes), "ucp_worker_get_address");
    const int peer = rank_ < size / 2 ? rank_ + size / 2 : rank_ - size / 2;
    const auto length = static_cast<int>(own_bytes);
    int peer_length = 0;
    MPI_Sendrecv(&length, 1, MPI_INT, peer, 0, &peer_length, 1, MPI_INT, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    std::vector<char> address(static_cast<std::size_t>(peer_length));
    MPI_Sendrecv(own, length, MPI_BYTE, peer, 0, address.data(), peer_length, MPI_BYTE, peer, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ucp_worker_release_address(worker_, own);
    ucp_ep_params_t of_endpoint{};
    of_endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    of_endpoint.address = reinterpret_cast<const ucp_address_t*>(address.data());
    Check(ucp_ep_create(worker_, &of_endpoint, &endpoint_), "ucp_ep_create");
  }

  bool Done(ucs_status_ptr_t& request) {
    if (request == nullptr) return true;
    if (UCS_PTR_IS_ERR(request)) Check(UCS_PTR_STATUS(request), "a message");
    ucp_worker_progress(worker_);
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return false;
    Check(status, "a message");
    ucp_request_free(request);
    request = nullptr;
    return true;
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  int rank_ = 0;
  std::vector<ucs_status_ptr_t> sends_;
  std::vector<ucs_status_ptr_t> receives_;
};

}  // namespace
}  // namespace cuspan::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 2;
  {
    cuspan::bench::UcxLink link;
    status = cuspan::bench::MeasureRaw(link, argc, argv);
  }
  MPI_Finalize();
  return status;
}
