#include "interpose/client/files.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/log.h"
#include "interpose/client/agent_connection.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/same_file.h"
#include "protocol/api/file_access.h"
#include "protocol/channel/socket.h"

namespace cuspan {
namespace {

constexpr std::chrono::seconds kShareLimit{10};

// Asking for fewer bytes takes as long as asking if the counterpart may be read.
constexpr std::uint64_t kMinFromCounterpart = 64 * 1024;

// Programs may rely on getting the lowest free number.
constexpr int kFirstDescriptor = 500;

// Bytes of a file without a gap, while threads read or write its parts.
class Progress {
 public:
  explicit Progress(std::uint64_t bytes) : outcome_{bytes, 0} {}

  // The part at `offset`, of `wanted` bytes.
  void Note(std::uint64_t offset, std::uint64_t wanted, const FileOutcome& part) {
    const MutexLock lock(mutex_);
    done_ += part.bytes;
    if (part.bytes == wanted || offset + part.bytes >= outcome_.bytes) return;
    outcome_ = {offset + part.bytes, part.error};
  }
  // The bytes up to the first gap, and its reason.
  FileOutcome outcome() const {
    const MutexLock lock(mutex_);
    return outcome_;
  }
  // All bytes.
  std::uint64_t done() const {
    const MutexLock lock(mutex_);
    return done_;
  }

 private:
  mutable Mutex mutex_;
  FileOutcome outcome_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t done_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

// Reads the wanted bytes into staging slots, and ends the transfer.
void SendFile(ContextConnection& connection, const ProgramFile& file, const FileWanted& wanted) {
  Progress progress(wanted.bytes);
  OutgoingBytes bytes;
  bytes.transfer = wanted.transfer;
  bytes.bytes = wanted.bytes;
  bytes.device = static_cast<std::uint32_t>(connection.device());
  bytes.fill = [&](std::uint64_t offset, std::span<std::byte> slot) -> std::size_t {
    // Behind the end of the file is nothing.
    if (offset >= progress.outcome().bytes) return 0;
    const FileOutcome part = file.bytes.Read(slot, wanted.offset + offset);
    progress.Note(offset, slot.size(), part);
    return part.bytes;
  };
  // A failure here is the loss of the channel; the receiver detects and reports it.
  static_cast<void>(
      SendChunks(connection.channel(), connection.common().copy_in, bytes, 0, wanted.bytes));
  const FileOutcome outcome = progress.outcome();
  static_cast<void>(
      connection.Send(FileDone{wanted.transfer, outcome.bytes, outcome.error, progress.done()}));
}

// Writes the bytes of a transfer, and ends it.
class FileSink final : public IncomingSink {
 public:
  FileSink(std::shared_ptr<ContextConnection> connection, std::shared_ptr<FileThread> thread,
           std::shared_ptr<const ProgramFile> file, const FileExtent& extent)
      : connection_(std::move(connection)),
        thread_(std::move(thread)),
        file_(std::move(file)),
        offset_(extent.offset),
        progress_(std::make_shared<Progress>(extent.bytes)) {}

  void SetTransfer(std::uint64_t transfer) { transfer_ = transfer; }

  void Run(std::function<void()> store) override {
    // The connection is in use until then.
    thread_->Run([connection = connection_, store = std::move(store)] { store(); });
  }
  void Store(std::uint64_t offset, Bytes bytes) override {
    // After a failure, nothing is written behind the gap.
    const FileOutcome part = offset < progress_->outcome().bytes
                                 ? file_->bytes.Write(bytes, offset_ + offset)
                                 : FileOutcome{};
    progress_->Note(offset, bytes.size(), part);
  }
  // Called when no more bytes come. Threads: any.
  void End(CUresult result) {
    // Behind all stores.
    thread_->Run(
        [connection = connection_, progress = progress_, transfer = transfer_.load(), result] {
          FileOutcome outcome = progress->outcome();
          // The bytes come in order.
          if (result != CUDA_SUCCESS) outcome.bytes = std::min(outcome.bytes, progress->done());
          static_cast<void>(connection->Send(FileDone{transfer, outcome.bytes, outcome.error, 0}));
        });
  }

