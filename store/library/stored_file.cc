#include "store/library/stored_file.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/file_thread_count.h"
#include "common/mutex.h"
#include "common/regular_file.h"
#include "common/same_file.h"
#include "store/engine/resident_file.h"
#include "store/engine/served_array.h"
#include "store/library/results.h"

namespace cuspan::store {
namespace {

Status OfSystem(int error) {
  return Status::Internal("the file can not be opened: {}", std::strerror(error));
}

constexpr std::atomic<bool> kGoOn = false;

// Serves files of this process to its kernels.
struct Service {
  // It sees no launches: a kernel's first request waits for a nap.
  static constexpr std::chrono::milliseconds kLongestNap{4};

  const std::shared_ptr<LineServer> server =
      std::make_shared<LineServer>(ServingThreadCount(), kLongestNap);

  Result<std::shared_ptr<Mailbox>> Get(std::uint64_t number, const EngineContext& context,
                                       const MailboxShape& shape) {
    const MutexLock lock(mutex_);
    return mailboxes_.Get(number, context, shape);
  }

 private:
  Mutex mutex_;
  Mailboxes mailboxes_ CUSPAN_GUARDED_BY(mutex_);
};
// Never ends: kernels may ask until the process does.
Service& OwnService() {
  static auto* const kService = new Service;
  return *kService;
}

// A file read by this process, with a GPU of its node.
class OwnFile final : public StoredFile {
 public:
  static Result<std::unique_ptr<StoredFile>> Open(const std::shared_ptr<PrimaryContext>& context,
                                                  const cuspanArrayConfig_t& config) {
    OpenedFile opened;
    if (config.path != nullptr) {
      opened = OpenRegular(config.path, O_RDONLY);
    } else {
      const UniqueFd own(::fcntl(config.fd, F_DUPFD_CLOEXEC, 0));
      if (!own.valid()) return OfSystem(errno);
      const std::optional<FileBytes::Access> access = FileBytes::AccessOf(own.get());
      if (!access || !access->reads)
        return Status::Refused("the descriptor is not open for reading");
      opened = ReopenRegular(own, O_RDONLY);
    }
    if (opened.error == OpenedFile::kNotRegular)
      return Status::Unsupported("it is not a regular file");
    if (!opened.fd.valid()) return OfSystem(opened.error);
    const std::optional<FileState> state = FileState::Of(opened.fd.get());
    if (!state) return Status::Unsupported("it is not a regular file with a name");
    const int fd = opened.fd.get();
    return std::unique_ptr<StoredFile>(
        new OwnFile(context, FileBytes(std::move(opened.fd), *FileBytes::AccessOf(fd)), *state));
  }

  Result<std::size_t> Peek(std::span<std::byte> to) override {
    const FileOutcome read = file_.Read(to, 0);
    if (read.error != 0)
      return Status::Internal("the file can not be read: {}", std::strerror(read.error));
    return read.bytes;
  }

  Result<ResidentBytes> Hold() override {
    if (resident_ == nullptr) {
      CUSPAN_ASSIGN_OR_RETURN(
          resident_, ResidentFile::Make(Engine(), file_, bytes(), ResidentWayOfRun(),
                                        FileThreadCount(), MemoryBudget::OfProcess(), kGoOn));
    }
    return ResidentBytes{resident_->address(), resident_->bytes(), resident_->copied()};
  }

  Result<ServedPlaces> Serve(const WantedService& wanted) override {
    CUSPAN_ASSIGN_OR_RETURN(
        const MailboxShape shape,
        PlanMailbox(wanted.multiprocessors, static_cast<std::uint8_t>(wanted.line_shift)));
    CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Mailbox> mailbox,
                            OwnService().Get(wanted.mailbox, Engine(), shape));
    CUSPAN_ASSIGN_OR_RETURN(
        std::unique_ptr<ServedFile> opened,
        ServedFile::Open(file_, bytes(), shape.line(), nullptr,
                         {Engine(), ResidentWayOfRun(), &MemoryBudget::OfProcess()}));
    const ServedPlaces places = mailbox->kernel_places();
    CUSPAN_ASSIGN_OR_RETURN(
        served_, ServedArray::Begin(OwnService().server, std::move(mailbox),
                                    static_cast<std::uint16_t>(wanted.array), std::move(opened)));
    return places;
  }

  Result<ServedCounts> CountServed() override {
    if (served_ == nullptr) return ServedCounts{};
    const ServedFile::Counts counts = served_->file().counts();
    const Extents& extents = served_->file().extents();
    return ServedCounts{counts.reads, counts.bytes, extents.resident_bytes(), extents.copied()};
  }

  Status Fill(CUdeviceptr to, std::uint64_t offset, std::uint64_t wanted) override {
    // Small enough for any limit of memory, large enough for the speed of the bus.
    constexpr std::uint64_t kPart = std::uint64_t{64} << 20;
    std::vector<std::byte> part(std::min(kPart, wanted));
    for (std::uint64_t done = 0; done < wanted;) {
      const std::uint64_t next = std::min(kPart, wanted - done);
      const FileOutcome read = file_.Read({part.data(), next}, offset + done);
      if (read.error != 0 || read.bytes != next)
        return Status::Internal("the file can not be read at byte {}: {}",
                                offset + done + read.bytes,
                                read.error != 0 ? std::strerror(read.error) : "it ends there");
      if (const CUresult result = context_->driver().cuMemcpyHtoD(to + done, part.data(), next);
          result != CUDA_SUCCESS)
        return context_->driver().Failure("copying a file to the device", result);
      done += next;
    }
    return Status::Ok();
  }

