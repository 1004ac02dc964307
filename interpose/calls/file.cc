#include "interpose/calls/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "common/format.h"
#include "common/regular_file.h"
#include "interpose/calls/graph/capture.h"
#include "interpose/client/files.h"
#include "interpose/client/memory/addresses.h"
#include "protocol/api/file_access.h"

namespace cuspan {
namespace {

FileCallResult OfSystem(int error, const char* what) {
  return {FileResult::kSystem, error, Format("{}: {}", what, std::strerror(error))};
}

FileCallResult OfDevice(const Error& error) {
  if (!error.failed()) return {};
  const ErrorEntry* const entry = FindError(error.driver());
  return {FileResult::kDevice, error.driver(),
          entry != nullptr ? TextOf(*entry) : "an unknown CUDA error"};
}

FileCallResult NotOpen() {
  return {FileResult::kInvalidFile, 0, "the file is not open: it was closed, or its device reset"};
}

// Calls body(Session&) → FileCallResult.
template <typename Body>
FileCallResult WithFiles(Body&& body) {
  FileCallResult outcome;
  const Error error = WithSession([&](Session& session) -> Error {
    outcome = body(session);
    return CUDA_SUCCESS;
  });
  return error.failed() ? OfDevice(error) : outcome;
}

// The connection to a device of the program.
FileCallResult ConnectionOf(Session& session, int device,
                            std::shared_ptr<ContextConnection>* connection) {
  if (!HasDevice(session, device))
    return {FileResult::kInvalidValue, 0,
            Format("there is no device {}: the run has {}", device, session.devices().count())};
  return OfDevice(session.devices().Open(device, connection));
}

FileCallResult OfOpening(const FileStatus& status, const std::shared_ptr<const ProgramFile>& opened,
                         std::uint64_t* file) {
  switch (status.result) {
    case FileResult::kSuccess:
      *file = opened->handle;
      return {};
    case FileResult::kSystem:
      return OfSystem(status.error, "the file can not be opened");
    case FileResult::kDevice:
      return OfDevice(static_cast<CUresult>(status.error));
    case FileResult::kNotPermitted:
      return {status.result, status.error,
              status.error == EXDEV
                  ? "the file is not beneath its --file-root on the GPU's node: a link leads out"
                  : "the file may only be read on the GPU's node: use --file-root DIR:rw"};
    case FileResult::kNotSupported:
      return {status.result, 0, "it is not a regular file"};
    default:
      return {status.result, status.error, "the proxy has refused the file"};
  }
}

FileCallResult CheckExtent(Session& session, const ProgramFile& file, const FileCall& call,
                           bool write) {
  if (call.status == nullptr)
    return {FileResult::kInvalidValue, 0, "there is no place for the outcome: pass a status"};
  if (call.offset < 0 ||
      call.bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) -
                       static_cast<std::uint64_t>(call.offset))
    return {FileResult::kInvalidValue, 0,
            Format("{} bytes at offset {} are no part of a file", call.bytes, call.offset)};
  const FileBytes::Access& access = file.access;
  if (write ? !access.writes : !access.reads)
    return {FileResult::kNotPermitted, 0,
            Format("the descriptor is not open for {}", write ? "writing" : "reading")};
  if (write && access.appends)
    return {FileResult::kNotPermitted, 0,
            "the descriptor is open with O_APPEND: the system would ignore the offset"};
  if (call.bytes == 0) return {};
  // Memory shared with the program would have to be kept coherent.
  const std::uint64_t address = AddressOf(call.memory);
  if (session.region().Contains(address) || session.managed_variables().Contains(address) ||
      !file.connection->memory().Covers(address, call.bytes))
    return {FileResult::kInvalidMemory, 0,
            Format("{} bytes at {} are not in device memory of device {}, allocated at once",
                   call.bytes, call.memory, file.connection->device())};
  return {};
}

FileCallResult Post(const FileCall& call, bool write) {
  return WithFiles([&](Session& session) -> FileCallResult {
    const std::shared_ptr<const ProgramFile> file = session.TableOf<Files>().Find(call.file);
    if (file == nullptr) return NotOpen();
    if (FileCallResult wrong = CheckExtent(session, *file, call, write);
        wrong.result != FileResult::kSuccess)
      return wrong;
    const FileExtent extent{AddressOf(call.memory), call.bytes,
                            static_cast<std::uint64_t>(call.offset)};
    StreamTarget target;
    if (const CUresult unknown =
            session.streams().Resolve(call.stream, DefaultStream::kLegacy, &target);
        unknown != CUDA_SUCCESS)
      return OfDevice(unknown);
    if (AnyCapture(session))
      if (const Error refused = RefuseCapture(session, target); refused.failed())
        return OfDevice(refused);
    Files& files = session.TableOf<Files>();
    bool posted = false;
    const CUresult result =
        session.events().OnDevice(target, file->connection, [&](const StreamTarget& there) {
          const CUresult done = write ? files.Write(file, there, extent, call.status)
                                      : files.Read(file, there, extent, call.status);
          posted = done == CUDA_SUCCESS;
          return done;
        });
    // Earlier failures of this thread's operations stay for its next call of CUDA: the status is in
    // use from now on.
    if (posted) return {};
    return files.Find(call.file) == nullptr ? NotOpen() : OfDevice(result);
  });
}

}  // namespace

