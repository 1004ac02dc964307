#include "proxy/streams/kernel_output.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace cuspan::proxy {
namespace {

// Maximum of bytes in one frame; small compared with a ring.
constexpr std::size_t kMaxBytes = 16 * 1024;
// Buffer for output between two flushes.
constexpr std::size_t kBufferBytes = 64 * 1024;

Channel* the_channel = nullptr;
// Work begun and not ended.
std::atomic<std::uint64_t> begun{0};

ssize_t Send(void* error, const char* text, std::size_t bytes) {
  for (std::size_t sent = 0; sent < bytes;) {
    const std::size_t piece = std::min(bytes - sent, kMaxBytes);
    DeviceOutput output;
    output.error = error != nullptr;
    output.data = std::as_bytes(std::span(text + sent, piece));
    // The client is gone and reads nothing more.
    if (the_channel->Post(output) == 0) break;
    sent += piece;
  }
  return static_cast<ssize_t>(bytes);
}

std::FILE* Open(bool error) {
  cookie_io_functions_t functions{};
  functions.write = Send;
  std::FILE* const file = ::fopencookie(error ? &the_channel : nullptr, "w", functions);
  if (file != nullptr) std::setvbuf(file, nullptr, _IOFBF, kBufferBytes);
  return file;
}

}  // namespace

Status KernelOutput::Install(Channel& channel) {
  the_channel = &channel;
  std::FILE* const out = Open(false);
  std::FILE* const error = Open(true);
  if (out == nullptr || error == nullptr)
    return Status::Exhausted("cannot open streams for kernel output: {}", std::strerror(errno));
  stdout = out;
  stderr = error;
  return Status::Ok();
}

void KernelOutput::Begin() { begun.fetch_add(1, std::memory_order_relaxed); }

void KernelOutput::End() { begun.fetch_sub(1, std::memory_order_release); }

bool KernelOutput::Expected() { return begun.load(std::memory_order_acquire) != 0; }

void KernelOutput::Flush(const Driver& driver, CUevent reached) {
  if (the_channel == nullptr) return;
  if (reached != nullptr && Expected()) driver.cuEventSynchronize(reached);
  std::fflush(stdout);
  std::fflush(stderr);
}

}  // namespace cuspan::proxy