 private:
  const std::shared_ptr<ContextConnection> connection_;
  const std::shared_ptr<FileThread> thread_;
  const std::shared_ptr<const ProgramFile> file_;
  const std::uint64_t offset_;
  const std::shared_ptr<Progress> progress_;
  std::atomic<std::uint64_t> transfer_ = 0;
};

}  // namespace

UniqueFd AnotherDescriptor(int fd) {
  UniqueFd another(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor));
  if (!another.valid()) another.Reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return another;
}

FileThread::~FileThread() {
  std::deque<std::function<void()>> dropped;  // They end without the lock.
  const MutexLock lock(state_->mutex);
  state_->ending = true;
  dropped.swap(state_->tasks);
  state_->arrived.notify_one();
}

bool FileThread::Start() {
  const MutexLock lock(state_->mutex);
  if (state_->started) return true;
  std::thread thread = StartBackgroundThread("cuspan-files", [state = state_] { Loop(*state); });
  state_->started = thread.joinable();
  if (state_->started) thread.detach();
  return state_->started;
}

void FileThread::Run(std::function<void()> task) {
  const MutexLock lock(state_->mutex);
  state_->tasks.push_back(std::move(task));
  state_->arrived.notify_one();
}

void FileThread::Loop(State& state) {
  MutexLock lock(state.mutex);
  for (;;) {
    // Idle: ends with a task, or with the owner.
    state.arrived.wait(
        lock, [&]() CUSPAN_REQUIRES(state.mutex) { return state.ending || !state.tasks.empty(); });
    if (state.ending) return;
    std::function<void()> task = std::move(state.tasks.front());
    state.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // Objects in it may end with it.
    lock.lock();
  }
}

// The state in an answer.
template <typename Reply>
static FileState StateOf(const Reply& reply) {
  return {reply.size, std::chrono::nanoseconds(reply.modified),
          std::chrono::nanoseconds(reply.changed)};
}

FileStatus Files::Open(const std::shared_ptr<ContextConnection>& connection, int fd,
                       std::shared_ptr<const ProgramFile>* file) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return FileStatus::System(0, errno);
  if (!S_ISREG(facts.st_mode)) return {0, FileResult::kNotSupported, 0};
  const std::optional<FileBytes::Access> access = FileBytes::AccessOf(fd);
  if (!access) return FileStatus::System(0, errno);
  auto made = std::make_shared<ProgramFile>();
  made->handle = NextHandle();
  made->connection = connection;
  made->access = *access;
  // Closing any descriptor of a file ends the process's locks on it (POSIX). If the proxy has one,
  // none is closed here.
  const FileStatus shared = Share(*connection, fd, made->handle);
  if (shared.result == FileResult::kSystem) return shared;
  made->at_proxy = shared.result == FileResult::kSuccess;
  if (!made->at_proxy) {
    // The proxy may know the first number in spite of a failure.
    made->handle = NextHandle();
    UniqueFd own = AnotherDescriptor(fd);
    if (!own.valid()) return FileStatus::System(0, errno);
    made->bytes = FileBytes(std::move(own), *access);
    made->threads = ThreadsOf(*connection);
    if (made->threads == nullptr) return FileStatus::System(0, EAGAIN);
    connection->SetFileListener(this);
    FileOpen::Reply reply;
    if (const CUresult result = connection->Call(FileOpen{made->handle}, &reply);
        result != CUDA_SUCCESS)
      return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
    if (reply.outcome != 0) return {0, static_cast<FileResult>(reply.outcome), reply.error};
    made->same_there = AgreeOnFile(*connection, made->handle, made->bytes);
    if (made->same_there && !made->threads->states.Start()) made->same_there.reset();
  }
  return Add(std::move(made), file);
}

