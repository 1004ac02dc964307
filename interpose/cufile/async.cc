// Reads and writes in the order of a stream.
#include <utility>

#include "interpose/calls/graph/capture.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"
#include "interpose/cufile/driver.h"
#include "interpose/cufile/operation.h"
#include "interpose/cufile/stream_flags.h"

namespace cuspan::cufile {
namespace {

// Arguments of a call, where the program keeps them.
struct Arguments {
  Opcode opcode;
  const void* handle;
  const void* base;
  const std::size_t* bytes;
  const off_t* file_offset;
  const off_t* base_offset;
  ssize_t* done;

  Request Read() const { return {opcode, handle, base, *base_offset, *bytes, *file_offset}; }
};

// Lets a stream go on behind its operation.
void GoOn(ContextConnection& stream, std::uint64_t signal) {
  static_cast<void>(stream.coherence().SendUpdates());
  Signal over;
  over.signal = signal;
  static_cast<void>(stream.Post(over));  // A lost device has no waiting streams.
}

// Runs an operation; its stream waits. Called on the thread of arguments.
void RunInOrder(Session& session, const Arguments& arguments,
                const std::weak_ptr<ContextConnection>& of_stream, std::uint64_t signal) {
  const std::shared_ptr<ContextConnection> stream = of_stream.lock();
  if (stream == nullptr || stream->fault() != CUDA_SUCCESS) return;
  // The stream's work so far may have written the arguments.
  static_cast<void>(stream->Synchronized(false));
  Operation operation;
  Outcome outcome;
  const bool valid = operation.Prepare(session, arguments.Read(), &outcome);
  const auto finish =
      [arguments, of_stream, signal,
       measurement = operation.Measure(session, Transferred::Kind::kSingle)](const Outcome& ended) {
        measurement.End(ended);
        const std::shared_ptr<ContextConnection> waiting = of_stream.lock();
        // Once the program knows of a loss, its variables may be gone.
        if (waiting == nullptr || waiting->fault() != CUDA_SUCCESS) return;
        *arguments.done = ended.value;
        GoOn(*waiting, signal);
      };
  if (!valid) return finish(outcome);
  StreamFlagTable& streams = session.TableOf<StreamFlagTable>();
  if (operation.on_host()) {
    streams.host_bytes().Run([operation, finish] { finish(operation.RunOnHost()); });
    return;
  }
  const CUresult posted = operation.PostAnywhere(session, [&streams, finish](const Outcome& done) {
    streams.arguments().Run([finish, done] { finish(done); });
  });
  if (posted != CUDA_SUCCESS) finish(Outcome::Of(Error(posted)));
}

// Opens the file for the device of the memory. A failure is found again in the stream's order.
void OpenFor(Session& session, Handle& handle, const void* base) {
  if (session.addresses().Classify(base).kind != PointerKind::kDevice) return;
  Outcome unused;
  if (const auto connection = session.addresses().ConnectionOf(base))
    static_cast<void>(handle.On(session, connection, &unused));
}

CallResult Enqueue(Session& session, const Arguments& arguments, CUstream stream) {
  if (arguments.handle == nullptr || arguments.bytes == nullptr ||
      arguments.file_offset == nullptr || arguments.base_offset == nullptr ||
      arguments.done == nullptr || arguments.base == nullptr)
    return Refuse(kInvalidValue, "an argument's address is null");
  const std::shared_ptr<Handle> handle =
      session.TableOf<Handles>().Find(NumberOf(arguments.handle));
  if (handle == nullptr) return Refuse(kHandleNotRegistered, "the file's handle is not registered");
  if (!handle->Allows(arguments.opcode)) {
    *arguments.done = Outcome::Of(kInvalidFileOpenFlag).value;
    return Refuse(kInvalidFileOpenFlag, "the file's descriptor is not open for this");
  }
  StreamTarget target;
  if (const CUresult unknown = session.streams().Resolve(stream, DefaultStream::kLegacy, &target);
      unknown != CUDA_SUCCESS)
    return ResultOf(unknown);
  if (AnyCapture(session))
    if (const Error refused = RefuseCapture(session, target); refused.failed())
      return ResultOf(refused);
  StreamFlagTable& streams = session.TableOf<StreamFlagTable>();
  constexpr unsigned kFixed = kFixedBufferOffset | kFixedFileOffset | kFixedSize;
  // The receiving thread cannot store into memory with pages to be fetched first.
  if ((streams.Of(stream) & kFixed) == kFixed && !IsFaultMemory(AddressOf(arguments.done))) {
    Operation operation;
    Outcome outcome;
    if (!operation.Prepare(session, arguments.Read(), &outcome))
      return {outcome.error != 0 ? int{kIoError} : static_cast<int>(-outcome.value), CUDA_SUCCESS};
    if (!operation.on_host())
      return ResultOf(operation.Post(
          session, target,
          [done = arguments.done, measurement = operation.Measure(
                                      session, Transferred::Kind::kSingle)](const Outcome& ended) {
            measurement.End(ended);
            if (!ended.lost) *done = ended.value;
          }));
  }
  // Opening may take long: not on the thread of arguments.
  OpenFor(session, *handle, arguments.base);
  if (!streams.Start()) return Refuse(kNoMemory, "the system allows no further thread");
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  const std::weak_ptr<ContextConnection> of_stream = target.connection;
  const CUresult result = session.events().WhenReached(
      target, [&session, &streams, arguments, of_stream, signal = wait.signal](CUresult reached) {
        if (reached != CUDA_SUCCESS) return;  // The program may know it already.
        streams.arguments().Run([&session, arguments, of_stream, signal] {
          RunInOrder(session, arguments, of_stream, signal);
        });
      });
  return ResultOf(result != CUDA_SUCCESS ? result : target.connection->Post(wait));
}

}  // namespace
}  // namespace cuspan::cufile

using namespace cuspan;          // NOLINT: the entry points below are the C API.
using namespace cuspan::cufile;  // NOLINT: the same.

CUSPAN_EXPORT CallResult cuFileReadAsync(void* handle, void* base, std::size_t* bytes,
                                         off_t* file_offset, off_t* base_offset, ssize_t* done,
                                         CUstream stream) {
  return AnswerOpened([&](Session& session) {
    return Enqueue(session, {kRead, handle, base, bytes, file_offset, base_offset, done}, stream);
  });
}

CUSPAN_EXPORT CallResult cuFileWriteAsync(void* handle, void* base, std::size_t* bytes,
                                          off_t* file_offset, off_t* base_offset, ssize_t* done,
                                          CUstream stream) {
  return AnswerOpened([&](Session& session) {
    return Enqueue(session, {kWrite, handle, base, bytes, file_offset, base_offset, done}, stream);
  });
}

CUSPAN_EXPORT CallResult cuFileStreamRegister(CUstream stream, unsigned flags) {
  return Answer([&](Session& session) -> CallResult {
    StreamTarget target;
    if (const CUresult unknown = session.streams().Resolve(stream, DefaultStream::kLegacy, &target);
        unknown != CUDA_SUCCESS)
      return Refuse(kInvalidValue, "the stream does not exist");
    if (!session.TableOf<StreamFlagTable>().Add(stream, flags))
      return Refuse(kInvalidValue, "the stream is registered already");
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileStreamDeregister(CUstream stream) {
  return Answer([&](Session& session) -> CallResult {
    if (!session.TableOf<StreamFlagTable>().Remove(stream))
      return Refuse(kInvalidValue, "the stream is not registered");
    return {};
  });
}
