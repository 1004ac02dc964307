#include "launcher/agent/base/control_table.h"

namespace cuspan {

const ControlTable::Entry* ControlTable::Find(Op op, std::uint32_t rank) const {
  std::size_t index = kOpCount;
  WithOp(op, [&index]<typename T>() { index = T::kIndex; });
  if (index == kOpCount) return nullptr;
  const Entry& entry = handlers_[index];
  const bool from_head = rank == 0;
  if (!entry.call || (entry.from == From::kHead && !from_head) ||
      (entry.from == From::kWorkers && from_head))
    return nullptr;
  return &entry;
}

Status ControlTable::Receive(std::uint32_t rank, const Frame& frame) const {
  const Entry* const entry = Find(frame.op(), rank);
  if (entry == nullptr)
    return Status::Invalid("agent {} sent op {} ({}), but this agent does not accept it", rank,
                           frame.header.op, OpName(frame.op()));
  const Status handled = entry->call(rank, frame);
  if (!handled.ok())
    return Status::Invalid("invalid message from agent {}: {}", rank, handled.message());
  return Status::Ok();
}

}  // namespace cuspan