FileCallResult OpenProgramFile(int fd, int device, std::uint64_t* file) {
  return WithFiles([&](Session& session) -> FileCallResult {
    std::shared_ptr<ContextConnection> connection;
    if (FileCallResult wrong = ConnectionOf(session, device, &connection);
        wrong.result != FileResult::kSuccess)
      return wrong;
    std::shared_ptr<const ProgramFile> opened;
    return OfOpening(session.TableOf<Files>().Open(connection, fd, &opened), opened, file);
  });
}

FileCallResult OpenNamedFile(const char* path, std::uint32_t access, int device,
                             std::uint64_t* file) {
  if (path == nullptr || *path == '\0')
    return {FileResult::kInvalidValue, 0, "there is no path of the file"};
  const std::optional<int> flags = OpenFlagsOf(access);
  if (!flags)
    return {FileResult::kInvalidValue, 0,
            Format("{} are no flags to open a file: it is read or written, and created or emptied "
                   "only if it is written",
                   access)};
  return WithFiles([&](Session& session) -> FileCallResult {
    std::shared_ptr<ContextConnection> connection;
    if (FileCallResult wrong = ConnectionOf(session, device, &connection);
        wrong.result != FileResult::kSuccess)
      return wrong;
    Files& files = session.TableOf<Files>();
    std::shared_ptr<const ProgramFile> opened;
    if (connection->place().relayed) {
      std::error_code unknown;
      const std::string whole = std::filesystem::absolute(path, unknown).string();
      if (unknown) return OfSystem(unknown.value(), "the working directory has no path");
      const FileStatus status = files.OpenThere(connection, whole, access, &opened);
      if (opened != nullptr || status.result != FileResult::kSuccess)
        return OfOpening(status, opened, file);
    }
    // A refused file keeps its bytes.
    const OpenedFile own = OpenRegular(path, *flags & ~O_TRUNC);
    if (own.error == OpenedFile::kNotRegular)
      return OfOpening({0, FileResult::kNotSupported, 0}, opened, file);
    if (!own.fd.valid()) return OfOpening(FileStatus::System(0, own.error), opened, file);
    const FileStatus status = files.Open(connection, own.fd.get(), &opened);
    if (status.result == FileResult::kSuccess && (*flags & O_TRUNC) != 0 &&
        ::ftruncate(own.fd.get(), 0) != 0) {
      const int error = errno;
      files.Close(opened->handle);
      return OfOpening(FileStatus::System(0, error), nullptr, file);
    }
    return OfOpening(status, opened, file);
  });
}

FileCallResult CloseFile(std::uint64_t file) {
  return WithFiles([&](Session& session) -> FileCallResult {
    if (session.TableOf<Files>().Close(file)) return {};
    return NotOpen();
  });
}

