// Batches.
#include <chrono>

#include "interpose/cufile/batch_queue.h"
#include "interpose/cufile/driver.h"
#include "interpose/cufile/statistics.h"

namespace cuspan::cufile {
namespace {

// body(Session&, Batch&) → CallResult.
template <typename Body>
CallResult AnswerAboutBatch(const void* batch, Body&& body) {
  return Answer([&](Session& session) -> CallResult {
    const std::shared_ptr<Batch> known = session.TableOf<Batches>().Find(NumberOf(batch));
    if (known == nullptr) return Refuse(kInvalidBatch, "the batch does not exist");
    return body(session, *known);
  });
}

}  // namespace
}  // namespace cuspan::cufile

using namespace cuspan;          // NOLINT: the entry points below are the C API.
using namespace cuspan::cufile;  // NOLINT: the same.

CUSPAN_EXPORT CallResult cuFileBatchIOSetUp(void** batch, unsigned entries) {
  return AnswerOpened([&](Session& session) -> CallResult {
    const std::size_t most = session.TableOf<Driver>().parameters().size(kMaxBatch);
    const bool valid = batch != nullptr && entries > 0 && entries <= most;
    session.TableOf<Driver>().statistics().Note(&Statistics1::batch_setup, valid);
    if (!valid)
      return Refuse(kInvalidValue,
                    "a batch has 1 to 256 entries, or less by a parameter, and needs a place");
    *batch = HandleOf<void*>(session.TableOf<Batches>().Add(entries));
    return {};
  });
}

// The flags are reserved.
CUSPAN_EXPORT CallResult cuFileBatchIOSubmit(void* batch, unsigned count, BatchEntry* entries,
                                             unsigned) {
  return AnswerAboutBatch(batch, [&](Session& session, Batch& known) -> CallResult {
    const bool valid = entries != nullptr && count > 0 && count <= known.capacity();
    const auto begun = std::chrono::steady_clock::now();
    const CallResult result =
        valid ? known.Submit(session, {entries, count})
              : Refuse(kBatchSubmitError, "there are no entries, or more than the batch may have");
    session.TableOf<Driver>().statistics().NoteSubmit(result.code == kSuccess,
                                                      std::chrono::steady_clock::now() - begun);
    return result;
  });
}

CUSPAN_EXPORT CallResult cuFileBatchIOGetStatus(void* batch, unsigned least, unsigned* count,
                                                BatchEvent* events, timespec* limit) {
  return AnswerAboutBatch(batch, [&](Session&, Batch& known) -> CallResult {
    if (count == nullptr || events == nullptr || *count == 0 || least > *count ||
        least > known.capacity())
      return Refuse(kInvalidValue, "there is no place for the status of so many entries");
    *count = known.Report(least, {events, *count}, limit);
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileBatchIOCancel(void* batch) {
  return AnswerAboutBatch(batch, [&](Session& session, Batch& known) -> CallResult {
    known.Cancel();
    session.TableOf<Driver>().statistics().Note(&Statistics1::batch_cancel, true);
    return {};
  });
}

CUSPAN_EXPORT void cuFileBatchIODestroy(void* batch) {
  static_cast<void>(Answer([&](Session& session) -> CallResult {
    const std::shared_ptr<Batch> known = session.TableOf<Batches>().Take(NumberOf(batch));
    session.TableOf<Driver>().statistics().Note(&Statistics1::batch_destroy, known != nullptr);
    if (known == nullptr) return Refuse(kInvalidBatch, "the batch does not exist");
    known->Cancel();
    known->End();
    return {};
  }));
}
