// Raw MPI between two ranks, or between several pairs of ranks at once, as agents
// and their lanes use it: posted receives, MPI_Test, no blocking call. The first
// half of the ranks is paired with the second. Prints one line a measurement:
//   ping BYTES = ONE_WAY_US
//   window BYTES WINDOW = GBPS MEMORY_GBPS   of all pairs together, medians of several repetitions
//   duplex BYTES WINDOW = GBPS MEMORY_GBPS   both ways at once, the sum
// GBPS is with as many buffers as are under way, which the processor's caches hold; MEMORY_GBPS
// with each message of a repetition in memory of its own, as a copy's bytes are.
//
//   mpirun -np 2 raw_mpi ping BYTES [ROUNDS]
//   mpirun -np 2N raw_mpi window|duplex BYTES WINDOW TOTAL_BYTES
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "bench/common/median.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 7;
constexpr int kRepetitions = 5;

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
  if (rank == 0) std::printf("ping %zu = %.4f\n", bytes, Median(samples));
}

// One end of a pair, with its buffers.
struct End {
  int peer;
  bool sending;
  bool receiving;
  std::size_t bytes;  // Of a message.
  std::size_t window;
  std::size_t buffers;
  std::vector<char> outgoing;
  std::vector<char> incoming;
};

// Moves as many messages, `window` of them under way at a time.
void Move(End& end, std::size_t messages) {
  std::vector<MPI_Request> sends(end.window, MPI_REQUEST_NULL);
  std::vector<MPI_Request> receives(end.window, MPI_REQUEST_NULL);
  std::size_t sent = 0;
  std::size_t received = 0;
  const std::size_t to_send = end.sending ? messages + end.window : 0;
  const std::size_t to_receive = end.receiving ? messages + end.window : 0;
  const auto advance = [&](std::size_t& at, std::size_t all, std::vector<MPI_Request>& requests,
                           bool send) {
    if (at == all) return;
    MPI_Request& request = requests[at % end.window];
    int done = 1;
    if (request != MPI_REQUEST_NULL) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) return;
    if (at < messages) {
      char* const buffer =
          (send ? end.outgoing : end.incoming).data() + at % end.buffers * end.bytes;
      if (send)
        MPI_Isend(buffer, static_cast<int>(end.bytes), MPI_BYTE, end.peer, kTag, MPI_COMM_WORLD,
                  &request);
      else
        MPI_Irecv(buffer, static_cast<int>(end.bytes), MPI_BYTE, end.peer, kTag, MPI_COMM_WORLD,
                  &request);
    }
    ++at;
  };
  while (sent != to_send || received != to_receive) {
    advance(received, to_receive, receives, false);
    advance(sent, to_send, sends, true);
  }
}

// GB/s of all pairs: the ranks of the first half send `messages` each, from as many `buffers`; with
// `duplex` the others do so, too.
double Measure(int rank, int size, std::size_t bytes, std::size_t window, std::size_t messages,
               std::size_t buffers, bool duplex) {
  const int pairs = size / 2;
  const bool first = rank < pairs;
  End end{first ? rank + pairs : rank - pairs,
          first || duplex,
          !first || duplex,
          bytes,
          window,
          buffers,
          std::vector<char>(first || duplex ? bytes * buffers : 0, 1),
          std::vector<char>(!first || duplex ? bytes * buffers : 0, 1)};
  std::vector<double> samples;
  for (int i = 0; i <= kRepetitions; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    Move(end, messages);
    // The senders' clocks stop when the receivers have all.
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    // The first makes connections.
    if (i != 0)
      samples.push_back(static_cast<double>(messages * bytes) * pairs * (duplex ? 2 : 1) / seconds /
                        1e9);
  }
  return Median(samples);
}

void Window(int rank, int size, std::size_t bytes, std::size_t window, std::size_t total,
            bool duplex) {
  const std::size_t messages =
      std::max<std::size_t>(total / bytes / static_cast<std::size_t>(size / 2), window);
  const double cached = Measure(rank, size, bytes, window, messages, window, duplex);
  const double memory = Measure(rank, size, bytes, window, messages, messages, duplex);
  if (rank == 0)
    std::printf("%s %zu %zu = %.4f %.4f\n", duplex ? "duplex" : "window", bytes, window, cached,
                memory);
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
  const bool pair = size == 2 && what == "ping";
  const bool pairs = size % 2 == 0 && (what == "window" || what == "duplex");
  if (!pair && !pairs) {
    if (rank == 0)
      std::fprintf(stderr, "raw_mpi: ping with two ranks; window or duplex with an even number\n");
    status = 2;
  } else if (what == "ping") {
    Ping(rank, number(2, 64), static_cast<int>(number(3, 5000)));
  } else {
    Window(rank, size, std::max(number(2, 1 << 20), 1ULL), std::max(number(3, 4), 1ULL),
           number(4, 1ULL << 29), what == "duplex");
  }
  MPI_Finalize();
  return status;
}