FileStatus Files::OpenThere(const std::shared_ptr<ContextConnection>& connection,
                            const std::string& path, std::uint32_t access,
                            std::shared_ptr<const ProgramFile>* file) {
  auto made = std::make_shared<ProgramFile>();
  made->handle = NextHandle();
  made->connection = connection;
  made->access = {Has(access, FileAccess::kRead), Has(access, FileAccess::kWrite), false,
                  Has(access, FileAccess::kDirect)};
  made->at_proxy = true;
  // Longer ones do not fit into a message.
  if (path.size() >= PATH_MAX) return FileStatus::System(0, ENAMETOOLONG);
  FileOpenNamed open;
  open.file = made->handle;
  open.path = path;
  open.access = access;
  FileOpenNamed::Reply reply;
  if (const CUresult result = connection->Call(open, &reply); result != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
  if (!reply.named) return {};
  if (reply.outcome != 0) return {0, static_cast<FileResult>(reply.outcome), reply.error};
  return Add(std::move(made), file);
}

FileStatus Files::Add(std::shared_ptr<ProgramFile> made, std::shared_ptr<const ProgramFile>* file) {
  const MutexLock lock(mutex_);
  // After the context's end, Forget may be over.
  if (const CUresult ended = made->connection->fault(); ended != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(ended)};
  *file = made;
  files_.emplace(made->handle, std::move(made));
  return {};
}

FileStatus Files::Share(const ContextConnection& connection, int fd, std::uint64_t handle) {
  constexpr FileStatus kImpossible{0, FileResult::kNotSupported, 0};
  const ProxyLocation& place = connection.place();
  const std::optional<Key128> secret = SecretOfRun();
  if (place.relayed || place.exchange.empty() || !secret) return kImpossible;
  Result<ControlSocket> socket = ControlSocket::Connect(place.exchange);
  if (!socket.ok() || !socket->Send(PeerHello{*secret, kOpTableHash}).ok()) return kImpossible;
  const int fds[] = {fd};
  if (!socket->Send(FileShare{handle}, fds).ok()) return kImpossible;
  const Result<FileShared> shared = socket->Expect<FileShared>(kShareLimit);
  if (shared.ok()) return {0, static_cast<FileResult>(shared->result), shared->error};
  LogInfo("the proxy of device {} does not take a file: {}", place.device,
          shared.status().message());
  return kImpossible;
}

std::shared_ptr<FileThreads> Files::ThreadsOf(const ContextConnection& connection) {
  const MutexLock lock(mutex_);
  // After the context's end, Forget may be over.
  if (connection.fault() != CUDA_SUCCESS) return nullptr;
  std::shared_ptr<FileThreads>& known = threads_[connection.number()];
  if (known == nullptr) known = std::make_shared<FileThreads>();
  return known->reads.Start() && known->writes.Start() ? known : nullptr;
}

std::shared_ptr<const ProgramFile> Files::Find(std::uint64_t handle) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(handle);
  return found == files_.end() ? nullptr : found->second;
}

bool Files::Close(std::uint64_t handle) {
  std::shared_ptr<const ProgramFile> file;
  {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    if (found == files_.end()) return false;
    file = std::move(found->second);
    files_.erase(found);
  }
  const WriterLock closing(file->closing);
  file->closed = true;
  // Only a lost device refuses it, and has no files.
  FileClose::Reply reply;
  static_cast<void>(file->connection->Call(FileClose{handle}, &reply));
  return true;
}

void Files::EndPending(const TransferKey& key) {
  const MutexLock lock(mutex_);
  auto ended = pending_.extract(key);
  if (ended.empty()) return;
  // Closing a file may take long.
  FileThread& thread = ended.mapped().file->threads->writes;
  thread.Run([file = std::move(ended.mapped().file)] {});
}

