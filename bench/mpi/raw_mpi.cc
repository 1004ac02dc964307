// Raw MPI between two ranks, as agents use it: posted receives, MPI_Test, no
// blocking call. Prints one line a measurement:
//   ping BYTES ONE_WAY_US
//   window BYTES WINDOW GBPS
//   duplex BYTES WINDOW GBPS    both ways at once, the sum
//
//   mpirun -np 2 raw_mpi ping BYTES [ROUNDS]
//   mpirun -np 2 raw_mpi window|duplex BYTES WINDOW TOTAL_BYTES
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 7;

void Await(MPI_Request* request) {
  for (int done = 0; done == 0;) MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

void Ping(int rank, std::size_t bytes, int rounds) {
  std::vector<char> buffer(std::max<std::size_t>(bytes, 1));
  const int peer = 1 - rank;
  std::vector<double> samples;
  for (int i = 0; i < rounds + 100; ++i) {
    MPI_Request receive;
    MPI_Request send;
    const auto start = Clock::now();
    MPI_Irecv(buffer.data(), static_cast<int>(bytes), MPI_BYTE, peer, kTag, MPI_COMM_WORLD,
              &receive);
    if (rank == 1) Await(&receive);
    MPI_Isend(buffer.data(), static_cast<int>(bytes), MPI_BYTE, peer, kTag, MPI_COMM_WORLD, &send);
    Await(&send);
    if (rank == 0) Await(&receive);
    if (i >= 100)
      samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                        2);
  }
  std::nth_element(samples.begin(),
                   samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  if (rank == 0) std::printf("ping %zu %.4f\n", bytes, samples[samples.size() / 2]);
}

// Rank 0 sends `total` bytes in messages of `bytes`, `window` of them under way; with `duplex`
// rank 1 does so, too.
void Window(int rank, std::size_t bytes, std::size_t window, std::size_t total, bool duplex) {
  const std::size_t messages = std::max<std::size_t>(total / bytes, window);
  std::vector<char> outgoing(bytes * window, 1);
  std::vector<char> incoming(bytes * window, 1);
  std::vector<MPI_Request> sends(window, MPI_REQUEST_NULL);
  std::vector<MPI_Request> receives(window, MPI_REQUEST_NULL);
  const bool sending = rank == 0 || duplex;
  const bool receiving = rank == 1 || duplex;
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  std::size_t sent = 0;
  std::size_t received = 0;
  const std::size_t to_send = sending ? messages + window : 0;
  const std::size_t to_receive = receiving ? messages + window : 0;
  const auto advance = [&](std::size_t& at, std::size_t end, std::vector<MPI_Request>& requests,
                           bool send) {
    if (at == end) return;
    MPI_Request& request = requests[at % window];
    int done = 1;
    if (request != MPI_REQUEST_NULL) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) return;
    if (at < messages) {
      char* const buffer = (send ? outgoing : incoming).data() + at % window * bytes;
      if (send)
        MPI_Isend(buffer, static_cast<int>(bytes), MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD,
                  &request);
      else
        MPI_Irecv(buffer, static_cast<int>(bytes), MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD,
                  &request);
    }
    ++at;
  };
  while (sent != to_send || received != to_receive) {
    advance(received, to_receive, receives, false);
    advance(sent, to_send, sends, true);
  }
  // The sender's clock stops when the receiver has all.
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (rank == 0)
    std::printf("%s %zu %zu %.4f\n", duplex ? "duplex" : "window", bytes, window,
                static_cast<double>(messages * bytes) * (duplex ? 2 : 1) / seconds / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto number = [&](int i, unsigned long long otherwise) {
    return i < argc ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::string what = argc > 1 ? argv[1] : "";
  int status = 0;
  if (size != 2 || (what != "ping" && what != "window" && what != "duplex")) {
    if (rank == 0) std::fprintf(stderr, "raw_mpi: two ranks, and ping, window or duplex\n");
    status = 2;
  } else if (what == "ping") {
    Ping(rank, number(2, 64), static_cast<int>(number(3, 5000)));
  } else {
    Window(rank, std::max(number(2, 1 << 20), 1ULL), std::max(number(3, 4), 1ULL),
           number(4, 1ULL << 29), what == "duplex");
  }
  MPI_Finalize();
  return status;
}
