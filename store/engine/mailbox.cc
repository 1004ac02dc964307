#include "store/engine/mailbox.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "common/round_up.h"

namespace cuspan::store {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<Mailbox>> Mailbox::Make(const EngineContext& context,
                                               const MailboxShape& shape) {
  std::unique_ptr<Mailbox> mailbox(new Mailbox(context, shape));
  CUSPAN_RETURN_IF_ERROR(mailbox->Map());
  return mailbox;
}

Status Mailbox::Map() {
  const std::uint64_t words = RoundUp(shape_.entries() * sizeof(std::uint64_t), kPage);
  bytes_ = 2 * words + RoundUp(std::uint64_t{shape_.entries()} << shape_.line_shift, kPage);
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Status::Exhausted("{} bytes for requests of kernels can not be mapped: {}", bytes_,
                             std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
  // Fewer pages to be locked, and found by threads writing to all places. A hint only.
  ::madvise(memory, bytes_, MADV_HUGEPAGE);
  const EngineDriver& driver = context_.driver;
  CUdeviceptr address = 0;
  CUresult result = driver.set_current(context_.context);
  if (result == CUDA_SUCCESS)
    result = driver.register_memory(memory_, bytes_,
                                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  locked_ = result == CUDA_SUCCESS;
  if (locked_) result = driver.device_pointer(&address, memory_, 0);
  if (result != CUDA_SUCCESS)
    return Status::Unavailable(
        "{} bytes for requests of kernels can not be page-locked: the driver returns {}", bytes_,
        static_cast<int>(result));
  asked_ = reinterpret_cast<std::uint64_t*>(memory_);
  answered_ = reinterpret_cast<std::uint64_t*>(memory_ + words);
  places_ = memory_ + 2 * words;
  kernel_places_ = {address, address + words, address + 2 * words};
  return Status::Ok();
}

Mailbox::~Mailbox() {
  if (memory_ == nullptr) return;
  // Without the context there is nothing to be unlocked.
  if (locked_ && context_.driver.set_current(context_.context) == CUDA_SUCCESS)
    context_.driver.unregister_memory(memory_);
  ::munmap(memory_, bytes_);
}

bool Mailbox::HasNext(std::uint32_t queue) const {
  const std::uint32_t ticket = queues_[queue].ticket.load(std::memory_order_relaxed);
  const std::uint32_t entry = EntryOf(queue, ticket);
  const std::uint64_t word = std::atomic_ref(asked_[entry]).load(std::memory_order_acquire);
  return MarkIn(word) == MarkOf(ticket >> shape_.depth_shift) &&
         !queues_[queue].due[entry & ((1u << shape_.depth_shift) - 1)].load(
             std::memory_order_acquire);
}

std::optional<Mailbox::Request> Mailbox::Next(std::uint32_t queue) {
  std::atomic<std::uint32_t>& position = queues_[queue].ticket;
  const std::uint32_t ticket = position.load(std::memory_order_relaxed);
  const std::uint32_t entry = EntryOf(queue, ticket);
  const std::uint8_t mark = MarkOf(ticket >> shape_.depth_shift);
  const std::uint64_t word = std::atomic_ref(asked_[entry]).load(std::memory_order_acquire);
  if (MarkIn(word) != mark || DueOf(entry).load(std::memory_order_acquire)) return std::nullopt;
  DueOf(entry).store(true, std::memory_order_relaxed);
  position.store(ticket + 1, std::memory_order_relaxed);
  return Request{entry, mark, AskedOf(word)};
}

}  // namespace cuspan::store