template <typename Op>
CUresult Files::Post(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there,
                     Op& op, const FileExtent& extent, FileStatus* status, FileEnd at_end) {
  const ReaderLock closing(file->closing);
  if (file->closed) return CUDA_ERROR_INVALID_HANDLE;
  ContextConnection& connection = *there.connection;
  const TransferKey pending{connection.number(), op.transfer};
  *status = {0, FileResult::kPending, 0};
  const bool reports = at_end != nullptr;
  auto outcome = std::make_shared<Incoming>();
  outcome->destination = reinterpret_cast<std::byte*>(status);
  outcome->bytes = sizeof *status;
  constexpr bool kReads = std::is_same_v<Op, FileRead>;
  ChannelStatistics& statistics = connection.channel().statistics();
  std::atomic<std::uint64_t>& done =
      kReads ? statistics.file_bytes_read : statistics.file_bytes_written;
  outcome->at_end = [this, pending, status, &done, at_end = std::move(at_end)](CUresult result) {
    // The outcome is stored, and the program keeps its place until it knows that.
    if (result == CUDA_SUCCESS)
      done.fetch_add(static_cast<std::uint64_t>(status->bytes), std::memory_order_relaxed);
    if (pending.second != 0) EndPending(pending);
    if (at_end) at_end(result);
  };
  if (op.transfer != 0) {
    const MutexLock lock(mutex_);
    pending_.emplace(pending, Pending{file, extent, kReads});
  }
  op.stream = there.stream;
  op.file = file->handle;
  op.offset = extent.offset;
  op.bytes = extent.bytes;
  op.status = connection.transfers().BeginIncoming(std::move(outcome));
  const CUresult result = connection.Post(op);
  if (result == CUDA_SUCCESS) return result;
  const bool forgotten = connection.transfers().Forget(op.status);
  EndPending(pending);
  // The loss of the device has ended it.
  return reports && !forgotten ? CUDA_SUCCESS : result;
}

CUresult Files::Read(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there,
                     const FileExtent& extent, FileStatus* status, FileEnd at_end) {
  FileRead op;
  op.destination = extent.address;
  if (!file->at_proxy && extent.bytes != 0) {
    op.transfer = there.connection->transfers().outgoing().NextNumber();
    op.counterpart = file->same_there && extent.bytes >= kMinFromCounterpart;
  }
  return Post(file, there, op, extent, status, std::move(at_end));
}

CUresult Files::Write(const std::shared_ptr<const ProgramFile>& file, const StreamTarget& there,
                      const FileExtent& extent, FileStatus* status, FileEnd at_end) {
  FileWrite op;
  op.source = extent.address;
  if (file->at_proxy || extent.bytes == 0)
    return Post(file, there, op, extent, status, std::move(at_end));
  Transfers& transfers = there.connection->transfers();
  auto incoming = std::make_shared<Incoming>();
  incoming->bytes = extent.bytes;
  auto sink = std::make_unique<FileSink>(
      there.connection, std::shared_ptr<FileThread>(file->threads, &file->threads->writes), file,
      extent);
  FileSink& filled = *sink;
  incoming->at_end = [&filled](CUresult result) { filled.End(result); };
  incoming->sink = std::move(sink);
  op.transfer = transfers.BeginIncoming(std::move(incoming));
  filled.SetTransfer(op.transfer);
  const CUresult result = Post(file, there, op, extent, status, std::move(at_end));
  if (result != CUDA_SUCCESS) static_cast<void>(transfers.Forget(op.transfer));
  return result;
}

