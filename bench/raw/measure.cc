#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/common/median.h"
#include "bench/raw/link.h"

namespace cuspan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 5;
constexpr int kFirstRounds = 100;  // Warm-up: establishes connections.

void Ping(RawLink& link, int rank, std::size_t bytes, int rounds) {
  std::vector<char> buffer(std::max<std::size_t>(bytes, 1));
  const int peer = 1 - rank;
  link.Prepare(1);
  std::vector<double> samples;
  const auto await_receive = [&link] {
    while (!link.ReceiveDone(0)) {
    }
  };
  for (int i = 0; i < rounds + kFirstRounds; ++i) {
    const auto start = Clock::now();
    link.Receive(peer, 0, buffer.data(), bytes);
    if (rank == 1) await_receive();
    link.Send(peer, 0, buffer.data(), bytes);
    while (!link.SendDone(0)) {
    }
    if (rank == 0) await_receive();
    if (i >= kFirstRounds)
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
  std::size_t bytes;  // Size of a message.
  std::size_t window;
  std::size_t buffers;
  std::vector<char> outgoing;
  std::vector<char> incoming;
};

// Transfers `messages` messages, with `window` of them in flight.
void Move(RawLink& link, End& end, std::size_t messages) {
  std::size_t sent = 0;
  std::size_t received = 0;
  const std::size_t to_send = end.sending ? messages + end.window : 0;
  const std::size_t to_receive = end.receiving ? messages + end.window : 0;
  while (sent != to_send || received != to_receive) {
    if (received != to_receive && link.ReceiveDone(received % end.window)) {
      if (received < messages)
        link.Receive(end.peer, received % end.window,
                     end.incoming.data() + received % end.buffers * end.bytes, end.bytes);
      ++received;
    }
    if (sent != to_send && link.SendDone(sent % end.window)) {
      if (sent < messages)
        link.Send(end.peer, sent % end.window, end.outgoing.data() + sent % end.buffers * end.bytes,
                  end.bytes);
      ++sent;
    }
  }
}

// GB/s of all pairs. The ranks of the first half each send `messages` messages from `buffers`
// buffers. With `duplex`, the others do the same.
double Measure(RawLink& link, int rank, int size, std::size_t bytes, std::size_t window,
               std::size_t messages, std::size_t buffers, bool duplex) {
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
  link.Prepare(window);
  std::vector<double> samples;
  for (int i = 0; i <= kRepetitions; ++i) {
    AwaitAll(link);
    const auto start = Clock::now();
    Move(link, end, messages);
    // Senders stop their clocks when the receivers have all messages.
    AwaitAll(link);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    // The first repetition establishes connections.
    if (i != 0)
      samples.push_back(static_cast<double>(messages * bytes) * pairs * (duplex ? 2 : 1) / seconds /
                        1e9);
  }
  return Median(samples);
}

void Window(RawLink& link, int rank, int size, std::size_t bytes, std::size_t window,
            std::size_t total, bool duplex) {
  const std::size_t messages =
      std::max<std::size_t>(total / bytes / static_cast<std::size_t>(size / 2), window);
  const double cached = Measure(link, rank, size, bytes, window, messages, window, duplex);
  const double memory = Measure(link, rank, size, bytes, window, messages, messages, duplex);
  if (rank == 0)
    std::printf("%s %zu %zu = %.4f %.4f\n", duplex ? "duplex" : "window", bytes, window, cached,
                memory);
}

}  // namespace

void AwaitAll(RawLink& link) {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    link.Progress();
  }
}

int MeasureRaw(RawLink& link, int argc, char** argv) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto number = [&](int i, unsigned long long otherwise) {
    return i < argc ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::string what = argc > 1 ? argv[1] : "";
  const bool pair = size == 2 && what == "ping";
  const bool pairs = size % 2 == 0 && (what == "window" || what == "duplex");
  if (!pair && !pairs) {
    if (rank == 0)
      std::fprintf(stderr, "%s: ping with two ranks; window or duplex with an even number\n",
                   argv[0]);
    return 2;
  }
  if (pair)
    Ping(link, rank, number(2, 64), static_cast<int>(number(3, 5000)));
  else
    Window(link, rank, size, std::max(number(2, 1 << 20), 1ULL), std::max(number(3, 4), 1ULL),
           number(4, 1ULL << 29), what == "duplex");
  return 0;
}

}  // namespace cuspan::bench
