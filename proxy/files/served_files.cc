#include "proxy/files/served_files.h"

#include <utility>

namespace cuspan::proxy {
namespace {

using namespace std::chrono_literals;

// Launches end a nap, so it may be long.
constexpr std::chrono::microseconds kLongestNap = 20ms;

}  // namespace

ServedFiles::ServedFiles(const store::EngineContext& context,
                         std::shared_ptr<LockingThreads> threads)
    : context_(context),
      threads_(std::move(threads)),
      server_(std::make_shared<store::LineServer>(store::ServingThreadCount(), kLongestNap)) {}

void ServedFiles::Serve(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere> here,
                        const Wanted& wanted, std::function<void(const Result<Served>&)> served) {
  const Status started = threads_->Run([this, file = std::move(file), here = std::move(here),
                                        wanted, served] { served(Begin(*file, *here, wanted)); });
  if (!started.ok()) served(started);
}

Result<ServedFiles::Served> ServedFiles::Begin(OpenFile& file, const FileHere& here,
                                               const Wanted& wanted) {
  const std::optional<FileState> state = here.State();
  if (!state) return Status::NotFound("the file has changed since it was opened");
  if (file.served.load() != nullptr) return Status::Invalid("the file is served already");
  // Lines have 40 bits in requests.
  if (state->bytes >> wanted.shape.line_shift >> CUSPAN_ASK_ARRAY_SHIFT != 0)
    return Status::Invalid("a file of {} bytes has too many lines", state->bytes);
  // Bytes that were not proven are not given.
  std::function<bool()> may_read;
  if (here.counterpart() != nullptr)
    may_read = [counterpart = here.counterpart()] { return counterpart->Unchanged(); };
  const store::ExtentTerms terms{context_, store::ResidentWayOfRun(),
                                 &store::MemoryBudget::OfProcess()};
  CUSPAN_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ServedFile> opened,
      store::ServedFile::Open(here.bytes(), state->bytes, wanted.shape.line(), may_read, terms));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<store::Mailbox> mailbox,
                          mailboxes_.Get(wanted.mailbox, context_, wanted.shape, [this](auto made) {
                            return LockingThreads::Share(threads_, std::move(made));
                          }));
  const store::ServedPlaces places = mailbox->kernel_places();
  CUSPAN_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ServedArray> made,
      store::ServedArray::Begin(server_, std::move(mailbox), wanted.array, std::move(opened)));
  file.served = LockingThreads::Share(threads_, std::move(made));
  return Served{*state, places};
}

}  // namespace cuspan::proxy