FileStatus Files::Peek(const ProgramFile& file, std::uint64_t offset, std::uint32_t bytes,
                       Peeked* peeked) {
  const ReaderLock closing(file.closing);
  if (file.closed) return {0, FileResult::kInvalidFile, 0};
  if (!file.at_proxy) {
    peeked->here = FileState::Of(file.bytes.fd());
    if (!peeked->here) return {0, FileResult::kNotSupported, 0};
    peeked->bytes.resize(bytes);
    const FileOutcome read = file.bytes.Read(peeked->bytes, offset);
    peeked->bytes.resize(read.bytes);
    if (read.error != 0) return FileStatus::System(read.bytes, read.error);
    if (!file.same_there) return {};
  }
  FilePeek op;
  op.file = file.handle;
  op.offset = offset;
  op.bytes = file.at_proxy ? bytes : 0;
  FilePeek::Reply reply;
  if (const CUresult result = file.connection->Call(op, &reply); result != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
  if (reply.outcome != 0) return {0, static_cast<FileResult>(reply.outcome), reply.error};
  // A proxy of another version could send more.
  if (reply.data.size() > op.bytes) return {0, FileResult::kNotSupported, 0};
  peeked->there = StateOf(reply);
  if (file.at_proxy) {
    const auto* const first = reinterpret_cast<const std::byte*>(reply.data.data());
    peeked->bytes.assign(first, first + reply.data.size());
  }
  return {};
}

FileStatus Files::Hold(const ProgramFile& file, Held* held) {
  const ReaderLock closing(file.closing);
  if (file.closed) return {0, FileResult::kInvalidFile, 0};
  if (!file.at_proxy && !file.same_there) return {0, FileResult::kNotSupported, 0};
  FileHold::Reply reply;
  if (const CUresult result = file.connection->Call(FileHold{file.handle}, &reply);
      result != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
  *held = {reply.address, StateOf(reply), reply.copied, std::string(reply.problem)};
  return {0, static_cast<FileResult>(reply.outcome), reply.error};
}

FileStatus Files::Serve(const ProgramFile& file, const store::WantedService& wanted,
                        Served* served) {
  const ReaderLock closing(file.closing);
  if (file.closed) return {0, FileResult::kInvalidFile, 0};
  if (!file.at_proxy && !file.same_there) return {0, FileResult::kNotSupported, 0};
  FileServe::Reply reply;
  if (const CUresult result =
          file.connection->Call(FileServe{file.handle, wanted.mailbox, wanted.multiprocessors,
                                          wanted.line_shift, wanted.array},
                                &reply);
      result != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
  *served = {reply.asked, reply.answered, reply.places, StateOf(reply), std::string(reply.problem)};
  return {0, static_cast<FileResult>(reply.outcome), reply.error};
}

FileStatus Files::CountServed(const ProgramFile& file, store::ServedCounts* counts) {
  const ReaderLock closing(file.closing);
  if (file.closed) return {0, FileResult::kInvalidFile, 0};
  FileServed::Reply reply;
  if (const CUresult result = file.connection->Call(FileServed{file.handle}, &reply);
      result != CUDA_SUCCESS)
    return {0, FileResult::kDevice, static_cast<std::int32_t>(result)};
  *counts = {reply.reads, reply.bytes, reply.resident, reply.copied};
  return {};
}

bool Files::OnWanted(const std::shared_ptr<ContextConnection>& connection,
                     const FileWanted& wanted) {
  std::shared_ptr<const ProgramFile> file;
  {
    const MutexLock lock(mutex_);
    const auto found = pending_.find({connection->number(), wanted.transfer});
    // A fault has ended it: the proxy did not know that yet.
    if (found == pending_.end()) return connection->fault() != CUDA_SUCCESS;
    Pending& pending = found->second;
    if (!pending.awaits_request || wanted.offset != pending.extent.offset ||
        wanted.bytes != pending.extent.bytes)
      return false;
    if (wanted.counterpart) {
      if (!pending.file->same_there || pending.asked_for_counterpart) return false;
      pending.asked_for_counterpart = true;
    } else {
      pending.awaits_request = false;
    }
    file = pending.file;
  }
  const auto send = [connection, file, wanted] { SendFile(*connection, *file, wanted); };
  if (wanted.counterpart)
    file->threads->states.Run([connection, file, wanted, send] {
      if (FileState::Of(file->bytes.fd()) == file->same_there)
        static_cast<void>(connection->Send(FileDone{wanted.transfer, 0, 0, 0, true}));
      else
        file->threads->reads.Run(send);
    });
  else
    file->threads->reads.Run(send);
  return true;
}

void Files::Forget(const ContextConnection& ended) {
  // All of them end without the lock.
  std::shared_ptr<FileThreads> threads;
  std::vector<std::shared_ptr<const ProgramFile>> files;
  const MutexLock lock(mutex_);
  std::erase_if(files_, [&](const auto& entry) {
    if (entry.second->connection.get() != &ended) return false;
    files.push_back(entry.second);
    return true;
  });
  std::erase_if(pending_, [&](const auto& entry) {
    if (entry.first.first != ended.number()) return false;
    files.push_back(entry.second.file);
    return true;
  });
  if (const auto found = threads_.find(ended.number()); found != threads_.end()) {
    threads = std::move(found->second);
    threads_.erase(found);
  }
}

}  // namespace cuspan
