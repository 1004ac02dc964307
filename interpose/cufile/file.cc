// Registering files and memory, and reads and writes that the program waits for.
#include <cerrno>
#include <limits>

#include "interpose/client/memory/addresses.h"
#include "interpose/cufile/buffers.h"
#include "interpose/cufile/driver.h"
#include "interpose/cufile/operation.h"
#include "interpose/cufile/statistics.h"

namespace cuspan::cufile {
namespace {

constexpr std::size_t kMaxParts = 1024;  // Same as readv's limit.

CallResult RegisterFile(Session& session, void** handle, const Descriptor* descriptor) {
  if (handle == nullptr || descriptor == nullptr)
    return Refuse(kInvalidValue, "there is no descriptor, or no place for the handle");
  if (descriptor->type != Descriptor::kFileDescriptor)
    return Refuse(kIoNotSupported, "only files with descriptors are supported");
  std::uint64_t registered = 0;
  const CallResult result = session.TableOf<Handles>().Register(descriptor->fd, &registered);
  if (result.code == kSuccess) *handle = HandleOf<void*>(registered);
  return result;
}

CallResult RegisterBuffer(Session& session, const void* base, std::size_t bytes) {
  if (base == nullptr || bytes == 0) return Refuse(kInvalidValue, "there is no memory to register");
  const PointerKind kind = session.addresses().Classify(base);
  const bool on_device = kind.kind == PointerKind::kDevice;
  if (kind.kind == PointerKind::kManaged)
    return Refuse(kMemoryTypeInvalid, "managed memory cannot be registered");
  if (on_device && session.addresses().RunsOver(base, bytes))
    return Refuse(kPointerRangeError, "the range leaves the memory allocated there");
  const int device = on_device ? kind.device : -1;
  std::shared_ptr<ContextConnection> connection;
  if (on_device) connection = session.addresses().ConnectionOf(base);
  const std::uint64_t number = connection != nullptr ? connection->number() : 0;
  if (!session.TableOf<Buffers>().Add(AddressOf(base), {bytes, device, number}))
    return Refuse(kMemoryAlreadyRegistered, "memory at this address is registered");
  session.TableOf<Driver>().statistics().NoteBuffer(device, static_cast<std::int64_t>(bytes));
  return {};
}

CallResult DeregisterBuffer(Session& session, const void* base) {
  Buffers::Range range;
  if (session.TableOf<Driver>().uses() == 0) return Refuse(kDriverClosing, "cuFile is not open");
  if (base == nullptr) return Refuse(kInvalidValue, "the address of the memory is null");
  if (!session.TableOf<Buffers>().Remove(AddressOf(base), &range))
    return Refuse(kMemoryNotRegistered, "no memory is registered at this address");
  session.TableOf<Driver>().statistics().NoteBuffer(range.device,
                                                    -static_cast<std::int64_t>(range.bytes));
  return {};
}

// The parts one after the other; ends with the first one that is short or fails.
Outcome TransferParts(Session& session, const Request& first, const Part* parts,
                      std::size_t count) {
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].bytes > std::numeric_limits<std::int64_t>::max() - wanted)
      return Outcome::System(EINVAL);
    wanted += parts[i].bytes;
  }
  Outcome all;
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].bytes == 0) continue;
    Request request = first;
    request.base = parts[i].base;
    request.bytes = parts[i].bytes;
    request.file_offset += all.value;
    const Outcome part = Transfer(session, request, Transferred::Kind::kVector);
    if (part.failed()) return all.value == 0 ? part : all;
    all.value += part.value;
    if (static_cast<std::uint64_t>(part.value) < parts[i].bytes) break;
  }
  return all;
}

std::int64_t AnswerParts(const Request& first, const Part* parts, std::size_t count) {
  return AnswerBytes([&](Session& session) {
    if (first.handle == nullptr || parts == nullptr || count == 0 || count > kMaxParts ||
        first.file_offset < 0) {
      static_cast<void>(Refuse(kInvalidValue, "the handle, the parts or the offset are wrong"));
      return Outcome::System(EINVAL);
    }
    if (session.TableOf<Handles>().Find(NumberOf(first.handle)) == nullptr)
      return Outcome::Of(kHandleNotRegistered);
    return TransferParts(session, first, parts, count);
  });
}

std::int64_t AnswerTransfer(const Request& request) {
  return AnswerBytes(
      [&](Session& session) { return Transfer(session, request, Transferred::Kind::kSingle); });
}

// Calls body(Session&) → CallResult, and counts it.
template <typename Body>
CallResult AnswerCounted(Counter Statistics1::*counter, Body&& body) {
  return Answer([&](Session& session) {
    const CallResult result = body(session);
    session.TableOf<Driver>().statistics().Note(counter, result.code == kSuccess);
    return result;
  });
}

}  // namespace
}  // namespace cuspan::cufile

using namespace cuspan;          // NOLINT: the entry points below are the C API.
using namespace cuspan::cufile;  // NOLINT: the same.

CUSPAN_EXPORT CallResult cuFileHandleRegister(void** handle, Descriptor* descriptor) {
  return AnswerCounted(&Statistics1::handle_register, [&](Session& session) {
    session.TableOf<Driver>().OpenOnce();
    return RegisterFile(session, handle, descriptor);
  });
}

CUSPAN_EXPORT void cuFileHandleDeregister(void* handle) {
  static_cast<void>(
      AnswerCounted(&Statistics1::handle_deregister, [&](Session& session) -> CallResult {
        const std::shared_ptr<Handle> known = session.TableOf<Handles>().Take(NumberOf(handle));
        if (known == nullptr) return Refuse(kHandleNotRegistered, "the handle is not registered");
        known->Close(session.TableOf<Files>());
        return {};
      }));
}

// The flags are for RDMA by the network's card.
CUSPAN_EXPORT CallResult cuFileBufRegister(const void* base, std::size_t bytes, int) {
  return AnswerCounted(&Statistics1::buffer_register, [&](Session& session) {
    session.TableOf<Driver>().OpenOnce();
    return RegisterBuffer(session, base, bytes);
  });
}

CUSPAN_EXPORT CallResult cuFileBufDeregister(const void* base) {
  return AnswerCounted(&Statistics1::buffer_deregister,
                       [&](Session& session) { return DeregisterBuffer(session, base); });
}

CUSPAN_EXPORT ssize_t cuFileRead(void* handle, void* base, std::size_t bytes, off_t file_offset,
                                 off_t base_offset) {
  return AnswerTransfer({kRead, handle, base, base_offset, bytes, file_offset});
}

CUSPAN_EXPORT ssize_t cuFileWrite(void* handle, const void* base, std::size_t bytes,
                                  off_t file_offset, off_t base_offset) {
  return AnswerTransfer({kWrite, handle, base, base_offset, bytes, file_offset});
}

// The flags are reserved.
CUSPAN_EXPORT ssize_t cuFileReadv(void* handle, const Part* parts, std::size_t count,
                                  off_t file_offset, unsigned) {
  return AnswerParts({kRead, handle, nullptr, 0, 0, file_offset}, parts, count);
}

CUSPAN_EXPORT ssize_t cuFileWritev(void* handle, const Part* parts, std::size_t count,
                                   off_t file_offset, unsigned) {
  return AnswerParts({kWrite, handle, nullptr, 0, 0, file_offset}, parts, count);
}
