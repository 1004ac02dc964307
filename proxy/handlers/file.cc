// Reads and writes of files, in stream order.
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/api/file_access.h"
#include "proxy/handlers/handlers.h"

namespace cuspan::proxy {
namespace {

struct FileOp final : StreamOp {
  FileOp(DeviceSession& session, std::shared_ptr<FileCopy> copy)
      : session(&session), copy(std::move(copy)) {}
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (copy->stream->broken != CUDA_SUCCESS)
      copy->refusal = {0, FileResult::kDevice, copy->stream->broken};
    else if (copy->bytes != 0 && !session->memory().MayTouch(copy->address, copy->bytes))
      copy->refusal = {0, FileResult::kInvalidMemory, 0};
    session->streams().WhenDone(
        *copy->stream,
        [&copies = session->files().copies(), awaited = session->files().copies().Await(copy)](
            CUresult result, std::uint64_t) { copies.Reached(awaited, result); },
        SessionStreams::Work::kAllBefore);
    return SubmitResult::kHeld;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override { session->files().copies().Drop(*copy); }

  DeviceSession* session;
  std::shared_ptr<FileCopy> copy;
};

FileResult FileResultOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return FileResult::kSuccess;
    case StatusCode::kInvalid:
      return FileResult::kInvalidValue;
    case StatusCode::kNotFound:
      return FileResult::kInvalidFile;
    case StatusCode::kUnsupported:
      return FileResult::kNotSupported;
    case StatusCode::kUnavailable:
      return FileResult::kDevice;
    default:
      return FileResult::kSystem;
  }
}

// `address`: of the device memory.
template <typename Op>
Status QueueCopy(DeviceSession& session, const Origin& origin, const Op& op, FileCopy::Way way,
                 std::uint64_t address, bool may_use_counterpart)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  // Offsets of files are signed.
  if (op.offset > std::numeric_limits<std::int64_t>::max() ||
      op.bytes > std::numeric_limits<std::int64_t>::max() - op.offset)
    return Status::Invalid("{} bytes at offset {} of a file", op.bytes, op.offset);
  std::shared_ptr<Transfer> by_client;
  if (!file->own && op.bytes != 0)
    by_client =
        std::make_shared<Transfer>(op.transfer, origin, stream, RunAt(address, op.bytes), op.bytes);
  auto copy = std::make_shared<FileCopy>(way, std::move(file), op.file, stream, address, op.offset,
                                         op.bytes, std::move(by_client), may_use_counterpart,
                                         std::make_shared<TransferState>(op.status));
  CUSPAN_RETURN_IF_ERROR(session.files().copies().Announce(copy));
  session.streams().queues().Add(*stream->queue, FileOp(session, std::move(copy)));
  return Status::Ok();
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const FileOpen& op) {
  const FileStatus status = session.files().table().AddOfClient(op.file);
  if (status.result == FileResult::kInvalidValue)
    return Status::Invalid("file 0x{:x} is not a new handle", op.file);
  session.channel().Reply<FileOpen>(
      origin.request, {CUDA_SUCCESS, static_cast<std::int32_t>(status.result), status.error});
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileClose& op) {
  return session.files().table().Close(op.file,
                                       [&channel = session.channel(), request = origin.request] {
                                         channel.Reply<FileClose>(request, {CUDA_SUCCESS});
                                       });
}