  Status Check() override {
    if (FileState::Of(file_.fd()) == state_) return Status::Ok();
    return Status::NotFound("the file has changed since it was opened");
  }

 private:
  OwnFile(std::shared_ptr<PrimaryContext> context, FileBytes file, const FileState& state)
      : StoredFile(state.bytes),
        context_(std::move(context)),
        file_(std::move(file)),
        state_(state) {}

  EngineContext Engine() const {
    return {context_->driver().engine(), context_->context(), context_->device()};
  }

  const std::shared_ptr<PrimaryContext> context_;
  const FileBytes file_;
  const FileState state_;
  std::unique_ptr<ResidentFile> resident_;
  std::unique_ptr<ServedArray> served_;
};

// A file of a run, read by its proxy or by libcuspan.so.
class RunFile final : public StoredFile {
 public:
  static Result<std::unique_ptr<StoredFile>> Open(const RunFunctions& run,
                                                  const std::shared_ptr<PrimaryContext>& context,
                                                  const cuspanArrayConfig_t& config, int device) {
    cuspanFile_t file = nullptr;
    CUSPAN_RETURN_IF_ERROR(Of(run, config.path != nullptr
                                       ? run.open(&file, config.path, CUSPAN_FILE_READ, device)
                                       : run.open_fd(&file, config.fd, device)));
    std::uint64_t bytes = 0;
    const Status known = Of(run, run.size(file, &bytes));
    std::unique_ptr<StoredFile> opened(new RunFile(run, context, file, bytes));
    if (!known.ok()) return known;
    return opened;
  }
  ~RunFile() override { run_.close(file_); }

  Result<std::size_t> Peek(std::span<std::byte> to) override {
    std::size_t got = 0;
    CUSPAN_RETURN_IF_ERROR(Of(run_, run_.peek(file_, 0, to.data(), to.size(), &got)));
    return got;
  }

  Result<ResidentBytes> Hold() override {
    ResidentBytes resident;
    CUSPAN_RETURN_IF_ERROR(Of(run_, run_.hold(file_, &resident)));
    return resident;
  }

  Result<ServedPlaces> Serve(const WantedService& wanted) override {
    ServedPlaces places;
    CUSPAN_RETURN_IF_ERROR(Of(run_, run_.serve(file_, &wanted, &places)));
    return places;
  }

  Result<ServedCounts> CountServed() override {
    ServedCounts counts;
    CUSPAN_RETURN_IF_ERROR(Of(run_, run_.count_served(file_, &counts)));
    return counts;
  }

  Status Fill(CUdeviceptr to, std::uint64_t offset, std::uint64_t wanted) override {
    auto outcome = std::make_unique<cuspanFileStatus_t>();
    CUSPAN_RETURN_IF_ERROR(
        Of(run_, run_.read(file_, reinterpret_cast<void*>(to), wanted,
                           static_cast<std::int64_t>(offset), nullptr, outcome.get())));
    const CUresult result = context_->driver().cuStreamSynchronize(nullptr);
    if (result != CUDA_SUCCESS) {
      // The outcome may still arrive.
      static_cast<void>(outcome.release());
      return context_->driver().Failure("reading a file", result);
    }
    const cuspanFileStatus_t& status = *outcome;
    if (status.result != CUSPAN_FILE_SUCCESS)
      return Status::Internal("the file can not be read: result {}, error {}", status.result,
                              status.error);
    if (static_cast<std::uint64_t>(status.bytes) != wanted)
      return Status::Internal("the file can not be read at byte {}: it ends there",
                              offset + static_cast<std::uint64_t>(status.bytes));
    return Status::Ok();
  }

  Status Check() override { return Of(run_, run_.check(file_)); }

 private:
  RunFile(const RunFunctions& run, std::shared_ptr<PrimaryContext> context, cuspanFile_t file,
          std::uint64_t bytes)
      : StoredFile(bytes), run_(run), context_(std::move(context)), file_(file) {}

  static Status Of(const RunFunctions& run, int result) {
    return result == CUSPAN_FILE_SUCCESS ? Status::Ok() : StatusOf(result, run.last_message());
  }

  const RunFunctions& run_;
  const std::shared_ptr<PrimaryContext> context_;
  const cuspanFile_t file_;
};

}  // namespace

const RunFunctions* FunctionsOfRun() {
  static const RunFunctions* const kFunctions = []() -> const RunFunctions* {
    // Loaded by the run before the program's first call of CUDA.
    void* const library = ::dlopen("libcuspan.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    auto* const functions =
        reinterpret_cast<const RunFunctions* (*)()>(::dlsym(library, kRunFunctions));
    return functions == nullptr ? nullptr : functions();
  }();
  return kFunctions;
}

Result<std::unique_ptr<StoredFile>> StoredFile::Open(const std::shared_ptr<PrimaryContext>& context,
                                                     const cuspanArrayConfig_t& config) {
  const RunFunctions* const run = FunctionsOfRun();
  if (run != nullptr) return RunFile::Open(*run, context, config, context->ordinal());
  return OwnFile::Open(context, config);
}

}  // namespace cuspan::store