namespace {

// Calls body(ProgramFile) → FileCallResult.
template <typename Body>
FileCallResult WithFile(std::uint64_t number, Body&& body) {
  return WithFiles([&](Session& session) -> FileCallResult {
    const std::shared_ptr<const ProgramFile> file = session.TableOf<Files>().Find(number);
    return file == nullptr ? NotOpen() : body(*file);
  });
}

FileCallResult OfPeeking(const FileStatus& status) {
  switch (status.result) {
    case FileResult::kSuccess:
      return {};
    case FileResult::kSystem:
      return OfSystem(status.error, "the file can not be read");
    case FileResult::kDevice:
      return OfDevice(static_cast<CUresult>(status.error));
    case FileResult::kNotPermitted:
      return {status.result, 0, "the descriptor is not open for reading"};
    case FileResult::kInvalidFile:
      return {status.result, 0, "the file on the GPU's node has changed since it was opened"};
    default:
      return {status.result, status.error, "the file has no state that shows its changes"};
  }
}

// Outcome of a use of a file on the GPU's node.
FileCallResult OfFileThere(const FileStatus& status, const std::string& problem) {
  if (status.result == FileResult::kNotSupported && problem.empty())
    return {status.result, 0,
            "the GPU's node has not the file: use --file-root, or a copy with the same path, size "
            "and time"};
  if (status.result == FileResult::kDevice && problem.empty())
    return OfDevice(static_cast<CUresult>(status.error));
  if (status.result != FileResult::kSuccess) return {status.result, status.error, problem};
  return {};
}

FileCallResult Changed() {
  return {FileResult::kInvalidFile, 0, "the file has changed since it was opened"};
}

}  // namespace

FileCallResult SizeOfFile(std::uint64_t number, std::uint64_t* bytes) {
  return WithFile(number, [&](const ProgramFile& file) {
    if (!file.access.reads) return OfPeeking({0, FileResult::kNotPermitted, 0});
    Files::Peeked peeked;
    FileCallResult result = OfPeeking(Files::Peek(file, 0, 0, &peeked));
    if (result.result != FileResult::kSuccess) return result;
    const MutexLock lock(file.remembering);
    file.remembered = {peeked.here, peeked.there};
    *bytes = peeked.size();
    return result;
  });
}

FileCallResult PeekFile(std::uint64_t number, std::uint64_t offset, std::span<std::byte> to,
                        std::size_t* got) {
  return WithFile(number, [&](const ProgramFile& file) -> FileCallResult {
    for (*got = 0; *got < to.size();) {
      const std::size_t next = std::min(to.size() - *got, kMaxInlineBytes);
      Files::Peeked peeked;
      FileCallResult result =
          OfPeeking(Files::Peek(file, offset + *got, static_cast<std::uint32_t>(next), &peeked));
      if (result.result != FileResult::kSuccess) return result;
      std::copy(peeked.bytes.begin(), peeked.bytes.end(), to.subspan(*got).begin());
      *got += peeked.bytes.size();
      if (peeked.bytes.size() < next) break;
    }
    return {};
  });
}

FileCallResult HoldFile(std::uint64_t number, HeldFile* held) {
  return WithFile(number, [&](const ProgramFile& file) -> FileCallResult {
    Files::Held made;
    FileCallResult result = OfFileThere(Files::Hold(file, &made), made.problem);
    if (result.result != FileResult::kSuccess) return result;
    const MutexLock lock(file.remembering);
    if (file.remembered && file.remembered->there != made.state) return Changed();
    *held = {made.address, made.state.bytes, made.copied};
    return {};
  });
}

FileCallResult ServeFile(std::uint64_t number, const store::WantedService& wanted,
                         store::ServedPlaces* places) {
  return WithFile(number, [&](const ProgramFile& file) -> FileCallResult {
    Files::Served made;
    FileCallResult result = OfFileThere(Files::Serve(file, wanted, &made), made.problem);
    if (result.result != FileResult::kSuccess) return result;
    const MutexLock lock(file.remembering);
    if (file.remembered && file.remembered->there != made.state) return Changed();
    *places = {made.asked, made.answered, made.places};
    return {};
  });
}

FileCallResult CountServed(std::uint64_t number, store::ServedCounts* counts) {
  return WithFile(number, [&](const ProgramFile& file) {
    return OfFileThere(Files::CountServed(file, counts), "");
  });
}

FileCallResult CheckFile(std::uint64_t number) {
  return WithFile(number, [&](const ProgramFile& file) {
    Files::Peeked peeked;
    FileCallResult result = OfPeeking(Files::Peek(file, 0, 0, &peeked));
    if (result.result == FileResult::kNotSupported) return Changed();  // It has no name any more.
    if (result.result != FileResult::kSuccess) return result;
    const MutexLock lock(file.remembering);
    if (file.remembered && *file.remembered != ProgramFile::States{peeked.here, peeked.there})
      return Changed();
    return result;
  });
}

FileCallResult ReadFile(const FileCall& call) { return Post(call, false); }
FileCallResult WriteFile(const FileCall& call) { return Post(call, true); }

}  // namespace cuspan
