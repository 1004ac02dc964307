#include "proxy/files/file_copies.h"

#include <utility>

#include "common/log.h"

namespace cuspan::proxy {

FileCopies::FileCopies(const Driver& driver, Channel& channel, Faults& faults, StreamQueues& queues,
                       EventPool& events, Completer& completer, Timeline& timeline,
                       Transfers& transfers, std::shared_ptr<TaskThreads> threads)
    : channel_(channel),
      faults_(faults),
      queues_(queues),
      completer_(completer),
      transfers_(transfers),
      pieces_(driver, channel.own_bell(), faults, events, completer, timeline, std::move(threads)) {
}

Status FileCopies::Announce(const std::shared_ptr<FileCopy>& copy) {
  if (copy->by_client == nullptr) return Status::Ok();
  copy->by_client->open_ended = true;
  if (copy->way == FileCopy::Way::kRead)
    CUSPAN_RETURN_IF_ERROR(transfers_.Announce(copy->by_client, false));
  if (!by_client_.emplace(copy->by_client->state->id, copy).second)
    return Status::Invalid("transfer {} is already under way", copy->by_client->state->id);
  return Status::Ok();
}

std::uint64_t FileCopies::Await(std::shared_ptr<FileCopy> copy) {
  awaited_.emplace(++last_awaited_, std::move(copy));
  return last_awaited_;
}

void FileCopies::Reached(std::uint64_t awaited, CUresult result) {
  {
    const MutexLock lock(mutex_);
    reached_.push_back({awaited, result});
  }
  reached_count_.fetch_add(1, std::memory_order_release);
  channel_.own_bell().Ring();
}

void FileCopies::GoOn() {
  if (pieces_.MayGoOn())
    for (const std::shared_ptr<FileCopy>& copy : pieces_.GoOn()) EndOfPieces(*copy);
  seen_ = reached_count_.load(std::memory_order_acquire);
  std::vector<ReachedCopy> reached;
  {
    const MutexLock lock(mutex_);
    reached.swap(reached_);
  }
  for (const ReachedCopy& one : reached) {
    const std::shared_ptr<FileCopy> copy = std::move(awaited_.extract(one.awaited).mapped());
    // A lost device drops the copy.
    if (one.result != CUDA_SUCCESS && faults_.lost() != CUDA_SUCCESS) continue;
    if (one.result != CUDA_SUCCESS && !copy->refusal)
      copy->refusal = {0, FileResult::kDevice, one.result};
    Begin(copy);
  }
}

void FileCopies::Begin(const std::shared_ptr<FileCopy>& copy) {
  if (copy->over) return;  // Dropped meanwhile.
  if (copy->refusal) return Refuse(*copy);
  if (copy->by_client == nullptr) {
    if (copy->bytes == 0 || pieces_.Begin(copy)) End(*copy, copy->outcome());
    return;
  }
  std::shared_ptr<Counterpart> counterpart;
  if (copy->way == FileCopy::Way::kRead && copy->may_use_counterpart)
    counterpart = copy->file->counterpart.load();
  if (counterpart == nullptr || !counterpart->proven()) return BeginByClient(*copy);
  // Work before the copy may have changed the client's file.
  copy->counterpart = std::move(counterpart);
  AskClient(*copy);
}

void FileCopies::AskClient(FileCopy& copy) {
  copy.client_asked = true;
  copy.by_client->clear_to_send = true;
  channel_.Post(FileWanted{copy.by_client->state->id, copy.number, copy.offset, copy.bytes,
                           copy.counterpart != nullptr});
}

void FileCopies::BeginByClient(FileCopy& copy) {
  copy.begun = copy.bytes;
  if (copy.way == FileCopy::Way::kRead) return AskClient(copy);
  copy.client_asked = true;
  transfers_.BeginFromDevice(copy.by_client);
}

void FileCopies::BeginCounterpart(std::shared_ptr<FileCopy> copy) {
  copy->client_asked = false;
  copy->by_client->clear_to_send = false;
  if (copy->over) {
    transfers_.EndToDevice(*copy->by_client);
    by_client_.erase(copy->by_client->state->id);
  } else if (pieces_.Begin(copy)) {
    EndOfPieces(*copy);
  }
}

void FileCopies::DropCounterpart(FileCopy& copy, const char* reason) {
  const std::shared_ptr<Counterpart> counterpart = std::exchange(copy.counterpart, nullptr);
  if (counterpart == nullptr) return;
  if (copy.file->counterpart.exchange(nullptr) != nullptr)
    LogInfo("{} {}: from now on the program's node reads its own", counterpart->path(), reason);
  // Closing a file may take long.
  pieces_.threads().Run([counterpart] {});
}

void FileCopies::EndOfPieces(FileCopy& copy) {
  if (copy.counterpart == nullptr) return End(copy, copy.outcome());
  const bool whole =
      copy.error == 0 && copy.end == copy.counterpart->BytesAt(copy.offset, copy.bytes);
  if (copy.result != CUDA_SUCCESS || whole) {
    copy.counterpart = nullptr;  // The file has it.
    transfers_.EndToDevice(*copy.by_client);
    by_client_.erase(copy.by_client->state->id);
    return End(copy, copy.outcome());
  }
  DropCounterpart(copy, "was changed, or can not be read");
  copy.end = copy.bytes;
  copy.error = 0;
  BeginByClient(copy);
}

void FileCopies::End(FileCopy& copy, const FileStatus& status) {
  copy.over = true;
  // Counts as work: nobody takes the stream for idle before the client has the outcome. All earlier
  // work of the stream is complete, or before the completions of this copy.
  ++copy.stream->submitted;
  completer_.Add(copy.stream->progress, PooledEvent(), copy.stream->submitted,
                 SendStatus{copy.status, BytesOf(status)});
  queues_.Release(*copy.stream->queue);
}

void FileCopies::Refuse(FileCopy& copy) {
  if (copy.by_client != nullptr) {
    if (copy.way == FileCopy::Way::kWrite) {
      // The client answers with FileDone.
      copy.begun = copy.bytes;
      copy.client_asked = true;
      copy.by_client->state->Fail(channel_, CUDA_ERROR_INVALID_VALUE);
    } else {
      transfers_.EndToDevice(*copy.by_client);
      by_client_.erase(copy.by_client->state->id);
    }
  }
  End(copy, *copy.refusal);
}

void FileCopies::Drop(FileCopy& copy) {
  if (std::exchange(copy.over, true)) return;
  copy.end = 0;
  copy.status->Fail(channel_, faults_.lost());
}

Status FileCopies::OnClientDone(const FileDone& done) {
  const auto found = by_client_.find(done.transfer);
  if (found == by_client_.end() || !found->second->client_asked || found->second->client_done ||
      done.bytes > found->second->bytes || done.sent > found->second->bytes)
    return Status::Invalid("the end of the unknown file transfer {} after {} bytes", done.transfer,
                           done.bytes);
  FileCopy& copy = *found->second;
  if (done.counterpart) {
    if (copy.counterpart == nullptr || copy.by_client->received != 0 || done.bytes != 0 ||
        done.sent != 0 || done.error != 0)
      return Status::Invalid("file transfer {} has no counterpart to read", done.transfer);
    BeginCounterpart(found->second);
    return Status::Ok();
  }
  DropCounterpart(copy, "of the program was changed");
  if (copy.way == FileCopy::Way::kWrite && !copy.over && !copy.by_client->state->failed &&
      copy.by_client->submitted < copy.bytes)
    return Status::Invalid("the end of file transfer {} before all its bytes were sent",
                           done.transfer);
  copy.client_done = done;
  EndByClient(found);
  return Status::Ok();
}

void FileCopies::OnChunk(std::uint64_t transfer) {
  if (by_client_.empty()) return;
  if (const auto found = by_client_.find(transfer); found != by_client_.end()) EndByClient(found);
}

void FileCopies::EndByClient(ByClient::iterator found) {
  const std::shared_ptr<FileCopy> copy = found->second;
  const Transfer& transfer = *copy->by_client;
  if (!copy->client_done) return;
  if (copy->way == FileCopy::Way::kRead) {
    if (transfer.received < copy->client_done->sent) return;
    transfers_.EndToDevice(transfer);
  }
  by_client_.erase(found);
  if (copy->over) return;
  copy->end = copy->client_done->bytes;
  copy->error = copy->client_done->error;
  if (transfer.state->failed) {
    copy->result = transfer.result != CUDA_SUCCESS ? transfer.result : CUDA_ERROR_UNKNOWN;
    // Any of the chunks may be missing.
    if (copy->way == FileCopy::Way::kRead) copy->end = 0;
  }
  End(*copy, copy->outcome());
}

}  // namespace cuspan::proxy
