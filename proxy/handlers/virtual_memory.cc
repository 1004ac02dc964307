// Memory mapped by the program itself. The worker executes these ops in order of arrival. Only
// changes of access hold the streams.
#include "protocol/api/address_plan.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {
namespace {

// Runs work() of a posted op on the worker. Only a failure is reported.
template <typename Op, typename Work>
Status Posted(DeviceSession& session, const Origin& origin, Work work) {
  return OnWorker<Op>(session, origin, [&session, work]() CUSPAN_REQUIRES(worker_thread) {
    return session.faults().Check(work());
  });
}

Status CheckPlace(const char* what, std::uint64_t address, std::uint64_t bytes) {
  if (bytes != 0 && MayReserve(address, bytes)) return Status::Ok();
  return Status::Invalid("{} 0x{:x} + {} bytes: outside the addresses for reservations", what,
                         address, bytes);
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const AddressReserve& op) {
  CUSPAN_RETURN_IF_ERROR(CheckPlace("reserving", op.address, op.bytes));
  return OnWorker<AddressReserve>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.faults().Check(session.memory().reservations().Reserve(op.address, op.bytes));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AddressFree& op) {
  return Posted<AddressFree>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().reservations().Free(op.address);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationMake& op) {
  return Posted<AllocationMake>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().reservations().Make(op.allocation, op.bytes);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationTry& op) {
  return OnWorker<AllocationTry>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    std::size_t free = 0;
    std::size_t total = 0;
    const CUresult result =
        session.faults().Check(session.memory().reservations().Make(op.allocation, op.bytes));
    if (result == CUDA_SUCCESS)
      session.faults().Check(MemoryInfoOf(session.device(), &free, &total));
    return AllocationTry::Reply{result, free};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationImport& op) {
  return OnWorker<AllocationImport>(
      session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
        UniqueFd file;
        const CUresult result = session.memory().peers().Fetch(op.exchange, op.theirs, &file);
        if (result != CUDA_SUCCESS) return result;
        return session.faults().Check(session.memory().reservations().Import(op.allocation, file));
      });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationEnd& op) {
  return Posted<AllocationEnd>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().reservations().End(op.allocation);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationMap& op) {
  CUSPAN_RETURN_IF_ERROR(CheckPlace("mapping", op.address, op.bytes));
  return Posted<AllocationMap>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().reservations().Map(op.address, op.bytes, op.allocation);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationUnmap& op) {
  return Posted<AllocationUnmap>(session, origin, [&session, op]() CUSPAN_REQUIRES(worker_thread) {
    return session.memory().reservations().Unmap(op.address, op.bytes);
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const AllocationAccess& op) {
  CUSPAN_RETURN_IF_ERROR(CheckPlace("access to", op.address, op.bytes));
  session.streams().holds().HoldDuring([&session, origin, op]() CUSPAN_REQUIRES(worker_thread) {
    Respond<AllocationAccess>(session, origin,
                              session.faults().Check(session.memory().reservations().SetAccess(
                                  op.address, op.bytes, op.flags)));
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
