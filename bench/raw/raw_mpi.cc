// Raw MPI between ranks, for comparison.
#include <mpi.h>

#include <vector>

#include "bench/raw/link.h"

namespace cuspan::bench {
namespace {

constexpr int kTag = 7;

class MpiLink final : public RawLink {
 public:
  void Prepare(std::size_t slots) override {
    sends_.assign(slots, MPI_REQUEST_NULL);
    receives_.assign(slots, MPI_REQUEST_NULL);
  }
  void Send(int peer, std::size_t slot, const char* data, std::size_t bytes) override {
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, kTag, MPI_COMM_WORLD, &sends_[slot]);
  }
  void Receive(int peer, std::size_t slot, char* data, std::size_t bytes) override {
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, kTag, MPI_COMM_WORLD,
              &receives_[slot]);
  }
  bool SendDone(std::size_t slot) override { return Done(sends_[slot]); }
  bool ReceiveDone(std::size_t slot) override { return Done(receives_[slot]); }
  void Progress() override {}  // Every MPI call makes progress.

 private:
  static bool Done(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  std::vector<MPI_Request> sends_;
  std::vector<MPI_Request> receives_;
};

}  // namespace
}  // namespace cuspan::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  cuspan::bench::MpiLink link;
  const int status = cuspan::bench::MeasureRaw(link, argc, argv);
  MPI_Finalize();
  return status;
}