Status Handle(DeviceSession& session, const Origin& origin, const FileFind& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  if (op.modified > std::numeric_limits<std::int64_t>::max())
    return Status::Invalid("a file written {} ns after 1970", op.modified);
  ClientFile wanted{std::string(op.path), op.bytes, std::chrono::nanoseconds(op.modified),
                    op.direct};
  session.files().FindCounterpart(
      std::move(file), std::move(wanted),
      [&channel = session.channel(), request = origin.request](std::uint64_t seed) {
        channel.Reply<FileFind>(request, {CUDA_SUCCESS, seed});
      });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileOpenNamed& op) {
  const std::optional<int> flags = OpenFlagsOf(op.access);
  if (!op.path.starts_with('/') || op.path.find('\0') != op.path.npos || !flags)
    return Status::Invalid("a file is to be opened by the name '{}' with access {}", op.path,
                           op.access);
  session.worker().Run([&session, request = origin.request, number = op.file,
                        path = std::string(op.path), flags = *flags] {
    session.files().OpenNamed(
        number, path, flags,
        [&channel = session.channel(), request](const std::optional<FileStatus>& outcome) {
          const FileStatus status = outcome.value_or(FileStatus{});
          channel.Reply<FileOpenNamed>(
              request, {CUDA_SUCCESS, outcome.has_value(), static_cast<std::int32_t>(status.result),
                        status.error});
        });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileProve& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  session.worker().Run(
      [&session, request = origin.request, file = std::move(file), sum = op.sum]() mutable {
        session.files().ProveCounterpart(std::move(file), sum,
                                         [&channel = session.channel(), request](bool same) {
                                           channel.Reply<FileProve>(request, {CUDA_SUCCESS, same});
                                         });
      });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FilePeek& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  if (op.bytes > kMaxInlineBytes ||
      op.offset > std::numeric_limits<std::int64_t>::max() - kMaxInlineBytes)
    return Status::Invalid("{} bytes at offset {} of a file in one answer", op.bytes, op.offset);
  std::shared_ptr<const FileHere> here;
  const auto answer = [&channel = session.channel(), request = origin.request](
                          const FileStatus& status, const FileState& state,
                          std::span<const std::byte> data) {
    FilePeek::Reply reply;
    reply.outcome = static_cast<std::int32_t>(status.result);
    reply.error = status.error;
    reply.size = state.bytes;
    reply.modified = static_cast<std::uint64_t>(state.modified.count());
    reply.changed = static_cast<std::uint64_t>(state.changed.count());
    const auto* const first = reinterpret_cast<const std::uint8_t*>(data.data());
    reply.data.assign(first, first + data.size());
    channel.Reply<FilePeek>(request, reply);
  };
  if (const FileStatus known = FileHere::Of(std::move(file), &here);
      known.result != FileResult::kSuccess) {
    answer(known, {}, {});
    return Status::Ok();
  }
  session.worker().Run([&session, here = std::move(here), offset = op.offset, bytes = op.bytes,
                        answer] { session.files().Peek(here, offset, bytes, answer); });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileHold& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  std::shared_ptr<const FileHere> here;
  const FileStatus known = FileHere::Of(file, &here);
  if (known.result != FileResult::kSuccess) {
    FileHold::Reply reply;
    reply.outcome = static_cast<std::int32_t>(known.result);
    if (known.result == FileResult::kNotPermitted)
      reply.problem = "the descriptor is not open for reading";
    session.channel().Reply<FileHold>(origin.request, reply);
    return Status::Ok();
  }
  session.files().residents().Hold(
      std::move(file), std::move(here),
      [&channel = session.channel(),
       request = origin.request](const Result<ResidentFiles::Held>& held) {
        FileHold::Reply reply;
        const std::string problem = held.status().message();
        reply.outcome = static_cast<std::int32_t>(FileResultOf(held.status()));
        reply.problem = problem;
        if (held.ok()) {
          reply.address = held->address;
          reply.size = held->state.bytes;
          reply.modified = static_cast<std::uint64_t>(held->state.modified.count());
          reply.changed = static_cast<std::uint64_t>(held->state.changed.count());
          reply.copied = held->copied;
        }
        channel.Reply<FileHold>(request, reply);
      });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileServe& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, session.files().table().Get(op.file));
  if (op.line_shift > 16 || op.array >= CUSPAN_ASK_ARRAYS)
    return Status::Invalid("array {} of lines of 2^{} bytes", op.array, op.line_shift);
  CUSPAN_ASSIGN_OR_RETURN(
      const store::MailboxShape shape,
      store::PlanMailbox(op.multiprocessors, static_cast<std::uint8_t>(op.line_shift)));
  std::shared_ptr<const FileHere> here;
  const auto answer = [&channel = session.channel(), request = origin.request](
                          FileResult outcome, std::string_view problem,
                          const ServedFiles::Served& served) {
    FileServe::Reply reply;
    reply.outcome = static_cast<std::int32_t>(outcome);
    reply.problem = problem;
    reply.asked = served.places.asked;
    reply.answered = served.places.answered;
    reply.places = served.places.places;
    reply.size = served.state.bytes;
    reply.modified = static_cast<std::uint64_t>(served.state.modified.count());
    reply.changed = static_cast<std::uint64_t>(served.state.changed.count());
    channel.Reply<FileServe>(request, reply);
  };
  const FileStatus known = FileHere::Of(file, &here);
  if (known.result != FileResult::kSuccess) {
    answer(
        known.result,
        known.result == FileResult::kNotPermitted ? "the descriptor is not open for reading" : "",
        {});
    return Status::Ok();
  }
  session.files().served().Serve(std::move(file), std::move(here),
                                 {op.mailbox, shape, static_cast<std::uint16_t>(op.array)},
                                 [answer](const Result<ServedFiles::Served>& served) {
                                   const std::string problem = served.status().message();
                                   answer(FileResultOf(served.status()), problem,
                                          served.ok() ? *served : ServedFiles::Served{});
                                 });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileServed& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<OpenFile> file,
                          session.files().table().Get(op.file));
  FileServed::Reply reply;
  if (const std::shared_ptr<store::ServedArray> served = file->served.load()) {
    const store::ServedFile::Counts counts = served->file().counts();
    reply.reads = counts.reads;
    reply.bytes = counts.bytes;
    reply.resident = served->file().extents().resident_bytes();
    reply.copied = served->file().extents().copied();
  }
  session.channel().Reply<FileServed>(origin.request, reply);
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const FileRead& op) {
  return QueueCopy(session, origin, op, FileCopy::Way::kRead, op.destination, op.counterpart);
}

Status Handle(DeviceSession& session, const Origin& origin, const FileWrite& op) {
  return QueueCopy(session, origin, op, FileCopy::Way::kWrite, op.source, false);
}

Status Handle(DeviceSession& session, const Origin&, const FileDone& op) {
  return session.files().copies().OnClientDone(op);
}

}  // namespace cuspan::proxy
