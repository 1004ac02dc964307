#include "bench/store/plain_reads.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <latch>
#include <thread>

#include "bench/store/scramble.h"
#include "common/unique_fd.h"

#ifdef CUSPAN_URING
#include <liburing.h>

#include <numeric>
#endif

namespace cuspan::bench::store {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Opens the file for reads at random places.
Result<UniqueFd> OpenRandom(const std::string& file) {
  UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Status::Unavailable("{}: {}", file, std::strerror(errno));
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  return fd;
}

// Reads these lines. Result: 0, or an errno.
int ReadLines(int fd, std::span<const std::uint64_t> numbers, std::uint32_t line) {
  std::vector<std::byte> buffer(line);
  for (const std::uint64_t number : numbers) {
    const ssize_t bytes = ::pread(fd, buffer.data(), line, static_cast<off_t>(number * line));
    if (bytes != static_cast<ssize_t>(line)) return bytes < 0 ? errno : EIO;
  }
  return 0;
}

}  // namespace

std::vector<std::uint64_t> LinesOfRound(std::uint64_t lines, std::uint64_t touched, int round) {
  std::vector<bool> chosen(lines);
  std::vector<std::uint64_t> numbers;
  const std::uint64_t seed = static_cast<std::uint64_t>(round) << 40;
  for (std::uint64_t i = 0; i < touched; ++i) {
    const std::uint64_t number = Scramble(seed + i) % lines;
    if (chosen[number]) continue;
    chosen[number] = true;
    numbers.push_back(number);
  }
  return numbers;
}

Status DropPages(const std::string& file) {
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRandom(file));
  const int error = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) return Status::Unavailable("{}: {}", file, std::strerror(error));
  return Status::Ok();
}

Result<double> ReadByThreads(const std::string& file, std::span<const std::uint64_t> numbers,
                             std::uint32_t line, int threads) {
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRandom(file));
  std::atomic<int> error = 0;
  std::latch ready(threads + 1);
  std::vector<std::jthread> readers;
  const auto count = static_cast<std::size_t>(threads);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = numbers.size() * i / count;
    const auto part = numbers.subspan(first, numbers.size() * (i + 1) / count - first);
    readers.emplace_back([&, part] {
      ready.arrive_and_wait();
      const int result = ReadLines(fd.get(), part, line);
      if (result != 0) error = result;
    });
  }
  ready.arrive_and_wait();
  const Clock::time_point begin = Clock::now();
  for (std::jthread& reader : readers) reader.join();
  const double seconds = SecondsSince(begin);
  if (error != 0) return Status::Unavailable("{}: {}", file, std::strerror(error));
  return seconds;
}

#ifdef CUSPAN_URING
Result<double> ReadByRing(const std::string& file, std::span<const std::uint64_t> numbers,
                          std::uint32_t line) {
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRandom(file));
  io_uring ring{};
  const int made = ::io_uring_queue_init(kRingDepth, &ring, 0);
  if (made < 0) return Status::Unsupported("io_uring can not be used: {}", std::strerror(-made));
  std::vector<std::byte> buffers(std::size_t{kRingDepth} * line);
  std::vector<unsigned> free(kRingDepth);  // Buffers without a read under way.
  std::iota(free.begin(), free.end(), 0u);
  int error = 0;
  std::size_t next = 0;
  const Clock::time_point begin = Clock::now();
  // After a failure, the reads under way end: they write to the buffers.
  while ((error == 0 && next < numbers.size()) || free.size() < kRingDepth) {
    for (; error == 0 && next < numbers.size() && !free.empty(); ++next) {
      io_uring_sqe* const entry = ::io_uring_get_sqe(&ring);  // The ring has one for each buffer.
      ::io_uring_prep_read(entry, fd.get(), buffers.data() + std::size_t{free.back()} * line, line,
                           numbers[next] * line);
      ::io_uring_sqe_set_data64(entry, free.back());
      free.pop_back();
    }
    const int submitted = ::io_uring_submit_and_wait(&ring, 1);
    if (submitted < 0 && submitted != -EINTR) error = -submitted;
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring, &completion) == 0 && completion != nullptr) {
      free.push_back(static_cast<unsigned>(::io_uring_cqe_get_data64(completion)));
      if (completion->res != static_cast<int>(line))
        error = completion->res < 0 ? -completion->res : EIO;
      ::io_uring_cqe_seen(&ring, completion);
    }
  }
  const double seconds = SecondsSince(begin);
  ::io_uring_queue_exit(&ring);
  if (error != 0) return Status::Unavailable("{}: {}", file, std::strerror(error));
  return seconds;
}
#else
Result<double> ReadByRing(const std::string&, std::span<const std::uint64_t>, std::uint32_t) {
  return Status::Unsupported("this build has no liburing");
}
#endif

}  // namespace cuspan::bench::store
